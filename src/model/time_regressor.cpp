// SPDX-License-Identifier: Apache-2.0
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>
#include <perfpred/version.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <tuple>

#include "model/lognormal.h"
#include "model/regressor_kind.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr int model_format = 1;
const double foreign_half_width = std::log(3.0);  // where nothing measured says how much slower

constexpr std::array<const RegressorKind*, 5> all_kinds = {&ann_kind, &boosting_kind, &forest_kind, &hybrid_kind,
                                                           &linear_kind};

const RegressorKind& find_kind(std::string_view name) {
  for (const RegressorKind* kind : all_kinds) {
    if (kind->name == name) return *kind;
  }
  std::string names;
  for (const RegressorKind* kind : all_kinds) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind->name);
  throw InputError(fmt::format("kind \"{}\" is none of {}", shown(name), names));
}

struct Range {
  double low = HUGE_VAL;
  double high = -HUGE_VAL;

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool contains(double value) const { return value >= low && value <= high; }
  [[nodiscard]] bool is_one_other_than(double value) const { return low == high && value != low; }
};

double sample_size(const Workload& workload) {
  double size = 1;
  for (const std::int64_t length : workload.input) size *= static_cast<double>(length);
  return size;
}

/// Where and how a workload runs, what matters most to its time first.
constexpr std::array group_reasons = {Reason::other_device, Reason::other_precision, Reason::other_optimizer,
                                      Reason::other_layout};

/// In which of these two workloads agree. Of two such lists the greater agrees in what matters more.
std::array<bool, group_reasons.size()> agreement(const Workload& a, const Workload& b) {
  return {a.device == b.device && a.threads == b.threads, a.precision == b.precision, a.optimizer == b.optimizer,
          a.layout == b.layout && a.cuda_graph == b.cuda_graph};
}

/// What messages call the workload's group.
std::string group_text(const Workload& workload) {
  const std::string threads = workload.threads ? fmt::format(", {} threads", *workload.threads) : "";
  return fmt::format("the group of device \"{}\"{}, {}, {}, {}{}", shown(workload.device), threads,
                     to_string(workload.precision), to_string(workload.optimizer), to_string(workload.layout),
                     workload.cuda_graph ? ", CUDA graph" : "");
}

bool is_foreign(Reason reason) {
  return reason == Reason::other_device || reason == Reason::other_precision || reason == Reason::other_optimizer ||
         reason == Reason::other_layout || reason == Reason::other_network;
}

/// Rows that ran in one place in one way, and what was learnt from them.
struct Group {
  Workload example;
  std::set<std::string, std::less<>> networks;
  Range depth, base_filters, batch_size, sample;
  std::unique_ptr<RegressorModel> model;

  void cover(const Workload& workload) {
    networks.insert(workload.network);
    if (workload.depth) depth.add(*workload.depth);
    if (workload.base_filters) base_filters.add(*workload.base_filters);
    batch_size.add(static_cast<double>(workload.batch_size));
    sample.add(sample_size(workload));
  }

  [[nodiscard]] Reason reason(const Workload& workload) const {
    const auto agree = agreement(workload, example);
    const auto differs = std::find(agree.begin(), agree.end(), false);
    if (differs != agree.end()) return group_reasons[static_cast<std::size_t>(differs - agree.begin())];
    if (networks.find(workload.network) == networks.end()) return Reason::other_network;
    if (workload.depth && !depth.contains(*workload.depth)) return Reason::depth_out_of_range;
    if (workload.base_filters && !base_filters.contains(*workload.base_filters)) return Reason::width_out_of_range;
    if (!batch_size.contains(static_cast<double>(workload.batch_size))) return Reason::batch_out_of_range;
    if (!sample.contains(sample_size(workload))) return Reason::size_out_of_range;
    return Reason::none;
  }

  /// Another device, precision, network ..., or another depth, width, batch or size where all rows have one.
  /// @param reason  of that workload
  [[nodiscard]] bool says_nothing_of(const Workload& workload, Reason reason) const {
    return is_foreign(reason) || (workload.depth && depth.is_one_other_than(*workload.depth)) ||
           (workload.base_filters && base_filters.is_one_other_than(*workload.base_filters)) ||
           batch_size.is_one_other_than(static_cast<double>(workload.batch_size)) ||
           sample.is_one_other_than(sample_size(workload));
  }
};

