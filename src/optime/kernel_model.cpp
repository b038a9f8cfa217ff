// SPDX-License-Identifier: Apache-2.0
#include "optime/kernel_model.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "optime/interval_widths.h"
#include "optime/map_fit.h"
#include "statistics/confidence.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

constexpr std::size_t rows_of_device = 400, rows_of_trees = 6000, min_tree_rows = 150;
constexpr int fit_steps = 25;

constexpr double long_call_sec = 1e-4;  // shorter calls say more about timers than about kernels
// Weights of rows; docs/notes/optime.md, What was worth how much and Without gain.
constexpr double network_shape_weight = 3, least_weight = 0.1, small_half_weight = 0.3, other_vendor_weight = 0.03;

// Half widths of 90 % intervals of log time; docs/notes/optime.md, Intervals.
constexpr double least_width = 0.02;
constexpr double probe_noise = 0.12;       // MapProblem::noise of a probe
constexpr double device_width_rows = 1.5;  // rows of a probe that halve the square of what is left of device_width
// Of kernels of a class without a model, by their bytes at a share of the bandwidth. Taken, not fitted.
constexpr double unmodelled_device_width = 0.2, unmodelled_width = 0.3, unmodelled_bandwidth = 0.75;

/// Up to `count` of the rows, chosen by a fixed seed.
std::vector<const OpRow*> some_of(std::vector<const OpRow*> rows, std::size_t count) {
  if (rows.size() <= count) return rows;
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < count; ++i) std::swap(rows[i], rows[i + random() % (rows.size() - i)]);
  rows.resize(count);
  return rows;
}

/// Rows of networks' shapes count threefold. Libraries of another vendor have kernels of their own: beside NVIDIA's
/// devices, theirs hardly move what all devices share.
double weight_of(const OpRow& row, KernelFamily family, bool mixed) {
  const Kernel& k = row.kernel;
  if (mixed && family == KernelFamily::cdna) return other_vendor_weight;
  if (k.kind == KernelClass::gemm_bf16) return k.m >= 512 && k.n >= 256 && k.k >= 256 ? 1 : small_half_weight;
  return (row.test ? network_shape_weight : 1) * std::clamp(row.sec / long_call_sec, least_weight, 1.0);
}

using ByDevice = std::map<std::string, std::vector<const OpRow*>>;

ByDevice by_device(const std::vector<const OpRow*>& rows) {
  ByDevice groups;
  for (const OpRow* row : rows) groups[row->gpu].push_back(row);
  return groups;
}

DeviceEffects sum_of(const DeviceEffects& a, const DeviceEffects& b) {
  DeviceEffects sum{};
  for (std::size_t i = 0; i < max_effects; ++i) sum[i] = a[i] + b[i];
  return sum;
}

double log_time(const KernelModel& model, const DeviceEffects& effects, const Kernel& kernel,
                const Hardware& hardware) {
  return formula(model.kind).log_time(model.parameters.data(), effects, kernel, hardware);
}

/// The joint fit of parameters, family effects and device effects, in this order.
class JointFit {
 public:
  JointFit(KernelClass kind, const ByDevice& groups, const std::map<std::string, Hardware>& gpus)
      : form_(formula(kind)), parameters_(form_.parameters.size()), effects_(form_.effects.size()) {
    for (const auto& [name, rows] : groups) {
      const Hardware& hardware = gpus.at(name);
      const auto family =
          static_cast<std::size_t>(std::find(families_.begin(), families_.end(), hardware.family) - families_.begin());
      if (family == families_.size()) families_.push_back(hardware.family);
      std::vector<const OpRow*> train, test;
      for (const OpRow* row : rows) (row->test ? test : train).push_back(row);
      for (const auto& part : {some_of(std::move(train), rows_of_device), some_of(std::move(test), rows_of_device)}) {
        for (const OpRow* row : part) samples_.push_back({row, &hardware, family, devices_.size()});
      }
      devices_.push_back(name);
    }
  }

