// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/parallel_layout.h>
#include <perfpred/vocabulary.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

class OpGraph;
struct Workload;

/// The name of a network, with its sizes where it states some: `cifar_cnn:depth=3,base_filters=32`. A string that is
/// spelled by canonical_network() (network.h) when it is assigned: `ResNet18` becomes `resnet18`.
class PERFPRED_API NetworkName : public std::string {
 public:
  explicit NetworkName(std::string_view name);
  NetworkName& operator=(std::string_view name) { return *this = NetworkName(name); }

  /// What keys and tables call it: `cifar_cnn` for all of that family, whose depth and base_filters stand beside it;
  /// any other name whole.
  [[nodiscard]] std::string_view family() const;

 private:
  friend Workload;
  struct Canonical {};
  NetworkName(Canonical, const char* name) : std::string(name) {}  // which is not looked up
};

/// The name of a device. A string that is spelled by canonical_device() (device.h) when it is assigned: `Tesla T4`
/// becomes `T4`; an alias that several devices share and a name that the catalogue lacks stay as they are.
class PERFPRED_API DeviceName : public std::string {
 public:
  DeviceName() : std::string("unknown") {}
  explicit DeviceName(std::string_view name);
  DeviceName& operator=(std::string_view name) { return *this = DeviceName(name); }
};

/// The adapter that is trained in place of a network's own parameters, which are frozen: `lora:r=16,targets=all`; empty
/// if there is none. Kinds are `lora`, `dora`, `adalora`, `ia3` (without `r`) and `adapter` (two layers of `r` units
/// after attention and after the MLP: Houlsby et al. 2019, without targets), as peft and adapters make them; targets
/// `all` (projections of the blocks), `attention` (its four), or some of them, as `q+v`. A string that is spelled
/// canonically when it is assigned.
class PERFPRED_API AdapterName : public std::string {
 public:
  AdapterName() = default;
  explicit AdapterName(std::string_view name);
  AdapterName& operator=(std::string_view name) { return *this = AdapterName(name); }
};

/// Samples an epoch, and whether somebody stated them: a number that is assigned is stated.
class EpochSamples {
 public:
  constexpr EpochSamples(std::int64_t samples) : samples_(samples) {}
  /// What keys have where nobody said.
  [[nodiscard]] static constexpr EpochSamples unstated(std::int64_t samples) {
    EpochSamples made(samples);
    made.is_stated_ = false;
    return made;
  }

  constexpr operator std::int64_t() const { return samples_; }
  [[nodiscard]] constexpr bool is_stated() const { return is_stated_; }

 private:
  std::int64_t samples_;
  bool is_stated_ = true;
};

/// Of Workload::checkpoint. `selective` in texts: of the attention alone (Korthikanti et al. 2022).
inline constexpr std::int64_t selective_checkpoint = -1;
/// `op` in texts: of each block all but every second matrix product, the first one among them, and the fused attention
/// (torchtitan's mode selective with selective_ac_option op, distributed/activation_checkpoint.py).
inline constexpr std::int64_t op_checkpoint = -2;

