// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch/exported/exported_program.h"

namespace c10 {
class OperatorHandle;
class Argument;
struct ListType;
enum class TypeKind;
}  // namespace c10

namespace perfpred {

/// Where and how a graph is executed.
struct GraphPlace {
  c10::Device device = at::kCPU;  ///< in place of the one that it was exported on
  bool doubles = false;           ///< double precision in place of single
};

/// The parts of a graph that were exported as after `model.eval()`, and so do not train as the network would.
struct FrozenParts {
  int normalisations = 0;  ///< with stored statistics
  int dropouts = 0;        ///< that drop nothing
};

/// A graph of torch.export made ready: its operators are found and its constant arguments converted. It is executed
/// operator by operator through LibTorch's dispatcher, so that autograd, autocast and tracing see what they see of a
/// module. A value is freed after its last reader.
class RunnableGraph {
 public:
  /// While it lives, operators run under autocast to a half type; without a type, autocast is off.
  using AutocastScope = std::shared_ptr<void>;

  struct Mode {
    bool training = true;  ///< false: dropout is off, and batch normalisation uses stored statistics and keeps them
    std::function<AutocastScope(std::optional<at::ScalarType> half)> autocast;
  };

  /// @param buffers  names of inputs that an evaluation leaves as they are
  /// @throws InputError that names an operator that is not known, or an argument that it does not take
  RunnableGraph(const ExportedGraph& graph, const GraphPlace& place, const std::set<std::string>& buffers);
  ~RunnableGraph();
  RunnableGraph(const RunnableGraph&) = delete;
  RunnableGraph& operator=(const RunnableGraph&) = delete;

  /// @param inputs  by the names of the graph's inputs that it reads, in any order
  [[nodiscard]] std::vector<c10::IValue> run(std::vector<std::pair<std::string, c10::IValue>> inputs,
                                             const Mode& mode) const;

  [[nodiscard]] FrozenParts frozen() const;

  /// Whether a node reads this value.
  [[nodiscard]] bool reads(const std::string& name) const;

 private:
  using Slots = std::vector<c10::IValue>;
  struct Operand;
  struct Node;
  enum class NodeKind : std::uint8_t;

  /// The slot of a value by its name; a new one for a new name.
  std::size_t slot(const std::string& name);
  std::size_t known_slot(const std::string& name) const;

  Node made(const ExportedNode& node, const GraphPlace& place, const std::set<std::string>& buffers);
  void set_operator(Node& node, const ExportedNode& from, const GraphPlace& place,
                    const std::set<std::string>& buffers) const;
  void set_evaluation(Node& node, const ExportedNode& from, const std::set<std::string>& buffers) const;
  void set_region(Node& node, const ExportedNode& from, const GraphPlace& place, std::size_t first) const;
  Operand operand(const ExportedArgument& argument, const c10::Argument& formal, const GraphPlace& place) const;
  Operand single_operand(const ExportedArgument& argument, c10::TypeKind kind, const GraphPlace& place) const;
  Operand list_operand(const ExportedArgument& argument, const c10::ListType& list, std::size_t repeats,
                       const GraphPlace& place) const;
  Operand any_operand(const ExportedArgument& argument) const;
  void find_last_readers();

  static c10::IValue value_of(const Operand& operand, const Slots& slots);
  void execute(const Node& node, Slots& slots, const Mode& mode) const;
  static void store(const Node& node, std::vector<c10::IValue> results, Slots& slots);
  std::vector<c10::IValue> run_region(const Node& node, const Slots& slots, const Mode& mode) const;

  std::unordered_map<std::string, std::size_t> names_;
  std::vector<std::size_t> inputs_;  // of a region, by position
  std::vector<Node> nodes_;
  std::vector<Operand> outputs_;
};

}  // namespace perfpred
