// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/run.h>
#include <perfpred/run_recorder.h>
#include <perfpred/torch/collector.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/torch/step_timer.h>
#include <perfpred/torch/system_info.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "text/files.h"
#include "torch/data/batch_loader.h"
#include "torch/data/random.h"
#include "torch/device/cuda_device.h"
#include "torch/device/device_monitor.h"
#include "torch/device/memory_peak.h"
#include "torch/device/runtime_device.h"
#include "torch/device/step_clock.h"
#include "torch/device/torch_errors.h"
#include "torch/measure/run_log_writer.h"
#include "torch/train/training_step.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms);
}

/// The catalogue's name where the driver's own means exactly one device.
std::string recorded_name(c10::Device device) {
  std::string name = device_name(device);
  if (device.is_cpu()) return name;
  const DeviceCatalogue catalogue;
  const auto candidates = catalogue.candidates(name);
  return candidates.size() == 1 ? candidates.front()->name : name;
}

double quantile_of_sorted(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

void record_steps(Run& run, std::vector<double> seconds) {
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  run.step_p05_ms = quantile_of_sorted(seconds, 0.05) * 1e3;
  run.step_p50_ms = quantile_of_sorted(seconds, 0.50) * 1e3;
  run.step_p95_ms = quantile_of_sorted(seconds, 0.95) * 1e3;
}

ordered_json specification(const Workload& workload, const CollectOptions& options) {
  ordered_json fields;
  for (const WorkloadColumn& column : workload_columns()) fields[std::string(column.name)] = column.get(workload);
  return {{"workload", fields},
          {"key", workload.key()},
          {"options",
           {{"timing", to_string(options.timing)},
            {"epochs", options.epochs},
            {"data", options.data.empty() ? "generated" : options.data},
            {"seed", options.seed}}}};
}

std::string disturbances(const std::vector<DeviceReading>& readings) {
  std::vector<std::string> flags;
  const auto flag = [&](const char* what, const auto& is) {
    const auto n = std::count_if(readings.begin(), readings.end(), is);
    if (n > 0) flags.push_back(fmt::format("{} at {} of {} readings", what, n, readings.size()));
  };
  flag("throttled", [](const DeviceReading& reading) { return reading.throttled.value_or(false); });
  flag("company", [](const DeviceReading& reading) { return reading.company; });
  return fmt::format("{}", fmt::join(flags, "; "));
}

// A CPU's steps are slow and noisy: it needs longer for as many samples.
constexpr double cpu_limit_sec = 15;
constexpr double gpu_limit_sec = 3;

/// Thrown out of a run that was stopped.
struct Stopped {};

}  // namespace

struct Collector::Impl {
  explicit Impl(CollectOptions given) : options(std::move(given)), device(runtime_device(options.device)) {
    if (options.timing == Timing::epochs && options.epochs < 2) {
      throw InputError(fmt::format("epochs {} is not at least 2: the first is not timed", options.epochs));
    }
    if (options.repeats < 1) throw InputError(fmt::format("repeats {} is not positive", options.repeats));
    if (options.threads && *options.threads < 1) {
      throw InputError(fmt::format("threads {} is not positive", *options.threads));
    }
    if (options.time_limit_sec && !(*options.time_limit_sec > 0)) {
      throw InputError(fmt::format("time limit {} s is not positive", *options.time_limit_sec));
    }
    name = recorded_name(device);
    threads = options.threads.value_or(default_cpu_threads());
    settle_cpu(threads);
  }

  [[nodiscard]] Workload placed(Workload workload) const {
    workload.device = name;
    workload.threads = device.is_cpu() ? std::optional(threads) : std::nullopt;
    workload.validate();
    check_trainable(workload, device);
    return workload;
  }

