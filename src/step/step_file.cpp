// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "step/executed_op.h"
#include "step/op_rules.h"
#include "step/op_traits.h"
#include "step/step_dtypes.h"
#include "text/enum_names.h"
#include "text/file_hash.h"
#include "text/json.h"

namespace perfpred {
namespace {

using nlohmann::json;

constexpr std::int64_t max_size = Shape::max_numel;
constexpr std::int64_t max_batches = 1'000'000;

/// Sizes of a tensor's axes, or its strides, at the batch size of the file, and what each grows by with a sample.
struct Axes {
  std::vector<std::int64_t> values, growth;  // growth is empty where nothing grows

  [[nodiscard]] std::vector<std::int64_t> after(std::int64_t samples) const {
    std::vector<std::int64_t> grown = values;
    for (std::size_t axis = 0; axis < growth.size(); ++axis) {
      std::int64_t added = 0;
      if (__builtin_mul_overflow(growth[axis], samples, &added) ||
          __builtin_add_overflow(grown[axis], added, &grown[axis]) || grown[axis] > max_size) {
        throw InputError("a tensor is too large for any device");
      }
      if (grown[axis] < 0) throw InputError("the batch is too small for the captured step");
    }
    return grown;
  }
};

struct StepTensor {
  Axes sizes, strides;
  DataType type = DataType::f32;
  TensorRole role = TensorRole::activation;
  std::uint32_t storage = 0;
};

/// A number at the batch size of the file, and what it grows by with a sample.
struct Count {
  double value = 0, growth = 0;
};

struct StepOp {
  std::string name;       // without namespace and the underscore of in-place forms if it is LibTorch's
  std::string full_name;  // as it stands in the file
  OpKind kind = OpKind::unknown;
  Phase phase = Phase::forward;
  std::int32_t layer = -1;
  std::vector<std::uint32_t> inputs, outputs;  // indices of tensors; no_tensor among the outputs
  std::vector<std::uint32_t> frees;            // indices of storages
  bool free = false, transposed = false, causal = false;
  bool lists = false;  // one launch for lists of tensors
  std::optional<Count> flops, bytes;
};

/// A place in the file, for messages: `step.json: ops[3]: inputs`.
class Place {
 public:
  explicit Place(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] Place in(std::string_view key) const { return Place(fmt::format("{}: {}", text_, key)); }
  [[nodiscard]] Place at(std::string_view key, std::size_t index) const {
    return Place(fmt::format("{}: {}[{}]", text_, key, index));
  }
  [[noreturn]] void refuse(const std::string& what) const { throw InputError(fmt::format("{}: {}", text_, what)); }

 private:
  std::string text_;
};

std::int64_t integer(const json& value, const Place& place, std::int64_t least, std::int64_t most) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    place.refuse(fmt::format("{} is not an integer in {}..{}", shown(dumped(value)), least, most));
  }
  return value.get<std::int64_t>();
}

const json& member(const json& object, const char* key, const Place& place) {
  if (!object.is_object()) place.refuse("is not an object");
  const auto found = object.find(key);
  if (found == object.end()) place.refuse(fmt::format("{} is missing", key));
  return *found;
}

const json& list(const json& object, const char* key, const Place& place) {
  const json& value = member(object, key, place);
  if (!value.is_array()) place.in(key).refuse("is not a list");
  return value;
}

std::string text(const json& object, const char* key, const Place& place) {
  const json& value = member(object, key, place);
  if (!value.is_string()) place.in(key).refuse("is not text");
  return value.get<std::string>();
}

/// A list of texts that may be missing.
std::vector<std::string> texts(const json& object, const char* key, const Place& place) {
  if (!object.contains(key)) return {};
  std::vector<std::string> read;
  for (const json& value : list(object, key, place)) {
    if (!value.is_string()) place.in(key).refuse("holds what is not text");
    read.push_back(printable(value.get<std::string>()));
  }
  return read;
}

bool flag(const json& value, const Place& place) {
  if (!value.is_boolean()) place.refuse("is neither true nor false");
  return value.get<bool>();
}

