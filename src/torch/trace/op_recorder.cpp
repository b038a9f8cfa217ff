// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/op_recorder.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <perfpred/error.h>
#include <torch/library.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "torch/trace/shape_rules.h"

namespace perfpred {
namespace {

using at::Tensor;
using c10::IValue;
using Arguments = c10::ArrayRef<IValue>;

thread_local OpRecorder* recording = nullptr;
thread_local std::string failure;

// ---- What is known of an operator ----

// Where LibTorch's name is not the kind's.
constexpr std::array<std::pair<std::string_view, OpKind>, 53> kinds_by_name = {{
    {"_convolution", OpKind::convolution},
    {"addbmm", OpKind::baddbmm},
    {"native_batch_norm", OpKind::batch_norm},
    {"_native_batch_norm_legit", OpKind::batch_norm},
    {"native_batch_norm_backward", OpKind::batch_norm_backward},
    {"native_layer_norm", OpKind::layer_norm},
    {"native_layer_norm_backward", OpKind::layer_norm_backward},
    {"native_group_norm", OpKind::group_norm},
    {"native_group_norm_backward", OpKind::group_norm_backward},
    {"_softmax", OpKind::softmax},
    {"_safe_softmax", OpKind::softmax},
    {"_softmax_backward_data", OpKind::softmax_backward},
    {"_log_softmax", OpKind::log_softmax},
    {"_log_softmax_backward_data", OpKind::log_softmax_backward},
    {"nll_loss_forward", OpKind::nll_loss},
    {"nll_loss2d_forward", OpKind::nll_loss},
    {"nll_loss2d_backward", OpKind::nll_loss_backward},
    {"max_pool2d_with_indices", OpKind::max_pool2d},
    {"max_pool2d_with_indices_backward", OpKind::max_pool2d_backward},
    {"_adaptive_avg_pool2d", OpKind::adaptive_avg_pool2d},
    {"_adaptive_avg_pool2d_backward", OpKind::adaptive_avg_pool2d_backward},
    {"embedding_dense_backward", OpKind::embedding_backward},
    {"clone", OpKind::copy},
    {"_to_copy", OpKind::copy},
    {"_reshape_copy", OpKind::copy},
    {"view_copy", OpKind::copy},
    {"zeros", OpKind::fill},
    {"zeros_like", OpKind::fill},
    {"zero", OpKind::fill},
    {"ones", OpKind::fill},
    {"ones_like", OpKind::fill},
    {"full", OpKind::fill},
    {"full_like", OpKind::fill},
    {"new_zeros", OpKind::fill},
    {"new_ones", OpKind::fill},
    {"new_full", OpKind::fill},
    {"scalar_tensor", OpKind::fill},
    {"arange", OpKind::fill},
    {"linspace", OpKind::fill},
    {"eye", OpKind::fill},
    {"normal", OpKind::bernoulli},
    {"uniform", OpKind::bernoulli},
    {"random", OpKind::bernoulli},
    {"rand", OpKind::bernoulli},
    {"randn", OpKind::bernoulli},
    {"rand_like", OpKind::bernoulli},
    {"randn_like", OpKind::bernoulli},
    {"_fused_sgd", OpKind::fused_sgd},
    {"_fused_adam", OpKind::fused_adam},
    {"_fused_adamw", OpKind::fused_adamw},
    {"_fused_adagrad", OpKind::fused_adagrad},
    {"_amp_foreach_non_finite_check_and_unscale", OpKind::unscale_gradients},
    {"_amp_update_scale", OpKind::update_scale},
}};

// Known, about one FLOP per element, and neither with a kind of their own nor marked as pointwise by LibTorch.
constexpr std::array<std::string_view, 66> others = {"amax",
                                                     "amin",
                                                     "argmax",
                                                     "argmin",
                                                     "max",
                                                     "min",
                                                     "prod",
                                                     "var",
                                                     "var_mean",
                                                     "std",
                                                     "std_mean",
                                                     "norm",
                                                     "linalg_vector_norm",
                                                     "logsumexp",
                                                     "cumsum",
                                                     "cumprod",
                                                     "any",
                                                     "all",
                                                     "index",
                                                     "index_put",
                                                     "_index_put_impl",
                                                     "index_select",
                                                     "index_add",
                                                     "index_copy",
                                                     "index_fill",
                                                     "gather",
                                                     "scatter",
                                                     "scatter_add",
                                                     "slice_scatter",
                                                     "select_scatter",
                                                     "sort",
                                                     "topk",
                                                     "flip",
                                                     "roll",
                                                     "repeat",
                                                     "stack",
                                                     "tril",
                                                     "triu",
                                                     "constant_pad_nd",
                                                     "reflection_pad2d",
                                                     "reflection_pad2d_backward",
                                                     "replication_pad2d",
                                                     "replication_pad2d_backward",
                                                     "upsample_nearest2d",
                                                     "upsample_nearest2d_backward",
                                                     "upsample_bilinear2d",
                                                     "upsample_bilinear2d_backward",
                                                     "mse_loss",
                                                     "mse_loss_backward",
                                                     "smooth_l1_loss",
                                                     "smooth_l1_loss_backward",
                                                     "glu",
                                                     "glu_backward",
                                                     "elu_backward",
                                                     "leaky_relu_backward",
                                                     "softplus_backward",
                                                     "log_sigmoid_backward",
                                                     "native_dropout",
                                                     "native_dropout_backward",
                                                     "nonzero",
                                                     "pixel_shuffle",
                                                     "channel_shuffle",
                                                     "_prelu_kernel",
                                                     "_prelu_kernel_backward",
                                                     "_masked_softmax",
                                                     "one_hot"};

// Neither compute nor move anything.
constexpr std::array<std::string_view, 20> free_names = {"empty",
                                                         "empty_like",
                                                         "empty_strided",
                                                         "new_empty",
                                                         "new_empty_strided",
                                                         "_unsafe_view",
                                                         "_reshape_alias",
                                                         "unsafe_split",
                                                         "unsafe_split_with_sizes",
                                                         "unsafe_chunk",
                                                         "detach",
                                                         "lift",
                                                         "lift_fresh",
                                                         "resize",
                                                         "as_strided",
                                                         "set",
                                                         "squeeze",
                                                         "unsqueeze",
                                                         "t",
                                                         "transpose"};

OpKind kind_of_name(std::string_view name) {
  const auto* found =
      std::find_if(kinds_by_name.begin(), kinds_by_name.end(), [&](const auto& entry) { return entry.first == name; });
  if (found != kinds_by_name.end()) return found->second;
  for (auto kind = static_cast<int>(OpKind::unknown) + 1; kind < static_cast<int>(OpKind::other); ++kind) {
    if (to_string(static_cast<OpKind>(kind)) == name) return static_cast<OpKind>(kind);
  }
  return std::find(others.begin(), others.end(), name) != others.end() ? OpKind::other : OpKind::unknown;
}

std::shared_mutex registered_mutex;
std::map<std::string, std::shared_ptr<const OpRule>, std::less<>>& registered_rules() {
  static std::map<std::string, std::shared_ptr<const OpRule>, std::less<>> rules;
  return rules;
}

std::shared_ptr<const OpRule> registered_rule(const std::string& name) {
  const std::shared_lock lock(registered_mutex);
  const auto found = registered_rules().find(name);
  return found != registered_rules().end() ? found->second : nullptr;
}

enum class Role : std::uint8_t { composite, view, computes, reads_value, compares };

/// An operator as the handler treats it; found out once.
struct OpInfo {
  Role role = Role::computes;
  OpKind kind = OpKind::unknown;
  std::string name;       // "exp" of LibTorch's, "mylib::attention" of others
  bool in_place = false;  // gives its first argument back
  bool pointwise = false;
  bool to_copy = false;
  bool copy_into = false;
  bool on_stand_ins = false;  // has no kernel for the meta device
  bool updates = false;       // gives nothing, writes its arguments `written`
  std::vector<std::size_t> written;
  ShapeRule shapes = nullptr;
  std::vector<std::size_t> devices;       // arguments that say where to make a tensor
  std::optional<std::size_t> transposed;  // the argument that says whether a convolution is
};

OpInfo find_out(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OpInfo info;
  std::string_view name = schema.name();
  constexpr std::string_view aten = "aten::";
  const bool ours = name.substr(0, aten.size()) == aten;
  if (ours) name.remove_prefix(aten.size());
  const auto& returns = schema.returns();
  const auto& arguments = schema.arguments();
  info.in_place = returns.size() == 1 && returns[0].alias_info() != nullptr && returns[0].alias_info()->isWrite() &&
                  !arguments.empty() && arguments[0].alias_info() != nullptr && arguments[0].alias_info()->isWrite();
  if (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
  info.name = name;
  info.pointwise = op.hasTag(at::Tag::pointwise);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "device") info.devices.push_back(i);
    if (arguments[i].name() == "transposed") info.transposed = i;
  }
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    info.role = Role::composite;
    return info;
  }
  if (ours && name.substr(0, std::string_view("_foreach_").size()) == "_foreach_") {
    info.role = Role::composite;  // one operator for each tensor of the lists
    return info;
  }
  const bool view =
      !info.in_place && !returns.empty() && returns[0].alias_info() != nullptr && !returns[0].alias_info()->isWrite();
  if (view || (ours && std::find(free_names.begin(), free_names.end(), name) != free_names.end())) {
    info.role = Role::view;
  } else if (ours && name == "_local_scalar_dense") {
    info.role = Role::reads_value;
  } else if (ours && name == "equal") {
    info.role = Role::compares;
  }
  if (!ours) return info;
  info.kind = kind_of_name(name);
  if (info.kind == OpKind::unknown && info.pointwise) info.kind = OpKind::other;
  info.shapes = shape_rule(name);
  info.to_copy = name == "_to_copy";
  info.copy_into = name == "copy";
  info.updates = info.kind >= OpKind::fused_sgd && info.kind <= OpKind::unscale_gradients;
  if (info.updates) {
    constexpr std::array<std::string_view, 6> written = {
        "self", "exp_avgs", "exp_avg_sqs", "momentum_buffer_list", "state_sums", "found_inf"};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool is_flag = arguments[i].name() == "found_inf" && info.kind != OpKind::unscale_gradients;
      if (!is_flag && std::find(written.begin(), written.end(), arguments[i].name()) != written.end()) {
        info.written.push_back(i);
      }
    }
  }
  return info;
}

