// SPDX-License-Identifier: Apache-2.0
#include <perfpred/answer.h>
#include <perfpred/text_lengths.h>
#include <perfpred/time_regressor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <vector>

#include "refusal.h"

namespace perfpred {
namespace {

using testing::refusal;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<std::int64_t> one_to(std::int64_t n) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(n));
  std::iota(lengths.begin(), lengths.end(), 1);
  return lengths;
}

/// Lengths as posts have them.
std::vector<std::int64_t> drawn(std::size_t count) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> log_length(5.5, 0.7);
  std::vector<std::int64_t> lengths(count);
  for (std::int64_t& length : lengths)
    length = std::clamp<std::int64_t>(std::llround(std::exp(log_length(random))), 1, 2048);
  return lengths;
}

TEST(TextLengths, SaysTheirMeanQuantilesAndNumber) {
  const TextLengths lengths({30, 10, 20, 40});
  EXPECT_EQ(lengths.texts(), 4);
  EXPECT_EQ(lengths.mean(), 25);
  EXPECT_EQ(lengths.quantile(0.5), 20);  // by nearest rank
  EXPECT_EQ(lengths.quantile(0.95), 40);
  EXPECT_EQ(lengths.longest(), 40);
  EXPECT_EQ(lengths.cut(25).longest(), 25);
  EXPECT_EQ(lengths.cut(25).mean(), 20);
}

