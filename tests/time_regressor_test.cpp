// SPDX-License-Identifier: Apache-2.0
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/suggestion.h>
#include <perfpred/time_regressor.h>

#include <Eigen/Dense>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>
#include <set>
#include <thread>

#include <unistd.h>

#include "model/hybrid/cost_model.h"
#include "model/hybrid/residual_kernel.h"
#include "model/hybrid/step_shape.h"
#include "model/kinds/ann.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace perfpred {
namespace {

/// A made-up machine: launches, FLOPs, weights and input, with noise.
double made_up_time(const Workload& workload, double noise) {
  const StepShape shape(workload);
  double step = 1e-3, flops = 0, params = 0;
  for (const StepLayer& layer : shape.layers()) {
    step += 2e-4;
    flops += layer.flops;
    params += layer.params;
  }
  step += 3e-11 * params;
  return (shape.steps * step + shape.samples * (5e-6 + 2e-14 * flops)) * std::exp(noise);
}

std::vector<AggregateRow> made_up_rows(double noise = 0.005, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<AggregateRow> rows;
  for (const int depth : {2, 3, 4}) {
    for (const int base : {16, 32, 64}) {
      for (const int batch : {32, 96, 256, 1024}) {
        AggregateRow row;
        row.workload = Workload::cifar_cnn(depth, base, batch);
        row.params = row.workload.params();
        row.n = 1;
        row.steps_per_epoch = row.workload.steps_per_epoch();
        row.avg_time_mean = made_up_time(row.workload, noise * normal(random));
        row.avg_time_std = 0;
        rows.push_back(row);
      }
    }
  }
  return rows;
}

Run run_of(const Workload& workload, double sec) {
  perfpred::Run run;
  run.workload = workload;
  run.timestamp_utc = "2026-01-01T00:00:00";
  run.epochs = 3;
  run.params = workload.params();
  run.epoch_times = {sec * 3, sec, sec};
  run.avg_time_sec = sec;
  run.images_per_sec = static_cast<double>(workload.train_images) / sec;
  return run;
}

std::string scratch(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("perfpred_regressor_" + std::to_string(::getpid()) + "_" + name))
      .string();
}

bool same(const Quantiles& a, const Quantiles& b) { return a.p05 == b.p05 && a.p50 == b.p50 && a.p95 == b.p95; }

