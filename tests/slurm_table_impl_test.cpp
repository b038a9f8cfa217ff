// SPDX-License-Identifier: Apache-2.0
// The table that a service keeps for a Slurm cluster, and the plugin of slurmctld that reads it, run by a plain Lua
// with a stand-in for Slurm. The test skips what needs Lua where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/answer.h>
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "child_process.h"
#include "cli/spawn.h"
#include "refusal.h"
#include "service/slurm_table.h"
#include "temporary_folder.h"
#include "tools/json_request.h"
#include "tools/slurm_forecast.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr std::time_t now = 1'800'000'000;
const std::string resnet50 = "network=resnet50;batch_size=64;device=L4;epochs=90;startup_sec=300;evaluation=50000";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
  return fields;
}

class SlurmTableTest : public ::testing::Test {
 protected:
  SlurmTableTest() : model_file_(folder_.file("lab.json")), models_(files(), {}, [](const std::string&) {}) {
    options_.file = folder_.file("table");
  }

  std::vector<ModelFile> files() {
    TimeRegressor::standard().save(model_file_);
    return {{"lab", model_file_}};
  }

  void ask(const std::string& lines) { std::ofstream(options_.file + ".requests", std::ios::app) << lines; }
  [[nodiscard]] std::string text() const { return testing::slurp(options_.file); }
  SlurmTable table() {
    return {models_, options_, [this](const std::string& line) { said_.push_back(line); }};
  }
  [[nodiscard]] std::string row(const std::string& job, const std::string& partition = "gpu") {
    return slurm_row(*models_.find(""), options_, partition, job);
  }

  testing::TemporaryFolder folder_;
  std::string model_file_;
  ServedModels models_;
  SlurmTableOptions options_;
  std::vector<std::string> said_;
};

TEST_F(SlurmTableTest, AnswersARequestAsTheLibraryDoes) {
  SlurmTable kept = table();
  ask("gpu " + resnet50 + "\n");
  kept.refresh(now);
  const std::vector<std::string> lines = lines_of(text());
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0], "perfpred-slurm-table 1 written=1800000000 mode=observe rows=1 bytes=" +
                          std::to_string(lines[1].size() + 1));
  const std::vector<std::string> fields = fields_of(lines[1]);
  ASSERT_THAT(fields, SizeIs(6));
  EXPECT_EQ(fields[0], "gpu " + resnet50);
  EXPECT_EQ(fields[1], "ok");

  const TimeRegressor model = TimeRegressor::standard();
  Workload workload = Workload::zoo("resnet50", 64);
  workload.device = "L4";
  AnswerTerms terms;
  terms.job.epochs = 90;
  terms.job.startup_sec = 300;
  terms.job.evaluation = 50'000;
  terms.job.quantiles = {0.999};
  const ModelRequests requests(model, {});
  terms.job.unstated =
      read_request(requests, nlohmann::json{{"network", "resnet50"}, {"batch_size", 64}, {"device", "L4"}})
          .terms.job.unstated;
  const Forecast expected = forecast(model, workload, terms.job);
  EXPECT_EQ(fields[2], std::to_string(std::llround(expected.total_sec.p05)));
  EXPECT_EQ(fields[3], std::to_string(std::llround(std::ceil(expected.quantiles[0].total_sec / 60))));
  EXPECT_EQ(fields[4], "fits");
  const auto comment = parse_admin_comment(fields[5]);
  ASSERT_TRUE(comment);
  EXPECT_EQ(comment->key, workload.key());
  EXPECT_EQ(comment->model, "lab");
  EXPECT_EQ(comment->epochs, 90);
  EXPECT_NEAR(comment->total_sec.p95, expected.total_sec.p95, 0.001);
  EXPECT_NEAR(comment->other_sec, 300 + 90 * expected.evaluation_sec->p50, 0.01);
}

