// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/version.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "optime/op_model_state.h"
#include "optime/standard_ops.h"
#include "text/enum_names.h"
#include "text/files.h"
#include "text/json.h"
#include "text/model_json.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr int op_model_format = 11;
constexpr std::array<KernelFamily, 5> families = {KernelFamily::none, KernelFamily::pascal, KernelFamily::volta_turing,
                                                  KernelFamily::ampere_ada, KernelFamily::cdna};

constexpr std::array<std::string_view, 3> arithmetics = {"as_graph", "half", "double"};  // in the order of the enum

KernelFamily family_named(const std::string& name) {
  for (const KernelFamily family : families) {
    if (to_string(family) == name) return family;
  }
  throw ModelError(fmt::format("field \"family\" is \"{}\", which is not a family of devices", shown(name)));
}

/// A number that a logarithm of a time may be.
double moderate(const nlohmann::json& object, const char* name) {
  const double value = json_number(object, name);
  if (!(std::abs(value) <= 50)) throw ModelError(fmt::format("field \"{}\" is out of range", name));
  return value;
}

double width(const nlohmann::json& object, const char* name) {
  const double value = moderate(object, name);
  if (value < 0) throw ModelError(fmt::format("field \"{}\" is negative", name));
  return value;
}

nlohmann::json effects_json(const KernelFormula& form, const DeviceEffects& effects) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t i = 0; i < form.effects.size(); ++i) json[std::string(form.effects[i].name)] = effects[i];
  return json;
}

DeviceEffects read_effects(const KernelFormula& form, const nlohmann::json& json) {
  DeviceEffects effects{};
  for (std::size_t i = 0; i < form.effects.size(); ++i) {
    effects[i] = moderate(json, std::string(form.effects[i].name).c_str());
  }
  return effects;
}

nlohmann::json trees_json(const ResidualTrees& model) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& tree : model.trees()) {
    nlohmann::json nodes = nlohmann::json::array();
    for (const auto& node : tree) {
      // The shortest text that reads back as the same float.
      const double value = std::stod(fmt::format("{}", node.value));
      if (node.feature < 0) {
        nodes.push_back({value});
      } else {
        nodes.push_back({value, node.feature, node.left, node.right});
      }
    }
    list.push_back(std::move(nodes));
  }
  return list;
}

ResidualTrees read_trees(const nlohmann::json& json, const char* name) {
  const auto bad = [&] { return ModelError(fmt::format("field \"{}\" is not a list of trees", name)); };
  const nlohmann::json& list = json_field(json, name);
  if (!list.is_array()) throw bad();
  std::vector<std::vector<ResidualTrees::Node>> trees;
  for (const nlohmann::json& nodes : list) {
    if (!nodes.is_array()) throw bad();
    auto& tree = trees.emplace_back();
    for (const nlohmann::json& item : nodes) {
      if (!item.is_array() || (item.size() != 1 && item.size() != 4)) throw bad();
      for (const nlohmann::json& number : item) {
        if (!number.is_number() || !(std::abs(number.get<double>()) < 1e9)) throw bad();
      }
      for (std::size_t i = 1; i < item.size(); ++i) {
        if (!item[i].is_number_integer()) throw bad();
      }
      ResidualTrees::Node node;
      node.value = item[0].get<float>();
      if (item.size() == 4) {
        node.feature = item[1].get<std::int32_t>();
        node.left = item[2].get<std::int32_t>();
        node.right = item[3].get<std::int32_t>();
        if (node.feature < 0) throw bad();
      }
      tree.push_back(node);
    }
  }
  return ResidualTrees(std::move(trees));
}

nlohmann::json to_json(const KernelModel& model) {
  const KernelFormula& form = formula(model.kind);
  nlohmann::json parameters = nlohmann::json::object(), by_family = nlohmann::json::object(),
                 devices = nlohmann::json::object();
  for (std::size_t i = 0; i < form.parameters.size(); ++i) {
    parameters[std::string(form.parameters[i].name)] = model.parameters[i];
  }
  for (const auto& [family, effects] : model.families) {
    by_family[std::string(to_string(family))] = effects_json(form, effects);
  }
  for (const auto& [name, device] : model.devices) {
    devices[name] = {{"family", to_string(device.family)},
                     {"effects", effects_json(form, device.effects)},
                     {"rows", device.rows},
                     {"spread", device.spread},
                     {"widest_row", device.widest_row},
                     {"trees", trees_json(device.trees)}};
  }
  return {{"parameters", parameters},
          {"families", by_family},
          {"devices", devices},
          {"shared_trees", trees_json(model.shared_trees)},
          {"device_width", model.device_width},
          {"within_width", model.within_width}};
}

