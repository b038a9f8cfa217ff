// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/executed_step.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace perfpred {

/// The least time in which a device can execute a training step, in seconds, by what limits it.
struct StepLimits {
  double compute_sec = 0;            ///< sum over operators of FLOPs / peak of the unit that executes them
  double memory_sec = 0;             ///< sum of bytes / bandwidth
  std::optional<double> launch_sec;  ///< operators x Device::launch_us; empty if that is unknown
  double time_sec = 0;               ///< sum over operators of the longest of the three
  Bound bound = Bound::compute;      ///< the longest of the three sums
  double margin = 0;                 ///< 1 - second longest / longest: 0 where two limits are equal
};

/// Ceilings of a device (Williams, Waterman, Patterson 2009): FLOP/s <= min(peak, intensity x bandwidth).
class PERFPRED_API Roofline {
 public:
  /// @throws InputError if the device has no bandwidth, or no peak of any precision; if one, or launch_us, is not a
  /// positive number
  explicit Roofline(Device device);

  /// A device whose name and two peaks are all that is known.
  /// @param peak_flops  FLOP/s in every precision
  /// @param peak_bytes  bytes/s
  /// @throws InputError unless both are positive
  Roofline(std::string name, double peak_flops, double peak_bytes);

  [[nodiscard]] const Device& device() const { return device_; }

  /// Every known peak in FLOP/s, the highest first: "fp16", "fp32", "fp32 vector" (if it is not the matrix units'), ...
  [[nodiscard]] std::span<const std::pair<std::string, double>> ceilings() const { return ceilings_; }
  [[nodiscard]] double bandwidth() const { return *device_.mem_bw_gbs * 1e9; }  ///< bytes/s

  /// Peak of convolutions, and of matrix products too unless the precision is `default`.
  /// @throws InputError if it is not known, naming the precisions that are
  [[nodiscard]] double peak(Precision precision) const;
  [[nodiscard]] double ridge(Precision precision) const { return peak(precision) / bandwidth(); }  ///< FLOPs a byte
  /// FLOP/s at this intensity, FLOPs a byte.
  [[nodiscard]] double attainable(double intensity, Precision precision) const;

  /// Convolutions and matrix products run on the units of the precision (`default`: convolutions at the rate of TF32,
  /// matrix products at that of fp32), all else on vector units, or at the rate of matrix products where the vector
  /// units' peak is not known. A product in another element type than most (product_precision()) has that type's rate,
  /// if its peak is known. @throws InputError as peak() does
  [[nodiscard]] StepLimits limits(const ExecutedStep& step, Precision precision) const;

 private:
  Device device_;
  std::vector<std::pair<std::string, double>> ceilings_;
};

/// Roofline::limits(), or nothing if the device's bandwidth or its peak in this precision is unknown.
[[nodiscard]] PERFPRED_API std::optional<StepLimits> limits_if_known(const Device& device, const ExecutedStep& step,
                                                                     Precision precision);

}  // namespace perfpred
