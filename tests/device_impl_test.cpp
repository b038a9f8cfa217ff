// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "catalogue/device_table.h"
#include "child_process.h"
#include "refusal.h"
#include "temporary_folder.h"
#include "text/csv.h"
#include "text/nearest_name.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::refusal;
using ::testing::StartsWith;

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);  // the textbook pair
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", "acb"), 1U);
  EXPECT_EQ(edit_distance("same", "same"), 0U);
}

TEST(DeviceCatalogue, HasTheCommonAccelerators) {
  const DeviceCatalogue catalogue;
  for (const char* name : {"K80",
                           "GTX 1080 Ti",
                           "Titan Xp",
                           "P4",
                           "P100-PCIe-16GB",
                           "V100-PCIe-16GB",
                           "V100-PCIe-32GB",
                           "V100-SXM2-16GB",
                           "V100-SXM2-32GB",
                           "T4",
                           "RTX 2080 Ti",
                           "Titan V",
                           "Titan RTX",
                           "Quadro RTX 6000",
                           "Quadro RTX 8000",
                           "RTX 3090",
                           "A4000",
                           "A6000",
                           "6000 Ada",
                           "A10",
                           "A100-PCIe-40GB",
                           "A100-PCIe-80GB",
                           "A100-SXM4-40GB",
                           "A100-SXM4-80GB",
                           "L4",
                           "L40S",
                           "RTX 4080",
                           "RTX 4080 Laptop",
                           "4090",
                           "H100 PCIe",
                           "H100 SXM",
                           "H200",
                           "B200",
                           "MI100",
                           "MI210",
                           "MI250",
                           "MI300X",
                           "Trainium1",
                           "Trainium2",
                           "Inferentia2"}) {
    const Device device = catalogue.find(name);
    EXPECT_TRUE(device.mem_gb && device.mem_bw_gbs && device.fp32_tflops) << name;
    EXPECT_FALSE(device.source.empty()) << name;
  }
}

// Vector units execute one fused multiply-add a cycle and lane, whatever a datasheet rounds to.
TEST(DeviceCatalogue, VectorPeaksFollowFromUnitsAndClock) {
  const std::map<std::string, double> lanes = {{"Kepler", 192}, {"Pascal", 128}, {"Volta", 64},     {"Turing", 64},
                                               {"Ampere", 128}, {"Ada", 128},    {"Hopper", 128},   {"CDNA1", 64},
                                               {"CDNA2", 64},   {"CDNA3", 128},  {"Blackwell", 128}};
  const DeviceCatalogue catalogue;
  for (const Device& device : catalogue.devices()) {
    if (!device.sms || !device.boost_mhz) continue;
    const bool data_centre = device.name.starts_with("P100") || device.name.starts_with("A100");
    const double per_unit = data_centre ? 64 : lanes.at(device.arch);
    const double expected = 2 * per_unit * *device.sms * *device.boost_mhz * 1e6;
    EXPECT_NEAR(*device.vector_flops(Precision::fp32) / expected, 1, 0.08) << device.name;
  }
}

TEST(DeviceCatalogue, NamesAreComparedByLettersAndDigits) {
  const DeviceCatalogue catalogue;
  EXPECT_EQ(catalogue.find("a100_pcie 80gb").name, "A100-PCIe-80GB");
  EXPECT_EQ(catalogue.find("NVIDIA A100 80GB PCIe").name, "A100-PCIe-80GB");  // the driver's name
  EXPECT_EQ(catalogue.find("NVIDIA GeForce RTX 4080 Laptop GPU").name, "RTX 4080 Laptop");
  EXPECT_EQ(catalogue.find("rtx4080").name, "RTX 4080");
  for (const char* name : {"K80", "P4", "T4", "L4"}) {  // types of accelerators in Google Cloud
    const std::string type = std::string(*name == 'L' ? "nvidia-" : "nvidia-tesla-") + name;
    EXPECT_EQ(catalogue.find(type).name, name);
  }
}

