// SPDX-License-Identifier: Apache-2.0
// Predictions a second by the C++ library on one thread, for python_arrays.py: array_rates MODEL COUNT SIZES CALLS
#include <perfpred/forecast.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

using namespace perfpred;

namespace {

template <class Call>
double seconds_of(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int count = std::stoi(argv[2]), sizes = std::stoi(argv[3]), calls = std::stoi(argv[4]);
  const TimeRegressor model = TimeRegressor::load(argv[1]);
  std::vector<Prediction> predictions(static_cast<std::size_t>(count));
  const double by_runs = seconds_of([&] {
    std::vector<Workload> jobs;
    for (int i = 0; i < count; ++i) {
      Workload job = model.example();
      job.network = fmt::format("cifar_cnn:depth={},base_filters={}", 2 + i % 3, 16 + i % 40);
      job.batch_size = 32 + i % 900;
      jobs.push_back(job);
    }
    model.predict(jobs, predictions);
  });
  const TimeRegressor standard = TimeRegressor::standard();
  Workload job = Workload::zoo("resnet50", 1);
  job.device = "A100-80GB-PCIe";
  const double by_operators = seconds_of([&] {
    for (int i = 0; i < sizes; ++i) {
      job.batch_size = 1 + i % 4096;
      (void)standard.predict(job);
    }
  });
  job.batch_size = 64;
  const double by_calls = seconds_of([&] {
    for (int i = 0; i < calls; ++i) (void)forecast(standard, job);
  });
  fmt::print("{} {} {}\n", count / by_runs, sizes / by_operators, calls / by_calls);
}