KernelModel read_kernel_model(KernelClass kind, const nlohmann::json& json) {
  const KernelFormula& form = formula(kind);
  KernelModel model;
  model.kind = kind;
  const nlohmann::json& parameters = json_object(json, "parameters");
  for (const KernelParameter& parameter : form.parameters) {
    model.parameters.push_back(moderate(parameters, std::string(parameter.name).c_str()));
  }
  for (const auto& [name, effects] : json_object(json, "families").items()) {
    model.families[family_named(name)] = read_effects(form, effects);
  }
  for (const auto& [name, item] : json_object(json, "devices").items()) {
    KnownDevice& device = model.devices[name];
    device.family = family_named(json_text(item, "family"));
    device.effects = read_effects(form, json_object(item, "effects"));
    device.rows = static_cast<std::size_t>(std::max(0.0, std::min(json_number(item, "rows"), 1e9)));
    device.spread = width(item, "spread");
    device.widest_row = json_number(item, "widest_row");
    if (!(device.widest_row >= 1)) throw ModelError("field \"widest_row\" is less than 1");
    device.trees = read_trees(item, "trees");
  }
  model.shared_trees = read_trees(json, "shared_trees");
  model.device_width = width(json, "device_width");
  model.within_width = width(json, "within_width");
  return model;
}

nlohmann::json to_json(const StepParameters& parameters) {
  nlohmann::json json = nlohmann::json::object();
  for (const StepParameter& row : step_parameters) json[std::string(row.name)] = parameters.*row.value;
  return json;
}

nlohmann::json to_json(const MachineKey& key) {
  return {{"source", key.source},
          {"device", key.device},
          {"precision", to_string(key.precision)},
          {"arithmetic", arithmetics.at(static_cast<std::size_t>(key.arithmetic))},
          {"layout", to_string(key.layout)},
          {"probe", key.probe}};
}

nlohmann::json to_json(const ArithmeticKey& key) {
  return {{"bytes", key.element_bytes}, {"matrix_units", key.matrix_units}, {"pure_half", key.pure_half}};
}

nlohmann::json to_json(const StepModel& model) {
  nlohmann::json machines = nlohmann::json::array(), networks = nlohmann::json::array();
  for (const auto& [key, machine] : model.machines) {
    nlohmann::json& json = machines.emplace_back(to_json(key));
    const MachineEffects& effects = machine.effects;
    json["effects"] = {{"compute", effects.compute}, {"memory", effects.memory}, {"host", effects.host}};
    json["chip"] = {{"arch", machine.chip.arch}, {"data_centre", machine.chip.data_centre}};
    json["rates"] = to_json(machine.arithmetic);
    if (machine.parameters) json["parameters"] = to_json(*machine.parameters);
  }
  for (const auto& [key, known] : model.networks) {
    nlohmann::json& json = networks.emplace_back(to_json(key));
    json["width"] = known.width;
    std::map<std::int64_t, nlohmann::json> of_size;
    for (const auto& [network, log_factor] : known.log_factors) of_size[network.size][network.network] = log_factor;
    for (auto& [size, factors] : of_size) json["known"].push_back({{"size", size}, {"factors", std::move(factors)}});
  }
  return {{"parameters", to_json(model.parameters)},
          {"machines", machines},
          {"networks", networks},
          {"sources", model.sources},
          {"conditions", model.conditions},
          {"machine_width", model.machine_width},
          {"network_width", model.network_width},
          {"forward_width", model.forward_width},
          {"pure_width", model.pure_width},
          {"source_width", model.source_width}};
}

StepParameters read_step_parameters(const nlohmann::json& json) {
  StepParameters parameters;
  for (const StepParameter& row : step_parameters) {
    const std::string name(row.name);
    if (!row.later || json.contains(name)) parameters.*row.value = moderate(json, name.c_str());
  }
  return parameters;
}

/// A word that `parse` knows. @throws ModelError
template <class Word>
Word read_word(const nlohmann::json& json, const char* name, Word (*parse)(std::string_view)) {
  try {
    return parse(json_text(json, name));
  } catch (const InputError& error) {
    throw ModelError(fmt::format("field \"{}\": {}", name, error.what()));
  }
}

StepArithmetic parse_arithmetic(std::string_view text) {
  const auto found = std::find(arithmetics.begin(), arithmetics.end(), text);
  if (found == arithmetics.end()) throw InputError(fmt::format("\"{}\" is not an arithmetic", shown(text)));
  return static_cast<StepArithmetic>(found - arithmetics.begin());
}

bool flag(const nlohmann::json& json, const char* name) {
  const nlohmann::json& field = json_field(json, name);
  if (!field.is_boolean()) refuse_field(name, "true or false");
  return field.get<bool>();
}

