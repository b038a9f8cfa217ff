// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_rule_registry.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "step/op_rules.h"

namespace perfpred {
namespace {

std::shared_mutex rules_mutex;
std::atomic<std::uint64_t> changes = 0;
struct RegisteredRule {
  std::shared_ptr<const OpRule> rule;
  std::atomic<bool> used = false;
};
std::map<std::string, RegisteredRule>& rules() {
  static std::map<std::string, RegisteredRule> all;
  return all;
}

OpCount checked(const std::string& name, std::string_view what, OpCount count) {
  return [name, what, count = std::move(count)](std::span<const Shape> inputs, std::span<const Shape> outputs) {
    const double counted = count(inputs, outputs);
    if (counted >= 0 && counted <= max_counted) return counted;
    throw InputError(fmt::format("operator \"{}\": {} {} are not between 0 and {}", name, counted, what, max_counted));
  };
}

}  // namespace

void register_op(const std::string& name, OpCount flops, OpCount bytes, bool product) {
  check_op_name(name);
  if (!flops) throw InputError(fmt::format("operator \"{}\" has no count of FLOPs", name));
  auto rule = std::make_shared<const OpRule>(OpRule{
      checked(name, "FLOPs", std::move(flops)), bytes ? checked(name, "bytes", std::move(bytes)) : nullptr, product});
  const std::unique_lock lock(rules_mutex);
  rules()[name].rule = std::move(rule);
  ++changes;
}

std::uint64_t rule_changes() { return changes; }

std::shared_ptr<const OpRule> registered_rule(const std::string& name) {
  const std::shared_lock lock(rules_mutex);
  const auto found = rules().find(name);
  if (found == rules().end()) return known_rule(name);
  found->second.used = true;
  return found->second.rule;
}

std::string unused_rules() {
  const std::shared_lock lock(rules_mutex);
  std::vector<std::string> names;
  for (const auto& [name, registered] : rules()) {
    if (!registered.used) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace perfpred
