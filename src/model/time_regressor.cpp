// SPDX-License-Identifier: Apache-2.0
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <utility>

#include "model/lognormal.h"
#include "model/model_state.h"
#include "model/published.h"
#include "model/training_rows.h"
#include "text/files.h"
#include "text/hash.h"
#include "text/parse.h"
#include "workload/moved_workload.h"

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

/// Networks that the hybrid's cost model has in closed form.
bool is_of_family(const Workload& workload) { return workload.depth().has_value(); }

/// The row of runs_agg.csv that a run alone makes. @throws InputError why it makes none
AggregateRow row_of(const Run& run) {
  run.workload.validate();
  Aggregator one;
  one.add(run);
  one.for_each_rejected([](const RejectedRun& rejected) { throw InputError(rejected.reason); });
  return one.rows().front();
}

}  // namespace

struct TimeRegressor::Impl {
  const RegressorKind& kind;
  const std::string kind_name{kind.name};
  const DeviceCatalogue devices;
  const Workload example;  // of the largest group
  Published<ModelState> state;
  std::mutex observing;

  explicit Impl(std::unique_ptr<const ModelState> first)
      : kind(*first->kind),
        devices(first->ops->prior().devices()),
        example(first->groups.empty() ? Workload() : first->groups.front().example),
        state(std::move(first)) {}
};

TimeRegressor::TimeRegressor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TimeRegressor::TimeRegressor(TimeRegressor&&) noexcept = default;
TimeRegressor& TimeRegressor::operator=(TimeRegressor&&) noexcept = default;
TimeRegressor::~TimeRegressor() = default;

TimeRegressor TimeRegressor::fit(std::span<const AggregateRow> rows, const FitOptions& options,
                                 std::span<const AggregateRow> val) {
  auto state = std::make_unique<ModelState>();
  state->kind = &find_kind(options.kind);
  OpRegression ops(std::make_shared<const OpPrior>(options.prior, options.devices));
  std::vector<AggregateRow> fitted(rows.begin(), rows.end());
  if (!state->kind->uses_validation) fitted.insert(fitted.end(), val.begin(), val.end());
  fitted = training_rows(fitted);
  const std::vector<AggregateRow> chosen_by =
      state->kind->uses_validation ? training_rows(val) : std::vector<AggregateRow>{};
  if (fitted.empty()) throw InputError("no row with a time to fit on");

  std::vector<AggregateRow> of_ops;
  auto tables = tables_of(fitted, chosen_by);
  for (auto& [example, table] : tables) {
    Group& group = state->groups.emplace_back();
    group.example = example;
    for (const AggregateRow& row : table.rows) {
      if (ops.can_learn(row.workload)) of_ops.push_back(row);
    }
    const std::vector<AggregateRow> all = table.rows;
    const std::size_t least = state->kind->family_rows;
    const bool by_ops = least != 0 && ops.can_learn(example);  // all but the family
    const auto family = static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const AggregateRow& row) { return is_of_family(row.workload); }));
    if (by_ops && family >= least) {
      std::erase_if(table.rows, [](const AggregateRow& row) { return !is_of_family(row.workload); });
    }
    if (by_ops && all.size() < least) table.rows.clear();
    for (const std::vector<AggregateRow>* part : {&all, &std::as_const(table.val)}) {
      for (const AggregateRow& row : *part) {
        group.cover(row.workload, !by_ops || (family >= least && is_of_family(row.workload)));
        state->fitted[row.workload.key()] = {*row.avg_time_mean, row.n, {}};
      }
    }
    table.seed = options.seed;
    table.control.stop = options.stop;
    table.control.check();
    if (options.progress) {
      const auto groups = static_cast<double>(tables.size()), before = static_cast<double>(state->groups.size() - 1);
      table.control.progress = [&, groups, before](double share) { options.progress((before + share) / groups); };
    }
    try {
      if (!table.rows.empty()) group.model = state->kind->fit(table);
    } catch (const InputError& error) {
      if (tables.size() == 1) throw;
      throw InputError(fmt::format("{}: {}", group_text(example), error.what()));
    }
    table.control.report(1);
  }
  ops.learn(of_ops);
  state->ops = std::make_shared<const OpRegression>(std::move(ops));
  state->training_set_id = set_id(fitted) + set_id(chosen_by);
  state->model_id = fnv1a(fmt::format("{} {} {} {}", options.kind, options.seed, set_id(fitted), set_id(chosen_by)));
  if (options.prior) state->model_id = fnv1a(state->ops->to_json().dump(), state->model_id);
  return TimeRegressor(std::make_unique<Impl>(std::move(state)));
}

