// SPDX-License-Identifier: Apache-2.0
#include "torch/exported/exported_graph.h"

#include <ATen/Context.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "text/parse.h"
#include "torch/exported/symbolic_number.h"

namespace perfpred {
namespace {

using c10::IValue;

constexpr std::string_view operators = "torch.ops.";
constexpr std::string_view with_autocast = "torch.ops.higher_order.wrap_with_autocast";
constexpr std::string_view with_grad_mode = "torch.ops.higher_order.wrap_with_set_grad_enabled";

/// Operators that only check what export has already relied on, the device that it ran on among it.
bool only_checks(std::string_view target) {
  constexpr std::array<std::string_view, 6> checks = {
      "torch.ops.aten._assert_tensor_metadata.default", "torch.ops.aten._assert_scalar.default",
      "torch.ops.aten._assert_async.default",           "torch.ops.aten._assert_async.msg",
      "torch.ops.aten.sym_constrain_range.default",     "torch.ops.aten.sym_constrain_range_for_size.default"};
  return std::find(checks.begin(), checks.end(), target) != checks.end();
}

/// Export leaves contiguous() out where it copied nothing. On another device the tensor may lie otherwise in memory.
bool is_view(std::string_view target) {
  return target == "torch.ops.aten.view.default" || target == "torch.ops.aten._unsafe_view.default";
}

/// "torch.ops.aten.add.Tensor" -> aten::add, Tensor
std::optional<c10::OperatorHandle> find_operator(std::string_view target) {
  if (is_view(target)) target = "torch.ops.aten.reshape.default";
  std::string_view name = target.substr(operators.size());
  const std::size_t first = name.find('.');
  const std::size_t last = name.rfind('.');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  std::string overload(name.substr(last + 1));
  if (overload == "default") overload.clear();
  return c10::Dispatcher::singleton().findSchema(
      {fmt::format("{}::{}", name.substr(0, first), name.substr(first + 1, last - first - 1)), overload});
}

bool is_normalisation(std::string_view name) { return name.find("batch_norm") != std::string_view::npos; }
bool is_dropout(std::string_view name) { return name.find("dropout") != std::string_view::npos; }

template <class Element, class Convert>
IValue list_of(const std::vector<IValue>& items, Convert convert) {
  c10::List<Element> list;
  list.reserve(items.size());
  for (const IValue& item : items) list.push_back(convert(item));
  return list;
}

/// Of an argument that is not of its formal's type; operand() names the type.
struct WrongType {};

/// A constant argument as an operator takes it; nothing if it is not of the kind. Enumerations are whole numbers.
struct ConstantOf {
  c10::TypeKind kind;
  const GraphPlace& place;

  using Made = std::optional<IValue>;
  [[nodiscard]] Made if_kind(c10::TypeKind wanted, IValue value) const {
    return kind == wanted ? Made(std::move(value)) : Made();
  }
  [[nodiscard]] Made if_number(c10::TypeKind wanted, IValue value) const {
    const bool any = kind == c10::TypeKind::NumberType || kind == c10::TypeKind::TensorType;
    return any ? Made(std::move(value)) : if_kind(wanted, std::move(value));
  }

  Made operator()(std::monostate) const {
    const bool may_lack = kind == c10::TypeKind::OptionalType || kind == c10::TypeKind::TensorType;
    return may_lack ? Made(IValue()) : Made();
  }
  Made operator()(bool value) const { return if_number(c10::TypeKind::BoolType, value); }
  Made operator()(std::int64_t value) const {
    if (kind == c10::TypeKind::FloatType) return static_cast<double>(value);
    return if_number(c10::TypeKind::IntType, value);
  }
  Made operator()(double value) const { return if_number(c10::TypeKind::FloatType, value); }
  Made operator()(c10::complex<double> value) const { return if_number(c10::TypeKind::NumberType, value); }
  Made operator()(const std::string& value) const { return if_kind(c10::TypeKind::StringType, value); }
  Made operator()(c10::Device) const { return if_kind(c10::TypeKind::DeviceObjType, place.device); }
  Made operator()(at::ScalarType value) const {
    return if_kind(c10::TypeKind::IntType, place.doubles && value == at::kFloat ? at::kDouble : value);
  }
  Made operator()(at::Layout value) const { return if_kind(c10::TypeKind::IntType, value); }
  Made operator()(at::MemoryFormat value) const { return if_kind(c10::TypeKind::IntType, value); }
  template <class Other>  // names, lists, graphs
  Made operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

enum class RunnableGraph::NodeKind : std::uint8_t { nothing, operator_, number, autocast, grad_mode };

/// An argument: a constant, a value, or a list of these.
struct RunnableGraph::Operand {
  enum class List : std::uint8_t { none, tensors, optional_tensors, ints, doubles, bools };
  static constexpr std::size_t constant = static_cast<std::size_t>(-1);