TEST(DeviceCatalogue, SharedAliasNamesItsChoices) {
  const DeviceCatalogue catalogue;
  EXPECT_EQ(catalogue.candidates("A100-80GB").size(), 2U);
  for (const auto& [name, count] :
       {std::pair("Tesla P100", 2U), std::pair("nvidia-tesla-p100", 2U), std::pair("Tesla V100", 4U),
        std::pair("nvidia-tesla-v100", 4U), std::pair("NVIDIA A100", 4U), std::pair("nvidia-tesla-a100", 4U),
        std::pair("nvidia-a100-80gb", 2U), std::pair("NVIDIA H100", 2U), std::pair("nvidia-h100-80gb", 2U)}) {
    EXPECT_EQ(catalogue.candidates(name).size(), count) << name;
  }
  EXPECT_THAT(refusal([&] { (void)catalogue.find("A100-80GB"); }),
              AllOf(HasSubstr("A100-PCIe-80GB"), HasSubstr("A100-SXM4-80GB"), Not(HasSubstr("40GB"))));
}

TEST(DeviceCatalogue, NearMissIsSuggested) {
  const DeviceCatalogue catalogue;
  EXPECT_THAT(refusal([&] { (void)catalogue.find("RTX 3900"); }), HasSubstr("did you mean \"RTX 3090\"?"));
  EXPECT_THAT(refusal([&] { (void)catalogue.find("Quadro RTX 600"); }), HasSubstr("did you mean \"Quadro RTX 6000\"?"));
  EXPECT_THAT(refusal([&] { (void)catalogue.find("MI"); }), HasSubstr("did you mean \"MI"));
  EXPECT_THAT(refusal([&] { (void)catalogue.find("something else entirely"); }),
              AllOf(Not(HasSubstr("did you mean")), HasSubstr("MI300X")));
  EXPECT_THAT(refusal([&] { (void)catalogue.find(""); }), HasSubstr("is not known"));
}

TEST(DeviceCatalogue, EveryUniqueAliasHasOneSpelling) {
  const DeviceCatalogue catalogue;
  for (const Device& device : catalogue.devices()) {
    EXPECT_EQ(canonical_device(device.name), device.name);
    for (const std::string& alias : device.aliases) {
      EXPECT_EQ(canonical_device(alias), catalogue.candidates(alias).size() == 1 ? device.name : alias);
    }
  }
  EXPECT_EQ(canonical_device("no such card"), "no such card");
}

TEST(DeviceCatalogue, OwnRowsAreAddedOrReplace) {
  const testing::TemporaryFolder folder;
  DeviceCatalogue catalogue;
  const std::size_t known = catalogue.devices().size();
  catalogue.add(folder.write("own.csv",
                             "name,aliases,fp32_tflops,mem_bw_gbs,launch_us,comment\n"
                             "Own Card,mine|,2.5,100,4.5,\"any, thing\"\r\n"
                             "rtx 3090,,30,,,\n"));
  EXPECT_EQ(catalogue.devices().size(), known + 1);
  EXPECT_EQ(catalogue.find("MINE").matrix_flops(Precision::fp32), 2.5e12);
  EXPECT_EQ(catalogue.find("own card").mem_gb, std::nullopt);
  EXPECT_EQ(catalogue.find("RTX 3090").fp32_tflops, 30);
}

TEST(DeviceCatalogue, ARowThatReplacesADeviceKeepsTheNamesThatItIsKnownBy) {
  const testing::TemporaryFolder folder;
  DeviceCatalogue catalogue;
  catalogue.add(folder.write("own.csv", "name,aliases,mem_gb\nt4,lab card|Tesla T4,15\n"));
  for (const char* name : {"T4", "Tesla T4", "NVIDIA T4", "lab card"}) {
    EXPECT_EQ(catalogue.find(name).name, "T4") << name;
    EXPECT_EQ(catalogue.find(name).mem_gb, 15) << name;
  }
  EXPECT_EQ(catalogue.find("T4").aliases,
            (std::vector<std::string>{"lab card", "Tesla T4", "NVIDIA T4", "NVIDIA Tesla T4", "T4 GPU"}));
}

TEST(DeviceCatalogue, AnOwnRowMayHaveANameThatSeveralDevicesShare) {
  const testing::TemporaryFolder folder;
  DeviceCatalogue catalogue;
  catalogue.add(folder.write("own.csv", "name,mem_gb\nV100,24\n"));
  EXPECT_EQ(catalogue.find("v100").mem_gb, 24);
  EXPECT_EQ(canonical_device("V100"), "V100");
}