/// The position of a field's word in a list.
template <class Words, class Projection = std::identity>
std::size_t position(const json& object, const char* key, const Place& place, const Words& words,
                     Projection projection = {}) {
  const std::string word = text(object, key, place);
  const auto found = std::ranges::find(words, word, projection);
  if (found == words.end()) place.in(key).refuse(fmt::format("\"{}\" is not known", shown(word)));
  return static_cast<std::size_t>(found - words.begin());
}

std::vector<std::int64_t> integers(const json& values, const Place& place, std::int64_t least) {
  std::vector<std::int64_t> read;
  for (const json& value : values) read.push_back(integer(value, place, least, max_size));
  return read;
}

Axes axes(const json& tensor, const char* key, const char* growth_key, const Place& place) {
  Axes read{integers(list(tensor, key, place), place.in(key), 0), {}};
  if (tensor.contains(growth_key)) {
    read.growth = integers(list(tensor, growth_key, place), place.in(growth_key), -max_size);
    if (read.growth.size() != read.values.size())
      place.in(growth_key).refuse(fmt::format("differs in length from {}", key));
  }
  return read;
}

/// A list of indices. @param none  whether null may stand for nothing
std::vector<std::uint32_t> indices(const json& op, const char* key, const Place& place, std::size_t count, bool none) {
  std::vector<std::uint32_t> read;
  const json& values = list(op, key, place);
  if (values.size() > std::numeric_limits<std::uint16_t>::max()) place.in(key).refuse("has more than 65535 elements");
  for (const json& value : values) {
    if (none && value.is_null()) {
      read.push_back(no_tensor);
      continue;
    }
    const std::int64_t index = integer(value, place.in(key), 0, no_tensor - 1);
    if (index >= static_cast<std::int64_t>(count)) place.in(key).refuse(fmt::format("there is no {}", index));
    read.push_back(static_cast<std::uint32_t>(index));
  }
  return read;
}

/// A count of an operator, if the file has it.
std::optional<Count> count(const json& op, const char* key, const char* growth_key, const Place& place) {
  if (!op.contains(key)) return std::nullopt;
  const auto number = [&](const char* name, double least) {
    const json& value = op[name];
    if (!value.is_number() || value.get<double>() < least || std::abs(value.get<double>()) > max_step_bytes * 1e12) {
      place.in(name).refuse("is not a number that an operator can have");
    }
    return value.get<double>();
  };
  return Count{number(key, 0), op.contains(growth_key) ? number(growth_key, -max_step_bytes * 1e12) : 0};
}

/// The kind of an operator: of LibTorch, of perfpred.capture, or of a user's library.
void classify(StepOp& op, bool pointwise) {
  std::string_view name = op.name;
  const bool known = name.starts_with("aten::") || name.starts_with("perfpred::");
  if (!known) return;
  name.remove_prefix(name.find("::") + 2);
  if (name.size() > 1 && name.ends_with('_')) name.remove_suffix(1);
  constexpr std::string_view foreach_prefix = "_foreach_";
  op.lists = name.starts_with(foreach_prefix);
  op.free = computes_nothing(name);
  op.kind = kind_of_name(op.lists ? name.substr(foreach_prefix.size()) : name);
  const bool arithmetic = traits_of(op.kind).family == OpFamily::arithmetic;
  if (op.lists && !arithmetic && op.kind != OpKind::copy && op.kind != OpKind::fill) op.kind = OpKind::other;
  if (op.kind == OpKind::unknown && pointwise) op.kind = OpKind::other;
  op.name = name;
}

}  // namespace

struct __attribute__((visibility("hidden"))) StepFile::Content {
  std::string path, name;
  std::int64_t batch_size = 0, batches = 1, accumulate = 1;
  std::optional<std::int64_t> other_batch_size;
  Precision precision = Precision::unknown;
  Layout layout = Layout::nchw;
  bool compiled = false;
  std::vector<std::string> layers, notes;
  std::vector<std::int64_t> storages;  // bytes at batch_size
  std::vector<StepTensor> tensors;
  std::vector<StepOp> ops;

