// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options that name the fields of a workload.
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli.h"
#include "tools/answer_text.h"
#include "tools/json_request.h"
#include "tools/own_gpu.h"
#include "tools/workload_sweep.h"
#include "workload/workload_columns.h"

namespace perfpred::cli {

/// Says on standard error what whoever reads an answer for a step file should know.
inline void print_notes(const StepFile& file, const std::string& path) {
  for (const std::string& note : file.notes()) fmt::print(stderr, "{}: {}\n", path, note);
}

/// An option for each field of a workload: `--base-filters` for base_filters.
class WorkloadOptions {
 public:
  /// Also `--config`, in place of `--network`.
  /// @param without  fields that have no option, or another one
  void add_to(Program& program, const std::set<std::string_view>& without = {}) {
    for (const WorkloadColumn& column : workload_columns()) {
      if (without.contains(column.name)) continue;
      program.add_option_function<std::string>(
          option_of(column.name),
          [this, field = std::string(column.name)](const std::string& value) {
            fields_.push_back({field, {value}});
          },
          std::string(column.help));
    }
    if (without.contains("network")) return;
    program
        .add_option_function<std::string>(
            "--config",
            [this](const std::string& path) {
              fields_.push_back(with_configs({"config", {path}}));
            },
            "config.json of Hugging Face's transformers, in place of --network")
        ->excludes(program.get_option("--network"));
  }

  /// The same for a sweep from Workload() on of what can be trained: options take several values.
  void add_lists_to(Program& program, const std::set<std::string_view>& without) {
    for (const WorkloadColumn& column : workload_columns()) {
      if (column.only_predicted || without.contains(column.name)) continue;
      const std::string preset =
          column.how != DomainViolation::none ? fmt::format(" (default {})", column.get(Workload())) : "";
      program
          .add_option_function<std::vector<std::string>>(
              option_of(column.name),
              [this, field = std::string(column.name)](const std::vector<std::string>& values) {
                fields_.push_back({field, values});
              },
              fmt::format("{}{}; several joined by commas", column.help, preset))
          ->delimiter(',');
    }
  }

  /// add_step_fields() to those given. @throws InputError as it does
  void take(const StepFile& file, std::string_view swept) { add_step_fields(fields_, file, swept); }

  /// The fields that are given.
  [[nodiscard]] const std::vector<SweptField>& fields() const { return fields_; }

  /// take_own_gpu() for the fields that are given.
  [[nodiscard]] std::string take_gpu(std::int64_t& reserved_by_others) {
    return take_own_gpu(fields_, reserved_by_others);
  }

  /// The field's value, the first of several, or null if it is not given.
  [[nodiscard]] const std::string* find(std::string_view name) const {
    for (const SweptField& field : fields_) {
      if (field.name == name) return &field.values.front();
    }
    return nullptr;
  }

 private:
  std::vector<SweptField> fields_;
};

}  // namespace perfpred::cli