TEST(StepShape, ClosedFormEqualsTheOpGraph) {
  for (int depth = 1; depth <= 5; ++depth) {
    for (const int base : {1, 16, 100}) {
      const Workload workload = Workload::cifar_cnn(depth, base, 64);
      const StepShape shape(workload);
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

TEST(StepShape, ConvolutionsWorkOnWholeVectorBlocks) {
  Workload workload = Workload::cifar_cnn(1, 20, 64);
  const auto expect = [&](double filled) {
    const StepShape shape(workload);
    EXPECT_EQ(shape.layers()[0].padded_flops, 2 * 2 * 9 * 3 * filled * 1024);  // the network's own input stays as it is
    EXPECT_EQ(shape.layers()[1].padded_flops, 3 * 2 * 9 * filled * filled * 1024);
    EXPECT_EQ(shape.layers()[1].elements, 2 * filled * 1024);
    EXPECT_EQ(shape.layers()[1].flops, 3 * 2 * 9 * 20 * 20 * 1024);
    EXPECT_EQ(shape.layers()[2].padded_flops, shape.layers()[2].flops);  // dense
  };
  expect(24);
  workload.threads = 2;  // a CPU
  expect(32);
  Workload zoo = Workload::zoo("mobilenet_v2", 32);
  zoo.threads = 2;
  const StepShape zoo_shape(zoo);
  for (const StepLayer& layer : zoo_shape.layers()) {
    EXPECT_GE(layer.padded_flops, layer.flops);
    EXPECT_LE(layer.padded_flops,
              2 * layer.flops);  // depthwise convolutions are not filled up; the narrowest other has 16 channels
  }
}

TEST(Physics, GradientIsTheDerivative) {
  const StepShape shape(Workload::cifar_cnn(3, 32, 128));
  Costs costs;
  costs << 5e-6, 1e-3, 1e-4, 1e-14, 30, 4e-12, 5e-11, 6e-11, 7e-11, 2e-8;
  for (const PhysicsForm& form : physics_forms) {
    Costs gradient;
    epoch_time(form, costs, shape, &gradient);
    for (int i = 0; i < cost_count; ++i) {
      Costs up = costs, down = costs;
      up[i] *= std::exp(1e-6);
      down[i] *= std::exp(-1e-6);
      const double slope = (epoch_time(form, up, shape).total() - epoch_time(form, down, shape).total()) / 2e-6;
      const bool used = (i != static_cast<int>(Cost::narrow) || form.narrow);
      EXPECT_NEAR(gradient[i], used ? slope : 0, 1e-6 * epoch_time(form, costs, shape).total())
          << form.name << " " << i;
    }
  }
}

TEST(Physics, RecoversTheMachineThatMadeTheTimes) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  std::vector<StepShape> shapes;
  for (const AggregateRow& row : rows) shapes.emplace_back(row.workload);
  std::vector<PhysicsRow> physics;
  for (std::size_t i = 0; i < rows.size(); ++i) physics.push_back({&shapes[i], std::log(*rows[i].avg_time_mean)});
  const Costs costs = fit_costs(physics_forms[0], physics, 3);
  const Workload larger = Workload::cifar_cnn(5, 128, 512);  // not among the rows
  EXPECT_NEAR(epoch_time(physics_forms[0], costs, StepShape(larger)).total() / made_up_time(larger, 0), 1, 0.03);
}

TEST(Physics, WeightsThatNoRowShowsCostAnElementWhatOtherTrafficDoes) {
  std::vector<AggregateRow> rows;
  for (const AggregateRow& row : made_up_rows(0)) {
    if (row.workload.depth == 2) rows.push_back(row);  // positions of 64 and more only
  }
  std::vector<StepShape> shapes;
  for (const AggregateRow& row : rows) shapes.emplace_back(row.workload);
  std::vector<PhysicsRow> physics;
  for (std::size_t i = 0; i < rows.size(); ++i) physics.push_back({&shapes[i], std::log(*rows[i].avg_time_mean)});
  for (const PhysicsForm& form : physics_forms) {
    if (!form.split_weights) continue;
    const auto deep = static_cast<Eigen::Index>(Cost::deep_weights);
    ASSERT_TRUE(unseen_costs(form, physics)[static_cast<std::size_t>(deep)]);
    // Of values about a level of which nothing is known, the mean of those seen is the best guess of the next.
    const Costs costs = fit_costs(form, physics, 1e6);
    const auto element = [&](Cost cost) { return std::log(costs[static_cast<Eigen::Index>(cost)]); };
    const double others =
        (element(Cost::memory) + element(Cost::weights) - std::log(10) + element(Cost::dense_weights) - std::log(10)) /
        3;
    EXPECT_NEAR(std::log(costs[deep]), others + std::log(10), 0.02) << form.name;
  }
}

TEST(Physics, KrigedCostsAreTheMostLikelyUnderCorrelatedErrors) {
  const std::vector<AggregateRow> rows = made_up_rows(0.03);
  const auto n = static_cast<Eigen::Index>(rows.size());
  std::vector<StepShape> shapes;
  for (const AggregateRow& row : rows) shapes.emplace_back(row.workload);
  std::vector<PhysicsRow> physics;
  for (std::size_t i = 0; i < rows.size(); ++i) physics.push_back({&shapes[i], std::log(*rows[i].avg_time_mean)});
  Eigen::MatrixXd covariance(n, n);  // of neighbours in the table
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j)
      covariance(i, j) = 1e-3 * std::exp(-std::abs(static_cast<double>(i - j)) / 5) + (i == j ? 1e-4 : 0);
  }
  const Eigen::MatrixXd inverse_factor = Eigen::MatrixXd(covariance.llt().matrixL()).inverse();
  for (const PhysicsForm& form : physics_forms) {
    // With a prior this wide the likelihood decides, but for what kinds of traffic say of each other.
    const Costs costs = krige_costs(form, physics, 1e6, fit_costs(form, physics, 3), inverse_factor);
    const auto misfit = [&](const Costs& at) {
      Eigen::VectorXd away(n);
      for (std::size_t i = 0; i < physics.size(); ++i)
        away[static_cast<Eigen::Index>(i)] = physics[i].log_time - std::log(epoch_time(form, at, shapes[i]).total());
      return away.dot(covariance.ldlt().solve(away));
    };
    const double least = misfit(costs);
    for (int cost = 0; cost < cost_count; ++cost) {
      for (const double factor : {0.97, 1.03}) {
        Costs other = costs;
        other[cost] *= factor;
        EXPECT_GE(misfit(other), least - 0.03) << form.name << " " << cost;
      }
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

TEST(TimeRegressor, HybridPredictsWhatItDidNotSee) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  for (const auto& [depth, base, batch] : {std::tuple(2, 32, 64), std::tuple(3, 64, 512), std::tuple(4, 16, 128)}) {
    const Workload workload = Workload::cifar_cnn(depth, base, batch);
    const Prediction prediction = model.predict(workload);
    EXPECT_NEAR(prediction.time_sec.p50 / made_up_time(workload, 0), 1, 0.02);
    EXPECT_LT(prediction.time_sec.p05, prediction.time_sec.p50);
    EXPECT_LT(prediction.time_sec.p50, prediction.time_sec.p95);
    EXPECT_TRUE(prediction.in_domain());
  }
}

TEST(TimeRegressor, LinearIsOrdinaryLeastSquares) {
  // One architecture, steps = images / batch exactly: log time on log2 batch is a line with a known slope.
  std::vector<AggregateRow> rows;
  for (const int batch : {20, 40, 100, 200, 500, 1000}) {
    AggregateRow row;
    row.workload = Workload::cifar_cnn(2, 16, batch);
    row.n = 1;
    row.avg_time_mean = 3.0 * std::pow(batch, -0.7);
    rows.push_back(row);
  }
  const TimeRegressor model = TimeRegressor::fit(rows, {.kind = "linear", .seed = 0});
  EXPECT_NEAR(model.predict(Workload::cifar_cnn(2, 16, 250)).time_sec.p50, 3.0 * std::pow(250, -0.7), 1e-9);
}

TEST(TimeRegressor, AKindOfWeightsThatNoRowHasCostsWhatTheOthersCost) {
  std::vector<AggregateRow> rows;  // no layer has 2 to 31 positions up to depth 3
  for (const AggregateRow& row : made_up_rows()) {
    if (*row.workload.depth <= 3) rows.push_back(row);
  }
  const TimeRegressor model = TimeRegressor::fit(rows);
  const auto ask = [&](const Workload& workload, double factor) {
    const Quantiles q = model.predict(workload).time_sec;
    const double truth = made_up_time(workload, 0);
    EXPECT_LT(q.p50, factor * truth) << workload.key();
    EXPECT_GT(q.p50, truth / factor) << workload.key();
    EXPECT_LT(q.p05, truth) << workload.key();
    EXPECT_GT(q.p95, truth) << workload.key();
    // No wider than what is assumed of a cost before anything is measured: a factor of exp(1.5) is one deviation.
    EXPECT_LE(std::log(q.p95 / q.p05), 2 * 1.645 * 1.5) << workload.key();
  };
  ask(Workload::cifar_cnn(4, 32, 128), 1.2);
  ask(Workload::cifar_cnn(5, 64, 128), 1.5);
  Workload zoo = Workload::zoo("resnet18", 32);
  zoo.optimizer = Optimizer::adam;
  ask(zoo, 3);
}

class EveryKind : public testing::TestWithParam<const char*> {};

TEST_P(EveryKind, SavesAndLoadsBitIdentically) {
  const std::string file = scratch(GetParam());
  TimeRegressor model = TimeRegressor::fit(made_up_rows(), {.kind = GetParam(), .seed = 4});
  if (model.kind() == "hybrid") {
    const Workload seen = Workload::cifar_cnn(3, 32, 512);
    ASSERT_EQ(model.observe(std::vector<perfpred::Run>{run_of(seen, made_up_time(seen, 0.004))}).observed, 1U);
  }
  model.save(file);
  const TimeRegressor again = TimeRegressor::load(file);
  for (const int batch : {32, 50, 777, 4096}) {
    const Workload workload = Workload::cifar_cnn(5, 48, batch);
    const Prediction a = model.predict(workload), b = again.predict(workload);
    EXPECT_TRUE(same(a.time_sec, b.time_sec));
    EXPECT_EQ(a.reason, b.reason);
    EXPECT_EQ(a.model_id, b.model_id);
    EXPECT_EQ(a.training_set_id, b.training_set_id);
  }
  const std::vector<AggregateRow> before = model.fitted_rows(), after = again.fitted_rows();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].workload, after[i].workload);
    EXPECT_EQ(before[i].avg_time_mean, after[i].avg_time_mean);
  }
  again.save(file + ".2");
  std::ifstream one(file), two(file + ".2");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(one), {}), std::string(std::istreambuf_iterator<char>(two), {}));
  std::filesystem::remove(file);
  std::filesystem::remove(file + ".2");
}

