// SPDX-License-Identifier: Apache-2.0
#include "evaluate/op_evaluation.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "optime/kernel_model.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

using OpRows = std::vector<const OpRow*>;

std::array<OpRows, kernel_classes> by_class(const OpRows& rows) {
  std::array<OpRows, kernel_classes> parts;
  for (const OpRow* row : rows) parts[static_cast<std::size_t>(row->kernel.kind)].push_back(row);
  return parts;
}

bool has_split(const OpRows& rows) {
  const auto test = std::count_if(rows.begin(), rows.end(), [](const OpRow* row) { return row->test; });
  return test != 0 && test != static_cast<std::ptrdiff_t>(rows.size());
}

/// Shapes of networks' products in half precision, apart from the small ones of inference.
bool is_training_shape(const Kernel& kernel) {
  return kernel.kind == KernelClass::gemm_bf16 && kernel.m >= 512 && kernel.k >= 256 && kernel.n >= 256;
}

void score(const KernelModels& models, const OpRows& rows, const OpFolder& folder, bool in_kinds,
           OpEvaluation& result) {
  for (const OpRow* row : rows) {
    const KernelModel* model = models.of(row->kernel.kind);
    if (model == nullptr) continue;
    const KernelEstimate estimate = model->predict(row->kernel, folder.gpus.at(row->gpu), true);
    const double predicted = std::exp(estimate.log_sec), width = estimate.half_width();
    result.ops[row->gpu][row->op].add(row->sec, predicted, width);
    if (is_training_shape(row->kernel)) result.ops[row->gpu]["gemm_bf16_training"].add(row->sec, predicted, width);
    if (in_kinds) {
      result.kinds[std::string(formula(row->kernel.kind).name)][row->gpu].add(row->sec, predicted, width);
    }
  }
}

/// @param gpu  only rows of this device; empty: all
void score_networks(const KernelModels& models, const OpFolder& folder, const std::string& gpu, OpEvaluation& result) {
  for (const EndToEndRow& row : folder.end_to_end) {
    if (row.parts.empty() || (!gpu.empty() && row.gpu != gpu)) continue;
    const StepEstimate estimate = step_time(models, row.parts, folder.gpus.at(row.gpu));
    result.end_to_end.add(row.sec, estimate.sec, estimate.half_width);
    result.networks.push_back({row, estimate.sec});
    result.networks.back().row.parts.clear();
  }
}

void note_missing_graphs(const OpFolder& folder, OpEvaluation& result) {
  const auto missing = std::count_if(folder.end_to_end.begin(), folder.end_to_end.end(),
                                     [](const EndToEndRow& row) { return row.parts.empty(); });
  if (missing != 0) {
    result.notes.push_back(fmt::format("{}/e2e.csv: {} rows have no graph in graph_ops.csv", folder.path, missing));
  }
}

void note_set_aside(const KernelModels& models, OpEvaluation& result) {
  for (const auto& model : models.classes) {
    if (!model) continue;
    for (const std::string& device : model->set_aside) {
      const std::string note = fmt::format("{}: rows of {} are not learned from: far slower than its family",
                                           formula(model->kind).name, device);
      if (std::find(result.notes.begin(), result.notes.end(), note) == result.notes.end()) result.notes.push_back(note);
    }
  }
}

OpEvaluation started(const OpFolder& folder) {
  OpEvaluation result;
  result.notes = folder.skipped;
  note_missing_graphs(folder, result);
  return result;
}

/// Scores rows of a class that has no split by leaving out each of five random parts.
void score_by_folds(const OpRows& rows, const OpFolder& folder, OpEvaluation& result) {
  constexpr std::size_t folds = 5;
  std::mt19937_64 random(0);
  std::array<OpRows, folds> parts;
  for (const OpRow* row : rows) parts[random() % folds].push_back(row);
  for (std::size_t fold = 0; fold < folds; ++fold) {
    OpRows others;
    for (std::size_t i = 0; i < folds; ++i) {
      if (i != fold) others.insert(others.end(), parts[i].begin(), parts[i].end());
    }
    if (others.size() < KernelModels::min_rows) {
      result.notes.push_back(fmt::format("{}: {} rows of op_{}.csv are not scored: the other {} are too few for a fit",
                                         folder.path, parts[fold].size(), formula(rows.front()->kernel.kind).name,
                                         others.size()));
      continue;
    }
    score(KernelModels::fit(others, folder.gpus), parts[fold], folder, true, result);
  }
}

/// Scores the test rows of a class. Those of devices without training rows are left out of the kinds.
void score_test_rows(const KernelModels& models, const OpRows& rows, const OpFolder& folder, OpEvaluation& result) {
  std::set<std::string> seen;
  for (const OpRow* row : rows) {
    if (!row->test) seen.insert(row->gpu);
  }
  OpRows known, unknown;
  for (const OpRow* row : rows) {
    if (row->test) (seen.count(row->gpu) != 0 ? known : unknown).push_back(row);
  }
  score(models, known, folder, true, result);
  score(models, unknown, folder, false, result);
}

