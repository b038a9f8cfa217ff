// SPDX-License-Identifier: Apache-2.0
#include "statistics/confidence.h"

#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

#include <algorithm>

namespace perfpred {
namespace {

using namespace boost::math;
using InDouble = policies::policy<policies::promote_double<false>>;
using Normal = normal_distribution<double, InDouble>;
using Student = students_t_distribution<double, InDouble>;

}  // namespace

double normal_quantile(double p) { return quantile(Normal(), p); }

double student_quantile(double z, double freedom) {
  return quantile(complement(Student(freedom), cdf(complement(Normal(), z))));
}

double student_factor(std::size_t observations) {
  return student_quantile(z90, static_cast<double>(std::max<std::size_t>(observations, 2) - 1)) / z90;
}

}  // namespace perfpred
