// SPDX-License-Identifier: Apache-2.0
#include "torch/exported/exported_module.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <perfpred/error.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "torch/device/autocast.h"
#include "torch/exported/exported_file.h"

namespace perfpred {
namespace {

/// The tensor where and as the options want it.
at::Tensor placed(const at::Tensor& from, const ExportedModuleOptions& options) {
  const at::NoGradGuard no_grad;
  at::Tensor tensor = from;
  if (options.doubles && tensor.scalar_type() == at::kFloat) tensor = tensor.to(at::kDouble);
  if (!tensor.is_meta() && !options.device.is_meta()) tensor = tensor.to(options.device);
  if (options.layout == Layout::nhwc && tensor.dim() == 4) tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
  tensor.set_requires_grad(from.requires_grad());
  return tensor;
}

/// "x: ?x3x224x224"
std::string described(const ExportedTensor& tensor) {
  std::string text = tensor.name + ": ";
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (i > 0) text += 'x';
    text += tensor.sizes[i].symbol.empty() ? std::to_string(tensor.sizes[i].example) : "?";
  }
  return text;
}

/// A weight or a constant of the file.
const at::Tensor& tensor_named(const ExportedFile& file, const std::string& name) {
  for (const auto* tensors : {&file.weights, &file.constants}) {
    if (const auto found = tensors->find(name); found != tensors->end()) return found->second;
  }
  throw InputError(fmt::format("has no tensor {}", name));
}

}  // namespace

ExportedModule::ExportedModule(const std::string& path, const ExportedModuleOptions& options) : path_(path) {
  try {
    bind(path, options);
  } catch (const InputError& error) {
    const bool told = std::string_view(error.what()).starts_with(path);
    throw InputError(told ? error.what() : fmt::format("{}: {}", path, error.what()));
  }
  mode_.autocast = [device = options.device.type()](std::optional<at::ScalarType> half) {
    return std::make_shared<Autocast>(device, half);
  };
}

ExportedModule::~ExportedModule() = default;

void ExportedModule::bind(const std::string& path, const ExportedModuleOptions& options) {
  ExportedFile file =
      read_exported_file(path, options.device.is_meta() ? ExportedWeights::without_memory : ExportedWeights::read);
  program_ = std::move(file.program);
  const Bound bound = bind_inputs(file, options);
  for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
    const ExportedBinding& output = program_.outputs[i];
    if (output.role == ExportedRole::user) continue;
    const auto found = bound.find({output.role, output.target});
    if (found == bound.end())
      throw InputError(fmt::format("gives {} a new value, which it does not have", output.target));
    mutated_.emplace_back(i, found->second);
  }
  // The signature says what each output is for, in the order of the graph's.
  program_.graph.outputs.clear();
  for (const ExportedBinding& output : program_.outputs) program_.graph.outputs.push_back(output.value);
  std::set<std::string> buffer_inputs;
  for (const ExportedBinding& input : program_.inputs) {
    if (input.role == ExportedRole::buffer && input.value.name() != nullptr)
      buffer_inputs.insert(input.value.name()->name);
  }
  graph_ = std::make_unique<const RunnableGraph>(
      program_.graph, GraphPlace{options.device.is_meta() ? c10::Device(at::kCPU) : options.device, options.doubles},
      buffer_inputs);
  program_.graph = {};
  if (!file.has_values) drop_tied(bound);
}

ExportedModule::Bound ExportedModule::bind_inputs(const ExportedFile& file, const ExportedModuleOptions& options) {
  std::map<const c10::TensorImpl*, at::Tensor> moved;  // tied ones stay tied
  Bound bound;
  for (const ExportedBinding& input : program_.inputs) {
    const ExportedArgument::Name* name = input.value.name();
    if (name == nullptr) continue;
    if (input.role == ExportedRole::user) {
      const bool taken = std::any_of(program_.taken.begin(), program_.taken.end(),
                                     [&](const ExportedTensor& tensor) { return tensor.name == name->name; });
      if (!taken) throw InputError(fmt::format("input {} is not a tensor", name->name));
      continue;
    }
    const at::Tensor& from = tensor_named(file, input.target);
    const auto [known, is_new] = moved.try_emplace(from.unsafeGetTensorImpl());
    if (is_new) known->second = placed(from, options);
    const at::Tensor& tensor = known->second;
    values_.emplace_back(name->name, tensor);
    bound[{input.role, input.target}] = tensor;
    if (input.role == ExportedRole::buffer) buffers_.emplace_back(input.target, tensor);
    if (input.role == ExportedRole::parameter && is_new) parameters_.emplace_back(input.target, tensor);
  }
  return bound;
}

