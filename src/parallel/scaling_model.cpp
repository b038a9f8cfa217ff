// SPDX-License-Identifier: Apache-2.0
#include "parallel/scaling_model.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "statistics/confidence.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace scaling {

// Means and deviations were chosen with placements, networks and clusters left out of the measurements of Pollux (Qiao
// et al. 2021), Sia (Subramanya et al. 2023) and others (docs/notes/parallel.md). Times are milliseconds, sizes MB, so
// that bandwidths are GB/s.

/// What a step depends on; logarithms but for per_node.
enum Quantity : std::size_t {
  rate,       ///< of a device beside others, of its rate alone
  intra,      ///< links within a node, of their start value
  inter,      ///< links between nodes
  two_nodes,  ///< links between nodes where there are two alone
  per_node,   ///< what links between nodes lose by each doubling of the nodes beyond three
  latency,    ///< of an all-reduce, by each doubling of the devices, ms
  overhead,   ///< of a step on several devices, ms
  waiting,    ///< for the slowest of eight devices, as a share of a step of 100 ms
  overlap,    ///< share of a device's batch behind which an all-reduce can hide
  sharpness,  ///< power by which all-reduce and batch are joined
  quantities,
};
using Quantities = std::array<double, quantities>;

const Quantities means = {-0.04, 0, 0, -0.2, 0, std::log(0.05), 0, std::log(0.05), std::log(0.65), std::log(4)};

/// What rows share a deviation from the mean. A group is a network in a cluster in a precision.
enum class Level { all, cluster, network, group, batch };

struct Effect {
  Quantity of;
  Level level;
  double deviation;
  bool of_many = false;  ///< only of groups measured at several batches, which tell it from others
};
constexpr std::array effects = {Effect{rate, Level::cluster, 0.04},        Effect{rate, Level::network, 0.04},
                                Effect{rate, Level::group, 0.04},          Effect{rate, Level::batch, 0.08, true},
                                Effect{intra, Level::cluster, 0.7},        Effect{intra, Level::group, 0.2},
                                Effect{inter, Level::cluster, 0.7},        Effect{inter, Level::group, 0.2, true},
                                Effect{two_nodes, Level::cluster, 0.3},    Effect{per_node, Level::cluster, 0.25},
                                Effect{per_node, Level::group, 0.1, true}, Effect{latency, Level::cluster, 0.7},
                                Effect{overhead, Level::cluster, 1.0},     Effect{waiting, Level::all, 0.5},
                                Effect{waiting, Level::network, 1.0},      Effect{waiting, Level::group, 0.5, true},
                                Effect{overlap, Level::all, 0.2},          Effect{overlap, Level::network, 0.15},
                                Effect{sharpness, Level::all, 0.3}};

constexpr std::size_t many_batches = 3;
/// Of a measured all-reduce training gets so much, and of a nominal link: start values.
constexpr double of_measured = 0.45, of_nominal_intra = 0.35, of_nominal_inter = 0.2;
constexpr double measured_deviation = 0.4;  ///< of the logarithm of a measured link
/// Nominal GB/s where nobody says: PCIe 3 and 50 Gb/s Ethernet, NVLink and 100 Gb/s InfiniBand.
constexpr std::pair<double, double> plain_links = {8, 6.25}, fast_links = {60, 12.5};

/// A row without names: what the formula reads.
struct Facts {
  double log_one_ms = 0;  ///< of a batch on one device
  double accumulate = 1, megabytes = 0, devices = 1, most = 1, nodes = 1;
  double intra = 0, inter = 0;  ///< start values, GB/s
  bool measured_intra = false, measured_inter = false;
  bool modelled = false;     ///< a model says what one device takes (ScalingRow::one_device_sec)
  bool without_one = false;  ///< no step of one device is known: that of the fewest devices stands for it
};

/// Of a step, ms.
struct StepParts {
  double batches = 0, wait = 0, exposed = 0, overhead = 0;
  double latency = 0, links = 0;  ///< of the all-reduce, whether or not it is hidden

  [[nodiscard]] double sum() const { return batches + wait + exposed + overhead; }
};

