// SPDX-License-Identifier: Apache-2.0
#include "tools/slurm_history.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "statistics/estimate.h"
#include "text/csv.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr double hour = 3600;

/// Where the columns stand.
class SacctColumns {
 public:
  SacctColumns(const std::vector<std::string_view>& header, const std::string& where) : width_(header.size()) {
    const auto find = [&](std::string_view name) {
      const auto found = std::ranges::find(header, name);
      return found == header.end() ? missing : static_cast<std::size_t>(found - header.begin());
    };
    id = find("JobIDRaw") == missing ? find("JobID") : find("JobIDRaw");
    end = find("End");
    const std::array<std::pair<const char*, std::size_t*>, 4> needed = {
        {{"State", &state}, {"ElapsedRaw", &elapsed}, {"TimelimitRaw", &limit}, {"AdminComment", &comment}}};
    for (const auto& [name, place] : needed) *place = find(name);
    const auto lacking = std::ranges::find_if(needed, [](const auto& one) { return *one.second == missing; });
    if (id != missing && lacking == needed.end()) return;
    throw InputError(fmt::format("{}: has no column {}: sacct -P --format={}", where,
                                 id == missing ? "JobIDRaw" : lacking->first, sacct_columns));
  }

  static constexpr auto missing = static_cast<std::size_t>(-1);
  std::size_t id = missing, state = missing, elapsed = missing, limit = missing, comment = missing, end = missing;

  [[nodiscard]] std::size_t width() const { return width_; }

 private:
  std::size_t width_;
};

/// What Slurm's backfill scheduler sets where there is no limit, in minutes (YEAR_MINUTES of its sources; 22.05 does).
constexpr double a_year = 365 * 24 * 60;

/// Seconds of a limit in minutes; nothing for UNLIMITED, Partition_Limit, or none.
std::optional<double> limit_of(std::string_view text, const ValuePlace& place) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  const double minutes = is_number ? parse_finite(text, place) : a_year;
  return minutes < a_year ? std::optional(60 * minutes) : std::nullopt;
}

/// `CANCELLED` of `CANCELLED by 1000`.
std::string first_word(std::string_view text) { return std::string(text.substr(0, text.find(' '))); }

/// @param fields  of a job, not of a step of one
SlurmJob job_of(const std::vector<std::string_view>& fields, const SacctColumns& columns, const std::string& name,
                std::size_t line, std::vector<std::string>& damaged) {
  SlurmJob job;
  job.id = fields[columns.id];
  job.state = first_word(fields[columns.state]);
  if (columns.end != SacctColumns::missing) job.end = fields[columns.end];
  job.elapsed_sec = parse_non_negative(fields[columns.elapsed], {name, line, "ElapsedRaw"});
  job.limit_sec = limit_of(fields[columns.limit], {name, line, "TimelimitRaw"});
  try {
    job.forecast = parse_admin_comment(fields[columns.comment]);
  } catch (const InputError& error) {  // others may write there, too, and a database may cut a text off
    damaged.push_back(fmt::format("{}:{}: job {}: {}", name, line, printable(job.id), error.what()));
  }
  return job;
}

/// Of the rows of one job the last: `sacct -D` has one for each time that it was started again, and histories that were
/// joined have a job twice.
void keep_last(std::vector<SlurmJob>& jobs) {
  std::set<std::string_view> seen;
  std::vector<SlurmJob> latest;
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    if (seen.insert(job->id).second) latest.push_back(*job);
  }
  jobs.assign(std::make_move_iterator(latest.rbegin()), std::make_move_iterator(latest.rend()));
}

bool exceeds(const SlurmJob& job, double grace_sec) {
  return job.elapsed_sec > 60.0 * static_cast<double>(job.forecast->limit_minutes) + grace_sec;
}

void count_completed(SlurmReport& report, const SlurmJob& job, double grace_sec) {
  const Quantiles& expected = job.forecast->total_sec;
  ++report.completed;
  if (job.elapsed_sec < expected.p05)
    ++report.below;
  else if (job.elapsed_sec > expected.p95)
    ++report.above;
  else
    ++report.inside;
  if (exceeds(job, grace_sec)) {
    report.killed.push_back(job.id);
  } else if (job.limit_sec) {
    ++report.limits;
    report.used_hours += job.elapsed_sec / hour;
    report.own_hours += *job.limit_sec / hour;
    report.forecast_hours += static_cast<double>(job.forecast->limit_minutes) / 60;
  }
}

double share(std::size_t part, std::size_t all) { return static_cast<double>(part) / static_cast<double>(all); }

std::optional<double> share_or_nothing(std::size_t part, std::size_t all) {
  return all == 0 ? std::nullopt : std::optional(share(part, all));
}

}  // namespace

