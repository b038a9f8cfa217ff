// Samples of real training steps, two threads on two shared virtual cores, whose speed wanders by some percent within
// the 20 s of a stream: tests/data/step_streams.csv, recorded by timing_core_bench with PERFPRED_BENCH_STREAMS.
#include <perfpred/step_samples.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "csv.h"

namespace perfpred {
namespace {

std::map<std::string, std::vector<StepSample>> recorded_streams() {
  std::map<std::string, std::vector<StepSample>> streams;
  CsvReader csv(PERFPRED_SOURCE_DIR "/tests/data/step_streams.csv");
  const CsvColumn name = csv.required("name"), sec = csv.required("sec"), disturbed = csv.required("disturbed");
  while (csv.next()) streams[std::string(csv.text(name))].push_back({csv.positive(sec), csv.text(disturbed) == "1"});
  return streams;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<double> seconds(const std::vector<StepSample>& samples) {
  std::vector<double> sec;
  for (const StepSample& sample : samples) sec.push_back(sample.sec);
  return sec;
}

/// Every stream, entered at ten places, with a third of it left at least.
template <class Visit>
void for_each_start(const Visit& visit) {
  for (const auto& [name, samples] : recorded_streams()) {
    for (std::size_t part = 0; part < 10; ++part) {
      const std::size_t begin = samples.size() * part / 15;
      visit(name, std::vector<StepSample>(samples.begin() + static_cast<std::ptrdiff_t>(begin), samples.end()),
            median(seconds(samples)));
    }
  }
}

TEST(RecordedStreams, StoppedLabelsMeetTheWholeStreamWithinWhatTheyClaim) {
  int labels = 0, met = 0;
  for_each_start([&](const std::string& name, const std::vector<StepSample>& samples, double whole) {
    StepSamplesOptions options;
    options.limit_sec = 15;
    StepSamples taken(options);
    for (const StepSample& sample : samples) {
      taken.add(sample.sec, sample.disturbed);
      if (taken.finished()) break;
    }
    const StepLabel label = taken.label();
    if (!label.trusted()) return;
    ++labels;
    const double claimed = std::max(0.01, label.relative_half_width());
    if (std::abs(label.median / whole - 1) <= claimed) {
      ++met;
    } else {
      std::printf("%s: %.2f %% away, claimed %.2f %%\n", name.c_str(), 100 * (label.median / whole - 1), 100 * claimed);
    }
  });
  EXPECT_GE(met, 0.9 * labels) << met << " of " << labels;
  EXPECT_GE(labels, 10);
}

TEST(RecordedStreams, EveryCriterionEnds) {
  for_each_start([&](const std::string& name, const std::vector<StepSample>& samples, double) {
    for (const char* criterion : {"stdrel", "entropy", "samples", "time"}) {
      StepSamplesOptions options;
      options.criterion = criterion;
      options.limit_sec = 1e9;
      options.stop.max_samples = 100;
      StepSamples taken(options);
      std::size_t used = 0;
      while (used < samples.size() && !taken.finished()) taken.add(samples[used++].sec);
      EXPECT_LT(used, samples.size()) << name << " " << criterion;
    }
  });
}

TEST(RecordedStreams, AChangeOfLevelIsFoundInRealNoise) {
  for (const auto& [name, samples] : recorded_streams()) {
    std::vector<double> sec = seconds(samples);
    sec.erase(sec.begin(), sec.begin() + static_cast<std::ptrdiff_t>(sec.size() / 10));
    const std::size_t change = sec.size() / 3;
    for (std::size_t i = 0; i < change; ++i) sec[i] *= 1.3;
    const ChangePoint found = find_change(sec);
    EXPECT_LT(found.p_value, 0.01) << name;
    EXPECT_NEAR(static_cast<double>(found.index), static_cast<double>(change), 0.1 * static_cast<double>(sec.size()))
        << name;
    EXPECT_NEAR(found.ratio, 1 / 1.3, 0.1) << name;
  }
}

}  // namespace
}  // namespace perfpred