TEST_F(SlurmTableTest, AJobWithoutADeviceHasItsPartitions) {
  options_.devices = {{"gpu", "T4"}};
  options_.startup_sec = 1000;
  const std::string job = "network=resnet18;batch_size=8;epochs=1";
  EXPECT_THAT(row(job), StartsWith("ok\t"));
  EXPECT_THAT(row(job), HasSubstr("device=T4"));
  EXPECT_THAT(row(job + ";device=L4"), HasSubstr("device=L4"));
  EXPECT_THAT(row(job, "cpu"), StartsWith("refused\t"));
  const double by_default = std::stod(fields_of(row(job))[1]);
  EXPECT_NEAR(by_default - std::stod(fields_of(row(job + ";startup_sec=1"))[1]), 999, 1);
  options_.devices = {{"gpu", "no such card"}};
  EXPECT_THAT(testing::refusal([&] { (void)table(); }), HasSubstr("no such card"));
}

/// Each is refused in one line, whatever it is.
TEST_F(SlurmTableTest, CommentsThatAreNoWorkloadAreRefusedInOneLine) {
  const std::vector<std::pair<std::string, std::string>> comments = {
      {"network", "\"network\" is not name=value"},
      {"=5", "is not name=value"},
      {"network=resnet50;network=resnet18;epochs=1", "network is given twice"},
      {"network=resnet50;batch_size=64;device=L4", "epochs or max_steps is missing"},
      {"network=resnet51;batch_size=64;device=L4;epochs=1", "resnet51"},
      {"network=resnet50;batch_size=0;device=L4;epochs=1", "batch_size \"0\" is not"},
      {"network=resnet50;batch_size=64;device=L4;epochs=-1", "epochs \"-1\" is not"},
      {"network=resnet50;batch_size=64;device=L4;epochs=nan", "epochs \"nan\" is not"},
      {"network=resnet50;batch_size=64;device=NoSuch;epochs=1", "NoSuch"},
      {"network=resnet50;batch_size=64;device=L4;epochs=1;colour=red", "colour"},
      {"network=resnet50;batch_size=64;device=L4;epochs=1;colour=red", "epochs, max_steps, startup_sec, evaluation"},
      {"network=resnet50;batch_size=64;device=L4;epochs=1e300", "longer than a time limit can be"},
      {"config=/etc/shadow;batch_size=64;device=L4;epochs=1", "opens no file"},
      {"step=/etc/shadow;device=L4;epochs=1", "opens no file"},
      {"network=step:0123456789ab;batch_size=64;device=L4;epochs=1", "step:0123456789ab"},
      {"network=gpt2;batch_size=8;device=L4;epochs=1", "train_images or train_tokens"},
      {"network=resnet50;batch_size=64;device=L4;epochs=1;quantiles=0.5", "quantiles is not for a job of Slurm"},
      {"network=resnet50;batch_size=64;device=L4;epochs=1;max_steps=5", "epochs and max_steps are both given"},
      {"network=resnet50;batch_size=64;device=L4;epochs=1;checkpoint_every=2", "checkpoint_every needs checkpoint_sec"},
      {"network=resnet50;batch_size=64;device=L4;epochs=1;evaluation=-2", "evaluation is negative"},
      {"", "epochs or max_steps is missing"}};
  for (const auto& [comment, why] : comments) {
    const std::string said = row(comment);
    EXPECT_THAT(said, StartsWith("refused\t")) << comment;
    EXPECT_THAT(said, HasSubstr(why)) << comment;
    EXPECT_EQ(std::count_if(said.begin(), said.end(), [](char c) { return c == '\n' || c == '\t'; }), 1) << said;
  }
  EXPECT_THAT(row("network=gpt2;batch_size=8;device=L4;max_steps=100"), StartsWith("ok\t"));
}

