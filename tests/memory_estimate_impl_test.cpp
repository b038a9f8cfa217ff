// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/run.h>
#include <perfpred/workload.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

#include "device/caching_allocator.h"
#include "text/csv.h"

namespace perfpred {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

TEST(CachingAllocator, RoundsAndReservesAsLibTorchDoes) {
  // c10/cuda/CUDACachingAllocator: 512-byte blocks; segments of 2 MiB, 20 MiB, or rounded to 2 MiB.
  CachingAllocator allocator;
  static_cast<void>(allocator.allocate(1));
  EXPECT_EQ(allocator.reserved(), 2 * mebibyte);
  static_cast<void>(allocator.allocate(mebibyte));  // still of the small pool
  EXPECT_EQ(allocator.reserved(), 2 * mebibyte);
  static_cast<void>(allocator.allocate(mebibyte + 1));
  EXPECT_EQ(allocator.reserved(), 22 * mebibyte);
  static_cast<void>(allocator.allocate(11 * mebibyte + 1));  // cut from the 20 MiB segment's rest
  EXPECT_EQ(allocator.reserved(), 22 * mebibyte);
  static_cast<void>(allocator.allocate(11 * mebibyte + 1));
  EXPECT_EQ(allocator.reserved(), 34 * mebibyte);
}

TEST(CachingAllocator, ReusesWhatIsFreeAndJoinsNeighbours) {
  CachingAllocator allocator;
  const auto a = allocator.allocate(4 * mebibyte);
  const auto b = allocator.allocate(4 * mebibyte);
  const auto c = allocator.allocate(4 * mebibyte);
  EXPECT_EQ(allocator.reserved(), 20 * mebibyte);
  allocator.free(a);
  allocator.free(c);
  allocator.free(b);
  static_cast<void>(allocator.allocate(9 * mebibyte));
  static_cast<void>(allocator.allocate(9 * mebibyte));
  EXPECT_EQ(allocator.reserved(), 20 * mebibyte);
}

/// A CPU job without a loader: the batch lies there once.
TrainingJob bare_step() {
  TrainingJob job;
  job.loader_batches = 1;
  return job;
}

/// One linear-like step by hand: input 100, weight 40, activation 60, gradient 40.
TEST(MemoryEstimate, FollowsTheLifeOfEveryTensor) {
  OpGraph graph;
  const TensorId x = graph.add_tensor({100}, DataType::u8, TensorRole::input);
  const TensorId w = graph.add_tensor({40}, DataType::u8, TensorRole::parameter);
  const TensorId kept = graph.add_tensor({60}, DataType::u8, TensorRole::activation);
  const TensorId dropped = graph.add_tensor({500}, DataType::u8, TensorRole::activation);
  const TensorId last = graph.add_tensor({10}, DataType::u8, TensorRole::activation);
  const TensorId gw = graph.add_tensor({40}, DataType::u8, TensorRole::gradient);
  graph.add_op(OpKind::mul, Phase::forward, -1, std::array{x, w}, std::array{kept});
  graph.add_op(OpKind::mul, Phase::forward, -1, std::array{kept}, std::array{dropped});
  graph.add_op(OpKind::mul, Phase::forward, -1, std::array{dropped}, std::array{last});
  graph.add_op(OpKind::mul, Phase::backward, -1, std::array{last, kept}, std::array{gw});
  graph.add_op(OpKind::add, Phase::optimizer, -1, std::array{w, gw}, std::array{w});
  const MemoryEstimate estimate = estimate_memory(execute(graph, DeviceKind::other), bare_step());
  EXPECT_EQ(estimate.peak_bytes, 100 + 40 + 60 + 500 + 10);
  EXPECT_EQ(estimate.parameters, 40);
  EXPECT_EQ(estimate.gradients, 0);
  EXPECT_EQ(estimate.activations, 100 + 60 + 500 + 10);
  EXPECT_EQ(graph.activation_bytes(), 60 + 10);

  TrainingJob job;
  job.loader_batches = 4;
  const MemoryEstimate loaded = estimate_memory(execute(graph, DeviceKind::other), job);
  EXPECT_EQ(loaded.loader, 3 * 100);
  EXPECT_EQ(loaded.peak_bytes, estimate.peak_bytes + 3 * 100);
  EXPECT_EQ(loaded.activations, estimate.activations);
}

TEST(TrainingJob, HoldsTwoBatchesOfImagesAndLabels) {
  const MemoryEstimate estimate =
      estimate_memory(execute(Workload::cifar_cnn(2, 8, 64).graph(), DeviceKind::other), TrainingJob());
  EXPECT_EQ(estimate.loader, 64 * (4 * 3 * 32 * 32 + 8));
}

TEST(TrainingJob, NeedsAThreadAndABatch) {
  TrainingJob job;
  job.loader_batches = 0;
  EXPECT_THROW(static_cast<void>(estimate_memory(execute(OpGraph(), DeviceKind::other), job)), InputError);
  job.loader_batches = 1;
  job.threads = 0;
  EXPECT_THROW(static_cast<void>(estimate_memory(execute(OpGraph(), DeviceKind::other), job)), InputError);
}

TEST(TrainingJob, HoldsNoNegativeMemory) {
  for (std::int64_t TrainingJob::*bytes : {&TrainingJob::context_bytes, &TrainingJob::matrix_workspace_bytes}) {
    TrainingJob job;
    job.*bytes = -1;
    EXPECT_THROW(static_cast<void>(estimate_memory(execute(OpGraph(), DeviceKind::other), job)), InputError);
  }
}

TEST(TrainingJob, FollowsFromTheDevice) {
  const DeviceCatalogue catalogue;
  const TrainingJob a100 = TrainingJob::on(catalogue.find("A100-SXM4-80GB")).value();
  EXPECT_TRUE(a100.caching_allocator);
  EXPECT_EQ(a100.matrix_workspace_bytes, (2 * 4096 + 8 * 16) * 1024);  // cuBLAS's ":4096:2:16:8"
  EXPECT_EQ(a100.context_bytes,
            900'000'000);  // an H200's free memory fell by 860 to 902 MB (data/nvidia_h200/runs.csv)
  EXPECT_TRUE(a100.cudnn);
  EXPECT_FALSE(a100.tf32_convolutions);
  EXPECT_TRUE(TrainingJob::on(catalogue.find("A100-SXM4-80GB"), Precision::default_)->tf32_convolutions);
  EXPECT_FALSE(TrainingJob::on(catalogue.find("V100-SXM2-16GB"), Precision::default_)->tf32_convolutions);
  EXPECT_FALSE(TrainingJob::on(catalogue.find("MI300X"))->cudnn);
  EXPECT_EQ(TrainingJob::on(catalogue.find("H200-SXM-141GB"))->matrix_workspace_bytes, 32 * mebibyte);
  EXPECT_EQ(TrainingJob::on(catalogue.find("MI300X"))->matrix_workspace_bytes, 128 * mebibyte);
  Device cpu;
  cpu.kind = DeviceKind::cpu;
  cpu.sms = 6;
  const TrainingJob on_cpu = TrainingJob::on(cpu).value();
  EXPECT_FALSE(on_cpu.caching_allocator);
  EXPECT_EQ(on_cpu.threads, 6);
  EXPECT_EQ(on_cpu.context_bytes, 0);
}

TEST(TrainingJob, IsNotKnownForOtherAccelerators) {
  const Device trainium = DeviceCatalogue().find("Trainium2");
  EXPECT_FALSE(TrainingJob::on(trainium));
  EXPECT_THROW(static_cast<void>(largest_batch(Workload::zoo("resnet18", 1), trainium)), InputError);
}

/// x W forward, and the products of the backward pass if they are wanted: nothing but matrices of 4 MiB.
OpGraph products(bool backward) {
  OpGraph graph;
  const TensorId x = graph.add_tensor({1024, 1024}, DataType::f32, TensorRole::input);
  const TensorId w = graph.add_tensor({1024, 1024}, DataType::f32, TensorRole::parameter);
  const TensorId y = graph.add_tensor({1024, 1024}, DataType::f32, TensorRole::activation);
  graph.add_op(OpKind::mm, Phase::forward, -1, std::array{x, w}, std::array{y});
  if (!backward) return graph;
  const TensorId gw = graph.add_tensor({1024, 1024}, DataType::f32, TensorRole::gradient);
  graph.add_op(OpKind::mm, Phase::backward, -1, std::array{x, y}, std::array{gw});
  return graph;
}

TEST(TrainingJob, EachThreadThatMultipliesMatricesHasAWorkspace) {
  TrainingJob job = TrainingJob::on(DeviceCatalogue().find("H200-SXM-141GB")).value();
  job.loader_batches = 1;
  job.context_bytes = 0;
  // Matrices of 4 MiB come from segments of 20 MiB, five in each; what is not a parameter is cut with some waste.
  const auto reserved = [&](bool backward) {
    return static_cast<double>(estimate_memory(execute(products(backward), DeviceKind::other), job).peak_bytes) /
           static_cast<double>(mebibyte);
  };
  EXPECT_NEAR(reserved(false), 32 + 20, 0.06 * 48);
  EXPECT_NEAR(reserved(true), 2 * 32 + 20, 0.06 * 80);
  EXPECT_GE(reserved(true), 2 * 32 + 20);
  Workload convolutions = Workload::zoo("squeezenet1_1", 2);  // without a linear layer
  convolutions.optimizer = Optimizer::sgd;
  const MemoryEstimate with = estimate_memory(execute(convolutions.graph(), DeviceKind::other), job);
  job.matrix_workspace_bytes = 0;
  EXPECT_EQ(estimate_memory(execute(convolutions.graph(), DeviceKind::other), job).peak_bytes, with.peak_bytes);
}

TEST(MemoryEstimate, HoldsParametersGradientsAndStateWhenTheyRule) {
  // VGG with one image: three copies of the parameters for SGD with momentum, and Adam's four.
  Workload workload = Workload::zoo("vgg11", 1, {3, 64, 64});
  const std::int64_t parameters = 4 * workload.params();
  workload.optimizer = Optimizer::sgd;
  const MemoryEstimate sgd = estimate_memory(execute(workload.graph(), DeviceKind::other), bare_step());
  EXPECT_GE(sgd.peak_bytes, 2 * parameters);
  EXPECT_EQ(sgd.optimizer, 4);  // the count of steps
  workload.optimizer = Optimizer::adam;
  const MemoryEstimate adam = estimate_memory(execute(workload.graph(), DeviceKind::other), bare_step());
  EXPECT_EQ(adam.optimizer, 2 * parameters + 4);
  EXPECT_GE(adam.peak_bytes, 4 * parameters);
}

TEST(MemoryEstimate, IsTheSumOfItsParts) {
  for (const char* device : {"cpu", "T4"}) {
    const TrainingJob job = TrainingJob::on(DeviceCatalogue().find(device)).value();
    const MemoryEstimate e = estimate_memory(execute(Workload::zoo("densenet121", 4).graph(), DeviceKind::other), job);
    EXPECT_EQ(e.peak_bytes,
              e.parameters + e.gradients + e.optimizer + e.activations + e.loader + e.workspace + e.context);
  }
}

Device device_of(double gigabytes) {
  Device device;
  device.name = "made up";
  device.mem_gb = gigabytes;
  return device;
}

TEST(MemoryEstimate, LargestBatchIsTheLastThatFits) {
  Workload workload = Workload::zoo("resnet18", 1);
  const Device device = device_of(8);
  const std::optional<std::int64_t> largest = largest_batch(workload, device);
  ASSERT_TRUE(largest.has_value());
  const auto fits = [&](std::int64_t batch) {
    workload.batch_size = batch;
    return estimate_memory(execute(workload.graph(), DeviceKind::other), TrainingJob::on(device).value())
               .verdict(device) == MemoryVerdict::fits;
  };
  EXPECT_TRUE(fits(*largest));
  EXPECT_FALSE(fits(*largest + 1));
}

TEST(MemoryEstimate, LargestBatchIsOfTheDeviceAndTheJobThatAreAskedAbout) {
  Workload workload = Workload::zoo("resnet18", 7);
  const auto largest = [&](double gigabytes, std::int64_t reserved = 0) {
    return largest_batch(workload, device_of(gigabytes), reserved).value();
  };
  const std::int64_t usual = largest(8);
  EXPECT_GT(largest(16), usual);  // a device of the same name
  EXPECT_LT(largest(8, 2'000'000'000), usual);
  workload.batch_size = 2 * usual;
  EXPECT_EQ(largest(8), usual);
  workload.precision = Precision::bf16;
  EXPECT_GT(largest(8), usual);
  workload.precision = Precision::fp32;
  EXPECT_EQ(largest(8), usual);
}

/// Written out, a layer keeps three matrices of all pairs of positions, in fp32: what softmax and dropout give, and
/// which elements dropout kept. Fused, it keeps the log-sum-exp of each row and the seed of dropout.
TEST(MemoryEstimate, FusedAttentionKeepsNoPairs) {
  Workload workload = Workload::zoo("gpt2", 8);
  const OpGraph fused = workload.graph();
  workload.attention = Attention::eager;
  const OpGraph eager = workload.graph();
  constexpr std::int64_t layers = 12, rows = 8 * 12 * 1024, pairs = 4 * rows * 1024;
  EXPECT_EQ(eager.activation_bytes() - fused.activation_bytes(), layers * (3 * pairs - 4 * rows - 16));
  const auto peak = [](const OpGraph& step) {
    return estimate_memory(execute(step, DeviceKind::other), TrainingJob()).peak_bytes;
  };
  EXPECT_NEAR(static_cast<double>(peak(eager) - peak(fused)), layers * 3.0 * pairs, 0.01 * layers * 3 * pairs);
}

TEST(MemoryEstimate, RefusesAnEmptyFunction) {
  EXPECT_THROW((void)largest_batch(std::function<OpGraph(std::int64_t)>(), TrainingJob(), Device()), InputError);
}

TEST(MemoryEstimate, SaysWhenNothingFits) {
  EXPECT_EQ(largest_batch(Workload::zoo("gpt2_xl", 1), device_of(16)), std::nullopt);
  EXPECT_EQ(MemoryEstimate().verdict(Device()), std::nullopt);
}

TEST(MemoryEstimate, FitsOnlyIfTheUpperBoundDoes) {
  Device device = device_of(10);
  MemoryEstimate estimate;
  estimate.tensors = {7'500'000'000, 8'000'000'000};
  estimate.context = 500'000'000;
  estimate.device = {8'700'000'000, 9'000'000'000};  // 700 MB of unused blocks, which go back before memory runs out
  EXPECT_EQ(estimate.verdict(device), MemoryVerdict::fits);
  EXPECT_EQ(estimate.verdict(device, 1'000'000'000), MemoryVerdict::fits);
  EXPECT_EQ(estimate.verdict(device, 1'000'000'001), MemoryVerdict::only_just);
  EXPECT_EQ(estimate.verdict(device, 2'000'000'000), MemoryVerdict::only_just);
  EXPECT_EQ(estimate.verdict(device, 2'000'000'001), MemoryVerdict::does_not_fit);
}

/// Where lengths vary, the allocator keeps blocks, and gives them back before the device is full.
TEST(MemoryEstimate, VaryingLengthsKeepBlocksUntilTheDeviceIsFull) {
  const auto ask = [](Padding padding, double gigabytes) {
    Device device = device_of(gigabytes);
    Workload workload = Workload::zoo("gpt2", 4);
    workload.padding = padding;
    const TrainingJob job = TrainingJob::of(workload, device).value();
    return estimate_memory(execute(workload.graph(), DeviceKind::gpu), job);
  };
  const MemoryEstimate packed = ask(Padding::packed, 80), padded = ask(Padding::padded, 80);
  EXPECT_GT(padded.reserved.p50, packed.reserved.p50);
  EXPECT_GT(padded.reserved.upper, packed.reserved.upper);
  EXPECT_EQ(padded.peak_bytes, padded.parameters + padded.gradients + padded.optimizer + padded.activations +
                                   padded.loader + padded.workspace + padded.context);
  const double room = 1.05 * static_cast<double>(packed.device.upper) / 1e9;  // a mask of the padding is in it, too
  const MemoryEstimate full = ask(Padding::padded, room);
  EXPECT_EQ(full.device.upper, padded.device.upper);
  EXPECT_LE(static_cast<double>(full.needed()), 1.001 * room * 1e9);
  EXPECT_EQ(full.verdict(device_of(1.001 * room)), MemoryVerdict::fits);
  Workload workload = Workload::zoo("gpt2", 4);
  workload.padding = Padding::padded;
  EXPECT_GE(largest_batch(workload, device_of(1.001 * room)), 4);  // what fits is no larger than the largest that does
}

/// Two batches of 2 x 1,024 words of TinyLlama (transformers 5, autocast in bf16, every block checkpointed, AdamW) hold
/// 20,753.4 MB of tensors by PyTorch's own calls; without the casts that autocast keeps until it is left, 18,930.
TEST(MemoryEstimate, AutocastKeepsItsCastsOfCheckpointedBlocksUntilItIsLeft) {
  const auto tensors_of = [](std::int64_t checkpoint, std::int64_t batches) {
    Workload workload = Workload::zoo("tinyllama_1.1b", 2);
    workload.input = {1024};
    workload.precision = Precision::bf16;
    workload.optimizer = Optimizer::adamw;
    workload.checkpoint = checkpoint;
    workload.accumulate = batches;
    TrainingJob job;
    return static_cast<double>(estimate_memory(execute(workload.graph(), DeviceKind::gpu), job).tensors.p50);
  };
  EXPECT_NEAR(tensors_of(1, 2) / 20'753.4e6, 1, 0.01);
  EXPECT_EQ(tensors_of(1, 8), tensors_of(1, 2));
  EXPECT_LT(tensors_of(1, 2), tensors_of(0, 2));
}

TEST(MemoryEstimate, BlocksThatAreKeptLeaveTheBoundAboveTheExpectedBytes) {
  Workload workload = Workload::zoo("transformer:layers=16,hidden=2048,heads=32,vocab=128256,mlp=swiglu,norm=rms", 16);
  workload.input = {128};
  workload.padding = Padding::padded;
  const ExecutedStep step = execute(workload.graph(), DeviceKind::gpu);
  for (int tenths = 200; tenths < 500; tenths += 2) {
    const double gigabytes = tenths / 10.0;
    const Device device = device_of(gigabytes);
    const MemoryEstimate estimate = estimate_memory(step, TrainingJob::of(workload, device).value());
    EXPECT_GE(estimate.reserved.upper, estimate.reserved.p50) << gigabytes;
    EXPECT_GE(estimate.device.upper, estimate.device.p50) << gigabytes;
    EXPECT_EQ(estimate.device.p50, estimate.reserved.p50 + estimate.context) << gigabytes;
  }
}

/// JAX reserves three quarters of a GPU as it starts, or what it is told: nothing of it follows from the job.
TEST(MemoryEstimate, OfOtherSoftwareTheTensorsAndTheDriverAreKnown) {
  const Device device = device_of(80);
  Workload workload = Workload::zoo("gpt2", 4);
  const auto ask = [&](Software software) {
    workload.software = software;
    return estimate_memory(execute(workload.graph(), DeviceKind::gpu), TrainingJob::of(workload, device).value());
  };
  const MemoryEstimate pytorch = ask(Software::pytorch);
  EXPECT_GT(pytorch.reserved.p50, pytorch.tensors.p50);
  for (const Software software : {Software::jax, Software::xla, Software::tensorflow, Software::mxnet}) {
    const MemoryEstimate other = ask(software);
    EXPECT_EQ(other.tensors.p50, pytorch.tensors.p50);
    EXPECT_EQ(other.reserved.p50, other.tensors.p50);
    EXPECT_EQ(other.reserved.upper, other.tensors.upper);
    EXPECT_EQ(other.peak_bytes, other.tensors.p50 + other.context);
  }
}

/// PyTorch's total_memory: an RTX 4090 has 23.64 GiB, an A100-80GB 79.15 to 79.35, an H200 150,109,880,320 bytes.
TEST(Device, HasWhatTheDriverLeaves) {
  const DeviceCatalogue catalogue;
  constexpr double gibibyte = 1024.0 * 1024 * 1024;
  const auto usable = [&](const char* name) { return static_cast<double>(*catalogue.find(name).usable_bytes()); };
  EXPECT_NEAR(usable("RTX 4090"), 23.64 * gibibyte, 0.005 * 24 * gibibyte);
  EXPECT_NEAR(usable("A100-SXM4-80GB"), 79.2 * gibibyte, 0.01 * 80 * gibibyte);
  EXPECT_NEAR(usable("T4"), 14.75 * gibibyte, 0.01 * 16 * gibibyte);
  EXPECT_NEAR(usable("L4"), 22.17 * gibibyte, 0.01 * 24 * gibibyte);
  EXPECT_NEAR(usable("H200-SXM-141GB"), 150'109'880'320.0, 0.01 * 150e9);
  EXPECT_EQ(Device().usable_bytes(), std::nullopt);
}

/// Peaks on an H200 beside the estimate, every network against a model that it had no part in: the constants of
/// cudnn_workspace() come from a few networks alone, and no row moves them by more than the bounds below, which are
/// 15 % above the figures of docs/accuracy.md.
TEST(MemoryEstimate, IsWhatAnH200Holds) {
  std::vector<double> errors;
  std::size_t above = 0;
  for (const perfpred::Run& run : read_runs(PERFPRED_SOURCE_DIR "/data/nvidia_h200/runs.csv")) {
    SCOPED_TRACE(run.workload.key());
    const Device device = DeviceCatalogue().find("H200-SXM-141GB");
    const MemoryEstimate estimate = estimate_memory(execute(run.workload.graph(), DeviceKind::gpu),
                                                    TrainingJob::on(device, run.workload.precision).value());
    errors.push_back(std::abs(static_cast<double>(estimate.tensors.p50) / (*run.peak_mem_mb * 1e6) - 1));
    if (*run.peak_reserved_mb * 1e6 > static_cast<double>(estimate.reserved.upper)) ++above;
  }
  ASSERT_EQ(errors.size(), 62U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.009);
  EXPECT_LE(static_cast<double>(above) / 62, 0.057);
}

/// Compares the peaks of jobs that perfpred-collect measured on a CPU with their estimates.
void expect_peaks(const std::filesystem::path& table) {
  SCOPED_TRACE(table);
  std::vector<double> errors;
  for (const Run& run : read_runs(table)) {
    TrainingJob job;
    SCOPED_TRACE(run.workload.key());
    ASSERT_TRUE(run.workload.threads && run.peak_mem_mb);
    job.threads = *run.workload.threads;
    const MemoryEstimate estimate = estimate_memory(execute(run.workload.graph(), DeviceKind::other), job);
    const double measured = *run.peak_mem_mb * 1e6;
    errors.push_back(std::abs(static_cast<double>(estimate.peak_bytes) / measured - 1));
    Device smaller;
    smaller.mem_gb = 0.9999 * measured / 1e9;
    EXPECT_NE(estimate.verdict(smaller), MemoryVerdict::fits) << estimate.peak_bytes << " bytes, measured " << measured;
  }
  ASSERT_GE(errors.size(), 20U);
  std::sort(errors.begin(), errors.end());
  const double median = errors[errors.size() / 2], most = errors[errors.size() * 95 / 100];
  EXPECT_LE(median, 0.02);
  EXPECT_LE(most, 0.05);
  std::cout << table << ": " << errors.size() << " jobs, median error " << median << ", 95 % within " << most
            << ", largest " << errors.back() << '\n';
}

TEST(MemoryEstimate, IsWhatTrainingJobsPeakAt) {
  std::size_t tables = 0;
  for (const auto& machine : std::filesystem::directory_iterator(PERFPRED_SOURCE_DIR "/data")) {
    const auto table = machine.path() / "memory.csv";
    if (!std::filesystem::exists(table)) continue;
    expect_peaks(table);
    ++tables;
  }
  EXPECT_GE(tables, 2U);
}

/// Measured where oneDNN's kernels are those of AVX2, most of which take no scratch memory: some multiply matrices of
/// windows, which each thread has of its own, with four times the weights' gradients.
TEST(MemoryEstimate, BoundsTheScratchMemoryOfACpusThreads) {
  CsvReader table(PERFPRED_SOURCE_DIR "/data/amd_epyc_avx2_2_threads/memory_of_threads.csv");
  const CsvColumn network = table.required("network"), side = table.required("image_size"),
                  batch = table.required("batch_size"), threads = table.required("threads"),
                  peak = table.required("peak_bytes");
  std::vector<double> errors;
  while (table.next()) {
    const std::int64_t pixels = table.positive_integer(side), measured = table.positive_integer(peak);
    const Workload workload = Workload::zoo(table.text(network), table.positive_integer(batch), {3, pixels, pixels});
    SCOPED_TRACE(workload.key() + " threads " + std::string(table.text(threads)));
    const ExecutedStep step = execute(workload.graph(), DeviceKind::cpu);
    TrainingJob job;
    job.loader_batches = 1;
    job.threads = static_cast<int>(table.positive_integer(threads));
    EXPECT_GE(estimate_memory(step, job).tensors.upper, measured) << "of registers that are not known";
    job.vector_bits = 256;
    const MemoryEstimate estimate = estimate_memory(step, job);
    EXPECT_GE(estimate.tensors.upper, measured);
    EXPECT_EQ(estimate.device.upper, estimate.tensors.upper);
    errors.push_back(std::abs(static_cast<double>(estimate.peak_bytes) / static_cast<double>(measured) - 1));
  }
  ASSERT_GE(errors.size(), 20U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], 0.01);
  EXPECT_LE(errors[errors.size() * 95 / 100], 0.05);
  std::cout << errors.size() << " jobs, median error " << errors[errors.size() / 2] << ", largest " << errors.back()
            << '\n';
}

TEST(TrainingJob, HasTheRegistersOfThisMachinesCpuAlone) {
  Device other;
  other.kind = DeviceKind::cpu;
  other.name = "a CPU elsewhere";
  EXPECT_EQ(TrainingJob::on(other)->vector_bits, 0);
  other.aliases = {"cpu"};  // a row of the user's own
  EXPECT_EQ(TrainingJob::on(other)->vector_bits, TrainingJob::on(Device::this_cpu())->vector_bits);
  TrainingJob job;
  job.vector_bits = 128;
  const ExecutedStep step = execute(Workload::zoo("squeezenet1_1", 1).graph(), DeviceKind::cpu);
  EXPECT_THROW(static_cast<void>(estimate_memory(step, job)), InputError);
}

}  // namespace
}  // namespace perfpred
