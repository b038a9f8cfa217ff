// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "step/step_dtypes.h"
#include "text/enum_names.h"
#include "text/files.h"
#include "text/json.h"

namespace perfpred {
namespace {

using nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& what) {
  throw InputError(fmt::format("the steps of the two batch sizes differ in {}", what));
}

/// A network's step at one batch size, or at two: how they differ says what grows with each sample.
class StepPair {
 public:
  /// @param samples  by how much the second batch is larger
  StepPair(const OpGraph& first, const OpGraph& second, std::int64_t samples)
      : first_(first), second_(second), samples_(samples) {
    if (first_.tensors().size() != second_.tensors().size()) refuse("their tensors");
    if (first_.ops().size() != second_.ops().size()) refuse("their operators");
  }

  [[nodiscard]] ordered_json tensors() const {
    ordered_json all = ordered_json::array();
    for (TensorId id = 0; id < first_.tensors().size(); ++id) {
      const Tensor& tensor = first_.tensors()[id];
      const Tensor& owner = first_.tensors()[tensor.storage];
      const Tensor& later = second_.tensors()[id];
      if (tensor.type != later.type || tensor.storage != later.storage || tensor.role != later.role)
        refuse(fmt::format("tensor {}", id));
      const Shape &shape = first_.shape(id), &other = second_.shape(id);
      if (shape.rank() != other.rank()) refuse(fmt::format("the rank of tensor {}", id));
      const std::vector<std::int64_t> sizes(shape.begin(), shape.end()), sizes_later(other.begin(), other.end());
      const std::vector<std::int64_t> strides = packed(shape), strides_later = packed(other);
      ordered_json written = {{"sizes", sizes}, {"strides", strides}};
      add_growth(written, "growth", sizes, sizes_later);
      add_growth(written, "stride_growth", strides, strides_later);
      written["dtype"] = dtype_of(tensor.type);
      written["storage"] = tensor.storage;
      written["role"] = enumerator_name_of<TensorRole::temporary>(owner.role);
      all.push_back(std::move(written));
    }
    return all;
  }

  /// One for each tensor, with its number; those of views are empty.
  [[nodiscard]] ordered_json storages() const {
    ordered_json all = ordered_json::array();
    for (TensorId id = 0; id < first_.tensors().size(); ++id) {
      all.push_back({{"bytes", first_.tensors()[id].storage == id ? first_.bytes(id) : 0}});
    }
    return all;
  }

  [[nodiscard]] ordered_json ops() const {
    ordered_json all = ordered_json::array();
    OpGraph plain = first_.without_ops(),
            plain_later = second_.without_ops();  // whose new operators count by their operands alone
    std::size_t next_free = 0;
    for (std::size_t i = 0; i < first_.ops().size(); ++i) {
      const Op &op = first_.ops()[i], &later = second_.ops()[i];
      if (!are_alike(op, later)) refuse(fmt::format("operator {}, {}", i, first_.name(op)));
      ordered_json written = {{"name", file_name(op)},
                              {"inputs", first_.inputs(op)},
                              {"outputs", ordered_json::array()},
                              {"phase", to_string(op.phase)}};
      for (const TensorId id : first_.outputs(op)) {
        written["outputs"].push_back(id == no_tensor ? ordered_json() : ordered_json(id));
      }
      if (op.layer >= 0) written["layer"] = op.layer;
      if (op.kind == OpKind::other) written["args"] = {{"pointwise", true}};
      if (op.transposed) written["args"] = {{"transposed", true}};
      add_counts(written, op, later, {recounted(plain, first_, op), recounted(plain_later, second_, later)});
      for (; next_free < first_.frees().size() && first_.frees()[next_free].first == i; ++next_free) {
        written["frees"].push_back(first_.frees()[next_free].second);
      }
      all.push_back(std::move(written));
    }
    return all;
  }

