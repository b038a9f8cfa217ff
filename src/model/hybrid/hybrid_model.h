// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/hybrid/cost_model.h"
#include "model/hybrid/hybrid_calibration.h"
#include "model/hybrid/residual_kernel.h"
#include "model/regressor_kind.h"

namespace perfpred {

/// A measured row as the model keeps it.
struct HybridRow {
  std::string key;
  Place place{};
  double log_time = 0;
  double noise = 1;  ///< variance of log_time in units of a single run's
  double log_physics = 0;
};

/// The cost model's estimate of a workload.
struct PhysicsView {
  double log_time = 0;
  double unseen = 0;  ///< variance of log time due to costs that no row has shown
};

/// The fitted costs.
struct FittedPhysics {
  Costs costs;
  Unseen unseen{};

  [[nodiscard]] PhysicsView view(const StepShape& shape) const;
};

/// A label is wide if it is known this many times less precisely than usual. Smaller ratios mean nothing: the scatter
/// of two or three epochs is itself uncertain by a factor of two.
inline constexpr double wide_label = 3;

/// A measured row without the cost model's estimate. Its noise is 1 / n, or more if the scatter of its epochs, or of
/// its flagged runs, makes its label wide.
/// @param usual_noise  relative standard deviation of a usual label of one run
[[nodiscard]] HybridRow hybrid_row(const AggregateRow& measured, const StepShape& shape, double usual_noise);

[[nodiscard]] Eigen::MatrixXd places_of(std::span<const HybridRow> rows);
[[nodiscard]] Eigen::VectorXd noise_of(std::span<const HybridRow> rows);
/// log_time - log_physics.
[[nodiscard]] Eigen::VectorXd residuals_of(std::span<const HybridRow> rows);
[[nodiscard]] ResidualProcess process_of(const ResidualKernel& kernel, std::span<const HybridRow> rows,
                                         std::size_t max_exact = exact_rows);

/// A cost model, and a Gaussian process of what it leaves over.
class HybridModel final : public RegressorModel {
 public:
  std::vector<HybridRow> rows;  ///< fitted on or observed
  FittedPhysics physics;
  ResidualKernel kernel;
  Calibration calibration;
  DeviceKind device = DeviceKind::gpu;  ///< that the rows ran on
  double usual_noise = 0;               ///< see hybrid_row()
  std::size_t max_rows = 0;             ///< see HybridConstants
  std::vector<RejectedRun> rejected;

  /// Computes the private members from the public ones. @throws ModelError as GaussianProcess
  void prepare();

  using RegressorModel::estimate;
  [[nodiscard]] Estimate estimate(const Workload& workload) const override;
  void estimate(std::span<const Workload> workloads, std::span<Estimate> out) const override;
  [[nodiscard]] JointNormal joint(std::span<const Workload> workloads) const override;
  [[nodiscard]] std::vector<TimeTerm> breakdown(const Workload& workload) const override;
  [[nodiscard]] LearnResult learn(std::span<const AggregateRow> measured,
                                  std::span<const double> stated) const override;
  [[nodiscard]] std::vector<RejectedRun> dropped() const override { return rejected; }
  [[nodiscard]] nlohmann::json to_json(const FileRows& file) const override;

 private:
  /// What the process and the cost model say of a workload: the median in log seconds, and variances about it.
  struct Evidence {
    double mean = 0;
    double process = 0;
    double unseen = 0;
    bool new_depth = false;  ///< no row has a depth near it
    bool new_width = false;
  };
  /// Workloads as the process and the cost model see them.
  struct Asked {
    std::vector<Place> places;
    std::vector<Place> scaled;  ///< over the kernel's length scales
    std::vector<PhysicsView> physics;
  };

  std::vector<double> depths_, widths_;  // that rows have, each once
  ResidualProcess process_;

  /// Why a measured row is an outlier; nothing if it is not. @param stated  see learn()
  [[nodiscard]] std::optional<std::string> outlier(const HybridRow& row, const Evidence& expected, double stated) const;
  std::vector<std::string> forget_redundant_rows();

  [[nodiscard]] Asked ask(std::span<const Workload> workloads) const;
  [[nodiscard]] Evidence evidence(const StepShape& shape, std::int64_t batch_size) const;
  [[nodiscard]] Evidence combine(const PhysicsView& view, const ResidualProcess::At& residual,
                                 const Place& place) const;
  [[nodiscard]] double latent(const Evidence& evidence) const;
  [[nodiscard]] double share(const Evidence& evidence) const;
  [[nodiscard]] double quantile(const Evidence& evidence) const;
  [[nodiscard]] double half_width(const Evidence& evidence) const;
  [[nodiscard]] Estimate calibrated(const Evidence& evidence) const;
};

}  // namespace perfpred