TEST(TextLengths, ABatchIsAsWideAsItsLongestText) {
  const TextLengths lengths(one_to(10'000));
  EXPECT_NEAR(mean(lengths.widths(1, false)), 5000, 50);
  for (const std::int64_t batch : {2, 8, 64}) {  // of uniform numbers up to n the largest of b is n b / (b + 1)
    const auto b = static_cast<double>(batch);
    EXPECT_NEAR(mean(lengths.widths(batch, false)) / (10'000 * b / (b + 1)), 1, 0.01) << batch;
    EXPECT_TRUE(std::ranges::is_sorted(lengths.widths(batch, false)));
  }
}

TEST(TextLengths, FewTextsComeOnceEach) {
  // The six pairs of four texts.
  EXPECT_NEAR(mean(TextLengths({100, 200, 300, 900}).widths(2, false)), (200 + 2 * 300 + 3 * 900) / 6.0, 6);
  EXPECT_EQ(mean(TextLengths({100, 200, 300, 900}).widths(4, false)), 900);
  EXPECT_EQ(mean(TextLengths({100, 200, 300, 900}).widths(64, false)), 900);
  EXPECT_EQ(mean(TextLengths({100, 200, 300, 900}).widths(2, true)), (200 + 900) / 2.0);
}

TEST(TextLengths, GroupedTextsAreSortedFiftyBatchesAtATime) {
  const std::vector<std::int64_t> texts = drawn(40'000);
  for (const std::size_t batch : {4U, 16U}) {
    std::vector<double> tops;
    for (std::size_t begin = 0; begin + 50 * batch <= texts.size(); begin += 50 * batch) {
      const auto at = texts.begin() + static_cast<std::ptrdiff_t>(begin);
      std::vector<std::int64_t> part(at, at + static_cast<std::ptrdiff_t>(50 * batch));
      std::ranges::sort(part);
      for (std::size_t k = 1; k <= 50; ++k) tops.push_back(static_cast<double>(part[k * batch - 1]));
    }
    EXPECT_NEAR(mean(TextLengths(texts).widths(static_cast<std::int64_t>(batch), true)) / mean(tops), 1, 0.02) << batch;
  }
}

TEST(TextLengths, ASummaryStandsForLengthsLikeThose) {
  const TextLengths all(drawn(100'000));
  const TextLengths summary =
      TextLengths::parse("mean=" + std::to_string(all.mean()) + ",p95=" + std::to_string(all.quantile(0.95)) +
                         ",max=" + std::to_string(all.longest()));
  EXPECT_EQ(summary.texts(), std::nullopt);
  EXPECT_NEAR(summary.mean() / all.mean(), 1, 0.005);
  EXPECT_NEAR(static_cast<double>(summary.quantile(0.95)) / static_cast<double>(all.quantile(0.95)), 1, 0.005);
  EXPECT_EQ(summary.longest(), all.longest());
  for (const std::int64_t batch : {2, 16}) {
    EXPECT_NEAR(mean(summary.widths(batch, false)) / mean(all.widths(batch, false)), 1, 0.03) << batch;
    EXPECT_NEAR(mean(summary.widths(batch, true)) / mean(all.widths(batch, true)), 1, 0.03) << batch;
  }
}

TEST(TextLengths, WhatIsNoLengthIsSaidInALine) {
  const auto parse = [](const char* text) { return refusal([&] { (void)TextLengths::parse(text); }); };
  const std::string path = ::testing::TempDir() + "/lengths_of_a_test.txt";
  const auto of_file = [&](const char* text) {
    std::ofstream(path) << text;
    return parse(path.c_str());
  };
  EXPECT_EQ(of_file("12\n7\r\n3"), "");
  EXPECT_EQ(of_file("12\n0\n"), path + ":2: length \"0\" is not a positive integer");
  EXPECT_EQ(of_file("length\n12\n"), path + ":1: length \"length\" is not a positive integer");
  EXPECT_EQ(of_file(""), path + ": has no lengths");
  EXPECT_EQ(parse("mean=300,p95=900"), "lengths mean=300,p95=900 lack max=");
  EXPECT_EQ(parse("mean=300,p95=200,max=900"),
            "lengths mean=300,p95=200,max=900: 1 <= mean <= p95 <= max does not hold");
  EXPECT_EQ(parse("mean=300,p99=200,max=900"),
            "lengths \"mean=300,p99=200,max=900\" is not a file, or mean=,p95=,max=");
  EXPECT_THAT(parse("mean=300,p95=301,max=1000000"), ::testing::HasSubstr("name a file of them"));
  EXPECT_EQ(refusal([] { TextLengths({}); }), "lengths are none");
  EXPECT_EQ(refusal([] { TextLengths({5, -1}); }), "length -1 is not between 1 and 2^40");
}

/// Fine-tuning of a language model by texts.
struct FineTuning {
  TimeRegressor model = TimeRegressor::standard();
  Workload workload;
  AnswerTerms terms;

  explicit FineTuning(std::vector<std::int64_t> lengths) {
    workload.network = "llama3_8b";
    workload.input = {2048};
    workload.classes = 128'256;
    workload.batch_size = 4;
    workload.device = "A100-SXM4-80GB";
    workload.precision = Precision::bf16;
    workload.weights = Weights::bf16;
    workload.adapter = "lora:r=16,targets=all";
    workload.checkpoint = -1;
    workload.optimizer = Optimizer::adamw;
    workload.train_images = EpochSamples::unstated(50'000);
    terms.lengths = TextLengths(std::move(lengths));
    terms.job.unstated = {"input", "padding", "train_images"};
  }

  [[nodiscard]] Answer answer() const { return perfpred::answer(model, workload, terms); }

  /// Without several lengths.
  [[nodiscard]] Answer of(std::int64_t words, Padding padding = Padding::padded) const {
    Workload one = workload;
    one.input = {words};
    one.padding = padding;
    return perfpred::answer(model, one);
  }
};

TEST(TextsOfManyLengths, OfOneLengthAreTheJobOfThatLength) {
  const FineTuning job(std::vector<std::int64_t>(1000, 700));
  const Answer answer = job.answer(), same = job.of(700);
  EXPECT_NEAR(answer.forecast.step_sec.p50 / same.forecast.step_sec.p50, 1, 1e-12);
  EXPECT_EQ(answer.forecast.memory->peak_bytes, same.forecast.memory->peak_bytes);
  EXPECT_EQ(answer.forecast.largest_batch, same.forecast.largest_batch);
  ASSERT_TRUE(answer.texts);
  EXPECT_EQ(answer.texts->texts, 1000);
  EXPECT_EQ(answer.texts->padding_share, 0);
  EXPECT_NEAR(answer.forecast.prediction.time_sec.p50 / (250 * answer.forecast.step_sec.p50), 1, 1e-9);
  EXPECT_NEAR(answer.forecast.tokens_per_sec->p50 / (700 * answer.forecast.images_per_sec.p50), 1, 1e-12);
}

TEST(TextsOfManyLengths, TakeTheTimeOfTheirBatchesAndTheMemoryOfTheLongest) {
  const std::vector<std::int64_t> texts = drawn(4000);
  const FineTuning job(texts);
  const Answer answer = job.answer();
  // The epoch of a trainer, batch by batch.
  std::vector<std::int64_t> order = texts;
  std::mt19937_64 random(1);
  std::shuffle(order.begin(), order.end(), random);
  double sec = 0;
  for (std::size_t begin = 0; begin < order.size(); begin += 4) {
    const auto at = order.begin() + static_cast<std::ptrdiff_t>(begin);
    Workload step = job.workload;
    step.input = {*std::max_element(at, at + 4)};
    step.padding = Padding::padded;
    step.train_images = 4;
    sec += job.model.predict(step).time_sec.p50;
  }
  EXPECT_NEAR(answer.forecast.prediction.time_sec.p50 / sec, 1, 0.02);
  const std::int64_t longest = *std::ranges::max_element(texts);
  EXPECT_EQ(answer.texts->longest, longest);
  const Answer of_longest = job.of(longest);
  EXPECT_EQ(answer.forecast.memory->device.upper, of_longest.forecast.memory->device.upper);
  EXPECT_EQ(answer.forecast.verdict, of_longest.forecast.verdict);
  EXPECT_EQ(answer.forecast.largest_batch, of_longest.forecast.largest_batch);
  EXPECT_THAT(answer.assumed, ::testing::ElementsAre("padding"));
  EXPECT_THAT(answer.left_out, ::testing::IsEmpty());
}

TEST(TextsOfManyLengths, GroupingAndPackingSavePadding) {
  FineTuning job(drawn(4000));
  const Answer shuffled = job.answer();
  job.terms.group_by_length = true;
  const Answer grouped = job.answer();
  EXPECT_LT(grouped.texts->padding_share, shuffled.texts->padding_share / 2);
  EXPECT_LT(grouped.forecast.total_sec.p50, shuffled.forecast.total_sec.p50);
  EXPECT_EQ(grouped.forecast.memory->peak_bytes, shuffled.forecast.memory->peak_bytes);
  job.terms.group_by_length = false;
  job.terms.job.unstated = {"train_images"};  // input: 2,048 words of texts one after the other
  job.workload.padding = Padding::packed;
  const Answer packed = job.answer();
  const double words = 4000 * packed.texts->mean;
  EXPECT_EQ(packed.workload.train_images, std::llround(std::ceil(words / 2048)));
  EXPECT_NEAR(packed.forecast.step_sec.p50 / job.of(2048, Padding::packed).forecast.step_sec.p50, 1, 1e-12);
  EXPECT_NEAR(packed.forecast.tokens_per_sec->p50 / (2048 * packed.forecast.images_per_sec.p50), 1, 1e-12);
  // What the padded job says that packing would save, at the length of its longest text.
  EXPECT_NEAR(packed.forecast.total_sec.p50 / shuffled.forecast.total_sec.p50, *shuffled.texts->packed_time_factor,
              0.03);
  EXPECT_LT(*shuffled.texts->packed_time_factor, 1);
  EXPECT_THAT(packed.assumed, ::testing::IsEmpty());
  job.terms.job.unstated = {"input", "train_images"};
  EXPECT_THAT(job.answer().assumed, ::testing::ElementsAre("input"));  // the lengths do not say it
}

TEST(TextsOfManyLengths, PaddedToOneLengthAllBatchesHaveIt) {
  FineTuning job(drawn(4000));
  job.workload.padding = Padding::max;
  job.terms.job.unstated = {"train_images"};
  const Answer answer = job.answer();
  EXPECT_EQ(answer.texts->width, 2048);
  EXPECT_NEAR(answer.forecast.step_sec.p50 / job.of(2048, Padding::max).forecast.step_sec.p50, 1, 1e-12);
  EXPECT_NEAR(answer.texts->padding_share, 1 - answer.texts->mean / 2048, 1e-12);
}

TEST(TextsOfManyLengths, AnEpochOfSomeWordsHasTheTextsThatHoldThem) {
  FineTuning job(drawn(4000));
  job.terms.train_tokens = 50'000'000;
  const Answer answer = job.answer();
  EXPECT_NEAR(static_cast<double>(*answer.texts->texts) * answer.texts->mean, 50e6, answer.texts->mean);
  job.terms.train_tokens.reset();
  job.terms.lengths = TextLengths::parse("mean=300,p95=800,max=2048");
  EXPECT_FALSE(job.answer().workload.knows_epoch());
}

TEST(TextsOfManyLengths, AreForNetworksOfTextsOnly) {
  FineTuning job(drawn(100));
  job.terms.group_by_length = true;
  job.terms.job.unstated = {"train_images"};
  job.workload.padding = Padding::max;
  EXPECT_THAT(refusal([&] { (void)job.answer(); }), ::testing::StartsWith("group_by_length is for padding=padded"));
  FineTuning pictures(drawn(100));
  pictures.workload = Workload();
  pictures.workload.network = "resnet50";
  pictures.workload.input = {3, 224, 224};
  pictures.workload.device = "T4";
  EXPECT_EQ(refusal([&] { (void)pictures.answer(); }),
            "lengths are of texts; network resnet50 has samples of one size");
}

}  // namespace
}  // namespace perfpred
