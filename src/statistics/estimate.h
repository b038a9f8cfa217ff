// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>
#include <perfpred/prediction.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "statistics/confidence.h"

namespace perfpred {

/// Quantiles of seconds, from the median of their logarithm and the half width of its 90 % interval. Both are clamped
/// so that the quantiles are finite and positive. @throws ModelError if one is not a number, as of a damaged model
inline Quantiles quantiles_about(double log_median, double half_width) {
  constexpr double farthest = 350;  // e^700 is a double
  if (std::isnan(log_median + half_width)) throw ModelError("the model is damaged: it gives no time for this workload");
  const double median = std::exp(std::clamp(log_median, -farthest, farthest));
  const double width = std::exp(std::min(half_width, farthest));
  return {median / width, median, median * width};
}

/// Whether a value lies in the 90 % interval.
inline bool covers(const Quantiles& q, double value) { return q.p05 <= value && value <= q.p95; }

/// Half width of the 90 % interval of the logarithm.
inline double half_width(const Quantiles& q) { return std::log(q.p95 / q.p05) / 2; }

/// Standard deviation of the logarithm of a log-normal quantity with these quantiles.
inline double log_deviation(const Quantiles& q) { return half_width(q) / z90; }

/// Half width of the interval of log time where no measurement bounds how much slower a workload is.
inline const double foreign_half_width = std::log(3.0);

/// Half widths of the 90 % interval of a time's logarithm, each of one cause. The causes are independent.
struct Widths {
  double model = 0;       ///< rates of the device, and what is particular about the network
  double host = 0;        ///< how fast it dispatches
  double links = 0;       ///< of several devices
  double unmeasured = 0;  ///< what no measurement bounds
  double unstated = 0;    ///< fields of the workload that nobody stated

  [[nodiscard]] double total() const {
    return std::sqrt(model * model + host * host + links * links + unmeasured * unmeasured + unstated * unstated);
  }

  /// Makes them so wide in total, each by the same factor.
  void scale_to(double wanted) {
    const double known = total();
    if (known == 0) {
      model = wanted;
      return;
    }
    for (double Widths::*cause :
         {&Widths::model, &Widths::host, &Widths::links, &Widths::unmeasured, &Widths::unstated})
      this->*cause *= wanted / known;
  }

  /// Takes more for what no measurement bounds, where they are less than this in total.
  void widen_to(double least) {
    const double known = total();
    if (known < least) unmeasured = std::hypot(unmeasured, std::sqrt(least * least - known * known));
  }
};

/// A time that a model expects, of a step or of an epoch: what every model gives, and corrects.
struct Estimate {
  double log_sec = 0;  ///< logarithm of the median
  Widths widths;
  Provenance rests_on = Provenance::runs;
  bool in_layout = true;             ///< whether what was measured on the device, if anything, had the memory layout
  std::vector<TimeTerm> parts = {};  ///< by cause; they add up to the median, or there are none

  [[nodiscard]] double sec() const { return std::exp(log_sec); }           ///< the median
  [[nodiscard]] double deviation() const { return widths.total() / z90; }  ///< standard deviation of the logarithm
  [[nodiscard]] Quantiles quantiles() const { return quantiles_about(log_sec, widths.total()); }

  /// Adds to the logarithm.
  void scale(double log_factor) {
    log_sec += log_factor;
    const double factor = std::exp(log_factor);
    for (TimeTerm& part : parts) part.sec *= factor;
  }
};

}  // namespace perfpred