OpInfo& info_of(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const c10::FunctionSchema*, OpInfo> known;
  const c10::FunctionSchema* key = &op.schema();
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, find_out(op)).first->second;
}

// ---- Executing an operator without memory ----

template <class Visit>
void for_each_tensor(IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) visit(*tensor);
    }
  }
}

bool is_number(const Tensor& tensor) { return tensor.unsafeGetTensorImpl()->is_wrapped_number(); }

/// A tensor of the same shape and strides without memory, one for each memory: what is read twice is the same twice.
Tensor without_memory(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_meta()) return tensor;
  using Held = std::pair<c10::weak_intrusive_ptr<c10::StorageImpl>, c10::Storage>;
  thread_local std::unordered_map<const c10::StorageImpl*, Held> stand_ins;
  const c10::Storage& storage = tensor.storage();
  auto made = Tensor(at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type()));
  const auto found = stand_ins.find(storage.unsafeGetStorageImpl());
  if (found != stand_ins.end() && !found->second.first.expired()) {
    made.set_(found->second.second, tensor.storage_offset(), tensor.sizes(), tensor.strides());
  } else {
    Held held(c10::weak_intrusive_ptr<c10::StorageImpl>(storage.getWeakStorageImpl()), made.storage());
    stand_ins.insert_or_assign(storage.unsafeGetStorageImpl(), std::move(held));
  }
  return made;
}

