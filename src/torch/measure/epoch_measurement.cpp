// SPDX-License-Identifier: Apache-2.0
#include "torch/measure/epoch_measurement.h"

#include <chrono>
#include <utility>

#include "torch/data/random.h"
#include "torch/device/step_clock.h"

namespace perfpred {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double reading_sec = 1;  // between readings of the device

}  // namespace

std::optional<EpochMeasurement> measure_epochs(TrainingSession& session, c10::Device device, const ImageData& data,
                                               int epochs, std::uint64_t seed, MemoryPeak& peak,
                                               const std::function<void(const LoggedEpoch&)>& done,
                                               const std::function<bool()>& stop) {
  TrainingStep& step = session.step();
  StepClock clock(device);
  RankGroup* const ranks = session.ranks();
  DeviceMonitor monitor(device, ranks != nullptr ? ranks->neighbours() : std::vector<int>());
  EpochMeasurement measured;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const bool timed = epoch > 1;
    synchronize(device);
    if (ranks != nullptr) ranks->meet();
    static_cast<void>(monitor.read());  // the next reading tells of the time from here on
    auto read_at = Clock::now();
    const auto read = [&] {
      const DeviceReading reading = monitor.read();
      if (timed) {
        measured.disturbance.add(reading);
        if (reading.clock_mhz) measured.clocks_mhz.push_back(*reading.clock_mhz);
      }
      read_at = Clock::now();
    };
    const auto begin = Clock::now();
    session.begin_epoch(mix(seed, static_cast<std::uint64_t>(epoch)));
    clock.restart();
    clock.mark();
    const auto keep = [&](const std::vector<double>& taken) {
      if (timed) measured.steps_sec.insert(measured.steps_sec.end(), taken.begin(), taken.end());
    };
    bool first = !timed;
    while (session.train_next()) {
      if (std::exchange(first, false)) peak.restart();
      clock.mark();
      keep(clock.take(max_open_marks));
      if (stop()) return std::nullopt;
      if (seconds_since(read_at) >= reading_sec) read();
    }
    read();  // while the device is busy
    const Metrics trained = step.take_metrics();
    synchronize(device);
    const double sec = seconds_since(begin);
    keep(clock.take(0));
    const auto validated = step.evaluate(session.loader(), *data.validation, stop);
    if (!validated) return std::nullopt;
    measured.epochs.push_back({epoch, sec, trained.loss, trained.accuracy, validated->loss, validated->accuracy});
    done(measured.epochs.back());
    if (!timed) peak.forget();
  }
  peak.stop();
  if (ranks != nullptr) measured.disturbance.disturbed_sec = ranks->highest(measured.disturbance.disturbed_sec);
  const auto tested = step.evaluate(session.loader(), *data.test, stop);
  if (!tested) return std::nullopt;
  measured.test_acc = tested->accuracy;
  return measured;
}

}  // namespace perfpred