MachineKey read_machine_key(const nlohmann::json& json) {
  return {json_text(json, "source"),
          json_text(json, "device"),
          read_word(json, "precision", parse_precision),
          read_word(json, "arithmetic", parse_arithmetic),
          read_word(json, "layout", parse_layout),
          flag(json, "probe")};
}

ArithmeticKey read_arithmetic_key(const nlohmann::json& json) {
  const auto bytes = static_cast<int>(std::min(json_positive_integer(json, "bytes"), std::int64_t{16}));
  return {bytes, flag(json, "matrix_units"), flag(json, "pure_half")};
}

StepModel read_step_model(const nlohmann::json& json) {
  StepModel model;
  model.parameters = read_step_parameters(json_object(json, "parameters"));
  for (const nlohmann::json& item : json_objects(json, "machines")) {
    Machine& machine = model.machines[read_machine_key(item)];
    const nlohmann::json& effects = json_object(item, "effects");
    machine.effects = {moderate(effects, "compute"), moderate(effects, "memory"), moderate(effects, "host")};
    const nlohmann::json& chip = json_object(item, "chip");
    machine.chip = {json_text(chip, "arch"), flag(chip, "data_centre")};
    machine.arithmetic = read_arithmetic_key(json_object(item, "rates"));
    if (item.contains("parameters")) machine.parameters = read_step_parameters(json_object(item, "parameters"));
  }
  for (const nlohmann::json& item : json_objects(json, "networks")) {
    KnownNetworks& networks = model.networks[read_arithmetic_key(item)];
    networks.width = width(item, "width");
    for (const nlohmann::json& known : json_objects(item, "known")) {
      const std::int64_t size = json_positive_integer(known, "size");
      const nlohmann::json& factors = json_object(known, "factors");
      for (const auto& [network, value] : factors.items())
        networks.log_factors[{network, size}] = moderate(factors, network.c_str());
    }
  }
  const nlohmann::json& sources = json_object(json, "sources");
  for (const auto& [source, value] : sources.items()) model.sources[source] = moderate(sources, source.c_str());
  const nlohmann::json& conditions = json_object(json, "conditions");
  for (const auto& [word, value] : conditions.items()) model.conditions[word] = moderate(conditions, word.c_str());
  model.machine_width = width(json, "machine_width");
  model.network_width = width(json, "network_width");
  model.forward_width = json.contains("forward_width") ? width(json, "forward_width") : model.network_width;
  model.source_width = width(json, "source_width");
  model.pure_width = width(json, "pure_width");
  return model;
}

nlohmann::json to_json(const LayerRates& rates) {
  nlohmann::json groups = nlohmann::json::object();
  for (const auto& [group, own] : rates.groups) {
    groups[std::string(enumerator_name_of<StepGroup::unknown>(group))] = {
        {"parts", own.parts}, {"width", own.width}, {"trees", trees_json(own.trees)}};
  }
  nlohmann::json kinds = nlohmann::json::object();
  for (const auto& [kind, factor] : rates.kinds) kinds[std::string(to_string(kind))] = factor;
  return {{"parameters", to_json(rates.parameters)}, {"kinds", kinds}, {"groups", groups}};
}

LayerRates read_layer_rates(const nlohmann::json& json) {
  LayerRates rates;
  rates.parameters = read_step_parameters(json_object(json, "parameters"));
  for (const auto& [name, item] : json_object(json, "kinds").items()) {
    const auto kind = enumerator_named<OpKind::custom>(name);
    if (!kind) throw ModelError(fmt::format("field \"kinds\" has \"{}\", which is not an operator", shown(name)));
    rates.kinds[*kind] = moderate(json_object(json, "kinds"), name.c_str());
  }
  for (const auto& [name, item] : json_object(json, "groups").items()) {
    const auto kind = enumerator_named<StepGroup::unknown>(name);
    if (!kind)
      throw ModelError(fmt::format("field \"groups\" has \"{}\", which is not a group of kernels", shown(name)));
    LayerRates::Group& group = rates.groups[*kind];
    group.parts = static_cast<std::size_t>(json_positive_integer(item, "parts"));
    group.width = width(item, "width");
    group.trees = read_trees(item, "trees");
  }
  return rates;
}

