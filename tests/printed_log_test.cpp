// SPDX-License-Identifier: Apache-2.0
// Runs from what training programs print and from histories of their steps. The lines are written after the sources of
// torchtune's DiskLogger (0.6.1), LLaMA-Factory's LogCallback (0.9.5), Axolotl's Trainer (0.19.0) and mlperf_logging
// (4.1.68), and, as PyPI does not have what prints them, after memory of nanoGPT's train.py, Megatron-LM's
// training_log(), timm's train.py (1.0) and W&B's export (0.31). Expected times are those that the lines have.
#include <perfpred/error.h>
#include <perfpred/training_log.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::TemporaryFolder;

using Fields = std::vector<std::pair<std::string, std::string>>;

RunFacts facts(Fields fields) {
  RunFacts known;
  known.fields = std::move(fields);
  return known;
}

/// Of a run of GPT-2, whose steps alone are asked for.
RunFacts gpt2(Fields more = {}) {
  RunFacts known = facts({{"network", "gpt2"}, {"precision", "bf16"}, {"device", "A100-SXM4-40GB"}});
  known.fields.insert(known.fields.end(), more.begin(), more.end());
  known.of_step = true;
  return known;
}

/// Seconds of a step, of runs whose epoch has one.
double step_sec(const Run& run) { return *run.avg_time_sec; }

Run read_text(const std::string& text, const RunFacts& known) {
  const TemporaryFolder folder;
  return read_training_log(folder.write("log", text), known);
}

void expect_refusal(const std::string& text, const RunFacts& known, const std::string& what) {
  EXPECT_THAT(refusal([&] { (void)read_text(text, known); }), AllOf(HasSubstr(what), HasSubstr("/log")));
}

const std::string nanogpt_head =
    "Overriding config with config/train_gpt2.py:\n"
    "Overriding: batch_size = 12\n"
    "Overriding: block_size = 1024\n"
    "tokens per iteration will be: 61,440\n"
    "number of parameters: 124.34M\n"
    "using fused AdamW: True\n"
    "compiling the model... (takes a ~minute)\n"
    "step 0: train loss 10.9886, val loss 10.9898\n";
const std::string nanogpt_steps =
    "iter 0: loss 10.9886, time 34113.52ms, mfu -100.00%\n"
    "iter 10: loss 9.6241, time 271.52ms, mfu 41.20%\n"
    "iter 20: loss 9.2010, time 270.10ms, mfu 41.21%\n"
    "step 25: train loss 9.0124, val loss 9.0313\n"
    "saving checkpoint to out\n"
    "iter 30: loss 8.9120, time 272.94ms, mfu 41.20%\n";

TEST(PrintedLog, OfNanoGptHasTheMedianIterationWithoutTheFirst) {
  const auto run = read_text(nanogpt_head + nanogpt_steps, gpt2());
  EXPECT_DOUBLE_EQ(step_sec(run), 0.27152);
  EXPECT_EQ(run.framework, "nanogpt");
  EXPECT_EQ(run.workload.batch_size, 12);
  EXPECT_EQ(run.workload.input, std::vector<std::int64_t>{1024});
  EXPECT_EQ(run.workload.accumulate, 5);  // 61,440 tokens / (12 x 1024)
  EXPECT_EQ(run.workload.optimizer, Optimizer::adamw);
  EXPECT_TRUE(run.workload.compiled);
  EXPECT_EQ(run.workload.train_images, 60);
}

TEST(PrintedLog, OfNanoGptWithoutItsHeadAsksForTheBatch) {
  expect_refusal(nanogpt_steps, gpt2(), "does not say batch_size: give it");
  EXPECT_DOUBLE_EQ(step_sec(read_text(nanogpt_steps, gpt2({{"batch_size", "8"}, {"accumulate", "4"}}))), 0.27152);
  expect_refusal(nanogpt_head + nanogpt_steps, gpt2({{"accumulate", "4"}}),
                 "a step has 60 samples, which are 5 batches of 12 on 1 device, not 4");
  expect_refusal(nanogpt_head + nanogpt_steps, facts({{"network", "gpt2"}, {"precision", "bf16"}, {"device", "L4"}}),
                 "does not say train_images: give it");  // an epoch is asked for
}

TEST(PrintedLog, OfNanoGptIsRefusedAtItsLineWhereItStartsAgainOrIsDamaged) {
  const std::string head = nanogpt_head + nanogpt_steps;
  expect_refusal(head + "iter 20: loss 9.2, time 270.10ms, mfu 41.21%\n", gpt2(),
                 ":15: step 20 follows step 30: a log holds one run; give what is behind the restart");
  expect_refusal(head + "iter 40: loss 9.2, time soon\niter 50: loss 9.2, time 271.00ms, mfu 1.00%\n", gpt2(),
                 ":15: time");
  EXPECT_DOUBLE_EQ(step_sec(read_text(head + "iter 40: loss 9.2, ti", gpt2())), 0.27152);  // its writer goes on
  expect_refusal(nanogpt_head + "iter 0: loss 1, time 3.00ms, mfu 1.00%\niter 1: loss 1, time 3.00ms, mfu 1.00%\n",
                 gpt2(), "times 2 steps; 3 are needed besides the first");
}

