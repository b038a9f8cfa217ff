// SPDX-License-Identifier: Apache-2.0
// Measures training runs: a sweep of configurations, one row of runs.csv and one log for each.
#include <perfpred/run.h>
#include <perfpred/torch/collector.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cli.h"
#include "graphs_option.h"
#include "measuring.h"
#include "progress.h"
#include "runs/run_log.h"
#include "tools/shard.h"
#include "tools/sweep_script.h"
#include "tools/workload_sweep.h"
#include "torch/distributed/ranks.h"
#include "torch/measure/suggested_runs.h"
#include "workload/workload_labels.h"
#include "workload_options.h"

namespace perfpred::cli {
namespace {

void show(const CollectProgress& at) {
  if (!is_watched()) return;
  const Run& run = at.run;
  const Workload& w = run.workload;
  std::string what(w.network.family());
  if (const auto depth = w.depth()) what += fmt::format(" depth {} base {}", *depth, *w.base_filters());
  std::string how = run.outcome == Outcome::ok || run.avg_time_sec
                        ? fmt::format("{:.3f} s an epoch, {:.0f} {}", *run.avg_time_sec, *run.images_per_sec,
                                      throughput_unit(std::span(&w, 1)))
                        : std::string(to_string(run.outcome));
  if (run.test_acc) how += fmt::format(", accuracy {:.3f}", *run.test_acc);
  if (!run.note.empty()) how += " (" + run.note + ")";
  fmt::print(stderr, "[{}/{}] {} batch {} {}: {}; {} to go\n", at.finished, at.total, what, w.batch_size,
             to_string(w.precision), how, clock_text(at.eta_sec));
}

const char* meaning(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "IEEE fp32 everywhere (PyTorch by default: --precision default)";
    case Precision::tf32:
      return "TF32 in convolutions and matrix products";
    case Precision::default_:
      return "as PyTorch by default: TF32 in convolutions, fp32 in matrix products";
    case Precision::bf16:
    case Precision::fp16:
      return "automatic mixed precision";
    case Precision::fp64:
    case Precision::unknown:
      break;
  }
  return "";
}

void summarise(const CollectResult& result) {
  if (!result.set_aside.empty()) {
    fmt::print(stderr, "perfpred-collect: warning: {}{}\n", result.set_aside.front(),
               result.set_aside.size() > 1 ? fmt::format(" (and {} more)", result.set_aside.size() - 1) : "");
  }
  std::string measured = fmt::format("{} measured", result.done);
  if (result.untrusted > 0) measured += fmt::format(" ({} of them untrusted: disturbed)", result.untrusted);
  fmt::print(stderr, "{}, {} there already, {} failed, {} left\n", measured, result.skipped, result.failed,
             result.left);
  std::set<Precision> precisions;
  for (const Run& run : result.runs) precisions.insert(run.workload.precision);
  for (const Precision precision : precisions) {
    if (*meaning(precision) != '\0') fmt::print(stderr, "precision {}: {}\n", to_string(precision), meaning(precision));
  }
}

struct CollectRequest {
  CollectOptions options;
  WorkloadOptions asked;
  std::string configs, timing = "epochs", train_images = "50000", model, shard_text;
  std::size_t suggested = 0;
  std::optional<Shard> shard;
  std::optional<std::int64_t> shards, at_once;
  bool sbatch = false;
  std::optional<int> replicas;
  bool json = false;
  CLI::Option *epochs_option = nullptr, *batch_option = nullptr, *images_option = nullptr;

  void add_to(Program& program) {
    asked.add_lists_to(program, {"train_images", "device", "threads"});
    batch_option = program.get_option("--batch-size");
    add_graphs_options(program);
    options.runs_csv = "runs.csv";
    options.log_dir = "logs";
    program.add_option(
        "--configs", configs,
        "CSV with a configuration a row; the other options fill missing fields (its device and threads are not used)");
    images_option = program.add_option("--train-images", train_images, "images or sequences an epoch (default 50000)");
    program.add_option("--timing", timing, "epochs (default): train them; steps: estimate one from its steps")
        ->check(CLI::IsMember({"epochs", "steps"}));
    epochs_option = program.add_option("--epochs", options.epochs,
                                       "epochs of a run, at least 2; the first is not timed (default 3)");
    program.add_option("--repeats", options.repeats,
                       "rows wanted of each configuration, each by a seed of its own (default 1)");
    program.add_option("--device", options.device, "auto (default), cpu, cuda, cuda:1");
    program.add_option("--threads", options.threads, "CPU threads of each replica (default: all, shared evenly)");
    program.add_option(
        "--replicas", replicas,
        "train so many replicas together, as DistributedDataParallel does, each in a process of its own");
    program.add_option("--cluster", options.cluster, "of several replicas: the name of their links in links.csv");
    program.add_option("--data", options.data, "CIFAR-10: its archive, or a folder (default: generated images)");
    program.add_option("--env", options.env, "a tag for the rows");
    program.add_option("--seed", options.seed, "of data, weights and the order of the sweep (default 0)");
    takes_seconds(
        program.add_option("--time-limit-sec", options.time_limit_sec, "begin no run that would probably end later"));
    program.add_option("--out", options.runs_csv, "rows are appended here (default runs.csv)");
    program.lets_overwrite("--configs", "--out");
    program.add_option("--log-dir", options.log_dir, "folder of the runs' logs (default logs)");
    program.add_flag("--json", json, "print one JSON document");
    CLI::Option* suggest =
        program
            .add_option("--suggest", suggested,
                        "measure only so many of the configurations that are left: those that teach most per second")
            ->check(positive());
    program.add_option("--model", model, "model file to suggest for (default: nothing is known yet)")->needs(suggest);
    add_shards_to(program);
  }

