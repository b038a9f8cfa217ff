// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <perfpred/error.h>
#include <perfpred/torch/network_module.h>
#include <perfpred/torch/trace.h>

#include <ATen/Functions.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "torch/device/scalar_types.h"
#include "torch/device/torch_errors.h"
#include "torch/step/gradient_scaler.h"
#include "torch/step/loss.h"
#include "torch/step/parameter_update.h"
#include "torch/trace/cuda_dispatch.h"
#include "torch/trace/op_handler.h"
#include "torch/trace/op_recorder.h"

namespace perfpred {
namespace {

constexpr double learning_rate = 1e-3;  // of no effect: nothing is computed

at::Tensor meta(at::IntArrayRef shape, at::ScalarType type) {
  return at::empty(shape, at::device(at::kMeta).dtype(type));
}

/// An output of rank 0 is a loss already; of rank 1 it is one for each sample, where no numbers are compared.
/// @param targets  of the others: numbers of classes, or numbers of the output's shape; made if undefined
at::Tensor traced_loss(const Loss& loss, const at::Tensor& output, at::Tensor& targets) {
  if (output.dim() == 0 && !(loss == Loss{})) {
    throw InputError("the network returns a loss itself: no other is taken of it");
  }
  if (output.dim() == 0) return output;
  if (loss.kind != LossKind::cross_entropy) {
    if (!targets.defined()) {
      targets = meta(output.sizes(), output.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    }
    return loss_of(loss, output, targets);
  }
  if (output.dim() == 1) return loss.sum ? output.sum() : output.mean();
  std::vector<std::int64_t> shape = output.sizes().vec();
  shape.erase(shape.begin() + class_axis(output));
  if (!targets.defined()) targets = meta(shape, at::kLong);
  return loss_of(loss, output, targets);
}

/// The handle of a library, which is never unloaded: LibTorch keeps pointers into it.
void* loaded(const std::string& path) {
  const std::string place = path.find('/') == std::string::npos ? "./" + path : path;  // not from the system's folders
  std::string reason;
  try {
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL)) return handle;
    reason = dlerror();
  } catch (const std::exception& error) {  // from the library's registrations
    reason = error.what();
  }
  throw InputError(fmt::format("{}: cannot be loaded: {}", path, first_line_of(reason)));
}

}  // namespace

struct StepTracer::Impl {
  std::vector<at::Tensor> parameters, buffers;
  std::function<at::Tensor(const std::vector<at::Tensor>&)> forward;
  std::map<Optimizer, ParameterUpdate> updates;
  std::optional<GradientScaler> scaler;  // of fp16
  std::shared_ptr<void> owner;
  std::shared_ptr<NetworkModule> zoo;
  Layout layout = Layout::nchw;  // of images
  Precision precision;

  Impl(const ModuleToTrace& made, Precision of) : forward(made.forward), owner(made.module), precision(of) {
    for (const at::Tensor& parameter : made.module->parameters()) add_parameter(parameter);
    buffers = made.module->buffers();
  }

  void add_parameter(const at::Tensor& parameter) {
    const bool known = std::any_of(parameters.begin(), parameters.end(),
                                   [&](const at::Tensor& other) { return other.is_same(parameter); });
    if (parameter.requires_grad() && !known) parameters.push_back(parameter);
  }

