// SPDX-License-Identifier: Apache-2.0
// Requests from a stream: what one of them fails by is its own error, and nobody is asked for an answer that cannot be
// written.
#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "refusal.h"
#include "temporary_folder.h"
#include "tools/answer_lines.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// Answers `{"fails": how}` as it says, others with how many were asked.
class Answerer {
 public:
  Json operator()(const Json& request) {
    ++asked;
    const std::string how = request.value("fails", "");
    if (how == "memory") throw std::bad_alloc();
    if (how == "input") throw InputError("no such network");
    if (how == "other") throw std::length_error("vector");
    return {{"asked", asked}};
  }
  int asked = 0;
};

std::vector<Json> answers_to(const std::string& lines) {
  const testing::TemporaryFolder folder;
  std::istringstream in(lines);
  Answerer answerer;
  answer_lines(in, File(std::fopen(folder.file("out").c_str(), "w")).get(), std::ref(answerer));
  std::vector<Json> answers;
  std::istringstream out(testing::slurp(folder.file("out")));
  for (std::string line; std::getline(out, line);) answers.push_back(Json::parse(line));
  return answers;
}

TEST(AnswerLines, WhatARequestFailsByIsItsError) {
  EXPECT_EQ(answers_to("{}\n{\"fails\":\"memory\"}\n{\"fails\":\"input\"}\n\n  \r\n{\"fails\":\"other\"}\n{}"),
            (std::vector<Json>{{{"asked", 1}},
                               {{"error", "out of memory"}},
                               {{"error", "no such network"}},
                               {{"error", "vector"}},
                               {{"asked", 5}}}));
}

TEST(AnswerLines, AnAnswerHasTheIdOfItsRequest) {
  for (const char* id : {"7", "\"job 7\"", "null", "[1,{\"a\":2}]", "1.5", "false"}) {
    const std::string with_id = std::string("{\"id\":") + id;
    const std::vector<Json> answers = answers_to(with_id + "}\n" + with_id + ",\"fails\":\"input\"}\n");
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[0], (Json{{"asked", 1}, {"id", Json::parse(id)}}));
    EXPECT_EQ(answers[1], (Json{{"error", "no such network"}, {"id", Json::parse(id)}}));
  }
  const std::vector<Json> answers = answers_to("{\"id\":3\n[3]\n");
  ASSERT_EQ(answers.size(), 2U);
  for (const Json& answer : answers) EXPECT_THAT(answer.at("error"), ::testing::HasSubstr("JSON object")) << answer;
}

TEST(AnswerLines, NobodyIsAskedForAnAnswerThatCannotBeWritten) {
  const File full(std::fopen("/dev/full", "w"));
  std::istringstream in("{}\n{}\n{}\n");
  Answerer answerer;
  EXPECT_EQ(testing::refusal<Error>([&] { answer_lines(in, full.get(), std::ref(answerer)); }),
            "the answers cannot be written");
  EXPECT_EQ(answerer.asked, 1);
}

}  // namespace
}  // namespace perfpred
