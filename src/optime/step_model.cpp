// SPDX-License-Identifier: Apache-2.0
#include "optime/step_model.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include "optime/interval_widths.h"
#include "optime/known_machine.h"
#include "optime/map_fit.h"
#include "statistics/confidence.h"
#include "statistics/moments.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

constexpr double measured_host_deviation = 0.1;
// Priors of a machine's effects, and of one with a probe; docs/notes/optime.md, Copies to channels-last memory and What
// was worth how much.
constexpr MachineEffects effect_deviation = {0.2, 0.25, host_deviation}, probe_deviation = {0.3, 0.25, 0.8};
/// Pageable memory comes at about 4 GB/s; a batch that is made on the device takes nothing.
constexpr NormalPrior input_byte_sec = {-23, 0.7};
constexpr double condition_deviation = 0.2;
/// Of a condition that can only take time: the logarithm of its share.
constexpr NormalPrior added_share = {-3.5, 0.7};
constexpr double own_parameter_factor = 2;  // of the priors' deviations, for parameters of a machine's own
// MapProblem's, of log steps; docs/notes/optime.md, Copies to channels-last memory.
constexpr double step_knee = 0.05, step_noise = 0.1, probe_step_noise = 0.03;
constexpr int max_fit_steps = 15;
/// Forward passes teach what their cards and conditions are worth. What steps share is for training steps to say: with
/// a full weight, a hundred passes of a card in half precision decide for all (docs/notes/optime.md, Forward passes).
constexpr double forward_pass_weight = 0.025;
/// Devices without errors that shrinking known networks may stand for.
constexpr std::array<double, 4> shrinkages = {0.3, 1, 3, 10};
constexpr std::size_t least_rows = 8;
/// A machine with so many rows has parameters of its own.
constexpr std::size_t own_rows = 100;

/// Whether a step takes longer under a condition, whatever it is: data are loaded beside what is computed.
bool only_adds(const std::string& word) { return word == "loader=included"; }

Eigen::Index at(std::size_t i) { return static_cast<Eigen::Index>(i); }

/// What a fit learns. A machine's own parameters are learned beside its effects, which stay.
enum class Learns { all, effects, parameters };

