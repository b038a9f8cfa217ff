// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>
#include <vector>

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
  const std::map<std::string, double> lanes = {
      {"Kepler", 192},   {"Maxwell", 128}, {"Pascal", 128}, {"Volta", 64},      {"Turing", 64},
      {"Ampere", 128},   {"Ada", 128},     {"Hopper", 128}, {"Blackwell", 128}, {"Blackwell-consumer", 128},
      {"GCN5", 64},      {"CDNA1", 64},    {"CDNA2", 64},   {"CDNA3", 128},     {"CDNA4", 128},
      {"RDNA1", 64},     {"RDNA2", 64},    {"RDNA3", 128},  {"RDNA3.5", 128},   {"RDNA4", 128},
      {"Xe-HPG", 128},   {"Xe2-HPG", 128}, {"Xe-HPC", 128}, {"Apple M1", 128},  {"Apple M2", 128},
      {"Apple M3", 128}, {"Apple M4", 128}};
  const DeviceCatalogue catalogue;
  for (const Device& device : catalogue.devices()) {
    if (!device.sms || !device.boost_mhz) continue;
    const double fp64 = device.fp64_vector_tflops.value_or(0);  // half rate on the chips with 64 lanes a unit
    const bool data_centre =
        (device.arch == "Pascal" || device.arch == "Ampere") && fp64 > 0.4 * *device.fp32_vector_tflops;
    const double per_unit = data_centre ? 64 : lanes.at(device.arch);
    const double expected = 2 * per_unit * *device.sms * *device.boost_mhz * 1e6;
    EXPECT_NEAR(*device.vector_flops(Precision::fp32) / expected, 1, 0.08) << device.name;
  }
}

// FLOP a unit and cycle in half precision, accumulated in fp32: NVIDIA's white papers of Volta, Turing, GA100, GA102,
// Ada and RTX Blackwell (GeForce at half rate; chips without matrix units: GP100, TU11x), AMD's of CDNA and RDNA. Rates
// of Hopper and Blackwell are stated at clocks below the highest.
TEST(DeviceCatalogue, MatrixPeaksFollowFromUnitsAndClock) {
  const std::map<std::string, std::set<double>> rates = {{"Pascal", {256, 512}},
                                                         {"Maxwell", {512}},
                                                         {"Volta", {1024}},
                                                         {"Turing", {1024, 512, 256}},
                                                         {"Ada", {1024, 512}},
                                                         {"Ampere", {2048, 1024, 512}},
                                                         {"Blackwell-consumer", {1024, 512}},
                                                         {"GCN5", {256}},
                                                         {"CDNA1", {1024}},
                                                         {"CDNA2", {1024}},
                                                         {"CDNA3", {2048}},
                                                         {"CDNA4", {4096}},
                                                         {"RDNA1", {256}},
                                                         {"RDNA2", {256}},
                                                         {"RDNA3", {512}},
                                                         {"RDNA3.5", {512}},
                                                         {"RDNA4", {1024}}};
  const DeviceCatalogue catalogue;
  std::size_t checked = 0;
  for (const Device& device : catalogue.devices()) {
    const auto known = rates.find(device.arch);
    if (known == rates.end() || !device.fp16_tflops || !device.boost_mhz) continue;
    const double rate = *device.fp16_tflops * 1e6 / (*device.sms * *device.boost_mhz);
    const bool fits = std::any_of(known->second.begin(), known->second.end(),
                                  [rate](double stated) { return std::abs(rate / stated - 1) < 0.085; });
    EXPECT_TRUE(fits) << device.name << ": " << rate;
    ++checked;
  }
  EXPECT_GT(checked, 250U);
}

