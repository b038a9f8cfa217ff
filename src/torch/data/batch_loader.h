// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/workload.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "torch/device/step_clock.h"

namespace perfpred {

/// One batch on the device.
struct Batch {
  at::Tensor inputs;   ///< n x channels x height x width; or n x length word numbers, int64
  at::Tensor targets;  ///< n class indices, int64; n x boxes; or n x length: the word that follows
};

/// Whether this share of a training's time, spent waiting for data, means that the data limit it.
[[nodiscard]] constexpr bool is_data_bound(double wait_share) { return wait_share > 0.1; }

/// Threads that keep up with the device's training steps: one takes 0.05 ms for an image of 3x224x224, and on a CPU
/// more would take the step's cores.
[[nodiscard]] inline int loader_threads(c10::Device device) { return device.is_cpu() ? 1 : 4; }

struct LoaderOptions {
  std::int64_t batch_size = 1;
  c10::Device device = c10::kCPU;
  at::ScalarType dtype = at::kFloat;
  Layout layout = Layout::nchw;
  int workers = 1;          ///< threads that assemble batches, each a whole one
  std::int64_t labels = 1;  ///< of an image: one, or of each box the same
};

/// A rank's part of the images of a pass, as torch.utils.data.DistributedSampler deals them: every `size`-th of their
/// order from the `rank`-th on. Where they do not divide evenly, the first ones come again, so that all have as many.
struct RankShare {
  int rank = 0, size = 1;

  [[nodiscard]] std::int64_t of(std::int64_t images) const { return (images + size - 1) / size; }
};

/// What a workload's batches are like, for a loader of so many threads.
[[nodiscard]] LoaderOptions loader_options(const Workload& workload, c10::Device device, int workers);

/// Assembles batches on the host in threads of its own, a few ahead of the training loop. The device holds two of them:
/// the one that next() returned last and, on CUDA, its successor, copied meanwhile on a stream of its own; on a CPU the
/// ones being assembled, one for each thread. One loader serves a training and its validation in turn, in the same
/// memory.
class BatchLoader {
 public:
  /// @param shape  of one image or sequence
  BatchLoader(std::vector<std::int64_t> shape, LoaderOptions options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// Begins a pass over `images` images; an unfinished one is dropped. Images come in an order that `shuffle_seed`
  /// decides, or in their own without one; if more are asked for than there are, further rounds follow.
  /// @param source  has to live until the next pass begins or stop() returns
  /// @param first   number of the batch to begin with; earlier ones are skipped
  /// @param share   of the images, which all ranks shuffle alike
  void start(const ImageSource& source, std::int64_t images, std::optional<std::uint64_t> shuffle_seed,
             std::int64_t first = 0, RankShare share = {});

  /// The next batch, nothing after the last; the last may be smaller. Its memory is used again after the next call,
  /// once the device has done all work that the current stream holds then.
  /// @throws what reading an image threw
  [[nodiscard]] std::optional<Batch> next();

  /// Seconds that the device has waited for batches since this was made: on CUDA measured on its own timeline, where
  /// this call waits for it.
  [[nodiscard]] double waited_sec();

  /// Ends the threads; start() begins anew.
  void stop();

 private:
  struct Slot {
    at::Tensor inputs, targets;  // on the host, pinned when the device is CUDA
    std::int64_t images = 0;
    std::optional<c10::Event> copied;  // to the device
    std::int64_t holds = -1;           // number of the batch that lies here ready, or -1
    std::exception_ptr error;
  };
  struct DeviceBatch {
    Batch whole;  // memory for a full batch
    std::optional<c10::Event> used;
  };

  void work();
  void deal(RankShare share);
  void fill(Slot& slot, std::int64_t number);
  void stage(std::int64_t number);
  void join_copies();
  void count_waits(std::size_t open);
  Slot& slot(std::int64_t number) { return slots_[static_cast<std::size_t>(number) % slots_.size()]; }
  DeviceBatch& on_device(std::int64_t number) { return on_device_[static_cast<std::size_t>(number % 2)]; }
  template <class T>
  void read_image(std::int64_t image, std::uint64_t draw, const at::Tensor& inputs, std::int64_t place);
  [[nodiscard]] std::int64_t batches() const;
  [[nodiscard]] bool words() const { return shape_.size() == 1; }

  std::vector<std::int64_t> shape_;
  LoaderOptions options_;
  const ImageSource* source_ = nullptr;  // of the pass
  std::vector<Slot> slots_;
  std::vector<std::int64_t> order_;
  std::uint64_t draw_seed_ = 0;
  RankShare share_;
  std::vector<std::thread> threads_;
  std::optional<c10::Stream> copy_stream_;  // none on a CPU
  std::array<DeviceBatch, 2> on_device_;    // even and odd batches
  std::int64_t staged_ = -1;                // last batch whose copy to the device was issued
  std::mutex mutex_;
  std::condition_variable ready_, freed_;
  std::int64_t next_to_fill_ = 0;  // guarded by mutex_
  std::int64_t taken_ = 0;         // batches handed out; guarded by mutex_
  bool stopping_ = false;          // guarded by mutex_
  StepClock wait_clock_;           // marks where a wait for a batch begins and where it ends
  bool in_wait_ = true;            // whether the next interval of the clock is a wait
  double waited_sec_ = 0;
};

}  // namespace perfpred
