// SPDX-License-Identifier: Apache-2.0
#include "torch/files/checkpoint.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string_view>
#include <system_error>
#include <variant>

#include "text/files.h"
#include "torch/files/safetensors.h"
#include "torch/files/torch_file.h"

namespace perfpred {
namespace {

constexpr const char* tensors_name = "tensors";
constexpr const char* format_name = "perfpred checkpoint 1";

const at::Tensor* find(const NamedTensors& tensors, std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [name](const auto& t) { return t.first == name; });
  return found == tensors.end() ? nullptr : &found->second;
}

NamedTensors tensors_of(const SavedValue& value) {
  NamedTensors tensors;
  if (const auto* items = std::get_if<SavedValue::Dictionary>(&value.is)) {
    for (const auto& [name, item] : *items) {
      if (const auto* tensor = std::get_if<at::Tensor>(&item.is)) tensors.emplace_back(name, *tensor);
    }
  }
  return tensors;
}

std::vector<at::Generator> generators(c10::Device device) {
  std::vector<at::Generator> list = {at::globalContext().defaultGenerator(at::kCPU)};
  if (!device.is_cpu()) list.push_back(at::globalContext().defaultGenerator(device));
  return list;
}

/// Names of checkpoints and weights of which the folder has a file, with what follows the name in the file's.
std::set<std::string> names_in(const std::string& folder, const char* rest) {
  const std::regex ours(std::string(R"(((last|best|final|epoch_[0-9]+)\.pt))") + rest);
  std::set<std::string> names;
  std::error_code missing;
  for (const auto& item : std::filesystem::directory_iterator(folder, missing)) {
    const std::string name = item.path().filename().string();
    if (std::smatch parts; std::regex_match(name, parts, ours)) names.insert(parts[1]);
  }
  return names;
}

}  // namespace

void save_checkpoint(const Checkpoint& checkpoint, const std::string& path) {
  write_torch_file({{"format", format_name}, {"settings", checkpoint.settings}, {"progress", checkpoint.progress}},
                   tensors_name, checkpoint.tensors, path);
}

void save_weights(const NamedTensors& weights, const std::string& path) { write_torch_file({}, {}, weights, path); }

std::vector<std::string> training_files(const std::string& folder) {
  const std::set<std::string> names = names_in(folder, "");
  return {names.begin(), names.end()};
}

void remove_torn_checkpoints(const std::string& folder) {
  for (const std::string& name : names_in(folder, R"(\.[0-9]+-[0-9]+\.tmp)")) remove_leftovers(folder + "/" + name);
}

Checkpoint load_checkpoint(const std::string& path) {
  const SavedValue value = read_torch_file(path);
  const auto text = [&](const char* name) {
    const SavedValue* item = value.find(name);
    if (item == nullptr || !std::holds_alternative<std::string>(item->is)) {
      throw InputError(fmt::format("{}: is not a checkpoint to resume from but {}", path, value.what()));
    }
    return std::get<std::string>(item->is);
  };
  if (const std::string format = text("format"); format != format_name) {
    throw InputError(fmt::format("{}: is a checkpoint of format \"{}\", not \"{}\"", path, format, format_name));
  }
  const SavedValue* tensors = value.find(tensors_name);
  return {text("settings"), text("progress"), tensors != nullptr ? tensors_of(*tensors) : NamedTensors{}};
}

NamedTensors load_weights(const std::string& path) {
  if (path.ends_with(".safetensors")) {
    NamedTensors weights = read_safetensors(path);
    if (weights.empty()) throw InputError(fmt::format("{}: holds no tensors", path));
    return weights;
  }
  const SavedValue value = read_torch_file(path);
  NamedTensors weights;
  if (const SavedValue* state = value.find(tensors_name)) {
    for (const auto& [name, tensor] : tensors_of(*state)) {
      if (name.starts_with(network_prefix)) weights.emplace_back(name.substr(network_prefix.size()), tensor);
    }
  } else {
    weights = tensors_of(value);
  }
  if (weights.empty()) {
    throw InputError(fmt::format("{}: holds {}, not a state dictionary (names and tensors)", path, value.what()));
  }
  return weights;
}

void restore(const NamedTensors& to, const NamedTensors& from, const std::string& path) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : to) {
    const at::Tensor* source = find(from, name);
    if (source == nullptr) throw InputError(fmt::format("{}: has no tensor \"{}\"", path, name));
    if (source->sizes() != tensor.sizes()) {
      throw InputError(fmt::format("{}: tensor \"{}\" has another shape than the network's", path, name));
    }
    tensor.copy_(*source);
  }
}

NamedTensors random_state(c10::Device device) {
  NamedTensors states;
  for (const at::Generator& generator : generators(device)) {
    states.emplace_back(fmt::format("random.{}", states.size()), generator.get_state());
  }
  return states;
}

void restore_random_state(const NamedTensors& from, c10::Device device, const std::string& path) {
  int i = 0;
  for (at::Generator& generator : generators(device)) {
    const std::string name = fmt::format("random.{}", i++);
    const at::Tensor* state = find(from, name);
    if (state == nullptr) throw InputError(fmt::format("{}: has no tensor \"{}\"", path, name));
    generator.set_state(*state);
  }
}

}  // namespace perfpred