  /// @param file  stands in front of messages
  Content(const std::string& file, const std::string& digits, const json& document)
      : path(file), name("step:" + digits) {
    const Place place(file);
    const json& format = member(document, "format", place);
    if (!format.is_number_integer() || format != 1) place.refuse("is not a step file of format 1");
    batch_size = integer(member(document, "batch_size", place), place.in("batch_size"), 1, max_size);
    if (document.contains("batches")) {
      batches = integer(document["batches"], place.in("batches"), 1, max_batches);
    }
    if (document.contains("accumulate")) {
      accumulate = integer(document["accumulate"], place.in("accumulate"), 1, max_batches);
    }
    if (document.contains("other_batch_size")) {
      other_batch_size = integer(document["other_batch_size"], place.in("other_batch_size"), 1, max_size);
    }
    const std::string word = text(document, "precision", place);
    try {
      precision = parse_precision(word);
    } catch (const InputError& error) {
      place.refuse(error.what());
    }
    compiled = document.contains("compiled") && flag(document["compiled"], place.in("compiled"));
    layers = texts(document, "layers", place);
    notes = texts(document, "notes", place);
    read_storages(list(document, "storages", place), place);
    const json& all_tensors = list(document, "tensors", place);
    for (std::size_t i = 0; i < all_tensors.size(); ++i) read_tensor(all_tensors[i], place.at("tensors", i));
    const json& all_ops = list(document, "ops", place);
    if (all_ops.empty()) place.in("ops").refuse("is empty");
    for (std::size_t i = 0; i < all_ops.size(); ++i) read_op(all_ops[i], place.at("ops", i));
    (void)graph(batch_size);  // finds what does not fit
    layout = layout_of_images();
  }

  /// That of most bytes of the images of several channels and pixels that convolutions read. Depthwise ones have
  /// kernels for either layout.
  [[nodiscard]] Layout layout_of_images() const {
    double channels_last = 0;  // bytes, less those of other images
    for (const StepOp& op : ops) {
      if (op.free || op.kind != OpKind::convolution || tensors[op.inputs[1]].sizes.values[1] == 1) continue;
      const StepTensor& image = tensors[op.inputs[0]];
      const std::vector<std::int64_t>& sizes = image.sizes.values;
      if (sizes.size() != 4 || sizes[1] == 1 || (sizes[2] == 1 && sizes[3] == 1)) continue;
      const Strided elements{sizes, image.strides.values};
      const double bytes = static_cast<double>(elements.numel()) * static_cast<double>(size_of(image.type));
      channels_last += image.strides.values[1] == 1 ? bytes : -bytes;
    }
    return channels_last > 0 ? Layout::nhwc : Layout::nchw;
  }

  void read_storages(const json& all, const Place& place) {
    double sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Place here = place.at("storages", i);
      storages.push_back(integer(member(all[i], "bytes", here), here.in("bytes"), 0, max_size * 8));
      sum += static_cast<double>(storages.back());
    }
    if (sum > max_step_bytes) place.in("storages").refuse("are together too large for any device");
  }

  void read_tensor(const json& from, const Place& place) {
    StepTensor tensor;
    tensor.sizes = axes(from, "sizes", "growth", place);
    tensor.strides = axes(from, "strides", "stride_growth", place);
    if (tensor.strides.values.size() != tensor.sizes.values.size()) place.refuse("has not as many strides as sizes");
    tensor.type =
        step_dtypes[position(from, "dtype", place, step_dtypes, &std::pair<std::string_view, DataType>::first)].second;
    tensor.role = static_cast<TensorRole>(position(from, "role", place, enumerator_names<TensorRole::temporary>));
    const std::int64_t storage = integer(member(from, "storage", place), place.in("storage"), 0, no_tensor - 1);
    if (storage >= static_cast<std::int64_t>(storages.size()))
      place.in("storage").refuse(fmt::format("there is no {}", storage));
    tensor.storage = static_cast<std::uint32_t>(storage);
    tensors.push_back(std::move(tensor));
  }

  void read_op(const json& from, const Place& place) {
    StepOp op;
    op.name = op.full_name = printable(text(from, "name", place));
    op.flops = count(from, "flops", "flops_growth", place);
    op.bytes = count(from, "bytes", "bytes_growth", place);
    op.phase = static_cast<Phase>(position(from, "phase", place, enumerator_names<Phase::optimizer>));
    op.inputs = indices(from, "inputs", place, tensors.size(), false);
    op.outputs = indices(from, "outputs", place, tensors.size(), true);
    if (from.contains("frees")) op.frees = indices(from, "frees", place, storages.size(), false);
    if (from.contains("layer")) {
      op.layer = static_cast<std::int32_t>(
          integer(from["layer"], place.in("layer"), -1, std::numeric_limits<std::int32_t>::max()));
      if (op.layer >= static_cast<std::int64_t>(layers.size()))
        place.in("layer").refuse(fmt::format("there is no {}", op.layer));
    }
    bool pointwise = false;
    if (from.contains("args")) {
      const json& args = from["args"];
      if (!args.is_object()) place.in("args").refuse("is not an object");
      for (const auto& [key, value] : {std::pair("transposed", &op.transposed), std::pair("causal", &op.causal),
                                       std::pair("pointwise", &pointwise)}) {
        const auto found = args.find(key);
        if (found == args.end()) continue;
        *value = flag(*found, place.in("args").in(key));
      }
    }
    classify(op, pointwise);
    if (op.kind == OpKind::unknown && op.flops) op.kind = OpKind::custom;
    ops.push_back(std::move(op));
  }

  class GraphBuilder;
  [[nodiscard]] OpGraph graph(std::int64_t batch) const;

  [[nodiscard]] double at_batch(const Count& count, std::int64_t batch) const {
    const double value = count.value + count.growth * static_cast<double>(batch - batch_size);
    if (value < 0) throw InputError("the batch is too small for the captured step");
    return value;
  }
};

