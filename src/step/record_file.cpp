// SPDX-License-Identifier: Apache-2.0
#include "step/record_file.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "step/step_content.h"
#include "step/step_json.h"
#include "step/step_writer.h"
#include "text/json.h"
#include "text/xz.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

using nlohmann::json;
using step_json::JsonPlace;

/// Of a captured step what it updates.
struct Updated {
  std::uint32_t parameter = 0, gradient = 0;  // indices of tensors
  bool is_hidden_matrix = false;
};

struct RecordedStep {
  StepContent content;
  std::vector<Updated> updates;
};

/// Makes the parameters the first tensors, in the order of the updates, which is that of the network: they are in
/// memory before anything else, and what the allocator keeps depends on it.
void put_parameters_first(RecordedStep& step) {
  std::vector<StepTensor>& tensors = step.content.tensors;
  std::vector<std::uint32_t> places(tensors.size(), no_tensor);
  std::vector<StepTensor> ordered;
  ordered.reserve(tensors.size());
  const auto put = [&](std::uint32_t tensor) {
    if (places[tensor] != no_tensor) return;
    places[tensor] = static_cast<std::uint32_t>(ordered.size());
    ordered.push_back(std::move(tensors[tensor]));
  };
  for (const Updated& updated : step.updates) put(updated.parameter);
  for (std::uint32_t tensor = 0; tensor < tensors.size(); ++tensor) put(tensor);
  tensors = std::move(ordered);
  const auto move = [&](std::uint32_t& tensor) { tensor = tensor == no_tensor ? tensor : places[tensor]; };
  for (StepOp& op : step.content.ops) {
    std::ranges::for_each(op.inputs, move);
    std::ranges::for_each(op.outputs, move);
  }
  for (Updated& updated : step.updates) {
    move(updated.parameter);
    move(updated.gradient);
  }
}

/// Numbers that are written as how far back they are: up to `near` from the newest, else from the last one that was far
/// (scripts/records/packing.py).
class References {
 public:
  std::int64_t count = 0;

  /// @throws InputError if there is none so far back
  std::uint32_t at(std::int64_t back, const JsonPlace& place) {
    constexpr std::int64_t near = 32;
    std::int64_t number = count - back;
    if (back > near) {
      const std::int64_t apart = back - near - 1;
      number = last_far_ += apart % 2 == 0 ? apart / 2 : -(apart + 1) / 2;
    }
    if (back < 1 || number < 0 || number >= count) place.refuse(fmt::format("there is none {} back", back));
    return static_cast<std::uint32_t>(number);
  }

 private:
  std::int64_t last_far_ = 0;
};

/// A list of numbers, one after the other.
class Numbers {
 public:
  Numbers(const json& step, const char* key, const JsonPlace& place)
      : place_(place.in(key)), all_(step_json::list(step, key, place)) {}

  [[nodiscard]] bool at_end() const { return next_ == all_.size(); }
  [[nodiscard]] const JsonPlace& place() const { return place_; }

  std::int64_t next(std::int64_t least, std::int64_t most = Shape::max_numel) {
    if (at_end()) place_.refuse("is too short");
    return step_json::integer(all_[next_++], place_, least, most);
  }
  std::size_t index(std::size_t count) {
    return static_cast<std::size_t>(next(0, static_cast<std::int64_t>(count) - 1));
  }

 private:
  JsonPlace place_;
  const json& all_;
  std::size_t next_ = 0;
};

