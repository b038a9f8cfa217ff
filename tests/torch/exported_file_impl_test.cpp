// SPDX-License-Identifier: Apache-2.0
// Files of torch.export written by hand, damaged ones among them, and the numbers in them.
#include <perfpred/error.h>
#include <perfpred/torch/exported_network.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../refusal.h"
#include "../temporary_folder.h"
#include "torch/exported/exported_module.h"
#include "torch/exported/symbolic_number.h"
#include "torch/files/torch_file.h"
#include "torch/network/trainable_network.h"

namespace perfpred {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

json tensor_name(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }
json sizes(const std::vector<std::int64_t>& all) {
  json list = json::array();
  for (const std::int64_t size : all) list.push_back({{"as_int", size}});
  return list;
}
json meta_of(const std::vector<std::int64_t>& shape, bool learned = false) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return {{"dtype", 7},
          {"sizes", sizes(shape)},
          {"strides", sizes(strides)},
          {"storage_offset", {{"as_int", 0}}},
          {"requires_grad", learned},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"layout", 7}};
}
json node(const std::string& target, const std::vector<std::pair<std::string, json>>& inputs,
          const std::string& output) {
  json list = json::array();
  for (const auto& [name, argument] : inputs) list.push_back({{"name", name}, {"arg", argument}, {"kind", 1}});
  return {{"target", target}, {"inputs", list}, {"outputs", {tensor_name(output)}}, {"metadata", json::object()}};
}

/// relu(x w), with a weight of ones, 4x3.
struct HandWritten {
  json program, weights;

  /// Without values, as a network on the meta device is exported: all names have one empty record.
  void remove_values() {
    json& config = weights["config"];
    config["weight"]["tensor_meta"]["device"]["type"] = "meta";
    config["tied"] = config["weight"];
    json& graph = program["graph_module"]["graph"];
    graph["inputs"].push_back(tensor_name("tied"));
    program["graph_module"]["signature"]["input_specs"].push_back(
        {{"parameter", {{"arg", {{"name", "tied"}}}, {"parameter_name", "tied"}}}});
  }

  HandWritten() {
    const json graph = {
        {"inputs", {tensor_name("w"), tensor_name("x")}},
        {"outputs", {tensor_name("y")}},
        {"nodes",
         {node("torch.ops.aten.mm.default", {{"self", tensor_name("x")}, {"mat2", tensor_name("w")}}, "z"),
          node("torch.ops.aten.relu.default", {{"self", tensor_name("z")}}, "y")}},
        {"tensor_values", {{"w", meta_of({4, 3})}, {"x", meta_of({2, 4})}, {"y", meta_of({2, 3})}}},
    };
    const json signature = {
        {"input_specs",
         {{{"parameter", {{"arg", {{"name", "w"}}}, {"parameter_name", "weight"}}}},
          {{"user_input", {{"arg", tensor_name("x")}}}}}},
        {"output_specs", {{{"user_output", {{"arg", tensor_name("y")}}}}}},
    };
    program = {{"graph_module", {{"graph", graph}, {"signature", signature}}},
               {"range_constraints", json::object()},
               {"schema_version", {{"major", 8}, {"minor", 17}}},
               {"torch_version", "2.11.0"}};
    weights = {{"config",
                {{"weight",
                  {{"path_name", "weight_0"},
                   {"is_param", true},
                   {"use_pickle", false},
                   {"tensor_meta", meta_of({4, 3}, true)}}}}}};
  }

  json& first_node() { return program["graph_module"]["graph"]["nodes"][0]; }

  std::string write(const std::string& path) const { return write(path, program.dump(), weights.dump()); }

