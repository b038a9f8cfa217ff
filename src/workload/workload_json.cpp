// SPDX-License-Identifier: Apache-2.0
#include "workload/workload_json.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include "text/model_json.h"

namespace perfpred {

Workload json_workload(const nlohmann::json& object, const char* name) {
  try {
    return Workload::from_key(json_text(object, name));
  } catch (const InputError& error) {
    throw ModelError(fmt::format("field \"{}\": {}", name, error.what()));
  }
}

}  // namespace perfpred
