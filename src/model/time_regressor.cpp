// SPDX-License-Identifier: Apache-2.0
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "catalogue/device_table.h"
#include "model/model_state.h"
#include "model/placed_prediction.h"
#include "model/training_rows.h"
#include "model/unstated.h"
#include "optime/op_model_state.h"
#include "optime/standard_ops.h"
#include "statistics/estimate.h"
#include "text/files.h"
#include "text/hash.h"
#include "text/json.h"
#include "text/parse.h"
#include "workload/workload_on.h"
#include "workload/world.h"

namespace perfpred {
namespace {

/// Whether bitsandbytes has kernels on a device (README of its release 0.50, "Accelerator support"): NVIDIA's GPUs need
/// compute capability 6.0, AMD's CDNA or RDNA, Intel's Gaudi the second one; CPUs and Apple's have some.
bool multiplies_packed(const Device& device) {
  const std::string_view vendor = device.vendor, arch = device.arch;
  if (device.kind == DeviceKind::cpu || vendor.empty() || vendor == "Apple") return true;
  if (vendor == "NVIDIA") return arch != "Kepler" && arch != "Maxwell";
  if (vendor == "AMD") return arch.starts_with("CDNA") || arch.starts_with("RDNA");
  return vendor == "Intel" && arch != "Gaudi";
}

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

/// With samples an epoch that are stated, as its key states them.
Workload as_in_files(Workload workload) {
  workload.train_images = std::int64_t{workload.train_images};
  return workload;
}

/// Adds a group with its rows, and fits the state's kind of model on those that it models.
/// @param op_model  whether the op model can predict the group, too
void add_group(ModelState& state, const Workload& example, bool op_model, TrainingTable& table) {
  Group& group = state.groups.emplace_back();
  group.example = example;
  const std::vector<AggregateRow> all = table.rows;
  const std::size_t least = state.kind->family_rows;
  const bool by_ops = least != 0 && op_model;  // all but the family
  const auto family = static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const AggregateRow& row) { return is_of_family(row.workload); }));
  if (by_ops && family >= least) {
    std::erase_if(table.rows, [](const AggregateRow& row) { return !is_of_family(row.workload); });
  }
  if (by_ops && all.size() < least) table.rows.clear();
  for (const std::vector<AggregateRow>* part : {&all, &std::as_const(table.val)}) {
    for (const AggregateRow& row : *part) {
      group.cover(row.workload, !by_ops || (family >= least && is_of_family(row.workload)));
      state.fitted[row.workload.key()] = {as_in_files(row.workload), *row.avg_time_mean, row.n, {}};
    }
  }
  if (!table.rows.empty()) group.model = state.kind->fit(table);
}

/// Of the largest group that was fitted on; where all rows are of several devices, one of these on one.
Workload example_of(const ModelState& state) {
  for (const Group& group : state.groups) {
    const auto is_of_group = [&](const auto& row) {
      return row.second.was_fitted_on() && same_group(row.second.workload, group.example);
    };
    if (std::ranges::any_of(state.fitted, is_of_group)) return group.example;
  }
  const auto fitted = std::ranges::find_if(state.fitted, [](const auto& row) { return row.second.was_fitted_on(); });
  return fitted == state.fitted.end() ? Workload() : on_one_device(fitted->second.workload);
}

/// Takes the rows of several devices from those that are fitted, into the state. @throws InputError for a kind that
/// does not learn from them
std::vector<AggregateRow> rows_of_several(ModelState& state, std::vector<AggregateRow>& rows) {
  const auto one = std::stable_partition(rows.begin(), rows.end(),
                                         [](const AggregateRow& row) { return is_on_one_device(row.workload); });
  std::vector<AggregateRow> several(one, rows.end());
  rows.erase(one, rows.end());
  for (const AggregateRow& row : several) {
    if (!state.kind->learns) {
      throw InputError(fmt::format("row {} is of several devices, from which a model of kind {} does not learn",
                                   shown(row.workload.key()), state.kind->name));
    }
    state.fitted[row.workload.key()] = {as_in_files(row.workload), *row.avg_time_mean, row.n, {}};
  }
  return several;
}