/// Numbers in the units of devices.csv.
constexpr std::array<std::pair<const char*, std::optional<double> Device::*>, 24> device_rates = {{
    {"fp64_tflops", &Device::fp64_tflops},
    {"fp32_tflops", &Device::fp32_tflops},
    {"tf32_tflops", &Device::tf32_tflops},
    {"bf16_tflops", &Device::bf16_tflops},
    {"fp16_tflops", &Device::fp16_tflops},
    {"fp32_vector_tflops", &Device::fp32_vector_tflops},
    {"fp64_vector_tflops", &Device::fp64_vector_tflops},
    {"fp16_vector_tflops", &Device::fp16_vector_tflops},
    {"mem_bw_gbs", &Device::mem_bw_gbs},
    {"mem_gb", &Device::mem_gb},
    {"usable_gib", &Device::usable_gib},
    {"l2_mb", &Device::l2_mb},
    {"sms", &Device::sms},
    {"boost_mhz", &Device::boost_mhz},
    {"tdp_w", &Device::tdp_w},
    {"launch_us", &Device::launch_us},
    {"year", &Device::year},
    {"bus_bits", &Device::bus_bits},
    {"int8_tops", &Device::int8_tops},
    {"fp8_tflops", &Device::fp8_tflops},
    {"fp4_tflops", &Device::fp4_tflops},
    {"base_mhz", &Device::base_mhz},
    {"mem_mhz", &Device::mem_mhz},
    {"cores", &Device::cores},
}};

nlohmann::json to_json(const Device& device) {
  nlohmann::json json = {{"name", device.name},     {"aliases", device.aliases}, {"kind", to_string(device.kind)},
                         {"vendor", device.vendor}, {"arch", device.arch},       {"source", device.source}};
  if (!device.mem_type.empty()) json["mem_type"] = device.mem_type;
  if (!device.bus.empty()) json["bus"] = device.bus;
  for (const auto& [name, member] : device_rates) {
    if (device.*member) json[name] = *(device.*member);
  }
  return json;
}

Device read_device(const nlohmann::json& json) {
  Device device;
  const auto kind = enumerator_named<DeviceKind::other>(json_text(json, "kind"));
  if (!kind) throw ModelError("field \"kind\" of a device is not gpu, cpu or other");
  device.kind = *kind;
  device.vendor = json_text(json, "vendor");
  device.arch = json_text(json, "arch");
  device.aliases = json_texts(json, "aliases");
  device.name = json_text(json, "name");
  device.source = json_text(json, "source");
  if (json.contains("mem_type")) device.mem_type = json_text(json, "mem_type");
  if (json.contains("bus")) device.bus = json_text(json, "bus");
  for (const auto& [name, member] : device_rates) {
    if (!json.contains(name)) continue;
    const double value = json_number(json, name);
    if (!(value > 0)) throw ModelError(fmt::format("field \"{}\" is not positive", name));
    device.*member = value;
  }
  return device;
}

}  // namespace

nlohmann::json to_json(const OpModelState& state) {
  nlohmann::json kernels = nlohmann::json::object();
  for (const auto& model : state.kernels.classes) {
    if (model) kernels[std::string(formula(model->kind).name)] = to_json(*model);
  }
  nlohmann::json json = {{"format", op_model_format},
                         {"kind", "ops"},
                         {"software", fmt::format("perfpred {}", PERFPRED_VERSION)},
                         {"kernels", kernels},
                         {"steps", to_json(state.steps)}};
  for (const auto& [key, rates] : state.measured.rates) {
    nlohmann::json& item = json["layers"].emplace_back(to_json(rates));
    item["device"] = key.device;
    item["precision"] = to_string(key.precision);
  }
  for (const Device& device : state.measured.devices) json["devices"].push_back(to_json(device));
  return json;
}

OpModelState read_op_model(const nlohmann::json& json) {
  if (!json.is_object()) throw ModelError("not a model file");
  const nlohmann::json& format = json_field(json, "format");
  if (json_text(json, "kind") != "ops") throw ModelError("field \"kind\" is not \"ops\"");
  if (format != op_model_format) {
    throw ModelError(
        fmt::format("format {} is not known; this build reads format {}", shown(dumped(format)), op_model_format));
  }
  OpModelState state;
  for (const auto& [name, model] : json_object(json, "kernels").items()) {
    const auto kind = kernel_class(name);
    if (!kind)
      throw ModelError(fmt::format("field \"kernels\" has \"{}\", which is not a class of kernels", shown(name)));
    state.kernels.classes[static_cast<std::size_t>(*kind)] = read_kernel_model(*kind, model);
  }
  state.steps = read_step_model(json_field(json, "steps"));
  if (json.contains("layers")) {
    for (const nlohmann::json& rates : json_objects(json, "layers")) {
      const RatesKey key{json_text(rates, "device"), read_word(rates, "precision", parse_precision)};
      state.measured.rates[key] = read_layer_rates(rates);
    }
  }
  if (json.contains("devices")) {
    for (const nlohmann::json& device : json_objects(json, "devices")) {
      state.measured.devices.push_back(read_device(device));
    }
  }
  return state;
}

OpModelState load_op_model(const std::string& path) {
  if (path.empty()) return read_op_model(parse_json<nlohmann::json>(standard_ops));
  const std::string text = read_file(path);
  try {
    return read_op_model(parse_json<nlohmann::json>(text));
  } catch (const Error& error) {
    throw ModelError(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace perfpred
