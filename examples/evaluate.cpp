// SPDX-License-Identifier: Apache-2.0
// perfpred-evaluate: judges a model on measured rows, or a kind by leaving rows out and fitting anew.
#include <perfpred/aggregator.h>
#include <perfpred/time_regressor.h>

#include <unistd.h>

#include <algorithm>
#include <map>

#include "evaluate/evaluation.h"
#include "metrics_output.h"
#ifdef PERFPRED_WITH_TORCH
#include <perfpred/torch/ann.h>
#endif
#ifdef PERFPRED_WITH_XGBOOST
#include <perfpred/xgboost/trees.h>
#endif

#include "cli.h"
#include "graphs_option.h"
#include "op_evaluation_output.h"
#include "prior_option.h"
#include "text/json.h"
#include "tools/predictions_file.h"

using namespace perfpred;

namespace {

nlohmann::json to_json(const Evaluation& evaluation, const std::vector<NamedMetrics>& baselines, std::size_t seen) {
  nlohmann::json json = cli::to_json(evaluation.metrics);
  json["seen"] = seen;
  json["coverage90"] = or_null(evaluation.coverage90);
  json["width90_median"] = or_null(evaluation.width90_median);
  json["baselines"] = cli::to_json(baselines);
  return json;
}

void print(const std::string& name, const Evaluation& evaluation, const std::vector<NamedMetrics>& baselines) {
  cli::print_metrics_header();
  cli::print_metrics(name, evaluation.metrics);
  for (const NamedMetrics& baseline : baselines) cli::print_metrics(baseline.name, baseline.metrics);
  fmt::print("90 % interval: covers {} %, median width {} % of p50\n", cli::cell(evaluation.coverage90, 100, 1),
             cli::cell(evaluation.width90_median, 100, 1));
}

void evaluate_model(TimeRegressor model, const std::string& measured, const std::string& out, bool json) {
  const std::vector<AggregateRow> rows = read_aggregate(measured);
  const std::size_t seen = rows_fitted_on(model, rows);
  for (const AggregateRow& row : rows) cli::give_rates(model, row.workload);
  const std::vector<Prediction> predictions = predict_rows(model, rows);
  const Evaluation evaluation = evaluate(rows, predictions);
  const std::map<std::string, std::size_t> outside = rows_outside(rows, predictions);
  const std::vector<NamedMetrics> baselines = evaluate_baselines(model.fitted_rows(), rows);
  if (!out.empty()) write_predictions(out, rows, predictions);
  if (seen != 0) {
    fmt::print(stderr, "WARNING: {} of the {} rows were fitted on; the errors flatter the model\n", seen,
               evaluation.metrics.time.n);
  }
  if (json) {
    nlohmann::json document = to_json(evaluation, baselines, seen);
    document["outside"] = outside;
    fmt::print("{}\n", document.dump(2));
    return;
  }
  print(model.fitted_rows().empty() ? "ops" : model.kind(), evaluation, baselines);  // without runs no kind was fitted
  for (const auto& [reason, n] : outside) {
    fmt::print("outside the model's domain: {} of {} rows ({})\n", n, evaluation.metrics.time.n, reason);
  }
}

void show_curve(const std::vector<CurvePoint>& curve, bool json) {
  if (json) {
    nlohmann::json points = nlohmann::json::array();
    for (const CurvePoint& point : curve) {
      points.push_back({{"rows", point.rows},
                        {"selection", point.selection},
                        {"mape_median", point.mape_median},
                        {"mape_p90", point.mape_p90},
                        {"coverage90", point.coverage90}});
    }
    fmt::print("{}\n", nlohmann::json{{"curve", points}}.dump(2));
    return;
  }
  fmt::print("{:>5}  {:<10} {:>13} {:>10} {:>10}\n", "rows", "selection", "median MAPE %", "p90 %", "covered %");
  for (const CurvePoint& point : curve) {
    fmt::print("{:>5}  {:<10} {:>13.2f} {:>10.2f} {:>10.1f}\n", point.rows, point.selection, 100 * point.mape_median,
               100 * point.mape_p90, 100 * point.coverage90);
  }
}

std::size_t timed_rows(const std::vector<AggregateRow>& rows) {
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [](const AggregateRow& row) { return row.avg_time_mean.has_value(); }));
}

