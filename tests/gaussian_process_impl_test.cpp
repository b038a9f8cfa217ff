// SPDX-License-Identifier: Apache-2.0
// A process of many rows, by the nearest of them, beside what all of them tell.
#include <Eigen/Dense>

#include <gtest/gtest.h>
#include <perfpred/error.h>

#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "made_up_rows.h"
#include "model/hybrid/hybrid.h"
#include "model/hybrid/residual_kernel.h"
#include "statistics/gaussian_process.h"

namespace perfpred {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

ResidualKernel usual_kernel() {
  ResidualKernel kernel;
  kernel.theta << Eigen::Matrix<double, 5, 1>::Constant(std::log(3)), std::log(0.05), std::log(0.008), 0.4;
  return kernel;
}

ResidualProcess process_of(const ResidualKernel& kernel, const Eigen::MatrixXd& places, const Eigen::VectorXd& noise,
                           const Eigen::VectorXd& residuals, std::size_t max_exact = exact_rows) {
  return {ResidualInputs(kernel, places), kernel.label_variance(noise), residuals, max_exact};
}

/// Rows on a grid of depths, widths and batch sizes, drawn from a process whose covariance is then a Kronecker product,
/// so that all of them are solved in closed form (Saatci, Scalable inference for structured Gaussian process models,
/// 2011).
struct Grid {
  static constexpr std::array<Eigen::Index, 3> sizes = {5, 10, 100};
  static constexpr Eigen::Index rows = 5000;
  const ResidualKernel kernel = usual_kernel();
  std::array<Eigen::MatrixXd, 3> levels;   // places that differ along one axis
  std::array<Eigen::MatrixXd, 3> vectors;  // of each axis's covariance, of amplitude 1
  Eigen::VectorXd values;                  // eigenvalues of the covariance of all rows, noise included
  Eigen::MatrixXd places{rows, ResidualKernel::inputs};
  Eigen::VectorXd residuals;
  Eigen::VectorXd alpha;  // covariance^-1 * residuals

  static Eigen::VectorXd outer(const std::array<Eigen::VectorXd, 3>& axes) {
    Eigen::VectorXd all(rows);
    for (Eigen::Index i = 0; i < rows; ++i) all[i] = axes[0][i / 1000] * axes[1][i / 100 % 10] * axes[2][i % 100];
    return all;
  }

  /// (a x b x c) v
  static Eigen::VectorXd product(const std::array<Eigen::MatrixXd, 3>& factors, Eigen::VectorXd v) {
    Eigen::Index right = rows;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const Eigen::Index size = sizes[axis], left = rows / right;
      right /= size;
      for (Eigen::Index l = 0; l < left; ++l) {
        Eigen::Map<RowMajor> part(v.data() + l * size * right, size, right);
        part = (factors[axis] * part).eval();
      }
    }
    return v;
  }

  [[nodiscard]] std::array<Eigen::MatrixXd, 3> transposed() const {
    return {vectors[0].transpose(), vectors[1].transpose(), vectors[2].transpose()};
  }

  Eigen::MatrixXd correlation(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b) const {
    return kernel.covariance(kernel.scaled(a), kernel.scaled(b)) / kernel.amplitude2();
  }

  Grid() {
    std::array<Eigen::VectorXd, 3> eigenvalues;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      levels[axis] = Eigen::MatrixXd::Zero(sizes[axis], ResidualKernel::inputs);
      for (Eigen::Index i = 0; i < sizes[axis]; ++i) {
        if (axis == 0) levels[axis](i, PlaceInput::depth) = static_cast<double>(1 + i);
        if (axis == 1) levels[axis](i, PlaceInput::log2_width) = 2 + 0.5 * static_cast<double>(i);
        if (axis == 2) {
          levels[axis](i, PlaceInput::log2_batch) = 4 + 0.06 * static_cast<double>(i);
          levels[axis](i, PlaceInput::odd_batch) = i % 17 == 0 ? 0 : 1;
        }
      }
      const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> axes(correlation(levels[axis], levels[axis]));
      vectors[axis] = axes.eigenvectors();
      eigenvalues[axis] = axes.eigenvalues().cwiseMax(0);
    }
    const Eigen::VectorXd process = kernel.amplitude2() * outer(eigenvalues);
    values = process.array() + kernel.noise2();
    for (Eigen::Index i = 0; i < rows; ++i)
      places.row(i) = levels[0].row(i / 1000) + levels[1].row(i / 100 % 10) + levels[2].row(i % 100);
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    const auto draw = [&] { return Eigen::VectorXd::NullaryExpr(rows, [&](Eigen::Index) { return normal(random); }); };
    const Eigen::VectorXd drawn = draw(), noise = draw();
    residuals = product(vectors, process.cwiseSqrt().cwiseProduct(drawn)) + std::sqrt(kernel.noise2()) * noise;
    alpha = product(vectors, product(transposed(), residuals).cwiseQuotient(values));
  }

  [[nodiscard]] ResidualProcess::At exact(const Place& place) const {
    std::array<Eigen::VectorXd, 3> along, turned;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      Eigen::MatrixXd at = levels[axis].row(0);
      if (axis == 0) at(0, PlaceInput::depth) = place[PlaceInput::depth];
      if (axis == 1) at(0, PlaceInput::log2_width) = place[PlaceInput::log2_width];
      if (axis == 2) at(0, PlaceInput::log2_batch) = place[PlaceInput::log2_batch];
      if (axis == 2) at(0, PlaceInput::odd_batch) = place[PlaceInput::odd_batch];
      along[axis] = correlation(levels[axis], at);
      turned[axis] = vectors[axis].transpose() * along[axis];
    }
    const Eigen::VectorXd shared = kernel.amplitude2() * outer(along);
    const Eigen::VectorXd explained = kernel.amplitude2() * outer(turned);
    return {alpha.dot(shared), kernel.amplitude2() - (explained.array().square() / values.array()).sum()};
  }
};