/// Rows with parameters, effects of their machines and sources as unknowns; what is not learned stays as in the model.
class StepFit {
 public:
  /// @param host_sec  of an operator, where it was measured: the effects of the hosts follow it
  StepFit(StepModel& model, std::vector<const StepRow*> rows, Learns learns,
          std::optional<double> host_sec = std::nullopt)
      : model_(model), rows_(std::move(rows)), first_(learns == Learns::effects ? 0 : step_parameters.size()) {
    const double wider = learns == Learns::parameters ? own_parameter_factor : 1;
    for (std::size_t i = 0; i < first_; ++i) {
      const StepParameter& row = step_parameters[i];
      priors_.push_back({model.parameters.*row.value, wider * row.prior.deviation});
    }
    add_unknowns(learns, host_sec);
    problem_ = MapProblem(priors_, rows_.size());
    problem_.knee = step_knee;
    problem_.noise = learns == Learns::effects ? probe_step_noise : step_noise;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      problem_.measured[at(i)] = std::log(rows_[i]->sec);
      if (rows_[i]->phases == Phases::forward) problem_.weight[at(i)] = forward_pass_weight;
      if (learns == Learns::effects)
        problem_.measured[at(i)] -= model.known(rows_[i]->network, rows_[i]->arithmetic, rows_[i]->phases).log_factor;
    }
    problem_.predict = [this](const Eigen::VectorXd& x, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) {
      predict(x, predicted, slopes);
    };
    x_ = fit_map(problem_, max_fit_steps);
    if (learns == Learns::parameters) {
      take_parameters(x_, model.machines[rows_[0]->machine].parameters.emplace());
      return;
    }
    take(x_, model, [](std::size_t) { return true; });
  }
  StepFit(const StepFit&) = delete;
  StepFit& operator=(const StepFit&) = delete;

  /// Errors of the logarithm of each row as if its group had not been fitted.
  [[nodiscard]] std::vector<double> errors_without(const std::function<std::string(const StepRow&)>& group_of) const {
    std::map<std::string, std::vector<Eigen::Index>> groups;
    for (std::size_t i = 0; i < rows_.size(); ++i) groups[group_of(*rows_[i])].push_back(at(i));
    std::vector<double> errors(rows_.size());
    const LeaveOut leave_out(problem_, x_);
    for (const auto& [name, rows] : groups) {
      const std::set<Eigen::Index> left_out(rows.begin(), rows.end());
      StepModel others;
      take(leave_out.parameters_without(rows), others, [&](std::size_t i) { return left_out.count(at(i)) == 0; });
      for (const Eigen::Index i : rows) {
        const auto row = static_cast<std::size_t>(i);
        errors[row] = problem_.measured[i] - others.log_step(*rows_[row]);
      }
    }
    return errors;
  }

 private:
  /// Where a row's unknowns stand; -1 for what stays.
  struct Places {
    Eigen::Index compute = -1, memory = -1, host = -1, source = -1;
    std::vector<Eigen::Index> conditions;  // one for each of the row's, or none
  };

  /// Effects of the rows' machines, and the seconds in which sources copy a byte.
  void add_unknowns(Learns learns, std::optional<double> host_sec) {
    const MachineEffects deviation = learns == Learns::all ? effect_deviation : probe_deviation;
    const NormalPrior host = host_sec
                                 ? NormalPrior{host_effect(model_.parameters, rows_[0]->device, std::log(*host_sec)),
                                               measured_host_deviation}
                                 : NormalPrior{0, deviation.host};
    std::map<MachineKey, Places> of_machine;
    std::map<std::string, Eigen::Index> of_source, of_condition;
    for (const StepRow* row : rows_) {
      Places places;
      if (learns != Learns::parameters) {
        const auto [machine, is_new] = of_machine.try_emplace(row->machine);
        if (is_new)
          machine->second = {unknown({0, deviation.compute}), unknown({0, deviation.memory}), unknown(host), -1, {}};
        places = machine->second;
      }
      if (learns == Learns::all && row->input_bytes > 0) {
        const auto [source, is_new] = of_source.try_emplace(row->source);
        if (is_new) source->second = unknown(input_byte_sec);
        places.source = source->second;
      }
      for (const std::string& word : row->conditions) {
        if (learns != Learns::all) break;
        const auto [condition, is_new] = of_condition.try_emplace(word);
        if (is_new) condition->second = unknown(only_adds(word) ? added_share : NormalPrior{0, condition_deviation});
        places.conditions.push_back(condition->second);
      }
      places_.push_back(std::move(places));
    }
  }

  Eigen::Index unknown(NormalPrior prior) {
    priors_.push_back(prior);
    return at(priors_.size() - 1);
  }

  [[nodiscard]] MachineEffects effects(const Eigen::VectorXd& x, std::size_t i) const {
    const Places& places = places_[i];
    if (places.compute < 0) return model_.effects_of(rows_[i]->machine);
    return {x[places.compute], x[places.memory], x[places.host]};
  }

  /// Fills in what these unknowns say. @param has  whether a row tells of its machine and conditions
  void take(const Eigen::VectorXd& x, StepModel& model, const std::function<bool(std::size_t)>& has) const {
    model.parameters = model_.parameters;
    take_parameters(x, model.parameters);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const StepRow& row = *rows_[i];
      if (places_[i].source >= 0) model.sources[row.source] = x[places_[i].source];
      if (!has(i)) continue;
      Machine& machine = model.machines[row.machine];
      machine.effects = effects(x, i);
      machine.chip = row.device.chip;
      machine.arithmetic = row.arithmetic;
      if (places_[i].compute < 0) machine.parameters = StepParameters(model.parameters);
      for (std::size_t c = 0; c < places_[i].conditions.size(); ++c)
        model.conditions[row.conditions[c]] = of_condition(x, i, c);
    }
  }

  void take_parameters(const Eigen::VectorXd& x, StepParameters& parameters) const {
    for (std::size_t i = 0; i < first_; ++i) parameters.*step_parameters[i].value = x[at(i)];
  }

  /// What the formula answers for a row with these unknowns.
  template <class Answer>
  Answer of_row(const Eigen::VectorXd& x, std::size_t i,
                Answer (StepFormula::*ask)(std::span<const StepKernel>, double, bool) const) const {
    StepParameters p = model_.parameters;
    take_parameters(x, p);
    const StepRow& row = *rows_[i];
    const Eigen::Index source = places_[i].source;
    const double input_sec = source < 0 ? model_.input_seconds(row) : row.input_bytes * std::exp(x[source]);
    return (StepFormula(p, row.device, effects(x, i)).*ask)(*row.kernels, input_sec, row.whole);
  }

  /// Logarithm of the factor of one of a row's conditions.
  [[nodiscard]] double of_condition(const Eigen::VectorXd& x, std::size_t i, std::size_t c) const {
    const double value = x[places_[i].conditions[c]];
    return only_adds(rows_[i]->conditions[c]) ? std::exp(value) : value;
  }

  /// The same of all of them.
  [[nodiscard]] double of_conditions(const Eigen::VectorXd& x, std::size_t i) const {
    if (places_[i].conditions.empty()) return model_.of_conditions(rows_[i]->conditions);
    double sum = 0;
    for (std::size_t c = 0; c < places_[i].conditions.size(); ++c) sum += of_condition(x, i, c);
    return sum;
  }

  void predict(const Eigen::VectorXd& x, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) const {
    if (slopes != nullptr) slopes->setZero();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (slopes == nullptr) {
        predicted[at(i)] = of_row(x, i, &StepFormula::log_step) + of_conditions(x, i);
        continue;
      }
      const StepSlopes own = of_row(x, i, &StepFormula::log_slopes);
      predicted[at(i)] = own.log_sec + of_conditions(x, i);
      auto row = slopes->row(at(i));
      for (std::size_t j = 0; j < first_; ++j) row[at(j)] = own.parameters.*step_parameters[j].value;
      const Places& places = places_[i];
      for (const auto& [place, slope] : {std::pair(places.compute, own.machine.compute),
                                         {places.memory, own.machine.memory},
                                         {places.host, own.machine.host},
                                         {places.source, own.input}}) {
        if (place >= 0) row[place] = slope;
      }
      for (std::size_t c = 0; c < places.conditions.size(); ++c)
        row[places.conditions[c]] = only_adds(rows_[i]->conditions[c]) ? of_condition(x, i, c) : 1;
    }
  }

  const StepModel& model_;
  std::vector<const StepRow*> rows_;
  std::size_t first_;
  std::vector<NormalPrior> priors_;
  std::vector<Places> places_;
  MapProblem problem_;
  Eigen::VectorXd x_;
};

