#include "checkpoint.h"

#include <ATen/Context.h>
#include <ATen/core/Dict.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <perfpred/error.h>

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <string_view>

#include "atomic_file.h"

namespace perfpred {
namespace {

constexpr const char* format_name = "perfpred checkpoint 1";
constexpr std::string_view network_prefix = "network.";

c10::IValue read_pickle(const std::string& path) {
  const std::string bytes = read_file(path);
  try {
    return torch::jit::pickle_load(std::vector<char>(bytes.begin(), bytes.end()));
  } catch (const std::exception&) {
    throw InputError(fmt::format("{}: is no file of torch.save", path));
  }
}

/// The value of a key in a dictionary; None where either is missing.
c10::IValue field(const c10::IValue& dictionary, const char* key) {
  if (!dictionary.isGenericDict()) return {};
  for (const auto& item : dictionary.toGenericDict()) {
    if (item.key().isString() && item.key().toStringRef() == key) return item.value();
  }
  return {};
}

const at::Tensor* find(const NamedTensors& tensors, std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [name](const auto& t) { return t.first == name; });
  return found == tensors.end() ? nullptr : &found->second;
}

NamedTensors tensors_of(const c10::IValue& value) {
  NamedTensors tensors;
  for (const auto& item : value.toGenericDict()) {
    if (item.key().isString() && item.value().isTensor()) {
      tensors.emplace_back(item.key().toStringRef(), item.value().toTensor());
    }
  }
  return tensors;
}

std::vector<at::Generator> generators(c10::Device device) {
  std::vector<at::Generator> list = {at::globalContext().defaultGenerator(at::kCPU)};
  if (!device.is_cpu()) list.push_back(at::globalContext().defaultGenerator(device));
  return list;
}

}  // namespace

void save_checkpoint(const Checkpoint& checkpoint, const std::string& path) {
  c10::Dict<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : checkpoint.tensors) tensors.insert(name, tensor.detach().cpu());
  c10::impl::GenericDict document(c10::StringType::get(), c10::AnyType::get());
  document.insert(c10::IValue(std::string("format")), c10::IValue(std::string(format_name)));
  document.insert(c10::IValue(std::string("settings")), c10::IValue(checkpoint.settings));
  document.insert(c10::IValue(std::string("progress")), c10::IValue(checkpoint.progress));
  document.insert(c10::IValue(std::string("tensors")), c10::IValue(tensors));
  const std::vector<char> bytes = torch::jit::pickle_save(c10::IValue(document));
  write_file(path, {bytes.data(), bytes.size()});
}

Checkpoint load_checkpoint(const std::string& path) {
  const c10::IValue value = read_pickle(path);
  const auto refuse = [&path] { throw InputError(fmt::format("{}: is no checkpoint of this program", path)); };
  for (const char* key : {"format", "settings", "progress"}) {
    if (!field(value, key).isString()) refuse();
  }
  if (field(value, "format").toStringRef() != format_name || !field(value, "tensors").isGenericDict()) refuse();
  return {field(value, "settings").toStringRef(), field(value, "progress").toStringRef(),
          tensors_of(field(value, "tensors"))};
}

NamedTensors load_weights(const std::string& path) {
  const c10::IValue value = read_pickle(path);
  const c10::IValue state = field(value, "tensors");
  NamedTensors weights;
  if (!state.isGenericDict()) {
    if (value.isGenericDict()) weights = tensors_of(value);
  } else {
    for (const auto& [name, tensor] : tensors_of(state)) {
      if (name.rfind(network_prefix, 0) == 0) weights.emplace_back(name.substr(network_prefix.size()), tensor);
    }
  }
  if (weights.empty()) throw InputError(fmt::format("{}: holds no dictionary of weights", path));
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
