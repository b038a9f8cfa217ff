// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "../refusal.h"
#include "../temporary_folder.h"
#include "torch/files/checkpoint.h"
#include "torch/files/pickle.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;
using perfpred::testing::TemporaryFolder;

/// What reading the weights in a file of tests/torch throws; made by torch.save() of PyTorch 2.11.
std::string weights_refusal(const std::string& path) {
  return perfpred::testing::refusal([&] { static_cast<void>(load_weights(path)); });
}

const std::string saved_folder = std::string(PERFPRED_SOURCE_DIR) + "/tests/torch/";

TEST(Checkpoint, StateDictionariesOfPythonAreRead) {
  // An OrderedDict with an attribute _metadata: w = arange(6).reshape(2, 3).t() in float32, n = 7.
  const NamedTensors weights = load_weights(saved_folder + "state_dict.pt");
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_EQ(weights[0].first, "w");
  EXPECT_TRUE(at::equal(weights[0].second, at::arange(6, at::kFloat).reshape({2, 3}).t()));
  EXPECT_EQ(weights[1].second.item<std::int64_t>(), 7);
}

TEST(Checkpoint, WhatIsNoStateDictionaryIsSaid) {
  const std::string nested = saved_folder + "nested_state_dict.pt";  // {"model": the same, "epoch": 3, "lr": 0.5}
  EXPECT_EQ(weights_refusal(nested), nested +
                                         ": holds a dictionary of model (a dictionary), epoch (a number), lr (a "
                                         "number), not a state dictionary (names and tensors)");
  const TemporaryFolder folder;
  EXPECT_NE(weights_refusal(folder.write("a.pt", "hello")).find("is not a file of torch.save()"), std::string::npos);
  const std::string old("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  EXPECT_NE(weights_refusal(folder.write("b.pt", old)).find("old format"), std::string::npos);
  const std::string whole = perfpred::testing::slurp(saved_folder + "state_dict.pt");
  EXPECT_NE(weights_refusal(folder.write("c.pt", whole.substr(0, 900))).find("is not a whole file"), std::string::npos);
  // Every change of a byte of the pickle is read or refused, never more, where no checksum tells of it.
  const std::size_t pickle = whole.find(
      "\x80\x02"
      "ccollections");
  ASSERT_NE(pickle, std::string::npos);
  std::string unchecked = whole;
  unchecked.replace(unchecked.find("PK\x07\x08", pickle) + 4, 4, 4, '\0');
  EXPECT_EQ(weights_refusal(folder.write("d.pt", unchecked)), "");
  for (std::size_t at = pickle; at < pickle + 400; ++at) {
    std::string changed = unchecked;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    static_cast<void>(weights_refusal(folder.write("d.pt", changed)));
  }
}

Checkpoint two_megabytes() { return {"{}", "{}", {{"w", at::arange(1 << 19, at::kFloat)}}}; }

TEST(Checkpoint, TensorsWithAnyStridesReadBack) {
  const TemporaryFolder folder;
  const at::Tensor whole = at::arange(2 * 3 * 4 * 4, at::kFloat).reshape({2, 3, 4, 4});
  const NamedTensors tensors = {{"nhwc", whole.contiguous(at::MemoryFormat::ChannelsLast)},
                                {"transposed", whole.transpose(0, 3)},
                                {"columns", whole.slice(3, 1, 3)},
                                {"rows", whole.slice(0, 1, 2)},
                                {"expanded", at::ones({1, 4}, at::kDouble).expand({3, 4})},
                                {"number", at::full({}, 7, at::kLong)},
                                {"nothing", at::zeros({0, 3})},
                                {"shared", whole},
                                {"half", whole.to(at::kBFloat16)}};
  save_checkpoint({"{}", "{}", tensors}, folder.file("a.pt"));
  const NamedTensors read = load_checkpoint(folder.file("a.pt")).tensors;
  ASSERT_EQ(read.size(), tensors.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].first, tensors[i].first);
    EXPECT_EQ(read[i].second.scalar_type(), tensors[i].second.scalar_type());
    EXPECT_TRUE(at::equal(read[i].second, tensors[i].second)) << read[i].first;
  }
  EXPECT_LT(fs::file_size(folder.file("a.pt")), 10'000U);  // of a part, only its own elements
}

/// Memory that the process has written to, in bytes.
std::size_t written_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    std::size_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

