// SPDX-License-Identifier: Apache-2.0
// Parts of a sweep, and the script that has Slurm measure them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/error.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cli/spawn.h"
#include "refusal.h"
#include "temporary_folder.h"
#include "text/sbatch.h"
#include "tools/shard.h"
#include "tools/sweep_script.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<Workload> sweep() {
  std::vector<Workload> all;
  for (const int depth : {1, 2, 3, 4, 5}) {
    for (const std::int64_t batch : {8, 16, 32, 64}) all.push_back(Workload::cifar_cnn(depth, 4, batch));
  }
  return all;
}

std::vector<std::string> keys_of(const std::vector<Workload>& workloads) {
  std::vector<std::string> keys;
  for (const Workload& workload : workloads) keys.push_back(workload.key());
  return keys;
}

TEST(Shard, PartsAreDisjointAndTogetherEverything) {
  const std::vector<Workload> all = sweep();
  std::vector<std::string> wanted = keys_of(all);
  std::sort(wanted.begin(), wanted.end());
  for (const std::int64_t count : {1, 2, 3, 7, 20, 33}) {
    std::vector<std::string> found;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<std::string> part = keys_of(Shard{i, count}.of(all, 5));
      EXPECT_GE(part.size(), all.size() / static_cast<std::size_t>(count));
      EXPECT_LE(part.size(), all.size() / static_cast<std::size_t>(count) + 1);
      found.insert(found.end(), part.begin(), part.end());
    }
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, wanted) << count;  // each once
  }
}

TEST(Shard, PartsFollowFromTheSweepAloneWhereverItIsMeasured) {
  std::vector<Workload> here = sweep(), there = sweep();
  for (Workload& workload : there) {
    workload.device = "L4";
    workload.threads = 3;
  }
  std::reverse(there.begin(), there.end());
  here.insert(here.end(), here.begin(), here.begin() + 4);  // equal ones count once
  const auto without_device = [](std::vector<Workload> part) {
    for (Workload& workload : part) {
      workload.device.clear();
      workload.threads.reset();
    }
    std::vector<std::string> keys = keys_of(part);
    std::sort(keys.begin(), keys.end());
    return keys;
  };
  EXPECT_EQ(without_device(Shard{2, 6}.of(here, 1)), without_device(Shard{2, 6}.of(there, 1)));
  EXPECT_NE(keys_of(Shard{2, 6}.of(here, 1)), keys_of(Shard{2, 6}.of(here, 2)));
  EXPECT_EQ(count_different(here), 20);
}

/// Of a sweep over four batch sizes in four parts none has a single size alone, which would take longest.
TEST(Shard, NeighboursOfASweepAreSpread) {
  for (std::int64_t i = 0; i < 4; ++i) {
    std::set<std::int64_t> sizes;
    for (const Workload& workload : Shard{i, 4}.of(sweep(), 0)) sizes.insert(workload.batch_size);
    EXPECT_GT(sizes.size(), 1U);
  }
}

TEST(Shard, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(Shard::parse("3/40").index, 3);
  EXPECT_EQ(Shard::parse("3/40").count, 40);
  EXPECT_EQ(Shard::parse("0/1").name(), "0-of-1");
  EXPECT_EQ(Shard::parse("3/40").file("out/runs.csv"), "out/runs.3-of-40.csv");
  EXPECT_EQ(Shard::parse("3/40").file("runs"), "runs.3-of-40");
  for (const std::string text : {"40/40", "-1/4", "/40", "3/", "/", "3", "", "0/0"})
    EXPECT_THAT(testing::refusal([&] { (void)Shard::parse(text); }), HasSubstr("is not i/n with i from 0 to n - 1"))
        << text;
  EXPECT_THAT(testing::refusal([] { (void)Shard::parse("a/4"); }), HasSubstr("shard \"a\" is not"));
}

TEST(ShardLock, LetsTheSecondProcessOfAShardWaitForTheFirst) {
  const testing::TemporaryFolder folder;
  const std::string runs = folder.file("runs.0-of-2.csv");
  std::atomic<bool> said = false, held = false;
  std::thread second;
  {
    const ShardLock first(runs, [](const std::string& line) { FAIL() << line; });
    second = std::thread([&] {
      const ShardLock lock(runs, [&](const std::string& line) {
        EXPECT_THAT(line, HasSubstr("waits for another process"));
        said = true;
      });
      held = true;
    });
    while (!said) std::this_thread::yield();
    EXPECT_FALSE(held);
  }
  second.join();
  EXPECT_TRUE(held);
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(runs).parent_path()));
}

SweepScript sample() {
  return {.command = {"/opt/perfpred collect", "--depth", "1,2", "--env", "it's"},
          .aggregate = "/opt/aggregate",
          .runs_csv = "out put/runs.csv",
          .configurations = 5,
          .shards = 3,
          .at_once = 2};
}

