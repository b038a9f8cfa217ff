// SPDX-License-Identifier: Apache-2.0
// What training programs print: a line for each logged step, among others. Of each program the lines with times, and
// what its other lines say of the workload.
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runs/logs/training_log.h"
#include "statistics/quantiles.h"
#include "text/csv.h"

namespace perfpred {
namespace {

constexpr std::size_t least_steps = 3;  // behind the first logged one, as median_step_sec() wants them

bool has(std::string_view line, std::string_view text) { return line.find(text) != std::string_view::npos; }

/// What stands between two texts of a line, without blanks at its ends; empty if one of them is missing.
std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const std::size_t begin = line.find(before);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + before.size());
  const std::size_t end = after.empty() ? line.size() : line.find(after);
  return end == std::string_view::npos ? std::string_view() : trimmed(line.substr(0, end));
}

/// The steps that a log times, in their order.
class TimedSteps {
 public:
  /// @throws InputError at the place if the step is not behind the one before
  void add(double step, double sec, const ValuePlace& place) {
    if (!steps_.empty() && !(step > steps_.back().step)) {
      throw InputError(fmt::format("{}step {} follows step {}: a log holds one run; give what is behind the restart",
                                   place.prefix(), step, steps_.back().step));
    }
    steps_.push_back({step, sec});
  }

  /// Without the first one, which has the start in it, and the first of each `period` steps, which waits for a loader
  /// that begins. @param period  0: none. @throws InputError for fewer than three others
  [[nodiscard]] double median_sec(const std::string& path, double period = 0) const {
    std::vector<double> seconds;
    for (std::size_t i = 1; i < steps_.size(); ++i) {
      if (period == 0 || std::fmod(steps_[i].step, period) != 0) seconds.push_back(steps_[i].sec);
    }
    if (seconds.size() < least_steps) {
      throw InputError(fmt::format("{}: times {} steps; {} are needed besides the first, which has the start in it",
                                   path, steps_.size(), least_steps));
    }
    return median(std::move(seconds));
  }

 private:
  std::vector<LoggedPoint> steps_;  // `sec` of one step
};

/// Reads a log line by line.
class PrintedLog {
 public:
  PrintedLog(const std::string& path, const RunFacts& facts) : path_(path), facts_(facts) {}
  PrintedLog(const PrintedLog&) = delete;
  PrintedLog& operator=(const PrintedLog&) = delete;

  TrainingLog read() {
    LineReader lines(path_);
    for (const char* line = lines.next(); line != nullptr; line = lines.next()) {
      place_ = {path_, lines.line(), {}};
      try {
        take(line);
      } catch (const InputError&) {
        if (!lines.cut_off()) throw;
        break;  // its writer goes on with it
      }
    }
    finish();
    return std::move(log_);
  }

 protected:
  ~PrintedLog() = default;
  virtual void take(std::string_view line) = 0;
  virtual void finish() = 0;

  /// @throws InputError at the place, for a text that is missing, too
  double number(std::string_view name, std::string_view text) {
    place_.name = name;
    return parse_finite(text, place_);
  }
  double positive(std::string_view name, std::string_view text) {
    place_.name = name;
    return parse_positive(text, place_);
  }

  const std::string& path_;
  const RunFacts& facts_;
  ValuePlace place_;
  TrainingLog log_;
  TimedSteps steps_;
};

template <class Reader>
TrainingLog read_printed(const std::string& path, const RunFacts& facts) {
  return Reader(path, facts).read();
}

/// train.py of nanoGPT: `iter 100: loss 3.1415, time 135.21ms, mfu 41.21%`, the time of that iteration alone; the
/// values of configurator.py, `Overriding: batch_size = 12`; `tokens per iteration will be: 491,520`.
class NanoGptLog final : public PrintedLog {
 public:
  using PrintedLog::PrintedLog;

