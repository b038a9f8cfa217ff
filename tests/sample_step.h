// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step file of few operators, as perfpred.capture writes it.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace perfpred::testing {

inline constexpr std::int64_t batch = 8, inputs = 3, outputs = 5;

/// y = x w of `batch` samples, its gradient of w, and an update of w by one launch for a list of one.
inline nlohmann::json linear_step() {
  const auto tensor = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> growth, int storage,
                         const char* role) {
    return nlohmann::json{{"sizes", sizes},     {"strides", {sizes[1], 1}}, {"growth", growth},
                          {"dtype", "float32"}, {"storage", storage},       {"role", role}};
  };
  nlohmann::json step = {
      {"format", 1}, {"torch", "2.11.0"}, {"precision", "fp32"}, {"batch_size", batch}, {"other_batch_size", 16}};
  step["layers"] = {"", "linear"};
  step["storages"] = {{{"bytes", 4 * batch * inputs}},
                      {{"bytes", 4 * inputs * outputs}},
                      {{"bytes", 4 * batch * outputs}},
                      {{"bytes", 4 * batch * outputs}},
                      {{"bytes", 4 * inputs * outputs}}};
  step["tensors"] = {tensor({batch, inputs}, {1, 0}, 0, "input"), tensor({inputs, outputs}, {0, 0}, 1, "parameter"),
                     tensor({batch, outputs}, {1, 0}, 2, "activation"),
                     tensor({batch, outputs}, {1, 0}, 3, "temporary"),
                     tensor({inputs, outputs}, {0, 0}, 4, "gradient")};
  nlohmann::json turned = tensor({inputs, batch}, {0, 1}, 0, "input");  // a view of the input
  turned["strides"] = {1, inputs};
  step["tensors"].push_back(turned);
  step["ops"] = {
      {{"name", "aten::mm"}, {"inputs", {0, 1}}, {"outputs", {2}}, {"phase", "forward"}, {"layer", 1}},
      {{"name", "aten::ones_like"}, {"inputs", {2}}, {"outputs", {3}}, {"phase", "loss"}, {"frees", {2}}},
      {{"name", "aten::mm"}, {"inputs", {5, 3}}, {"outputs", {4}}, {"phase", "backward"}, {"layer", 1}, {"frees", {3}}},
      {{"name", "aten::_foreach_add_"}, {"inputs", {1, 4}}, {"outputs", {1}}, {"phase", "optimizer"}},
      {{"name", "mylib::unheard_of"}, {"inputs", {1}}, {"outputs", {nullptr}}, {"phase", "optimizer"}}};
  return step;
}

}  // namespace perfpred::testing