  IValue value;
  std::size_t slot = constant;
  bool as_tensor = false;  // a number becomes a tensor, as in Python's `x + 1`
  List list = List::none;
  std::vector<Operand> items = {};

  template <class Visit>
  void for_each_slot(Visit visit) const {
    if (slot != constant) visit(slot);
    for (const Operand& item : items) item.for_each_slot(visit);
  }
};

struct RunnableGraph::Node {
  NodeKind kind = NodeKind::nothing;
  std::string target;
  std::optional<c10::OperatorHandle> op;
  SymbolicOperator number = nullptr;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;                               // slots, or lists of them
  std::vector<std::size_t> frees;                             // slots that no later node reads
  std::vector<std::pair<std::size_t, IValue>> in_evaluation;  // arguments that differ
  bool skipped_in_evaluation = false;
  bool frozen_normalisation = false, frozen_dropout = false;
  std::shared_ptr<const RunnableGraph> region;
  bool enabled = false;                 // of a region: autocast, or gradients
  at::ScalarType half = at::kBFloat16;  // of autocast
};

// ---- Making ready ----

RunnableGraph::RunnableGraph(const ExportedGraph& graph, const GraphPlace& place,
                             const std::set<std::string>& buffers) {
  for (const ExportedArgument& input : graph.inputs) {
    const auto* name = input.name();
    inputs_.push_back(name != nullptr ? slot(name->name) : Operand::constant);
  }
  for (const ExportedNode& node : graph.nodes) nodes_.push_back(made(node, place, buffers));
  for (const ExportedArgument& output : graph.outputs) outputs_.push_back(any_operand(output));
  find_last_readers();
}

RunnableGraph::~RunnableGraph() = default;

std::size_t RunnableGraph::slot(const std::string& name) {
  return names_.try_emplace(name, names_.size()).first->second;
}

std::size_t RunnableGraph::known_slot(const std::string& name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) throw InputError(fmt::format("value {} is read before it is made", shown(name)));
  return found->second;
}

RunnableGraph::Node RunnableGraph::made(const ExportedNode& from, const GraphPlace& place,
                                        const std::set<std::string>& buffers) {
  Node node;
  node.target = from.target;
  try {
    if (only_checks(from.target)) return node;
    if (from.target == with_autocast) {
      node.kind = NodeKind::autocast;
      set_region(node, from, place, 4);
    } else if (from.target == with_grad_mode) {
      node.kind = NodeKind::grad_mode;
      set_region(node, from, place, 1);
    } else if (from.target.starts_with("torch.ops.higher_order.")) {
      throw InputError("this higher-order operator is not known; perfpred.capture records a step of such a network");
    } else if (from.target.starts_with(operators)) {
      node.kind = NodeKind::operator_;
      set_operator(node, from, place, buffers);
    } else if ((node.number = symbolic_operator(from.target)) != nullptr) {
      node.kind = NodeKind::number;
      for (const auto& [name, argument] : from.inputs) node.inputs.push_back(any_operand(argument));
    } else {
      throw InputError("this function is not known");
    }
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", shown(from.target), error.what()));
  }
  const auto output = [this](const ExportedArgument& argument) {
    Operand result;
    if (const auto* name = argument.name(); name != nullptr) result.slot = slot(name->name);
    return result;
  };
  for (const ExportedArgument& argument : from.outputs) {
    Operand result = output(argument);
    if (const auto* list = std::get_if<ExportedArgument::List>(&argument.is)) {
      for (const ExportedArgument& item : *list) result.items.push_back(output(item));
    }
    node.outputs.push_back(std::move(result));
  }
  return node;
}

void RunnableGraph::set_operator(Node& node, const ExportedNode& from, const GraphPlace& place,
                                 const std::set<std::string>& buffers) const {
  node.op = find_operator(from.target);
  if (!node.op) {
    throw InputError(
        "this operator is not known to LibTorch: load a library that registers it (--library); perfpred.capture "
        "records a step "
        "of a network whose operators are written in Python");
  }
  const auto& formals = node.op->schema().arguments();
  node.inputs.resize(formals.size());
  std::vector<bool> given(formals.size());
  for (const auto& [name, argument] : from.inputs) {
    const auto index = node.op->schema().argumentIndexWithName(is_view(from.target) && name == "size" ? "shape" : name);
    if (!index) throw InputError(fmt::format("takes no argument {}", shown(name)));
    const auto at = static_cast<std::size_t>(*index);
    try {
      node.inputs[at] = operand(argument, formals[at], place);
    } catch (const InputError& error) {
      throw InputError(fmt::format("argument {}: {}", name, error.what()));
    }
    given[at] = true;
  }
  for (std::size_t i = 0; i < formals.size(); ++i) {
    if (formals[i].name() == "cudnn_enabled" || formals[i].name() == "cudnn_enable") {
      node.inputs[i] = {at::globalContext().userEnabledCuDNN()};  // export says what it is on the machine without a GPU
    } else if (!given[i]) {
      if (!formals[i].default_value()) throw InputError(fmt::format("argument {} is missing", formals[i].name()));
      node.inputs[i] = {*formals[i].default_value()};
    }
  }
  set_evaluation(node, from, buffers);
}

void RunnableGraph::set_evaluation(Node& node, const ExportedNode& from, const std::set<std::string>& buffers) const {
  const c10::FunctionSchema& schema = node.op->schema();
  const bool normalises = is_normalisation(schema.name());
  const bool drops = is_dropout(schema.name());
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    const IValue& value = node.inputs[i].value;
    if ((normalises || drops) && (formal.name() == "training" || formal.name() == "train") && value.isBool()) {
      (normalises ? node.frozen_normalisation : node.frozen_dropout) = !value.toBool();
      node.in_evaluation.emplace_back(i, false);
    }
    if (formal.name() == "dropout_p") node.in_evaluation.emplace_back(i, 0.0);
  }
  if (schema.name() == "aten::_native_batch_norm_legit_no_training") node.frozen_normalisation = true;
  const auto* written = from.inputs.empty() ? nullptr : from.inputs[0].second.name();
  const c10::AliasInfo* alias = schema.arguments().empty() ? nullptr : schema.arguments()[0].alias_info();
  node.skipped_in_evaluation =
      written != nullptr && alias != nullptr && alias->isWrite() && buffers.contains(written->name);
}

/// @param first  number of inputs before the graph
void RunnableGraph::set_region(Node& node, const ExportedNode& from, const GraphPlace& place, std::size_t first) const {
  const auto input = [&](std::size_t i) -> const ExportedArgument& {
    if (i >= from.inputs.size()) throw InputError("has too few arguments");
    return from.inputs[i].second;
  };
  const auto* enabled = std::get_if<bool>(&input(first == 4 ? 2 : 0).is);
  const auto* graph = std::get_if<ExportedArgument::Graph>(&input(first).is);
  if (enabled == nullptr || graph == nullptr) throw InputError("has other arguments than expected");
  node.enabled = *enabled;
  if (first == 4) {
    if (const auto* half = std::get_if<at::ScalarType>(&input(1).is)) node.half = *half;
  }
  node.region = std::make_shared<const RunnableGraph>(**graph, place, std::set<std::string>());
  if (node.region->inputs_.size() != from.inputs.size() - first - 1) throw InputError("has another number of inputs");
  for (std::size_t i = first + 1; i < from.inputs.size(); ++i) node.inputs.push_back(any_operand(input(i)));
}

/// An argument without a schema: numbers and values.
RunnableGraph::Operand RunnableGraph::any_operand(const ExportedArgument& argument) const {
  if (const auto* name = argument.name()) return {{}, known_slot(name->name)};
  if (const auto* value = std::get_if<bool>(&argument.is)) return {*value};
  if (const auto* value = std::get_if<std::int64_t>(&argument.is)) return {*value};
  if (const auto* value = std::get_if<double>(&argument.is)) return {*value};
  return {};  // what is no number is nobody's operand here
}

RunnableGraph::Operand RunnableGraph::single_operand(const ExportedArgument& argument, c10::TypeKind kind,
                                                     const GraphPlace& place) const {
  const bool tensor = kind == c10::TypeKind::TensorType;
  if (const auto* name = argument.name()) return {{}, known_slot(name->name), tensor};
  std::optional<IValue> value = std::visit(ConstantOf{kind, place}, argument.is);
  if (!value) throw WrongType();
  return {*std::move(value), Operand::constant, tensor};
}

RunnableGraph::Operand RunnableGraph::list_operand(const ExportedArgument& argument, const c10::ListType& list,
                                                   std::size_t repeats, const GraphPlace& place) const {
  static const std::map<c10::TypeKind, Operand::List> lists = {
      {c10::TypeKind::TensorType, Operand::List::tensors},
      {c10::TypeKind::OptionalType, Operand::List::optional_tensors},
      {c10::TypeKind::IntType, Operand::List::ints},
      {c10::TypeKind::FloatType, Operand::List::doubles},
      {c10::TypeKind::BoolType, Operand::List::bools}};
  const c10::TypeKind kind = list.getElementType()->kind();
  const auto known = lists.find(kind);
  if (known == lists.end()) throw WrongType();
  Operand made;
  made.list = known->second;
  if (const auto* items = std::get_if<ExportedArgument::List>(&argument.is)) {
    for (const ExportedArgument& item : *items) made.items.push_back(single_operand(item, kind, place));
  } else {
    made.items.assign(repeats, single_operand(argument, kind, place));
  }
  return made;
}

RunnableGraph::Operand RunnableGraph::operand(const ExportedArgument& argument, const c10::Argument& formal,
                                              const GraphPlace& place) const {
  c10::TypePtr type = formal.type();
  if (const auto optional = type->cast<c10::OptionalType>()) {
    if (std::holds_alternative<std::monostate>(argument.is)) return {};
    type = optional->getElementType();
  }
  try {
    if (const auto list = type->cast<c10::ListType>()) {
      return list_operand(argument, *list, static_cast<std::size_t>(formal.N().value_or(1)), place);
    }
    return single_operand(argument, type->kind(), place);
  } catch (const WrongType&) {
    throw InputError(fmt::format("is not of the type {}", formal.type()->str()));
  }
}

void RunnableGraph::find_last_readers() {
  std::vector<bool> read(names_.size());
  for (const Operand& output : outputs_) output.for_each_slot([&](std::size_t slot) { read[slot] = true; });
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const auto visit = [&](std::size_t slot) {
      if (!read[slot]) node->frees.push_back(slot);
      read[slot] = true;
    };
    for (const Operand& output : node->outputs) output.for_each_slot(visit);
    for (const Operand& input : node->inputs) input.for_each_slot(visit);
  }
}

