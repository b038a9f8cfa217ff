// SPDX-License-Identifier: Apache-2.0
#include "tools/complexity_tables.h"

#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>

#include <fmt/format.h>

#include <utility>

#include "step/program.h"
#include "text/csv.h"
#include "text/files.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

using Fields = std::vector<std::string>;

Fields model_row(const NetworkSteps& network) {
  const OpGraph step = network.step(1);
  const OpTotals forward = step.totals(Phase::forward);
  const OpTotals totals = step.totals();
  return {network.network,
          network.input,
          network.classes ? std::to_string(*network.classes) : std::string(),
          std::to_string(step.params()),
          number_text(forward.flops),
          number_text(forward.conv_matmul_flops),
          number_text(totals.flops),
          std::to_string(forward.bytes()),
          std::to_string(totals.bytes()),
          std::to_string(step.activation_bytes()),
          std::to_string(totals.ops)};
}

Fields batch_row(const NetworkSteps& network, std::int64_t batch) {
  const OpGraph step = network.step(batch);
  const OpTotals totals = step.totals();
  return {network.network,
          std::to_string(batch),
          number_text(totals.flops),
          number_text(totals.conv_matmul_flops),
          std::to_string(totals.bytes_read),
          std::to_string(totals.bytes_written),
          number_text(totals.intensity()),
          number_text(step.totals(Phase::forward).intensity()),
          std::to_string(step.activation_bytes()),
          std::to_string(estimate_memory(execute(step, DeviceKind::other), TrainingJob()).peak_bytes)};
}

}  // namespace

NetworkSteps steps_of(const Workload& workload) {
  const auto step = [workload](std::int64_t batch) {
    Workload of_batch = workload;
    of_batch.batch_size = batch;
    return of_batch.graph();
  };
  NetworkSteps steps = {std::string(workload.network.family()), {}, std::nullopt, step, workload};
  if (!is_captured_step(workload.network)) {
    steps.input = shape_text(workload.input);
    steps.classes = workload.classes;
  }
  return steps;
}

NetworkSteps steps_of(const StepFile& file) {
  Workload workload;
  workload.network = file.name();
  workload.batch_size = file.batch_size();
  workload.compiled = file.compiled();
  return steps_of(Program::set_up(std::move(workload)));
}

std::vector<std::string> write_complexity_tables(const std::string& folder, std::span<const NetworkSteps> networks,
                                                 std::span<const std::int64_t> batch_sizes) {
  if (networks.empty()) throw InputError("no networks are given for the tables");
  if (batch_sizes.empty()) throw InputError("no batch sizes are given for the tables");
  for (const std::int64_t batch : batch_sizes) {
    if (batch <= 0) throw InputError(fmt::format("batch size {} of the tables is not positive", batch));
  }
  std::string models =
      csv_line(Fields{"network", "input", "classes", "params", "forward_flops", "forward_conv_matmul_flops",
                      "step_flops", "forward_bytes", "step_bytes", "activation_bytes", "step_ops"});
  std::string batches =
      csv_line(Fields{"network", "batch_size", "step_flops", "step_conv_matmul_flops", "bytes_read", "bytes_written",
                      "arithmetic_intensity", "forward_arithmetic_intensity", "activation_bytes", "peak_bytes"});
  for (const NetworkSteps& network : networks) {
    models += csv_line(model_row(network));
    for (const std::int64_t batch : batch_sizes) batches += csv_line(batch_row(network, batch));
  }
  make_folder(folder);
  std::vector<std::string> files = {folder + "/models.csv", folder + "/batches.csv"};
  write_file(files[0], models);
  write_file(files[1], batches);
  return files;
}

}  // namespace perfpred