  /// Fits; the model's parameters, families and devices (effects only) are set.
  void into(KernelModel& model, const std::map<std::string, Hardware>& gpus) const {
    std::vector<NormalPrior> priors;
    for (const KernelParameter& parameter : form_.parameters) priors.push_back({parameter.mean, parameter.deviation});
    for (std::size_t g = 0; g < families_.size() + devices_.size(); ++g) {
      for (const KernelEffect& effect : form_.effects)
        priors.push_back({0, g < families_.size() ? effect.family_deviation : effect.device_deviation});
    }
    MapProblem problem(priors, samples_.size());
    problem.knee = form_.knee;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      problem.measured[at(i)] = std::log(samples_[i].row->sec);
      problem.weight[at(i)] = weight_of(*samples_[i].row, samples_[i].hardware->family, families_.size() > 1);
    }
    problem.predict = [this](const Eigen::VectorXd& x, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) {
      predict(x, predicted, slopes);
    };
    const Eigen::VectorXd x = fit_map(problem, fit_steps);
    model.parameters.assign(x.data(), x.data() + parameters_);
    model.families.clear();
    model.devices.clear();
    for (std::size_t f = 0; f < families_.size(); ++f) model.families[families_[f]] = effects_at(x, f);
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      KnownDevice& device = model.devices[devices_[d]];
      device.family = gpus.at(devices_[d]).family;
      device.effects = sum_of(model.families[device.family], effects_at(x, families_.size() + d));
    }
  }

 private:
  struct Sample {
    const OpRow* row;
    const Hardware* hardware;
    std::size_t family, device;
  };

  static Eigen::Index at(std::size_t i) { return static_cast<Eigen::Index>(i); }

  [[nodiscard]] DeviceEffects effects_at(const Eigen::VectorXd& x, std::size_t group) const {
    DeviceEffects effects{};
    for (std::size_t e = 0; e < effects_; ++e) effects[e] = x[at(parameters_ + group * effects_ + e)];
    return effects;
  }

  void predict(const Eigen::VectorXd& x, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) const {
    constexpr double step = difference_step;
    std::vector<double> p(x.data(), x.data() + parameters_);
    if (slopes != nullptr) slopes->setZero();
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const Sample& sample = samples_[i];
      const std::size_t device = families_.size() + sample.device;
      DeviceEffects effects = sum_of(effects_at(x, sample.family), effects_at(x, device));
      const auto value = [&] { return form_.log_time(p.data(), effects, sample.row->kernel, *sample.hardware); };
      const double base = value();
      predicted[at(i)] = base;
      if (slopes == nullptr) continue;
      for (std::size_t j = 0; j < parameters_; ++j) {
        const double kept = p[j];
        p[j] += step;
        (*slopes)(at(i), at(j)) = (value() - base) / step;
        p[j] = kept;
      }
      for (std::size_t e = 0; e < effects_; ++e) {
        const double kept = effects[e];
        effects[e] += step;
        const double slope = (value() - base) / step;
        effects[e] = kept;
        (*slopes)(at(i), at(parameters_ + sample.family * effects_ + e)) = slope;
        (*slopes)(at(i), at(parameters_ + device * effects_ + e)) = slope;
      }
    }
  }

  const KernelFormula& form_;
  std::size_t parameters_, effects_;
  std::vector<KernelFamily> families_;
  std::vector<std::string> devices_;
  std::vector<Sample> samples_;
};

/// Half width of the 90 % interval about the median, as seen in values: from the 90 % quantile of their distances.
double spread_of(const std::vector<double>& values) {
  if (values.empty()) return 0;
  const double middle = median(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return quantile(std::move(distances), 0.9);
}

double widest_row(const std::vector<const OpRow*>& rows) {
  double widest = 1;
  for (const OpRow* row : rows) widest = std::max(widest, row->kernel.n);
  return widest;
}

/// Residuals of the calls that are long enough to matter in a network; of all where those are few.
std::vector<double> of_long_calls(const std::vector<const OpRow*>& rows, const std::vector<double>& residuals) {
  constexpr std::size_t few = 30;
  std::vector<double> chosen;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]->sec > long_call_sec || rows[i]->kernel.kind == KernelClass::gemm_bf16) chosen.push_back(residuals[i]);
  }
  return chosen.size() < few ? residuals : chosen;
}

