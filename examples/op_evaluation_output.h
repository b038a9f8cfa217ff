// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of perfpred-evaluate that judge an op model, and what they print.
#include <cmath>
#include <string>
#include <vector>

#include "cli.h"
#include "evaluate/step_evaluation.h"
#include "metrics_output.h"
#include "progress.h"
#include "text/enum_names.h"

namespace perfpred::cli {

class OpEvaluationOptions {
 public:
  void add_to(Program& program, const std::vector<CLI::Option*>& others) {
    ops_ = program.add_option("--ops-dir", ops_dir_, "folder of measured operators to fit on");
    test_ = program.add_option("--test-ops-dir", test_dir_, "folder of measured operators to score")->needs(ops_);
    probe_ = program.add_option("--probe-rows", probe_rows_,
                                "rows that are learnt of what is left out: of each kind of operator on a device, or of "
                                "each network in a cluster");
    steps_ = program
                 .add_option("--steps-train", steps_train_,
                             "tables of measured training steps to fit on, or runs_agg.csv; joined by commas")
                 ->delimiter(',');
    steps_test_ =
        program.add_option("--steps-test", steps_test_file_, "table of training steps, or runs_agg.csv, to score")
            ->needs(steps_);
    networks_ = program
                    .add_option("--probe-networks", probe_networks_,
                                "networks whose steps on a scored machine are learned from and not scored")
                    ->delimiter(',')
                    ->needs(steps_);
    steps_->excludes(ops_);
    for (CLI::Option* other : others) {
      ops_->excludes(other);
      steps_->excludes(other);
    }
  }

  [[nodiscard]] bool given() const { return !ops_dir_.empty() || !steps_train_.empty(); }

  /// Whether operators are judged, not steps.
  [[nodiscard]] bool of_operators() const { return !ops_dir_.empty(); }

  /// Whether something is random: the choice of the probe's rows.
  [[nodiscard]] bool draws_a_probe() const { return !probe_->empty(); }

  [[nodiscard]] std::size_t probe_rows() const { return probe_rows_; }

  /// --probe-rows where it has no effect is refused by its name.
  [[nodiscard]] CLI::Option* probe_option() const { return probe_; }

  /// @param devices  those that steps may be of
  void answer(const std::string& protocol, const DeviceCatalogue& devices, std::uint64_t seed, bool json) const {
    if (!ops_dir_.empty()) {
      show(evaluate_ops(protocol, seed), json);
    } else {
      refuse({probe_}, "--ops-dir and --scaling-train");
      show(evaluate_step_rows(protocol, devices), json);
    }
  }

 private:
  [[nodiscard]] OpEvaluation evaluate_ops(const std::string& protocol, std::uint64_t seed) const {
    if (protocol != "device" && !probe_->empty()) throw InputError("--probe-rows is an option of protocol device");
    if (!test_dir_.empty()) {
      if (!protocol.empty()) throw InputError("give --test-ops-dir or --protocol, not both");
      return evaluate_op_test(read_op_folder(ops_dir_), read_op_folder(test_dir_));
    }
    if (protocol == "seen") return evaluate_ops_seen(read_op_folder(ops_dir_));
    if (protocol == "device")
      return evaluate_ops_by_device(read_op_folder(ops_dir_), probe_rows_, seed,
                                    counted_progress_on_terminal("fitting"));
    throw InputError("--ops-dir goes with --test-ops-dir, --protocol seen or --protocol device");
  }

  [[nodiscard]] StepEvaluation evaluate_step_rows(const std::string& protocol, const DeviceCatalogue& devices) const {
    if (!steps_test_file_.empty()) {
      if (!protocol.empty()) throw InputError("give --steps-test or --protocol, not both");
      return evaluate_step_test(read_step_tables(steps_train_, devices), read_step_table(steps_test_file_, devices),
                                probe_networks_);
    }
    const auto by = enumerator_named<StepProtocol::device_family>(protocol);
    if (!by) {
      throw InputError(
          "--steps-train goes with --steps-test or --protocol device, lono, family, source or device_family");
    }
    return evaluate_steps(read_step_tables(steps_train_, devices), *by, probe_networks_,
                          counted_progress_on_terminal("fitting"));
  }

  static nlohmann::json errors_json(const ErrorSample& sample, bool with_coverage) {
    nlohmann::json json = {
        {"n", sample.size()}, {"mape", or_null(sample.mean())}, {"median_ape", or_null(sample.middle())}};
    if (with_coverage) json["coverage90"] = or_null(sample.coverage());
    return json;
  }

