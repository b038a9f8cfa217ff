// SPDX-License-Identifier: Apache-2.0
#include "torch/files/safetensors.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "torch/files/mapped_file.h"
#include "torch/files/torch_archive.h"

namespace perfpred {
namespace {

using nlohmann::json;

constexpr std::uint64_t size_bytes = 8;
constexpr std::uint64_t max_header_bytes = 100'000'000;  // of the format
constexpr std::uint64_t max_extent = std::uint64_t{1} << 62U;

std::optional<at::ScalarType> type_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> types = {{{"F64", at::kDouble},
                                                                                  {"F32", at::kFloat},
                                                                                  {"F16", at::kHalf},
                                                                                  {"BF16", at::kBFloat16},
                                                                                  {"I64", at::kLong},
                                                                                  {"I32", at::kInt},
                                                                                  {"I16", at::kShort},
                                                                                  {"I8", at::kChar},
                                                                                  {"U8", at::kByte},
                                                                                  {"BOOL", at::kBool}}};
  for (const auto& [known, type] : types) {
    if (known == name) return type;
  }
  return std::nullopt;
}

std::vector<std::uint64_t> numbers(const json& entry, const char* key) {
  std::vector<std::uint64_t> list;
  if (!entry.contains(key) || !entry[key].is_array()) throw InputError(fmt::format("has no list \"{}\"", key));
  for (const json& number : entry[key]) {
    if (!number.is_number_unsigned()) throw InputError(fmt::format("\"{}\" has an item that is not a size", key));
    list.push_back(number.get<std::uint64_t>());
  }
  return list;
}

/// @param data  where the tensors' bytes begin in the file
at::Tensor read_tensor(const MappedFile& file, const json& entry, std::uint64_t data) {
  const std::uint64_t data_size = file.bytes().size() - data;
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string()) throw InputError("has no dtype");
  const auto type = type_of(entry["dtype"].get_ref<const std::string&>());
  if (!type) throw InputError(fmt::format("has numbers of type {}", entry["dtype"].dump()));
  std::uint64_t bytes = c10::elementSize(*type);
  std::vector<std::int64_t> shape;
  for (const std::uint64_t size : numbers(entry, "shape")) {  // an empty tensor has strides, too
    if (__builtin_mul_overflow(bytes, std::max<std::uint64_t>(size, 1), &bytes) || bytes > max_extent) {
      throw InputError("is larger than the file");
    }
    shape.push_back(static_cast<std::int64_t>(size));
  }
  if (std::count(shape.begin(), shape.end(), 0) > 0) bytes = 0;
  if (bytes > data_size) throw InputError("is larger than the file");
  const std::vector<std::uint64_t> place = numbers(entry, "data_offsets");
  if (place.size() != 2 || place[0] > place[1] || place[1] > data_size) {
    throw InputError("does not lie inside the file");
  }
  if (place[1] - place[0] != bytes) throw InputError("has another size than its shape");
  const std::uint64_t at = data + place[0];
  const auto options = at::TensorOptions().dtype(*type);
  if (at % c10::elementSize(*type) != 0) {
    at::Tensor copy = at::empty(shape, options);
    file.bytes().copy(static_cast<char*>(copy.mutable_data_ptr()), bytes, at);
    return copy;
  }
  at::Tensor tensor = at::empty({0}, options);
  tensor.set_(c10::Storage(c10::Storage::use_byte_size_t(), bytes, file.part(at)), 0, shape);
  return tensor;
}

}  // namespace

NamedTensors read_safetensors(const std::string& path) {
  const auto refuse = [&](std::string_view reason) { throw InputError(fmt::format("{}: {}", path, reason)); };
  std::shared_ptr<const MappedFile> file;
  try {
    file = MappedFile::open(path);
  } catch (const InputError& error) {
    refuse(error.what());
  }
  const std::string_view bytes = file->bytes();
  const std::uint64_t header_size = bytes.size() < size_bytes ? 0 : little_endian(bytes.substr(0, size_bytes));
  if (header_size == 0 || header_size > max_header_bytes || header_size > bytes.size() - size_bytes) {
    refuse("is not a whole safetensors file");
  }
  const json header = json::parse(bytes.substr(size_bytes, header_size), nullptr, false);
  if (!header.is_object()) refuse("is not a safetensors file: its header is not a JSON object");
  const std::uint64_t data = size_bytes + header_size;
  NamedTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      tensors.emplace_back(name, read_tensor(*file, entry, data));
    } catch (const InputError& error) {
      refuse(fmt::format("tensor \"{}\" {}", name, error.what()));
    }
  }
  return tensors;
}

}  // namespace perfpred
