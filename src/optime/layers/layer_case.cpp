// SPDX-License-Identifier: Apache-2.0
#include "optime/layers/layer_case.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "text/enum_names.h"

namespace perfpred {
namespace {

using C = LayerCase;
constexpr std::int64_t batches = 64;

constexpr std::array<LayerSize, 7> conv2d_sizes = {{{"batch_size", &C::batch_size, 1, batches},
                                                    {"image_size", &C::image_size, 1, 512},
                                                    {"in_channels", &C::in, 1, 10000},
                                                    {"out_channels", &C::out, 1, 10000},
                                                    {"kernel_size", &C::kernel_size, 1, 7},
                                                    {"stride", &C::stride, 1, 4},
                                                    {"groups", &C::groups, 1, 1}}};
constexpr std::array<LayerSize, 4> linear_sizes = {{{"batch_size", &C::batch_size, 1, batches},
                                                    {"seq_len", &C::seq_len, 1, 1},
                                                    {"in_features", &C::in, 1, 4096},
                                                    {"out_features", &C::out, 1, 4096}}};
constexpr std::array<LayerSize, 5> rnn_sizes = {{{"batch_size", &C::batch_size, 1, batches},
                                                 {"seq_len", &C::seq_len, 1, 128},
                                                 {"input_size", &C::in, 1, 128},
                                                 {"hidden_size", &C::out, 1, 128},
                                                 {"num_layers", &C::num_layers, 1, 4}}};
constexpr std::array<LayerSize, 4> attention_sizes = {{{"batch_size", &C::batch_size, 1, batches},
                                                       {"seq_len", &C::seq_len, 1, 1024},
                                                       {"num_heads", &C::num_heads, 1, 16},
                                                       {"embed_dim", &C::in, 1, 1024}}};
constexpr std::array<LayerSize, 4> embedding_sizes = {{{"batch_size", &C::batch_size, 1, batches},
                                                       {"seq_len", &C::seq_len, 1, 512},
                                                       {"num_embeddings", &C::in, 1000, 100000},
                                                       {"embedding_dim", &C::out, 32, 1024}}};
constexpr std::array<LayerSize, 3> norm_sizes = {{{"batch_size", &C::batch_size, 1, batches},
                                                  {"seq_len", &C::seq_len, 1, 512},
                                                  {"normalized_shape", &C::in, 32, 4096}}};
constexpr std::array<LayerSize, 3> positional_sizes = {
    {{"batch_size", &C::batch_size, 1, batches}, {"seq_len", &C::seq_len, 1, 1024}, {"embed_dim", &C::in, 1, 1024}}};
constexpr std::array<LayerSize, 3> batchnorm_sizes = {{{"batch_size", &C::batch_size, 1, batches},
                                                       {"image_size", &C::image_size, 1, 512},
                                                       {"num_features", &C::in, 1, 10000}}};
constexpr std::array<LayerSize, 5> pooling_sizes = {{{"batch_size", &C::batch_size, 1, batches},
                                                     {"image_size", &C::image_size, 1, 512},
                                                     {"in_channels", &C::in, 1, 10000},
                                                     {"kernel_size", &C::kernel_size, 1, 7},
                                                     {"stride", &C::stride, 1, 4}}};
constexpr std::array<LayerSize, 3> vector_sizes = {
    {{"batch_size", &C::batch_size, 1, batches}, {"seq_len", &C::seq_len, 1, 512}, {"num_features", &C::in, 32, 4096}}};

constexpr std::array<std::string_view, 3> rnn_variants = {"lstm", "gru", "rnn"};
constexpr std::array<std::string_view, 2> attention_variants = {"sdpa", "eager"};
constexpr std::array<std::string_view, 2> positional_variants = {"learned", "sinusoidal"};
constexpr std::array<std::string_view, 2> pooling_variants = {"max", "avg"};
constexpr std::array<std::string_view, 9> elementwise_variants = {"add",   "relu", "sigmoid",   "tanh",   "gelu",
                                                                  "relu6", "silu", "hardswish", "dropout"};

const std::array<LayerForm, layer_types> forms = {{{conv2d_sizes, {}, true},
                                                   {linear_sizes, {}, true},
                                                   {rnn_sizes, rnn_variants},
                                                   {attention_sizes, attention_variants},
                                                   {embedding_sizes, {}},
                                                   {norm_sizes, {}},
                                                   {norm_sizes, {}},
                                                   {positional_sizes, positional_variants},
                                                   {batchnorm_sizes, {}},
                                                   {pooling_sizes, pooling_variants},
                                                   {vector_sizes, elementwise_variants},
                                                   {vector_sizes, {}}}};

const LayerSize* size_of_column(LayerType type, std::string_view column) {
  const auto sizes = form_of(type).sizes;
  const auto found =
      std::find_if(sizes.begin(), sizes.end(), [&](const LayerSize& size) { return size.column == column; });
  return found == sizes.end() ? nullptr : &*found;
}

std::string flag(bool value) { return value ? "1" : "0"; }

bool has_padding(LayerType type) { return type == LayerType::conv2d || type == LayerType::pooling; }

std::string padding_text(std::int64_t padding) {
  return padding == same_padding ? "same" : padding == 0 ? "valid" : std::to_string(padding);
}

using LayerColumn = Column<LayerCase>;

/// A size, of the types that have it.
LayerColumn size_column(std::string_view name) {
  return {name,
          [name](C& c, std::string_view t, const ValuePlace& p) {
            const LayerSize* size = size_of_column(c.type, name);
            if (size == nullptr || (t.empty() && size->low == size->high)) return;
            c.*(size->member) = parse_positive_integer(t, p);
          },
          [name](const C& c) {
            const LayerSize* size = size_of_column(c.type, name);
            return size == nullptr ? std::string() : std::to_string(c.*(size->member));
          },
          false, name == "batch_size"};
}

/// A column that only the types have for which `get` gives a text; an empty text is the default.
LayerColumn option_column(std::string_view name, std::string (*get)(const C& layer),
                          void (*set)(C& layer, std::string_view text, const ValuePlace& place)) {
  return {name,
          [get, set](C& c, std::string_view t, const ValuePlace& p) {
            if (!t.empty() && !get(c).empty()) set(c, t, p);
          },
          get, true};
}

template <class Words>
std::string parse_word(const Words& words, std::string_view text, const ValuePlace& place) {
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    throw_bad_value(place, text, fmt::format("one of {}", fmt::join(words, ", ")));
  }
  return std::string(text);
}

/// The columns other than sizes, but `layer`.
Columns<C> option_columns() {
  return {
      option_column(
          "variant", [](const C& c) { return c.variant; },
          [](C& c, std::string_view t, const ValuePlace& p) {
            c.variant = parse_word(form_of(c.type).variants, t, p);
          }),
      option_column(
          "padding", [](const C& c) { return has_padding(c.type) ? padding_text(c.padding) : std::string(); },
          [](C& c, std::string_view t, const ValuePlace& p) {
            c.padding = t == "same" ? same_padding : t == "valid" ? 0 : parse_integer(t, p);
            if (c.padding < same_padding || c.padding > (std::int64_t{1} << 20)) throw_bad_value(p, t, "a padding");
          }),
      option_column(
          "bias", [](const C& c) { return form_of(c.type).weighted ? flag(c.bias) : std::string(); },
          [](C& c, std::string_view t, const ValuePlace& p) { c.bias = parse_flag(t, p); }),
      option_column(
          "num_kv_heads",
          [](const C& c) {
            return c.type == LayerType::attention ? std::to_string(c.num_kv_heads == 0 ? c.num_heads : c.num_kv_heads)
                                                  : std::string();
          },
          [](C& c, std::string_view t, const ValuePlace& p) {
            const std::int64_t heads = parse_positive_integer(t, p);
            c.num_kv_heads = heads == c.num_heads ? 0 : heads;
          }),
      option_column(
          "bidirectional", [](const C& c) { return c.type == LayerType::rnn ? flag(c.bidirectional) : std::string(); },
          [](C& c, std::string_view t, const ValuePlace& p) { c.bidirectional = parse_flag(t, p); }),
      option_column(
          "activation", [](const C& c) { return form_of(c.type).weighted ? c.activation : std::string(); },
          [](C& c, std::string_view t, const ValuePlace& p) { c.activation = parse_word(layer_activations, t, p); }),
      option_column(
          "optimizer", [](const C& c) { return std::string(to_string(c.optimizer)); },
          [](C& c, std::string_view t, const ValuePlace&) { c.optimizer = parse_optimizer(t); }),
      option_column(
          "input_gradient", [](const C& c) { return flag(c.input_gradient); },
          [](C& c, std::string_view t, const ValuePlace& p) { c.input_gradient = parse_flag(t, p); }),
      option_column(
          "backward", [](const C& c) { return flag(c.backward); },
          [](C& c, std::string_view t, const ValuePlace& p) { c.backward = parse_flag(t, p); }),
      option_column(
          "precision", [](const C& c) { return std::string(to_string(c.precision)); },
          [](C& c, std::string_view t, const ValuePlace&) { c.precision = parse_precision(t); }),
  };
}

Columns<C> make_case_columns() {
  Columns<C> columns = {{"layer",
                         [](C& c, std::string_view t, const ValuePlace&) {
                           c.type = parse_layer_type(t);
                           const auto variants = form_of(c.type).variants;
                           if (!variants.empty()) c.variant = variants.front();
                         },
                         [](const C& c) { return std::string(to_string(c.type)); }, true, true}};
  const Columns<C> options = option_columns();
  columns.push_back(options.front());  // the variant
  for (const LayerForm& form : forms) {
    for (const LayerSize& size : form.sizes) {
      const auto same = [&size](const LayerColumn& column) { return column.name == size.column; };
      if (std::none_of(columns.begin(), columns.end(), same)) columns.push_back(size_column(size.column));
    }
  }
  columns.insert(columns.end(), options.begin() + 1, options.end());
  return columns;
}

/// Names of sizes in a text, beside those of the columns.
constexpr std::array<std::pair<std::string_view, std::int64_t C::*>, 7> short_names = {{{"in", &C::in},
                                                                                        {"out", &C::out},
                                                                                        {"kernel", &C::kernel_size},
                                                                                        {"size", &C::image_size},
                                                                                        {"seq", &C::seq_len},
                                                                                        {"heads", &C::num_heads},
                                                                                        {"layers", &C::num_layers}}};

std::string_view short_name(const LayerSize& size) {
  const auto found =
      std::ranges::find(short_names, size.member, &std::pair<std::string_view, std::int64_t C::*>::second);
  return found == short_names.end() ? std::string_view() : found->first;
}

/// The columns that a text about this layer has: those of its type, but how it is trained.
std::vector<const LayerColumn*> columns_of_text(const LayerCase& layer) {
  constexpr std::array<std::string_view, 4> others = {"layer", "batch_size", "optimizer", "precision"};
  std::vector<const LayerColumn*> columns;
  for (const LayerColumn& column : layer_columns()) {
    const bool other = std::ranges::find(others, column.name) != others.end();
    if (!other && !column.get(layer).empty()) columns.push_back(&column);
  }
  return columns;
}

std::string keys_of_text(const LayerCase& layer) {
  std::vector<std::string> keys;
  for (const LayerColumn* column : columns_of_text(layer)) {
    const LayerSize* size = size_of_column(layer.type, column->name);
    const std::string_view brief = size == nullptr ? std::string_view() : short_name(*size);
    keys.push_back(brief.empty() ? std::string(column->name) : fmt::format("{} ({})", column->name, brief));
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

const LayerColumn* column_of_text(const LayerCase& layer, std::string_view key) {
  for (const LayerColumn* column : columns_of_text(layer)) {
    const LayerSize* size = size_of_column(layer.type, column->name);
    if (column->name == key || (size != nullptr && short_name(*size) == key)) return column;
  }
  return nullptr;
}

/// Whether a text has to say the size.
bool is_required(LayerType type, const LayerSize& size) {
  const bool usually_one = size.member == &C::num_layers || (size.member == &C::stride && type == LayerType::conv2d);
  return size.low != size.high && size.member != &C::batch_size && !usually_one;
}

[[noreturn]] void refuse(const LayerCase& layer, std::string_view what) {
  throw InputError(fmt::format("layer {}: {}", to_string(layer.type), what));
}

}  // namespace

std::string_view to_string(LayerType type) { return enumerator_name_of<LayerType::softmax>(type); }

LayerType parse_layer_type(std::string_view text) {
  if (const auto found = enumerator_named<LayerType::softmax>(text)) return *found;
  throw_bad_value({{}, 0, "layer"}, text,
                  fmt::format("one of {}", fmt::join(enumerator_names<LayerType::softmax>, ", ")));
}

const LayerForm& form_of(LayerType type) { return forms[static_cast<std::size_t>(type)]; }

std::int64_t padded_pixels(const LayerCase& layer) {
  return layer.padding == same_padding ? layer.kernel_size - 1 : 2 * layer.padding;
}

std::int64_t output_pixels(const LayerCase& layer) {
  return (layer.image_size + padded_pixels(layer) - layer.kernel_size) / layer.stride + 1;
}

void check_layer(const LayerCase& layer) {
  for (const LayerSize& size : form_of(layer.type).sizes) {
    if (layer.*size.member < 1) refuse(layer, fmt::format("{} {} is not positive", size.column, layer.*size.member));
    if (layer.*size.member > (std::int64_t{1} << 40)) refuse(layer, fmt::format("{} is too large", size.column));
  }
  if (has_padding(layer.type) && layer.image_size + padded_pixels(layer) < layer.kernel_size) {
    refuse(layer, fmt::format("kernel_size {} is larger than the padded image of {} pixels", layer.kernel_size,
                              layer.image_size + padded_pixels(layer)));
  }
  if (layer.type == LayerType::conv2d && (layer.in % layer.groups != 0 || layer.out % layer.groups != 0)) {
    refuse(layer, fmt::format("groups {} does not divide {} and {} channels", layer.groups, layer.in, layer.out));
  }
  if (layer.type == LayerType::attention && layer.in % layer.num_heads != 0) {
    refuse(layer, fmt::format("num_heads {} does not divide embed_dim {}", layer.num_heads, layer.in));
  }
  if (layer.num_kv_heads != 0) {
    if (layer.num_heads % layer.num_kv_heads != 0) {
      refuse(layer, fmt::format("num_kv_heads {} does not divide num_heads {}", layer.num_kv_heads, layer.num_heads));
    }
    if (layer.variant == "eager") refuse(layer, "num_kv_heads other than num_heads is for sdpa");
  }
  if (layer.precision == Precision::unknown) refuse(layer, "precision unknown cannot be measured");
}

const Columns<LayerCase>& layer_columns() {
  static const Columns<C> columns = make_case_columns();
  return columns;
}

LayerCase parse_layer(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  LayerCase layer;
  const std::string_view name = text.substr(0, colon);
  const bool is_kind = name != to_string(LayerType::rnn) && std::ranges::find(rnn_variants, name) != rnn_variants.end();
  layer_columns().front().set(layer, is_kind ? to_string(LayerType::rnn) : name, {{}, 0, "layer"});
  std::vector<std::string_view> given;
  if (is_kind) {
    layer.variant = name;
    given.emplace_back("variant");
  }
  for (std::string_view rest = text.substr(std::min(colon + 1, text.size())); !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    const LayerColumn* column = equals + 1 < item.size() ? column_of_text(layer, item.substr(0, equals)) : nullptr;
    if (column == nullptr) {
      refuse(layer, fmt::format("\"{}\" is not key=value with one of its keys: {}", shown(item), keys_of_text(layer)));
    }
    if (std::ranges::find(given, column->name) != given.end())
      refuse(layer, fmt::format("{} is given twice", column->name));
    given.push_back(column->name);
    column->set(layer, item.substr(equals + 1), {{}, 0, column->name});
  }
  for (const LayerSize& size : form_of(layer.type).sizes) {
    if (!is_required(layer.type, size) || std::ranges::find(given, size.column) != given.end()) continue;
    refuse(layer, fmt::format("{} is missing; its keys are {}", size.column, keys_of_text(layer)));
  }
  if (layer.num_kv_heads == layer.num_heads) layer.num_kv_heads = 0;  // the number of heads may come after it
  check_layer(layer);
  return layer;
}

std::string layer_text(const LayerCase& layer) {
  std::vector<std::string> items;
  for (const LayerColumn* column : columns_of_text(layer)) {
    items.push_back(fmt::format("{}={}", column->name, column->get(layer)));
  }
  return fmt::format("{}:{}", to_string(layer.type), fmt::join(items, ","));
}

std::string layer_key(const LayerCase& layer) {
  return fmt::format("{}", fmt::join(fields_of(layer_columns(), layer), ","));
}

}  // namespace perfpred
