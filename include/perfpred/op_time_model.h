// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/prediction.h>
#include <perfpred/vocabulary.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

class OpGraph;

/// A training step as an OpTimeModel expects it.
struct StepTime {
  Quantiles sec;                              ///< > 0
  Provenance provenance = Provenance::bytes;  ///< the worst among the operators that take 90 % of the time
  double device_sec = 0;                      ///< sum over kernels
  double host_sec = 0;                        ///< what the host needs to dispatch the operators
  std::vector<TimeTerm> costliest;            ///< the ten operators that take longest, the longest first
  bool in_layout = true;  ///< whether what was measured on the device, if anything, had the step's memory layout
};

/// Time of a training step of any network on any device, from the device's specification: each kernel has a roofline
/// whose efficiencies were learned from measured operators and steps of other devices. Measurements on the device
/// itself narrow the interval. They apply only to a Device with the same rates: one that differs in any rate is treated
/// as unmeasured even if the name matches.
///
/// All const members may be called from any number of threads.
class PERFPRED_API OpTimeModel {
 public:
  /// @param ops_dir  gpus.csv and op_*.csv (docs/formats.md); may be empty where there are layers
  /// @param steps    tables of measured training steps, a runs_agg.csv among them or not; empty: efficiencies of
  ///                 convolutions and normalisations are those that the library carries
  /// @param layers   table of measured layers (docs/formats.md): the devices in it get rates of their own; empty: none
  /// @param devices  those that layers may be of, besides this machine's CPU
  /// @throws InputError with file and line for a folder or table that cannot be read or has too few rows
  [[nodiscard]] static OpTimeModel fit(const std::string& ops_dir, const std::vector<std::string>& steps = {},
                                       const std::string& layers = {},
                                       const DeviceCatalogue& devices = DeviceCatalogue());

  /// The model that is embedded in the library: fitted on measurements by others whose licence allows it
  /// (data/standard_ops.NOTICE), without boosted trees of single devices.
  [[nodiscard]] static const OpTimeModel& standard();

  /// @throws InputError if the file cannot be read, ModelError naming the field that is wrong
  [[nodiscard]] static OpTimeModel load(const std::string& path);

  OpTimeModel(OpTimeModel&&) noexcept;
  OpTimeModel& operator=(OpTimeModel&&) noexcept;
  ~OpTimeModel();

  void save(const std::string& path) const;  ///< @throws Error if the file cannot be written

  /// Half precision without a peak (fp16; bf16 on a CPU) computes at the rate of fp32.
  /// @param step  as execute() takes it
  /// @param cuda_graph  the step is replayed from a CUDA graph: its host dispatches all operators at once
  /// @throws InputError if the device lacks another peak of the precision or its bandwidth, naming the column, or has
  /// a value that no device has; if the counts of an operator are not 0..1e18
  [[nodiscard]] StepTime predict(const OpGraph& step, const Device& device, Precision precision,
                                 bool cuda_graph = false) const;

  /// Devices whose rates the model file holds: those that it was fitted on and that the built-in catalogue lacks, such
  /// as a CPU, or has with other rates. add() them to a catalogue.
  [[nodiscard]] std::span<const Device> devices() const&;
  std::span<const Device> devices() && = delete;  // it would outlive what it looks at

  [[nodiscard]] std::vector<std::string> notes() const;  ///< rows and devices that the fit left out, and why

 private:
  friend struct OpModelAccess;
  struct Impl;
  explicit OpTimeModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace perfpred
