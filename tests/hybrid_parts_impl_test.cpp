// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <Eigen/Dense>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "made_up_rows.h"
#include "model/hybrid/cost_model.h"
#include "model/hybrid/hybrid_calibration.h"
#include "model/hybrid/residual_kernel.h"
#include "model/hybrid/step_shape.h"

namespace perfpred {
namespace {

TEST(StepShape, ClosedFormEqualsTheOpGraph) {
  for (int depth = 1; depth <= 5; ++depth) {
    for (const int base : {1, 16, 100}) {
      const Workload workload = Workload::cifar_cnn(depth, base, 64);
      const StepShape shape(workload, DeviceKind::gpu);
      const OpGraph graph = workload.graph();
      double params = 0;
      for (const StepLayer& layer : shape.layers()) params += layer.params;
      EXPECT_EQ(params, static_cast<double>(workload.params()));
      double flops = 0;
      for (const StepLayer& layer : shape.layers()) flops += layer.flops;
      EXPECT_NEAR(flops * 64 / graph.totals().conv_matmul_flops, 1, 1e-12) << depth << " " << base;
      double forward_others = 0;
      for (const Op& op : graph.ops()) {
        if (op.phase == Phase::forward && !is_conv_or_matmul(op.kind)) forward_others += 1;
      }
      EXPECT_EQ(shape.other_ops, forward_others);
    }
  }
}

TEST(StepShape, MixedPrecisionHasTheSameLayers) {
  for (const char* network : {"resnet18", "densenet121", "vit_b_16", "gpt2"}) {
    Workload workload = Workload::zoo(network, 8);
    const StepShape single(workload, DeviceKind::gpu);
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      workload.precision = precision;
      const StepShape mixed(workload, DeviceKind::gpu);
      ASSERT_EQ(mixed.layers().size(), single.layers().size()) << network;
      for (std::size_t i = 0; i < single.layers().size(); ++i) {
        const StepLayer &one = mixed.layers()[i], &other = single.layers()[i];
        EXPECT_EQ(one.params, other.params) << network << " layer " << i;
        EXPECT_EQ(one.flops, other.flops) << network << " layer " << i;
        EXPECT_EQ(one.elements, other.elements) << network << " layer " << i;
        EXPECT_EQ(one.channels, other.channels) << network << " layer " << i;
        EXPECT_EQ(one.positions, other.positions) << network << " layer " << i;
      }
    }
  }
}

TEST(StepShape, ConvolutionsWorkOnWholeVectorBlocks) {
  const auto expect = [&](DeviceKind device, double filled) {
    const StepShape shape(Workload::cifar_cnn(1, 20, 64), device);
    EXPECT_EQ(shape.layers()[0].padded_flops, 2 * 2 * 9 * 3 * filled * 1024);  // the network's own input stays as it is
    EXPECT_EQ(shape.layers()[1].padded_flops, 3 * 2 * 9 * filled * filled * 1024);
    EXPECT_EQ(shape.layers()[1].elements, 2 * filled * 1024);
    EXPECT_EQ(shape.layers()[1].flops, 3 * 2 * 9 * 20 * 20 * 1024);
    EXPECT_EQ(shape.layers()[2].padded_flops, shape.layers()[2].flops);  // dense
  };
  expect(DeviceKind::gpu, 24);
  expect(DeviceKind::cpu, 32);
  const StepShape zoo_shape(Workload::zoo("mobilenet_v2", 32), DeviceKind::cpu);
  for (const StepLayer& layer : zoo_shape.layers()) {
    EXPECT_GE(layer.padded_flops, layer.flops);
    EXPECT_LE(layer.padded_flops,
              2 * layer.flops);  // depthwise convolutions are not filled up; the narrowest other has 16 channels
  }
}

TEST(Physics, GradientIsTheDerivative) {
  const StepShape shape(Workload::cifar_cnn(3, 32, 128), DeviceKind::gpu);
  Costs costs;
  costs << 5e-6, 1e-3, 1e-4, 1e-14, 4e-12, 5e-11, 6e-11, 7e-11;
  Costs gradient;
  epoch_time(costs, shape, &gradient);
  for (int i = 0; i < cost_count; ++i) {
    Costs up = costs, down = costs;
    up[i] *= std::exp(1e-6);
    down[i] *= std::exp(-1e-6);
    const double slope = (epoch_time(up, shape).total() - epoch_time(down, shape).total()) / 2e-6;
    EXPECT_NEAR(gradient[i], slope, 1e-6 * epoch_time(costs, shape).total()) << i;
  }
}

TEST(Physics, RecoversTheMachineThatMadeTheTimes) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  std::vector<StepShape> shapes;
  for (const AggregateRow& row : rows) shapes.emplace_back(row.workload, DeviceKind::gpu);
  std::vector<PhysicsRow> physics;
  for (std::size_t i = 0; i < rows.size(); ++i) physics.push_back({&shapes[i], std::log(*rows[i].avg_time_mean)});
  const Costs costs = fit_costs(physics, 3);
  const Workload larger = Workload::cifar_cnn(5, 128, 512);  // not among the rows
  EXPECT_NEAR(epoch_time(costs, StepShape(larger, DeviceKind::gpu)).total() / made_up_time(larger, 0), 1, 0.03);
}

