// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/workload.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "network/layers.h"
#include "network/records.h"
#include "network/zoo/cifar_cnn.h"
#include "network/zoo/pretrained.h"
#include "network/zoo/zoo.h"
#include "text/parse.h"
#include "workload/rank_network.h"
#include "workload/workload_columns.h"
#include "workload/world.h"

namespace perfpred {
namespace {

/// @throws InputError for a product that no tensor may have
std::int64_t product(std::initializer_list<std::int64_t> sizes) {
  const std::int64_t elements = Shape::product(std::span(sizes.begin(), sizes.size()));
  return elements > Shape::max_numel ? Shape(sizes).numel() : elements;
}

}  // namespace

std::int64_t cifar_cnn_params(const Workload& workload) {
  constexpr std::int64_t dense_units = 128;
  const int depth = workload.depth().value(), base_filters = workload.base_filters().value();
  std::int64_t in = workload.input[0];
  std::int64_t params = 0;
  for (int block = 0; block < depth; ++block) {
    const std::int64_t out = static_cast<std::int64_t>(base_filters) << block;
    params += product({9, in, out}) + product({9, out, out}) + 2 * out;
    in = out;
  }
  params += product({in, workload.input[1] >> depth, workload.input[2] >> depth, dense_units});
  return params + dense_units + product({dense_units, workload.classes}) + workload.classes;
}

NetworkName::NetworkName(std::string_view name) : std::string(canonical_network(name)) {}
std::string_view NetworkName::family() const {
  return is_cifar_cnn(*this) ? cifar_cnn_family : std::string_view(*this);
}
DeviceName::DeviceName(std::string_view name) : std::string(canonical_device(name)) {}

AdapterName::AdapterName(std::string_view name) : std::string(name) {
  try {
    assign(parse_adapter(name).name);
  } catch (const InputError&) {
    assign(name);  // validate() says what is wrong
  }
}

Workload Workload::cifar_cnn(int depth, int base_filters, std::int64_t batch) {
  Workload workload;
  workload.network = CifarCnn{depth, base_filters}.name();
  workload.batch_size = batch;
  workload.validate();
  return workload;
}

std::optional<int> Workload::depth() const {
  return is_cifar_cnn(network) ? parse_cifar_cnn(network).depth : std::nullopt;
}

std::optional<int> Workload::base_filters() const {
  return is_cifar_cnn(network) ? parse_cifar_cnn(network).base_filters : std::nullopt;
}

Workload Workload::zoo(std::string_view name, std::int64_t batch, std::vector<std::int64_t> input) {
  Workload workload;
  workload.network = "";
  workload.batch_size = batch;
  workload = with_field(std::move(workload), "network", name);
  if (workload.network == cifar_cnn_family) {
    throw InputError("network cifar_cnn is a family: it is not a network without depth and base_filters");
  }
  if (!input.empty()) workload.input = std::move(input);
  workload.validate();
  return workload;
}

Workload Workload::trained_like(const Workload& other) const {
  Workload workload = *this;
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.how != DomainViolation::none) column.copy(workload, other);
  }
  return workload;
}

namespace {

/// @throws InputError for a field that has no effect on this network
void check_fits(const Workload& workload, const Network& network, bool has_attention) {
  const auto refuse = [&](std::string_view what) {
    throw InputError(fmt::format("network {} has no {}", shown(network.name), what));
  };
  if (workload.attention == Attention::eager && !has_attention) refuse("attention that could be eager");
  if (!workload.adapter.empty() && !network.adapted) {
    refuse(fmt::format("projections that adapter {} is for", workload.adapter));
  }
  if (workload.checkpoint != 0 && network.blocks.empty()) refuse("blocks that checkpoint could compute anew");
  if (workload.loss == LossForm::chunked && network.head < 0) refuse("head over words, which loss chunked is for");
  if (network.padded && (!network.tokens || !has_attention)) refuse("attention over words, which padding is for");
}

}  // namespace

namespace {

/// @throws InputError for a file whose weights are packed, where nobody says as what
void check_quantization(const Workload& workload) {
  if (!is_config(workload.network)) return;
  const std::optional<TransformerDescription> file = find_config(workload.network);
  if (!file || file->quantization.empty() || workload.weights != Weights::as_precision) return;
  throw InputError(
      fmt::format("network {} has a quantization_config ({}): weights says in what type its weights are (int4 of GPTQ, "
                  "nf4, int8, or bf16 if they are unpacked)",
                  shown(workload.network), file->quantization));
}

}  // namespace

Network build_network(const Workload& workload) {
  workload.validate();
  check_quantization(workload);
  Network network;
  network.name = workload.network.family();
  network.classes = workload.classes;
  network.layers.reserve(256);
  network.edges.reserve(256);
  NetworkBuilder builder(network, workload.batch_size, Shape(workload.input), workload.attention,
                         parse_adapter(workload.adapter));
  network.padded = workload.padding != Padding::packed;
  if (splits_network(workload.parallel)) {
    const TransformerDescription whole = split_transformer(workload);
    const TransformerDescription rank = rank_network(whole, workload.parallel);
    if (network.classes == whole.words) network.classes = rank.words;
    build_pretrained(builder, rank);
  } else {
    build_zoo_network(builder, workload.network);
  }
  check_fits(workload, network, builder.has_attention());
  return network;
}

bool Workload::knows_epoch() const {
  if (train_images.is_stated()) return true;
  if (input.size() == 1 || is_captured_step(network)) return false;
  const Record* record = is_recorded(network) ? find_record(network) : nullptr;
  return record == nullptr || record->samples > 0;
}