TEST_P(EveryKind, ManyAtOnceEqualsOneByOne) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows(), {.kind = GetParam(), .seed = 4});
  std::vector<Workload> workloads;
  for (int i = 0; i < 300; ++i) workloads.push_back(Workload::cifar_cnn(2 + i % 4, 16 + i, 32 + 5 * i));
  const std::vector<Prediction> many = model.predict(workloads);
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    EXPECT_NEAR(many[i].time_sec.p95 / model.predict(workloads[i]).time_sec.p95, 1, 1e-9);
    EXPECT_NEAR(many[i].time_sec.p50 / model.predict(workloads[i]).time_sec.p50, 1, 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(TimeRegressor, EveryKind, testing::Values("hybrid", "linear"));

TEST(TimeRegressor, OneRowDoesNotAllocate) {
  for (const char* kind : {"hybrid", "linear"}) {
    const TimeRegressor model = TimeRegressor::fit(made_up_rows(), {.kind = kind, .seed = 0});
    const Workload workload = Workload::cifar_cnn(3, 40, 300);
    const long before = allocations.load();
    const Prediction prediction = model.predict(workload);
    EXPECT_EQ(allocations.load(), before) << kind;
    EXPECT_GT(prediction.time_sec.p50, 0);
  }
}

TEST(TimeRegressor, DropsABadLabelAndSaysSo) {
  std::vector<AggregateRow> rows = made_up_rows();
  const double good = *rows[17].avg_time_mean;
  rows[17].avg_time_mean = 1.5 * good;
  const TimeRegressor model = TimeRegressor::fit(rows);
  ASSERT_EQ(model.dropped().size(), 1U);
  EXPECT_EQ(model.dropped()[0].key, rows[17].workload.key());
  EXPECT_THAT(model.dropped()[0].reason, testing::HasSubstr("standard deviations"));
  EXPECT_NEAR(model.predict(rows[17].workload).time_sec.p50 / good, 1, 0.03);
}

TEST(TimeRegressor, EpochsShowTheNoiseUntilRepeatsDo) {
  const auto predict = [](std::optional<double> epoch_rel_sem, bool repeated) {
    const std::vector<AggregateRow> all = made_up_rows();
    std::vector<AggregateRow> rows;  // so few that they do not show the noise themselves
    for (std::size_t i = 1; i < all.size(); i += 3) {
      rows.push_back(all[i]);
      rows.back().epoch_rel_sem = epoch_rel_sem;
      if (repeated && i % 2 == 0) {
        rows.back().n = 2;
        rows.back().avg_time_std = 0.005 * *rows.back().avg_time_mean;
      }
    }
    return TimeRegressor::fit(rows).predict(all[7].workload).time_sec;
  };
  const auto width = [](const Quantiles& time) { return std::log(time.p95 / time.p05); };
  EXPECT_GT(width(predict(0.03, false)), 1.1 * width(predict(std::nullopt, false)));
  EXPECT_TRUE(same(predict(0.001, false), predict(std::nullopt, false))) << "runs differ by more than their epochs";
  EXPECT_TRUE(same(predict(0.03, true), predict(std::nullopt, true))) << "repeats tell it directly";
}

TEST(TimeRegressor, OneDepthWidthOrBatchSaysNothingOfAnother) {
  const auto fit = [](auto keep) {
    std::vector<AggregateRow> rows = made_up_rows();
    std::erase_if(rows, [&](const AggregateRow& row) { return !keep(row.workload); });
    return TimeRegressor::fit(rows);
  };
  const Workload asked = Workload::cifar_cnn(3, 32, 128);
  const auto factor = [](const TimeRegressor& model, const Workload& workload) {
    const Quantiles q = model.predict(workload).time_sec;
    return std::min(q.p95 / q.p50, q.p50 / q.p05);
  };
  EXPECT_GE(factor(fit([](const Workload& w) { return w.depth == 2; }), asked), 2.999);
  EXPECT_GE(factor(fit([](const Workload& w) { return w.base_filters == 16; }), asked), 2.999);
  EXPECT_GE(factor(fit([](const Workload& w) { return w.batch_size == 1024; }), asked), 2.999);
  EXPECT_LT(factor(fit([](const Workload& w) { return w.depth == 2; }), Workload::cifar_cnn(2, 32, 128)), 1.5);

  // Whatever that factor is, all runs of the other depth share it.
  const std::vector<Workload> both = {asked, Workload::cifar_cnn(3, 64, 1024), Workload::cifar_cnn(2, 32, 128)};
  const JointPrediction joint = fit([](const Workload& w) { return w.depth == 2; }).joint(both);
  const Eigen::Map<const Eigen::Matrix3d> covariance(joint.covariance.data());
  const double variance = std::pow(std::log(3) / 1.645, 2);
  EXPECT_GE(covariance(0, 0), 0.99 * variance);
  EXPECT_GE(covariance(1, 1), 0.99 * variance);
  EXPECT_GE(covariance(0, 1), 0.5 * variance);
  EXPECT_LT(covariance(2, 2), 0.05 * variance);
  EXPECT_GT(Eigen::SelfAdjointEigenSolver<Eigen::Matrix3d>(covariance).eigenvalues().minCoeff(), -1e-9);
}

TEST(TimeRegressor, SaysWhyItCannotKnow) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload known = Workload::cifar_cnn(3, 32, 128);
  const auto reason = [&](auto change) {
    Workload workload = known;
    change(workload);
    return model.predict(workload).reason;
  };
  EXPECT_EQ(model.predict(known).reason, Reason::none);
  EXPECT_EQ(reason([](Workload& w) { w.depth = 5; }), Reason::depth_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.base_filters = 128; }), Reason::width_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.batch_size = 4096; }), Reason::batch_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.input = {3, 64, 64}; }), Reason::size_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.device = "another"; }), Reason::other_device);
  EXPECT_EQ(reason([](Workload& w) { w.precision = Precision::fp16; }), Reason::other_precision);
  EXPECT_EQ(reason([](Workload& w) { w.optimizer = Optimizer::sgd; }), Reason::other_optimizer);
  EXPECT_EQ(reason([](Workload& w) { w.layout = Layout::nhwc; }), Reason::other_layout);
  const auto width = [&](const Workload& workload) {
    const Quantiles q = model.predict(workload).time_sec;
    return std::log(q.p95 / q.p05);
  };
  Workload other = known;
  other.device = "another";
  EXPECT_GT(width(other), 10 * width(known));
  EXPECT_GT(width(Workload::cifar_cnn(5, 128, 128)), width(known));
  Workload zoo = Workload::zoo("resnet18", 32);
  zoo.optimizer = known.optimizer;
  zoo.precision = known.precision;
  EXPECT_EQ(model.predict(zoo).reason, Reason::other_network);
}

