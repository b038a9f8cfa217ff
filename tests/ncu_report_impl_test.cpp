// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "refusal.h"
#include "temporary_folder.h"
#include "tools/roofline/ncu_report.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* long_header =
    R"("ID","Process ID","Kernel Name","thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg","CC","Metric Name","Metric Unit","Metric Value")"
    "\n";

std::string range(const std::string& name) {
  return "\"\"<default domain>:" + name + ":none:none:none:none:none:none\"\"  ";
}

std::string row(int id, const std::string& kernel, const std::string& ranges, const std::string& metric,
                const std::string& unit, const std::string& value, const std::string& capability = "8.9") {
  return "\"" + std::to_string(id) + "\",\"77\",\"" + kernel + "\",\"77  " + ranges + "\",\"" + capability + "\",\"" +
         metric + "\",\"" + unit + "\",\"" + value + "\"\n";
}

/// The eight rows of one kernel, with values as given.
std::string kernel(int id, const std::string& name, const std::string& ranges, const std::string& usec,
                   const std::string& read_kb, const std::string& written_b, const std::string& fma,
                   const std::string& sm) {
  const std::string op = "smsp__sass_thread_inst_executed_op_";
  return row(id, name, ranges, "gpu__time_duration.sum", "usecond", usec) +
         row(id, name, ranges, "dram__bytes_read.sum", "Kbyte", read_kb) +
         row(id, name, ranges, "dram__bytes_write.sum", "byte", written_b) +
         row(id, name, ranges, op + "fadd_pred_on.sum", "inst", "100") +
         row(id, name, ranges, op + "fmul_pred_on.sum", "inst", "10") +
         row(id, name, ranges, op + "ffma_pred_on.sum", "inst", fma) +
         row(id, name, ranges, "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", sm) +
         row(id, name, ranges, "dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "50.00");
}

class NcuReportTest : public ::testing::Test {
 protected:
  NcuReport read(const std::string& text, char decimal = '.') {
    return NcuReport::read(folder_.write("report.csv", text), decimal);
  }
  std::string refusal(const std::string& text) {
    return testing::refusal([&] { (void)read(text); });
  }
  testing::TemporaryFolder folder_;
};

TEST_F(NcuReportTest, LongFormatSumsByKernelAndRange) {
  const std::string step = range("step");
  const NcuReport report =
      read("==PROF== Connected to process 77 (/usr/bin/python3)\nepoch 1, loss 2.3\n" + std::string(long_header) +
           kernel(0, "gemm", step + range("forward"), "10.00", "1.50", "500", "1,000,000", "20.00") +
           "printed by the program\n" + kernel(1, "gemm", step + range("forward"), "30.00", "2.50", "0", "0", "60.00") +
           kernel(2, "gemm_wgrad", step + range("backward"), "10.00", "0.00", "0", "0", "0.00") +
           "==PROF== Disconnected from process 77\n");
  EXPECT_EQ(report.total.kernels, 3);
  EXPECT_DOUBLE_EQ(report.total.flops, 2e6 + 330);   // three times 100 + 10
  EXPECT_DOUBLE_EQ(*report.total.bytes_read, 4000);  // decimal kilobytes
  EXPECT_DOUBLE_EQ(*report.total.bytes_written, 500);
  EXPECT_DOUBLE_EQ(report.total.time_sec, 50e-6);
  EXPECT_DOUBLE_EQ(*report.total.sm_pct, (20. * 10 + 60 * 30) / 50);  // weighted by time
  EXPECT_DOUBLE_EQ(*report.total.dram_pct, 50);
  EXPECT_DOUBLE_EQ(*report.total.arithmetic_intensity(), (2e6 + 330) / 4500);
  ASSERT_EQ(report.by_kernel.size(), 2U);  // two launches of one name
  EXPECT_EQ(report.by_kernel[0].name, "gemm");
  EXPECT_EQ(report.by_kernel[0].kernels, 2);
  ASSERT_EQ(report.ranges.size(), 3U);
  EXPECT_EQ(report.ranges[0].name, "step");
  EXPECT_EQ(report.ranges[0].kernels, 3);
  EXPECT_EQ(report.ranges[1].name, "forward");
  EXPECT_DOUBLE_EQ(report.ranges[1].time_sec, 40e-6);
  EXPECT_EQ(report.ranges[2].name, "backward");
  EXPECT_THAT(report.warnings, ElementsAre());
}

TEST_F(NcuReportTest, NumberFormatsOfOtherLocales) {
  const struct {
    char decimal;
    const char *usec, *read, *fma;
  } formats[] = {{'.', "1,024.50", "2.25", "1,234,567"},
                 {',', "1.024,50", "2,25", "1.234.567"},
                 {',', "1 024,50", "2,25", "1 234 567"},
                 {',',
                  "1\xE2\x80\xAF"
                  "024,50",
                  "2,25",
                  "1\xC2\xA0"
                  "234\xC2\xA0"
                  "567"},
                 {'.', "1'024.50", "2.25", "1'234'567"},
                 {'.', "1024.5", "2.25", "1234567"},
                 {',', "1024,5", "2,25", "1234567"}};
  for (const auto& f : formats) {
    std::string rows = kernel(0, "k", range("forward"), f.usec, f.read, "0", f.fma, "0");
    for (std::size_t at; (at = rows.find("\"50.00\"")) != std::string::npos;) rows.replace(at, 7, "\"50\"");
    const NcuReport report = read(long_header + rows, f.decimal);
    EXPECT_DOUBLE_EQ(report.total.time_sec, 1024.5e-6) << f.usec;
    EXPECT_DOUBLE_EQ(report.total.bytes, 2250) << f.usec;
    EXPECT_DOUBLE_EQ(report.total.flops, 2 * 1234567. + 110) << f.fma;
  }
}

TEST_F(NcuReportTest, TheOtherDecimalSeparatorIsRefused) {
  const auto rows = [](const std::string& usec, const std::string& fma) {
    std::string text = kernel(0, "k", range("f"), usec, "2", "0", fma, "1");
    for (std::size_t at; (at = text.find("\"50.00\"")) != std::string::npos;) text.replace(at, 7, "\"50\"");
    return long_header + text;
  };
  EXPECT_THAT(refusal(rows("12,5", "1")), AllOf(HasSubstr(":2: value \"12,5\""), HasSubstr("LC_ALL=C")));
  EXPECT_THAT(refusal(rows("0,125", "1")), HasSubstr("\"0,125\""));  // no thousands begin with 0
  EXPECT_THAT(refusal(rows("8", "1.234")), HasSubstr("\"1.234\""));  // a count is whole
  EXPECT_DOUBLE_EQ(read(rows("8,125", "1.234"), ',').total.time_sec, 8.125e-6);
}

TEST_F(NcuReportTest, CountsInThousandsAreNotWhole) {
  const std::string op = "smsp__sass_thread_inst_executed_op_";
  const auto rows = [&](const std::string& usec) {
    return long_header + row(0, "k", "", op + "fadd_pred_on.sum", "Kinst", "1.024") +
           row(0, "k", "", op + "fmul_pred_on.sum", "Kinst", "1.024") +
           row(0, "k", "", op + "ffma_pred_on.sum", "Kinst", "1.024") +
           row(0, "k", "", "gpu__time_duration.sum", "usecond", usec) +
           row(0, "k", "", "dram__bytes.sum", "Kbyte", "4.096");
  };
  for (const char* usec : {"12.125", "12.1"}) {
    const NcuReport report = read(rows(usec));
    EXPECT_DOUBLE_EQ(report.total.flops, 4096) << usec;
    EXPECT_DOUBLE_EQ(report.total.bytes, 4096) << usec;
  }
  const NcuReport wide =
      read("\"ID\",\"Kernel Name\",\"" + op + "fadd_pred_on.sum\",\"" + op + "fmul_pred_on.sum\",\"" + op +
           "ffma_pred_on.sum\",\"gpu__time_duration.sum\",\"dram__bytes.sum\"\n"
           "\"\",\"\",\"Kinst\",\"Kinst\",\"Kinst\",\"usecond\",\"Kbyte\"\n"
           "\"0\",\"k\",\"1.024\",\"1.024\",\"1.024\",\"12.1\",\"4.096\"\n");
  EXPECT_DOUBLE_EQ(wide.total.flops, 4096);
}

TEST_F(NcuReportTest, ReadsWhatASpreadsheetSaved) {  // quotes only where a field needs them
  const std::string op = "smsp__sass_thread_inst_executed_op_";
  const std::string rows =
      "epoch 1, loss 2.3\nID,Kernel Name,Metric Name,Metric Unit,Metric Value\nprinted by the program,,,,\n"
      "0,\"gemm<a, b>\",gpu__time_duration.sum,usecond,10.5\n0,\"gemm<a, b>\",dram__bytes.sum,Kbyte,1.5\n0,\"gemm<a, "
      "b>\"," +
      op + "fadd_pred_on.sum,inst,100\n0,\"gemm<a, b>\"," + op + "fmul_pred_on.sum,inst,10\n0,\"gemm<a, b>\"," + op +
      "ffma_pred_on.sum,inst,\"1,000\"\n1,relu,gpu__time_duration.sum,usecond,2\nthe end\n";
  const NcuReport report = read(rows);
  EXPECT_EQ(report.total.kernels, 2);
  EXPECT_DOUBLE_EQ(report.total.time_sec, 12.5e-6);
  EXPECT_DOUBLE_EQ(report.total.bytes, 1500);
  EXPECT_DOUBLE_EQ(report.total.flops, 2 * 1000 + 110);
  EXPECT_EQ(report.by_kernel[0].name, "gemm<a, b>");
  EXPECT_THAT(refusal(rows + "2,relu\n"), HasSubstr(":11: 2 fields where the header has 5"));

  const NcuReport wide = read("ID,Kernel Name,dram__bytes.sum,gpu__time_duration.sum," + op + "dadd_pred_on.sum," + op +
                              "dmul_pred_on.sum," + op +
                              "dfma_pred_on.sum\n"
                              ",,Kbyte,us,inst,inst,inst\n"
                              "0,k,1.5,2,5,7,11\n");
  EXPECT_DOUBLE_EQ(wide.total.bytes, 1500);
  EXPECT_DOUBLE_EQ(wide.total.flops, 5 + 7 + 2 * 11);
}

TEST_F(NcuReportTest, WideFormatTakesUnitsFromItsSecondRow) {
  const NcuReport report = read(
      "\"ID\",\"Kernel Name\",\"CC\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\",\"dram__bytes_write.sum\","
      "\"sm__sass_thread_inst_executed_op_dadd_pred_on.sum\",\"sm__sass_thread_inst_executed_op_dmul_pred_on.sum\","
      "\"sm__sass_thread_inst_executed_op_dfma_pred_on.sum\",\"launch__grid_size\"\n"
      "\"\",\"\",\"\",\"nsecond\",\"Mbyte\",\"Kbyte\",\"inst\",\"inst\",\"inst\",\"\"\n"
      "\"0\",\"a, b\",\"9.0\",\"2,000\",\"1.5\",\"3\",\"5\",\"7\",\"11\",\"64\"\n"
      "\"1\",\"a, b\",\"9.0\",\"3,000\",\"0\",\"0\",\"0\",\"0\",\"1\",\"64\"\n");
  EXPECT_DOUBLE_EQ(report.total.time_sec, 5e-6);
  EXPECT_DOUBLE_EQ(report.total.bytes, 1.503e6);
  EXPECT_DOUBLE_EQ(report.total.flops, 5 + 7 + 2 * 12);
  EXPECT_EQ(report.total.sm_pct, std::nullopt);
  ASSERT_EQ(report.by_kernel.size(), 1U);
  EXPECT_EQ(report.by_kernel[0].name, "a, b");
  EXPECT_THAT(report.warnings, ElementsAre("SM throughput was not collected", "DRAM throughput was not collected"));
}

TEST_F(NcuReportTest, HalfPrecisionAndTensorUnits) {
  const auto rows = [](const std::string& capability, const std::string& tensor, const std::string& value) {
    const std::string op = "smsp__sass_thread_inst_executed_op_";
    std::string text = long_header;
    for (const auto& [name, unit, v] :
         {std::tuple<std::string, std::string, std::string>("gpu__time_duration.sum", "us", "1.5"),
          {"dram__bytes.sum", "byte", "64"},
          {op + "hadd_pred_on.sum", "inst", "1"},
          {op + "hmul_pred_on.sum", "inst", "2"},
          {op + "hfma_pred_on.sum", "inst", "3"},
          {tensor, "", value}}) {
      text += row(4, "k", "", name, unit, v, capability);
    }
    return text;
  };
  const NcuReport ops = read(rows("8.0", "sm__ops_path_tensor_src_fp16_dst_fp32.sum", "4,096"));
  EXPECT_DOUBLE_EQ(ops.total.tensor_flops, 4096);
  EXPECT_DOUBLE_EQ(ops.total.flops, 4096 + 1 + 2 + 6);
  EXPECT_EQ(ops.total.bytes_read, std::nullopt);
  EXPECT_DOUBLE_EQ(ops.total.bytes, 64);
  // A Volta instruction multiplies 8 x 8 x 4 (Yang et al., Hierarchical Roofline Analysis on GPUs: 512 FLOPs).
  EXPECT_DOUBLE_EQ(read(rows("7.0", "sm__inst_executed_pipe_tensor.sum", "10")).total.tensor_flops, 5120);
  const NcuReport unknown = read(rows("8.0", "sm__inst_executed_pipe_tensor.sum", "10"));
  EXPECT_EQ(unknown.total.tensor_flops, 0);
  EXPECT_THAT(unknown.warnings, ::testing::Contains(HasSubstr("sm__ops_path_tensor_src")));
}

TEST_F(NcuReportTest, SaysWhenARangeHasNoBackwardKernels) {
  const NcuReport report = read(long_header + kernel(0, "gemm", range("forward"), "1.5", "1", "0", "0", "0") +
                                kernel(1, "fill", range("backward"), "1.5", "1", "0", "0", "0") +
                                kernel(2, "gemm_dgrad", "", "1.5", "1", "0", "0", "0"));
  EXPECT_THAT(report.warnings,
              ElementsAre(AllOf(HasSubstr("range \"backward\" has 1 kernel, but none"), Not(HasSubstr("filtered"))),
                          "1 of 3 kernels are in no range"));
}

TEST_F(NcuReportTest, SaysWhenARangeHoldsSeveralSteps) {
  const auto warnings_of = [&](int steps) {
    std::string text = long_header;
    int id = 0;
    for (int i = 0; i < steps; ++i) {
      for (const char* name : {"conv", "relu", "conv", "relu", "gemm", "gemm_wgrad", "conv_dgrad", "sgd"})
        text += kernel(id++, name, range("train_step"), "10.00", "1.50", "500", "1,000,000", "20.00");
    }
    return read(text).warnings;
  };
  EXPECT_THAT(warnings_of(1), ElementsAre());
  EXPECT_THAT(warnings_of(3), ElementsAre(HasSubstr("range \"train_step\" launches each of its 6 kernels 3 times")));
}

TEST_F(NcuReportTest, ValuesThatTheProfilerMarksAreMissing) {
  for (const char* value : {"(!) nan", "nan", "(!) inf", "-inf", "no data", "(!) n/a"}) {
    std::string text = long_header + kernel(0, "gemm", range("step"), "10.00", "1.50", "500", "1,000,000", "20.00");
    text.replace(text.rfind("50.00"), 5, value);
    const NcuReport report = read(text);
    EXPECT_EQ(report.total.kernels, 1) << value;
    EXPECT_FALSE(report.total.dram_pct) << value;
    if (std::string(value).find("n/a") != std::string::npos) continue;
    EXPECT_THAT(report.warnings, ::testing::Contains(StartsWith("1 values are no numbers (nan, inf or no data)")));
  }
}

TEST_F(NcuReportTest, KernelsOfTwoContainersMayHaveOneProcessNumber) {
  std::string text = "\"Host Name\"," + std::string(long_header);
  for (const char* host : {"one", "two"}) {
    std::string rows = kernel(0, "gemm", range("step"), "10.00", "1.50", "500", "1,000,000", "20.00");
    for (std::size_t at = 0; at < rows.size(); at = rows.find('\n', at) + 1)
      rows.insert(at, "\"" + std::string(host) + "\",");
    text += rows;
  }
  const NcuReport report = read(text);
  EXPECT_EQ(report.total.kernels, 2);
  EXPECT_DOUBLE_EQ(report.total.time_sec, 20e-6);
  EXPECT_THAT(report.warnings, ::testing::Contains("the totals are those of 2 processes together"));
}

TEST_F(NcuReportTest, OtherEncodingsAndSeparatorsAreNamed) {
  EXPECT_THAT(refusal("\"ID\";\"Process ID\";\"Kernel Name\"\n\"0\";\"7\";\"gemm\"\n"),
              HasSubstr("separated by semicolons"));
  EXPECT_THAT(refusal(std::string("\xff\xfe\"\0I\0D\0", 8)), HasSubstr("is UTF-16"));
}

TEST_F(NcuReportTest, MissingMetricsAreNamed) {
  const std::string all = kernel(0, "k", "", "1.5", "1", "0", "0", "0");
  const auto without = [&all](const std::string& metric) {
    std::string text = long_header;
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t end = all.find('\n', begin) + 1;
      const std::string line = all.substr(begin, end - begin);
      if (line.find(metric) == std::string::npos) text += line;
      begin = end;
    }
    return text;
  };
  EXPECT_THAT(refusal(without("duration")),
              AllOf(HasSubstr("metrics are missing: gpu__time_duration.sum"), Not(HasSubstr("dram"))));
  EXPECT_THAT(refusal(without("dram__bytes")),
              AllOf(HasSubstr("dram__bytes_read.sum"), HasSubstr("dram__bytes_write.sum")));
  EXPECT_THAT(refusal(without("fmul")), HasSubstr("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum"));
  EXPECT_THAT(refusal(without("_op_")), HasSubstr("{fadd,fmul,ffma}"));
  EXPECT_EQ(refusal(without("throughput")), "");
}