  void add_shards_to(Program& program) {
    CLI::Option* shard_option = program.add_option(
        "--shard", shard_text,
        "i/n: measure the i-th of n parts, i from 0, as $SLURM_ARRAY_TASK_ID/40; runs.csv is then runs.i-of-n.csv");
    CLI::Option* sbatch_option = program.add_flag(
        "--sbatch", sbatch, "measure nothing: print a script that has Slurm measure the sweep as an array of shards");
    program.add_option("--shards", shards, "tasks of the array (default: one for each configuration, 1000 at most)")
        ->check(positive())
        ->needs(sbatch_option);
    program.add_option("--at-once", at_once, "tasks of the array that may run at the same time (default: all)")
        ->check(positive())
        ->needs(sbatch_option);
    for (CLI::Option* option : {shard_option, sbatch_option}) option->excludes(program.get_option("--suggest"));
    sbatch_option->excludes(shard_option, program.get_option("--json"));
  }

  /// This process measures a part: its rows and logs are apart from those of others.
  void take_shard() {
    if (shard_text.empty()) return;
    shard = Shard::parse(shard_text);
    options.runs_csv = shard->file(options.runs_csv);
    options.log_dir = (std::filesystem::path(options.log_dir) / shard->name()).string();
  }

  /// The same command line, as an array of tasks.
  [[nodiscard]] std::string script(int argc, char** argv) const {
    const std::filesystem::path programs = std::filesystem::canonical("/proc/self/exe").parent_path();
    const std::vector<std::string> words(argv + 1, argv + argc);
    SweepScript sweep;
    sweep.command = words_without(words, {"--sbatch"}, {"--shards", "--at-once"});
    sweep.command.insert(sweep.command.begin(), (programs / "perfpred-collect").string());
    sweep.aggregate = (programs / "perfpred-aggregate").string();
    sweep.runs_csv = options.runs_csv;
    sweep.configurations = count_different(workloads());
    sweep.shards = tasks_of(sweep.configurations, shards);
    sweep.at_once = at_once;
    return text_of(sweep);
  }

  /// The configurations that the options ask for. @throws InputError
  [[nodiscard]] std::vector<Workload> workloads() const {
    Workload base;  // without what has no default
    base.network = "cifar_cnn";
    base.batch_size = 0;
    if (configs.empty() && batch_option->empty()) throw InputError("--batch-size is missing");
    std::vector<SweptField> fields = asked.fields();
    fields.push_back({"train_images", {train_images}, images_option->count() != 0});
    return configs.empty() ? sweep_workloads(std::span(&base, 1), fields)
                           : read_configurations(configs, std::span(&base, 1), fields);
  }
};

void print_json(const CollectResult& result) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const Run& run : result.runs) runs.push_back(nlohmann::ordered_json::parse(run_json(run)));
  const nlohmann::ordered_json document = {
      {"done", result.done}, {"skipped", result.skipped}, {"failed", result.failed}, {"runs", runs}};
  fmt::print("{}\n", document.dump(2));
}

}  // namespace

int collect_command(int argc, char** argv) {
  Program program("collect", "perfpred-collect --depth 2,3 --base-filters 16,32 --batch-size 64,128 --out runs.csv");
  CollectRequest request;
  request.add_to(program);
  return program.run(argc, argv, [&] {
    if (request.sbatch) {
      fmt::print("{}", request.script(argc, argv));
      return;
    }
    begin_measuring(argv);
    request.take_shard();
    request.options.timing = request.timing == "steps" ? Timing::steps : Timing::epochs;
    if (request.options.timing == Timing::steps && !request.epochs_option->empty()) {
      throw InputError("--epochs goes with --timing epochs: --timing steps trains no whole epoch");
    }
    request.options.ranks = Ranks::of(request.replicas, argv);
    Collector collector(request.options);
    if (request.options.ranks && request.options.ranks->rank() > 0) {
      leave_signals_to_rank_0();
      collector.follow();
      return;
    }
    std::vector<Workload> workloads = request.workloads();
    std::optional<ShardLock> alone;
    if (request.shard) {
      workloads = request.shard->of(workloads, request.options.seed);
      alone.emplace(request.options.runs_csv,
                    [](const std::string& line) { fmt::print(stderr, "perfpred-collect: {}\n", line); });
    }
    if (request.suggested > 0) workloads = suggested_runs(collector, workloads, request.model, request.suggested);
    stop_on_signals();
    const CollectResult result = collector.collect(workloads, show, interrupted);
    if (request.json) print_json(result);
    summarise(result);
    if (interrupted()) throw Error("interrupted");
  });
}

}  // namespace perfpred::cli