 private:
  void take(std::string_view line) override {
    if (const std::string_view text = between(line, "Overriding: batch_size = ", ""); !text.empty()) {
      log_.fields["batch_size"] = text;
    } else if (const auto size = between(line, "Overriding: block_size = ", ""); !size.empty()) {
      log_.fields["input"] = size;
    } else if (const auto fused = between(line, "using fused AdamW: ", ""); !fused.empty()) {
      log_.fields["optimizer_impl"] = fused == "True" ? "fused" : "foreach";
    } else if (has(line, "compiling the model...")) {
      log_.fields["compiled"] = "1";
    } else if (const auto tokens = between(line, "tokens per iteration will be: ", ""); !tokens.empty()) {
      std::string digits(tokens);
      std::erase(digits, ',');
      log_.step_tokens = positive("tokens per iteration", digits);
    } else if (has(line, "iter ") && has(line, ": loss ")) {
      const double step = number("iter", between(line, "iter ", ":"));
      steps_.add(step, positive("time", between(line, "time ", "ms")) * 1e-3, place_);
    }
  }

  void finish() override {
    log_.framework = "nanogpt";
    log_.fields["optimizer"] = "adamw";
    log_.step_sec = steps_.median_sec(path_);
    log_.note = "median of logged iterations";
  }
};

/// Megatron-LM: ` iteration 100/ 500 | consumed samples: 25600 | elapsed time per iteration (ms): 1234.5 | ... | global
/// batch size: 256 |`, the mean since the line before; and its arguments, `  micro_batch_size ........ 4`.
class MegatronLog final : public PrintedLog {
 public:
  using PrintedLog::PrintedLog;

 private:
  void take(std::string_view line) override {
    if (const std::string_view text = between(line, "elapsed time per iteration (ms):", "|"); !text.empty()) {
      const double step = number("iteration", between(line, "iteration", "/"));
      const double samples = positive("global batch size", between(line, "global batch size:", "|"));
      if (samples != log_.step_samples.value_or(samples)) steps_ = {};  // it grows: the last one counts
      log_.step_samples = samples;
      steps_.add(step, positive("elapsed time per iteration (ms)", text) * 1e-3, place_);
    } else if (has(line, "elapsed time per iteration (ms):")) {
      throw InputError(place_.prefix() + "the line of an iteration is not whole");
    } else if (const std::size_t dots = line.find(" .."); dots != std::string_view::npos) {
      const std::string_view before = trimmed(line.substr(0, dots));
      const std::size_t value = line.find_first_not_of('.', dots + 1);
      if (value == std::string_view::npos) return;
      take_argument(before.substr(before.find_last_of(' ') + 1), trimmed(line.substr(value)));
    }
  }

  void take_argument(std::string_view name, std::string_view value) {
    if (name == "micro_batch_size") log_.fields["batch_size"] = value;
    if (name == "seq_length") log_.fields["input"] = value;
    if ((name == "bf16" || name == "fp16") && value == "True") log_.fields["precision"] = name;
    if (name == "recompute_granularity" && value == "selective") log_.fields["checkpoint"] = value;
    if (name == "world_size" && value != "1") is_of_several_ = true;
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> widths = {
        {{"tensor_model_parallel_size", "tp"},
         {"pipeline_model_parallel_size", "pp"},
         {"context_parallel_size", "cp"},
         {"expert_model_parallel_size", "ep"},
         {"data_parallel_size", "dp"}}};
    for (const auto& [argument, width] : widths) {
      if (name == argument) widths_ += fmt::format("{}{}={}", widths_.empty() ? "" : ",", width, value);
    }
  }

  void finish() override {
    log_.framework = "megatron-lm";
    if (is_of_several_ && !widths_.empty()) log_.fields["parallel"] = widths_;
    log_.step_sec = steps_.median_sec(path_);
    log_.note = "median of logged intervals";
  }

  bool is_of_several_ = false;
  std::string widths_;  // of `parallel`
};

/// train.py of timm: `Train: 0 [  50/1251 (  4%)]  Loss: 6.93 (6.93)  Time: 0.345s,  742.10/s  (0.351s,  729.40/s)  LR:
/// 1.000e-06  Data: 0.011 (0.015)`: of that update alone, in brackets the means of the epoch.
class TimmLog final : public PrintedLog {
 public:
  using PrintedLog::PrintedLog;

