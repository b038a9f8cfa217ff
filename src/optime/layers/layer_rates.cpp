// SPDX-License-Identifier: Apache-2.0
#include "optime/layers/layer_rates.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "catalogue/device_table.h"
#include "optime/interval_widths.h"
#include "optime/layers/layer_step.h"
#include "optime/map_fit.h"
#include "runs/disturbed.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

// Of logarithms: parameters of a device's own, which differ by more than the prior allows those that all devices share,
// and factors of kinds (docs/notes/optime.md, Layers measured on a CPU).
constexpr double parameter_deviation = 0.5, kind_deviation = 0.5;
/// Log factor of the time of its bytes in which a CPU draws random numbers.
constexpr double random_number_log = 4;
/// Share of a step from which on a GPU waits for its host.
constexpr double host_bound = 0.8;
/// A kernel with at least this share of a part's time learns from the part's residual.
constexpr double attribution_share = 0.3;
// Shorter parts say more about timers and dispatch than about kernels; they have at least this weight.
constexpr double long_sec = 1e-4, short_part_weight = 0.1;
constexpr std::size_t min_for_trees = 40, min_for_width = 10, folds = 5;
constexpr double min_width = 0.05;
constexpr int max_layer_steps = 200;  // of a fit: until they gain nothing

/// Kinds have factors of their own where their group's parameters do not tell them apart.
bool has_factor(const StepKernel& kernel) { return kernel.group >= StepGroup::product; }

/// A CPU draws random numbers in one thread, some nanoseconds each, where other operators wait for their bytes.
NormalPrior kind_prior(OpKind kind, bool cpu) {
  return {cpu && kind == OpKind::bernoulli ? random_number_log : 0.0, kind_deviation};
}

double log_seconds(const LayerRates& rates, const StepFormula& formula, const LayerPart& part,
                   std::vector<double>& seconds) {
  seconds.clear();
  for (const StepKernel& kernel : part.kernels) seconds.push_back(rates.formula_seconds(formula, kernel));
  return std::log(std::accumulate(seconds.begin(), seconds.end(), 0.0));
}

/// Rates without trees: the device's parameters and the factors of its kinds.
LayerRates fit_formula(std::span<const LayerPart> parts, const StepDevice& device, const StepParameters& prior) {
  LayerRates trial;
  for (const LayerPart& part : parts) {
    for (const StepKernel& kernel : part.kernels) {
      if (has_factor(kernel)) trial.kinds.emplace(kernel.kind, 0);
    }
  }
  std::vector<double*> unknowns;
  std::vector<NormalPrior> priors;
  for (const StepParameter& row : step_parameters) {
    unknowns.push_back(&(trial.parameters.*row.value));
    priors.push_back({prior.*row.value, parameter_deviation});
  }
  for (auto& [kind, factor] : trial.kinds) {
    unknowns.push_back(&factor);
    priors.push_back(kind_prior(kind, device.kind == DeviceKind::cpu));
  }
  const auto at = [](std::size_t i) { return static_cast<Eigen::Index>(i); };
  MapProblem problem(priors, parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    problem.weight[at(i)] = std::clamp(parts[i].sec / long_sec, short_part_weight, 1.0);
    problem.measured[at(i)] = std::log(parts[i].sec);
  }
  const auto take = [&](const Eigen::VectorXd& x) {
    for (std::size_t i = 0; i < unknowns.size(); ++i) *unknowns[i] = x[at(i)];
  };
  problem.predict = by_differences([&](const Eigen::VectorXd& x, Eigen::VectorXd& predicted) {
    take(x);
    const StepFormula formula(trial.parameters, device, {});
    std::vector<double> seconds;
    for (std::size_t i = 0; i < parts.size(); ++i) predicted[at(i)] = log_seconds(trial, formula, parts[i], seconds);
  });
  take(fit_map(problem, max_layer_steps));
  return trial;
}

KernelFeatures features_of(const StepKernel& kernel) {
  const auto log_of = [](double value) { return static_cast<float>(std::log(std::max(value, 1e-3))); };
  const auto filled = [](double value, double unit) {
    return static_cast<float>(value / (unit * std::ceil(value / unit)));
  };
  return {log_of(kernel.bytes),
          log_of(kernel.flops),
          log_of(kernel.flops / std::max(kernel.bytes, 1.0)),
          log_of(kernel.depth),
          log_of(kernel.width),
          log_of(kernel.rows),
          log_of(kernel.batch * kernel.calls),
          filled(kernel.width, 16),
          filled(kernel.depth, 16),
          kernel.three_by_three ? 1.0F : 0.0F,
          kernel.grouped ? 1.0F : 0.0F,
          kernel.dispatched ? 1.0F : 0.0F};
}

/// What the formula leaves over of parts that kernels of a group take much of.
struct Leftover {
  std::vector<KernelFeatures> features;
  std::vector<double> residuals;
  std::vector<bool> matters;  ///< the part is long enough to matter in a network
};