TEST_F(SlurmTableTest, IsWrittenWhereSomethingIsNewAndBeforeItIsStale) {
  SlurmTable kept = table();
  kept.refresh(now);
  EXPECT_THAT(text(), HasSubstr("written=1800000000 mode=observe rows=0 bytes=0"));
  kept.refresh(now + 9);
  EXPECT_THAT(text(), HasSubstr("written=1800000000"));
  kept.refresh(now + 10);
  EXPECT_THAT(text(), HasSubstr("written=1800000010"));
  ask("b x\na y\n");
  kept.refresh(now + 11);
  EXPECT_THAT(text(), HasSubstr("written=1800000011 mode=observe rows=2"));
  EXPECT_THAT(lines_of(text())[1], StartsWith("a y\trefused"));  // sorted
  ask("a y\n");                                                  // known
  kept.refresh(now + 12);
  EXPECT_THAT(text(), HasSubstr("written=1800000011"));
  EXPECT_EQ(testing::slurp(options_.file + ".requests"), "");
}

TEST_F(SlurmTableTest, PassesOverRequestsThatAreNone) {
  SlurmTable kept = table();
  ask("no-blank\n\ngpu " + std::string(2000, 'x') + "\ngpu a\tb\ngpu \xff\ngpu good=1\ngpu cut off");
  kept.refresh(now);
  EXPECT_THAT(text(), HasSubstr("rows=1 "));
  EXPECT_THAT(text(), HasSubstr("gpu good=1\trefused"));
}

TEST_F(SlurmTableTest, ARestartedServiceKnowsWhatTheFormerOneDid) {
  {
    SlurmTable kept = table();
    ask("gpu " + resnet50 + "\ngpu bad\n");
    kept.refresh(now);
  }
  const std::vector<std::string> before = lines_of(text());
  SlurmTable kept = table();
  kept.refresh(now + 1);
  const std::vector<std::string> after = lines_of(text());
  ASSERT_EQ(after.size(), 3U);
  EXPECT_EQ(std::vector(before.begin() + 1, before.end()), std::vector(after.begin() + 1, after.end()));
}

/// The first service is killed before, or ends when the disk is full: the second one answers.
TEST_F(SlurmTableTest, ARequestStaysUntilTheTableHasItsAnswer) {
  SlurmTable kept = table();
  ask("gpu " + resnet50 + "\n");
  const int code = testing::exit_code_of([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{10, 10};
    ::setrlimit(RLIMIT_FSIZE, &small);
    kept.refresh(now);
    return said_.size() == 1 ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(testing::slurp(options_.file + ".requests"), "gpu " + resnet50 + "\n");
  SlurmTable next = table();
  next.refresh(now);
  EXPECT_THAT(text(), HasSubstr("gpu " + resnet50 + "\tok\t"));
  EXPECT_EQ(testing::slurp(options_.file + ".requests"), "");
}

/// The plugin appends while the service answers.
TEST_F(SlurmTableTest, NoneOfManyRequestsIsLost) {
  SlurmTable kept = table();
  std::thread asks([&] {
    for (int i = 0; i < 300; ++i) ask("gpu bad=" + std::to_string(i) + "\n");
  });
  for (int i = 0; i < 50; ++i) kept.refresh(now + i);
  asks.join();
  kept.refresh(now + 50);
  EXPECT_THAT(text(), HasSubstr("rows=300 "));
  EXPECT_EQ(testing::slurp(options_.file + ".requests"), "");
}

TEST_F(SlurmTableTest, AnswersAnewWhatAnotherModelAnswered) {
  options_.enforces = true;
  SlurmTable kept = table();
  ask("gpu " + resnet50 + "\n");
  kept.refresh(now);
  EXPECT_THAT(text(), HasSubstr("mode=enforce"));
  const std::vector<std::string> before = fields_of(lines_of(text())[1]);
  perfpred::Run run;
  run.workload = Workload::zoo("resnet50", 64);
  run.workload.device = "L4";
  run.epochs = 2;
  run.avg_time_sec = 3.0 * std::stod(before[2]) / 90;
  run.timestamp_utc = "2026-01-01T00:00:00";
  ASSERT_THAT(models_.observe("lab", std::vector<perfpred::Run>{run}), IsEmpty());
  kept.refresh(now + 1);
  EXPECT_GT(std::stod(fields_of(lines_of(text())[1])[2]), 1.5 * std::stod(before[2]));
}

TEST_F(SlurmTableTest, DropsTheFirstRequestsBeyondItsSize) {
  options_.most = 3;
  SlurmTable kept = table();
  ask("p a\np b\np c\np d\n");
  kept.refresh(now);
  const std::vector<std::string> lines = lines_of(text());
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[1], StartsWith("p b\t"));
}

TEST_F(SlurmTableTest, ADiskThatRefusesIsSaidOnce) {
  options_.file = folder_.file("run/table");
  fs::create_directory(folder_.file("run"));
  SlurmTable kept = table();
  kept.refresh(now);
  fs::remove_all(folder_.file("run"));
  for (int i = 0; i < 3; ++i) kept.refresh(now + 20 + i);
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], HasSubstr("the table of Slurm's jobs is not written"));
  EXPECT_THAT(testing::refusal([&] { (void)table(); }), HasSubstr("cannot be written"));
}