TEST(GaussianProcess, OfThousandsOfRowsTheNearestTellNearlyWhatAllDo) {
  const Grid grid;
  const ResidualProcess nearest =
      process_of(grid.kernel, grid.places, Eigen::VectorXd::Ones(Grid::rows), grid.residuals);
  std::mt19937_64 random(2);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  double squares = 0, widest = 0;
  for (int i = 0; i < 300; ++i) {
    const Place place = {between(0.5, 5.5), between(1.5, 7), between(3.5, 10.5), i % 5 == 0 ? 0.0 : 1.0, 0};
    const ResidualProcess::At expected = grid.exact(place), at = nearest.at(nearest.inputs().scaled(place));
    const double run = std::sqrt(expected.variance + grid.kernel.noise2());
    squares += std::pow((at.mean - expected.mean) / run, 2);
    widest = std::max(widest, std::sqrt(at.variance + grid.kernel.noise2()) / run);
    EXPECT_GE(at.variance, expected.variance * (1 - 1e-6)) << "fewer rows cannot tell more";
  }
  EXPECT_LT(std::sqrt(squares / 300), 0.2);  // standard deviations of a run
  EXPECT_LT(widest, 1.12);                   // an interval over the exact one
}

TEST(GaussianProcess, AsManyRowsAsAreNearestTellWhatAnExactSolutionSays) {
  const ResidualKernel kernel = usual_kernel();
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  const auto draw = [&](Eigen::Index rows, Eigen::Index columns) -> Eigen::MatrixXd {
    return Eigen::MatrixXd::NullaryExpr(rows, columns, [&](Eigen::Index, Eigen::Index) { return 2 * normal(random); });
  };
  constexpr Eigen::Index rows = NearestRows::max_rows, asked = 7;
  const Eigen::MatrixXd places = draw(rows, ResidualKernel::inputs);
  const ResidualInputs asked_inputs(kernel, draw(asked, ResidualKernel::inputs));
  std::vector<Place> at;
  for (Eigen::Index i = 0; i < asked; ++i) at.push_back(asked_inputs.of(i));
  const Eigen::VectorXd residuals = 0.05 * draw(rows, 1);
  const Eigen::VectorXd noise = (0.5 + draw(rows, 1).array().square()).matrix();
  const ResidualProcess exact = process_of(kernel, places, noise, residuals, rows),
                        nearest = process_of(kernel, places, noise, residuals, 0);
  const ResidualProcess::Joint expected = exact.joint(at), joint = nearest.joint(at);
  EXPECT_LT((joint.mean - expected.mean).cwiseAbs().maxCoeff(), 1e-9);
  EXPECT_LT((joint.covariance - expected.covariance).cwiseAbs().maxCoeff(), 1e-12);
  for (const ResidualProcess* process : {&exact, &nearest}) {
    const std::vector<ResidualProcess::At> many = process->at(at);
    ASSERT_EQ(many.size(), at.size());
    for (Eigen::Index i = 0; i < asked; ++i) {
      const ResidualProcess::At& one = many[static_cast<std::size_t>(i)];
      EXPECT_NEAR(one.mean, expected.mean[i], 1e-9);
      EXPECT_NEAR(one.variance, expected.covariance(i, i), 1e-12);
    }
  }
}

/// The definition: the row that a process of the others, solved anew, predicts worst is an outlier, and goes.
std::vector<std::size_t> outliers_one_by_one(const ResidualKernel& kernel, const Eigen::MatrixXd& places,
                                             const Eigen::VectorXd& noise, const Eigen::VectorXd& residuals,
                                             std::size_t most) {
  std::vector<Eigen::Index> left(static_cast<std::size_t>(places.rows()));
  std::iota(left.begin(), left.end(), Eigen::Index{0});
  std::vector<std::size_t> gone;
  while (gone.size() < most) {
    double worst = 0;
    std::size_t which = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      std::vector<Eigen::Index> others = left;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const Eigen::MatrixXd known = kernel.scaled(places(others, Eigen::all)), own = kernel.scaled(places.row(left[i]));
      const Eigen::MatrixXd covariance = kernel.with_noise(kernel.covariance(known, known), noise(others));
      const Eigen::VectorXd shared = kernel.covariance(known, own), weights = covariance.ldlt().solve(shared);
      const double variance =
          kernel.amplitude2() - weights.dot(shared) + kernel.label_variance(noise.segment(left[i], 1))[0];
      const double away = std::abs(residuals[left[i]] - weights.dot(residuals(others))) / std::sqrt(variance);
      if (away > worst) {
        worst = away;
        which = i;
      }
    }
    if (worst <= outlier_deviations) break;
    gone.push_back(static_cast<std::size_t>(left[which]));
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(which));
  }
  return gone;
}