enum class Scalars : std::uint8_t { keep, remove };

/// @param scalars  tensors of rank 0 may stay on the CPU beside others on the meta device
void remove_memory(IValue& value, Scalars scalars) {
  const auto has_memory = [&](const Tensor& tensor) {
    return tensor.defined() && !tensor.is_meta() && (scalars == Scalars::remove || tensor.dim() > 0);
  };
  if (value.isTensor()) {
    if (has_memory(value.toTensor())) value = without_memory(value.toTensor());
  } else if (value.isTensorList()) {
    auto list = value.toTensorList();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Tensor tensor = list.get(i);
      if (has_memory(tensor)) list.set(i, without_memory(tensor));
    }
  } else if (value.isOptionalTensorList()) {
    auto list = value.toOptionalTensorList();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::optional<Tensor> tensor = list.get(i);
      if (tensor && has_memory(*tensor)) list.set(i, without_memory(*tensor));
    }
  }
}

/// Zeros of the same shape on the CPU.
Tensor stand_in(const Tensor& tensor) {
  return tensor.is_meta() ? at::zeros(tensor.sizes(), tensor.options().device(at::kCPU)) : tensor;
}

/// Executes the operator on zeros on the CPU, and forgets the memory of what it gives.
void call_on_stand_ins(const c10::OperatorHandle& op, torch::jit::Stack& stack, std::size_t begin) {
  for (std::size_t i = begin; i < stack.size(); ++i) {
    IValue& value = stack[i];
    if (value.isTensor()) {
      if (value.toTensor().defined()) value = stand_in(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorVector()) list.push_back(stand_in(tensor));
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor && tensor->defined() ? std::optional(stand_in(*tensor)) : tensor);
      }
      value = list;
    } else if (value.isDevice()) {
      value = c10::Device(at::kCPU);
    }
  }
  op.callBoxed(stack);
  for (std::size_t i = begin; i < stack.size(); ++i) remove_memory(stack[i], Scalars::remove);
}

