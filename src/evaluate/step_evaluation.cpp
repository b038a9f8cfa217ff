// SPDX-License-Identifier: Apache-2.0
#include "evaluate/step_evaluation.h"

#include <perfpred/error.h>
#include <perfpred/network.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "network/zoo/zoo.h"

namespace perfpred {
namespace {

using StepRows = std::vector<const StepRow*>;

/// A network of the probe that was not measured on a machine is replaced by the one whose step is shortest there.
void add_lightest(std::size_t wanted, StepRows& probe, StepRows& scored) {
  const auto networks_in = [](const StepRows& rows) {
    std::set<std::string> names;
    for (const StepRow* row : rows) names.insert(canonical_network(row->model));
    return names.size();
  };
  while (networks_in(probe) < wanted && networks_in(scored) > 1) {
    const auto lightest = std::min_element(scored.begin(), scored.end(),
                                           [](const StepRow* a, const StepRow* b) { return a->sec < b->sec; });
    const std::string name = canonical_network((*lightest)->model);
    const auto end = std::stable_partition(scored.begin(), scored.end(),
                                           [&](const StepRow* row) { return canonical_network(row->model) != name; });
    probe.insert(probe.end(), end, scored.end());
    scored.erase(end, scored.end());
  }
}

/// The networks of the probe. @throws InputError for one that is neither in the rows nor known
std::set<std::string> probe_of(const std::vector<std::string>& names, const std::vector<StepRow>& rows) {
  std::set<std::string> networks;
  for (const std::string& name : names) {
    const std::string network = canonical_network(name);
    const auto is_of_it = [&](const StepRow& row) { return canonical_network(row.model) == network; };
    if (std::none_of(rows.begin(), rows.end(), is_of_it)) (void)usual_data(network);
    networks.insert(network);
  }
  return networks;
}

/// Scores rows, after learning a machine's effects from its probe's networks where there are some.
void score(const StepModel& fitted, const StepRows& rows, const std::set<std::string>& networks,
           StepEvaluation& result) {
  std::map<MachineKey, StepRows> machines;
  for (const StepRow* row : rows) machines[row->machine].push_back(row);
  for (const auto& [machine, own] : machines) {
    StepRows probe, scored;
    for (const StepRow* row : own) {
      (networks.count(canonical_network(row->model)) != 0 ? probe : scored).push_back(row);
    }
    add_lightest(networks.size(), probe, scored);
    StepModel model = fitted;
    model.probe(machine, probe);
    if (!probe.empty()) result.unscored["probe"] += probe.size();
    for (const StepRow* row : scored) {
      const Estimate estimate = model.predict(*row);
      const double predicted = estimate.sec(), half_width = estimate.widths.total();
      result.all.add(row->sec, predicted, half_width);
      result.by_gpu[row->gpu].add(row->sec, predicted, half_width);
      result.steps.push_back({*row, predicted, half_width});
    }
  }
}

std::string group_of(const StepRow& row, StepProtocol protocol) {
  switch (protocol) {
    case StepProtocol::device:
      return row.device.matrix.name;
    case StepProtocol::lono:
      return canonical_network(row.model);
    case StepProtocol::family:
      return row.network_family;
    case StepProtocol::source:
      return row.source;
    default:
      return std::string(to_string(row.device.matrix.family));
  }
}

const char* groups_of(StepProtocol protocol) {
  switch (protocol) {
    case StepProtocol::device:
      return "devices";
    case StepProtocol::lono:
      return "networks";
    case StepProtocol::family:
      return "families of networks";
    case StepProtocol::source:
      return "sources";
    default:
      return "families of devices";
  }
}

}  // namespace

StepEvaluation evaluate_step_test(const StepTable& train, const StepTable& test,
                                  const std::vector<std::string>& probe_networks) {
  const std::set<std::string> probe = probe_of(probe_networks, test.rows);
  StepEvaluation result;
  result.unscored = test.unscored;
  score(StepModel::fit(pointers_to(train.rows)), pointers_to(test.rows), probe, result);
  return result;
}

StepEvaluation evaluate_steps(const StepTable& file, StepProtocol protocol,
                              const std::vector<std::string>& probe_networks, const PartsDone& progress) {
  const std::set<std::string> probe = probe_of(probe_networks, file.rows);
  std::map<std::string, StepRows> groups;
  for (const StepRow& row : file.rows) groups[group_of(row, protocol)].push_back(&row);
  if (groups.size() < 2) {
    throw InputError(fmt::format("leaving one out takes rows of at least two {}", groups_of(protocol)));
  }
  StepEvaluation result;
  result.unscored = file.unscored;
  std::size_t done = 0;
  for (const auto& [left_out, own] : groups) {
    StepRows others;
    for (const StepRow& row : file.rows) {
      if (group_of(row, protocol) != left_out) others.push_back(&row);
    }
    score(StepModel::fit(others), own, probe, result);
    if (progress) progress(++done, groups.size());
  }
  return result;
}

}  // namespace perfpred
