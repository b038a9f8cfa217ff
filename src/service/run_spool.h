// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "service/served_models.h"
#include "service/service.h"

namespace perfpred {

/// A folder into which jobs drop what they measured, each a file of its own that appears whole: `NAME.csv`, a runs.csv.
/// Its runs are taught to a model. Then the file is moved into the folder `done`, or, if it is no such table, into
/// `refused` with a line that says why; if the model cannot be written, it stays and is tried again.
class RunSpool {
 public:
  using Say = std::function<void(const std::string& line)>;
  static constexpr auto pause = std::chrono::seconds(1);  ///< between looks into the folder

  /// @param models, service  outlive the spool
  /// @param folder           made where it is missing
  /// @param model            its name; empty: the first that has a file
  /// @throws InputError if there is no such model, or no such folder can be made
  RunSpool(const ServedModels& models, const Service& service, std::string folder, std::string model, Say say);

  /// Takes the files that are there, in the order of their names. Throws nothing.
  void take();

 private:
  void take(const std::string& name);

  const ServedModels& models_;
  const Service& service_;
  std::string folder_, model_;
  Say say_;
  std::string complaint_;
};

}  // namespace perfpred
