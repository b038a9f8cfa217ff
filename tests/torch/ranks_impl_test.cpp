// SPDX-License-Identifier: Apache-2.0
// Ranks of this process, each in a thread of its own: they meet and talk as those in processes do.
#include "torch/distributed/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/torch/image_data.h>

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "free_port.h"
#include "torch/data/batch_loader.h"
#include "torch/distributed/data_parallel.h"
#include "torch/distributed/rank_place.h"
#include "torch/step/training_step.h"

// reducer.hpp takes ten seconds to compile.
namespace c10d {
class Logger;
TORCH_API std::tuple<std::vector<std::vector<size_t>>, std::vector<size_t>> compute_bucket_assignment_by_size(
    const std::vector<at::Tensor>& tensors, const std::vector<size_t>& bucket_size,
    const std::vector<bool>& expect_sparse_gradient, const std::vector<int64_t>& tensor_indices,
    const std::optional<std::weak_ptr<c10d::Logger>>& logger);
}  // namespace c10d

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using testing::free_port;
using ::testing::HasSubstr;

/// Runs `work` on so many ranks, rank 0 in this thread, and returns what each gives.
template <class Work>
auto on_ranks(int size, const Work& work) {
  using Given = decltype(work(std::declval<RankGroup&>()));
  const std::uint16_t port = free_port();
  const auto rank = [&](int number) {
    Ranks ranks(RankPlace{number, size, "127.0.0.1", port});
    const auto group = ranks.connect(c10::kCPU);
    Given given = work(*group);
    group->meet();  // nobody leaves while others are in a call
    return given;
  };
  std::vector<std::future<Given>> others;
  for (int number = 1; number < size; ++number) others.push_back(std::async(std::launch::async, rank, number));
  std::vector<Given> all = {rank(0)};
  for (auto& other : others) all.push_back(other.get());
  return all;
}

bool has_gloo() {
  char program[] = "program";
  char* arguments[] = {program, nullptr};
  try {
    return Ranks::of(2, arguments) != nullptr;
  } catch (const InputError&) {
    return false;
  }
}

class RanksTogether : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gloo()) GTEST_SKIP() << "built without gloo's headers";
  }
};

Workload workload_of(const std::string& network, std::int64_t batch, std::vector<std::int64_t> input = {}) {
  Workload workload = Workload::zoo(network, batch, std::move(input));
  workload.optimizer = Optimizer::sgd;
  workload.precision = Precision::fp64;
  return workload;
}

Batch batch_of(const Workload& workload, std::int64_t images) {
  at::manual_seed(7);
  std::vector<std::int64_t> shape = workload.input;
  shape.insert(shape.begin(), images);
  if (workload.input.size() == 1) {
    return {at::randint(0, workload.classes, shape, at::kLong), at::randint(0, workload.classes, shape, at::kLong)};
  }
  return {at::randn(shape, at::kDouble), at::randint(0, workload.classes, {images}, at::kLong)};
}

Batch part_of(const Batch& whole, std::int64_t first, std::int64_t images) {
  return {whole.inputs.narrow(0, first, images), whole.targets.narrow(0, first, images)};
}

at::Tensor gradients_of(const TrainingStep& step) {
  std::vector<at::Tensor> flat;
  for (const auto& [name, tensor] : step.network_state()) {
    if (tensor.requires_grad()) flat.push_back(tensor.grad().flatten());
  }
  return at::cat(flat);
}

/// Gradients of two ranks after each of some updates, none of which moves the weights.
std::vector<std::vector<at::Tensor>> gradients_of_two(const Workload& workload, const Batch& whole,
                                                      const std::vector<UpdateShare>& shares) {
  return on_ranks(2, [&](RankGroup& group) {
    TrainingStep step(workload, c10::kCPU, {}, nullptr, &group);
    std::vector<at::Tensor> gradients;
    for (int update = 0; update < 3; ++update) {  // in the second one buckets are made anew
      std::int64_t first = group.rank();
      for (const UpdateShare& share : shares) {
        step.run(part_of(whole, first * workload.batch_size, workload.batch_size), share);
        first += 2;
      }
      gradients.push_back(gradients_of(step));
    }
    return gradients;
  });
}

double relative(const at::Tensor& wrong, const at::Tensor& right) {
  return (wrong - right).norm().item<double>() / right.norm().item<double>();
}

TEST_F(RanksTogether, HaveTheGradientsOfTheWholeBatch) {
  const std::vector<Workload> workloads = {
      workload_of("cifar_cnn:depth=2,base_filters=4", 3),
      workload_of("transformer:layers=2,hidden=16,heads=2,vocab=50,dropout=0", 2, {12})};
  for (const Workload& workload : workloads) {
    Batch whole = batch_of(workload, 2 * workload.batch_size);
    Workload twice = workload;
    twice.batch_size *= 2;
    TrainingStep alone(twice, c10::kCPU, {});
    alone.run(whole);
    const at::Tensor expected = gradients_of(alone);
    for (const auto& of_rank : gradients_of_two(workload, whole, {{}})) {
      for (const at::Tensor& gradients : of_rank) EXPECT_LT(relative(gradients, expected), 1e-6) << workload.network;
    }
  }
}

