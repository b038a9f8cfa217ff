// SPDX-License-Identifier: Apache-2.0
#include "optime/step_model.h"

#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "optime/map_fit.h"
#include "statistics/confidence.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

struct Prior {
  double mean, deviation;
};

enum Parameter : std::size_t {
  conv_forward,
  conv_input,
  conv_weight,
  winograd,
  winograd_weight,
  depth_half,  // terms of a sum at which a product reaches half its rate
  width_half,
  grouped,
  product,
  matrix_units,
  fp64,
  memory_conv,
  memory_depthwise_forward,
  memory_depthwise_input,
  memory_depthwise_weight,
  memory_norm,
  memory_elementwise,
  memory_rearrangement,
  memory_pooling,
  memory_other,
  gap,
  host,
  host_backward,
  half_storage,      // bytes of half precision move less efficiently
  fixed,             // seconds a step
  emulated_compute,  // half precision on cards that compute in single precision
  emulated_memory,
  emulated_depthwise,
  host_conv,  // dispatching a convolution, compared with another operator
  host_norm,
};

/// Logarithms: efficiencies are shares of peaks, the last ones seconds.
constexpr std::array<Prior, step_parameters> priors = {{
    {-0.78, 0.3}, {-0.37, 0.3}, {-0.06, 0.3}, {0.99, 0.3},  {0, 0.4},     {3.18, 0.7},  {3.18, 0.7}, {-0.78, 0.4},
    {-0.36, 0.3}, {-0.5, 0.5},  {-0.2, 0.4},  {-0.24, 0.3}, {-0.69, 0.4}, {-0.87, 0.4}, {-1.5, 0.4}, {-0.8, 0.3},
    {-0.15, 0.2}, {-0.42, 0.3}, {-0.5, 0.4},  {-0.5, 0.4},  {-12.7, 0.4}, {-11.3, 0.4}, {0.4, 0.4},  {-0.2, 0.3},
    {-7.6, 0.7},  {-0.2, 0.3},  {-0.4, 0.3},  {-0.4, 0.4},  {0.4, 0.4},   {0.2, 0.4},
}};

constexpr MachineEffects effect_deviation = {0.2, 0.15, 0.5}, probe_deviation = {0.3, 0.25, 0.8};
constexpr double measured_host_deviation = 0.1;
constexpr double sharpness = 2.5;  // of the roofline's corner

/// (a^p + b^p)^(1/p), p = 2.5
double rounded_max(double a, double b) {
  const double sum = a * a * std::sqrt(a) + b * b * std::sqrt(b);
  return sum > 0 ? std::exp(std::log(sum) / sharpness) : 0;
}

/// The parameters as factors, for one machine.
struct Rates {
  std::array<double, step_groups> seconds_per_byte{}, seconds_per_flop{};
  double depth_half, width_half, grouped, winograd, winograd_weight, gap, vector_ratio, conv_vector_ratio;
  bool conv_matrix_units, matrix_units;

  Rates(const std::array<double, step_parameters>& p, const StepDevice& device, const MachineEffects& effects) {
    const auto e = [&](Parameter i) { return std::exp(p[i]); };
    double byte = device.byte_scale / device.matrix.bandwidth * std::exp(-effects.memory);
    if (device.emulated_half) {
      byte /= e(emulated_memory);
    } else if (device.byte_scale < 1) {
      byte /= e(half_storage);
    }
    using G = StepGroup;
    for (const auto& [group, parameter] :
         std::initializer_list<std::pair<G, Parameter>>{{G::conv_forward, memory_conv},
                                                        {G::conv_input, memory_conv},
                                                        {G::conv_weight, memory_conv},
                                                        {G::depthwise_forward, memory_depthwise_forward},
                                                        {G::depthwise_input, memory_depthwise_input},
                                                        {G::depthwise_weight, memory_depthwise_weight},
                                                        {G::product, memory_conv},
                                                        {G::batch_norm, memory_norm},
                                                        {G::elementwise, memory_elementwise},
                                                        {G::rearrangement, memory_rearrangement},
                                                        {G::pooling, memory_pooling},
                                                        {G::other, memory_other},
                                                        {G::unknown, memory_other}}) {
      const bool depthwise =
          group == G::depthwise_forward || group == G::depthwise_input || group == G::depthwise_weight;
      seconds_per_byte[static_cast<std::size_t>(group)] =
          byte / e(parameter) / (depthwise && device.emulated_half ? e(emulated_depthwise) : 1);
    }
    const double slow = std::exp(-effects.compute) / (device.fp64            ? e(fp64)
                                                      : device.emulated_half ? e(emulated_compute)
                                                                             : 1);
    const double conv = slow / device.conv_flops / (device.conv_matrix_units ? e(Parameter::matrix_units) : 1);
    const double matrix = slow / device.matrix.flops / (device.matrix_units ? e(Parameter::matrix_units) : 1);
    seconds_per_flop[static_cast<std::size_t>(G::conv_forward)] = conv / e(Parameter::conv_forward);
    seconds_per_flop[static_cast<std::size_t>(G::conv_input)] = conv / e(Parameter::conv_input);
    seconds_per_flop[static_cast<std::size_t>(G::conv_weight)] = conv / e(Parameter::conv_weight);
    seconds_per_flop[static_cast<std::size_t>(G::product)] = matrix / e(product);
    const double vector = slow / device.matrix.vector_flops;  // channels that miss the matrix units
    conv_vector_ratio = device.conv_matrix_units ? std::max(1.0, vector / conv) : 1;
    vector_ratio = device.matrix_units ? std::max(1.0, vector / matrix) : 1;
    depth_half = e(Parameter::depth_half);
    width_half = e(Parameter::width_half);
    grouped = e(Parameter::grouped);
    winograd = e(Parameter::winograd);
    winograd_weight = e(Parameter::winograd_weight);
    gap = e(Parameter::gap);
    conv_matrix_units = device.conv_matrix_units;
    matrix_units = device.matrix_units;
  }

