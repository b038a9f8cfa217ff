// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "catalogue/device_table.h"
#include "catalogue/embedded_devices.h"
#include "catalogue/links.h"
#include "catalogue/own_devices.h"
#include "text/column.h"
#include "text/enum_names.h"
#include "text/nearest_name.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr double tera = 1e12;

std::optional<double> scaled(const std::optional<double>& value, double factor) {
  if (!value) return std::nullopt;
  return *value * factor;
}

std::vector<std::string> split_aliases(std::string_view text) {
  std::vector<std::string> aliases;
  for (const std::string_view alias : split(text, '|')) {
    if (!alias.empty()) aliases.emplace_back(alias);
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

/// An architecture with the catalogue's spelling, if it begins as one of the catalogue's but for case and punctuation
/// (`ampere`, `CDNA 3`): what depends on it compares texts.
std::string canonical_arch(const std::string& arch) {
  static const std::map<std::string, std::string> known = [] {  // by their bare() spelling
    std::map<std::string, std::string> archs;
    for (const Device& device : built_in_devices().devices()) archs.emplace(bare(device.arch), device.arch);
    return archs;
  }();
  const std::string begin = bare(arch);
  std::size_t letters = 0;
  std::string_view longest;
  for (const auto& [name, written] : known) {
    if (name.size() <= letters || !begin.starts_with(name)) continue;
    letters = name.size();
    longest = written;
  }
  return longest.empty() || arch.starts_with(longest) ? arch : std::string(longest);
}

/// As kernels pad the names of CPUs: without the blanks around it, and one in place of several.
std::string with_single_blanks(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool blank = c == ' ' || c == '\t';
    if (!blank || (!text.empty() && text.back() != ' ')) text.push_back(blank ? ' ' : c);
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
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
  for (const Column<Device>& column : device_table()) {
    Device unused;
    column.set(unused, column.get(device), {{}, 0, column.name});
  }
  check_name(device, {{}, 0, "name"});
}

/// @param own  the file is the user's: names are checked against the built-in catalogue
std::vector<Device> read_devices(CsvReader& csv, bool own) {
  const TableReader<Device> table(csv, device_table());
  std::vector<Device> devices;
  std::unordered_set<std::string> names;
  while (csv.next()) {
    Device device;
    table.read(csv, device);
    if (own) {
      device.name = with_single_blanks(device.name);
      check_name(device, csv.place("name"));
      device.arch = canonical_arch(device.arch);
    }
    if (!names.insert(bare(device.name)).second) {
      throw InputError(fmt::format("{}device \"{}\" appears twice", csv.place("").prefix(), device.name));
    }
    check_balance(device, csv.place(""));
    devices.push_back(std::move(device));
  }
  return devices;
}

/// Adds a device, or replaces the one of its name, whose spelling and aliases stay: files have them.
/// @param places  where devices of a name or alias are
template <class Index>
void put(std::vector<Device>& devices, const Index& places, Device device) {
  const std::string name = bare(device.name);
  const auto found = places.find(name);
  Device* known = found == places.end() || found->second.empty() ? nullptr : &devices[found->second.front()];
  if (known == nullptr || bare(known->name) != name) {
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

/// A line for each column that devices.csv does not have.
std::vector<std::string> unread_columns(const CsvReader& csv) {
  std::vector<std::string> lines;
  for (const std::string& name : csv.header()) {
    const std::vector<std::string> known = names_of(device_table());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    NearestName nearest(bare(name));
    for (const std::string& column : known) nearest.offer(bare(column), column);
    lines.push_back(fmt::format("{}: column \"{}\" is none of devices.csv and is not read{}", csv.path(), shown(name),
                                nearest.found() ? fmt::format("; did you mean {}?", *nearest.found()) : ""));
  }
  return lines;
}

std::string listed(std::span<const Device* const> devices) {
  std::vector<std::string_view> names;
  for (const Device* device : devices) names.push_back(device->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Takes a word that vendors and drivers write before a name from a bare() one. @returns whether there was one
bool drop_word(std::string_view& name) {
  for (const std::string_view word : {"nvidia", "amd", "intel", "geforce", "radeon", "tesla", "instinct"}) {
    if (!name.starts_with(word)) continue;
    name.remove_prefix(word.size());
    return true;
  }
  return false;
}

/// A text as bare() has it, without the words around a name.
std::string plain(std::string_view text) {
  const std::string name = bare(text);
  std::string_view rest = name;
  while (drop_word(rest)) {
  }
  return std::string(rest);
}

/// `A100 80 GB` as name and GB; nothing if the text does not end so.
std::optional<std::pair<std::string_view, double>> split_memory(std::string_view text) {
  constexpr std::string_view digits = "0123456789", between = " -_(";
  if (text.ends_with(')')) text.remove_suffix(1);
  if (text.size() < 2 || bare(text.substr(text.size() - 2)) != "gb") return std::nullopt;
  text.remove_suffix(2);
  text = text.substr(0, text.find_last_not_of(between) + 1);
  const std::size_t begin = text.find_last_not_of(digits) + 1;
  const std::string number(text.substr(begin));
  if (begin == 0 || number.empty() || number.size() > 4 || between.find(text[begin - 1]) == std::string_view::npos)
    return {};
  return std::pair(text.substr(0, begin), std::stod(number));
}

/// The name or alias with the letters and digits of a text that is not known: another could be of another device.
std::optional<std::string> meant_name(std::span<const Device> devices, std::string_view text) {
  const auto sorted = [](std::string_view name) {
    std::string letters = plain(name);
    std::sort(letters.begin(), letters.end());
    return letters;
  };
  const std::string typed = sorted(text);
  for (const Device& device : devices) {
    if (sorted(device.name) == typed) return device.name;
    for (const std::string& alias : device.aliases) {
      if (sorted(alias) == typed) return alias;
    }
  }
  return std::nullopt;
}

/// The three of an unknown device's class whose names are the most alike: of the letters of its name up to the first
/// digit and that digit, else of the letters; none without such letters.
std::vector<const Device*> nearest_of_class(std::span<const Device> devices, std::string_view text) {
  constexpr std::size_t most = 3;
  const std::string typed = plain(text);
  const std::size_t letters = std::min(typed.find_first_of("0123456789"), typed.size());
  std::vector<std::pair<std::size_t, const Device*>> found;
  for (const std::size_t length : {letters + 1, letters}) {
    if (length == 0 || length > typed.size() || !found.empty()) continue;
    for (const Device& device : devices) {
      const std::string name = plain(device.name);
      if (name.starts_with(typed.substr(0, length))) found.emplace_back(edit_distance(name, typed), &device);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Device*> nearest;
  for (const auto& [distance, device] : std::span(found).first(std::min(most, found.size()))) nearest.push_back(device);
  return nearest;
}

/// `8xA100` without its count; empty for other texts.
std::string_view without_count(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return {};
  const std::size_t sign = text.find_first_not_of(' ', digits);
  if (sign == std::string_view::npos || std::string_view("xX*").find(text[sign]) == std::string_view::npos) return {};
  const std::size_t name = text.find_first_not_of(' ', sign + 1);
  return name == std::string_view::npos ? std::string_view() : text.substr(name);
}

/// The share of the memory that NVIDIA's drivers leave. Cards for servers with GDDR keep their error correction in it:
/// a T4 has 14.75 of 16 GiB, an L4 22.17 of 24, an L40S 44.52 of 48; others, as an RTX 4090, 23.64 of 24.
double nvidia_share(const Device& device) {
  constexpr std::array<std::string_view, 5> without = {"RTX", "GTX", "TITAN", "Quadro", "Jetson"};
  const bool corrects =
      device.mem_type.starts_with("GDDR") && std::none_of(without.begin(), without.end(), [&](std::string_view word) {
        return device.name.find(word) != std::string::npos;
      });
  return corrects ? 0.925 : 0.985;
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
  if (kind == DeviceKind::gpu && vendor == "NVIDIA") return bytes(*mem_gb * nvidia_share(*this), gibibyte);
  if (kind == DeviceKind::gpu && vendor == "AMD") return bytes(*mem_gb * 0.999, gibibyte);
  return bytes(*mem_gb, gigabyte);
}

DeviceKind ResolvedDevice::kind(bool has_threads) const {
  if (device != nullptr) return device->kind;
  return has_threads ? DeviceKind::cpu : DeviceKind::gpu;
}

bool ResolvedDevice::lacks_rates() const { return origin == DeviceOrigin::this_cpu && !device->mem_bw_gbs; }

std::string why_unknown(const ResolvedDevice& asked) {
  const auto& [catalogue, text, device, origin] = asked;
  if (device != nullptr) return {};
  if (origin == DeviceOrigin::ambiguous)
    return fmt::format("device \"{}\" may be any of {}; name one", shown(text), listed(catalogue->candidates(text)));
  if (const std::string_view one = without_count(text); !one.empty() && !catalogue->candidates(one).empty()) {
    return fmt::format("device \"{}\" is several, which are not predicted; take {}", shown(text),
                       listed(catalogue->candidates(one)));
  }
  const auto meant = meant_name(catalogue->devices(), text);
  const auto nearest = meant ? std::vector<const Device*>() : nearest_of_class(catalogue->devices(), text);
  return fmt::format(
      "device \"{}\" is not known{}{}; perfpred-devices lists those that are, and a device file "
      "(--device-file) takes a row of another",
      shown(text), meant ? fmt::format(" (did you mean \"{}\"?)", *meant) : "",
      nearest.empty() ? "" : "; the nearest are " + listed(nearest));
}

std::string why_unrated(const ResolvedDevice& asked) {
  if (!asked.lacks_rates()) return why_unknown(asked);
  return fmt::format(
      "the rates of this machine's CPU, \"{}\", are not known: perfpred-devices --measure "
      "measures them, in C++ DeviceCatalogue::set_cpu(Device::measured_cpu())",
      shown(asked.device->name));
}

const Device& ResolvedDevice::known() const {
  if (device == nullptr) throw InputError(why_unknown(*this));
  return *device;
}

const Device& ResolvedDevice::rated() const {
  if (lacks_rates()) throw InputError(why_unrated(*this));
  return known();
}

struct __attribute__((visibility("hidden"))) DeviceCatalogue::Rows {
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using Places = std::vector<std::size_t>;  // in devices; none: this machine's CPU

  std::vector<Device> devices;
  std::unordered_map<std::string, Places, TextHash, std::equal_to<>> index;  // by names and aliases, bare

  explicit Rows(std::vector<Device> read) : devices(std::move(read)) { make_index(); }

  /// A copy with these devices added, or in place of those of their names.
  [[nodiscard]] std::shared_ptr<const Rows> with(std::vector<Device> added) const {
    const auto next = std::make_shared<Rows>(*this);
    for (Device& device : added) put(next->devices, next->index, std::move(device));
    next->make_index();
    return next;
  }

  static const std::shared_ptr<const Rows>& built_in() {
    static const std::shared_ptr<const Rows> rows = [] {
      CsvReader csv = CsvReader::from_text("devices.csv", embedded_devices);
      return std::make_shared<const Rows>(read_devices(csv, false));
    }();
    return rows;
  }

  void make_index() {
    index.clear();
    index.reserve(4 * devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i) index[bare(devices[i].name)] = {i};
    for (std::size_t i = 0; i < devices.size(); ++i) {
      for (const std::string& alias : devices[i].aliases) {
        const std::string name = bare(alias);
        Places& places = index[name];
        const bool is_name = !places.empty() && bare(devices[places.front()].name) == name;  // is no other's alias
        if (!is_name && (places.empty() || places.back() != i)) places.push_back(i);
      }
    }
    const std::string model = bare(Device::this_cpu().name);
    for (const auto& [text, other] : {std::pair(std::string("cpu"), model), {model, "cpu"}}) {
      if (index.contains(text)) continue;
      const auto known = index.find(other);
      index.emplace(text, known == index.end() ? Places() : known->second);
    }
  }

  [[nodiscard]] const Places* written_places(std::string_view text) const {
    const auto found = index.find(bare(text));
    return found == index.end() ? nullptr : &found->second;
  }

  [[nodiscard]] Places places_of(std::string_view text) const {
    const std::string name = bare(text);
    std::string_view rest = name;
    if (rest.ends_with("gpu")) rest.remove_suffix(3);
    do {
      if (const auto found = index.find(rest); found != index.end()) return found->second;
    } while (drop_word(rest));
    const auto sized = split_memory(text);
    if (!sized) return {};
    const Places* written = written_places(sized->first);
    Places places = written != nullptr ? *written : places_of(sized->first);
    std::erase_if(places,
                  [&](std::size_t place) { return devices[place].mem_gb.value_or(sized->second) != sized->second; });
    return places;
  }
};

DeviceCatalogue::DeviceCatalogue()
    : rows_(Rows::built_in()), links_(std::make_shared<const Links>()), cpu_(Device::this_cpu()) {}

void DeviceCatalogue::add_links(const std::string& path) {
  Links all = *links_;
  const Links read = Links::read(path);
  for (const Link& link : read.all()) all.add(link);
  links_ = std::make_shared<const Links>(std::move(all));
}

std::span<const Device> DeviceCatalogue::devices() const& { return rows_->devices; }

std::vector<Device> read_own_devices(const std::string& path) {
  CsvReader csv(path);
  return read_devices(csv, true);
}

std::vector<std::string> DeviceCatalogue::add(const std::string& path) {
  CsvReader csv(path);
  rows_ = rows_->with(read_devices(csv, true));
  return unread_columns(csv);
}

void DeviceCatalogue::add(Device device) {
  check_device(device);
  check_balance(device, {});
  device.name = with_single_blanks(device.name);
  device.arch = canonical_arch(device.arch);
  rows_ = rows_->with({std::move(device)});
}

void DeviceCatalogue::set_cpu(Device measured) {
  check_device(measured);
  if (bare(measured.name) != bare(cpu_.name)) {
    throw InputError(fmt::format("device \"{}\" is not this machine's CPU, which is \"{}\"", shown(measured.name),
                                 shown(cpu_.name)));
  }
  cpu_ = std::move(measured);
}

ResolvedDevice DeviceCatalogue::resolve(std::string_view text) const& {
  const auto unfit = [](char c) { return c != '\t' && static_cast<unsigned char>(c) < 0x20; };
  if (std::any_of(text.begin(), text.end(), unfit)) return {this, text, nullptr, DeviceOrigin::unknown};
  const Rows::Places* written = rows_->written_places(text);
  if (written != nullptr && written->empty()) return {this, text, &cpu_, DeviceOrigin::this_cpu};
  const Rows::Places other = written != nullptr ? Rows::Places() : rows_->places_of(text);
  const Rows::Places& places = written != nullptr ? *written : other;
  if (places.empty()) return {this, text, nullptr, DeviceOrigin::unknown};
  if (places.size() > 1) return {this, text, nullptr, DeviceOrigin::ambiguous};
  return {this, text, &rows_->devices[places.front()], DeviceOrigin::row};
}

std::vector<const Device*> DeviceCatalogue::candidates(std::string_view text) const& {
  const Rows::Places* written = rows_->written_places(text);
  std::vector<const Device*> found;
  for (const std::size_t place : written != nullptr ? *written : rows_->places_of(text))
    found.push_back(&rows_->devices[place]);
  return found;
}

std::string ResolvedDevice::full_name() const { return text == "unknown" ? "unknown" : known().name; }

std::vector<std::string> full_names(const ResolvedDevice& device) {
  if (device.origin != DeviceOrigin::ambiguous) return {device.full_name()};
  std::vector<std::string> names;
  for (const Device* one : device.catalogue->candidates(device.text)) names.push_back(one->name);
  return names;
}

const DeviceCatalogue& built_in_devices() {
  static const DeviceCatalogue catalogue;
  return catalogue;
}

const Device* built_in_device(std::string_view name) {
  const ResolvedDevice listed = built_in_devices().resolve(name);
  return listed.origin == DeviceOrigin::row ? listed.device : nullptr;
}

void keep_own(std::vector<Device>& kept, Device device) {
  std::erase_if(kept, [&](const Device& other) { return other.name == device.name; });
  const Device* listed = built_in_devices().resolve(device.name).device;
  if (listed == nullptr || *listed != device) kept.push_back(std::move(device));
}

std::string canonical_device(std::string_view name) {
  const ResolvedDevice known = built_in_devices().resolve(name);
  return known.origin == DeviceOrigin::row ? known.device->name : with_single_blanks(name);
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

std::string unknown_device(std::string_view name) {
  const ResolvedDevice device = built_in_devices().resolve(name);
  if (device.origin == DeviceOrigin::ambiguous) throw InputError(why_unknown(device));
  if (device.device != nullptr || device.text == "unknown") return {};
  return why_unknown(device) + "; its runs answer for this name alone";
}

const Columns<Device>& device_table() {
  static const Columns<Device> all = {
      text_column("name", &Device::name, true),
      {"aliases", [](Device& d, std::string_view t, const ValuePlace&) { d.aliases = split_aliases(t); },
       [](const Device& d) { return fmt::format("{}", fmt::join(d.aliases, "|")); }, true},
      {"kind", set_kind, [](const Device& d) { return std::string(to_string(d.kind)); }, true},
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
      text_column("mem_type", &Device::mem_type),
      number("bus_bits", &Device::bus_bits, 100000),
      number("int8_tops", &Device::int8_tops, 50000),
      number("fp8_tflops", &Device::fp8_tflops, 50000),
      number("fp4_tflops", &Device::fp4_tflops, 100000),
      number("base_mhz", &Device::base_mhz, 10000),
      number("mem_mhz", &Device::mem_mhz, 50000),
      number("cores", &Device::cores, 1000000),
      text_column("bus", &Device::bus),
  };
  return all;
}

const std::string& cpu_model_name() {
  static const std::string name = []() -> std::string {  // every prediction asks for it
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line)) {
      const std::size_t colon = line.find(':');
      if (line.starts_with("model name") && colon != std::string::npos) {
        return with_single_blanks(std::string_view(line).substr(colon + 1));
      }
    }
    return {};
  }();
  return name;
}

}  // namespace perfpred
