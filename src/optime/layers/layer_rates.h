// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <array>
#include <compare>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "optime/layers/layer_rows.h"
#include "optime/residual_trees.h"
#include "optime/step_model.h"

namespace perfpred {

/// Kernels of a layer that were timed together: its forward, its backward, its update, or all three.
struct LayerPart {
  std::vector<StepKernel> kernels;
  double sec = 0;
};

/// The timed parts of measured layers; layers without a time give none.
[[nodiscard]] std::vector<LayerPart> parts_of(std::span<const LayerRow> rows, DeviceKind device);

/// Times of a device's kernels in one precision, learned from layers that were measured on it: the formula of StepModel
/// with parameters fitted to the device, and boosted trees on its residuals, for each group of kernels.
struct LayerRates {
  static constexpr std::size_t min_parts = 30;

  /// @param parts  at least `min_parts`
  /// @param prior  parameters of StepModel that the device's own differ from
  [[nodiscard]] static LayerRates fit(std::span<const LayerPart> parts, const StepDevice& device,
                                      const StepParameters& prior);

  /// Seconds of a kernel without the trees.
  [[nodiscard]] double formula_seconds(const StepFormula& formula, const StepKernel& kernel) const;

  /// Seconds of each kernel.
  [[nodiscard]] std::vector<double> kernel_seconds(std::span<const StepKernel> kernels, const StepDevice& device) const;

  /// Whether the group's rates were learned from layers in which it took a large share of the time.
  [[nodiscard]] bool knows(StepGroup group) const { return groups.count(group) != 0; }

  struct Group {
    std::size_t parts = 0;
    double width = 0;     ///< half width of the 90 % interval of log time of a part that was not learned from
    ResidualTrees trees;  ///< empty with few parts
  };

  StepParameters parameters{};
  std::map<OpKind, double> kinds;  ///< logarithms of factors of the formula's times but for gaps
  std::map<StepGroup, Group> groups;
};

/// What layers were measured on.
struct RatesKey {
  std::string device;
  Precision precision = Precision::fp32;

  friend auto operator<=>(const RatesKey&, const RatesKey&) = default;
};

/// Rates of the devices and precisions of a table.
struct MeasuredDevices {
  std::map<RatesKey, LayerRates> rates;
  std::vector<Device> devices;     ///< those that the built-in catalogue lacks, or has with other rates
  std::vector<std::string> notes;  ///< layers that were left out, and why
};

/// The rows of a table that rates are learned from, each layer once.
struct LayerGroup {
  RatesKey key;
  Device device;
  std::vector<LayerRow> rows;
  std::size_t waiting = 0;  ///< layers that were left out because the device waited for its host

  /// Whether the rows are the lesser part: those that are left say little of a network's kernels.
  [[nodiscard]] bool mostly_waited() const { return waiting > rows.size(); }

  /// Where it mostly waited, intervals are at least as wide as where nothing is known.
  /// @param prior  as LayerRates::fit() takes it
  [[nodiscard]] LayerRates fit(const StepParameters& prior) const;
};

struct LayerGroups {
  std::vector<LayerGroup> groups;
  std::vector<std::string> notes;  ///< layers that were left out, and why
};

/// @throws InputError for a table that cannot be read, a device that is neither in the catalogue nor this CPU, or fewer
/// than LayerRates::min_parts timed parts on one
[[nodiscard]] LayerGroups read_layer_groups(const std::string& path, const DeviceCatalogue& catalogue);

[[nodiscard]] MeasuredDevices fit_layers(LayerGroups table, const StepParameters& prior);

}  // namespace perfpred
