// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>
#include <perfpred/vocabulary.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// What train_net() trains, on what, and how.
struct TrainNetOptions {
  std::string network = "cifar_resnet18";  ///< of the zoo; with fixed hyper-parameters and images as input
  std::string torchscript;                 ///< a user's own module instead
  std::string input;                       ///< "3x224x224"; the network's own where empty, 3x32x32 for CIFAR-10
  std::string data = "generated";          ///< `cifar10:DIR`, `imagefolder:DIR`, `generated`, `dummy`
  std::int64_t train_images = 50'000;      ///< of generated and dummy data
  std::optional<std::int64_t> classes;     ///< of generated and dummy data; 10 where empty
  bool skip_corrupt = false;               ///< pictures that do not decode are left out instead of refused
  int epochs = 1;
  std::int64_t batch_size = 128;
  double learning_rate = 0.1;
  std::int64_t warmup = 0;  ///< optimizer steps in which the rate grows linearly; then it falls as a cosine
  double label_smoothing = 0;
  double weight_decay = 5e-4;
  Optimizer optimizer = Optimizer::nesterov;
  Precision precision = Precision::fp32;
  Layout layout = Layout::nchw;
  int workers = 2;             ///< threads that load images
  std::optional<int> threads;  ///< of a CPU
  std::uint64_t seed = 0;
  std::string device = "auto";
  std::string out_dir;    ///< checkpoints: last.pt, best.pt, epoch_N.pt, final.pt; none where empty
  int save_every = 0;     ///< epochs between the periodic ones; 0 for none
  std::string resume;     ///< a checkpoint to go on from; only its weights are taken where nothing is trained
  std::string init;       ///< weights to begin with
  bool evaluate = false;  ///< only evaluate
  std::optional<std::int64_t> max_iters;  ///< steps after which it ends, at least 1
  std::int64_t warmup_iters = 0;          ///< first steps that the iteration log leaves out
  std::string log_file;                   ///< iteration log (CSV)
  std::string env;                        ///< its tag
  bool profile_one_step = false;
  int profile_warmup = 20;
  int profile_iter = 1;
};

/// One epoch's means; fractions, seconds.
struct TrainNetEpoch {
  int epoch = 0;
  double sec = 0;  ///< of its training steps
  double images_per_sec = 0;
  double data_wait_share = 0;  ///< of sec, spent waiting for images
  bool data_bound = false;     ///< more than a tenth
  double train_loss = 0, train_acc = 0, val_loss = 0, val_acc = 0;
};

struct TrainNetResult {
  std::string device;  ///< its name
  std::vector<TrainNetEpoch> epochs;
  std::optional<double> test_loss,
      test_acc;  ///< after the last epoch, or of `evaluate`; of the validation part where there is no other
  std::int64_t skipped_images = 0;
  bool stopped = false;
};

/// Trains a network, or evaluates or profiles it. What is resumed from a checkpoint, also inside an epoch, is bit for
/// bit what would have followed.
/// @param message  gets a line now and then: the device, progress with the time left, epochs
/// @param stop     asked after every step and before every batch of an evaluation; true ends the training, last.pt is
///                 written
/// @throws InputError for options, data or checkpoints that do not fit, DeviceError, OutOfMemory
[[nodiscard]] PERFPRED_API TrainNetResult train_net(const TrainNetOptions& options,
                                                    const std::function<void(const std::string&)>& message,
                                                    const std::function<bool()>& stop);

}  // namespace perfpred
