// SPDX-License-Identifier: Apache-2.0
// Colour where a person looks, plain texts where a program reads.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "spawn.h"
#include "tools/terminal_text.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Colour, IsForPeopleWhoWantIt) {
  EXPECT_TRUE(wants_colour(true, nullptr, "xterm"));
  EXPECT_TRUE(wants_colour(true, "", "xterm"));  // no-color.org: not an empty string
  EXPECT_FALSE(wants_colour(true, "1", "xterm"));
  EXPECT_FALSE(wants_colour(true, "0", "xterm"));
  EXPECT_FALSE(wants_colour(true, nullptr, "dumb"));
  EXPECT_FALSE(wants_colour(true, nullptr, nullptr));
  EXPECT_FALSE(wants_colour(false, nullptr, "xterm"));
}

/// What a program writes to a terminal.
std::string on_terminal(const std::vector<std::string>& command) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) throw std::runtime_error("no terminal");
  const std::string name = ::ptsname(terminal);
  const int kept_open = ::open(name.c_str(), O_RDWR | O_NOCTTY);  // what was written stays until it is read
  EXPECT_EQ(testing::spawn(command, {}, name).exit_code, 0);
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  std::string text;
  std::array<char, 4096> some{};
  for (ssize_t n = 0; (n = ::read(terminal, some.data(), some.size())) > 0;) text.append(some.data(), std::size_t(n));
  ::close(kept_open);
  ::close(terminal);
  std::erase(text, '\r');
  return text;
}

std::string without_styles(std::string text) {
  for (std::size_t begin = 0; (begin = text.find('\x1b', begin)) != std::string::npos;)
    text.erase(begin, text.find('m', begin) + 1 - begin);
  return text;
}

class ColourOfPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
  }
};

TEST_F(ColourOfPrograms, EndsWhereAProgramReads) {
  const std::string predict = testing::program("predict");
  if (predict.empty()) GTEST_SKIP() << "perfpred-predict is not built";
  const std::vector<std::string> sweep = {predict,   "--network",          "vgg16", "--device", "T4",
                                          "--sweep", "batch_size=1,100000"};
  const std::string shown = on_terminal(sweep), piped = testing::spawn(sweep).out;
  EXPECT_THAT(shown, HasSubstr("\x1b[1m"));
  EXPECT_THAT(shown, HasSubstr("\x1b[31mdoes not fit"));
  EXPECT_THAT(piped, Not(HasSubstr("\x1b")));
  EXPECT_EQ(without_styles(shown), piped);
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(on_terminal(sweep), piped);
}

TEST_F(ColourOfPrograms, HeadsOfTablesAreBold) {
  const std::string devices = testing::program("devices");
  if (devices.empty()) GTEST_SKIP() << "perfpred-devices is not built";
  const std::vector<std::string> json = {devices, "T4", "--json"};
  EXPECT_EQ(on_terminal(json), testing::spawn(json).out);
  const std::string inspect = testing::program("inspect");
  if (inspect.empty()) GTEST_SKIP() << "perfpred-inspect is not built";
  const std::vector<std::string> step = {inspect, "--network", "alexnet", "--batch-size", "1"};
  EXPECT_THAT(on_terminal(step), HasSubstr("\x1b[1m"));
  EXPECT_EQ(without_styles(on_terminal(step)), testing::spawn(step).out);
}

}  // namespace
}  // namespace perfpred