/// A stand-in for slurmctld, which prints what became of each job.
const std::string stand_in = R"(
slurm = { SUCCESS = 0, ERROR = -1, NO_VAL = 4294967294, INFINITE = 4294967295 }
local said
local function keep(kind) return function(format, ...) said[#said + 1] = kind .. ": " .. string.format(format, ...) end end
slurm.log_info, slurm.log_user, slurm.log_debug = keep("log"), keep("user"), function() end
function submit(job, partitions)
  said = {}
  job.time_limit = job.time_limit or slurm.NO_VAL
  partitions = partitions or { gpu = { flag_default = 1, max_time = slurm.INFINITE } }
  local code = slurm_job_submit(job, partitions, 1000)
  local limit = job.time_limit == slurm.NO_VAL and "none" or tostring(job.time_limit)
  print(code .. "|" .. limit .. "|" .. (job.admin_comment or "") .. "|" .. table.concat(said, "|"))
end
)";

class SlurmPlugin : public SlurmTableTest {
 protected:
  void SetUp() override {
    if (!fs::exists(lua)) GTEST_SKIP() << lua << " is not there";
  }

  /// What becomes of jobs: a line each, `exit code|limit|AdminComment|what was said`.
  std::vector<std::string> submitted(const std::string& code) {
    const std::string script =
        folder_.write("jobs.lua", stand_in + "perfpred = { table = \"" + options_.file + "\", disable = \"" +
                                      folder_.file("disable") + "\" }\ndofile(\"" +
                                      PERFPRED_SOURCE_DIR "/integrations/slurm/job_submit.lua\")\n" + code);
    const testing::Finished done = testing::spawn({lua, script});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return lines_of(done.out);
  }
  std::string submitted_one(const std::string& job) {
    const std::vector<std::string> lines = submitted("submit(" + job + ")\n");
    EXPECT_THAT(lines, SizeIs(1));
    return lines.empty() ? "" : lines[0];
  }
  static std::string job(const std::string& comment, const std::string& more = {}) {
    return "{ comment = \"" + comment + "\"" + more + " }";
  }
  /// A table that is fresh, with an answer to resnet50 in partition gpu.
  void answer_resnet50() {
    SlurmTable kept = table();
    ask("gpu " + resnet50 + "\n");
    kept.refresh(std::time(nullptr));
    row_ = fields_of(lines_of(text())[1]);
  }

  static constexpr const char* lua = "/usr/bin/lua5.3";
  std::vector<std::string> row_;
};

TEST_F(SlurmPlugin, ObservingWritesTheForecastAndNoLimit) {
  answer_resnet50();
  EXPECT_EQ(submitted_one(job("perfpred:" + resnet50)), "0|none|" + row_[5] + "|");
  EXPECT_EQ(submitted_one(job("of mine perfpred:" + resnet50 + " and more", ", partition = \"gpu\"")),
            "0|none|" + row_[5] + "|");
  EXPECT_EQ(submitted_one(job("perfpred:" + resnet50, ", admin_comment = \"of another\"")), "0|none|of another|");
}

