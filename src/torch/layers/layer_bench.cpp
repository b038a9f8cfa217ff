// SPDX-License-Identifier: Apache-2.0
#include "torch/layers/layer_bench.h"

#include <perfpred/device.h>
#include <perfpred/error.h>

#include <nlohmann/json.hpp>

#include "torch/device/runtime_device.h"

namespace perfpred {

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
