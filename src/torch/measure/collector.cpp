// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>
#include <perfpred/run.h>
#include <perfpred/run_recorder.h>
#include <perfpred/torch/collector.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/torch/system_info.h>

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "runs/disturbed.h"
#include "runs/logs/training_log.h"
#include "runs/run_log.h"
#include "statistics/moments.h"
#include "statistics/quantiles.h"
#include "text/files.h"
#include "torch/data/random.h"
#include "torch/device/memory_peak.h"
#include "torch/device/runtime_device.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"
#include "torch/distributed/ranks.h"
#include "torch/measure/epoch_measurement.h"
#include "torch/measure/run_log_writer.h"
#include "torch/measure/step_measurement.h"
#include "torch/monitor/device_monitor.h"
#include "torch/monitor/proc.h"
#include "torch/network/trainable_network.h"
#include "torch/train/training_data.h"
#include "torch/train/training_session.h"
#include "workload/workload_columns.h"
#include "workload/world.h"

namespace perfpred {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

constexpr double max_disturbed_share = 0.1;  // of the timed epochs, which cannot be dropped as steps can
constexpr double steady_clock_range = 1.05;  // p95 / p05

std::string utc_now() {
  return utc_text(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
}

/// One training run to be measured: the first of a workload has the seed of the sweep, each repeat one of its own.
struct Trial {
  Workload workload;
  std::uint64_t seed = 0;
};

void check(const CollectOptions& options) {
  if (options.timing == Timing::epochs && options.epochs < 2) {
    throw InputError(fmt::format("epochs {} is not at least 2: the first is not timed", options.epochs));
  }
  if (options.repeats < 1) throw InputError(fmt::format("repeats {} is not positive", options.repeats));
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  if (std::any_of(options.env.begin(), options.env.end(), control)) {  // a table would hold blanks in their place
    throw InputError("env is not free of control characters");
  }
  if (options.time_limit_sec && !(*options.time_limit_sec > 0)) {
    throw InputError(fmt::format("time limit {} s is not positive", *options.time_limit_sec));
  }
  if (!options.ranks && !options.cluster.empty()) throw InputError("cluster is for several replicas");
}

/// The system ends a process that takes more memory than there is, and with it the sweep, each time it is started.
/// @param ranks  on this machine
/// @throws OutOfMemory for a step of a network of the zoo that needs more than this CPU's machine has
void check_memory(const Workload& workload, int threads, int ranks) {
  const auto machine = memory_bytes();
  if (!machine) return;
  TrainingJob job = TrainingJob::on(Device::this_cpu()).value();
  job.threads = threads;
  const std::int64_t needed = estimate_memory(execute(workload.graph(), DeviceKind::cpu), job).peak_bytes * ranks;
  if (needed <= *machine) return;
  throw OutOfMemory(fmt::format("not tried: needs {:.1f} GB, the machine has {:.1f} GB",
                                static_cast<double>(needed) * 1e-9, static_cast<double>(*machine) * 1e-9));
}

/// @param level_moved  whether the step time changed
void record_drift(Run& run, bool level_moved) {
  run.drift = level_moved || (run.clock_p05_mhz && *run.clock_p95_mhz > steady_clock_range * *run.clock_p05_mhz);
}

void record(Run& run, const StepMeasurement& measured) {
  const StepLabel& label = measured.timing.label;
  run.avg_time_sec = measured.epoch_sec;
  if (std::isfinite(measured.epoch_rel_sem)) run.epoch_rel_sem = measured.epoch_rel_sem;
  run.step_p05_ms = label.p05 * 1e3;
  run.step_p50_ms = label.median * 1e3;
  run.step_p95_ms = label.p95 * 1e3;
  run.step_cv = label.cv;
  if (measured.timing.host_p50_sec) run.host_p50_ms = *measured.timing.host_p50_sec * 1e3;
  run.clock_mhz = measured.timing.clock_mhz;
  run.clock_p05_mhz = measured.timing.clock_low_mhz;
  run.clock_p95_mhz = measured.timing.clock_high_mhz;
  record_drift(run, label.drift);
  run.cuda_graph_speedup = measured.graph_speedup;
  run.data_wait_share = std::min(measured.data_wait_share, 1.0);
  run.note = note_of(measured);
  if (label.disturbed) run.outcome = Outcome::untrusted;
}

void record(Run& run, const EpochMeasurement& measured) {
  for (const LoggedEpoch& epoch : measured.epochs) run.epoch_times.push_back(epoch.sec);
  run.epochs = static_cast<int>(run.epoch_times.size());
  run.avg_time_sec =
      std::accumulate(run.epoch_times.begin() + 1, run.epoch_times.end(), 0.0) / static_cast<double>(run.epochs - 1);
  run.test_acc = measured.test_acc;
  if (!measured.clocks_mhz.empty()) {
    run.clock_mhz = median(measured.clocks_mhz);
    run.clock_p05_mhz = quantile(measured.clocks_mhz, 0.05);
    run.clock_p95_mhz = quantile(measured.clocks_mhz, 0.95);
  }
  record_drift(run, false);
  run.step_p05_ms = quantile(measured.steps_sec, 0.05) * 1e3;
  run.step_p50_ms = median(measured.steps_sec) * 1e3;
  run.step_p95_ms = quantile(measured.steps_sec, 0.95) * 1e3;
  Moments steps;
  for (const double sec : measured.steps_sec) steps.add(sec);
  run.step_cv = steps.deviation() / steps.mean();
  const Disturbance& disturbance = measured.disturbance;
  if (disturbance.share() > max_disturbed_share) run.outcome = Outcome::untrusted;
  if (disturbance.disturbed_sec > 0) {
    run.note = fmt::format("disturbed {:.0f} % of the time", 100 * disturbance.share());
  }
  if (disturbance.throttled) run.note += "; throttled";
  if (disturbance.company) run.note += run.note.empty() ? "company" : "; company";
}

}  // namespace

struct __attribute__((visibility("hidden"))) Collector::Impl {
  explicit Impl(CollectOptions given) : options(std::move(given)), device(device_of(options)) {
    check(options);
    name = canonical_device(device_name(device));
    threads = use_cpu_threads(device, options.threads, options.ranks ? options.ranks->local_size() : 1);
  }