std::string megatron_line(int iteration, double ms, int batch) {
  return fmt::format(
      " [2026-01-31 12:00:00] iteration {:8}/     500 | consumed samples: {:12} | elapsed time per iteration (ms): "
      "{:.1f} | throughput per GPU (TFLOP/s/GPU): 201.3 | learning rate: 6.000000E-04 | global batch size: {:5} | lm "
      "loss: 9.100000E+00 | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 | number of nan "
      "iterations:   0 |\n",
      iteration, iteration * batch, ms, batch);
}

std::string megatron_arguments(const char* world) {
  return fmt::format(
      "------------------------ arguments ------------------------\n"
      "  bf16 ............................................ True\n"
      "  context_parallel_size ........................... 1\n"
      "  data_parallel_size .............................. 4\n"
      "  fp16 ............................................ False\n"
      "  micro_batch_size ................................ 4\n"
      "  pipeline_model_parallel_size .................... 1\n"
      "  seq_length ...................................... 1024\n"
      "  tensor_model_parallel_size ...................... 2\n"
      "  world_size ...................................... {}\n",
      world);
}

TEST(PrintedLog, OfMegatronHasTheMedianIntervalAndItsArguments) {
  std::string text = megatron_arguments("8");
  for (const auto& [iteration, ms] :
       std::vector<std::pair<int, double>>{{10, 9120.4}, {20, 812.5}, {30, 810.1}, {40, 815.7}}) {
    text += megatron_line(iteration, ms, 64);
  }
  const auto run = read_text(
      text,
      facts({{"network", "gpt2"}, {"optimizer", "adamw"}, {"device", "A100-SXM4-80GB"}, {"train_images", "6400"}}));
  EXPECT_DOUBLE_EQ(*run.avg_time_sec, 0.8125 * 100);
  EXPECT_EQ(run.workload.batch_size, 4);
  EXPECT_EQ(run.workload.accumulate, 4);  // 64 / (4 x 4 replicas)
  EXPECT_EQ(run.workload.precision, Precision::bf16);
  EXPECT_THAT(run.workload.key(), HasSubstr("parallel=tp=2,dp=4"));
}

TEST(PrintedLog, OfMegatronCountsFromTheLastChangeOfTheBatch) {
  std::string text;
  for (int i = 1; i <= 4; ++i) text += megatron_line(i, 100, 8);
  for (int i = 5; i <= 9; ++i) text += megatron_line(i, i == 5 ? 500 : 200, 16);
  const RunFacts known = gpt2({{"batch_size", "16"}, {"optimizer", "adamw"}});
  EXPECT_DOUBLE_EQ(step_sec(read_text(text, known)), 0.2);
  expect_refusal(text, gpt2({{"batch_size", "12"}, {"optimizer", "adamw"}}),
                 "a step has 16 samples, which are 1.333 batches of 12 on 1 device: correct batch_size");
  expect_refusal(text + megatron_line(10, 200, 16).substr(0, 150) + "\n" + megatron_line(11, 200, 16), known, ":10: ");
}

/// Of an update of 256 images, and of the mean of its epoch so far.
std::string timm_line(int epoch, int update, double sec, double data) {
  return fmt::format(
      "Train: {} [{:>4}/125 ({:>3.0f}%)]  Loss: 6.94 (6.93)  Time: {:.3f}s, {:>7.2f}/s  (0.351s,  729.34/s)  LR: "
      "1.000e-05  Data: {:.3f} (0.015)\n",
      epoch, update, 100. * (update + 1) / 125, sec, 256 / sec, data);
}

std::string timm_log() {
  std::string text =
      "Training with a single process on 1 device (cuda:0).\nModel resnet50 created, param count:25557032\n";
  for (int epoch = 0; epoch < 2; ++epoch) {
    text += timm_line(epoch, 0, 5.512, 4.2);
    text += timm_line(epoch, 50, 0.345, 0.1);
    text += timm_line(epoch, 100, 0.351, 0.04);
    text +=
        "Test: [   0/19]  Time: 1.201 (1.201)  Loss:  6.801 ( 6.801)  Acc@1:   0.781 (  0.781)  Acc@5:   2.34 ( "
        "2.34)\n";
  }
  return text;
}

const Fields of_timm = {
    {"network", "resnet50"}, {"optimizer", "sgd"}, {"precision", "fp16"}, {"device", "A100-SXM4-40GB"}};

