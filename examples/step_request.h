// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options that perfpred-inspect and perfpred-trace share, and what they do with a step.
#include <perfpred/device.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli.h"
#include "step_output.h"
#include "tools/complexity_tables.h"

namespace perfpred::cli {

struct StepRequest {
  std::string network;
  std::optional<int> depth, base_filters;
  std::int64_t batch_size = 32;
  std::vector<std::string> inputs;  // of one sample
  std::optional<std::int64_t> classes;
  std::string optimizer = "adam", precision = "fp32", device;
  std::string ops, tables;
  std::vector<std::string> networks;
  std::vector<std::int64_t> batch_sizes;
  bool json = false;
  CLI::Option* batch_option = nullptr;

  /// @returns the option --network
  CLI::Option* add_to(Program& program) {
    auto* option = program.add_option("--network", network, "a network of the zoo, cifar_cnn or transformer:...");
    program.add_option("--depth", depth, "blocks of cifar_cnn");
    program.add_option("--base-filters", base_filters, "channels of its first block");
    batch_option = program.add_option("--batch-size", batch_size, "samples a step")->capture_default_str();
    program.add_option("--input", inputs, "one sample, as 3x224x224, or a sequence length; default: the network's own")
        ->delimiter(',');
    program.add_option("--classes", classes, "default: the network's own");
    program.add_option("--optimizer", optimizer, "none, sgd, nesterov, adam, ...")->capture_default_str();
    program.add_option("--precision", precision, "fp32, tf32, default, bf16, fp16 or fp64")->capture_default_str();
    program.add_option("--device", device, "device of the catalogue that the step is to fit");
    program.add_option("--ops", ops, "write the operators to this CSV");
    auto* folder = program.add_option("--tables", tables, "write models.csv and batches.csv into this folder");
    program.add_option("--networks", networks, "networks of the tables, joined by commas; default: the one given")
        ->delimiter(',')
        ->needs(folder);
    program
        .add_option("--batch-sizes", batch_sizes, "batch sizes of the tables, joined by commas; default: the one given")
        ->delimiter(',')
        ->needs(folder);
    program.add_flag("--json", json, "one JSON document on stdout");
    return option;
  }

  /// The workload of --network. @throws InputError
  [[nodiscard]] Workload workload() const {
    Workload made;
    if (CLI::detail::to_lower(network) == "cifar_cnn") {
      if (!depth || !base_filters) throw InputError("cifar_cnn needs --depth and --base-filters");
      made = Workload::cifar_cnn(*depth, *base_filters, batch_size);
    } else {
      if (depth || base_filters) throw InputError("--depth and --base-filters are for cifar_cnn");
      made = Workload::zoo(network, batch_size);
    }
    if (inputs.size() > 1) throw InputError(network + " takes one input, not " + std::to_string(inputs.size()));
    if (!inputs.empty()) made.input = parse_shape(inputs[0]);
    if (classes) made.classes = *classes;
    return with_training(std::move(made));
  }

  /// Writes the requested tables and prints the step.
  /// @param own     the network or file of the request, if it names one
  /// @param of_zoo  gives the steps of a network of the zoo
  /// @throws InputError also for an option that has no effect in this request
  void answer(const std::optional<NetworkSteps>& own,
              const std::function<NetworkSteps(const Workload& workload)>& of_zoo) const {
    refuse_idle_options(own.has_value());
    if (!tables.empty()) write_tables(own, of_zoo);
    if (own) show(*own);
  }

 private:
  [[nodiscard]] Workload with_training(Workload workload) const {
    workload.optimizer = parse_optimizer(optimizer);
    workload.precision = parse_precision(precision);
    return workload;
  }

  void refuse_idle_options(bool has_own) const {
    const bool of_file = has_own && network.empty();
    if (!networks.empty() && !of_file && (!inputs.empty() || classes)) {
      throw InputError("--networks have their own input and classes: --input and --classes are for --network alone");
    }
    if (has_own) return;
    const auto refuse = [](const char* option) {
      throw InputError(fmt::format("{} is for --network; tables do not depend on it", option));
    };
    if (depth || base_filters) refuse(depth ? "--depth" : "--base-filters");
    if (!device.empty()) refuse("--device");
    if (!ops.empty()) refuse("--ops");
    if (!batch_sizes.empty() && batch_option->count() > 0) refuse("--batch-size beside --batch-sizes");
  }

  void write_tables(const std::optional<NetworkSteps>& own,
                    const std::function<NetworkSteps(const Workload& workload)>& of_zoo) const {
    std::vector<NetworkSteps> rows;
    if (own && (networks.empty() || network.empty())) rows.push_back(*own);  // a file's stands beside others
    for (const std::string& name : networks) rows.push_back(of_zoo(with_training(Workload::zoo(name, 1))));
    const auto files =
        write_complexity_tables(tables, rows, batch_sizes.empty() ? std::vector{batch_size} : batch_sizes);
    if (json && !own) fmt::print("{}\n", nlohmann::json{{"files", files}}.dump(2));
    for (const std::string& file : files) fmt::print(stderr, "wrote {}\n", file);
  }

  void show(const NetworkSteps& steps) const {
    std::optional<Device> on;
    if (!device.empty()) on = DeviceCatalogue().find_measured(device);
    const StepReport report = report_step(steps, batch_size, parse_precision(precision), on);
    if (report.device && !report.device->largest_batch_unknown.empty()) {
      fmt::print(stderr, "the largest batch is not known: {}\n", report.device->largest_batch_unknown);
    }
    if (!ops.empty()) write_ops(report.step, ops);
    if (json) {
      fmt::print("{}\n", to_json(report).dump(2));
    } else {
      print_text(report);
    }
  }
};

}  // namespace perfpred::cli
