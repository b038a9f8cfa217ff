// SPDX-License-Identifier: Apache-2.0
#include "tools/answer_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <set>
#include <span>

#include "step/epoch_steps.h"
#include "tools/terminal_text.h"
#include "workload/workload_labels.h"

namespace perfpred {

const char* in_words(MemoryVerdict verdict) {
  return verdict == MemoryVerdict::fits        ? "fits"
         : verdict == MemoryVerdict::only_just ? "may or may not fit"
                                               : "does not fit";
}

namespace {

std::string gigabytes(std::int64_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / 1e9); }

/// Seconds as people say them: s, min, h or days.
std::string duration(double sec) {
  constexpr double minute = 60, hour = 3600, day = 86'400;
  if (sec < 2 * minute) return fmt::format("{:.4g} s", sec);
  if (sec < 2 * hour) return fmt::format("{:.1f} min", sec / minute);
  return sec < 2 * day ? fmt::format("{:.1f} h", sec / hour) : fmt::format("{:.1f} days", sec / day);
}

/// How a reader names fields, and what is marked for him.
class Style {
 public:
  explicit Style(Reader reader) : of_terminal_(reader == Reader::terminal) {}

  [[nodiscard]] std::string head(std::string_view text) const {
    return of_terminal_ ? in_bold(text) : std::string(text);
  }
  [[nodiscard]] std::string verdict(MemoryVerdict verdict, std::string_view text) const {
    return of_terminal_ ? coloured(verdict, text) : std::string(text);
  }
  [[nodiscard]] std::string field(std::string_view name) const {
    return of_terminal_ ? option_of(name) : fmt::format("{}=", name);
  }
  [[nodiscard]] std::string field(std::string_view name, std::string_view value) const {
    return fmt::format("{}{}{}", field(name), of_terminal_ ? " " : "", value);
  }

 private:
  bool of_terminal_;
};

/// As options, joined by commas.
std::string assumed_fields(std::span<const Answer* const> answers, const Style& style) {
  std::vector<std::string> assumed;
  for (const Answer* answer : answers) {
    for (const std::string& name : answer->assumed) {
      const std::string field = style.field(name, answer->assumed_value(name));
      if (std::ranges::find(assumed, field) == assumed.end()) assumed.push_back(field);
    }
  }
  return fmt::format("{}", fmt::join(assumed, ", "));
}

/// Writes one answer.
class AnswerText {
 public:
  AnswerText(const Answer& answer, Reader reader)
      : answer_(answer), job_(answer.forecast), workload_(answer.workload), style_(reader) {}

  [[nodiscard]] std::string text() {
    add("{}\n", style_.head(answer_.key));
    add_step();
    if (workload_.knows_epoch()) add_quantiles("epoch", job_.prediction.time_sec, "s");
    add_quantiles("throughput", job_.images_per_sec, throughput_unit(std::span(&workload_, 1)));
    if (job_.tokens_per_sec) add_quantiles("", *job_.tokens_per_sec, "tokens/s");
    add_total();
    if (job_.price) add_quantiles("price", *job_.price, answer_.currency.c_str());
    if (job_.epochs_in_budget) add("  {:<12} {:>12.0f} epochs\n", "budget", job_.epochs_in_budget->p50);
    if (job_.memory) add_memory();
    if (job_.bound) add("  {:<12} {:>12}\n", "bound by", to_string(*job_.bound));
    if (job_.scaling) add_scaling();
    if (job_.mfu) add("  {:<12} {:>12.1f} % of the peak FLOP/s\n", "utilisation", 100 * *job_.mfu);
    add_breakdown();
    add("  {:<12} {:>12}\n", "rests on", to_string(job_.prediction.provenance));
    for (const Narrowing& narrowing : job_.narrow_by) {
      const double now = answer_.sec().p95 / answer_.sec().p05;
      add("  say {} and the interval is narrower: p95 / p05 {:.2f}, not {:.2f}\n", style_.field(narrowing.field),
          std::exp(2 * narrowing.half_width), now);
    }
    if (job_.unknown_bytes > 0) add("  unknown operators move {:.1f} % of the bytes\n", 100 * job_.unknown_bytes);
    if (!job_.prediction.in_domain()) add("  outside what was measured: {}\n", to_string(job_.prediction.reason));
    add_advice();
    return std::move(text_);
  }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }

