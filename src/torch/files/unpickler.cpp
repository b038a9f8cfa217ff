// SPDX-License-Identifier: Apache-2.0
#include "torch/files/unpickler.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "torch/files/pickle.h"

namespace perfpred {
namespace {

constexpr int deepest_pickle = 4;                     // of dictionaries in dictionaries; one may hold itself
constexpr std::int64_t most_read_values = 1'000'000;  // that are kept, each as often as it is met

struct StorageType {
  const char* storage;
  at::ScalarType type;
};
constexpr StorageType storage_types[] = {{"torch.FloatStorage", at::kFloat}, {"torch.DoubleStorage", at::kDouble},
                                         {"torch.HalfStorage", at::kHalf},   {"torch.BFloat16Storage", at::kBFloat16},
                                         {"torch.LongStorage", at::kLong},   {"torch.IntStorage", at::kInt},
                                         {"torch.ShortStorage", at::kShort}, {"torch.CharStorage", at::kChar},
                                         {"torch.ByteStorage", at::kByte},   {"torch.BoolStorage", at::kBool}};

/// Finds tensors in the values of a pickle.
class Reader {
 public:
  explicit Reader(TorchArchive& file) : file_(file) {}

  /// @param depth  of dictionaries that are followed
  SavedValue saved(const PickleValue& value, int depth) {
    if (--left_ < 0) throw InputError("its pickle repeats its values without end");
    switch (value.kind) {
      case PickleValue::text:
        return {std::string(value.bytes)};
      case PickleValue::dictionary:
        if (depth > 0) return dictionary(value, depth);
        break;
      case PickleValue::number:
        return {SavedValue::Other{"a number"}};
      case PickleValue::sequence:
        return {SavedValue::Other{"a list"}};
      case PickleValue::none:
        return {SavedValue::Other{"None"}};
      case PickleValue::global:
        return {SavedValue::Other{"an object of " + value.name}};
      case PickleValue::call:
        return called(value, depth);
      default:
        break;
    }
    return {SavedValue::Other{"something else"}};
  }

 private:
  [[noreturn]] static void damaged() { throw InputError("its pickle is damaged"); }

  SavedValue dictionary(const PickleValue& value, int depth) {
    SavedValue::Dictionary items;
    for (std::size_t i = 0; i < value.parts.size(); i += 2) {
      const PickleValue& key = *value.parts[i];
      if (key.kind == PickleValue::text)
        items.push_back({std::string(key.bytes), saved(*value.parts[i + 1], depth - 1)});
    }
    return {std::move(items)};
  }

  SavedValue called(const PickleValue& call, int depth) {
    const PickleValue& arguments = *call.parts.front();
    if (call.name == "torch._utils._rebuild_tensor_v2") return {tensor(arguments)};
    if (call.name == "torch._utils._rebuild_parameter") {
      return {tensor(*part(arguments, 0, PickleValue::call).parts.front())};
    }
    if (call.name == "torch.jit._pickle.restore_type_tag") {
      return saved(part(arguments, 0, PickleValue::dictionary), depth);
    }
    return {SavedValue::Other{"an object of " + call.name}};
  }

  /// @param arguments  of torch._utils._rebuild_tensor_v2
  at::Tensor tensor(const PickleValue& arguments) {
    return view(storage(part(arguments, 0, PickleValue::persistent)), part(arguments, 1, PickleValue::number).integer,
                integers(part(arguments, 2, PickleValue::sequence)),
                integers(part(arguments, 3, PickleValue::sequence)));
  }

  static const PickleValue& part(const PickleValue& tuple, std::size_t index, PickleValue::Kind kind) {
    if (tuple.kind != PickleValue::sequence || index >= tuple.parts.size() || tuple.parts[index]->kind != kind) {
      damaged();
    }
    return *tuple.parts[index];
  }

  static std::vector<std::int64_t> integers(const PickleValue& tuple) {
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < tuple.parts.size(); ++i) {
      values.push_back(part(tuple, i, PickleValue::number).integer);
    }
    return values;
  }

  static at::Tensor view(const at::Tensor& elements, std::int64_t offset, const std::vector<std::int64_t>& sizes,
                         const std::vector<std::int64_t>& strides) {
    if (sizes.size() != strides.size() || offset < 0) damaged();
    std::int64_t last = offset;
    bool empty = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t reach = 0;
      if (sizes[i] < 0 || strides[i] < 0) damaged();
      empty = empty || sizes[i] == 0;
      if (__builtin_mul_overflow(std::max<std::int64_t>(sizes[i] - 1, 0), strides[i], &reach) ||
          __builtin_add_overflow(last, reach, &last)) {
        damaged();
      }
    }
    if (!empty && last >= elements.numel()) damaged();
    return elements.as_strided(sizes, strides, offset);
  }

  /// The elements of a storage, by its persistent id: ("storage", type, record, device, elements).
  at::Tensor storage(const PickleValue& persistent) {
    const PickleValue& id = *persistent.parts.front();
    const std::string& type_name = part(id, 1, PickleValue::global).name;
    const std::string record(part(id, 2, PickleValue::text).bytes);
    const std::int64_t count = part(id, 4, PickleValue::number).integer;
    const auto* type = std::find_if(std::begin(storage_types), std::end(storage_types),
                                    [&](const StorageType& t) { return type_name == t.storage; });
    if (type == std::end(storage_types)) throw InputError(fmt::format("it has numbers of type {}", type_name));
    at::Tensor& elements = storages_[record];
    if (!elements.defined()) {
      const std::string place = "data/" + record;
      const auto size = static_cast<std::int64_t>(at::elementSize(type->type));
      if (count < 0 || !file_.has(place) || static_cast<std::int64_t>(file_.size(place)) / size < count) damaged();
      const auto bytes = static_cast<std::size_t>(count * size);
      elements = at::empty({0}, at::TensorOptions().dtype(type->type));
      elements.set_(c10::Storage(c10::Storage::use_byte_size_t(), bytes, file_.map(place)), 0, {count}, {1});
    }
    return elements;
  }

  TorchArchive& file_;
  std::int64_t left_ = most_read_values;
  std::map<std::string, at::Tensor> storages_;
};

}  // namespace

SavedValue unpickle(std::string_view pickle, TorchArchive& file) {
  const Pickle values(pickle);
  return Reader(file).saved(values.value(), deepest_pickle);
}

}  // namespace perfpred
