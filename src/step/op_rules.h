// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>
#include <perfpred/op_rule_registry.h>

#include <cstdint>
#include <memory>
#include <string>

namespace perfpred {

inline constexpr double max_counted = 1e18;     ///< bytes and FLOPs of one operator
inline constexpr double max_step_bytes = 4e18;  ///< that a step holds, or moves: sums stay below 2^63

/// How an operator is counted.
struct OpRule {
  OpCount flops;
  OpCount bytes;         ///< null: those of its operands
  bool product = false;  ///< computed by the units that multiply matrices
};

/// The rule that register_op() gave to an operator, else that of data/op_rules.txt, or null.
[[nodiscard]] PERFPRED_API std::shared_ptr<const OpRule> registered_rule(const std::string& name);

/// How often register_op() was called: a graph of a file is as it was made while this does not change.
[[nodiscard]] PERFPRED_API std::uint64_t rule_changes();

/// That of data/op_rules.txt, or null.
[[nodiscard]] std::shared_ptr<const OpRule> known_rule(const std::string& name);

/// The operators with a registered rule, joined by commas, that registered_rule() was never asked for; empty if there
/// are none.
[[nodiscard]] PERFPRED_API std::string unused_rules();

/// @param place  in front of the message
/// @throws InputError unless the name has a namespace: mylib::attention
void check_op_name(const std::string& name, const std::string& place = {});

/// Counts an operator of the graph by a rule; its kind becomes `bmm` if it is a product, else `custom`.
/// @param causal  attention in which half of the pairs of positions are left out
/// @throws InputError as the rule does
void count_by(const OpRule& rule, const OpGraph& graph, Op& op, bool causal = false);

/// Sets all bytes that an operator moves; it writes as many of them as its outputs have, if they have fewer.
void set_bytes(Op& op, double bytes);

}  // namespace perfpred
