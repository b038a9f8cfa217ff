// SPDX-License-Identifier: Apache-2.0
#include "optime/step_model.h"

#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "optime/map_fit.h"
#include "statistics/confidence.h"
#include "statistics/moments.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

constexpr double measured_host_deviation = 0.1;
constexpr MachineEffects effect_deviation = {0.2, 0.25, host_deviation}, probe_deviation = {0.3, 0.25, 0.8};
/// Pageable memory comes at about 4 GB/s; a batch that is made on the device takes nothing.
constexpr StepPrior input_byte_sec = {-23, 0.7};
/// A machine with so many rows has parameters of its own.
constexpr std::size_t own_rows = 100;

Eigen::Index at(std::size_t i) { return static_cast<Eigen::Index>(i); }

/// What a fit learns. A machine's own parameters are learned beside its effects, which stay.
enum class Learns { all, effects, parameters };

/// Rows with parameters, effects of their machines and sources as unknowns; what is not learned stays as in the model.
class StepFit {
 public:
  /// @param host_sec  of an operator, where it was measured: the effects of the hosts follow it
  StepFit(StepModel& model, std::vector<const StepRow*> rows, Learns learns,
          std::optional<double> host_sec = std::nullopt)
      : model_(model), rows_(std::move(rows)), first_(learns == Learns::effects ? 0 : step_parameters) {
    const double wider = learns == Learns::parameters ? 2 : 1;
    for (std::size_t i = 0; i < first_; ++i) {
      priors_.push_back({model.parameters[i], wider * step_priors()[i].deviation});
    }
    const MachineEffects deviation = learns == Learns::all ? effect_deviation : probe_deviation;
    for (const StepRow* row : rows_) {
      Places places;
      if (learns != Learns::parameters) {
        places.compute = unknown("compute|" + row->machine, {0, deviation.compute});
        places.memory = unknown("memory|" + row->machine, {0, deviation.memory});
        places.host = unknown("host|" + row->machine,
                              host_sec ? StepPrior{host_effect(model.parameters, *host_sec), measured_host_deviation}
                                       : StepPrior{0, deviation.host});
      }
      if (learns == Learns::all && row->input_bytes > 0)
        places.source = unknown("source|" + row->source, input_byte_sec);
      places_.push_back(places);
    }
    problem_.knee = 0.05;
    problem_.noise = learns == Learns::effects ? 0.03 : 0.1;
    problem_.prior.resize(at(priors_.size()));
    problem_.deviation.resize(at(priors_.size()));
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      problem_.prior[at(i)] = priors_[i].mean;
      problem_.deviation[at(i)] = priors_[i].deviation;
    }
    problem_.measured.resize(at(rows_.size()));
    problem_.weight.setOnes(at(rows_.size()));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      problem_.measured[at(i)] = std::log(rows_[i]->sec);
      if (learns == Learns::effects)
        problem_.measured[at(i)] -= model.known(rows_[i]->network, rows_[i]->arithmetic).log_factor;
    }
    problem_.predict = [this](const Eigen::VectorXd& x, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) {
      predict(x, predicted, slopes);
    };
    x_ = fit_map(problem_, 15);
    StepParameters& parameters = learns == Learns::parameters ? model.own[rows_[0]->machine] : model.parameters;
    std::copy_n(x_.begin(), first_, parameters.begin());
    if (learns == Learns::parameters) return;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      model.machines[rows_[i]->machine] = effects(x_, i);
      if (places_[i].source >= 0) model.sources[rows_[i]->source] = x_[places_[i].source];
    }
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
      const Eigen::VectorXd x = leave_out.parameters_without(rows);
      for (const Eigen::Index i : rows) {
        const auto row = static_cast<std::size_t>(i);
        errors[row] = problem_.measured[i] - log_step(x, row, nullptr);
      }
    }
    return errors;
  }

 private:
  /// Where a row's unknowns stand; -1 for what stays.
  struct Places {
    Eigen::Index compute = -1, memory = -1, host = -1, source = -1;
  };

  Eigen::Index unknown(const std::string& name, StepPrior prior) {
    const auto [place, is_new] = named_.emplace(name, at(priors_.size()));
    if (is_new) priors_.push_back(prior);
    return place->second;
  }

  [[nodiscard]] MachineEffects effects(const Eigen::VectorXd& x, std::size_t i) const {
    const Places& places = places_[i];
    if (places.compute < 0) return model_.effects_of(rows_[i]->machine);
    return {x[places.compute], x[places.memory], x[places.host]};
  }

  double log_step(const Eigen::VectorXd& x, std::size_t i, StepSlopes* slopes) const {
    StepParameters p = model_.parameters;
    std::copy_n(x.begin(), first_, p.begin());
    const StepRow& row = *rows_[i];
    const Eigen::Index source = places_[i].source;
    const double input_sec = source < 0 ? model_.input_seconds(row) : row.input_bytes * std::exp(x[source]);
    return StepFormula(p, row.device, effects(x, i)).log_step(*row.kernels, input_sec, row.whole, slopes);
  }

  void predict(const Eigen::VectorXd& x, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) const {
    if (slopes != nullptr) slopes->setZero();
    StepSlopes own;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      predicted[at(i)] = log_step(x, i, slopes == nullptr ? nullptr : &own);
      if (slopes == nullptr) continue;
      auto row = slopes->row(at(i));
      for (std::size_t j = 0; j < first_; ++j) row[at(j)] = own.parameters[j];
      const Places& places = places_[i];
      for (const auto& [place, slope] : {std::pair(places.compute, own.machine.compute),
                                         {places.memory, own.machine.memory},
                                         {places.host, own.machine.host},
                                         {places.source, own.input}}) {
        if (place >= 0) row[place] = slope;
      }
    }
  }

  const StepModel& model_;
  std::vector<const StepRow*> rows_;
  std::size_t first_;
  std::vector<StepPrior> priors_;
  std::map<std::string, Eigen::Index> named_;
  std::vector<Places> places_;
  MapProblem problem_;
  Eigen::VectorXd x_;
};

