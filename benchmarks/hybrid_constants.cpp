// Chooses the constants of the hybrid's fit on a table of measured rows, by leaving rows of that table out.
//   hybrid_constants --runs-agg FILE                      chooses on all rows and prints what each candidate scores
//   hybrid_constants --runs-agg FILE --nested PROTOCOL    for every fold of kfold, loao, lodo or lowo: chooses on the
//   rows
//       [--repeats N] [--seed N]                          that are left in, and scores the others with that choice
//   hybrid_constants --runs-agg FILE --protocol PROTOCOL  scores with what all rows of another table choose, or with
//   the
//       [--chosen-on FILE] [--repeats N] [--seed N]       library's own constants
// --only NAME chooses the constants whose names begin so; the others are the library's.
// One constant after the other, in the order below, starting from the first candidates. A candidate is taken if it
// scores at least 1 % (relative) better than the one before it: the geometric mean over kfold (once), loao, lodo and
// lowo of the mean absolute percentage error. What the process assumes of the batch is judged by kfold alone, three
// times: only there are neighbouring batch sizes of an architecture left out. The conformal level, last, is the one
// whose intervals cover nearest to 90 % in kfold and loao.
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

struct Constant {
  std::string name;
  std::vector<std::string> values;
  std::function<void(HybridConstants&, std::size_t)> set;  // to the value of that place
  bool of_batch = false;                                   // judged by kfold alone
};

template <typename Value, typename Set>
Constant numbers(std::string name, std::vector<Value> values, Set set) {
  Constant constant{std::move(name), {}, {}};
  for (const Value& value : values) constant.values.push_back(fmt::format("{}", value));
  constant.set = [values, set](HybridConstants& constants, std::size_t place) { set(constants, values[place]); };
  return constant;
}

std::vector<Constant> accuracy_constants() {
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
      numbers<int>("rough inputs", {0, 2}, [](C& c, int v) { c.process.rough = v; }),
      numbers<double>("length of depth and width", {3, 6}, [](C& c, double v) { c.process.architecture_length = v; }),
      numbers<double>("batch: length", {3, 2}, [](C& c, double v) { c.process.batch_length = v; }),
      numbers<double>("batch: length of power of two (1000: off)", {1000, 4},
                      [](C& c, double v) { c.process.power_of_two_length = v; }),
      numbers<double>("deviation of log lengths", {0.7, 0.4}, [](C& c, double v) { c.process.length_deviation = v; }),
      numbers<double>("amplitude", {0.05, 0.1}, [](C& c, double v) { c.process.amplitude = v; }),
      numbers<double>("outlier threshold", {4, 5}, [](C& c, double v) { c.outlier_deviations = v; }),
  };
  for (Constant& constant : all) constant.of_batch = constant.name.starts_with("batch: ");
  return all;
}

Constant level_constant() {
  return numbers<double>("conformal level, near", {0.9, 0.93, 0.95},
                         [](HybridConstants& c, double v) { c.near_level = v; });
}

struct Score {
  double error = 0;     // geometric mean over protocols of the mean absolute percentage error
  double coverage = 0;  // of rows left out by kfold and loao
};

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

Score score_constants(const std::vector<AggregateRow>& rows, const HybridConstants& constants, std::uint64_t seed,
                      bool of_batch) {
  ProtocolOptions once;
  once.repeats = of_batch ? 3 : 1;
  once.seed = seed;
  Score score;
  double near = 0;
  std::vector<Protocol> protocols = {Protocol::kfold};
  if (!of_batch) protocols.insert(protocols.end(), {Protocol::loao, Protocol::lodo, Protocol::lowo});
  for (const Protocol protocol : protocols) {
    const std::vector<Fold> folds = make_folds(rows, protocol, once);
    std::vector<FoldScore> scores(folds.size());
    parallel_for(folds.size(), once, [&](std::size_t i) { scores[i] = score_fold(rows, folds[i], constants, seed); });
    double error = 0;
    for (const FoldScore& fold : scores) {
      error += fold.error;
      if (protocol == Protocol::kfold || protocol == Protocol::loao) score.coverage += fold.inside;
    }
    const auto scored = static_cast<double>(rows.size()) * (protocol == Protocol::kfold ? once.repeats : 1);
    if (protocol == Protocol::kfold || protocol == Protocol::loao) near += scored;
    score.error += std::log(error / scored) / static_cast<double>(protocols.size());
  }
  score.error = std::exp(score.error);
  score.coverage /= near;
  return score;
}