std::map<StepGroup, Leftover> leftovers(std::span<const LayerPart> parts, const LayerRates& rates,
                                        const StepDevice& device) {
  const StepFormula formula(rates.parameters, device, {});
  std::map<StepGroup, Leftover> left;
  std::vector<double> seconds;
  for (const LayerPart& part : parts) {
    const double log_sec = log_seconds(rates, formula, part, seconds);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const double gap = formula.seconds(part.kernels[i], 0) / part.kernels[i].calls;  // which says nothing of a kernel
      if (seconds[i] - gap < attribution_share * std::exp(log_sec)) continue;
      Leftover& own = left[part.kernels[i].group];
      own.features.push_back(features_of(part.kernels[i]));
      own.residuals.push_back(std::log(part.sec) - log_sec);
      own.matters.push_back(part.sec > long_sec);
    }
  }
  return left;
}

/// Errors of parts that matter, by trees that did not learn from them; without trees as the formula leaves them.
void add_errors(const Leftover& all, bool trees, std::vector<double>& errors) {
  for (std::size_t fold = 0; fold < folds; ++fold) {
    ResidualTrees learned;
    if (trees) {
      Leftover others;
      for (std::size_t i = 0; i < all.residuals.size(); ++i) {
        if (i % folds == fold) continue;
        others.features.push_back(all.features[i]);
        others.residuals.push_back(all.residuals[i]);
      }
      learned = ResidualTrees::fit(others.features, others.residuals);
    }
    for (std::size_t i = fold; i < all.residuals.size(); i += folds) {
      const double known = trees ? learned.predict(all.features[i]) : 0;
      if (all.matters[i]) errors.push_back(std::abs(all.residuals[i] - known));
    }
  }
}

Device device_named(const std::string& name, const DeviceCatalogue& catalogue) {
  Device device = catalogue.resolve(name).rated();
  std::erase(device.aliases, "cpu");  // which is another one elsewhere
  return device;
}

/// Layers that were measured several times count once, with their mean times.
std::vector<LayerRow> one_row_each(std::span<const LayerRow> rows) {
  std::vector<LayerRow> merged;
  std::map<std::string, std::pair<std::size_t, double>> known;  // by layer: where it is in merged, and how many rows
  for (const LayerRow& row : rows) {
    const auto [found, is_new] = known.emplace(layer_key(row.layer), std::pair(merged.size(), 1.0));
    if (is_new) {
      merged.push_back(row);
      continue;
    }
    const double count = ++found->second.second;
    for (const auto time :
         {&LayerRow::forward_sec, &LayerRow::backward_sec, &LayerRow::optimizer_sec, &LayerRow::step_sec}) {
      std::optional<double>& mean = merged[found->second.first].*time;
      if (mean) *mean += ((row.*time).value_or(*mean) - *mean) / count;
    }
  }
  return merged;
}

bool is_disturbed(const LayerRow& row) { return row.outcome == to_string(Outcome::untrusted); }

/// Takes away the rows that do not count, which is their number. @param disturbed  the number of those that count
std::size_t drop_untimed(std::vector<LayerRow>& rows, std::size_t& disturbed) {
  std::set<std::string> undisturbed;
  for (const LayerRow& row : rows) {
    if (row.outcome == to_string(Outcome::ok)) undisturbed.insert(layer_key(row.layer));
  }
  const std::size_t dropped = std::erase_if(rows, [&](const LayerRow& row) {
    const bool timed = row.outcome == to_string(Outcome::ok) || (is_disturbed(row) && row.forward_sec);
    return !timed || !counts(is_disturbed(row), undisturbed.contains(layer_key(row.layer)));
  });
  disturbed += static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), is_disturbed));
  return dropped;
}

/// How many layers do not count, and why, after `before`; empty for none.
std::string left_out(const std::string& before, std::size_t untimed, std::size_t waiting) {
  std::string text;
  if (untimed != 0) text += fmt::format("{}{} layers left out: their outcome is not ok", before, untimed);
  if (waiting != 0) {
    text += fmt::format("{}{} layers left out: the device waited for its host", untimed != 0 ? "; " : before, waiting);
  }
  return text;
}

}  // namespace

std::vector<LayerPart> parts_of(std::span<const LayerRow> rows, DeviceKind device) {
  std::vector<LayerPart> parts;
  for (const LayerRow& row : rows) {
    if (row.outcome != to_string(Outcome::ok) && !is_disturbed(row)) continue;
    const LayerStep step = layer_step(row.layer, device);
    const std::vector<StepKernel> kernels = own_kernels(step);
    if (!row.forward_sec) {  // the whole step alone is known
      if (!kernels.empty()) parts.push_back({kernels, row.step_sec.value()});
      continue;
    }
    for (const auto& [phase, sec] :
         {std::pair(Phase::forward, row.forward_sec), std::pair(Phase::backward, row.backward_sec),
          std::pair(Phase::optimizer, row.optimizer_sec)}) {
      if (!sec) continue;
      LayerPart part;
      part.sec = *sec;
      for (const StepKernel& kernel : kernels) {
        if (step.executed.graph().ops()[kernel.op].phase == phase) part.kernels.push_back(kernel);
      }
      if (!part.kernels.empty()) parts.push_back(std::move(part));
    }
  }
  return parts;
}