TEST_F(SlurmPlugin, EnforcingSetsALimitWhereThereIsNone) {
  options_.enforces = true;
  answer_resnet50();
  const std::string asks = "perfpred:" + resnet50;
  EXPECT_THAT(submitted_one(job(asks)),
              StartsWith("0|" + row_[3] + "|" + row_[5] + "|user: perfpred: the time limit is"));
  EXPECT_EQ(submitted_one(job(asks, ", time_limit = 100000")), "0|100000|" + row_[5] + "|");
  EXPECT_EQ(submitted_one(job(asks, ", time_limit = slurm.INFINITE")), "0|4294967295|" + row_[5] + "|");
  const std::vector<std::string> short_partition =
      submitted("submit(" + job(asks) + ", { gpu = { flag_default = 1, max_time = 5 } })\n");
  ASSERT_THAT(short_partition, SizeIs(1));
  EXPECT_THAT(short_partition[0], StartsWith("0|none|" + row_[5] + "|log: perfpred: beyond_partition:"));
}

TEST_F(SlurmPlugin, WarnsOfALimitThatIsTooShortAndOfMemory) {
  SlurmTable kept = table();
  ask("gpu " + resnet50 + "\ngpu network=gpt2_xl;batch_size=64;device=T4;max_steps=10\n");
  kept.refresh(std::time(nullptr));
  const std::string warned = submitted_one(job("perfpred:" + resnet50, ", time_limit = 3"));
  EXPECT_THAT(warned, StartsWith("0|3|perfpred:"));
  EXPECT_THAT(warned, HasSubstr("user: perfpred: the time limit of 3 min is shorter than 19 of 20 such jobs take"));
  EXPECT_THAT(submitted_one(job("perfpred:network=gpt2_xl;batch_size=64;device=T4;max_steps=10")),
              HasSubstr("user: perfpred: the job needs more memory than its device has"));
}

TEST_F(SlurmPlugin, AsksForWhatIsNotKnownAndTellsWhatIsRefused) {
  answer_resnet50();
  const std::string other = "network=resnet18;batch_size=8;device=L4;epochs=1";
  EXPECT_THAT(submitted_one(job("perfpred:" + other)), StartsWith("0|none||log: perfpred: unknown: it is asked"));
  SlurmTable kept = table();
  kept.refresh(std::time(nullptr));
  EXPECT_THAT(submitted_one(job("perfpred:" + other)), StartsWith("0|none|perfpred:p05_sec="));
  EXPECT_THAT(submitted_one(job("perfpred:network=resnet51;epochs=1")), HasSubstr("unknown"));
  kept.refresh(std::time(nullptr));
  EXPECT_THAT(submitted_one(job("perfpred:network=resnet51;epochs=1")), HasSubstr("user: perfpred: no forecast: "));
}

/// Whatever a comment is, the job passes as it came.
TEST_F(SlurmPlugin, JobsPassWhateverTheirCommentIs) {
  answer_resnet50();
  EXPECT_EQ(submitted_one("{}"), "0|none||");
  EXPECT_EQ(submitted_one(job("")), "0|none||");
  EXPECT_EQ(submitted_one(job("notperfpred:a=1")), "0|none||");
  for (const std::string comment :
       {"perfpred:", "perfpred: a=1", "perfpred:a\\tb", "perfpred:\\255=1", "perfpred:%s%d%n", "perfpred:;;;",
        "perfpred:=", "perfpred:a\\0b", "perfpred:|", "perfpred:\\n"}) {
    const std::string said = submitted_one(job(comment));
    EXPECT_THAT(said, StartsWith("0|none||log: perfpred: ")) << comment;
  }
  EXPECT_THAT(submitted_one("{ comment = \"perfpred:\" .. string.rep(\"x\", 100000) }"), HasSubstr("no_request"));
  EXPECT_THAT(
      submitted_one("setmetatable({}, { __index = function(_, k) if k == \"comment\" then error(\"boom\") end end })"),
      HasSubstr("log: perfpred: error: the job passes as it came:"));
}