  [[nodiscard]] static c10::Device device_of(const CollectOptions& options) {
    if (!options.ranks) return runtime_device(options.device);
    return runtime_device(options.device, options.ranks->local_rank(), options.ranks->local_size());
  }

  [[nodiscard]] int replicas() const { return options.ranks ? options.ranks->size() : 1; }

  [[nodiscard]] Workload placed(Workload workload) const {
    workload.device = name;
    workload.threads = threads;
    workload.validate();
    if (options.ranks && workload.gpus_per_node == options.ranks->placement() && workload.cluster == options.cluster)
      workload = on_one_device(workload);  // as this function gave it
    check_trainable(workload, device);
    if (is_captured_step(workload.network)) {
      throw InputError(
          fmt::format("network {} is a step, which cannot be trained: perfpred.measure in Python times your own loop",
                      workload.network));
    }
    Workload of_rank = workload;
    of_rank.train_images = RankShare{0, replicas()}.of(workload.train_images);
    check_last_batch(of_rank);
    if (!options.ranks) return workload;
    if (workload.cuda_graph) throw InputError("cuda_graph goes with one replica");
    workload.gpus_per_node = options.ranks->placement();
    workload.cluster = options.cluster;
    workload.validate();
    return workload;
  }

  const ImageData& data_for(const Workload& workload) {
    const auto wanted = std::tuple(workload.input, workload.classes, workload.train_images);
    if (!data || wanted != data_is_for) {
      data.reset();
      data = std::make_unique<ImageData>(images_for(
          workload, options.data, options.seed, options.timing == Timing::steps ? ImageParts::train : ImageParts::all));
      data_is_for = wanted;
    }
    return *data;
  }

  Run begin(const Workload& workload) {
    Run run;
    run.workload = workload;
    run.timestamp_utc = utc_now();
    run.framework = std::string("LibTorch ") + TORCH_VERSION;
    run.params = workload.params();
    run.timing = options.timing;
    run.env = options.env;
    run.load = system_load();
    if (!info) info = read_system_info();
    run.host = info->host;
    if (!device.is_cpu()) {
      run.driver = info->driver.value_or("");
      run.cuda = info->cuda;
      run.cudnn = info->cudnn.value_or("");
    }
    return run;
  }

  /// @returns whether it was not stopped
  bool train(Run& run, const Trial& trial, MemoryPeak& peak, RunLogWriter& log, const std::function<bool()>& stop);
  std::optional<Run> measure(const Trial& trial, RunLogWriter& log, const std::function<bool()>& stop);
  void follow(const std::string& text);
  void begin_together(std::span<const Trial> trials) const;
  void check_devices() const;
  [[nodiscard]] std::string specification(const Trial& trial) const;
  [[nodiscard]] RunLogWriter open_log(const Workload& workload) const;
  [[nodiscard]] bool counts(const Run& run) const;
  [[nodiscard]] std::vector<Trial> trials_left(std::span<const Workload> workloads, int& skipped);
  RunRecorder& recorder();

