// SPDX-License-Identifier: Apache-2.0
// Logs that other software wrote become runs. tests/data/logs/README.md says which software wrote the files there;
// expected values were computed from them by Python's csv, json and statistics, and by tensorboard's own reader.
#include <perfpred/error.h>
#include <perfpred/training_log.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "refusal.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;
using testing::slurp;
using testing::TemporaryFolder;

std::string sample(const std::string& name) { return PERFPRED_SOURCE_DIR "/tests/data/logs/" + name; }

/// All that a log may leave out, but for `without`.
RunFacts facts(const std::string& without = {}) {
  RunFacts known;
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{{"network", "resnet18"},
                                                                                   {"batch_size", "32"},
                                                                                   {"train_images", "512"},
                                                                                   {"optimizer", "sgd"},
                                                                                   {"precision", "fp32"},
                                                                                   {"device", "T4"}}) {
    if (without.find(name) == std::string::npos) known.fields.emplace_back(name, text);
  }
  return known;
}

void expect_refusal(const std::string& path, const RunFacts& known, const std::string& what) {
  EXPECT_THAT(refusal([&] { (void)read_training_log(path, known); }), AllOf(HasSubstr(what), HasSubstr(path)));
}

TEST(TrainingLog, OfKerasHasTheEpochsThatACallbackTimed) {
  const auto run = read_training_log(sample("keras.csv"), facts());
  EXPECT_EQ(run.framework, "keras");
  EXPECT_EQ(run.epochs, 4);
  EXPECT_THAT(run.epoch_times, ::testing::ElementsAre(0.39996804800102836, 0.33160961199973826, 0.5080236110006808,
                                                      0.38371499099957873));
  EXPECT_DOUBLE_EQ(*run.avg_time_sec, 0.40778273799999926);
  EXPECT_DOUBLE_EQ(*run.images_per_sec, 512 / 0.40778273799999926);
  EXPECT_EQ(run.test_acc, 0.09375);
  EXPECT_EQ(run.timing, Timing::epochs);
  EXPECT_EQ(run.timestamp_utc, "");
  expect_refusal(sample("keras_untimed.csv"), facts(), "writes no times; log a column epoch_time");
}

TEST(TrainingLog, TakesTheWorkloadFromWhatIsKnownAndTheZoo) {
  const Workload workload = read_training_log(sample("keras.csv"), facts()).workload;
  Workload expected = Workload::zoo("resnet18", 32);
  expected.train_images = 512;
  expected.optimizer = Optimizer::sgd;
  expected.precision = Precision::fp32;
  expected.device = "T4";
  EXPECT_EQ(workload, expected);
  EXPECT_EQ(read_training_log(sample("keras.csv"), facts()).params, 11'689'512);  // torchvision's documentation
}

TEST(TrainingLog, OfUltralyticsHasDifferencesOfTimes) {
  const auto run = read_training_log(sample("ultralytics.csv"), facts());
  ASSERT_EQ(run.epoch_times.size(), 4U);
  const std::vector<double> expected = {1.7258, 2.62638 - 1.7258, 3.53832 - 2.62638, 5.06254 - 3.53832};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(run.epoch_times[i], expected[i], 1e-12);
  EXPECT_NEAR(*run.avg_time_sec, (5.06254 - 1.7258) / 3, 1e-12);
  EXPECT_EQ(run.test_acc, 0.5);
  EXPECT_EQ(run.note, "epochs include validation");
}

TEST(TrainingLog, OfLightningHasTheMedianBatchOfItsThroughputMonitor) {
  const auto run = read_training_log(sample("lightning.csv"), facts("batch_size"));
  EXPECT_EQ(run.workload.batch_size, 32);  // train/samples over train/batches
  EXPECT_EQ(run.timing, Timing::steps);
  EXPECT_NEAR(*run.avg_time_sec, 0.05612889159965562 * 16, 1e-12);
  EXPECT_EQ(run.test_acc, 0.794921875);
  EXPECT_EQ(run.epochs, 4);
  RunFacts accumulated = facts();  // the times are of batches
  accumulated.fields.emplace_back("accumulate", "2");
  EXPECT_NEAR(*read_training_log(sample("lightning.csv"), accumulated).avg_time_sec, 0.05612889159965562 * 16, 1e-12);
  expect_refusal(sample("lightning_untimed.csv"), facts(), "no column train/time");
}