/// The row of runs_agg.csv that a run alone makes, or why it makes none. @throws InputError as Workload::validate()
std::variant<AggregateRow, std::string> row_of(const Run& run) {
  run.workload.validate();
  Aggregator one;
  one.add(run);
  std::optional<std::string> reason;
  one.for_each_rejected([&](const RejectedRun& rejected) { reason = rejected.reason; });
  if (reason) return *std::move(reason);
  return one.rows().front();
}

/// Why no model learns a workload, and for a device what would make it known.
std::string told(DomainViolation reason, const ResolvedDevice& device) {
  std::string text(to_string(reason));
  const std::string why = reason == DomainViolation::other_device ? why_unrated(device) : std::string();
  return why.empty() ? text : fmt::format("{}: {}", text, why);
}

/// Whether a workload's device has to multiply by weights that are packed.
bool multiplies_packed(const Workload& workload) {
  return workload.weights == Weights::nf4 || workload.weights == Weights::int8;
}

/// @throws InputError as Workload::validate(), and for packed weights that the device has no kernels for
void check(const Job& job) {
  job.workload().validate();
  const Device* device = job.device().device;
  if (!multiplies_packed(job.workload()) || device == nullptr || multiplies_packed(*device)) return;
  throw InputError(fmt::format("weights {} have no kernels on device \"{}\" ({} {})", to_string(job.workload().weights),
                               device->name, device->vendor, device->arch));
}

/// Whether runs of its own group may answer before the workload's device is looked up.
bool may_have_runs(const Workload& workload) { return has_usual_world(workload) && !multiplies_packed(workload); }

/// Of a job on one device. @param explains  whether it says the parts, too
JobEstimate of_one_device(const ModelState& from, const Job& job, PredictedSteps& steps, bool explains) {
  const Route route = from.route(job.workload(), job.device());
  Estimate time =
      route.group != nullptr ? route.group->model->estimate(job.workload()) : from.ops->estimate(job, steps);
  if (!explains) {
    time.parts.clear();
  } else if (route.group != nullptr) {
    time.parts = route.group->model->breakdown(job.workload());
  }
  return from.finish(route, job.workload(), std::move(time));
}

/// Teaches a model's state runs, and remembers why it did not take some of them.
class Observation {
 public:
  using Reason = std::optional<std::string>;