  void clear_gradients() {
    for (at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
  }

  /// Inputs without memory, which the recorder knows by their roles, as it then does the network's own tensors.
  std::vector<at::Tensor> named_tensors(OpRecorder& recorder, std::span<const InputSpec> specs,
                                        const ParameterUpdate& update) const {
    std::vector<at::Tensor> inputs;
    for (const InputSpec& spec : specs) {
      at::Tensor input = meta(spec.shape, scalar_type(spec.type));
      if (layout == Layout::nhwc && input.dim() == 4) input = input.contiguous(at::MemoryFormat::ChannelsLast);
      inputs.push_back(std::move(input));
      recorder.name_tensor(inputs.back(), TensorRole::input);
    }
    for (const at::Tensor& parameter : parameters) recorder.name_tensor(parameter, TensorRole::parameter);
    for (const at::Tensor& buffer : buffers) recorder.name_tensor(buffer, TensorRole::buffer);
    for (const auto& [name, tensor] : update.state()) recorder.name_tensor(tensor, TensorRole::optimizer_state);
    if (scaler) {
      for (const auto& [name, tensor] : scaler->state()) recorder.name_tensor(tensor, TensorRole::buffer);
    }
    return inputs;
  }

  /// Records the forward pass and the loss.
  at::Tensor record_loss(OpRecorder& recorder, const std::vector<at::Tensor>& inputs, const Loss& wanted) {
    const CudaDispatch cuda(half_type(precision));
    recorder.start(Phase::forward);
    at::Tensor output = forward(inputs);
    if (!output.is_floating_point()) {
      throw InputError(fmt::format("the network's output is of type {}: no loss can be taken of it",
                                   c10::toString(output.scalar_type())));
    }
    recorder.start(Phase::loss);
    at::Tensor labels;
    const auto of = [&](const at::Tensor& logits) { return traced_loss(wanted, logits, labels); };
    at::Tensor loss = zoo ? zoo->loss(std::exchange(output, {}), of) : of(std::exchange(output, {}));
    if (labels.defined()) recorder.name_tensor(labels, TensorRole::input);
    return loss;
  }

  /// Records the backward pass and the update.
  void record_update(OpRecorder& recorder, const at::Tensor& loss, ParameterUpdate& update) {
    recorder.start(Phase::backward);
    (scaler ? scaler->scaled(loss) : loss).backward();
    for (const at::Tensor& parameter : parameters) {
      if (parameter.grad().defined()) recorder.name_tensor(parameter.grad(), TensorRole::gradient);
    }
    std::optional<at::Tensor> found_inf;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;  // which has nothing to do from here on
    if (scaler) found_inf = scaler->unscale(update.gradients());
    recorder.start(Phase::optimizer);
    update.step(learning_rate, found_inf);
    if (scaler) scaler->update();
  }

  OpGraph trace(std::span<const InputSpec> specs, Optimizer optimizer, const Loss& wanted) {
    const WithoutMemory without_memory;
    ParameterUpdate& update = updates.try_emplace(optimizer, optimizer, parameters).first->second;
    if (precision == Precision::fp16 && !scaler) scaler.emplace(at::kMeta);
    clear_gradients();
    OpRecorder recorder;
    const std::vector<at::Tensor> inputs = named_tensors(recorder, specs, update);
    const at::Tensor loss = record_loss(recorder, inputs, wanted);
    if (loss.requires_grad()) record_update(recorder, loss, update);
    recorder.stop();
    clear_gradients();
    return recorder.take();
  }
};

StepTracer::StepTracer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StepTracer::~StepTracer() = default;
StepTracer::StepTracer(StepTracer&&) noexcept = default;
StepTracer& StepTracer::operator=(StepTracer&&) noexcept = default;

StepTracer::StepTracer(const std::function<ModuleToTrace()>& make, Precision precision) {
  const WithoutMemory without_memory;
  impl_ = std::make_unique<Impl>(make(), precision);
}

StepTracer StepTracer::library(const std::string& path, Precision precision) {
  void* const function = dlsym(loaded(path), "perfpred_make_module");
  if (function == nullptr) throw InputError(fmt::format("{}: does not define perfpred_make_module()", path));
  const auto make = [function] {
    ModuleToTrace made;
    reinterpret_cast<void (*)(ModuleToTrace&)>(function)(made);
    return made;
  };
  return StepTracer(make, precision);
}

StepTracer StepTracer::network(const Workload& workload) {
  std::shared_ptr<NetworkModule> module;
  const auto make = [&] {
    ModuleOptions options;
    options.device = at::kMeta;
    options.type = storage_type(workload.precision);
    options.layout = workload.layout;
    module = std::make_shared<NetworkModule>(workload, options);
    return ModuleToTrace{module, [module = module.get()](const auto& inputs) { return module->forward(inputs.at(0)); }};
  };
  StepTracer tracer(make, workload.precision);
  tracer.impl_->zoo = std::move(module);
  tracer.impl_->layout = workload.layout;
  return tracer;
}

OpGraph StepTracer::trace(std::span<const InputSpec> inputs, Optimizer optimizer, const Loss& loss) {
  take_op_failure();
  try {
    return impl_->trace(inputs, optimizer, loss);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string failure = take_op_failure();
    throw InputError(failure.empty() ? first_line_of(error.what()) : failure);
  }
}

std::int64_t StepTracer::params() const {
  std::int64_t params = 0;
  for (const at::Tensor& parameter : impl_->parameters) params += parameter.numel();
  return params;
}

void load_operators(const std::string& path) { loaded(path); }

}  // namespace perfpred
