// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of perfpred-evaluate that judge times of several devices, and what they print.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cli.h"
#include "evaluate/scaling_evaluation.h"
#include "metrics_output.h"
#include "progress.h"
#include "text/enum_names.h"
#include "text/json.h"

namespace perfpred::cli {

class ScalingEvaluationOptions {
 public:
  void add_to(Program& program, const std::vector<CLI::Option*>& others) {
    train_option_ = program.add_option("--scaling-train", train_, "table of data-parallel steps to learn from");
    for (CLI::Option* other : others) train_option_->excludes(other);
    program.add_option("--scaling-test", test_, "table of data-parallel steps to score")->needs(train_option_);
    max_gpus_ = program
                    .add_option("--max-gpus", probe_.max_gpus,
                                "protocol larger: the most devices of a placement that is learnt from")
                    ->check(CLI::Range(1, 1'000'000))
                    ->capture_default_str()
                    ->needs(train_option_);
    program.add_option("--links", links_, "links.csv of the clusters")->needs(train_option_);
    program
        .add_option("--probe-network", probe_.networks,
                    "network whose first rows in each cluster are learnt from, in place of those of each network; may "
                    "be repeated")
        ->allow_extra_args(false)
        ->needs(train_option_);
  }

  [[nodiscard]] bool given() const { return !train_.empty(); }

  /// @param probe_rows  of each cluster and network, of those that are left out
  void answer(const std::string& protocol, std::size_t probe_rows, bool json) const {
    ScalingProbe probe = probe_;
    probe.rows = probe_rows;
    if (!probe.networks.empty() && probe.rows == 0) throw InputError("--probe-network requires --probe-rows");
    const Links links = links_.empty() ? Links() : Links::read(links_);
    show(evaluate(protocol, links, probe), json);
  }

 private:
  [[nodiscard]] ScalingEvaluation evaluate(const std::string& protocol, const Links& links,
                                           const ScalingProbe& probe) const {
    if (!test_.empty()) {
      if (!protocol.empty()) throw InputError("give --scaling-test or --protocol, not both");
      return evaluate_scaling_test(read_scaling_rows(train_), read_scaling_rows(test_), links, probe);
    }
    const auto by = enumerator_named<ScalingProtocol::cluster>(protocol);
    if (!by)
      throw InputError("--scaling-train goes with --scaling-test or --protocol placements, larger, network or cluster");
    if (by != ScalingProtocol::larger && max_gpus_->count() > 0)
      throw InputError("--max-gpus is an option of protocol larger");
    return evaluate_scaling(read_scaling_rows(train_), *by, links, probe, counted_progress_on_terminal("fitting"));
  }

  static void show(const ScalingEvaluation& result, bool json) {
    const std::vector<ScalingGroup> groups = result.groups();
    std::size_t covered = 0;
    double median = 0, mean = 0;
    for (const ScalingGroup& group : groups) {
      covered += group.errors.covered;
      median += *group.errors.middle() / static_cast<double>(groups.size());
      mean += *group.errors.mean() / static_cast<double>(groups.size());
    }
    const auto of_groups = [&](double value) { return groups.empty() ? std::nullopt : std::optional(value); };
    const auto coverage = of_groups(static_cast<double>(covered) / static_cast<double>(result.rows.size()));
    if (json) {
      nlohmann::json document = {{"n", result.rows.size()},
                                 {"unscored", result.unscored},
                                 {"median_ape", or_null(of_groups(median))},
                                 {"mape", or_null(of_groups(mean))},
                                 {"coverage90", or_null(coverage)},
                                 {"groups", nlohmann::json::array()},
                                 {"rows", nlohmann::json::array()}};
      for (const ScalingGroup& group : groups) document["groups"].push_back(to_json(group));
      for (const ScoredScaling& row : result.rows) document["rows"].push_back(to_json(row));
      fmt::print("{}\n", dumped(document, 2));
      return;
    }
    fmt::print("{:<28} {:<20} {:>6} {:>9} {:>8} {:>10} {:>18}\n", "cluster", "network", "rows", "median %", "mean %",
               "covered %", "perfect scaling %");
    for (const ScalingGroup& group : groups) {
      fmt::print("{:<28} {:<20} {:>6} {:>9} {:>8} {:>10} {:>18}\n", printable(group.cluster), printable(group.network),
                 group.errors.size(), cell(group.errors.middle(), 100, 1), cell(group.errors.mean(), 100, 1),
                 cell(group.errors.coverage(), 100, 1), cell(group.of_perfect.middle(), 100, 1));
    }
    fmt::print("mean of {} groups: median error {} %, mean error {} %; 90 % intervals cover {} % of {} rows\n",
               groups.size(), cell(of_groups(median), 100, 2), cell(of_groups(mean), 100, 2), cell(coverage, 100, 1),
               result.rows.size());
    for (const auto& [reason, n] : result.unscored) fmt::print("not scored: {} rows ({})\n", n, reason);
  }

  static nlohmann::json to_json(const ScalingGroup& group) {
    return {{"cluster", group.cluster},
            {"network", group.network},
            {"n", group.errors.size()},
            {"median_ape", or_null(group.errors.middle())},
            {"mape", or_null(group.errors.mean())},
            {"coverage90", or_null(group.errors.coverage())},
            {"perfect_median_ape", or_null(group.of_perfect.middle())},
            {"perfect_mape", or_null(group.of_perfect.mean())}};
  }

  static nlohmann::json to_json(const ScoredScaling& scored) {
    const ScalingRow& row = scored.row;
    const ScalingEstimate& at = scored.predicted;
    return {{"line", row.line},
            {"cluster", row.cluster},
            {"network", row.network},
            {"gpus_per_node", row.placement.text()},
            {"local_batch", row.local_batch},
            {"measured_ms", row.step_sec * 1e3},
            {"predicted_ms", std::exp(at.log_sec) * 1e3},
            {"p05_ms", std::exp(at.log_sec - at.half_width) * 1e3},
            {"p95_ms", std::exp(at.log_sec + at.half_width) * 1e3}};
  }

  std::string train_, test_, links_;
  ScalingProbe probe_;
  CLI::Option *train_option_ = nullptr, *max_gpus_ = nullptr;
};

}  // namespace perfpred::cli
