// SPDX-License-Identifier: Apache-2.0
#include "text/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>

#include "text/sbatch.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

constexpr ValuePlace place{"runs.csv", 17, "batch_size"};

TEST(Parse, WholeNumbersOnly) {
  EXPECT_EQ(parse_finite("1.5", {}), 1.5);
  EXPECT_EQ(parse_finite(" -2e3\t", {}), -2000);
  EXPECT_EQ(parse_positive("1e-300", {}), 1e-300);
  EXPECT_EQ(parse_non_negative("0", {}), 0);
  EXPECT_EQ(parse_integer("-7", {}), -7);
  EXPECT_EQ(parse_positive_integer("9223372036854775807", {}), std::numeric_limits<std::int64_t>::max());
  for (const char* text : {"", " ", "abc", "1.5x", "1,5", "1 2", "nan", "inf", "-inf", "NaN", "0x10", "1e999", "--1",
                           "\xD9\xA1", "1.5\xC2\xA0"}) {
    EXPECT_THROW((void)parse_finite(text, {}), InputError) << text;
    EXPECT_THROW((void)parse_integer(text, {}), InputError) << text;
  }
  for (const char* text : {"0", "-1", "-0", "nan", "1e-400"}) EXPECT_THROW((void)parse_positive(text, {}), InputError);
  for (const char* text : {"-1", "nan", "-1e-300"}) EXPECT_THROW((void)parse_non_negative(text, {}), InputError);
  for (const auto& [text, value] : {std::pair("0.0", false), {" 1.0 ", true}, {"1", true}, {"0", false}})
    EXPECT_EQ(parse_flag(text, {}), value);
  for (const char* text : {"", "2", "1.5", "0.", "yes", "-0.0x"}) EXPECT_THROW((void)parse_flag(text, {}), InputError);
  for (const auto& [text, value] : {std::pair("2.0", 2), {" 128.000 ", 128}})  // of pandas
    EXPECT_EQ(parse_positive_integer(text, {}), value);
  EXPECT_EQ(parse_integer("-1.0", {}), -1);
  for (const char* text : {"0", "-3", "1.5", "1.", ".0", "1.0.0", "1.0e1", "0.0", "1e3", "9223372036854775808"}) {
    EXPECT_THROW((void)parse_positive_integer(text, {}), InputError) << text;
  }
}