double log_step(const StepModel& model, const StepRow& row) {
  const StepFormula formula(model.parameters_of(row.machine), row.device, model.effects_of(row.machine));
  return formula.log_step(*row.kernels, model.input_seconds(row), row.whole, nullptr);
}

/// Half widths of 90 % intervals of errors: of the part that a group's rows share, and of the rows about it.
struct Spread {
  double shared = 0, own = 0;
};

/// @param units  how many groups are independent of each other
Spread spread_of(const std::map<std::string, std::vector<double>>& groups, std::size_t units) {
  double squares = 0;
  std::vector<double> distances;
  for (const auto& [name, errors] : groups) {
    const double middle = median(errors);
    squares += middle * middle;
    for (const double error : errors) distances.push_back(std::abs(error - middle));
  }
  const double freedom = static_cast<double>(units) - 1;
  Spread spread;
  spread.own = quantile(std::move(distances), 0.9);
  // With one group nothing is known of others: as wide as a factor of two.
  spread.shared = units < 2 ? std::log(2.0)
                            : std::sqrt(squares / static_cast<double>(groups.size())) * student_quantile(z90, freedom);
  return spread;
}

/// Errors of a network's steps, by the device that they ran on.
using NetworkErrors = std::map<std::string, Moments>;

double sum_of_means(const NetworkErrors& errors) {
  double sum = 0;
  for (const auto& [device, own] : errors) sum += own.mean();
  return sum;
}

/// Squares of what is left of the errors on a device after what the other devices say: their mean, shrunk as if `prior`
/// more devices had shown no error.
double squares_left(const std::map<std::string, NetworkErrors>& networks, double prior) {
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
std::map<std::string, KnownNetwork> known_networks(const std::map<std::string, NetworkErrors>& networks, double width) {
  const double unexplained = squares_left(networks, HUGE_VAL);
  double left = unexplained, prior = HUGE_VAL;
  for (const double p : {0.3, 1.0, 3.0, 10.0}) {
    if (const double with = squares_left(networks, p); with < left) {
      left = with;
      prior = p;
    }
  }
  std::map<std::string, KnownNetwork> known;
  if (left == unexplained) return known;
  for (const auto& [name, errors] : networks) {
    known[name] = {sum_of_means(errors) / (static_cast<double>(errors.size()) + prior),
                   width * std::sqrt(left / unexplained)};
  }
  return known;
}

}  // namespace

