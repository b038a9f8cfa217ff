// SPDX-License-Identifier: Apache-2.0
// The folder into which jobs drop what they measured, and the models that learn it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "refusal.h"
#include "service/run_spool.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class RunSpoolTest : public ::testing::Test {
 protected:
  RunSpoolTest()
      : model_file_(folder_.file("lab.json")),
        models_(files(), {}, [](const std::string&) {}),
        service_(models_, metrics_, {}) {
    workload_ = Workload::zoo("resnet50", 64);
    workload_.device = "L4";
  }

  std::vector<ModelFile> files() {
    TimeRegressor::standard().save(model_file_);
    return {{"standard", ""}, {"lab", model_file_}};
  }
  RunSpool spool(const std::string& model = {}) {
    return {models_, service_, folder_.file("spool"), model,
            [this](const std::string& line) { said_.push_back(line); }};
  }
  std::string drop(const std::string& name, const std::string& text) { return folder_.write("spool/" + name, text); }
  [[nodiscard]] double epoch_sec() const { return models_.find("lab")->regressor.predict(workload_).time_sec.p50; }
  [[nodiscard]] std::string table(double sec, const std::string& when) const {
    return "key,timestamp_utc,avg_time_sec\n" + workload_.key() + "," + when + "," + std::to_string(sec) + "\n";
  }
  [[nodiscard]] std::size_t count(const std::string& part) const {
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder_.file("spool/" + part)))
      files += entry.is_directory() ? 0U : 1U;
    return files;
  }

  testing::TemporaryFolder folder_;
  std::string model_file_;
  Metrics metrics_;
  ServedModels models_;
  Service service_;
  Workload workload_;
  std::vector<std::string> said_;
};

TEST_F(RunSpoolTest, TeachesAModelWhatIsDropped) {
  RunSpool taken = spool();
  taken.take();
  EXPECT_THAT(said_, IsEmpty());
  const double before = epoch_sec();
  drop("host-1.csv", table(1.5 * before, "2026-01-01T00:00:00"));
  drop("host-2.csv", table(1.5 * before, "2026-01-02T00:00:00"));
  taken.take();
  EXPECT_THAT(said_, ElementsAre("spool: host-1.csv: 1 runs observed, 0 set aside",
                                 "spool: host-2.csv: 1 runs observed, 0 set aside"));
  EXPECT_GT(epoch_sec(), 1.3 * before);
  EXPECT_EQ(count("done"), 2U);
  EXPECT_EQ(count(""), 0U);
  // Counted as those of POST /v1/observe: the first was outside of what the model expected.
  EXPECT_THAT(metrics_.text(), HasSubstr("perfpred_observed_runs_total{model=\"lab\"} 2"));
  drop("again.csv", table(1.5 * before, "2026-01-01T00:00:00"));
  taken.take();
  EXPECT_EQ(said_.back(), "spool: again.csv: 0 runs observed, 1 set aside: already observed");
}

TEST_F(RunSpoolTest, RefusesWhatIsNoTableOfRuns) {
  RunSpool taken = spool("lab");
  drop("a.csv", "no table");
  drop("b.csv", "key,timestamp_utc,avg_time_sec\n");
  drop("c.csv", std::string((4U << 20U) + 1, 'x'));
  fs::create_symlink("/etc/passwd", folder_.file("spool/d.csv"));
  ::mkfifo(folder_.file("spool/e.csv").c_str(), 0600);
  drop("f.csv", "key,timestamp_utc,avg_time_sec\nnetwork=resnet51,x,1\n");
  drop(".hidden.csv", "no table");
  drop("unfinished.tmp", "no table");
  taken.take();
  ASSERT_THAT(said_, SizeIs(6));
  for (const std::string& line : said_) EXPECT_THAT(line, HasSubstr(".csv is refused: "));
  EXPECT_THAT(said_[3], StartsWith("spool: d.csv is refused: cannot be read"));
  EXPECT_EQ(count("refused"), 6U);
  EXPECT_EQ(count(""), 2U);  // what is not complete yet
}

TEST_F(RunSpoolTest, NeedsAModelWithAFile) {
  EXPECT_THAT(testing::refusal([&] { (void)spool("standard"); }), HasSubstr("no model \"standard\" with a file"));
  EXPECT_THAT(testing::refusal([&] { (void)spool("nobody"); }), HasSubstr("no model \"nobody\""));
  ServedModels standard({{"standard", ""}}, {}, [](const std::string&) {});
  EXPECT_THAT(testing::refusal([&] {
                const RunSpool none(standard, service_, folder_.file("spool"), "", [](const std::string&) {});
              }),
              HasSubstr("a spool needs --model"));
}

/// What cannot be taught now is kept for later, and said once.
TEST_F(RunSpoolTest, KeepsWhatTheModelsFileCannotTake) {
  RunSpool taken = spool();
  drop("run.csv", table(1, "2026-01-01T00:00:00"));
  fs::rename(model_file_, model_file_ + ".away");
  for (int i = 0; i < 3; ++i) taken.take();
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], StartsWith("spool: run.csv stays: "));
  fs::rename(model_file_ + ".away", model_file_);
  taken.take();
  EXPECT_EQ(count("done"), 1U);
}

}  // namespace
}  // namespace perfpred