/// Half width of the 90 % interval of the part of the errors that a group's rows share.
/// @param units  how many groups are independent of each other
template <class Key>
double shared_width(const std::map<Key, std::vector<double>>& groups, std::size_t units) {
  if (units < 2) return unknown_half_width;
  double squares = 0;
  for (const auto& [name, errors] : groups) squares += median(errors) * median(errors);
  return std::sqrt(squares / static_cast<double>(groups.size())) *
         student_quantile(z90, static_cast<double>(units) - 1);
}

/// All tensors in one type, as no framework trains by default.
bool is_pure(const MachineKey& machine) { return machine.arithmetic != StepArithmetic::as_graph; }

/// Errors of machines whose device is left out.
class MachineErrors {
 public:
  void add(const MachineKey& machine, const std::string& device, double error) {
    errors_[machine].push_back(error);
    devices_.insert(device);
  }
  [[nodiscard]] bool empty() const { return errors_.empty(); }
  /// Half width of the 90 % interval of what a machine's steps share.
  [[nodiscard]] double width() const { return shared_width(errors_, devices_.size()); }

 private:
  std::map<MachineKey, std::vector<double>> errors_;
  std::set<std::string> devices_;
};

std::string device_of(const StepRow& row) { return canonical_device(row.gpu); }

/// Errors of a network's steps, by the device that they ran on.
using NetworkErrors = std::map<std::string, Moments>;

double sum_of_means(const NetworkErrors& errors) {
  double sum = 0;
  for (const auto& [device, own] : errors) sum += own.mean();
  return sum;
}

/// Squares of what is left of the errors on a device after what the other devices say: their mean, shrunk as if `prior`
/// more devices had shown no error.
double squares_left(const std::map<NetworkKey, NetworkErrors>& networks, double prior) {
  double squares = 0;
  for (const auto& [name, errors] : networks) {
    if (errors.size() < 2) continue;
    const double sum = sum_of_means(errors), others = static_cast<double>(errors.size()) - 1;
    for (const auto& [device, own] : errors) {
      const double left = own.mean() - (sum - own.mean()) / (others + prior);
      squares += left * left;
    }
  }
  return squares;
}

