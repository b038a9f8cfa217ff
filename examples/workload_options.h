// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options that name the fields of a workload.
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli.h"
#include "tools/workload_sweep.h"

namespace perfpred::cli {

/// An option for each field of a workload: `--base-filters` for base_filters.
class WorkloadOptions {
 public:
  void add_to(Program& program) {
    constexpr std::array<std::pair<const char*, const char*>, 15> texts = {{
        {"network", "network; default: the model's own"},
        {"depth", "blocks of cifar_cnn"},
        {"base_filters", "channels of its first block"},
        {"batch_size", "images (or sequences) a step"},
        {"input", "one sample, as 3x32x32, or a sequence length"},
        {"classes", "classes"},
        {"train_images", "images (or sequences) an epoch"},
        {"optimizer", "none, sgd, nesterov, adam, ..."},
        {"precision", "fp32, tf32, default, bf16, fp16 or fp64"},
        {"layout", "nchw or nhwc"},
        {"cuda_graph", "0 or 1"},
        {"device", "name of the device"},
        {"threads", "CPU threads"},
        {"optimizer_impl", "fused (one kernel for the update) or foreach (PyTorch's default: one for each operation)"},
        {"attention", "of transformers: sdpa (PyTorch's fused kernels) or eager (written out)"},
    }};
    for (const auto& [name, text] : texts) {
      std::string option = std::string("--") + name;
      for (char& c : option) c = c == '_' ? '-' : c;
      program.add_option_function<std::string>(
          option,
          [this, field = name](const std::string& value) {
            fields_.push_back({field, {value}});
          },
          text);
    }
  }

  /// Takes the network of a step file, with its precision and, unless it is given or `swept`, its batch size.
  /// @throws InputError if another field that the step decides is given or `swept`
  void take(const StepFile& file, std::string_view swept) {
    for (const char* field : {"network", "depth", "base_filters", "input", "classes", "optimizer", "precision"}) {
      if (find(field) != nullptr || swept == field)
        throw InputError(std::string(field) + " is given; a step file has its own");
    }
    fields_.push_back({"network", {file.name()}});
    fields_.push_back({"precision", {std::string(to_string(file.precision()))}});
    if (find("batch_size") == nullptr && swept != "batch_size") {
      fields_.push_back({"batch_size", {std::to_string(file.batch_size())}});
    }
  }

  /// The fields that are given, with one value each.
  [[nodiscard]] const std::vector<SweptField>& fields() const { return fields_; }

  /// The field's value, or null if it is not given.
  [[nodiscard]] std::string* find(std::string_view name) {
    for (SweptField& field : fields_) {
      if (field.name == name) return &field.values.front();
    }
    return nullptr;
  }

 private:
  std::vector<SweptField> fields_;
};

}  // namespace perfpred::cli
