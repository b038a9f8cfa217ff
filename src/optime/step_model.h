// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
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
  bool emulated_half = false;  ///< half precision is stored, and computed in single precision
  double byte_scale = 1;       ///< of the graph's bytes
};

/// @throws InputError as hardware_of()
[[nodiscard]] StepDevice step_device(const Device& device, Precision precision, StepArithmetic arithmetic);

/// The precision whose rates a row's text names (`half` and `amp` are fp16); nothing for any other text.
[[nodiscard]] std::optional<Precision> step_precision(std::string_view text);

/// A measured training step.
struct StepRow {
  std::string source, gpu, model, precision;  ///< as in the file
  std::string machine;                        ///< source, gpu, precision
  std::string network;                        ///< network, batch, input, precision
  KernelFamily family = KernelFamily::none;
  std::int64_t batch = 0;
  double sec = 0;
  bool whole = true;  ///< false: layers alone, one after the other, without the fixed time of a step
  StepDevice device;
  std::shared_ptr<const std::vector<StepKernel>> kernels;
};

struct StepTable {
  std::vector<StepRow> rows;
  std::map<std::string, std::size_t> unscored;  ///< rows without a prediction, by reason
};

/// A table with the columns source, gpu, model, dataset, batch, precision, ms_per_step; `optimizer` if there is one.
/// @throws InputError, `file:line: ...`, for a table that lacks a column or has a time that is not positive
[[nodiscard]] StepTable read_step_table(const std::string& path);

inline constexpr std::size_t step_parameters = 30;

/// Time of a training step of any network: kernels by smooth rooflines on one clock, the host that dispatches them on
/// another.
class StepModel {
 public:
  StepModel();  ///< with the priors

  [[nodiscard]] static StepModel fit(const std::vector<const StepRow*>& rows);

  /// Learns the effects of one machine from few of its rows.
  /// @param host_sec  that its host needs to dispatch an operator, where that was measured
  void probe(const std::string& machine, const std::vector<const StepRow*>& rows,
             std::optional<double> host_sec = std::nullopt);

  struct Estimate {
    double log_sec = 0, half_width = 0;
    double device_sec = 0, host_sec = 0;
  };
  [[nodiscard]] Estimate predict(const StepRow& row) const;

  /// Seconds of each kernel, without the host.
  void kernel_seconds(std::span<const StepKernel> kernels, const StepDevice& device, const MachineEffects& effects,
                      std::vector<double>& seconds) const;
  /// Seconds of a step whose kernels take so long, and of its host.
  [[nodiscard]] std::array<double, 2> two_clocks(std::span<const StepKernel> kernels, std::span<const double> seconds,
                                                 const MachineEffects& effects) const;

  [[nodiscard]] MachineEffects effects_of(const std::string& machine) const;

  std::array<double, step_parameters> parameters;
  std::map<std::string, MachineEffects> machines;
  std::map<std::string, double> networks;           ///< what a network's steps take longer everywhere, logarithm
  double machine_width = 0.7, within_width = 0.25;  ///< half widths of 90 % intervals of log time
};

}  // namespace perfpred
