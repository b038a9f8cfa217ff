// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options that perfpred-inspect and perfpred-trace share, and what they do with a step.
#include <perfpred/workload.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli.h"
#include "device_file.h"
#include "step_output.h"
#include "tools/complexity_tables.h"
#include "tools/inspection.h"
#include "tools/report_json.h"
#include "tools/step_report.h"
#include "tools/workload_sweep.h"
#include "workload_options.h"

namespace perfpred::cli {

struct StepRequest {
  WorkloadOptions fields;
  std::int64_t batch_size = usual_batch_size;
  std::vector<std::string> inputs;  // of one sample
  std::string device;
  DeviceFile device_file;
  std::string ops, tables;
  std::vector<std::string> networks;
  std::vector<std::int64_t> batch_sizes;
  bool json = false, layers = false;
  CLI::Option* batch_option = nullptr;

  /// @param of_zoo  whether the networks of the zoo may be named, with all of their fields
  void add_to(Program& program, bool of_zoo) {
    batch_option = program.add_option("--batch-size", batch_size, "samples a step")->capture_default_str();
    program
        .add_option("--input", inputs,
                    of_zoo ? "one sample, as 3x224x224, or a sequence length; default: the network's own"
                           : "one sample: 3x224x224, a sequence length, or scalar, a class; several joined by commas")
        ->delimiter(',');
    std::set<std::string_view> without = {"batch_size", "input",    "train_images", "layout", "cuda_graph", "device",
                                          "threads",    "compiled", "software",     "loader", "cluster"};
    for (const WorkloadColumn& column : workload_columns()) {
      if (!of_zoo && column.name != "optimizer" && column.name != "precision") without.insert(column.name);
    }
    fields.add_to(program, without);
    device_file.add_to(program)->needs(
        program.add_option("--device", device, "device of the catalogue that the step is to fit"));
    program.add_flag("--layers", layers, "each layer's output, parameters, FLOPs and bytes, too");
    program.add_option("--ops", ops, "write the operators to this CSV");
    auto* folder = program.add_option("--tables", tables, "write models.csv and batches.csv into this folder");
    if (of_zoo) {
      program.add_option("--networks", networks, "networks of the tables, joined by commas; default: the one given")
          ->delimiter(',')
          ->needs(folder);
    }
    program
        .add_option("--batch-sizes", batch_sizes, "batch sizes of the tables, joined by commas; default: the one given")
        ->delimiter(',')
        ->needs(folder);
    program.add_flag("--json", json, "one JSON document on stdout");
  }

  [[nodiscard]] std::string network() const { return text_of("network", ""); }
  [[nodiscard]] Optimizer optimizer() const { return parse_optimizer(text_of("optimizer", "adam")); }
  [[nodiscard]] Precision precision() const { return parse_precision(text_of("precision", "fp32")); }

  /// The workload of --network. @throws InputError
  [[nodiscard]] Workload workload() const { return workloads({network()}, inputs).front(); }

  /// Writes the requested tables and prints the step.
  /// @param own        the network or file of the request, if it names one
  /// @param precision  of its step
  /// @throws InputError also for an option that has no effect in this request
  void answer(const std::optional<NetworkSteps>& own, Precision precision) const {
    refuse_idle_options(own.has_value());
    if (!tables.empty()) write_tables(own);
    if (own) show(*own, precision);
  }

 private:
  [[nodiscard]] std::string text_of(std::string_view field, const char* preset) const {
    const std::string* given = fields.find(field);
    return given != nullptr ? *given : preset;
  }

  /// The workloads of these networks, with the options given. @throws InputError
  [[nodiscard]] std::vector<Workload> workloads(const std::vector<std::string>& names,
                                                const std::vector<std::string>& input) const {
    if (input.size() > 1) throw InputError(names.front() + " takes one input, not " + std::to_string(input.size()));
    Workload base;
    base.network = "cifar_cnn";  // without sizes
    std::vector<SweptField> asked = {
        {"network", names}, {"batch_size", {std::to_string(batch_size)}}, {"input", input}};
    for (const SweptField& field : fields.fields()) {
      if (field.name != "network") asked.push_back(field);
    }
    std::vector<Workload> all = sweep_workloads(std::span(&base, 1), asked);
    for (const Workload& workload : all) workload.validate();
    return all;
  }

  void refuse_idle_options(bool has_own) const {
    if (has_own) return;
    const auto refuse = [](const char* option) {
      throw InputError(fmt::format("{} is for --network; tables do not depend on it", option));
    };
    if (!device.empty()) refuse("--device");
    if (!ops.empty()) refuse("--ops");
    if (layers) refuse("--layers");
    if (!batch_sizes.empty() && batch_option->count() > 0) refuse("--batch-size beside --batch-sizes");
  }

  void write_tables(const std::optional<NetworkSteps>& own) const {
    std::vector<NetworkSteps> rows;
    if (own && (networks.empty() || network().empty())) rows.push_back(*own);  // a file's stands beside others
    if (!networks.empty()) {
      std::vector<std::string> names = networks;
      if (!network().empty()) names.push_back(network());  // the options may be for it alone
      const bool of_file = own && network().empty();       // --input is the file's
      std::vector<Workload> all = workloads(names, of_file ? std::vector<std::string>() : inputs);
      if (!network().empty()) all.pop_back();
      for (const Workload& workload : all) rows.push_back(steps_of(workload));
    }
    const auto files =
        write_complexity_tables(tables, rows, batch_sizes.empty() ? std::vector{batch_size} : batch_sizes);
    if (json && !own) fmt::print("{}\n", dumped(nlohmann::json{{"files", files}}, 2));
    for (const std::string& file : files) fmt::print(stderr, "wrote {}\n", file);
  }

  void show(const NetworkSteps& steps, Precision precision) const {
    std::optional<Device> on;
    if (!device.empty()) on = device_file.catalogue_for(device).find(device);
    const StepReport report = report_step(steps, batch_size, precision, on);
    if (report.device && !report.device->largest_batch_unknown.empty()) {
      fmt::print(stderr, "the largest batch is not known: {}\n", report.device->largest_batch_unknown);
    }
    if (!ops.empty()) write_ops(report.step.graph(), ops);
    if (json) {
      nlohmann::json document = to_json(report);
      if (layers) document["layers"] = to_json(report.layers());
      fmt::print("{}\n", dumped(document, 2));
    } else {
      print_text(report);
      if (layers) print_layers(report.layers());
    }
  }
};

}  // namespace perfpred::cli
