// SPDX-License-Identifier: Apache-2.0
// answer(): what a C++ program gets is what perfpred-predict shows.
#include <perfpred/answer.h>
#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "../refusal.h"
#include "spawn.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

Workload job_on(const char* network, std::int64_t batch, const char* device) {
  Workload job = Workload::zoo(network, batch);
  job.device = device;
  return job;
}

std::string programs_answer(const Workload& job, std::vector<std::string> options = {}) {
  const std::vector<std::string> fields = {
      testing::program("predict"),    "--json",   "--network", job.network, "--batch-size",
      std::to_string(job.batch_size), "--device", job.device};
  options.insert(options.begin(), fields.begin(), fields.end());
  return testing::spawn(options).out;
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST(Answer, IsTheDocumentOfTheProgram) {
  const TimeRegressor model = TimeRegressor::standard();
  AnswerTerms terms;
  // What the options below leave out, of the fields whose other values an interval has to hold.
  terms.job.unstated = {"input", "train_images", "padding", "layout", "compiled", "software", "loader"};
  EXPECT_EQ(json_text(answer(model, job_on("resnet50", 64, "L4"), terms)) + "\n",
            programs_answer(job_on("resnet50", 64, "L4")));
  EXPECT_EQ(json_text(answer(model, job_on("gpt2", 64, "T4"), terms)) + "\n",
            programs_answer(job_on("gpt2", 64, "T4")));
  terms.job.epochs = 3;
  terms.job.price_per_hour = 0.5;
  EXPECT_EQ(json_text(answer(model, job_on("resnet50", 64, "L4"), terms)) + "\n",
            programs_answer(job_on("resnet50", 64, "L4"), {"--epochs", "3", "--price-per-hour", "0.5"}));
}

TEST(Answer, AJobOfSomeStepsTakesTheirTime) {
  const TimeRegressor model = TimeRegressor::standard();
  AnswerTerms terms;
  terms.max_steps = 1000;
  Workload pictures = job_on("resnet50", 64, "L4");
  pictures.train_images = 64 * 250;
  const Answer four_epochs = answer(model, pictures, terms);
  EXPECT_NEAR(four_epochs.forecast.total_sec.p50 / (4 * four_epochs.forecast.prediction.time_sec.p50), 1, 1e-12);
  const Answer words = answer(model, job_on("gpt2", 4, "L4"), terms);  // nobody stated an epoch
  EXPECT_NEAR(words.forecast.total_sec.p50 / (1000 * words.forecast.step_sec.p50), 1, 1e-9);
  const testing::Finished line =
      testing::spawn({testing::program("predict"), "--jsonl"},
                     R"({"network": "gpt2", "batch_size": 4, "device": "L4", "max_steps": 10, "epochs": 2})"
                     "\n");
  EXPECT_THAT(line.out, HasSubstr("epochs and max_steps are both given"));
  const testing::Finished unsized =
      testing::spawn({testing::program("predict"), "--jsonl"},
                     R"({"network": "gpt2", "device": "L4", "max_steps": 10})"
                     "\n"
                     R"({"network": "gpt2", "batch_size": 4, "device": "L4", "max_steps": 10})"
                     "\n");
  EXPECT_LT(unsized.exit_code, 128);  // no signal
  EXPECT_THAT(unsized.out, ::testing::AllOf(HasSubstr("batch_size is missing"), HasSubstr("total_sec")));
  terms.max_steps = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(testing::refusal([&] { (void)answer(model, pictures, terms); }), HasSubstr("are too many"));
}

TEST(Answer, TextsOfSeveralLengthsComeThroughEveryDoor) {
  const TemporaryFolder folder;
  const std::string path = folder.write("lengths.txt", "100\n200\n300\n900\n");
  AnswerTerms terms;
  terms.job.unstated = {"input", "train_images", "padding", "layout", "compiled", "software", "loader"};
  terms.lengths = TextLengths({900, 300, 200, 100});
  const Workload job = job_on("gpt2", 2, "T4");
  const std::string document = json_text(answer(TimeRegressor::standard(), job, terms)) + "\n";
  EXPECT_THAT(document, HasSubstr("\"max\": 900"));
  EXPECT_EQ(programs_answer(job, {"--lengths", path}), document);
  const testing::Finished lines =
      testing::spawn({testing::program("predict"), "--jsonl"},
                     R"({"network": "gpt2", "batch_size": 2, "device": "T4", "lengths": [900, 300, 200, 100]})"
                     "\n"
                     R"({"network": "gpt2", "batch_size": 2, "device": "T4", "lengths": [900, 1.5]})"
                     "\n");
  EXPECT_EQ(without_blanks(lines.out.substr(0, lines.out.find('\n'))), without_blanks(document));
  EXPECT_THAT(lines.out, HasSubstr("is not a list of whole numbers, a file, or mean=,p95=,max="));
  const std::string text = testing::spawn({testing::program("predict"), "--network", "gpt2", "--batch-size", "2",
                                           "--device", "T4", "--lengths", path})
                               .out;
  EXPECT_THAT(text, HasSubstr("\n  texts        4 of 375 words on average, 95 % of them up to 900, none above 900\n"));
  EXPECT_THAT(text, HasSubstr("% of them padding; memory is that of 900\n"));
}

TEST(Answer, AJobThatDoesNotFitComesWithWhatWould) {
  const TimeRegressor model = TimeRegressor::standard();
  const Workload job = job_on("resnet50", 512, "T4");
  const Answer too_large = answer(model, job);
  ASSERT_EQ(too_large.forecast.verdict, MemoryVerdict::does_not_fit);
  ASSERT_FALSE(too_large.advice.empty());
  for (const Advice& one : too_large.advice) {  // each change, made, is what the advice says
    Workload changed = job;
    std::string rest = one.change;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(';'), rest.size()), equals = rest.find('=');
      changed = with_field(changed, rest.substr(0, equals), rest.substr(equals + 1, end - equals - 1));
      rest.erase(0, end + 1);
    }
    const Answer then = answer(model, changed);
    EXPECT_EQ(then.forecast.verdict, one.verdict) << one.change;
    EXPECT_EQ(then.forecast.memory->peak_bytes, one.memory_bytes) << one.change;
    EXPECT_NEAR(too_large.forecast.images_per_sec.p50 / then.forecast.images_per_sec.p50, one.time_factor,
                1e-9 * one.time_factor)
        << one.change;
  }
  const Answer small = answer(model, job_on("resnet50", 8, "T4"));
  EXPECT_EQ(small.forecast.verdict, MemoryVerdict::fits);
  EXPECT_THAT(small.advice, IsEmpty());
  AnswerTerms brief;
  brief.advises = false;
  EXPECT_THAT(answer(model, job, brief).advice, IsEmpty());
  EXPECT_FALSE(answer(model, job, brief).forecast.largest_batch.has_value());
}

