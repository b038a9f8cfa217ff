// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/executed_step.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "network/layers.h"
#include "refusal.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Published {
  const char* name;
  std::int64_t params;
  double forward_flops;  // convolutions and matrix products, one image; 0: not counted
};

// torchvision 0.26.0: parameters by p.numel(), FLOPs of the forward pass by torch.utils.flop_counter, on the meta
// device at the input size of the shipped weights (GoogLeNet without auxiliary heads, Inception in training mode).
constexpr Published torchvision[] = {
    {"alexnet", 61100840, 1428376960},
    {"convnext_base", 88591464, 30709458944},
    {"convnext_large", 197767336, 68722867200},
    {"convnext_small", 50223688, 17367424512},
    {"convnext_tiny", 28589128, 8911062528},
    {"densenet121", 7978856, 5668323328},
    {"densenet161", 28681000, 15455814144},
    {"densenet169", 14149480, 6719686656},
    {"densenet201", 20013928, 8582731776},
    {"efficientnet_b0", 5288548, 771629504},
    {"efficientnet_b1", 7794184, 1373605664},
    {"efficientnet_b2", 9109994, 2175058912},
    {"efficientnet_b3", 12233232, 3654282784},
    {"efficientnet_b4", 19341616, 8787542048},
    {"efficientnet_b5", 30389784, 20532769504},
    {"efficientnet_b6", 43040704, 38135187072},
    {"efficientnet_b7", 66347960, 75491768384},
    {"efficientnet_v2_l", 118515272, 112159398016},
    {"efficientnet_v2_m", 54139356, 49164920768},
    {"efficientnet_v2_s", 21458488, 16731234304},
    {"googlenet", 6624904, 2996752384},
    {"inception_v3", 27161264, 11437798592},
    {"maxvit_t", 30919624, 11116093440},
    {"mnasnet0_5", 2218512, 208911936},
    {"mnasnet0_75", 3170208, 430986208},
    {"mnasnet1_0", 4383312, 628831744},
    {"mnasnet1_3", 6282256, 1052724864},
    {"mobilenet_v2", 3504872, 601548544},
    {"mobilenet_v3_large", 5483032, 433179520},
    {"mobilenet_v3_small", 2542856, 113020800},
    {"regnet_x_16gf", 54278536, 31881510912},
    {"regnet_x_1_6gf", 9190136, 3205699584},
    {"regnet_x_32gf", 107811560, 63471859584},
    {"regnet_x_3_2gf", 15296552, 6353243904},
    {"regnet_x_400mf", 5495976, 827625216},
    {"regnet_x_800mf", 7259656, 1599399424},
    {"regnet_x_8gf", 39572648, 15990264832},
    {"regnet_y_128gf", 644812894, 0},
    {"regnet_y_16gf", 83590140, 31823020544},
    {"regnet_y_1_6gf", 11202430, 3224152320},
    {"regnet_y_32gf", 145046770, 64559105664},
    {"regnet_y_3_2gf", 19436338, 6352965504},
    {"regnet_y_400mf", 4344144, 803685696},
    {"regnet_y_800mf", 6432512, 1667712512},
    {"regnet_y_8gf", 39381472, 16946141184},
    {"resnet101", 44549160, 15602810880},
    {"resnet152", 60192808, 23027253248},
    {"resnet18", 11689512, 3628146688},
    {"resnet34", 21797672, 7327522816},
    {"resnet50", 25557032, 8178368512},
    {"resnext101_32x8d", 88791336, 32828030976},
    {"resnext101_64x4d", 83455272, 30920540160},
    {"resnext50_32x4d", 25028904, 8460959744},
    {"shufflenet_v2_x0_5", 1366792, 80952896},
    {"shufflenet_v2_x1_0", 2278604, 289815984},
    {"shufflenet_v2_x1_5", 3503624, 591518784},
    {"shufflenet_v2_x2_0", 7393996, 1166506928},
    {"squeezenet1_0", 1248424, 1637849152},
    {"squeezenet1_1", 1235496, 698303872},
    {"swin_b", 87768224, 30861893632},
    {"swin_s", 49606258, 17481750528},
    {"swin_t", 28288354, 8981133312},
    {"vgg11", 132863336, 15218180096},
    {"vgg11_bn", 132868840, 15218180096},
    {"vgg13", 133047848, 22616932352},
    {"vgg13_bn", 133053736, 22616932352},
    {"vgg16", 138357544, 30940528640},
    {"vgg16_bn", 138365992, 30940528640},
    {"vgg19", 143667240, 39264124928},
    {"vgg19_bn", 143678248, 39264124928},
    {"vit_b_16", 86567656, 35127656448},
    {"vit_b_32", 88224232, 8818372608},
    {"vit_h_14", 632045800, 334590218240},
    {"vit_l_16", 304326632, 123109425152},
    {"vit_l_32", 306535400, 30755078144},
    {"wide_resnet101_2", 126886696, 45506101248},
    {"wide_resnet50_2", 68883240, 22796042240},
};

