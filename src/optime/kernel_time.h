// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optime/hardware.h"

namespace perfpred {

/// Kernels that share a formula and its parameters. The names are those of `op_<name>.csv`.
enum class KernelClass { linear, bmm, elementwise, softmax, layernorm, conv, gemm_bf16 };
inline constexpr std::size_t kernel_classes = 7;

/// One kernel call. Matrix products: `batch` products of m x k by k x n (k is summed over). Vector kernels: `m` rows of
/// `n` elements, `tensors` of them read and written. Convolutions (3x3, stride 1, padding 1): `batch` images of `k`
/// channels in and `n` out, `m` pixels high and wide.
struct Kernel {
  KernelClass kind = KernelClass::elementwise;
  int variant = 0;  ///< of elementwise: index into elementwise_ops
  double batch = 1, m = 1, n = 1, k = 1;
  double tensors = 2;
  double element_bytes = 4;

  [[nodiscard]] double flops() const;
  [[nodiscard]] double bytes() const;  ///< read and written once
  friend auto operator<=>(const Kernel&, const Kernel&) = default;
};

inline constexpr std::array<std::string_view, 11> elementwise_ops = {"addu", "add", "div",  "divu", "gelu", "mul",
                                                                     "mulu", "pow", "powu", "relu", "tanh"};

/// A parameter with the prior that it is fitted under.
struct KernelParameter {
  std::string_view name;  ///< as in a model file
  double mean = 0, deviation = 0;
  std::string_view meaning;  ///< with its unit; kernel_time.cpp has the sources
};

/// Device effects: what specification sheets do not say of a device. Logarithms, 0 for a usual device.
inline constexpr std::size_t max_effects = 5;
using DeviceEffects = std::array<double, max_effects>;

struct KernelEffect {
  std::string_view name;
  double device_deviation = 0;  ///< between devices of a family
  double family_deviation = 0;  ///< between families
  double probe_deviation = 0;   ///< prior of a device that a probe was measured on
};

/// A kernel class: its parameters, and the logarithm of a call's seconds. Fits see both as lists in the order of the
/// rows; formulas and files see them by name.
struct KernelFormula {
  std::string_view name;
  std::span<const KernelParameter> parameters;
  std::span<const KernelEffect> effects;
  double (*log_time)(const double* parameters, const DeviceEffects& effects, const Kernel& kernel,
                     const Hardware& hardware) = nullptr;
  std::size_t floor = 0;  ///< index of the parameter that is the log of the least seconds of a call timed alone
  std::size_t floor_effect = 0;
  /// Interval widening, in log time, per unit of ln(row length / longest measured row), since specification sheets do
  /// not say which rows fit the caches. Devices without a probe get half of it for every row.
  double long_row_width = 0;
  bool shares_residual = false;  ///< the formula's residual is similar on all devices
  double knee = 0.08;  ///< of MapProblem; where a card's clock depends on how warm it is, errors have long tails
};

[[nodiscard]] const KernelFormula& formula(KernelClass kind);
[[nodiscard]] std::optional<KernelClass> kernel_class(std::string_view name);

/// Dimensionless properties of a call, on which the residual of a device is learned.
inline constexpr std::size_t kernel_features = 12;
[[nodiscard]] std::array<float, kernel_features> features_of(const Kernel& kernel, const Hardware& hardware);

}  // namespace perfpred