TimeRegressor TimeRegressor::standard(const DeviceCatalogue& devices) {
  return TimeRegressor(std::make_unique<Impl>(std::make_unique<ModelState>(without_runs(nullptr, devices))));
}

TimeRegressor TimeRegressor::load(const std::string& path, const DeviceCatalogue& devices) {
  const nlohmann::json json = nlohmann::json::parse(read_file(path), nullptr, false);
  try {
    return TimeRegressor(std::make_unique<Impl>(std::make_unique<ModelState>(read_state(json, devices))));
  } catch (const Error& error) {
    throw ModelError(fmt::format("{}: {}", path, error.what()));
  }
}

Prediction TimeRegressor::predict(const Workload& workload, const OpGraph* step,
                                  std::vector<TimeTerm>* breakdown) const {
  workload.validate();
  const auto state = impl_->state.read();
  const Route route = state->route(workload);
  if (route.group == nullptr) {
    const OpRegression::Estimate estimate = state->ops->estimate(workload, step);
    if (breakdown != nullptr) *breakdown = breakdown_of(estimate.view, std::exp(estimate.log_sec));
    return state->finish(route, estimate);
  }
  if (breakdown != nullptr) *breakdown = route.group->model->breakdown(workload, step);
  return state->finish(route, workload, route.group->model->predict(workload, step));
}

