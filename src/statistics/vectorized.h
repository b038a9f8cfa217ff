// SPDX-License-Identifier: Apache-2.0
#pragma once

/// In front of a function: compiled for AVX2 and AVX-512 too, of which the best that the machine has is taken.
/// Instruction sets, not processors: GCC takes a clone for `arch=haswell` on that generation alone.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)  // clones are chosen before that sanitizer is set up
#define PERFPRED_VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PERFPRED_VECTORIZED
#endif