  static std::string write(const std::string& path, const std::string& model, const std::string& config) {
    caffe2::serialize::PyTorchStreamWriter writer(path);
    const auto put = [&](const std::string& name, const std::string& text) {
      writer.writeRecord(name, text.data(), text.size());
    };
    const std::vector<float> ones(12, 1.0F);
    put("archive_format", "pt2");
    put("archive_version", "0");
    put("byteorder", "little");
    put("models/model.json", model);
    put("data/weights/model_weights_config.json", config);
    put("data/constants/model_constants_config.json", R"({"config": {}})");
    put("data/weights/weight_0", {reinterpret_cast<const char*>(ones.data()), 4 * ones.size()});
    writer.writeEndOfFile();
    return path;
  }
};

class ExportedFiles : public ::testing::Test {
 protected:
  std::string refusal(const std::string& path) {
    std::string text = testing::refusal([&] { (void)ExportedModule(path, {}).forward({torch::ones({2, 4})}); });
    EXPECT_THAT(text, AllOf(StartsWith(path + ": "), Not(HasSubstr("\n"))));
    return text.substr(std::min(text.size(), path.size() + 2));
  }
  std::string refusal(const HandWritten& file) { return refusal(file.write(folder_.file("net.pt2"))); }

  testing::TemporaryFolder folder_;
};

TEST_F(ExportedFiles, AreExecuted) {
  ExportedModule module(HandWritten().write(folder_.file("net.pt2")), {});
  const at::Tensor output = module.forward({torch::ones({2, 4})}).front();
  EXPECT_TRUE(torch::equal(output, torch::full({2, 3}, 4.0)));
  output.sum().backward();
  EXPECT_TRUE(torch::equal(module.parameters().front().second.grad(), torch::full({4, 3}, 2.0)));
}

TEST_F(ExportedFiles, WithoutValuesAreTracedOnly) {
  HandWritten file;
  file.remove_values();
  StepTracer tracer = StepTracer::pt2(file.write(folder_.file("net.pt2")));
  EXPECT_EQ(tracer.params(), 12);  // no operator reads the other name
  const InputSpec input{{2, 4}};
  EXPECT_EQ(tracer.trace({&input, 1}, Optimizer::sgd).totals(Phase::forward).conv_matmul_flops, 2.0 * 2 * 4 * 3);
  EXPECT_THAT(refusal(file), HasSubstr("without values: it can be traced only"));
}

TEST_F(ExportedFiles, OfOtherKindsAreRefused) {
  EXPECT_EQ(refusal(folder_.file("none.pt2")), "cannot be read: No such file or directory");
  EXPECT_EQ(refusal(folder_.write("text.pt2", "weights\n")), "is not a file of torch.export.save()");
  EXPECT_EQ(refusal(folder_.write("empty.pt2", "")), "is not a file of torch.export.save()");
  torch::jit::Module script("Net");
  script.define("def forward(self, x):\n    return x\n");
  script.save(folder_.file("script.pt"));
  EXPECT_EQ(refusal(folder_.file("script.pt")),
            "is a TorchScript file, which is not read: save the network with torch.export.save(), or record a step of "
            "it with "
            "perfpred.capture");
  write_torch_file({}, "weights", {{"w", torch::ones({3})}}, folder_.file("weights.pt"));
  EXPECT_THAT(refusal(folder_.file("weights.pt")), StartsWith("is not a file of torch.export.save(); save it with"));
}

TEST_F(ExportedFiles, OfAnotherVersionAreRefused) {
  HandWritten file;
  file.program["schema_version"]["major"] = 9;
  EXPECT_EQ(
      refusal(file),
      "models/model.json: has version 9 of the format (PyTorch 2.11.0), not 8; export it again with PyTorch 2.11");
}

TEST_F(ExportedFiles, UnknownOperatorsAreNamed) {
  HandWritten file;
  file.first_node()["target"] = "torch.ops.mylib.attention.default";
  EXPECT_THAT(refusal(file),
              AllOf(StartsWith("torch.ops.mylib.attention.default: "), HasSubstr("load a library that registers it")));
  file.first_node()["target"] = "torch.ops.higher_order.flex_attention";
  EXPECT_THAT(refusal(file),
              AllOf(StartsWith("torch.ops.higher_order.flex_attention: "), HasSubstr("perfpred.capture")));
  file.first_node()["target"] = "os.system";
  EXPECT_EQ(refusal(file), "os.system: this function is not known");
}