/// What errors of networks on some devices say about those on others. How much that is shows when devices are left out.
/// @param width  of a network that was not measured
KnownNetworks known_networks(const std::map<NetworkKey, NetworkErrors>& networks, double width) {
  const double unexplained = squares_left(networks, HUGE_VAL);
  double left = unexplained, prior = HUGE_VAL;
  for (const double p : shrinkages) {
    if (const double with = squares_left(networks, p); with < left) {
      left = with;
      prior = p;
    }
  }
  KnownNetworks known;
  if (left == unexplained) return known;
  known.width = width * std::sqrt(left / unexplained);
  for (const auto& [name, errors] : networks) {
    known.log_factors[name] = sum_of_means(errors) / (static_cast<double>(errors.size()) + prior);
  }
  return known;
}

/// Errors of steps whose family of networks is left out, by family.
using FamilyErrors = std::map<std::string, std::vector<double>>;

/// The same by what the steps are.
class ErrorsByUse {
 public:
  void add(const StepRow& row, double error) {
    FamilyErrors& errors = is_pure(row.machine) ? pure_ : row.phases == Phases::forward ? forward_ : training_;
    errors[row.network_family].push_back(error);
  }
  [[nodiscard]] const FamilyErrors& forward() const { return forward_; }
  /// Of training, if there is some.
  [[nodiscard]] const FamilyErrors& usual() const {
    if (!training_.empty()) return training_;
    return forward_.empty() ? pure_ : forward_;
  }

 private:
  FamilyErrors training_, forward_, pure_;
};

/// Half width of the 90 % interval of a step of a network of another family: what 90 % of these errors do not exceed,
/// if each family counts alike and a new one is as good as any (split conformal prediction: Lei et al., Journal of the
/// American Statistical Association 113, 2018).
double width_of_families(const FamilyErrors& errors) {
  if (errors.size() < 2) return unknown_half_width;
  std::vector<std::pair<double, double>> weighted;  // errors and their weights, which are 1 for each family
  for (const auto& [family, own] : errors) {
    for (const double error : own) weighted.emplace_back(std::abs(error), 1 / static_cast<double>(own.size()));
  }
  std::ranges::sort(weighted);
  double left = 0.9 * (static_cast<double>(errors.size()) + 1);
  for (const auto& [error, weight] : weighted) {
    if (left -= weight; left <= 0) return error;
  }
  return weighted.back().first;
}

/// Half width of the 90 % interval of what programs by others take on a device that is known: errors of rows whose
/// source is left out, of devices that another source measured, too.
/// @param unknown  the width where no device has two sources
double width_of_sources(const StepFit& fitted, const std::vector<const StepRow*>& rows, double unknown) {
  std::map<std::string, std::set<std::string>> sources_of;  // by device
  for (const StepRow* row : rows) sources_of[row->machine.device].insert(row->source);
  const std::vector<double> without = fitted.errors_without([](const StepRow& row) { return row.source; });
  std::map<MachineKey, std::vector<double>> errors;
  std::set<std::string> sources;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (sources_of[rows[i]->machine.device].size() < 2) continue;
    errors[rows[i]->machine].push_back(without[i]);
    sources.insert(rows[i]->source);
  }
  return sources.size() < 2 ? unknown : std::min(unknown, shared_width(errors, errors.size()));
}

}  // namespace