void widen(Quantiles& quantiles, double least_half_width) {
  quantiles.p05 = std::min(quantiles.p05, quantiles.p50 * std::exp(-least_half_width));
  quantiles.p95 = std::max(quantiles.p95, quantiles.p50 * std::exp(least_half_width));
}

void merge_into(AggregateRow& row, const AggregateRow& other) {
  const auto n = static_cast<double>(row.n);
  const auto m = static_cast<double>(other.n);
  row.avg_time_mean = (n * *row.avg_time_mean + m * *other.avg_time_mean) / (n + m);
  row.n += other.n;
}

/// One row a key, by key: what is learnt of rows is not to depend on their order.
std::vector<AggregateRow> usable_rows(std::span<const AggregateRow> rows) {
  std::vector<std::pair<std::string, AggregateRow>> keyed;
  for (const AggregateRow& row : rows) {
    if (!row.avg_time_mean || row.n < 1) continue;
    row.workload.validate();
    std::string key = row.workload.key();
    if (!(*row.avg_time_mean > 0) || !std::isfinite(*row.avg_time_mean)) {
      throw InputError(fmt::format("the time of {} is not positive", key));
    }
    keyed.emplace_back(std::move(key), row);
  }
  const auto by = [](const auto& entry) {
    const AggregateRow& row = entry.second;
    return std::tie(entry.first, row.avg_time_mean, row.n, row.avg_time_std, row.epoch_rel_sem);
  };
  std::sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) { return by(a) < by(b); });
  std::vector<AggregateRow> usable;
  const std::string* last = nullptr;
  for (const auto& [key, row] : keyed) {
    if (last == nullptr || *last != key) {
      usable.push_back(row);
    } else {
      merge_into(usable.back(), row);
    }
    last = &key;
  }
  return usable;
}

/// A shared mutex in which a writer gets its turn: std::shared_mutex prefers readers here, and predictions without
/// pause would keep an observation waiting for ever. Readers that come while a writer waits queue behind it.
class FairSharedMutex {
 public:
  void lock() {
    turn_.lock();
    writer_waits_ = true;
    mutex_.lock();
  }
  void unlock() {
    writer_waits_ = false;
    mutex_.unlock();
    turn_.unlock();
  }
  void lock_shared() {
    if (writer_waits_) {
      const std::lock_guard queue(turn_);
      mutex_.lock_shared();
    } else {
      mutex_.lock_shared();
    }
  }
  void unlock_shared() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;
  std::atomic<bool> writer_waits_{false};
  std::shared_mutex mutex_;
};

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::uint64_t training_set_id_of(const std::vector<AggregateRow>& rows) {
  std::vector<std::string> lines;
  for (const AggregateRow& row : rows) {
    lines.push_back(fmt::format("{}|{}|{}\n", row.workload.key(), number_text(row.avg_time_mean), row.n));
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += line;
  return fnv1a(all);
}

nlohmann::json range_json(const Range& range) {
  return range.low <= range.high ? nlohmann::json{range.low, range.high} : nlohmann::json(nullptr);
}

Range range_from(const nlohmann::json& ranges, const char* name) {
  const nlohmann::json& json = json_field(ranges, name);
  Range range;
  if (json.is_null()) return range;
  if (!json.is_array() || json.size() != 2 || !json[0].is_number() || !json[1].is_number()) {
    throw ModelError(fmt::format("field \"{}\" is not a range", name));
  }
  range.add(json[0].get<double>());
  range.add(json[1].get<double>());
  return range;
}

}  // namespace

// ---- what kinds share

bool same_group(const Workload& a, const Workload& b) {
  const auto agree = agreement(a, b);
  return std::all_of(agree.begin(), agree.end(), [](bool one) { return one; });
}

void RegressorModel::predict(std::span<const Workload> workloads, std::span<Quantiles> out) const {
  for (std::size_t i = 0; i < workloads.size(); ++i) out[i] = predict(workloads[i]);
}