TEST_F(NcuReportTest, BadFilesAreRefusedByLine) {
  const std::string place = folder_.file("report.csv");
  EXPECT_THAT(refusal(""), HasSubstr("is not a CSV of Nsight Compute"));
  EXPECT_THAT(refusal("a,b\n1,2\n"), HasSubstr("is not a CSV of Nsight Compute"));
  EXPECT_THAT(refusal(long_header), HasSubstr("has no kernel"));
  const std::string good = kernel(0, "k", "", "1.5", "1", "0", "0", "0");
  EXPECT_THAT(refusal(long_header + good + row(1, "k", "", "dram__bytes_read.sum", "furlong", "1")),
              AllOf(StartsWith(place + ":10: "), HasSubstr("furlong")));
  EXPECT_THAT(refusal(long_header + good + row(1, "k", "", "dram__bytes_read.sum", "byte", "1.2.3")),
              AllOf(StartsWith(place + ":10: "), HasSubstr("1.2.3")));
  EXPECT_THAT(refusal(long_header + good + row(1, "k", "", "dram__bytes_read.sum", "Kbyte", "3,71")),
              StartsWith(place + ":10: "));
  EXPECT_THAT(refusal(long_header + good + row(1, "k", "", "dram__bytes_read.sum", "byte", "-1")),
              StartsWith(place + ":10: "));
  EXPECT_EQ(refusal(long_header + good + kernel(1, "k", "", "0", "1", "0", "0", "0")),
            place + ":10: kernel 1 has a duration of 0; export the report with --print-units base");
  EXPECT_THAT(refusal(long_header + good + kernel(1, "k", "", "1.5", "1", "0", "0", "0") + good),
              AllOf(StartsWith(place + ":18: "), HasSubstr("kernel 0 was complete before")));
  EXPECT_THAT(refusal(long_header + std::string("\"1\",\"2\"\n")), StartsWith(place + ":2: 2 fields"));
}