LayerRates LayerRates::fit(std::span<const LayerPart> parts, const StepDevice& device, const StepParameters& prior) {
  LayerRates rates = fit_formula(parts, device, prior);
  std::vector<double> all_errors;
  std::map<StepGroup, std::vector<double>> errors;
  for (const auto& [group, left] : leftovers(parts, rates, device)) {
    Group& own = rates.groups[group];
    own.parts = left.residuals.size();
    const bool trees = own.parts >= min_for_trees;
    add_errors(left, trees, errors[group]);
    all_errors.insert(all_errors.end(), errors[group].begin(), errors[group].end());
    if (trees) own.trees = ResidualTrees::fit(left.features, left.residuals);
  }
  const double usual = all_errors.empty() ? unknown_half_width : quantile(std::move(all_errors), 0.9);
  for (auto& [group, own] : rates.groups) {
    std::vector<double>& seen = errors[group];
    own.width = std::max(min_width, seen.size() < min_for_width ? usual : quantile(std::move(seen), 0.9));
  }
  return rates;
}

double LayerRates::formula_seconds(const StepFormula& formula, const StepKernel& kernel) const {
  const auto factor = has_factor(kernel) ? kinds.find(kernel.kind) : kinds.end();
  return formula.seconds(kernel, factor == kinds.end() ? 1 : std::exp(factor->second));
}

std::vector<double> LayerRates::kernel_seconds(std::span<const StepKernel> kernels, const StepDevice& device) const {
  const StepFormula formula(parameters, device, {});
  std::vector<double> seconds;
  for (const StepKernel& kernel : kernels) {
    double sec = formula_seconds(formula, kernel);
    const auto group = groups.find(kernel.group);
    if (group != groups.end() && !group->second.trees.trees().empty())
      sec *= std::exp(group->second.trees.predict(features_of(kernel)));
    seconds.push_back(sec);
  }
  return seconds;
}

LayerRates LayerGroup::fit(const StepParameters& prior) const {
  LayerRates rates =
      LayerRates::fit(parts_of(rows, device.kind), step_device(device, key.precision, StepArithmetic::as_graph), prior);
  if (!mostly_waited()) return rates;
  for (auto& [group, own] : rates.groups) own.width = std::max(own.width, unknown_half_width);
  return rates;
}

LayerGroups read_layer_groups(const std::string& path, const DeviceCatalogue& catalogue) {
  std::map<RatesKey, std::vector<LayerRow>> by_key;
  for (LayerRow& row : read_layer_rows(path)) {
    if (const Device* known = catalogue.resolve(row.device).device) row.device = known->name;
    by_key[{row.device, row.layer.precision}].push_back(std::move(row));
  }
  LayerGroups result;
  std::size_t waiting = 0, untimed = 0, disturbed = 0;
  for (auto& [key, rows] : by_key) {
    LayerGroup& group = result.groups.emplace_back(LayerGroup{key, device_named(key.device, catalogue), {}, 0});
    const std::size_t untimed_here = drop_untimed(rows, disturbed);
    group.waiting = std::erase_if(rows, [](const LayerRow& row) {
      return row.host_sec && row.step_sec && *row.host_sec > host_bound * *row.step_sec;
    });
    untimed += untimed_here;
    waiting += group.waiting;
    group.rows = one_row_each(rows);
    if (const auto parts = parts_of(group.rows, group.device.kind).size(); parts < LayerRates::min_parts) {
      throw InputError(fmt::format("{}: {} timed parts of layers on {} in {}: a fit needs {}{}", path, parts,
                                   key.device, to_string(key.precision), LayerRates::min_parts,
                                   left_out("; ", untimed_here, group.waiting)));
    }
  }
  if (disturbed != 0)
    result.notes.push_back(fmt::format("{}: {} layers have disturbed times only, which count", path, disturbed));
  if (untimed + waiting != 0) result.notes.push_back(left_out(path + ": ", untimed, waiting));
  return result;
}

MeasuredDevices fit_layers(LayerGroups table, const StepParameters& prior) {
  MeasuredDevices result;
  result.notes = std::move(table.notes);
  for (const LayerGroup& group : table.groups) {
    keep_own(result.devices, group.device);
    result.rates[group.key] = group.fit(prior);
    if (group.mostly_waited()) {
      result.notes.push_back(fmt::format(
          "warning: {} of {} layers on {} in {} waited for their host; the others say little of a network's "
          "kernels: expect twice or half the predicted time, as wide as the intervals are",
          group.waiting, group.waiting + group.rows.size(), group.key.device, to_string(group.key.precision)));
    }
  }
  return result;
}

}  // namespace perfpred