TEST(DeviceCatalogue, KnowsWhatDriversPrint) {
  const DeviceCatalogue catalogue;
  for (const auto& [printed, name] : std::vector<std::pair<const char*, const char*>>{
           {"NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti SUPER"},
           {"NVIDIA GeForce RTX 5090", "RTX 5090"},
           {"NVIDIA GeForce RTX 3080", "RTX 3080"},
           {"NVIDIA GeForce RTX 3060", "RTX 3060"},
           {"NVIDIA GeForce RTX 3070 Laptop GPU", "RTX 3070 Laptop"},
           {"NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop"},
           {"NVIDIA GeForce RTX 5060 Laptop GPU", "RTX 5060 Laptop"},
           {"NVIDIA GeForce RTX 2070 with Max-Q Design", "RTX 2070 Max-Q"},
           {"NVIDIA GeForce GTX 1660 Ti", "GTX 1660 Ti"},
           {"NVIDIA TITAN X (Pascal)", "TITAN X Pascal"},
           {"Quadro P5000", "Quadro P5000"},
           {"NVIDIA RTX A5000", "RTX A5000"},
           {"NVIDIA RTX A2000 8GB Laptop GPU", "RTX A2000 Laptop 8GB"},
           {"NVIDIA RTX 5000 Ada Generation", "RTX 5000 Ada"},
           {"NVIDIA RTX 5000 Ada Generation Laptop GPU", "RTX 5000 Ada Laptop"},
           {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell"},
           {"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell Max-Q"},
           {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"},
           {"Tesla P40", "P40"},
           {"Tesla M40 24GB", "M40 24GB"},
           {"Tesla P100-PCIE-12GB", "P100-PCIe-12GB"},
           {"Tesla V100S-PCIE-32GB", "V100S-PCIe-32GB"},
           {"Tesla V100-SXM3-32GB", "V100-SXM3-32GB"},
           {"NVIDIA A10G", "A10G"},
           {"NVIDIA A30", "A30"},
           {"NVIDIA A40", "A40"},
           {"NVIDIA A2", "A2"},
           {"NVIDIA A800-SXM4-80GB", "A800-SXM4-80GB"},
           {"NVIDIA A800 80GB PCIe", "A800-PCIe-80GB"},
           {"NVIDIA L40", "L40"},
           {"NVIDIA L20", "L20"},
           {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"},
           {"H100 80GB HBM3", "H100-SXM5-80GB"},
           {"NVIDIA H100 NVL", "H100-NVL-94GB"},
           {"NVIDIA H200 NVL", "H200-NVL-141GB"},
           {"NVIDIA H20", "H20-96GB"},
           {"NVIDIA H800", "H800-SXM5-80GB"},
           {"NVIDIA GH200 480GB", "GH200-96GB"},
           {"NVIDIA GB200", "GB200"},
           {"NVIDIA GB300", "GB300"},
           {"NVIDIA B300 SXM6 AC", "B300-SXM"},
           {"NVIDIA GB10", "GB10"},
           {"NVIDIA A100-SXM4-40GB MIG 3g.20gb", "A100-SXM4-40GB MIG 3g.20gb"},
           {"A100-SXM4-40GB MIG 3g.20gb", "A100-SXM4-40GB MIG 3g.20gb"},
           {"NVIDIA A100 80GB PCIe MIG 1g.10gb", "A100-PCIe-80GB MIG 1g.10gb"},
           {"NVIDIA H100 80GB HBM3 MIG 1g.20gb", "H100-SXM5-80GB MIG 1g.20gb"},
           {"AMD Instinct MI300X", "MI300X"},
           {"AMD Instinct MI355X", "MI355X"},
           {"AMD Radeon RX 7900 XTX", "RX 7900 XTX"},
           {"AMD Radeon PRO W7900", "Radeon PRO W7900"},
           {"Intel(R) Data Center GPU Max 1550", "Data Center GPU Max 1550"},
           {"Intel(R) Arc(TM) B580 Graphics", "Arc B580"},
           {"HL-225", "Gaudi2"},
           {"TPU v5 lite", "TPU v5e"},
           {"Apple M3 Max", "Apple M3 Max"}}) {
    const ResolvedDevice known = catalogue.resolve(printed);
    ASSERT_EQ(known.origin, DeviceOrigin::row) << printed;
    EXPECT_EQ(known.device->name, name) << printed;
  }
}

TEST(DeviceCatalogue, TheMemoryAtTheEndOfANamePartsDevices) {
  const DeviceCatalogue catalogue;
  for (const auto& [written, name] :
       std::vector<std::pair<const char*, const char*>>{{"RTX 4070 Ti SUPER-16GB", "RTX 4070 Ti SUPER"},
                                                        {"Gaudi2-HL225-96GB", "Gaudi2"},
                                                        {"MI50 (32 GB)", "MI50-32GB"},
                                                        {"H100 94GB", "H100-NVL-94GB"},
                                                        {"NVIDIA GeForce RTX 4060 Ti 16 GB", "RTX 4060 Ti 16GB"}}) {
    EXPECT_EQ(catalogue.find(written).name, name) << written;
  }
  EXPECT_EQ(catalogue.candidates("NVIDIA A100 40GB").size(), 2U);
  for (const char* none : {"RTX 4090-48GB", "A100 20GB", "T4 gb", "16GB", "GB", "NVIDIA", "Intel CPU"}) {
    EXPECT_EQ(catalogue.resolve(none).origin, DeviceOrigin::unknown) << none;
  }
}

TEST(DeviceCatalogue, NoNameIsThatOfTwoDevices) {
  const DeviceCatalogue catalogue;
  std::set<std::string> names;
  for (const Device& device : catalogue.devices()) EXPECT_TRUE(names.insert(bare(device.name)).second) << device.name;
  for (const Device& device : catalogue.devices()) {
    EXPECT_EQ(catalogue.resolve(device.name).device, &device) << device.name;
    EXPECT_FALSE(device.source.empty()) << device.name;
    for (const std::string& alias : device.aliases) {
      EXPECT_TRUE(bare(alias) == bare(device.name) || !names.contains(bare(alias))) << device.name << ": " << alias;
    }
  }
  EXPECT_GE(catalogue.devices().size(), 200U);
}

// The slices of an A100 that NVIDIA's MIG user guide lists.
TEST(DeviceCatalogue, ASliceHasItsShareOfTheCard) {
  const Device slice = DeviceCatalogue().find("A100-SXM4-80GB MIG 3g.40gb");
  EXPECT_EQ(slice.sms, 42);
  EXPECT_EQ(slice.mem_gb, 40);
  EXPECT_NEAR(*slice.mem_bw_gbs, 2039 / 2.0, 1);
  EXPECT_NEAR(*slice.fp16_tflops, 312 * 42 / 108.0, 0.1);
  EXPECT_EQ(slice.cores, 42 * 64);
}

TEST(DeviceCatalogue, SaysWhatACardIs) {
  const DeviceCatalogue devices;
  const Device t4 = devices.find("T4"), card = devices.find("RTX 3090");  // NVIDIA's data sheets
  EXPECT_EQ(t4.base_mhz, 585);
  EXPECT_EQ(t4.cores, 2560);
  EXPECT_EQ(t4.bus, "PCIe 3.0 x16");
  EXPECT_EQ(card.base_mhz, 1395);
  EXPECT_EQ(card.cores, 10'496);
  EXPECT_NEAR(*card.mem_mhz * 16 * *card.bus_bits / 8e3, *card.mem_bw_gbs, 1);  // GDDR6X: 16 bits a pin and clock
  for (const Device& device : devices.devices()) {
    if (!device.base_mhz || !device.boost_mhz) continue;
    EXPECT_LE(*device.base_mhz, *device.boost_mhz * 1.06) << device.name;
  }
}

TEST(DeviceCatalogue, HasTheFiguresOfTheReference) {
  const char* reference = std::getenv("PERFPRED_REFERENCE_DIR");
  if (reference == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
  const DeviceCatalogue catalogue;
  CsvReader csv(std::string(reference) + "/device_specs.csv");
  const CsvColumn name = csv.required("name");
  while (csv.next()) {
    const Device& device = catalogue.resolve(csv.text(name)).known();
    for (const auto& [column, value] : {std::pair("mem_gb", device.mem_gb),
                                        {"mem_bw_gbs", device.mem_bw_gbs},
                                        {"fp64_tflops", device.fp64_vector_tflops},
                                        {"fp32_tflops", device.fp32_vector_tflops},
                                        {"tf32_tflops", device.tf32_tflops},
                                        {"bf16_tflops", device.bf16_tflops},
                                        {"fp16_tflops", device.fp16_tflops}}) {
      const CsvColumn stated = csv.required(column);
      if (!value || csv.text(stated).empty()) continue;
      EXPECT_NEAR(*value / csv.positive(stated), 1, 0.01) << device.name << " " << column;
    }
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
        std::pair("nvidia-a100-80gb", 2U), std::pair("NVIDIA H100", 3U), std::pair("nvidia-h100-80gb", 2U)}) {
    EXPECT_EQ(catalogue.candidates(name).size(), count) << name;
  }
  EXPECT_THAT(refusal([&] { (void)catalogue.find("A100-80GB"); }),
              AllOf(HasSubstr("A100-PCIe-80GB"), HasSubstr("A100-SXM4-80GB"), Not(HasSubstr("40GB"))));
}

TEST(DeviceCatalogue, ANameThatIsNotKnownIsMetWithAFileAndTheNearestOfItsClass) {
  const DeviceCatalogue catalogue;
  const auto said = [&catalogue](const char* name) { return refusal([&] { (void)catalogue.find(name); }); };
  for (const char* name : {"RTX 3900", "3090 RTX"}) EXPECT_THAT(said(name), HasSubstr("did you mean \"RTX 3090\"?"));
  // What differs in a letter or a digit may be another class: A10 has 1.8 times the peak of A10G, P4 a third of P40's
  // memory.
  for (const char* name : {"Quadro RTX 600", "P41", "A10X", "L4S", "RTX 5071", "something else entirely", ""}) {
    EXPECT_THAT(said(name),
                AllOf(HasSubstr("is not known"), HasSubstr("--device-file"), Not(HasSubstr("did you mean"))));
  }
  EXPECT_THAT(said("RTX 5071"),
              AllOf(HasSubstr("the nearest are RTX 5070, "), Not(HasSubstr("RTX 4070")), Not(HasSubstr("MI300X"))));
  EXPECT_THAT(said("MI"), AllOf(HasSubstr("the nearest are MI"), Not(HasSubstr("RTX"))));
  for (const char* name : {"something else entirely", "cuda", "RTX 5071", "A10X", "M", "GeForce"}) {
    EXPECT_THAT(said(name), HasSubstr("perfpred-devices lists those that are")) << name;
    EXPECT_LE(said(name).size(), 250U) << said(name);
  }
}

TEST(DeviceCatalogue, SeveralDevicesAreNotOne) {
  const DeviceCatalogue catalogue;
  for (const char* name : {"8xA100-SXM4-80GB", "8 x A100-SXM4-80GB", "4*A100-SXM4-80GB"}) {
    EXPECT_THAT(refusal([&] { (void)catalogue.find(name); }),
                HasSubstr("is several, which are not predicted; take A100-SXM4-80GB"));
  }
  EXPECT_THAT(refusal([&] { (void)catalogue.find("8xA999"); }), HasSubstr("is not known"));
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
    EXPECT_EQ(device.kind, device.vendor == "NVIDIA" || device.vendor == "AMD" ? DeviceKind::gpu : DeviceKind::other)
        << device.name;
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

TEST(DeviceCatalogue, ColumnsThatNothingReadsAreNamed) {
  const testing::TemporaryFolder folder;
  DeviceCatalogue catalogue;
  const std::string path = folder.write("own.csv", "name,FP16 TFLOPS,mem_gb,rack\nmine,100,24,7\n");
  EXPECT_THAT(catalogue.add(path),
              ::testing::ElementsAre(AllOf(StartsWith(path + ": column \"FP16 TFLOPS\""), HasSubstr("fp16_tflops")),
                                     StartsWith(path + ": column \"rack\"")));
  EXPECT_TRUE(catalogue.add(folder.write("own.csv", "name,mem_gb\nmine,24\n")).empty());
}

TEST(DeviceCatalogue, ArchitecturesAreMatchedWithoutRegardToCase) {
  const testing::TemporaryFolder folder;
  DeviceCatalogue catalogue;
  catalogue.add(
      folder.write("own.csv", "name,arch\na,ampere\nb,CDNA 3\nc,ada lovelace\nd,Ampere (GA102)\ne,Own Arch\n"));
  for (const auto& [name, arch] :
       {std::pair("a", "Ampere"), {"b", "CDNA3"}, {"c", "Ada"}, {"d", "Ampere (GA102)"}, {"e", "Own Arch"}}) {
    EXPECT_EQ(catalogue.find(name).arch, arch);
  }
  Device device;
  device.name = "f";
  device.arch = "HOPPER";
  catalogue.add(device);
  EXPECT_EQ(catalogue.find("f").arch, "Hopper");
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
  std::string row = csv_line(names_of(device_table()));
  row += csv_line(fields_of(device_table(), device));
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
