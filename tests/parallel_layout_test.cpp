// SPDX-License-Identifier: Apache-2.0
#include <perfpred/parallel_layout.h>

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "refusal.h"

namespace perfpred::testing {
namespace {

TEST(Placement, CountsDevicesOnEachNode) {
  EXPECT_EQ(Placement::parse("8").nodes, (std::vector<std::int64_t>{8}));
  EXPECT_EQ(Placement::parse("1+3").nodes, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(Placement::parse("8x32").nodes, std::vector<std::int64_t>(32, 8));
  EXPECT_EQ(Placement::parse("8x32").devices(), 256);
  EXPECT_EQ(Placement::parse("8+8+4").text(), "8x2+4");
  for (const char* text : {"8", "1+3", "8x32", "8x2+4+8"}) EXPECT_EQ(Placement::parse(text).text(), text);
}

TEST(Placement, RefusesOtherTexts) {
  for (const char* text : {"", "0", "8x", "x8", "8x0", "1+", "8*2", "-1", "1.5", "8x2x2", "1x9999999", "99999999999"}) {
    const std::string message = refusal([&] { static_cast<void>(Placement::parse(text)); });
    EXPECT_NE(message.find("gpus_per_node"), std::string::npos) << text << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(ParallelLayout, HasOneTextForOneMeaning) {
  struct Case {
    const char* text;
    const char* canonical;
  };
  for (const auto& [text, canonical] : std::array<Case, 9>{{{"ddp", "ddp"},
                                                            {"tp=1", "ddp"},
                                                            {"zero1", "zero1"},
                                                            {"dp=8,tp=2,pp=4", "tp=2,pp=4,dp=8"},
                                                            {"tp=2+zero1", "zero1+tp=2"},
                                                            {"fsdp+tp=8,sp=1", "fsdp+tp=8,sp=1"},
                                                            {"full=1+fsdp", "fsdp+full=1"},
                                                            {" pp=4, vp=3 ", "pp=4,vp=3"},
                                                            {"cp=2,ep=4,etp=2,sp=0", "cp=2,ep=4,etp=2"}}}) {
    const ParallelLayout layout = ParallelLayout::parse(text);
    EXPECT_EQ(layout.text(), canonical);
    EXPECT_EQ(ParallelLayout::parse(layout.text()), layout);
  }
}

TEST(ParallelLayout, GetsItsReplicasFromThePlacement) {
  const ParallelLayout layout = ParallelLayout::parse("tp=2,pp=4,cp=2").on(Placement::parse("8x4"));
  EXPECT_EQ(layout.dp, 2);  // 32 devices / 16 of a replica
  EXPECT_EQ(layout.devices(), 32);
  EXPECT_EQ(ParallelLayout::parse("ddp").on(Placement::parse("1+3")).dp, 4);
}

TEST(ParallelLayout, RefusesInOneLine) {
  struct Wrong {
    const char* layout;
    const char* placement;
    const char* message;
  };
  for (const Wrong& wrong :
       std::vector<Wrong>{{"tp", "8", "parallel \"tp\" is not"},
                          {"", "8", "is not ddp"},
                          {"tp=2,tp=4", "8", "of one tp"},
                          {"tp=0", "8", "tp \"0\""},
                          {"zp=2", "8", "of tp, pp, dp"},
                          {"ddp+tp=2", "8", "may be joined"},
                          {"zero1+fsdp", "8", "may be joined"},
                          {"vp=2", "8", "vp is for pp above 1"},
                          {"sp=2", "8", "sp \"2\""},
                          {"zero2+full=1", "8", "full is for fsdp or zero3 alone"},
                          {"fsdp+tp=2,full=1", "8", "full is for fsdp or zero3 alone"},
                          {"fsdp+etp=2,full=1", "8", "full is for fsdp or zero3 alone"},
                          {"tp=3", "8", "a multiple of 3 (tp x pp x cp) is needed"},
                          {"tp=2,dp=2", "8", "4 are needed"},
                          {"ep=3", "8", "does not divide 8 devices of a pipeline stage; 2 and 4 do"},
                          {"ep=16", "8", "8 does"}}) {
    const std::string message =
        refusal([&] { static_cast<void>(ParallelLayout::parse(wrong.layout).on(Placement::parse(wrong.placement))); });
    EXPECT_NE(message.find(wrong.message), std::string::npos) << wrong.layout << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace perfpred::testing
