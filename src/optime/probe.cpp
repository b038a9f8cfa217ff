// SPDX-License-Identifier: Apache-2.0
#include "optime/probe.h"

#include <perfpred/error.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "catalogue/device_table.h"
#include "network/layers.h"
#include "optime/layers/layer_rates.h"
#include "optime/layers/layer_step.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

constexpr double above_peak = 1.3;  // boost clocks and rounded data sheets; more is another device, or a wrong unit
// Between a layer and what the others say of it, a factor. Pooling on a CPU may take ten times what its bytes take.
constexpr double disagreement = 30;

/// The layer as a class of measured kernels, by its forward; nothing for others. Of half precision these are its
/// products alone: autocast computes softmax and norms in fp32, after a copy that a layer by itself includes.
std::optional<Kernel> kernel_of(const LayerCase& layer) {
  const bool half = is_half(layer.precision);
  Kernel kernel;
  kernel.element_bytes = half ? 2 : 4;
  kernel.m = static_cast<double>(layer.batch_size) * static_cast<double>(layer.seq_len);
  kernel.n = static_cast<double>(layer.in);
  if (layer.precision == Precision::fp64 || (half && layer.type != LayerType::linear)) return std::nullopt;
  switch (layer.type) {
    case LayerType::linear:
      if (layer.activation != "none" || layer.precision == Precision::tf32) return std::nullopt;
      kernel.kind = half ? KernelClass::gemm_bf16 : KernelClass::linear;
      kernel.n = static_cast<double>(layer.out);
      kernel.k = static_cast<double>(layer.in);
      return kernel;
    case LayerType::softmax:
      kernel.kind = KernelClass::softmax;
      return kernel;
    case LayerType::layernorm:
      kernel.kind = KernelClass::layernorm;
      return kernel;
    case LayerType::elementwise: {
      const auto* found = std::find(elementwise_ops.begin(), elementwise_ops.end(), layer.variant);
      if (found == elementwise_ops.end()) return std::nullopt;
      kernel.kind = KernelClass::elementwise;
      kernel.variant = static_cast<int>(found - elementwise_ops.begin());
      kernel.tensors = layer.variant == "add" ? 3 : 2;
      return kernel;
    }
    default:
      return std::nullopt;
  }
}

std::string name_of(const LayerCase& layer) {
  return fmt::format("{} of batch {}", to_string(layer.type), layer.batch_size);
}

void check_possible(const LayerRow& row, const std::vector<StepKernel>& kernels, const StepDevice& device) {
  double flops = 0;
  for (const StepKernel& kernel : kernels) {
    const bool direct = kernel.group == StepGroup::product || kernel.group == StepGroup::recurrent ||
                        (is_convolution(kernel.group) && !kernel.three_by_three);  // Winograd's needs fewer
    if (direct) flops += kernel.flops;
  }
  const double peak = std::max(device.matrix.flops, device.conv_flops), sec = *row.step_sec;
  if (flops > above_peak * peak * sec) {
    throw InputError(
        fmt::format("the probe contradicts the device: {} ran at {:.3g} TFLOP/s, and the peak of {} is {:.3g}",
                    name_of(row.layer), flops / sec / 1e12, device.matrix.name, peak / 1e12));
  }
}

constexpr std::size_t max_heavy = 16;

/// FLOPs of a layer's forward; 0 for types that move bytes.
double flops_of(const LayerCase& layer) {
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  const double rows = d(layer.batch_size) * d(layer.seq_len);
  switch (layer.type) {
    case LayerType::conv2d:
      return 2 * d(layer.batch_size) * d(output_pixels(layer)) * d(output_pixels(layer)) * d(layer.out) *
             d(layer.in / layer.groups) * d(layer.kernel_size) * d(layer.kernel_size);
    case LayerType::linear:
      return 2 * rows * d(layer.in) * d(layer.out);
    case LayerType::attention:
      return rows * d(layer.in) * (8 * d(layer.in) + 4 * d(layer.seq_len));
    default:
      return 0;
  }
}

struct Weighted {
  LayerCase layer;
  double weight = 0;  // of all layers of the network that are equal
};

std::vector<Weighted> weighted_layers(const std::string& network, std::int64_t batch_size, Precision precision) {
  std::map<std::string, Weighted> layers;
  for (LayerCase layer : layers_of(build_network(Workload::zoo(network, batch_size)))) {
    layer.precision = precision;
    if (layer.type == LayerType::embedding) continue;  // its input is not drawn as words are
    Weighted& own = layers[layer_key(layer)];
    const double flops = flops_of(layer);
    own.weight += flops > 0 ? flops : layer_bytes(layer);
    own.layer = std::move(layer);
  }
  std::vector<Weighted> sorted;
  for (auto& [key, own] : layers) sorted.push_back(std::move(own));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Weighted& a, const Weighted& b) { return a.weight > b.weight; });
  return sorted;
}

