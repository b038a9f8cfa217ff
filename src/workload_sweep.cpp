#include <perfpred/error.h>
#include <perfpred/workload_sweep.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "workload_columns.h"

namespace perfpred {
namespace {

constexpr std::string_view family = "cifar_cnn";

Workload with_network(const Workload& base, std::string_view name) {
  if (name == family) return base;
  const Workload usual = Workload::zoo(name, base.batch_size);
  Workload workload = base;
  workload.network = usual.network;
  workload.input = usual.input;
  workload.classes = usual.classes;
  workload.depth = workload.base_filters = std::nullopt;
  return workload;
}

Workload with_field(const Workload& base, const std::string& name, const std::string& text) {
  if (name == "network") return with_network(base, text);
  const auto columns = workload_columns();
  const auto column =
      std::find_if(columns.begin(), columns.end(), [&name](const WorkloadColumn& c) { return c.name == name; });
  if (column == columns.end()) throw InputError(fmt::format("\"{}\" is no field of a workload", shown(name)));
  Workload workload = base;
  column->set(workload, text, {{}, 0, name});
  return workload;
}

}  // namespace

std::vector<Workload> sweep_workloads(const Workload& base, const std::vector<SweptField>& fields) {
  std::vector<Workload> workloads = {base};
  for (const SweptField& field : fields) {
    if (field.values.empty()) continue;
    const bool of_family = field.name == "depth" || field.name == "base_filters";
    std::vector<Workload> next;
    for (const Workload& workload : workloads) {
      if (of_family && workload.network != family) {
        next.push_back(workload);
        continue;
      }
      for (const std::string& value : field.values) next.push_back(with_field(workload, field.name, value));
    }
    workloads = std::move(next);
  }
  return workloads;
}

}  // namespace perfpred