  [[nodiscard]] double seconds(const StepKernel& kernel) const {
    const auto group = static_cast<std::size_t>(kernel.group);
    const double memory = kernel.bytes * seconds_per_byte[group];
    if (seconds_per_flop[group] == 0) return memory + gap;
    double compute =
        kernel.flops * seconds_per_flop[group] * (1 + depth_half / kernel.depth) * (1 + width_half / kernel.width);
    if (kernel.grouped && kernel.group != StepGroup::product) compute /= grouped;
    const bool conv = kernel.group != StepGroup::product;
    if (!kernel.aligned) compute *= conv ? conv_vector_ratio : vector_ratio;
    if (conv && kernel.three_by_three && !conv_matrix_units) {
      compute /= kernel.group == StepGroup::conv_weight ? winograd_weight : winograd;
    }
    return rounded_max(compute, memory) + gap;
  }
};

std::array<double, 2> clocks(const std::array<double, step_parameters>& p, std::span<const StepKernel> kernels,
                             std::span<const double> seconds, const MachineEffects& effects, std::size_t forward) {
  const double per_op = std::exp(p[host] + effects.host), backward = std::exp(p[host_backward]);
  const double conv = std::exp(p[host_conv]), norm = std::exp(p[host_norm]);
  double host_sec = 0, device_sec = 0, lead = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].dispatched) {
      const StepGroup group = kernels[i].group;
      const double own = group <= StepGroup::depthwise_weight ? conv : group == StepGroup::batch_norm ? norm : 1;
      host_sec += per_op * own * (i < forward ? 1 : backward);
    }
    lead = std::max(lead, host_sec - device_sec);
    device_sec += seconds[i];
  }
  return {device_sec + lead + std::exp(p[fixed]), host_sec};
}

/// Kernels before the first gradient of a convolution or the last third of a step without any.
std::size_t forward_part(std::span<const StepKernel> kernels) {
  const auto backward = std::find_if(kernels.begin(), kernels.end(), [](const StepKernel& k) {
    return k.group == StepGroup::conv_input || k.group == StepGroup::conv_weight;
  });
  return backward != kernels.end() ? static_cast<std::size_t>(backward - kernels.begin()) : kernels.size() / 3;
}

double log_step(const std::array<double, step_parameters>& p, const StepRow& row, const MachineEffects& effects,
                std::vector<double>& seconds) {
  const Rates rates(p, row.device, effects);
  seconds.resize(row.kernels->size());
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = rates.seconds((*row.kernels)[i]);
  const double sec = clocks(p, *row.kernels, seconds, effects, forward_part(*row.kernels))[0];
  return std::log(row.whole ? sec : sec - std::exp(p[fixed]));
}

double& effect(MachineEffects& effects, std::size_t i) {
  return i == 0 ? effects.compute : i == 1 ? effects.memory : effects.host;
}

Eigen::Index at(std::size_t i) { return static_cast<Eigen::Index>(i); }

