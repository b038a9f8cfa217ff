// SPDX-License-Identifier: Apache-2.0
// Networks that were recorded from packages of PyTorch (data/networks), as users of the library have them. Parameters
// are those that the packages count (sum of numel() of those that have a gradient).
#include <perfpred/error.h>
#include <perfpred/forecast.h>
#include <perfpred/network.h>
#include <perfpred/op_graph.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "refusal.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;

Workload workload(const char* network, std::int64_t batch, std::vector<std::int64_t> input = {}) {
  return Workload::zoo(network, batch, std::move(input));
}

TEST(Records, AreFoundByWhatPeopleCallThem) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> spellings = {
      {"t5_base@1", {"t5-base", "T5_Base", "google-t5/t5-base"}},
      {"bart_large@1", {"facebook/bart-large-cnn", "BART-large"}},
      {"whisper_small@1", {"openai/whisper-small", "whisper-small"}},
      {"wav2vec2_base@1", {"facebook/wav2vec2-base-960h"}},
      {"clip_vit_b_32@1", {"openai/clip-vit-base-patch32", "CLIP ViT-B/32"}},
      {"siglip_base_patch16_224@1", {"google/siglip-base-patch16-224"}},
      {"sd1.5@1", {"stable-diffusion-v1-5/stable-diffusion-v1-5", "runwayml/stable-diffusion-v1-5"}},
      {"sdxl@1", {"stabilityai/stable-diffusion-xl-base-1.0"}},
      {"flux1_dev@1", {"black-forest-labs/FLUX.1-dev"}},
      {"maskrcnn_resnet50_fpn@1", {"MaskRCNN_ResNet50_FPN", "mask-rcnn"}},
      {"detr_resnet50@1", {"facebook/detr-resnet-50"}},
      {"segformer_b0@1", {"nvidia/segformer-b0-finetuned-ade-512-512"}},
      {"mamba_130m@1", {"state-spaces/mamba-130m-hf"}},
      {"resnetv2_50@1", {"resnetv2_50", "timm/resnetv2_50.a1h_in1k"}}};
  for (const auto& [name, others] : spellings) {
    for (const char* other : others) EXPECT_EQ(canonical_network(other), name) << other;
    EXPECT_EQ(canonical_network(name), name);
  }
}