/// Groups whose times differ by a factor that tells which of them answered.
std::vector<AggregateRow> as_group(std::vector<AggregateRow> rows, double factor, const auto& change) {
  for (AggregateRow& row : rows) {
    change(row.workload);
    row.avg_time_mean = factor * *row.avg_time_mean;
  }
  return rows;
}

TEST(TimeRegressor, TheGroupThatAgreesInWhatMattersMostAnswers) {
  const std::vector<AggregateRow> most = made_up_rows();
  const std::vector<AggregateRow> some(most.begin(), most.begin() + 24);
  std::vector<AggregateRow> rows;
  const auto add = [&](std::vector<AggregateRow> part, double factor, const auto& change) {
    part = as_group(std::move(part), factor, change);
    rows.insert(rows.end(), part.begin(), part.end());
  };
  add(some, 3, [](Workload& w) { w.device = "b", w.precision = Precision::fp16; });
  add(some, 9, [](Workload& w) { w.device = "b", w.optimizer = Optimizer::sgd; });
  add(some, 27, [](Workload& w) { w.device = "b", w.precision = Precision::fp16, w.optimizer = Optimizer::sgd; });
  add(most, 1, [](Workload& w) { w.device = "a"; });
  const std::string file = scratch("groups");
  for (const char* kind : {"linear", "hybrid"}) {
    TimeRegressor model = TimeRegressor::fit(rows, {.kind = kind, .seed = 0});
    model.save(file);
    TimeRegressor again = TimeRegressor::load(file);
    std::filesystem::remove(file);
    const auto expect = [&](double factor, Reason reason, const auto& change) {
      Workload asked = Workload::cifar_cnn(2, 32, 256);
      change(asked);
      for (const TimeRegressor* one : {&model, &again}) {
        const Prediction prediction = one->predict(asked);
        EXPECT_NEAR(std::log(prediction.time_sec.p50 / made_up_time(Workload::cifar_cnn(2, 32, 256), 0)),
                    std::log(factor), 0.5)
            << kind << " " << asked.key();
        EXPECT_EQ(prediction.reason, reason) << kind << " " << asked.key();
      }
      if (reason == Reason::none || model.kind() != "hybrid") return;
      const Observed observed = model.observe(std::vector<perfpred::Run>{run_of(asked, 1)});
      ASSERT_EQ(observed.set_aside.size(), 1U);
      EXPECT_EQ(observed.set_aside[0].reason, to_string(reason));
    };
    expect(1, Reason::none, [](Workload& w) { w.device = "a"; });
    expect(3, Reason::none, [](Workload& w) { w.device = "b", w.precision = Precision::fp16; });
    expect(9, Reason::other_optimizer, [](Workload& w) { w.device = "b"; });
    expect(9, Reason::other_layout,
           [](Workload& w) { w.device = "b", w.optimizer = Optimizer::sgd, w.layout = Layout::nhwc; });
    expect(3, Reason::other_optimizer,
           [](Workload& w) { w.device = "b", w.precision = Precision::fp16, w.optimizer = Optimizer::rmsprop; });
    expect(27, Reason::other_precision,  // as many rows as the one of fp32; its key comes first
           [](Workload& w) { w.device = "b", w.precision = Precision::bf16, w.optimizer = Optimizer::sgd; });
    expect(1, Reason::other_precision, [](Workload& w) { w.device = "a", w.precision = Precision::fp16; });
    expect(1, Reason::other_device, [](Workload& w) { w.device = "c"; });
    expect(3, Reason::other_device, [](Workload& w) { w.device = "c", w.precision = Precision::fp16; });
    expect(1, Reason::other_device, [](Workload& w) { w.device = "b", w.threads = 2; });
  }
}

