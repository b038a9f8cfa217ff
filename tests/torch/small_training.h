// SPDX-License-Identifier: Apache-2.0
#pragma once
// A training of seconds, for the tests of train_net().
#include <perfpred/torch/net_trainer.h>

#include <algorithm>
#include <string>
#include <vector>

namespace perfpred::testing {

/// Batch norm, dropout and depthwise convolutions on a few small images.
inline TrainNetOptions small() {
  TrainNetOptions options;
  options.network = "mobilenet_v3_small";
  options.input = "3x32x32";
  options.train_images = 96;
  options.batch_size = 32;
  options.learning_rate = 0.01;
  options.warmup = 2;
  options.epochs = 3;
  options.threads = 1;
  options.device = "cpu";
  return options;
}

/// The same for so many epochs, with checkpoints.
inline TrainNetOptions small(int epochs, const std::string& out_dir) {
  TrainNetOptions options = small();
  options.epochs = epochs;
  options.out_dir = out_dir;
  return options;
}

inline TrainNetResult run(const TrainNetOptions& options, std::vector<std::string>* lines = nullptr) {
  return train_net(options, [lines](const std::string& line) {
    if (lines != nullptr) lines->push_back(line);
  });
}

inline bool said(const std::vector<std::string>& lines, const std::string& what) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(what) != std::string::npos; });
}

}  // namespace perfpred::testing
