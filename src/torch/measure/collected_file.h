// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <cstdint>
#include <span>
#include <string>

namespace perfpred {

/// A user's file of torch.export.save() whose network is measured.
class CollectedFile {
 public:
  /// @throws InputError if it cannot be read or is not a file of torch.export.save()
  explicit CollectedFile(std::string path);

  [[nodiscard]] const std::string& name() const { return name_; }  ///< of a workload that trains it
  [[nodiscard]] std::int64_t params() const { return params_; }    ///< trainable ones

  /// Does what Collector::write_graphs() says. @param folder  gets a folder `graphs`
  void write_graphs(std::span<const Workload> workloads, const std::string& folder) const;

 private:
  void write_graph(const Workload& workload, const std::string& path) const;

  std::string path_, name_;
  std::int64_t params_ = 0;
  bool gives_loss_ = false;  // of the samples and their targets
};

}  // namespace perfpred