  CollectOptions options;
  c10::Device device;
  std::string name;
  std::optional<int> threads;  // of a CPU
  std::unique_ptr<ImageData> data;
  std::tuple<std::vector<std::int64_t>, std::int64_t, std::int64_t> data_is_for;
  std::optional<SystemInfo> info;
  std::optional<RunRecorder> opened;
  std::map<std::vector<std::int64_t>, double> overheads;  // of an epoch, by shape and number of its images and batches
};

std::string Collector::Impl::specification(const Trial& trial) const {
  ordered_json fields;
  for (const WorkloadColumn& column : workload_columns()) fields[std::string(column.name)] = column.get(trial.workload);
  return ordered_json{{"workload", fields},
                      {"key", trial.workload.key()},
                      {"options",
                       {{"timing", to_string(options.timing)},
                        {"epochs", options.epochs},
                        {"data", options.data.empty() ? "generated" : options.data},
                        {"seed", trial.seed}}}}
      .dump();
}

bool Collector::Impl::train(Run& run, const Trial& trial, MemoryPeak& peak, RunLogWriter& log,
                            const std::function<bool()>& stop) {
  const auto begin = Clock::now();
  const Workload& workload = trial.workload;
  std::unique_ptr<RankGroup> group;
  if (options.ranks) group = options.ranks->connect(device);
  if (threads) check_memory(workload, *threads, options.ranks ? options.ranks->local_size() : 1);
  const ImageData& images = *guard_torch([&] { return &data_for(workload); });
  run.mem_free_mb = guard_torch([&] { return DeviceMonitor(device).read().mem_free_mb; });
  auto owned = guard_torch([&] {
    return std::make_unique<TrainingSession>(workload, device, images, trial.seed, options.timing == Timing::epochs,
                                             group.get());
  });
  return use_until_device_fails(std::move(owned), [&](TrainingSession& session) {
    if (options.timing == Timing::epochs) {
      const auto done = [&log](const LoggedEpoch& epoch) { log.line(epoch_json(epoch)); };
      const auto measured = measure_epochs(session, device, images, options.epochs, trial.seed, peak, done, stop);
      if (measured) record(run, *measured);
      return measured.has_value();
    }
    std::vector<std::int64_t> kind = workload.input;
    kind.push_back(workload.train_images);
    kind.push_back(workload.batch_size);
    const auto known = overheads.find(kind);
    const auto overhead = known == overheads.end() ? std::nullopt : std::optional(known->second);
    const auto measured = measure_steps(session, workload, device, peak, overhead, stop);
    if (!measured) return false;
    overheads[kind] = measured->overhead_sec;
    record(run, *measured);
    log.line(steps_json(*measured, seconds_since(begin)));
    return true;
  });
}

std::optional<Run> Collector::Impl::measure(const Trial& trial, RunLogWriter& log, const std::function<bool()>& stop) {
  Run run = begin(trial.workload);
  log.line(specification(trial));
  MemoryPeak peak(device);
  try {
    bool finished = false;
    const auto train_here = [&] { finished = train(run, trial, peak, log, stop); };
    if (options.ranks) {
      options.ranks->lead(fmt::format("{} {}", trial.seed, trial.workload.key()), train_here);
    } else {
      train_here();
    }
    if (!finished) return std::nullopt;
    run.images_per_sec = static_cast<double>(trial.workload.train_images) / *run.avg_time_sec;
  } catch (const OutOfMemory& error) {
    run.outcome = Outcome::oom;
    run.note = error.what();
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    run.outcome = Outcome::failed;
    run.note = error.what();
  }
  if (run.outcome != Outcome::failed && peak.allocated_bytes() > 0) {
    run.peak_mem_mb = static_cast<double>(peak.allocated_bytes()) * 1e-6;
    run.peak_reserved_mb = static_cast<double>(peak.reserved_bytes()) * 1e-6;
  }
  log.line(run_json(run));
  return run;
}

/// Trains what rank 0 says: its seed, a blank, its key.
void Collector::Impl::follow(const std::string& text) {
  const std::size_t blank = text.find(' ');
  Trial trial = {Workload::from_key(text.substr(blank + 1)), std::stoull(text.substr(0, blank))};
  trial.workload.threads = threads;
  Run not_recorded = begin(trial.workload);
  MemoryPeak peak(device);
  RunLogWriter no_log;
  static_cast<void>(train(not_recorded, trial, peak, no_log, [] { return false; }));
}

void Collector::Impl::begin_together(std::span<const Trial> trials) const {
  if (options.ranks && !trials.empty()) options.ranks->start();
}

/// One that does not answer any more would fail all the rest.
void Collector::Impl::check_devices() const {
  guard_torch([&] {
    synchronize(device);
    empty_cache(device);
  });
  if (options.ranks) options.ranks->await_others();
}

RunLogWriter Collector::Impl::open_log(const Workload& workload) const {
  if (options.log_dir.empty()) return {};
  std::string name_of_log(workload.network.family());
  if (const auto depth = workload.depth()) name_of_log += fmt::format("_d{}_f{}", *depth, *workload.base_filters());
  std::string stamp = utc_now();
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
  name_of_log = fmt::format("{}_{}_b{}", stamp, name_of_log, workload.batch_size);
  std::replace_if(
      name_of_log.begin(), name_of_log.end(), [](char c) { return c == '/' || c == ':' || c == ',' || c == '='; }, '-');
  return RunLogWriter(options.log_dir + "/" + name_of_log);
}

/// Whether a recorded row is one of those that are wanted.
bool Collector::Impl::counts(const Run& run) const {
  if (run.env != options.env || run.timing != options.timing || !is_settled(run.outcome)) return false;
  return run.outcome == Outcome::oom || options.timing == Timing::steps || run.epochs >= options.epochs;
}

/// Once for all calls, so that the lines that it set aside are told however often the file is read.
RunRecorder& Collector::Impl::recorder() { return opened ? *opened : opened.emplace(options.runs_csv); }

/// What the recorded runs leave to be measured, in the order of the workloads.
std::vector<Trial> Collector::Impl::trials_left(std::span<const Workload> workloads, int& skipped) {
  std::vector<Workload> asked;
  for (const Workload& workload : workloads) asked.push_back(placed(workload));  // refused before files are made
  std::map<std::string, int> there;
  for (const Run& run : recorder().runs()) {
    if (counts(run)) ++there[run.workload.key()];
  }
  std::set<std::string> keys;
  std::vector<Trial> trials;
  for (const Workload& here : asked) {
    if (!keys.insert(here.key()).second) continue;
    const int recorded = std::min(there[here.key()], options.repeats);
    skipped += recorded;
    for (int repeat = recorded; repeat < options.repeats; ++repeat) {
      trials.push_back({here, repeat == 0 ? options.seed : mix(options.seed, static_cast<std::uint64_t>(repeat))});
    }
  }
  return trials;
}

Collector::Collector(CollectOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Collector::~Collector() = default;
Collector::Collector(Collector&&) noexcept = default;
Collector& Collector::operator=(Collector&&) noexcept = default;

Workload Collector::placed(Workload workload) const { return impl_->placed(std::move(workload)); }

std::vector<Workload> Collector::left(std::span<const Workload> workloads) {
  int skipped = 0;
  std::vector<Workload> left;
  for (Trial& trial : impl_->trials_left(workloads, skipped)) {
    if (left.empty() || left.back() != trial.workload) left.push_back(std::move(trial.workload));
  }
  return left;
}

std::optional<Run> Collector::measure(const Workload& workload, const std::function<bool()>& stop) {
  RunLogWriter no_log;
  const auto never = [] { return false; };
  if (impl_->options.ranks) impl_->options.ranks->start();
  return impl_->measure({impl_->placed(workload), impl_->options.seed}, no_log, stop ? stop : never);
}

void Collector::follow() {
  impl_->options.ranks->follow([this](const std::string& text) { impl_->follow(text); });
}

CollectResult Collector::collect(std::span<const Workload> workloads,
                                 const std::function<void(const CollectProgress&)>& tell,
                                 const std::function<bool()>& ask) {
  const std::function<void(const CollectProgress&)> progress = tell ? tell : [](const CollectProgress&) {};
  const std::function<bool()> stop = ask ? ask : [] { return false; };
  for (const Workload& workload : workloads)
    static_cast<void>(impl_->placed(workload));  // refused before files are made
  if (!impl_->options.log_dir.empty()) make_folder(impl_->options.log_dir);
  RunRecorder& recorder = impl_->recorder();
  CollectResult result;
  std::vector<Trial> trials = impl_->trials_left(workloads, result.skipped);
  Random random(impl_->options.seed);
  random.shuffle(trials);
  impl_->begin_together(trials);
  const auto limit = impl_->options.time_limit_sec;
  const auto begin = Clock::now();
  result.left = static_cast<int>(trials.size());
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const double elapsed = seconds_since(begin);
    const double each = i > 0 ? elapsed / static_cast<double>(i) : 0;
    if (stop() || (limit && elapsed + each > *limit)) break;
    RunLogWriter log = impl_->open_log(trials[i].workload);
    const auto run = impl_->measure(trials[i], log, stop);
    if (!run) break;
    log.keep();
    recorder.append(*run);
    ++(run->avg_time_sec ? result.done : result.failed);
    if (run->outcome == Outcome::untrusted) ++result.untrusted;
    --result.left;
    result.runs.push_back(*run);
    const auto finished = static_cast<double>(i + 1);
    progress({static_cast<int>(i + 1), static_cast<int>(trials.size()),
              seconds_since(begin) / finished * (static_cast<double>(trials.size()) - finished), *run});
    impl_->check_devices();
  }
  if (impl_->options.ranks) impl_->options.ranks->end();
  result.set_aside = recorder.set_aside();
  return result;
}

}  // namespace perfpred
