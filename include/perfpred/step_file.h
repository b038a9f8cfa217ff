// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// A step that `perfpred.capture` recorded in Python (docs/guides/capture.md). Immutable; copies share what was read.
class PERFPRED_API StepFile {
 public:
  /// @throws InputError naming the file and the operator or tensor that is wrong
  explicit StepFile(const std::string& path);

  /// The step of a file that holds this text. @param place  what messages call it @throws InputError as above
  [[nodiscard]] static StepFile from_text(std::string_view text, const std::string& place = "step");

  [[nodiscard]] const std::string& name() const;  ///< `step:` and the first 12 hexadecimal digits of its SHA-256
  [[nodiscard]] std::int64_t batch_size() const;  ///< of the step that was captured
  [[nodiscard]] std::int64_t batches() const;     ///< of batch_size, whose gradients the step accumulates; >= 1
  [[nodiscard]] Precision precision() const;
  [[nodiscard]] Layout layout() const;  ///< of most bytes of what 2-D convolutions read
  [[nodiscard]] bool compiled() const;  ///< the program compiles its network (torch.compile)
  /// What whoever reads an answer should know: that communication is missing, say.
  [[nodiscard]] const std::vector<std::string>& notes() const;
  [[nodiscard]] std::vector<std::int64_t> sample() const;  ///< sizes of its first input, without the batch; or empty

  /// Of a sample: those of the integers [batch, positions] that its first embedding is of; 0 without one.
  [[nodiscard]] std::int64_t positions() const;

  /// The step with a batch of this size.
  /// @throws InputError for another size than batch_size() if only that was captured, and as add_tensor() does
  [[nodiscard]] OpGraph graph(std::int64_t batch_size) const;

 private:
  struct Content;
  explicit StepFile(std::shared_ptr<const Content> content);
  std::shared_ptr<const Content> content_;
};

/// Writes a step file, from which StepFile::graph() gives the same step again, its operators, tensors and counts.
/// @param batch_sizes  one, or two different ones, whose steps say those of all others
/// @param step         gives the step of a batch of this size
/// @throws InputError if the two steps differ in more than sizes that are linear in the batch, or if no file can be
///                    made there; Error if writing fails
PERFPRED_API void write_step(const std::string& path, Precision precision, const std::vector<std::int64_t>& batch_sizes,
                             const std::function<OpGraph(std::int64_t batch)>& step);

/// Makes the step files of a folder known to Workload::graph(): `<digits>.json`, which must have these digits, for the
/// network `step:<digits>`. Folders are looked through in the order in which they were added; a file is read when it is
/// first needed. A file in place of a folder: add_graph().
/// @throws InputError if there is no such folder, and as add_graph()
PERFPRED_API void add_graphs(const std::string& folder);

/// Makes one step file known under its name. @throws InputError as StepFile does
PERFPRED_API StepFile add_graph(const std::string& path);

/// The same of a file's text. The texts that were used last stay known, 100 MB of them. @throws InputError as
/// StepFile::from_text()
PERFPRED_API StepFile add_graph_text(std::string_view text);

}  // namespace perfpred
