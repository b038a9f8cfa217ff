// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/column.h"

namespace perfpred {

/// The devices of data/devices.csv.
[[nodiscard]] const DeviceCatalogue& built_in_devices();

/// Its row of a name; null for one that it lacks or that several devices share.
[[nodiscard]] const Device* built_in_device(std::string_view name);

/// Adds a device in place of the one of its name, unless the built-in catalogue has it with these very values: the
/// devices whose rates a model file has to hold.
void keep_own(std::vector<Device>& kept, Device device);

[[nodiscard]] const Columns<Device>& device_table();  ///< of devices.csv

/// The precisions in which matrix products have a known rate there, for messages: `fp64, fp32, tf32, default`.
[[nodiscard]] std::string peak_precisions(const Device& device);

/// What ResolvedDevice::known() throws; empty for a device that is known.
[[nodiscard]] std::string why_unknown(const ResolvedDevice& asked);

/// What ResolvedDevice::rated() throws; empty for a device whose rates are known.
[[nodiscard]] std::string why_unrated(const ResolvedDevice& asked);

/// ResolvedDevice::full_name(), or those of all devices that share the name. @throws InputError for an unknown one
[[nodiscard]] std::vector<std::string> full_names(const ResolvedDevice& device);

/// The first of the names that rows carry that means the device that was asked for: the text itself, or one that
/// differs only in case and punctuation, or another name of the same device. Nothing if none does.
[[nodiscard]] std::optional<std::string> find_name(const ResolvedDevice& asked, const std::set<std::string>& names);

/// Why runs under this name of a device answer for the name alone: no catalogue has it. Empty for one that it has.
/// @throws InputError for a name that several devices share
[[nodiscard]] std::string unknown_device(std::string_view name);

/// What the kernel calls this machine's CPU; empty if it does not say.
[[nodiscard]] const std::string& cpu_model_name();

/// Whether a device is this machine's CPU: it has the name or an alias `cpu`, or the name that the kernel gives.
[[nodiscard]] bool is_this_cpu(const Device& device);

/// Bits of the vector registers for which oneDNN has kernels on this machine: 512 with AVX-512 F, BW, VL and DQ, else
/// 256 with AVX2; 0 for other CPUs.
[[nodiscard]] int this_cpu_vector_bits();

}  // namespace perfpred
