// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/vocabulary.h>

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "optime/step_conditions.h"
#include "optime/step_formula.h"

namespace perfpred {

/// A device on which steps or layers were measured in one way.
struct MachineKey {
  std::string source;  ///< of the rows, as in their table; `runs` for a runs_agg.csv; empty for a probe
  std::string device;  ///< name in the catalogue or in the model file
  Precision precision = Precision::fp32;
  StepArithmetic arithmetic = StepArithmetic::as_graph;
  Layout layout = Layout::nchw;
  bool probe = false;

  friend auto operator<=>(const MachineKey&, const MachineKey&) = default;
};

/// What learn_probe() taught of a device.
[[nodiscard]] inline MachineKey probe_key(std::string device, Precision precision) {
  return {{}, std::move(device), precision, StepArithmetic::as_graph, Layout::nchw, true};
}

/// A network with pictures, or texts, of one size.
struct NetworkKey {
  std::string network;    ///< empty: none that steps were measured of
  std::int64_t size = 0;  ///< side of a picture, words of a text

  friend auto operator<=>(const NetworkKey&, const NetworkKey&) = default;
};

/// Forward passes and compiled steps are of other kernels: what is known of a network's steps says nothing of them.
[[nodiscard]] inline NetworkKey network_key(std::string network, std::int64_t size, const StepConditions& conditions) {
  if (is_compiled(conditions)) network += " compiled";
  if (conditions.phases == Phases::forward) network += " forward";
  return {std::move(network), size};
}

/// Where errors of a network's steps are shared: size of a number, whether convolutions run on matrix units, and
/// whether half precision is pure (all tensors) or mixed.
struct ArithmeticKey {
  int element_bytes = 4;
  bool matrix_units = false, pure_half = false;

  friend auto operator<=>(const ArithmeticKey&, const ArithmeticKey&) = default;
};
[[nodiscard]] ArithmeticKey arithmetic_key(Precision precision, const StepDevice& device, StepArithmetic arithmetic);

}  // namespace perfpred