JointNormal RegressorModel::joint(std::span<const Workload> workloads) const {
  const auto n = static_cast<Eigen::Index>(workloads.size());
  JointNormal joint{Eigen::VectorXd(n), Eigen::MatrixXd::Zero(n, n)};
  for (Eigen::Index i = 0; i < n; ++i) {
    const Quantiles quantiles = predict(workloads[static_cast<std::size_t>(i)]);
    joint.mean[i] = std::log(quantiles.p50);
    const double deviation = log_deviation(quantiles);
    joint.covariance(i, i) = deviation * deviation;
    for (Eigen::Index j = 0; j < i; ++j) {
      if (workloads[static_cast<std::size_t>(i)] == workloads[static_cast<std::size_t>(j)]) {
        joint.covariance(i, j) = joint.covariance(j, i) = deviation * deviation;
      }
    }
  }
  return joint;
}

std::vector<TimeTerm> RegressorModel::breakdown(const Workload&) const { return {}; }

std::optional<std::string> RegressorModel::observe(const AggregateRow&) {
  throw InputError("only a hybrid model learns from observed runs");
}

std::vector<SetAside> RegressorModel::dropped() const { return {}; }

double conformal_half_width(std::vector<double> residuals, double level) {
  if (residuals.empty()) throw InputError("no row is left to estimate the interval from");
  for (double& residual : residuals) residual = std::abs(residual);
  const auto n = static_cast<double>(residuals.size());
  const auto rank = static_cast<std::size_t>(std::min(n, std::ceil(level * (n + 1))));
  std::nth_element(residuals.begin(), residuals.begin() + static_cast<std::ptrdiff_t>(rank - 1), residuals.end());
  return residuals[rank - 1];
}

const nlohmann::json& json_field(const nlohmann::json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) throw ModelError(fmt::format("field \"{}\" is missing", name));
  return object.at(name);
}

double json_number(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_number()) throw ModelError(fmt::format("field \"{}\" is not a number", name));
  return value.get<double>();
}

std::string json_text(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_string()) throw ModelError(fmt::format("field \"{}\" is not a text", name));
  return value.get<std::string>();
}

Eigen::VectorXd json_vector(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_array()) throw ModelError(fmt::format("field \"{}\" is not a list of numbers", name));
  Eigen::VectorXd vector(static_cast<Eigen::Index>(value.size()));
  Eigen::Index i = 0;
  for (const nlohmann::json& item : value) {
    if (!item.is_number()) throw ModelError(fmt::format("field \"{}\" is not a list of numbers", name));
    vector[i++] = item.get<double>();
  }
  return vector;
}

Eigen::MatrixXd json_matrix(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  const auto refuse = [name] { throw ModelError(fmt::format("field \"{}\" is not a matrix", name)); };
  if (!value.is_array() || value.empty() || !value.front().is_array()) refuse();
  Eigen::MatrixXd matrix(static_cast<Eigen::Index>(value.size()), static_cast<Eigen::Index>(value.front().size()));
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
    const nlohmann::json& row = value[static_cast<std::size_t>(i)];
    if (!row.is_array() || row.size() != value.front().size()) refuse();
    for (Eigen::Index j = 0; j < matrix.cols(); ++j) {
      const nlohmann::json& item = row[static_cast<std::size_t>(j)];
      if (!item.is_number()) refuse();
      matrix(i, j) = item.get<double>();
    }
  }
  return matrix;
}

nlohmann::json to_json(const Eigen::VectorXd& vector) {
  return std::vector<double>(vector.data(), vector.data() + vector.size());
}

nlohmann::json to_json(const Eigen::MatrixXd& matrix) {
  nlohmann::json rows = nlohmann::json::array();
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) rows.push_back(to_json(Eigen::VectorXd(matrix.row(i).transpose())));
  return rows;
}

std::vector<std::string> regressor_kinds() {
  std::vector<std::string> names;
  for (const RegressorKind* kind : all_kinds) names.emplace_back(kind->name);
  return names;
}

// ---- TimeRegressor

struct TimeRegressor::Impl {
  std::string kind;
  std::uint64_t model_id = 0;
  std::uint64_t training_set_id = 0;
  std::map<std::string, double, std::less<>> fitted_sec;  // by key
  std::vector<Group> groups;                              // never empty; those with more rows first
  mutable FairSharedMutex mutex;

