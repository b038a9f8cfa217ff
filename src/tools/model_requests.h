// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tools/workload_sweep.h"

namespace perfpred {

/// What users ask of a model, as workloads. Fields that a request leaves out are those of the model's example, or of
/// the rows that it was fitted on of the network or device that is asked for; runs that it observed do not change them.
/// A device is the one that the model or its catalogue has under the name. Names of devices: @throws InputError as
/// DeviceCatalogue::full_name(), but for a given one that several devices share, which of_options() without a sweep
/// takes for all of them
class ModelRequests {
 public:
  /// @param given  fields of all requests, one value each
  ModelRequests(const TimeRegressor& model, std::vector<SweptField> given);

  /// The workload of the given fields, or one for each value of `field=value,value,...`, as sweep_rows(), or for each
  /// device that shares the given name; `device=all` means all GPUs of the catalogue that compute in the given
  /// precision.
  /// @throws InputError if a field is missing that nothing tells, or is swept and given
  [[nodiscard]] std::vector<AskedRow> of_options(const std::string& sweep) const;

  /// The rows of a table, as configuration_rows(). A request has to name its sizes.
  [[nodiscard]] std::vector<AskedRow> of_table(const std::string& path) const;
  [[nodiscard]] std::vector<AskedRow> of_table(CsvReader csv) const;

  /// The workload of these fields, one value each, which come before the given ones; it has to name its sizes.
  [[nodiscard]] Workload of_fields(std::vector<SweptField> fields) const;

  [[nodiscard]] const std::vector<SweptField>& given() const { return given_; }
  [[nodiscard]] const DeviceCatalogue& catalogue() const { return model_.devices(); }

  /// The GPUs of the catalogue that compute in this precision and whose memory's bandwidth is known.
  [[nodiscard]] std::vector<std::string> all_gpus(Precision precision) const;

  /// JobTerms::unstated of a request with these fields beside the given ones.
  [[nodiscard]] std::vector<std::string> unstated(const std::vector<SweptField>& fields) const;

 private:
  [[nodiscard]] Precision precision() const;  ///< of the given fields, else the model's
  [[nodiscard]] std::string device(const std::string& asked) const;
  [[nodiscard]] std::vector<std::string> devices(const std::string& asked) const;
  [[nodiscard]] NameOf name_of() const {
    return [this](const std::string& asked) { return device(asked); };
  }
  void check_one_device() const;

  const TimeRegressor& model_;
  std::set<std::string> devices_;  // of the model's rows
  std::vector<SweptField> given_;  // a device that several share is all of them
  std::vector<Workload> bases_;    // the model's example, one of each other network and one on each other device
  std::vector<Workload> unsized_;  // the same without batch size, depth and base_filters
};

}  // namespace perfpred
