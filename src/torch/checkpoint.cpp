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
  document.insert("format", format_name);
  document.insert("settings", checkpoint.settings);
  document.insert("progress", checkpoint.progress);
  document.insert("tensors", tensors);
  const std::vector<char> bytes = torch::jit::pickle_save(document);
  write_file(path, {bytes.data(), bytes.size()});
}

Checkpoint load_checkpoint(const std::string& path) {
  const c10::IValue value = read_pickle(path);
  const auto refuse = [&path] { throw InputError(fmt::format("{}: is no checkpoint of this program", path)); };
  if (!value.isGenericDict()) refuse();
  const auto document = value.toGenericDict();
  for (const char* key : {"format", "settings", "progress", "tensors"}) {
    if (!document.contains(key)) refuse();
  }
  if (!document.at("format").isString() || document.at("format").toStringRef() != format_name) refuse();
  return {document.at("settings").toStringRef(), document.at("progress").toStringRef(),
          tensors_of(document.at("tensors"))};
}

NamedTensors load_weights(const std::string& path) {
  const c10::IValue value = read_pickle(path);
  if (!value.isGenericDict()) throw InputError(fmt::format("{}: holds no dictionary of weights", path));
  if (!value.toGenericDict().contains("tensors")) {
    NamedTensors weights = tensors_of(value);
    if (weights.empty()) throw InputError(fmt::format("{}: holds no dictionary of weights", path));
    return weights;
  }
  NamedTensors weights;
  for (const auto& [name, tensor] : tensors_of(value.toGenericDict().at("tensors"))) {
    if (name.rfind(network_prefix, 0) == 0) weights.emplace_back(name.substr(network_prefix.size()), tensor);
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
