// SPDX-License-Identifier: Apache-2.0
#include "evaluate/scaling_evaluation.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "text/parse.h"

namespace perfpred {
namespace {

using Rows = std::vector<const ScalingRow*>;
using GroupName = std::pair<std::string, std::string>;  // cluster, network

GroupName group_of(const ScalingRow& row) { return {row.cluster, row.network}; }

/// Puts those rows of a group first that tell most of it: the most devices with the largest and the smallest batch, one
/// node with the smallest, and a row in the middle. Links show where the batch is small, a device's rate where it is
/// not.
void put_telling_first(Rows& rows) {
  std::ranges::stable_sort(rows, [](const ScalingRow* a, const ScalingRow* b) {
    return std::tuple(a->devices(), a->placement.node_count(), a->local_batch) >
           std::tuple(b->devices(), b->placement.node_count(), b->local_batch);
  });
  const auto is_alike = [&](const ScalingRow* row) { return row->placement == rows.front()->placement; };
  const auto top = std::ranges::find_if_not(rows, is_alike);
  const auto node = std::ranges::find_if(rows, [](const ScalingRow* row) { return row->placement.node_count() == 1; });
  Rows first = {rows.front(), *(top - 1)};
  if (node != rows.end()) {
    const auto of_node = [&](const ScalingRow* row) { return row->placement == (*node)->placement; };
    first.push_back(*(std::find_if_not(node, rows.end(), of_node) - 1));
  }
  first.push_back(rows[rows.size() / 2]);
  std::ranges::reverse(first);
  for (const ScalingRow* row : first) {
    const auto found = std::ranges::find(rows, row);
    std::rotate(rows.begin(), found, found + 1);
  }
}

/// Of the rows of what is left out, those that are handed over: its steps of one device, what the table gives, and the
/// first rows of the probe in each group.
std::set<const ScalingRow*> handed_over(const Rows& left_out, const ScalingProbe& probe) {
  std::set<const ScalingRow*> given;
  std::map<GroupName, Rows> ordered;
  for (const ScalingRow* row : left_out) {
    const bool may_probe =
        probe.networks.empty() || std::ranges::find(probe.networks, row->network) != probe.networks.end();
    if (row->is_given || row->devices() == 1) {
      given.insert(row);
    } else if (row->is_scored && may_probe) {
      ordered[group_of(*row)].push_back(row);
    }
  }
  for (auto& [group, rows] : ordered) {
    if (std::ranges::any_of(rows, [](const ScalingRow* row) { return row->probe > 0; })) {
      std::erase_if(rows, [](const ScalingRow* row) { return row->probe <= 0; });
      std::ranges::stable_sort(rows, {}, &ScalingRow::probe);
    } else {
      put_telling_first(rows);
    }
    given.insert(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(std::min(probe.rows, rows.size())));
  }
  return given;
}

void score(Rows known, const Rows& left_out, const Links& links, const ScalingProbe& probe, ScalingEvaluation& result) {
  const std::set<const ScalingRow*> given = handed_over(left_out, probe);
  known.insert(known.end(), given.begin(), given.end());
  const ScalingModel model = ScalingModel::fit(known, links);
  for (const ScalingRow* row : left_out) {
    if (given.contains(row)) {
      ++result.unscored[row->is_given ? "given" : row->devices() == 1 ? "one device" : "probe"];
    } else if (!row->is_scored) {
      ++result.unscored["use=0"];
    } else if (const auto predicted = model.predict(*row)) {
      result.rows.push_back({*row, *predicted});
    } else {
      ++result.unscored["no row of the network in its cluster"];
    }
  }
}

/// The parts of a protocol that are left out in turn, by name.
std::map<std::string, Rows> parts_of(const std::vector<ScalingRow>& rows, ScalingProtocol protocol,
                                     std::int64_t max_gpus) {
  std::map<GroupName, std::set<std::pair<std::int64_t, std::string>>>
      placements;  // of a group, the fewest devices first
  for (const ScalingRow& row : rows) {
    if (row.devices() > 1) placements[group_of(row)].emplace(row.devices(), row.placement.text());
  }
  std::map<std::string, Rows> parts;
  for (const ScalingRow& row : rows) {
    const std::int64_t devices = row.devices();
    if (protocol == ScalingProtocol::network) parts[row.network].push_back(&row);
    if (protocol == ScalingProtocol::cluster) parts[row.cluster].push_back(&row);
    if (protocol == ScalingProtocol::larger && devices > max_gpus) parts["larger"].push_back(&row);
    if (protocol != ScalingProtocol::placements || devices == 1) continue;
    const auto& of_group = placements[group_of(row)];
    const auto place = std::distance(of_group.begin(), of_group.find({devices, row.placement.text()}));
    parts[place % 2 == 0 ? "even" : "odd"].push_back(&row);
  }
  return parts;
}

/// @throws InputError for a network of the probe that the table lacks
void check(const ScalingProbe& probe, const std::vector<ScalingRow>& rows) {
  for (const std::string& network : probe.networks) {
    const auto is_of_it = [&](const ScalingRow& row) { return row.network == network; };
    if (std::ranges::none_of(rows, is_of_it))
      throw InputError(fmt::format("network \"{}\" is not in the table that is scored", shown(network)));
  }
}

ScalingEvaluation with_scores(ScalingEvaluation result) {
  if (result.rows.empty()) throw InputError("no row is left to score");
  return result;
}

}  // namespace

std::vector<ScalingGroup> ScalingEvaluation::groups() const {
  std::map<GroupName, ScalingGroup> by_name;
  for (const auto& [row, predicted] : rows) {
    ScalingGroup& group = by_name[group_of(row)];
    group.cluster = row.cluster;
    group.network = row.network;
    group.errors.add(row.step_sec, std::exp(predicted.log_sec), predicted.half_width);
    group.of_perfect.add(row.step_sec, predicted.one_device_sec, 0);
  }
  std::vector<ScalingGroup> all;
  for (auto& [name, group] : by_name) all.push_back(std::move(group));
  return all;
}

ScalingEvaluation evaluate_scaling_test(const std::vector<ScalingRow>& train, const std::vector<ScalingRow>& test,
                                        const Links& links, const ScalingProbe& probe) {
  check(probe, test);
  Rows known, left_out;
  for (const ScalingRow& row : train) {
    if (row.is_scored) known.push_back(&row);
  }
  for (const ScalingRow& row : test) left_out.push_back(&row);
  ScalingEvaluation result;
  score(std::move(known), left_out, links, probe, result);
  return with_scores(std::move(result));
}

ScalingEvaluation evaluate_scaling(const std::vector<ScalingRow>& rows, ScalingProtocol protocol, const Links& links,
                                   const ScalingProbe& probe, const PartsDone& progress) {
  check(probe, rows);
  const std::map<std::string, Rows> parts = parts_of(rows, protocol, probe.max_gpus);
  if (parts.empty()) throw InputError("no row is left out by this protocol");
  ScalingEvaluation result;
  std::size_t done = 0;
  for (const auto& [name, left_out] : parts) {
    const std::set<const ScalingRow*> out(left_out.begin(), left_out.end());
    Rows known;
    for (const ScalingRow& row : rows) {
      if (row.is_scored && !out.contains(&row)) known.push_back(&row);
    }
    if (known.empty()) throw InputError("this protocol leaves no row to learn from");
    score(std::move(known), left_out, links, probe, result);
    if (progress) progress(++done, parts.size());
  }
  return with_scores(std::move(result));
}

}  // namespace perfpred
