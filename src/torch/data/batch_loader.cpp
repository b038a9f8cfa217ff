// SPDX-License-Identifier: Apache-2.0
#include "torch/data/batch_loader.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "network/layers.h"
#include "torch/data/random.h"

namespace perfpred {
namespace {

constexpr std::int64_t batches_ahead = 2;

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

}  // namespace

LoaderOptions loader_options(const Workload& workload, c10::Device device, int workers) {
  const auto names = zoo_networks();  // those of files are no detectors
  const bool known = std::binary_search(names.begin(), names.end(), workload.network);
  const std::int64_t labels = known && workload.input.size() == 3 ? build_network(workload).labels() : 1;
  return {workload.batch_size, device,  workload.precision == Precision::fp64 ? at::kDouble : at::kFloat,
          workload.layout,     workers, labels};
}

BatchLoader::BatchLoader(std::vector<std::int64_t> shape, LoaderOptions options)
    : shape_(std::move(shape)), options_(options), wait_clock_(options.device) {
  // One slot is in the hands of the training loop. On a CPU the slots are the device's memory: none is ahead.
  const std::int64_t ahead = options_.device.is_cpu() ? 0 : batches_ahead;
  slots_.resize(static_cast<std::size_t>(options_.workers + ahead + 1));
  if (!options_.device.is_cpu()) {
    copy_stream_ = c10::impl::VirtualGuardImpl(options_.device.type()).getNewStream(options_.device);
  }
}

BatchLoader::~BatchLoader() {
  stop();
  try {
    join_copies();
  } catch (const c10::Error&) {
    // The device has failed: no copy will write to the memory that is freed now.
  }
}

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

void BatchLoader::start(const ImageSource& source, std::int64_t images, std::optional<std::uint64_t> shuffle_seed,
                        std::int64_t first, RankShare share) {
  stop();
  source_ = &source;
  if (copy_stream_) {
    join_copies();
    for (DeviceBatch& batch : on_device_) {
      if (batch.used) batch.used->record(current_stream(options_.device));
    }
  }
  order_.clear();
  order_.reserve(static_cast<std::size_t>(images));
  draw_seed_ = shuffle_seed.value_or(0);
  Random random(draw_seed_);
  std::vector<std::int64_t> round(static_cast<std::size_t>(source.size()));
  std::iota(round.begin(), round.end(), 0);
  while (static_cast<std::int64_t>(order_.size()) < images) {
    if (shuffle_seed) random.shuffle(round);
    const auto rest = std::min(round.size(), static_cast<std::size_t>(images) - order_.size());
    order_.insert(order_.end(), round.begin(), round.begin() + static_cast<std::ptrdiff_t>(rest));
  }
  deal(share);
  for (Slot& slot : slots_) {
    slot.holds = -1;
    slot.error = nullptr;
  }
  next_to_fill_ = taken_ = first;
  staged_ = first - 1;
  stopping_ = false;
  for (int i = 0; i < options_.workers; ++i) {
    threads_.emplace_back([this, info = c10::ThreadLocalDebugInfo::current()] {
      // A MemoryPeak of the calling thread counts the batches, too.
      c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(info);
      work();
    });
  }
}

/// Leaves this rank's share of the order.
void BatchLoader::deal(RankShare share) {
  share_ = share;
  if (share.size == 1) return;
  const std::vector<std::int64_t> all = std::exchange(order_, {});
  for (std::int64_t i = 0; i < share.of(static_cast<std::int64_t>(all.size())); ++i)
    order_.push_back(all[static_cast<std::size_t>(i * share.size + share.rank) % all.size()]);
}

void BatchLoader::work() {
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
    Slot& slot = this->slot(number);
    try {
      fill(slot, number);
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

void BatchLoader::fill(Slot& slot, std::int64_t number) {
  const std::int64_t begin = number * options_.batch_size;
  const std::int64_t count = std::min(options_.batch_size, static_cast<std::int64_t>(order_.size()) - begin);
  slot.images = count;
  if (slot.copied) slot.copied->synchronize();  // the last copy out of this slot's host memory
  if (!slot.inputs.defined()) {
    const auto pinned = at::TensorOptions().pinned_memory(copy_stream_.has_value());
    const std::int64_t n = options_.batch_size;
    if (words()) {
      slot.inputs = at::empty({n, shape_[0]}, pinned.dtype(at::kLong));
      slot.targets = at::empty({n, shape_[0]}, pinned.dtype(at::kLong));
    } else {
      slot.inputs =
          at::empty({n, shape_[0], shape_[1], shape_[2]}, pinned.dtype(options_.dtype),
                    options_.layout == Layout::nhwc ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
      slot.targets = options_.labels == 1 ? at::empty({n}, pinned.dtype(at::kLong))
                                          : at::empty({n, options_.labels}, pinned.dtype(at::kLong));
    }
  }
  auto* targets = slot.targets.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t image = order_[static_cast<std::size_t>(begin + i)];
    const auto draw = mix(draw_seed_, static_cast<std::uint64_t>((begin + i) * share_.size + share_.rank));
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
    std::fill_n(targets + i * options_.labels, options_.labels, source_->label(image));
  }
}

/// Issues the copy of a batch that lies ready on the host, after the work that still needs the device's memory for it.
void BatchLoader::stage(std::int64_t number) {
  Slot& from = slot(number);
  DeviceBatch& to = on_device(number);
  if (!to.used) {
    const auto options = [&](const at::Tensor& host) {
      return host.options().device(options_.device).pinned_memory(false);
    };
    to.whole = {at::empty_like(from.inputs, options(from.inputs)), at::empty_like(from.targets, options(from.targets))};
    to.used.emplace(options_.device.type());
    to.used->record(current_stream(options_.device));
  }
  to.used->block(*copy_stream_);
  const c10::StreamGuard guard(*copy_stream_);
  to.whole.inputs.narrow(0, 0, from.images).copy_(from.inputs.narrow(0, 0, from.images), /*non_blocking=*/true);
  to.whole.targets.narrow(0, 0, from.images).copy_(from.targets.narrow(0, 0, from.images), /*non_blocking=*/true);
  from.copied.emplace(options_.device.type());
  from.copied->record(*copy_stream_);
  staged_ = number;
}

/// Lets the current stream wait for a copy whose batch was not handed out.
void BatchLoader::join_copies() {
  if (staged_ >= taken_) slot(staged_).copied->block(current_stream(options_.device));
  staged_ = taken_ - 1;
}

/// Plain loops: a tensor operation here would start a second team of OpenMP threads beside the training loop's.
template <class T>
void BatchLoader::read_image(std::int64_t image, std::uint64_t draw, const at::Tensor& inputs, std::int64_t place) {
  const auto size = static_cast<std::size_t>(inputs.stride(0));
  T* out = inputs.mutable_data_ptr<T>() + static_cast<std::size_t>(place) * size;
  if constexpr (std::is_same_v<T, float>) {
    source_->read(image, draw, options_.layout, {out, size});
  } else {
    thread_local std::vector<float> values;
    values.resize(size);
    source_->read(image, draw, options_.layout, values);
    std::transform(values.begin(), values.end(), out, [](float value) { return static_cast<T>(value); });
  }
}

std::optional<Batch> BatchLoader::next() {
  if (taken_ >= batches()) return std::nullopt;
  const std::int64_t number = taken_;
  Slot& slot = this->slot(number);
  Slot& following = this->slot(number + 1);
  wait_clock_.mark();
  bool following_is_ready = false;
  {
    std::unique_lock lock(mutex_);
    ++taken_;
    freed_.notify_all();
    ready_.wait(lock, [&] { return slot.holds == number; });
    following_is_ready = following.holds == number + 1 && !following.error;
  }
  if (slot.error) {
    wait_clock_.mark();
    std::rethrow_exception(std::exchange(slot.error, nullptr));
  }
  Batch whole{slot.inputs, slot.targets};
  if (copy_stream_) {
    if (staged_ < number) stage(number);
    slot.copied->block(current_stream(options_.device));
    whole = on_device(number).whole;
  }
  wait_clock_.mark();
  count_waits(std::numeric_limits<std::size_t>::max());
  if (copy_stream_) {
    // All work on the batch before this one has been submitted.
    if (auto& used = on_device(number + 1).used) used->record(current_stream(options_.device));
    if (following_is_ready) stage(number + 1);
  }
  return Batch{whole.inputs.narrow(0, 0, slot.images), whole.targets.narrow(0, 0, slot.images)};
}

/// @param open  intervals that the device need not have passed
void BatchLoader::count_waits(std::size_t open) {
  for (const double sec : wait_clock_.take(open)) {
    if (in_wait_) waited_sec_ += sec;
    in_wait_ = !in_wait_;
  }
}

double BatchLoader::waited_sec() {
  count_waits(0);
  return waited_sec_;
}

}  // namespace perfpred