FrozenParts RunnableGraph::frozen() const {
  FrozenParts parts;
  for (const Node& node : nodes_) {
    parts.normalisations += node.frozen_normalisation ? 1 : 0;
    parts.dropouts += node.frozen_dropout ? 1 : 0;
    if (!node.region) continue;
    const FrozenParts inner = node.region->frozen();
    parts.normalisations += inner.normalisations;
    parts.dropouts += inner.dropouts;
  }
  return parts;
}

bool RunnableGraph::reads(const std::string& name) const {
  const auto found = names_.find(name);
  bool read = false;
  for (const Node& node : nodes_) {
    for (const Operand& input : node.inputs) {
      input.for_each_slot([&](std::size_t slot) { read = read || (found != names_.end() && slot == found->second); });
    }
  }
  return read;
}

// ---- Execution ----

IValue RunnableGraph::value_of(const Operand& operand, const Slots& slots) {
  if (operand.list == Operand::List::none) {
    const IValue& value = operand.slot != Operand::constant ? slots[operand.slot] : operand.value;
    if (operand.as_tensor && value.isScalar()) return at::native::wrapped_scalar_tensor(value.toScalar());
    return value;
  }
  std::vector<IValue> items;
  items.reserve(operand.items.size());
  for (const Operand& item : operand.items) items.push_back(value_of(item, slots));
  switch (operand.list) {
    case Operand::List::tensors:
      return list_of<at::Tensor>(items, [](const IValue& item) { return item.toTensor(); });
    case Operand::List::optional_tensors:
      return list_of<std::optional<at::Tensor>>(items,
                                                [](const IValue& item) { return item.toOptional<at::Tensor>(); });
    case Operand::List::doubles:
      return list_of<double>(items, [](const IValue& item) { return item.toScalar().toDouble(); });
    case Operand::List::bools:
      return list_of<bool>(items, [](const IValue& item) { return item.toBool(); });
    default:
      return list_of<std::int64_t>(items, [](const IValue& item) { return item.toScalar().toLong(); });
  }
}