void ExportedModule::drop_tied(const Bound& bound) {
  std::set<std::vector<std::int64_t>> shapes_read;
  std::set<std::string> unread;
  for (const ExportedBinding& input : program_.inputs) {
    if (input.role != ExportedRole::parameter) continue;
    if (graph_->reads(input.value.name()->name)) {
      shapes_read.insert(bound.at({input.role, input.target}).sizes().vec());
    } else {
      unread.insert(input.target);
    }
  }
  std::erase_if(parameters_, [&](const auto& parameter) {
    return unread.contains(parameter.first) && shapes_read.contains(parameter.second.sizes().vec());
  });
}

void ExportedModule::check(std::span<const at::Tensor> inputs) const {
  const auto& taken = program_.taken;
  if (inputs.size() != taken.size()) {
    std::string list;
    for (const ExportedTensor& tensor : taken) list += (list.empty() ? "" : ", ") + described(tensor);
    throw InputError(fmt::format("{}: takes {} inputs ({}), not {}", path_, taken.size(), list, inputs.size()));
  }
  std::map<std::string, std::int64_t> bound;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto refuse = [&](const std::string& why) {
      throw InputError(fmt::format("{}: input {} does not take {}: {}", path_, described(taken[i]),
                                   shape_text(inputs[i].sizes().vec()), why));
    };
    if (inputs[i].dim() != static_cast<std::int64_t>(taken[i].sizes.size())) refuse("it has another number of axes");
    for (std::size_t axis = 0; axis < taken[i].sizes.size(); ++axis) {
      const ExportedSize& stated = taken[i].sizes[axis];
      const std::int64_t size = inputs[i].size(static_cast<std::int64_t>(axis));
      if (stated.symbol.empty()) {
        if (size != stated.example) {
          refuse(fmt::format(
              "it was exported for {} along axis {}; dynamic_shapes of torch.export.export() lets a size vary",
              stated.example, axis));
        }
        continue;
      }
      if (bound.try_emplace(stated.symbol, size).first->second != size) refuse("sizes that have to be equal are not");
      for (const auto& [symbol, range] : program_.ranges) {
        if (stated.symbol.find('\'' + symbol + '\'') != 7) continue;  // "Symbol('s0', ...)" itself, not a term of it
        // Export gives sizes that may vary the least value 2, and its own modules let 1 pass.
        const bool small = range.least > 2 && size < range.least;
        if (small || size > range.most) {
          refuse(fmt::format("axis {} was exported for {} to {}", axis, range.least, range.most));
        }
      }
    }
  }
}

std::vector<at::Tensor> ExportedModule::forward(const std::vector<at::Tensor>& inputs) {
  check(inputs);
  std::vector<std::pair<std::string, c10::IValue>> values(values_.begin(), values_.end());
  for (std::size_t i = 0; i < inputs.size(); ++i) values.emplace_back(program_.taken[i].name, inputs[i]);
  const std::vector<c10::IValue> results = graph_->run(std::move(values), mode_);
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (program_.outputs[i].role == ExportedRole::user && results[i].isTensor())
      outputs.push_back(results[i].toTensor());
  }
  if (mode_.training) {
    const at::NoGradGuard no_grad;
    for (const auto& [output, target] : mutated_) at::Tensor(target).copy_(results[output].toTensor());
  }
  return outputs;
}

std::string ExportedModule::note() const {
  const FrozenParts frozen = graph_->frozen();
  if (frozen.normalisations == 0 && frozen.dropouts == 0) return {};
  std::string what;
  if (frozen.normalisations > 0)
    what = fmt::format("{} batch normalisations use stored statistics", frozen.normalisations);
  if (frozen.dropouts > 0) what += fmt::format("{}{} dropouts drop nothing", what.empty() ? "" : ", ", frozen.dropouts);
  return fmt::format("{}: exported for inference ({}): it does not train as the network would; export model.train()",
                     path_, what);
}

}  // namespace perfpred