  /// The workload's own group, or the one that it has most in common with.
  [[nodiscard]] const Group& group_of(const Workload& workload) const {
    return *std::max_element(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
      return agreement(a.example, workload) < agreement(b.example, workload);
    });
  }

  [[nodiscard]] Prediction finish(const Group& group, const Workload& workload, Quantiles quantiles) const {
    const Reason reason = group.reason(workload);
    if (group.says_nothing_of(workload, reason)) widen(quantiles, foreign_half_width);
    return {quantiles, reason, model_id, training_set_id};
  }

  [[nodiscard]] nlohmann::json to_json() const {
    nlohmann::json keys = nlohmann::json::array(), times = nlohmann::json::array();
    for (const auto& [key, sec] : fitted_sec) {
      keys.push_back(key);
      times.push_back(sec);
    }
    nlohmann::json parts = nlohmann::json::array();
    for (const Group& group : groups) {
      parts.push_back({{"example", group.example.key()},
                       {"networks", group.networks},
                       {"ranges",
                        {{"depth", range_json(group.depth)},
                         {"base_filters", range_json(group.base_filters)},
                         {"batch_size", range_json(group.batch_size)},
                         {"sample", range_json(group.sample)}}},
                       {"model", group.model->to_json()}});
    }
    return {{"format", model_format},
            {"kind", kind},
            {"software", fmt::format("perfpred {}", PERFPRED_VERSION)},
            {"training_set", fmt::format("{:016x}", training_set_id)},
            {"keys", keys},
            {"times_sec", times},
            {"groups", parts}};
  }

  void name_model() { model_id = fnv1a(to_json().dump()); }
};

TimeRegressor::TimeRegressor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TimeRegressor::TimeRegressor(TimeRegressor&&) noexcept = default;
TimeRegressor& TimeRegressor::operator=(TimeRegressor&&) noexcept = default;
TimeRegressor::~TimeRegressor() = default;

TimeRegressor TimeRegressor::fit(std::span<const AggregateRow> rows, const FitOptions& options,
                                 std::span<const AggregateRow> val) {
  const RegressorKind& kind = find_kind(options.kind);
  std::vector<AggregateRow> fitted(rows.begin(), rows.end());
  if (!kind.uses_validation) fitted.insert(fitted.end(), val.begin(), val.end());
  fitted = usable_rows(fitted);
  const std::vector<AggregateRow> chosen_by = kind.uses_validation ? usable_rows(val) : std::vector<AggregateRow>{};
  if (fitted.empty()) throw InputError("no row with a time to fit on");

  auto impl = std::make_unique<Impl>();
  impl->kind = options.kind;
  std::vector<std::pair<Workload, TrainingTable>> tables;  // with an example each
  const auto table_of = [&](const Workload& workload) -> TrainingTable& {
    for (auto& [example, table] : tables) {
      if (same_group(example, workload)) return table;
    }
    tables.push_back({workload, {.rows = {}, .val = {}, .seed = options.seed}});
    return tables.back().second;
  };
  for (const AggregateRow& row : fitted) table_of(row.workload).rows.push_back(row);
  for (const AggregateRow& row : chosen_by) table_of(row.workload).val.push_back(row);
  std::sort(tables.begin(), tables.end(), [](const auto& a, const auto& b) {
    const std::size_t n = a.second.rows.size(), m = b.second.rows.size();
    return n != m ? n > m : a.first.key() < b.first.key();
  });
  for (const auto& [example, table] : tables) {
    if (table.rows.empty()) {
      throw InputError(fmt::format("{} has rows for validation and none to fit on", group_text(example)));
    }
    Group& group = impl->groups.emplace_back();
    group.example = example;
    for (const std::vector<AggregateRow>* part : {&table.rows, &table.val}) {
      for (const AggregateRow& row : *part) {
        group.cover(row.workload);
        impl->fitted_sec[row.workload.key()] = *row.avg_time_mean;
      }
    }
    try {
      group.model = kind.fit(table);
    } catch (const InputError& error) {
      if (tables.size() == 1) throw;
      throw InputError(fmt::format("{}: {}", group_text(example), error.what()));
    }
  }
  fitted.insert(fitted.end(), chosen_by.begin(), chosen_by.end());
  impl->training_set_id = training_set_id_of(fitted);
  impl->name_model();
  return TimeRegressor(std::move(impl));
}

