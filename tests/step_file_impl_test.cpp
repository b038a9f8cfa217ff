// SPDX-License-Identifier: Apache-2.0
// Steps that perfpred.capture recorded: their counts against closed forms, and files that people edited by hand.
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "refusal.h"
#include "sample_step.h"
#include "temporary_folder.h"
#include "text/files.h"
#include "text/text_hash.h"

namespace perfpred {
namespace {

using nlohmann::json;
using testing::batch;
using ::testing::HasSubstr;
using testing::inputs;
using testing::linear_step;
using testing::outputs;
using testing::TemporaryFolder;

TEST(StepFile, CountsAsTracedOperatorsAreCounted) {
  const TemporaryFolder folder;
  const StepFile file(folder.write("step.json", linear_step().dump()));
  EXPECT_EQ(file.batch_size(), batch);
  EXPECT_EQ(file.precision(), Precision::fp32);
  const OpGraph step = file.graph(batch);
  ASSERT_EQ(step.ops().size(), 5U);
  EXPECT_EQ(step.params(), inputs * outputs);
  EXPECT_EQ(step.ops()[0].flops, 2.0 * batch * inputs * outputs);
  EXPECT_EQ(step.ops()[0].bytes_read, 4 * (batch * inputs + inputs * outputs));
  EXPECT_EQ(step.layer_name(step.ops()[0]), "linear");
  EXPECT_EQ(step.ops()[1].bytes_read, 0);  // a fill only writes
  EXPECT_EQ(step.totals(Phase::backward).conv_matmul_flops, 2.0 * batch * inputs * outputs);
  EXPECT_EQ(step.name(step.ops()[3]), "_foreach_add");
  EXPECT_EQ(step.ops()[3].flops, inputs * outputs);
  EXPECT_EQ(step.ops()[4].kind, OpKind::unknown);
  EXPECT_EQ(step.name(step.ops()[4]), "mylib::unheard_of");
}

TEST(StepFile, ATextIsTheStepOfItsFile) {
  const TemporaryFolder folder;
  json step = linear_step();
  step["layers"] = {"", "of a text"};
  const std::string text = step.dump(1);
  const StepFile known = add_graph_text(text);
  EXPECT_EQ(known.name(), StepFile(folder.write("step.json", text)).name());
  EXPECT_EQ(known.graph(16).totals().flops, StepFile(folder.file("step.json")).graph(16).totals().flops);
  Workload workload;
  workload.network = known.name();
  workload.batch_size = 16;
  EXPECT_EQ(workload.graph().totals().flops, known.graph(16).totals().flops) << "it is known by its name";
  EXPECT_THAT(testing::refusal([] { (void)add_graph_text("{\"format\""); }), HasSubstr("step: is not JSON"));
}

TEST(StepFile, RandomNumbersKeepTheNameOfTheirOperator) {
  const TemporaryFolder folder;
  json step = linear_step();
  step["ops"][1]["name"] = "aten::randn";
  const OpGraph graph = StepFile(folder.write("step.json", step.dump())).graph(batch);
  EXPECT_EQ(graph.ops()[1].kind, OpKind::bernoulli);
  EXPECT_EQ(graph.name(graph.ops()[1]), "randn");
}

TEST(StepFile, NamesCannotCommandATerminal) {
  const TemporaryFolder folder;
  json step = linear_step();
  step["layers"][step["ops"][0]["layer"].get<std::size_t>()] = "linear\u001b[2J";
  step["ops"][4]["name"] = "mylib::\u0007bell";
  const OpGraph graph = StepFile(folder.write("step.json", step.dump())).graph(batch);
  EXPECT_EQ(graph.layer_name(graph.ops()[0]), "linear?[2J");
  EXPECT_EQ(graph.name(graph.ops()[4]), "mylib::?bell");
}

TEST(StepFile, RefusesOperatorsWithoutWhatTheirTimesFollowFrom) {
  const TemporaryFolder folder;
  for (const char* name : {"aten::_softmax", "aten::native_layer_norm"}) {
    for (const json& none : {json::array(), json::array({nullptr})}) {
      json step = linear_step();
      step["ops"][0]["name"] = name;
      step["ops"][0]["outputs"] = none;
      EXPECT_THAT(testing::refusal([&] { (void)StepFile(folder.write("step.json", step.dump())); }),
                  HasSubstr("ops[0]: has not the operands"));
    }
  }
  json step = linear_step();
  step["ops"][0]["name"] = "aten::convolution";
  step["tensors"][step["ops"][0]["inputs"][1].get<std::size_t>()]["sizes"] = json::array({4});
  EXPECT_NE(testing::refusal([&] { (void)StepFile(folder.write("step.json", step.dump())); }), "");
}

TEST(StepFile, StridesOfImagesSayTheLayout) {
  // 8 images of 3 channels and 4 x 4 pixels, as torch.Tensor.stride() has them in both memory formats.
  const TemporaryFolder folder;
  const json side_by_side = {48, 1, 12, 3}, apart = {48, 16, 4, 1};
  for (const bool channels_last : {false, true}) {
    json step = linear_step();
    step["ops"][0]["name"] = "aten::convolution";
    step["storages"][0]["bytes"] = 4 * 8 * 48;
    const json image = {{"sizes", {8, 3, 4, 4}},  {"strides", channels_last ? side_by_side : apart},
                        {"growth", {1, 0, 0, 0}}, {"dtype", "float32"},
                        {"storage", 0},           {"role", "input"}};
    step["tensors"][0] = image;
    step["tensors"][1]["sizes"] = {5, 3, 1, 1};
    step["tensors"][1]["strides"] = {3, 1, 1, 1};
    step["tensors"][1]["growth"] = {0, 0, 0, 0};
    step["storages"][2]["bytes"] = 4 * 8 * 5 * 16;
    step["tensors"][2]["sizes"] = {8, 5, 4, 4};
    step["tensors"][2]["strides"] = {80, 16, 4, 1};
    step["tensors"][2]["growth"] = {1, 0, 0, 0};
    step["ops"] = json::array({step["ops"][0]});
    const OpGraph graph = StepFile(folder.write("step.json", step.dump())).graph(16);
    EXPECT_EQ(graph.layout(), channels_last ? Layout::nhwc : Layout::nchw);
  }
}

TEST(StepFile, IsNamedByItsHash) {
  const TemporaryFolder folder;
  EXPECT_EQ(text_hash("abc"), "ba7816bf8f01");  // FIPS 180-2, appendix B.1
  const std::string path = folder.write("step.json", linear_step().dump());
  EXPECT_EQ(StepFile(path).name(), "step:" + text_hash(read_file(path)));
}

TEST(StepFile, CountsAllTypesOfElements) {
  const TemporaryFolder folder;
  for (const auto& [type, bytes] : {std::pair("int16", 2), std::pair("float8_e5m2", 1), std::pair("complex64", 8),
                                    std::pair("complex128", 16), std::pair("bool", 1)}) {
    json step = linear_step();
    step["tensors"][2]["dtype"] = type;
    step["storages"][2]["bytes"] = bytes * batch * outputs;
    EXPECT_EQ(StepFile(folder.write("step.json", step.dump())).graph(batch).ops()[0].bytes_written,
              bytes * batch * outputs);
  }
}

TEST(StepFile, OneBatchStandsForAllWhoseGradientsAccumulate) {
  const TemporaryFolder folder;
  json step = linear_step();
  const OpGraph once = StepFile(folder.write("once.json", step.dump())).graph(batch);
  step["accumulate"] = 3;
  step["compiled"] = true;
  step["notes"] = {"communication is missing"};
  const StepFile file(folder.write("step.json", step.dump()));
  EXPECT_EQ(file.batches(), 3);
  EXPECT_TRUE(file.compiled());
  EXPECT_EQ(file.notes(), std::vector<std::string>{"communication is missing"});
  const OpGraph thrice = file.graph(batch);
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    EXPECT_EQ(thrice.totals(phase).flops, 3 * once.totals(phase).flops);
  }
  EXPECT_EQ(thrice.totals(Phase::optimizer).flops, once.totals(Phase::optimizer).flops);
  for (const json& wrong : {json(0), json(1.5), json("2"), json(100'000'000)}) {
    step["accumulate"] = wrong;
    EXPECT_THAT(testing::refusal([&] { StepFile(folder.write("wrong.json", step.dump())); }),
                HasSubstr("wrong.json: accumulate: "));
  }
}

TEST(StepFile, TwoBatchSizesAnswerForAll) {
  const TemporaryFolder folder;
  const StepFile file(folder.write("step.json", linear_step().dump()));
  for (const std::int64_t size : {1, 8, 16, 1000}) {
    const OpGraph step = file.graph(size);
    EXPECT_EQ(step.totals(Phase::forward).flops, 2.0 * static_cast<double>(size * inputs * outputs));
    EXPECT_EQ(step.totals(Phase::forward).bytes_written, 4 * size * outputs);
    EXPECT_EQ(step.params(), inputs * outputs);
  }
  json one = linear_step();
  one.erase("other_batch_size");
  const StepFile single(folder.write("one.json", one.dump()));
  EXPECT_THAT(testing::refusal([&] { (void)single.graph(9); }), HasSubstr("was captured at batch size 8, not 9"));
}

TEST(StepFile, MemoryIsGivenBackWhenItWasInTheCapture) {
  const TemporaryFolder folder;
  const auto peak = [&](const json& step) {
    TrainingJob job;
    job.loader_batches = 1;
    const OpGraph graph = StepFile(folder.write("step.json", step.dump())).graph(batch);
    const std::int64_t bytes = estimate_memory(execute(graph, DeviceKind::other), job).peak_bytes;
    for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {  // neither executes it otherwise
      EXPECT_EQ(estimate_memory(execute(graph, device), job).peak_bytes, bytes) << to_string(device);
    }
    return bytes;
  };
  // Input and weight live always, the result to the fill, the filled gradient and the weight's gradient are made in
  // turn.
  const std::int64_t always = 4 * (batch * inputs + inputs * outputs), result = 4 * batch * outputs;
  EXPECT_EQ(peak(linear_step()), always + 2 * result);
  json kept = linear_step();
  kept["ops"][1].erase("frees");
  kept["ops"][2]["frees"] = {2, 3};
  EXPECT_EQ(peak(kept), always + 2 * result + 4 * inputs * outputs);
}

TEST(StepFile, AFolderMakesNetworksKnown) {
  const TemporaryFolder folder;
  const StepFile file(folder.write("step.json", linear_step().dump()));
  Workload workload;
  workload.network = file.name();
  workload.batch_size = 4;
  EXPECT_THAT(testing::refusal([&] { (void)workload.graph(); }), HasSubstr("its graph is not in a folder"));
  folder.write(file.name().substr(5) + ".json", linear_step().dump());
  add_graphs(folder.file(""));
  EXPECT_EQ(workload.graph().totals(Phase::forward).flops, 2.0 * 4 * inputs * outputs);
  EXPECT_THAT(testing::refusal([&] { add_graphs(folder.file("nowhere")); }), HasSubstr("is not a folder"));
}

/// A process that names many files holds those that it used last; another one is read again where it was.
TEST(StepFile, OneOfManyIsReadAgain) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> paths;
  Workload first;
  for (int i = 0; i < 6; ++i) {
    std::string text = testing::linear_step().dump();
    text.append(20'000'000 + static_cast<std::size_t>(i), ' ');  // six times this is more than is held
    paths.push_back(folder.write("step" + std::to_string(i) + ".json", text));
    const StepFile file = add_graph(paths.back());
    if (i > 0) continue;
    first.network = file.name();
    first.batch_size = file.batch_size();
    first.precision = file.precision();
  }
  EXPECT_EQ(first.graph().ops().size(), 5U);
  std::filesystem::copy_file(paths[5], paths[0], std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(first.graph().ops().size(), 5U);  // it is held again
  for (int i = 1; i < 6; ++i) (void)add_graph(paths[static_cast<std::size_t>(i)]);
  EXPECT_THAT(testing::refusal([&] { (void)first.graph(); }), HasSubstr("no longer " + first.network));
}

TEST(StepFile, OfAnotherStepIsNotTakenForANetworksOwn) {
  const TemporaryFolder folder;
  const std::string path = folder.write("0123456789ab.json", linear_step().dump());
  add_graphs(folder.path());
  Workload workload;
  workload.network = "step:0123456789ab";
  workload.batch_size = batch;
  EXPECT_EQ(testing::refusal([&] { (void)workload.graph(); }),
            path + ": is " + StepFile(path).name() + ", not step:0123456789ab");
}

TEST(StepFile, SaysWhereItIsWrong) {
  struct Wrong {
    const char* place;  // a JSON pointer
    json value;
    const char* message;
  };
  const TemporaryFolder folder;
  for (const Wrong& wrong : std::vector<Wrong>{
           {"/format", 2, "is not a step file of format 1"},
           {"/batch_size", 0, "batch_size: 0 is not an integer in 1"},
           {"/precision", "fp12", "step.json: "},
           {"/ops/3/phase", "later", "ops[3]: phase: \"later\" is not known"},
           {"/ops/0/inputs/1", 77, "ops[0]: inputs: there is no 77"},
           {"/ops/0/inputs/1", nullptr, "ops[0]: inputs: null is not an integer"},
           {"/ops/0/inputs", json::array({0}), "ops[0]: has not the operands of mm"},
           {"/ops/0/outputs/0", nullptr, "ops[0]: has not the operands of mm"},
           {"/ops/1/frees/0", -1, "ops[1]: frees: -1 is not an integer"},
           {"/ops/0/layer", 2, "ops[0]: layer: there is no 2"},
           {"/tensors/4/dtype", "complex7", "tensors[4]: dtype: \"complex7\" is not known"},
           {"/tensors/4/sizes", json::array({1}), "tensors[4]: "},
           {"/tensors/1/sizes/0", -3, "tensors[1]: sizes: -3 is not an integer in 0"},
           {"/tensors/1/storage", 99, "tensors[1]: storage: there is no 99"},
           {"/storages/0/bytes", 1e30, "storages[0]: bytes: "},
       }) {
    json step = linear_step();
    step[json::json_pointer(wrong.place)] = wrong.value;
    const std::string message = testing::refusal([&] { (void)StepFile(folder.write("step.json", step.dump())); });
    EXPECT_THAT(message, HasSubstr("step.json: ")) << wrong.place;
    EXPECT_THAT(message, HasSubstr(wrong.message)) << wrong.place;
  }
  EXPECT_THAT(testing::refusal([&] { (void)StepFile(folder.file("nowhere.json")); }),
              HasSubstr("nowhere.json: No such file"));
}

/// Asks all that programs ask of a step.
void use(const std::string& path) {
  const StepFile file(path);
  for (const std::int64_t size : {file.batch_size(), std::int64_t{1}, std::int64_t{1} << 40}) {
    const OpGraph step = file.graph(size);
    (void)step.totals().intensity();
    (void)step.activation_bytes();
    (void)estimate_memory(execute(step, DeviceKind::other), TrainingJob());
    TrainingJob caching;
    caching.caching_allocator = true;
    (void)estimate_memory(execute(step, DeviceKind::other), caching);
  }
}

/// Either all answers or one InputError of one line.
void read_damaged(const std::string& path) {
  try {
    use(path);
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

/// All places of a document, the lists and objects among them.
void visit(json& value, const std::function<void(json&)>& each) {
  if (value.is_structured()) {
    for (json& part : value) visit(part, each);
  }
  each(value);
}

TEST(StepFile, DamagedFilesNeverCrash) {
  const TemporaryFolder folder;
  const std::vector<json> others = {nullptr,
                                    true,
                                    -1,
                                    0,
                                    1,
                                    9'223'372'036'854'775'807,
                                    1e300,
                                    "text",
                                    "aten::convolution_backward",
                                    "aten::addmm",
                                    json::array(),
                                    json::object(),
                                    {{-1, 0}}};
  json whole = linear_step();
  std::size_t places = 0;
  visit(whole, [&](json&) { ++places; });
  for (std::size_t place = 0; place < places; ++place) {
    for (const json& other : others) {
      json damaged = linear_step();
      std::size_t at = 0;
      visit(damaged, [&](json& value) {
        if (at++ == place) value = other;
      });
      read_damaged(folder.write("step.json", damaged.dump()));
    }
  }
  // Every kind of operator with every number of operands.
  for (auto kind = static_cast<int>(OpKind::unknown); kind <= static_cast<int>(OpKind::custom); ++kind) {
    for (std::size_t operands = 0; operands < 6; ++operands) {
      json step = linear_step();
      step["ops"][2]["name"] = "aten::" + std::string(to_string(static_cast<OpKind>(kind)));
      step["ops"][2]["inputs"] = std::vector<int>(operands, static_cast<int>(operands));
      step["ops"][2]["outputs"] = std::vector<json>(operands / 2, nullptr);
      read_damaged(folder.write("step.json", step.dump()));
    }
  }
  std::mt19937_64 random(1);
  const std::string text = linear_step().dump();
  for (int round = 0; round < 1000; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    read_damaged(folder.write("step.json", damaged));
  }
}

}  // namespace
}  // namespace perfpred