void TimeRegressor::predict(std::span<const Workload> workloads, std::span<Prediction> predictions) const {
  if (workloads.size() != predictions.size()) throw Error("predict: as many predictions as workloads are needed");
  const auto state = impl_->state.read();
  std::vector<Route> routes;
  routes.reserve(workloads.size());
  for (const Workload& workload : workloads) {
    workload.validate();
    routes.push_back(state->route(workload));
  }
  std::vector<Quantiles> quantiles;
  for (std::size_t begin = 0; begin < workloads.size();) {  // neighbours of one group go to its model together
    const Group* group = routes[begin].group;
    if (group == nullptr) {
      predictions[begin] = state->finish(routes[begin], state->ops->estimate(workloads[begin], nullptr));
      ++begin;
      continue;
    }
    std::size_t end = begin + 1;
    while (end < workloads.size() && routes[end].group == group) ++end;
    quantiles.resize(end - begin);
    group->model->predict(workloads.subspan(begin, end - begin), quantiles);
    for (; begin < end; ++begin) {
      predictions[begin] = state->finish(routes[begin], workloads[begin], quantiles[quantiles.size() - (end - begin)]);
    }
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
  for (const std::string& device : devices) moved.push_back(on_device(workload, device));
  return predict(moved);
}

Workload TimeRegressor::on_device(const Workload& workload, std::string_view device) const {
  return moved_workload(workload, device, impl_->state.read()->groups, &Group::example);
}

JointPrediction TimeRegressor::joint(std::span<const Workload> workloads) const {
  for (const Workload& workload : workloads) workload.validate();
  const auto state = impl_->state.read();
  const std::size_t n = workloads.size();
  JointPrediction joint{std::vector<double>(n), std::vector<double>(n * n)};
  Eigen::Map<Eigen::VectorXd> mean(joint.mean.data(), static_cast<Eigen::Index>(n));
  Eigen::Map<Eigen::MatrixXd> covariance(joint.covariance.data(), mean.size(), mean.size());  // symmetric
  std::vector<Route> routes;
  for (const Workload& workload : workloads) routes.push_back(state->route(workload));
  std::vector<const Group*> groups = {nullptr};  // the op model; errors of different groups are independent
  for (const Group& group : state->groups) groups.push_back(&group);
  for (const Group* group : groups) {
    std::vector<Eigen::Index> places;
    std::vector<Workload> mine;
    for (std::size_t i = 0; i < n; ++i) {
      if (routes[i].group != group) continue;
      places.push_back(static_cast<Eigen::Index>(i));
      mine.push_back(workloads[i]);
    }
    if (mine.empty()) continue;
    JointNormal part = group != nullptr ? group->model->joint(mine) : state->ops->joint(mine);
    // Workloads that nothing measured tells about are all wrong by the same factor.
    Eigen::VectorXd shared = Eigen::VectorXd::Zero(part.mean.size());
    for (Eigen::Index i = 0; group != nullptr && i < shared.size(); ++i) {
      const auto place = static_cast<std::size_t>(places[static_cast<std::size_t>(i)]);
      const double least = group->least_half_width(workloads[place], routes[place].reason) / z90;
      shared[i] = std::sqrt(std::max(0.0, least * least - part.covariance(i, i)));
    }
    part.covariance += shared * shared.transpose();
    mean(places) = part.mean;
    covariance(places, places) = part.covariance;
  }
  return joint;
}

std::vector<TimeTerm> TimeRegressor::breakdown(const Workload& workload, const OpGraph* step) const {
  std::vector<TimeTerm> breakdown;
  (void)predict(workload, step, &breakdown);
  return breakdown;
}

std::vector<RejectedRun> TimeRegressor::observe(std::span<const Run> runs) {
  if (!impl_->kind.learns)
    throw InputError(fmt::format("a model of kind {} does not learn from observed runs; fit it anew", kind()));
  const std::lock_guard lock(impl_->observing);
  auto next = std::make_unique<ModelState>(*impl_->state.read());
  std::vector<std::optional<std::string>> rejected(runs.size());
  std::vector<std::vector<AggregateRow>> rows(next->groups.size());
  std::vector<std::vector<double>> stated(next->groups.size());       // see RegressorModel::learn()
  std::vector<std::vector<std::size_t>> places(next->groups.size());  // of these rows among the runs
  std::vector<AggregateRow> of_ops;
  std::vector<std::size_t> places_of_ops;
  const auto group_of = [&](const Workload& workload) {
    return std::find_if(next->groups.begin(), next->groups.end(),
                        [&](const Group& one) { return same_group(one.example, workload); });
  };
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
      const auto group = group_of(row.workload);
      const bool by_ops = next->ops->can_learn(row.workload);
      if (group != next->groups.end() && group->model && (!by_ops || group->models(row.workload))) {
        const auto at = static_cast<std::size_t>(group - next->groups.begin());
        stated[at].push_back(group->least_half_width(row.workload, group->reason(row.workload)));
        rows[at].push_back(std::move(row));
        places[at].push_back(i);
      } else if (by_ops) {
        if (next->ops->is_outlier(row)) throw InputError("outlier");
        of_ops.push_back(std::move(row));
        places_of_ops.push_back(i);
      } else {
        throw InputError(std::string(to_string(next->route(row.workload).reason)));
      }
    } catch (const InputError& error) {
      rejected[i] = error.what();
    }
  }
  bool changed = false;
  const auto remember = [&](Group& group, const AggregateRow& row, const Run& run, bool modelled) {
    changed = true;
    const double sec = *row.avg_time_mean;
    const std::string key = run.workload.key();
    FittedRow& fitted = next->fitted[key];
    ++fitted.n;
    fitted.sec += (sec - fitted.sec) / static_cast<double>(fitted.n);
    fitted.observed.push_back(run.timestamp_utc);
    group.cover(run.workload, modelled);
    next->training_set_id += set_id(std::span(&row, 1));
    next->model_id = fnv1a(fmt::format("{} {} {}", next->model_id, key, number_text(sec)));
  };
  for (std::size_t g = 0; g < rows.size(); ++g) {
    if (rows[g].empty()) continue;
    Group& group = next->groups[g];
    LearnResult learnt = group.model->learn(rows[g], stated[g]);
    for (std::size_t k = 0; k < rows[g].size(); ++k) {
      rejected[places[g][k]] = learnt.rejected[k];
      if (!learnt.rejected[k]) remember(group, rows[g][k], runs[places[g][k]], true);
    }
    for (const std::string& key : learnt.forgotten) next->fitted.erase(key);
    if (learnt.model) group.model = std::move(learnt.model);
  }
  if (!of_ops.empty()) {
    for (std::size_t k = 0; k < of_ops.size(); ++k) {
      const Workload& workload = of_ops[k].workload;
      auto group = group_of(workload);
      if (group == next->groups.end()) group = next->groups.insert(group, Group{workload, {}, nullptr});
      remember(*group, of_ops[k], runs[places_of_ops[k]], false);
    }
    OpRegression ops = *next->ops;
    ops.learn(of_ops);
    next->ops = std::make_shared<const OpRegression>(std::move(ops));
  }
  if (changed) impl_->state.replace(std::move(next));
  std::vector<RejectedRun> result;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!rejected[i]) continue;
    result.push_back({runs[i].workload.key(), *rejected[i], runs[i].timestamp_utc, runs[i].avg_time_sec});
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
  return state->fitted.contains(workload.key());
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
    if (!group.model) continue;
    for (RejectedRun& row : group.model->dropped()) {
      if (group.models(Workload::from_key(row.key))) all.push_back(std::move(row));
    }
  }
  all.insert(all.end(), state->ops->dropped().begin(), state->ops->dropped().end());
  return all;
}

const Workload& TimeRegressor::example() const { return impl_->example; }

const DeviceCatalogue& TimeRegressor::devices() const { return impl_->devices; }

}  // namespace perfpred
