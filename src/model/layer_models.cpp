// SPDX-License-Identifier: Apache-2.0
#include "model/layer_models.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "optime/layers/layer_step.h"
#include "statistics/estimate.h"
#include "text/files.h"
#include "text/json.h"
#include "text/model_json.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr int format = 1;
constexpr std::array<const FeatureKind*, 4> kinds = {&ann_function, &boosting_function, &forest_function,
                                                     &linear_function};
constexpr std::array<std::pair<std::string_view, bool LayerInputs::*>, 3> input_names = {
    {{"compute", &LayerInputs::compute}, {"memory", &LayerInputs::memory}, {"time", &LayerInputs::time}}};

double log_of(double value) { return std::log10(std::max(value, 1.0)); }

/// log10 of seconds at the device's rates; 0 where they are unknown.
std::pair<double, double> log_times_at_peak(const OpTotals& work, const Device& device, Precision precision) {
  const std::optional<double> peak = device.matrix_flops(precision);
  const auto bytes = static_cast<double>(work.bytes());
  return {peak && work.flops > 0 ? std::log10(work.flops / *peak) : 0.0,
          device.mem_bw_gbs && bytes > 0 ? std::log10(bytes / (*device.mem_bw_gbs * 1e9)) : 0.0};
}

}  // namespace

std::string to_string(const LayerInputs& inputs) {
  std::string text = "sizes";
  for (const auto& [name, member] : input_names) {
    if (inputs.*member) text += fmt::format("+{}", name);
  }
  return text;
}

LayerInputs parse_layer_inputs(std::string_view text) {
  LayerInputs inputs = {false, false, false};
  std::string_view rest = text;
  const auto word = [&] {
    const std::size_t plus = std::min(rest.find('+'), rest.size());
    const std::string_view next = rest.substr(0, plus);
    rest.remove_prefix(std::min(plus + 1, rest.size()));
    return next;
  };
  bool known = word() == "sizes";
  while (known && !rest.empty()) {
    const auto found = std::ranges::find(input_names, word(), &std::pair<std::string_view, bool LayerInputs::*>::first);
    known = found != input_names.end();
    if (known) inputs.*(found->second) = true;
  }
  if (!known) {
    throw InputError(fmt::format("inputs \"{}\" are not sizes, or sizes and some of compute, memory, time: {}",
                                 shown(text), "sizes+compute+memory+time"));
  }
  return inputs;
}

std::vector<std::string> layer_feature_names(LayerType type, const LayerInputs& inputs) {
  const LayerForm& form = form_of(type);
  std::vector<std::string> names;
  for (const LayerSize& size : form.sizes) names.push_back(fmt::format("log2_{}", size.column));
  for (std::size_t i = 1; i < form.variants.size(); ++i) names.push_back(fmt::format("is_{}", form.variants[i]));
  for (const char* flag : {"bias", "bidirectional", "activation", "padded", "input_gradient", "backward",
                           "log10_update_bytes", "half_precision"}) {
    names.emplace_back(flag);
  }
  if (inputs.compute) names.emplace_back("log10_flops");
  if (inputs.memory) names.insert(names.end(), {"log10_bytes", "log10_tensor_bytes"});
  if (inputs.time) names.insert(names.end(), {"log10_sec_at_peak", "log10_sec_at_bandwidth"});
  return names;
}