std::vector<double> residuals_of(const KernelModel& model, const DeviceEffects& effects,
                                 const std::vector<const OpRow*>& rows, const Hardware& hardware) {
  std::vector<double> residuals;
  residuals.reserve(rows.size());
  for (const OpRow* row : rows)
    residuals.push_back(std::log(row->sec) - log_time(model, effects, row->kernel, hardware));
  return residuals;
}

/// Takes away a device's rows of a split that are e^0.5 times slower than its family's: real devices differ by less.
/// @returns what was taken away: `P4 (train)`
std::set<std::string> remove_throttled(const KernelModel& model, const std::map<std::string, Hardware>& gpus,
                                       ByDevice& groups) {
  constexpr double throttled = 0.5;
  std::set<std::string> removed;
  for (auto& [name, rows] : groups) {
    const Hardware& hardware = gpus.at(name);
    for (const bool test : {false, true}) {
      std::vector<const OpRow*> part;
      std::copy_if(rows.begin(), rows.end(), std::back_inserter(part), [&](const OpRow* r) { return r->test == test; });
      if (part.empty()) continue;
      const auto residuals = residuals_of(model, model.families.at(hardware.family), part, hardware);
      if (median(of_long_calls(part, residuals)) < throttled) continue;
      removed.insert(fmt::format("{} ({})", name, test ? "test" : "train"));
      std::erase_if(rows, [&](const OpRow* r) { return r->test == test; });
    }
  }
  std::erase_if(groups, [](const auto& group) { return group.second.empty(); });
  return removed;
}

/// remove_throttled() for classes whose first effect is computing. Returns whether rows were removed; not if half of
/// the devices would be.
bool set_aside_throttled(KernelModel& model, const std::map<std::string, Hardware>& gpus, ByDevice& groups) {
  const std::size_t before = groups.size();
  if (formula(model.kind).effects[0].name != std::string_view("compute") || before <= 2) return false;
  std::set<std::string> removed = remove_throttled(model, gpus, groups);
  if (removed.empty() || 2 * groups.size() < before) return false;
  model.set_aside = std::move(removed);
  return true;
}

}  // namespace

double KernelEstimate::half_width() const { return std::hypot(device_width, within_width); }

KernelModel KernelModel::fit(KernelClass kind, const std::vector<const OpRow*>& rows,
                             const std::map<std::string, Hardware>& gpus, bool own_trees) {
  KernelModel model;
  model.kind = kind;
  ByDevice groups = by_device(rows);
  JointFit(kind, groups, gpus).into(model, gpus);

  if (ByDevice kept = groups; set_aside_throttled(model, gpus, kept)) {
    groups = std::move(kept);
    JointFit(kind, groups, gpus).into(model, gpus);
  }

  std::vector<double> widths, centres, shared_residuals;
  std::vector<KernelFeatures> shared_features;
  for (auto& [name, device] : model.devices) {
    const Hardware& hardware = gpus.at(name);
    const std::vector<const OpRow*> known = some_of(groups.at(name), rows_of_trees);
    const std::vector<double> residuals = residuals_of(model, device.effects, known, hardware);
    device.rows = groups.at(name).size();
    device.widest_row = widest_row(groups.at(name));
    device.spread = std::max(least_width, spread_of(of_long_calls(known, residuals)));
    widths.push_back(device.spread);
    device.spread += formula(kind).long_row_width / 2;
    centres.push_back(median(residuals_of(model, model.families.at(device.family), known, hardware)));
    const bool shared = formula(kind).shares_residual;
    if (known.size() < min_tree_rows || !(own_trees || shared)) continue;
    std::vector<KernelFeatures> features;
    for (const OpRow* row : known) features.push_back(features_of(row->kernel, hardware));
    if (own_trees) device.trees = ResidualTrees::fit(features, residuals);
    const double centre = median(residuals);
    for (std::size_t i = 0; shared && i < known.size(); ++i) {
      shared_features.push_back(features[i]);
      shared_residuals.push_back(residuals[i] - centre);
    }
  }
  if (!shared_residuals.empty()) model.shared_trees = ResidualTrees::fit(shared_features, shared_residuals);
  model.within_width = median(widths);
  double squares = 0;
  for (const double centre : centres) squares += centre * centre;
  const double n = static_cast<double>(centres.size());
  model.device_width =
      centres.size() < 2 ? unknown_half_width : std::sqrt(squares / (n - 1)) * student_quantile(z90, n - 1);
  return model;
}

