// SPDX-License-Identifier: Apache-2.0
#include "statistics/nearest_rows.h"

#include <perfpred/error.h>

#include <Eigen/Cholesky>

#include <functional>

namespace perfpred {

void NearestRows::add(double covariance, Eigen::Index row) {
  const auto least_first = std::greater<std::pair<double, Eigen::Index>>();
  const auto begin = heap_.begin() + kept_;
  if (size_ == limit_) {
    std::pop_heap(begin, heap_.begin() + size_, least_first);
  } else {
    ++size_;
  }
  heap_[static_cast<std::size_t>(size_ - 1)] = {covariance, row};
  std::push_heap(begin, heap_.begin() + size_, least_first);
}

bool NearestRows::contains(Eigen::Index row) const {
  return std::any_of(heap_.begin(), heap_.begin() + size_, [&](const auto& one) { return one.second == row; });
}

NearVector kriging_weights(NearMatrix& covariance, const NearVector& shared) {
  const Eigen::LLT<Eigen::Ref<NearMatrix>> factor(covariance);
  if (factor.info() != Eigen::Success) throw ModelError("the covariance of the rows is not positive definite");
  return factor.solve(shared);
}

}  // namespace perfpred