TEST_F(RanksTogether, SumUpBatchesBeforeTheyAverage) {
  const Workload workload = workload_of("cifar_cnn:depth=2,base_filters=4", 2);
  const Batch whole = batch_of(workload, 12);
  Workload six = workload;
  six.batch_size = 12;
  TrainingStep alone(six, c10::kCPU, {});
  alone.run(whole);
  const at::Tensor expected = gradients_of(alone);
  const double third = 1.0 / 3;
  const std::vector<UpdateShare> shares = {{third, true, false}, {third, false, false}, {third, false, true}};
  for (const auto& of_rank : gradients_of_two(workload, whole, shares)) {
    for (const at::Tensor& gradients : of_rank) EXPECT_LT(relative(gradients, expected), 1e-6);
  }
}

TEST_F(RanksTogether, AverageInBucketsAsLibTorchAssignsThem) {
  Workload workload = workload_of("transformer:layers=6,hidden=512,heads=8,vocab=2000", 1, {8});
  workload.precision = Precision::fp32;
  const Batch batch = batch_of(workload, 1);
  const auto of_ranks = on_ranks(2, [&](RankGroup& group) {
    TrainingStep step(workload, c10::kCPU, {}, nullptr, &group);
    EXPECT_EQ(step.buckets().size(), 1U);  // of the first pass
    step.run(batch);
    std::vector<std::string> order;  // in which gradients appear
    for (const auto& [name, tensor] : step.network_state()) {
      if (!tensor.requires_grad()) continue;
      tensor.register_hook([&order, name = name](const at::Tensor&) { order.push_back(name); });
    }
    step.run(batch);
    std::map<std::string, at::Tensor> by_name;
    for (const auto& [name, tensor] : step.network_state()) by_name[name] = tensor;
    std::vector<at::Tensor> in_order;
    for (const std::string& name : order) in_order.push_back(by_name.at(name));
    return std::pair(step.buckets(), in_order);
  });
  for (const auto& [buckets, in_order] : of_ranks) {
    const auto assigned = std::get<0>(c10d::compute_bucket_assignment_by_size(
        in_order, {std::size_t{1} << 20, std::size_t{25} << 20}, {}, {}, std::nullopt));
    EXPECT_GT(assigned.size(), 3U);
    ASSERT_EQ(buckets.size(), assigned.size());
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      ASSERT_EQ(buckets[i].size(), assigned[i].size()) << i;
      for (std::size_t j = 0; j < buckets[i].size(); ++j)
        EXPECT_TRUE(buckets[i][j].is_same(in_order[assigned[i][j]])) << i << ' ' << j;
    }
  }
}

TEST_F(RanksTogether, TakeWeightsAndBuffersOfTheFirst) {
  on_ranks(2, [&](RankGroup& group) {
    const double own = group.rank() == 0 ? 1 : 5;
    at::Tensor weight = at::full({3}, own).set_requires_grad(true);
    const at::Tensor mean = at::full({3}, own);
    DataParallel data_parallel(group, {weight}, {mean});
    EXPECT_TRUE(weight.eq(1).all().item<bool>());
    EXPECT_TRUE(mean.eq(1).all().item<bool>());
    const auto pass = [&](bool averages) {
      mean.fill_(own);
      data_parallel.begin_forward(averages);
      const at::Tensor loss = (weight * own).sum();
      data_parallel.begin_backward(averages);
      loss.backward();
      return mean[0].item<double>();
    };
    EXPECT_EQ(pass(false), 1);   // the first pass takes rank 0's
    EXPECT_EQ(pass(true), own);  // after one that averaged nothing, each keeps its own
    EXPECT_EQ(weight.grad()[0].item<double>(), (2 * 1 + 2 * 5) / 2.0);  // of both passes
    EXPECT_EQ(pass(true), 1);
    return 0;
  });
}

TEST_F(RanksTogether, AgreeOnNumbers) {
  const auto given = on_ranks(3, [](RankGroup& group) {
    return std::vector<double>{group.of_first(10.0 + group.rank()), group.highest(-1.0 - group.rank()),
                               group.any(group.rank() == 2) ? 1.0 : 0.0, group.any(false) ? 1.0 : 0.0};
  });
  for (const auto& of_rank : given) EXPECT_THAT(of_rank, ElementsAre(10, -1, 1, 0));
}

TEST_F(RanksTogether, NoticeThatOneLeft) {
  const std::uint16_t port = free_port();
  auto other = std::async(std::launch::async, [&] {
    Ranks ranks(RankPlace{1, 2, "127.0.0.1", port});
    static_cast<void>(ranks.connect(c10::kCPU));  // and leaves
  });
  Ranks ranks(RankPlace{0, 2, "127.0.0.1", port});
  const auto group = ranks.connect(c10::kCPU);
  other.get();
  EXPECT_THROW(group->meet(), RankLost);
}