 private:
  static std::vector<std::int64_t> packed(const Shape& shape) {
    std::vector<std::int64_t> strides(shape.rank());
    std::int64_t stride = 1;
    for (std::size_t axis = shape.rank(); axis-- > 0; stride *= std::max<std::int64_t>(shape[axis], 1)) {
      strides[axis] = stride;
    }
    return strides;
  }

  void add_growth(ordered_json& tensor, const char* key, const std::vector<std::int64_t>& values,
                  const std::vector<std::int64_t>& later) const {
    if (values == later) return;
    ordered_json growth = ordered_json::array();
    for (std::size_t axis = 0; axis < values.size(); ++axis) {
      const std::int64_t grown = later[axis] - values[axis];
      if (grown % samples_ != 0) refuse("a size that is not linear in the batch");
      growth.push_back(grown / samples_);
    }
    tensor[key] = std::move(growth);
  }

  [[nodiscard]] bool are_alike(const Op& op, const Op& later) const {
    return op.kind == later.kind && op.phase == later.phase && first_.name(op) == second_.name(later) &&
           std::ranges::equal(first_.inputs(op), second_.inputs(later)) &&
           std::ranges::equal(first_.outputs(op), second_.outputs(later));
  }

  static const Op& recounted(OpGraph& to, const OpGraph& from, const Op& op) {
    return to.add_op(op.kind, op.phase, op.layer, from.inputs(op), from.outputs(op), op.transposed);
  }

  /// The counts that a reader would not have by itself. @param usual  what it counts for the two
  void add_counts(ordered_json& written, const Op& op, const Op& later,
                  const std::pair<const Op&, const Op&>& usual) const {
    // A reader knows `custom` by its FLOPs, and counts lists in another way.
    const bool always = op.kind == OpKind::custom || (op.name >= 0 && is_conv_or_matmul(op.kind)) ||
                        first_.name(op).starts_with("_foreach_");
    if (always || op.flops != usual.first.flops || later.flops != usual.second.flops)
      add_count(written, "flops", op.flops, later.flops);
    if (bytes(op) != bytes(usual.first) || bytes(later) != bytes(usual.second))
      add_count(written, "bytes", bytes(op), bytes(later));
  }

  static double bytes(const Op& op) { return static_cast<double>(op.bytes_read + op.bytes_written); }

  void add_count(ordered_json& op, const std::string& key, double value, double later) const {
    op[key] = value;
    if (later != value) op[key + "_growth"] = (later - value) / static_cast<double>(samples_);
  }

  /// LibTorch's operators have names of their kind; those of other libraries have their namespace.
  [[nodiscard]] std::string file_name(const Op& op) const {
    const std::string name(first_.name(op));
    return name.find("::") == std::string::npos ? "aten::" + name : name;
  }

  const OpGraph &first_, &second_;
  std::int64_t samples_;
};

}  // namespace

void write_step(const std::string& path, Precision precision, const std::vector<std::int64_t>& batch_sizes,
                const std::function<OpGraph(std::int64_t batch)>& step) {
  if (!step) throw InputError("write_step: the function is empty");
  if (batch_sizes.empty() || batch_sizes.size() > 2) throw InputError("a step file is written from one step or two");
  const std::int64_t batch = batch_sizes.front(), other = batch_sizes.back();
  if (batch_sizes.size() == 2 && batch == other) throw InputError("the two steps have the same batch size");
  std::vector<OpGraph> steps;
  for (const std::int64_t size : batch_sizes) steps.push_back(step(size));
  const StepPair pair(steps.front(), steps.back(), other - batch);
  ordered_json file = {{"format", 1}, {"precision", to_string(precision)}, {"batch_size", batch}};
  if (batch_sizes.size() == 2) file["other_batch_size"] = other;
  file["layers"] = steps.front().layer_names();
  file["storages"] = pair.storages();
  file["tensors"] = pair.tensors();
  file["ops"] = pair.ops();
  write_file(path, dumped(file));
}

}  // namespace perfpred
