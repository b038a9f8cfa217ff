// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace perfpred {

/// What a metric of Nsight Compute counts.
enum class NcuCounter : std::size_t {
  duration,
  bytes_read,
  bytes_written,
  bytes,
  sm_pct,
  dram_pct,
  fp32_add,
  fp32_mul,
  fp32_fma,
  fp16_add,
  fp16_mul,
  fp16_fma,
  fp64_add,
  fp64_mul,
  fp64_fma,
  tensor_ops,
  tensor_instructions,
};
inline constexpr std::size_t ncu_counters = 17;

enum class NcuUnit { second, byte, count, percent };

struct NcuMetric {
  NcuCounter counter;
  NcuUnit unit;
  double factor = 1;  ///< to seconds, bytes, FLOPs
};

/// The metric of this name; nothing if it is not needed. `sm__` and `smsp__` in front of a count do not change a sum.
[[nodiscard]] std::optional<NcuMetric> ncu_metric(std::string_view name);

/// Factor of a unit with its decimal prefix ("Kbyte": 1000); nothing for a unit of another kind.
[[nodiscard]] std::optional<double> ncu_unit_factor(std::string_view text, NcuUnit unit);

/// A number with this decimal separator (`.` or `,`) and any thousands separator; nothing if the text is not such a
/// number.
[[nodiscard]] std::optional<double> ncu_number(std::string_view text, char decimal);

}  // namespace perfpred