std::string described(const c10::OperatorHandle& op, std::span<const Tensor> inputs, const std::string& what) {
  std::string shapes;
  for (const Tensor& tensor : inputs) {
    if (!shapes.empty()) shapes += ", ";
    shapes += Shape(std::span(tensor.sizes().data(), tensor.sizes().size())).text();
  }
  return fmt::format("{}({}): {}", op.schema().name(), shapes, what.substr(0, what.find('\n')));
}

/// Whether an operator on elements obviously gives what its first input is: most of a step's operators, and LibTorch
/// takes microseconds to find that out.
bool shapes_are_plain(const OpInfo& info, std::span<const Tensor> inputs) {
  if (!info.pointwise || inputs.empty() || !inputs[0].is_floating_point()) return false;
  const bool arithmetic = info.kind >= OpKind::add && info.kind <= OpKind::addcdiv;
  if (!info.in_place && !(arithmetic && inputs[0].is_non_overlapping_and_dense())) return false;
  return std::all_of(inputs.begin() + 1, inputs.end(), [&](const Tensor& other) {
    return other.scalar_type() == inputs[0].scalar_type() && other.sizes() == inputs[0].sizes() &&
           (info.in_place || other.strides() == inputs[0].strides());
  });
}

/// Leaves the operator's outputs where its arguments were.
void call(const c10::OperatorHandle& op, OpInfo& info, torch::jit::Stack& stack, std::size_t begin,
          std::span<const Tensor> inputs) {
  if (info.shapes != nullptr) {
    std::vector<Tensor> outputs;
    const Arguments arguments(stack.data() + begin, stack.size() - begin);
    if (info.in_place) {
      outputs.push_back(arguments[0].toTensor());
    } else {
      outputs = info.shapes(arguments);
    }
    stack.resize(begin);
    for (Tensor& output : outputs) stack.emplace_back(std::move(output));
    return;
  }
  if (shapes_are_plain(info, inputs)) {
    Tensor output =
        info.in_place
            ? inputs[0]
            : Tensor(at::detail::empty_strided_meta(inputs[0].sizes(), inputs[0].strides(), inputs[0].scalar_type()));
    stack.resize(begin);
    stack.emplace_back(std::move(output));
    return;
  }
  if (!info.on_stand_ins) {
    const std::vector<IValue> arguments(stack.begin() + static_cast<std::ptrdiff_t>(begin), stack.end());
    try {
      op.callBoxed(stack);
      return;
    } catch (const c10::NotImplementedError&) {
      info.on_stand_ins = true;
      stack.resize(begin);
      stack.insert(stack.end(), arguments.begin(), arguments.end());
    }
  }
  if (info.in_place) {
    stack.resize(begin + 1);
  } else {
    call_on_stand_ins(op, stack, begin);
  }
}