TEST(Answer, APriceIsThatOfTheTotalsHours) {
  const TemporaryFolder folder;
  const TimeRegressor model = TimeRegressor::standard();
  AnswerTerms terms;
  terms.prices =
      read_prices(folder.write("prices.csv", "device,price_per_hour,currency\nL4,0.8,EUR\n"), model.devices());
  const Answer priced = answer(model, job_on("resnet50", 64, "L4"), terms);
  EXPECT_NEAR(priced.forecast.price->p50, 0.8 * priced.forecast.total_sec.p50 / 3600, 1e-9);
  EXPECT_EQ(priced.currency, "EUR");
  EXPECT_FALSE(answer(model, job_on("resnet50", 64, "T4"), terms).forecast.price.has_value());
}

TEST(Answer, TokensSayTheEpochOfALanguageModel) {
  const TimeRegressor model = TimeRegressor::standard();
  const Workload gpt2 = job_on("gpt2", 4, "L4");
  const Answer without = answer(model, gpt2);
  EXPECT_THAT(without.left_out, ElementsAre(HasSubstr("train_images or train_tokens is not stated")));
  EXPECT_DOUBLE_EQ(without.sec().p50, without.forecast.step_sec.p50);
  AnswerTerms terms;
  terms.train_tokens = 1'000 * 4 * 1024;  // of a thousand steps of four texts of 1,024 tokens
  const Answer with = answer(model, gpt2, terms);
  EXPECT_EQ(with.workload.train_images, 4'000);
  EXPECT_NEAR(with.sec().p50, 1'000 * without.sec().p50, 1e-6 * with.sec().p50);
  EXPECT_EQ(testing::refusal([&] { (void)answer(model, job_on("resnet50", 64, "L4"), terms); }),
            "train_tokens is for networks of sequences; train_images says how many samples an epoch has");
  terms = {};
  terms.of_epochs = "budget_sec";
  EXPECT_THAT(testing::refusal([&] { (void)answer(model, gpt2, terms); }),
              HasSubstr("budget_sec needs train_images or train_tokens"));
}

}  // namespace
}  // namespace perfpred