TEST(PrintedLog, OfTimmHasTheMedianUpdateTheBatchAndTheWaitForData) {
  RunFacts known = facts(of_timm);
  known.of_step = true;
  const auto run = read_text(timm_log(), known);
  EXPECT_DOUBLE_EQ(step_sec(run), 0.348);
  EXPECT_EQ(run.workload.batch_size, 256);
  EXPECT_NEAR(*run.data_wait_share, 0.28 / (2 * 0.345 + 2 * 0.351), 1e-12);
  EXPECT_EQ(run.epochs, 2);
  known.fields.emplace_back("accumulate", "2");
  expect_refusal(timm_log(), known, "does not say batch_size");
  known.fields.emplace_back("batch_size", "128");
  EXPECT_DOUBLE_EQ(step_sec(read_text(timm_log(), known)), 0.348);
}

TEST(PrintedLog, OfTimmIsRefusedWhereItIsOfSeveralDevicesOrStartsAgain) {
  RunFacts known = facts(of_timm);
  known.of_step = true;
  expect_refusal(
      "Training in distributed mode with multiple processes, 1 device per process.Process 0, total 8, device "
      "cuda:0.\n" +
          timm_log(),
      known, ":1: is of several devices");
  expect_refusal(timm_log() + timm_log(), known, ":13: step 0 follows step 225: a log holds one run");
}

TEST(PrintedLog, OfTorchtuneNeedsTheTokensOfAStep) {
  std::string text;
  for (int step = 1; step <= 5; ++step) {
    text += fmt::format(
        "Step {} | loss:1.4213 lr:2e-05 tokens_per_second_per_gpu:{} peak_memory_active:12.31 peak_memory_alloc:12.31 "
        "peak_memory_reserved:13.05 \n",
        step, step == 1 ? 410.7 : 4000.0 + step);
  }
  RunFacts known = gpt2({{"optimizer", "adamw"}, {"batch_size", "2"}});
  expect_refusal(text, known, "has the rate of tokens, not their number: give step_tokens");
  known.step_tokens = 2048;
  EXPECT_DOUBLE_EQ(step_sec(read_text(text, known)), (2048 / 4003.0 + 2048 / 4004.0) / 2);
}

std::string llama_factory_line(int step, const std::string& elapsed, const std::string& more = {}) {
  return fmt::format(R"({{"current_steps": {}, "total_steps": 400, "loss": 1.2, "lr": 1e-05, "epoch": {:.2f}, )"
                     R"("percentage": {:.2f}, "elapsed_time": "{}", "remaining_time": "0:10:00"{}}})"
                     "\n",
                     step, step / 200., step / 4., elapsed, more);
}

TEST(PrintedLog, OfLlamaFactoryTakesRatesOfTokensElseWholeSecondsFarApart) {
  const RunFacts known = gpt2({{"optimizer", "adamw"}, {"batch_size", "1"}});
  std::string rates, seconds;
  for (int i = 1; i <= 6; ++i) {
    const double sec = 20 + 7.25 * i;  // 10 steps of 0.725 s each
    rates += llama_factory_line(
        10 * i, "0:00:30", fmt::format(R"(, "throughput": {:.2f}, "total_tokens": {})", 10240. * i / sec, 10240 * i));
    seconds += llama_factory_line(10 * i, fmt::format("0:00:{:02}", static_cast<int>(sec - 20)));
  }
  EXPECT_NEAR(step_sec(read_text(rates, known)), 0.725, 0.725 * 1e-3);
  expect_refusal(seconds, known, "its times are whole seconds: 100 s of steps are needed, it has 36");
  std::string minutes;
  for (int i = 1; i <= 6; ++i) minutes += llama_factory_line(10 * i, fmt::format("23:{:02}:30", i));
  minutes += llama_factory_line(70, "1 day, 0:00:00");  // 53.5 min, with an evaluation
  minutes += llama_factory_line(80, "1 day, 0:01:00");
  EXPECT_DOUBLE_EQ(step_sec(read_text(minutes, known)), 6);
}

TEST(PrintedLog, OfLlamaFactoryIsRefusedAtTheLineWhereItWasResumed) {
  const RunFacts known = gpt2({{"optimizer", "adamw"}, {"batch_size", "1"}});
  const std::string text = llama_factory_line(10, "0:01:00") + llama_factory_line(20, "0:02:00");
  expect_refusal(text + llama_factory_line(30, "0:00:50"), known,
                 ":3: step 30 at 50 s follows step 20 at 120 s: a log holds one run");
  expect_refusal(text + llama_factory_line(15, "0:03:00"), known, ":3: step 15 at 180 s follows step 20");
  expect_refusal(text + "{\"current_steps\": \"x\"}\n" + text, known, ":3: current_steps");
  expect_refusal(text + "{\"current_\n" + text, known, ":3: is not a JSON object");
}

