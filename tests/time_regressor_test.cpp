// SPDX-License-Identifier: Apache-2.0
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>

#include <Eigen/Dense>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <random>
#include <set>
#include <stop_token>

#include "made_up_rows.h"
#include "model/hybrid/hybrid.h"
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

/// Stands in for LibTorch, which this test does not link: one answer to everything.

class AnnOfOneAnswer {
 public:
  static constexpr double sec = 2;
  AnnOfOneAnswer() {
    set_ann_fitter([](const FeatureTask&) {
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

TEST(TimeRegressor, DropsBadLabelsOutsideTheSampleToo) {
  std::vector<AggregateRow> rows;
  for (const int batch : {32, 40, 48, 64, 96, 128, 200, 256, 320, 512, 700, 1024}) {
    for (const AggregateRow& one : made_up_rows(0.005, static_cast<std::uint64_t>(batch))) {
      if (one.workload.batch_size != 32) continue;
      AggregateRow& row = rows.emplace_back(one);
      row.workload.batch_size = batch;
      row.avg_time_mean = *one.avg_time_mean / made_up_time(one.workload, 0) * made_up_time(row.workload, 0);
    }
  }
  std::set<std::string> bad;
  for (std::size_t i = 5; i < rows.size(); i += 17) {
    rows[i].avg_time_mean = *rows[i].avg_time_mean * 1.4;
    bad.insert(rows[i].workload.key());
  }
  HybridConstants constants;
  constants.search_rows = 50;  // of 108
  std::set<std::string> dropped;
  for (const RejectedRow& row : fit_hybrid({rows, {}, 0}, constants)->dropped()) dropped.insert(row.key);
  EXPECT_EQ(dropped, bad);
}

TEST(TimeRegressor, AWideLabelCountsLittle) {
  std::vector<AggregateRow> rows = made_up_rows();
  for (AggregateRow& row : rows) row.epoch_rel_sem = 0.002;
  AggregateRow& off = rows[17];
  const double good = *off.avg_time_mean;
  const auto predict = [&] { return TimeRegressor::fit(rows).predict(off.workload).time_sec; };
  off.avg_time_mean = 1.2 * good;
  EXPECT_EQ(TimeRegressor::fit(rows).dropped().size(), 1U);
  off.epoch_rel_sem = 0.1;
  EXPECT_TRUE(TimeRegressor::fit(rows).dropped().empty());
  EXPECT_NEAR(predict().p50 / good, 1, 0.02);
  // The same by what its runs show, where they are flagged.
  off.epoch_rel_sem = 0.002;
  off.n = 3;
  off.avg_time_std = 0.3 * good;
  off.flags.disagree = true;
  EXPECT_TRUE(TimeRegressor::fit(rows).dropped().empty());
  EXPECT_NEAR(predict().p50 / good, 1, 0.03);
}

TEST(TimeRegressor, RowsOfOneKeyArePooled) {
  std::vector<AggregateRow> rows = made_up_rows(0);
  rows.push_back(rows[3]);
  rows.back().env = "container";
  rows.back().n = 3;
  rows.back().avg_time_mean = 1.008 * *rows[3].avg_time_mean;
  const std::vector<AggregateRow> fitted = TimeRegressor::fit(rows).fitted_rows();
  EXPECT_EQ(fitted.size(), rows.size() - 1);
  for (const AggregateRow& row : fitted) {
    if (row.workload != rows[3].workload) continue;
    EXPECT_EQ(row.n, 4);
    EXPECT_NEAR(*row.avg_time_mean / *rows[3].avg_time_mean, 1.006, 1e-12);
  }
}

TEST(TimeRegressor, AFitShowsProgressAndCanBeStopped) {
  std::vector<double> shares;
  FitOptions options;
  std::stop_source stop;
  options.stop = stop.get_token();
  options.progress = [&](double share) { shares.push_back(share); };
  (void)TimeRegressor::fit(made_up_rows(), options);
  ASSERT_GT(shares.size(), 5U);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_GE(shares.front(), 0);
  EXPECT_EQ(shares.back(), 1);
  options.progress = [&](double share) {
    if (share > 0.3) stop.request_stop();
    EXPECT_LT(share, 0.9);
  };
  EXPECT_THAT([&] { (void)TimeRegressor::fit(made_up_rows(), options); },
              testing::ThrowsMessage<Error>("the fit was stopped"));
}

TEST(TimeRegressor, OneCallAnswersForSeveralDevices) {
  const std::vector<AggregateRow> rows = made_up_rows();
  std::vector<AggregateRow> all = as_group(rows, 1, [](Workload& w) { w.device = "a gpu"; });
  for (const AggregateRow& row : as_group(rows, 5, [](Workload& w) { w.device = "a cpu", w.threads = 4; }))
    all.push_back(row);
  const TimeRegressor model = TimeRegressor::fit(all);
  Workload job = Workload::cifar_cnn(3, 32, 128);
  job.device = "a gpu";
  const std::vector<std::string> devices = {"a cpu", "a gpu", "another"};
  const std::vector<Prediction> answers = model.predict_on(job, devices);
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].reason, DomainViolation::none);
  EXPECT_EQ(answers[1].reason, DomainViolation::none);
  EXPECT_EQ(answers[2].reason, DomainViolation::other_device);
  EXPECT_TRUE(same(answers[1].time_sec, model.predict(job).time_sec));
  EXPECT_NEAR(answers[0].time_sec.p50 / answers[1].time_sec.p50, 5, 0.2);
}

TEST(TimeRegressor, OnlyKindsThatChooseByValidationRowsKeepThemOutOfTheFit) {
  const AnnOfOneAnswer ann;
  for (const auto& [kind, uses] : {std::pair("hybrid", false), std::pair("linear", false), std::pair("ann", true)})
    EXPECT_EQ(TimeRegressor::fit(made_up_rows(), {.kind = kind, .seed = 0}).uses_validation(), uses) << kind;
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
  EXPECT_EQ(model.predict(known).reason, DomainViolation::none);
  EXPECT_EQ(reason([](Workload& w) { w.depth = 5; }), DomainViolation::depth_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.base_filters = 128; }), DomainViolation::width_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.batch_size = 4096; }), DomainViolation::batch_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.input = {3, 64, 64}; }), DomainViolation::size_out_of_range);
  EXPECT_EQ(reason([](Workload& w) { w.device = "another"; }), DomainViolation::other_device);
  EXPECT_EQ(reason([](Workload& w) { w.precision = Precision::fp16; }), DomainViolation::other_precision);
  EXPECT_EQ(reason([](Workload& w) { w.optimizer = Optimizer::sgd; }), DomainViolation::other_optimizer);
  EXPECT_EQ(reason([](Workload& w) { w.layout = Layout::nhwc; }), DomainViolation::other_layout);
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
  EXPECT_EQ(model.predict(zoo).reason, DomainViolation::other_network);
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
    const auto expect = [&](double factor, DomainViolation reason, const auto& change) {
      Workload asked = Workload::cifar_cnn(2, 32, 256);
      change(asked);
      for (const TimeRegressor* one : {&model, &again}) {
        const Prediction prediction = one->predict(asked);
        EXPECT_NEAR(std::log(prediction.time_sec.p50 / made_up_time(Workload::cifar_cnn(2, 32, 256), 0)),
                    std::log(factor), 0.5)
            << kind << " " << asked.key();
        EXPECT_EQ(prediction.reason, reason) << kind << " " << asked.key();
      }
      if (reason == DomainViolation::none || model.kind() != "hybrid") return;
      const UpdateResult observed = model.observe(std::vector<perfpred::Run>{run_of(asked, 1)});
      ASSERT_EQ(observed.rejected.size(), 1U);
      EXPECT_EQ(observed.rejected[0].reason, to_string(reason));
    };
    expect(1, DomainViolation::none, [](Workload& w) { w.device = "a"; });
    expect(3, DomainViolation::none, [](Workload& w) { w.device = "b", w.precision = Precision::fp16; });
    expect(9, DomainViolation::other_optimizer, [](Workload& w) { w.device = "b"; });
    expect(9, DomainViolation::other_layout,
           [](Workload& w) { w.device = "b", w.optimizer = Optimizer::sgd, w.layout = Layout::nhwc; });
    expect(3, DomainViolation::other_optimizer,
           [](Workload& w) { w.device = "b", w.precision = Precision::fp16, w.optimizer = Optimizer::rmsprop; });
    expect(27, DomainViolation::other_precision,  // as many rows as the one of fp32; its key comes first
           [](Workload& w) { w.device = "b", w.precision = Precision::bf16, w.optimizer = Optimizer::sgd; });
    expect(1, DomainViolation::other_precision, [](Workload& w) { w.device = "a", w.precision = Precision::fp16; });
    expect(1, DomainViolation::other_device, [](Workload& w) { w.device = "c"; });
    expect(3, DomainViolation::other_device, [](Workload& w) { w.device = "c", w.precision = Precision::fp16; });
    expect(1, DomainViolation::other_device, [](Workload& w) { w.device = "b", w.threads = 2; });
  }
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
  EXPECT_EQ(TimeRegressor::fit(rows, {.kind = "linear", .seed = 0}, val).predict(asked).reason, DomainViolation::none);
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
    const Prediction expected = TimeRegressor::fit(rows, {.kind = kind, .seed = 5}).predict(rows[0].workload);
    std::vector<AggregateRow> shuffled = rows;
    for (int round = 0; round < 3; ++round) {
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      const Prediction got = TimeRegressor::fit(shuffled, {.kind = kind, .seed = 5}).predict(rows[0].workload);
      EXPECT_EQ(got.model_id, expected.model_id) << kind;
      EXPECT_TRUE(same(got.time_sec, expected.time_sec)) << kind;
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
    EXPECT_EQ(prediction.reason, DomainViolation::width_out_of_range);
  }
}

}  // namespace
}  // namespace perfpred