TEST(Physics, WeightsThatNoRowShowsCostAnElementWhatOtherTrafficDoes) {
  std::vector<AggregateRow> rows;
  for (const AggregateRow& row : made_up_rows(0)) {
    if (row.workload.depth() == 2) rows.push_back(row);  // positions of 64 and more only
  }
  std::vector<StepShape> shapes;
  for (const AggregateRow& row : rows) shapes.emplace_back(row.workload, DeviceKind::gpu);
  std::vector<PhysicsRow> physics;
  for (std::size_t i = 0; i < rows.size(); ++i) physics.push_back({&shapes[i], std::log(*rows[i].avg_time_mean)});
  const auto deep = static_cast<Eigen::Index>(Cost::deep_weights);
  ASSERT_TRUE(unseen_costs(physics)[static_cast<std::size_t>(deep)]);
  // Of values about a level of which nothing is known, the mean of those seen is the best guess of the next.
  const Costs costs = fit_costs(physics, 1e6);
  const auto element = [&](Cost cost) { return std::log(costs[static_cast<Eigen::Index>(cost)]); };
  const double others =
      (element(Cost::memory) + element(Cost::weights) - std::log(10) + element(Cost::dense_weights) - std::log(10)) / 3;
  EXPECT_NEAR(std::log(costs[deep]), others + std::log(10), 0.02);
}

TEST(Physics, KrigedCostsAreTheMostLikelyUnderCorrelatedErrors) {
  const std::vector<AggregateRow> rows = made_up_rows(0.03);
  const auto n = static_cast<Eigen::Index>(rows.size());
  std::vector<StepShape> shapes;
  for (const AggregateRow& row : rows) shapes.emplace_back(row.workload, DeviceKind::gpu);
  std::vector<PhysicsRow> physics;
  for (std::size_t i = 0; i < rows.size(); ++i) physics.push_back({&shapes[i], std::log(*rows[i].avg_time_mean)});
  Eigen::MatrixXd covariance(n, n);  // of neighbours in the table
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j)
      covariance(i, j) = 1e-3 * std::exp(-std::abs(static_cast<double>(i - j)) / 5) + (i == j ? 1e-4 : 0);
  }
  const Eigen::MatrixXd inverse_factor = Eigen::MatrixXd(covariance.llt().matrixL()).inverse();
  // With a prior this wide the likelihood decides, but for what kinds of traffic say of each other.
  const Costs costs = krige_costs(physics, 1e6, fit_costs(physics, 3), inverse_factor);
  const auto misfit = [&](const Costs& at) {
    Eigen::VectorXd away(n);
    for (std::size_t i = 0; i < physics.size(); ++i)
      away[static_cast<Eigen::Index>(i)] = physics[i].log_time - std::log(epoch_time(at, shapes[i]).total());
    return away.dot(covariance.ldlt().solve(away));
  };
  const double least = misfit(costs);
  for (int cost = 0; cost < cost_count; ++cost) {
    for (const double factor : {0.97, 1.03}) {
      Costs other = costs;
      other[cost] *= factor;
      EXPECT_GE(misfit(other), least - 0.03) << cost;
    }
  }
}

TEST(GaussianProcess, GradientIsTheDerivative) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  Eigen::MatrixXd places(12, ResidualKernel::inputs);
  Eigen::VectorXd residuals(12);
  for (Eigen::Index i = 0; i < 12; ++i) {
    for (Eigen::Index j = 0; j < places.cols(); ++j) places(i, j) = normal(random);
    residuals[i] = 0.05 * normal(random);
  }
  const Eigen::VectorXd noise = Eigen::VectorXd::Constant(12, 0.5);
  ResidualKernel::Parameters theta, gradient;
  theta << 0.3, 0.6, 0.1, 1.2, 0.9, -3, -4.5, 0.8;
  const KernelPrior prior;
  (void)kernel_objective({theta}, places, residuals, noise, prior, &gradient);
  for (int i = 0; i < ResidualKernel::parameters; ++i) {
    ResidualKernel::Parameters up = theta, down = theta;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    const double slope = (kernel_objective({up}, places, residuals, noise, prior, nullptr) -
                          kernel_objective({down}, places, residuals, noise, prior, nullptr)) /
                         2e-5;
    EXPECT_NEAR(gradient[i], slope, 1e-4 * std::max(1.0, std::abs(slope))) << i;
  }
}

