// SPDX-License-Identifier: Apache-2.0
#include <perfpred/suggestion.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "made_up_rows.h"

namespace perfpred {
namespace {

TEST(Suggest, FillsSpaceFromNothingAndNeverRepeats) {
  std::vector<Workload> grid;
  for (const AggregateRow& row : made_up_rows()) grid.push_back(row.workload);
  const std::vector<Suggestion> first = suggest({}, grid, 9);
  ASSERT_EQ(first.size(), 9U);
  std::set<int> depths, widths;
  std::set<std::string> keys;
  for (const Suggestion& suggestion : first) {
    EXPECT_FALSE(suggestion.cost_sec);
    depths.insert(*suggestion.workload.depth());
    widths.insert(*suggestion.workload.base_filters());
    keys.insert(suggestion.workload.key());
  }
  EXPECT_EQ(keys.size(), 9U);
  EXPECT_EQ(depths.size(), 3U);
  EXPECT_EQ(widths.size(), 3U);

  std::vector<AggregateRow> measured;
  for (const AggregateRow& row : made_up_rows()) {
    if (keys.count(row.workload.key()) != 0) measured.push_back(row);
  }
  const std::vector<Suggestion> next = suggest(measured, grid, 1000);
  EXPECT_EQ(next.size(), grid.size() - 9);
  for (const Suggestion& suggestion : next) {
    EXPECT_EQ(keys.count(suggestion.workload.key()), 0U);
    EXPECT_GT(suggestion.cost_sec.value_or(0), 10);
  }
}

TEST(Suggest, CountsTheRowsOfEachGroupThatTheGridNeeds) {
  const auto elsewhere = [](Workload& w) { w.device = "b"; };
  const std::vector<AggregateRow> all = made_up_rows();
  std::vector<Workload> grid, both;
  for (const AggregateRow& row : all) {
    grid.push_back(row.workload);
    both.push_back(row.workload);
    elsewhere(both.emplace_back(row.workload));
  }
  const std::vector<AggregateRow> known(all.begin(), all.begin() + 12);
  const std::vector<AggregateRow> few = as_group({all.begin(), all.begin() + 3}, 2, elsewhere);
  std::vector<AggregateRow> measured = known;
  measured.insert(measured.end(), few.begin(), few.end());

  // What the grid does not need changes nothing.
  const std::vector<Suggestion> alone = suggest(known, grid, 5), beside = suggest(measured, grid, 5);
  ASSERT_EQ(beside.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(beside[i].workload, alone[i].workload);
    EXPECT_EQ(beside[i].cost_sec, alone[i].cost_sec);
  }
  // The group with three rows lacks five for a model, then the other one's teaches something.
  const std::vector<Suggestion> next = suggest(measured, both, 1000);
  EXPECT_EQ(next.size(), both.size() - measured.size());
  std::set<std::string> keys;
  for (std::size_t i = 0; i < next.size(); ++i) {
    keys.insert(next[i].workload.key());
    const bool filling = i < 5 || i >= 5 + grid.size() - known.size();
    EXPECT_EQ(next[i].workload.device, filling ? "b" : "unknown") << i;
    EXPECT_EQ(next[i].cost_sec.has_value(), !filling) << i;
  }
  EXPECT_EQ(keys.size(), next.size());
  // Two groups without a model take turns.
  const std::vector<Suggestion> from_nothing = suggest({}, both, 4);
  EXPECT_EQ(std::count_if(from_nothing.begin(), from_nothing.end(),
                          [](const Suggestion& s) { return s.workload.device == "b"; }),
            2);
}

TEST(Suggest, DrawsEveryFifthRowOfACampaignAtRandom) {
  const std::vector<AggregateRow> rows = made_up_rows();
  std::vector<Workload> grid;
  for (const AggregateRow& row : rows) grid.push_back(row.workload);
  constexpr std::uint64_t seeds = 500;
  std::array<std::set<std::string>, 9> proposed;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const std::vector<Suggestion> next = suggest({}, grid, proposed.size(), {.seed = seed});
    ASSERT_EQ(next.size(), proposed.size());
    for (std::size_t i = 0; i < proposed.size(); ++i) proposed[i].insert(next[i].workload.key());
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(proposed[i].size(), 1U) << i;
  EXPECT_EQ(proposed[4].size(), grid.size() - 4) << "one that 500 draws from 32 miss has odds of 4e-6";
  // The first nine do not have to be asked for together, and a model asks in the same turn.
  std::set<std::string> tenth, eleventh;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::vector<Suggestion> next = suggest(std::span(rows).first(9), grid, 1, {.seed = seed});
    ASSERT_TRUE(next[0].cost_sec);
    tenth.insert(next[0].workload.key());
    eleventh.insert(suggest(std::span(rows).first(10), grid, 1, {.seed = seed})[0].workload.key());
  }
  EXPECT_GT(tenth.size(), 6U) << "ten draws from 27 repeat three with odds of 5 %";
  EXPECT_LT(eleventh.size(), 4U);
}

}  // namespace
}  // namespace perfpred
