// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/step_file.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// A network, and its training step by batch size.
struct NetworkSteps {
  std::string network;
  std::string input;                    ///< one sample, as "3x224x224"
  std::optional<std::int64_t> classes;  ///< empty for a traced module or a captured step
  std::function<OpGraph(std::int64_t batch)> step;
  std::optional<Workload> training;  ///< the job whose step it is; empty for a traced module
};

/// Steps of a workload at any batch size, counted without tracing.
[[nodiscard]] NetworkSteps steps_of(const Workload& workload);

/// Steps of a captured step that is known (add_graph()), in its own precision and layout, compiled if its program is.
[[nodiscard]] NetworkSteps steps_of(const StepFile& file);

/// Writes two tables into a folder, which is made if it is missing: models.csv, a row per network (parameters; FLOPs,
/// bytes and kept activations of one image or sequence), and batches.csv, a row per network and batch size (one
/// training step, and the peak memory of a CPU job).
/// @returns the paths of both files
/// @throws InputError if there is no network or no batch size, if a batch size is not positive, or as the steps do
std::vector<std::string> write_complexity_tables(const std::string& folder, std::span<const NetworkSteps> networks,
                                                 std::span<const std::int64_t> batch_sizes);

}  // namespace perfpred
