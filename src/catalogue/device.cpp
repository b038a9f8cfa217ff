// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <unordered_map>
#include <utility>

#include "catalogue/device_table.h"
#include "catalogue/embedded_devices.h"
#include "catalogue/listed_device.h"
#include "text/column.h"
#include "text/enum_names.h"
#include "text/nearest_name.h"

namespace perfpred {
namespace {

constexpr double tera = 1e12;

std::optional<double> scaled(const std::optional<double>& value, double factor) {
  if (!value) return std::nullopt;
  return *value * factor;
}

std::vector<std::string> split_aliases(std::string_view text) {
  std::vector<std::string> aliases;
  while (!text.empty()) {
    const std::size_t bar = text.find('|');
    if (bar != 0) aliases.emplace_back(text.substr(0, bar));
    if (bar == std::string_view::npos) break;
    text.remove_prefix(bar + 1);
  }
  return aliases;
}

/// @param most  of real devices, with room; more is taken for a wrong unit
Column<Device> number(std::string_view name, std::optional<double> Device::*member, int most) {
  return number_column(name, member, [most](std::string_view text, const ValuePlace& place) {
    const double value = parse_positive(text, place);
    if (value > most) throw_bad_value(place, text, fmt::format("at most {}; is the unit right?", most));
    return value;
  });
}

void set_kind(Device& device, std::string_view text, const ValuePlace& place) {
  if (text.empty()) return;
  const auto kind = enumerator_named<DeviceKind::other>(text);
  if (!kind) throw_bad_value(place, text, "gpu, cpu or other");
  device.kind = *kind;
}

/// The table of devices.csv.
const Columns<Device>& columns() {
  static const Columns<Device> all = {
      text_column("name", &Device::name, true),
      {"aliases", [](Device& d, std::string_view t, const ValuePlace&) { d.aliases = split_aliases(t); },
       [](const Device& d) { return fmt::format("{}", fmt::join(d.aliases, "|")); }},
      {"kind", set_kind, [](const Device& d) { return std::string(to_string(d.kind)); }},
      text_column("vendor", &Device::vendor),
      text_column("arch", &Device::arch),
      number("year", &Device::year, 2100),
      number("fp64_tflops", &Device::fp64_tflops, 1000),
      number("fp32_tflops", &Device::fp32_tflops, 1000),
      number("tf32_tflops", &Device::tf32_tflops, 5000),
      number("bf16_tflops", &Device::bf16_tflops, 10000),
      number("fp16_tflops", &Device::fp16_tflops, 10000),
      number("fp64_vector_tflops", &Device::fp64_vector_tflops, 1000),
      number("fp32_vector_tflops", &Device::fp32_vector_tflops, 1000),
      number("fp16_vector_tflops", &Device::fp16_vector_tflops, 1000),
      number("mem_gb", &Device::mem_gb, 2000),
      number("mem_bw_gbs", &Device::mem_bw_gbs, 100000),
      number("l2_mb", &Device::l2_mb, 10000),
      number("sms", &Device::sms, 10000),
      number("boost_mhz", &Device::boost_mhz, 10000),
      number("tdp_w", &Device::tdp_w, 10000),
      number("launch_us", &Device::launch_us, 1000),
      text_column("source", &Device::source),
  };
  return all;
}

/// `cpu`, or the model name of this machine's CPU.
bool is_this_cpu(std::string_view name) {
  return bare(name) == "cpu" || (!bare(name).empty() && bare(name) == bare(cpu_model_name()));
}

/// @throws InputError for a user's device whose name files cannot hold, or means another device
void check_name(const Device& device, const ValuePlace& place) {
  const auto refuse = [&](std::string_view expected) { throw_bad_value(place, device.name, expected); };
  const auto unfit = [](char c) { return c == ';' || static_cast<unsigned char>(c) < 0x20; };
  const std::string name = bare(device.name), listed = canonical_device(device.name);
  if (name.empty()) refuse("the name of a device");
  if (std::any_of(device.name.begin(), device.name.end(), unfit)) refuse("free of ; and control characters");
  if (name == "cpu" && device.kind != DeviceKind::cpu) refuse("a name of its own: it is this machine's CPU");
  if (bare(listed) != name) refuse(fmt::format("a name of its own: it is an alias of {}", listed));
}

/// @throws InputError for a peak that does not go with the bandwidth
void check_balance(const Device& device, const ValuePlace& place) {
  // FLOPs in the time of a byte; the catalogue has 0.3 to 420, CPUs 0.5 (no vectors) to 1100 (units for matrices).
  constexpr double least = 0.1, most = 3000;
  if (!device.mem_bw_gbs) return;
  for (const auto& [column, tflops] : {std::pair("fp64_tflops", device.fp64_tflops),
                                       {"fp32_tflops", device.fp32_tflops},
                                       {"tf32_tflops", device.tf32_tflops},
                                       {"bf16_tflops", device.bf16_tflops},
                                       {"fp16_tflops", device.fp16_tflops}}) {
    if (!tflops) continue;
    const double intensity = *tflops * 1e3 / *device.mem_bw_gbs;
    if (intensity >= least && intensity <= most) continue;
    throw InputError(fmt::format("{}device \"{}\": no device has {} {} and mem_bw_gbs {}; is a unit wrong?",
                                 place.prefix(), device.name, column, *tflops, *device.mem_bw_gbs));
  }
}

/// @param own  the file is the user's: names are checked against the built-in catalogue
std::vector<Device> read_devices(CsvReader csv, bool own = false) {
  const TableReader<Device> table(csv, columns());
  std::vector<Device> devices;
  while (csv.next()) {
    Device device;
    table.read(csv, device);
    if (own) check_name(device, csv.place("name"));
    const auto same = [&device](const Device& other) { return bare(other.name) == bare(device.name); };
    if (std::any_of(devices.begin(), devices.end(), same)) {
      throw InputError(fmt::format("{}device \"{}\" appears twice", csv.place("").prefix(), device.name));
    }
    check_balance(device, csv.place(""));
    devices.push_back(std::move(device));
  }
  return devices;
}

/// Adds a device, or replaces the one of its name, whose spelling and aliases stay: files have them.
void put(std::vector<Device>& devices, Device device) {
  const auto known = std::find_if(devices.begin(), devices.end(),
                                  [&device](const Device& d) { return bare(d.name) == bare(device.name); });
  if (known == devices.end()) {
    devices.push_back(std::move(device));
    return;
  }
  device.name = known->name;
  for (std::string& alias : known->aliases) {
    const auto same = [&alias](const std::string& other) { return bare(other) == bare(alias); };
    if (std::none_of(device.aliases.begin(), device.aliases.end(), same)) device.aliases.push_back(std::move(alias));
  }
  *known = std::move(device);
}

const DeviceCatalogue& built_in() {
  static const DeviceCatalogue catalogue;
  return catalogue;
}

template <class Range>
std::string listed(const Range& devices) {
  std::vector<std::string_view> names;
  for (const auto& device : devices) {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(device)>>) {
      names.push_back(device->name);
    } else {
      names.push_back(device.name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string_view to_string(DeviceKind kind) { return enumerator_name_of<DeviceKind::other>(kind); }

std::optional<double> Device::matrix_flops(Precision precision) const {
  switch (precision) {
    case Precision::fp64:
      return scaled(fp64_tflops, tera);
    case Precision::tf32:
      return scaled(tf32_tflops ? tf32_tflops : fp32_tflops, tera);
    case Precision::bf16:
      return scaled(bf16_tflops, tera);
    case Precision::fp16:
      return scaled(fp16_tflops, tera);
    case Precision::fp32:
    case Precision::default_:
      return scaled(fp32_tflops, tera);
    case Precision::unknown:
      break;
  }
  return std::nullopt;
}

std::optional<double> Device::convolution_flops(Precision precision) const {
  return matrix_flops(precision == Precision::default_ ? Precision::tf32 : precision);
}

std::optional<double> Device::vector_flops(Precision precision) const {
  return scaled(precision == Precision::fp64 ? fp64_vector_tflops : fp32_vector_tflops, tera);
}

std::optional<double> Device::memory_bytes() const { return scaled(mem_gb, 1e9); }

DeviceCatalogue::DeviceCatalogue() : devices_(read_devices(CsvReader::from_text("devices.csv", embedded_devices))) {}

void DeviceCatalogue::add(const std::string& path) {
  for (Device& device : read_devices(CsvReader(path), true)) put(devices_, std::move(device));
}

void DeviceCatalogue::add(Device device) {
  for (const Column<Device>& column : columns()) {  // as if it were read
    Device unused;
    column.set(unused, column.get(device), {{}, 0, column.name});
  }
  check_name(device, {{}, 0, "name"});
  check_balance(device, {});
  put(devices_, std::move(device));
}

std::vector<const Device*> DeviceCatalogue::candidates(std::string_view name) const& {
  const std::string wanted = bare(name);
  std::vector<const Device*> found;
  for (const Device& device : devices_) {
    if (bare(device.name) == wanted) return {&device};
    if (std::any_of(device.aliases.begin(), device.aliases.end(),
                    [&wanted](const std::string& alias) { return bare(alias) == wanted; })) {
      found.push_back(&device);
    }
  }
  return found;
}

Device DeviceCatalogue::find(std::string_view name) const {
  return is_this_cpu(name) && candidates(name).empty() ? Device::this_cpu() : named(name);
}

Device DeviceCatalogue::find_measured(std::string_view name) const {
  if (!is_this_cpu(name) || !candidates(name).empty()) return named(name);
  static const Device measured = Device::measured_cpu();
  return measured;
}

std::string DeviceCatalogue::full_name(std::string_view name) const {
  if (name == "unknown") return "unknown";
  return is_this_cpu(name) && candidates(name).empty() ? cpu_model_name() : named(name).name;
}

const Device& DeviceCatalogue::named(std::string_view name) const {
  const auto found = candidates(name);
  if (found.size() == 1) return *found.front();
  if (found.size() > 1) {
    throw InputError(fmt::format("device \"{}\" may be any of {}", shown(name), listed(found)));
  }
  NearestName nearest(bare(name));
  for (const Device& device : devices_) {
    nearest.offer(bare(device.name), device.name);
    for (const std::string& alias : device.aliases) nearest.offer(bare(alias), alias);
  }
  throw InputError(fmt::format("device \"{}\" is not known{}; known are {}, cpu", shown(name),
                               nearest.found() ? fmt::format(" (did you mean \"{}\"?)", *nearest.found()) : "",
                               listed(devices_)));
}

std::string canonical_device(std::string_view name) {
  if (name == "unknown") return "unknown";
  static const std::unordered_map<std::string, std::string> spellings = [] {
    std::unordered_map<std::string, std::string> all;
    const auto add = [&](const std::string& text) {
      if (const auto found = built_in().candidates(text); found.size() == 1)
        all.emplace(bare(text), found.front()->name);
    };
    for (const Device& device : built_in().devices()) {
      add(device.name);
      std::for_each(device.aliases.begin(), device.aliases.end(), add);
    }
    return all;
  }();
  const auto found = spellings.find(bare(name));
  return found == spellings.end() ? std::string(name) : found->second;
}

std::optional<std::string> find_device(const DeviceCatalogue& catalogue, const std::string& asked,
                                       const std::set<std::string>& names) {
  if (names.contains(asked)) return asked;
  const std::string spelling = bare(is_this_cpu(asked) ? cpu_model_name() : asked);
  const auto wanted = catalogue.candidates(asked);
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return bare(name) == spelling || (wanted.size() == 1 && catalogue.candidates(name) == wanted);
  });
  return found == names.end() ? std::nullopt : std::optional(*found);
}

const Device* listed_device(std::string_view name) {
  static const std::unordered_map<std::string_view, const Device*> listed = [] {
    std::unordered_map<std::string_view, const Device*> all;
    for (const Device& device : built_in().devices()) all.emplace(device.name, &device);
    return all;
  }();
  const auto found = listed.find(name);
  return found == listed.end() ? nullptr : found->second;
}

std::string peak_precisions(const Device& device) {
  std::vector<std::string_view> known;
  for (const Precision precision :
       {Precision::fp64, Precision::fp32, Precision::tf32, Precision::default_, Precision::bf16, Precision::fp16}) {
    if (device.matrix_flops(precision)) known.push_back(to_string(precision));
  }
  return known.empty() ? "no precision" : fmt::format("{}", fmt::join(known, ", "));
}

const std::vector<std::string>& device_columns() {
  static const std::vector<std::string> names = names_of(columns());
  return names;
}

std::vector<std::string> device_fields(const Device& device) { return fields_of(columns(), device); }

const std::string& cpu_model_name() {
  static const std::string name = []() -> std::string {  // every prediction asks for it
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line)) {
      const std::size_t colon = line.find(':');
      if (line.starts_with("model name") && colon != std::string::npos) {
        const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
        return begin == std::string::npos ? std::string() : line.substr(begin);
      }
    }
    return {};
  }();
  return name;
}

}  // namespace perfpred
