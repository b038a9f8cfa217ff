// SPDX-License-Identifier: Apache-2.0
#include "optime/hardware.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "catalogue/device_table.h"
#include "text/enum_names.h"

namespace perfpred {
namespace {

struct Architecture {
  std::string_view begin;  // of its name
  KernelFamily family;
  double node_nm;
  int year;  // in the middle of those in which its cards came out
};

constexpr std::array<Architecture, 9> architectures = {{{"Pascal", KernelFamily::pascal, 16, 2017},
                                                        {"Volta", KernelFamily::volta_turing, 12, 2018},
                                                        {"Turing", KernelFamily::volta_turing, 12, 2018},
                                                        {"Ampere", KernelFamily::ampere_ada, 7, 2021},
                                                        {"Ada", KernelFamily::ampere_ada, 4.5, 2023},
                                                        {"Hopper", KernelFamily::ampere_ada, 4.5, 2023},
                                                        {"Blackwell", KernelFamily::ampere_ada, 4.5, 2025},
                                                        {"CDNA2", KernelFamily::cdna, 6, 2021},
                                                        {"CDNA", KernelFamily::cdna, 7, 2022}}};

constexpr double power_exponent = 8.4, power_softness = 15;

const Architecture* find(std::string_view arch) {
  for (const Architecture& known : architectures) {
    if (arch.starts_with(known.begin)) return &known;
  }
  return nullptr;
}

/// A value in the range of real devices; else somebody took another unit.
/// @param unknown  taken for an empty value; without it, @throws InputError for one
double plausible(const Device& device, std::string_view column, const std::optional<double>& value, double low,
                 double high, std::optional<double> unknown = std::nullopt) {
  if (!value && unknown) return *unknown;
  if (!value) throw InputError(fmt::format("device \"{}\" has no {}", device.name, column));
  if (!(*value >= low && *value <= high)) {
    throw InputError(fmt::format("device \"{}\": {} {} is not between {} and {}; is the unit right?", device.name,
                                 column, *value, low, high));
  }
  return *value;
}

}  // namespace

double usual_host(std::string_view arch) {
  constexpr int last_alike = 2018;
  constexpr double faster_a_year = 0.07;
  const Architecture* known = find(arch);
  return known == nullptr ? 0 : -faster_a_year * std::max(0, known->year - last_alike);
}

KernelFamily kernel_family(std::string_view arch) {
  const Architecture* known = find(arch);
  return known == nullptr ? KernelFamily::none : known->family;
}

Chip chip_of(const Device& device) {
  constexpr double least_share = 0.25;  // of single precision: 1/2 or 1/3 in data centres, 1/32 or 1/64 elsewhere
  constexpr std::array<std::string_view, 2> of_data_centres = {"Hopper", "Blackwell"};  // also where fp64 is cut
  if (std::find(of_data_centres.begin(), of_data_centres.end(), device.arch) != of_data_centres.end())
    return {device.arch, true};
  const auto fp64 = device.fp64_vector_tflops ? device.fp64_vector_tflops : device.fp64_tflops;
  const auto fp32 = device.fp32_vector_tflops ? device.fp32_vector_tflops : device.fp32_tflops;
  return {device.arch, fp64 && fp32 && *fp64 > least_share * *fp32};
}

bool is_at_least(const Device& better, const Device& other) {
  if (better.name == other.name || better.arch != other.arch || better.vendor != other.vendor) return false;
  constexpr std::array rates = {&Device::fp64_tflops,        &Device::fp32_tflops, &Device::tf32_tflops,
                                &Device::bf16_tflops,        &Device::fp16_tflops, &Device::fp32_vector_tflops,
                                &Device::fp16_vector_tflops, &Device::mem_bw_gbs};
  constexpr std::array limits = {&Device::l2_mb, &Device::sms, &Device::boost_mhz, &Device::tdp_w};
  const auto lacks_or_reaches = [&](auto column) {  // a rate that is missing does not exist
    return (better.*column).value_or(0) >= (other.*column).value_or(0);
  };
  const auto reaches = [&](auto column) {  // a limit that is missing is not known, and parts nothing
    return !(better.*column) || !(other.*column) || *(better.*column) >= *(other.*column);
  };
  return std::all_of(rates.begin(), rates.end(), lacks_or_reaches) &&
         std::all_of(limits.begin(), limits.end(), reaches);
}

std::optional<int> generation(std::string_view arch) {
  const Architecture* known = find(arch);
  if (known == nullptr || known->family == KernelFamily::cdna) return std::nullopt;
  return static_cast<int>(known - architectures.data());
}

std::string_view to_string(KernelFamily family) { return enumerator_name_of<KernelFamily::cdna>(family); }

Precision computed_precision(const Device& device, Precision asked) {
  const bool half = asked == Precision::fp16 || (asked == Precision::bf16 && device.kind == DeviceKind::cpu);
  return half && !device.matrix_flops(asked) && device.matrix_flops(Precision::fp32) ? Precision::fp32 : asked;
}

namespace {

/// X of power_share(); 0 for an architecture that is not listed.
double power_draw(std::string_view arch, double ghz, double tflops, double watts) {
  const Architecture* known = find(arch);
  return known == nullptr ? 0 : 1.02 * known->node_nm * ghz * ghz * tflops / watts;
}

}  // namespace

double power_share(std::string_view arch, double ghz, double tflops, double watts) {
  const double x = power_draw(arch, ghz, tflops, watts);
  return std::exp(-std::log1p(std::pow(x, power_exponent)) / power_softness);
}

double l2_partitions(std::string_view arch, double l2) {
  constexpr double largest_undivided = 10e6;
  return (arch.starts_with("Ampere") || arch.starts_with("Hopper")) && l2 > largest_undivided ? 2 : 1;
}

double log_share_at(double power_share, double draw) {
  const double at_full_draw = std::pow(power_share, -power_softness) - 1;  // X^8.4
  return -std::log1p(std::pow(draw, power_exponent) * at_full_draw) / power_softness;
}

void Hardware::set_matrix_units(std::string_view arch, double ghz, double watts) {
  constexpr double most_draw = 24, corner = 8, of_data_centres = 1536;
  clock_flops = flops / (sms * ghz * 1e9);
  if (clock_flops > of_data_centres) return;
  const double draw = power_draw(arch, ghz, flops / 1e12, watts) / most_draw;
  matrix_share = std::pow(1 + std::pow(draw, corner), -1 / corner);
}

namespace {

bool is_of_vector_units(const Device& device, double peak) {
  return device.fp32_vector_tflops && peak <= *device.fp32_vector_tflops * 1.01;
}

/// GHz
std::optional<double> clock_of(const Device& device) {
  if (!device.boost_mhz) return std::nullopt;
  return plausible(device, "boost_mhz", device.boost_mhz, 100, 1e4) / 1e3;
}

/// GHz of the clock and W of the power limit, if both are known.
std::optional<std::pair<double, double>> clock_and_power(const Device& device) {
  const auto clock = clock_of(device);
  if (!clock || !device.tdp_w) return std::nullopt;
  return std::pair(*clock, plausible(device, "tdp_w", device.tdp_w, 1, 1e4));
}

/// power_share() at a device's peak, TFLOP/s, if that is of vector units.
double power_share_of(const Device& device, double peak) {
  const auto known = is_of_vector_units(device, peak) ? clock_and_power(device) : std::nullopt;
  return known ? power_share(device.arch, known->first, peak, known->second) : 1;
}

/// Clocks of all multiprocessors in a second, by their rate in single precision.
double clocks_by_rate(const Hardware& hardware, const Device& device) {
  constexpr double lanes_flops = 256;  // of a multiprocessor in a clock, from Ampere's consumer chips on but for A100
  const double flops = device.fp32_vector_tflops ? *device.fp32_vector_tflops * 1e12 : hardware.vector_flops;
  return flops / lanes_flops;
}

/// Of a device whose specification does not say: as many as its vector units' rate takes at a usual clock.
double usual_sms(const Hardware& hardware, const Device& device) {
  constexpr double usual_ghz = 1.9, middling = 64;
  if (hardware.family == KernelFamily::none || !device.fp32_vector_tflops) return middling;
  const double clock = clock_of(device).value_or(usual_ghz) * 1e9;
  return std::clamp(std::round(clocks_by_rate(hardware, device) / clock), 1.0, 1e4);
}

/// Waves and cache are second-order: a device whose specification does not name its cache is taken for a middling one.
void set_multiprocessors(Hardware& hardware, const Device& device, double peak) {
  hardware.sms = plausible(device, "sms", device.sms, 1, 1e4, usual_sms(hardware, device));
  hardware.threads = threads_per_sm * hardware.sms;
  hardware.l2 = 1e6 * plausible(device, "l2_mb", device.l2_mb, 0.01, 1e4, 4);
  hardware.l2_partitions = l2_partitions(device.arch, hardware.l2);
  if (hardware.family == KernelFamily::none) return;
  const auto clock = clock_of(device);
  const double clocks = clock && device.sms ? hardware.sms * *clock * 1e9 : clocks_by_rate(hardware, device);
  hardware.clock_bytes = hardware.bandwidth / clocks;
  if (!device.sms || is_of_vector_units(device, peak)) return;
  if (const auto known = clock_and_power(device)) hardware.set_matrix_units(device.arch, known->first, known->second);
}

/// power_share_of(), but no less than what devices sustain that this one is at least as good as: it can run at their
/// clock.
double sustained_share(const Device& device, Precision precision, double peak) {
  double sustained = power_share_of(device, peak);
  if (sustained == 1) return 1;
  for (const Device& worse : built_in_devices().devices()) {
    const auto of_worse = worse.arch == device.arch ? worse.matrix_flops(precision) : std::nullopt;
    if (!of_worse || !clock_and_power(worse) || !is_at_least(device, worse)) continue;
    const double worse_peak = *of_worse / 1e12;
    sustained = std::clamp(worse_peak / peak * power_share_of(worse, worse_peak), sustained, 1.0);
  }
  return sustained;
}

/// W that a device of the same architecture draws at this one's peak and clock, and GHz of its own, if they are known.
std::optional<std::pair<double, double>> limits_at(const Device& other, const Device& device, Precision precision,
                                                   double flops) {
  const auto limits = other.arch == device.arch ? clock_and_power(other) : std::nullopt;
  const auto of_other = limits ? other.matrix_flops(precision) : std::nullopt;
  if (!of_other) return std::nullopt;
  const auto [clock, power] = *limits;
  const double share = clock_of(device).value_or(clock) / clock;
  return std::pair(power * share * share * flops / *of_other, clock);
}

}  // namespace

Device with_power_limit(Device device, Precision precision) {
  const auto flops = device.matrix_flops(precision);
  if (device.kind != DeviceKind::gpu || device.tdp_w || !flops) return device;
  std::optional<std::pair<double, double>> least;  // watts, and GHz of the better device that leaves no more
  double same_peak = 0;  // watts of a device with the same peak, of which this one may be more
  for (const Device& other : built_in_devices().devices()) {
    const auto limits = limits_at(other, device, precision, *flops);
    if (!limits) continue;
    if (is_at_least(other, device)) least = std::min(least.value_or(*limits), *limits);
    if (other.matrix_flops(precision) == flops && is_at_least(device, other))
      same_peak = std::max(same_peak, limits->first);
  }
  if (least || same_peak > 0) device.tdp_w = std::max(least ? least->first : 0, same_peak);
  if (least && !device.boost_mhz) device.boost_mhz = 1e3 * least->second;
  return device;
}

Hardware hardware_of(const Device& device, Precision precision) {
  if (precision == Precision::unknown) {
    throw InputError("\"unknown\" is no precision to predict; give fp32, tf32, default, bf16, fp16 or fp64");
  }
  const auto flops = device.matrix_flops(precision);
  const std::string column =
      fmt::format("{}_tflops", to_string(precision == Precision::default_ ? Precision::fp32 : precision));
  if (!flops) {
    throw InputError(
        fmt::format("device \"{}\" has no {}; it has peaks for {}", device.name, column, peak_precisions(device)));
  }
  Hardware hardware;
  hardware.name = device.name;
  hardware.family = device.kind == DeviceKind::gpu ? kernel_family(device.arch) : KernelFamily::none;
  constexpr double least = 1e-3, most = 1e5;  // TFLOP/s
  const double peak = plausible(device, column, *flops / 1e12, least, most);
  hardware.flops = 1e12 * peak;
  const bool fp64 = precision == Precision::fp64;
  hardware.vector_flops =
      1e12 * plausible(device, fp64 ? "fp64_vector_tflops" : "fp32_vector_tflops",
                       fp64 ? device.fp64_vector_tflops : device.fp32_vector_tflops, least, most, peak);
  if (precision == Precision::default_) plausible(device, "tf32_tflops", device.tf32_tflops, least, most, peak);
  hardware.bandwidth = 1e9 * plausible(device, "mem_bw_gbs", device.mem_bw_gbs, 1, 1e5);
  set_multiprocessors(hardware, device, peak);
  hardware.power_share = sustained_share(device, precision, peak);
  return hardware;
}

}  // namespace perfpred
