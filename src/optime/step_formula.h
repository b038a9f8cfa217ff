// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <span>
#include <vector>

#include "optime/hardware.h"
#include "optime/step_kernels.h"

namespace perfpred {

/// What specification sheets do not say of a machine in one precision. Logarithms; 0 for a usual machine.
struct MachineEffects {
  double compute = 0, memory = 0, host = 0;
};

/// Arithmetic of a step whose graph is in fp32: `half` and `double_` change all tensors.
enum class StepArithmetic { as_graph, half, double_ };

/// A device as a step sees it.
struct StepDevice {
  Hardware matrix;                                       ///< rates of matrix products
  double conv_flops = 0;                                 ///< of convolutions
  bool matrix_units = false, conv_matrix_units = false;  ///< whether these rates are of matrix units
  bool fp64 = false;
  DeviceKind kind = DeviceKind::gpu;
  bool transposes = false;     ///< images of convolutions, to channels-last memory and back
  bool emulated_half = false;  ///< half precision is stored, and computed in single precision
  bool winograd = true;        ///< for 3x3 convolutions without matrix units; else Fourier transforms
  double byte_scale = 1;       ///< of the graph's bytes
};

/// @throws InputError as hardware_of()
[[nodiscard]] StepDevice step_device(const Device& device, Precision precision, StepArithmetic arithmetic);

inline constexpr std::size_t step_parameters = 36;
using StepParameters = std::array<double, step_parameters>;

struct StepPrior {
  double mean, deviation;
};
[[nodiscard]] const std::array<StepPrior, step_parameters>& step_priors();

/// The effect of a host that needs so many seconds to dispatch an operator.
[[nodiscard]] double host_effect(const StepParameters& parameters, double sec);

/// Derivatives of the logarithm of a step's time.
struct StepSlopes {
  StepParameters parameters{};
  MachineEffects machine;
  double input = 0;  ///< of the logarithm of input_sec
};

struct StepClocks {
  double total_sec = 0, device_sec = 0, host_sec = 0;
};

/// Times of a machine's kernels by smooth rooflines on one clock, the host that dispatches them on another:
/// T = S_n + max_i(H_i - S_(i-1)) + c, S the device's cumulative time, H the host's.
class StepFormula {
 public:
  StepFormula(const StepParameters& parameters, const StepDevice& device, const MachineEffects& effects);

  /// On the device.
  /// @param factor  of the time but for the gaps between kernels
  [[nodiscard]] double seconds(const StepKernel& kernel, double factor = 1) const;
  [[nodiscard]] StepClocks clocks(std::span<const StepKernel> kernels, std::span<const double> seconds) const;
  /// Derivatives of the logarithm of clocks().total_sec by the machine's effects.
  /// @param seconds  of each kernel; those that are not the formula's are taken to change as the formula's do
  [[nodiscard]] MachineEffects slopes(std::span<const StepKernel> kernels, std::span<const double> seconds) const;

  /// Logarithm of a step's seconds, and what it changes by.
  /// @param kernels    after find_repeats()
  /// @param input_sec  before the step, in which the device and the host wait for the batch
  /// @param whole      false: without the fixed time of a step
  [[nodiscard]] double log_step(std::span<const StepKernel> kernels, double input_sec, bool whole,
                                StepSlopes* slopes) const;

 private:
  struct Group {
    double seconds_per_byte = 0, seconds_per_flop = 0;
    std::size_t memory = 0, compute = 0;  ///< their parameters
    bool conv = false, depthwise = false;
    double vector_ratio = 1;  ///< of kernels whose channels miss the matrix units
  };
  struct Parts;
  [[nodiscard]] Parts parts(const StepKernel& kernel) const;
  [[nodiscard]] Parts fourier_parts(const StepKernel& kernel) const;
  /// The kernel before which the device waits for the host last: T = S_n - S_(k-1) + H_k + c.
  [[nodiscard]] std::size_t last_wait(std::span<const StepKernel> kernels, std::span<const double> seconds) const;
  [[nodiscard]] double host_seconds(const StepKernel& kernel, bool backward) const;
  [[nodiscard]] double idle_factor(const StepKernel& kernel) const;
  [[nodiscard]] double block_seconds(const StepKernel& kernel) const;
  [[nodiscard]] double moved_bytes(const StepKernel& kernel) const;

  std::array<Group, step_groups> groups_;
  double depth_half_, width_half_, grouped_, winograd_, winograd_weight_, gap_, fixed_;
  double number_, native_number_;  ///< seconds of a thread block of a batch norm
  double host_, host_backward_, host_conv_, host_norm_;
  double transposed_byte_ = 0;  ///< seconds
  double sms_, l2_;             ///< sms_ 0: products are not cut into tiles
  [[nodiscard]] bool fills_matrix_units(const StepKernel& kernel) const {
    return wants_sizes_ ? kernel.sizes_aligned : kernel.aligned;
  }

  bool fp64_, emulated_half_, stored_half_, matrix_units_, conv_matrix_units_, has_winograd_;
  bool wants_sizes_;  ///< before version 11, which knows Ampere, cuBLAS uses matrix units for sizes of whole rows only
};

}  // namespace perfpred