TEST(Records, HaveTheParametersOfTheirPackages) {
  const std::vector<std::pair<const char*, std::int64_t>> counts = {{"t5_small", 60'506'624},
                                                                    {"t5_base", 222'903'552},
                                                                    {"bart_base", 139'420'416},
                                                                    {"whisper_tiny", 37'760'640 - 1500 * 384},
                                                                    {"wav2vec2_base", 94'396'320},
                                                                    {"clip_vit_b_32", 151'277'313},
                                                                    {"segformer_b0", 3'752'694},
                                                                    {"sd1.5", 859'520'964},
                                                                    {"maskrcnn_resnet50_fpn", 44'454'513},
                                                                    {"mamba_130m", 129'135'360},
                                                                    {"retinanet_resnet50_fpn", 34'014'999 + 53'120},
                                                                    {"unet_resnet34", 24'436'369},
                                                                    {"ssd300_vgg16", 35'641'826}};
  for (const auto& [name, count] : counts) EXPECT_EQ(workload(name, 2).params(), count) << name;
}

// T5's attention and MLP are in proportion to the batch, as is all that multiplies.
TEST(Records, AnswerForAnyBatchFromTwo) {
  const OpGraph two = workload("t5_base", 2).graph(), nine = workload("t5_base", 9).graph();
  EXPECT_EQ(two.ops().size(), nine.ops().size());
  EXPECT_DOUBLE_EQ(nine.totals().conv_matmul_flops, 4.5 * two.totals().conv_matmul_flops);
}

// Raffel et al. 2020, base: 12 blocks of 768 with 12 heads of 64 and an MLP of 3072 on each side, 32128 words. A
// product has 2 FLOPs forward and 4 backward for each number of its weight and each token; the embedding has none.
TEST(Records, HaveTheFlopsOfTheirFormula) {
  constexpr double batch = 4, read = 512, written = 128, width = 768, inner = 3072, blocks = 12, words = 32128;
  const double attention = 4 * width * width, mlp = 2 * width * inner;
  const double of_reader = blocks * read * (attention + mlp);
  const double of_writer = blocks * written * (attention + attention / 2 + mlp) + blocks * read * attention / 2;
  const double head = written * width * words;
  const double pairs = blocks * width * (read * read + written * written + written * read) * 2;  // q k^T and p v
  const double forward = 2 * batch * (of_reader + of_writer + head + pairs);
  const OpTotals counted = workload("t5_base", 4).graph().totals(Phase::forward);
  EXPECT_NEAR(counted.conv_matmul_flops / forward, 1, 0.002);
}

TEST(Records, AreTrainedByTheOptimizerThatIsAskedFor) {
  const auto state_bytes = [](Optimizer optimizer) {
    Workload job = workload("t5_small", 4);
    job.optimizer = optimizer;
    const OpGraph step = job.graph();
    std::int64_t bytes = 0;
    for (TensorId id = 0; id < step.tensors().size(); ++id) {
      if (step.tensors()[id].storage == id && step.tensors()[id].role == TensorRole::optimizer_state)
        bytes += step.bytes(id);
    }
    return bytes;
  };
  constexpr std::int64_t parameters = 60'506'624, count_of_steps = 4;
  EXPECT_EQ(state_bytes(Optimizer::none), 0);
  EXPECT_EQ(state_bytes(Optimizer::sgd), count_of_steps);
  EXPECT_EQ(state_bytes(Optimizer::momentum), 4 * parameters + count_of_steps);
  EXPECT_EQ(state_bytes(Optimizer::adamw), 8 * parameters + count_of_steps);
}

TEST(Records, MultiplyInThePrecisionThatIsAskedFor) {
  const auto types = [](Precision precision, Weights weights = Weights::as_precision) {
    Workload job = workload("t5_small", 4);
    job.precision = precision;
    job.weights = weights;
    std::vector<DataType> found;
    const OpGraph step = job.graph();
    for (const Op& op : step.ops()) {
      if (op.kind == OpKind::mm && std::find(found.begin(), found.end(), op.type) == found.end())
        found.push_back(op.type);
    }
    return found;
  };
  EXPECT_THAT(types(Precision::fp32), ::testing::ElementsAre(DataType::f32));
  EXPECT_THAT(types(Precision::tf32), ::testing::ElementsAre(DataType::f32));
  EXPECT_THAT(types(Precision::bf16), ::testing::ElementsAre(DataType::bf16));
  EXPECT_THAT(types(Precision::fp16), ::testing::ElementsAre(DataType::f16));
  EXPECT_THAT(types(Precision::bf16, Weights::bf16), ::testing::ElementsAre(DataType::bf16));
}

// torch.amp.GradScaler: the loss times the scale, the gradients divided by it, the scale itself.
TEST(Records, ScaleTheLossInFp16) {
  Workload job = workload("t5_small", 4);
  job.precision = Precision::bf16;
  const OpGraph plain = job.graph();
  job.precision = Precision::fp16;
  const OpGraph scaled = job.graph();
  EXPECT_EQ(plain.totals(OpKind::unscale_gradients).ops, 0);
  EXPECT_EQ(scaled.totals(OpKind::unscale_gradients).ops, 1);
  EXPECT_EQ(scaled.totals(OpKind::update_scale).ops, 1);
  EXPECT_EQ(scaled.totals().conv_matmul_flops, plain.totals().conv_matmul_flops);
}

TEST(Records, AnswerTimeAndMemoryOnADevice) {
  Workload job = workload("openai/whisper-small", 16);
  job.device = "A100-SXM4-80GB";
  job.precision = Precision::bf16;
  job.optimizer = Optimizer::adamw;
  const Forecast answered = forecast(TimeRegressor::standard(), job, {});
  EXPECT_GT(answered.step_sec.p05, 0);
  EXPECT_LT(answered.step_sec.p05, answered.step_sec.p95);
  ASSERT_TRUE(answered.memory);
  EXPECT_GT(answered.memory->optimizer, 8 * 240'000'000LL);
}

TEST(Records, HaveTheirVersionInTheKey) {
  const Workload job = workload("t5-base", 8);
  EXPECT_THAT(job.key(), ::testing::StartsWith("network=t5_base@1;"));
  EXPECT_EQ(Workload::from_key(job.key()), job);
  EXPECT_THAT(refusal([] { (void)workload("t5_base@7", 8); }),
              AllOf(HasSubstr("t5_base@7 is of another version"), HasSubstr("t5_base@1")));
}

TEST(Records, KnowTheDataThatTheyAreUsuallyTrainedOn) {
  EXPECT_FALSE(workload("t5_base", 2).knows_epoch());
  EXPECT_FALSE(workload("sd1.5", 2).knows_epoch());
  EXPECT_FALSE(workload("whisper_tiny", 2).knows_epoch());
  const Workload mask = workload("maskrcnn_resnet50_fpn", 2);
  EXPECT_TRUE(mask.knows_epoch());
  EXPECT_EQ(mask.train_images, 118'287);  // COCO 2017's
  EXPECT_EQ(workload("resnetv2_50", 2).train_images, 1'281'167);
}

struct Refused {
  const char* network;
  const char* field;
  const char* value;
  const char* says;
};

TEST(Records, RefuseWhatWasNotRecordedInOneLine) {
  const std::vector<Refused> cases = {
      {"t5_base", "input", "300", "was recorded with input 512 and 128, not 300"},
      {"t5_base", "precision", "fp64", "was not recorded in fp64"},
      {"t5_base", "checkpoint", "all", "was recorded without checkpoint all"},
      {"t5_base", "accumulate", "4", "was recorded without accumulate 4"},
      {"t5_base", "adapter", "lora:r=16", "was recorded without adapter lora:r=16"},
      {"whisper_tiny", "attention", "eager", "was recorded without attention eager"},
      {"resnetv2_50", "classes", "10", "was recorded with 1000 classes, not 10"},
      {"maskrcnn_resnet50_fpn", "batch_size", "3", "was recorded with batches of 1, 2, 4, 8, not 3"},
      {"t5_base", "parallel", "tp=2", "parallel tp=2 splits transformers of words; network t5_base@1 is none"}};
  for (const auto& [network, field, value, says] : cases) {
    const std::string said = refusal([&, network = network, field = field, value = value] {
      (void)with_field(workload(network, 4), field, value).graph();
    });
    EXPECT_THAT(said, HasSubstr(says)) << network << " " << field;
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
}

TEST(Records, AreOfferedWhereANameIsNearlyTheirs) {
  const std::string said = refusal([] { (void)workload("t5_bass", 4); });
  EXPECT_THAT(said, AllOf(HasSubstr("did you mean t5_base?"), HasSubstr("--config"), HasSubstr("perfpred.capture")));
}

}  // namespace
}  // namespace perfpred
