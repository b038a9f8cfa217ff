// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>
#include <perfpred/device.h>
#include <perfpred/run.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// A training step as it was measured, in seconds. What was not measured is empty.
struct MeasuredStep {
  double sec = 0;                            ///< of an update of the parameters, on average; > 0
  std::optional<double> median_sec = {};     ///< of the steps
  std::optional<double> data_wait_sec = {};  ///< of `sec`, in which the program waited for its loader
  std::optional<double> host_sec = {};       ///< that a GPU's host needs to submit a step to an idle device
  std::optional<double> clock_mhz = {};      ///< of the device, the median
  std::optional<bool> company = {};          ///< others computed on the device, too
  std::optional<bool> throttled = {};        ///< heat, a power brake or a quota slowed the device down
  std::string note = {};                     ///< what is known of the measurement besides
};

/// The mean step of a run: its epoch over the steps that the answer's epoch has.
/// @param answer  of the run's workload
/// @throws InputError for a run that was not timed
[[nodiscard]] PERFPRED_API MeasuredStep measured_step(const Run& run, const Answer& answer);

/// Why a step does not take the expected time. `data`: the program waits for its loader. `host`: submitting a step
/// takes longer than the step was expected to take, or does not hold the device up where that was expected. `pauses`:
/// some steps take much longer than most, as where a program evaluates, writes or stalls. `clock`: the device ran
/// slower than its vendor's boost clock. `company`: others computed on the device. `kernels`: what is left where all of
/// these were measured. `unexplained`: what is left elsewhere.
enum class Cause { data, host, pauses, clock, company, kernels, unexplained };

[[nodiscard]] PERFPRED_API std::string_view to_string(Cause cause);

/// What a cause does to a step.
struct CauseOfTime {
  Cause cause = Cause::unexplained;
  std::optional<double> sec =
      {};  ///< beyond the expected step, below 0 if it is shorter; empty if not measured in time
};

/// Where a measured time lies beside its 90 % interval.
enum class Finding { within, above, below };

[[nodiscard]] PERFPRED_API std::string_view to_string(Finding finding);

/// A measured step beside the expected one.
struct Explanation {
  Answer answer;
  MeasuredStep measured;
  Finding finding = Finding::within;
  /// Causes that were measured, and the rest. Their seconds add up to difference_sec().
  std::vector<CauseOfTime> causes = {};
  std::vector<Cause> not_measured = {};  ///< that may have a part in the rest; of a faster step the host alone
  std::optional<double> boost_mhz = {};  ///< of the device, where the catalogue has it

  [[nodiscard]] double ratio() const { return measured.sec / answer.forecast.step_sec.p50; }
  [[nodiscard]] double difference_sec() const { return measured.sec - answer.forecast.step_sec.p50; }
};

/// Explains a measured step as far as the measurement says why. Waits for the loader are exact on a CPU; on a GPU,
/// where a device may be busy meanwhile, they are at most the difference. The clock's part is what it is at most, where
/// arithmetic bounds the step or the device was slowed down.
/// @param answer   of the workload that was measured
/// @param devices  that have its device's clock
/// @throws InputError for a time that is not positive
[[nodiscard]] PERFPRED_API Explanation explain(const Answer& answer, const MeasuredStep& measured,
                                               const DeviceCatalogue& devices);

}  // namespace perfpred
