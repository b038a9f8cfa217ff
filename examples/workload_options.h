// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options that name a workload, shared by the programs that predict.
#include <perfpred/workload.h>

#include <optional>
#include <string>

#include "cli.h"

namespace perfpred::cli {

/// Each option that is given replaces the field of a default workload.
struct WorkloadOptions {
  std::optional<std::string> network, input, optimizer, precision, layout, device;
  std::optional<int> depth, base_filters, threads;
  std::optional<std::int64_t> batch_size, classes, train_images;
  std::optional<bool> cuda_graph;

  void add_to(Program& program) {
    program.add_option("--network", network, "network; default: the model's own");
    program.add_option("--depth", depth, "blocks of cifar_cnn");
    program.add_option("--base-filters", base_filters, "channels of its first block");
    program.add_option("--batch-size", batch_size, "images a step");
    program.add_option("--input", input, "one sample, as 3x32x32");
    program.add_option("--classes", classes, "classes");
    program.add_option("--train-images", train_images, "images an epoch");
    program.add_option("--optimizer", optimizer, "none, sgd, nesterov, adam, ...");
    program.add_option("--precision", precision, "fp32, tf32, default, bf16, fp16, fp64 or unknown");
    program.add_option("--layout", layout, "nchw or nhwc");
    program.add_option("--cuda-graph", cuda_graph, "0 or 1");
    program.add_option("--device", device, "name of the device");
    program.add_option("--threads", threads, "CPU threads");
  }

  /// @throws InputError if the result is no workload
  [[nodiscard]] Workload apply_to(Workload workload) const {
    if (network && *network != workload.network) {
      workload.network = *network;
      workload.depth = workload.base_filters = std::nullopt;
    }
    if (depth) workload.depth = depth;
    if (base_filters) workload.base_filters = base_filters;
    if (batch_size) workload.batch_size = *batch_size;
    if (input) workload.input = parse_shape(*input);
    if (classes) workload.classes = *classes;
    if (train_images) workload.train_images = *train_images;
    if (optimizer) workload.optimizer = parse_optimizer(*optimizer);
    if (precision) workload.precision = parse_precision(*precision);
    if (layout) workload.layout = parse_layout(*layout);
    if (cuda_graph) workload.cuda_graph = *cuda_graph;
    if (device) workload.device = *device;
    if (threads) workload.threads = threads;
    return workload;
  }
};

}  // namespace perfpred::cli
