// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>

#include <nlopt.hpp>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace perfpred {

/// Where `search` finds the minimum of the objective, starting at x; the best point that it saw if it gives up early.
/// @param objective  double(const double* x, double* gradient), gradient a nullptr where it is not needed
/// @throws Error if the objective was finite nowhere
template <class Objective>
std::vector<double> minimum(nlopt::opt search, std::vector<double> x, Objective objective) {
  struct Seen {
    Objective& objective;
    double least;
    std::vector<double> at;
  } seen{objective, HUGE_VAL, {}};
  search.set_min_objective(
      [](const std::vector<double>& at, std::vector<double>& gradient, void* data) {
        auto& so_far = *static_cast<Seen*>(data);
        const double value = so_far.objective(at.data(), gradient.empty() ? nullptr : gradient.data());
        if (value < so_far.least) {
          so_far.least = value;
          so_far.at = at;
        }
        return value;
      },
      &seen);
  try {
    double value = 0;
    search.optimize(x, value);
    if (std::isfinite(value)) return x;
  } catch (const std::runtime_error&) {
    // As near as the arithmetic goes, or not even that.
  }
  if (!std::isfinite(seen.least)) throw Error("a search found no point where what it minimises is finite");
  return seen.at;
}

}  // namespace perfpred
