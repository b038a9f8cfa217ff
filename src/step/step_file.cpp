// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "step/op_rules.h"
#include "step/step_content.h"
#include "step/step_json.h"
#include "text/files.h"
#include "text/json.h"
#include "text/text_hash.h"
#include "workload/workload_columns.h"

namespace perfpred {

using step_json::JsonPlace;

struct __attribute__((visibility("hidden"))) StepFile::Content : StepContent {
  using json = nlohmann::json;
  std::string name;

  /// @param file  stands in front of messages
  Content(const std::string& file, const std::string& digits, const json& document) : name(captured_step_name(digits)) {
    path = file;
    const JsonPlace place(file);
    const json& format = step_json::member(document, "format", place);
    if (!format.is_number_integer() || format != 1) place.refuse("is not a step file of format 1");
    read_head(*this, document, place);
    layers = step_json::texts(document, "layers", place);
    read_storages(step_json::list(document, "storages", place), place);
    const json& all_tensors = step_json::list(document, "tensors", place);
    for (std::size_t i = 0; i < all_tensors.size(); ++i) read_tensor(all_tensors[i], place.at("tensors", i));
    const json& all_ops = step_json::list(document, "ops", place);
    if (all_ops.empty()) place.in("ops").refuse("is empty");
    for (std::size_t i = 0; i < all_ops.size(); ++i) read_op(all_ops[i], place.at("ops", i));
    (void)graph(batch_size);  // finds what does not fit
    layout = layout_of_images();
  }

  void read_storages(const json& all, const JsonPlace& place) {
    double sum = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const JsonPlace here = place.at("storages", i);
      storages.push_back(
          step_json::integer(step_json::member(all[i], "bytes", here), here.in("bytes"), 0, Shape::max_numel * 8));
      sum += static_cast<double>(storages.back());
    }
    if (sum > max_step_bytes) place.in("storages").refuse("are together too large for any device");
  }

  void read_tensor(const json& from, const JsonPlace& place) {
    StepTensor tensor = step_json::tensor_of(from, place);
    const std::int64_t storage =
        step_json::integer(step_json::member(from, "storage", place), place.in("storage"), 0, no_tensor - 1);
    if (storage >= static_cast<std::int64_t>(storages.size()))
      place.in("storage").refuse(fmt::format("there is no {}", storage));
    tensor.storage = static_cast<std::uint32_t>(storage);
    tensors.push_back(std::move(tensor));
  }

  void read_op(const json& from, const JsonPlace& place) {
    StepOp op = step_json::op_of(from, place);
    op.inputs = step_json::indices(from, "inputs", place, tensors.size(), false);
    op.outputs = step_json::indices(from, "outputs", place, tensors.size(), true);
    if (from.contains("frees")) op.frees = step_json::indices(from, "frees", place, storages.size(), false);
    if (from.contains("layer")) {
      op.layer = static_cast<std::int32_t>(
          step_json::integer(from["layer"], place.in("layer"), -1, std::numeric_limits<std::int32_t>::max()));
      if (op.layer >= static_cast<std::int64_t>(layers.size()))
        place.in("layer").refuse(fmt::format("there is no {}", op.layer));
    }
    ops.push_back(std::move(op));
  }
};

StepFile::StepFile(const std::string& path) : StepFile(from_text(read_file(path), path)) {}

StepFile::StepFile(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

StepFile StepFile::from_text(std::string_view text, const std::string& place) {
  return StepFile(std::make_shared<const Content>(place, text_hash(text), read_json_text<nlohmann::json>(text, place)));
}

const std::string& StepFile::name() const { return content_->name; }
std::int64_t StepFile::batch_size() const { return content_->batch_size; }
std::int64_t StepFile::batches() const { return content_->batches * content_->accumulate; }
Precision StepFile::precision() const { return content_->precision; }
Layout StepFile::layout() const { return content_->layout; }
bool StepFile::compiled() const { return content_->compiled; }
const std::vector<std::string>& StepFile::notes() const { return content_->notes; }

std::vector<std::int64_t> StepFile::sample() const {
  for (const StepTensor& tensor : content_->tensors) {
    const std::vector<std::int64_t>& sizes = tensor.sizes.values;
    if (tensor.role == TensorRole::input && !sizes.empty()) return {sizes.begin() + 1, sizes.end()};
  }
  return {};
}

std::int64_t StepFile::positions() const {
  for (const StepOp& op : content_->ops) {
    if (op.free || op.kind != OpKind::embedding || op.inputs.size() < 2) continue;
    const StepTensor& words = content_->tensors[op.inputs[1]];
    const std::vector<std::int64_t>& sizes = words.sizes.values;
    if (sizes.size() == 2 && sizes[0] == content_->batch_size && sizes[1] > 1) return sizes[1];
  }
  return 0;
}

OpGraph StepFile::graph(std::int64_t batch_size) const { return content_->graph(batch_size); }

}  // namespace perfpred