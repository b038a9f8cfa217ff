// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/explanation.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/enum_names.h"

namespace perfpred {
namespace {

constexpr auto cause_names = enumerator_names<Cause::unexplained>;
constexpr auto finding_names = enumerator_names<Finding::below>;

constexpr double least_share = 0.01;   // of the measured step: what is less is no cause
constexpr double usual_clock = 0.97;   // of the boost clock: a device that is not slowed down
constexpr double host_keeps_up = 0.9;  // of a step: a host that needs less has the next one ready in time

/// Whether a note of a run has a word, as perfpred-collect and perfpred.measure write them: `throttled; company`.
bool says(std::string_view note, std::string_view word) { return note.find(word) != std::string_view::npos; }

/// Seconds of a step that the answer expects the device to wait for its host.
double expected_host_wait(const Answer& answer) {
  double sec = 0;
  for (const TimeTerm& term : answer.forecast.breakdown) {
    if (term.op == "host" || term.op == "launch") sec += term.sec;
  }
  return sec * answer.forecast.step_sec.p50 / answer.sec().p50;
}

/// Parts a difference by causes, in the order in which they are measured best.
class Parts {
 public:
  explicit Parts(Explanation& of) : of_(of), measured_(of.measured), left_(of.difference_sec()) {}

  void add_all() {
    add_data();
    if (on_gpu()) add_host();
    add_pauses();
    if (on_gpu()) add_clock();
    add_disturbances();
    add_rest();
  }

 private:
  [[nodiscard]] bool on_gpu() const { return !of_.answer.workload.threads.has_value(); }
  [[nodiscard]] double expected() const { return of_.answer.forecast.step_sec.p50; }

  void add(Cause cause, double sec) {
    if (std::abs(sec) < least_share * measured_.sec) return;
    of_.causes.push_back({cause, sec});
    left_ -= sec;
  }

  /// Notes what was not measured. But for the host, all of it lengthens steps: no shorter one is explained by it.
  void lacks(Cause cause) {
    if (of_.difference_sec() > 0 || cause == Cause::host) of_.not_measured.push_back(cause);
  }

  /// Of the seconds those that are still to be explained.
  [[nodiscard]] double at_most_left(double sec) const { return std::clamp(sec, 0.0, std::max(left_, 0.0)); }

  void add_data() {
    if (of_.answer.workload.loader == Loader::included) return;  // it is in the expected time
    if (!measured_.data_wait_sec) {
      lacks(Cause::data);
      if (says(measured_.note, "data-bound")) of_.causes.push_back({Cause::data});
      return;
    }
    add(Cause::data, on_gpu() ? at_most_left(*measured_.data_wait_sec) : *measured_.data_wait_sec);
  }

  void add_host() {
    if (!measured_.host_sec) return lacks(Cause::host);
    if (left_ > 0) return add(Cause::host, at_most_left(*measured_.host_sec - expected()));
    const bool keeps_up = *measured_.host_sec < host_keeps_up * measured_.sec;
    if (keeps_up) add(Cause::host, std::max(-expected_host_wait(of_.answer), left_));
  }

  /// What the slow steps add to the mean; those that waited for the loader are counted there.
  void add_pauses() {
    if (!measured_.median_sec) return lacks(Cause::pauses);
    double sec = measured_.sec - *measured_.median_sec;
    for (const CauseOfTime& one : of_.causes) {
      if (one.cause == Cause::data) sec -= one.sec.value_or(0);
    }
    add(Cause::pauses, at_most_left(sec));
  }

  void add_clock() {
    if (!measured_.clock_mhz || !of_.boost_mhz) return lacks(Cause::clock);
    const double share = *measured_.clock_mhz / *of_.boost_mhz;
    const bool matters = of_.answer.forecast.bound == Bound::compute || measured_.throttled.value_or(false);
    if (share >= usual_clock || !matters) return;
    add(Cause::clock, at_most_left((1 / share - 1) * (expected() - expected_host_wait(of_.answer))));
  }

  /// What took time, but nobody knows how much.
  void add_disturbances() {
    const auto has = [this](Cause cause) {
      return std::any_of(of_.causes.begin(), of_.causes.end(), [&](const auto& one) { return one.cause == cause; });
    };
    if (!measured_.company) lacks(Cause::company);
    if (measured_.company.value_or(false)) of_.causes.push_back({Cause::company});
    if (measured_.throttled.value_or(false) && !has(Cause::clock)) of_.causes.push_back({Cause::clock});
  }

  void add_rest() {
    const bool all_known = of_.not_measured.empty() &&
                           std::all_of(of_.causes.begin(), of_.causes.end(), [](const auto& one) { return one.sec; });
    if (left_ != 0) of_.causes.push_back({all_known ? Cause::kernels : Cause::unexplained, left_});
  }

  Explanation& of_;
  const MeasuredStep& measured_;
  double left_;  // of the difference
};

}  // namespace

std::string_view to_string(Cause cause) { return cause_names.at(static_cast<std::size_t>(cause)); }
std::string_view to_string(Finding finding) { return finding_names.at(static_cast<std::size_t>(finding)); }

MeasuredStep measured_step(const Run& run, const Answer& answer) {
  if (!run.avg_time_sec) {
    throw InputError(fmt::format("the run was not timed ({})", to_string(run.outcome)));
  }
  const auto seconds = [](const std::optional<double>& ms) { return ms ? std::optional(*ms * 1e-3) : std::nullopt; };
  MeasuredStep step;
  step.sec = *run.avg_time_sec * answer.forecast.step_sec.p50 / answer.sec().p50;
  step.median_sec = seconds(run.step_p50_ms);
  if (run.data_wait_share) step.data_wait_sec = *run.data_wait_share * step.sec;
  step.host_sec = seconds(run.host_p50_ms);
  step.clock_mhz = run.clock_mhz;
  step.note = run.note;
  if (!run.step_p50_ms) return step;  // nobody watched the device
  step.company = says(run.note, "company");
  step.throttled = says(run.note, "throttled");
  return step;
}

Explanation explain(const Answer& answer, const MeasuredStep& measured, const DeviceCatalogue& devices) {
  if (!(measured.sec > 0) || !std::isfinite(measured.sec)) {
    throw InputError(fmt::format("the measured step of {} s is not positive", measured.sec));
  }
  Explanation explanation{answer, measured};
  const Quantiles& expected = answer.forecast.step_sec;
  explanation.finding = measured.sec > expected.p95   ? Finding::above
                        : measured.sec < expected.p05 ? Finding::below
                                                      : Finding::within;
  if (const Device* device = devices.resolve(answer.workload.device).device) explanation.boost_mhz = device->boost_mhz;
  Parts(explanation).add_all();
  return explanation;
}

}  // namespace perfpred
