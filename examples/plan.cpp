// SPDX-License-Identifier: Apache-2.0
// Which runs to do in a time budget.
#include <perfpred/run_plan.h>
#ifdef PERFPRED_WITH_CBC
#include <perfpred/cbc/enable_cbc.h>
#endif

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "device_file.h"
#include "graphs_option.h"
#include "tools/answer_text.h"
#include "tools/plan_answer.h"
#include "tools/sbatch_lines.h"
#include "tools/terminal_text.h"
#include "workload/workload_labels.h"

namespace perfpred::cli {
namespace {

/// Network, sizes, batch, and the other fields in which the candidates differ.
/// @param schedule  whether the device stands beside it
std::string label(const PlannedRun& run, const RunPlan& plan, bool schedule) {
  const Workload& workload = run.workload;
  std::string text(workload.network.family());
  if (workload.depth() && workload.base_filters()) {
    text += " " + std::to_string(*workload.depth()) + "x" + std::to_string(*workload.base_filters());
  }
  text += " batch " + std::to_string(workload.batch_size);
  WorkloadFields fields;
  for (const std::string& field : plan.fields) {
    const bool is_shown = field == "network" || field == "depth" || field == "base_filters" || field == "batch_size";
    if (!is_shown && (field != "device" || !schedule)) fields.push_back(&workload_column(field));
  }
  const std::string others = label_of(workload, fields);
  if (!others.empty()) text += ", " + others;
  return run.id.empty() ? text : run.id + "  " + text;
}

/// Two devices of one name with their numbers.
std::string device_of(const PlannedRun& run, const RunPlan& plan) {
  const std::string& name = plan.devices[run.device_index];
  return name.empty() ? run.device : name;
}

/// With as many digits as the value beside it has, and never below the number.
std::string rounded_up(double number) {
  char text[32];
  for (double shown = number;; shown = std::nextafter(shown * (1 + 4e-11), HUGE_VAL)) {
    std::snprintf(text, sizeof text, "%.10g", shown);
    if (std::strtod(text, nullptr) >= number) return text;
  }
}

/// Fields that the planned runs rest on and that nobody stated.
void print_assumed(const RunPlan& plan, const PlanTerms& terms) {
  std::set<std::string> assumed;
  for (const PlannedRun& run : plan.runs) {
    for (const auto& [field, value] : terms.assumed(run)) assumed.insert(fmt::format("{} {}", option_of(field), value));
  }
  if (!assumed.empty()) fmt::print("assumed {}\n", fmt::join(assumed, ", "));
}

/// How many runs have a predicted time outside the model's domain.
void print_out_of_domain(const std::vector<PlannedRun>& runs) {
  std::map<std::string_view, int> count;
  for (const PlannedRun& run : runs) {
    if (run.reason != DomainViolation::none) ++count[to_string(run.reason)];
  }
  for (const auto& [reason, n] : count) {
    std::printf("outside the model's domain: %d of these runs (%s); their times are rough\n", n,
                std::string(reason).c_str());
  }
}

/// Of the labels, and not too narrow for usual ones.
int width_of(const std::vector<PlannedRun>& runs, const RunPlan& plan, bool schedule) {
  std::size_t width = 34;
  for (const PlannedRun& run : runs) width = std::max(width, label(run, plan, schedule).size());
  return static_cast<int>(width);
}

void print_rows(const std::vector<PlannedRun>& runs, const RunPlan& plan, bool schedule) {
  const bool predicted = !runs.empty() && runs.front().provenance;
  const int width = width_of(runs, plan, schedule);
  const std::string head =
      fmt::format("  {:<{}} {:>12} {:>12}{}{}", "run", width, "cost_sec", "value", predicted ? "  rests on    " : "",
                  schedule ? "    start_sec      end_sec  device" : "");
  std::printf("%s\n", in_bold(head).c_str());
  for (const PlannedRun& run : runs) {
    std::printf("  %-*s %12lld %12.6g", width, label(run, plan, schedule).c_str(), static_cast<long long>(run.cost_sec),
                run.value);
    if (run.provenance) std::printf("  %-12s", std::string(to_string(*run.provenance)).c_str());
    if (schedule) {
      std::printf(
          "%s",
          fmt::format(" {:>12} {:>12}  {}", run.start_sec, run.start_sec + run.cost_sec, device_of(run, plan)).c_str());
    }
    if (run.verdict.value_or(MemoryVerdict::fits) != MemoryVerdict::fits)
      std::printf("  (memory %s)", in_words(*run.verdict));
    std::printf("\n");
  }
}

/// How many rows no device can run, or one of them cannot, and why the first of them.
void print_left_out(const RunPlan& plan, std::FILE* to) {
  std::map<std::string, std::vector<const RowLeftOut*>> by_device;
  for (const RowLeftOut& row : plan.left_out) by_device[row.device].push_back(&row);
  for (const auto& [device, rows] : by_device) {
    const bool several = rows.size() > 1;
    const std::string what = device.empty() ? fmt::format("cannot be planned and {} left out", several ? "are" : "is")
                                            : "cannot run on " + device;
    fmt::print(to, "{} row{} {}; the first, {}: {}\n", rows.size(), several ? "s" : "", what, rows.front()->key,
               rows.front()->reason);
  }
}

/// What runs may take of all devices together: a budget counts from the begin of the plan, also while its device is not
/// free.
std::string budget_text(const PlanTerms& terms) {
  const std::vector<std::int64_t> free = terms.free_sec();
  if (std::ranges::count(free, free.front()) == std::ssize(free))
    return (free.size() > 1 ? fmt::format("{} x ", free.size()) : "") + std::to_string(free.front());
  return fmt::format("{}", fmt::join(free, "+"));
}

/// When the last run ends, where that is not the sum of all costs.
void print_end(const RunPlan& plan) {
  if (plan.makespan_sec == plan.cost_sec || plan.runs.empty()) return;
  const std::string proof = plan.makespan_sec == plan.makespan_lower_bound_sec
                                ? "no plan of this value ends sooner"
                                : fmt::format("at the soonest possible: {} s", plan.makespan_lower_bound_sec);
  fmt::print("ends after {} s ({})\n", plan.makespan_sec, proof);
}

void print_text(const RunPlan& plan, const PlanTerms& terms) {
  const auto price = terms.price(plan);
  const std::string proof =
      plan.status == PlanStatus::optimal ? "optimal" : "at most " + rounded_up(plan.upper_bound) + " is possible";
  std::printf("%zu of %zu runs, %lld of %s s, value %.10g (%s)\n", plan.runs.size(), plan.candidates,
              static_cast<long long>(plan.cost_sec), budget_text(terms).c_str(), plan.value, proof.c_str());
  print_end(plan);
  if (price) {
    fmt::print("price {:.2f}{}{}{}\n", *price, terms.currency().empty() ? "" : " ", terms.currency(),
               terms.is_cheapest(plan) ? " (no such plan is cheaper)" : "");
  }
  print_rows(plan.runs, plan, true);
  print_assumed(plan, terms);
  print_out_of_domain(plan.runs);
  print_left_out(plan, stdout);
  if (!plan.missed.empty()) {
    std::printf("just missed (and what the value loses if the run is forced into the plan)\n");
    const int width = width_of(plan.missed, plan, false);
    for (const PlannedRun& missed : plan.missed) {
      std::printf("  %-*s %12lld %12.6g  loses %.6g\n", width, label(missed, plan, false).c_str(),
                  static_cast<long long>(missed.cost_sec), missed.value, missed.loss);
    }
  }
  if (!plan.marginal.empty()) {
    std::printf("with more time\n  %12s %14s %18s\n", "budget_sec", "value", "value a minute");
    for (const LargerBudget& more : plan.marginal) {
      const auto same = terms.budget_sec();
      const std::string budget = same ? std::to_string(*same + more.extra_sec) : fmt::format("+{}", more.extra_sec);
      std::printf("  %12s %14.8g %18.6g\n", budget.c_str(), more.value, more.value_per_minute);
    }
  }
  if (terms.pareto) {
    std::printf("Pareto front of cost and value\n");
    print_rows(plan.pareto, plan, false);
  }
}

/// @param model_file  empty: the standard model
RunPlan planned(const std::string& table, PlanTerms& terms, bool predicted, const std::string& model_file) {
  const PlanRequest& request = terms.request;
  if (!predicted) {
    const PlanCandidates candidates = read_candidates({table}, nullptr);
    terms.complete_for(candidates);
    return plan_candidates(candidates, request, nullptr);
  }
  TimeRegressor model = model_file.empty() ? TimeRegressor::standard(request.catalogue)
                                           : TimeRegressor::load(model_file, request.catalogue);
  const ModelRequests requests(model, {});
  const PlanCandidates candidates = read_candidates({table}, &requests);
  terms.complete_for(candidates);
  for (const Workload& workload : timed_workloads(candidates.jobs, request, model)) give_rates(model, workload);
  return plan_candidates(candidates, request, &model);
}

void add_time_options(Program& program, std::vector<std::string>& budgets, std::vector<std::string>& free_from) {
  program
      .add_option(
          "--budget-sec", budgets,
          "Time that the plan may take on each device: 3600, 1e4, 2:00:00, 1-12:00:00; several times for single "
          "devices: A=3600")
      ->required()
      ->allow_extra_args(false);
  program
      .add_option("--free-from-sec", free_from,
                  "No run begins before, counted from the begin of the plan as the budget: 1800, 30:00; several times "
                  "for single devices: A=1800")
      ->allow_extra_args(false);
}

void add_value_options(Program& program, PlanTerms& terms) {
  PlanRequest& request = terms.request;
  program.add_option("--min-acc", request.min_acc, "Leave out runs that are less accurate (a fraction)");
  program
      .add_option(
          "--value", terms.value_of,
          "What a run is worth: acc, thr, or value: the table's column, which is the default where there is one")
      ->check(CLI::IsMember({"acc", "thr", "value"}));
  program.add_option("--objective", terms.objective, "sum, best, cover-depth or cover-architecture")
      ->check(CLI::IsMember({"sum", "best", "cover-depth", "cover-architecture"}))
      ->capture_default_str();
}

void add_device_options(Program& program, PlanTerms& terms, DeviceFile& device_file, std::string& price_file) {
  auto* alike = program.add_option("--gpus", terms.gpus, "Number of devices, all alike")
                    ->check(CLI::Range(1, 10'000))
                    ->capture_default_str();
  program.add_option("--devices", terms.devices, "Names of devices; their rows of one workload are one run")
      ->delimiter(',')
      ->excludes(alike);
  device_file.add_to(program);
  auto* one_price = program.add_option("--price-per-hour", terms.price_per_hour, "Of one device, in any currency")
                        ->check(not_negative());
  program.add_option("--prices", price_file, "Table of prices: device, price_per_hour, currency")->excludes(one_price);
}

}  // namespace

int plan_command(int argc, char** argv) {
  Program program("plan",
                  "perfpred-plan --runs-agg runs_agg.csv --budget-sec 3600 --epochs 50 --min-acc 0.6 --out plan.csv");
  std::string table;
  std::string time_source = "measured";
  std::string model_file;
  std::string plan_file;
  std::string price_file;
  std::string batch_script;
  bool as_json = false;
  DeviceFile device_file;
  PlanTerms terms;
  PlanRequest& request = terms.request;
  program
      .add_option("--runs-agg", table,
                  "Measured rows: a runs_agg.csv; with --time-source predicted also a table of workloads, as --configs "
                  "of perfpred-predict")
      ->required();
  std::vector<std::string> budgets, free_from;
  add_time_options(program, budgets, free_from);
  program.add_option("--epochs", terms.epochs, "Epochs of each run that has none in a column epochs");
  add_value_options(program, terms);
  program.add_option("--time-source", time_source, "measured or predicted")
      ->check(CLI::IsMember({"measured", "predicted"}))
      ->capture_default_str();
  program.add_option("--model", model_file, "A fitted model, for predicted times; default: the standard model");
  program
      .add_option("--confidence", request.confidence, "Probability, at least 0.5, that predicted times keep the budget")
      ->capture_default_str();
  takes_seconds(program.add_option("--startup-sec", request.startup_sec, "Added to each run")->capture_default_str());
  add_device_options(program, terms, device_file, price_file);
  takes_seconds(program.add_option("--time-limit-sec", request.limits.time_sec,
                                   "Stop with the best plan so far and an upper bound"));
  program.add_flag("--ignore-memory", request.ignore_memory,
                   "Plan runs on devices, too, whose memory by the model's forecast does not hold them");
  program.add_flag("--pareto", terms.pareto, "Also the runs that no cheaper run equals in value");
  program.add_option("--out", plan_file, "Write the plan as CSV");
  const std::vector<CLI::Option*> graphs_options = add_graphs_options(program);
  auto* json = program.add_flag("--json", as_json, "Print one JSON document");
  program
      .add_option("--sbatch", batch_script,
                  "Print a shell script that submits this batch script for each run, which gets its key, epochs and id")
      ->excludes(json);

  return program.run(argc, argv, [&] {
#ifdef PERFPRED_WITH_CBC
    enable_cbc();
#endif
    request.catalogue = device_file.catalogue();
    for (const std::string& budget : budgets) terms.budget.add(budget, {{}, 0, "--budget-sec"});
    for (const std::string& sec : free_from) terms.free_from.add(sec, {{}, 0, "--free-from-sec"});
    terms.complete_request();
    if (!price_file.empty()) terms.prices = read_prices(price_file, request.catalogue);
    const bool predicted = time_source == "predicted";
    if (!predicted && terms.devices.empty() && !device_file.path.empty()) {
      throw InputError("--device-file is for --devices or --time-source predicted");
    }
    if (!predicted) {
      refuse(graphs_options, "--time-source predicted");
      if (!model_file.empty()) throw InputError("--model is for --time-source predicted");
      if (request.ignore_memory) throw InputError("--ignore-memory is for --time-source predicted");
    }
    const RunPlan plan = planned(table, terms, predicted, model_file);
    check_planned(plan, terms);
    if (!plan_file.empty()) write_plan(plan_file, plan);
    if (!batch_script.empty()) {
      fmt::print("{}", sbatch_lines(plan, terms, batch_script, predicted));
      print_left_out(plan, stderr);
    } else if (as_json) {
      fmt::print("{}\n", dumped(to_json(plan, terms), 2));
    } else {
      print_text(plan, terms);
    }
  });
}

}  // namespace perfpred::cli
