// SPDX-License-Identifier: Apache-2.0
#include "answer/text_job.h"

#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "model/unstated.h"
#include "network/zoo/zoo.h"
#include "step/epoch_steps.h"
#include "text/parse.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

/// Widths at which a job is timed; batches in between take what they take on average.
constexpr std::size_t timed_widths = 16;

bool states(const AnswerTerms& terms, const char* field) {
  return std::ranges::find(terms.job.unstated, field) == terms.job.unstated.end();
}

Workload with_words(Workload workload, std::int64_t words) {
  workload.input = {words};
  return workload;
}

/// Seconds of a step whose texts have one length.
class StepSeconds {
 public:
  explicit StepSeconds(const TimeRegressor& model, const Job& job)
      : variants_(model), job_(job), step_(job.workload()) {
    step_.train_images = samples_per_step(job);
  }
  [[nodiscard]] double operator()(std::int64_t words) {
    return variants_.estimate(job_.with(with_words(step_, words))).time.sec();
  }

  Workload& workload() { return step_; }

 private:
  JobVariants variants_;
  const Job& job_;
  Workload step_;
};

/// The words at which a step takes as long as steps of these widths on average, and these seconds.
/// @param widths  in ascending order
std::pair<std::int64_t, double> mean_step(StepSeconds& step, const std::vector<double>& widths) {
  std::vector<std::pair<double, double>> points;  // words, seconds
  double sum = 0;
  for (std::size_t begin = 0, part = 0; part < timed_widths && begin < widths.size(); ++part) {
    const std::size_t end = std::max(begin + 1, (part + 1) * widths.size() / timed_widths);
    const auto count = static_cast<double>(end - begin);
    const auto at = widths.begin();
    const double words =
        std::accumulate(at + static_cast<std::ptrdiff_t>(begin), at + static_cast<std::ptrdiff_t>(end), 0.0) / count;
    const bool is_new = points.empty() || std::llround(points.back().first) != std::llround(words);
    const double sec = is_new ? step(std::llround(words)) : points.back().second;
    points.emplace_back(words, sec);
    sum += count * sec;
    begin = end;
  }
  const double mean = sum / static_cast<double>(widths.size());
  const auto above = std::ranges::find_if(points, [&](const auto& point) { return point.second >= mean; });
  if (above == points.begin() || above == points.end()) return {std::llround(points.front().first), mean};
  const auto& [low, low_sec] = *(above - 1);
  const auto& [high, high_sec] = *above;
  return {std::llround(low + (high - low) * (mean - low_sec) / (high_sec - low_sec)), mean};
}

/// Texts of an epoch, where they are known.
std::optional<double> texts_of(const Workload& workload, const TextLengths& lengths, const AnswerTerms& terms) {
  if (terms.train_tokens) return static_cast<double>(*terms.train_tokens) / lengths.mean();
  if (workload.train_images.is_stated()) return static_cast<double>(workload.train_images);
  if (const auto texts = lengths.texts()) return static_cast<double>(*texts);
  return std::nullopt;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

TextJob text_job(const TimeRegressor& model, const Job& job, const AnswerTerms& terms) {
  Workload workload = job.workload();
  if (!takes_lengths(workload)) {
    throw InputError(fmt::format("lengths are of texts; network {} has samples of one size", shown(workload.network)));
  }
  if (!states(terms, "padding")) workload.padding = Padding::padded;
  if (terms.group_by_length && workload.padding != Padding::padded)
    throw InputError("group_by_length is for padding=padded: other batches have one length");
  const std::int64_t most = states(terms, "input") ? workload.input[0] : terms.lengths->longest();
  const TextLengths lengths = terms.lengths->cut(most);
  with_words(workload, most).validate();

  TextBatches batches;
  batches.mean = lengths.mean();
  batches.p95 = lengths.quantile(0.95);
  batches.max = lengths.longest();
  const std::optional<double> texts = texts_of(workload, lengths, terms);
  if (texts) batches.texts = std::llround(*texts);

  const bool is_packed = workload.padding == Padding::packed;
  std::vector<double> widths = {static_cast<double>(is_packed ? workload.input[0] : most)};
  if (workload.padding == Padding::padded) widths = lengths.widths(workload.batch_size, terms.group_by_length);
  const Job padded = job.with(workload);
  StepSeconds step(model, padded);
  const auto [words, sec] = mean_step(step, widths);
  const double width = mean_of(widths);
  batches.width = width;
  batches.longest = workload.padding == Padding::padded ? lengths.longest() : std::llround(widths.front());
  if (!is_packed) {
    batches.padding_share = 1 - batches.mean / width;
    step.workload().padding = Padding::packed;
    batches.packed_time_factor = step(most) / static_cast<double>(most) / (sec / batches.mean);
  }
  if (texts) {
    const double samples = is_packed ? *texts * batches.mean / width : *texts;
    workload.train_images = std::max<std::int64_t>(1, std::llround(std::ceil(samples)));
  }
  return {with_words(workload, words), with_words(workload, batches.longest), batches};
}

}  // namespace perfpred