TEST(Network, HasTorchvisionsParametersAndFlops) {
  for (const Published& published : torchvision) {
    SCOPED_TRACE(published.name);
    Workload workload = Workload::zoo(published.name, 2);
    workload.optimizer = Optimizer::none;
    EXPECT_EQ(workload.params(), published.params);
    const OpGraph graph = workload.graph();
    EXPECT_EQ(graph.params(), published.params);
    if (published.forward_flops > 0) {
      EXPECT_EQ(graph.totals(Phase::forward).conv_matmul_flops, 2 * published.forward_flops);
    }
  }
}

TEST(Network, HasThePublishedParametersElsewhere) {
  EXPECT_EQ(Workload::zoo("cifar_resnet18", 1).params(), 11'173'962);  // the usual 32x32 variant
  EXPECT_EQ(Workload::zoo("cifar_resnet34", 1).params(), 21'282'122);
  EXPECT_EQ(Workload::zoo("cifar_resnet50", 1).params(), 23'520'842);
  EXPECT_EQ(Workload::zoo("resnext101_32x4d", 1).params(), 44'177'704);  // timm 1.0.24
  EXPECT_EQ(Workload::zoo("bert_base", 1).params(), 109'514'298);        // transformers' BertForMaskedLM
  EXPECT_EQ(Workload::zoo("bert_large", 1).params(), 335'174'458);
  EXPECT_EQ(Workload::zoo("gpt2", 1).params(), 124'439'808);  // transformers' GPT2LMHeadModel
  EXPECT_EQ(Workload::zoo("gpt2_medium", 1).params(), 354'823'168);
  EXPECT_EQ(Workload::zoo("gpt2_large", 1).params(), 774'030'080);
  EXPECT_EQ(Workload::zoo("gpt2_xl", 1).params(), 1'557'611'200);
}

TEST(Network, CountsTransformersWithExpertsBySize) {
  // transformers' MixtralForCausalLM of Mixtral-8x7B.
  const std::string sizes =
      "transformer:layers=32,hidden=4096,heads=32,vocab=32000,norm=rms,positions=rotary,kv_heads=8,mlp=swiglu,"
      "mlp_hidden=14336,experts=8,bias=0,tied=0,dropout=0";
  EXPECT_EQ(Workload::zoo(sizes, 1).params(), 46'702'792'704);
  // 2 x 64 x 32 of queries and output, as many of keys and values; the MLP, norms, embeddings.
  const std::int64_t layer = 4 * 64 * 32 + 2 * 64 * 256 + 4 * 64;
  EXPECT_EQ(Workload::zoo("transformer:layers=2,hidden=64,heads=2,vocab=100,head_dim=16,bias=0", 1, {8}).params(),
            2 * layer + (100 + 8) * 64 + 2 * 64);
  EXPECT_THAT([] { (void)Workload::zoo("transformer:layers=2,hidden=64,heads=2,vocab=100,experts=4", 1).params(); },
              ThrowsMessage<InputError>(HasSubstr("experts without a gate")));
}

/// scripts/capture_zoo.py has this detector in PyTorch, after NVIDIA's DeepLearningExamples: parameters by p.numel(),
/// FLOPs by torch.utils.flop_counter, 2 images.
TEST(Network, DetectsBoxesAsNvidiasSsd300) {
  const Workload workload = Workload::zoo("SSD300 ResNet-50", 2);
  EXPECT_EQ(workload.input, (std::vector<std::int64_t>{3, 300, 300}));
  const OpGraph graph = workload.graph();
  EXPECT_EQ(graph.params(), 22'894'902);
  EXPECT_EQ(graph.totals(Phase::forward).conv_matmul_flops, 80'603'624'448);
  EXPECT_EQ(graph.totals(Phase::backward).conv_matmul_flops, 160'360'528'896);
  const Network network = build_network(workload);
  EXPECT_EQ(network.layers.at(static_cast<std::size_t>(network.boxes)).output, (Shape{2, 8732, 4}));
  EXPECT_EQ(network.layers.back().output, (Shape{2, 8732, 81}));
  EXPECT_EQ(graph.totals(OpKind::log_softmax).flops, 2.0 * 8732 * 81);  // a class of each box, and its place
  const auto names = graph.op_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "smooth_l1_loss"), 1);
}

TEST(Network, HasTransformersParameters) {  // LlamaForCausalLM, MistralForCausalLM of transformers 5.23
  EXPECT_EQ(Workload::zoo("llama2_7b", 1).params(), 6'738'415'616);
  EXPECT_EQ(Workload::zoo("llama2_13b", 1).params(), 13'015'864'320);
  EXPECT_EQ(Workload::zoo("llama3_8b", 1).params(), 8'030'261'248);
  EXPECT_EQ(Workload::zoo("mistral_7b", 1).params(), 7'241'732'096);
  EXPECT_EQ(Workload::zoo("tinyllama_1.1b", 1).params(), 1'100'048'384);
}

/// Parameters and, by torch.utils.flop_counter, FLOPs of the forward pass of transformers' LlamaForCausalLM 5.23 of
/// these sizes with attention written out: 2 samples of 40 words.
TEST(Network, HasTheFlopsOfLlamas) {
  struct Expected {
    const char* options;
    std::int64_t params;
    double forward_flops;
  };
  const std::string sizes = "transformer:layers=3,hidden=96,heads=8,vocab=500,norm=rms,positions=rotary,mlp=swiglu";
  const double attention =
      3 * 4.0 * 2 * 40 * 40 * 96;  // Llama's kernel leaves out half of it, pairs of later positions
  for (const auto& [options, params, flops] : {Expected{",bias=0,tied=0,dropout=0", 428'448, 64'450'560},
                                               Expected{",kv_heads=2,bias=0,tied=1,dropout=0", 338'976, 57'815'040},
                                               Expected{",kv_heads=4,tied=0,dropout=0", 403'488, 60'026'880}}) {
    SCOPED_TRACE(options);
    const Workload workload = Workload::zoo(sizes + options, 2, {40});
    EXPECT_EQ(workload.params(), params);
    const OpGraph graph = workload.graph();
    EXPECT_EQ(graph.totals(Phase::forward).conv_matmul_flops, flops - attention / 2);
    EXPECT_EQ(graph.totals(Phase::backward).conv_matmul_flops, 2 * (flops - attention) + 2.5 * attention / 2);
  }
}

TEST(Network, RecurrentNetworksHaveTheParametersOfTorch) {  // torch.nn.Embedding, LSTM, GRU or RNN, Linear
  for (const auto& [name, params] :
       {std::pair("lstm:layers=2,hidden=650,vocab=10000", 19'780'400),
        std::pair("lstm:layers=2,hidden=1500,vocab=10000", 66'034'000),
        std::pair("lstm:layers=3,hidden=40,vocab=100,bidirectional=1", 116'420),
        std::pair("lstm:layers=2,hidden=64,vocab=1000,cell=gru", 178'920),
        std::pair("lstm:layers=1,hidden=64,vocab=1000,bidirectional=1,cell=tanh", 209'640),
        std::pair("lstm:layers=1,hidden=64,vocab=1000,bidirectional=1,cell=relu", 209'640)}) {
    EXPECT_EQ(Workload::zoo(name, 1).params(), params) << name;
    EXPECT_EQ(Workload::zoo(name, 1).graph().params(), params) << name;
  }
  EXPECT_EQ(Workload::zoo("lstm:layers=2,hidden=650,vocab=10000", 1).input, (std::vector<std::int64_t>{35}));
}

/// By torch.utils.flop_counter on a CPU: 3 samples of 7 words, forward and backward, two GRU layers in two directions.
/// There, the zeros that the states start from get no gradient, which cuDNN computes.
TEST(Network, RecurrentNetworksHaveTheFlopsOfTorch) {
  const OpGraph graph = Workload::zoo("lstm:layers=2,hidden=64,vocab=1000,bidirectional=1,cell=gru", 3, {7}).graph();
  EXPECT_EQ(graph.totals().conv_matmul_flops, 31'315'968 + 4 * 2.0 * 3 * (3 * 64) * 64);
  EXPECT_EQ(execute(graph, DeviceKind::cpu).graph().totals().conv_matmul_flops, 31'315'968);
}

TEST(Network, SizesAndOptionsHaveOneSpelling) {
  const std::string gpt = "transformer:layers=2,hidden=64,heads=4,vocab=10";
  EXPECT_EQ(Workload::zoo(gpt + ",causal=1,norm=layer,kv_heads=4,mlp_hidden=256,dropout=1", 1).network, gpt);
  EXPECT_EQ(Workload::zoo(gpt + ",tied=0,mlp_hidden=512,mlp=swiglu,NORM=rms", 1).network,
            gpt + ",norm=rms,mlp=swiglu,mlp_hidden=512,tied=0");
  EXPECT_EQ(Workload::zoo(gpt + ",mlp=swiglu,mlp_hidden=256", 1).network, gpt + ",mlp=swiglu");  // 8/3 64, to 256
  EXPECT_EQ(Workload::zoo("LSTM:layers=2,hidden=8,vocab=10,cell=lstm,bidirectional=1", 1).network,
            "lstm:layers=2,hidden=8,vocab=10,bidirectional=1");
}

TEST(Network, TransformerFollowsTheClosedForm) {
  // Per token 2 (12 L h^2 + h V) for weights. The two products of attention are 4 L S h, half of that without pairs of
  // later positions; its fused kernel computes one of them anew for the gradients.
  const std::int64_t batch = 3;
  const double layers = 5;
  const double hidden = 96;
  const double words = 1000;
  const double length = 40;
  Workload workload = Workload::zoo("transformer:layers=5,hidden=96,heads=8,vocab=1000", batch, {40});
  const OpGraph graph = workload.graph();
  const double tokens = static_cast<double>(batch) * length;
  const double weights = 2 * tokens * (12 * layers * hidden * hidden + hidden * words);
  const double attention = 4 * tokens * layers * length * hidden;
  EXPECT_EQ(graph.totals(Phase::forward).conv_matmul_flops, weights + attention / 2);
  EXPECT_EQ(graph.totals(Phase::backward).conv_matmul_flops, 2 * weights + 2.5 * attention / 2);
  workload.attention = Attention::eager;
  const OpGraph eager = workload.graph();
  EXPECT_EQ(eager.totals(Phase::forward).conv_matmul_flops, weights + attention);
  EXPECT_EQ(eager.totals(Phase::backward).conv_matmul_flops, 2 * (weights + attention));
}

TEST(Network, IsTheSameForAnySpellingOfItsName) {
  EXPECT_EQ(Workload::zoo("ResNet50", 8), Workload::zoo("resnet50", 8));
  EXPECT_EQ(Workload::zoo("RegNet_Y_1_6GF", 8).network, "regnet_y_1_6gf");
}

TEST(Network, ZooIsSortedAndBuilds) {
  const auto names = zoo_networks();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_GE(names.size(), 60u);
  for (const std::string_view name : names) {
    const Network network = build_network(Workload::zoo(name, 1));
    std::set<std::string> learned;
    for (const Layer& layer : network.layers) {
      if (Network::parameters(layer).count > 0) {
        EXPECT_TRUE(learned.insert(layer.name).second) << name << " has two layers named " << layer.name;
      }
    }
  }
}

TEST(Network, OwnInputAndClassesAreUsual) {
  EXPECT_EQ(Workload::zoo("efficientnet_b4", 1).input, (std::vector<std::int64_t>{3, 380, 380}));
  EXPECT_EQ(Workload::zoo("cifar_resnet18", 1).classes, 10);
  EXPECT_EQ(Workload::zoo("gpt2", 1).input, (std::vector<std::int64_t>{1024}));
  EXPECT_EQ(Workload::zoo("resnet50", 1, {3, 64, 96}).input, (std::vector<std::int64_t>{3, 64, 96}));
}

TEST(Network, AnEpochIsTheUsualDataSet) {
  EXPECT_EQ(Workload::zoo("resnet50", 1).train_images, 1'281'167);  // ILSVRC 2012, training set
  EXPECT_EQ(Workload::zoo("vit_b_16", 1).train_images, 1'281'167);
  EXPECT_EQ(Workload::zoo("cifar_resnet18", 1).train_images, 50'000);  // CIFAR-10, training set
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 1).train_images, 50'000);
  EXPECT_EQ(Workload::zoo("gpt2", 1).train_images, 50'000);  // sequences, by convention (docs/networks.md)
  EXPECT_EQ(Workload::zoo("transformer:layers=1,hidden=8,heads=2,vocab=10", 1).train_images, 50'000);
}

TEST(Network, EveryLayerKindHasAName) {
  std::set<std::string_view> names;
  for (int kind = 0; kind <= static_cast<int>(LayerKind::attention); ++kind) {
    const std::string_view name = to_string(static_cast<LayerKind>(kind));
    EXPECT_FALSE(name.empty()) << kind;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(Network, ShapesFollowTorchvision) {
  const auto layer_of = [](const Network& network, std::string_view name) {
    return *std::find_if(network.layers.begin(), network.layers.end(), [&](const Layer& l) { return l.name == name; });
  };
  const Network resnet = build_network(Workload::zoo("resnet50", 4));
  EXPECT_EQ(layer_of(resnet, "layer4.0.conv2").output, (Shape{4, 512, 7, 7}));
  EXPECT_EQ(layer_of(resnet, "layer4.0.downsample.0").output, (Shape{4, 2048, 7, 7}));
  // Pooling that rounds up: 109 -> 54, 54 -> 27, 27 -> 13.
  const Network squeezenet = build_network(Workload::zoo("squeezenet1_0", 4));
  EXPECT_EQ(layer_of(squeezenet, "features.12.expand3x3").output, (Shape{4, 256, 13, 13}));
}

void expect_refused(const Workload& workload, const std::string& part) {
  EXPECT_THAT([&] { (void)workload.params(); }, ThrowsMessage<InputError>(HasSubstr(part))) << workload.key();
}

TEST(Network, RefusesWhatDoesNotFit) {
  EXPECT_THROW(static_cast<void>(Workload::zoo("resnet5", 1)), InputError);
  EXPECT_THROW(static_cast<void>(Workload::zoo("", 1)), InputError);
  EXPECT_THROW(static_cast<void>(Workload::zoo("resnet50", 0)), InputError);
  EXPECT_THROW(static_cast<void>(Workload::zoo("cifar_cnn", 32)), InputError);
  for (const char* name :
       {"transformer:", "transformer:layers=2", "transformer:layers=2,hidden=64,heads=5,vocab=10",
        "transformer:layers=2,hidden=64,heads=4,vocab=10,", "transformer:layers=-1,hidden=64,heads=4,vocab=10",
        "transformer:layers=x,hidden=64,heads=4,vocab=10", "transformer:layers=02,hidden=64,heads=4,vocab=10",
        "transformer:layers=2,hidden=64,heads=4,vocab= 10"}) {
    EXPECT_THROW(static_cast<void>(Workload::zoo(name, 1)), InputError) << name;
  }
  const auto expect_name_refused = [](const std::string& name, const std::string& part) {
    EXPECT_THAT([&] { (void)Workload::zoo(name, 1); }, ThrowsMessage<InputError>(HasSubstr(part))) << name;
  };
  for (const auto& [options, part] :
       {std::pair("kv_heads=3", "kv_heads \"3\" is not a divisor of heads=8"), std::pair("kv_heads=0", "kv_heads"),
        std::pair("norm=batch", "norm \"batch\" is not layer or rms"), std::pair("positions=", "positions"),
        std::pair("mlp=relu", "gelu or swiglu"), std::pair("mlp_hidden=1e9", "mlp_hidden"),
        std::pair("mlp_hidden=9999999999", "1 to 1073741824"), std::pair("causal=2", "causal \"2\" is not 0 or 1"),
        std::pair("bias=yes", "0 or 1"), std::pair("tied", "of the form"), std::pair("depth=2", "option \"depth\""),
        std::pair("causal=0,causal=0", "at most once"), std::pair("top_k=2", "option \"top_k\""),
        std::pair("experts=4,top_k=5", "at most experts=4")}) {
    expect_name_refused(std::string("transformer:layers=2,hidden=64,heads=8,vocab=10,") + options, part);
  }
  expect_name_refused("transformer:layers=2,hidden=24,heads=8,vocab=10,positions=rotary", "even width");
  for (const auto& [name, part] :
       {std::pair("lstm:", "of the form lstm:layers=2,hidden=650,vocab=10000"),
        std::pair("lstm:layers=2,hidden=650", "of the form"), std::pair("lstm:layers=0,hidden=8,vocab=8", "layers"),
        std::pair("lstm:layers=1001,hidden=8,vocab=8", "layers \"1001\" is not a plain number from 1 to 1000"),
        std::pair("lstm:layers=2,hidden=8,vocab=8,cell=elman", "lstm or gru or tanh or relu"),
        std::pair("lstm:layers=2,hidden=8,vocab=8,bidirectional=2", "0 or 1")}) {
    expect_name_refused(name, part);
  }
  expect_refused(Workload::zoo("gpt2_medium", 1, {1025}), "1024 positions");
  Workload grouped = Workload::zoo("transformer:layers=2,hidden=64,heads=8,vocab=10,kv_heads=2", 1);
  grouped.attention = Attention::eager;
  expect_refused(grouped, "fewer heads of keys");
  expect_refused(Workload::zoo("resnet50", 1, {224}), "channels x height x width");
  expect_refused(Workload::zoo("gpt2", 1, {3, 224, 224}), "sequence length");
  expect_refused(Workload::zoo("gpt2", 1, {1025}), "1024 positions");
  expect_refused(Workload::zoo("vit_b_16", 1, {3, 225, 225}), "16 x 16");
  expect_refused(Workload::zoo("maxvit_t", 1, {3, 224, 448}), "squares of a multiple of 224");
  expect_refused(Workload::zoo("inception_v3", 1, {3, 298, 299}), "too small");  // for the auxiliary head
  for (Workload workload : {Workload::zoo("resnet18", 1), Workload::zoo("swin_t", 1), Workload::cifar_cnn(1, 1, 1)}) {
    workload.attention = Attention::eager;
    expect_refused(workload, "no attention");
  }
  expect_refused(Workload::zoo("alexnet", 1, {3, 32, 32}), "too small");
  Workload words = Workload::zoo("bert_base", 1);
  words.classes = 10;
  expect_refused(words, "30522");
}

TEST(Shape, HasNoElementsIfAnySizeIsZero) {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  for (const Shape& shape : {Shape{0, large, large}, Shape{large, 0, large}, Shape{large, large, 0}}) {
    EXPECT_EQ(shape.numel(), 0) << shape.text();
  }
  EXPECT_THAT(testing::refusal([] { (void)Shape({large, large}).numel(); }), HasSubstr("too large for any device"));
}

/// A GRU on a CPU is one position after the other: each is operators of its own.
TEST(Network, RefusesAStepOfMoreOperatorsThanAProcessShouldHold) {
  const Workload gru = Workload::zoo("lstm:layers=100,hidden=8,vocab=8,cell=gru", 1, {10'000});
  EXPECT_THAT(testing::refusal([&] { (void)execute(gru.graph(), DeviceKind::cpu); }),
              HasSubstr("more than 300000 operators"));
}

TEST(Network, RefusesWhatNoDeviceCouldHold) {
  EXPECT_THROW(static_cast<void>(Workload::zoo("resnet50", std::int64_t{1} << 60)), InputError);
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THROW(static_cast<void>(Workload::zoo("resnet50", 1, {3, huge, huge})), InputError);
  Workload workload = Workload::zoo("vgg19", 1, {3, 1 << 20, 1 << 20});  // the images fit, its layers do not
  workload.batch_size = 1 << 14;
  EXPECT_THROW(static_cast<void>(workload.graph()), InputError);
  workload = Workload::zoo("vgg16", 1);
  workload.classes = std::int64_t{1} << 62;
  EXPECT_THROW(static_cast<void>(workload.params()), InputError);
  const Workload wide = Workload::zoo("transformer:layers=1000,hidden=134217728,heads=1,vocab=2", 1, {1});
  EXPECT_THAT(testing::refusal([&] { (void)wide.params(); }), HasSubstr("too large for any device"));  // 2^56 a product
  EXPECT_THAT(testing::refusal([&] { (void)wide.graph(); }), HasSubstr("too large for any device"));
}

TEST(Network, IsKnownByTheNamesOfPapersAndLibraries) {
  for (const auto& [written, name] : {std::pair("ResNet-50", "resnet50"),
                                      {"ViT-L/16", "vit_l_16"},
                                      {"vit-large", "vit_l_16"},
                                      {"ViT-Base", "vit_b_16"},
                                      {"MobileNetV3-Large", "mobilenet_v3_large"},
                                      {"EfficientNet-B0", "efficientnet_b0"},
                                      {"GPT-2", "gpt2"},
                                      {"gpt2-xl", "gpt2_xl"},
                                      {"openai-community/gpt2", "gpt2"},
                                      {"openai-community/gpt2-medium", "gpt2_medium"},
                                      {"google-bert/bert-base-uncased", "bert_base"},
                                      {"some-author/gpt2", "some-author/gpt2"},
                                      {"bert-base-uncased", "bert_base"},
                                      {"BERT-Large", "bert_large"},
                                      {"Swin-T", "swin_t"},
                                      {"swin-tiny", "swin_t"},
                                      {"DenseNet-121", "densenet121"},
                                      {"VGG-16", "vgg16"},
                                      {"ResNeXt-50 (32x4d)", "resnext50_32x4d"},
                                      {"My_Net", "my_net"},
                                      {"step:0123456789ab", "step:0123456789ab"}}) {
    EXPECT_EQ(canonical_network(written), name) << written;
  }
  for (const std::string_view name : zoo_networks()) EXPECT_EQ(canonical_network(name), name);
  EXPECT_EQ(canonical_network("RegNet-X-16GF"), "regnet-x-16gf");  // or regnet_x_1_6gf
}

TEST(Networks, NamesOfTimmAndTheHubAreThoseOfTheSameNetwork) {
  // Parameters that timm 1.0.31 counts.
  const std::vector<std::pair<const char*, std::int64_t>> timm = {
      {"vit_base_patch16_224", 86'567'656},
      {"vit_base_patch32_224.augreg_in21k_ft_in1k", 88'224'232},
      {"vit_large_patch16_224", 304'326'632},
      {"deit_tiny_patch16_224.fb_in1k", 5'717'416},
      {"deit_small_patch16_224", 22'050'664},
      {"deit_base_patch16_224", 86'567'656},
      {"swin_tiny_patch4_window7_224", 28'288'354},
      {"swin_small_patch4_window7_224", 49'606'258},
      {"swin_base_patch4_window7_224.ms_in1k", 87'768'224},
      {"mobilenetv2_100", 3'504'872},
      {"mobilenetv3_large_100", 5'483'032},
      {"mobilenetv3_small_100", 2'542'856},
      {"mnasnet_050", 2'218'512},
      {"mnasnet_075", 3'170'208},
      {"mnasnet_100", 4'383'312},
      {"regnetx_004_tv", 5'495'976},
      {"regnetx_008", 7'259'656},
      {"regnetx_016", 9'190'136},
      {"regnetx_032", 15'296'552},
      {"regnetx_080", 39'572'648},
      {"regnetx_160", 54'278'536},
      {"regnetx_320", 107'811'560},
      {"regnety_004", 4'344'144},
      {"regnety_008_tv", 6'432'512},
      {"regnety_016", 11'202'430},
      {"regnety_032", 19'436'338},
      {"regnety_080_tv", 39'381'472},
      {"regnety_160", 83'590'140},
      {"regnety_320", 145'046'770},
      {"convnext_tiny.fb_in1k", 28'589'128},
      {"efficientnet_b1", 7'794'184},
      {"timm/resnet50.a1_in1k", 25'557'032}};
  for (const auto& [name, params] : timm) {
    const Workload workload = Workload::zoo(name, 1);
    EXPECT_EQ(workload.graph().params(), params) << name;
  }
  EXPECT_EQ(canonical_network("microsoft/resnet-50"), "resnet50");
  EXPECT_EQ(canonical_network("google/vit-base-patch16-224"), "vit_b_16");
  EXPECT_EQ(canonical_network("facebook/convnext-tiny-224"), "convnext_tiny");
  EXPECT_EQ(canonical_network("vit_base_patch16_224.augreg_in21k"),
            "vit_base_patch16_224.augreg_in21k");  // 21,843 classes
}

/// Names that people ask for: those of torchvision misspelt, of timm, of the Hugging Face Hub, and of other libraries.
TEST(Network, NamesTheNetworkThatWasMeant) {
  for (const auto& [typed, meant] :
       {std::pair("resent50", " (did you mean resnet50?)"), std::pair("bert", " (did you mean bert_base?)"),
        std::pair("res", " (did you mean resnet18?)"), std::pair("vgg", " (did you mean vgg11?)"),
        std::pair("efficientnet", " (did you mean efficientnet_b0?)"),
        std::pair("lstm", " (did you mean lstm:layers=2,hidden=650,vocab=10000?)"),
        std::pair("gru", " (did you mean lstm:layers=2,hidden=650,vocab=10000,cell=gru?)"),
        std::pair("codellama/codellama-34b-hf", " (did you mean codellama_7b?)"),
        std::pair("t5_bass", " (did you mean t5_base?)"), std::pair("yolov8n", ""), std::pair("my_own_detector", "")}) {
    EXPECT_EQ(testing::refusal([&, name = typed] { (void)Workload::zoo(name, 1); }),
              std::string("network \"") + typed + "\" is not known" + meant +
                  "; --config config.json takes a model of Hugging Face's transformers, and perfpred.capture records a "
                  "step of any other of PyTorch");
  }
}

}  // namespace
}  // namespace perfpred