TEST_F(ExportedFiles, ArgumentsThatAnOperatorDoesNotTakeAreNamed) {
  HandWritten file;
  file.first_node()["inputs"][1]["name"] = "mat3";
  EXPECT_EQ(refusal(file), "torch.ops.aten.mm.default: takes no argument mat3");
  file.first_node()["inputs"].erase(1);
  EXPECT_EQ(refusal(file), "torch.ops.aten.mm.default: argument mat2 is missing");
  file = {};
  file.first_node()["inputs"][1]["arg"] = {{"as_string", "w"}};
  EXPECT_EQ(refusal(file), "torch.ops.aten.mm.default: argument mat2: is not of the type Tensor");
  file.first_node()["inputs"][1]["arg"] = tensor_name("y");
  EXPECT_EQ(refusal(file), "torch.ops.aten.mm.default: argument mat2: value y is read before it is made");
}

TEST_F(ExportedFiles, WeightsThatDoNotFitTheirShapesAreRefused) {
  HandWritten file;
  file.weights["config"]["weight"]["tensor_meta"]["sizes"][0]["as_int"] = 5;
  EXPECT_THAT(refusal(file), HasSubstr("cut off or damaged"));
  file.weights["config"]["weight"]["tensor_meta"]["sizes"][0]["as_int"] = std::int64_t{1} << 62;
  EXPECT_THAT(refusal(file), HasSubstr("cut off or damaged"));
  file.weights["config"] = json::object();
  EXPECT_EQ(refusal(file), "has no tensor weight");
}

TEST_F(ExportedFiles, CutOffFilesAreRefused) {
  const std::string whole = testing::slurp(HandWritten().write(folder_.file("net.pt2")));
  for (std::size_t size = 2; size < whole.size(); size += 97) {
    EXPECT_THAT(refusal(folder_.write("cut.pt2", whole.substr(0, size))), HasSubstr("cut off or damaged"));
  }
  std::string flipped = whole;
  flipped[flipped.find("torch.ops.aten.mm")] = 'T';
  EXPECT_THAT(refusal(folder_.write("flipped.pt2", flipped)), HasSubstr("cut off or damaged"));
}

