// SPDX-License-Identifier: Apache-2.0
// No option is silently without effect: an option that the chosen mode does not use is refused.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred::testing {
namespace {

struct UselessOption {
  std::string program;
  std::vector<std::string> arguments;  ///< FOLDER stands for a folder with the files below
  std::string message;                 ///< a part of it

  friend std::ostream& operator<<(std::ostream& out, const UselessOption& useless) {
    out << "perfpred-" << useless.program;
    for (const std::string& argument : useless.arguments) out << ' ' << argument;
    return out;
  }
};

class Options : public ::testing::TestWithParam<UselessOption> {
 protected:
  static void write_files(const TemporaryFolder& folder) {
    folder.write("runs_agg.csv",
                 "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,avg_time_std,thr_mean,thr_std,"
                 "acc_mean,acc_std,device,precision\n"
                 "2,16,64,280218,2,782,4.0,0.1,12500,300,0.7,0.01,T4,fp32\n"
                 "2,16,128,280218,1,391,2.5,0,20000,0,0.68,0,T4,fp32\n");
    folder.write("devices.csv", "name,fp32_tflops,mem_bw_gbs\nmine,10,500\n");
  }
};

TEST_P(Options, IsRefused) {
  if (program(GetParam().program).empty()) GTEST_SKIP() << "perfpred-" << GetParam().program << " is not built";
  const TemporaryFolder folder;
  write_files(folder);
  const std::size_t files = folder.entries();
  std::vector<std::string> command = {program(GetParam().program)};
  for (std::string argument : GetParam().arguments) {
    if (const auto at = argument.find("FOLDER"); at != std::string::npos) argument.replace(at, 6, folder.path());
    command.push_back(std::move(argument));
  }
  expect_refusal(spawn(command), 2, GetParam().message);
  EXPECT_EQ(folder.entries(), files) << "a file was written";
}

std::vector<std::string> with_rows(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"--runs-agg", "FOLDER/runs_agg.csv"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> suggest_with(std::vector<std::string> more) {
  more.insert(more.end(), {"--suggest", "1", "--grid", "FOLDER/runs_agg.csv"});
  return with_rows(std::move(more));
}

const std::vector<UselessOption> aggregate = {
    {"aggregate", {"--runs", "FOLDER/runs.csv", "--out", "FOLDER/a", "--rejected", "FOLDER/a"}, "--rejected"},
    {"aggregate", {"--runs", "FOLDER/runs.csv", "--rejected", "/dev/stdout"}, "--out"},
};
INSTANTIATE_TEST_SUITE_P(Aggregate, Options, ::testing::ValuesIn(aggregate));

const std::vector<UselessOption> overwriting = {
    {"aggregate", {"--runs", "FOLDER/runs_agg.csv", "--out", "FOLDER/./runs_agg.csv"}, "--out would overwrite --runs"},
    {"aggregate", {"--runs", "FOLDER/runs_agg.csv", "--rejected", "FOLDER/runs_agg.csv"}, "--rejected"},
    {"train", with_rows({"--out", "FOLDER/runs_agg.csv"}), "--out would overwrite --runs-agg"},
    {"train", with_rows({"--features-out", "FOLDER/runs_agg.csv"}), "--features-out"},
    {"evaluate",
     {"--model", "FOLDER/m.json", "--measured", "FOLDER/runs_agg.csv", "--out", "FOLDER/runs_agg.csv"},
     "--out would overwrite --measured"},
    {"predict",
     {"--configs", "FOLDER/runs_agg.csv", "--out", "FOLDER/runs_agg.csv"},
     "--out would overwrite --configs"},
    {"plan", with_rows({"--budget-sec", "9", "--epochs", "1", "--out", "FOLDER/runs_agg.csv"}),
     "--out would overwrite --runs-agg"},
    {"observe",
     {"--model", "FOLDER/m.json", "--runs", "FOLDER/runs_agg.csv", "--out", "FOLDER/runs_agg.csv"},
     "--out would overwrite --runs"},
    {"ncu", {"FOLDER/runs_agg.csv", "--out", "FOLDER/runs_agg.csv"}, "--out would overwrite report"},
    {"slurm-report",
     {"--sacct", "FOLDER/runs_agg.csv", "--runs-out", "FOLDER/runs_agg.csv"},
     "--runs-out would overwrite --sacct"},
    {"inspect", {"--step", "FOLDER/runs_agg.csv", "--ops", "FOLDER/runs_agg.csv"}, "--ops would overwrite --step"},
};
INSTANTIATE_TEST_SUITE_P(Overwriting, Options, ::testing::ValuesIn(overwriting));

TEST(Outputs, AModelMayReplaceTheOneThatItCorrects) {
  const TemporaryFolder folder;
  const std::string model = folder.write("model.json", "{}");
  expect_refusal(spawn({program("observe"), "--model", model, "--runs", folder.write("runs.csv", ""), "--out", model}),
                 2, "runs.csv: is empty");  // not that it would overwrite its model
}

const std::vector<UselessOption> train = {
    {"train", suggest_with({"--out", "FOLDER/model.json"}), "--out"},
    {"train", suggest_with({"--features-out", "FOLDER/features.csv"}), "--features-out"},
    {"train", suggest_with({"--split", "FOLDER/missing.csv"}), "--split"},
    {"train", suggest_with({"--kind", "linear"}), "--kind"},
    {"train", suggest_with({"--test-fraction", "0.2"}), "--test-fraction"},
    {"train", with_rows({"--split", "FOLDER/split.csv", "--val-fraction", "0.2"}), "excludes"},
    {"train", with_rows({"--grid", "FOLDER/runs_agg.csv"}), "--suggest"},
    {"train", {"--kind", "ops", "--ops-dir", "FOLDER", "--seed", "1"}, "--seed"},
    {"train", with_rows({"--features-out", "FOLDER/a", "--out", "FOLDER/./a"}), "--features-out"},
};
INSTANTIATE_TEST_SUITE_P(Train, Options, ::testing::ValuesIn(train));

const std::vector<UselessOption> evaluate = {
    {"evaluate", {"--model", "FOLDER/m.json", "--measured", "FOLDER/runs_agg.csv", "--folds", "5"}, "--folds"},
    {"evaluate", {"--model", "FOLDER/m.json", "--measured", "FOLDER/runs_agg.csv", "--repeats", "2"}, "--repeats"},
    {"evaluate", {"--model", "FOLDER/m.json", "--measured", "FOLDER/runs_agg.csv", "--kind", "linear"}, "--kind"},
    {"evaluate", with_rows({"--protocol", "lodo", "--folds", "4"}), "--folds"},
    {"evaluate", with_rows({"--protocol", "kfold", "--subsets", "4"}), "--subsets"},
    {"evaluate", with_rows({"--protocol", "curve", "--repeats", "4"}), "--repeats"},
    {"evaluate", with_rows({"--protocol", "curve", "--out", "FOLDER/predictions.csv"}), "--out"},
    {"evaluate", {"--ops-dir", "FOLDER", "--protocol", "seen", "--graphs", "FOLDER"}, "--graphs is for --measured"},
};
INSTANTIATE_TEST_SUITE_P(Evaluate, Options, ::testing::ValuesIn(evaluate));

TEST(Outputs, ATableOnStandardOutputStandsAlone) {
  const TemporaryFolder folder;
  const std::string rows = folder.write(
      "runs_agg.csv",
      "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,avg_time_std,thr_mean,thr_std,acc_mean,"
      "acc_std\n2,16,64,280218,2,782,4.0,0.1,12500,300,0.7,0.01\n");
  const auto plan = [&](const std::string& out) {
    return spawn({program("plan"), "--runs-agg", rows, "--budget-sec", "99", "--epochs", "2", "--out", out});
  };
  const Finished to_file = plan(folder.file("plan.csv")), to_stdout = plan("/dev/stdout");
  EXPECT_EQ(to_stdout.exit_code, 0);
  EXPECT_EQ(to_stdout.out, slurp(folder.file("plan.csv")));
  EXPECT_EQ(to_stdout.err, to_file.out);
}

TEST(Numbers, OfMessagesAreShort) {
  const Finished finished =
      spawn({program("evaluate"), "--runs-agg", "x.csv", "--protocol", "lono", "--own-rows", "-1"});
  expect_refusal(finished, 2, "--own-rows: -1 is not a number >= 0");
}

const std::vector<UselessOption> predict = {
    {"predict", {"--model", "FOLDER/m.json", "--configs", "FOLDER/c.csv", "--sweep", "batch_size=1,2"}, "excludes"},
    {"predict", {"--model", "FOLDER/m.json", "--jsonl", "--out", "FOLDER/p.csv"}, "excludes"},
    {"predict", {"--model", "FOLDER/m.json", "--jsonl", "--configs", "FOLDER/c.csv"}, "excludes"},
    {"predict", {"--model", "FOLDER/m.json", "--jsonl", "--sweep", "batch_size=1,2"}, "excludes"},
    {"predict", {"--network", "resnet18", "--optimiser", "adam"}, "--optimiser adam; did you mean --optimizer?"},
    {"predict",
     {"--network", "resnet18", "--gpus", "8"},
     "--gpus 8; several devices are the fields gpus_per_node (8, 1+3, 8x32) and parallel (ddp, fsdp, tp=2,pp=4)"},
    {"predict", {"--network", "resnet18", "--nodes", "2"}, "--nodes 2; several devices are the fields gpus_per_node"},
    {"predict", {"--network", "resnet18", "--world-size=4"}, "several devices are the fields gpus_per_node"},
    {"predict", {"--optimiser", "adam", "--nproc-per-node", "8"}, "several devices are the fields gpus_per_node"},
};
INSTANTIATE_TEST_SUITE_P(Predict, Options, ::testing::ValuesIn(predict));

const std::vector<UselessOption> collect = {
    {"collect", {"--network", "resnet18", "--batch-size", "2", "--timing", "steps", "--epochs", "7"}, "--epochs"},
    {"collect", {"--network", "resnet18", "--batch-size", "2", "--model", "FOLDER/m.json"}, "--suggest"},
};
INSTANTIATE_TEST_SUITE_P(Collect, Options, ::testing::ValuesIn(collect));

const std::vector<UselessOption> train_net = {
    {"train-net", {"--data", "imagefolder:FOLDER", "--classes", "3"}, "classes"},
    {"train-net", {"--data", "imagefolder:FOLDER", "--train-images", "3"}, "train-images"},
    {"train-net", {"--data", "dummy", "--skip-corrupt"}, "skip-corrupt"},
    {"train-net", {"--data", "dummy", "--env", "here"}, "--log-file"},
    {"train-net", {"--data", "dummy", "--save-every", "2"}, "--out-dir"},
    {"train-net", {"--data", "dummy", "--evaluate", "--profile-one-step"}, "exclude"},
};
INSTANTIATE_TEST_SUITE_P(TrainNet, Options, ::testing::ValuesIn(train_net));

const std::vector<UselessOption> inspect = {
    {"inspect", {"--network", "resnet18", "--layout", "nhwc", "--foo"}, "--layout nhwc --foo"},
    {"inspect", {"--tables", "FOLDER/t", "--networks", "resnet18", "--depth", "3"}, "only cifar_cnn"},
    {"inspect", {"--tables", "FOLDER/t", "--networks", "resnet18", "--device", "T4"}, "--device"},
    {"inspect", {"--tables", "FOLDER/t", "--networks", "resnet18", "--ops", "FOLDER/ops.csv"}, "--ops"},
};
INSTANTIATE_TEST_SUITE_P(Inspect, Options, ::testing::ValuesIn(inspect));

std::vector<std::string> plan_with(std::vector<std::string> more) {
  more.insert(more.end(), {"--budget-sec", "99", "--epochs", "2"});
  return with_rows(std::move(more));
}

const std::vector<UselessOption> plan = {
    {"plan", plan_with({"--confidence", "0.9"}), "confidence"},
    {"plan", plan_with({"--model", "FOLDER/model.json"}), "--model"},
    {"plan", plan_with({"--graphs", "FOLDER"}), "--graphs is for --time-source predicted"},
    {"plan", plan_with({"--gpus", "2", "--devices", "T4"}), "excludes"},
};
INSTANTIATE_TEST_SUITE_P(Plan, Options, ::testing::ValuesIn(plan));

const std::vector<UselessOption> roofline = {
    {"roofline", with_rows({"--warmup", "3"}), "--iterations"},
    {"roofline", with_rows({"--decimal-comma"}), "--ncu"},
    {"roofline", with_rows({"--label", "x"}), "--label"},
    {"roofline", with_rows({"--precision", "tf32"}), "tf32 has no effect"},
    {"roofline", with_rows({"--device", "lab=T4"}), "\"lab\""},
    {"roofline", with_rows({"--gflops", "1"}), "--ai"},
    {"roofline", {"--ai", "1", "--gflops", "1", "--device", "T4", "--graphs", "FOLDER"}, "--graphs is for --iter"},
    {"roofline",
     {"--ai", "1", "--gflops", "1", "--device", "T4", "--peak-flops", "1e12", "--peak-bw", "1e11"},
     "excludes"},
    {"roofline",
     {"--ai", "1", "--gflops", "1", "--devices", "FOLDER/devices.csv", "--peak-flops", "1e12", "--peak-bw", "1e11"},
     "excludes"},
};
INSTANTIATE_TEST_SUITE_P(Roofline, Options, ::testing::ValuesIn(roofline));

}  // namespace
}  // namespace perfpred::testing