std::vector<IValue> RunnableGraph::run(std::vector<std::pair<std::string, IValue>> inputs, const Mode& mode) const {
  Slots slots(names_.size());
  for (auto& [name, value] : inputs) {
    if (const auto found = names_.find(name); found != names_.end()) slots[found->second] = std::move(value);
  }
  inputs.clear();
  for (const Node& node : nodes_) execute(node, slots, mode);
  std::vector<IValue> results;
  results.reserve(outputs_.size());
  for (const Operand& output : outputs_) results.push_back(value_of(output, slots));
  return results;
}

void RunnableGraph::execute(const Node& node, Slots& slots, const Mode& mode) const {
  std::vector<IValue> results;
  switch (node.kind) {
    case NodeKind::nothing:
      return;
    case NodeKind::number:
      for (const Operand& input : node.inputs) results.push_back(value_of(input, slots));
      results = {node.number(results)};
      break;
    case NodeKind::autocast: {
      const AutocastScope scope = mode.autocast(node.enabled ? std::optional(node.half) : std::nullopt);
      results = run_region(node, slots, mode);
      break;
    }
    case NodeKind::grad_mode: {
      const at::AutoGradMode gradients(node.enabled && (mode.training || at::GradMode::is_enabled()));
      results = run_region(node, slots, mode);
      break;
    }
    case NodeKind::operator_:
      if (!mode.training && node.skipped_in_evaluation) {
        results = {value_of(node.inputs[0], slots)};
        break;
      }
      for (const Operand& input : node.inputs) results.push_back(value_of(input, slots));
      if (!mode.training) {
        for (const auto& [index, value] : node.in_evaluation) results[index] = value;
      }
      node.op->callBoxed(results);
  }
  store(node, std::move(results), slots);
}

