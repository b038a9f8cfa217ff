// SPDX-License-Identifier: Apache-2.0
#include "step/step_json.h"

#include <cmath>
#include <limits>
#include <optional>

#include "step/op_rules.h"
#include "step/op_traits.h"
#include "step/step_dtypes.h"
#include "text/enum_names.h"
#include "text/json.h"

namespace perfpred::step_json {

std::int64_t integer(const json& value, const JsonPlace& place, std::int64_t least, std::int64_t most) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    place.refuse(fmt::format("{} is not an integer in {}..{}", shown(dumped(value)), least, most));
  }
  return value.get<std::int64_t>();
}

const json& member(const json& object, const char* key, const JsonPlace& place) {
  if (!object.is_object()) place.refuse("is not an object");
  const auto found = object.find(key);
  if (found == object.end()) place.refuse(fmt::format("{} is missing", key));
  return *found;
}

const json& list(const json& object, const char* key, const JsonPlace& place) {
  const json& value = member(object, key, place);
  if (!value.is_array()) place.in(key).refuse("is not a list");
  return value;
}

std::string text(const json& object, const char* key, const JsonPlace& place) {
  const json& value = member(object, key, place);
  if (!value.is_string()) place.in(key).refuse("is not text");
  return value.get<std::string>();
}

std::vector<std::string> texts(const json& object, const char* key, const JsonPlace& place) {
  if (!object.contains(key)) return {};
  std::vector<std::string> read;
  for (const json& value : list(object, key, place)) {
    if (!value.is_string()) place.in(key).refuse("holds what is not text");
    read.push_back(printable(value.get<std::string>()));
  }
  return read;
}

bool flag(const json& value, const JsonPlace& place) {
  if (!value.is_boolean()) place.refuse("is neither true nor false");
  return value.get<bool>();
}

std::vector<std::uint32_t> indices(const json& op, const char* key, const JsonPlace& place, std::size_t count,
                                   bool none) {
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

namespace {

constexpr std::int64_t max_batches = 1'000'000;

std::vector<std::int64_t> integers(const json& values, const JsonPlace& place, std::int64_t least) {
  std::vector<std::int64_t> read;
  for (const json& value : values) read.push_back(integer(value, place, least, Shape::max_numel));
  return read;
}

StepAxes axes(const json& tensor, const char* key, const char* growth_key, const JsonPlace& place) {
  StepAxes read{integers(list(tensor, key, place), place.in(key), 0), {}};
  if (tensor.contains(growth_key)) {
    read.growth = integers(list(tensor, growth_key, place), place.in(growth_key), -Shape::max_numel);
    if (read.growth.size() != read.values.size())
      place.in(growth_key).refuse(fmt::format("differs in length from {}", key));
  }
  return read;
}

/// A count of an operator, if the file has it.
std::optional<StepCount> count(const json& op, const char* key, const char* growth_key, const JsonPlace& place) {
  if (!op.contains(key)) return std::nullopt;
  const auto number = [&](const char* name, double least) {
    const json& value = op[name];
    if (!value.is_number() || value.get<double>() < least || std::abs(value.get<double>()) > max_step_bytes * 1e12) {
      place.in(name).refuse("is not a number that an operator can have");
    }
    return value.get<double>();
  };
  return StepCount{number(key, 0), op.contains(growth_key) ? number(growth_key, -max_step_bytes * 1e12) : 0};
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

void read_head(StepContent& step, const json& document, const JsonPlace& place) {
  const auto number = [&](const char* key, std::int64_t most) {
    return integer(member(document, key, place), place.in(key), 1, most);
  };
  step.batch_size = number("batch_size", Shape::max_numel);
  if (document.contains("batches")) step.batches = number("batches", max_batches);
  if (document.contains("accumulate")) step.accumulate = number("accumulate", max_batches);
  if (document.contains("other_batch_size")) step.other_batch_size = number("other_batch_size", Shape::max_numel);
  const std::string word = text(document, "precision", place);
  try {
    step.precision = parse_precision(word);
  } catch (const InputError& error) {
    place.refuse(error.what());
  }
  step.compiled = document.contains("compiled") && flag(document["compiled"], place.in("compiled"));
  step.notes = texts(document, "notes", place);
}

StepTensor tensor_of(const json& from, const JsonPlace& place) {
  StepTensor tensor;
  tensor.sizes = axes(from, "sizes", "growth", place);
  tensor.strides = axes(from, "strides", "stride_growth", place);
  if (tensor.strides.values.size() != tensor.sizes.values.size()) place.refuse("has not as many strides as sizes");
  tensor.type =
      step_dtypes[position(from, "dtype", place, step_dtypes, &std::pair<std::string_view, DataType>::first)].second;
  tensor.role = static_cast<TensorRole>(position(from, "role", place, enumerator_names<TensorRole::temporary>));
  return tensor;
}

StepOp op_of(const json& from, const JsonPlace& place) {
  StepOp op;
  op.name = op.full_name = printable(text(from, "name", place));
  op.flops = count(from, "flops", "flops_growth", place);
  op.bytes = count(from, "bytes", "bytes_growth", place);
  op.phase = static_cast<Phase>(position(from, "phase", place, enumerator_names<Phase::optimizer>));
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
  return op;
}

}  // namespace perfpred::step_json
