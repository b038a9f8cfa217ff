// SPDX-License-Identifier: Apache-2.0
#include "text/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "temporary_folder.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

/// All fields of all rows, by the order of the header.
std::vector<std::vector<std::string>> rows_of(const std::string& path) {
  CsvReader csv(path);
  std::vector<CsvColumn> columns;
  for (std::size_t i = 0; i < csv.header().size(); ++i) columns.push_back({csv.header()[i], i});
  std::vector<std::vector<std::string>> rows;
  while (csv.next()) {
    auto& row = rows.emplace_back();
    for (const CsvColumn& column : columns) row.emplace_back(csv.text(column));
  }
  return rows;
}

using Rows = std::vector<std::vector<std::string>>;

TEST(Csv, ReadsWhatTheFormatAllows) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, Rows>> cases = {
      {"a,b\n1,2\n", {{"1", "2"}}},
      {"a,b\r\n1,2\r\n3,4\r\n", {{"1", "2"}, {"3", "4"}}},
      {"a,b\n1,2", {{"1", "2"}}},
      {"\xEF\xBB\xBF"
       "a,b\n1,2\n",
       {{"1", "2"}}},
      {"a,b\n\n\r\n1,2\n\n", {{"1", "2"}}},
      {"\n\na,b\n1,2\n", {{"1", "2"}}},
      {"a,b\n,\n", {{"", ""}}},
      {"a,b\n\"1,5\",\"say \"\"hi\"\"\"\n", {{"1,5", "say \"hi\""}}},
      {"a,b\n\"\",\"\"\"\"\n", {{"", "\""}}},
      {" a ,\tb\n1,2\n", {{"1", "2"}}},
      {"a,b\n", {}},
      {"a,b", {}},
      {"a\n1\n", {{"1"}}},
      {"a,,\n1,2,3\n", {{"1", "2", "3"}}},
      {"a,b\nx\"y,z\"w,2\n", {{"x\"y,z\"w", "2"}}},
      {"a,b\n1,\"2\"\n\"3\",4\n\"5\",\"6,\"\"7\"\n", {{"1", "2"}, {"3", "4"}, {"5", "6,\"7"}}},
  };
  for (const auto& [text, rows] : cases) EXPECT_EQ(rows_of(folder.write("t.csv", text)), rows) << text;
}

TEST(Csv, ALastLineWithoutLineFeedIsRecognised) {
  const TemporaryFolder folder;
  const auto cut_off = [&](const std::string& text, const std::string& complaint) {
    CsvReader csv(folder.write("t.csv", text));
    EXPECT_THAT(
        [&] {
          while (csv.next()) continue;
        },
        ThrowsMessage<InputError>(HasSubstr(complaint)));
    return csv.cut_off();
  };
  EXPECT_TRUE(cut_off("a,b\n1,2\n3", "t.csv:3: 1 fields"));
  EXPECT_TRUE(cut_off("a,b\n1,2\n3,\"4", "t.csv:3: a quote is not closed"));
  EXPECT_FALSE(cut_off("a,b\n1,2\n3\n", "t.csv:3: 1 fields"));
  EXPECT_FALSE(cut_off("a,b\n1\n3,4", "t.csv:2: 1 fields"));
}

TEST(Csv, SizeUpToTheHeader) {
  const std::vector<std::pair<std::string, std::size_t>> cases = {{"", 0},
                                                                  {"a,b", 0},
                                                                  {"a,b\n", 4},
                                                                  {"a,b\n1,2\n", 4},
                                                                  {"\n\r\na\n1\n", 5},
                                                                  {"\n\n\r\n", 0},
                                                                  {"\xEF\xBB\xBF\n", 0},
                                                                  {"\xEF\xBB\xBF\nab\n", 7}};
  for (const auto& [text, size] : cases) EXPECT_EQ(size_up_to_header(text), size) << text;
}

TEST(Csv, ColumnsAreFoundByName) {
  const TemporaryFolder folder;
  CsvReader csv(folder.write("t.csv", " b ,a,other\n2,1.5,x\n"));
  const CsvColumn a = csv.required("a");
  const CsvColumn b = csv.required("b");
  const CsvColumn none = csv.optional("none");
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.positive(a), 1.5);
  EXPECT_EQ(csv.positive_integer(b), 2);
  EXPECT_EQ(csv.text(none), "");
  EXPECT_FALSE(csv.next());
  EXPECT_THAT([&] { (void)csv.required("none"); },
              ThrowsMessage<InputError>(HasSubstr("t.csv:1: column \"none\" is missing")));
}