  const ImageData& data_for(const Workload& workload) {
    const auto wanted = std::tuple(workload.input, workload.classes, workload.train_images);
    if (!data || wanted != data_is_for) {
      data.reset();
      data = std::make_unique<ImageData>(images_for(workload, options.data, options.seed));
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
    const SystemInfo& machine = system();
    run.host = machine.host;
    if (!device.is_cpu()) {
      run.driver = machine.driver.value_or("");
      run.cuda = machine.cuda;
      run.cudnn = machine.cudnn.value_or("");
    }
    return run;
  }

  const SystemInfo& system() {
    if (!info) info = read_system_info();
    return *info;
  }

  [[nodiscard]] double epoch_overhead(const Workload& workload, TrainingStep& step, BatchLoader& loader,
                                      double step_sec);
  void time_steps(Run& run, MemoryPeak& peak, RunLogWriter& log, const std::function<bool()>& stop);
  void train_epochs(Run& run, MemoryPeak& peak, RunLogWriter& log, const std::function<bool()>& stop);
  std::optional<Run> measure(const Workload& workload, RunLogWriter& log, const std::function<bool()>& stop);
  [[nodiscard]] RunLogWriter open_log(const Workload& workload) const;
  [[nodiscard]] bool counts(const Run& run) const;

  CollectOptions options;
  c10::Device device;
  std::string name;
  int threads = 0;
  std::unique_ptr<ImageData> data;
  std::tuple<std::vector<std::int64_t>, std::int64_t, std::int64_t> data_is_for;
  std::optional<SystemInfo> info;
  std::map<std::vector<std::int64_t>, double> overheads;  // of an epoch, by shape and number of its images and batches
};

namespace {

/// Batches without end: epoch after epoch.
class EndlessBatches {
 public:
  EndlessBatches(BatchLoader& loader, std::int64_t images, std::uint64_t seed)
      : loader_(loader), images_(images), seed_(seed) {
    loader_.start(images_, mix(seed_, pass_));
  }
  Batch next() {
    auto batch = loader_.next();
    if (!batch) {
      loader_.start(images_, mix(seed_, ++pass_));
      batch = loader_.next();
    }
    return *std::move(batch);
  }

 private:
  BatchLoader& loader_;
  std::int64_t images_;
  std::uint64_t seed_;
  std::uint64_t pass_ = 1;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Seconds of one run of work, median of a few after a first one.
double time_of(c10::Device device, const std::function<void()>& work) {
  constexpr int times = 3;
  work();
  synchronize(device);
  StepClock clock(device);
  clock.mark();
  for (int i = 0; i < times; ++i) {
    work();
    clock.mark();
  }
  return median(clock.take(0));
}

/// Medians of the parts of a step, in seconds; `data` is from the end of a step until its successor's batch is there.
ordered_json phase_times(c10::Device device, TrainingStep& step, const std::function<Batch()>& next) {
  constexpr std::size_t steps = 10;
  constexpr std::array<const char*, 5> names = {"data", "forward", "loss", "backward", "optimizer"};
  StepClock clock(device);
  step.on_phase([&clock](Phase) { clock.mark(); });
  clock.mark();
  for (std::size_t i = 0; i < steps; ++i) {
    const Batch batch = next();
    clock.mark();
    step.run(batch);
  }
  step.on_phase(nullptr);
  const std::vector<double> taken = clock.take(0);
  ordered_json phases;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<double> parts;
    for (std::size_t at = i; at < taken.size(); at += names.size()) parts.push_back(taken[at]);
    phases[std::string(names.at(i)) + "_sec"] = median(parts);
  }
  return phases;
}

std::string words(const StepTiming& timing, bool data_bound) {
  const StepLabel& label = timing.label;
  std::vector<std::string> flags;
  if (label.disturbed) flags.push_back(fmt::format("disturbed {:.0f} % of the samples", 100 * label.disturbed_share));
  if (timing.throttled) flags.emplace_back("throttled");
  if (timing.company) flags.emplace_back("company");
  if (label.drift) flags.emplace_back("drift");
  if (label.relative_half_width() > 0.01) {
    flags.push_back(fmt::format("median known to {:.1f} %", 100 * label.relative_half_width()));
  }
  if (data_bound) flags.emplace_back("data-bound");
  return fmt::format("{}", fmt::join(flags, "; "));
}

}  // namespace

/// What an epoch takes beyond its steps: the order of the images, the threads that load them, the first batch, reading
/// the metrics. From epochs of two steps.
double Collector::Impl::epoch_overhead(const Workload& workload, TrainingStep& step, BatchLoader& loader,
                                       double step_sec) {
  std::vector<std::int64_t> kind = workload.input;
  kind.push_back(workload.train_images);
  kind.push_back(workload.batch_size);
  if (const auto known = overheads.find(kind); known != overheads.end()) return known->second;
  constexpr int epochs = 3;
  constexpr int steps = 2;
  std::vector<double> excess;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    synchronize(device);
    const auto begin = Clock::now();
    loader.start(workload.train_images, mix(options.seed, static_cast<std::uint64_t>(epoch)));
    int taken = 0;
    for (; taken < steps; ++taken) {
      const auto batch = loader.next();
      if (!batch) break;
      step.run(*batch);
    }
    static_cast<void>(step.take_metrics());
    excess.push_back(seconds_since(begin) - taken * step_sec);
  }
  return overheads[kind] = std::max(0.0, median(excess));
}

