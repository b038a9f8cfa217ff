// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/vocabulary.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace perfpred {

/// One batch on the device.
struct Batch {
  at::Tensor inputs;   ///< n x channels x height x width; or n x length word numbers, int64
  at::Tensor targets;  ///< n class indices, int64; or n x length: the word that follows
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
  int workers = 1;  ///< threads that assemble batches, each a whole one
};

/// Assembles batches in threads of its own, a few ahead of the training loop; on CUDA they also copy them to the
/// device, on a stream of their own.
class PERFPRED_API BatchLoader {
 public:
  BatchLoader(const ImageSource& source, std::vector<std::int64_t> shape, LoaderOptions options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// Begins a pass over `images` images; an unfinished one is dropped. Images come in an order that `shuffle_seed`
  /// decides, or in their own without one; where more are asked for than there are, the rest comes from further rounds.
  /// @param first  number of the batch to begin with: those before it are left out
  void start(std::int64_t images, std::optional<std::uint64_t> shuffle_seed, std::int64_t first = 0);

  /// The next batch, nothing after the last; the last may be smaller. Valid until the next call.
  /// @throws what reading an image threw
  [[nodiscard]] std::optional<Batch> next();

  /// Seconds that next() has waited for data, since this was made.
  [[nodiscard]] double waited_sec() const { return waited_sec_; }

 private:
  struct Slot {
    at::Tensor inputs, targets;  // on the host, pinned when the device is CUDA
    Batch batch;
    std::optional<c10::Event> copied;
    std::int64_t holds = -1;  // number of the batch that lies here ready, or -1
    std::exception_ptr error;
  };

  void stop();
  void work(std::optional<c10::Stream> stream);
  void fill(Slot& slot, std::int64_t number, const std::optional<c10::Stream>& stream);
  template <class T>
  void read_image(std::int64_t image, std::uint64_t draw, const at::Tensor& inputs, std::int64_t place);
  [[nodiscard]] std::int64_t batches() const;
  [[nodiscard]] bool words() const { return shape_.size() == 1; }

  const ImageSource& source_;
  std::vector<std::int64_t> shape_;
  LoaderOptions options_;
  std::vector<Slot> slots_;
  std::vector<std::int64_t> order_;
  std::uint64_t draw_seed_ = 0;
  std::vector<std::thread> threads_;
  std::vector<c10::Stream> streams_;
  std::mutex mutex_;
  std::condition_variable ready_, freed_;
  std::int64_t next_to_fill_ = 0;  // guarded by mutex_
  std::int64_t taken_ = 0;         // batches handed out; guarded by mutex_
  bool stopping_ = false;          // guarded by mutex_
  double waited_sec_ = 0;
};

}  // namespace perfpred