  /// @param check_several  throws an InputError for a run on several devices that says nothing of others
  Observation(ModelState& state, std::span<const Run> runs, const DeviceCatalogue& devices,
              const std::function<void(const AggregateRow&)>& check_several)
      : state_(state), runs_(runs), devices_(devices), check_several_(check_several), rejected_(runs.size()) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      try {
        rejected_[i] = assign(i);
      } catch (const InputError& error) {  // a workload that cannot be
        rejected_[i] = error.what();
      }
    }
    for (std::size_t g = 0; g < of_groups_.size(); ++g) {
      if (!of_groups_[g].rows.empty()) teach_group(state.groups[g], of_groups_[g]);
    }
    if (!of_ops_.rows.empty()) teach_ops();
  }

  [[nodiscard]] bool changed() const { return changed_; }

  [[nodiscard]] std::vector<RejectedRun> rejected() const {
    std::vector<RejectedRun> result;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Run& run = runs_[i];
      if (rejected_[i]) result.push_back({run.workload.key(), *rejected_[i], run.timestamp_utc, run.avg_time_sec});
    }
    return result;
  }

 private:
  /// Rows that one model learns.
  struct NewRows {
    std::vector<AggregateRow> rows;
    std::vector<double> stated;       // see RegressorModel::learn()
    std::vector<std::size_t> places;  // of the rows among the runs
  };

  [[nodiscard]] auto group_of(const Workload& workload) {
    return std::find_if(state_.groups.begin(), state_.groups.end(),
                        [&](const Group& one) { return same_group(one.example, workload); });
  }

  static std::string key_of(const Run& run) { return without_idle_placement(run.workload).key(); }

  /// Whether this is the first time that the run is seen, as far as one without a time stamp can be told from others.
  bool is_new(const Run& run, const std::string& key) {
    if (run.timestamp_utc.empty()) return true;
    const std::string stamp = as_utf8(run.timestamp_utc);  // as a model file holds it
    const auto known = state_.fitted.find(key);
    if (known != state_.fitted.end()) {
      const std::vector<std::string>& observed = known->second.observed;
      if (std::find(observed.begin(), observed.end(), stamp) != observed.end()) return false;
    }
    return seen_.emplace(key, stamp).second;
  }

  /// Gives a run to the model that learns it. Returns why none does.
  Reason assign(std::size_t i) {
    std::variant<AggregateRow, std::string> made = row_of(runs_[i]);
    if (const std::string* reason = std::get_if<std::string>(&made)) return *reason;
    AggregateRow& row = std::get<AggregateRow>(made);
    row.workload = without_idle_placement(std::move(row.workload));
    if (!is_new(runs_[i], key_of(runs_[i]))) return "already observed";
    if (!is_on_one_device(row.workload)) {
      check_several_(row);
      remember(row, runs_[i]);
      return std::nullopt;
    }
    const auto group = group_of(row.workload);
    const ResolvedDevice device = devices_.resolve(row.workload.device);
    const bool by_ops = knows_rates(row.workload, device);
    if (group != state_.groups.end() && group->model && (!by_ops || group->models(row.workload))) {
      NewRows& rows = of_groups_[static_cast<std::size_t>(group - state_.groups.begin())];
      rows.stated.push_back(group->least_half_width(row.workload, group->reason(row.workload)));
      rows.rows.push_back(std::move(row));
      rows.places.push_back(i);
      return std::nullopt;
    }
    if (!by_ops) return told(state_.route(row.workload, device).reason, device);
    if (state_.ops->is_outlier(Job(row.workload, devices_), *row.avg_time_mean)) return "outlier";
    of_ops_.rows.push_back(std::move(row));
    of_ops_.places.push_back(i);
    return std::nullopt;
  }

  void remember(const AggregateRow& row, const Run& run) {
    changed_ = true;
    const double sec = *row.avg_time_mean;
    const std::string key = key_of(run);
    FittedRow& fitted = state_.fitted[key];
    fitted.workload = as_in_files(without_idle_placement(run.workload));
    ++fitted.n;
    fitted.sec += (sec - fitted.sec) / static_cast<double>(fitted.n);
    fitted.observed.push_back(as_utf8(run.timestamp_utc));
    state_.training_set_id += set_id(std::span(&row, 1));
    state_.model_id = fnv1a(fmt::format("{} {} {}", state_.model_id, key, number_text(sec)));
  }

  void teach_group(Group& group, const NewRows& taught) {
    LearnResult learnt = group.model->learn(taught.rows, taught.stated);
    for (std::size_t k = 0; k < taught.rows.size(); ++k) {
      rejected_[taught.places[k]] = learnt.rejected[k];
      if (learnt.rejected[k]) continue;
      remember(taught.rows[k], runs_[taught.places[k]]);
      group.cover(taught.rows[k].workload, true);
    }
    for (const std::string& key : learnt.forgotten) state_.fitted.erase(key);
    if (learnt.model) group.model = std::move(learnt.model);
  }

  void teach_ops() {
    for (std::size_t k = 0; k < of_ops_.rows.size(); ++k) {
      const Workload& workload = of_ops_.rows[k].workload;
      auto group = group_of(workload);
      if (group == state_.groups.end()) group = state_.groups.insert(group, Group{workload, {}, nullptr});
      remember(of_ops_.rows[k], runs_[of_ops_.places[k]]);
      group->cover(workload, false);
    }
    OpRegression ops = *state_.ops;
    ops.learn(of_ops_.rows, devices_);
    state_.ops = std::make_shared<const OpRegression>(std::move(ops));
  }

  ModelState& state_;
  std::span<const Run> runs_;
  const DeviceCatalogue& devices_;
  const std::function<void(const AggregateRow&)>& check_several_;
  std::vector<Reason> rejected_;
  std::vector<NewRows> of_groups_ = std::vector<NewRows>(state_.groups.size());
  NewRows of_ops_;
  std::set<std::pair<std::string, std::string>> seen_;
  bool changed_ = false;
};

}  // namespace