TEST_F(NcuReportTest, KernelsMayComeInAnyOrderOnce) {
  const auto one = [](int id) { return kernel(id, "k", "", "1.5", "1", "0", "0", "0"); };
  std::string rows;
  for (const int id : {5, 1, 2, 4, 3, 0, 900'000'000, 7}) rows += one(id);
  EXPECT_EQ(read(long_header + rows).total.kernels, 8);
  for (const int id : {0, 1, 2, 3, 4, 5, 900'000'000}) {
    EXPECT_THAT(refusal(long_header + rows + one(id)), HasSubstr("was complete before")) << id;
  }
  EXPECT_EQ(refusal(long_header + rows + one(6)), "");
}

TEST_F(NcuReportTest, ConcatenatedReportsStartAgain) {
  const std::string one = long_header + kernel(0, "k", "", "1.5", "1", "0", "0", "0");
  EXPECT_EQ(read(one + one).total.kernels, 2);
}

TEST_F(NcuReportTest, ReferenceReport) {
  const char* reference = std::getenv("PERFPRED_REFERENCE_DIR");
  if (reference == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
  const NcuReport report = NcuReport::read(std::string(reference) + "/ncu/resnet18_bs64_L4.csv");
  EXPECT_EQ(report.total.kernels, 98);
  EXPECT_NEAR(report.total.flops, 4.928e9, 0.0005e9);
  EXPECT_NEAR(report.total.bytes, 7.099e8, 0.001e8);
  EXPECT_NEAR(report.total.time_sec, 7.37625e-3, 0.000005e-3);
  EXPECT_NEAR(report.total.flops_per_sec(), 668.144e9, 0.0005e9);
  EXPECT_NEAR(*report.total.arithmetic_intensity(), 6.942, 0.0005);
  EXPECT_NEAR(*report.total.sm_pct, 13.705, 0.0005);
  EXPECT_NEAR(*report.total.dram_pct, 32.140, 0.0005);
  ASSERT_EQ(report.ranges.size(), 5U);
  EXPECT_EQ(report.ranges[1].name, "forward");
  EXPECT_EQ(report.ranges[1].kernels, 89);
  EXPECT_NEAR(report.ranges[1].flops, 4.8277e9, 0.00005e9);
  EXPECT_NEAR(report.ranges[1].time_sec, 5.379e-3, 0.0005e-3);
  EXPECT_EQ(report.ranges[2].kernels, 2);  // loss
  EXPECT_EQ(report.ranges[3].kernels, 1);  // backward
  EXPECT_EQ(report.ranges[4].name, "optimizer_step");
  EXPECT_EQ(report.ranges[4].kernels, 6);
  EXPECT_THAT(report.warnings,
              ElementsAre(HasSubstr("range \"backward\" has 1 kernel, but none from a backward pass")));
}

}  // namespace
}  // namespace perfpred