/// Whatever the documents hold, the outcome is a result, an InputError, or an error of LibTorch: never a crash.
TEST_F(ExportedFiles, DamagedDocumentsNeverCrash) {
  const HandWritten whole;
  const std::string model = whole.program.dump();
  const std::string config = whole.weights.dump();
  const std::vector<std::string> words = {"null",
                                          "-1",
                                          "0",
                                          "true",
                                          "\"\"",
                                          "[]",
                                          "{}",
                                          "1e300",
                                          "99999999999999999999",
                                          "\"x\"",
                                          "\"w\"",
                                          "\"as_ints\"",
                                          "\"as_graph\"",
                                          "\"torch.ops.aten.add_.Tensor\""};
  std::mt19937_64 random(11);
  const auto damaged = [&](std::string text) {
    for (std::size_t i = 1 + random() % 3; i > 0; --i) {
      // A value, or a byte.
      const std::size_t from = random() % text.size();
      const std::size_t begin = text.find_first_of(":,[", from);
      const std::size_t end = begin == std::string::npos ? begin : text.find_first_of(",]}", begin + 1);
      if (random() % 4 == 0 || end == std::string::npos) {
        text[from] = static_cast<char>(random());
      } else {
        text.replace(begin + 1, end - begin - 1, words[random() % words.size()]);
      }
    }
    return text;
  };
  int refused = 0;
  constexpr int rounds = 3000;
  for (int round = 0; round < rounds; ++round) {
    const bool of_model = round % 4 != 0;
    const std::string path = HandWritten::write(folder_.file("net.pt2"), of_model ? damaged(model) : model,
                                                of_model ? config : damaged(config));
    try {
      (void)ExportedModule(path, {}).forward({torch::ones({2, 4})});
    } catch (const InputError& error) {
      ASSERT_THAT(error.what(), AllOf(StartsWith(path + ": "), Not(HasSubstr("\n"))));
      ++refused;
    } catch (const c10::Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 2);
}

TEST_F(ExportedFiles, ReasonsOfLibTorchBecomeOneLine) {
  HandWritten file;
  file.program["graph_module"]["graph"]["nodes"][1]["target"] = "torch.ops.aten.inverse.default";
  const std::string path = file.write(folder_.file("net.pt2"));
  Workload workload = Workload::cifar_cnn(1, 1, 2);
  workload.classes = 3;
  EXPECT_THAT(testing::refusal([&] {
                (void)load_exported(path, workload, at::kCPU)->forward(torch::ones({2, 4}), {});
              }),
              AllOf(StartsWith(path + ": "), HasSubstr("square"), Not(HasSubstr("\n"))));
}

TEST_F(ExportedFiles, ThatCannotBeTrainedAreSaid) {
  HandWritten file;
  const auto said = [&](std::int64_t classes) {
    const std::string path = file.write(folder_.file("net.pt2"));
    Workload workload = Workload::cifar_cnn(1, 1, 2);
    workload.classes = classes;
    return testing::refusal([&] { (void)load_exported(path, workload, at::kCPU)->forward(torch::ones({2, 4}), {}); });
  };
  EXPECT_EQ(said(3), "");
  EXPECT_THAT(said(7), HasSubstr("net.pt2: has 3 outputs for 7 classes"));
  file.weights["config"]["weight"]["tensor_meta"]["requires_grad"] = false;
  file.weights["config"]["weight"]["is_param"] = false;
  EXPECT_THAT(said(3), HasSubstr("is it frozen?"));
}

TEST_F(ExportedFiles, AreNamedByTheirSha256) {  // FIPS 180-2, appendix B, and the empty message
  const auto name_of = [&](const std::string& bytes) { return pt2_name(folder_.write("x.pt2", bytes)); };
  EXPECT_EQ(name_of(""), "pt2:e3b0c44298fc");
  EXPECT_EQ(name_of("abc"), "pt2:ba7816bf8f01");
  EXPECT_EQ(name_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), "pt2:248d6a61d206");
  EXPECT_EQ(name_of(std::string(1'000'000, 'a')), "pt2:cdc76e5c9914");
}

// ---- Numbers ----

/// As Python computes them.
TEST(SymbolicNumber, IsPythons) {
  const auto result = [](const char* target, std::vector<c10::IValue> arguments) {
    return symbolic_operator(target)(arguments);
  };
  EXPECT_EQ(result("_operator.floordiv", {-7, 2}).toInt(), -4);
  EXPECT_EQ(result("_operator.mod", {-7, 2}).toInt(), 1);
  EXPECT_EQ(result("_operator.mod", {7, -2}).toInt(), -1);
  EXPECT_EQ(result("_operator.floordiv", {7.5, 2}).toDouble(), 3);
  EXPECT_EQ(result("_operator.truediv", {7, 2}).toDouble(), 3.5);
  EXPECT_EQ(result("_operator.pow", {3, 5}).toInt(), 243);
  EXPECT_EQ(result("_operator.mul", {3, 0.5}).toDouble(), 1.5);
  EXPECT_EQ(result("math.trunc", {-2.7}).toInt(), -2);
  EXPECT_EQ(result("torch.sym_max", {3, 9}).toInt(), 9);
  EXPECT_EQ(result("torch.sym_ite", {false, 3, 9}).toInt(), 9);
  EXPECT_TRUE(result("_operator.ge", {9, 9}).toBool());
  EXPECT_EQ(testing::refusal([&] { (void)result("_operator.mod", {7, 0}); }), "a size is divided by zero");
  EXPECT_EQ(symbolic_operator("_operator.matmul"), nullptr);
}

}  // namespace
}  // namespace perfpred
