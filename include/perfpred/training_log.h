// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perfpred {

/// What is known of a run besides what its log says.
struct RunFacts {
  /// Of its workload: columns of runs.csv and their texts. A network of your own needs input and classes, too.
  std::vector<std::pair<std::string, std::string>> fields;
  std::optional<std::int64_t> params;  ///< of a network of your own
  std::string env;
  /// What the steps of a TensorBoard file count, where it does not say: training steps, or epochs.
  std::optional<Timing> counted;
  /// Of a step, those that count in its loss, on one device: torchtune logs their rate alone. > 0
  std::optional<double> step_tokens;
  /// Only a step is asked for: where a log times steps and nobody says how many samples an epoch has, it has one step.
  bool of_step = false;
};

/// The run whose log other software wrote: MLPerf's MLLOG, trainer_state.json of Hugging Face, TensorBoard event files,
/// histories of W&B, tables of Keras, Lightning, Ultralytics and fastai, trainer_log.jsonl of LLaMA-Factory, what
/// nanoGPT, Megatron-LM, timm and torchtune print (docs/guides/aggregating.md says what each of them knows). The format
/// is found by content. What the log does not say is empty; its workload comes from `facts` as well.
/// @throws InputError for a file that has another format or is damaged, that does not say how long training took, or
/// whose run would not be one that read_runs() accepts; a field that neither side has, or in which they differ, is
/// named
[[nodiscard]] PERFPRED_API Run read_training_log(const std::string& path, const RunFacts& facts = {});

/// The names of these formats, for messages: "MLPerf, ...".
[[nodiscard]] PERFPRED_API std::string training_log_formats();

}  // namespace perfpred