  void add_quantiles(const char* name, const Quantiles& q, const char* unit) {
    add("  {:<12} {:>12.4g} {}  (90 %: {:.4g} .. {:.4g})\n", name, q.p50, unit, q.p05, q.p95);
  }

  void add_step() {
    if (!answer_.assumed.empty()) {
      const Answer* const one = &answer_;
      add("  {:<12} {}\n", "assumed", assumed_fields(std::span(&one, 1), style_));
    }
    for (const std::string& left_out : answer_.left_out) add("  {:<12} {}\n", "left out", left_out);
    if (answer_.texts) add_texts(*answer_.texts);
    add_quantiles("step", job_.step_sec, "s");
    if (answer_.batches > 1) add("  {:<12} {:>12} batches of {}\n", "", answer_.batches, workload_.batch_size);
    const std::int64_t samples = samples_per_step(workload_);
    if (workload_.knows_epoch() && workload_.train_images < samples) {
      add("  {:<12} {:>12} samples, fewer than a step's {}: its only step is smaller; with drop_last there is none\n",
          "an epoch has", std::int64_t{workload_.train_images}, samples);
    }
  }

  void add_texts(const TextBatches& texts) {
    const std::string count = texts.texts ? fmt::format("{} of ", *texts.texts) : std::string();
    add("  {:<12} {}{:.0f} words on average, 95 % of them up to {}, none above {}\n", "texts", count, texts.mean,
        texts.p95, texts.max);
    add("  {:<12} {:.0f} words wide on average, {:.0f} % of them padding; memory is that of {}\n", "batches",
        texts.width, 100 * texts.padding_share, texts.longest);
    if (texts.packed_time_factor)
      add("  {:<12} an epoch would take {:.2f} x the time\n", "packed", *texts.packed_time_factor);
  }

  /// The whole job, and what was asked for by number.
  void add_total() {
    if (job_.evaluation_sec) add_quantiles("evaluation", *job_.evaluation_sec, "s");
    if (workload_.knows_epoch()) {
      add("  {:<12} {:>14}  (90 %: {} .. {})\n", "total", duration(job_.total_sec.p50), duration(job_.total_sec.p05),
          duration(job_.total_sec.p95));
    }
    for (const QuantileOfJob& one : job_.quantiles) {
      add("  {:<12} {:>14}  for {}\n", fmt::format("{:g} % below", 100 * one.q),
          duration(workload_.knows_epoch() ? one.total_sec : one.step_sec),
          workload_.knows_epoch() ? "the job" : "a step");
    }
  }

  /// Nothing where it is not known.
  [[nodiscard]] std::string verdict_text(const std::optional<MemoryVerdict>& verdict) const {
    return verdict ? style_.verdict(*verdict, in_words(*verdict)) : std::string();
  }

  void add_memory() {
    add("  {:<12} {:>12} GB  (95 %: below {})", "memory", gigabytes(job_.memory->device.p50),
        gigabytes(job_.memory->device.upper));
    if (job_.usable_bytes) add(" of {} GB", gigabytes(*job_.usable_bytes));
    add("{}{}\n", job_.verdict ? ", " : "", verdict_text(job_.verdict));
    if (job_.memory->reserved.p50 != job_.memory->device.p50) {
      const std::string reserved = workload_.software == Software::pytorch
                                       ? fmt::format("{} GB reserved by PyTorch", gigabytes(job_.memory->reserved.p50))
                                       : fmt::format("the rest is the driver's; {} may reserve more, as it is set",
                                                     to_string(workload_.software));
      add("  {:<12} {:>12} GB of it tensors, {}\n", "", gigabytes(job_.memory->tensors.p50), reserved);
    }
    if (job_.memory->given_back > 0) {
      add("  {:<12} {:>12} GB of the upper bound are blocks of other lengths, given back before memory runs out\n", "",
          gigabytes(job_.memory->given_back));
    }
    if (job_.largest_batch) add("  {:<12} {:>12}\n", "largest batch", *job_.largest_batch);
  }

