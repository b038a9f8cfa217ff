// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>
#include <perfpred/workload.h>

#include <string>

namespace perfpred {

/// The name of the network in a file of torch.export.save(): `pt2:` and the first 12 hexadecimal digits of the file's
/// SHA-256.
/// @throws InputError if it cannot be read
[[nodiscard]] PERFPRED_API std::string pt2_name(const std::string& path);

/// How such a file's network is trained, as far as the file says: its name, the input, the classes and the batch size
/// of the example that it was exported with. A network that takes samples and targets returns its loss; the number of
/// classes is 0 then, for the file does not say it.
/// @throws InputError as StepTracer::pt2(), or if the network does not take one tensor of samples
[[nodiscard]] PERFPRED_API Workload pt2_workload(const std::string& path);

/// Loads a shared library that registers operators of its own with LibTorch, so that files which use them can be read.
/// @throws InputError if it cannot be loaded
PERFPRED_API void load_operators(const std::string& path);

}  // namespace perfpred