TEST(TrainingLog, AsksForWhatNobodySaysAndRefusesWhatIsSaidTwice) {
  const TemporaryFolder folder;
  const std::string log = sample("lightning.csv");
  expect_refusal(log, {}, "does not say network, train_images, optimizer, precision, device: give them");
  expect_refusal(log, facts("device"), "does not say device: give it");
  RunFacts other = facts("batch_size");
  other.fields.emplace_back("batch_size", "64");
  expect_refusal(log, other, "says batch_size 32, but 64 was given");
  RunFacts own = facts("network");
  own.fields.emplace_back("network", "my_network");
  expect_refusal(log, own, "does not say input, classes of a network of its own (the zoo has no my_network)");
  own.fields.emplace_back("input", "3x8x8");
  own.fields.emplace_back("classes", "7");
  expect_refusal(log, own, "does not say params of a network of its own: give it");
  own.params = 1234;
  const auto run = read_training_log(log, own);
  EXPECT_EQ(run.workload.network, "my_network");
  EXPECT_EQ(run.workload.classes, 7);
  EXPECT_EQ(run.params, 1234);
  RunFacts wrong = facts("device");
  wrong.fields.emplace_back("device", "T4;x");
  expect_refusal(log, wrong, "device");
}

/// The text with the first `from` replaced; fails if there is none.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

TEST(TrainingLog, TablesThatAreDamagedAreRefusedAtTheirPlace) {
  const TemporaryFolder folder;
  const std::string keras = slurp(sample("keras.csv")), yolo = slurp(sample("ultralytics.csv")),
                    lightning = slurp(sample("lightning.csv"));
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {with(keras, "0.33160961199973826", "nan"), ":3: epoch_time"},
           {with(keras, "0.33160961199973826", "-1"), ":3: epoch_time"},
           {with(keras, "0.33160961199973826", "soon"), ":3: epoch_time"},
           {with(keras, "0.33160961199973826", ""), ":3: epoch_time"},
           {with(keras, "\n2,", "\n0,"), ":4: epoch \"0\" is not above 1 of the row before"},
           {with(keras, "\n2,", "\n2,3,"), ":4: "},
           {keras.substr(0, keras.find("\n1,") + 1), "times 1 epochs; two are needed"},
           {keras.substr(0, keras.find('\n') + 1), "times 0 epochs"},
           {with(keras, "0,0.1", std::string("0,\xff\xfe") + '\0'), ":2: holds a NUL byte"},
           {with(yolo, "2.62638", "1.5"), ":3: time \"1.5\" is not above 1.7258"},
           {with(yolo, ",time,", ",times,"), "has no column time"},
           {with(lightning, "0.5525234420019842", "0.1"), "time does not go on to step 10"},
           {lightning.substr(0, lightning.find("\n0,14,15")), "logs 2 points in time"},
           {"", "is empty"},
           {"a,b\n1,2\n", "is no log of TensorBoard, "},
           {"\xff\xfe\x00\x01", "is no log of"},
           {"timestamp_utc,avg_time_sec\n", "is a table of runs, not a log"},
       }) {
    expect_refusal(folder.write("log.csv", text), facts(), what);
  }
  expect_refusal(folder.file("none"), facts(), "No such file or directory");
  expect_refusal(folder.path(), facts(), "");
}

TEST(TrainingLog, ALastLineThatIsBeingWrittenCountsAsNotWritten) {
  const TemporaryFolder folder;
  const std::string keras = slurp(sample("keras.csv"));
  const auto run = read_training_log(folder.write("log", keras.substr(0, keras.find("\n3,") + 6)), facts());
  EXPECT_EQ(run.epochs, 3);
  std::string crlf = "\xEF\xBB\xBF";
  for (const char c : keras) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(read_training_log(folder.write("crlf", crlf), facts()).epochs, 4);
}

TEST(TrainingLog, AnAccuracyInPercentIsLeftOut) {
  const TemporaryFolder folder;
  const std::string text = with(slurp(sample("keras.csv")), "0.09375,3.11", "9.375,3.11");
  EXPECT_EQ(read_training_log(folder.write("log", text), facts()).test_acc, std::nullopt);
}