struct __attribute__((visibility("hidden"))) TimeRegressor::Impl {
  /// The state that predictions read while observe() prepares the next one.
  class CurrentState {
   public:
    explicit CurrentState(std::unique_ptr<const ModelState> first) : state_(std::move(first)) {}

    [[nodiscard]] std::shared_ptr<const ModelState> read() const {
      const std::lock_guard lock(mutex_);
      return state_;
    }

    void replace(std::shared_ptr<const ModelState> next) {
      const std::lock_guard lock(mutex_);
      state_.swap(next);
    }

   private:
    mutable std::mutex mutex_;
    std::shared_ptr<const ModelState> state_;
  };

  const RegressorKind& kind;
  const std::string kind_name{kind.name};
  DeviceCatalogue devices;
  const Workload example;  // of the largest group
  CurrentState state;
  std::mutex observing;

  [[nodiscard]] ResolvedDevice device_of(const Workload& workload) const { return devices.resolve(workload.device); }
  [[nodiscard]] Route route(const ModelState& from, const Workload& workload) const {
    const auto own = from.own_route(workload);
    return own ? *own : from.route(workload, device_of(workload));
  }

  /// @param steps     those that were predicted on the job's device, to which new ones are added
  /// @param explains  whether it says the parts, too
  [[nodiscard]] JobEstimate estimate(const ModelState& from, const Job& job, PredictedSteps& steps,
                                     bool explains) const;

  /// JobVariants::estimate()
  [[nodiscard]] JobEstimate estimate(const Workload& workload, PredictedSteps& steps) const;

  [[nodiscard]] static RankModel rank_model(const ModelState& from, PredictedSteps& steps) {
    return {[&](const Job& rank, bool explains) { return of_one_device(from, rank, steps, explains); },
            [&](const Job& rank) { return from.ops->prior().kernels(rank); }, steps.word_shares};
  }

  /// A run on several devices, as `from` sees its ranks. @throws InputError as placed_run()
  [[nodiscard]] PlacedRun run_of_several(const ModelState& from, const Workload& workload, double epoch_sec,
                                         PredictedSteps& steps) const {
    return placed_run(Job(workload, devices), epoch_sec, rank_model(from, steps));
  }
  [[nodiscard]] const PlacedRuns& runs_of_several(const ModelState& from) const;

  /// @param given  to which the op model's own devices are added
  Impl(std::unique_ptr<const ModelState> first, const DeviceCatalogue& given)
      : kind(*first->kind),
        devices(first->ops->prior().with_own_devices(given)),
        example(example_of(*first)),
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
  OpRegression ops(std::make_shared<const OpPrior>(options.prior));
  const DeviceCatalogue devices = ops.prior().with_own_devices(options.devices);
  const auto can_learn = [&](const Workload& one) { return knows_rates(one, devices.resolve(one.device)); };
  std::vector<AggregateRow> fitted(rows.begin(), rows.end());
  if (!state->kind->uses_validation) fitted.insert(fitted.end(), val.begin(), val.end());
  fitted = training_rows(fitted);
  const std::vector<AggregateRow> of_several = rows_of_several(*state, fitted);
  const std::vector<AggregateRow> chosen_by =
      state->kind->uses_validation ? training_rows(val) : std::vector<AggregateRow>{};
  if (fitted.empty() && of_several.empty()) throw InputError("no row with a time to fit on");