/// Fits the parameters (unless `fixed_parameters`) and the effects of all machines of the rows.
/// @param host_sec  of an operator, where it was measured: the effects of the hosts follow it
void fit_rows(StepModel& model, const std::vector<const StepRow*>& rows, bool with_parameters, double noise,
              std::optional<double> host_sec = std::nullopt) {
  std::map<std::string, std::size_t> index;
  std::map<std::string, double> counts;
  for (const StepRow* row : rows) {
    index.emplace(row->machine, index.size());
    ++counts[row->machine];
  }
  const std::size_t first = with_parameters ? step_parameters : 0, size = first + 3 * index.size();
  MapProblem problem;
  problem.knee = 0.05;
  problem.noise = noise;
  problem.prior.setZero(at(size));
  problem.deviation.resize(at(size));
  for (std::size_t i = 0; i < first; ++i) {
    problem.prior[at(i)] = priors[i].mean;
    problem.deviation[at(i)] = priors[i].deviation;
  }
  MachineEffects deviation = with_parameters ? effect_deviation : probe_deviation;
  for (std::size_t i = first; i < size; ++i) problem.deviation[at(i)] = effect(deviation, (i - first) % 3);
  for (std::size_t i = first + 2; host_sec && i < size; i += 3) {
    problem.prior[at(i)] = std::log(*host_sec) - model.parameters[host];
    problem.deviation[at(i)] = measured_host_deviation;
  }
  problem.measured.resize(at(rows.size()));
  problem.weight.setOnes(at(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) problem.measured[at(i)] = std::log(rows[i]->sec);
  std::vector<double> seconds;
  problem.predict = [&](const Eigen::VectorXd& x, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) {
    constexpr double step = 1e-4;
    std::array<double, step_parameters> p = model.parameters;
    for (std::size_t i = 0; i < first; ++i) p[i] = x[at(i)];
    if (slopes != nullptr) slopes->setZero();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::size_t own = first + 3 * index.at(rows[r]->machine);
      MachineEffects effects = {x[at(own)], x[at(own + 1)], x[at(own + 2)]};
      const double base = log_step(p, *rows[r], effects, seconds);
      predicted[at(r)] = base;
      if (slopes == nullptr) continue;
      for (std::size_t i = 0; i < first; ++i) {
        p[i] += step;
        (*slopes)(at(r), at(i)) = (log_step(p, *rows[r], effects, seconds) - base) / step;
        p[i] -= step;
      }
      for (std::size_t i = 0; i < 3; ++i) {
        effect(effects, i) += step;
        (*slopes)(at(r), at(own + i)) = (log_step(p, *rows[r], effects, seconds) - base) / step;
        effect(effects, i) -= step;
      }
    }
  };
  const Eigen::VectorXd x = fit_map(problem, 15);
  for (std::size_t i = 0; i < first; ++i) model.parameters[i] = x[at(i)];
  for (const auto& [machine, place] : index) {
    const std::size_t own = first + 3 * place;
    model.machines[machine] = {x[at(own)], x[at(own + 1)], x[at(own + 2)]};
  }
}

}  // namespace

StepModel::StepModel() {
  for (std::size_t i = 0; i < step_parameters; ++i) parameters[i] = priors[i].mean;
}

StepModel StepModel::fit(const std::vector<const StepRow*>& rows) {
  if (rows.size() < 8) throw InputError("fewer than 8 steps to fit on");
  StepModel model;
  fit_rows(model, rows, true, 0.1);
  std::map<std::string, std::vector<double>> by_network, by_machine;
  std::vector<double> seconds;
  for (const StepRow* row : rows) {
    const double log_sec = std::log(row->sec);
    by_network[row->network].push_back(log_sec -
                                       log_step(model.parameters, *row, model.effects_of(row->machine), seconds));
    by_machine[row->machine].push_back(log_sec - log_step(model.parameters, *row, {}, seconds));
  }
  std::vector<double> left;
  for (const auto& [network, residuals] : by_network) {
    double sum = 0;
    for (const double residual : residuals) {
      sum += residual;
      left.push_back(std::abs(residual));
    }
    model.networks[network] = sum / (static_cast<double>(residuals.size()) + 1);
  }
  model.within_width = std::max(0.05, quantile(std::move(left), 0.9));
  double squares = 0;
  for (const auto& [machine, residuals] : by_machine) squares += std::pow(median(residuals), 2);
  const double n = static_cast<double>(by_machine.size());
  if (n >= 2) model.machine_width = std::sqrt(squares / (n - 1)) * student_quantile(z90, n - 1);
  return model;
}

void StepModel::probe(const std::string& machine, const std::vector<const StepRow*>& rows,
                      std::optional<double> host_sec) {
  if (rows.empty()) return;
  machines.erase(machine);
  fit_rows(*this, rows, false, 0.05, host_sec);
}

MachineEffects StepModel::effects_of(const std::string& machine) const {
  const auto found = machines.find(machine);
  return found == machines.end() ? MachineEffects{} : found->second;
}

StepModel::Estimate StepModel::predict(const StepRow& row) const {
  Estimate estimate;
  std::vector<double> seconds;
  const MachineEffects effects = effects_of(row.machine);
  kernel_seconds(*row.kernels, row.device, effects, seconds);
  const auto [total, host_sec] = two_clocks(*row.kernels, seconds, effects);
  for (const double sec : seconds) estimate.device_sec += sec;
  estimate.host_sec = host_sec;
  estimate.log_sec = std::log(row.whole ? total : total - std::exp(parameters[fixed]));
  const auto network = networks.find(row.network);
  if (network != networks.end()) estimate.log_sec += network->second;
  const bool known = machines.find(row.machine) != machines.end();
  estimate.half_width = known ? within_width : std::hypot(within_width, machine_width);
  return estimate;
}

void StepModel::kernel_seconds(std::span<const StepKernel> kernels, const StepDevice& device,
                               const MachineEffects& effects, std::vector<double>& seconds) const {
  const Rates rates(parameters, device, effects);
  seconds.clear();
  seconds.reserve(kernels.size());
  for (const StepKernel& kernel : kernels) seconds.push_back(rates.seconds(kernel));
}

std::array<double, 2> StepModel::two_clocks(std::span<const StepKernel> kernels, std::span<const double> seconds,
                                            const MachineEffects& effects) const {
  return clocks(parameters, kernels, seconds, effects, forward_part(kernels));
}

}  // namespace perfpred
