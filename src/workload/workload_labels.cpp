// SPDX-License-Identifier: Apache-2.0
#include "workload/workload_labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace perfpred {

WorkloadFields differing_fields(std::span<const Workload> workloads, std::initializer_list<std::string_view> ignored) {
  WorkloadFields fields;
  for (const WorkloadColumn& column : workload_columns()) {
    if (std::find(ignored.begin(), ignored.end(), column.name) != ignored.end()) continue;
    const bool of_network = column.name == "input" || column.name == "classes";
    const bool differs = std::any_of(workloads.begin(), workloads.end(), [&](const Workload& w) {
      const auto other = std::find_if(workloads.begin(), workloads.end(), [&](const Workload& one) {
        return !of_network || one.network.family() == w.network.family();
      });
      return column.get(w) != column.get(*other);
    });
    if (differs) fields.push_back(&column);
  }
  return fields;
}

std::string label_of(const Workload& workload, const WorkloadFields& fields) {
  std::vector<std::string> parts;
  for (const WorkloadColumn* field : fields) {
    const std::string value = field->get(workload);
    if (value.empty() || value == "0") continue;  // 0: a flag that is not set
    if (field->name == "base_filters") {
      parts.push_back(value + " filters");
    } else if (field->name == "batch_size") {
      parts.push_back("batch " + value);
    } else if (std::isdigit(static_cast<unsigned char>(value.front())) != 0) {
      parts.push_back(fmt::format("{} {}", field->name, value));
    } else {
      parts.push_back(value);
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string name_of(const Workload& workload, const WorkloadFields& fields) {
  const std::string label = label_of(workload, fields);
  return label.empty() ? std::string(workload.network.family()) : label;
}

const char* throughput_unit(std::span<const Workload> workloads) {
  const auto is_captured = [](const Workload& workload) { return is_captured_step(workload.network); };
  if (std::any_of(workloads.begin(), workloads.end(), is_captured)) return "samples/s";
  const auto takes_tokens = [](const Workload& workload) { return workload.input.size() == 1; };
  const auto takes_pictures = [](const Workload& workload) { return workload.input.size() == 3; };
  if (std::all_of(workloads.begin(), workloads.end(), takes_pictures)) return "images/s";
  return std::all_of(workloads.begin(), workloads.end(), takes_tokens) ? "sequences/s" : "samples/s";
}

}  // namespace perfpred