TEST(TrainingLog, OfFastaiHasWholeSeconds) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_training_log(sample("fastai.csv"), facts()).epoch_times, ::testing::ElementsAre(2, 2, 2, 2));
  const std::string head = "epoch,train_loss,valid_loss,accuracy,time\n";
  const std::string long_ones = head + "0,1,1,0.25,01:40\n1,1,1,0.5,1:00:05\n2,1,1,0.75,00:55\n";
  const auto run = read_training_log(folder.write("history.csv", long_ones), facts());
  EXPECT_THAT(run.epoch_times, ::testing::ElementsAre(100, 3605, 55));
  EXPECT_EQ(run.test_acc, 0.75);
  expect_refusal(folder.write("short", head + "0,1,1,0.2,00:00\n"), facts(),
                 ":2: time \"00:00\" is not at least a second");
  expect_refusal(folder.write("bad", head + "0,1,1,0.2,00:xx\n"), facts(), ":2: time");
}

TEST(TrainingLog, OfMlperfHasItsEpochsWithoutEvaluations) {
  const auto run = read_training_log(sample("mlperf.log"), facts("network batch_size train_images"));
  EXPECT_THAT(run.epoch_times, ::testing::Pointwise(::testing::DoubleNear(1e-6), {0.562, 0.573, 0.474, 0.512}));
  EXPECT_NEAR(*run.avg_time_sec, 0.5196666666666666, 1e-6);
  EXPECT_EQ(run.workload.network, "resnet50");  // the benchmark `resnet`
  EXPECT_EQ(run.workload.batch_size, 32);
  EXPECT_EQ(run.workload.train_images, 512);
  EXPECT_EQ(run.timestamp_utc, "2026-11-28T14:00:40.462Z");
  EXPECT_EQ(run.test_acc, 0.833984375);
  EXPECT_EQ(run.outcome, Outcome::ok);
}

TEST(TrainingLog, OfMlperfLeavesEvaluationsWithinAnEpochOut) {
  const TemporaryFolder folder;
  std::string log;
  for (const auto& [key, ms] : std::vector<std::pair<std::string, int>>{{"run_start", 0},
                                                                        {"epoch_start", 1000},
                                                                        {"eval_start", 2000},
                                                                        {"eval_stop", 2500},
                                                                        {"epoch_stop", 4000},
                                                                        {"eval_start", 4000},
                                                                        {"eval_stop", 4700},
                                                                        {"epoch_start", 5000},
                                                                        {"epoch_stop", 7250}}) {
    log += ":::MLLOG {\"key\": \"" + key + "\", \"value\": null, \"time_ms\": " + std::to_string(ms) + "}\n";
  }
  EXPECT_THAT(read_training_log(folder.write("log", log), facts()).epoch_times, ::testing::ElementsAre(2.5, 2.25));
  expect_refusal(folder.write("log", with(log, "7250", "4999")), facts(), "the epoch ends before it begins");
  expect_refusal(folder.write("log", with(log, "2500", "1999")), facts(), "the evaluation ends before it begins");
}

TEST(TrainingLog, OfMlperfIsReadBehindPrefixesAndRefusedWhereItContradictsItself) {
  const TemporaryFolder folder;
  const std::string log = slurp(sample("mlperf.log"));
  const RunFacts known = facts("network batch_size train_images");
  std::string prefixed;
  for (const char c : log) prefixed += c == ':' && prefixed.ends_with('\n') ? "0: :" : std::string(1, c);
  EXPECT_EQ(read_training_log(folder.write("log", "torchrun\n" + prefixed), known).epochs, 4);
  const std::string twice =
      with(log, R"("gradient_accumulation_steps", "value": 1)", R"("gradient_accumulation_steps", "value": 2)");
  const Workload accumulated = read_training_log(folder.write("log", twice), known).workload;
  EXPECT_EQ(accumulated.batch_size, 16);
  EXPECT_EQ(accumulated.accumulate, 2);
  const std::size_t stop = log.rfind("\n", log.find("run_stop"));
  EXPECT_EQ(read_training_log(folder.write("log", log.substr(0, stop + 1)), known).outcome, Outcome::interrupted);
  EXPECT_EQ(read_training_log(folder.write("log", log.substr(0, stop + 40)), known).outcome, Outcome::interrupted);

  const std::string third = log.substr(log.rfind('\n', log.find("epoch_start")) + 1, 40);
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {log + log, "a second run_start"},
           {log.substr(0, log.find("epoch_stop")), "has no epoch_start with its epoch_stop"},
           {with(log, "\"epoch_stop\"", "\"epoch_start\""), "a second epoch_start before an epoch_stop"},
           {with(log, R"("global_batch_size", "value": 32)", R"("global_batch_size", "value": -1)"),
            "global_batch_size \"-1\" is not a positive integer"},
           {with(log, R"("train_samples", "value": 512)", R"("train_samples", "value": "many")"), "train_samples"},
           {with(log, third, ":::MLLOG {\n" + third), "is not a JSON object behind :::MLLOG"},
           {with(log, third, ":::MLLOG {}\n" + third), "key"},
           {":::MLLOG " + std::string(200, '[') + "\n", "nested"},
       }) {
    expect_refusal(folder.write("log", text), known, what);
  }
}