/// Reads one of a record's steps.
class StepReader {
 public:
  /// @param head  the record's first line
  StepReader(const json& head, const JsonPlace& place) : layers_(step_json::texts(head, "layers", place)) {
    const json& kinds = step_json::list(head, "kinds", place);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      kinds_.push_back(step_json::tensor_of(kinds[i], place.at("kinds", i)));
    }
    const json& calls = step_json::list(head, "calls", place);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const JsonPlace here = place.at("calls", i);
      Numbers operands(calls[i], "operands", here);
      calls_.push_back(
          {step_json::op_of(calls[i], here), operands.next(0, most_operands), operands.next(0, most_operands)});
    }
  }

  /// @param described  the step in the record's first line; step  its own line
  RecordedStep read(const json& described, const json& step, const JsonPlace& place) {
    StepContent& content = read_.content;
    content.path = place.text();
    step_json::read_head(content, described, place);
    content.layers = layers_;
    read_tensors(step, place);
    read_ops(step, place);
    for (Numbers all(step, "updates", place); !all.at_end();) {
      const std::size_t parameter = all.index(content.tensors.size()), gradient = all.index(content.tensors.size());
      read_.updates.push_back(
          {static_cast<std::uint32_t>(parameter), static_cast<std::uint32_t>(gradient), all.next(0, 1) == 1});
    }
    content.layout = content.layout_of_images();
    put_parameters_first(read_);
    return std::move(read_);
  }

 private:
  static constexpr std::int64_t most_operands = 65'535;

  struct Call {
    StepOp op;
    std::int64_t inputs, outputs;
  };

  void read_tensors(const json& step, const JsonPlace& place) {
    StepContent& content = read_.content;
    References storages;
    std::vector<double> reached;
    for (Numbers all(step, "tensors", place); !all.at_end();) {
      StepTensor tensor = kinds_[all.index(kinds_.size())];
      const std::int64_t back = all.next(0);
      tensor.storage = back == 0 ? static_cast<std::uint32_t>(storages.count++) : storages.at(back, all.place());
      reached.resize(static_cast<std::size_t>(storages.count));
      reached[tensor.storage] = std::max(reached[tensor.storage], extent_of(tensor));
      storages_before_.push_back(storages.count);
      content.tensors.push_back(std::move(tensor));
    }
    for (const double bytes : reached) content.storages.push_back(static_cast<std::int64_t>(bytes));
    for (Numbers all(step, "bytes", place); !all.at_end();) {
      const std::size_t storage = all.index(content.storages.size());
      content.storages[storage] = all.next(0);
    }
  }

  void read_ops(const json& step, const JsonPlace& place) {
    std::int64_t layer = -1;
    for (Numbers all(step, "ops", place); !all.at_end();) {
      const Call& call = calls_[all.index(calls_.size())];
      StepOp op = call.op;
      layer += all.next(-Shape::max_numel);
      if (layer < -1 || layer >= static_cast<std::int64_t>(layers_.size()))
        all.place().refuse(fmt::format("there is no layer {}", layer));
      op.layer = static_cast<std::int32_t>(layer);
      for (std::int64_t i = 0; i < call.inputs; ++i) op.inputs.push_back(read_operand(all));
      for (std::int64_t i = 0; i < call.outputs; ++i) op.outputs.push_back(read_operand(all));
      for (std::int64_t left = all.next(0, most_operands); left > 0; --left) {
        op.frees.push_back(freed_.at(all.next(0), all.place()));
      }
      read_.content.ops.push_back(std::move(op));
    }
  }

  /// 0: none; 1: the next new tensor; else one that was there.
  std::uint32_t read_operand(Numbers& all) {
    const std::int64_t code = all.next(0);
    if (code == 0) return no_tensor;
    if (code > 1) return operands_.at(code - 1, all.place());
    if (operands_.count >= static_cast<std::int64_t>(read_.content.tensors.size()))
      all.place().refuse("has more operands than there are tensors");
    const auto index = static_cast<std::uint32_t>(operands_.count++);
    freed_.count = storages_before_[index];
    return index;
  }

  std::vector<std::string> layers_;
  std::vector<StepTensor> kinds_;
  std::vector<Call> calls_;
  RecordedStep read_;
  std::vector<std::int64_t> storages_before_;  // of each tensor: storages of those up to it
  References operands_, freed_;
};

/// The line number `number`, from 0, of a text. @throws InputError if there are fewer
std::string_view line_of(std::string_view text, std::size_t number, const JsonPlace& place) {
  for (;; --number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) place.refuse("has too few lines");
    if (number == 0) return text.substr(0, end);
    text.remove_prefix(end + 1);
  }
}

json line_as_json(std::string_view text, std::size_t number, const JsonPlace& place) {
  json read = parse_json<json>(line_of(text, number, place));
  if (!read.is_object()) place.refuse(fmt::format("line {} is not a JSON object", number + 1));
  return read;
}

/// Which of a record's steps a workload takes.
struct Choice {
  std::string input, form;
  std::int64_t batch = 0;  // 0: all are in one step
  bool in_fp16 = false;    // as the recorded one in bf16
};

[[noreturn]] void refuse(const Record& record, const std::string& why) {
  throw InputError(fmt::format("network {} {}; perfpred.capture records a step of your own", record.name, why));
}

/// @throws InputError for a precision that no record has
Choice choice_of(const Record& record, const Workload& training) {
  Choice choice{shape_text(training.input), "fp32"};
  if (!record.batches.empty()) choice.batch = training.batch_size;
  if (training.precision == Precision::fp64) refuse(record, "was not recorded in fp64");
  if (training.weights == Weights::bf16 || training.weights == Weights::fp16) {
    choice.form = "half";
    choice.in_fp16 = training.weights == Weights::fp16;
  } else if (is_half(training.precision)) {
    choice.form = "autocast";
    choice.in_fp16 = training.precision == Precision::fp16;
  }
  return choice;
}

RecordedStep read_step(const Record& record, const Choice& choice) {
  const std::string text = read_xz(record.file);
  const JsonPlace place(record.file);
  const json head = line_as_json(text, 0, place);
  const json& format = step_json::member(head, "format", place);
  if (!format.is_number_integer() || format != 2) place.refuse("is not a record of format 2");
  const json& steps = step_json::list(head, "steps", place);
  std::vector<std::string> inputs, batches;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const JsonPlace here = place.at("steps", i);
    if (step_json::text(steps[i], "form", here) != choice.form) continue;
    inputs.push_back(step_json::text(steps[i], "input", here));
    if (inputs.back() != choice.input) continue;
    if (choice.batch != 0) {
      const std::int64_t size =
          step_json::integer(step_json::member(steps[i], "batch_size", here), here, 1, Shape::max_numel);
      batches.push_back(std::to_string(size));
      if (size != choice.batch) continue;
    }
    RecordedStep step = StepReader(head, place).read(steps[i], line_as_json(text, i + 1, place), here);
    if (!choice.in_fp16) return step;
    for (StepTensor& tensor : step.content.tensors) {
      if (tensor.type == DataType::bf16) tensor.type = DataType::f16;
    }
    return step;
  }
  if (inputs.empty())
    refuse(record, fmt::format("was not recorded with weights in {}", choice.in_fp16 ? "fp16" : "bf16"));
  if (!batches.empty())
    refuse(record, fmt::format("was recorded with batches of {}, not {}", fmt::join(batches, ", "), choice.batch));
  refuse(record, fmt::format("was recorded with input {}, not {}", fmt::join(inputs, " and "), choice.input));
}

