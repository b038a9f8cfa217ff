// SPDX-License-Identifier: Apache-2.0
#include <perfpred/time_regressor.h>
#include <perfpred/torch/ann.h>

#include <ATen/Functions.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <vector>

#include "../temporary_folder.h"

namespace perfpred {
namespace {

std::vector<AggregateRow> made_up_rows() {
  std::vector<AggregateRow> rows;
  for (const int depth : {2, 3, 4}) {
    for (const int base : {16, 32, 64}) {
      for (const int batch : {32, 96, 256, 1024}) {
        AggregateRow& row = rows.emplace_back();
        row.workload = Workload::cifar_cnn(depth, base, batch);
        row.n = 1;
        row.avg_time_mean = 0.1 * depth * std::sqrt(base) + 200.0 / batch;
      }
    }
  }
  return rows;
}

at::Tensor tensor(const nlohmann::json& numbers) {
  std::vector<float> flat;
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(numbers.size())};
  if (numbers.front().is_array()) shape.push_back(static_cast<std::int64_t>(numbers.front().size()));
  for (const nlohmann::json& row : numbers) {
    for (const nlohmann::json& number : row.is_array() ? row : nlohmann::json::array({row}))
      flat.push_back(number.get<float>());
  }
  return at::tensor(flat).reshape(shape);
}

// The model file alone says what LibTorch is to compute.
TEST(Ann, CoreEvaluatesAsLibTorchDoes) {
  enable_ann();
  const TimeRegressor model = TimeRegressor::fit(made_up_rows(), {.kind = "ann", .seed = 3});
  const testing::TemporaryFolder folder;
  model.save(folder.file("model.json"));
  std::ifstream file(folder.file("model.json"));
  const nlohmann::json network = nlohmann::json::parse(file)["groups"][0]["model"];
  for (int depth = 1; depth <= 5; ++depth) {
    for (const int batch : {17, 64, 500, 4096}) {
      const Workload asked = Workload::cifar_cnn(depth, 40, batch);
      const double features[] = {static_cast<double>(depth), 40, std::log2(batch),
                                 std::log10(static_cast<double>(asked.params())),
                                 std::log10(static_cast<double>(asked.steps_per_epoch()))};
      std::vector<float> input;
      for (std::size_t i = 0; i < 5; ++i) {
        input.push_back(static_cast<float>((features[i] - network["mean"][i].get<double>()) *
                                           network["inverse_scale"][i].get<double>()));
      }
      const at::Tensor first = at::relu(
          at::linear(at::tensor(input), tensor(network["input_weights"]), tensor(network["input_bias"]).flatten()));
      const at::Tensor second =
          at::relu(at::linear(first, tensor(network["hidden_weights"]), tensor(network["hidden_bias"]).flatten()));
      const double out = at::dot(second, tensor(network["output_weights"]).flatten()).item<double>() +
                         network["output_bias"].get<double>();
      const double expected =
          std::exp(network["target_mean"].get<double>() + network["target_scale"].get<double>() * out);
      EXPECT_NEAR(model.predict(asked).time_sec.p50 / expected, 1, 1e-5) << asked.key();
    }
  }
}

TEST(Ann, TheSameSeedGivesTheSameNetwork) {
  enable_ann();
  const Workload asked = Workload::cifar_cnn(3, 24, 200);
  const double first = TimeRegressor::fit(made_up_rows(), {.kind = "ann", .seed = 3}).predict(asked).time_sec.p50;
  EXPECT_EQ(TimeRegressor::fit(made_up_rows(), {.kind = "ann", .seed = 3}).predict(asked).time_sec.p50, first);
}

}  // namespace
}  // namespace perfpred
