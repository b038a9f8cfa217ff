// SPDX-License-Identifier: Apache-2.0
#include "torch/layers/layer_bench.h"

#include <perfpred/device.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "torch/device/runtime_device.h"

namespace perfpred {

std::vector<LayerCase> draw_layers(const std::vector<std::string>& types, std::size_t count,
                                   const SamplerOptions& options) {
  std::vector<LayerCase> layers;
  for (const std::string& name : types) {
    if (std::count(types.begin(), types.end(), name) > 1) throw InputError(fmt::format("--layer has {} twice", name));
    LayerSampler draws(options);
    for (LayerCase& layer : draws.draw(parse_layer_type(name), count)) layers.push_back(std::move(layer));
  }
  for (const std::string& range : options.ranges) {
    const std::string type = range.substr(0, range.find('.'));
    if (std::find(types.begin(), types.end(), type) == types.end()) {
      throw InputError(fmt::format("range \"{}\" is of a layer that --layer leaves out", range));
    }
  }
  if (layers.empty()) throw InputError("there is no such layer");
  return layers;
}

LayerBenchResult bench_layers(std::span<const LayerCase> layers, const std::string& device, const LayerTiming& timing,
                              const std::string& out,
                              const std::function<void(std::size_t, std::size_t, const LayerRow&)>& progress,
                              const std::function<bool()>& stop) {
  const c10::Device on = runtime_device(device);
  use_cpu_threads(on);
  for (const LayerCase& layer : layers) {
    if (on.is_cpu() && layer.precision == Precision::tf32) throw InputError("precision tf32 needs a CUDA device");
  }
  LayerRecorder recorder(out);
  LayerBenchResult result;
  std::vector<const LayerCase*> left;
  for (const LayerCase& layer : layers) {
    LayerRow row;
    row.layer = layer;
    row.device = canonical_device(device_name(on));
    if (recorder.holds(row)) {
      ++result.found;
    } else {
      left.push_back(&layer);
    }
  }
  for (std::size_t i = 0; i < left.size() && !stop(); ++i) {
    const auto row = time_layer(*left[i], on, timing, stop);
    if (!row) break;
    recorder.append(*row);
    result.rows.push_back(*row);
    ++(row->outcome == "oom" ? result.oom : row->outcome == "failed" ? result.failed : result.done);
    if (row->outcome == "untrusted") ++result.untrusted;
    progress(i + 1, left.size(), *row);
  }
  return result;
}

std::string layer_row_json(const LayerRow& row) {
  nlohmann::ordered_json json;
  for (const Column<LayerRow>& column : layer_row_columns()) {
    const std::string text = column.get(row);
    const auto number = nlohmann::ordered_json::parse(text, nullptr, false);
    json[std::string(column.name)] = text.empty()         ? nlohmann::ordered_json(nullptr)
                                     : number.is_number() ? number
                                                          : nlohmann::ordered_json(text);
  }
  return json.dump();
}

}  // namespace perfpred
