// SPDX-License-Identifier: Apache-2.0
#include "step/program.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <string>

#include "step/forward_pass.h"
#include "step/graph_folder.h"
#include "step/op_rules.h"
#include "step/parts_needed.h"
#include "step/record_file.h"
#include "step/step_builder.h"
#include "text/parse.h"
#include "workload/rank_network.h"
#include "workload/workload_columns.h"
#include "workload/world.h"

namespace perfpred {
namespace {

[[noreturn]] void refuse(const Workload& training, const std::string& why) {
  throw InputError(fmt::format("network {} {}", shown(training.network), why));
}

/// @throws InputError for a field that contradicts a captured step, or that has no effect on it
void check_fits(const StepFile& file, const Workload& training) {
  const Precision known = file.precision();
  if (known != training.precision && known != Precision::unknown && training.precision != Precision::unknown) {
    refuse(training, fmt::format("was captured in {}, not in {}", to_string(known), to_string(training.precision)));
  }
  if (file.layout() != training.layout) {
    refuse(training,
           fmt::format("was captured in {}, not in {}", to_string(file.layout()), to_string(training.layout)));
  }
  for (const WorkloadColumn& column : workload_columns()) {
    if (!column.usual || !column.of_network || column.get(training) == column.usual) continue;
    refuse(training, fmt::format("is a file's: {} {} has no effect on it", column.name, column.get(training)));
  }
}

}  // namespace

Program::Program(const NetworkName& network) : is_captured_(is_captured_step(network)) {
  if (is_captured_) file_ = find_graph(network);
  if (is_recorded(network)) record_ = find_record(network);
}

OpGraph Program::step(const Workload& training) const {
  if ((is_captured_ || record_ != nullptr) && splits_network(training.parallel))
    (void)split_transformer(training);  // says that it cannot be
  if (training.phases == Phases::forward) {
    Workload whole = training;
    whole.phases = Phases::all;
    return forward_pass(step(whole));
  }
  if (record_ != nullptr) {
    OpGraph step = recorded_step(*record_, training);
    if (training.layout == Layout::nhwc) step.set_layout(Layout::nhwc);  // else it has that of what was recorded
    return step;
  }
  if (!is_captured_) {
    return training_step(build_network(training),
                         {training.optimizer, training.precision, training.optimizer_impl, training.layout,
                          training.weights, training.checkpoint, training.accumulate, training.loss});
  }
  if (!file_) {
    refuse(training, "is a file's: its graph is not in a folder that was named (--graphs, add_graphs())");
  }
  check_fits(*file_, training);
  OpGraph step = file_->graph(training.batch_size);
  step.set_layout(training.layout);
  return step;
}

std::int64_t Program::batches(const Workload& training) const {
  if (!is_captured_) return training.accumulate;
  return file_ ? file_->batches() : 1;
}

std::int64_t Program::positions(const Workload& training) const {
  if (is_captured_) return file_ ? file_->positions() : 0;
  return training.input.size() == 1 ? training.input.front() : 0;
}

Workload Program::set_up(Workload training) {
  const std::optional<StepFile> file = Program(training.network).file_;
  if (!file) return training;
  if (file->precision() != Precision::unknown) training.precision = file->precision();
  training.layout = file->layout();
  return training;
}

std::int64_t Program::params(const Workload& training) const {
  return is_captured_ || record_ != nullptr ? step(training).params() : build_network(training).params();
}

std::uint64_t Program::version(const NetworkName& network) {
  return is_captured_step(network) || is_recorded(network) ? rule_changes() : 0;
}

OpGraph Workload::graph() const { return Program(network).step(*this); }

std::int64_t Workload::params() const {
  validate();
  if (depth()) return cifar_cnn_params(*this);
  return Program(network).params(on_one_device(*this));
}

std::int64_t Workload::steps_per_epoch() const {
  if (batch_size < 1) throw InputError(fmt::format("batch_size {} is not positive", batch_size));
  const std::int64_t updates = parts_needed(parts_needed(train_images, batch_size), Program(network).batches(*this));
  return parts_needed(updates, replicas_of(*this));
}

}  // namespace perfpred
