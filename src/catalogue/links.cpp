// SPDX-License-Identifier: Apache-2.0
#include "catalogue/links.h"

#include <perfpred/device.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "text/csv.h"
#include "text/enum_names.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {
namespace {

/// How far a size is from another: the logarithm of their ratio. A table that leaves it out means all sizes.
double distance(std::int64_t known, std::int64_t asked) {
  return known == 0 ? 0 : std::abs(std::log(static_cast<double>(known) / static_cast<double>(asked)));
}

/// GB/s in one direction.
struct UsualLinks {
  std::string_view name;  ///< that a device's begins with
  double intra, inter;
};

/// Half of the bandwidth that data sheets state for all of a device's NVLinks, xGMI links, or Ethernet ports inside a
/// server; and the network cards of a node: of P100 and V100 two of 100 Gb/s (a DGX-1 has four, AWS p3dn.24xlarge and
/// Azure NDv2 one), of DGX A100 eight of 200, of DGX H100, DGX B200 and AMD's platforms eight of 400, of DGX B300 eight
/// of 800, of trays of GB200 and GB300 four; of Gaudi's servers 24 ports.
constexpr std::array<UsualLinks, 21> usual = {{{"P100-SXM", 80, 25},   {"V100-SXM", 150, 25},  {"A100-SXM", 300, 200},
                                               {"A800-SXM", 200, 200}, {"H100-SXM", 450, 400}, {"H800-SXM", 200, 400},
                                               {"H200-SXM", 450, 400}, {"H20-", 450, 400},     {"GH200", 450, 400},
                                               {"B100-SXM", 900, 400}, {"B200-SXM", 900, 400}, {"B300-SXM", 900, 800},
                                               {"GB200", 900, 400},    {"GB300", 900, 800},    {"MI300X", 448, 400},
                                               {"MI325X", 448, 400},   {"MI350X", 537, 400},   {"MI355X", 537, 400},
                                               {"Gaudi2", 262, 300},   {"Gaudi3", 525, 600},   {"Gaudi", 87, 300}}};

/// Of the bus, GB/s in one direction: lanes at what a lane of its generation moves (PCI-SIG); 0 where it is not known.
double bus_gb_s(std::string_view bus) {
  constexpr std::array<double, 6> of_lane = {0, 0.25, 0.5, 0.985, 1.969, 3.938};  // by generation
  const std::size_t lanes = bus.rfind('x');
  if (!bus.starts_with("PCIe ") || lanes == std::string_view::npos) return 0;
  const auto generation = static_cast<std::size_t>(bus[5] - '0');
  if (generation >= of_lane.size()) return 0;
  return of_lane.at(generation) * static_cast<double>(parse_positive_integer(bus.substr(lanes + 1), {}));
}

/// What all_reduce_perf prints, line by line.
class NcclTests {
 public:
  explicit NcclTests(std::string path) : path_(std::move(path)) {}

  /// @throws InputError at the line
  void add(std::vector<std::string> words, std::size_t line) {
    line_ = line;
    if (words.empty()) return;
    if (words.front().starts_with('#')) {
      words.front().erase(0, 1);
      if (words.front().empty()) words.erase(words.begin());
      if (!words.empty()) add_comment(words);
    } else if (words.front().find_first_not_of("0123456789") == std::string::npos) {
      add_row(words);
    }
  }

  [[nodiscard]] Link link(const std::string& cluster) const {
    if (bus_gb_s_ <= 0 || gpus_ < 2)
      throw InputError(path_ + ": not the output of all_reduce_perf on two devices or more");
    Link link;
    link.cluster = cluster;
    link.gpus = gpus_;
    link.nodes = static_cast<std::int64_t>(hosts_.size());
    link.scope = link.nodes > 1 ? LinkScope::inter : LinkScope::intra;
    link.bus_gb_s = bus_gb_s_;
    link.latency_us = latency_us_;
    link.source = "probe";
    return link;
  }

 private:
  [[nodiscard]] ValuePlace place(std::string_view name) const { return {path_, line_, name}; }

  /// `Rank 0 Group 0 Pid 9 on HOST device 0 ...`, or the names of the columns.
  void add_comment(const std::vector<std::string>& words) {
    if (words.front() == "size") header_ = words;
    if (words.front() == "Collective" && words.back() != "all_reduce_perf")
      throw_bad_value(place("collective"), words.back(), "all_reduce_perf");
    const auto on = std::ranges::find(words, "on");
    if (words.front() != "Rank" || on == words.end() || on + 1 == words.end()) return;
    ++gpus_;
    hosts_.insert(on[1]);
  }

  void add_row(const std::vector<std::string>& words) {
    constexpr std::int64_t small = 65'536;  // where latency is nearly all of the time
    const auto value = [&](std::string_view name) {
      const auto column = static_cast<std::size_t>(std::ranges::find(header_, name) - header_.begin());
      if (column < words.size()) return parse_non_negative(words[column], place(name));
      throw InputError(place(name).prefix() + std::string(name) + " is missing: is this of all_reduce_perf?");
    };
    const std::int64_t bytes = parse_integer(words.front(), place("size"));
    if (bytes > largest_) {
      largest_ = bytes;
      bus_gb_s_ = value("busbw");
    }
    if (bytes > 0 && bytes <= small && (smallest_ == 0 || bytes < smallest_)) {
      smallest_ = bytes;
      latency_us_ = value("time");
    }
  }