DeviceEffects KernelModel::effects_on(const Hardware& device) const {
  if (const auto known = devices.find(device.name); known != devices.end()) return known->second.effects;
  const auto family = families.find(device.family);
  return family == families.end() ? DeviceEffects{} : family->second;
}

const ResidualTrees& KernelModel::trees_on(const Hardware& device) const {
  const auto known = devices.find(device.name);
  return known != devices.end() && !known->second.trees.trees().empty() ? known->second.trees : shared_trees;
}

void KernelModel::probe(const Hardware& hardware, const std::vector<const OpRow*>& rows) {
  if (rows.empty()) return;
  const KernelFormula& form = formula(kind);
  const bool was_known = devices.contains(hardware.name);
  const DeviceEffects base = effects_on(hardware);
  const ResidualTrees& trees = trees_on(hardware);
  const auto at = [](std::size_t i) { return static_cast<Eigen::Index>(i); };
  std::vector<NormalPrior> priors;
  for (const KernelEffect& effect : form.effects) priors.push_back({0, effect.probe_deviation});
  MapProblem problem(priors, rows.size());
  problem.noise = probe_noise;
  for (std::size_t i = 0; i < rows.size(); ++i)
    problem.measured[at(i)] = std::log(rows[i]->sec) - trees.predict(features_of(rows[i]->kernel, hardware));
  const auto effects_of = [&](const Eigen::VectorXd& x) {
    DeviceEffects effects = base;
    for (std::size_t e = 0; e < priors.size(); ++e) effects[e] += x[at(e)];
    return effects;
  };
  problem.predict = by_differences([&](const Eigen::VectorXd& x, Eigen::VectorXd& predicted) {
    const DeviceEffects effects = effects_of(x);
    for (std::size_t i = 0; i < rows.size(); ++i)
      predicted[at(i)] = log_time(*this, effects, rows[i]->kernel, hardware);
  });
  KnownDevice& device = devices[hardware.name];
  device.family = hardware.family;
  const Eigen::VectorXd x = fit_map(problem, 15);
  device.effects = effects_of(x);
  device.rows += rows.size();
  device.widest_row = std::max(device.widest_row, widest_row(rows));
  // What its other rows, or other devices, show of its width counts as four rows. Effects take up about one row's
  // error.
  constexpr double prior_rows = 4, fitted = 1;
  const double k = static_cast<double>(rows.size());
  Eigen::VectorXd predicted(at(rows.size()));
  problem.predict(x, predicted, nullptr);
  const double expected = was_known ? device.spread : within_width;
  const double squares = z90 * z90 * (problem.measured - predicted).squaredNorm();
  const double within = std::sqrt((prior_rows * expected * expected + squares) / (prior_rows + k - fitted));
  device.spread = was_known
                      ? within
                      : std::hypot(within, device_width * std::sqrt(device_width_rows / (k + device_width_rows)) / 2);
}