StepModel StepModel::fit(const std::vector<const StepRow*>& rows) {
  if (rows.size() < least_rows) throw InputError(fmt::format("fewer than {} steps to fit on", least_rows));
  std::map<MachineKey, std::vector<const StepRow*>> machines;
  for (const StepRow* row : rows) machines[row->machine].push_back(row);
  std::vector<const StepRow*> joint;
  for (const auto& [machine, own] : machines) {  // a machine with many rows is not to decide for all others
    for (std::size_t i = 0; i < std::min(own.size(), own_rows); ++i) {
      joint.push_back(own[i * own.size() / std::min(own.size(), own_rows)]);
    }
  }
  StepModel model;
  const StepFit fitted(model, joint, Learns::all);

  MachineErrors mixed, pure;
  ErrorsByUse of_families;
  const auto family_of = [](const StepRow& row) { return row.network_family; };
  const std::vector<double> without_device = fitted.errors_without(device_of);
  const std::vector<double> without_family = fitted.errors_without(family_of);
  for (std::size_t i = 0; i < joint.size(); ++i) {
    (is_pure(joint[i]->machine) ? pure : mixed).add(joint[i]->machine, device_of(*joint[i]), without_device[i]);
    of_families.add(*joint[i], without_family[i]);
  }
  for (const auto& [machine, own] : machines) {
    if (own.size() >= own_rows) const StepFit of_machine(model, own, Learns::parameters);
  }
  model.machine_width = (mixed.empty() ? pure : mixed).width();
  model.pure_width = pure.empty() ? model.machine_width : pure.width();
  model.source_width = width_of_sources(fitted, joint, model.machine_width);
  model.network_width = width_of_families(of_families.usual());
  model.forward_width = of_families.forward().empty() ? model.network_width : width_of_families(of_families.forward());

  model.learn_networks(rows);
  return model;
}

void StepModel::learn_networks(const std::vector<const StepRow*>& rows) {
  std::map<ArithmeticKey, std::map<NetworkKey, NetworkErrors>> errors;
  for (const StepRow* row : rows) {
    errors[row->arithmetic][row->network][device_of(*row)].add(std::log(row->sec) - log_step(*row));
  }
  for (const auto& [arithmetic, of_network] : errors) {
    KnownNetworks known = known_networks(of_network, network_width);
    if (!known.log_factors.empty()) networks.emplace(arithmetic, std::move(known));
  }
}

void StepModel::probe(const MachineKey& machine, const std::vector<const StepRow*>& rows,
                      std::optional<double> host_sec) {
  if (rows.empty()) return;
  machines.erase(machine);  // effects are relative to the parameters of all machines
  StepFit(*this, rows, Learns::effects, host_sec);
}

MachineEffects StepModel::effects_of(const MachineKey& machine) const {
  const auto found = machines.find(machine);
  return found == machines.end() ? MachineEffects{} : found->second.effects;
}

const StepParameters& StepModel::parameters_of(const MachineKey& machine) const {
  const auto found = machines.find(machine);
  return found == machines.end() || !found->second.parameters ? parameters : *found->second.parameters;
}

double StepModel::input_seconds(const StepRow& row) const {
  const auto found = sources.find(row.source);
  return found == sources.end() ? 0 : row.input_bytes * std::exp(found->second);
}

double StepModel::log_step(const StepRow& row) const {
  StepParameters own = parameters_of(row.machine);
  MachineEffects effects = effects_of(row.machine);
  if (machines.count(row.machine) == 0) {
    const KnownMachine like = known_machine(*this, row.machine, row.device.chip, row.arithmetic);
    own = like.parameters;
    effects = like.effects;
  }
  const StepFormula formula(own, row.device, effects);
  return formula.log_step(*row.kernels, input_seconds(row), row.whole) + of_conditions(row.conditions);
}

double StepModel::of_conditions(const std::vector<std::string>& words) const {
  double sum = 0;
  for (const std::string& word : words) {
    if (const auto found = conditions.find(word); found != conditions.end()) sum += found->second;
  }
  return sum;
}

KnownNetwork StepModel::known(const NetworkKey& network, const ArithmeticKey& arithmetic, Phases phases) const {
  const bool is_pass = phases == Phases::forward;
  if (const auto measured = networks.find(arithmetic); measured != networks.end()) {
    const auto& [width, log_factors] = measured->second;
    if (const auto found = log_factors.find(network); found != log_factors.end())
      return {found->second, is_pass ? forward_width : width};
  }
  return {0, is_pass ? forward_width : network_width};
}

Estimate StepModel::predict(const StepRow& row) const {
  const KnownNetwork of_network = known(row.network, row.arithmetic, row.phases);
  const double of_machine = is_pure(row.machine) ? pure_width : machine_width;
  return {log_step(row) + of_network.log_factor,
          {.model = std::hypot(of_network.width, machines.count(row.machine) != 0 ? 0 : of_machine)}};
}

}  // namespace perfpred
