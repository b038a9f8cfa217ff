// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perfpred {

struct Device;

/// Where a link runs: within a node, or between nodes.
enum class LinkScope { intra, inter };

/// What an all-reduce over so many devices gets.
struct Link {
  std::string cluster;
  LinkScope scope = LinkScope::intra;
  std::int64_t gpus = 0, nodes = 0;  ///< of the group; 0: of groups of any size
  double bus_gb_s = 0;               ///< bus bandwidth as nccl-tests defines it, 10^9 bytes a second, > 0
  double latency_us = 0;             ///< of an all-reduce of nothing, >= 0; 0 where the table does not say
  std::string source = "spec";       ///< spec, probe or fit
};

/// Links of clusters by scope and size of the group.
class Links {
 public:
  Links() = default;
  /// A table with the columns cluster, scope (intra, inter), bus_gb_s and, where there are any, gpus, nodes,
  /// latency_us, source (spec, probe, fit). @throws InputError with file and line
  [[nodiscard]] static Links read(const std::string& path);

  void add(Link link) { links_.push_back(std::move(link)); }
  [[nodiscard]] const std::vector<Link>& all() const { return links_; }
  [[nodiscard]] bool know(std::string_view cluster) const;

  /// The link of the group whose size is nearest, by the ratio of the numbers of nodes, then of devices; nothing where
  /// the table has none of the cluster and scope.
  [[nodiscard]] std::optional<Link> find(std::string_view cluster, LinkScope scope, std::int64_t gpus,
                                         std::int64_t nodes) const;

 private:
  std::vector<Link> links_;
};

/// Links of the node that a device is usually in, of a cluster without a name: what its vendor states for NVLink and
/// its like, or for the bus; between nodes the network cards of that vendor's own machines, or 50 Gb/s Ethernet. A link
/// between nodes is all that a node has. @param in_node  devices of the node, which bring their network cards
/// @returns nothing where they are not known
[[nodiscard]] std::optional<Links> usual_links(const Device& device, std::int64_t in_node);

}  // namespace perfpred