  static void show(const OpEvaluation& result, bool json) {
    for (const std::string& note : result.notes) fmt::print(stderr, "perfpred-evaluate: {}\n", note);
    nlohmann::json ops = nlohmann::json::object(), kinds = nlohmann::json::object(), rows = nlohmann::json::array();
    for (const auto& [gpu, by_op] : result.ops) {
      for (const auto& [op, sample] : by_op) ops[gpu][op] = errors_json(sample, false);
    }
    if (!json) fmt::print("{:<14} {:>8} {:>9} {:>16} {:>11}\n", "", "rows", "MAPE %", "mean of devices", "covered %");
    for (const auto& [kind, by_gpu] : result.kinds) {
      ErrorSample all;
      double sum = 0;
      for (const auto& [gpu, sample] : by_gpu) {
        all.errors.insert(all.errors.end(), sample.errors.begin(), sample.errors.end());
        all.covered += sample.covered;
        sum += *sample.mean();
      }
      const double mean = sum / static_cast<double>(by_gpu.size());
      kinds[kind] = {{"n", all.size()},
                     {"mape", or_null(all.mean())},
                     {"mape_device_mean", mean},
                     {"coverage90", or_null(all.coverage())}};
      if (json) continue;
      fmt::print("{:<14} {:>8} {:>9} {:>16.1f} {:>11}\n", kind, all.size(), cell(all.mean(), 100, 1), 100 * mean,
                 cell(all.coverage(), 100, 1));
      for (const auto& [gpu, sample] : by_gpu) {
        fmt::print("  {:<22} {:>6} rows  {:>6} %\n", gpu, sample.size(), cell(sample.mean(), 100, 1));
      }
    }
    for (const ScoredNetwork& network : result.networks) {
      const EndToEndRow& row = network.row;
      rows.push_back({{"gpu", row.gpu},
                      {"model", row.model},
                      {"mode", row.mode},
                      {"option", row.option},
                      {"seq", row.seq},
                      {"batch", row.batch},
                      {"measured_ms", row.sec * 1e3},
                      {"predicted_ms", network.predicted_sec * 1e3}});
    }
    if (json) {
      nlohmann::json e2e = errors_json(result.end_to_end, true);
      e2e["rows"] = rows;
      fmt::print("{}\n", dumped(nlohmann::json{{"ops", ops}, {"kinds", kinds}, {"e2e", e2e}}, 2));
      return;
    }
    print_total("end to end", result.end_to_end);
  }

  static void show(const StepEvaluation& result, bool json) {
    if (json) {
      nlohmann::json document = errors_json(result.all, true);
      document["unscored"] = result.unscored;
      document["by_gpu"] = nlohmann::json::object();
      for (const auto& [gpu, sample] : result.by_gpu) {
        document["by_gpu"][gpu] = {{"n", sample.size()}, {"mape", or_null(sample.mean())}};
      }
      document["rows"] = nlohmann::json::array();
      for (const ScoredStep& step : result.steps) {
        const StepRow& row = step.row;
        document["rows"].push_back({{"source", row.source},
                                    {"gpu", row.gpu},
                                    {"model", row.model},
                                    {"batch", row.batch},
                                    {"precision", row.precision},
                                    {"measured_ms", row.sec * 1e3},
                                    {"predicted_ms", step.predicted_sec * 1e3},
                                    {"p05_ms", step.predicted_sec * 1e3 * std::exp(-step.half_width)},
                                    {"p95_ms", step.predicted_sec * 1e3 * std::exp(step.half_width)},
                                    {"conditions", step.row.conditions}});
      }
      fmt::print("{}\n", dumped(document, 2));
      return;
    }
    for (const auto& [gpu, sample] : result.by_gpu) {
      fmt::print("  {:<22} {:>6} rows  {:>6} %\n", gpu, sample.size(), cell(sample.mean(), 100, 1));
    }
    print_total("steps", result.all);
    for (const auto& [reason, count] : result.unscored) fmt::print("not scored: {} ({})\n", count, reason);
  }

  static void print_total(const char* what, const ErrorSample& sample) {
    fmt::print("{}: {} rows, mean error {} %, median {} %, the 90 % interval covers {} %\n", what, sample.size(),
               cell(sample.mean(), 100, 1), cell(sample.middle(), 100, 1), cell(sample.coverage(), 100, 1));
  }

  std::string ops_dir_, test_dir_, steps_test_file_;
  std::vector<std::string> steps_train_;
  std::size_t probe_rows_ = 0;
  std::vector<std::string> probe_networks_;
  CLI::Option *ops_ = nullptr, *test_ = nullptr, *probe_ = nullptr, *steps_ = nullptr, *steps_test_ = nullptr,
              *networks_ = nullptr;
};

}  // namespace perfpred::cli