/// A file of torch.save() with this pickle and no tensor.
/// @param method  ZIP_STORED or ZIP_DEFLATED
/// @return its path; empty without Python, which makes it
std::string saved(const TemporaryFolder& folder, const std::string& pickle, const std::string& method) {
  const std::string name = folder.file("made.pt");
  const std::string script = folder.write("zip.py",
                                          "import sys, zipfile\n"
                                          "with zipfile.ZipFile(sys.argv[1], 'w', zipfile." +
                                              method +
                                              ") as file:\n"
                                              "  file.write(sys.argv[2], 'archive/data.pkl')\n"
                                              "  file.writestr('archive/version', '3')\n");
  const std::string command = "python3 " + script + " " + name + " " + folder.write("data.pkl", pickle);
  return std::system(command.c_str()) == 0 ? name : std::string();
}

TEST(Checkpoint, BombsAreRefused) {
  const TemporaryFolder folder;
  const std::string small = saved(folder, "\x80\x02}.", "ZIP_DEFLATED");
  if (small.empty()) GTEST_SKIP() << "no python3 to make a zip file";
  EXPECT_EQ(weights_refusal(small), small + ": holds an empty dictionary, not a state dictionary (names and tensors)");
  // 100 MB that deflate to 0.1.
  const std::string large = saved(folder, "\x80\x02" + std::string(100'000'000, 'N') + ".", "ZIP_DEFLATED");
  const std::size_t before = written_memory();
  EXPECT_NE(weights_refusal(large).find("is not a whole file of torch.save()"), std::string::npos);
  EXPECT_LT(written_memory(), before + 20'000'000);
}

TEST(Checkpoint, PicklesNestedWithoutEndAreRead) {
  const auto kind = [](const std::string& bytes) { return Pickle(bytes).value().kind; };
  EXPECT_EQ(kind("\x80\x02)" + std::string(3'000'000, '\x85') + "."), PickleValue::sequence);
  EXPECT_EQ(kind("\x80\x04" + std::string(3'000'000, ']') + std::string(2'999'999, 'a') + "."), PickleValue::sequence);
  EXPECT_EQ(perfpred::testing::refusal([&] { kind("\x80\x02" + std::string(10'000'001, 'N') + "."); }),
            "its pickle has more than 10 million values");
}

TEST(Checkpoint, ADictionaryThatHoldsAnotherManyTimesIsRefused) {
  // Four levels of a dictionary whose 1,000 items are all the next one: 10^12 values from 20 KB.
  const TemporaryFolder folder;
  std::string pickle = "\x80\x02}q" + std::string(1, '\0');
  for (char level = 1; level < 5; ++level) {
    pickle += "}q" + std::string(1, level) + "(";
    for (int i = 0; i < 1000; ++i) {
      const std::string key = std::to_string(i);
      pickle += "X" + std::string(1, static_cast<char>(key.size())) + std::string(3, '\0') + key + "h" +
                std::string(1, static_cast<char>(level - 1));
    }
    pickle += "u";
  }
  const std::string path = saved(folder, pickle + ".", "ZIP_STORED");
  if (path.empty()) GTEST_SKIP() << "no python3 to make a zip file";
  EXPECT_EQ(weights_refusal(path), path + ": its pickle repeats its values without end");
}