Features layer_features(const LayerCase& layer, const Device& device, const LayerInputs& inputs) {
  const LayerForm& form = form_of(layer.type);
  LayerWork work = layer_work(layer, device.kind);
  const auto log_bytes = [](const OpTotals& totals) { return log_of(static_cast<double>(totals.bytes())); };
  std::vector<double> values;
  for (const LayerSize& size : form.sizes) values.push_back(std::log2(static_cast<double>(layer.*size.member)));
  for (std::size_t i = 1; i < form.variants.size(); ++i) values.push_back(layer.variant == form.variants[i] ? 1 : 0);
  const bool half = is_half(layer.precision);
  const std::initializer_list<double> flags = {layer.bias ? 1.0 : 0.0,
                                               layer.bidirectional ? 1.0 : 0.0,
                                               layer.activation != "none" ? 1.0 : 0.0,
                                               layer.padding != 0 ? 1.0 : 0.0,
                                               layer.input_gradient ? 1.0 : 0.0,
                                               layer.backward ? 1.0 : 0.0,
                                               log_bytes(work.phases[Phase::optimizer]),
                                               half ? 1.0 : 0.0};
  values.insert(values.end(), flags);
  if (inputs.compute) values.push_back(log_of(work.totals.flops));
  if (inputs.memory) values.insert(values.end(), {log_bytes(work.totals), log_of(layer_bytes(layer))});
  if (inputs.time) {
    const auto [compute, memory] = log_times_at_peak(work.totals, device, layer.precision);
    values.insert(values.end(), {compute, memory});
  }
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

Device device_of(const LayerRow& row, const DeviceCatalogue& devices) {
  const ResolvedDevice found = devices.resolve(row.device);
  Device device;
  device.kind = found.kind(row.threads.has_value());
  return found.device != nullptr ? *found.device : device;
}

FeatureTask layer_task(std::span<const LayerRow> rows, const DeviceCatalogue& devices, const LayerInputs& inputs,
                       std::uint64_t seed) {
  FeatureTask task;
  task.seed = seed;
  task.log_times.resize(static_cast<Eigen::Index>(rows.size()));
  for (Eigen::Index i = 0; i < task.log_times.size(); ++i) {
    const LayerRow& row = rows[static_cast<std::size_t>(i)];
    const Features features = layer_features(row.layer, device_of(row, devices), inputs);
    if (i == 0) task.features.resize(task.log_times.size(), features.size());
    task.features.row(i) = features.transpose();
    task.log_times[i] = std::log(row.step_sec.value());
  }
  return task;
}

Quantiles LayerModels::predict(const LayerCase& layer, const Device& device) const {
  const auto found = models_.find(layer.type);
  if (found == models_.end()) {
    std::vector<std::string_view> known;
    for (const auto& [type, model] : models_) known.push_back(to_string(type));
    throw InputError(
        fmt::format("the model has no layers of type {}; it has {}", to_string(layer.type), fmt::join(known, ", ")));
  }
  const Model& model = found->second;
  return quantiles_about(model.function->log_time(layer_features(layer, device, model.inputs)),
                         model.function->half_width);
}

void LayerModels::save(const std::string& path) const {
  nlohmann::json layers = nlohmann::json::object();
  for (const auto& [type, model] : models_) {
    nlohmann::json& json = layers[std::string(to_string(type))];
    json = function_json(*model.function);
    json["kind"] = model.kind->name;
    json["inputs"] = to_string(model.inputs);
  }
  write_file(path, dumped(nlohmann::json{{"format", format}, {"kind", "layers"}, {"layers", layers}}) + "\n");
}

LayerModels LayerModels::load(const std::string& path) {
  const auto document = read_json<nlohmann::json>(path);
  LayerModels models;
  try {
    if (document.at("kind") != "layers" || document.at("format") != format) refuse_field("kind", "layers, format 1");
    for (const auto& [name, json] : document.at("layers").items()) {
      const LayerType type = parse_layer_type(name);
      const auto kind = std::ranges::find(kinds, json.at("kind").get<std::string>(), &FeatureKind::name);
      if (kind == kinds.end()) refuse_field("kind", "one of ann, boosting, forest, linear");
      Model model = {*kind, parse_layer_inputs(json.at("inputs").get<std::string>()), nullptr};
      const auto features = static_cast<Eigen::Index>(layer_feature_names(type, model.inputs).size());
      model.function = load_function(**kind, json, features);
      models.set(type, std::move(model));
    }
  } catch (const std::exception& error) {
    throw ModelError(fmt::format("{}: {}", path, error.what()));
  }
  return models;
}

}  // namespace perfpred