namespace {

/// Bytes between a tensor's first element and the end of its last.
double extent(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides, DataType type) {
  double elements = 1;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 0) return 0;
    elements += static_cast<double>(sizes[axis] - 1) * static_cast<double>(strides[axis]);
  }
  return elements * static_cast<double>(size_of(type));
}

/// One FLOP for each element of the lists that one launch goes through, if the operator computes.
double list_flops(const OpGraph& graph, OpKind kind, std::span<const TensorId> in, std::span<const TensorId> out) {
  if (kind == OpKind::copy || kind == OpKind::fill) return 0;
  double flops = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int64_t elements = out[i] != no_tensor ? graph.numel(out[i]) : 0;
    if (i < in.size()) elements = std::max(elements, graph.numel(in[i]));
    flops += static_cast<double>(elements);
  }
  return flops;
}

}  // namespace

/// A file's step as a graph, at one batch size: its storages, the tensors that own them, all tensors, the operators.
class StepFile::Content::GraphBuilder {
 public:
  GraphBuilder(const Content& file, std::int64_t batch) : file_(file), place_(file.path), batch_(batch) {
    graph_.reserve(file.layers.size(), file.ops.size(), file.tensors.size());
    for (const std::string& layer : file.layers) graph_.add_layer(layer);
    for (const StepTensor& tensor : file.tensors) {
      sizes_.push_back(tensor.sizes.after(batch - file.batch_size));
      strides_.push_back(tensor.strides.after(batch - file.batch_size));
    }
    add_tensors(storage_bytes());
    for (std::size_t i = 0; i < file.ops.size(); ++i) {
      if (!file.ops[i].free) add_op(i);
      free_after(file.ops[i]);
    }
    graph_.set_layout(file.layout);
    graph_.set_repeats(file.accumulate);
  }

  [[nodiscard]] OpGraph take() { return std::move(graph_); }

 private:
  [[nodiscard]] Strided strided(std::uint32_t i) const {
    return i == no_tensor ? Strided() : Strided{sizes_[i], strides_[i]};
  }
  [[nodiscard]] std::vector<Strided> strided(const std::vector<std::uint32_t>& numbers) const {
    std::vector<Strided> all;
    for (const std::uint32_t tensor : numbers) all.push_back(strided(tensor));
    return all;
  }
  [[nodiscard]] std::vector<TensorId> ids(const std::vector<std::uint32_t>& numbers) const {
    std::vector<TensorId> all;
    for (const std::uint32_t tensor : numbers) all.push_back(tensor == no_tensor ? no_tensor : ids_[tensor]);
    return all;
  }