TEST(DeviceCatalogue, KnowsWhatKindOfDeviceARowIs) {
  const testing::TemporaryFolder folder;
  DeviceCatalogue catalogue;
  for (const Device& device : catalogue.devices()) {
    EXPECT_EQ(device.kind, device.vendor == "AWS" ? DeviceKind::other : DeviceKind::gpu) << device.name;
  }
  catalogue.add(folder.write("own.csv", "name,kind\nA,cpu\nB,other\nC,\n"));
  EXPECT_EQ(catalogue.find("A").kind, DeviceKind::cpu);
  EXPECT_EQ(catalogue.find("B").kind, DeviceKind::other);
  EXPECT_EQ(catalogue.find("C").kind, DeviceKind::gpu);
}

// Peaks and bandwidths of data sheets: AMD EPYC 9654; Intel Xeon Platinum 8490H, whose tiles compute bf16; Raspberry
// Pi 4.
TEST(DeviceCatalogue, RowsOfCpusAreTaken) {
  const testing::TemporaryFolder folder;
  DeviceCatalogue catalogue;
  catalogue.add(folder.write("own.csv",
                             "name,kind,fp64_tflops,fp32_tflops,bf16_tflops,mem_bw_gbs\n"
                             "EPYC,cpu,5.4,10.7,21.5,460.8\nXeon,cpu,3.6,7.3,233,307\nPi,cpu,0.012,0.048,,12.8\n"));
  EXPECT_EQ(catalogue.find("Xeon").bf16_tflops, 233);
}

TEST(DeviceCatalogue, BadOwnRowsAreRefusedByLine) {
  const testing::TemporaryFolder folder;
  const auto add = [&folder](const std::string& text) {
    const std::string path = folder.write("own.csv", text);
    return refusal([&path] { DeviceCatalogue().add(path); });
  };
  const std::string place = folder.file("own.csv");
  EXPECT_THAT(add("aliases\nx\n"), HasSubstr("column \"name\" is missing"));
  EXPECT_THAT(add("name,mem_gb\nx,-1\n"), StartsWith(place + ":2: mem_gb \"-1\""));
  EXPECT_THAT(add("name,mem_gb\nx,nan\n"), StartsWith(place + ":2: mem_gb"));
  EXPECT_THAT(add("name\nx\ny\nX\n"), StartsWith(place + ":4: device \"X\" appears twice"));
  EXPECT_THAT(add("name\nx\nTesla T4\n"), AllOf(StartsWith(place + ":3: name \"Tesla T4\""), HasSubstr("alias of T4")));
  EXPECT_THAT(add("name,sms\n--,1\n"), StartsWith(place + ":2: name"));
  EXPECT_THAT(add("name\na;b\n"), StartsWith(place + ":2: name \"a;b\""));  // keys of workloads are parted by ;
  EXPECT_THAT(add("name\ncpu\n"), StartsWith(place + ":2: name \"cpu\""));
  EXPECT_THAT(add("name,kind\nx,tpu\n"), AllOf(StartsWith(place + ":2: kind \"tpu\""), HasSubstr("gpu, cpu or other")));
  EXPECT_THAT(add("name,mem_bw_gbs\nx,800000\n"), AllOf(StartsWith(place + ":2: mem_bw_gbs"), HasSubstr("unit")));
  EXPECT_THAT(add("name,fp32_tflops\nx,40000\n"), AllOf(StartsWith(place + ":2: fp32_tflops"), HasSubstr("unit")));
  // A bandwidth in TB/s, and a peak in PFLOP/s.
  for (const char* row : {"x,31.2,1.555\n", "x,0.0312,1555\n"}) {
    EXPECT_THAT(add(std::string("name,fp16_tflops,mem_bw_gbs\n") + row),
                AllOf(StartsWith(place + ":2: device \"x\""), HasSubstr("fp16_tflops"), HasSubstr("mem_bw_gbs"),
                      HasSubstr("unit")));
  }
  // A CPU's bandwidth in MB/s, peaks in GFLOP/s and PFLOP/s.
  for (const char* row : {"x,2,200000,cpu\n", "x,2000,200,cpu\n", "x,0.002,200,cpu\n"}) {
    EXPECT_THAT(add(std::string("name,fp32_tflops,mem_bw_gbs,kind\n") + row), HasSubstr("unit")) << row;
  }
  EXPECT_THAT(add("name,launch_us\nx,4500\n"), AllOf(HasSubstr("launch_us"), HasSubstr("unit")));  // nanoseconds
  EXPECT_THAT(add(""), HasSubstr("is empty"));
}