StepParts step_parts(const Quantities& q, const Facts& row) {
  constexpr double usual_ms = 100, less_waiting = 0.12;  // the longer a step, the less of it is waited
  const double batch = std::exp(row.log_one_ms + q[rate]);
  const double doublings = std::log2(row.devices);
  const double wait = batch * std::exp(q[waiting]) * doublings / 3 * std::pow(batch / usual_ms, -less_waiting);
  const double between =
      q[inter] + (row.nodes == 2 ? q[two_nodes] : 0) - q[per_node] * std::log2(std::max(row.nodes, 3.0) / 3);
  const double within_ms = row.most > 1 ? row.megabytes / (row.intra * std::exp(q[intra])) : 0;
  const double between_ms = row.nodes > 1 ? row.megabytes / (row.inter * std::exp(between)) : 0;
  const double links = std::hypot(within_ms, between_ms), delay = std::exp(q[latency]) * doublings;
  const double reduce = links + delay;
  const double exposed = exposed_sec(reduce, std::exp(q[overlap]) * batch, std::exp(q[sharpness]));
  return {row.accumulate * batch, wait, exposed, std::exp(q[overhead]), delay, links};
}

double log_step(const Quantities& q, const Facts& row) { return std::log(step_parts(q, row).sum()); }

Quantities slopes_of(const Quantities& q, const Facts& row, double log_ms) {
  constexpr double step = 1e-4;
  Quantities slopes{};
  for (std::size_t i = 0; i < quantities; ++i) {
    Quantities moved = q;
    moved[i] += step;
    slopes[i] = (log_step(moved, row) - log_ms) / step;
  }
  return slopes;
}

/// How the logarithm of the step moves with that of the time of its all-reduce.
double share_of_links(const Quantities& q, const Facts& row) {
  constexpr double step = 1e-3, least = 0.06;
  Quantities slower = q;
  slower[intra] -= step;
  slower[inter] -= step;
  return std::max((log_step(slower, row) - log_step(q, row)) / step, least);
}

/// Milliseconds of a batch on one device, by batch size.
class OneDevice {
 public:
  void add(std::int64_t batch, double ms) { measured_[batch].push_back(ms); }

  [[nodiscard]] double log_ms(std::int64_t batch) const {
    std::vector<std::pair<double, double>> points;  // logarithms
    for (const auto& [size, times] : measured_)
      points.emplace_back(std::log(static_cast<double>(size)), std::log(median(times)));
    const double x = std::log(static_cast<double>(batch));
    constexpr double slope_of_one = 0.9, least_beyond = 0.5;
    if (points.size() == 1) return points[0].second + slope_of_one * (x - points[0].first);
    const auto slope = [&](std::size_t a, std::size_t b) {
      return std::clamp((points[b].second - points[a].second) / (points[b].first - points[a].first), 0.0, 1.0);
    };
    const std::size_t last = points.size() - 1, near = std::min<std::size_t>(2, last);
    if (x < points[0].first) return points[0].second + slope(0, near) * (x - points[0].first);
    if (x > points[last].first)
      return points[last].second + std::max(least_beyond, slope(last - near, last)) * (x - points[last].first);
    std::size_t i = 0;
    while (i + 1 < last && x > points[i + 1].first) ++i;
    const double share = (x - points[i].first) / (points[i + 1].first - points[i].first);
    return points[i].second * (1 - share) + points[i + 1].second * share;
  }

 private:
  std::map<std::int64_t, std::vector<double>> measured_;
};

using GroupName = std::tuple<std::string, std::string, std::string>;  // cluster, network, precision

GroupName group_of(const ScalingRow& row) { return {row.cluster, row.network, row.precision}; }

/// What is known of a group from the rows that were learnt from.
struct KnownGroup {
  std::set<std::int64_t> batches;
  std::set<std::string> placements;
  std::size_t rows = 0;
  std::int64_t most_devices = 0;
  double scale = 1;  ///< of its rows' scatter
};

bool is_linked_fast(const ScalingRow& row) {
  return row.gpu.find("SXM") != std::string::npos || row.gpu.find("NVL") != std::string::npos;
}

/// Scatter of rows about the model, before a group's scale.
double scatter(double of_links) { return std::hypot(0.022, 0.13 * of_links); }