TEST(Csv, WhatIsWrongIsToldWithFileAndLine) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "t.csv: is empty; a header line was expected"},
      {"\n\r\n\n", "t.csv: is empty; a header line was expected"},
      {"\xEF\xBB\xBF", "t.csv: is empty; a header line was expected"},
      {"a,b,a\n", "t.csv:1: column \"a\" appears twice"},
      {"a,b, a\n", "t.csv:1: column \"a\" appears twice"},
      {"a,b\n1,2\n\n1\n", "t.csv:4: 1 fields where the header has 2"},
      {"a,b\n1,2,3\n", "t.csv:2: 3 fields where the header has 2"},
      {"a,b\n1,\"2\n", "t.csv:2: a quote is not closed"},
      {"\"a\n", "t.csv:1: a quote is not closed"},
      {std::string("a,b\n1,2\n\0,2\n", 12), "t.csv:3: holds a NUL byte; this is not a CSV file"},
      {std::string("\x7f"
                   "ELF\2\1\1\0\0\n",
                   10),
       "t.csv:1: holds a NUL byte; this is not a CSV file"},
      {"a,b\n" + std::string(17 << 20, 'x'), "t.csv:2: the line is longer than 16 MB"},
  };
  for (const auto& [text, message] : cases) {
    const std::string path = folder.write("t.csv", text);
    EXPECT_THAT([&] { (void)rows_of(path); }, ThrowsMessage<InputError>(HasSubstr(message)));
  }
  EXPECT_THAT([&] { (void)rows_of(folder.file("missing.csv")); },
              ThrowsMessage<InputError>(folder.file("missing.csv") + ": No such file or directory"));
  EXPECT_THAT([&] { (void)rows_of(folder.path()); },
              ThrowsMessage<InputError>(folder.path() + ": is a folder, not a file"));
}

TEST(Csv, FieldsAndFilesMayBeLong) {
  const TemporaryFolder folder;
  const std::string field(1'000'000, 'x');
  EXPECT_EQ(rows_of(folder.write("t.csv", "a,b\n" + field + ",2\n")), (Rows{{field, "2"}}));
  // 33 MB and more: the line reader's buffer is moved; no line feed at the end.
  std::string text = "a,b\n";
  for (int i = 0; i < 41; ++i) text += field + "," + std::to_string(i) + "\n";
  text.pop_back();
  const Rows rows = rows_of(folder.write("t.csv", text));
  ASSERT_EQ(rows.size(), 41U);
  for (int i = 0; i < 41; ++i) {
    EXPECT_EQ(rows[static_cast<std::size_t>(i)], (std::vector<std::string>{field, std::to_string(i)}));
  }
}

TEST(Csv, HeadersMayBeWide) {  // in a time that grows with their columns: 300,000 took minutes
  constexpr int columns = 300'000;
  std::string header;
  for (int i = 0; i < columns; ++i) header += "c" + std::to_string(i) + ",";
  EXPECT_EQ(CsvReader::from_text("t.csv", header + "end\n").header().size(), columns + 1U);
  EXPECT_THAT([&] { (void)CsvReader::from_text("t.csv", header + "c7\n"); },
              ThrowsMessage<InputError>("t.csv:1: column \"c7\" appears twice"));
}

TEST(Csv, OtherEncodingsAndSeparatorsAreNamed) {
  const std::string utf16(
      "\xff\xfe"
      "a\0,\0b\0\n\0",
      10);
  EXPECT_THAT([&] { (void)CsvReader::from_text("t.csv", utf16); },
              ThrowsMessage<InputError>(::testing::StartsWith("t.csv: is UTF-16")));
  EXPECT_THAT([&] { (void)CsvReader::from_text("t.csv", "depth;batch_size\n1;2\n"); },
              ThrowsMessage<InputError>("t.csv:1: the columns are separated by semicolons, where commas are expected"));
}

TEST(Csv, FromText) {
  CsvReader csv = CsvReader::from_text("builtin", "a,b\n1,2");
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.integer(csv.required("b")), 2);
  EXPECT_THAT([&] { (void)csv.required("c"); }, ThrowsMessage<InputError>("builtin:1: column \"c\" is missing"));
}

TEST(Csv, WritesWhatItReads) {
  const TemporaryFolder folder;
  const std::vector<std::string> fields = {"plain", "", " blanks ", "a,b", "\"", "\"\"quoted\"\"", "100%"};
  std::string header;
  for (std::size_t i = 0; i < fields.size(); ++i) header += (i > 0 ? "," : "") + std::string(1, char('a' + i));
  EXPECT_EQ(rows_of(folder.write("t.csv", header + "\n" + csv_line(fields))), (Rows{fields}));
  EXPECT_EQ(csv_line(std::vector<std::string>{"two\nlines", std::string("\0\r", 2)}), "two lines,  \n");
  EXPECT_THAT(split_csv_line("a,\"b,c\",", "here"), ElementsAre("a", "b,c", ""));
  EXPECT_THAT([] { (void)split_csv_line("a,\"b", "here"); }, ThrowsMessage<InputError>("here: a quote is not closed"));
}

}  // namespace
}  // namespace perfpred
