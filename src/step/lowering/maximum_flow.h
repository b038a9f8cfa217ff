// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace perfpred {

/// The maximum flow through a network by Dinic's algorithm (Soviet Mathematics Doklady 11, 1970), and the least cut.
class MaximumFlow {
 public:
  static constexpr double unlimited = std::numeric_limits<double>::infinity();

  explicit MaximumFlow(std::size_t nodes) : first_(nodes, none) {}

  /// @param capacity  >= 0, or unlimited
  void add(std::size_t from, std::size_t to, double capacity) {
    add_arc(from, to, capacity);
    add_arc(to, from, 0);
  }

  /// Which nodes lie on the source's side of the least cut. Some path from source to sink must be limited everywhere.
  [[nodiscard]] std::vector<bool> cut(std::size_t source, std::size_t sink) {
    while (find_levels(source, sink)) {
      next_ = first_;
      while (push(source, sink) > 0) {
      }
    }
    std::vector<bool> reached(level_.size());
    for (std::size_t node = 0; node < level_.size(); ++node) reached[node] = level_[node] != none;
    return reached;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  struct Arc {
    std::size_t to, next;
    double left;
  };

  void add_arc(std::size_t from, std::size_t to, double capacity) {
    arcs_.push_back({to, first_[from], capacity});
    first_[from] = arcs_.size() - 1;
  }

  bool find_levels(std::size_t source, std::size_t sink) {
    level_.assign(first_.size(), none);
    level_[source] = 0;
    std::vector<std::size_t> queue{source};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (std::size_t arc = first_[queue[i]]; arc != none; arc = arcs_[arc].next) {
        if (arcs_[arc].left <= 0 || level_[arcs_[arc].to] != none) continue;
        level_[arcs_[arc].to] = level_[queue[i]] + 1;
        queue.push_back(arcs_[arc].to);
      }
    }
    return level_[sink] != none;
  }

  /// Sends what one path takes. A path may be as long as the network, so this keeps it itself.
  double push(std::size_t source, std::size_t sink) {
    std::vector<std::size_t> path;
    std::size_t node = source;
    while (node != sink) {
      std::size_t& arc = next_[node];
      while (arc != none && (arcs_[arc].left <= 0 || level_[arcs_[arc].to] != level_[node] + 1)) arc = arcs_[arc].next;
      if (arc != none) {
        path.push_back(arc);
        node = arcs_[arc].to;
        continue;
      }
      if (path.empty()) return 0;
      const std::size_t back = path.back();
      path.pop_back();
      node = arcs_[back ^ 1U].to;
      next_[node] = arcs_[back].next;
    }
    double sent = unlimited;
    for (const std::size_t arc : path) sent = std::min(sent, arcs_[arc].left);
    for (const std::size_t arc : path) {
      arcs_[arc].left -= sent;
      arcs_[arc ^ 1U].left += sent;
    }
    return sent;
  }

  std::vector<Arc> arcs_;                          // each beside the one back
  std::vector<std::size_t> first_, next_, level_;  // by node
};

}  // namespace perfpred