/// Refuses options of another protocol.
void refuse(const std::vector<CLI::Option*>& options, const std::string& of, const std::string& protocol) {
  for (const CLI::Option* option : options) {
    if (!option->empty()) {
      throw InputError(fmt::format("{} is an option of protocol {}, not of {}", option->get_name(), of, protocol));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("evaluate", "Judges a model on measured rows, or a kind of model by leaving rows out.",
                       "perfpred-evaluate --runs-agg runs_agg.csv --protocol kfold --folds 5 --repeats 20");
  std::string model_file, measured, out, runs_agg, protocol_name;
  FitOptions fit;
  ProtocolOptions options;
  std::vector<std::size_t> sizes = {10, 20, 40, 80};
  int subsets = 30;
  bool json = false;
  CLI::Option* model_option = program.add_option("--model", model_file, "model file");
  program.add_option("--measured", measured, "measured rows to score the model on")->needs(model_option);
  program.add_option("--out", out, "predictions.csv: of the measured rows, or of what the protocol leaves out");
  CLI::Option* rows_option =
      program.add_option("--runs-agg", runs_agg, "measured rows to fit on and leave out")->excludes(model_option);
  program.add_option("--kind", fit.kind, "kind to judge")->capture_default_str()->needs(rows_option);
  cli::OpEvaluationOptions ops;
  ops.add_to(program, {model_option, rows_option});
  const std::vector<CLI::Option*> graphs_options = cli::add_graphs_options(program);
  program.add_option(
      "--protocol", protocol_name,
      "kfold, loao, lodo, lowo, lono or curve; of --ops-dir: seen or device; of --steps-train: device, lono (a "
      "network), family (of networks) or device_family");
  const std::vector<CLI::Option*> of_kfold = {
      program.add_option("--folds", options.folds, "kfold: parts of the rows, each left out once"),
      program.add_option("--repeats", options.repeats, "kfold: how often the rows are divided anew")};
  CLI::Option* sizes_option = program.add_option("--rows", sizes, "curve: numbers of rows to fit on")->delimiter(',');
  const std::vector<CLI::Option*> of_curve = {
      sizes_option, program.add_option("--subsets", subsets,
                                       "curve: random subsets of each size, and as many series of suggested rows")};
  CLI::Option* own_rows_option =
      program.add_option("--own-rows", options.own_rows, "lono: workloads of the network that are fitted on")
          ->check(cli::not_negative())
          ->capture_default_str()
          ->needs(rows_option);
  cli::PriorOption prior;
  const std::vector<CLI::Option*> prior_options = prior.add_to(program);
  for (CLI::Option* option : {of_kfold[0], of_kfold[1], of_curve[0], of_curve[1]}) {
    option->capture_default_str()->needs(rows_option);
  }
  CLI::Option* seed_option =
      program.add_option("--seed", options.seed, "of folds, subsets, probes and fits")->capture_default_str();
  program.add_flag("--json", json, "one JSON document on stdout");
  return program.run(argc, argv, [&] {
    if (ops.given()) {
      if (!out.empty()) throw InputError("--out is for --measured and --runs-agg");
      cli::refuse({prior_options[0]}, "--measured and --runs-agg");
      if (ops.of_operators()) cli::refuse({prior_options[1]}, "--measured, --runs-agg and --steps-train");
      if (ops.of_operators()) cli::refuse(graphs_options, "--measured, --runs-agg and --steps-train");
      if (!seed_option->empty() && !ops.draws_a_probe()) throw InputError("--seed requires --probe-rows");
      ops.answer(protocol_name, prior.device_file.catalogue(), options.seed, json);
      return;
    }
    if (!model_file.empty()) {
      if (!seed_option->empty()) throw InputError("--seed requires --runs-agg");
      if (!protocol_name.empty()) throw InputError("--protocol fits anew; it goes without --model");
      if (measured.empty()) throw InputError("--measured is missing");
      if (!prior.path.empty()) throw InputError("--prior requires --runs-agg");
      evaluate_model(TimeRegressor::load(model_file, prior.device_file.catalogue()), measured, out, json);
      return;
    }
    if (runs_agg.empty()) throw InputError("give --model and --measured, or --runs-agg, --ops-dir or --steps-train");
    const std::map<std::string, Protocol> protocols = {{"kfold", Protocol::kfold},
                                                       {"loao", Protocol::loao},
                                                       {"lodo", Protocol::lodo},
                                                       {"lowo", Protocol::lowo},
                                                       {"lono", Protocol::lono}};
    const auto protocol = protocols.find(protocol_name);
    if (protocol_name.empty()) throw InputError("--protocol is missing: kfold, loao, lodo, lowo, lono or curve");
    if (protocol == protocols.end() && protocol_name != "curve") {
      throw InputError("--protocol is not one of kfold, loao, lodo, lowo, lono, curve");
    }
    if (protocol_name != "lono") refuse({own_rows_option}, "lono", protocol_name);
    if (protocol_name != "kfold") refuse(of_kfold, "kfold", protocol_name);
    if (protocol_name != "curve") refuse(of_curve, "curve", protocol_name);
#ifdef PERFPRED_WITH_TORCH
    enable_ann();
#endif
#ifdef PERFPRED_WITH_XGBOOST
    enable_xgboost();
#endif
    fit.seed = options.seed;
    prior.set(fit);
    if (isatty(STDERR_FILENO) != 0) {
      options.progress = [](std::size_t done, std::size_t all) {
        fmt::print(stderr, "\r{} of {} fits{}", done, all, done == all ? "\n" : "");
      };
    }
    if (protocol_name == "curve") {
      if (!out.empty()) throw InputError("--out: a curve has no predictions to write");
      const std::vector<AggregateRow> rows = read_aggregate(runs_agg);
      if (sizes_option->empty()) std::erase_if(sizes, [&](std::size_t size) { return size >= timed_rows(rows); });
      show_curve(evaluate_curve(rows, sizes, subsets, fit, options), json);
      return;
    }
    const ProtocolEvaluation result = evaluate_protocol(read_aggregate(runs_agg), protocol->second, fit, options);
    if (!out.empty()) write_predictions(out, result.scored, result.predictions);
    if (json) {
      nlohmann::json document = to_json(result.all, result.baselines, result.seen);
      document["folds"] = nlohmann::json::array();
      for (const FoldEvaluation& fold : result.folds) {
        document["folds"].push_back({{"left_out", fold.left_out},
                                     {"n", fold.n},
                                     {"time", cli::to_json(fold.time)},
                                     {"coverage90", or_null(fold.coverage90)}});
      }
      fmt::print("{}\n", document.dump(2));
      return;
    }
    print(fit.kind, result.all, result.baselines);
    if (protocol->second != Protocol::kfold) {
      for (const FoldEvaluation& fold : result.folds) {
        fmt::print("  without {:<26} {:>4} rows  MAPE {:>6} %  covered {:>6} %\n", fold.left_out, fold.n,
                   cli::cell(fold.time.mape, 100, 2), cli::cell(fold.coverage90, 100, 1));
      }
    }
  });
}