TEST(Parse, TimesAreSecondsOrClusterTime) {
  struct Case {
    const char* text;
    double seconds;
  };
  for (const auto& [text, seconds] :
       {Case{"3600", 3600}, Case{"0", 0}, Case{"10.5", 10.5}, Case{"3600.0", 3600}, Case{"1e4", 10'000},
        Case{" 0.25 ", 0.25}, Case{"2:00:00", 7200}, Case{"00:01:30", 90}, Case{"100:00:00", 360'000},
        Case{"1-00:00:00", 86'400}, Case{"7-23:59:59", 691'199}, Case{"4611686018427387904", 0x1p62},
        // The forms of sbatch(1): minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes.
        Case{"30:00", 1800}, Case{"1:30", 90}, Case{"90:5", 5405}, Case{"8:0:0", 28'800}, Case{"1:0:00", 3600},
        Case{"1:00:0", 3600}, Case{"2-12", 216'000}, Case{"1-00", 86'400}, Case{"0-5", 18'000},
        Case{"1-12:30", 131'400}, Case{"1-2:3", 93'780}, Case{"1-12:30:00", 131'400}, Case{"1e-2", 0.01}}) {
    EXPECT_EQ(parse_seconds(text, {}), seconds) << text;
  }
  for (const char* text : {"",         "-1",         "nan",       "inf",         "1e308",     "9223372036854775808",
                           "abc",      "010",        "0x10",      "1:60:00",     "1:00:60",   "1:60",
                           "1:000",    "::",         ":00:00",    "1::00",       ":30",       "30:",
                           "-1:00:00", "1-24:00:00", "1-24",      "1-2-3:00:00", "1-",        "-12",
                           "1-2:",     "1:2-3",      "1:00:00.5", "1:00:00:00",  "1-0:0:0:0", "1:-1:00",
                           "1.5:0:0",  "1:00:00 h",  "1 h",       "1.5-12",      "1-2.5",     "- 1",
                           "1e-"}) {
    EXPECT_THROW((void)parse_seconds(text, {}), InputError) << text;
  }
  EXPECT_THAT(
      [] {
        (void)parse_seconds("1h", {{}, 0, "--budget-sec"});
      },
      ThrowsMessage<InputError>(
          "--budget-sec \"1h\" is not a time in seconds, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"));
}

TEST(Parse, Utf8IsWhatTheStandardCallsWellFormed) {
  // Of three bytes: 128 characters take one, 1920 take two, 61440 (surrogates are none) take three.
  std::size_t well_formed = 0;
  std::string text(3, '\0');
  for (int code = 0; code < 1 << 24; ++code) {
    for (std::size_t i = 0; i < 3; ++i) text[i] = static_cast<char>(code >> (8 * i) & 0xff);
    well_formed += is_utf8(text) ? 1 : 0;
  }
  EXPECT_EQ(well_formed, 128U * 128 * 128 + 2 * 128 * 1920 + 61'440);
  for (const char* four : {"\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xf0\x9f\x98\x80z"}) EXPECT_TRUE(is_utf8(four));
  for (const char* not_four : {"\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf0\x9f\x98"})
    EXPECT_FALSE(is_utf8(not_four));
  EXPECT_TRUE(is_utf8(""));
}

TEST(Parse, NumbersAreCorrectlyRounded) {
  // Halfway cases and the limits of a double (Clinger 1990; David Gay's tests).
  EXPECT_EQ(parse_finite("9007199254740993", {}), 9007199254740992.0);
  EXPECT_EQ(parse_finite("2.2250738585072011e-308", {}), 2.2250738585072011e-308);
  EXPECT_EQ(parse_finite("1.7976931348623157e308", {}), std::numeric_limits<double>::max());
  EXPECT_EQ(parse_finite("4.9406564584124654e-324", {}), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(parse_finite("6929495644600919.5", {}), 6929495644600920.0);
}

TEST(Parse, TextsReadBackTheSame) {
  for (const double value : {0.1, 1.0 / 3, 1e22, 5e-324, 1.7976931348623157e308, 123456789012345680.0, 0.0}) {
    EXPECT_EQ(parse_finite(number_text(value), {}), value);
  }
  EXPECT_EQ(number_text(std::nullopt), "");
  EXPECT_EQ(number_text(std::optional(0.25)), "0.25");
}

TEST(Parse, MessagesNameThePlaceAndShowTheValue) {
  EXPECT_THAT([] { (void)parse_positive_integer("abc", place); },
              ThrowsMessage<InputError>("runs.csv:17: batch_size \"abc\" is not a positive integer"));
  EXPECT_THAT(
      [] {
        (void)parse_finite("x", {"f.csv", 0, "a"});
      },
      ThrowsMessage<InputError>("f.csv: a \"x\" is not a finite number"));
  EXPECT_THAT(
      [] {
        (void)parse_finite("x", {{}, 0, "--seed"});
      },
      ThrowsMessage<InputError>("--seed \"x\" is not a finite number"));
  EXPECT_THAT(
      [] { (void)parse_finite(std::string(1'000'000, 'y'), place); },
      ThrowsMessage<InputError>("runs.csv:17: batch_size \"" + std::string(40, 'y') + "...\" is not a finite number"));
  EXPECT_EQ(shown("a\nb\tc\x1b[2J"), "a?b?c?[2J");
}

TEST(Parse, ALongValueIsNotCutInsideACharacter) {
  const std::string value = std::string(39, 'x') + "\xC3\xA9" + std::string(9, 'y');  // é at bytes 39 and 40
  EXPECT_EQ(shown(value), std::string(39, 'x') + "...");
}

std::vector<double> seconds_of(std::string_view text) {
  std::vector<double> seconds = {99};
  parse_seconds_list(text, {}, seconds);
  return seconds;
}

TEST(Parse, Lists) {
  EXPECT_THAT(seconds_of("[]"), IsEmpty());
  EXPECT_THAT(seconds_of(" [ ] "), IsEmpty());
  EXPECT_THAT(seconds_of("[1.5]"), ElementsAre(1.5));
  EXPECT_THAT(seconds_of("[1.5, 2 ,3e0]"), ElementsAre(1.5, 2, 3));
  for (const char* text : {"", "[", "]", "1", "[1", "1]", "[1,]", "[,1]", "[1,,2]", "[-1]", "[nan]", "[NaN]",
                           "[Infinity]", "[\"1\"]", "[[1]]", "[1 2]", "null", "[1]]"}) {
    EXPECT_THROW((void)seconds_of(text), InputError) << text;
  }
}

TEST(Sbatch, TimesAreWholeMinutesThatHoldTheSeconds) {
  for (const auto& [sec, text] : {std::pair(0, "0-00:01:00"),
                                  {1, "0-00:01:00"},
                                  {60, "0-00:01:00"},
                                  {61, "0-00:02:00"},
                                  {3600, "0-01:00:00"},
                                  {86'399, "1-00:00:00"},
                                  {90'061, "1-01:02:00"},
                                  {8'640'000, "100-00:00:00"}}) {
    EXPECT_EQ(slurm_time(sec), text);
  }
  EXPECT_EQ(slurm_time(std::numeric_limits<std::int64_t>::max()), "2982616-04:13:00");  // as far as Slurm counts
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto sec = static_cast<std::int64_t>(random() % 10'000'000);
    const double read = parse_seconds(slurm_time(sec), {});
    EXPECT_GE(read, static_cast<double>(sec));
    EXPECT_LT(read, static_cast<double>(sec) + 60);
  }
}

/// What a POSIX shell prints for a word.
std::string echoed(const std::string& word) {
  std::FILE* const pipe = ::popen(("printf %s " + word).c_str(), "r");
  std::string text;
  std::array<char, 256> buffer{};
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), n);
  EXPECT_EQ(::pclose(pipe), 0);
  return text;
}

TEST(Sbatch, WordsReachTheProgramAsTheyAre) {
  EXPECT_EQ(shell_word("run-1_a.b"), "run-1_a.b");
  for (const char* text : {"plain", "",   " ", "it's", "''", "a b",   "$HOME", "`id`",  "$(id)",    "a;b",     "a\nb",
                           "\\",    "\"", "*", "~",    "#1", "T4 #2", "!x",    "{a,b}", "\xC3\xA4", "a&b|c>d", "-n"}) {
    EXPECT_EQ(echoed(shell_word(text)), text);
  }
}

}  // namespace
}  // namespace perfpred