/// A safetensors file: eight bytes of size, lowest first, the header, the data.
std::string safetensors(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

TEST(Checkpoint, AFileOfWeightsTakesNoMemoryUntilItIsCopied) {
  const TemporaryFolder folder;
  constexpr std::int64_t numbers = 1 << 24;
  const at::Tensor weights = at::arange(numbers, at::kFloat);  // 64 MB
  save_checkpoint({"{}", "{}", {{"network.w", weights}}}, folder.file("a.pt"));
  folder.write("b.safetensors", safetensors(R"({"w":{"dtype":"F32","shape":[16777216],"data_offsets":[0,67108864]}})",
                                            {static_cast<const char*>(weights.const_data_ptr()), weights.nbytes()}));
  for (const char* name : {"a.pt", "b.safetensors"}) {
    const std::size_t before = written_memory();
    ASSERT_GT(before, 0U);
    const at::Tensor read = load_weights(folder.file(name)).at(0).second;
    EXPECT_TRUE(at::equal(read, weights)) << name;
    EXPECT_LT(written_memory(), before + weights.nbytes() / 4) << name;
    read.add_(1);
    EXPECT_TRUE(at::equal(load_weights(folder.file(name)).at(0).second, weights)) << name;  // the file is as it was
  }
}

TEST(Checkpoint, WhatTheDiskRefusesIsOneLineAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.write("last.pt", "the one before");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit low = before;
  low.rlim_cur = 1 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  std::string message;
  try {
    save_checkpoint(two_megabytes(), path);
  } catch (const Error& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, path + ": cannot be written: File too large");
  EXPECT_EQ(perfpred::testing::slurp(path), "the one before");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(Checkpoint, AChangedByteIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("last.pt");
  save_checkpoint(two_megabytes(), path);
  const std::string whole = perfpred::testing::slurp(path);
  std::string changed = whole;
  changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
  folder.write("last.pt", changed);
  const std::string message = perfpred::testing::refusal([&] { static_cast<void>(load_checkpoint(path)); });
  EXPECT_EQ(message, path + ": is not a whole file of torch.save(): it is cut off or damaged");
  EXPECT_EQ(weights_refusal(path), message);
  folder.write("last.pt", whole);
  EXPECT_EQ(load_checkpoint(path).tensors.size(), 1U);
}

TEST(Checkpoint, AFileThatIsCutOffIsSaidShortly) {
  const TemporaryFolder folder;
  const std::string path = folder.file("last.pt");
  save_checkpoint(two_megabytes(), path);
  fs::resize_file(path, 1'000'000);
  EXPECT_EQ(weights_refusal(path), path + ": is not a whole file of torch.save(): it is cut off or damaged");
}

const std::string two_tensors =
    R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
    R"("n":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})";
const std::string two_data("\x00\x00\x80\x3f\x00\x00\x00\xc0\x07\x00\x00\x00\x00\x00\x00\x00", 16);  // 1, -2; 7

TEST(Safetensors, AreRead) {
  const TemporaryFolder folder;
  const NamedTensors weights = load_weights(folder.write("a.safetensors", safetensors(two_tensors, two_data)));
  ASSERT_EQ(weights.size(), 2U);
  for (const auto& [name, tensor] : weights) {
    if (name == "w") {
      EXPECT_TRUE(at::equal(tensor, at::tensor({1.0F, -2.0F}).reshape({2, 1})));
    } else {
      EXPECT_EQ(name, "n");
      EXPECT_EQ(tensor.item<std::int64_t>(), 7);
    }
  }
}

TEST(Safetensors, DamageIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.safetensors");
  const auto expect = [&](const std::string& bytes, const std::string& reason) {
    folder.write("a.safetensors", bytes);
    const std::string refused = weights_refusal(path);
    EXPECT_EQ(refused.rfind(path + ": ", 0), 0U) << refused;
    EXPECT_NE(refused.find(reason), std::string::npos) << refused << "  should say: " << reason;
  };
  const std::string whole = safetensors(two_tensors, two_data);
  expect("", "is not a whole safetensors file");
  expect(whole.substr(0, 7), "is not a whole safetensors file");
  expect(whole.substr(0, 60), "is not a whole safetensors file");
  expect(std::string(8, '\xff') + whole, "is not a whole safetensors file");
  expect(safetensors("[1]", ""), "its header is not a JSON object");
  expect(safetensors("{\"w\":", ""), "its header is not a JSON object");
  expect(safetensors("{}", ""), "holds no tensors");
  expect(whole.substr(0, whole.size() - 1), "tensor \"n\" does not lie inside the file");
  const auto one = [&](const std::string& entry, const std::string& reason) {
    expect(safetensors("{\"w\":" + entry + "}", two_data), "tensor \"w\" " + reason);
  };
  one("3", "has no dtype");
  one(R"({"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]})", "has numbers of type \"F8_E4M3\"");
  one(R"({"dtype":"F32","data_offsets":[0,8]})", "has no list \"shape\"");
  one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "\"shape\" has an item that is not a size");
  one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,12]})", "has another size than its shape");
  one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "does not lie inside the file");
  one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", "does not lie inside the file");
  one(R"({"dtype":"F32","shape":[2],"data_offsets":[12,20]})", "does not lie inside the file");
  one(R"({"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]})", "is larger than the file");
  one(R"({"dtype":"F32","shape":[0,4611686018427387904,4611686018427387904],"data_offsets":[0,0]})",
      "is larger than the file");
  one(R"({"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]})", "is larger than the file");
}

}  // namespace
}  // namespace perfpred
