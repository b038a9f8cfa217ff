// SPDX-License-Identifier: Apache-2.0
#include "step/kept_steps.h"

#include <perfpred/error.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "step/program.h"
#include "step/step_growth.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

/// Of all steps that a thread keeps beside the last one, at 400 bytes an operator: all networks of the zoo.
constexpr std::size_t max_kept_ops = 150'000;

/// A workload without the fields that its step does not depend on. The step of one sample may have other operators than
/// those of several (lower_attention.cpp), and so has an update of one batch; more batches repeat the same ones.
Workload what_is_executed(Workload workload) {
  static const Workload usual;
  workload.batch_size = std::min<std::int64_t>(workload.batch_size, 2);
  workload.accumulate = std::min<std::int64_t>(workload.accumulate, 2);
  workload.train_images = usual.train_images;
  workload.device = usual.device;
  workload.threads = usual.threads;
  workload.cuda_graph = usual.cuda_graph;
  workload.loader = usual.loader;
  return workload;
}

/// DeviceKind::other asks for the graph as it is written.
Compiler compiler_for(const Workload& workload, DeviceKind device) {
  return device == DeviceKind::other ? Compiler::none : compiler_of(workload);
}

class KeptStep {
 public:
  KeptStep(Workload executed, Program program, std::uint64_t version, std::int64_t batch, ExecutedStep step)
      : executed_(std::move(executed)),
        program_(std::move(program)),
        version_(version),
        device_(step.device()),
        batch_(batch),
        step_(std::make_shared<ExecutedStep>(std::move(step))) {}

  [[nodiscard]] bool is_of(const Workload& executed, std::uint64_t version, DeviceKind device) const {
    return device_ == device && version_ == version && executed_ == executed;
  }

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] bool is_of(const NetworkName& network, std::uint64_t version) const {
    return version_ == version && executed_.network == network;
  }

  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] const OpGraph& graph() const { return step_->graph(); }

  [[nodiscard]] std::shared_ptr<const ExecutedStep> of(const Workload& asked) {
    repeat(asked);
    if (asked.batch_size == batch_) return step_;
    if (!was_compared_) {
      was_compared_ = true;
      try {
        find_growth(asked);
      } catch (const InputError&) {  // a step that was captured at one batch size, or has no other as near or as far
        growth_.reset();
      }
    }
    if (growth_ && asked.batch_size <= largest_) {
      asked.validate();
      own();
      growth_->resize(*step_, asked.batch_size);
    } else {
      step_ = std::make_shared<ExecutedStep>(made(asked, asked.batch_size));
    }
    batch_ = asked.batch_size;
    return step_;
  }

 private:
  /// Makes it a copy if somebody else has it.
  void own() {
    if (step_.use_count() > 1) step_ = std::make_shared<ExecutedStep>(*step_);
  }

  void repeat(const Workload& asked) {
    if (!program_.can_accumulate() || step_->graph().repeats() == asked.accumulate) return;
    asked.validate();
    own();
    StepGrowth::repeat(*step_, asked.accumulate);
  }

  [[nodiscard]] ExecutedStep made(Workload asked, std::int64_t batch) const {
    asked.batch_size = batch;
    return execute(program_.step(asked), device_, compiler_for(asked, device_));
  }

  /// Some sizes are in proportion to the batch but for rounding up to whole blocks. What is in proportion at two batch
  /// sizes in a row has whole blocks for each sample; if it still is at a far larger one, nothing was rounded.
  void find_growth(const Workload& asked) {
    constexpr std::int64_t far = 1'000'000'007;  // a prime, more than devices hold of all but tiny steps
    if (batch_ >= far) return;
    const std::int64_t near = batch_ > 2 ? batch_ - 1 : batch_ + 1;
    std::optional<StepGrowth> growth = StepGrowth::between(*step_, batch_, made(asked, near), near);
    if (!growth) return;
    largest_ = std::min(far, growth->largest());
    if (largest_ > batch_ && StepGrowth::between(*step_, batch_, made(asked, largest_), largest_) == growth) {
      growth_ = std::move(growth);
    }
  }

  Workload executed_;
  Program program_;
  std::uint64_t version_;
  DeviceKind device_;
  std::int64_t batch_;
  std::shared_ptr<ExecutedStep> step_;
  bool was_compared_ = false;         // with steps of other sizes
  std::optional<StepGrowth> growth_;  // up to largest_
  std::int64_t largest_ = 0;
};

/// The last used first.
std::vector<KeptStep>& kept_steps() {
  thread_local std::vector<KeptStep> kept;
  return kept;
}

/// The program of a network, of which a step may be kept.
Program program_of(const NetworkName& network, std::uint64_t version) {
  const std::vector<KeptStep>& kept = kept_steps();
  const auto known = std::ranges::find_if(kept, [&](const KeptStep& one) { return one.is_of(network, version); });
  return known != kept.end() ? known->program() : Program(network);
}

}  // namespace

std::shared_ptr<const ExecutedStep> executed_step(const Workload& workload, DeviceKind device) {
  std::vector<KeptStep>& kept = kept_steps();
  Workload executed = what_is_executed(workload);
  const std::uint64_t version = Program::version(workload.network);
  const auto find = [&](DeviceKind on) {
    return std::find_if(kept.begin(), kept.end(),
                        [&](const KeptStep& one) { return one.is_of(executed, version, on); });
  };
  if (const auto found = find(device); found != kept.end()) {
    std::rotate(kept.begin(), found, found + 1);
    return kept.front().of(workload);
  }
  const auto written = find(DeviceKind::other);
  const bool is_written = written != kept.end() && written->batch() == workload.batch_size;
  Program program = program_of(workload.network, version);
  ExecutedStep step =
      execute(is_written ? written->graph() : program.step(workload), device, compiler_for(workload, device));
  kept.insert(kept.begin(),
              KeptStep(std::move(executed), std::move(program), version, workload.batch_size, std::move(step)));
  // The one that was asked for comes beside them; if it is larger than all of them may be, it takes their room.
  std::size_t ops = std::max(kept.front().graph().ops().size(), max_kept_ops) - max_kept_ops;
  const auto beyond = std::find_if(kept.begin() + 1, kept.end(), [&](const KeptStep& one) {
    return (ops += one.graph().ops().size()) > max_kept_ops;
  });
  kept.erase(beyond, kept.end());
  return kept.front().of(workload);
}

}  // namespace perfpred