  /// Bytes at this batch size: a storage grows as much as what its tensors reach.
  [[nodiscard]] std::vector<double> storage_bytes() const {
    std::vector<double> bytes(file_.storages.begin(), file_.storages.end());
    std::vector<double> now(bytes.size()), then(bytes.size());
    for (std::size_t i = 0; i < file_.tensors.size(); ++i) {
      const StepTensor& tensor = file_.tensors[i];
      const std::size_t s = tensor.storage;
      now[s] = std::max(now[s], extent(sizes_[i], strides_[i], tensor.type));
      then[s] = std::max(then[s], extent(tensor.sizes.values, tensor.strides.values, tensor.type));
    }
    double sum = 0;
    for (std::size_t s = 0; s < bytes.size(); ++s) {
      if (then[s] > 0) bytes[s] *= now[s] / then[s];
      sum += bytes[s];
    }
    if (sum > max_step_bytes) place_.refuse("is together too large for any device");
    return bytes;
  }

  /// Of each storage the first tensor that fills it, which owns it; no_tensor where none does.
  [[nodiscard]] std::vector<std::uint32_t> filling_tensors(const std::vector<double>& bytes) const {
    std::vector<std::uint32_t> filling(bytes.size(), no_tensor);
    for (std::uint32_t i = 0; i < file_.tensors.size(); ++i) {
      const StepTensor& tensor = file_.tensors[i];
      const std::int64_t numel = strided(i).numel();
      const double own = static_cast<double>(numel) * static_cast<double>(size_of(tensor.type));
      const bool fills = std::abs(own - bytes[tensor.storage]) < 0.5 && strided(i).stored().numel() == numel;
      if (fills && filling[tensor.storage] == no_tensor) filling[tensor.storage] = i;
    }
    return filling;
  }

  /// Adds owners, each before the first tensor of its storage, and views of them. Where no tensor fills a storage, one
  /// that no operator names owns it.
  void add_tensors(const std::vector<double>& bytes) {
    const std::vector<std::uint32_t> filling = filling_tensors(bytes);
    owners_.assign(bytes.size(), no_tensor);
    ids_.assign(file_.tensors.size(), no_tensor);
    for (std::uint32_t i = 0; i < file_.tensors.size(); ++i) {
      const StepTensor& tensor = file_.tensors[i];
      TensorId& owner = owners_[tensor.storage];
      const std::uint32_t whole = filling[tensor.storage];
      if (owner == no_tensor && whole != no_tensor) {
        owner = ids_[whole] = graph_.add_tensor(strided(whole).stored(), file_.tensors[whole].type, tensor.role);
      } else if (owner == no_tensor) {
        const double elements = bytes[tensor.storage] / static_cast<double>(size_of(tensor.type));
        owner = graph_.add_tensor(Shape({static_cast<std::int64_t>(elements)}), tensor.type, tensor.role);
      }
      if (ids_[i] == no_tensor) ids_[i] = graph_.add_view(owner, strided(i).stored(), tensor.type);
    }
  }

  /// Refuses an operator after which the step moves more than can be counted, or that lacks its kind's operands.
  void check(std::size_t index, const std::vector<TensorId>& in, const std::vector<TensorId>& out) {
    const StepOp& op = file_.ops[index];
    const double times = op.phase == Phase::optimizer ? 1 : static_cast<double>(file_.accumulate);
    for (const auto* operands : {&in, &out}) {
      for (const TensorId id : *operands) moved_ += id == no_tensor ? 0 : times * static_cast<double>(graph_.bytes(id));
    }
    if (moved_ > max_step_bytes) place_.refuse("moves more bytes than can be counted");
    if (!traits_of(op.kind).rule.fits({graph_, in, out})) {
      place_.at("ops", index).refuse(fmt::format("has not the operands of {}", shown(op.name)));
    }
  }