TimeRegressor TimeRegressor::load(const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(read_file(path), nullptr, false);
  try {
    if (json.is_discarded() || !json.is_object()) throw ModelError("not a model file");
    const nlohmann::json& format = json_field(json, "format");
    if (format != model_format)
      throw ModelError(
          fmt::format("format {} is not known; this build reads format {}", shown(format.dump()), model_format));
    auto impl = std::make_unique<Impl>();
    impl->kind = json_text(json, "kind");
    const auto kind =
        std::find_if(all_kinds.begin(), all_kinds.end(), [&](const RegressorKind* k) { return k->name == impl->kind; });
    if (kind == all_kinds.end()) throw ModelError(fmt::format("kind \"{}\" is not known", shown(impl->kind)));
    const std::string set = json_text(json, "training_set");
    const auto [end, error] = std::from_chars(set.data(), set.data() + set.size(), impl->training_set_id, 16);
    if (error != std::errc() || end != set.data() + set.size())
      throw ModelError("field \"training_set\" is not a hexadecimal number");
    const auto texts = [](const nlohmann::json& object, const char* name) {
      std::set<std::string, std::less<>> out;
      const nlohmann::json& list = json_field(object, name);
      if (!list.is_array()) throw ModelError(fmt::format("field \"{}\" is not a list", name));
      for (const nlohmann::json& item : list) {
        if (!item.is_string()) throw ModelError(fmt::format("field \"{}\" is not a list of texts", name));
        out.insert(item.get<std::string>());
      }
      return out;
    };
    const Eigen::VectorXd times = json_vector(json, "times_sec");
    Eigen::Index place = 0;
    for (const std::string& key : texts(json, "keys")) {
      if (place == times.size()) break;
      impl->fitted_sec[key] = times[place++];
    }
    if (json_field(json, "keys").size() != impl->fitted_sec.size() || place != times.size()) {
      throw ModelError("field \"times_sec\" has not one time for each of the keys");
    }
    const nlohmann::json& groups = json_field(json, "groups");
    if (!groups.is_array() || groups.empty()) throw ModelError("field \"groups\" is not a list with an element");
    for (const nlohmann::json& part : groups) {
      Group& group = impl->groups.emplace_back();
      group.example = Workload::from_key(json_text(part, "example"));
      group.networks = texts(part, "networks");
      const nlohmann::json& ranges = json_field(part, "ranges");
      group.depth = range_from(ranges, "depth");
      group.base_filters = range_from(ranges, "base_filters");
      group.batch_size = range_from(ranges, "batch_size");
      group.sample = range_from(ranges, "sample");
      group.model = (*kind)->load(json_field(part, "model"));
    }
    impl->name_model();
    return TimeRegressor(std::move(impl));
  } catch (const Error& error) {
    throw ModelError(fmt::format("{}: {}", path, error.what()));
  }
}

Prediction TimeRegressor::predict(const Workload& workload) const {
  workload.validate();
  const std::shared_lock lock(impl_->mutex);
  const Group& group = impl_->group_of(workload);
  return impl_->finish(group, workload, group.model->predict(workload));
}

void TimeRegressor::predict(std::span<const Workload> workloads, std::span<Prediction> predictions) const {
  if (workloads.size() != predictions.size()) throw Error("predict: as many places as workloads are needed");
  for (const Workload& workload : workloads) workload.validate();
  const std::shared_lock lock(impl_->mutex);
  std::vector<Quantiles> quantiles;
  for (std::size_t begin = 0; begin < workloads.size();) {  // runs of one group go to its model together
    const Group& group = impl_->group_of(workloads[begin]);
    std::size_t end = begin + 1;
    while (end < workloads.size() && &impl_->group_of(workloads[end]) == &group) ++end;
    quantiles.resize(end - begin);
    group.model->predict(workloads.subspan(begin, end - begin), quantiles);
    for (std::size_t i = begin; i < end; ++i) predictions[i] = impl_->finish(group, workloads[i], quantiles[i - begin]);
    begin = end;
  }
}

std::vector<Prediction> TimeRegressor::predict(std::span<const Workload> workloads) const {
  std::vector<Prediction> predictions(workloads.size());
  predict(workloads, predictions);
  return predictions;
}

