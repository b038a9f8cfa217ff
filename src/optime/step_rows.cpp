// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "optime/step_model.h"
#include "text/csv.h"

namespace perfpred {
namespace {

bool begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

/// What a row's `precision` says: `half` and `double` are pure, `amp` and `fp16` mixed.
struct Arithmetic {
  Precision rates;  // of the device
  Precision graph;
  StepArithmetic whole = StepArithmetic::as_graph;
};

std::optional<Arithmetic> arithmetic_of(std::string_view text) {
  if (text == "half") return Arithmetic{Precision::fp16, Precision::fp32, StepArithmetic::half};
  if (text == "double" || text == "fp64") return Arithmetic{Precision::fp64, Precision::fp32, StepArithmetic::double_};
  if (begins(text, "amp") || text == "fp16") return Arithmetic{Precision::fp16, Precision::fp16};
  if (text == "bf16") return Arithmetic{Precision::bf16, Precision::bf16};
  if (text == "tf32") return Arithmetic{Precision::tf32, Precision::tf32};
  if (begins(text, "default") || begins(text, "fp32(")) return Arithmetic{Precision::default_, Precision::fp32};
  if (text == "fp32") return Arithmetic{Precision::fp32, Precision::fp32};
  return std::nullopt;
}

/// The picture's side from `synthetic 3x224x224`, `synthetic 224`, `CIFAR-10`; ImageNet's otherwise.
std::int64_t side_of(std::string_view dataset) {
  if (begins(dataset, "CIFAR")) return 32;
  std::int64_t side = 0, last = 0;
  for (const char c : dataset) {
    if (c >= '0' && c <= '9') {
      side = std::min<std::int64_t>(side * 10 + (c - '0'), 100'000);
      last = side;
    } else {
      side = 0;
    }
  }
  return last > 0 ? last : 224;
}

std::string network_name(std::string_view model, std::string_view dataset) {
  std::string name = canonical_network(model);
  if (name.size() > 4 && name.substr(name.size() - 4) == "v1.5") name.resize(name.size() - 4);
  const bool small = begins(dataset, "CIFAR") && (name == "resnet18" || name == "resnet34");
  return small ? "cifar_" + name : name;
}

using GraphKey = std::tuple<std::string, std::int64_t, std::int64_t, Precision, std::string>;
using Kernels = std::shared_ptr<const std::vector<StepKernel>>;

Kernels kernels_of(const GraphKey& key, std::map<GraphKey, Kernels>& cache) {
  const auto known = cache.find(key);
  if (known != cache.end()) return known->second;
  const auto& [network, batch, side, precision, optimizer] = key;
  Kernels kernels;
  try {
    Workload workload = Workload::zoo(network, batch, {3, side, side});
    workload.precision = precision;
    workload.optimizer = optimizer.empty() ? Optimizer::none : parse_optimizer(optimizer);
    kernels = std::make_shared<const std::vector<StepKernel>>(step_kernels(workload.graph()));
  } catch (const InputError&) {
    kernels = nullptr;  // the zoo has no such network, or the picture does not fit it
  }
  cache.emplace(key, kernels);
  return kernels;
}

}  // namespace

std::optional<Precision> step_precision(std::string_view text) {
  const auto arithmetic = arithmetic_of(text);
  return arithmetic ? std::optional(arithmetic->rates) : std::nullopt;
}

StepDevice step_device(const Device& device, Precision precision, StepArithmetic arithmetic) {
  StepDevice step;
  Device able = device;
  // Cards without fast half arithmetic compute it in single precision.
  const bool half = precision == Precision::fp16 || precision == Precision::bf16;
  step.emulated_half = half && !able.matrix_flops(precision);
  if (step.emulated_half) precision = Precision::fp32;
  step.matrix = hardware_of(able, precision);
  step.conv_flops = able.convolution_flops(precision).value_or(step.matrix.flops);
  const bool wide = precision == Precision::fp64;
  if (wide) step.matrix.vector_flops = able.fp64_vector_tflops.value_or(step.matrix.flops / 1e12) * 1e12;
  const double vector = step.matrix.vector_flops * 1.05;
  step.matrix_units = step.matrix.flops > vector;
  step.conv_matrix_units = step.conv_flops > vector;
  step.fp64 = wide;
  step.byte_scale = arithmetic == StepArithmetic::half ? 0.5 : arithmetic == StepArithmetic::double_ ? 2 : 1;
  return step;
}

StepTable read_step_table(const std::string& path) {
  CsvReader csv(path);
  const CsvColumn source = csv.required("source"), gpu = csv.required("gpu"), model = csv.required("model"),
                  dataset = csv.required("dataset"), batch = csv.required("batch"),
                  precision = csv.required("precision"), time = csv.required("ms_per_step"),
                  optimizer = csv.optional("optimizer");
  const DeviceCatalogue devices;
  std::map<GraphKey, Kernels> graphs;
  StepTable file;
  while (csv.next()) {
    const auto leave = [&](const std::string& reason) { ++file.unscored[reason]; };
    if (csv.text(time).empty()) {
      leave("no time");
      continue;
    }
    StepRow row;
    row.sec = csv.positive(time) / 1e3;
    row.source = csv.text(source);
    row.gpu = csv.text(gpu);
    row.model = csv.text(model);
    row.precision = csv.text(precision);
    if (csv.text(batch).empty()) {
      leave("no batch size");
      continue;
    }
    row.batch = static_cast<std::int64_t>(std::llround(csv.positive(batch)));
    const std::vector<const Device*> named = devices.candidates(row.gpu);
    if (named.size() != 1) {
      leave(named.empty() ? "unknown device" : "ambiguous device");
      continue;
    }
    const auto arithmetic = arithmetic_of(row.precision);
    if (!arithmetic) {
      leave("unknown precision");
      continue;
    }
    try {
      row.device = step_device(*named.front(), arithmetic->rates, arithmetic->whole);
    } catch (const InputError&) {
      leave("no peak in this precision");
      continue;
    }
    const std::string network = network_name(row.model, csv.text(dataset));
    const std::int64_t side = side_of(csv.text(dataset));
    row.kernels = kernels_of({network, row.batch, side, arithmetic->graph, std::string(csv.text(optimizer))}, graphs);
    if (row.kernels == nullptr) {
      leave("unknown network");
      continue;
    }
    row.family = row.device.matrix.family;
    row.machine = fmt::format("{}|{}|{}", row.source, row.gpu, row.precision);
    row.network = fmt::format("{}|{}|{}|{}", network, row.batch, side, row.precision);
    file.rows.push_back(std::move(row));
  }
  return file;
}

}  // namespace perfpred
