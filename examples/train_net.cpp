// SPDX-License-Identifier: Apache-2.0
// Trains, evaluates or profiles a network.
#include <perfpred/torch/net_trainer.h>

#include "cli.h"
#include "loss_options.h"
#include "measuring.h"

namespace perfpred::cli {
namespace {

using nlohmann::ordered_json;

struct TrainNetRequest {
  TrainNetOptions options;
  std::string loss = "cross_entropy", optimizer = "nesterov", precision, layout = "nchw";
  bool amp = false, json = false;

  void add_to(Program& program) {
    program.add_option("--network", options.network, "a CNN of the zoo (default cifar_resnet18)");
    add_data_options(program);
    program.add_option("--batch-size", options.batch_size, "default 128");
    program.add_flag("--amp", amp, "the same as --precision fp16");
    program.add_option("--precision", precision,
                       "fp32 (used if not given), tf32, default (PyTorch's own), bf16, fp16, fp64");
    program.add_option("--layout", layout, "nchw (default) or nhwc");
    program.add_option("--workers", options.workers, "threads that load images (default 2)");
    program.add_option("--threads", options.threads, "CPU threads that compute (default: all)");
    program.add_option("--seed", options.seed, "default 0");
    program.add_option("--device", options.device, "auto (default), cpu, cuda, cuda:1");
    program.add_flag("--json", json, "print one JSON document");
    CLI::Option* resume = program.add_option("--resume", options.resume,
                                             "a checkpoint to go on from, bit for bit; more --epochs extend it");
    program.add_option("--init", options.init, "weights to begin with: a checkpoint or a state dictionary")
        ->excludes(resume);
    CLI::Option* evaluate = program.add_flag("--evaluate", options.evaluate, "only evaluate");
    CLI::Option* profile =
        program.add_flag("--profile-one-step", options.profile_one_step, "run a step under NVTX ranges, then leave")
            ->excludes(evaluate);
    program.add_option("--profile-warmup", options.profile_warmup, "steps before it (default 20)")->needs(profile);
    program.add_option("--profile-iter", options.profile_iter, "steps under the ranges (default 1)")->needs(profile);
    add_loss_options(program, loss, options.loss);
    add_training_options(program, evaluate, profile);
  }

  /// The options as the library takes them. @throws InputError
  [[nodiscard]] TrainNetOptions parsed() const {
    if (amp && !precision.empty() && precision != "fp16")
      throw InputError("--amp is --precision fp16, not " + precision);
    TrainNetOptions asked = options;
    asked.precision = amp ? Precision::fp16 : parse_precision(precision.empty() ? "fp32" : precision);
    asked.optimizer = parse_optimizer(optimizer);
    asked.loss.kind = parse_loss_kind(loss);
    asked.layout = parse_layout(layout);
    return asked;
  }

 private:
  void add_data_options(Program& program) {
    program.add_option("--input", options.input, "one image, as 3x224x224 (default: the network's own)");
    program.add_option("--data", options.data,
                       "cifar10:PATH (archive or folder), imagefolder:DIR, generated (default) or dummy");
    program.add_option("--train-images", options.train_images, "of generated and dummy data (default 50000)");
    program.add_option("--classes", options.classes, "of generated and dummy data (default 10)");
    program.add_flag("--skip-corrupt", options.skip_corrupt, "of imagefolder: skip corrupt pictures");
    program.add_flag("--verify", options.verify, "of imagefolder: decode every picture before the first step");
  }

  /// An evaluation updates nothing; a profile runs steps, but no epochs.
  void add_training_options(Program& program, CLI::Option* evaluate, CLI::Option* profile) {
    for (CLI::Option* option :
         {program.add_option("--lr", options.learning_rate, "highest learning rate (default 0.1)"),
          program.add_option("--optimizer", optimizer, "nesterov (default), sgd, adam, adamw, ..."),
          program.add_option("--weight-decay", options.weight_decay, "default 5e-4"),
          program.add_option("--label-smoothing", options.loss.label_smoothing, "default 0")}) {
      option->excludes(evaluate);
    }
    CLI::Option* out_dir = program.add_option("--out-dir", options.out_dir,
                                              "folder of checkpoints (last, best, epoch_N), final weights and epochs");
    CLI::Option* log_file = program.add_option("--log-file", options.log_file, "CSV with the time of every iteration");
    for (CLI::Option* option :
         {program.add_option("--epochs", options.epochs, "default 1"),
          program.add_option("--accumulate", options.accumulate,
                             "batches whose gradients one optimizer step sums up (default 1)"),
          program.add_option("--warmup", options.warmup, "optimizer steps of linear warm-up, then cosine (default 0)"),
          program.add_option("--max-iters", options.max_iters, "stop after this many optimizer steps (default: all)"),
          out_dir,
          program
              .add_option("--save-every", options.save_every, "epochs between checkpoints epoch_N (default 0: none)")
              ->needs(out_dir),
          log_file,
          program.add_option("--warmup-iters", options.warmup_iters, "first iterations that the log leaves out")
              ->needs(log_file),
          program.add_option("--env", options.env, "column env of the log")->needs(log_file)}) {
      option->excludes(evaluate)->excludes(profile);
    }
  }
};

ordered_json document_of(const TrainNetResult& result) {
  ordered_json epochs = ordered_json::array();
  for (const TrainNetEpoch& e : result.epochs) {
    epochs.push_back({{"epoch", e.epoch},
                      {"sec", e.sec},
                      {"images_per_sec", e.images_per_sec},
                      {"data_wait_share", e.data_wait_share},
                      {"data_bound", e.data_bound},
                      {"train_loss", e.train_loss},
                      {"train_acc", e.train_acc},
                      {"val_loss", e.val_loss},
                      {"val_acc", e.val_acc}});
  }
  return {{"device", result.device},
          {"epochs", epochs},
          {"test_loss", or_null(result.test_loss)},
          {"test_acc", or_null(result.test_acc)},
          {"skipped_images", result.skipped_images}};
}

}  // namespace

int train_net_command(int argc, char** argv) {
  Program program("train-net",
                  "perfpred-train-net --network cifar_resnet18 --data cifar10:DIR --epochs 30 --amp --out-dir out");
  TrainNetRequest request;
  request.add_to(program);
  return program.run(argc, argv, [&] {
    begin_measuring(argv);
    const TrainNetOptions options = request.parsed();
    stop_on_signals();
    const TrainNetResult result = train_net(
        options, [](const std::string& line) { fmt::print(stderr, "{}\n", line); }, interrupted);
    if (request.json) fmt::print("{}\n", document_of(result).dump(2));
    if (result.stopped) throw Error("interrupted");
  });
}

}  // namespace perfpred::cli