void Collector::Impl::time_steps(Run& run, MemoryPeak& peak, RunLogWriter& log, const std::function<bool()>& stop) {
  const Workload& workload = run.workload;
  const ImageData& images = data_for(workload);
  TrainingStep step(workload, device, {default_learning_rate(workload.optimizer), 0, 0, options.seed});
  BatchLoader loader(*images.train, images.shape, loader_options(workload, device, loader_threads(device)));
  const std::int64_t full = workload.train_images / workload.batch_size;
  const std::int64_t rest = workload.train_images % workload.batch_size;
  std::optional<EndlessBatches> batches(std::in_place, loader,
                                        full > 0 ? full * workload.batch_size : workload.train_images, options.seed);
  const auto one = [&] {
    step.run(batches->next());
    if (stop()) throw Stopped{};
  };
  one();
  peak.restart();
  if (workload.cuda_graph && full > 0) {
    // The steps before the capture tell what the graph saves: the last of them, as clocks and caches warm up.
    constexpr int warmup = 6;
    for (int i = 0; i < warmup; ++i) one();
    const double eager = time_of(device, one);
    while (!step.captured()) one();
    run.cuda_graph_speedup = eager / time_of(device, one);
  }
  StepSamplesOptions sampling;
  sampling.limit_sec = device.is_cpu() ? cpu_limit_sec : gpu_limit_sec;
  const auto begin = Clock::now();
  const double waited_before = loader.waited_sec();
  const StepTiming timing = StepTimer(device, sampling).measure(one);
  const double sampling_sec = seconds_since(begin);
  const double wait_share = (loader.waited_sec() - waited_before) / sampling_sec;
  const StepLabel& label = timing.label;

  ordered_json phases;
  if (!workload.cuda_graph) phases = phase_times(device, step, [&] { return batches->next(); });
  double last = 0;
  if (full > 0 && rest > 0) {
    const Batch whole = batches->next();
    const Batch part{whole.inputs.narrow(0, 0, rest), whole.targets.narrow(0, 0, rest)};
    last = time_of(device, [&] { step.run(part); });
  }
  batches.reset();
  const double overhead = epoch_overhead(workload, step, loader, label.median);

  run.avg_time_sec = static_cast<double>(std::max<std::int64_t>(full, 1)) * label.mean + last + overhead;
  run.images_per_sec = static_cast<double>(workload.train_images) / *run.avg_time_sec;
  run.step_p05_ms = label.p05 * 1e3;
  run.step_p50_ms = label.median * 1e3;
  run.step_p95_ms = label.p95 * 1e3;
  run.clock_mhz = timing.clock_mhz;
  run.mem_free_mb = timing.mem_free_mb;
  run.note = words(timing, is_data_bound(wait_share));
  if (label.disturbed) run.outcome = Outcome::untrusted;
  ordered_json samples = ordered_json::array();
  ordered_json disturbed = ordered_json::array();
  for (const StepSample& sample : timing.samples) {
    samples.push_back(sample.sec * 1e3);
    disturbed.push_back(sample.disturbed ? 1 : 0);
  }
  log.line(ordered_json{{"steps",
                         {{"samples", label.samples},
                          {"warmup", label.warmup},
                          {"discarded", label.discarded},
                          {"mean_ms", label.mean * 1e3},
                          {"mean_rel_sem", label.mean_rel_sem},
                          {"median_ms", label.median * 1e3},
                          {"low_ms", label.low * 1e3},
                          {"high_ms", label.high * 1e3},
                          {"stopped_by", label.stopped_by},
                          {"sampling_sec", sampling_sec},
                          {"last_step_ms", last * 1e3},
                          {"epoch_overhead_sec", overhead},
                          {"data_wait_share", wait_share},
                          {"data_bound", is_data_bound(wait_share)},
                          {"phases", phases},
                          {"samples_ms", samples},
                          {"disturbed", disturbed}}}}
               .dump());
}