TEST(Device, WhatIsAddedIsCheckedAsIfItWereRead) {
  DeviceCatalogue catalogue;
  const auto refused = [&](const auto& change) {
    Device device = catalogue.find("T4");
    change(device);
    return refusal([&] { catalogue.add(device); });
  };
  EXPECT_THAT(refused([](Device& d) { d.name = "-"; }), StartsWith("name"));
  EXPECT_THAT(refused([](Device& d) { d.name = "Tesla P4"; }), AllOf(StartsWith("name"), HasSubstr("alias of P4")));
  EXPECT_THAT(refused([](Device& d) { d.name = "a;b"; }), StartsWith("name"));
  EXPECT_THAT(refused([](Device& d) { d.name = "CPU"; }), StartsWith("name"));
  EXPECT_THAT(refused([](Device& d) { d.fp16_tflops = std::nan(""); }), StartsWith("fp16_tflops"));
  EXPECT_THAT(refused([](Device& d) { d.mem_gb = 0; }), StartsWith("mem_gb"));
  EXPECT_THAT(refused([](Device& d) { d.mem_bw_gbs = *d.mem_bw_gbs / 1e3; }), HasSubstr("is a unit wrong?"));
  EXPECT_EQ(catalogue.find("T4"), DeviceCatalogue().find("T4"));
}

TEST(Device, PeaksByPrecision) {
  const DeviceCatalogue catalogue;
  const Device a100 = catalogue.find("A100-SXM4-80GB");  // NVIDIA's datasheet
  EXPECT_EQ(a100.matrix_flops(Precision::fp16), 312e12);
  EXPECT_EQ(a100.matrix_flops(Precision::tf32), 156e12);
  EXPECT_EQ(a100.matrix_flops(Precision::fp64), 19.5e12);
  EXPECT_EQ(a100.vector_flops(Precision::fp64), 9.7e12);
  const Device v100 = catalogue.find("V100-SXM2-32GB");
  EXPECT_EQ(v100.matrix_flops(Precision::tf32), 15.7e12);  // it has no TF32
  EXPECT_EQ(v100.matrix_flops(Precision::bf16), std::nullopt);
}

TEST(Device, FieldsReadBack) {
  const testing::TemporaryFolder folder;
  const Device device = DeviceCatalogue().find("MI300X");
  std::string row = csv_line(device_columns());
  row += csv_line(device_fields(device));
  DeviceCatalogue catalogue;
  catalogue.add(folder.write("own.csv", row));
  EXPECT_EQ(catalogue.find("MI300X"), device);
}

TEST(DeviceCatalogue, ATextHasOneMeaning) {
  const DeviceCatalogue catalogue;
  for (const char* text : {"T4", "t4", "Tesla T4", "nvidia-tesla-t4"}) {
    EXPECT_EQ(catalogue.resolve(text).origin, DeviceOrigin::row) << text;
    EXPECT_EQ(catalogue.resolve(text).device, catalogue.resolve("T4").device) << text;
  }
  EXPECT_EQ(catalogue.resolve("V100").origin, DeviceOrigin::ambiguous);
  EXPECT_EQ(catalogue.resolve("no such card").origin, DeviceOrigin::unknown);
  EXPECT_EQ(catalogue.resolve("unknown").origin, DeviceOrigin::unknown);
  for (const char* text : {"V100", "no such card"}) {
    EXPECT_EQ(catalogue.resolve(text).device, nullptr) << text;
    EXPECT_EQ(catalogue.resolve(text).kind(false), DeviceKind::gpu) << text;
    EXPECT_EQ(catalogue.resolve(text).kind(true), DeviceKind::cpu) << text;
  }
  EXPECT_EQ(catalogue.resolve("T4").kind(true), DeviceKind::gpu);
}

TEST(DeviceCatalogue, CpuAndTheModelNameOfThisMachinesAreOneDevice) {
  const std::string model = Device::this_cpu().name;
  const testing::TemporaryFolder folder;
  for (const std::string& name : {std::string("cpu"), model}) {
    DeviceCatalogue catalogue;
    for (const std::string& text : {std::string("CPU"), model}) {
      EXPECT_EQ(catalogue.resolve(text).origin, DeviceOrigin::this_cpu) << text;
    }
    catalogue.add(folder.write("own.csv", "name,kind,fp32_tflops,mem_bw_gbs\n\"" + name + "\",cpu,1,50\n"));
    for (const std::string& text : {std::string("CPU"), model}) {
      EXPECT_EQ(catalogue.resolve(text).origin, DeviceOrigin::row) << text;
      EXPECT_EQ(catalogue.find(text).mem_bw_gbs, 50) << text;
    }
  }
}

