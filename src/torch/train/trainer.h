// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/torch/net_trainer.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runs/run_log.h"
#include "torch/data/batch_loader.h"
#include "torch/step/training_step.h"
#include "torch/train/iteration_log.h"
#include "torch/train/training_data.h"
#include "torch/train/training_progress.h"

namespace perfpred {

/// A network on a device with its data: trained, evaluated and profiled as the options say.
class Trainer {
 public:
  using Message = std::function<void(const std::string&)>;
  using Stop = std::function<bool()>;

  /// Loads the weights or the checkpoint that the options name. Says nothing: whatever can be refused, is refused here.
  /// @throws InputError
  Trainer(TrainNetOptions options, TrainingData data, c10::Device device, Message message, Stop stop);

  void announce();  ///< the device and the notes about what was read

  void train();    ///< from where the checkpoint ends to the last epoch, or until it is stopped
  void test();     ///< scores the test part
  void profile();  ///< runs steps under NVTX ranges; a line on a CPU

  void abandon() { loader_.stop(); }  ///< ends the loader's threads

  [[nodiscard]] const TrainNetResult& result() const { return result_; }

 private:
  using Clock = std::chrono::steady_clock;

  void load_initial_weights();
  void prepare_training();
  void resume();
  void save(const std::string& name);
  void save_epochs() const;  ///< epochs.jsonl

  std::optional<Metrics> evaluate(const ImageSource& part);  ///< nothing if it was stopped
  TrainNetEpoch train_epoch();
  void record_means(TrainNetEpoch& epoch);  ///< of the images that were trained on
  void keep_finished();                     ///< writes the checkpoints of a training that was resumed at its end
  void finish_epoch(const TrainNetEpoch& epoch);
  void tell_replaced_pictures();
  bool show_progress();

  [[nodiscard]] int epoch() const { return progress_.epochs + 1; }  ///< under way, from 1
  [[nodiscard]] std::int64_t step() const {
    return progress_.epochs * steps_an_epoch_ + progress_.steps;
  }                                   ///< next one
  [[nodiscard]] double rate() const;  ///< learning rate of the next step
  /// Seconds since 1970; the system's clock is read once, so that setting it does not reverse the order of two times.
  [[nodiscard]] double time() const;
  [[nodiscard]] std::string place() const;
  /// The share of a batch in its update, of which so many images were seen before.
  [[nodiscard]] UpdateShare share_of(std::int64_t images, std::int64_t before) const;
  [[nodiscard]] bool out_of_steps() const { return options_.max_iters && steps_done_ >= *options_.max_iters; }
  [[nodiscard]] bool finished() const { return progress_.epochs >= options_.epochs; }
  [[nodiscard]] bool saves() const { return !options_.out_dir.empty(); }

  TrainNetOptions options_;
  TrainingData data_;
  c10::Device device_;
  Message message_;
  Stop stop_;
  BatchLoader loader_;  // of all parts of the data in turn, with two batches on the device in all
  TrainNetResult result_;
  std::unique_ptr<TrainingStep> step_;
  std::int64_t steps_an_epoch_ = 0, total_steps_ = 0;  // a step is an update
  std::int64_t steps_done_ = 0;                        // by this object
  TrainingProgress progress_;
  std::optional<Metrics> validated_;  // with the weights as they are
  std::optional<IterationLog> log_;   // if an epoch is left to train
  std::vector<LoggedEpoch> history_;  // epochs that the folder of checkpoints knows of
  bool saved_ = false;
  double logged_until_ = 0;  // time() of the last step
  std::chrono::system_clock::time_point made_at_ = std::chrono::system_clock::now();
  Clock::time_point made_ = Clock::now(), begin_, told_ = made_;
};

}  // namespace perfpred
