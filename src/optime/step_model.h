// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "catalogue/device_table.h"
#include "optime/step_formula.h"
#include "optime/step_keys.h"
#include "statistics/estimate.h"

namespace perfpred {

/// Standard deviation of the effects of hosts.
inline constexpr double host_deviation = 0.5;

/// A measured training step.
struct StepRow {
  std::string source, gpu, model, precision;  ///< as in the file
  MachineKey machine;
  NetworkKey network;
  ArithmeticKey arithmetic;
  std::string network_family;  ///< the network's name up to its first digit or underscore
  std::int64_t batch = 0;
  double input_bytes = 0;  ///< of a batch that is copied from the host in each step
  double sec = 0;
  bool whole = true;  ///< false: layers alone, one after the other, without the fixed time of a step
  StepDevice device;
  std::shared_ptr<const std::vector<StepKernel>> kernels;
  Phases phases = Phases::all;
  std::vector<std::string> conditions;  ///< words_of()
};

struct StepTable {
  std::vector<StepRow> rows;
  std::map<std::string, std::size_t> unscored;  ///< rows without a prediction, by reason
  std::vector<Device> own_devices;  ///< of the rows: those that the built-in catalogue lacks, or has with other rates

  void add(StepTable other);
};

/// A table with the columns source, gpu, model, dataset, batch, precision, ms_per_step; `optimizer`, `compiled`,
/// `software`, `loader` and `phases` (of a workload) if there are some.
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

/// What steps of a machine say of it.
struct Machine {
  MachineEffects effects;
  Chip chip;  ///< of its device
  ArithmeticKey arithmetic;
  std::optional<StepParameters> parameters;  ///< its own, if it has at least 100 rows
};

/// What steps of a network on some devices say about its steps on others.
struct KnownNetwork {
  double log_factor = 0;  ///< of the time, beside the formula's
  double width = 0;       ///< in place of `network_width`
};

struct KnownNetworks {
  double width = 0;  ///< of each
  std::map<NetworkKey, double> log_factors;
};

/// Time of a training step of any network: a StepFormula whose parameters all machines share, and effects of each.
class StepModel {
 public:
  [[nodiscard]] static StepModel fit(const std::vector<const StepRow*>& rows);

  /// Learns the effects of one machine from few of its rows.
  /// @param host_sec  that its host needs to dispatch an operator, where that was measured
  void probe(const MachineKey& machine, const std::vector<const StepRow*>& rows,
             std::optional<double> host_sec = std::nullopt);

  [[nodiscard]] Estimate predict(const StepRow& row) const;

  [[nodiscard]] MachineEffects effects_of(const MachineKey& machine) const;
  /// Logarithm of a row's seconds, by its machine or else by what is known of such machines (known_machine.h), beside
  /// what is known of its network.
  [[nodiscard]] double log_step(const StepRow& row) const;
  [[nodiscard]] const StepParameters& parameters_of(const MachineKey& machine) const;
  [[nodiscard]] double input_seconds(const StepRow& row) const;
  /// The sum of the logarithms that are known. @param words  of the conditions
  [[nodiscard]] double of_conditions(const std::vector<std::string>& words) const;

  /// A network that was not measured has factor 1. @param phases  of its steps
  [[nodiscard]] KnownNetwork known(const NetworkKey& network, const ArithmeticKey& arithmetic, Phases phases) const;

  StepParameters parameters = prior_means();
  std::map<MachineKey, Machine> machines;
  /// Log seconds to copy a byte of a batch to the device, by source: not all authors timed the copy. A step whose
  /// source is not here has its batch already.
  std::map<std::string, double> sources;
  /// Logarithms of factors of steps under conditions (words_of()), beside what the formula says of them.
  std::map<std::string, double> conditions;
  /// Networks whose errors carry from device to device.
  std::map<ArithmeticKey, KnownNetworks> networks;
  // Half widths of 90 % intervals of log time: of the error that a machine's steps share, and beside it of the error of
  // a step of a network that was not measured.
  double machine_width = 0.7, network_width = 0.4;
  double forward_width = 0.4;  ///< in place of network_width, of forward passes alone
  double source_width = 0.3;   ///< in place of machine_width, where others measured the device
  double pure_width = 0.7;     ///< in place of machine_width, of steps that compute in one type throughout

 private:
  /// Fills in what errors of networks' steps say beside everything else.
  void learn_networks(const std::vector<const StepRow*>& rows);
};

}  // namespace perfpred