/// Records an operator that writes its arguments and gives nothing, as the fused optimizers. All parameters share a
/// count of steps, which is listed for each.
void record_update(const OpInfo& info, torch::jit::Stack& stack, std::size_t begin, std::vector<Tensor>& inputs) {
  OpRecorder* recorder = OpRecorder::current();
  if (recorder == nullptr) return;
  std::vector<Tensor> written;
  for (const std::size_t i : info.written) {
    for_each_tensor(stack[begin + i], [&](const Tensor& tensor) { written.push_back(tensor); });
  }
  inputs.erase(std::unique(inputs.begin(), inputs.end(), [](const Tensor& a, const Tensor& b) { return a.is_same(b); }),
               inputs.end());
  const bool momentum = info.kind == OpKind::fused_sgd && stack[begin + 2].toListRef().size() > 0;
  recorder->record(momentum ? OpKind::fused_momentum : info.kind, {}, nullptr, inputs, written);
}

/// Sees each operator below autograd. Redispatches what is made of others, so that it sees those, and executes and
/// records what a device would execute.
void handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  OpInfo& info = info_of(op);
  if (info.role == Role::composite) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake), stack);
    return;
  }
  if (OpRecorder* recorder = OpRecorder::current(); recorder != nullptr && !recorder->admits_call()) {
    failure = fmt::format("the forward pass executes more than {} operators: does a loop of it wait for a value?",
                          OpRecorder::most_calls);
    throw InputError(failure);
  }
  const std::size_t begin = stack->size() - op.schema().arguments().size();
  thread_local std::vector<Tensor> scratch;
  std::vector<Tensor> inputs = std::move(scratch);
  inputs.clear();
  bool small = true;  // numbers of the host
  bool remove = false;
  bool any = false;
  for (std::size_t i = begin; i < stack->size(); ++i) {
    for_each_tensor((*stack)[i], [&](const Tensor& tensor) {
      any = true;
      if (!tensor.is_meta()) remove = remove || tensor.dim() > 0;
      small = small && !tensor.is_meta() && tensor.numel() <= 1;
      if (!is_number(tensor)) inputs.push_back(tensor);
    });
  }

  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView |
      c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::DeferredInit}));
  if (any && small) {
    op.callBoxed(stack);
    return;
  }
  if (info.role == Role::reads_value || info.role == Role::compares) {
    stack->resize(begin);
    stack->emplace_back(info.role == Role::compares ? IValue(true) : IValue(1));
    return;
  }
  if (!any && !info.devices.empty()) {  // a number made of shapes, say, stays one
    const IValue& size = (*stack)[begin];
    if (info.name == "scalar_tensor" || (size.isIntList() && size.toIntVector().empty())) {
      op.callBoxed(stack);
      return;
    }
  }
  for (const std::size_t device : info.devices) {
    IValue& value = (*stack)[begin + device];
    if (value.isDevice() || !any) value = c10::Device(at::kMeta);
  }
  if (remove) {
    for (std::size_t i = begin; i < stack->size(); ++i) remove_memory((*stack)[i], Scalars::keep);
    inputs.clear();
    for (std::size_t i = begin; i < stack->size(); ++i) {
      for_each_tensor((*stack)[i], [&](const Tensor& tensor) {
        if (!is_number(tensor)) inputs.push_back(tensor);
      });
    }
  }
  if (info.to_copy && (*stack)[begin].toTensor().is_meta()) {  // to another device only
    const IValue& type = (*stack)[begin + 1];
    if (type.isNone() || type.toScalarType() == (*stack)[begin].toTensor().scalar_type()) {
      stack->resize(begin + 1);
      return;
    }
  }

  if (info.updates) {
    record_update(info, *stack, begin, inputs);
    stack->resize(begin);
    return;
  }
  const bool transposed = info.transposed && (*stack)[begin + *info.transposed].toBool();
  try {
    call(op, info, *stack, begin, inputs);
  } catch (const c10::Error& error) {
    if (failure.empty()) failure = described(op, inputs, error.what_without_backtrace());
    throw;
  }
  if (OpRecorder* recorder = OpRecorder::current(); recorder != nullptr && info.role == Role::computes) {
    std::vector<Tensor> outputs;
    for (std::size_t i = begin; i < stack->size(); ++i) {
      if ((*stack)[i].isTensor()) {
        outputs.push_back((*stack)[i].toTensor());
      } else {
        for_each_tensor((*stack)[i], [&](const Tensor& tensor) { outputs.push_back(tensor); });
      }
    }
    if (info.copy_into && inputs.size() == 2) inputs.erase(inputs.begin());
    const bool named = info.kind == OpKind::unknown || info.kind == OpKind::other;
    const std::shared_ptr<const OpRule> rule =
        info.kind == OpKind::unknown ? registered_rule(op.schema().name()) : nullptr;
    recorder->record(info.kind, named ? std::string_view(info.name) : std::string_view(), rule.get(), inputs, outputs,
                     transposed);
  }
  scratch = std::move(inputs);
}