/// A table that is missing, damaged, cut off, stale or switched off is a line in the log.
TEST_F(SlurmPlugin, JobsPassWhateverTheTableIs) {
  const std::string asks = job("perfpred:" + resnet50);
  EXPECT_THAT(submitted_one(asks), StartsWith("0|none||log: perfpred: no_table:"));
  answer_resnet50();
  const std::string good = text();
  const auto with = [&](const std::string& bytes) {
    std::ofstream(options_.file, std::ios::trunc) << bytes;
    return submitted_one(asks);
  };
  EXPECT_THAT(with(good), StartsWith("0|none|perfpred:"));
  for (std::size_t size = 0; size < good.size(); size += 7)
    EXPECT_THAT(with(good.substr(0, size)), StartsWith("0|none||log: perfpred: damaged:")) << size;
  EXPECT_THAT(with(good + "x"), HasSubstr("damaged"));
  EXPECT_THAT(with(std::string(1 << 16, '\0')), HasSubstr("damaged"));
  EXPECT_THAT(with("perfpred-slurm-table 2" + good.substr(22)), HasSubstr("damaged"));
  const std::string old = std::regex_replace(good, std::regex("written=\\d+"), "written=1000000000");
  EXPECT_THAT(with(old), StartsWith("0|none||log: perfpred: stale: the job passes as it came: the table is"));
  EXPECT_THAT(with(std::regex_replace(good, std::regex("\tok\t"), "\tno\t")), HasSubstr("damaged: the job passes"));
  with(good);
  std::ofstream(folder_.file("disable")) << "";
  EXPECT_THAT(submitted_one(asks), StartsWith("0|none||log: perfpred: disabled:"));
  fs::remove(folder_.file("disable"));
  fs::remove(options_.file);
  fs::create_directory(options_.file);
  EXPECT_THAT(submitted_one(asks), StartsWith("0|none||log: perfpred: "));
}

/// Bisection finds each of many requests, whatever their lengths, and none that is not there.
TEST_F(SlurmPlugin, FindsEachLineOfATable) {
  std::mt19937 random(1);
  std::vector<std::string> requests;
  for (int i = 0; i < 400; ++i) {
    std::string request = "gpu k=";
    for (std::size_t length = 1 + random() % (i % 10 == 0 ? 400 : 6); length > 0; --length)
      request += static_cast<char>('!' + random() % 3 * 30);
    requests.push_back(request);
  }
  std::sort(requests.begin(), requests.end());
  requests.erase(std::unique(requests.begin(), requests.end()), requests.end());
  std::string body, code;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i % 2 == 0) body += requests[i] + "\trefused\tnumber " + std::to_string(i) + "\n";
    code += "submit({ comment = \"perfpred:" + requests[i].substr(4) + "\" })\n";
  }
  std::ofstream(options_.file) << "perfpred-slurm-table 1 written=" << std::time(nullptr)
                               << " mode=observe rows=1 bytes=" << body.size() << "\n"
                               << body;
  const std::vector<std::string> said = submitted(code);
  ASSERT_EQ(said.size(), requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::string wanted = i % 2 == 0 ? "no forecast: number " + std::to_string(i) : "unknown: it is asked";
    EXPECT_THAT(said[i], HasSubstr(wanted)) << requests[i];
  }
}

TEST_F(SlurmPlugin, AsksNoMoreThanIsRead) {
  answer_resnet50();
  std::ofstream(options_.file + ".requests") << std::string(1 << 20, 'x') << "\n";
  EXPECT_THAT(submitted_one(job("perfpred:a=1")), HasSubstr("not_asked: too many requests wait"));
  EXPECT_EQ(fs::file_size(options_.file + ".requests"), (1U << 20) + 1);
  fs::remove(options_.file + ".requests");
  fs::create_directory(options_.file + ".requests");
  EXPECT_THAT(submitted_one(job("perfpred:a=1")), StartsWith("0|none||log: perfpred: not_asked:"));
}

}  // namespace
}  // namespace perfpred
