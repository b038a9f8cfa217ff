// SPDX-License-Identifier: Apache-2.0
#include "torch/measure/collected_file.h"

#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>
#include <perfpred/torch/exported_network.h>
#include <perfpred/torch/trace.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "text/files.h"

namespace perfpred {
namespace {

/// Pairs of batch sizes whose steps could say those of all, the best first; last the size itself. One sample is no
/// measure for more: some copies of several samples are views of one.
std::vector<std::vector<std::int64_t>> sizes_to_trace(std::int64_t batch) {
  std::vector<std::vector<std::int64_t>> all = {
      {std::max<std::int64_t>(batch, 2), 2 * std::max<std::int64_t>(batch, 2)}};
  if (batch >= 4) all.push_back({batch, batch / 2});  // where a file allows no larger batch
  all.push_back({batch});
  return all;
}

}  // namespace

CollectedFile::CollectedFile(std::string path) : path_(std::move(path)), name_(pt2_name(path_)) {
  const StepTracer tracer = StepTracer::pt2(path_);
  params_ = tracer.params();
  gives_loss_ = tracer.inputs().size() == 2;
}

void CollectedFile::write_graphs(std::span<const Workload> workloads, const std::string& folder) const {
  std::map<std::string, Workload> variants;  // by the names of their files; of each the smallest batch
  const Workload* first = nullptr;
  for (const Workload& workload : workloads) {
    if (workload.network != name_) continue;
    if (first == nullptr) first = &workload;
    if (workload.input != first->input) {
      throw InputError(fmt::format("a step file is of one input, and the runs of {} are of {} and {}", name_,
                                   shape_text(first->input), shape_text(workload.input)));
    }
    const std::string variant = fmt::format("{}_{}", to_string(workload.optimizer), to_string(workload.precision));
    const auto [known, is_new] = variants.try_emplace(variant, workload);
    known->second.batch_size = std::min(known->second.batch_size, workload.batch_size);
  }
  if (first == nullptr) return;
  const std::filesystem::path graphs = std::filesystem::path(folder) / "graphs";
  make_folder(graphs.string());
  const std::string digits = name_.substr(name_.find(':') + 1);
  for (const auto& [variant, workload] : variants) {
    const std::filesystem::path path = graphs / fmt::format("{}_{}.json", digits, variant);
    write_graph(workload, path.string());
    const std::filesystem::path any = graphs / (digits + ".json");
    const bool is_first = workload.optimizer == first->optimizer && workload.precision == first->precision;
    if (is_first && !std::filesystem::exists(any)) write_file(any.string(), read_file(path.string()));
  }
  add_graphs(graphs.string());
}

void CollectedFile::write_graph(const Workload& workload, const std::string& path) const {
  StepTracer tracer = StepTracer::pt2(path_, workload.precision);
  const DataType floats = workload.precision == Precision::fp64 ? DataType::f64 : DataType::f32;
  const auto traced = [&](std::int64_t batch) {
    const bool words = workload.input.size() == 1;
    std::vector<InputSpec> inputs = {{{batch}, words ? DataType::i64 : floats}};
    inputs[0].shape.insert(inputs[0].shape.end(), workload.input.begin(), workload.input.end());
    if (gives_loss_) inputs.push_back({words ? inputs[0].shape : std::vector{batch}, DataType::i64});
    return tracer.trace(inputs, workload.optimizer);
  };
  const auto tries = sizes_to_trace(workload.batch_size);
  for (const std::vector<std::int64_t>& sizes : tries) {
    try {
      write_step(path, workload.precision, sizes, traced);
      return;
    } catch (const InputError&) {
      if (&sizes == &tries.back()) throw;  // else the file does not allow these sizes
    }
  }
}

}  // namespace perfpred