void Collector::Impl::train_epochs(Run& run, MemoryPeak& peak, RunLogWriter& log, const std::function<bool()>& stop) {
  const Workload& workload = run.workload;
  const ImageData& images = data_for(workload);
  TrainingStep step(workload, device, {default_learning_rate(workload.optimizer), 0, 0, options.seed});
  BatchLoader train(*images.train, images.shape, loader_options(workload, device, loader_threads(device)));
  BatchLoader validation(*images.validation, images.shape, loader_options(workload, device, loader_threads(device)));
  StepClock clock(device);
  DeviceMonitor monitor(device);
  run.mem_free_mb = monitor.read().mem_free_mb;
  std::vector<double> steps;
  std::vector<DeviceReading> readings;  // of the timed epochs: one a second, and at each end while the device is busy
  auto read_at = Clock::now();
  const auto read = [&] {
    readings.push_back(monitor.read());
    read_at = Clock::now();
  };
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    synchronize(device);
    const auto begin = Clock::now();
    train.start(workload.train_images, mix(options.seed, static_cast<std::uint64_t>(epoch)));
    clock.restart();
    clock.mark();
    const auto keep = [&](const std::vector<double>& taken) {
      if (epoch > 1) steps.insert(steps.end(), taken.begin(), taken.end());
    };
    bool first = epoch == 1;
    while (const auto batch = train.next()) {
      step.run(*batch);
      if (std::exchange(first, false)) peak.restart();
      clock.mark();
      keep(clock.take(most_open_marks));
      if (stop()) throw Stopped{};
      if (seconds_since(read_at) >= 1) read();
    }
    read();
    const Metrics trained = step.take_metrics();
    synchronize(device);
    const double sec = seconds_since(begin);
    keep(clock.take(0));
    if (epoch > 1) {
      run.clock_mhz = readings.back().clock_mhz;
    } else {
      readings.clear();
    }
    const auto validated = step.evaluate(validation, images.validation->size(), stop);
    if (!validated) throw Stopped{};
    run.epoch_times.push_back(sec);
    run.epochs = epoch;
    log.line(epoch_json({epoch, sec, trained.loss, trained.accuracy, validated->loss, validated->accuracy}));
  }
  BatchLoader test(*images.test, images.shape, loader_options(workload, device, loader_threads(device)));
  const auto tested = step.evaluate(test, images.test->size(), stop);
  if (!tested) throw Stopped{};
  run.test_acc = tested->accuracy;
  run.avg_time_sec = std::accumulate(run.epoch_times.begin() + 1, run.epoch_times.end(), 0.0) /
                     static_cast<double>(run.epoch_times.size() - 1);
  run.images_per_sec = static_cast<double>(workload.train_images) / *run.avg_time_sec;
  run.note = disturbances(readings);
  record_steps(run, std::move(steps));
}

std::optional<Run> Collector::Impl::measure(const Workload& workload, RunLogWriter& log,
                                            const std::function<bool()>& stop) {
  Run run = begin(workload);
  log.line(specification(workload, options).dump());
  MemoryPeak peak(device);
  try {
    guard_torch([&] {
      if (options.timing == Timing::epochs) {
        train_epochs(run, peak, log, stop);
      } else {
        time_steps(run, peak, log, stop);
      }
    });
  } catch (const Stopped&) {
    return std::nullopt;
  } catch (const OutOfMemory& error) {
    run.outcome = Outcome::oom;
    run.note = error.what();
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    run.outcome = Outcome::failed;
    run.note = error.what();
  }
  if (run.outcome == Outcome::oom || run.outcome == Outcome::failed) {
    run.epochs = 0;
    run.epoch_times.clear();
    run.avg_time_sec = run.images_per_sec = run.test_acc = std::nullopt;
  }
  if (run.outcome != Outcome::failed) {
    run.peak_mem_mb = static_cast<double>(peak.allocated_bytes()) * 1e-6;
    run.peak_reserved_mb = static_cast<double>(peak.reserved_bytes()) * 1e-6;
  }
  log.line(run_json(run));
  return run;
}

