// SPDX-License-Identifier: Apache-2.0
#include "optime/learned_devices.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <vector>

#include "catalogue/device_table.h"

namespace perfpred {
namespace {

/// All that formulas read of a device. In a user's row it may differ from that of the device of the same name.
auto rates_of(const Device& device, Precision asked) {
  const Precision precision = computed_precision(device, asked);
  return std::tuple(precision, device.kind, std::string_view(device.arch), device.matrix_flops(precision),
                    device.convolution_flops(precision), device.vector_flops(precision), device.mem_bw_gbs,
                    device.l2_mb, device.sms, device.boost_mhz, device.tdp_w);
}

}  // namespace

LearnedDevices::LearnedDevices(const OpModelState& state) {
  const std::vector<Device>& kept = state.measured.devices;
  const auto add = [&](const std::string& name) {
    const auto [found, is_new] = devices_.try_emplace(name);
    if (!is_new) return;
    const auto own = std::find_if(kept.begin(), kept.end(), [&](const Device& device) { return device.name == name; });
    found->second = own != kept.end() ? &*own : built_in_device(name);
  };
  for (const auto& [key, machine] : state.steps.machines) add(key.device);
  for (const auto& [key, rates] : state.measured.rates) add(key.device);
  for (const auto& model : state.kernels.classes) {
    if (!model) continue;
    for (const auto& [name, device] : model->devices) add(name);
  }
}

const Device* LearnedDevices::find(const std::string& name) const {
  const auto found = devices_.find(name);
  return found == devices_.end() ? nullptr : found->second;
}

bool LearnedDevices::hold_for(const Device& device, Precision precision) const {
  const Device* learned = find(device.name);
  return learned == nullptr || rates_of(device, precision) == rates_of(*learned, precision);
}

}  // namespace perfpred