/// A layer's own kernels as a step.
StepRow step_of(const LayerRow& row, const DeviceProbe& probe, const StepDevice& device) {
  std::vector<StepKernel> kernels = own_kernels(layer_step(row.layer, probe.device.kind));
  check_possible(row, kernels, device);
  find_repeats(kernels);
  StepRow step;
  step.machine = probe_key(probe.device.name, probe.precision);
  step.gpu = probe.device.name;
  step.sec = *row.step_sec;
  step.whole = false;
  step.device = device;
  step.kernels = std::make_shared<const std::vector<StepKernel>>(std::move(kernels));
  return step;
}

/// The first layer that is far off what the others say of it, and by which factor.
std::optional<std::pair<std::size_t, double>> disagreeing(const StepModel& model, const std::vector<StepRow>& steps) {
  std::vector<double> residuals;
  for (const StepRow& row : steps) residuals.push_back(std::log(row.sec) - model.predict(row).log_sec);
  const double middle = median(residuals);
  const auto found = std::find_if(residuals.begin(), residuals.end(), [middle](double residual) {
    return std::abs(residual - middle) >= std::log(disagreement);
  });
  if (found == residuals.end()) return std::nullopt;
  return std::pair(static_cast<std::size_t>(found - residuals.begin()), std::exp(*found - middle));
}

/// Layers that others disturbed and that disagree with the rest are dropped, one at a time.
void learn_steps(StepModel& model, std::vector<StepRow>& steps, std::vector<const LayerRow*>& layers,
                 const std::optional<double>& host_sec) {
  const StepModel before = model;
  while (true) {
    if (steps.empty()) throw InputError("the probe is empty: no layer was timed within its budget");
    model = before;
    model.probe(steps.front().machine, pointers_to(steps), host_sec);
    const auto off = disagreeing(model, steps);
    if (!off) return;
    const auto at = static_cast<std::ptrdiff_t>(off->first);
    if (layers[off->first]->outcome != "untrusted") {
      throw InputError(fmt::format("the probe contradicts itself: {} took {:.3g} times what the other layers say of it",
                                   name_of(layers[off->first]->layer), off->second));
    }
    steps.erase(steps.begin() + at);
    layers.erase(layers.begin() + at);
  }
}

}  // namespace

std::vector<LayerCase> probe_layers(const std::vector<std::string>& networks, std::int64_t batch_size,
                                    Precision precision) {
  std::vector<std::vector<LayerCase>> heavy;
  std::map<std::string, Weighted> light;  // by type and variant
  for (const std::string& network : networks) {
    auto& own = heavy.emplace_back();
    for (Weighted& each : weighted_layers(network, batch_size, precision)) {
      if (flops_of(each.layer) > 0) {
        own.push_back(std::move(each.layer));
        continue;
      }
      Weighted& known = light[fmt::format("{} {}", to_string(each.layer.type), each.layer.variant)];
      if (each.weight > known.weight) known = std::move(each);
    }
  }
  std::vector<LayerCase> chosen;
  for (std::size_t turn = 0; chosen.size() < max_heavy; ++turn) {
    const std::size_t before = chosen.size();
    for (const auto& own : heavy) {
      if (turn >= own.size() || chosen.size() == max_heavy) continue;
      if (std::find(chosen.begin(), chosen.end(), own[turn]) == chosen.end()) chosen.push_back(own[turn]);
    }
    const bool more = std::any_of(heavy.begin(), heavy.end(), [&](const auto& own) { return turn + 1 < own.size(); });
    if (chosen.size() == before && !more) break;
  }
  // Alternately, so that a short budget has some of both.
  std::size_t at = 1;
  for (auto& [name, each] : light) {
    chosen.insert(chosen.begin() + static_cast<std::ptrdiff_t>(std::min(at, chosen.size())), std::move(each.layer));
    at += 2;
  }
  return chosen;
}

void learn_probe(OpModelState& state, const DeviceProbe& probe) {
  const StepDevice device = step_device(probe.device, probe.precision, StepArithmetic::as_graph);
  std::vector<StepRow> steps;
  std::vector<const LayerRow*> layers;
  for (const LayerRow& row : probe.layers) {
    if (!row.step_sec) continue;
    steps.push_back(step_of(row, probe, device));
    layers.push_back(&row);
  }
  learn_steps(state.steps, steps, layers, probe.host_sec);
  Device kept = probe.device;
  std::erase(kept.aliases, "cpu");
  keep_own(state.measured.devices, std::move(kept));
  if (device.matrix.family == KernelFamily::none) return;  // kernels of a CPU are StepModel's
  std::vector<OpRow> ops;
  for (const LayerRow* row : layers) {
    if (const auto kernel = kernel_of(row->layer); kernel && row->forward_sec) {
      ops.push_back({probe.device.name, row->layer.variant, false, *kernel, *row->forward_sec});
    }
  }
  state.kernels.probe(device.matrix, pointers_to(ops));
}

}  // namespace perfpred
