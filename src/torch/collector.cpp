#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/run_log.h>
#include <perfpred/run_recorder.h>
#include <perfpred/torch/collector.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/torch/system_info.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "batch_loader.h"
#include "cuda_device.h"
#include "device_monitor.h"
#include "memory_peak.h"
#include "nvml.h"
#include "random.h"
#include "run_log_writer.h"
#include "runtime_device.h"
#include "step_clock.h"
#include "torch_errors.h"
#include "training_step.h"
#include "workload_columns.h"

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
  const std::string name = device_name(device);
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

  LoaderOptions loader_options(const Workload& workload) const {
    return {workload.batch_size, device, workload.precision == Precision::fp64 ? at::kDouble : at::kFloat,
            workload.layout, 1};
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

  void train_epochs(Run& run, RunLogWriter& log, const std::function<bool()>& stop);
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
};

void Collector::Impl::train_epochs(Run& run, RunLogWriter& log, const std::function<bool()>& stop) {
  const Workload& workload = run.workload;
  const ImageData& images = data_for(workload);
  TrainingStep step(workload, device, {default_learning_rate(workload.optimizer), 0, 0, options.seed});
  BatchLoader train(*images.train, images.shape, loader_options(workload));
  BatchLoader validation(*images.validation, images.shape, loader_options(workload));
  StepClock clock(device);
  DeviceMonitor monitor(device);
  run.mem_free_mb = monitor.read().mem_free_mb;
  std::vector<double> steps;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    synchronize(device);
    const auto begin = Clock::now();
    train.start(workload.train_images, mix(options.seed, static_cast<std::uint64_t>(epoch)));
    clock.restart();
    clock.mark();
    while (const auto batch = train.next()) {
      step.run(*batch);
      clock.mark();
      if (stop()) throw Stopped{};
    }
    const DeviceReading reading = monitor.read();  // while the device is still busy
    const Metrics trained = step.take_metrics();
    synchronize(device);
    const double sec = seconds_since(begin);
    if (epoch > 1) {
      const std::vector<double> taken = clock.take(0);
      steps.insert(steps.end(), taken.begin(), taken.end());
      run.clock_mhz = reading.clock_mhz;
    }
    const Metrics validated = step.evaluate(validation, images.validation->size());
    run.epoch_times.push_back(sec);
    run.epochs = epoch;
    log.line(epoch_json({epoch, sec, trained.loss, trained.accuracy, validated.loss, validated.accuracy}));
  }
  BatchLoader test(*images.test, images.shape, loader_options(workload));
  run.test_acc = step.evaluate(test, images.test->size()).accuracy;
  run.avg_time_sec = std::accumulate(run.epoch_times.begin() + 1, run.epoch_times.end(), 0.0) /
                     static_cast<double>(run.epoch_times.size() - 1);
  run.images_per_sec = static_cast<double>(workload.train_images) / *run.avg_time_sec;
  record_steps(run, std::move(steps));
}

std::optional<Run> Collector::Impl::measure(const Workload& workload, RunLogWriter& log,
                                            const std::function<bool()>& stop) {
  Run run = begin(workload);
  log.line(specification(workload, options).dump());
  const MemoryPeak peak(device);
  try {
    guard_torch([&] { train_epochs(run, log, stop); });
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
  if (run.outcome != Outcome::ok) {
    run.avg_time_sec = run.images_per_sec = run.test_acc = std::nullopt;
  }
  if (run.outcome != Outcome::failed) run.peak_mem_mb = static_cast<double>(peak.allocated_bytes()) * 1e-6;
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
  if (run.timing != options.timing || run.outcome == Outcome::failed || run.outcome == Outcome::interrupted) return false;
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
  for (const Workload& workload : workloads) wanted.push_back(impl_->placed(workload));
  if (!impl_->options.log_dir.empty()) std::filesystem::create_directories(impl_->options.log_dir);
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
    empty_cache(impl_->device);
    ++(run->outcome == Outcome::ok ? result.done : result.failed);
    --result.left;
    result.runs.push_back(*run);
    const auto finished = static_cast<double>(i + 1);
    progress({static_cast<int>(i + 1), static_cast<int>(jobs.size()),
              seconds_since(begin) / finished * (static_cast<double>(jobs.size()) - finished), *run});
  }
  return result;
}

}  // namespace perfpred
