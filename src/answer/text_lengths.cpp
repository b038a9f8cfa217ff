// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/text_lengths.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "statistics/confidence.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::int64_t most_words = std::int64_t{1} << 40;
/// Lengths that stand for those of a summary, and batches that stand for all.
constexpr int summary_lengths = 1000, batch_widths = 128;
/// Batches that `group_by_length` sorts together (transformers, get_length_grouped_indices).
constexpr std::int64_t grouped_batches = 50;

struct Summary {
  double mean = 0, p95 = 0, max = 0;
};

/// Quantiles of lengths with this 95 % quantile, whose logarithm has this deviation.
std::vector<std::int64_t> lengths_of(const Summary& summary, double deviation) {
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < summary_lengths; ++i) {
    const double z = normal_quantile((i + 0.5) / summary_lengths);
    const double length = summary.p95 * std::exp(deviation * (z - z90));  // z90 is the 95 % quantile of one side
    lengths.push_back(std::llround(std::clamp(length, 1.0, summary.max)));
  }
  lengths.back() = std::llround(summary.max);
  return lengths;
}

double mean_of(const std::vector<std::int64_t>& lengths) {
  double sum = 0;
  for (const std::int64_t length : lengths) sum += static_cast<double>(length);
  return sum / static_cast<double>(lengths.size());
}

/// Of the least deviation that gives the mean. @throws InputError if none does
std::vector<std::int64_t> lengths_of(const Summary& summary) {
  constexpr double step = 0.05, most = 4, close = 1e-4;
  const auto is_above = [&](double deviation) { return mean_of(lengths_of(summary, deviation)) > summary.mean; };
  double high = 0;
  while (is_above(high)) {
    high += step;
    if (high <= most) continue;
    throw InputError(fmt::format("lengths: no usual lengths have mean {:g}, p95 {:g} and max {:g}; name a file of them",
                                 summary.mean, summary.p95, summary.max));
  }
  double low = std::max(0.0, high - step);
  while (high - low > close) {
    const double middle = (low + high) / 2;
    (is_above(middle) ? low : high) = middle;
  }
  return lengths_of(summary, high);
}

Summary parse_summary(std::string_view text) {
  Summary summary;
  std::array<std::pair<std::string_view, double*>, 3> parts = {
      {{"mean", &summary.mean}, {"p95", &summary.p95}, {"max", &summary.max}}};
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    const auto found = std::ranges::find(parts, name, &std::pair<std::string_view, double*>::first);
    if (found == parts.end() || *found->second != 0)
      throw_bad_value({{}, 0, "lengths"}, text, "a file, or mean=,p95=,max=");
    *found->second = parse_positive(part.substr(std::min(equals + 1, part.size())), {{}, 0, name});
  }
  for (const auto& [name, value] : parts) {
    if (*value == 0) throw InputError(fmt::format("lengths {} lack {}=", shown(text), name));
  }
  if (!(summary.mean >= 1 && summary.mean <= summary.p95 && summary.p95 <= summary.max)) {
    throw InputError(fmt::format("lengths {}: 1 <= mean <= p95 <= max does not hold", shown(text)));
  }
  if (summary.max > static_cast<double>(most_words))
    throw InputError(fmt::format("lengths {} are too long", shown(text)));
  return summary;
}

}  // namespace

TextLengths::TextLengths(std::vector<std::int64_t> lengths) : sorted_(std::move(lengths)) {
  if (sorted_.empty()) throw InputError("lengths are none");
  std::ranges::sort(sorted_);
  for (const std::int64_t length : {sorted_.front(), sorted_.back()}) {
    if (length < 1 || length > most_words) throw InputError(fmt::format("length {} is not between 1 and 2^40", length));
  }
}

TextLengths TextLengths::parse(const std::string& text) {
  if (text.find('=') != std::string::npos) {
    TextLengths summary(lengths_of(parse_summary(text)));
    summary.is_summary_ = true;
    return summary;
  }
  const std::string content = read_file(text);
  std::vector<std::int64_t> lengths;
  std::size_t number = 0;
  for (std::string_view rest = content; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    lengths.push_back(parse_positive_integer(trimmed(line.substr(0, line.find('\r'))), {text, ++number, "length"}));
  }
  if (lengths.empty()) throw InputError(fmt::format("{}: has no lengths", text));
  return TextLengths(std::move(lengths));
}

std::optional<std::int64_t> TextLengths::texts() const {
  return is_summary_ ? std::nullopt : std::optional(static_cast<std::int64_t>(sorted_.size()));
}

double TextLengths::mean() const { return mean_of(sorted_); }

std::int64_t TextLengths::quantile(double share) const {
  const auto count = static_cast<double>(sorted_.size());
  const double place = std::clamp(std::ceil(share * count) - 1, 0.0, count - 1);
  return sorted_[static_cast<std::size_t>(place)];
}

TextLengths TextLengths::cut(std::int64_t most) const {
  TextLengths shorter = *this;
  for (std::int64_t& length : shorter.sorted_) length = std::min(length, most);
  return shorter;
}

std::vector<double> TextLengths::widths(std::int64_t batch, bool grouped) const {
  std::vector<double> widths;
  if (const auto all = texts()) batch = std::min(batch, *all);
  const auto of_batch = static_cast<double>(batch);
  if (grouped) {
    std::int64_t batches = grouped_batches;
    if (const auto all = texts()) batches = std::clamp<std::int64_t>(*all / batch, 1, grouped_batches);
    // The longest of the k-th batch is the k-th part's last text but for half a place.
    const auto count = static_cast<double>(batches);
    for (std::int64_t k = 1; k <= batches; ++k)
      widths.push_back(static_cast<double>(quantile(static_cast<double>(k) / count - 0.5 / (count * of_batch))));
    return widths;
  }
  if (is_summary_) {  // all of a batch are within the quantile q with probability q^batch
    for (int i = 0; i < batch_widths; ++i)
      widths.push_back(static_cast<double>(quantile(std::pow((i + 0.5) / batch_widths, 1 / of_batch))));
    return widths;
  }
  // All of a batch are among the n shortest of N with probability n! (N - batch)! / ((n - batch)! N!).
  widths.resize(batch_widths);
  auto shortest = static_cast<std::int64_t>(sorted_.size());
  double probability = 1;
  for (int i = batch_widths - 1; i >= 0; --i) {
    const double share = (i + 0.5) / batch_widths;
    const auto of_one_fewer = [&] {
      return probability * static_cast<double>(shortest - batch) / static_cast<double>(shortest);
    };
    while (shortest > batch && of_one_fewer() >= share) {
      probability = of_one_fewer();
      --shortest;
    }
    widths[static_cast<std::size_t>(i)] = static_cast<double>(sorted_[static_cast<std::size_t>(shortest - 1)]);
  }
  return widths;
}

}  // namespace perfpred
