// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

namespace perfpred {

/// |W k|^2 for a lower triangular n x n matrix W, stored by columns. Compiled for the widest registers of the machine.
/// @param out  n values, overwritten
[[nodiscard]] double lower_product_norm2(const double* w, const double* k, double* out, Eigen::Index n);

/// The same for two vectors k and l: one pass over W serves both.
/// @param norms  |W k|^2 and |W l|^2
void lower_product_norm2(const double* w, const double* k, const double* l, double* out_k, double* out_l,
                         Eigen::Index n, double* norms);

}  // namespace perfpred
