// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks what the shared libraries export; everything else is hidden. One macro serves both: on ELF, default
/// visibility is right for the library that defines a symbol and for the one that uses it.
#define PERFPRED_API __attribute__((visibility("default")))
