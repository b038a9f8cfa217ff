// SPDX-License-Identifier: Apache-2.0
// perfpred-evaluate: judges a model on measured rows, or a kind by leaving rows out and fitting anew.
#include <perfpred/aggregator.h>
#include <perfpred/time_regressor.h>

#include <algorithm>
#include <map>

#include "cli.h"
#include "evaluate/curve.h"
#include "evaluate/protocol.h"
#include "graphs_option.h"
#include "layer_study_options.h"
#include "metrics_output.h"
#include "op_evaluation_output.h"
#include "prior_option.h"
#include "progress.h"
#include "rejected_output.h"
#include "scaling_evaluation_output.h"
#include "text/enum_names.h"
#include "tools/aggregate_answer.h"
#include "tools/predictions_file.h"

namespace perfpred::cli {
namespace {

nlohmann::json to_json(const Evaluation& evaluation, const std::vector<NamedMetrics>& baselines, std::size_t seen,
                       const std::vector<RejectedRun>& left_out) {
  nlohmann::json json = cli::to_json(evaluation.metrics);
  json["seen"] = seen;
  json["coverage90"] = or_null(evaluation.coverage90);
  json["width90_median"] = or_null(evaluation.width90_median);
  json["baselines"] = cli::to_json(baselines);
  json["left_out"] = to_json(left_out);
  return json;
}

void print(const std::string& name, const Evaluation& evaluation, const std::vector<NamedMetrics>& baselines) {
  print_metrics_header();
  print_metrics(name, evaluation.metrics);
  for (const NamedMetrics& baseline : baselines) print_metrics(baseline.name, baseline.metrics);
  fmt::print("90 % interval: covers {} %, median width {} % of p50\n", cell(evaluation.coverage90, 100, 1),
             cell(evaluation.width90_median, 100, 1));
}

void print_curve(const std::vector<CurvePoint>& curve, bool json) {
  if (json) {
    nlohmann::json points = nlohmann::json::array();
    for (const CurvePoint& point : curve) {
      points.push_back({{"rows", point.rows},
                        {"selection", point.selection},
                        {"mape_median", point.mape_median},
                        {"mape_p90", point.mape_p90},
                        {"coverage90", point.coverage90}});
    }
    fmt::print("{}\n", dumped(nlohmann::json{{"curve", points}}, 2));
    return;
  }
  fmt::print("{}\n", in_bold(fmt::format("{:>5}  {:<10} {:>13} {:>10} {:>10}", "rows", "selection", "median MAPE %",
                                         "p90 %", "covered %")));
  for (const CurvePoint& point : curve) {
    fmt::print("{:>5}  {:<10} {:>13.2f} {:>10.2f} {:>10.1f}\n", point.rows, point.selection, 100 * point.mape_median,
               100 * point.mape_p90, 100 * point.coverage90);
  }
}

/// Refuses options of another protocol.
void refuse_other_protocol(const std::vector<CLI::Option*>& options, const std::string& of,
                           const std::string& protocol) {
  if (of == protocol) return;
  for (const CLI::Option* option : options) {
    if (!option->empty()) {
      throw InputError(fmt::format("{} is an option of protocol {}, not of {}", option->get_name(), of, protocol));
    }
  }
}

struct EvaluateOptions {
  std::string model_file, measured, out, runs_agg, protocol;
  FitOptions fit;
  ProtocolOptions folds;
  std::vector<std::size_t> sizes = {10, 20, 40, 80};
  int subsets = 30;
  OpEvaluationOptions ops;
  LayerStudyOption layers;
  ScalingEvaluationOptions scaling;
  PriorOption prior;
  bool json = false;
  CLI::Option *seed_option, *sizes_option, *out_option;
  std::vector<CLI::Option*> of_graphs, of_prior, of_kfold, of_curve, of_lono;

