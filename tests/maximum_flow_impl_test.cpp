// SPDX-License-Identifier: Apache-2.0
#include "step/lowering/maximum_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace perfpred {
namespace {

struct Arc {
  std::size_t from, to;
  double capacity;
};

/// What goes from the nodes of `side` to the others.
double capacity_of(const std::vector<Arc>& arcs, const std::vector<bool>& side) {
  double capacity = 0;
  for (const Arc& arc : arcs) {
    if (side[arc.from] && !side[arc.to]) capacity += arc.capacity;
  }
  return capacity;
}

double least_cut(const std::vector<Arc>& arcs, std::size_t nodes) {
  double least = MaximumFlow::unlimited;
  for (std::size_t bits = 0; bits < std::size_t{1} << nodes; ++bits) {
    std::vector<bool> side(nodes);
    for (std::size_t node = 0; node < nodes; ++node) side[node] = (bits >> node & 1U) != 0;
    if (side.front() && !side.back()) least = std::min(least, capacity_of(arcs, side));
  }
  return least;
}

/// Every cut of small networks is tried.
TEST(MaximumFlow, ItsCutIsTheLeast) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int with_limit = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::size_t nodes = 2 + static_cast<std::size_t>(below(8));
    std::vector<Arc> arcs;
    for (int i = below(25); i > 0; --i) {
      const bool unlimited = below(6) == 0;
      arcs.push_back({static_cast<std::size_t>(below(static_cast<int>(nodes))),
                      static_cast<std::size_t>(below(static_cast<int>(nodes))),
                      unlimited ? MaximumFlow::unlimited : static_cast<double>(below(5))});
    }
    const double least = least_cut(arcs, nodes);
    if (least == MaximumFlow::unlimited) continue;  // no cut has a limit
    ++with_limit;
    MaximumFlow flow(nodes);
    for (const Arc& arc : arcs) flow.add(arc.from, arc.to, arc.capacity);
    const std::vector<bool> side = flow.cut(0, nodes - 1);
    EXPECT_TRUE(side.front());
    EXPECT_FALSE(side.back());
    EXPECT_EQ(capacity_of(arcs, side), least) << round;
  }
  EXPECT_GT(with_limit, 1000);
}

/// A path as long as a network of 100,000 operators.
TEST(MaximumFlow, APathMayBeLong) {
  constexpr std::size_t nodes = 100'000;
  MaximumFlow flow(nodes);
  for (std::size_t node = 0; node + 1 < nodes; ++node) flow.add(node, node + 1, node == 70'000 ? 1 : 2);
  const std::vector<bool> side = flow.cut(0, nodes - 1);
  EXPECT_TRUE(side[70'000]);
  EXPECT_FALSE(side[70'001]);
}

}  // namespace
}  // namespace perfpred
