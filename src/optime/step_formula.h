// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <span>
#include <vector>

#include "optime/hardware.h"
#include "optime/step_kernels.h"
#include "optime/step_parameters.h"

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
  Chip chip;
  DeviceKind kind = DeviceKind::gpu;
  bool transposes = false;     ///< images of convolutions, to channels-last memory and back
  bool emulated_half = false;  ///< half precision is stored, and computed in single precision
  bool winograd = true;        ///< for 3x3 convolutions without matrix units; else Fourier transforms
  double byte_scale = 1;       ///< of the graph's bytes
  double host = 0;             ///< usual_host()
  bool replays = false;        ///< the host dispatches all kernels at once: a CUDA graph, a compiled step
};

/// @throws InputError as hardware_of()
[[nodiscard]] StepDevice step_device(const Device& device, Precision precision, StepArithmetic arithmetic);

/// Logarithm of the seconds that a host with this effect needs to dispatch an operator, and back.
[[nodiscard]] double log_host(const StepParameters& parameters, const StepDevice& device, double effect);
[[nodiscard]] double host_effect(const StepParameters& parameters, const StepDevice& device, double log_host);

/// The logarithm of a step's seconds and its derivatives.
struct StepSlopes {
  double log_sec = 0;
  StepParameters parameters;
  MachineEffects machine;
  double input = 0;  ///< by the logarithm of input_sec
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
  /// That the host needs to dispatch each of a step's kernels.
  [[nodiscard]] std::vector<double> host_seconds(std::span<const StepKernel> kernels) const;
  [[nodiscard]] StepClocks clocks(std::span<const StepKernel> kernels, std::span<const double> seconds) const;
  /// Derivatives of the logarithm of clocks().total_sec by the machine's effects.
  /// @param seconds  of each kernel; those that are not the formula's are taken to change as the formula's do
  [[nodiscard]] MachineEffects slopes(std::span<const StepKernel> kernels, std::span<const double> seconds) const;

  /// Logarithm of a step's seconds.
  /// @param kernels    after find_repeats()
  /// @param input_sec  before the step, in which the device and the host wait for the batch
  /// @param whole      false: without the fixed time of a step
  [[nodiscard]] double log_step(std::span<const StepKernel> kernels, double input_sec, bool whole) const;
  /// log_step() with its derivatives.
  [[nodiscard]] StepSlopes log_slopes(std::span<const StepKernel> kernels, double input_sec, bool whole) const;

 private:
  struct Group {
    double seconds_per_byte = 0, seconds_per_flop = 0;
    double StepParameters::*memory = nullptr;   ///< parameter of seconds_per_byte
    double StepParameters::*compute = nullptr;  ///< of seconds_per_flop; null: the group's time follows from its bytes
    bool conv = false, depthwise = false, matrix_units = false;
    double vector_ratio = 1;  ///< of kernels whose channels miss the matrix units
  };
  struct Parts;
  [[nodiscard]] Parts parts(const StepKernel& kernel) const;
  [[nodiscard]] Parts fourier_parts(const StepKernel& kernel) const;
  /// The kernel before which the device waits for the host last: T = S_n - S_(k-1) + H_k + c.
  [[nodiscard]] std::size_t last_wait(std::span<const StepKernel> kernels, std::span<const double> seconds) const;
  /// @param byte  seconds that moving one takes at the peak
  /// @param slow  factor of the seconds of computing at a peak
  void set_groups(const StepParameters& parameters, const StepDevice& device, double byte, double slow);
  double take_clock_bytes(double limit, double given);
  /// Attention of numbers in single precision on matrix units, which take three products for one (PyTorch's kernels:
  /// CUTLASS, OpMultiplyAddFastF32).
  [[nodiscard]] bool is_single_attention(const StepKernel& kernel) const {
    return is_attention(kernel) && matrix_units_ && kernel.type == DataType::f32;
  }
  [[nodiscard]] static bool is_attention(const StepKernel& kernel) {
    return kernel.kind == OpKind::attention || kernel.kind == OpKind::attention_backward;
  }
  /// Attention in half precision on matrix units, whose softmax takes its time on the others.
  [[nodiscard]] bool has_softmax(const StepKernel& kernel) const {
    return is_attention(kernel) && matrix_units_ && kernel.type != DataType::f32;
  }
  /// Logarithm of what it takes beside a product of its size.
  [[nodiscard]] double log_softmax(const StepKernel& kernel) const;
  [[nodiscard]] double product_seconds(const StepKernel& kernel, double compute) const;
  [[nodiscard]] double host_seconds(const StepKernel& kernel, bool backward) const;
  [[nodiscard]] double idle_factor(const StepKernel& kernel) const;
  [[nodiscard]] double block_seconds(const StepKernel& kernel) const;
  [[nodiscard]] double moved_bytes(const StepKernel& kernel) const;
  /// Share of StepKernel::near_bytes that is not read from memory, and its derivative by the logarithm of the cache.
  [[nodiscard]] std::array<double, 2> cached_share(const StepKernel& kernel) const;
  [[nodiscard]] double transposing_seconds(const StepKernel& kernel) const;
  /// Seconds of each kernel, those that repeat another taken from it.
  [[nodiscard]] std::vector<double> all_seconds(std::span<const StepKernel> kernels) const;
  [[nodiscard]] double total_sec(std::span<const StepKernel> kernels, std::span<const double> seconds, double input_sec,
                                 bool whole) const;
  // Seconds that change in proportion to each parameter and effect, added to `slopes`: of the host until the device
  // waits for it last, and of `calls` calls of a kernel.
  void add_host(std::span<const StepKernel> kernels, std::size_t forward, std::size_t wait, StepSlopes& slopes) const;
  void add_kernel(const StepKernel& kernel, double calls, StepSlopes& slopes) const;
  void add_matrix_units(const StepKernel& kernel, double compute, StepParameters& slopes) const;
  void add_products(const StepKernel& kernel, const Parts& part, double compute, StepParameters& slopes) const;

  std::array<Group, step_groups> groups_;
  double depth_half_, width_half_, grouped_, winograd_, winograd_weight_, gap_, fixed_;
  double number_, native_number_;  ///< seconds of a thread block of a batch norm
  double host_, host_backward_, host_conv_, host_norm_;
  double transposed_byte_ = 0;  ///< seconds
  double transposing_single_ = 1;
  double depthwise_channels_last_ = 1, grouped_channels_last_ = 1;  ///< factors of the seconds in such memory
  double attention_ = 1;                                            ///< factor of the seconds of attention
  double attention_single_ = 1;
  double softmax_, softmax_power_;  ///< factor of those of attention in half precision on matrix units, and its power
  double fused_ = 1;                ///< of the seconds of a byte
  double misaligned_ = 1;           ///< of products on the matrix units of Ampere and later
  double sms_, l2_;                 ///< sms_ 0: products are not cut into tiles
  double unfed_ = 1;                ///< factor of the seconds of a byte, by what multiprocessors can move
  double by_clock_bytes_ = 0;       ///< d log of the bandwidth / d log of StepParameters::clock_bytes
  double cached_bytes_ = 0;         ///< results just made that the cache holds, as the graph counts bytes; 0: none
  [[nodiscard]] bool fills_matrix_units(const StepKernel& kernel) const {
    return wants_sizes_ ? kernel.sizes_aligned : kernel.aligned;
  }

  bool fp64_, emulated_half_, stored_half_, matrix_units_, conv_matrix_units_, has_winograd_;
  bool wants_sizes_;  ///< before version 11, which knows Ampere, cuBLAS uses matrix units for sizes of whole rows only
};

}  // namespace perfpred