/// Between two values in proportion: groups have few rows.
double quantile90(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double at = 0.9 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

struct Fitted {
  Links links;
  std::map<GroupName, OneDevice> alone;
  std::set<GroupName> without_one;  ///< Facts::without_one
  std::map<GroupName, KnownGroup> groups;
  std::map<std::pair<std::size_t, std::string>, Eigen::Index> places;  ///< of parameters, by effect and key
  std::vector<double> deviations;
  Eigen::VectorXd parameters;
  Eigen::MatrixXd covariance;
  double scale = 1;  ///< KnownGroup::scale of groups without rows

  /// A row with the places of its parameters, one for each effect; -1 where it has none.
  struct Line {
    Facts facts;
    std::array<Eigen::Index, effects.size()> at{};
    double log_ms = 0, weight = 1;
  };

  [[nodiscard]] std::optional<Facts> facts_of(const ScalingRow& row) const;
  [[nodiscard]] Facts facts_of(const ScalingRow& row, double log_one_ms, const Links& of_cluster) const;
  /// Of a row whose time on one device a model says.
  [[nodiscard]] Facts modelled_facts_of(const ScalingRow& row, const Links& of_cluster) const;
  [[nodiscard]] ScalingEstimate estimate(const ScalingRow& asked, const Facts& facts) const;
  [[nodiscard]] double deviation_of(std::size_t effect, const Facts& facts) const;
  [[nodiscard]] std::string key_of(const Effect& effect, const ScalingRow& row) const;
  [[nodiscard]] std::array<Eigen::Index, effects.size()> places_of(const ScalingRow& row) const;
  void add_places(const ScalingRow& row, const Facts& facts);
  [[nodiscard]] Quantities quantities_of(const Line& line, const Eigen::VectorXd& at) const;

  void learn_one_device(std::span<const ScalingRow* const> rows);
  void scale_scatter(std::span<const ScalingRow* const> rows, const std::vector<Line>& lines);
};

void Fitted::learn_one_device(std::span<const ScalingRow* const> rows) {
  constexpr double slower_by_doubling = 0.05;  // of several devices, as a start
  std::map<GroupName, std::int64_t> fewest;
  for (const ScalingRow* row : rows) {
    if (row->one_device_sec > 0) continue;
    std::int64_t& devices = fewest.emplace(group_of(*row), row->devices()).first->second;
    devices = std::min(devices, row->devices());
  }
  for (const ScalingRow* row : rows) {
    const GroupName group = group_of(*row);
    const std::int64_t devices = row->one_device_sec > 0 ? 0 : fewest.at(group);
    if (row->devices() != devices) continue;
    if (devices > 1) without_one.insert(group);
    const double slower = 1 + slower_by_doubling * std::log2(static_cast<double>(devices));
    alone[group].add(row->local_batch, 1e3 * row->step_sec / (static_cast<double>(row->accumulate) * slower));
  }
}

Facts Fitted::modelled_facts_of(const ScalingRow& row, const Links& of_cluster) const {
  const double batch_ms = 1e3 * row.one_device_sec / static_cast<double>(row.accumulate);
  // The rate is that of devices beside those that were measured alone, whose steps have an extra
  // (docs/notes/parallel.md).
  Facts facts = facts_of(row, std::log(batch_ms) - means[rate], of_cluster);
  facts.modelled = groups.contains(group_of(row));
  return facts;
}

std::optional<Facts> Fitted::facts_of(const ScalingRow& row) const {
  if (row.one_device_sec > 0) return modelled_facts_of(row, links);
  const auto one = alone.find(group_of(row));
  if (one == alone.end()) return std::nullopt;
  Facts facts = facts_of(row, one->second.log_ms(row.local_batch), links);
  facts.without_one = without_one.contains(group_of(row));
  return facts;
}

/// @param log_one_ms  of a batch on one device
Facts Fitted::facts_of(const ScalingRow& row, double log_one_ms, const Links& of_cluster) const {
  const std::int64_t most = row.placement.fullest(), nodes = row.placement.node_count();
  Facts facts;
  facts.log_one_ms = log_one_ms;
  facts.accumulate = static_cast<double>(row.accumulate);
  facts.devices = static_cast<double>(row.devices());
  facts.most = static_cast<double>(most);
  facts.nodes = static_cast<double>(nodes);
  facts.megabytes = row.gradient_bytes * 1e-6 * 2 * (facts.devices - 1) / facts.devices;  // of a ring
  const auto [within, between] = is_linked_fast(row) ? fast_links : plain_links;
  facts.intra = within * of_nominal_intra;
  facts.inter = between * of_nominal_inter;
  const auto take = [&](LinkScope scope, std::int64_t gpus, std::int64_t of_nodes, double of_nominal, double& start,
                        bool& measured) {
    const auto link = of_cluster.find(row.cluster, scope, gpus, of_nodes);
    if (!link) return;
    measured = link->source != "spec";
    start = link->bus_gb_s * (measured ? of_measured : of_nominal);
  };
  take(LinkScope::intra, most, 1, of_nominal_intra, facts.intra, facts.measured_intra);
  take(LinkScope::inter, row.devices(), nodes, of_nominal_inter, facts.inter, facts.measured_inter);
  return facts;
}

double Fitted::deviation_of(std::size_t effect, const Facts& facts) const {
  const Effect& one = effects.at(effect);
  constexpr double deviation_without_one = 0.25;
  constexpr double deviation_of_model = 0.5;  // of a device that nobody measured, or of which each rank has a share
  if (one.of == rate && one.level == Level::group && facts.modelled) return deviation_of_model;
  if (one.of == rate && one.level == Level::group && facts.without_one) return deviation_without_one;
  const bool measured = (one.of == intra && facts.measured_intra) || (one.of == inter && facts.measured_inter);
  return measured && one.level == Level::cluster ? measured_deviation : one.deviation;
}

/// Empty where the row has no such effect.
std::string Fitted::key_of(const Effect& effect, const ScalingRow& row) const {
  if (effect.of_many) {
    const auto group = groups.find(group_of(row));
    if (group == groups.end() || group->second.batches.size() < many_batches) return {};
  }
  std::string group = row.cluster + '\n' + row.network + '\n' + row.precision;
  switch (effect.level) {
    case Level::all:
      return "all";
    case Level::cluster:
      return "cluster " + row.cluster;
    case Level::network:
      return "network " + row.network;
    case Level::group:
      return group;
    default:
      return group + '\n' + std::to_string(row.local_batch);
  }
}

std::array<Eigen::Index, effects.size()> Fitted::places_of(const ScalingRow& row) const {
  std::array<Eigen::Index, effects.size()> at{};
  for (std::size_t i = 0; i < effects.size(); ++i) {
    const auto found = places.find({i, key_of(effects.at(i), row)});
    at.at(i) = found == places.end() ? -1 : found->second;
  }
  return at;
}

void Fitted::add_places(const ScalingRow& row, const Facts& facts) {
  for (std::size_t i = 0; i < effects.size(); ++i) {
    std::string key = key_of(effects.at(i), row);
    if (key.empty()) continue;
    const auto place = static_cast<Eigen::Index>(deviations.size());
    if (places.emplace(std::pair(i, std::move(key)), place).second) deviations.push_back(deviation_of(i, facts));
  }
}

Quantities Fitted::quantities_of(const Line& line, const Eigen::VectorXd& at) const {
  Quantities q = means;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    if (line.at.at(i) >= 0) q.at(effects.at(i).of) += at[line.at.at(i)];
  }
  return q;
}