TEST(DeviceCatalogue, RatesOfThisCpuAreThoseThatSomebodyGave) {
  DeviceCatalogue catalogue;
  Device cpu = catalogue.find("cpu");
  EXPECT_EQ(cpu.kind, DeviceKind::cpu);
  EXPECT_FALSE(cpu.name.empty());
  EXPECT_GT(cpu.mem_gb, 0);
  EXPECT_GE(cpu.sms, 1);
  EXPECT_EQ(cpu.fp32_tflops, std::nullopt);
  EXPECT_TRUE(catalogue.resolve("cpu").lacks_rates());
  EXPECT_THAT(refusal([&] { (void)catalogue.resolve("cpu").rated(); }),
              AllOf(HasSubstr("perfpred-devices --measure"), HasSubstr("set_cpu(Device::measured_cpu())")));
  cpu.fp32_tflops = 1.5;
  cpu.mem_bw_gbs = 70;
  catalogue.set_cpu(cpu);
  EXPECT_EQ(catalogue.resolve(cpu.name).rated(), cpu);
  EXPECT_EQ(catalogue.resolve("cpu").origin, DeviceOrigin::this_cpu);
  EXPECT_TRUE(catalogue.candidates("cpu").empty());  // it is no row
  cpu.mem_bw_gbs = 7e6;
  EXPECT_THAT(refusal([&] { catalogue.set_cpu(cpu); }), HasSubstr("unit"));
  EXPECT_THAT(refusal([&] { catalogue.set_cpu(catalogue.find("T4")); }), HasSubstr("is not this machine's CPU"));
  EXPECT_EQ(catalogue.find("cpu").mem_bw_gbs, 70);
}

TEST(Device, ACpuIsMeasured) {
  const Device cpu = Device::measured_cpu();
  EXPECT_EQ(cpu.name, Device::this_cpu().name);
  EXPECT_GT(cpu.fp32_tflops, 0);
  EXPECT_GT(cpu.fp64_tflops, 0);
  EXPECT_GT(cpu.mem_bw_gbs, 0);
  DeviceCatalogue catalogue;
  catalogue.add(cpu);
  EXPECT_EQ(catalogue.find("cpu"), cpu);
}

// A thread needs 8 MB for its stack, the copy at least 128 MB unless the machine has less than 1 GB.
TEST(Device, ACpuThatCannotBeMeasuredIsAnError) {
  if (testing::is_sanitized) GTEST_SKIP() << "sanitizers reserve address space";
  for (const rlim_t mebibytes : {12U, 40U}) {
    EXPECT_EQ(testing::exit_code_of([mebibytes] {
                if (!testing::leave_address_space(mebibytes)) return 100;
                return refusal<Error>([] { (void)Device::measured_cpu(); }).empty() ? 1 : 0;
              }),
              0)
        << mebibytes;
  }
}

TEST(DeviceCatalogue, KnowsEverySpellingOfTheReferenceData) {
  const char* reference = std::getenv("PERFPRED_REFERENCE_DIR");
  if (reference == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
  const std::string root = reference;
  const DeviceCatalogue catalogue;
  const std::vector<std::pair<std::string, std::string>> columns = {{"device_specs.csv", "name"},
                                                                    {"neusight/gpus.csv", "gpu"},
                                                                    {"neusight/gpus.csv", "device"},
                                                                    {"cnn_training/single_gpu_training.csv", "gpu"},
                                                                    {"roofline_runs/iterations.csv", "environment"}};
  for (const auto& [file, name] : columns) {
    CsvReader csv(root + "/" + file);
    const CsvColumn column = csv.required(name);
    std::set<std::string> spellings;
    while (csv.next()) spellings.emplace(csv.text(column));
    spellings.erase("CPU");  // names no device
    for (const std::string& spelling : spellings) EXPECT_FALSE(catalogue.candidates(spelling).empty()) << spelling;
  }
}

}  // namespace
}  // namespace perfpred
