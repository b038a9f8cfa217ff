// SPDX-License-Identifier: Apache-2.0
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "model/lognormal.h"
#include "model/model_state.h"
#include "model/published.h"
#include "model/training_rows.h"
#include "text/files.h"
#include "text/hash.h"
#include "text/parse.h"

namespace perfpred {
namespace {

/// Rows of one group each, the largest group first. @throws InputError if a group has nothing to fit on
std::vector<std::pair<Workload, TrainingTable>> tables_of(const std::vector<AggregateRow>& rows,
                                                          const std::vector<AggregateRow>& val) {
  std::vector<std::pair<Workload, TrainingTable>> tables;  // with an example each
  const auto table_of = [&](const Workload& workload) -> TrainingTable& {
    const auto found = std::find_if(tables.begin(), tables.end(),
                                    [&](const auto& table) { return same_group(table.first, workload); });
    return found != tables.end() ? found->second : tables.emplace_back(workload, TrainingTable{}).second;
  };
  for (const AggregateRow& row : rows) table_of(row.workload).rows.push_back(row);
  for (const AggregateRow& row : val) table_of(row.workload).val.push_back(row);
  std::sort(tables.begin(), tables.end(), [](const auto& a, const auto& b) {
    const std::size_t n = a.second.rows.size(), m = b.second.rows.size();
    return n != m ? n > m : a.first.key() < b.first.key();
  });
  for (const auto& [example, table] : tables) {
    if (table.rows.empty())
      throw InputError(fmt::format("{} has rows for validation and none to fit on", group_text(example)));
  }
  return tables;
}

/// The row of runs_agg.csv that a run alone makes. @throws InputError why it makes none
AggregateRow row_of(const Run& run) {
  run.workload.validate();
  Aggregator one;
  one.add(run);
  one.for_each_rejected([](const RejectedRun& rejected) { throw InputError(rejected.reason); });
  const std::vector<AggregateRow> rows = one.rows();
  if (rows.empty() || !rows.front().avg_time_mean) throw InputError("no time");
  return rows.front();
}

}  // namespace

struct TimeRegressor::Impl {
  const RegressorKind& kind;
  const std::string kind_name{kind.name};
  const Workload example;  // of the largest group
  Published<ModelState> state;
  std::mutex observing;