SlurmHistory read_sacct(const std::string& name, std::string_view text) {
  LineReader lines(name, text);
  const char* line = lines.next();
  while (line != nullptr && *line == '\0') line = lines.next();
  if (line == nullptr) throw InputError(name + ": is empty: sacct -P prints a header");
  const SacctColumns columns(split(line, '|'), fmt::format("{}:{}", name, lines.line()));
  SlurmHistory history;
  while ((line = lines.next()) != nullptr) {
    if (*line == '\0') continue;
    const std::vector<std::string_view> fields = split(line, '|');
    if (fields.size() != columns.width())
      throw InputError(
          fmt::format("{}:{}: has {} fields, the header has {}", name, lines.line(), fields.size(), columns.width()));
    if (fields[columns.id].find('.') != std::string_view::npos) continue;
    history.jobs.push_back(job_of(fields, columns, name, lines.line(), history.damaged));
  }
  keep_last(history.jobs);
  return history;
}

SlurmReport slurm_report(const SlurmHistory& history, double grace_sec) {
  SlurmReport report;
  report.jobs = history.jobs.size();
  for (const SlurmJob& job : history.jobs) {
    if (!job.forecast) {
      ++report.left_out["no_forecast"];
    } else if (job.state == "COMPLETED") {
      count_completed(report, job, grace_sec);
    } else if (job.state == "TIMEOUT") {
      ++report.timeouts;
      if (!exceeds(job, grace_sec) &&
          (!job.limit_sec || 60.0 * static_cast<double>(job.forecast->limit_minutes) > *job.limit_sec))
        ++report.timeouts_saved;
    } else {
      ++report.left_out[job.state];
    }
  }
  return report;
}

nlohmann::ordered_json to_json(const SlurmReport& report) {
  const auto or_nothing = [](std::optional<double> value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json left_out = nlohmann::ordered_json::object();
  for (const auto& [reason, count] : report.left_out) left_out[reason] = count;
  return {{"jobs", report.jobs},
          {"left_out", left_out},
          {"completed", report.completed},
          {"inside", report.inside},
          {"below", report.below},
          {"above", report.above},
          {"coverage90", or_nothing(share_or_nothing(report.inside, report.completed))},
          {"killed", report.killed},
          {"killed_share", or_nothing(share_or_nothing(report.killed.size(), report.completed))},
          {"timeouts", report.timeouts},
          {"timeouts_saved", report.timeouts_saved},
          {"limits", report.limits},
          {"used_hours", report.used_hours},
          {"own_hours", report.own_hours},
          {"forecast_hours", report.forecast_hours},
          {"won_hours", report.won_hours()}};
}

std::string text_of(const SlurmReport& report) {
  std::string text;
  const auto add = [&]<class... Values>(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Values>(values)...);
  };
  add("{} jobs, {} of them completed with a forecast\n", report.jobs, report.completed);
  for (const auto& [reason, count] : report.left_out) add("  left out: {} {}\n", count, reason);
  if (report.completed > 0) {
    add("inside the 90 % interval: {} ({:.1f} %); {} took less, {} more\n", report.inside,
        100 * share(report.inside, report.completed), report.below, report.above);
    add("a limit by the {:g} % quantile would have ended {} of them ({:.2f} %)\n", 100 * limit_quantile,
        report.killed.size(), 100 * share(report.killed.size(), report.completed));
  }
  constexpr std::size_t shown_jobs = 10;
  for (std::size_t i = 0; i < std::min(shown_jobs, report.killed.size()); ++i) add("  job {}\n", report.killed[i]);
  if (report.killed.size() > shown_jobs) add("  and {} more\n", report.killed.size() - shown_jobs);
  if (report.timeouts > 0)
    add("{} ran into the limit that they had; {} of them had a longer one by their forecast\n", report.timeouts,
        report.timeouts_saved);
  if (report.limits > 0) {
    add("{} jobs with a limit ran {:.1f} h; their limits reserved {:.1f} h, their forecasts' would have {:.1f} h\n",
        report.limits, report.used_hours, report.own_hours, report.forecast_hours);
    const double won = report.won_hours();
    add("a backfill scheduler would have {} {:.1f} h\n", won < 0 ? "lost" : "won", std::abs(won));
  }
  return text;
}

SlurmRuns runs_of(const SlurmHistory& history) {
  SlurmRuns runs;
  for (const SlurmJob& job : history.jobs) {
    if (!job.forecast || job.state != "COMPLETED") continue;
    const double sec = (job.elapsed_sec - job.forecast->other_sec) / job.forecast->epochs;
    if (!(sec > 0)) continue;
    const std::array<std::string, 4> fields = {job.forecast->key, fmt::format("{} job {}", job.end, job.id),
                                               number_text(sec), "ok"};
    runs.csv += csv_line(fields);
    ++runs.rows;
  }
  if (runs.rows > 0) runs.csv.insert(0, "key,timestamp_utc,avg_time_sec,outcome\n");
  return runs;
}

}  // namespace perfpred
