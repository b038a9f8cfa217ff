// Chooses the constants of the hybrid's fit on a table of measured rows, by leaving rows of that table out.
//   hybrid_constants --runs-agg FILE                      chooses on all rows and prints what each candidate scores
//   hybrid_constants --runs-agg FILE --nested PROTOCOL    for every fold of kfold (once), loao, lodo or lowo: chooses
//                                                         on the rows left in, and scores the others with that choice
//   either with --seed N
// One constant after the other, in the order below, starting from the first candidates, which are plain values. Another
// is taken if it scores at least 1 % (relative) better than the one before it: the geometric mean over kfold (three
// times), loao, lodo and lowo of the mean absolute percentage error.
#include <perfpred/error.h>
#include <perfpred/evaluation.h>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "folds.h"
#include "kind_hybrid.h"

namespace {

using namespace perfpred;

const std::map<std::string, Protocol> protocols = {
    {"kfold", Protocol::kfold}, {"loao", Protocol::loao}, {"lodo", Protocol::lodo}, {"lowo", Protocol::lowo}};

struct Constant {
  std::string name;
  std::vector<std::string> values;
  std::function<void(HybridConstants&, std::size_t)> set;  // to the value of that place
};

template <typename Value, typename Set>
Constant numbers(std::string name, std::vector<Value> values, Set set) {
  Constant constant{std::move(name), {}, {}};
  for (const Value& value : values) constant.values.push_back(fmt::format("{}", value));
  constant.set = [values, set](HybridConstants& constants, std::size_t place) { set(constants, values[place]); };
  return constant;
}

std::vector<Constant> candidates() {
  using C = HybridConstants;
  using Weights = std::array<double, physics_forms.size()>;
  const std::vector<Weights> weights = {{0.25, 0.25, 0.25, 0.25}, {0.1, 0.3, 0.1, 0.5}, {0.3, 0.1, 0.5, 0.1}};
  Constant forms = numbers<std::size_t>("weights of the forms", {0, 1, 2},
                                        [weights](C& c, std::size_t i) { c.form_weights = weights[i]; });
  forms.values = {"equal", "0.1 0.3 0.1 0.5", "0.3 0.1 0.5 0.1"};
  std::vector<Constant> all = {
      numbers<double>("deviation of log costs", {1.5, 3}, [](C& c, double v) { c.cost_deviation = v; }),
      forms,
      numbers<double>("pull to them", {0.3, 3}, [](C& c, double v) { c.weight_pull = v; }),
      numbers<double>("length", {3, 1.5, 6}, [](C& c, double v) { c.process.length = v; }),
      numbers<double>("deviation of log lengths", {0.7, 0.4}, [](C& c, double v) { c.process.length_deviation = v; }),
      numbers<double>("amplitude", {0.05, 0.1}, [](C& c, double v) { c.process.amplitude = v; }),
      numbers<double>("outlier threshold", {4, 5}, [](C& c, double v) { c.outlier_deviations = v; }),
  };
  return all;
}

struct FoldScore {
  double error = 0, inside = 0;
  double images_error = 0, seconds_error = 0;  // sums too
};

FoldScore score_fold(const std::vector<AggregateRow>& rows, const Fold& fold, const HybridConstants& constants,
                     std::uint64_t seed) {
  const std::unique_ptr<RegressorModel> model = fit_hybrid({pick(rows, fold.train), {}, seed}, constants);
  FoldScore score;
  for (const std::size_t i : fold.test) {
    const Quantiles q = model->predict(rows[i].workload);
    const double measured = *rows[i].avg_time_mean;
    score.error += std::abs(q.p50 / measured - 1);
    score.inside += measured >= q.p05 && measured <= q.p95 ? 1 : 0;
    score.seconds_error += std::abs(q.p50 - measured);
    const auto images = static_cast<double>(rows[i].workload.train_images);
    score.images_error += std::abs(images / q.p50 - images / measured);
  }
  return score;
}

/// The geometric mean over protocols of the mean absolute percentage error.
double score_constants(const std::vector<AggregateRow>& rows, const HybridConstants& constants, std::uint64_t seed) {
  ProtocolOptions options;
  options.repeats = 3;
  options.seed = seed;
  double log_error = 0;
  for (const auto& [name, protocol] : protocols) {
    const std::vector<Fold> folds = make_folds(rows, protocol, options);
    std::vector<FoldScore> scores(folds.size());
    parallel_for(folds.size(), options,
                 [&](std::size_t i) { scores[i] = score_fold(rows, folds[i], constants, seed); });
    double error = 0, scored = 0;
    for (std::size_t i = 0; i < folds.size(); ++i) {
      error += scores[i].error;
      scored += static_cast<double>(folds[i].test.size());
    }
    log_error += std::log(error / scored) / static_cast<double>(protocols.size());
  }
  return std::exp(log_error);
}

/// @param chosen  counts what was taken; nullptr: prints a line for each constant instead
HybridConstants choose(const std::vector<AggregateRow>& rows, std::uint64_t seed,
                       std::map<std::string, std::map<std::string, int>>* chosen) {
  HybridConstants constants;
  const std::vector<Constant> all = candidates();
  for (const Constant& constant : all) constant.set(constants, 0);
  double best = score_constants(rows, constants, seed);
  if (chosen == nullptr) fmt::print("| constant | chosen | score of each candidate, % |\n|---|---|---|\n");
  for (const Constant& constant : all) {
    std::size_t taken = 0;
    std::string scores = fmt::format("{}: {:.2f}", constant.values[0], 100 * best);
    for (std::size_t place = 1; place < constant.values.size(); ++place) {
      HybridConstants changed = constants;
      constant.set(changed, place);
      const double score = score_constants(rows, changed, seed);
      scores += fmt::format(", {}: {:.2f}", constant.values[place], 100 * score);
      if (score >= 0.99 * best) continue;
      best = score;
      taken = place;
    }
    constant.set(constants, taken);
    if (chosen != nullptr) {
      ++(*chosen)[constant.name][constant.values[taken]];
    } else {
      fmt::print("| {} | {} | {} |\n", constant.name, constant.values[taken], scores);
      std::fflush(stdout);
    }
  }
  return constants;
}

void score_nested(const std::vector<AggregateRow>& rows, Protocol protocol, std::uint64_t seed) {
  ProtocolOptions once;
  once.repeats = 1;
  once.seed = seed;
  const std::vector<Fold> folds = make_folds(rows, protocol, once);
  std::map<std::string, std::map<std::string, int>> chosen;
  FoldScore sum;
  double n = 0;
  for (const Fold& fold : folds) {
    const HybridConstants constants = choose(pick(rows, fold.train), seed, &chosen);
    const FoldScore score = score_fold(rows, fold, constants, seed);
    const auto count = static_cast<double>(fold.test.size());
    fmt::print("{}: {} rows, MAPE {:.2f} %, covered {:.3f}\n", fold.left_out, fold.test.size(),
               100 * score.error / count, score.inside / count);
    std::fflush(stdout);
    sum.error += score.error;
    sum.inside += score.inside;
    sum.seconds_error += score.seconds_error;
    sum.images_error += score.images_error;
    n += count;
  }
  fmt::print("all: MAPE {:.3f} %, MAE {:.4f} s, {:.0f} images/s, covered {:.3f}\n", 100 * sum.error / n,
             sum.seconds_error / n, sum.images_error / n, sum.inside / n);
  for (const auto& [name, values] : chosen) {
    fmt::print("chosen, {}:", name);
    for (const auto& [value, times] : values) fmt::print("  {} ({} of {})", value, times, folds.size());
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string file, nested;
    std::uint64_t seed = 0;
    for (int i = 1; i < argc; i += 2) {
      const std::string option = argv[i];
      if (i + 1 == argc) throw InputError(option + ": a value is missing");
      const std::string value = argv[i + 1];
      if (option == "--runs-agg") {
        file = value;
      } else if (option == "--nested") {
        nested = value;
      } else if (option == "--seed") {
        if (std::from_chars(value.data(), value.data() + value.size(), seed).ec != std::errc())
          throw InputError("--seed: not a number");
      } else {
        throw InputError(option + ": not an option");
      }
    }
    const std::vector<AggregateRow> rows = read_aggregate(file);
    if (nested.empty()) {
      (void)choose(rows, seed, nullptr);
    } else if (const auto found = protocols.find(nested); found != protocols.end()) {
      score_nested(rows, found->second, seed);
    } else {
      throw InputError("--nested: none of kfold, loao, lodo, lowo");
    }
    return 0;
  } catch (const InputError& error) {
    fmt::print(stderr, "hybrid_constants: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hybrid_constants: {}\n", error.what());
    return 1;
  }
}