KernelEstimate KernelModel::predict(const Kernel& kernel, const Hardware& hardware, bool alone) const {
  const KernelFormula& form = formula(kind);
  KernelEstimate estimate;
  DeviceEffects effects = effects_on(hardware);
  if (const auto known = devices.find(hardware.name); known != devices.end()) {
    const double beyond = std::log(std::max(1.0, kernel.n / known->second.widest_row));
    estimate.within_width = known->second.spread + form.long_row_width * beyond;
    estimate.provenance = Provenance::probe;
  } else {
    const bool knows_family = families.contains(hardware.family);
    estimate.provenance = knows_family ? Provenance::family : Provenance::other_family;
    estimate.device_width = device_width * (knows_family ? 1 : other_family_factor);
    estimate.within_width = within_width;
  }
  if (alone) {
    estimate.log_sec = form.log_time(parameters.data(), effects, kernel, hardware);
  } else {
    std::array<double, 24> in_a_row{};
    std::copy(parameters.begin(), parameters.end(), in_a_row.begin());
    in_a_row[form.floor] = std::log(kernel_gap_sec);
    effects[form.floor_effect] = 0;
    estimate.log_sec = form.log_time(in_a_row.data(), effects, kernel, hardware);
  }
  const ResidualTrees& trees = trees_on(hardware);
  if (!trees.trees().empty()) estimate.log_sec += trees.predict(features_of(kernel, hardware));
  return estimate;
}

KernelModels KernelModels::fit(const std::vector<const OpRow*>& rows, const std::map<std::string, Hardware>& gpus,
                               bool own_trees) {
  std::array<std::vector<const OpRow*>, kernel_classes> parts;
  for (const OpRow* row : rows) parts[static_cast<std::size_t>(row->kernel.kind)].push_back(row);
  KernelModels models;
  bool any = false;
  for (std::size_t i = 0; i < kernel_classes; ++i) {
    if (parts[i].size() < min_rows) continue;
    models.classes[i] = KernelModel::fit(static_cast<KernelClass>(i), parts[i], gpus, own_trees);
    any = true;
  }
  if (!any) throw InputError(fmt::format("no class of operators has the {} rows that a fit needs", min_rows));
  return models;
}

const KernelModel* KernelModels::of(KernelClass kind) const {
  const auto& model = classes[static_cast<std::size_t>(kind)];
  return model ? &*model : nullptr;
}

void KernelModels::probe(const Hardware& device, const std::vector<const OpRow*>& rows) {
  for (auto& model : classes) {
    if (!model) continue;
    std::vector<const OpRow*> own;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(own),
                 [&](const OpRow* row) { return row->kernel.kind == model->kind; });
    model->probe(device, own);
  }
}

StepEstimate step_time(const KernelModels& models, std::span<const StepPart> parts, const Hardware& device) {
  double device_sec = 0, calls = 0;
  std::array<double, kernel_classes + 1> shared{}, own{};
  for (const StepPart& part : parts) {
    const KernelModel* model = models.of(part.kernel.kind);
    const std::size_t group = model == nullptr ? kernel_classes : static_cast<std::size_t>(part.kernel.kind);
    double sec = 0, device_width = unmodelled_device_width, within = unmodelled_width;
    if (model != nullptr) {
      const KernelEstimate estimate = model->predict(part.kernel, device, false);
      sec = std::exp(estimate.log_sec);
      device_width = estimate.device_width;
      within = estimate.within_width;
    } else {
      sec = part.kernel.bytes() / (unmodelled_bandwidth * device.bandwidth) + kernel_gap_sec;
    }
    sec *= part.count;
    device_sec += sec;
    calls += part.count;
    shared[group] += sec * device_width;
    own[group] += sec * within;
  }
  double squares = 0;
  for (std::size_t i = 0; i < shared.size(); ++i) squares += shared[i] * shared[i] + own[i] * own[i];
  return {std::max(device_sec, calls * host_sec_per_op),
          std::hypot(device_sec > 0 ? std::sqrt(squares) / device_sec : 0, label_noise)};
}

}  // namespace perfpred