/// The scatter of rows in the fit: alike at first, then by how much each depends on its links.
constexpr double first_scatter = 0.05;
double fit_scatter(double of_links) { return std::hypot(0.04, 0.1 * of_links); }

/// The fit: the posterior of the parameters is greatest, by Levenberg and Marquardt's method. Errors count by their
/// square while they are small, else by their size (pseudo-Huber).
class Fitting {
 public:
  Fitting(Fitted& fitted, const std::vector<Fitted::Line>& lines)
      : fitted_(fitted),
        lines_(lines),
        n_(static_cast<Eigen::Index>(fitted.deviations.size())),
        precision_(Eigen::Map<const Eigen::ArrayXd>(fitted.deviations.data(), n_).square().inverse().matrix()),
        noise_(lines.size(), first_scatter),
        curvature_(n_, n_) {
    fitted_.parameters = Eigen::VectorXd::Zero(n_);
    run();
    fitted_.covariance = curvature_.llt().solve(Eigen::MatrixXd::Identity(n_, n_));
  }

 private:
  void run() {
    constexpr int most_steps = 25, even_steps = 4, least_steps = 7;
    double now = value_at(fitted_.parameters);
    bool is_by_links = false;
    for (int step = 0; step < most_steps; ++step) {
      if (step >= even_steps && !is_by_links) {
        is_by_links = true;
        set_noise();
        now = value_at(fitted_.parameters);
      }
      find_curvature();
      const std::optional<double> next = move_from(now);
      if (!next && is_by_links) return;
      if (!next) step = even_steps - 1;  // the rows' own scatter comes next
      const double gain = now - next.value_or(now);
      now -= gain;
      if (is_by_links && gain < 2e-3 * std::max(1.0, now / 100) && step + 1 >= least_steps) return;
    }
  }