  explicit Impl(std::unique_ptr<const ModelState> first)
      : kind(*first->kind), example(first->groups.front().example), state(std::move(first)) {}
};

TimeRegressor::TimeRegressor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TimeRegressor::TimeRegressor(TimeRegressor&&) noexcept = default;
TimeRegressor& TimeRegressor::operator=(TimeRegressor&&) noexcept = default;
TimeRegressor::~TimeRegressor() = default;

TimeRegressor TimeRegressor::fit(std::span<const AggregateRow> rows, const FitOptions& options,
                                 std::span<const AggregateRow> val) {
  auto state = std::make_unique<ModelState>();
  state->kind = &find_kind(options.kind);
  std::vector<AggregateRow> fitted(rows.begin(), rows.end());
  if (!state->kind->uses_validation) fitted.insert(fitted.end(), val.begin(), val.end());
  fitted = training_rows(fitted);
  const std::vector<AggregateRow> chosen_by =
      state->kind->uses_validation ? training_rows(val) : std::vector<AggregateRow>{};
  if (fitted.empty()) throw InputError("no row with a time to fit on");

  auto tables = tables_of(fitted, chosen_by);
  for (auto& [example, table] : tables) {
    Group& group = state->groups.emplace_back();
    group.example = example;
    for (const std::vector<AggregateRow>* part : {&table.rows, &table.val}) {
      for (const AggregateRow& row : *part) {
        group.cover(row.workload);
        state->fitted[row.workload.key()] = {*row.avg_time_mean, row.n, {}};
      }
    }
    table.seed = options.seed;
    table.control.stop = options.stop;
    if (options.progress) {
      const auto all = static_cast<double>(tables.size()), before = static_cast<double>(state->groups.size() - 1);
      table.control.progress = [&, all, before](double share) { options.progress((before + share) / all); };
    }
    try {
      group.model = state->kind->fit(table);
    } catch (const InputError& error) {
      if (tables.size() == 1) throw;
      throw InputError(fmt::format("{}: {}", group_text(example), error.what()));
    }
    table.control.report(1);
  }
  state->training_set_id = set_id(fitted) + set_id(chosen_by);
  state->model_id = fnv1a(fmt::format("{} {} {} {}", options.kind, options.seed, set_id(fitted), set_id(chosen_by)));
  return TimeRegressor(std::make_unique<Impl>(std::move(state)));
}

TimeRegressor TimeRegressor::load(const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(read_file(path), nullptr, false);
  try {
    return TimeRegressor(std::make_unique<Impl>(std::make_unique<ModelState>(read_state(json))));
  } catch (const Error& error) {
    throw ModelError(fmt::format("{}: {}", path, error.what()));
  }
}

Prediction TimeRegressor::predict(const Workload& workload, const OpGraph* step) const {
  workload.validate();
  const auto state = impl_->state.read();
  const Group& group = state->group_of(workload);
  return state->finish(group, workload, group.model->predict(workload, step));
}

void TimeRegressor::predict(std::span<const Workload> workloads, std::span<Prediction> predictions) const {
  if (workloads.size() != predictions.size()) throw Error("predict: as many predictions as workloads are needed");
  for (const Workload& workload : workloads) workload.validate();
  const auto state = impl_->state.read();
  std::vector<Quantiles> quantiles;
  for (std::size_t begin = 0; begin < workloads.size();) {  // neighbours of one group go to its model together
    const Group& group = state->group_of(workloads[begin]);
    std::size_t end = begin + 1;
    while (end < workloads.size() && &state->group_of(workloads[end]) == &group) ++end;
    quantiles.resize(end - begin);
    group.model->predict(workloads.subspan(begin, end - begin), quantiles);
    for (std::size_t i = begin; i < end; ++i) predictions[i] = state->finish(group, workloads[i], quantiles[i - begin]);
    begin = end;
  }
}

std::vector<Prediction> TimeRegressor::predict(std::span<const Workload> workloads) const {
  std::vector<Prediction> predictions(workloads.size());
  predict(workloads, predictions);
  return predictions;
}

std::vector<Prediction> TimeRegressor::predict_on(const Workload& workload,
                                                  std::span<const std::string> devices) const {
  std::vector<Workload> moved;
  {
    const auto state = impl_->state.read();
    for (const std::string& device : devices) {
      Workload& there = moved.emplace_back(with_field(workload, "device", device));
      if (there.device == workload.device) continue;
      const auto group = std::find_if(state->groups.begin(), state->groups.end(),
                                      [&](const Group& one) { return one.example.device == there.device; });
      there.threads = group != state->groups.end() ? group->example.threads : std::nullopt;
    }
  }
  return predict(moved);
}

JointPrediction TimeRegressor::joint(std::span<const Workload> workloads) const {
  for (const Workload& workload : workloads) workload.validate();
  const auto state = impl_->state.read();
  const std::size_t n = workloads.size();
  JointPrediction joint{std::vector<double>(n), std::vector<double>(n * n)};
  Eigen::Map<Eigen::VectorXd> mean(joint.mean.data(), static_cast<Eigen::Index>(n));
  Eigen::Map<Eigen::MatrixXd> covariance(joint.covariance.data(), mean.size(), mean.size());  // symmetric
  for (const Group& group : state->groups) {  // errors of different groups are independent
    std::vector<Eigen::Index> places;
    std::vector<Workload> mine;
    for (Eigen::Index i = 0; i < mean.size(); ++i) {
      const Workload& workload = workloads[static_cast<std::size_t>(i)];
      if (&state->group_of(workload) != &group) continue;
      places.push_back(i);
      mine.push_back(workload);
    }
    if (mine.empty()) continue;
    JointNormal part = group.model->joint(mine);
    // Workloads that nothing measured tells about are all wrong by the same factor.
    Eigen::VectorXd shared = Eigen::VectorXd::Zero(part.mean.size());
    for (Eigen::Index i = 0; i < shared.size(); ++i) {
      const Workload& workload = mine[static_cast<std::size_t>(i)];
      if (!group.says_nothing_of(workload, group.reason(workload))) continue;
      shared[i] = std::sqrt(std::max(0.0, std::pow(foreign_half_width / z90, 2) - part.covariance(i, i)));
    }
    part.covariance += shared * shared.transpose();
    mean(places) = part.mean;
    covariance(places, places) = part.covariance;
  }
  return joint;
}

std::vector<TimeTerm> TimeRegressor::breakdown(const Workload& workload, const OpGraph* step) const {
  workload.validate();
  const auto state = impl_->state.read();
  return state->group_of(workload).model->breakdown(workload, step);
}

UpdateResult TimeRegressor::observe(std::span<const Run> runs) {
  if (!impl_->kind.learns)
    throw InputError(fmt::format("a model of kind {} does not learn from observed runs; fit it anew", kind()));
  const std::lock_guard lock(impl_->observing);
  auto next = std::make_unique<ModelState>(*impl_->state.read());
  std::vector<std::optional<std::string>> rejected(runs.size());
  std::vector<std::vector<AggregateRow>> rows(next->groups.size());
  std::vector<std::vector<std::size_t>> places(next->groups.size());  // of these rows among the runs
  std::set<std::pair<std::string, std::string>> seen;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string key = runs[i].workload.key();
    try {
      AggregateRow row = row_of(runs[i]);
      const auto known = next->fitted.find(key);
      const bool again =
          known != next->fitted.end() && std::find(known->second.observed.begin(), known->second.observed.end(),
                                                   runs[i].timestamp_utc) != known->second.observed.end();
      if (again || !seen.emplace(key, runs[i].timestamp_utc).second) throw InputError("already observed");
      const Group& group = next->group_of(row.workload);
      if (!same_group(group.example, row.workload))
        throw InputError(std::string(to_string(group.reason(row.workload))));
      const auto at = static_cast<std::size_t>(&group - next->groups.data());
      rows[at].push_back(std::move(row));
      places[at].push_back(i);
    } catch (const InputError& error) {
      rejected[i] = error.what();
    }
  }
  bool changed = false;
  for (std::size_t g = 0; g < next->groups.size(); ++g) {
    if (rows[g].empty()) continue;
    Group& group = next->groups[g];
    LearnResult learnt = group.model->learn(rows[g]);
    for (std::size_t k = 0; k < rows[g].size(); ++k) {
      const Run& run = runs[places[g][k]];
      rejected[places[g][k]] = learnt.rejected[k];
      if (learnt.rejected[k]) continue;
      changed = true;
      const double sec = *rows[g][k].avg_time_mean;
      const std::string key = run.workload.key();
      FittedRow& fitted = next->fitted[key];
      ++fitted.n;
      fitted.sec += (sec - fitted.sec) / static_cast<double>(fitted.n);
      fitted.observed.push_back(run.timestamp_utc);
      group.cover(run.workload);
      next->training_set_id += set_id(std::span(rows[g]).subspan(k, 1));
      next->model_id = fnv1a(fmt::format("{} {} {}", next->model_id, key, number_text(sec)));
    }
    for (const std::string& key : learnt.forgotten) next->fitted.erase(key);
    if (learnt.model) group.model = std::move(learnt.model);
  }
  if (changed) impl_->state.replace(std::move(next));
  UpdateResult result;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (rejected[i]) {
      result.rejected.push_back({runs[i].workload.key(), *rejected[i], runs[i].timestamp_utc, runs[i].avg_time_sec});
    } else {
      ++result.observed;
    }
  }
  return result;
}

void TimeRegressor::save(const std::string& path) const {
  write_file(path, to_json(*impl_->state.read()).dump(1) + "\n");
}

const std::string& TimeRegressor::kind() const { return impl_->kind_name; }

bool TimeRegressor::uses_validation() const { return impl_->kind.uses_validation; }

bool TimeRegressor::was_fitted_on(const Workload& workload) const {
  const auto state = impl_->state.read();
  return state->fitted.find(workload.key()) != state->fitted.end();
}

std::vector<AggregateRow> TimeRegressor::fitted_rows() const {
  const auto state = impl_->state.read();
  std::vector<AggregateRow> rows;
  for (const auto& [key, fitted] : state->fitted) {
    AggregateRow& row = rows.emplace_back();
    row.workload = Workload::from_key(key);
    row.n = fitted.n;
    row.avg_time_mean = fitted.sec;
  }
  return rows;
}

std::vector<RejectedRun> TimeRegressor::dropped() const {
  const auto state = impl_->state.read();
  std::vector<RejectedRun> all;
  for (const Group& group : state->groups) {
    for (RejectedRun& row : group.model->dropped()) all.push_back(std::move(row));
  }
  return all;
}

const Workload& TimeRegressor::example() const { return impl_->example; }

}  // namespace perfpred
