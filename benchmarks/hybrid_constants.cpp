// SPDX-License-Identifier: Apache-2.0
// Chooses the constants of the hybrid's fit on a table of measured rows, by leaving rows of that table out.
//   hybrid_constants --runs-agg FILE [--seed N]
// One constant after the other, in the order below, starting from the first candidates, which are plain values. Another
// is taken if it scores at least 1 % (relative) better than the one before it: the geometric mean over kfold (three
// times), loao, lodo and lowo of the mean absolute percentage error. Prints what each candidate scores.
#include <perfpred/error.h>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "evaluate/evaluation.h"
#include "evaluate/folds.h"
#include "model/hybrid/hybrid.h"
#include "model/model_state.h"

namespace {

using namespace perfpred;

using C = HybridConstants;

struct Constant {
  const char* name;
  std::vector<double> values;
  void (*set)(C&, double);
};

const std::vector<Constant> candidates = {
    {"deviation of log costs", {1.5, 3}, [](C& c, double v) { c.cost_deviation = v; }},
    {"length", {3, 1.5, 6}, [](C& c, double v) { c.process.length = v; }},
    {"amplitude", {0.05, 0.1}, [](C& c, double v) { c.process.amplitude = v; }},
    {"deviation of log lengths, amplitude and noise", {0.7, 0.4, 1}, [](C& c, double v) { c.process.deviation = v; }},
};

/// Sum of absolute relative errors of the rows left out.
double fold_error(const std::vector<AggregateRow>& rows, const Fold& fold, const HybridConstants& constants,
                  std::uint64_t seed) {
  TrainingTable table;
  table.rows = pick(rows, fold.train);
  table.device = kind_on(table.rows.front().workload, DeviceCatalogue());
  table.seed = seed;
  const std::unique_ptr<RegressorModel> model = fit_hybrid(table, constants);
  double error = 0;
  for (const std::size_t i : fold.test)
    error += std::abs(model->estimate(rows[i].workload).sec() / *rows[i].avg_time_mean - 1);
  return error;
}

double score(const std::vector<AggregateRow>& rows, const HybridConstants& constants, std::uint64_t seed) {
  constexpr std::array protocols = {Protocol::kfold, Protocol::loao, Protocol::lodo, Protocol::lowo};
  ProtocolOptions options;
  options.repeats = 3;
  options.seed = seed;
  double log_error = 0;
  for (const Protocol protocol : protocols) {
    const std::vector<Fold> folds = make_folds(rows, protocol, options);
    std::vector<double> errors(folds.size());
    parallel_for(folds.size(), options,
                 [&](std::size_t i) { errors[i] = fold_error(rows, folds[i], constants, seed); });
    double error = 0, scored = 0;
    for (std::size_t i = 0; i < folds.size(); ++i) {
      error += errors[i];
      scored += static_cast<double>(folds[i].test.size());
    }
    log_error += std::log(error / scored) / protocols.size();
  }
  return std::exp(log_error);
}

void choose(const std::vector<AggregateRow>& rows, std::uint64_t seed) {
  HybridConstants constants;
  for (const Constant& constant : candidates) constant.set(constants, constant.values.front());
  double best = score(rows, constants, seed);
  fmt::print("| constant | chosen | score of each candidate, % |\n|---|---|---|\n");
  for (const Constant& constant : candidates) {
    double taken = constant.values.front();
    std::string scores = fmt::format("{}: {:.2f}", taken, 100 * best);
    for (const double value : constant.values) {
      if (value == constant.values.front()) continue;
      HybridConstants changed = constants;
      constant.set(changed, value);
      const double other = score(rows, changed, seed);
      scores += fmt::format(", {}: {:.2f}", value, 100 * other);
      if (other >= 0.99 * best) continue;
      best = other;
      taken = value;
    }
    constant.set(constants, taken);
    fmt::print("| {} | {} | {} |\n", constant.name, taken, scores);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string file;
    std::uint64_t seed = 0;
    for (int i = 1; i < argc; i += 2) {
      const std::string option = argv[i];
      if (i + 1 == argc) throw InputError(option + ": a value is missing");
      const std::string value = argv[i + 1];
      if (option == "--runs-agg") {
        file = value;
      } else if (option == "--seed") {
        if (std::from_chars(value.data(), value.data() + value.size(), seed).ec != std::errc())
          throw InputError("--seed: not a number");
      } else {
        throw InputError(option + ": not an option");
      }
    }
    choose(read_aggregate(file), seed);
    return 0;
  } catch (const InputError& error) {
    fmt::print(stderr, "hybrid_constants: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hybrid_constants: {}\n", error.what());
    return 1;
  }
}