  void add_scaling() {
    const Scaling& scaling = *job_.scaling;
    add("  {:<12} {:>12} devices, {:.0f} % of perfect scaling", "scaling", scaling.devices, 100 * scaling.efficiency);
    const ScalingLimits& limits = scaling.limits;
    const std::array<std::pair<const char*, double>, 5> parts = {{{"loader", limits.loader},
                                                                  {"host", limits.host},
                                                                  {"links", limits.links},
                                                                  {"small batches", limits.batch},
                                                                  {"bubble", limits.bubble}}};
    std::vector<std::string> lost;
    for (const auto& [name, share] : parts) {
      if (share >= 0.005) lost.push_back(fmt::format("{} {:.0f} %", name, 100 * share));
    }
    add("{}{}\n", lost.empty() ? "" : "; the rest is lost to ", fmt::join(lost, ", "));
  }

  void add_breakdown() {
    std::size_t width = 0;
    for (const TimeTerm& term : job_.breakdown) width = std::max(width, term.op.size());
    if (!job_.breakdown.empty()) add("  where the time goes:\n");
    for (const TimeTerm& term : job_.breakdown)
      add("    {:<{}} {:>10.4g} s {:>6.1f} %\n", term.op, width, term.sec, 100 * term.sec / answer_.sec().p50);
  }

  void add_advice() {
    if (answer_.advice.empty()) return;
    std::size_t width = 0;
    for (const Advice& one : answer_.advice) width = std::max(width, one.change.size());
    add("  what would take less, or has more:\n");
    for (const Advice& one : answer_.advice) {
      const bool may_fit = one.verdict != MemoryVerdict::does_not_fit;
      add("    {:<{}} {:>8} GB  {:>5.2f} x the time{}{}\n", one.change, width, gigabytes(one.memory_bytes),
          one.time_factor, may_fit ? ", " : "", may_fit ? verdict_text(one.verdict) : "");
    }
  }

  const Answer& answer_;
  const Forecast& job_;
  const Workload& workload_;
  Style style_;
  std::string text_;
};

/// A column of the table of answers, left out where all its texts are empty.
struct TableColumn {
  std::string heading;
  std::function<std::string(const Answer& answer)> text;
  bool is_number = true;  // to the right
  bool is_verdict = false;
};

std::string median_text(const std::optional<Quantiles>& q) { return q ? fmt::format("{:.4g}", q->p50) : std::string(); }

/// @param epochs  seconds are those of epochs, which all answers have; else of steps
std::vector<TableColumn> table_columns(bool epochs, const char* throughput) {
  using A = Answer;
  const auto sec = [epochs](const A& a) { return epochs ? a.forecast.prediction.time_sec : a.forecast.step_sec; };
  return {{epochs ? "epoch s" : "step s", [sec](const A& a) { return median_text(sec(a)); }},
          {"90 % interval", [sec](const A& a) { return fmt::format("{:.4g} .. {:.4g}", sec(a).p05, sec(a).p95); }},
          {throughput, [](const A& a) { return median_text(a.forecast.images_per_sec); }},
          {"tokens/s", [](const A& a) { return median_text(a.forecast.tokens_per_sec); }},
          {"memory GB", [](const A& a) { return a.forecast.memory ? gigabytes(a.forecast.memory->peak_bytes) : ""; }},
          {"of GB", [](const A& a) { return a.forecast.usable_bytes ? gigabytes(*a.forecast.usable_bytes) : ""; }},
          {"verdict", [](const A& a) { return std::string(a.forecast.verdict ? in_words(*a.forecast.verdict) : ""); },
           false, true},
          {"total",
           [epochs](const A& a) {
             const double total = a.forecast.total_sec.p50;
             const bool is_shown = a.workload.knows_epoch() && (!epochs || total != a.forecast.prediction.time_sec.p50);
             return is_shown ? duration(total) : "";
           }},
          {"price", [](const A& a) { return median_text(a.forecast.price); }},
          {"epochs",
           [](const A& a) {
             return a.forecast.epochs_in_budget ? fmt::format("{:.0f}", a.forecast.epochs_in_budget->p50) : "";
           }},
          {"rests on", [](const A& a) { return std::string(to_string(a.forecast.prediction.provenance)); }, false},
          {"outside", [](const A& a) { return std::string(to_string(a.forecast.prediction.reason)); }, false}};
}