/// A stand-in for sbatch keeps what it was given, and runs it as Slurm would.
class SweepScriptTest : public ::testing::Test {
 protected:
  std::string stand_in(const std::string& name, const std::string& body) {
    const std::string path = folder_.write(name, "#!/bin/sh\n" + body);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SweepScriptTest, SubmitsAnArrayAndATableThatWaitsForIt) {
  const std::string said = folder_.file("said");
  stand_in("sbatch", "printf '%s\\n' \"$@\" >> " + said + "\ncat >> " + said + "\necho '17;cluster'\n");
  const std::string script = folder_.write("sweep.sh", text_of(sample()));
  const testing::Finished done = testing::spawn(
      {"/usr/bin/env", "PATH=" + folder_.path() + ":/usr/bin:/bin", "/bin/sh", script, "--partition=a b"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out, "tasks 17, table 17\n");
  EXPECT_EQ(testing::slurp(said),
            "--parsable\n--job-name=perfpred-collect\n--array=0-2%2\n--requeue\n--open-mode=append\n--partition=a b\n"
            "#!/bin/sh\nexec srun '/opt/perfpred collect' --depth 1,2 --env 'it'\\''s' --shard "
            "\"$SLURM_ARRAY_TASK_ID/3\"\n"
            "--parsable\n--job-name=perfpred-aggregate\n--dependency=afterok:17\n--kill-on-invalid-dep=yes\n"
            "#!/bin/sh\nset --\nshard=0\nwhile [ \"$shard\" -lt 3 ]; do\n"
            "  set -- \"$@\" --runs 'out put/runs'.\"$shard-of-3\".csv\n  shard=$((shard + 1))\ndone\n"
            "exec /opt/aggregate \"$@\" --out 'out put/runs_agg.csv'\n");
}

/// Both jobs, run by a stand-in of srun and of the programs, name the same files.
TEST(SweepTasks, AreNoMoreThanConfigurationsAndThanSlurmTakes) {
  EXPECT_EQ(tasks_of(40, {}), 40);
  EXPECT_EQ(tasks_of(5000, {}), 1000);
  EXPECT_EQ(tasks_of(5000, 20), 20);
  EXPECT_THAT(testing::refusal([] { (void)tasks_of(4, 100); }),
              HasSubstr("--shards 100: the sweep has 4 configurations"));
  EXPECT_THAT(testing::refusal([] { (void)tasks_of(5000, 1001); }), HasSubstr("at most 1000 tasks"));
}

TEST_F(SweepScriptTest, ItsTableReadsTheFilesThatItsTasksWrite) {
  SweepScript sweep = sample();
  sweep.command.front() = stand_in("collect", "printf '%s ' \"$@\"; echo\n");
  sweep.aggregate = stand_in("aggregate", "printf '%s|' \"$@\"; echo\n");
  stand_in("srun", "exec \"$@\"\n");
  stand_in("sbatch", "cat > job; SLURM_ARRAY_TASK_ID=2 sh job >> jobs; echo 1\n");
  const std::string script = folder_.write("sweep.sh", "cd " + folder_.path() + "\n" + text_of(sweep));
  const testing::Finished done =
      testing::spawn({"/usr/bin/env", "PATH=" + folder_.path() + ":/usr/bin:/bin", "/bin/sh", script});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Shard last = Shard::parse("2/3");
  std::string wanted = "--depth 1,2 --env it's --shard 2/3 \n";
  for (std::int64_t i = 0; i < 3; ++i) wanted += "--runs|" + Shard{i, 3}.file("out put/runs.csv") + "|";
  EXPECT_EQ(testing::slurp(folder_.file("jobs")), wanted + "--out|out put/runs_agg.csv|\n");
  EXPECT_EQ(last.file("out put/runs.csv"), "out put/runs.2-of-3.csv");
}

TEST(SlurmText, WordsOfACommandLine) {
  EXPECT_THAT(words_without({"--a", "--sbatch", "--shards", "4", "--shards=5", "--b=1", "--sbatches"}, {"--sbatch"},
                            {"--shards"}),
              ElementsAre("--a", "--b=1", "--sbatches"));
  EXPECT_THAT(words_without({}, {}, {}), IsEmpty());
}

TEST(SlurmText, QuotesWordsAsAShellReadsThem) {
  for (const std::string word : {"", "a b", "it's", "$HOME", "`x`", "\"", "\\", "*", "new\nline", "a;b", "~", "#x"}) {
    const testing::Finished said = testing::spawn({"/bin/sh", "-c", "printf %s " + shell_word(word)});
    EXPECT_EQ(said.out, word);
  }
  EXPECT_EQ(shell_word("--depth=1,2"), "--depth=1,2");
}

TEST(SlurmText, ALimitHoldsItsSeconds) {
  EXPECT_EQ(limit_minutes(0.1), 1);
  EXPECT_EQ(limit_minutes(60), 1);
  EXPECT_EQ(limit_minutes(60.5), 2);
  EXPECT_EQ(limit_minutes(1e300), 4294967293);
}

}  // namespace
}  // namespace perfpred