std::vector<IValue> RunnableGraph::run_region(const Node& node, const Slots& slots, const Mode& mode) const {
  const RunnableGraph& region = *node.region;
  Slots inner(region.names_.size());
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (region.inputs_[i] != Operand::constant) inner[region.inputs_[i]] = value_of(node.inputs[i], slots);
  }
  for (const Node& each : region.nodes_) region.execute(each, inner, mode);
  std::vector<IValue> results;
  for (const Operand& output : region.outputs_) results.push_back(value_of(output, inner));
  return results;
}

void RunnableGraph::store(const Node& node, std::vector<IValue> results, Slots& slots) {
  if (results.size() < node.outputs.size()) {
    throw InputError(fmt::format("{}: gives {} results, not {}", node.target, results.size(), node.outputs.size()));
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Operand& output = node.outputs[i];
    if (output.slot != Operand::constant) slots[output.slot] = std::move(results[i]);
    if (output.items.empty()) continue;
    if (!results[i].isTensorList() || results[i].toTensorList().size() != output.items.size()) {
      throw InputError(fmt::format("{}: gives another number of tensors than when it was exported", node.target));
    }
    const c10::List<at::Tensor> list = results[i].toTensorList();
    for (std::size_t k = 0; k < list.size(); ++k) {
      if (output.items[k].slot != Operand::constant) slots[output.items[k].slot] = list.get(k);
    }
  }
  results.clear();
  for (const std::size_t slot : node.frees) slots[slot] = IValue();
}

}  // namespace perfpred
