// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/vocabulary.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

class OpGraph;

/// What is trained: a network with its hyper-parameters, the batch, the data's shape and size, and how and where it
/// runs. A value type; two workloads are the same if their keys are equal.
struct PERFPRED_API Workload {
  std::string network = "cifar_cnn";
  std::optional<int> depth;                       ///< blocks, 1..5; of `cifar_cnn` only
  std::optional<int> base_filters;                ///< channels of the first block, 1..65536; of `cifar_cnn` only
  std::int64_t batch_size = 1;                    ///< images (or sequences) a step, >= 1
  std::vector<std::int64_t> input = {3, 32, 32};  ///< one sample: channels, height, width; or the sequence length
  std::int64_t classes = 10;                      ///< >= 2
  std::int64_t train_images = 50'000;             ///< samples an epoch, >= 1
  Optimizer optimizer = Optimizer::adam;
  Precision precision = Precision::fp32;
  Layout layout = Layout::nchw;
  bool cuda_graph = false;
  std::string device = "unknown";  ///< a name of the device catalogue, else what the driver or the kernel calls it
  std::optional<int> threads;      ///< CPU threads; empty on a GPU

  /// A member of the CIFAR-10 CNN family: `depth` blocks of two 3x3 convolutions (base_filters * 2^block channels),
  /// each with ReLU, then 2x2 max pooling; dense 128 with ReLU; dense 10.
  /// @throws InputError if depth, base_filters or batch is out of range
  [[nodiscard]] static Workload cifar_cnn(int depth, int base_filters, std::int64_t batch);

  /// A network of the zoo, or a `transformer:...`, with its usual input (docs/networks.md) unless one is given, and its
  /// usual number of classes.
  /// @throws InputError for a name that is not known, or a batch or input out of range
  [[nodiscard]] static Workload zoo(std::string_view name, std::int64_t batch, std::vector<std::int64_t> input = {});

  /// Trainable parameters. @throws InputError for a network that is not known or whose input does not fit
  [[nodiscard]] std::int64_t params() const;

  /// One training step (include op_graph.h). @throws InputError as params() does
  [[nodiscard]] OpGraph graph() const;

  /// ceil(train_images / batch_size)
  [[nodiscard]] std::int64_t steps_per_epoch() const;

  /// Canonical text, `network=...;depth=...;...;threads=...`: equal keys mean the same workload.
  [[nodiscard]] std::string key() const;

  /// The workload that has this key. @throws InputError if the text is not a key
  [[nodiscard]] static Workload from_key(std::string_view key);

  /// @throws InputError naming the field that is out of range, cannot stand in a key or is no UTF-8
  void validate() const;

  friend bool operator==(const Workload&, const Workload&) = default;
};

/// The workloads of a configs.csv or grid.csv: any fields as columns, the others from `defaults`.
/// @throws InputError with file and line for a row that is no workload
[[nodiscard]] PERFPRED_API std::vector<Workload> read_workloads(const std::string& path, const Workload& defaults);

/// "3x32x32" <-> {3, 32, 32}. @throws InputError if the text is not positive integers joined by `x`
[[nodiscard]] PERFPRED_API std::vector<std::int64_t> parse_shape(std::string_view text);
[[nodiscard]] PERFPRED_API std::string shape_text(const std::vector<std::int64_t>& shape);  ///< inverse of parse_shape

/// A workload with one field, named as in keys and tables, replaced.
/// @throws InputError if there is no such field or the text is no value of it
[[nodiscard]] PERFPRED_API Workload with_field(Workload workload, std::string_view field, std::string_view text);

/// The field's text as keys and tables have it. @throws InputError if there is no such field
[[nodiscard]] PERFPRED_API std::string field_text(const Workload& workload, std::string_view field);

}  // namespace perfpred