/// A column for each quantile that was asked for by number.
std::vector<TableColumn> quantile_columns(const Answer& first) {
  std::vector<TableColumn> columns;
  for (std::size_t i = 0; i < first.forecast.quantiles.size(); ++i) {
    columns.push_back({fmt::format("{:g} % below", 100 * first.forecast.quantiles[i].q), [i](const Answer& answer) {
                         const QuantileOfJob& one = answer.forecast.quantiles[i];
                         return duration(answer.workload.knows_epoch() ? one.total_sec : one.step_sec);
                       }});
  }
  return columns;
}

/// Adds a column to the texts, of which the first is the head, unless all its cells are empty.
void add_column(std::vector<std::string>& texts, const TableColumn& column, const std::vector<AnswerLine>& lines,
                const Style& style) {
  std::vector<std::string> cells = {column.heading};
  for (const AnswerLine& line : lines) cells.push_back(line.answer ? column.text(*line.answer) : std::string());
  if (std::all_of(cells.begin() + 1, cells.end(), [](const std::string& cell) { return cell.empty(); })) return;
  std::size_t width = 0;
  for (const std::string& cell : cells) width = std::max(width, cell.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_error = i > 0 && !lines[i - 1].answer;
    if (is_error) continue;
    const std::string cell =
        column.is_number ? fmt::format("{:>{}}", cells[i], width) : fmt::format("{:<{}}", cells[i], width);
    const bool is_marked = column.is_verdict && i > 0 && lines[i - 1].answer->forecast.verdict;
    texts[i] += "  " + (is_marked ? style.verdict(*lines[i - 1].answer->forecast.verdict, cell) : cell);
  }
}

/// What was asked for, to the right: the head, and a text for each line.
std::vector<std::string> asked_texts(const std::vector<std::string>& fields, const std::vector<AnswerLine>& lines) {
  std::vector<std::string> texts(lines.size() + 1);
  for (std::size_t field = 0; field < fields.size(); ++field) {
    std::size_t width = fields[field].size();
    for (const AnswerLine& line : lines) width = std::max(width, line.values[field].size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string& cell = i == 0 ? fields[field] : lines[i - 1].values[field];
      texts[i] += fmt::format("{}{:>{}}", field == 0 ? "" : "  ", cell, width);
    }
  }
  return texts;
}

/// Below a table: what nobody stated, and what answers do not hold.
std::string remarks(std::span<const Answer* const> answers, const Style& style) {
  std::string text;
  if (const std::string assumed = assumed_fields(answers, style); !assumed.empty())
    text += fmt::format("assumed {}\n", assumed);
  std::set<std::string> left_out;
  for (const Answer* answer : answers) left_out.insert(answer->left_out.begin(), answer->left_out.end());
  for (const std::string& one : left_out) text += fmt::format("left out: {}\n", one);
  return text;
}

}  // namespace

std::string option_of(std::string_view field) {
  std::string option = fmt::format("--{}", field);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

std::string answer_text(const Answer& answer, Reader reader) { return AnswerText(answer, reader).text(); }

std::string table_text(const std::vector<std::string>& fields, const std::vector<AnswerLine>& lines, Reader reader) {
  const Style style(reader);
  std::vector<const Answer*> answers;
  std::vector<Workload> workloads;
  for (const AnswerLine& line : lines) {
    if (!line.answer) continue;
    answers.push_back(&*line.answer);
    workloads.push_back(line.answer->workload);
  }
  const bool epochs = std::ranges::all_of(answers, [](const Answer* one) { return one->workload.knows_epoch(); });
  std::vector<TableColumn> columns = table_columns(epochs, throughput_unit(workloads));
  if (!answers.empty()) std::ranges::move(quantile_columns(*answers.front()), std::back_inserter(columns));
  std::vector<std::string> texts = asked_texts(fields, lines);
  for (const TableColumn& column : columns) add_column(texts, column, lines, style);
  std::string table;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0 && !lines[i - 1].answer) texts[i] += "  " + lines[i - 1].error;
    texts[i].erase(texts[i].find_last_not_of(' ') + 1);
    table += fmt::format("{}\n", i == 0 ? style.head(texts[i]) : texts[i]);
  }
  return table + remarks(answers, style);
}

}  // namespace perfpred
