// SPDX-License-Identifier: Apache-2.0
#include "statistics/moments.h"

#include <algorithm>
#include <cmath>

namespace perfpred {

void Moments::add(double x) {
  if (n == 0) min = max = first_ = x;
  min = std::min(min, x);
  max = std::max(max, x);
  ++n;
  const double value = x - first_, off = value - mean_;
  mean_ += off / static_cast<double>(n);
  squares_ += off * (value - mean_);
}

void Moments::merge(const Moments& other) {
  if (other.n == 0) return;
  if (n == 0) {
    *this = other;
    return;
  }
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  const double off = (other.first_ - first_) + (other.mean_ - mean_), before = static_cast<double>(n);
  n += other.n;
  const double share = static_cast<double>(other.n) / static_cast<double>(n);
  mean_ += off * share;
  squares_ += other.squares_ + off * off * before * share;
}

double Moments::mean() const { return std::clamp(first_ + mean_, min, max); }

double Moments::deviation() const { return n < 2 ? 0 : std::sqrt(squares_ / static_cast<double>(n - 1)); }

}  // namespace perfpred