/// @param only  how the names of those begin that are chosen; the others are the library's
/// @param show  prints a line for each candidate
HybridConstants choose(const std::vector<AggregateRow>& rows, std::uint64_t seed, const std::string& only, bool show,
                       std::map<std::string, std::map<std::string, int>>* chosen) {
  HybridConstants constants;
  std::vector<Constant> all = accuracy_constants();
  std::erase_if(all, [&](const Constant& constant) { return !constant.name.starts_with(only); });
  for (const Constant& constant : all) constant.set(constants, 0);
  if (only.empty()) level_constant().set(constants, 0);
  const auto settle = [&](const Constant& constant, const auto& is_better) {
    std::size_t taken = 0;
    Score best = score_constants(rows, constants, seed, constant.of_batch);
    const auto shown = [&](std::size_t place, const Score& score) {
      return fmt::format("{}: {:.2f} ({:.1f})", constant.values[place], 100 * score.error, 100 * score.coverage);
    };
    std::string line = shown(0, best);
    for (std::size_t place = 1; place < constant.values.size(); ++place) {
      HybridConstants changed = constants;
      constant.set(changed, place);
      const Score score = score_constants(rows, changed, seed, constant.of_batch);
      line += ", " + shown(place, score);
      if (!is_better(score, best)) continue;
      best = score;
      taken = place;
    }
    constant.set(constants, taken);
    if (chosen != nullptr) ++(*chosen)[constant.name][constant.values[taken]];
    if (show) {
      fmt::print("| {} | {} | {} |\n", constant.name, constant.values[taken], line);
      std::fflush(stdout);
    }
  };
  if (show) fmt::print("| constant | chosen | score of each candidate, % (rows covered, %) |\n|---|---|---|\n");
  for (const Constant& constant : all)
    settle(constant, [](const Score& a, const Score& b) { return a.error < 0.99 * b.error; });
  if (only.empty())
    settle(level_constant(),
           [](const Score& a, const Score& b) { return std::abs(a.coverage - 0.9) < std::abs(b.coverage - 0.9); });
  return constants;
}

/// @param fixed  what to score with; nullptr: what each fold's own training rows choose
void score_protocol(const std::vector<AggregateRow>& rows, Protocol protocol, const ProtocolOptions& options,
                    const std::string& only, const HybridConstants* fixed) {
  const std::vector<Fold> folds = make_folds(rows, protocol, options);
  std::map<std::string, std::map<std::string, int>> chosen;
  FoldScore sum;
  double n = 0;
  for (const Fold& fold : folds) {
    const HybridConstants constants =
        fixed != nullptr ? *fixed : choose(pick(rows, fold.train), options.seed, only, false, &chosen);
    const FoldScore score = score_fold(rows, fold, constants, options.seed);
    const auto count = static_cast<double>(fold.test.size());
    if (fixed == nullptr || protocol != Protocol::kfold) {
      fmt::print("{}: {} rows, MAPE {:.2f} %, covered {:.3f}\n", fold.left_out, fold.test.size(),
                 100 * score.error / count, score.inside / count);
      std::fflush(stdout);
    }
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
    std::string file, chosen_on, protocol, only;
    bool nested = false;
    ProtocolOptions options;
    options.repeats = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string option = argv[i], value = argv[i + 1];
      const auto number = [&](auto& into) {
        if (std::from_chars(value.data(), value.data() + value.size(), into).ec != std::errc())
          throw InputError(option + ": not a number");
      };
      if (option == "--runs-agg")
        file = value;
      else if (option == "--nested" || option == "--protocol") {
        protocol = value;
        nested = option == "--nested";
      } else if (option == "--chosen-on")
        chosen_on = value;
      else if (option == "--only")
        only = value;
      else if (option == "--repeats")
        number(options.repeats);
      else if (option == "--seed")
        number(options.seed);
      else
        throw InputError(option + ": not an option");
    }
    const std::vector<AggregateRow> rows = read_aggregate(file);
    if (protocol.empty()) {
      (void)choose(rows, options.seed, only, true, nullptr);
      return 0;
    }
    const std::map<std::string, Protocol> protocols = {
        {"kfold", Protocol::kfold}, {"loao", Protocol::loao}, {"lodo", Protocol::lodo}, {"lowo", Protocol::lowo}};
    const auto found = protocols.find(protocol);
    if (found == protocols.end()) throw InputError("the protocol is none of kfold, loao, lodo, lowo");
    HybridConstants constants;
    if (!chosen_on.empty()) constants = choose(read_aggregate(chosen_on), options.seed, only, true, nullptr);
    score_protocol(rows, found->second, options, only, nested ? nullptr : &constants);
    return 0;
  } catch (const InputError& error) {
    fmt::print(stderr, "hybrid_constants: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hybrid_constants: {}\n", error.what());
    return 1;
  }
}
