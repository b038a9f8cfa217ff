// SPDX-License-Identifier: Apache-2.0
#include "parallel/links.h"

#include <algorithm>
#include <cmath>

#include "text/csv.h"
#include "text/enum_names.h"
#include "text/parse.h"

namespace perfpred {
namespace {

/// How far a size is from another: the logarithm of their ratio. A table that leaves it out means all sizes.
double distance(std::int64_t known, std::int64_t asked) {
  return known == 0 ? 0 : std::abs(std::log(static_cast<double>(known) / static_cast<double>(asked)));
}

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
    if (link.source != "spec" && link.source != "probe" && link.source != "fit")
      throw_bad_value(csv.place("source"), link.source, "spec, probe or fit");
    links.links_.push_back(std::move(link));
  }
  return links;
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

}  // namespace perfpred