JointPrediction TimeRegressor::joint(std::span<const Workload> workloads) const {
  for (const Workload& workload : workloads) workload.validate();
  const std::shared_lock lock(impl_->mutex);
  const auto n = static_cast<Eigen::Index>(workloads.size());
  JointPrediction joint{std::vector<double>(workloads.size()),
                        std::vector<double>(workloads.size() * workloads.size())};
  Eigen::Map<Eigen::VectorXd> mean(joint.mean.data(), n);
  Eigen::Map<Eigen::MatrixXd> covariance(joint.covariance.data(), n, n);  // symmetric: rows and columns are the same
  for (const Group& group : impl_->groups) {                              // groups know nothing of one another
    std::vector<Eigen::Index> places;
    std::vector<Workload> mine;
    for (Eigen::Index i = 0; i < n; ++i) {
      const Workload& workload = workloads[static_cast<std::size_t>(i)];
      if (&impl_->group_of(workload) != &group) continue;
      places.push_back(i);
      mine.push_back(workload);
    }
    if (mine.empty()) continue;
    JointNormal part = group.model->joint(mine);
    // What nothing measured says anything of is off by one factor, the same for all of it.
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

std::vector<TimeTerm> TimeRegressor::breakdown(const Workload& workload) const {
  workload.validate();
  const std::shared_lock lock(impl_->mutex);
  return impl_->group_of(workload).model->breakdown(workload);
}

Observed TimeRegressor::observe(std::span<const Run> runs) {
  const std::unique_lock lock(impl_->mutex);
  Observed result;
  for (const Run& run : runs) {
    const std::string key = run.workload.key();
    const auto set_aside = [&](std::string_view reason) { result.set_aside.push_back({key, std::string(reason)}); };
    try {
      run.workload.validate();
      Aggregator one;  // a run's label and what disqualifies it are the aggregator's business
      one.add(run);
      const std::vector<AggregateRow> rows = one.rows();
      if (one.rejected() != 0) {
        one.for_each_rejected([&](const RejectedRun& rejected) { set_aside(to_string(rejected.reason)); });
        continue;
      }
      if (rows.empty() || !rows.front().avg_time_mean) {
        set_aside("no time");
        continue;
      }
      const auto group = std::find_if(impl_->groups.begin(), impl_->groups.end(), [&](const Group& candidate) {
        return same_group(candidate.example, run.workload);
      });
      if (group == impl_->groups.end()) {
        set_aside(to_string(impl_->group_of(run.workload).reason(run.workload)));
        continue;
      }
      if (const std::optional<std::string> reason = group->model->observe(rows.front())) {
        set_aside(*reason);
        continue;
      }
      group->cover(run.workload);
      impl_->fitted_sec[key] = *rows.front().avg_time_mean;
      impl_->training_set_id =
          fnv1a(fmt::format("{:016x}{}|{}", impl_->training_set_id, key, number_text(rows.front().avg_time_mean)));
      ++result.observed;
    } catch (const InputError& error) {
      if (impl_->kind != hybrid_kind.name) throw;  // it learns from no run
      set_aside(error.what());
    }
  }
  if (result.observed != 0) impl_->name_model();
  return result;
}

void TimeRegressor::save(const std::string& path) const {
  std::string text;
  {
    const std::shared_lock lock(impl_->mutex);
    text = impl_->to_json().dump(1) + "\n";
  }
  write_file(path, text);
}

const std::string& TimeRegressor::kind() const { return impl_->kind; }

bool TimeRegressor::was_fitted_on(const Workload& workload) const {
  const std::shared_lock lock(impl_->mutex);
  return impl_->fitted_sec.count(workload.key()) != 0;
}

std::vector<AggregateRow> TimeRegressor::fitted_rows() const {
  const std::shared_lock lock(impl_->mutex);
  std::vector<AggregateRow> rows;
  for (const auto& [key, sec] : impl_->fitted_sec) {
    AggregateRow& row = rows.emplace_back();
    row.workload = Workload::from_key(key);
    row.n = 1;
    row.avg_time_mean = sec;
  }
  return rows;
}

std::vector<SetAside> TimeRegressor::dropped() const {
  const std::shared_lock lock(impl_->mutex);
  std::vector<SetAside> all;
  for (const Group& group : impl_->groups) {
    for (SetAside& row : group.model->dropped()) all.push_back(std::move(row));
  }
  return all;
}

const Workload& TimeRegressor::example() const { return impl_->groups.front().example; }

}  // namespace perfpred
