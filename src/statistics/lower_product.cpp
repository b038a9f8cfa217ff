// SPDX-License-Identifier: Apache-2.0
#include "statistics/lower_product.h"

#include "statistics/vectorized.h"

namespace perfpred {
namespace {

// Compiled for several sets of instructions. Without internal linkage GCC would export them.

// Four columns are added up per pass. Unlike dot products, that needs no reordering of sums to use wide registers.
PERFPRED_VECTORIZED void lower_product(const double* w, const double* k, double* out, Eigen::Index n) {
  for (Eigen::Index i = 0; i < n; ++i) out[i] = 0;
  Eigen::Index j = 0;
  for (; j + 4 <= n; j += 4) {
    const double *a = w + j * n, *b = a + n, *c = b + n, *d = c + n;
    const double ka = k[j], kb = k[j + 1], kc = k[j + 2], kd = k[j + 3];
    for (Eigen::Index i = j; i < n; ++i) out[i] += a[i] * ka + b[i] * kb + c[i] * kc + d[i] * kd;
  }
  for (; j < n; ++j) {
    for (Eigen::Index i = j; i < n; ++i) out[i] += w[j * n + i] * k[j];
  }
}

PERFPRED_VECTORIZED void lower_products(const double* w, const double* k, const double* l, double* out_k, double* out_l,
                                        Eigen::Index n) {
  for (Eigen::Index i = 0; i < n; ++i) out_k[i] = out_l[i] = 0;
  Eigen::Index j = 0;
  for (; j + 4 <= n; j += 4) {
    const double *a = w + j * n, *b = a + n, *c = b + n, *d = c + n;
    const double ka = k[j], kb = k[j + 1], kc = k[j + 2], kd = k[j + 3];
    const double la = l[j], lb = l[j + 1], lc = l[j + 2], ld = l[j + 3];
    for (Eigen::Index i = j; i < n; ++i) {
      out_k[i] += a[i] * ka + b[i] * kb + c[i] * kc + d[i] * kd;
      out_l[i] += a[i] * la + b[i] * lb + c[i] * lc + d[i] * ld;
    }
  }
  for (; j < n; ++j) {
    for (Eigen::Index i = j; i < n; ++i) {
      out_k[i] += w[j * n + i] * k[j];
      out_l[i] += w[j * n + i] * l[j];
    }
  }
}

double norm2(const double* x, Eigen::Index n) { return Eigen::Map<const Eigen::VectorXd>(x, n).squaredNorm(); }

}  // namespace

double lower_product_norm2(const double* w, const double* k, double* out, Eigen::Index n) {
  lower_product(w, k, out, n);
  return norm2(out, n);
}

void lower_product_norm2(const double* w, const double* k, const double* l, double* out_k, double* out_l,
                         Eigen::Index n, double* norms) {
  lower_products(w, k, l, out_k, out_l, n);
  norms[0] = norm2(out_k, n);
  norms[1] = norm2(out_l, n);
}

}  // namespace perfpred
