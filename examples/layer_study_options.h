// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of a study of measured layers, in perfpred-evaluate and perfpred-train.
#include <string>
#include <vector>

#include "cli.h"
#include "progress.h"
#include "tools/layer_report.h"

namespace perfpred::cli {

/// Studies the layers of these tables. @throws InputError
inline LayerStudy study_of(const std::vector<std::string>& tables, const DeviceCatalogue& devices,
                           LayerStudyOptions options) {
  options.progress = counted_progress_on_terminal("types of layers");
  std::vector<LayerRow> rows;
  for (const std::string& table : tables) {
    const std::vector<LayerRow> some = read_layer_rows(table);
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return study_layers(rows, devices, options);
}

class LayerStudyOption {
 public:
  void add_to(Program& program, const std::vector<CLI::Option*>& others) {
    CLI::Option* option = program
                              .add_option("--layers", tables_,
                                          "tables of measured layers: kinds of regression compared for each type; "
                                          "joined by commas")
                              ->delimiter(',');
    program.add_option("--kinds", options_.kinds, "of --layers: ann, boosting, forest, linear (default: all)")
        ->delimiter(',')
        ->needs(option);
    program.add_option("--test-fraction", options_.test_fraction, "of --layers: rows of each type kept for the test")
        ->capture_default_str()
        ->needs(option);
    for (CLI::Option* other : others) option->excludes(other);
  }

  [[nodiscard]] bool given() const { return !tables_.empty(); }

  void show(const DeviceCatalogue& devices, std::uint64_t seed, bool json) const {
    LayerStudyOptions options = options_;
    options.seed = seed;
    const LayerStudy study = study_of(tables_, devices, options);
    for (const std::string& note : study.notes) fmt::print(stderr, "perfpred-evaluate: {}\n", note);
    fmt::print("{}", json ? dumped(to_json(study), 2) + "\n" : layer_study_text(study));
  }

 private:
  std::vector<std::string> tables_;
  LayerStudyOptions options_;
};

}  // namespace perfpred::cli