  explicit EvaluateOptions(Program& program) {
    CLI::Option* model_option = program.add_option("--model", model_file, "model file");
    program.add_option("--measured", measured, "measured rows to score the model on")->needs(model_option);
    out_option =
        program.add_option("--out", out, "predictions.csv: of the measured rows, or of what the protocol leaves out");
    CLI::Option* rows_option =
        program.add_option("--runs-agg", runs_agg, "measured rows to fit on and leave out")->excludes(model_option);
    program.add_option("--kind", fit.kind, "kind to judge")->capture_default_str()->needs(rows_option);
    ops.add_to(program, {model_option, rows_option});
    layers.add_to(program, {model_option, rows_option});
    scaling.add_to(program, {model_option, rows_option, program.get_option("--ops-dir"),
                             program.get_option("--steps-train"), program.get_option("--layers")});
    of_graphs = add_graphs_options(program);
    program.add_option(
        "--protocol", protocol,
        "kfold, loao, lodo, lowo, lono or curve; of --ops-dir: seen or device; of --steps-train: device, lono (a "
        "network), family (of networks), source or device_family; of --scaling-train: placements, larger, network or "
        "cluster");
    of_kfold = {program.add_option("--folds", folds.folds, "kfold: parts of the rows, each left out once"),
                program.add_option("--repeats", folds.repeats, "kfold: how often the rows are divided anew")};
    sizes_option = program.add_option("--rows", sizes, "curve: numbers of rows to fit on")->delimiter(',');
    of_curve = {sizes_option,
                program.add_option("--subsets", subsets,
                                   "curve: random subsets of each size, and as many series of suggested rows")};
    of_lono = {program.add_option("--own-rows", folds.own_rows, "lono: workloads of the network that are fitted on")
                   ->check(not_negative())};
    of_prior = prior.add_to(program);
    for (CLI::Option* option : {of_kfold[0], of_kfold[1], of_curve[0], of_curve[1], of_lono[0]}) {
      option->capture_default_str()->needs(rows_option);
    }
    seed_option = program.add_option("--seed", folds.seed, "of folds, subsets, probes and fits")->capture_default_str();
    program.add_flag("--json", json, "one JSON document on stdout");
  }
};

void evaluate_ops(const EvaluateOptions& given) {
  if (!given.out.empty()) throw InputError("--out is for --measured and --runs-agg");
  refuse({given.of_prior[0]}, "--measured and --runs-agg");
  if (given.ops.of_operators()) refuse({given.of_prior[1]}, "--measured, --runs-agg and --steps-train");
  if (given.ops.of_operators()) refuse(given.of_graphs, "--measured, --runs-agg and --steps-train");
  if (!given.seed_option->empty() && !given.ops.draws_a_probe()) throw InputError("--seed requires --probe-rows");
  given.ops.answer(given.protocol, given.prior.device_file.catalogue(), given.folds.seed, given.json);
}

void judge_scaling(const EvaluateOptions& given) {
  refuse(given.of_prior, "--measured, --runs-agg and --steps-train");
  refuse(given.of_graphs, "--measured, --runs-agg and --steps-train");
  refuse({given.seed_option, given.out_option}, "--runs-agg");
  given.scaling.answer(given.protocol, given.ops.probe_rows(), given.json);
}

void evaluate_model(const EvaluateOptions& given) {
  if (!given.seed_option->empty()) throw InputError("--seed requires --runs-agg");
  if (!given.protocol.empty()) throw InputError("--protocol fits anew; it goes without --model");
  if (given.measured.empty()) throw InputError("--measured is missing");
  if (!given.prior.path.empty()) throw InputError("--prior requires --runs-agg");
  TimeRegressor model = TimeRegressor::load(given.model_file, given.prior.device_file.catalogue());
  std::vector<RejectedRun> left_out;
  const std::vector<AggregateRow> rows = usable_rows(given.measured, left_out);
  const std::size_t seen = rows_fitted_on(model, rows);
  for (const AggregateRow& row : rows) give_rates(model, row.workload);
  const std::vector<Prediction> predictions = predict_rows(model, rows);
  const Evaluation evaluation = evaluate(rows, predictions);
  const std::map<std::string, std::size_t> outside = rows_outside(rows, predictions);
  const std::vector<NamedMetrics> baselines = evaluate_baselines(model.fitted_rows(), rows);
  if (!given.out.empty()) write_predictions(given.out, rows, predictions);
  if (seen != 0) {
    fmt::print(stderr, "WARNING: {} of the {} rows were fitted on; the errors flatter the model\n", seen,
               evaluation.metrics.time.n);
  }
  if (given.json) {
    nlohmann::json document = to_json(evaluation, baselines, seen, left_out);
    document["outside"] = outside;
    fmt::print("{}\n", dumped(document, 2));
    return;
  }
  print(model.fitted_rows().empty() ? "ops" : model.kind(), evaluation, baselines);  // without runs no kind was fitted
  constexpr std::size_t listed = 40;  // rows of a table that a person reads
  if (rows.size() <= listed) fmt::print("{}", errors_text(rows, predictions));
  for (const auto& [reason, n] : outside) {
    fmt::print("outside the model's domain: {} of {} rows ({})\n", n, evaluation.metrics.time.n, reason);
  }
}

/// On default sizes, those that the table has rows for.
void show_curve(const EvaluateOptions& given, const FitOptions& fit, const ProtocolOptions& folds) {
  if (!given.out.empty()) throw InputError("--out: a curve has no predictions to write");
  std::vector<RejectedRun> left_out;
  const std::vector<AggregateRow> rows = usable_rows(given.runs_agg, left_out);
  std::vector<std::size_t> sizes = given.sizes;
  if (given.sizes_option->empty())
    std::erase_if(sizes, [n = timed(rows).size()](std::size_t size) { return size >= n; });
  print_curve(evaluate_curve(rows, sizes, given.subsets, fit, folds), given.json);
}

void show_protocol(const EvaluateOptions& given, Protocol protocol, const FitOptions& fit,
                   const ProtocolOptions& folds) {
  std::vector<RejectedRun> left_out;
  const std::vector<AggregateRow> rows = usable_rows(given.runs_agg, left_out);
  const ProtocolEvaluation result = evaluate_protocol(rows, protocol, fit, folds);
  if (!given.out.empty()) write_predictions(given.out, result.scored, result.predictions);
  if (given.json) {
    nlohmann::json document = to_json(result.all, result.baselines, result.seen, left_out);
    document["folds"] = nlohmann::json::array();
    for (const FoldEvaluation& fold : result.folds) {
      document["folds"].push_back({{"left_out", fold.left_out},
                                   {"n", fold.n},
                                   {"time", cli::to_json(fold.time)},
                                   {"coverage90", or_null(fold.coverage90)}});
    }
    fmt::print("{}\n", dumped(document, 2));
    return;
  }
  print(fit.kind, result.all, result.baselines);
  if (protocol == Protocol::kfold) return;
  for (const FoldEvaluation& fold : result.folds) {
    fmt::print("  without {:<26} {:>4} rows  MAPE {:>6} %  covered {:>6} %\n", fold.left_out, fold.n,
               cell(fold.time.mape, 100, 2), cell(fold.coverage90, 100, 1));
  }
}

/// Fits a kind anew, by leaving rows out.
void evaluate_kind(const EvaluateOptions& given) {
  if (given.runs_agg.empty())
    throw InputError(
        "give --model and --measured, or --runs-agg, --ops-dir, --steps-train, --layers or --scaling-train");
  const auto protocol = enumerator_named<Protocol::lono>(given.protocol);
  if (given.protocol.empty()) throw InputError("--protocol is missing: kfold, loao, lodo, lowo, lono or curve");
  if (!protocol && given.protocol != "curve") {
    throw InputError("--protocol is not one of kfold, loao, lodo, lowo, lono, curve");
  }
  refuse_other_protocol(given.of_lono, "lono", given.protocol);
  refuse_other_protocol(given.of_kfold, "kfold", given.protocol);
  refuse_other_protocol(given.of_curve, "curve", given.protocol);
  FitOptions fit = given.fit;
  ProtocolOptions folds = given.folds;
  fit.seed = folds.seed;
  given.prior.set(fit);
  folds.progress = counted_progress_on_terminal("fitting");
  if (protocol) {
    show_protocol(given, *protocol, fit, folds);
  } else {
    show_curve(given, fit, folds);
  }
}

}  // namespace

int evaluate_command(int argc, char** argv) {
  Program program("evaluate", "perfpred-evaluate --runs-agg runs_agg.csv --protocol kfold --folds 5 --repeats 20");
  EvaluateOptions given(program);
  return program.run(argc, argv, [&] {
    enable_kinds(given.fit.kind, argv);
    if (!given.ops.given() && !given.scaling.given())
      refuse({given.ops.probe_option()}, "--ops-dir and --scaling-train");
    if (given.layers.given()) {
      if (!given.protocol.empty() || !given.out.empty()) throw InputError("--layers goes without --protocol and --out");
      given.layers.show(given.prior.device_file.catalogue(), given.folds.seed, given.json);
    } else if (given.scaling.given()) {
      judge_scaling(given);
    } else if (given.ops.given()) {
      evaluate_ops(given);
    } else if (!given.model_file.empty()) {
      evaluate_model(given);
    } else {
      evaluate_kind(given);
    }
  });
}

}  // namespace perfpred::cli