TEST(PrintedLog, OfWandbCountsUpdatesOrAsksWhatItsStepsAre) {
  const RunFacts known = gpt2({{"optimizer", "adamw"}, {"batch_size", "8"}});
  std::string lines = R"({"eval/loss": 11.0, "_runtime": 2.5, "_timestamp": 1767182400.5, "_step": 0})"
                      "\n";
  std::string table = "train/loss,_runtime,_timestamp,train/global_step,_step\n";
  for (int i = 1; i <= 4; ++i) {
    lines += fmt::format(
        R"({{"train/loss": 3.1, "train/global_step": {}, "_runtime": {}, "_timestamp": 1767182400.5, "_step": {}}})"
        "\n",
        25 * i, 10 + 5.5 * i, i);
    table += fmt::format("3.1,{},1767182400.5,{},{}\n", 10 + 5.5 * i, 25 * i, i);
  }
  EXPECT_NEAR(step_sec(read_text(lines, known)), 0.22, 1e-12);
  EXPECT_NEAR(step_sec(read_text(table, known)), 0.22, 1e-12);
  std::string own = "loss,_runtime,_step\n";
  for (int i = 0; i < 5; ++i) own += fmt::format("3.1,{},{}\n", 0.25 + 1.5 * i, i);
  expect_refusal(own, known, "its _step counts calls of wandb.log(): give counted=steps");
  RunFacts counted = known;
  counted.counted = Timing::steps;
  EXPECT_NEAR(step_sec(read_text(own, counted)), 1.5, 1e-12);
  expect_refusal(lines + lines, known, ":7: ");
}

TEST(PrintedLog, OfAxolotlsCheckpointsHasTimesWhereItCountsTokens) {
  std::string entries;
  for (int i = 1; i <= 5; ++i) {
    const std::string rate = i == 1 ? "" : R"("tokens/train_per_sec_per_gpu": 4096.0, )";
    entries += fmt::format(R"({}{{"epoch": 0.1, "loss": 1.5, {}"tokens/trainable": {}, "step": {}}})",
                           i == 1 ? "" : ", ", rate, 20480 * i, 10 * i);
  }
  const auto state = [](const std::string& history) {
    return R"({"epoch": 0.5, "global_step": 50, "train_batch_size": 2, "max_steps": 100, "log_history": [)" + history +
           "]}";
  };
  const RunFacts known = gpt2({{"optimizer", "adamw"}});
  const auto run = read_text(state(entries), known);
  EXPECT_DOUBLE_EQ(step_sec(run), 0.5);  // 20,480 tokens / 4,096 a second / 10 steps
  EXPECT_EQ(run.workload.batch_size, 2);
  EXPECT_EQ(run.framework, "axolotl");
  expect_refusal(state(R"({"loss": 1.5, "step": 10})"), known, "Axolotl with include_tkps: true");
}

TEST(PrintedLog, OfMlperfHasBlocksOfSamples) {
  const auto line = [](const std::string& key, const std::string& value, int ms, int samples) {
    return fmt::format(R"(:::MLLOG {{"key": "{}", "value": {}, "time_ms": {}, "metadata": {{"samples_count": {}}}}})"
                       "\n",
                       key, value, ms, samples);
  };
  const std::string head = line("submission_benchmark", "\"llama31_8b\"", 0, 0) +
                           line("global_batch_size", "16", 0, 0) + line("max_sequence_length", "8192", 0, 0) +
                           line("opt_name", "\"adamw\"", 0, 0);
  const auto blocks = [&](bool cumulated) {
    std::string text = head;
    int ms = 0;
    for (int i = 0; i < 3; ++i) {  // 320 samples each: 20 steps
      text += line("block_start", "null", ms, cumulated ? 320 * i : 320);
      ms += i == 0 ? 90'000 : 40'000 + i * 1000;
      text += line("block_stop", "null", ms, cumulated ? 320 * (i + 1) : 320);
      text += line("eval_start", "null", ms, 0) + line("eval_stop", "null", ms + 5000, 0);
      ms += 5000;
    }
    return text;
  };
  RunFacts known = facts({{"precision", "bf16"}, {"device", "H200"}, {"network", "llama3.1_8b"}});
  known.of_step = true;
  for (const bool cumulated : {true, false}) {
    const auto run = read_text(blocks(cumulated), known);
    EXPECT_DOUBLE_EQ(step_sec(run), 41.5 / 20);
    EXPECT_EQ(run.workload.batch_size, 16);
    EXPECT_EQ(run.workload.input, std::vector<std::int64_t>{8192});
  }
  expect_refusal(head, known, "and 0 blocks with samples_count");
}

}  // namespace
}  // namespace perfpred