  void add_op(std::size_t index) {
    const StepOp& op = file_.ops[index];
    const std::vector<TensorId> in = ids(op.inputs), out = ids(op.outputs);
    check(index, in, out);
    Op& added = graph_.add_op(op.kind, op.phase, op.layer, in, out, op.transposed, op.causal);
    if (op.lists) {
      added.flops = list_flops(graph_, op.kind, in, out);
    } else if (is_conv_or_matmul(op.kind)) {
      added.flops *= repetitions(op.kind, strided(op.inputs), strided(op.outputs), op.transposed);
    }
    if (op.kind == OpKind::unknown || op.kind == OpKind::custom) {
      if (const auto rule = registered_rule(op.full_name)) count_by(*rule, graph_, added, op.causal);
    }
    if (op.flops) added.flops = file_.at_batch(*op.flops, batch_);
    if (op.bytes) set_bytes(added, file_.at_batch(*op.bytes, batch_));
    const bool is_other_random = op.kind == OpKind::bernoulli && op.name != to_string(op.kind);  // as randn
    if (op.lists || is_other_random || traits_of(op.kind).family == OpFamily::unnamed) name(added, op.name);
  }

  void name(Op& op, const std::string& name) {
    const auto [known, is_new] = names_.try_emplace(name, static_cast<std::int32_t>(names_.size()));
    op.name = known->second;
    if (is_new) graph_.add_op_name(name);
  }

  /// Frees what the file says after the last operator that was added.
  void free_after(const StepOp& op) {
    const std::size_t after = graph_.ops().empty() ? 0 : graph_.ops().size() - 1;
    for (const std::uint32_t storage : op.frees) {
      if (owners_[storage] != no_tensor) graph_.set_freed_after(owners_[storage], after);
    }
  }

  const Content& file_;
  Place place_;
  std::int64_t batch_;
  OpGraph graph_;
  std::vector<std::vector<std::int64_t>> sizes_, strides_;  // by index of tensor
  std::vector<TensorId> owners_, ids_;                      // by index of storage, of tensor
  std::unordered_map<std::string_view, std::int32_t> names_;
  double moved_ = 0;  // bytes, those of repeated batches included
};

OpGraph StepFile::Content::graph(std::int64_t batch) const {
  if (batch < 1) throw InputError(fmt::format("batch size {} is not positive", batch));
  if (batch != batch_size && !other_batch_size) {
    Place(path).refuse(
        fmt::format("was captured at batch size {}, not {}; perfpred.combine() joins captures of two sizes, "
                    "which answer for all",
                    batch_size, batch));
  }
  return GraphBuilder(*this, batch).take();
}

StepFile::StepFile(const std::string& path) {
  const std::string digits = file_hash(path);  // first: it says of a missing file that it cannot be read
  content_ = std::make_shared<const Content>(path, digits, read_json<json>(path));
}

StepFile::StepFile(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

StepFile StepFile::from_text(std::string_view text) {
  const std::string place = "step";
  return StepFile(std::make_shared<const Content>(place, text_hash(text), read_json_text<json>(text, place)));
}

const std::string& StepFile::name() const { return content_->name; }
std::int64_t StepFile::batch_size() const { return content_->batch_size; }
std::int64_t StepFile::batches() const { return content_->batches * content_->accumulate; }
Precision StepFile::precision() const { return content_->precision; }
Layout StepFile::layout() const { return content_->layout; }
bool StepFile::compiled() const { return content_->compiled; }
const std::vector<std::string>& StepFile::notes() const { return content_->notes; }

std::vector<std::int64_t> StepFile::sample() const {
  for (const StepTensor& tensor : content_->tensors) {
    const std::vector<std::int64_t>& sizes = tensor.sizes.values;
    if (tensor.role == TensorRole::input && !sizes.empty()) return {sizes.begin() + 1, sizes.end()};
  }
  return {};
}

std::int64_t StepFile::positions() const {
  for (const StepOp& op : content_->ops) {
    if (op.free || op.kind != OpKind::embedding || op.inputs.size() < 2) continue;
    const StepTensor& words = content_->tensors[op.inputs[1]];
    const std::vector<std::int64_t>& sizes = words.sizes.values;
    if (sizes.size() == 2 && sizes[0] == content_->batch_size && sizes[1] > 1) return sizes[1];
  }
  return 0;
}

OpGraph StepFile::graph(std::int64_t batch_size) const { return content_->graph(batch_size); }

}  // namespace perfpred