std::string Workload::key() const {
  std::string key;
  for (const WorkloadColumn& column : workload_columns()) {
    const std::string value = column.get(*this);
    if (value == column.usual) continue;
    if (!key.empty()) key += ';';
    key += column.name;
    key += '=';
    key += value;
  }
  return key;
}

Workload Workload::from_key(std::string_view key) {
  Workload workload;
  workload.network = cifar_cnn_family;
  std::string_view rest = key;
  for (const WorkloadColumn& column : workload_columns()) {
    if (column.usual && !rest.starts_with(std::string(column.name) + "=")) continue;
    const std::size_t end = std::min(rest.find(';'), rest.size());
    std::string_view field = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (field.substr(0, column.name.size()) != column.name || field.substr(column.name.size(), 1) != "=") {
      throw_bad_value({{}, 0, "key"}, key, "a workload key");
    }
    field.remove_prefix(column.name.size() + 1);
    if (!field.empty()) column.set(workload, field, {{}, 0, column.name});
    const std::string value = column.get(workload);
    const bool differs = column.name == "network"   ? value != NetworkName(field)
                         : column.name == "device"  ? field.empty()
                         : column.name == "adapter" ? value != AdapterName(field) || field.empty()
                                                    : value != field || field == column.usual;
    if (differs) throw_bad_value({{}, 0, "key"}, key, "a workload key");
  }
  if (!rest.empty() || key.ends_with(';')) throw_bad_value({{}, 0, "key"}, key, "a workload key");
  workload.validate();
  return workload;
}

namespace {

/// @throws InputError if sizes are missing, or do not go with the rest
void check_cifar_cnn(const Workload& w) {
  const CifarCnn network = parse_cifar_cnn(w.network);
  if (!network.depth) throw InputError("depth is missing; cifar_cnn needs it");
  if (!network.base_filters) throw InputError("base_filters is missing; cifar_cnn needs it");
  if (w.input.size() != 3)
    throw InputError(fmt::format("input {} is not channels x height x width", shown(shape_text(w.input))));
  if (w.attention == Attention::eager) throw InputError("network cifar_cnn has no attention that could be eager");
  for (const WorkloadColumn& column : workload_columns()) {
    if (!column.of_transformers || column.get(w) == column.usual) continue;
    throw InputError(fmt::format("{} is for transformers, which cifar_cnn is not", column.name));
  }
  if (std::min(w.input[1], w.input[2]) >> *network.depth == 0) {
    throw InputError(fmt::format("input {} is too small for depth {}", shown(shape_text(w.input)), *network.depth));
  }
}

/// @throws InputError for types of parameters that go neither with the adapter nor with the precision
void check_weights(const Workload& w) {
  const bool packed = w.weights >= Weights::nf4;
  if (packed && w.adapter.empty()) {
    throw InputError(fmt::format("weights {} are frozen: without an adapter nothing is trained (adapter lora:r=16)",
                                 to_string(w.weights)));
  }
  const bool in_other_half = (w.precision == Precision::fp16 && w.weights == Weights::bf16) ||
                             (w.precision == Precision::bf16 && w.weights == Weights::fp16);
  if (in_other_half || (w.precision == Precision::fp64 && w.weights != Weights::as_precision)) {
    throw InputError(
        fmt::format("weights {} and precision {} contradict each other", to_string(w.weights), to_string(w.precision)));
  }
}

/// @throws InputError for a layout that its devices do not have
void check_world(const Workload& w) {
  if (!has_usual_world(w)) (void)world_of(w);
}

}  // namespace

void Workload::validate() const {
  if (network.empty()) throw InputError("network is missing");
  if (device.empty()) throw InputError("device is empty; an unknown one is \"unknown\"");
  check_ranges(*this);
  if (input.empty()) {
    throw InputError(
        fmt::format("input is missing: network {} has no usual one (input 2048 is a sequence length)", shown(network)));
  }
  if (is_cifar_cnn(network)) check_cifar_cnn(*this);
  const bool has_fused =
      optimizer != Optimizer::none && (optimizer < Optimizer::adadelta || optimizer == Optimizer::momentum);
  if (optimizer_impl == OptimizerImpl::foreach && !has_fused) {
    throw InputError(fmt::format("optimizer_impl foreach has no effect on optimizer {}", to_string(optimizer)));
  }
  check_weights(*this);
  check_world(*this);
  if (compiled && software != Software::pytorch)
    throw InputError(fmt::format("compiled is for PyTorch; software is {}", to_string(software)));
  if (batch_size == 0) throw InputError("batch_size is missing or 0");
  if (batch_size < 0) throw InputError(fmt::format("batch_size {} is not positive", batch_size));
  const std::int64_t elements = Shape::product(std::array{Shape::product(input), batch_size});
  if (elements > Shape::max_numel) {
    throw InputError(
        fmt::format("a batch of {} samples of {} is too large for any device", batch_size, shape_text(input)));
  }
  if (Shape::product(std::array{elements, accumulate}) > Shape::max_numel) {
    throw InputError(
        fmt::format("accumulate {} is too large: an update of so many batches of {} samples of {} has more "
                    "than 2^56 elements",
                    accumulate, batch_size, shape_text(input)));
  }
}

std::vector<std::int64_t> parse_shape(std::string_view text) { return parse_sizes(text, {{}, 0, "input"}); }

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

}  // namespace perfpred
