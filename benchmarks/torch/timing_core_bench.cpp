// SPDX-License-Identifier: Apache-2.0
// Times of training steps as the timing core labels them: the CIFAR-10 CNN grid and networks of the zoo. The time of a
// row is the median step; low_ms and high_ms are its 95 % interval. Choose rows with --benchmark_filter.
// PERFPRED_BENCH_STREAMS=FILE.csv takes 20 s of samples of each row, whatever the label needs, and appends them there:
// name, sec, disturbed.
#include <benchmark/benchmark.h>
#include <perfpred/error.h>
#include <perfpred/run.h>
#include <perfpred/torch/step_timer.h>
#include <perfpred/torch/system_info.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "torch/device/runtime_device.h"
#include "torch/monitor/device_monitor.h"
#include "torch/train/training_session.h"

namespace {

using namespace perfpred;

/// The configurations of the reference collection where it is there, else a grid around them.
std::vector<Workload> cnn_grid() {
  std::vector<Workload> grid;
  if (const char* folder = std::getenv("PERFPRED_REFERENCE_DIR")) {
    const std::string runs = std::string(folder) + "/a100_cifar10/runs.csv";
    for (const Run& run : read_runs(runs)) {
      const Workload w =
          Workload::cifar_cnn(*run.workload.depth(), *run.workload.base_filters(), run.workload.batch_size);
      if (std::find(grid.begin(), grid.end(), w) == grid.end()) grid.push_back(w);
    }
    return grid;
  }
  for (const int depth : {2, 3, 4, 5}) {
    for (const int base : {16, 32, 64, 128}) {
      for (const std::int64_t batch : {32, 128, 512}) grid.push_back(Workload::cifar_cnn(depth, base, batch));
    }
  }
  return grid;
}

std::vector<Workload> zoo_rows() {
  std::vector<Workload> rows;
  for (const char* network : {"resnet18", "resnet50", "mobilenet_v2", "vgg16", "shufflenet_v2_x0_5"}) {
    for (const std::int64_t batch : {8, 32}) rows.push_back(Workload::zoo(network, batch));
  }
  return rows;
}

std::string name_of(const Workload& w) {
  const std::string what = w.depth() ? fmt::format("/depth:{}/base:{}", *w.depth(), *w.base_filters()) : std::string();
  return fmt::format("step/{}{}/batch:{}", w.network, what, w.batch_size);
}

void append_stream(const std::string& path, const std::string& name, const std::vector<StepSample>& samples) {
  std::ofstream file(path, std::ios::app);
  if (file.tellp() == 0) file << "name,sec,disturbed\n";
  for (const StepSample& sample : samples) file << fmt::format("{},{:.7g},{:d}\n", name, sample.sec, sample.disturbed);
  if (!file.flush()) throw Error(path + " cannot be written");
}

/// @returns whether it went well
bool time_step(benchmark::State& state, const Workload& workload, c10::Device device) {
  try {
    constexpr std::int64_t images = 512;
    GeneratedImages what;
    what.shape = workload.input;
    what.classes = workload.classes;
    what.train = std::max(images, 2 * workload.batch_size);
    what.validation = what.test = 1;
    const ImageData data = generate_images(what);
    TrainingSession session(workload, device, data, 0, false);
    StepSamplesOptions sampling;
    if (device.is_cpu()) sampling.limit_sec = 15;
    const char* streams = std::getenv("PERFPRED_BENCH_STREAMS");
    if (streams != nullptr) {
      sampling.criterion = "time";
      sampling.max_sec = sampling.limit_sec = 20;
    }
    const StepTimer timer(device, sampling);
    for ([[maybe_unused]] auto iteration : state) {
      const StepTiming timing = *timer.measure([&] {
        session.step().run(session.next());
        return true;
      });
      if (streams != nullptr) append_stream(streams, name_of(workload), timing.samples);
      state.SetIterationTime(timing.label.median);
      double sampled = 0;
      for (const StepSample& sample : timing.samples) sampled += sample.sec;
      state.counters["low_ms"] = timing.label.low * 1e3;
      state.counters["high_ms"] = timing.label.high * 1e3;
      state.counters["samples"] = static_cast<double>(timing.label.samples);
      state.counters["device_sec"] = sampled;
      state.counters["disturbed"] = timing.label.disturbed ? 1 : 0;
      if (timing.clock_mhz) state.counters["clock_mhz"] = *timing.clock_mhz;
    }
    return true;
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
    return false;
  }
}

int run(int argc, char** argv) {
  const char* wanted = std::getenv("PERFPRED_BENCH_DEVICE");
  const c10::Device device = runtime_device(wanted != nullptr ? wanted : "auto");
  prepare_process();
  const SystemInfo info = read_system_info();
  benchmark::AddCustomContext("device", device_name(device));
  benchmark::AddCustomContext("driver", info.driver.value_or("unknown"));
  const std::optional<double> clock = DeviceMonitor(device).read().clock_mhz;
  benchmark::AddCustomContext("clock_mhz", clock ? fmt::format("{:.0f}", *clock) : "unknown");
  benchmark::AddCustomContext("libtorch", info.libtorch);
  std::vector<Workload> rows = cnn_grid();
  for (Workload& row : zoo_rows()) rows.push_back(std::move(row));
  int failed = 0;
  for (const Workload& row : rows) {
    benchmark::RegisterBenchmark(
        name_of(row).c_str(),
        [&failed, row, device](benchmark::State& state) { failed += time_step(state, row, device) ? 0 : 1; })
        ->UseManualTime()
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::size_t matched = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (matched == 0) return 2;  // said by the library
  if (failed > 0) throw Error(fmt::format("{} benchmarks failed", failed));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const InputError& error) {
    fmt::print(stderr, "timing_core_bench: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "timing_core_bench: {}\n", error.what());
    return 1;
  }
}
