// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <perfpred/op_graph.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "torch/trace/shape_rules.h"

namespace perfpred {

/// How the tracer treats an operator.
enum class OpRole : std::uint8_t {
  composite,    ///< made of other operators, which are recorded instead
  view,         ///< neither computes nor moves anything
  computes,     ///< is recorded
  reads_value,  ///< asks for a tensor's value, which is unknown
  compares      ///< asks whether two tensors are equal, which is unknown
};

/// What the tracer knows of an operator.
struct OpInfo {
  OpRole role = OpRole::computes;
  OpKind kind = OpKind::unknown;
  std::string name;       // "exp" for aten::exp; with the namespace for operators of other libraries
  bool in_place = false;  // returns its first argument
  bool pointwise = false;
  bool to_copy = false;
  bool copy_into = false;
  bool on_stand_ins = false;  // has no kernel for the meta device
  bool updates = false;       // returns nothing, writes its arguments `written`
  std::vector<std::size_t> written;
  ShapeRule shapes = nullptr;             // null: LibTorch computes the shapes
  std::vector<std::size_t> devices;       // arguments that name the device of a new tensor
  std::optional<std::size_t> transposed;  // argument of a convolution
  std::optional<std::size_t> causal;      // argument of attention
};

/// Found out at the first call of each operator on a thread.
OpInfo& info_of(const c10::OperatorHandle& op);

}  // namespace perfpred