TEST(TimeRegressor, ObservingEqualsRefittingTheProcess) {
  // Expected from the model file alone: the posterior of all rows by a dense solve.
  const std::string file = scratch("observe");
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload seen = Workload::cifar_cnn(4, 32, 512);
  ASSERT_EQ(model.observe(std::vector<perfpred::Run>{run_of(seen, made_up_time(seen, 0.01))}).observed, 1U);
  EXPECT_TRUE(model.was_fitted_on(seen));
  model.save(file);
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(file))["groups"][0]["model"];
  std::filesystem::remove(file);

  ResidualKernel kernel;
  for (int i = 0; i < ResidualKernel::parameters; ++i) kernel.theta[i] = json["kernel"][static_cast<std::size_t>(i)];
  const nlohmann::json& rows = json["rows"];
  const auto n = static_cast<Eigen::Index>(rows.size());
  Eigen::MatrixXd places(n, ResidualKernel::inputs);
  Eigen::VectorXd residuals(n), noise(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const nlohmann::json& row = rows[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j < places.cols(); ++j) places(i, j) = row["place"][static_cast<std::size_t>(j)];
    noise[i] = row["noise"];
    residuals[i] = row["log_time"];
    for (std::size_t f = 0; f < physics_forms.size(); ++f) {
      residuals[i] -= json["weights"][f].get<double>() * row["log_physics"][f].get<double>();
    }
  }
  const Eigen::MatrixXd scaled = kernel.scaled(places);
  Eigen::MatrixXd covariance = kernel.covariance(scaled, scaled);
  covariance.diagonal() += kernel.noise2() * noise + Eigen::VectorXd::Constant(n, 1e-10);
  const Eigen::VectorXd alpha = covariance.fullPivLu().solve(residuals);
  for (const int batch : {64, 512, 700}) {
    const Workload asked = Workload::cifar_cnn(4, 32, batch);
    const StepShape shape(asked);
    const StepShape::Place place = shape.place(batch);
    const Eigen::MatrixXd at =
        kernel.scaled(Eigen::Map<const Eigen::Matrix<double, 1, ResidualKernel::inputs>>(place.data()));
    double expected = (alpha.transpose() * kernel.covariance(scaled, at))(0, 0);
    for (std::size_t f = 0; f < physics_forms.size(); ++f) {
      Costs costs;
      for (int c = 0; c < cost_count; ++c) costs[c] = json["forms"][f]["costs"][static_cast<std::size_t>(c)];
      expected += json["weights"][f].get<double>() * std::log(epoch_time(physics_forms[f], costs, shape).total());
    }
    EXPECT_NEAR(std::log(model.predict(asked).time_sec.p50), expected, 1e-9);
  }
}

TEST(TimeRegressor, ObservingMovesThePredictionAndSetsOutliersAside) {
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload seen = Workload::cifar_cnn(4, 64, 700);
  const double before = model.predict(seen).time_sec.p50;
  perfpred::Run contended = run_of(seen, 3 * before);
  perfpred::Run unequal = run_of(seen, before);
  unequal.epoch_times = {3, before, 1.3 * before};
  perfpred::Run elsewhere = run_of(seen, before);
  elsewhere.workload.device = "another";
  perfpred::Run failed = run_of(seen, before);
  failed.outcome = Outcome::failed;
  const Observed refused = model.observe(std::vector<perfpred::Run>{contended, unequal, elsewhere, failed});
  EXPECT_EQ(refused.observed, 0U);
  ASSERT_EQ(refused.set_aside.size(), 4U);
  EXPECT_THAT(refused.set_aside[0].reason, testing::HasSubstr("standard deviations"));
  EXPECT_EQ(refused.set_aside[2].reason, "other_device");
  EXPECT_DOUBLE_EQ(model.predict(seen).time_sec.p50, before);

  const std::uint64_t old_id = model.predict(seen).model_id;
  const Quantiles old = model.predict(seen).time_sec;
  ASSERT_EQ(model.observe(std::vector<perfpred::Run>{run_of(seen, 1.015 * before)}).observed, 1U);
  const Prediction after = model.predict(seen);
  EXPECT_GT(after.time_sec.p50, before);
  EXPECT_LT(after.time_sec.p50, 1.015 * before);
  EXPECT_LE(after.time_sec.p95 / after.time_sec.p05, old.p95 / old.p05);
  EXPECT_NE(after.model_id, old_id);
}

TEST(TimeRegressor, ObservingSetsAsideARunThatItCannotDescribe) {
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload seen = Workload::cifar_cnn(4, 64, 700), later = Workload::cifar_cnn(2, 32, 300);
  const std::uint64_t old_id = model.predict(seen).model_id;
  perfpred::Run traced = run_of(seen, 2);
  traced.workload.network = "torchscript:0123456789ab";
  traced.workload.depth = traced.workload.base_filters = std::nullopt;
  perfpred::Run invalid = run_of(seen, 2);
  invalid.workload.depth = 9;
  const Observed refused = model.observe(std::vector<perfpred::Run>{traced, invalid});
  EXPECT_EQ(refused.observed, 0U);
  ASSERT_EQ(refused.set_aside.size(), 2U);
  EXPECT_THAT(refused.set_aside[0].reason, testing::HasSubstr("torchscript:0123456789ab"));
  EXPECT_THAT(refused.set_aside[1].reason, testing::HasSubstr("depth 9"));
  EXPECT_EQ(model.predict(seen).model_id, old_id);

  const Observed observed = model.observe(
      std::vector<perfpred::Run>{run_of(seen, made_up_time(seen, 0)), traced, run_of(later, made_up_time(later, 0))});
  EXPECT_EQ(observed.observed, 2U);
  EXPECT_EQ(observed.set_aside.size(), 1U);
  EXPECT_TRUE(model.was_fitted_on(seen));
  EXPECT_TRUE(model.was_fitted_on(later));
  EXPECT_NE(model.predict(seen).model_id, old_id);

  TimeRegressor linear = TimeRegressor::fit(made_up_rows(), {.kind = "linear", .seed = 0});
  EXPECT_THROW((void)linear.observe(std::vector<perfpred::Run>{run_of(seen, 2)}), InputError);
}