TEST(GaussianProcess, OneStepFromTheFitToAllRowsIsNearlyTheFitToMost) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  constexpr Eigen::Index n = 60, left = 48;
  Eigen::MatrixXd places(n, ResidualKernel::inputs);
  Eigen::VectorXd residuals(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < places.cols(); ++j) places(i, j) = normal(random);
    residuals[i] = 0.05 * std::sin(places(i, 0)) + 0.03 * places(i, 2) * places(i, 3) + 0.01 * normal(random);
  }
  const Eigen::VectorXd noise = Eigen::VectorXd::Ones(n);
  const KernelPrior prior;
  const ResidualKernel all = fit_kernel(places, residuals, noise, prior);
  const Eigen::MatrixXd some = places.topRows(left);
  const ResidualKernel step = refit_kernel(all, laplace_covariance(all, places, residuals, noise, prior), some,
                                           residuals.head(left), noise.head(left), prior);
  const ResidualKernel searched = fit_kernel(some, residuals.head(left), noise.head(left), prior, &all);
  EXPECT_GT((searched.theta - all.theta).norm(), 0.05);  // or there would be nothing to find
  EXPECT_LT((searched.theta - step.theta).norm(), 0.5 * (searched.theta - all.theta).norm());
}

TEST(GaussianProcess, ASearchThatGivesUpIsAsGoodAsTheBestPointItSaw) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 200; ++round) {
    const auto n = static_cast<Eigen::Index>(4 + random() % 20);
    const double scale = std::pow(10, static_cast<double>(random() % 16) - 6);
    const double level = static_cast<double>(random() % 3);  // 0: every row in one place
    Eigen::MatrixXd places(n, ResidualKernel::inputs);
    Eigen::VectorXd residuals(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      for (Eigen::Index j = 0; j < places.cols(); ++j) places(i, j) = level * normal(random);
      residuals[i] = scale * normal(random);
    }
    const Eigen::VectorXd noise = Eigen::VectorXd::Constant(n, std::pow(10, -static_cast<double>(random() % 6)));
    for (const double deviation : {0.7, 0.1}) {
      const KernelPrior prior{.deviation = deviation};
      ResidualKernel start;
      start.theta.setConstant(std::log(prior.length));
      start.theta.tail(3) << std::log(prior.amplitude), std::log(prior.run_noise), 0;
      const ResidualKernel found = fit_kernel(places, residuals, noise, prior);
      ASSERT_LE(kernel_objective(found, places, residuals, noise, prior, nullptr),
                kernel_objective(start, places, residuals, noise, prior, nullptr))
          << round;
    }
  }
  // Nothing to start from: said, not answered.
  EXPECT_THROW((void)fit_kernel(Eigen::MatrixXd::Zero(5, ResidualKernel::inputs), Eigen::VectorXd::Constant(5, NAN),
                                Eigen::VectorXd::Ones(5), {}),
               Error);
}

/// Rows left out alone, of shares 0.2, 0.3 ... 1, whose errors spread as the residual process says.
std::vector<HeldOut> left_out_far(std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<HeldOut> held_out;
  for (int i = 0; i < 90; ++i) {
    HeldOut row;
    row.amplitude2 = 0.01;
    row.share = 0.2 + 0.1 * (i % 9);
    row.noise = 1e-4;
    row.log_time = std::sqrt(row.amplitude2 * row.share + row.noise) * normal(random);
    held_out.push_back(row);
  }
  return held_out;
}

TEST(Calibration, ErrorsOfFarRowsSayNothingOfNearOnes) {
  std::mt19937_64 random(5);
  const Calibration calibration = calibrate(left_out_far(random), {90, 0, 0, 0}, 0);
  // A quarter of the shares are 0.4 or less.
  EXPECT_EQ(calibration.latent(0.01, 0), calibration.latent(0.01, 0.4));
  EXPECT_LT(calibration.latent(0.01, 0.4), calibration.latent(0.01, 0.5));
  const double deviation = std::sqrt(1e-4 + calibration.latent(0.01, 0.5));
  EXPECT_NEAR(calibration.quantile(0.5, false, false) * deviation, 1.645 * std::sqrt(1e-4 + 0.005), 0.3 * 0.117);
}

}  // namespace
}  // namespace perfpred