  std::vector<AggregateRow> of_ops;
  auto tables = tables_of(fitted, chosen_by);
  for (auto& [example, table] : tables) {
    for (const AggregateRow& row : table.rows) {
      if (can_learn(row.workload)) of_ops.push_back(row);
    }
    table.device = kind_on(example, devices);
    table.seed = options.seed;
    table.control.stop = options.stop;
    table.control.check();
    if (options.progress) {
      const auto groups = static_cast<double>(tables.size()), before = static_cast<double>(state->groups.size());
      table.control.progress = [&, groups, before](double share) { options.progress((before + share) / groups); };
    }
    try {
      add_group(*state, example, can_learn(example), table);
    } catch (const InputError& error) {
      if (tables.size() == 1) throw;
      throw InputError(fmt::format("{}: {}", group_text(example), error.what()));
    }
    table.control.report(1);
  }
  ops.learn(of_ops, devices);
  state->ops = std::make_shared<const OpRegression>(std::move(ops));
  state->training_set_id = set_id(fitted) + set_id(of_several) + set_id(chosen_by);
  state->model_id = fnv1a(fmt::format("{} {} {} {}", options.kind, options.seed, set_id(fitted), set_id(chosen_by)));
  if (!of_several.empty()) state->model_id = fnv1a(fmt::format("{}", set_id(of_several)), state->model_id);
  if (options.prior) state->model_id = fnv1a(dumped(to_json(OpModelAccess::state(*options.prior))), state->model_id);
  TimeRegressor model(std::make_unique<Impl>(std::move(state), options.devices));
  if (!of_several.empty()) (void)model.impl_->runs_of_several(*model.impl_->state.read());  // throws for a wrong row
  return model;
}

TimeRegressor TimeRegressor::standard(const DeviceCatalogue& devices) {
  return TimeRegressor(
      std::make_unique<Impl>(std::make_unique<ModelState>(without_runs(nullptr, standard_ops)), devices));
}

TimeRegressor TimeRegressor::load(const std::string& path, const DeviceCatalogue& devices) {
  const std::string text = read_file(path);
  try {
    return from_text(text, devices);
  } catch (const ModelError& error) {
    throw ModelError(fmt::format("{}: {}", path, error.what()));
  }
}

TimeRegressor TimeRegressor::from_text(std::string_view text, const DeviceCatalogue& devices) {
  try {
    const auto json = parse_json<nlohmann::json>(text);
    return TimeRegressor(
        std::make_unique<Impl>(std::make_unique<ModelState>(read_state(json, text, devices)), devices));
  } catch (const Error& error) {
    throw ModelError(error.what());
  }
}

Prediction TimeRegressor::predict(const Workload& workload) const {
  Prediction prediction = JobVariants(*this).estimate(workload).prediction();
  prediction.time_sec = of_known_epoch(workload, prediction.time_sec);
  return prediction;
}

std::vector<TimeTerm> TimeRegressor::breakdown(const Workload& workload) const {
  std::vector<TimeTerm> terms = JobVariants(*this).explain(Job(workload, devices())).time.parts;
  if (workload.knows_epoch()) return terms;
  for (TimeTerm& term : terms) term.sec = std::numeric_limits<double>::quiet_NaN();
  return terms;
}

JobEstimate TimeRegressor::Impl::estimate(const ModelState& from, const Job& job, PredictedSteps& steps,
                                          bool explains) const {
  check(job);
  if (has_usual_world(job.workload())) return of_one_device(from, job, steps, explains);
  if (is_on_one_device(job.workload()))
    return of_one_device(from, job.with(on_one_device(job.workload())), steps, explains);
  return predict_placed(job, rank_model(from, steps), runs_of_several(from), explains);
}

JobEstimate TimeRegressor::Impl::estimate(const Workload& workload, PredictedSteps& steps) const {
  const auto from = state.read();
  workload.validate();
  if (const auto own = may_have_runs(workload) ? from->own_route(workload) : std::nullopt) {
    Estimate time = own->group->model->estimate(workload);
    time.parts.clear();
    return from->finish(*own, workload, std::move(time));
  }
  return estimate(*from, Job(workload, devices), steps, false);
}

const PlacedRuns& TimeRegressor::Impl::runs_of_several(const ModelState& from) const {
  return from.of_several->all([&] {
    std::map<std::string, PredictedSteps> steps;  // by device
    std::vector<PlacedRun> runs;
    for (const auto& [key, row] : from.fitted) {
      if (is_on_one_device(row.workload)) continue;
      try {
        runs.push_back(run_of_several(from, row.workload, row.sec, steps[row.workload.device]));
      } catch (const InputError& error) {
        throw InputError(fmt::format("row {}: {}", shown(key), error.what()));
      }
    }
    return together(runs);
  });
}