TEST(TimeRegressor, JointAgreesWithSinglePredictions) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const std::vector<Workload> workloads = {Workload::cifar_cnn(5, 64, 128), Workload::cifar_cnn(5, 64, 256),
                                           Workload::cifar_cnn(2, 16, 128), Workload::cifar_cnn(5, 64, 128)};
  const JointPrediction joint = model.joint(workloads);
  ASSERT_EQ(joint.mean.size(), 4U);
  ASSERT_EQ(joint.covariance.size(), 16U);
  const Eigen::Map<const Eigen::Matrix4d> covariance(joint.covariance.data());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(joint.mean[i], std::log(model.predict(workloads[i]).time_sec.p50), 1e-9);
    EXPECT_GT(joint.covariance[4 * i + i], 0);
  }
  const auto correlation = [&](int i, int j) {
    return covariance(i, j) / std::sqrt(covariance(i, i) * covariance(j, j));
  };
  EXPECT_NEAR(correlation(0, 3), 1, 1e-6);  // the same workload
  EXPECT_GT(correlation(0, 1), 0.5);        // one family, never measured
  EXPECT_LT(correlation(0, 2), correlation(0, 1));
  EXPECT_GT(Eigen::SelfAdjointEigenSolver<Eigen::Matrix4d>(covariance).eigenvalues().minCoeff(), -1e-12);
}

TEST(TimeRegressor, BreakdownAddsUp) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  const Workload workload = Workload::cifar_cnn(4, 64, 256);
  double sum = 0;
  for (const TimeTerm& term : model.breakdown(workload)) sum += term.sec;
  EXPECT_NEAR(sum, model.predict(workload).time_sec.p50, 1e-9);
}

