// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/forecast.h>
#include <perfpred/text_lengths.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

struct Price {
  double per_hour = 0;   ///< of one device, >= 0
  std::string currency;  ///< empty if the table does not say
};

/// Prices of devices by their names in the catalogue.
using Prices = std::map<std::string, Price, std::less<>>;

/// A table with the columns `device`, `price_per_hour` and, if there is one, `currency`. A name that several devices
/// share is the price of each of them.
/// @throws InputError with file and line for a device that is not known or that appears twice, a price below 0, or a
/// second currency
[[nodiscard]] PERFPRED_API Prices read_prices(const std::string& path, const DeviceCatalogue& devices);

/// A change of a job that takes less memory or a larger device.
struct Advice {
  std::string change;             ///< fields and their values joined by `;`: `checkpoint=all;optimizer=adamw8bit`
  std::int64_t memory_bytes = 0;  ///< expected on the device
  double time_factor = 1;         ///< of an epoch, beside the job as it was asked
  MemoryVerdict verdict = MemoryVerdict::does_not_fit;
};

/// What is asked of a job besides its workload.
struct AnswerTerms {
  JobTerms job;
  std::optional<std::int64_t> train_tokens = {};  ///< an epoch's, in place of its samples; >= 1
  std::optional<std::int64_t> max_steps = {};     ///< updates of the job, in place of its epochs; >= 1
  std::optional<TextLengths> lengths = {};        ///< of the texts, which then have several
  bool group_by_length = false;                   ///< TextLengths::widths()
  Prices prices = {};                             ///< of devices, where `job` has no price
  std::string of_epochs = {};  ///< name of a given term that needs an epoch that is known, as `budget_sec`; or empty
  bool advises = true;         ///< otherwise the largest batch and the advice are left out, which take most of the time

  /// A workload of as many samples an epoch as hold so many tokens; or of as many as `max_steps` take, where nobody
  /// stated its samples. @throws InputError for tokens of samples that are no sequences
  [[nodiscard]] PERFPRED_API Workload applied_to(Workload workload) const;
};

/// Batches of texts of several lengths, in words.
struct TextBatches {
  std::optional<std::int64_t> texts = {};         ///< of an epoch; empty if nobody stated them
  double mean = 0;                                ///< of a text
  std::int64_t p95 = 0, max = 0;                  ///< 95 % of the texts are no longer; none is
  double width = 0;                               ///< of a batch's samples, padding included, on average
  std::int64_t longest = 0;                       ///< width of the longest batch that comes: its memory is the job's
  double padding_share = 0;                       ///< of what is computed
  std::optional<double> packed_time_factor = {};  ///< of an epoch whose texts are packed; empty where they are
};

/// What a model answers for a job. The answers of programs, of C and of Python are views of it.
struct Answer {
  Workload workload;  ///< with the samples that AnswerTerms::train_tokens says; with AnswerTerms::lengths of texts of
                      ///< the one length at which an epoch takes as long
  Forecast forecast;
  std::string key;             ///< the workload's; of a captured step empty in the fields that the step decides
  std::vector<Advice> advice;  ///< what would make it fit; empty where it does, or where that is not known
  std::string currency;        ///< of the price; empty if it is not known
  std::vector<std::string> assumed = {};   ///< fields that the answer rests on and that nobody stated
  std::vector<std::string> left_out = {};  ///< what the answer does not hold, a line each
  std::int64_t batches = 1;                ///< of a step, whose gradients one update uses
  /// Of texts of several lengths, whose words alone are then tokens a second. Memory, verdict, largest batch and advice
  /// are of the longest batch that comes.
  std::optional<TextBatches> texts = {};
  std::optional<std::int64_t> params = {};  ///< that are trained; empty, as `flops`, where the step is not known
  std::optional<double> flops = {};         ///< of a replica's step, as PyTorch executes it without compiling it

  /// What is taken for a field of `assumed`: its value, and of `cluster` the rates of its links.
  [[nodiscard]] PERFPRED_API std::string assumed_value(std::string_view field) const;

  /// Seconds of an epoch, of a step where the workload does not know its epoch.
  [[nodiscard]] const Quantiles& sec() const {
    return workload.knows_epoch() ? forecast.prediction.time_sec : forecast.step_sec;
  }
};

/// Time, throughput, memory and price of a job before it is launched, what limits it, what would make it fit, and what
/// the answer rests on.
/// @throws InputError as forecast() and AnswerTerms::applied_to(), for lengths of samples that are no texts, and for
/// AnswerTerms::of_epochs where the workload does not know its epoch
[[nodiscard]] PERFPRED_API Answer answer(const TimeRegressor& model, const Workload& workload,
                                         const AnswerTerms& terms = {});

/// The document of `perfpred-predict --json` (docs/predict.md).
[[nodiscard]] PERFPRED_API std::string json_text(const Answer& answer);

}  // namespace perfpred