JobEstimate JobVariants::estimate(const Workload& variant) { return model_.impl_->estimate(variant, steps_); }

JobEstimate JobVariants::estimate(const Job& variant) {
  return model_.impl_->estimate(*model_.impl_->state.read(), variant, steps_, false);
}

JobEstimate JobVariants::explain(const Job& variant) {
  return model_.impl_->estimate(*model_.impl_->state.read(), variant, steps_, true);
}

std::vector<TimedKernel> JobVariants::kernels(const Job& variant) {
  return model_.impl_->state.read()->ops->prior().kernels(variant);
}

PlacedJob JobVariants::placed(const Job& variant) {
  const TimeRegressor::Impl& impl = *model_.impl_;
  const auto from = impl.state.read();
  return placed_job(variant, TimeRegressor::Impl::rank_model(*from, steps_), impl.runs_of_several(*from), false);
}

namespace {

/// Behind the last of the neighbours that have a group together.
/// @param routes  of those that groups answer for
std::size_t end_of_group(std::span<const std::optional<Route>> routes, std::size_t begin) {
  std::size_t end = begin + 1;
  if (!routes[begin]) return end;
  while (end < routes.size() && routes[end] && routes[end]->group == routes[begin]->group) ++end;
  return end;
}

}  // namespace

void JobVariants::predict_all(const TimeRegressor& model, std::span<const Workload> workloads,
                              const std::function<void(std::size_t, JobEstimate)>& answered,
                              const std::function<void(std::size_t)>& refused) {
  const TimeRegressor::Impl& impl = *model.impl_;
  const auto state = impl.state.read();
  std::vector<std::optional<Route>> routes(workloads.size());  // of those that groups answer for
  const auto attempt = [&](std::size_t i, const auto& act) {
    try {
      act();
    } catch (const std::exception&) {
      routes[i].reset();
      refused(i);
    }
  };
  const auto ask_one = [&](std::size_t i) {
    const Workload& one = workloads[i];
    one.validate();
    if (may_have_runs(one)) routes[i] = state->own_route(one);
    if (routes[i]) return;
    const Job job(one, impl.devices);
    if (has_usual_world(one)) {
      check(job);
      const Route route = state->route(one, job.device());
      if (route.group != nullptr) {
        routes[i] = route;
        return;
      }
    }
    PredictedSteps steps;
    answered(i, impl.estimate(*state, job, steps, false));
  };
  for (std::size_t i = 0; i < workloads.size(); ++i) attempt(i, [&] { ask_one(i); });
  std::vector<Estimate> estimates;
  for (std::size_t begin = 0; begin < workloads.size();) {  // neighbours of one group go to its model together
    const std::size_t end = end_of_group(routes, begin);
    bool together = routes[begin].has_value();
    if (together) {
      try {
        estimates.resize(end - begin);
        routes[begin]->group->model->estimate(workloads.subspan(begin, end - begin), estimates);
      } catch (const std::exception&) {  // which one?
        together = false;
      }
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (!routes[i]) continue;
      attempt(i, [&] {
        Estimate time = together ? std::move(estimates[i - begin]) : routes[i]->group->model->estimate(workloads[i]);
        answered(i, state->finish(*routes[i], workloads[i], std::move(time)));
      });
    }
    begin = end;
  }
}

void TimeRegressor::predict(std::span<const Workload> workloads, std::span<Prediction> predictions) const {
  if (workloads.size() != predictions.size()) throw Error("predict: as many predictions as workloads are needed");
  std::size_t first = workloads.size();
  std::exception_ptr why;
  const auto answered = [&](std::size_t place, const JobEstimate& estimate) {
    predictions[place] = estimate.prediction();
    predictions[place].time_sec = of_known_epoch(workloads[place], predictions[place].time_sec);
  };
  JobVariants::predict_all(*this, workloads, answered, [&](std::size_t place) {
    if (place >= first) return;
    first = place;
    why = std::current_exception();
  });
  if (!why) return;
  try {
    std::rethrow_exception(why);
  } catch (const ModelError& error) {
    throw ModelError(fmt::format("[{}]: {}", first, error.what()));
  } catch (const InputError& error) {
    throw InputError(fmt::format("[{}]: {}", first, error.what()));
  }
}