TEST(TimeRegressor, PredictsWhileAnotherThreadObserves) {
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  std::atomic<bool> stop{false};
  std::atomic<long> bad{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 8; ++t) {
    readers.emplace_back([&, t] {
      while (!stop) {
        const Prediction prediction = model.predict(Workload::cifar_cnn(2 + t % 3, 32, 100 + t));
        if (!(prediction.time_sec.p50 > 0)) ++bad;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const Workload workload = Workload::cifar_cnn(3, 32, 100 + 10 * i);
    EXPECT_EQ(model.observe(std::vector<perfpred::Run>{run_of(workload, made_up_time(workload, 0))}).observed, 1U);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(bad.load(), 0);
}

TEST(TimeRegressor, RefusesWhatCannotBeFitted) {
  std::vector<AggregateRow> rows = made_up_rows();
  EXPECT_THROW((void)TimeRegressor::fit({}), InputError);
  EXPECT_THROW((void)TimeRegressor::fit(std::span(rows).first(4)), InputError);
  EXPECT_THROW((void)TimeRegressor::fit(rows, {.kind = "magic", .seed = 0}), InputError);
  EXPECT_THROW((void)TimeRegressor::fit(std::span(rows).first(2), {.kind = "linear", .seed = 0}), InputError);
  EXPECT_THROW((void)TimeRegressor::fit(rows, {.kind = "ann", .seed = 0}), Error);  // this test links no LibTorch
  rows.push_back(rows[5]);
  for (const double sec : {-5.0, 0.0, std::nan(""), HUGE_VAL}) {  // also where another row has the same key
    rows.back().avg_time_mean = sec;
    EXPECT_THROW((void)TimeRegressor::fit(rows), InputError) << sec;
  }
  rows.pop_back();
  rows[3].avg_time_mean = NAN;
  EXPECT_THROW((void)TimeRegressor::fit(rows), InputError);
}

/// Stands in for LibTorch, which this test does not link: one answer to everything.
class AnnOfOneAnswer {
 public:
  static constexpr double sec = 2;
  AnnOfOneAnswer() {
    set_ann_fitter([](const AnnTask&) {
      AnnNetwork network;
      network.input_weights.setZero();
      network.input_bias.setZero();
      network.hidden_weights.setZero();
      network.hidden_bias.setZero();
      network.output_weights.setZero();
      network.target_mean = std::log(sec);
      return network;
    });
  }
  AnnOfOneAnswer(const AnnOfOneAnswer&) = delete;
  AnnOfOneAnswer& operator=(const AnnOfOneAnswer&) = delete;
  ~AnnOfOneAnswer() { set_ann_fitter(nullptr); }
};

TEST(TimeRegressor, RefusesAGroupThatIsAllForValidation) {
  const AnnOfOneAnswer ann;
  const std::vector<AggregateRow> rows = made_up_rows();
  const std::vector<AggregateRow> val = as_group(rows, 1, [](Workload& w) { w.device = "b", w.threads = 2; });
  for (const char* kind : {"ann", "boosting"}) {
    EXPECT_THAT(
        [&] { (void)TimeRegressor::fit(rows, {.kind = kind, .seed = 0}, val); },
        testing::ThrowsMessage<InputError>("the group of device \"b\", 2 threads, fp32, adam, nchw has rows for "
                                           "validation and none to fit on"))
        << kind;
  }
  const Workload asked = val.front().workload;  // fitted on where nothing is chosen by it
  EXPECT_EQ(TimeRegressor::fit(rows, {.kind = "linear", .seed = 0}, val).predict(asked).reason, Reason::none);
}

TEST(TimeRegressor, TheAnnsIntervalIsWideWhereFewRowsValidateIt) {
  const AnnOfOneAnswer ann;
  const std::vector<AggregateRow> rows = made_up_rows();
  const auto half_width = [&](std::vector<double> errors) {
    std::vector<AggregateRow> val(made_up_rows(0, 2));
    val.resize(errors.size());
    for (std::size_t i = 0; i < val.size(); ++i) val[i].avg_time_mean = AnnOfOneAnswer::sec * std::exp(errors[i]);
    const Quantiles q =
        TimeRegressor::fit(rows, {.kind = "ann", .seed = 0}, val).predict(rows.front().workload).time_sec;
    EXPECT_NEAR(q.p50, AnnOfOneAnswer::sec, 1e-6);
    return std::log(q.p95 / q.p50);
  };
  // Student's t at 95 %, of one and two degrees of freedom, over the normal's quantile.
  const double pi = std::acos(-1);
  EXPECT_NEAR(half_width({0.02, -0.03}), 0.03 * std::tan(0.45 * pi) / 1.644854, 1e-6);
  EXPECT_NEAR(half_width({-0.01, 0.02, -0.03}), 0.03 * 0.9 * std::sqrt(2 / (1 - 0.81)) / 1.644854, 1e-6);
}

TEST(TimeRegressor, NamesTheGroupThatIsTooSmall) {
  std::vector<AggregateRow> rows = made_up_rows();
  const std::vector<AggregateRow> few = as_group({rows.begin(), rows.begin() + 3}, 1, [](Workload& w) {
    w.device = "b";
    w.precision = Precision::fp16;
  });
  EXPECT_THAT([&] { (void)TimeRegressor::fit(few); },
              testing::ThrowsMessage<InputError>("3 rows are too few for a hybrid model: it needs 5"));
  rows.insert(rows.end(), few.begin(), few.end());
  EXPECT_THAT(
      [&] { (void)TimeRegressor::fit(rows); },
      testing::ThrowsMessage<InputError>("the group of device \"b\", fp16, adam, nchw: 3 rows are too few for a "
                                         "hybrid model: it needs 5"));
}

TEST(TimeRegressor, TheSameRowsInAnyOrderGiveTheSameModel) {
  std::vector<AggregateRow> rows = made_up_rows();
  rows.push_back(rows[3]);  // one key, three labels
  rows.push_back(rows[3]);
  rows.back().avg_time_mean = 1.01 * *rows[3].avg_time_mean;
  rows.back().n = 3;
  for (const double factor : {2.0, 3.0}) {  // two groups of as many rows
    const std::vector<AggregateRow> more =
        as_group({rows.begin(), rows.begin() + 12}, factor, [&](Workload& w) { w.device = std::to_string(factor); });
    rows.insert(rows.end(), more.begin(), more.end());
  }
  const AnnOfOneAnswer ann;
  std::mt19937_64 random(2);
  for (const char* kind : {"hybrid", "linear", "ann"}) {
    const std::uint64_t id = TimeRegressor::fit(rows, {.kind = kind, .seed = 5}).predict(rows[0].workload).model_id;
    std::vector<AggregateRow> shuffled = rows;
    for (int round = 0; round < 3; ++round) {
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      EXPECT_EQ(TimeRegressor::fit(shuffled, {.kind = kind, .seed = 5}).predict(rows[0].workload).model_id, id) << kind;
    }
  }
}

TEST(TimeRegressor, FewOrPoorRowsGiveFiniteAnswers) {
  std::vector<AggregateRow> one_batch, one_architecture, repeated;
  for (const AggregateRow& row : made_up_rows()) {
    if (row.workload.batch_size == 256) one_batch.push_back(row);
    if (row.workload.depth == 3 && row.workload.base_filters == 32) one_architecture.push_back(row);
  }
  for (const int batch : {48, 512}) {
    AggregateRow row = one_architecture.front();
    row.workload.batch_size = batch;
    row.avg_time_mean = made_up_time(row.workload, 0);
    one_architecture.push_back(row);
  }
  repeated = made_up_rows();
  AggregateRow twice = repeated.front();
  twice.avg_time_mean = 1.02 * *twice.avg_time_mean;
  repeated.push_back(twice);  // one key, two labels
  for (const auto* rows : {&one_batch, &one_architecture, &repeated}) {
    for (const char* kind : {"hybrid", "linear"}) {
      if (rows == &one_architecture && std::string(kind) == "linear" && rows->size() < 4) continue;
      const TimeRegressor model = TimeRegressor::fit(*rows, {.kind = kind, .seed = 0});
      for (const Workload& workload : {Workload::cifar_cnn(3, 32, 64), Workload::cifar_cnn(5, 128, 2048)}) {
        const Quantiles q = model.predict(workload).time_sec;
        EXPECT_TRUE(std::isfinite(q.p05) && std::isfinite(q.p95)) << kind;
        EXPECT_LT(q.p05, q.p95) << kind;
      }
    }
  }
}

TEST(TimeRegressor, FiveRowsGiveIntervalsToo) {
  const std::vector<AggregateRow> all = made_up_rows(0.02);
  std::mt19937_64 random(11);
  for (const std::size_t count : {5U, 6U, 7U}) {
    double inside = 0, asked = 0;
    for (int round = 0; round < 30; ++round) {
      std::vector<AggregateRow> rows = all;
      std::shuffle(rows.begin(), rows.end(), random);
      const TimeRegressor model = TimeRegressor::fit(std::span(rows).first(count));
      for (std::size_t i = count; i < rows.size(); ++i) {
        const Quantiles q = model.predict(rows[i].workload).time_sec;
        inside += *rows[i].avg_time_mean >= q.p05 && *rows[i].avg_time_mean <= q.p95 ? 1 : 0;
        asked += 1;
      }
    }
    EXPECT_GE(inside / asked, 0.75) << count;
  }
}

TEST(TimeRegressor, LinesFollowedTooFarStayFinite) {
  for (const double steepness : {-3.0, 3.0}) {
    std::vector<AggregateRow> rows;
    for (const int base : {16, 17, 18, 19, 20, 22}) {
      AggregateRow& row = rows.emplace_back();
      row.workload = Workload::cifar_cnn(2, base, 64);
      row.n = 1;
      row.avg_time_mean = std::exp(steepness * base) * (base == 22 ? 1.5 : 1);
    }
    const TimeRegressor model = TimeRegressor::fit(rows, {.kind = "linear", .seed = 0});
    const Prediction prediction = model.predict(Workload::cifar_cnn(2, 65'536, 64));
    for (const double sec : {prediction.time_sec.p05, prediction.time_sec.p50, prediction.time_sec.p95}) {
      EXPECT_TRUE(std::isfinite(sec) && sec > 0) << sec;
    }
    EXPECT_LT(prediction.time_sec.p05, prediction.time_sec.p50);
    EXPECT_LT(prediction.time_sec.p50, prediction.time_sec.p95);
    EXPECT_EQ(prediction.reason, Reason::width_out_of_range);
  }
}

TEST(TimeRegressor, BadModelFilesAreNamed) {
  const std::string file = scratch("bad");
  TimeRegressor::fit(made_up_rows()).save(file);
  const nlohmann::json good = nlohmann::json::parse(std::ifstream(file));
  const auto complaint = [&](const nlohmann::json& json) {
    std::ofstream(file) << json.dump();
    try {
      (void)TimeRegressor::load(file);
    } catch (const ModelError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  for (const char* name : {"format", "kind", "keys", "times_sec", "groups", "training_set"}) {
    nlohmann::json json = good;
    json.erase(name);
    EXPECT_THAT(complaint(json), testing::HasSubstr(name));
  }
  nlohmann::json json = good;
  json["format"] = 2;
  EXPECT_THAT(complaint(json), testing::HasSubstr("format 2"));
  json = good;
  json["groups"][0]["model"].erase("weights");
  EXPECT_THAT(complaint(json), testing::HasSubstr("weights"));
  EXPECT_THAT(complaint(nlohmann::json::array()), testing::HasSubstr("not a model file"));
  std::filesystem::remove(file);
  EXPECT_THROW((void)TimeRegressor::load(file), Error);
}

TEST(Suggest, FillsSpaceFromNothingAndNeverRepeats) {
  std::vector<Workload> grid;
  for (const AggregateRow& row : made_up_rows()) grid.push_back(row.workload);
  const std::vector<Suggestion> first = suggest({}, grid, 9);
  ASSERT_EQ(first.size(), 9U);
  std::set<int> depths, widths;
  std::set<std::string> keys;
  for (const Suggestion& suggestion : first) {
    EXPECT_FALSE(suggestion.cost_sec);
    depths.insert(*suggestion.workload.depth);
    widths.insert(*suggestion.workload.base_filters);
    keys.insert(suggestion.workload.key());
  }
  EXPECT_EQ(keys.size(), 9U);
  EXPECT_EQ(depths.size(), 3U);
  EXPECT_EQ(widths.size(), 3U);

  std::vector<AggregateRow> measured;
  for (const AggregateRow& row : made_up_rows()) {
    if (keys.count(row.workload.key()) != 0) measured.push_back(row);
  }
  const std::vector<Suggestion> next = suggest(measured, grid, 1000);
  EXPECT_EQ(next.size(), grid.size() - 9);
  for (const Suggestion& suggestion : next) {
    EXPECT_EQ(keys.count(suggestion.workload.key()), 0U);
    EXPECT_GT(suggestion.cost_sec.value_or(0), 10);
  }
}

TEST(Suggest, CountsTheRowsOfEachGroupThatTheGridNeeds) {
  const auto elsewhere = [](Workload& w) { w.device = "b"; };
  const std::vector<AggregateRow> all = made_up_rows();
  std::vector<Workload> grid, both;
  for (const AggregateRow& row : all) {
    grid.push_back(row.workload);
    both.push_back(row.workload);
    elsewhere(both.emplace_back(row.workload));
  }
  const std::vector<AggregateRow> known(all.begin(), all.begin() + 12);
  const std::vector<AggregateRow> few = as_group({all.begin(), all.begin() + 3}, 2, elsewhere);
  std::vector<AggregateRow> measured = known;
  measured.insert(measured.end(), few.begin(), few.end());

  // What the grid does not need changes nothing.
  const std::vector<Suggestion> alone = suggest(known, grid, 5), beside = suggest(measured, grid, 5);
  ASSERT_EQ(beside.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(beside[i].workload, alone[i].workload);
    EXPECT_EQ(beside[i].cost_sec, alone[i].cost_sec);
  }
  // The group with three rows lacks five for a model, then the other one's teaches something.
  const std::vector<Suggestion> next = suggest(measured, both, 1000);
  EXPECT_EQ(next.size(), both.size() - measured.size());
  std::set<std::string> keys;
  for (std::size_t i = 0; i < next.size(); ++i) {
    keys.insert(next[i].workload.key());
    const bool filling = i < 5 || i >= 5 + grid.size() - known.size();
    EXPECT_EQ(next[i].workload.device, filling ? "b" : "unknown") << i;
    EXPECT_EQ(next[i].cost_sec.has_value(), !filling) << i;
  }
  EXPECT_EQ(keys.size(), next.size());
  // Two groups without a model take turns.
  const std::vector<Suggestion> from_nothing = suggest({}, both, 4);
  EXPECT_EQ(std::count_if(from_nothing.begin(), from_nothing.end(),
                          [](const Suggestion& s) { return s.workload.device == "b"; }),
            2);
}

}  // namespace
}  // namespace perfpred