 private:
  void take(std::string_view line) override {
    if (has(line, "1 device per process") && positive("total", between(line, "total ", ",")) > 1) {
      throw InputError(place_.prefix() + "is of several devices; logs of one are read");
    }
    if (!has(line, "Train: ") || !has(line, "Time: ")) return;
    const double epoch = number("Train", between(line, "Train: ", "["));
    const double update = number("update", between(line, "[", "/"));
    updates_ = positive("updates", between(line.substr(line.find('[')), "/", "("));
    const std::string_view time = line.substr(line.find("Time: "));
    const double sec = positive("Time", between(time, "Time: ", "s,"));
    samples_ += sec * positive("rate", between(time, "s,", "/s"));
    ++count_;
    steps_.add(epoch * updates_ + update, sec, place_);
    log_.epochs = static_cast<int>(std::min(epoch + 1, 1e9));
    if (update == 0 || !has(time, "Data: ")) return;  // the first of an epoch waits for a loader that begins
    place_.name = "Data";
    waited_ = waited_.value_or(0) + parse_non_negative(between(time, "Data: ", "("), place_);
    sum_sec_ += sec;
  }

  void finish() override {
    log_.framework = "timm";
    log_.step_sec = steps_.median_sec(path_, updates_);
    log_.note = "median of logged updates";
    if (waited_) log_.data_wait_share = std::min(*waited_ / sum_sec_, 1.0);
    // Times have three decimals: their product with the rate is the samples of an update, but for that rounding.
    const double samples = samples_ / count_;
    if (0.0005 / *log_.step_sec * samples >= 0.5) return;
    log_.step_samples = std::round(samples);
    if (!is_given(facts_, "batch_size") && !is_given(facts_, "accumulate")) {
      log_.fields["batch_size"] = number_text(*log_.step_samples);
    }
  }

  double updates_ = 0, samples_ = 0, sum_sec_ = 0, count_ = 0;
  std::optional<double> waited_;
};

/// The disk and stdout loggers of torchtune: `Step 10 | loss:1.2 lr:2e-05 tokens_per_second_per_gpu:4512.3 ...`. The
/// tokens are those that count in the loss; the time of a step itself is not written.
class TorchtuneLog final : public PrintedLog {
 public:
  using PrintedLog::PrintedLog;

 private:
  void take(std::string_view line) override {
    if (!has(line, "Step ") || !has(line, rate_mark)) return;
    if (!facts_.step_tokens) {
      throw InputError(path_ +
                       ": has the rate of tokens, not their number: give step_tokens, those of a step on one device "
                       "that count in the loss (batch_size x accumulate x input where texts are packed and no prompt "
                       "is masked)");
    }
    const double step = number("Step", between(line, "Step ", "|"));
    std::string_view per_sec = between(line, rate_mark, "");
    per_sec = per_sec.substr(0, per_sec.find(' '));
    steps_.add(step, *facts_.step_tokens / positive(rate_mark.substr(0, rate_mark.size() - 1), per_sec), place_);
  }

  void finish() override {
    log_.framework = "torchtune";
    log_.step_sec = steps_.median_sec(path_);
    log_.note = fmt::format("{} tokens a step, as they were given", number_text(*facts_.step_tokens));
  }

 public:
  static constexpr std::string_view rate_mark = "tokens_per_second_per_gpu:";
};

}  // namespace

const LogFormat nanogpt_format = {
    "nanoGPT", [](const LogHead& head) { return has(head.bytes, "iter ") && has(head.bytes, "ms, mfu "); },
    read_printed<NanoGptLog>};
const LogFormat megatron_format = {
    "Megatron-LM", [](const LogHead& head) { return has(head.bytes, "elapsed time per iteration (ms):"); },
    read_printed<MegatronLog>};
const LogFormat timm_format = {"timm",
                               [](const LogHead& head) {
                                 return has(head.bytes, "Train: ") && has(head.bytes, "/s  (") &&
                                        has(head.bytes, "Time: ");
                               },
                               read_printed<TimmLog>};
const LogFormat torchtune_format = {
    "torchtune",
    [](const LogHead& head) { return has(head.bytes, "Step ") && has(head.bytes, TorchtuneLog::rate_mark); },
    read_printed<TorchtuneLog>};

}  // namespace perfpred