/// What is trained: a network with its hyper-parameters, the batch, the data's shape and size, and how and where it
/// runs. A value type; two workloads are the same if and only if their keys are equal. By default the smallest
/// `cifar_cnn`.
struct PERFPRED_API Workload {
  NetworkName network = {NetworkName::Canonical{}, "cifar_cnn:depth=1,base_filters=1"};
  std::int64_t batch_size = 1;                    ///< images (or sequences) a step, >= 1
  std::vector<std::int64_t> input = {3, 32, 32};  ///< one sample: channels, height, width; or the sequence length;
                                                  ///< a batch has at most 2^56 elements
  std::int64_t classes = 10;                      ///< >= 2
  EpochSamples train_images = EpochSamples::unstated(50'000);  ///< >= 1
  Optimizer optimizer = Optimizer::adam;
  Precision precision = Precision::fp32;
  Layout layout = Layout::nchw;
  bool cuda_graph = false;
  DeviceName device;           ///< a name of the device catalogue, else what the driver or the kernel calls it
  std::optional<int> threads;  ///< CPU threads; empty on a GPU
  Attention attention = Attention::sdpa;                ///< `eager` only for networks that have attention
  OptimizerImpl optimizer_impl = OptimizerImpl::fused;  ///< `foreach` only for optimizers that have a fused kernel, too
  Weights weights = Weights::as_precision;
  AdapterName adapter;  ///< only for transformers; packed weights (nf4, int8, int4) need one
  /// Of a transformer, what the backward pass computes anew: every k-th block; 0: nothing; selective_checkpoint or
  /// op_checkpoint.
  std::int64_t checkpoint = 0;
  std::int64_t accumulate = 1;        ///< batches whose gradients one update uses, >= 1
  LossForm loss = LossForm::whole;    ///< `chunked` only for language models
  Padding padding = Padding::packed;  ///< `padded` only for networks of words
  bool compiled = false;              ///< by torch.compile: chains of elementwise operators are one kernel
  Software software = Software::pytorch;
  Loader loader = Loader::none;
  Phases phases = Phases::all;
  /// How several devices share it. Then batch_size is the micro-batch of a replica, and `accumulate` counts those of an
  /// update.
  ParallelLayout parallel;
  Placement gpus_per_node;  ///< where they are; not stated: as many devices as `parallel` has, eight on a node
  std::string cluster;      ///< of a table of links; empty: links of the device's usual node

  /// A member of the CIFAR-10 CNN family: `depth` blocks of two 3x3 convolutions (base_filters * 2^block channels),
  /// each with ReLU, then 2x2 max pooling; dense 128 with ReLU; dense 10.
  /// @throws InputError if depth, base_filters or batch is out of range
  [[nodiscard]] static Workload cifar_cnn(int depth, int base_filters, std::int64_t batch);

  /// Blocks, 1..5, of a `cifar_cnn:depth=3,base_filters=32`; empty for other networks, and while its name lacks them.
  [[nodiscard]] std::optional<int> depth() const;
  /// Channels of its first block, 1..65536.
  [[nodiscard]] std::optional<int> base_filters() const;

  /// A network of the zoo, or one whose name states its sizes, with the data that it is usually trained on
  /// (docs/networks.md): input (unless one is given), classes, and samples an epoch, which are not stated.
  /// @throws InputError for a name that is not known, or a batch or input out of range
  [[nodiscard]] static Workload zoo(std::string_view name, std::int64_t batch, std::vector<std::int64_t> input = {});

  /// This workload trained as `other` is: with its device, threads, precision, optimizer and its implementation,
  /// layout, attention and CUDA graph, weights, adapter and the fields after it.
  [[nodiscard]] Workload trained_like(const Workload& other) const;

  /// Trainable parameters.
  /// @throws InputError as validate(), for a network that is not known, one that the input does not fit, or one that is
  /// too large for any device
  [[nodiscard]] std::int64_t params() const;

  /// The operators of one training step (forward, loss, backward, optimizer; include op_graph.h) as the torch component
  /// executes them in the second or a later step (docs/guides/counting.md); of `phases=forward` those of a pass in
  /// evaluation mode. `compiled` and `software` matter where a device executes them (execute()), several devices do
  /// not: each replica has these operators. @throws InputError as params(), or for a network of a file whose graph is
  /// not known (add_graphs() in step_file.h) or is of another input, precision or attention. A captured step has its
  /// own input, classes and optimizer: those of the workload mean nothing
  [[nodiscard]] OpGraph graph() const;

  /// Whether an epoch has a time: its samples are stated, or those of the data that the network is usually trained on,
  /// which networks of sequences and captured steps do not have.
  [[nodiscard]] bool knows_epoch() const;

  /// ceil(train_images / samples of a step): batch_size, but for a captured step that accumulates several batches
  /// (StepFile::batches()), times `accumulate` and the replicas of `parallel`. @throws InputError for a batch_size
  /// below 1, and as StepFile for a captured step
  [[nodiscard]] std::int64_t steps_per_epoch() const;

  /// Canonical text, `network=...;depth=...;...;threads=...`: equal keys mean the same workload. The fields from
  /// `attention` on follow only where they differ from their default: `;attention=eager;compiled=1`.
  [[nodiscard]] std::string key() const;

  /// The workload that has this key; the names in it may have any spelling. @throws InputError if the text is not a key
  [[nodiscard]] static Workload from_key(std::string_view key);

  /// @throws InputError naming the field that is out of range, cannot stand in a key or is not UTF-8
  void validate() const;

  friend bool operator==(const Workload&, const Workload&) = default;
};

/// "3x32x32" <-> {3, 32, 32}. @throws InputError if the text is not positive integers joined by `x`
[[nodiscard]] PERFPRED_API std::vector<std::int64_t> parse_shape(std::string_view text);
[[nodiscard]] PERFPRED_API std::string shape_text(const std::vector<std::int64_t>& shape);  ///< inverse of parse_shape

/// A workload with one field, named as in keys and tables, replaced. Another network brings the input, classes and
/// samples an epoch that it is usually trained on; all of `cifar_cnn` count as one here, and its name alone leaves
/// depth and base_filters as they are. Set the network first.
/// @throws InputError if there is no such field, the network lacks it, the text is not a value of it or out of its
/// range, or the network is not known
[[nodiscard]] PERFPRED_API Workload with_field(Workload workload, std::string_view field, std::string_view text);

/// A field's value as text, as in keys and tables. @throws InputError if there is no such field
[[nodiscard]] PERFPRED_API std::string field_text(const Workload& workload, std::string_view field);

}  // namespace perfpred
