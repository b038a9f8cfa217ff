// SPDX-License-Identifier: Apache-2.0
#include "tools/slurm_forecast.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <map>
#include <utility>

#include "step/epoch_steps.h"
#include "text/parse.h"
#include "text/sbatch.h"

namespace perfpred {
namespace {

constexpr std::string_view mark = "perfpred:";
constexpr std::string_view last = "key=";  // a key has `;` and `=` itself

/// Without what divides columns and fields.
std::string plain(std::string text) {
  for (char& c : text) {
    if (c == '|' || c == ';' || static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return text;
}

}  // namespace

SlurmForecast slurm_forecast(const Answer& answer, const AnswerTerms& terms, std::string model) {
  const Forecast& job = answer.forecast;
  const Workload& workload = answer.workload;
  if (!workload.knows_epoch()) throw InputError("train_images or train_tokens is missing: how long is an epoch?");
  const auto limit = std::ranges::find(job.quantiles, limit_quantile, &QuantileOfJob::q);
  if (limit == job.quantiles.end()) throw Error(fmt::format("the quantile {} was not asked for", limit_quantile));
  if (limit->total_sec > 60.0 * static_cast<double>(most_limit_minutes))
    throw InputError(fmt::format("the job takes {:.3g} s, longer than a time limit can be", job.total_sec.p50));
  SlurmForecast forecast;
  forecast.total_sec = job.total_sec;
  forecast.limit_minutes = limit_minutes(limit->total_sec);
  forecast.epochs = terms.job.epochs;
  if (terms.max_steps) {
    forecast.epochs = static_cast<double>(*terms.max_steps) * static_cast<double>(samples_per_step(workload)) /
                      static_cast<double>(workload.train_images);
  }
  forecast.other_sec = std::max(0.0, job.total_sec.p50 - forecast.epochs * job.prediction.time_sec.p50);
  if (job.verdict) forecast.verdict = to_string(*job.verdict);
  forecast.model = std::move(model);
  forecast.key = answer.key;
  return forecast;
}

std::string admin_comment(const SlurmForecast& forecast) {
  const auto sec = [](double value) { return fmt::format("{:.3f}", value); };
  std::string key = forecast.key;
  std::ranges::replace(key, '|', '?');
  return fmt::format("{}p05_sec={};p50_sec={};p95_sec={};limit_min={};epochs={};other_sec={};verdict={};model={};{}{}",
                     mark, sec(forecast.total_sec.p05), sec(forecast.total_sec.p50), sec(forecast.total_sec.p95),
                     forecast.limit_minutes, number_text(forecast.epochs), sec(forecast.other_sec), forecast.verdict,
                     plain(forecast.model), last, key);
}

std::optional<SlurmForecast> parse_admin_comment(std::string_view text) {
  if (!text.starts_with(mark)) return std::nullopt;
  text.remove_prefix(mark.size());
  std::map<std::string_view, std::string_view> fields;
  while (!text.empty() && !text.starts_with(last)) {
    const std::string_view part = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const std::size_t equals = part.find('=');
    if (equals != std::string_view::npos) fields[part.substr(0, equals)] = part.substr(equals + 1);
  }
  if (text.size() <= last.size()) throw InputError("AdminComment of perfpred is cut off: it has no key");
  const auto field = [&](const char* name) {
    const auto found = fields.find(name);
    if (found == fields.end()) throw InputError(fmt::format("AdminComment of perfpred lacks {}", name));
    return found->second;
  };
  const auto positive = [&](const char* name) { return parse_positive(field(name), {{}, 0, name}); };
  SlurmForecast forecast;
  forecast.total_sec = {positive("p05_sec"), positive("p50_sec"), positive("p95_sec")};
  forecast.limit_minutes = parse_positive_integer(field("limit_min"), {{}, 0, "limit_min"});
  forecast.epochs = positive("epochs");
  forecast.other_sec = parse_non_negative(field("other_sec"), {{}, 0, "other_sec"});
  forecast.verdict = field("verdict");
  forecast.model = field("model");
  forecast.key = text.substr(last.size());
  return forecast;
}

}  // namespace perfpred