  [[nodiscard]] double error_of(std::size_t row, const Eigen::VectorXd& at) const {
    const Fitted::Line& line = lines_[row];
    return (line.log_ms - log_step(fitted_.quantities_of(line, at), line.facts)) / noise_[row];
  }

  [[nodiscard]] double value_at(const Eigen::VectorXd& at) const {
    double value = at.cwiseAbs2().dot(precision_);
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const double error = error_of(i, at);
      value += lines_[i].weight * 2 * (std::sqrt(1 + error * error) - 1);
    }
    return value;
  }

  void set_noise() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      noise_[i] = fit_scatter(share_of_links(fitted_.quantities_of(lines_[i], fitted_.parameters), lines_[i].facts));
    }
  }

  /// A row has few parameters, so its part of the curvature has few entries.
  void find_curvature() {
    curvature_ = precision_.asDiagonal();
    slope_ = -(precision_.array() * fitted_.parameters.array()).matrix();
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const Fitted::Line& line = lines_[i];
      const Quantities q = fitted_.quantities_of(line, fitted_.parameters);
      const Quantities slopes = slopes_of(q, line.facts, log_step(q, line.facts));
      const double error = error_of(i, fitted_.parameters);
      const double weight = line.weight / std::sqrt(1 + error * error) / (noise_[i] * noise_[i]);
      for (std::size_t a = 0; a < effects.size(); ++a) {
        if (line.at.at(a) < 0) continue;
        const double of_a = slopes.at(effects.at(a).of) * weight;
        slope_[line.at.at(a)] += of_a * error * noise_[i];
        for (std::size_t b = 0; b < effects.size(); ++b) {
          if (line.at.at(b) >= 0) curvature_(line.at.at(a), line.at.at(b)) += of_a * slopes.at(effects.at(b).of);
        }
      }
    }
  }

  /// Moves to a better place, and says its value; nothing if none was found.
  std::optional<double> move_from(double now) {
    constexpr int most_tries = 8;
    for (int tries = 0; tries < most_tries; ++tries, damping_ *= 5) {
      Eigen::MatrixXd damped = curvature_;
      damped.diagonal() *= 1 + damping_;
      const Eigen::VectorXd move = damped.llt().solve(slope_);
      const Eigen::VectorXd moved = fitted_.parameters + move / std::max(1.0, move.cwiseAbs().maxCoeff());
      const double next = value_at(moved);
      if (next >= now) continue;
      fitted_.parameters = moved;
      damping_ = std::max(damping_ / 5, 1e-9);
      return next;
    }
    return std::nullopt;
  }

  Fitted& fitted_;
  const std::vector<Fitted::Line>& lines_;
  Eigen::Index n_;
  Eigen::VectorXd precision_;
  std::vector<double> noise_;  // scatter of each row
  Eigen::MatrixXd curvature_;
  Eigen::VectorXd slope_;
  double damping_ = 1e-3;
};

void Fitted::scale_scatter(std::span<const ScalingRow* const> rows, const std::vector<Line>& lines) {
  constexpr std::size_t many_rows = 20;
  constexpr double pooled_rows = 15;  // what all groups say counts as so many rows of one
  std::map<GroupName, std::vector<double>> by_group;
  std::vector<double> all;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Quantities q = quantities_of(lines[i], parameters);
    const double error = std::abs(lines[i].log_ms - log_step(q, lines[i].facts));
    all.push_back(error / scatter(share_of_links(q, lines[i].facts)));
    by_group[group_of(*rows[i])].push_back(all.back());
  }
  if (all.empty()) return;
  std::vector<double> of_many;
  for (auto& [name, errors] : by_group) {
    groups.at(name).scale = quantile90(errors) / z90;
    if (errors.size() >= many_rows) of_many.push_back(groups.at(name).scale);
  }
  scale = of_many.empty() ? quantile90(all) / z90 : median(of_many);
  const auto rows_of_all = static_cast<double>(all.size());
  scale = std::sqrt((rows_of_all * scale * scale + pooled_rows) / (rows_of_all + pooled_rows));
  for (auto& [name, errors] : by_group) {
    double& own = groups.at(name).scale;
    const auto n = static_cast<double>(errors.size());
    own = std::sqrt((n * own * own + pooled_rows * scale * scale) / (n + pooled_rows));
  }
}

