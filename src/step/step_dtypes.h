// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace perfpred {

/// The types of elements by PyTorch's names, as step files have them. The first name of a type is the one written.
inline constexpr std::array<std::pair<std::string_view, DataType>, 16> step_dtypes = {{
    {"float32", DataType::f32},
    {"float16", DataType::f16},
    {"bfloat16", DataType::bf16},
    {"float64", DataType::f64},
    {"int64", DataType::i64},
    {"int32", DataType::i32},
    {"uint8", DataType::u8},
    {"int8", DataType::u8},
    {"bool", DataType::u8},
    {"int16", DataType::i16},
    {"float8_e4m3fn", DataType::f8},
    {"float8_e4m3fnuz", DataType::f8},
    {"float8_e5m2", DataType::f8},
    {"float8_e5m2fnuz", DataType::f8},
    {"complex64", DataType::c64},
    {"complex128", DataType::c128},
}};

[[nodiscard]] constexpr std::string_view dtype_of(DataType type) {
  return std::ranges::find(step_dtypes, type, &std::pair<std::string_view, DataType>::second)->first;
}

}  // namespace perfpred