StepModel::StepModel() {
  for (std::size_t i = 0; i < step_parameters; ++i) parameters[i] = step_priors()[i].mean;
}

StepModel StepModel::fit(const std::vector<const StepRow*>& rows) {
  if (rows.size() < 8) throw InputError("fewer than 8 steps to fit on");
  std::map<std::string, std::vector<const StepRow*>> machines;
  for (const StepRow* row : rows) machines[row->machine].push_back(row);
  std::vector<const StepRow*> joint;
  for (const auto& [machine, own] : machines) {  // a machine with many rows is not to decide for all others
    for (std::size_t i = 0; i < std::min(own.size(), own_rows); ++i) {
      joint.push_back(own[i * own.size() / std::min(own.size(), own_rows)]);
    }
  }
  StepModel model;
  const StepFit fitted(model, joint, Learns::all);

  std::map<std::string, std::vector<double>> of_machine, of_family;
  std::set<std::string> devices;
  const auto device_of = [](const StepRow& row) { return canonical_device(row.gpu); };
  const auto family_of = [](const StepRow& row) { return row.network_family; };
  const std::vector<double> without_device = fitted.errors_without(device_of);
  const std::vector<double> without_family = fitted.errors_without(family_of);
  for (std::size_t i = 0; i < joint.size(); ++i) {
    of_machine[joint[i]->machine].push_back(without_device[i]);
    devices.insert(device_of(*joint[i]));
    if (machines.at(joint[i]->machine).size() < own_rows) {
      of_family[joint[i]->network_family].push_back(without_family[i]);
    }
  }
  for (const auto& [machine, own] : machines) {
    if (own.size() < own_rows) continue;
    const std::vector<double> errors = StepFit(model, own, Learns::parameters).errors_without(family_of);
    for (std::size_t i = 0; i < own.size(); ++i) of_family[own[i]->network_family].push_back(errors[i]);
  }
  model.machine_width = spread_of(of_machine, devices.size()).shared;
  const Spread family = spread_of(of_family, of_family.size());
  model.network_width = std::hypot(family.shared, family.own);

  std::map<std::string, std::map<std::string, NetworkErrors>> errors;
  for (const StepRow* row : rows) {
    errors[row->arithmetic][row->network][device_of(*row)].add(std::log(row->sec) - log_step(model, *row));
  }
  for (const auto& [arithmetic, networks] : errors) {
    std::map<std::string, KnownNetwork> known = known_networks(networks, model.network_width);
    if (!known.empty()) model.networks.emplace(arithmetic, std::move(known));
  }
  return model;
}

void StepModel::probe(const std::string& machine, const std::vector<const StepRow*>& rows,
                      std::optional<double> host_sec) {
  if (rows.empty()) return;
  machines.erase(machine);
  own.erase(machine);  // effects are relative to the parameters of all machines
  StepFit(*this, rows, Learns::effects, host_sec);
}

MachineEffects StepModel::effects_of(const std::string& machine) const {
  const auto found = machines.find(machine);
  return found == machines.end() ? MachineEffects{} : found->second;
}

const StepParameters& StepModel::parameters_of(const std::string& machine) const {
  const auto found = own.find(machine);
  return found == own.end() ? parameters : found->second;
}

double StepModel::input_seconds(const StepRow& row) const {
  const auto found = sources.find(row.source);
  return found == sources.end() ? 0 : row.input_bytes * std::exp(found->second);
}

KnownNetwork StepModel::known(const std::string& network, const std::string& arithmetic) const {
  if (const auto measured = networks.find(arithmetic); measured != networks.end()) {
    if (const auto found = measured->second.find(network); found != measured->second.end()) return found->second;
  }
  return {0, network_width};
}

StepModel::Estimate StepModel::predict(const StepRow& row) const {
  const KnownNetwork of_network = known(row.network, row.arithmetic);
  Estimate estimate;
  estimate.log_sec = log_step(*this, row) + of_network.log_factor;
  estimate.half_width = std::hypot(of_network.width, machines.count(row.machine) != 0 ? 0 : machine_width);
  return estimate;
}

}  // namespace perfpred