DataType type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DataType::f32;
    case at::kDouble:
      return DataType::f64;
    case at::kHalf:
      return DataType::f16;
    case at::kBFloat16:
      return DataType::bf16;
    case at::kLong:
      return DataType::i64;
    case at::kInt:
      return DataType::i32;
    case at::kByte:
    case at::kChar:
    case at::kBool:
      return DataType::u8;
    default:
      throw InputError(fmt::format("tensors of type {} are not supported", c10::toString(type)));
  }
}

/// Without the repetitions of expanded axes: what lies in memory.
Shape stored_shape(const Tensor& tensor) {
  std::array<std::int64_t, Shape::max_rank> sizes{};
  const auto rank = static_cast<std::size_t>(tensor.dim());
  if (rank > sizes.size()) return Shape({tensor.numel()});
  for (std::size_t axis = 0; axis < rank; ++axis) {
    sizes[axis] = tensor.strides()[axis] == 0 && tensor.sizes()[axis] > 1 ? 1 : tensor.sizes()[axis];
  }
  return Shape(std::span<const std::int64_t>(sizes.data(), rank));
}

/// How often a convolution or product computes with each element that lies in memory: once but for expanded operands.
double repetitions(OpKind kind, std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool transposed) {
  const auto ratio = [](std::int64_t whole, std::int64_t stored) {
    return stored > 0 ? static_cast<double>(whole) / static_cast<double>(stored) : 1;
  };
  const bool backward = kind == OpKind::convolution_backward;
  if (kind == OpKind::convolution || backward) {
    if (!backward && !transposed) return 1;
    const Tensor& counted = inputs[backward && transposed ? 1 : 0];
    return ratio(counted.numel(), stored_shape(counted).numel());
  }
  const Tensor& left = inputs[kind == OpKind::mm || kind == OpKind::bmm ? 0 : 1];
  const Shape stored = stored_shape(left);
  const bool summed = outputs[0].dim() < left.dim();  // addbmm
  return ratio(left.size(-1), stored.back()) * (summed ? ratio(left.size(0), stored[0]) : 1);
}

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&handle>()); }

}  // namespace

OpRecorder::~OpRecorder() { stop(); }

OpRecorder* OpRecorder::current() { return recording; }

