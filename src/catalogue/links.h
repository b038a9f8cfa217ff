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
  void put(Link link);  ///< in place of what there is of its cluster, scope and group
  /// A table as read() takes it. @throws InputError if it cannot be written
  void write(const std::string& path) const;
  [[nodiscard]] const std::vector<Link>& all() const { return links_; }
  [[nodiscard]] bool know(std::string_view cluster) const;

  /// The link of the group whose size is nearest, by the ratio of the numbers of nodes, then of devices; nothing where
  /// the table has none of the cluster and scope.
  [[nodiscard]] std::optional<Link> find(std::string_view cluster, LinkScope scope, std::int64_t gpus,
                                         std::int64_t nodes) const;

 private:
  std::vector<Link> links_;
};

/// Puts links into a table, which need not exist. @throws as Links::read() and Links::write()
void put_links(const std::string& path, const std::vector<Link>& links);

/// What nccl-tests' all_reduce_perf printed, at its largest size: the scope and the group from the lines of its ranks.
/// The latency is the time of its smallest size, where that is small.
/// @throws InputError with file and line for a text that is not of all_reduce_perf
[[nodiscard]] Link read_nccl_tests(const std::string& path, const std::string& cluster);

/// Links of the node that a device is usually in, of a cluster without a name: what its vendor states for NVLink and
/// its like, or for the bus; between nodes the network cards of that vendor's own machines, or 50 Gb/s Ethernet. A link
/// between nodes is all that a node has. @param in_node  devices of the node, which bring their network cards
/// @returns nothing where they are not known
[[nodiscard]] std::optional<Links> usual_links(const Device& device, std::int64_t in_node);

}  // namespace perfpred