TEST_F(RanksTogether, TellTheFirstWhyTheyFailed) {
  const std::uint16_t port = free_port();
  auto other = std::async(std::launch::async, [&] {
    Ranks ranks(RankPlace{1, 2, "127.0.0.1", port});
    ranks.follow([&](const std::string& job) {
      const auto group = ranks.connect(c10::kCPU);
      group->meet();
      if (job == "memory") throw OutOfMemory("no room for 8 bytes");
      if (job == "other") throw Error("no such network");
      group->meet();
    });
  });
  Ranks ranks(RankPlace{0, 2, "127.0.0.1", port});
  EXPECT_EQ(ranks.placement().text(), "2");
  EXPECT_EQ(ranks.local_size(), 2);
  const auto said = [&](const std::string& job) -> std::string {
    try {
      ranks.lead(job, [&] {
        const auto group = ranks.connect(c10::kCPU);
        group->meet();
        group->meet();
      });
    } catch (const OutOfMemory& error) {
      return std::string("memory: ") + error.what();
    } catch (const RankLost& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said("memory"), "memory: rank 1: no room for 8 bytes");
  ranks.await_others();
  EXPECT_EQ(said("other"), "rank 1: no such network");
  ranks.await_others();
  EXPECT_EQ(said("fine"), "");  // a failure ends a job, not the ranks
  ranks.await_others();
  ranks.end();
  other.get();
}

/// Image i has label i.
class Numbered final : public ImageSource {
 public:
  explicit Numbered(std::int64_t size) : size_(size) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return index; }
  void read(std::int64_t, std::uint64_t, Layout, std::span<float> out) const override { out[0] = 0; }

 private:
  std::int64_t size_;
};

std::vector<std::int64_t> dealt(const ImageSource& images, RankShare share) {
  BatchLoader loader({1, 1, 1}, {2});
  loader.start(images, images.size(), 5, 0, share);
  std::vector<std::int64_t> labels;
  while (const auto batch = loader.next()) {
    for (std::int64_t i = 0; i < batch->targets.size(0); ++i) labels.push_back(batch->targets[i].item<std::int64_t>());
  }
  return labels;
}

// torch.utils.data.DistributedSampler: indices += indices[:total - len(indices)]; indices[rank:total:replicas]
TEST(RankShare, DealsAsDistributedSamplerDoes) {
  for (const std::int64_t images : {1, 5, 6, 7, 8}) {
    const Numbered source(images);
    for (const int size : {1, 2, 3, 4}) {
      std::vector<std::int64_t> all = dealt(source, {});
      for (std::size_t i = 0; all.size() % static_cast<std::size_t>(size) != 0; ++i) all.push_back(all[i]);
      for (int rank = 0; rank < size; ++rank) {
        std::vector<std::int64_t> expected;
        for (std::size_t i = static_cast<std::size_t>(rank); i < all.size(); i += static_cast<std::size_t>(size))
          expected.push_back(all[i]);
        EXPECT_EQ(dealt(source, {rank, size}), expected) << images << " images, rank " << rank << " of " << size;
      }
    }
  }
}

std::optional<RankPlace> place_in(std::map<std::string, std::string> environment) {
  return place_by_environment([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(RankPlace, IsWhatTorchrunAndSlurmSay) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));  // a batch script, not a step of it
  const auto torchrun = place_in({{"RANK", "3"},
                                  {"WORLD_SIZE", "4"},
                                  {"MASTER_ADDR", "10.0.0.1"},
                                  {"MASTER_PORT", "29500"},
                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  ASSERT_TRUE(torchrun);
  EXPECT_EQ(torchrun->rank, 3);
  EXPECT_EQ(torchrun->size, 4);
  EXPECT_EQ(torchrun->address, "10.0.0.1");
  EXPECT_EQ(torchrun->port, 29500);
  EXPECT_FALSE(torchrun->opens_port);
  const std::map<std::string, std::string> step = {
      {"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_JOB_ID", "1234567"}};
  for (const auto& [nodes, first] : std::map<std::string, std::string>{
           {"gpu[07-09,11]", "gpu07"}, {"gpu[7,9]", "gpu7"}, {"a1,a2", "a1"}, {"a1", "a1"}, {"n-2[1]", "n-21"}}) {
    auto environment = step;
    environment["SLURM_STEP_NODELIST"] = nodes;
    const auto slurm = place_in(environment);
    ASSERT_TRUE(slurm);
    EXPECT_EQ(slurm->address, first);
    EXPECT_EQ(slurm->port, 15'000 + 4567);
    EXPECT_EQ(slurm->rank, 5);
    EXPECT_TRUE(slurm->opens_port);
  }
}

TEST(RankPlace, IsRefusedWhereItMakesNoSense) {
  const auto message = [](std::map<std::string, std::string> environment) -> std::string {
    try {
      static_cast<void>(place_in(std::move(environment)));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(message({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}), HasSubstr("MASTER_PORT is not set"));
  EXPECT_THAT(message({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}),
              HasSubstr("RANK 2 is not below WORLD_SIZE 2"));
  EXPECT_THAT(message({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK"));
  EXPECT_THAT(message({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "70000"}}),
              HasSubstr("MASTER_PORT"));
}

}  // namespace
}  // namespace perfpred