RunLogWriter Collector::Impl::open_log(const Workload& workload) const {
  if (options.log_dir.empty()) return {};
  std::string name_of_log = workload.network;
  if (workload.depth) name_of_log += fmt::format("_d{}_f{}", *workload.depth, *workload.base_filters);
  std::string stamp = utc_now();
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
  name_of_log = fmt::format("{}_{}_b{}.jsonl", stamp, name_of_log, workload.batch_size);
  std::replace_if(
      name_of_log.begin(), name_of_log.end(), [](char c) { return c == '/' || c == ':' || c == ',' || c == '='; }, '-');
  return RunLogWriter(options.log_dir + "/" + name_of_log);
}

/// Whether a row that is there already stands for one that is wanted. A failure may have passed; memory does not grow.
bool Collector::Impl::counts(const Run& run) const {
  if (run.timing != options.timing || run.outcome == Outcome::failed || run.outcome == Outcome::interrupted)
    return false;
  return run.outcome == Outcome::oom || options.timing == Timing::steps || run.epochs >= options.epochs;
}

Collector::Collector(CollectOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Collector::~Collector() = default;
Collector::Collector(Collector&&) noexcept = default;
Collector& Collector::operator=(Collector&&) noexcept = default;

Workload Collector::placed(Workload workload) const { return impl_->placed(std::move(workload)); }

std::optional<Run> Collector::measure(const Workload& workload, const std::function<bool()>& stop) {
  RunLogWriter no_log;
  return impl_->measure(impl_->placed(workload), no_log, stop);
}

CollectResult Collector::collect(std::span<const Workload> workloads,
                                 const std::function<void(const CollectProgress&)>& progress,
                                 const std::function<bool()>& stop) {
  std::vector<Workload> wanted;
  std::set<std::string> keys;
  for (const Workload& workload : workloads) {
    Workload placed = impl_->placed(workload);
    if (keys.insert(placed.key()).second) wanted.push_back(std::move(placed));
  }
  if (!impl_->options.log_dir.empty()) make_folder(impl_->options.log_dir);
  RunRecorder recorder(impl_->options.runs_csv);
  std::map<std::string, int> there;
  for (const Run& run : recorder.runs()) {
    if (impl_->counts(run)) ++there[run.workload.key()];
  }
  CollectResult result;
  std::vector<Workload> jobs;
  for (const Workload& workload : wanted) {
    for (int i = 0; i < impl_->options.repeats; ++i) {
      if (there[workload.key()]-- > 0) {
        ++result.skipped;
      } else {
        jobs.push_back(workload);
      }
    }
  }
  Random random(impl_->options.seed);
  random.shuffle(jobs);

  const auto begin = Clock::now();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double elapsed = seconds_since(begin);
    const double each = i > 0 ? elapsed / static_cast<double>(i) : 0;
    const auto limit = impl_->options.time_limit_sec;
    result.left = static_cast<int>(jobs.size() - i);
    if (stop() || (limit && elapsed + each > *limit)) break;
    RunLogWriter log = impl_->open_log(jobs[i]);
    const auto run = impl_->measure(jobs[i], log, stop);
    if (!run) break;
    log.keep();
    recorder.append(*run);
    ++(run->avg_time_sec ? result.done : result.failed);
    --result.left;
    result.runs.push_back(*run);
    const auto finished = static_cast<double>(i + 1);
    progress({static_cast<int>(i + 1), static_cast<int>(jobs.size()),
              seconds_since(begin) / finished * (static_cast<double>(jobs.size()) - finished), *run});
    // A device that does not answer any more would fail all the rest.
    guard_torch([&] {
      synchronize(impl_->device);
      empty_cache(impl_->device);
    });
  }
  result.set_aside = recorder.set_aside();
  return result;
}

}  // namespace perfpred