std::vector<Prediction> TimeRegressor::predict(std::span<const Workload> workloads) const {
  std::vector<Prediction> predictions(workloads.size());
  predict(workloads, predictions);
  return predictions;
}

Workload TimeRegressor::on_device(const Workload& workload, std::string_view device) const {
  return workload_on(workload, device, impl_->state.read()->groups, &Group::example);
}

JointPrediction TimeRegressor::joint(std::span<const Workload> jobs) const {
  std::vector<Workload> workloads;
  for (const Workload& job : jobs) {
    job.validate();
    if (!is_on_one_device(job)) throw InputError("joint predictions are of jobs on one device");
    workloads.push_back(on_one_device(job));
  }
  const auto state = impl_->state.read();
  const std::size_t n = workloads.size();
  JointPrediction joint{std::vector<double>(n), std::vector<double>(n * n)};
  Eigen::Map<Eigen::VectorXd> mean(joint.mean.data(), static_cast<Eigen::Index>(n));
  Eigen::Map<Eigen::MatrixXd> covariance(joint.covariance.data(), mean.size(), mean.size());  // symmetric
  std::vector<Route> routes;
  for (const Workload& workload : workloads) routes.push_back(impl_->route(*state, workload));
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
    JointNormal part = group != nullptr ? group->model->joint(mine) : state->ops->joint(mine, impl_->devices);
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

std::vector<RejectedRun> TimeRegressor::observe(std::span<const Run> runs) {
  if (!impl_->kind.learns)
    throw InputError(fmt::format("a model of kind {} does not learn from observed runs; fit it anew", kind()));
  const std::lock_guard lock(impl_->observing);
  const auto before = impl_->state.read();
  auto next = std::make_unique<ModelState>(*before);
  next->of_several = std::make_shared<RunsOfSeveralDevices>();  // what its ranks take alone may be another time now
  std::map<std::string, PredictedSteps> steps;                  // by device
  const Observation observation(*next, runs, impl_->devices, [&](const AggregateRow& row) {
    (void)impl_->run_of_several(*before, row.workload, *row.avg_time_mean, steps[row.workload.device]);
  });
  if (observation.changed()) impl_->state.replace(std::move(next));
  return observation.rejected();
}

std::vector<RejectedRun> TimeRegressor::observe_in_file(const std::string& path, std::span<const Run> runs,
                                                        const std::string& out, const DeviceCatalogue& devices) {
  std::optional<FileLock> alone;
  if (file_behind(out) == file_behind(path)) alone.emplace(path);
  TimeRegressor model = load(path, devices);
  std::vector<RejectedRun> rejected = model.observe(runs);
  model.save(out);
  return rejected;
}

void TimeRegressor::save(const std::string& path) const { write_file(path, text()); }

std::string TimeRegressor::text() const { return dumped(to_json(*impl_->state.read())) + "\n"; }

const std::string& TimeRegressor::kind() const { return impl_->kind_name; }

bool TimeRegressor::uses_validation() const { return impl_->kind.uses_validation; }

bool TimeRegressor::was_fitted_on(const Workload& workload) const {
  const auto state = impl_->state.read();
  return state->fitted.contains(without_idle_placement(workload).key());
}

std::vector<AggregateRow> TimeRegressor::fitted_rows(bool with_observed) const {
  const auto state = impl_->state.read();
  std::vector<AggregateRow> rows;
  for (const auto& [key, fitted] : state->fitted) {
    if (!with_observed && !fitted.was_fitted_on()) continue;
    AggregateRow& row = rows.emplace_back();
    row.workload = fitted.workload;
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

bool TimeRegressor::lacks_rates(const Workload& workload) const {
  const ResolvedDevice device = impl_->device_of(workload);
  return device.lacks_rates() && impl_->state.read()->route(on_one_device(workload), device).group == nullptr;
}

void TimeRegressor::set_cpu(Device measured) { impl_->devices.set_cpu(std::move(measured)); }

}  // namespace perfpred