void OpRecorder::start(Phase phase) {
  phase_ = phase;
  recording = this;
}

void OpRecorder::stop() {
  if (recording == this) recording = nullptr;
}

void OpRecorder::name_tensor(const at::Tensor& tensor, TensorRole role) { graph_.set_role(id_of(tensor), role); }

TensorId OpRecorder::id_of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  const Shape shape = stored_shape(tensor);
  const auto [known, is_new] = ids_.try_emplace(storage.unsafeGetStorageImpl(), no_tensor);
  if (is_new) {
    addresses_.push_back(storage.getWeakStorageImpl());
    const TensorRole role = phase_ <= Phase::loss ? TensorRole::activation : TensorRole::temporary;
    known->second = graph_.add_tensor(shape, type_of(tensor.scalar_type()), role);
    return known->second;
  }
  const TensorId id = known->second;
  return graph_.shape(id) == shape ? id : graph_.add_view(id, shape);
}

void OpRecorder::record(OpKind kind, std::string_view name, const OpRule* rule, std::span<const at::Tensor> inputs,
                        std::span<const at::Tensor> outputs, bool transposed) {
  inputs_.clear();
  outputs_.clear();
  for (const at::Tensor& tensor : inputs) {
    const auto is_it = [&](const at::Tensor& other) { return other.is_same(tensor); };
    const auto* same = std::find_if(inputs.data(), &tensor, is_it);
    if (same != &tensor) {
      inputs_.push_back(inputs_[static_cast<std::size_t>(same - inputs.data())]);
      continue;
    }
    const std::size_t before = graph_.tensors().size();
    const TensorId id = id_of(tensor);
    inputs_.push_back(id);
    // What an operator only reads was made before: outside of the step if it is new. Optimizers make what they
    // remember in the first step, and overwrite it.
    const bool is_new = id == before && graph_.tensors()[id].storage == id;
    if (is_new && phase_ == Phase::optimizer) {
      graph_.set_role(id, TensorRole::optimizer_state);
    } else if (is_new && std::none_of(outputs.begin(), outputs.end(), is_it)) {
      graph_.set_role(id, TensorRole::buffer);
    }
  }
  for (const at::Tensor& tensor : outputs) outputs_.push_back(tensor.defined() ? id_of(tensor) : no_tensor);
  Op& op = graph_.add_op(rule != nullptr ? OpKind::custom : kind, phase_, -1, inputs_, outputs_, transposed);
  if (rule == nullptr && is_conv_or_matmul(kind)) op.flops *= repetitions(kind, inputs, outputs, transposed);
  if (!name.empty()) {
    const auto [found, is_new] =
        names_.try_emplace(std::string(name), static_cast<std::int32_t>(graph_.op_names().size()));
    if (is_new) graph_.add_op_name(found->first);
    op.name = found->second;
  }
  if (rule != nullptr) {
    const auto shapes = [](std::span<const at::Tensor> tensors) {
      std::vector<Shape> list;
      for (const at::Tensor& tensor : tensors) list.push_back(tensor.defined() ? stored_shape(tensor) : Shape());
      return list;
    };
    const std::vector<Shape> in = shapes(inputs);
    const std::vector<Shape> out = shapes(outputs);
    op.flops = rule->flops(in, out);
    const auto bytes = static_cast<std::int64_t>(rule->bytes(in, out));
    op.bytes_written = std::min(op.bytes_written, bytes);
    op.bytes_read = bytes - op.bytes_written;
  }
}

std::string take_op_failure() { return std::exchange(failure, {}); }

void register_op(const std::string& name, OpRule::Count flops, OpRule::Count bytes) {
  if (name.find("::") == std::string::npos) {
    throw InputError(fmt::format("operator \"{}\" has no namespace: mylib::{}", name, name));
  }
  auto rule = std::make_shared<const OpRule>(OpRule{std::move(flops), std::move(bytes)});
  const std::unique_lock lock(registered_mutex);
  registered_rules().insert_or_assign(name, std::move(rule));
}

}  // namespace perfpred
