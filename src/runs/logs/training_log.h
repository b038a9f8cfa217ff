// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run.h>
#include <perfpred/training_log.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// What a log of other software says of its run; what it does not say is empty.
struct TrainingLog {
  std::map<std::string, std::string, std::less<>> fields = {};  ///< of its workload: columns of runs.csv, texts
  std::string framework, timestamp_utc = {};
  int epochs = 0;
  std::vector<double> epoch_times = {};        ///< seconds of every epoch, in order
  std::optional<double> step_sec = {};         ///< of one update of the parameters, where the log times steps,
  std::optional<double> batch_sec = {};        ///< or of one batch
  std::optional<double> step_samples = {};     ///< of one update, on all devices
  std::optional<double> step_tokens = {};      ///< the same in tokens
  std::optional<double> data_wait_share = {};  ///< of the time, in which the program waited for its loader
  std::optional<double> test_acc = {};         ///< as logged last
  Outcome outcome = Outcome::ok;
  std::string note = {};
};

/// The beginning of a file.
struct LogHead {
  std::string_view bytes;
  std::vector<std::string> columns;  ///< of its first line as a line of CSV, without blanks at their ends

  [[nodiscard]] bool has_columns(std::initializer_list<std::string_view> names) const;
};

/// A format of logs. Its reader is in a source of its own.
struct LogFormat {
  std::string_view name;
  bool (*recognises)(const LogHead& head);
  /// @throws InputError for a file that is damaged or does not say how long training took
  TrainingLog (*read)(const std::string& path, const RunFacts& facts);
};

extern const LogFormat event_file_format, fastai_format, keras_format, lightning_format, llama_factory_format,
    megatron_format, mlperf_format, nanogpt_format, timm_format, torchtune_format, trainer_state_format,
    ultralytics_format, wandb_lines_format, wandb_table_format;

/// Whether somebody gave this field of the workload.
[[nodiscard]] bool is_given(const RunFacts& facts, std::string_view name);

/// A point in a log.
struct LoggedPoint {
  double step = 0;  ///< updates of the parameters until then
  double sec = 0;   ///< since any moment
};

/// Median, over neighbouring points, of the seconds of a step: evaluations and the start lengthen few of them.
/// @throws InputError, which begins with `where`, for fewer than three points, or where steps or time do not grow
[[nodiscard]] double median_step_sec(const std::vector<LoggedPoint>& points, std::string_view where);

/// The same for points of which some may have the step of the one before, such as that of an evaluation, and whose
/// times may be whole seconds: then only points so far apart count that this decides less than 2 %.
[[nodiscard]] double median_logged_sec(const std::vector<LoggedPoint>& points, std::string_view where);

/// Whether values of this name are accuracies on data that is not trained on: `val_accuracy`, `test_acc`,
/// `eval/accuracy`.
[[nodiscard]] bool is_test_accuracy(std::string_view name);

/// 2026-01-31T12:00:00.250Z, before 1970, too; empty outside the years 1 to 9999
[[nodiscard]] std::string utc_text(double unix_sec);

}  // namespace perfpred