TEST(TrainingLog, OfTransformersHasTheStepsWithoutEvaluations) {
  const auto run = read_training_log(sample("trainer_state.json"), facts("batch_size train_images"));
  EXPECT_EQ(run.timing, Timing::steps);
  EXPECT_EQ(run.workload.batch_size, 16);
  EXPECT_EQ(run.workload.train_images, 200);
  EXPECT_NEAR(*run.avg_time_sec, (7.0727 - 0.6562) / 39 * 13, 1e-9);
  EXPECT_EQ(run.epochs, 3);
  EXPECT_EQ(run.test_acc, 0.234375);
}

TEST(TrainingLog, OfTransformersAsksWhereRoundedRatesDoNotDecide) {
  const std::string steps = sample("trainer_state_steps.json"), accumulated = sample("trainer_state_accumulated.json");
  expect_refusal(steps, facts("train_images batch_size"), "does not say train_images: give it");
  RunFacts known = facts("train_images batch_size");
  known.fields.emplace_back("train_images", "200");
  EXPECT_NEAR(*read_training_log(steps, known).avg_time_sec, 0.18390999999999996 * 13, 1e-9);
  expect_refusal(accumulated, facts("train_images batch_size"),
                 "a step takes about 1.8 batches of 16: give accumulate");
  known = facts("train_images batch_size");
  known.fields.emplace_back("accumulate", "2");
  const auto run = read_training_log(accumulated, known);
  EXPECT_EQ(run.workload.train_images, 200);
  EXPECT_NEAR(*run.avg_time_sec, 0.22508571428571428 * 7, 1e-9);
}

TEST(TrainingLog, OfTransformersIsRefusedWhereItIsOfACheckpointOrDamaged) {
  const TemporaryFolder folder;
  const std::string state = slurp(sample("trainer_state.json"));
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {with(state, "\"train_runtime\"", "\"other\""), "has no train_runtime, since it is of a checkpoint"},
           {with(state, "7.0727", "\"long\""), "train_runtime \"\"long\"\" is not a number"},
           {with(state, "7.0727", "-1"), "train_runtime \"-1\" is not a positive number"},
           {with(state, "7.0727", "0.5"), "evaluations take longer than train_runtime"},
           {with(state, "7.0727", "1e999"), ""},
           {with(state, "7.0727", "NaN"), "is not JSON"},
           {with(state, "\"train_steps_per_second\": 5.514", "\"train_steps_per_second\": 2.757"),
            "train_runtime is of 19 of 39 steps; resumed trainings are not read"},
           {with(state, "\"log_history\": [", "\"log_history\": [1,"), "an entry of log_history is not an object"},
           {with(state, "\"log_history\"", "\"log\""), "log_history is missing"},
           {state.substr(0, state.size() / 2), "is not JSON"},
           {with(state, "\"trial_name\": null", "\"trial_name\": \"\xff\""), ""},
       }) {
    expect_refusal(folder.write("trainer_state.json", text), facts("batch_size train_images"), what);
  }
}