/// Moves so many random rows from `scored` to the probe of their device.
void take_probe(KernelModels& models, OpRows& scored, std::size_t count, const Hardware& device,
                std::mt19937_64& random) {
  for (std::size_t i = 0; i < count; ++i) std::swap(scored[i], scored[i + random() % (scored.size() - i)]);
  const auto end = scored.begin() + static_cast<std::ptrdiff_t>(count);
  models.probe(device, OpRows(scored.begin(), end));
  scored.erase(scored.begin(), end);
}

}  // namespace

void ErrorSample::add(double measured, double predicted, double half_width) {
  errors.push_back(std::abs(predicted / measured - 1));
  if (std::abs(std::log(predicted / measured)) <= half_width) ++covered;
}

std::optional<double> ErrorSample::mean() const {
  if (errors.empty()) return std::nullopt;
  double sum = 0;
  for (const double error : errors) sum += error;
  return sum / static_cast<double>(errors.size());
}

std::optional<double> ErrorSample::middle() const {
  return errors.empty() ? std::nullopt : std::optional(median(errors));
}

std::optional<double> ErrorSample::coverage() const {
  if (errors.empty()) return std::nullopt;
  return static_cast<double>(covered) / static_cast<double>(errors.size());
}

OpEvaluation evaluate_op_test(const OpFolder& train, const OpFolder& test) {
  const KernelModels models = KernelModels::fit(pointers_to(train.rows), train.gpus);
  OpEvaluation result = started(test);
  note_set_aside(models, result);
  const auto learned = by_class(pointers_to(train.rows)), tested = by_class(pointers_to(test.rows));
  for (std::size_t i = 0; i < kernel_classes; ++i) {
    if (!tested[i].empty() && models.of(tested[i].front()->kernel.kind) == nullptr) {
      result.notes.push_back(fmt::format("{}: op_{}.csv is not scored: {} has no such rows", test.path,
                                         formula(tested[i].front()->kernel.kind).name, train.path));
    } else if (tested[i].empty() && !learned[i].empty()) {
      result.notes.push_back(
          fmt::format("{}: has no op_{}.csv to score", test.path, formula(learned[i].front()->kernel.kind).name));
    }
    score(models, tested[i], test, true, result);
  }
  score_networks(models, test, {}, result);
  return result;
}

OpEvaluation evaluate_ops_seen(const OpFolder& folder) {
  OpEvaluation result = started(folder);
  OpRows train;
  for (const OpRows& rows : by_class(pointers_to(folder.rows))) {
    if (has_split(rows)) {
      std::copy_if(rows.begin(), rows.end(), std::back_inserter(train), [](const OpRow* row) { return !row->test; });
    } else if (!rows.empty()) {
      train.insert(train.end(), rows.begin(), rows.end());  // for the networks
      score_by_folds(rows, folder, result);
    }
  }
  const KernelModels models = KernelModels::fit(train, folder.gpus);
  note_set_aside(models, result);
  for (const OpRows& rows : by_class(pointers_to(folder.rows))) {
    if (has_split(rows)) score_test_rows(models, rows, folder, result);
  }
  score_networks(models, folder, {}, result);
  return result;
}

OpEvaluation evaluate_ops_by_device(const OpFolder& folder, std::size_t probe_rows, std::uint64_t seed,
                                    const PartsDone& progress) {
  OpEvaluation result = started(folder);
  const auto parts = by_class(pointers_to(folder.rows));
  std::set<std::string> devices;
  for (const OpRow& row : folder.rows) devices.insert(row.gpu);
  for (const EndToEndRow& row : folder.end_to_end) devices.insert(row.gpu);
  if (devices.size() < 2) throw InputError(fmt::format("{}: leaving one out takes two devices", folder.path));
  std::size_t done = 0;
  for (const std::string& device : devices) {
    OpRows others;
    for (const OpRow& row : folder.rows) {
      if (row.gpu != device) others.push_back(&row);
    }
    KernelModels models = KernelModels::fit(others, folder.gpus, false);
    note_set_aside(models, result);
    std::mt19937_64 random(seed);
    for (std::size_t kind = 0; kind < kernel_classes; ++kind) {
      const bool split = has_split(parts[kind]);
      OpRows scored;
      std::copy_if(parts[kind].begin(), parts[kind].end(), std::back_inserter(scored),
                   [&](const OpRow* row) { return row->gpu == device && (row->test || !split); });
      if (scored.empty() || !models.classes[kind]) continue;
      if (scored.size() <= probe_rows) {
        result.notes.push_back(fmt::format("{}: op_{}.csv has {} rows of {}: too few for a probe of {}", folder.path,
                                           formula(scored.front()->kernel.kind).name, scored.size(), device,
                                           probe_rows));
        continue;
      }
      if (probe_rows > 0) take_probe(models, scored, probe_rows, folder.gpus.at(device), random);
      score(models, scored, folder, true, result);
    }
    score_networks(models, folder, device, result);
    if (progress) progress(++done, devices.size());
  }
  return result;
}

}  // namespace perfpred
