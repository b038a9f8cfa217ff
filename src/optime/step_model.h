// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalogue/device_table.h"
#include "optime/step_formula.h"

namespace perfpred {

/// The precision whose rates a row's text names (`half` and `amp` are fp16), with or without `-nchw` or `-nhwc`;
/// nothing for any other text.
[[nodiscard]] std::optional<Precision> step_precision(std::string_view text);

/// nhwc for a text that ends with `-nhwc`.
[[nodiscard]] Layout step_layout(std::string_view text);

/// A network with pictures of one size.
[[nodiscard]] std::string network_key(std::string_view network, std::int64_t side);

/// Where steps of a network have errors in common: in precisions whose numbers have one size, on devices with matrix
/// units for them or without.
/// Half precision throughout is apart from mixed precision.
[[nodiscard]] std::string arithmetic_key(Precision precision, const StepDevice& device, StepArithmetic arithmetic);

/// Standard deviation of the effects of hosts.
inline constexpr double host_deviation = 0.5;

/// A measured training step.
struct StepRow {
  std::string source, gpu, model, precision;  ///< as in the file
  std::string machine;                        ///< source, gpu, precision
  std::string network, arithmetic;            ///< network_key(), arithmetic_key()
  std::string network_family;                 ///< the network's name up to its first digit or underscore
  KernelFamily family = KernelFamily::none;
  std::int64_t batch = 0;
  double input_bytes = 0;  ///< of a batch that is copied from the host in each step
  double sec = 0;
  bool whole = true;  ///< false: layers alone, one after the other, without the fixed time of a step
  StepDevice device;
  std::shared_ptr<const std::vector<StepKernel>> kernels;
};

struct StepTable {
  std::vector<StepRow> rows;
  std::map<std::string, std::size_t> unscored;  ///< rows without a prediction, by reason
  std::vector<Device> own_devices;  ///< of the rows: those that the built-in catalogue lacks, or has with other rates

  void add(StepTable other);
};

/// A table with the columns source, gpu, model, dataset, batch, precision, ms_per_step; `optimizer` if there is one.
/// Networks that the zoo lacks are looked for in step files `<model>.json` of the folders of add_graphs(); of a file in
/// another precision, all bytes are scaled. Batches are rounded to whole samples.
/// A runs_agg.csv is such a table, too: its source is `runs`, and its batches are on the device before a step begins.
/// Of a device of the user's own, `gpu` is its name in `devices`, whatever the file calls it.
/// @throws InputError, `file:line: ...`, for a table that lacks a column or has a time or a batch that is not positive;
/// as read_aggregate() for runs
[[nodiscard]] StepTable read_step_table(const std::string& path, const DeviceCatalogue& devices = built_in_devices());
/// All of them as one. @throws InputError as read_step_table(), or for a table that is named twice
[[nodiscard]] StepTable read_step_tables(const std::vector<std::string>& paths,
                                         const DeviceCatalogue& devices = built_in_devices());

/// What steps of a network on some devices say about its steps on others.
struct KnownNetwork {
  double log_factor = 0;  ///< of the time, beside the formula's
  double width = 0;       ///< in place of `network_width`
};

/// Time of a training step of any network: a StepFormula whose parameters all machines share, and effects of each.
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
  };
  [[nodiscard]] Estimate predict(const StepRow& row) const;

  [[nodiscard]] MachineEffects effects_of(const std::string& machine) const;
  [[nodiscard]] const StepParameters& parameters_of(const std::string& machine) const;
  [[nodiscard]] double input_seconds(const StepRow& row) const;

  /// @param network     network_key(); one that was not measured has factor 1
  /// @param arithmetic  arithmetic_key()
  [[nodiscard]] KnownNetwork known(const std::string& network, const std::string& arithmetic) const;

  StepParameters parameters;
  std::map<std::string, MachineEffects> machines;
  std::map<std::string, StepParameters> own;  ///< of machines with at least 100 rows
  /// Log seconds to copy a byte of a batch to the device, by source: not all authors timed the copy. A step whose
  /// source is not here has its batch already.
  std::map<std::string, double> sources;
  /// By arithmetic_key() and network_key(): networks whose errors carry from device to device.
  std::map<std::string, std::map<std::string, KnownNetwork>> networks;
  // Half widths of 90 % intervals of log time: of the error that a machine's steps share, and beside it of the error of
  // a step of a network that was not measured.
  double machine_width = 0.7, network_width = 0.4;
};

}  // namespace perfpred
