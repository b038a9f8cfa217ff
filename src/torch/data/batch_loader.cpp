// SPDX-License-Identifier: Apache-2.0
#include "torch/data/batch_loader.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <type_traits>
#include <utility>

#include "torch/data/random.h"

namespace perfpred {
namespace {

constexpr std::int64_t batches_ahead = 2;

}  // namespace

BatchLoader::BatchLoader(const ImageSource& source, std::vector<std::int64_t> shape, LoaderOptions options)
    : source_(source), shape_(std::move(shape)), options_(options) {
  // One slot is in the hands of the training loop.
  slots_.resize(static_cast<std::size_t>(options_.workers + batches_ahead + 1));
  if (options_.device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl device(options_.device.type());
  for (int i = 0; i < options_.workers; ++i) streams_.push_back(device.getNewStream(options_.device));
}

BatchLoader::~BatchLoader() { stop(); }

std::int64_t BatchLoader::batches() const {
  return (static_cast<std::int64_t>(order_.size()) + options_.batch_size - 1) / options_.batch_size;
}

void BatchLoader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  freed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void BatchLoader::start(std::int64_t images, std::optional<std::uint64_t> shuffle_seed, std::int64_t first) {
  stop();
  order_.clear();
  order_.reserve(static_cast<std::size_t>(images));
  draw_seed_ = shuffle_seed.value_or(0);
  Random random(draw_seed_);
  std::vector<std::int64_t> round(static_cast<std::size_t>(source_.size()));
  std::iota(round.begin(), round.end(), 0);
  while (static_cast<std::int64_t>(order_.size()) < images) {
    if (shuffle_seed) random.shuffle(round);
    const auto rest = std::min(round.size(), static_cast<std::size_t>(images) - order_.size());
    order_.insert(order_.end(), round.begin(), round.begin() + static_cast<std::ptrdiff_t>(rest));
  }
  for (Slot& slot : slots_) {
    slot.holds = -1;
    slot.error = nullptr;
  }
  next_to_fill_ = taken_ = first;
  stopping_ = false;
  for (int i = 0; i < options_.workers; ++i) {
    const auto stream = streams_.empty() ? std::nullopt : std::optional(streams_[static_cast<std::size_t>(i)]);
    threads_.emplace_back([this, stream, info = c10::ThreadLocalDebugInfo::current()] {
      // What counts memory in this thread counts that of the batches too.
      c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(info);
      work(stream);
    });
  }
}

void BatchLoader::work(std::optional<c10::Stream> stream) {
  const auto slots = static_cast<std::int64_t>(slots_.size());
  while (true) {
    std::int64_t number = 0;
    {
      std::unique_lock lock(mutex_);
      // The batch handed out last stays untouched until the loop asks for another.
      freed_.wait(lock, [&] { return stopping_ || next_to_fill_ >= batches() || next_to_fill_ < taken_ - 1 + slots; });
      if (stopping_ || next_to_fill_ >= batches()) return;
      number = next_to_fill_++;
    }
    Slot& slot = slots_[static_cast<std::size_t>(number % slots)];
    try {
      fill(slot, number, stream);
    } catch (...) {
      slot.error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      slot.holds = number;
    }
    ready_.notify_one();
  }
}

void BatchLoader::fill(Slot& slot, std::int64_t number, const std::optional<c10::Stream>& stream) {
  const std::int64_t begin = number * options_.batch_size;
  const std::int64_t count = std::min(options_.batch_size, static_cast<std::int64_t>(order_.size()) - begin);
  if (slot.copied) slot.copied->synchronize();  // the last copy out of this slot's host memory
  if (!slot.inputs.defined()) {
    const auto pinned = at::TensorOptions().pinned_memory(stream.has_value());
    const std::int64_t n = options_.batch_size;
    if (words()) {
      slot.inputs = at::empty({n, shape_[0]}, pinned.dtype(at::kLong));
      slot.targets = at::empty({n, shape_[0]}, pinned.dtype(at::kLong));
    } else {
      slot.inputs =
          at::empty({n, shape_[0], shape_[1], shape_[2]}, pinned.dtype(options_.dtype),
                    options_.layout == Layout::nhwc ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
      slot.targets = at::empty({n}, pinned.dtype(at::kLong));
    }
  }
  auto* targets = slot.targets.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t image = order_[static_cast<std::size_t>(begin + i)];
    const auto draw = mix(draw_seed_, static_cast<std::uint64_t>(begin + i));
    if (words()) {
      read_image<std::int64_t>(image, draw, slot.inputs, i);
      const auto* row = slot.inputs.const_data_ptr<std::int64_t>() + i * shape_[0];
      std::rotate_copy(row, row + 1, row + shape_[0], targets + i * shape_[0]);
      continue;
    }
    if (options_.dtype == at::kDouble) {
      read_image<double>(image, draw, slot.inputs, i);
    } else {
      read_image<float>(image, draw, slot.inputs, i);
    }
    targets[i] = source_.label(image);
  }
  const c10::OptionalStreamGuard guard(stream);
  slot.batch.inputs = slot.inputs.narrow(0, 0, count).to(options_.device, /*non_blocking=*/true);
  slot.batch.targets = slot.targets.narrow(0, 0, count).to(options_.device, /*non_blocking=*/true);
  if (stream) {
    slot.copied.emplace(options_.device.type());
    slot.copied->record(*stream);
  }
}

/// Plain loops: a tensor operation here would start a second team of OpenMP threads beside the training loop's.
template <class T>
void BatchLoader::read_image(std::int64_t image, std::uint64_t draw, const at::Tensor& inputs, std::int64_t place) {
  const auto size = static_cast<std::size_t>(inputs.stride(0));
  T* out = inputs.mutable_data_ptr<T>() + static_cast<std::size_t>(place) * size;
  if constexpr (std::is_same_v<T, float>) {
    if (options_.layout == Layout::nchw) {
      source_.read(image, draw, {out, size});
      return;
    }
  }
  thread_local std::vector<float> planes;
  planes.resize(size);
  source_.read(image, draw, planes);
  const auto channels = words() ? std::size_t{1} : static_cast<std::size_t>(shape_[0]);
  const std::size_t pixels = size / channels;
  const bool nhwc = options_.layout == Layout::nhwc;
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t p = 0; p < pixels; ++p) {
      out[nhwc ? p * channels + c : c * pixels + p] = static_cast<T>(planes[c * pixels + p]);
    }
  }
}

std::optional<Batch> BatchLoader::next() {
  if (taken_ >= batches()) return std::nullopt;
  Slot& slot = slots_[static_cast<std::size_t>(taken_) % slots_.size()];
  const auto begin = std::chrono::steady_clock::now();
  {
    std::unique_lock lock(mutex_);
    ++taken_;
    freed_.notify_all();
    ready_.wait(lock, [&] { return slot.holds == taken_ - 1; });
  }
  waited_sec_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (slot.error) std::rethrow_exception(std::exchange(slot.error, nullptr));
  if (slot.copied) {
    const c10::impl::VirtualGuardImpl device(options_.device.type());
    const c10::Stream stream = device.getStream(options_.device);
    slot.copied->block(stream);
    // Made on the loader's stream, used on this one: the allocator must not hand the memory on before both are done.
    slot.batch.inputs.record_stream(stream);
    slot.batch.targets.record_stream(stream);
  }
  return slot.batch;
}

}  // namespace perfpred
