#include <perfpred/complexity_tables.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <system_error>

#include "atomic_file.h"
#include "csv.h"

namespace perfpred {
namespace {

using Fields = std::vector<std::string>;

std::string intensity(const OpTotals& totals) { return number_text(totals.flops / static_cast<double>(totals.bytes())); }

Fields model_row(const Workload& sample) {
  const OpGraph step = sample.graph();
  const OpTotals forward = step.totals(Phase::forward);
  const OpTotals totals = step.totals();
  return {sample.network,
          shape_text(sample.input),
          std::to_string(sample.classes),
          std::to_string(step.params()),
          number_text(forward.flops),
          number_text(forward.conv_matmul_flops),
          number_text(totals.flops),
          std::to_string(forward.bytes()),
          std::to_string(totals.bytes()),
          std::to_string(step.activation_bytes()),
          std::to_string(totals.ops)};
}

Fields batch_row(const Workload& workload) {
  const OpGraph step = workload.graph();
  const OpTotals totals = step.totals();
  return {workload.network,
          std::to_string(workload.batch_size),
          number_text(totals.flops),
          number_text(totals.conv_matmul_flops),
          std::to_string(totals.bytes_read),
          std::to_string(totals.bytes_written),
          intensity(totals),
          intensity(step.totals(Phase::forward)),
          std::to_string(step.activation_bytes()),
          std::to_string(estimate_memory(step, Allocator::exact).peak_bytes)};
}

}  // namespace

std::vector<std::string> write_complexity_tables(const std::string& folder, std::span<const std::string> networks,
                                                 std::span<const std::int64_t> batch_sizes, Optimizer optimizer,
                                                 Precision precision) {
  if (networks.empty()) throw InputError("no networks are given for the tables");
  if (batch_sizes.empty()) throw InputError("no batch sizes are given for the tables");
  std::string models = csv_line(Fields{"network", "input", "classes", "params", "forward_flops",
                                       "forward_conv_matmul_flops", "step_flops", "forward_bytes", "step_bytes",
                                       "activation_bytes", "step_ops"});
  std::string batches = csv_line(Fields{"network", "batch_size", "step_flops", "step_conv_matmul_flops", "bytes_read",
                                        "bytes_written", "arithmetic_intensity", "forward_arithmetic_intensity",
                                        "activation_bytes", "peak_bytes"});
  for (const std::string& network : networks) {
    Workload workload = Workload::zoo(network, 1);
    workload.optimizer = optimizer;
    workload.precision = precision;
    models += csv_line(model_row(workload));
    for (const std::int64_t batch : batch_sizes) {
      workload.batch_size = batch;
      batches += csv_line(batch_row(workload));
    }
  }
  make_folder(folder);
  const std::vector<std::string> files = {folder + "/models.csv", folder + "/batches.csv"};
  write_file(files[0], models);
  write_file(files[1], batches);
  return files;
}

}  // namespace perfpred