TEST(TrainingLog, OfTensorBoardHasTheMedianOfLoggedIntervals) {
  const auto lightning = read_training_log(sample("lightning.tfevents"), facts());
  EXPECT_EQ(lightning.timing, Timing::steps);
  EXPECT_NEAR(*lightning.avg_time_sec, 0.054340457916259764 * 16, 1e-9);
  EXPECT_EQ(lightning.timestamp_utc, "2026-11-28T13:48:44.757Z");
  const auto transformers = read_training_log(sample("transformers.tfevents"), facts());
  EXPECT_NEAR(*transformers.avg_time_sec, 0.18132193088531495 * 16, 1e-9);
  EXPECT_EQ(transformers.test_acc, 0.234375);
}

/// CRC-32C of RFC 3720, masked as in TensorFlow's record files.
std::uint32_t masked_checksum(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return std::rotr(~crc, 15) + 0xA282EAD8U;
}

template <class Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

/// A graph or pictures: no scalar is that long. The file is sparse; its record is neither read nor held.
TEST(TrainingLog, OfTensorBoardPassesOverRecordsThatAreNoScalars) {
  const TemporaryFolder folder;
  const std::string log = slurp(sample("lightning.tfevents"));
  const double sec = *read_training_log(sample("lightning.tfevents"), facts()).avg_time_sec;
  std::uint64_t first = 0;
  std::memcpy(&first, log.data(), sizeof first);
  first += 16;  // with its length and two checksums
  constexpr std::uint64_t length = 2'000'000'000;
  const std::string head = bytes_of(length) + bytes_of(masked_checksum(bytes_of(length)));
  const std::string between = folder.write("between", log.substr(0, first) + head);
  std::filesystem::resize_file(between, first + head.size() + length + 4);
  std::ofstream(between, std::ios::app) << log.substr(first);
  EXPECT_EQ(read_training_log(between, facts()).avg_time_sec, sec);
  const std::string unfinished = folder.write("unfinished", log + head);
  std::filesystem::resize_file(unfinished, log.size() + length);
  EXPECT_EQ(read_training_log(unfinished, facts()).avg_time_sec, sec);
}

TEST(TrainingLog, OfTensorBoardAsksWhatItsStepsCount) {
  const std::string log = sample("torch.tfevents");
  RunFacts known = facts();
  expect_refusal(log, known, "does not say whether it counts training steps or epochs: give counted=steps or epochs");
  known.counted = Timing::steps;
  EXPECT_NEAR(*read_training_log(log, known).avg_time_sec, 0.027829408645629883 * 16, 1e-9);
  known.counted = Timing::epochs;
  const auto epochs = read_training_log(log, known);
  EXPECT_EQ(epochs.epochs, 64);
  EXPECT_NEAR(epochs.epoch_times[0], 1795873959.8622143 - 1795873959.7415566, 1e-6);
  EXPECT_NEAR(epochs.epoch_times[1], 1795873959.9135208 - 1795873959.8622143, 1e-6);
}

TEST(TrainingLog, OfKerasInTensorBoardHasEpochs) {
  const auto run = read_training_log(sample("keras.tfevents"), facts());
  EXPECT_EQ(run.timing, Timing::epochs);
  EXPECT_THAT(run.epoch_times,
              ::testing::Pointwise(::testing::DoubleNear(1e-6),
                                   {16.381234884262085, 1.5619590282440186, 1.4080259799957275, 1.4240021705627441}));
}

TEST(TrainingLog, AnEventFileIsReadUpToAnUnfinishedRecordAndRefusedWhereABitIsWrong) {
  const TemporaryFolder folder;
  const std::string log = slurp(sample("lightning.tfevents"));
  std::size_t read = 0;
  for (std::size_t size = 13; size < log.size(); size += 7) {  // cut anywhere: fewer points, or too few
    try {
      (void)read_training_log(folder.write("events", log.substr(0, size)), facts());
      ++read;
    } catch (const InputError& error) {
      EXPECT_THAT(std::string(error.what()),
                  ::testing::AnyOf(HasSubstr("points in time"), HasSubstr("counted=steps"), HasSubstr("no log of")));
    }
  }
  EXPECT_GT(read, 50U);
  for (std::size_t at = 0; at < log.size(); at += 5) {
    std::string wrong = log;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x10);
    expect_refusal(folder.write("events", wrong), facts(), at < 12 ? "is no log of" : "is damaged");
  }
}

}  // namespace
}  // namespace perfpred