ScalingEstimate Fitted::estimate(const ScalingRow& asked, const Facts& facts) const {
  const double one_sec = 1e-3 * facts.accumulate * std::exp(facts.log_one_ms);
  if (asked.devices() == 1) return ScalingEstimate{std::log(one_sec), 0, one_sec};
  const Line line = {facts, places_of(asked)};
  const Quantities q = quantities_of(line, parameters);
  const StepParts parts = step_parts(q, facts);
  const double log_ms = std::log(parts.sum());
  const Quantities slopes = slopes_of(q, facts, log_ms);
  double variance = 0;
  for (std::size_t a = 0; a < effects.size(); ++a) {
    const double of_a = slopes.at(effects.at(a).of);
    if (line.at.at(a) < 0) {
      variance += std::pow(of_a * deviation_of(a, facts), 2);
      continue;
    }
    for (std::size_t b = 0; b < effects.size(); ++b) {
      if (line.at.at(b) >= 0) variance += of_a * slopes.at(effects.at(b).of) * covariance(line.at.at(a), line.at.at(b));
    }
  }
  const double of_links = share_of_links(q, facts);
  const auto group = groups.find(group_of(asked));
  const bool is_known = group != groups.end();
  variance += std::pow((is_known ? group->second.scale : scale) * scatter(of_links), 2);
  if (is_known) {
    constexpr double beyond = 0.08;  // of the logarithm of the links, by each doubling of the devices
    const double doublings = std::log2(std::max(1.0, facts.devices / static_cast<double>(group->second.most_devices)));
    variance += std::pow(beyond * of_links * doublings, 2);
    variance *= 1 + 2.0 / static_cast<double>(group->second.rows + 1);
    constexpr double other_batch =
        0.08;  // as Level::batch: what a model of one device says of batches beside each other
    if (asked.one_device_sec > 0 && !group->second.batches.contains(asked.local_batch))
      variance += std::pow(other_batch, 2);
  }
  ScalingEstimate estimate{log_ms - std::log(1e3), z90 * std::sqrt(variance), one_sec};
  estimate.exposed_sec = 1e-3 * parts.exposed;
  estimate.reduce_sec = 1e-3 * (parts.links + parts.latency);
  if (parts.links > 0) estimate.critical_bytes = asked.gradient_bytes * parts.latency / parts.links;
  estimate.is_measured = is_known;
  estimate.is_placement_measured = is_known && group->second.placements.contains(asked.placement.text());
  return estimate;
}

}  // namespace scaling

ScalingModel ScalingModel::fit(std::span<const ScalingRow* const> rows, Links links) {
  using namespace scaling;
  constexpr double most_weight = 120;  // rows that a group counts as
  auto fitted = std::make_shared<Fitted>();
  fitted->links = std::move(links);
  fitted->learn_one_device(rows);
  std::vector<const ScalingRow*> of_several;
  for (const ScalingRow* row : rows) {
    if (row->devices() == 1) continue;
    of_several.push_back(row);
    KnownGroup& group = fitted->groups[group_of(*row)];
    group.batches.insert(row->local_batch);
    group.placements.insert(row->placement.text());
    group.most_devices = std::max(group.most_devices, row->devices());
    ++group.rows;
  }
  std::vector<Fitted::Line> lines;
  for (const ScalingRow* row : of_several) {
    Fitted::Line& line = lines.emplace_back();
    line.facts = *fitted->facts_of(*row);
    fitted->add_places(*row, line.facts);
    line.at = fitted->places_of(*row);
    line.log_ms = std::log(1e3 * row->step_sec);
    line.weight = std::min(1.0, most_weight / static_cast<double>(fitted->groups.at(group_of(*row)).rows));
  }
  if (!lines.empty()) const Fitting fitting(*fitted, lines);
  fitted->scale_scatter(of_several, lines);
  return ScalingModel(std::move(fitted));
}

bool ScalingModel::knows(std::string_view cluster) const {
  return std::ranges::any_of(fitted_->groups, [&](const auto& group) { return std::get<0>(group.first) == cluster; });
}

std::optional<ScalingEstimate> ScalingModel::predict(const ScalingRow& asked) const {
  const std::optional<scaling::Facts> facts = fitted_->facts_of(asked);
  return facts ? std::optional(fitted_->estimate(asked, *facts)) : std::nullopt;
}

ScalingEstimate ScalingModel::predict(const ScalingRow& asked, const Links& links) const {
  return fitted_->estimate(asked, fitted_->modelled_facts_of(asked, links));
}

ScalingModel::ScalingModel(std::shared_ptr<const scaling::Fitted> fitted) : fitted_(std::move(fitted)) {}

}  // namespace perfpred
