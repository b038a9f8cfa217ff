// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>
#include <perfpred/torch/device_error.h>
#include <perfpred/torch/loss.h>
#include <perfpred/vocabulary.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// Options of train_net(): network, data, training, files.
struct TrainNetOptions {
  std::string network = "cifar_resnet18";    ///< of the zoo; it takes images and has fixed hyper-parameters
  std::string input;                         ///< "3x224x224"; empty: the network's own, 3x32x32 for CIFAR-10
  std::string data = "generated";            ///< `cifar10:DIR`, `imagefolder:DIR`, `generated`, `dummy`
  std::optional<std::int64_t> train_images;  ///< of generated and dummy data; default 50,000
  std::optional<std::int64_t> classes;       ///< of generated and dummy data; default 10
  bool skip_corrupt = false;                 ///< of `imagefolder`: skip corrupt pictures instead of refusing them
  bool verify = false;                       ///< of `imagefolder`: decode every picture before the first step
  int epochs = 1;
  std::int64_t batch_size = 128;
  std::int64_t accumulate = 1;  ///< batches whose gradients one update of the parameters sums up
  double learning_rate = 0.1;
  std::int64_t warmup = 0;  ///< optimizer steps in which the rate grows linearly; then it falls as a cosine
  Loss loss;                ///< label smoothing below 1
  double weight_decay = 5e-4;
  Optimizer optimizer = Optimizer::nesterov;
  Precision precision = Precision::fp32;
  Layout layout = Layout::nchw;
  int workers = 2;             ///< threads that load images
  std::optional<int> threads;  ///< of a CPU
  std::uint64_t seed = 0;
  std::string device = "auto";
  /// Folder of the checkpoints last.pt, best.pt, epoch_N.pt, of final.pt (a state dictionary of the weights alone) and
  /// of epochs.jsonl (the epochs, as in the log of a run); empty: none. Only a resumed training may go into a folder
  /// that has one of these checkpoints or weights.
  std::string out_dir;
  int save_every = 0;     ///< epochs between the checkpoints epoch_N.pt; 0: none
  std::string resume;     ///< checkpoint to go on from; an evaluation or a profile takes its weights only
  std::string init;       ///< file of the first weights
  bool evaluate = false;  ///< evaluate, do not train
  std::optional<std::int64_t> max_iters;  ///< stop after this many updates
  std::int64_t warmup_iters = 0;          ///< first updates that the iteration log leaves out
  std::string log_file;                   ///< iteration log (CSV)
  std::string env;                        ///< column `env` of the iteration log
  bool profile_one_step = false;
  int profile_warmup = 20;
  int profile_iter = 1;
};

/// One epoch. Losses and accuracies are means over its images; accuracies and shares are fractions.
struct TrainNetEpoch {
  int epoch = 0;
  double sec = 0;  ///< wall time of the training steps, without validation
  double images_per_sec = 0;
  double data_wait_share = 0;  ///< share of `sec` spent waiting for images
  bool data_bound = false;     ///< that share is above 0.1
  double train_loss = 0, train_acc = 0, val_loss = 0, val_acc = 0;
};

struct TrainNetResult {
  std::string device;  ///< the device's name
  std::vector<TrainNetEpoch> epochs;
  /// Of the test part, or of the validation part if the data have no test part; empty if it was stopped before.
  std::optional<double> test_loss, test_acc;
  std::int64_t skipped_images = 0;  ///< corrupt pictures that were left out or replaced
  bool stopped = false;             ///< `stop` returned true
};

/// Trains a network, or evaluates or profiles it. Empty functions are not called. A training resumed from a checkpoint,
/// also inside an epoch, goes on bit for bit as if it had not been interrupted; one resumed with more epochs follows
/// the schedule of all of them.
/// @param message  gets lines for the user: the device, progress with the time left, epochs
/// @param stop     asked after every update, before every batch of an evaluation, and while pictures are checked; if it
///                 returns true, the training ends and last.pt is written
/// @throws InputError for options, data or checkpoints that do not fit, DeviceError, OutOfMemory
[[nodiscard]] PERFPRED_API TrainNetResult train_net(
    const TrainNetOptions& options, const std::function<void(const std::string&)>& message = [](const std::string&) {},
    const std::function<bool()>& stop = [] { return false; });

}  // namespace perfpred
