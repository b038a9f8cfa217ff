// SPDX-License-Identifier: Apache-2.0
#include "tools/report_json.h"

#include <cstdint>
#include <string>

#include "answer/answer_json.h"
#include "text/json.h"

namespace perfpred {
namespace {

nlohmann::json memory_json(const MemoryEstimate& memory) {
  return {{"peak_bytes", memory.peak_bytes}, {"parameters", memory.parameters},   {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},   {"activations", memory.activations}, {"loader", memory.loader},
          {"workspace", memory.workspace},   {"context", memory.context}};
}

nlohmann::json device_json(const DeviceAnswer& device) {
  return {{"name", device.name},
          {"fits", device.verdict ? nlohmann::json(*device.verdict == MemoryVerdict::fits) : nlohmann::json()},
          {"verdict", device.verdict ? nlohmann::json(to_string(*device.verdict)) : nlohmann::json()},
          {"largest_batch", or_null(device.largest_batch)},
          {"bound", device.bound ? nlohmann::json(to_string(*device.bound)) : nlohmann::json()},
          {"time_at_peak_sec", or_null(device.time_at_peak_sec)}};
}

}  // namespace

nlohmann::json to_json(const OpTotals& totals) {
  return {{"ops", totals.ops},
          {"flops", totals.flops},
          {"conv_matmul_flops", totals.conv_matmul_flops},
          {"bytes_read", totals.bytes_read},
          {"bytes_written", totals.bytes_written}};
}

nlohmann::json to_json(const StepReport& report) {
  using nlohmann::json;
  const OpTotals totals = report.step.graph().totals();
  json phases = json::object();
  for (const Phase phase : report_phases)
    phases[std::string(to_string(phase))] = to_json(report.step.graph().totals(phase));
  json kinds = json::object();
  for (const auto& [name, sum] : report.kinds()) kinds[name] = to_json(sum);
  json unknown = json::array();
  for (const auto& [name, count] : report.unknown_ops()) unknown.push_back({{"name", name}, {"count", count}});
  return {{"network", report.network},
          {"batch_size", report.batch_size},
          {"params", report.step.graph().params()},
          {"flops", totals.flops},
          {"conv_matmul_flops", totals.conv_matmul_flops},
          {"bytes", totals.bytes()},
          {"arithmetic_intensity", totals.intensity()},
          {"phases", phases},
          {"kinds", kinds},
          {"memory", report.memory ? memory_json(*report.memory) : json()},
          {"unknown_ops", unknown},
          {"device", report.device ? device_json(*report.device) : json()}};
}

nlohmann::json to_json(const std::vector<LayerSummary>& layers) {
  nlohmann::json list = nlohmann::json::array();
  for (const LayerSummary& layer : layers) {
    list.push_back({{"name", layer.name},
                    {"output", layer.output},
                    {"params", layer.params},
                    {"forward", to_json(layer.forward)},
                    {"all", to_json(layer.all)}});
  }
  return list;
}

nlohmann::json to_json(const RankReport& report) {
  using nlohmann::json;
  json ranks = json::array();
  for (const RankMemory& rank : report.ranks) {
    json parts = json::object();
    for (const RankPart& part : rank.parts) parts[std::string(part.name)] = static_cast<std::int64_t>(part.bytes);
    ranks.push_back({{"stage", rank.stage},
                     {"tp", rank.tp},
                     {"ep", rank.ep},
                     {"tensors", to_json(rank.tensors)},
                     {"parts", parts}});
  }
  const RankMemory& most = fullest(report.ranks);
  json memory = {{"rank", {{"stage", most.stage}, {"tp", most.tp}, {"ep", most.ep}}},
                 {"tensors", to_json(most.tensors)},
                 {"peak_bytes", most.tensors.p50}};
  for (const auto& [name, kind] : part_kinds) memory[std::string(name)] = bytes_of(most, kind);
  return {{"network", report.network},
          {"batch_size", report.micro_batch},
          {"accumulate", report.micro_batches},
          {"parallel", report.layout.text()},
          {"gpus_per_node", report.placement.text()},
          {"ranks", ranks},
          {"memory", memory}};
}

nlohmann::json to_json(const LayerCase& layer, const LayerWork& work, const std::optional<Device>& device) {
  nlohmann::json phases = nlohmann::json::object(), kinds = nlohmann::json::object();
  for (const auto& [phase, totals] : work.phases) phases[std::string(to_string(phase))] = to_json(totals);
  for (const auto& [name, totals] : work.kinds) kinds[name] = to_json(totals);
  return {{"layer", layer_text(layer)},
          {"batch_size", layer.batch_size},
          {"params", work.params},
          {"flops", work.totals.flops},
          {"conv_matmul_flops", work.totals.conv_matmul_flops},
          {"bytes", work.totals.bytes()},
          {"arithmetic_intensity", work.totals.intensity()},
          {"phases", phases},
          {"kinds", kinds},
          {"device", device ? nlohmann::json(device->name) : nlohmann::json()}};
}

}  // namespace perfpred
