// SPDX-License-Identifier: Apache-2.0
#include "tools/workload_sweep.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/csv.h"
#include "workload/workload_columns.h"

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

/// Joins what commas within a network's name have cut apart: a piece `hidden=64` belongs to the name before it.
std::vector<std::string> whole_networks(const std::vector<std::string>& pieces) {
  std::vector<std::string> names;
  for (const std::string& piece : pieces) {
    if (!names.empty() && names.back().find('=') != std::string::npos && piece.find('=') != std::string::npos &&
        piece.find(':') == std::string::npos) {
      names.back() += "," + piece;
    } else {
      names.push_back(piece);
    }
  }
  return names;
}

}  // namespace

std::vector<Workload> sweep_workloads(const Workload& base, const std::vector<SweptField>& fields) {
  std::vector<Workload> workloads = {base};
  for (SweptField field : fields) {
    if (field.values.empty()) continue;
    if (field.name == "network") field.values = whole_networks(field.values);
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

std::vector<Workload> read_configurations(const std::string& path, const Workload& base,
                                          const std::vector<SweptField>& fields) {
  Workload unnamed = base;  // of rows without a network
  std::vector<SweptField> others;
  for (const SweptField& field : fields) {
    const bool names = field.name == "network";
    const std::vector<std::string> values = names ? whole_networks(field.values) : field.values;
    if (values.size() > 1)
      throw InputError(fmt::format("{}: beside a table of configurations it has one value", field.name));
    if (!names) {
      others.push_back(field);
    } else if (!values.empty()) {
      unnamed = with_network(base, values.front());
    }
  }
  CsvReader csv(path);
  const CsvColumn network = csv.optional("network");
  const WorkloadReader reader(csv, base);
  std::vector<Workload> workloads;
  while (csv.next()) {
    Workload workload = unnamed;
    if (const std::string_view name = csv.text(network); !name.empty()) {
      try {
        workload = with_network(base, name);
      } catch (const InputError& error) {
        throw InputError(csv.place("").prefix() + error.what());
      }
    }
    workloads.push_back(reader.read(csv, sweep_workloads(workload, others).front()));
  }
  if (workloads.empty()) throw InputError(path + ": has a header and no row");
  return workloads;
}

}  // namespace perfpred
