// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_rule_registry.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "step/known_op_rules.h"
#include "step/op_rules.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {
namespace {

using Shapes = std::span<const Shape>;

constexpr int deepest = 100;   // parentheses in each other
constexpr int max_digits = 4;  // of the number of an operand or an axis

/// `rules.txt:3: `, and the operator.
struct Place {
  std::string line, op;

  [[noreturn]] void refuse(const std::string& what) const { throw InputError(line + what); }
};

/// Reads the rule in a line: NAME [product] flops = EXPRESSION [bytes = EXPRESSION], by recursive descent.
class RuleLine {
 public:
  RuleLine(std::string_view text, Place place) : rest_(text), place_(std::move(place)) {
    skip_blanks();
    place_.op = rest_.substr(0, rest_.find_first_of(" \t"));
    rest_.remove_prefix(place_.op.size());
    check_op_name(place_.op, place_.line);
  }

  [[nodiscard]] const std::string& name() const { return place_.op; }

  [[nodiscard]] OpRule rule() {
    OpRule rule;
    rule.product = take("product");
    if (!take("flops")) expected("flops = ...");
    rule.flops = count();
    if (take("bytes")) rule.bytes = count();
    if (!rest_.empty()) expected("an operator of arithmetic or bytes = ...");
    return rule;
  }

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size())); }

  bool take(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    skip_blanks();
    return true;
  }

  [[noreturn]] void expected(const std::string& what) const {
    place_.refuse(
        fmt::format("{} is expected {}", what, rest_.empty() ? "at the end" : fmt::format("at \"{}\"", shown(rest_))));
  }

  /// `= EXPRESSION`, whose value is checked where it is asked for.
  OpCount count() {
    if (!take("=")) expected("=");
    return [value = sum(0), place = place_](Shapes in, Shapes out) {
      const double counted = value(in, out);
      if (!(counted >= 0 && counted <= max_counted))
        place.refuse(fmt::format("{} would count {}", place.op, number_text(counted)));
      return counted;
    };
  }

  // However many terms and factors there are, they lie beside each other and not in each other.
  OpCount sum(int depth) {
    std::vector<std::pair<double, OpCount>> terms = {{1.0, product(depth)}};
    while (true) {
      const bool plus = take("+");
      if (!plus && !take("-")) break;
      terms.emplace_back(plus ? 1.0 : -1.0, product(depth));
    }
    if (terms.size() == 1) return std::move(terms.front().second);
    return [terms = std::move(terms)](Shapes in, Shapes out) {
      double total = 0;
      for (const auto& [sign, term] : terms) total += sign * term(in, out);
      return total;
    };
  }

  OpCount product(int depth) {
    std::vector<std::pair<bool, OpCount>> factors = {{false, factor(depth)}};  // and whether it divides
    while (true) {
      const bool divides = take("/");
      if (!divides && !take("*")) break;
      factors.emplace_back(divides, factor(depth));
    }
    if (factors.size() == 1) return std::move(factors.front().second);
    return [factors = std::move(factors)](Shapes in, Shapes out) {
      double total = 1;
      for (const auto& [divides, one] : factors) total = divides ? total / one(in, out) : total * one(in, out);
      return total;
    };
  }

  OpCount factor(int depth) {
    if (depth > deepest) expected("a shallower expression");
    if (take("(")) {
      OpCount inner = sum(depth + 1);
      if (!take(")")) expected(")");
      return inner;
    }
    if (take("in")) return operand(true);
    if (take("out")) return operand(false);
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || !std::isfinite(value) || rest_.starts_with("-")) {
      expected("a number, in0, out0 or (");
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    skip_blanks();
    return [value](Shapes, Shapes) { return value; };
  }

  /// `0`, the elements of an operand, or `0[-1]`, one of its sizes.
  OpCount operand(bool input) {
    const std::size_t index = small_number();
    if (!rest_.starts_with("[")) {
      return [index, input, place = place_](Shapes in, Shapes out) {
        return static_cast<double>(chosen(place, input ? in : out, input, index).numel());
      };
    }
    rest_.remove_prefix(1);
    const bool from_end = take("-");
    const std::size_t axis = small_number();
    if (!take("]")) expected("]");
    if (from_end && axis == 0) expected("an axis, as [0] or [-1],");
    return [=, place = place_](Shapes in, Shapes out) {
      const Shape& shape = chosen(place, input ? in : out, input, index);
      if (from_end ? axis > shape.rank() : axis >= shape.rank()) {
        place.refuse(fmt::format("{}{} of {} has no axis {}{}: it has {}", input ? "in" : "out", index, place.op,
                                 from_end ? "-" : "", axis, shape.rank()));
      }
      return static_cast<double>(shape[from_end ? shape.rank() - axis : axis]);
    };
  }

  static const Shape& chosen(const Place& place, Shapes shapes, bool input, std::size_t index) {
    if (index >= shapes.size()) {
      place.refuse(fmt::format("{} has no {}{}, but {} {}", place.op, input ? "in" : "out", index, shapes.size(),
                               input ? "inputs" : "outputs"));
    }
    return shapes[index];
  }

  std::size_t small_number() {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || end - rest_.data() > max_digits) expected("a small number");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::string_view rest_;
  Place place_;
};

/// The rules of a text, and their lines.
std::map<std::string, std::pair<OpRule, std::size_t>> read_rules(std::string_view text, const std::string& path) {
  std::map<std::string, std::pair<OpRule, std::size_t>> rules;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    const Place place = {fmt::format("{}:{}: ", path, number), {}};
    RuleLine reader(line, place);
    const auto [known, is_new] = rules.try_emplace(reader.name());
    if (!is_new) place.refuse(fmt::format("{} has a rule in line {}", reader.name(), known->second.second));
    known->second = {reader.rule(), number};
  }
  return rules;
}

}  // namespace

void check_op_name(const std::string& name, const std::string& place) {
  const std::size_t colons = name.find("::");
  if (colons != 0 && colons != std::string::npos && colons + 2 != name.size()) return;
  throw InputError(fmt::format("{}\"{}\" is not an operator's name like mylib::attention", place, shown(name)));
}

std::shared_ptr<const OpRule> known_rule(const std::string& name) {
  static const std::map<std::string, std::shared_ptr<const OpRule>> known = [] {
    std::map<std::string, std::shared_ptr<const OpRule>> all;
    for (auto& [op, rule] : read_rules(known_op_rules, "op_rules.txt")) {
      all.emplace(op, std::make_shared<const OpRule>(std::move(rule.first)));
    }
    return all;
  }();
  const auto found = known.find(name);
  return found != known.end() ? found->second : nullptr;
}

void register_ops(const std::string& path) {
  for (auto& [name, rule] : read_rules(read_file(path), path)) {
    register_op(name, std::move(rule.first.flops), std::move(rule.first.bytes), rule.first.product);
  }
}

}  // namespace perfpred
