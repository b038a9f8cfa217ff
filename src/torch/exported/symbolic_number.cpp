// SPDX-License-Identifier: Apache-2.0
#include "torch/exported/symbolic_number.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <unordered_map>

namespace perfpred {
namespace {

using c10::IValue;
using Arguments = std::span<const IValue>;

const IValue& operand(Arguments arguments, std::size_t i) {
  if (i >= arguments.size() || !arguments[i].isScalar())
    throw InputError("a number that follows from shapes is missing");
  return arguments[i];
}

bool is_real(const IValue& value) { return value.isDouble(); }
double real(const IValue& value) { return value.toScalar().to<double>(); }
std::int64_t whole(const IValue& value) { return value.toScalar().to<std::int64_t>(); }

std::int64_t divisor(const IValue& value) {
  const std::int64_t by = whole(value);
  if (by == 0) throw InputError("a size is divided by zero");
  return by;
}

std::int64_t floor_of_quotient(std::int64_t a, std::int64_t b) {
  if (b == -1) return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  return a / b - static_cast<std::int64_t>(a % b != 0 && (a % b < 0) != (b < 0));
}

/// Arithmetic of integers wraps instead of being undefined: the sizes that follow are then refused.
struct Add {
  double operator()(double a, double b) const { return a + b; }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};
struct Subtract {
  double operator()(double a, double b) const { return a - b; }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a - b; }
};
struct Multiply {
  double operator()(double a, double b) const { return a * b; }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a * b; }
};

template <class Operation>
IValue arithmetic(Arguments arguments) {
  const IValue& a = operand(arguments, 0);
  const IValue& b = operand(arguments, 1);
  if (is_real(a) || is_real(b)) return Operation{}(real(a), real(b));
  return static_cast<std::int64_t>(
      Operation{}(static_cast<std::uint64_t>(whole(a)), static_cast<std::uint64_t>(whole(b))));
}

template <class Compare>
IValue comparison(Arguments arguments) {
  const IValue& a = operand(arguments, 0);
  const IValue& b = operand(arguments, 1);
  if (is_real(a) || is_real(b)) return Compare{}(real(a), real(b));
  return Compare{}(whole(a), whole(b));
}

template <class Function>
IValue of_real(Arguments arguments, Function function) {
  return function(real(operand(arguments, 0)));
}

IValue power(Arguments arguments) {
  const IValue& a = operand(arguments, 0);
  const IValue& b = operand(arguments, 1);
  if (is_real(a) || is_real(b) || whole(b) < 0) return std::pow(real(a), real(b));
  std::uint64_t result = 1;
  std::uint64_t square = static_cast<std::uint64_t>(whole(a));
  for (auto bits = static_cast<std::uint64_t>(whole(b)); bits != 0; bits >>= 1U, square *= square) {
    if ((bits & 1U) != 0) result *= square;
  }
  return static_cast<std::int64_t>(result);
}

IValue floor_division(Arguments arguments) {
  const IValue& a = operand(arguments, 0);
  const IValue& b = operand(arguments, 1);
  if (is_real(a) || is_real(b)) return std::floor(real(a) / real(b));
  return floor_of_quotient(whole(a), divisor(b));
}

IValue remainder(Arguments arguments) {
  const IValue& a = operand(arguments, 0);
  const IValue& b = operand(arguments, 1);
  if (is_real(a) || is_real(b)) return real(a) - real(b) * std::floor(real(a) / real(b));
  const std::int64_t by = divisor(b);
  const auto multiple = static_cast<std::uint64_t>(floor_of_quotient(whole(a), by)) * static_cast<std::uint64_t>(by);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(whole(a)) - multiple);
}

IValue truncated(Arguments arguments) {
  const IValue& a = operand(arguments, 0);
  if (!is_real(a)) return whole(a);
  const double value = std::trunc(real(a));
  if (!(std::abs(value) < 0x1p63)) throw InputError("a size is not finite");
  return static_cast<std::int64_t>(value);
}

IValue chosen(Arguments arguments, bool second) { return operand(arguments, second ? 1 : 0); }

}  // namespace

SymbolicOperator symbolic_operator(std::string_view target) {
  static const std::unordered_map<std::string_view, SymbolicOperator> operators = {
      {"_operator.add", &arithmetic<Add>},
      {"_operator.sub", &arithmetic<Subtract>},
      {"_operator.mul", &arithmetic<Multiply>},
      {"_operator.pow", &power},
      {"_operator.floordiv", &floor_division},
      {"_operator.mod", &remainder},
      {"_operator.truediv", [](Arguments a) { return IValue(real(operand(a, 0)) / real(operand(a, 1))); }},
      {"_operator.neg",
       [](Arguments a) {
         const IValue& x = operand(a, 0);
         return is_real(x) ? IValue(-real(x)) : IValue(floor_of_quotient(whole(x), -1));
       }},
      {"_operator.pos", [](Arguments a) { return operand(a, 0); }},
      {"_operator.eq", &comparison<std::equal_to<>>},
      {"_operator.ne", &comparison<std::not_equal_to<>>},
      {"_operator.lt", &comparison<std::less<>>},
      {"_operator.le", &comparison<std::less_equal<>>},
      {"_operator.gt", &comparison<std::greater<>>},
      {"_operator.ge", &comparison<std::greater_equal<>>},
      {"_operator.and_",
       [](Arguments a) {
         const bool logical = operand(a, 0).isBool();
         return logical ? IValue(whole(a[0]) != 0 && whole(operand(a, 1)) != 0)
                        : IValue(whole(a[0]) & whole(operand(a, 1)));
       }},
      {"_operator.or_",
       [](Arguments a) {
         const bool logical = operand(a, 0).isBool();
         return logical ? IValue(whole(a[0]) != 0 || whole(operand(a, 1)) != 0)
                        : IValue(whole(a[0]) | whole(operand(a, 1)));
       }},
      {"math.trunc", &truncated},
      {"torch.sym_int", &truncated},
      {"torch.sym_float", [](Arguments a) { return IValue(real(operand(a, 0))); }},
      {"torch.sym_not", [](Arguments a) { return IValue(whole(operand(a, 0)) == 0); }},
      {"torch.sym_max", [](Arguments a) { return chosen(a, real(operand(a, 1)) > real(operand(a, 0))); }},
      {"torch.sym_min", [](Arguments a) { return chosen(a, real(operand(a, 1)) < real(operand(a, 0))); }},
      {"torch.sym_ite", [](Arguments a) { return operand(a, whole(operand(a, 0)) != 0 ? 1 : 2); }},
      {"torch._sym_sqrt", [](Arguments a) { return of_real(a, [](double x) { return std::sqrt(x); }); }},
      {"torch.sym_sqrt", [](Arguments a) { return of_real(a, [](double x) { return std::sqrt(x); }); }},
  };
  const auto found = operators.find(target);
  return found == operators.end() ? nullptr : found->second;
}

}  // namespace perfpred