  std::string path_;
  std::size_t line_ = 0;
  std::vector<std::string> header_;
  std::set<std::string> hosts_;
  std::int64_t gpus_ = 0, smallest_ = 0, largest_ = 0;
  double bus_gb_s_ = 0, latency_us_ = 0;
};

}  // namespace

Links Links::read(const std::string& path) {
  CsvReader csv(path);
  const CsvColumn cluster = csv.required("cluster"), scope = csv.required("scope"), bus = csv.required("bus_gb_s");
  const CsvColumn gpus = csv.optional("gpus"), nodes = csv.optional("nodes"), latency = csv.optional("latency_us"),
                  source = csv.optional("source");
  Links links;
  while (csv.next()) {
    Link link;
    link.cluster = csv.text(cluster);
    const auto known = enumerator_named<LinkScope::inter>(csv.text(scope));
    if (!known) throw_bad_value(csv.place("scope"), csv.text(scope), "intra or inter");
    link.scope = *known;
    link.bus_gb_s = csv.positive(bus);
    if (!csv.text(gpus).empty()) link.gpus = csv.positive_integer(gpus);
    if (!csv.text(nodes).empty()) link.nodes = csv.positive_integer(nodes);
    if (!csv.text(latency).empty()) link.latency_us = parse_non_negative(csv.text(latency), csv.place("latency_us"));
    if (!csv.text(source).empty()) link.source = csv.text(source);
    if (link.cluster.empty()) throw InputError(csv.place("cluster").prefix() + "cluster is empty");
    const auto is_same = [&](const Link& one) {
      return one.cluster == link.cluster && one.scope == link.scope && one.gpus == link.gpus && one.nodes == link.nodes;
    };
    if (std::ranges::any_of(links.links_, is_same))
      throw_bad_value(csv.place("cluster"), link.cluster, "with each scope, gpus and nodes once");
    if (link.source != "spec" && link.source != "probe" && link.source != "fit")
      throw_bad_value(csv.place("source"), link.source, "spec, probe or fit");
    links.links_.push_back(std::move(link));
  }
  return links;
}

void Links::put(Link link) {
  std::erase_if(links_, [&](const Link& one) {
    return one.cluster == link.cluster && one.scope == link.scope && one.gpus == link.gpus && one.nodes == link.nodes;
  });
  links_.push_back(std::move(link));
}

void Links::write(const std::string& path) const {
  const auto size = [](std::int64_t count) { return count == 0 ? std::string() : std::to_string(count); };
  std::string text = "cluster,scope,gpus,nodes,bus_gb_s,latency_us,source\n";
  for (const Link& link : links_) {
    text += csv_line(std::array<std::string, 7>{
        link.cluster, std::string(enumerator_name_of<LinkScope::inter>(link.scope)), size(link.gpus), size(link.nodes),
        number_text(link.bus_gb_s), link.latency_us == 0 ? std::string() : number_text(link.latency_us), link.source});
  }
  write_file(path, text);
}

void put_links(const std::string& path, const std::vector<Link>& links) {
  Links table = std::filesystem::is_regular_file(path) ? Links::read(path) : Links();
  for (const Link& link : links) table.put(link);
  table.write(path);
}

Link read_nccl_tests(const std::string& path, const std::string& cluster) {
  LineReader lines(path);
  NcclTests tests(path);
  while (const char* line = lines.next()) {
    std::istringstream stream(line);
    tests.add({std::istream_iterator<std::string>(stream), {}}, lines.line());
  }
  return tests.link(cluster);
}

std::optional<Link> Links::find(std::string_view cluster, LinkScope scope, std::int64_t gpus,
                                std::int64_t nodes) const {
  const Link* nearest = nullptr;
  const auto far = [&](const Link& one) { return distance(one.nodes, nodes) * 100 + distance(one.gpus, gpus); };
  for (const Link& one : links_) {
    if (one.cluster != cluster || one.scope != scope) continue;
    if (nearest == nullptr || far(one) < far(*nearest)) nearest = &one;
  }
  return nearest == nullptr ? std::nullopt : std::optional(*nearest);
}

bool Links::know(std::string_view cluster) const {
  return std::ranges::any_of(links_, [&](const Link& one) { return one.cluster == cluster; });
}

std::optional<Links> usual_links(const Device& device, std::int64_t in_node) {
  constexpr double ethernet = 6.25, of_each = 25,
                   devices = 8;  // 50 Gb/s; cards of 200 Gb/s and more are a device's own
  const auto* const found =
      std::ranges::find_if(usual, [&](const UsualLinks& one) { return device.name.starts_with(one.name); });
  const bool is_module = device.name.starts_with("MI2");  // whose links the vendor states by pairs
  double intra = bus_gb_s(device.bus), inter = ethernet;
  if (found != usual.end()) {
    intra = found->intra;
    const bool is_shared = found->inter < of_each * devices;
    inter = found->inter * (is_shared ? 1 : std::min(1.0, static_cast<double>(in_node) / devices));
  } else if (device.kind != DeviceKind::gpu || is_module || intra == 0) {
    return std::nullopt;
  }
  Link within, between;
  within.bus_gb_s = intra;
  between.scope = LinkScope::inter;
  between.bus_gb_s = inter;
  Links links;
  links.add(within);
  links.add(between);
  return links;
}

}  // namespace perfpred
