// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optime/layers/layer_rows.h"
#include "optime/op_model_state.h"

namespace perfpred {

/// What a probe of some seconds measured on a device.
struct DeviceProbe {
  Device device;  ///< with its rates
  Precision precision = Precision::fp32;
  std::vector<LayerRow> layers;    ///< also those that were disturbed; without a time they say nothing
  std::optional<double> host_sec;  ///< that the host needs to dispatch an operator, forward, under autograd
};

/// Learns the device's effects from the probe: of kernels by KernelModel::probe, of steps by StepModel::probe. Few rows
/// move them little. A disturbed layer that disagrees with the others is left out.
/// @throws InputError for a probe without a timed layer; one that is faster than the device can be; one with an
/// undisturbed layer that disagrees with the others
void learn_probe(OpModelState& state, const DeviceProbe& probe);

/// Layers of networks that say most about their steps: at most 16 convolutions, linear layers and attentions with the
/// most FLOPs, the networks taking turns, and of each other type and variant the layer with the most bytes. The two
/// lists alternate, so that a short budget has some of both.
/// @throws InputError for a network that is not known
[[nodiscard]] std::vector<LayerCase> probe_layers(const std::vector<std::string>& networks, std::int64_t batch_size,
                                                  Precision precision);

}  // namespace perfpred