/// Steps that were read last, the last one used first.
class StepsRead {
 public:
  std::shared_ptr<const RecordedStep> get(const Record& record, const Choice& choice) {
    const std::string key =
        fmt::format("{} {} {} {} {}", record.file, choice.input, choice.form, choice.batch, choice.in_fp16);
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(read_.begin(), read_.end(), [&](const auto& one) { return one.first == key; });
    if (found != read_.end()) {
      read_.splice(read_.begin(), read_, found);
    } else {
      read_.emplace_front(key, std::make_shared<const RecordedStep>(read_step(record, choice)));
      drop_beyond();
    }
    return read_.front().second;
  }

 private:
  void drop_beyond() {
    constexpr std::size_t most_ops = 100'000;  // of all but the last one, at some 500 bytes each
    std::size_t ops = 0;
    const auto beyond = std::find_if(std::next(read_.begin()), read_.end(), [&](const auto& one) {
      return (ops += one.second->content.ops.size()) > most_ops;
    });
    read_.erase(beyond, read_.end());
  }

  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<const RecordedStep>>> read_;
};

/// A recorded step, to which an optimizer's update is added.
class RecordWriter : public StepWriter {
 public:
  RecordWriter(const RecordedStep& step, std::int64_t batch_size) {
    std::vector<TensorId> ids;
    graph_ = step.content.graph(batch_size, ids);
    for (const Updated& updated : step.updates) {
      parameters_.push_back(ids[updated.parameter]);
      gradients_.push_back(ids[updated.gradient]);
      is_hidden_matrix_.push_back(updated.is_hidden_matrix);
    }
    phase_ = Phase::backward;
  }

  [[nodiscard]] OpGraph updated_by(const Workload& training) {
    const std::size_t ops = graph_.ops().size(), tensors = graph_.tensors().size();
    if (training.precision == Precision::fp16 && training.weights == Weights::as_precision) {
      declare_scaler();
      const TensorId loss = graph_.add_tensor({}, DataType::f32, TensorRole::temporary);
      (void)scale_loss(scale_loss(loss));  // the loss, and where its gradient begins
    }
    update(training.optimizer, training.optimizer_impl);
    free_temporaries(ops, tensors);
    return std::move(graph_);
  }

 private:
  /// Memory of a graph that says what it frees lives on where it does not say so.
  void free_temporaries(std::size_t first_op, std::size_t first_tensor) {
    std::vector<std::size_t> last_use(graph_.tensors().size(), 0);
    const auto note = [&](std::span<const TensorId> operands, std::size_t op) {
      for (const TensorId id : operands) {
        if (id != no_tensor) last_use[graph_.tensors()[id].storage] = op;
      }
    };
    for (std::size_t op = first_op; op < graph_.ops().size(); ++op) {
      note(graph_.inputs(graph_.ops()[op]), op);
      note(graph_.outputs(graph_.ops()[op]), op);
    }
    std::vector<std::pair<std::size_t, TensorId>> frees;
    for (auto id = static_cast<TensorId>(first_tensor); id < graph_.tensors().size(); ++id) {
      const Tensor& tensor = graph_.tensors()[id];
      if (tensor.storage == id && tensor.role == TensorRole::temporary && last_use[id] > 0)
        frees.emplace_back(last_use[id], id);
    }
    std::sort(frees.begin(), frees.end());
    for (const auto& [op, id] : frees) graph_.set_freed_after(id, op);
  }
};

/// @throws InputError for a field that a recorded step has not
void check_fits(const Record& record, const Workload& training) {
  if (record.classes > 0 && training.classes != record.classes)
    refuse(record, fmt::format("was recorded with {} classes, not {}", record.classes, training.classes));
  for (const WorkloadColumn& column : workload_columns()) {
    const bool is_of_update = column.name == "optimizer_impl";
    const bool is_type = column.name == "weights" && training.weights < Weights::nf4;
    if (!column.usual || !column.of_network || is_of_update || is_type) continue;
    if (const std::string value = column.get(training); value != column.usual)
      refuse(record, fmt::format("was recorded without {} {}", column.name, value));
  }
}

}  // namespace

OpGraph recorded_step(const Record& record, const Workload& training) {
  training.validate();
  check_fits(record, training);
  static StepsRead steps;
  return RecordWriter(*steps.get(record, choice_of(record, training)), training.batch_size).updated_by(training);
}

}  // namespace perfpred
