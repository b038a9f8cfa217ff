// SPDX-License-Identifier: Apache-2.0
#include "workload/workload_json.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "network/zoo/cifar_cnn.h"
#include "text/model_json.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

void set_field(Workload& workload, const WorkloadColumn& column, std::string_view text) {
  try {
    if (!text.empty()) column.set(workload, text, {{}, 0, column.name});
  } catch (const InputError& error) {
    throw ModelError(fmt::format("field \"workloads\": {}", error.what()));
  }
}

const WorkloadColumn& field_named(const std::string& name) {
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.name == name) return column;
  }
  throw ModelError(fmt::format("field \"workloads\": there is no \"{}\"", name));
}

/// Reads one row after the other. What a row's first fields make of the workload is kept for the next row, which often
/// begins alike.
class RowReader {
 public:
  RowReader(Workload same, const std::vector<std::string>& fields) {
    made_.push_back({nullptr, std::move(same), nullptr});
    for (const std::string& name : fields) made_.push_back({&field_named(name), {}, nullptr});
  }

  Workload read(const nlohmann::json& row) {
    constexpr const char* wanted = "lists of a text for each field";
    if (!row.is_array() || row.size() + 1 != made_.size()) refuse_field("rows", wanted);
    bool alike = true;  // so far as the row before
    for (std::size_t i = 1; i < made_.size(); ++i) {
      Made& made = made_[i];
      const auto* text = row[i - 1].get_ptr<const std::string*>();
      if (text == nullptr) refuse_field("rows", wanted);
      alike = alike && made.text != nullptr && *made.text == *text;
      made.text = text;
      if (alike) continue;
      made.workload = made_[i - 1].workload;
      set_field(made.workload, *made.column, *text);
    }
    try {
      made_.back().workload.validate();
    } catch (const InputError& error) {
      throw ModelError(fmt::format("field \"workloads\": {}", error.what()));
    }
    return made_.back().workload;
  }

 private:
  struct Made {
    const WorkloadColumn* column;
    Workload workload;        // with the fields up to this one
    const std::string* text;  // of this one, in the row before
  };

  std::vector<Made> made_;  // the first: the fields that all rows share
};

}  // namespace

Workload json_workload(const nlohmann::json& object, const char* name) {
  try {
    return Workload::from_key(json_text(object, name));
  } catch (const InputError& error) {
    throw ModelError(fmt::format("field \"{}\": {}", name, error.what()));
  }
}

nlohmann::json workloads_json(std::span<const Workload> workloads) {
  nlohmann::json same = nlohmann::json::object(), fields = nlohmann::json::array(), rows = nlohmann::json::array();
  std::vector<const WorkloadColumn*> differ;
  for (const WorkloadColumn& column : workload_columns()) {
    const std::string first = workloads.empty() ? std::string() : column.get(workloads.front());
    const auto is_first = [&](const Workload& one) { return column.get(one) == first; };
    if (!std::ranges::all_of(workloads, is_first)) {
      fields.push_back(column.name);
      differ.push_back(&column);
    } else if (first != column.usual && !first.empty()) {
      same[std::string(column.name)] = first;
    }
  }
  for (const Workload& workload : workloads) {
    nlohmann::json& row = rows.emplace_back(nlohmann::json::array());
    for (const WorkloadColumn* column : differ) row.push_back(column->get(workload));
  }
  return {{"same", same}, {"fields", fields}, {"rows", rows}};
}

std::vector<Workload> read_workloads(const nlohmann::json& table) {
  Workload same;
  same.network = cifar_cnn_family;
  const nlohmann::json& shared = json_object(table, "same");
  for (const auto& item : shared.items()) (void)field_named(item.key());
  for (const WorkloadColumn& column : workload_columns()) {  // in their order: the network comes first
    const std::string name(column.name);
    if (shared.contains(name)) set_field(same, column, json_text(shared, name.c_str()));
  }
  const nlohmann::json& rows = json_field(table, "rows");
  if (!rows.is_array()) refuse_field("rows", "a list");
  RowReader reader(std::move(same), json_texts(table, "fields"));
  std::vector<Workload> workloads;
  workloads.reserve(rows.size());
  for (const nlohmann::json& row : rows) workloads.push_back(reader.read(row));
  return workloads;
}

}  // namespace perfpred
