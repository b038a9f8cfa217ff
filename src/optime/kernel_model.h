// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/prediction.h>

#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "optime/op_rows.h"
#include "optime/residual_trees.h"

namespace perfpred {

/// A time and how far it may be off.
struct KernelEstimate {
  double log_sec = 0;
  double device_width = 0;  ///< half width of the 90 % interval of log time that all kernels of the device share
  double within_width = 0;  ///< the part of the kernel itself
  Provenance provenance = Provenance::bytes;
  [[nodiscard]] double half_width() const;
};

/// What was learned about a device.
struct KnownDevice {
  KernelFamily family = KernelFamily::none;
  DeviceEffects effects{};  ///< its family's included
  ResidualTrees trees;
  double spread = 0;      ///< half width of the 90 % interval of what the effects leave over
  double widest_row = 0;  ///< largest Kernel::n of its rows
  std::size_t rows = 0;
};

/// Times of one class of kernels on any device: a formula with parameters of all devices and effects of each.
class KernelModel {
 public:
  /// If a device is far slower than its family in all rows of a split, these rows are set aside: the card was
  /// throttled.
  /// @param rows       of this class; at least 12
  /// @param own_trees  whether devices get trees of their own; a model for other devices needs none
  [[nodiscard]] static KernelModel fit(KernelClass kind, const std::vector<const OpRow*>& rows,
                                       const std::map<std::string, Hardware>& gpus, bool own_trees);

  /// Learns the effects of a device from few rows, beside what is known of it.
  void probe(const Hardware& device, const std::vector<const OpRow*>& rows);

  /// @param alone  as timed by itself; otherwise as one of many that the device executes back to back
  [[nodiscard]] KernelEstimate predict(const Kernel& kernel, const Hardware& device, bool alone) const;

  KernelClass kind = KernelClass::linear;
  std::vector<double> parameters;
  std::map<KernelFamily, DeviceEffects> families;
  std::map<std::string, KnownDevice> devices;
  ResidualTrees shared_trees;       ///< for devices without trees of their own; empty where they were found to do harm
  std::set<std::string> set_aside;  ///< `P4 (train)`
  double device_width = 0, within_width = 0;  ///< of a device that was not seen

 private:
  [[nodiscard]] DeviceEffects effects_on(const Hardware& device) const;       ///< its own, else its family's, else none
  [[nodiscard]] const ResidualTrees& trees_on(const Hardware& device) const;  ///< its own, else those of all
};

/// A model for each class that was measured.
struct KernelModels {
  static constexpr std::size_t min_rows = 12;  ///< of a class that has fewer there is no model
  std::array<std::optional<KernelModel>, kernel_classes> classes;

  [[nodiscard]] static KernelModels fit(const std::vector<const OpRow*>& rows,
                                        const std::map<std::string, Hardware>& gpus, bool own_trees = true);
  [[nodiscard]] const KernelModel* of(KernelClass kind) const;

  /// Learns the effects of a device from few rows, in each class that has a model.
  void probe(const Hardware& device, const std::vector<const OpRow*>& rows);
};

/// Seconds between the starts of kernels that a device executes back to back, and the least time in which PyTorch's
/// host code dispatches one.
inline constexpr double kernel_gap_sec = 3e-6, host_sec_per_op = 30e-6;

struct StepEstimate {
  double sec = 0;
  double half_width = 0;  ///< of the 90 % interval of log time
};

/// A step by its calls; classes without a model count by their bytes.
[[nodiscard]] StepEstimate step_time(const KernelModels& models, std::span<const StepPart> parts,
                                     const Hardware& device);

}  // namespace perfpred
