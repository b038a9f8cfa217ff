// SPDX-License-Identifier: Apache-2.0
// Steps that are re-sized are those that would be built.
#include <perfpred/error.h>
#include <perfpred/executed_step.h>
#include <perfpred/network.h>
#include <perfpred/workload.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "step/kept_steps.h"
#include "step/step_growth.h"

namespace perfpred {
namespace {

constexpr std::array kinds = {DeviceKind::gpu, DeviceKind::cpu, DeviceKind::other};

std::string text(const OpGraph& step, TensorId id) {
  if (id == no_tensor) return "none";
  const Tensor& tensor = step.tensors()[id];
  return fmt::format("{} {} {} {} {} {}", id, step.shape(id).text(), to_string(tensor.type),
                     static_cast<int>(tensor.role), tensor.bytes, tensor.storage);
}

std::string text(const OpGraph& step, const Op& op) {
  std::string all = fmt::format("{} {} {} {} {} {} {} {} {} {} {}:", step.name(op), to_string(op.kind),
                                to_string(op.phase), to_string(op.type), step.layer_name(op), op.transposed,
                                op.dispatched, op.flops, op.cell_flops, op.bytes_read, op.bytes_written);
  for (const TensorId id : step.inputs(op)) all += text(step, id) + ',';
  all += " -> ";
  for (const TensorId id : step.outputs(op)) all += text(step, id) + ',';
  return all;
}

/// The first place where two steps differ; empty if none does.
std::string difference(const ExecutedStep& one, const ExecutedStep& other) {
  const OpGraph &a = one.graph(), &b = other.graph();
  if (one.device() != other.device() || a.layout() != b.layout() || a.repeats() != b.repeats()) return "the whole";
  if (a.ops().size() != b.ops().size() || a.tensors().size() != b.tensors().size()) return "their number";
  if (!std::ranges::equal(a.frees(), b.frees())) return "what is freed";
  for (TensorId id = 0; id < a.tensors().size(); ++id) {
    if (text(a, id) != text(b, id)) return text(a, id) + " / " + text(b, id);
  }
  for (std::size_t i = 0; i < a.ops().size(); ++i) {
    if (text(a, a.ops()[i]) != text(b, b.ops()[i])) return text(a, a.ops()[i]) + " / " + text(b, b.ops()[i]);
  }
  return {};
}

ExecutedStep built(Workload workload, std::int64_t batch, DeviceKind device) {
  workload.batch_size = batch;
  return execute(workload.graph(), device);
}

Workload trained(std::string_view network, const std::vector<std::array<std::string_view, 2>>& fields,
                 std::vector<std::int64_t> input = {}) {
  Workload workload = Workload::zoo(network, 2, std::move(input));
  for (const auto& [field, value] : fields) workload = with_field(std::move(workload), field, value);
  return workload;
}

/// Every family, and every way to train.
std::vector<Workload> ways() {
  return {trained("resnet18", {{"precision", "fp16"}, {"optimizer", "sgd"}, {"optimizer_impl", "foreach"}}),
          trained("mobilenet_v2", {{"layout", "nhwc"}, {"precision", "bf16"}, {"accumulate", "4"}}),
          trained("vit_b_32", {{"attention", "eager"}, {"optimizer", "adafactor"}}),
          trained("resnet18", {{"precision", "fp64"}, {"optimizer", "none"}}),
          trained("cifar_cnn:depth=2,base_filters=8", {}),
          trained("lstm:layers=2,hidden=64,vocab=1000", {}),
          trained("lstm:layers=1,hidden=64,vocab=1000,cell=gru", {{"precision", "bf16"}}),
          trained("transformer:layers=2,hidden=64,heads=4,vocab=1000,norm=rms,positions=rotary,mlp=swiglu", {}),
          trained("gpt2", {{"precision", "fp64"}}, {64}),
          trained("llama3.2_1b", {{"precision", "bf16"}, {"adapter", "lora:r=16"}, {"checkpoint", "2"}}, {64}),
          trained("llama3.2_1b", {{"adapter", "dora:r=8"}, {"weights", "nf4"}, {"padding", "padded"}}, {64}),
          trained("llama3.2_1b", {{"precision", "bf16"}, {"weights", "bf16"}, {"optimizer", "adam8bit"}}, {64})};
}

TEST(StepGrowth, GivesEveryNetworksStepAtAnySize) {
  std::vector<Workload> all = ways();
  for (const std::string_view network : zoo_networks()) all.push_back(Workload::zoo(network, 2));
  for (const Workload& workload : all) {
    for (const DeviceKind device : kinds) {
      ExecutedStep step = built(workload, 2, device);
      const auto growth = StepGrowth::between(step, 2, built(workload, 3, device), 3);
      if (workload.network.starts_with("lstm:") && !workload.network.ends_with("gru") && device == DeviceKind::cpu) {
        EXPECT_FALSE(growth) << "oneDNN's workspaces are whole pages";
        continue;
      }
      ASSERT_TRUE(growth) << workload.key();
      for (const std::int64_t batch : {7, 64, 1000}) {
        ASSERT_LE(batch, growth->largest()) << workload.key();
        growth->resize(step, batch);
        ASSERT_EQ(difference(step, built(workload, batch, device)), "") << workload.key() << " at " << batch;
      }
    }
  }
}

/// Experts share positions, as many for each, rounded up; chunks of a loss have powers of two rows; workspaces of LSTMs
/// on a CPU are whole pages: at some sizes these look as if they were in proportion. On a CPU the attention of one
/// sample copies less than that of several.
TEST(KeptSteps, AreThoseThatWouldBeBuilt) {
  std::vector<Workload> all = ways();
  all.push_back(trained("mixtral_8x7b", {{"adapter", "lora:r=4"}, {"precision", "bf16"}}, {37}));
  all.push_back(trained("llama3.2_1b", {{"loss", "chunked"}, {"precision", "bf16"}}, {64}));
  all.push_back(trained("gpt2", {}, {64}));
  all.push_back(trained("lstm:layers=1,hidden=512,vocab=100", {}));
  for (Workload workload : all) {
    for (const std::int64_t batch : {1, 8, 16, 32, 24, 3, 1, 12, 1000, 4}) {
      workload.batch_size = batch;
      for (const DeviceKind device : kinds) {
        ASSERT_EQ(difference(*executed_step(workload, device), built(workload, batch, device)), "") << workload.key();
      }
    }
  }
}

TEST(KeptSteps, HaveAsManyBatchesAsAreAskedFor) {
  for (Workload workload : ways()) {
    for (const auto& [batches, batch] : {std::pair(1, 2), {4, 2}, {2, 6}, {7, 6}, {7, 3}, {1, 3}, {300, 2}, {2, 1}}) {
      workload.accumulate = batches;
      workload.batch_size = batch;
      for (const DeviceKind device : kinds) {
        const auto held = executed_step(workload, device);
        ASSERT_EQ(difference(*held, built(workload, batch, device)), "") << workload.key();
        Workload other = workload;
        other.accumulate += 5;
        (void)executed_step(other, device);
        ASSERT_EQ(held->graph().repeats(), batches) << workload.key();
      }
    }
  }
}

TEST(KeptSteps, StayAsTheyAreWhileTheyAreHeld) {
  Workload workload = Workload::zoo("resnet18", 8);
  const auto first = executed_step(workload, DeviceKind::gpu);
  EXPECT_EQ(executed_step(workload, DeviceKind::gpu), first);
  for (const std::int64_t batch : {16, 24, 32}) {
    workload.batch_size = batch;
    const auto step = executed_step(workload, DeviceKind::gpu);
    EXPECT_EQ(difference(*step, built(workload, batch, DeviceKind::gpu)), "");
  }
  EXPECT_EQ(difference(*first, built(workload, 8, DeviceKind::gpu)), "");
  workload.device = "T4";  // executes the same
  EXPECT_EQ(executed_step(workload, DeviceKind::gpu), executed_step(Workload::zoo("resnet18", 32), DeviceKind::gpu));
}

/// Beyond 2^52 a double does not hold every number: such steps are built.
TEST(KeptSteps, RefuseWhatIsTooLargeAsBuiltOnesAre) {
  Workload workload = Workload::zoo("resnet18", 8);
  for (const std::int64_t batch : {8, 16, 24}) {
    workload.batch_size = batch;
    (void)executed_step(workload, DeviceKind::gpu);
  }
  workload.batch_size = std::int64_t{1} << 30;
  EXPECT_EQ(
      difference(*executed_step(workload, DeviceKind::gpu), built(workload, workload.batch_size, DeviceKind::gpu)), "");
  workload.batch_size = std::int64_t{1} << 40;
  EXPECT_THROW((void)executed_step(workload, DeviceKind::gpu), InputError);
  workload.batch_size = -1;
  EXPECT_THROW((void)executed_step(workload, DeviceKind::gpu), InputError);
}

}  // namespace
}  // namespace perfpred