TEST(GaussianProcess, OutliersAreThoseThatAProcessOfTheOthersDoesNotPredict) {
  const ResidualKernel kernel = usual_kernel();
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  const auto draw = [&](Eigen::Index rows, Eigen::Index columns) -> Eigen::MatrixXd {
    return Eigen::MatrixXd::NullaryExpr(rows, columns, [&](Eigen::Index, Eigen::Index) { return 2 * normal(random); });
  };
  std::size_t found = 0;
  for (int draws = 0; draws < 60; ++draws) {
    const Eigen::Index rows = 5 + draws % 26;
    const Eigen::MatrixXd places = draw(rows, ResidualKernel::inputs);
    const Eigen::VectorXd noise = (0.5 + draw(rows, 1).array().square()).matrix();
    Eigen::VectorXd residuals = 0.02 * draw(rows, 1);
    for (int bad = 0; bad < draws % 4; ++bad) residuals[(7 * bad + draws) % rows] += 0.6;
    const std::vector<std::size_t> expected = outliers_one_by_one(kernel, places, noise, residuals, 4);
    found += expected.size();
    for (const std::size_t max_exact : {exact_rows, std::size_t{0}}) {
      std::vector<std::size_t> outliers;
      for (const Outlier& one : process_of(kernel, places, noise, residuals, max_exact).outliers(4, [] {}))
        outliers.push_back(one.row);
      EXPECT_EQ(outliers, expected) << draws;
    }
  }
  EXPECT_GT(found, 50U);
}

TEST(GaussianProcess, ACovarianceThatCannotBeFactoredIsRefused) {
  ResidualKernel kernel = usual_kernel();
  kernel.theta[ResidualKernel::inputs] = 20;       // the amplitude
  kernel.theta[ResidualKernel::inputs + 1] = -12;  // the noise
  const Eigen::MatrixXd places = Eigen::MatrixXd::Zero(3, ResidualKernel::inputs);
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(3);
  for (const std::size_t max_exact : {exact_rows, std::size_t{0}})
    EXPECT_THROW((void)process_of(kernel, places, ones, ones, max_exact), ModelError);
}

TEST(GaussianProcess, AModelOfManyRowsAnswersLearnsAndIsReadBack) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  std::vector<AggregateRow> rows;
  for (int i = 0; i < 480; ++i) {
    AggregateRow& row = rows.emplace_back();
    row.workload = Workload::cifar_cnn(2 + i % 3, 16 << (i / 3 % 3), 32 + 11 * (i / 9));
    row.n = 1;
    row.avg_time_mean = made_up_time(row.workload, 0.005 * normal(random));
  }
  HybridConstants constants;
  constants.search_rows = 60;
  const std::unique_ptr<RegressorModel> model = fit_hybrid({rows, {}}, constants);
  std::vector<Workload> workloads;
  for (const AggregateRow& row : rows) workloads.push_back(row.workload);
  const FileRows file(workloads);
  const std::unique_ptr<RegressorModel> read = hybrid_kind.load(model->to_json(file), file, DeviceKind::gpu);
  std::vector<Workload> asked;
  for (const int batch : {100, 333, 512}) asked.push_back(Workload::cifar_cnn(3, 32, batch));
  std::vector<Estimate> answers(asked.size());
  model->estimate(asked, answers);
  const JointNormal joint = model->joint(asked);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_NEAR(answers[i].sec() / made_up_time(asked[i], 0), 1, 0.01);
    EXPECT_TRUE(same(model->estimate(asked[i]).quantiles(), answers[i].quantiles()));
    EXPECT_TRUE(same(read->estimate(asked[i]).quantiles(), answers[i].quantiles()));
    EXPECT_NEAR(joint.mean[static_cast<Eigen::Index>(i)], answers[i].log_sec, 1e-9);
  }
  AggregateRow seen = rows.front();
  seen.workload = asked[1];
  seen.avg_time_mean = 1.02 * answers[1].sec();
  const LearnResult learnt = model->learn(std::span(&seen, 1), std::vector<double>{0});
  ASSERT_EQ(learnt.rejected[0], std::nullopt);
  EXPECT_GT(learnt.model->estimate(asked[1]).log_sec, answers[1].log_sec);
}

}  // namespace
}  // namespace perfpred
