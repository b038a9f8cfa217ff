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
      number("usable_gib", &Device::usable_gib, 2000),
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

/// Its fields, as if they were read from a user's file. @throws InputError
void check_device(const Device& device) {
  for (const Column<Device>& column : columns()) {
    Device unused;
    column.set(unused, column.get(device), {{}, 0, column.name});
  }
  check_name(device, {{}, 0, "name"});
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

std::optional<std::int64_t> Device::usable_bytes() const {
  constexpr double gibibyte = 1024.0 * 1024 * 1024, gigabyte = 1e9;
  const auto bytes = [](double amount, double unit) { return static_cast<std::int64_t>(amount * unit); };
  if (usable_gib) return bytes(*usable_gib, gibibyte);
  if (!mem_gb) return std::nullopt;
  if (kind == DeviceKind::gpu && vendor == "NVIDIA") return bytes(*mem_gb * 0.985, gibibyte);
  if (kind == DeviceKind::gpu && vendor == "AMD") return bytes(*mem_gb * 0.999, gibibyte);
  return bytes(*mem_gb, gigabyte);
}

DeviceKind ResolvedDevice::kind(bool has_threads) const {
  if (device != nullptr) return device->kind;
  return has_threads ? DeviceKind::cpu : DeviceKind::gpu;
}

bool ResolvedDevice::lacks_rates() const { return origin == DeviceOrigin::this_cpu && !device->mem_bw_gbs; }

const Device& ResolvedDevice::known() const {
  if (device != nullptr) return *device;
  if (origin == DeviceOrigin::ambiguous) {
    throw InputError(fmt::format("device \"{}\" may be any of {}", shown(text), listed(catalogue->candidates(text))));
  }
  NearestName nearest(bare(text));
  for (const Device& other : catalogue->devices()) {
    nearest.offer(bare(other.name), other.name);
    for (const std::string& alias : other.aliases) nearest.offer(bare(alias), alias);
  }
  throw InputError(fmt::format("device \"{}\" is not known{}; known are {}, cpu", shown(text),
                               nearest.found() ? fmt::format(" (did you mean \"{}\"?)", *nearest.found()) : "",
                               listed(catalogue->devices())));
}

const Device& ResolvedDevice::rated() const {
  if (!lacks_rates()) return known();
  throw InputError(
      fmt::format("the rates of this machine's CPU, \"{}\", are not known: perfpred-devices --measure "
                  "measures them, in C++ DeviceCatalogue::set_cpu(Device::measured_cpu())",
                  shown(device->name)));
}

DeviceCatalogue::DeviceCatalogue()
    : devices_(read_devices(CsvReader::from_text("devices.csv", embedded_devices))), cpu_(Device::this_cpu()) {
  make_index();
}

void DeviceCatalogue::make_index() {
  index_.clear();
  for (std::size_t i = 0; i < devices_.size(); ++i) index_[bare(devices_[i].name)] = {i};
  const auto names = index_;  // a device's name is no other's alias
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    for (const std::string& alias : devices_[i].aliases) {
      if (names.contains(bare(alias))) continue;
      Places& places = index_[bare(alias)];
      if (places.empty() || places.back() != i) places.push_back(i);
    }
  }
  const std::string model = bare(cpu_.name);
  for (const auto& [text, other] : {std::pair(std::string("cpu"), model), {model, "cpu"}}) {
    if (index_.contains(text)) continue;
    const auto known = index_.find(other);
    index_.emplace(text, known == index_.end() ? Places() : known->second);
  }
  const auto add_as_written = [&](const std::string& text) {  // found without making a bare text
    const auto known = index_.find(bare(text));
    if (known != index_.end()) index_.emplace(text, Places(known->second));
  };
  for (const Device& device : devices_) {
    add_as_written(device.name);
    std::for_each(device.aliases.begin(), device.aliases.end(), add_as_written);
  }
  add_as_written(cpu_.name);
}

void DeviceCatalogue::add(const std::string& path) {
  for (Device& device : read_devices(CsvReader(path), true)) put(devices_, std::move(device));
  make_index();
}

void DeviceCatalogue::add(Device device) {
  check_device(device);
  check_balance(device, {});
  put(devices_, std::move(device));
  make_index();
}

void DeviceCatalogue::set_cpu(Device measured) {
  check_device(measured);
  if (bare(measured.name) != bare(cpu_.name)) {
    throw InputError(fmt::format("device \"{}\" is not this machine's CPU, which is \"{}\"", shown(measured.name),
                                 shown(cpu_.name)));
  }
  cpu_ = std::move(measured);
}

const DeviceCatalogue::Places* DeviceCatalogue::places_of(std::string_view text) const {
  auto found = index_.find(text);
  if (found == index_.end()) found = index_.find(bare(text));
  return found == index_.end() ? nullptr : &found->second;
}

ResolvedDevice DeviceCatalogue::resolve(std::string_view text) const& {
  const Places* places = places_of(text);
  if (places == nullptr) return {this, text, nullptr, DeviceOrigin::unknown};
  if (places->empty()) return {this, text, &cpu_, DeviceOrigin::this_cpu};
  if (places->size() > 1) return {this, text, nullptr, DeviceOrigin::ambiguous};
  return {this, text, &devices_[places->front()], DeviceOrigin::row};
}

std::vector<const Device*> DeviceCatalogue::candidates(std::string_view text) const& {
  std::vector<const Device*> found;
  if (const Places* places = places_of(text)) {
    for (const std::size_t place : *places) found.push_back(&devices_[place]);
  }
  return found;
}

std::string ResolvedDevice::full_name() const { return text == "unknown" ? "unknown" : known().name; }

const DeviceCatalogue& built_in_devices() {
  static const DeviceCatalogue catalogue;
  return catalogue;
}

void keep_own(std::vector<Device>& kept, Device device) {
  std::erase_if(kept, [&](const Device& other) { return other.name == device.name; });
  const Device* listed = built_in_devices().resolve(device.name).device;
  if (listed == nullptr || *listed != device) kept.push_back(std::move(device));
}

std::string canonical_device(std::string_view name) {
  const ResolvedDevice known = built_in_devices().resolve(name);
  return known.origin == DeviceOrigin::row ? known.device->name : std::string(name);
}

std::optional<std::string> find_name(const ResolvedDevice& asked, const std::set<std::string>& names) {
  if (const std::string text(asked.text); names.contains(text)) return text;
  const std::string spelling = bare(asked.text);
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return bare(name) == spelling || (asked.device != nullptr && asked.catalogue->resolve(name).device == asked.device);
  });
  return found == names.end() ? std::nullopt : std::optional(*found);
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
