// SPDX-License-Identifier: Apache-2.0
#include "optime/layers/prenet_table.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <utility>

#include "text/csv.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::string_view time_column = "timeUsed_median";

/// A type of layer by the names that files have for it; the first is the one written.
struct LayerName {
  std::string_view prenet, layer, variant;
};
constexpr std::array<LayerName, 19> layer_names = {{{"dense", "linear", ""},
                                                    {"linear", "linear", ""},
                                                    {"convolution", "conv2d", ""},
                                                    {"conv2d", "conv2d", ""},
                                                    {"conv", "conv2d", ""},
                                                    {"lstm", "rnn", "lstm"},
                                                    {"gru", "rnn", "gru"},
                                                    {"rnn", "rnn", ""},
                                                    {"attention", "attention", ""},
                                                    {"multihead_attention", "attention", ""},
                                                    {"embedding", "embedding", ""},
                                                    {"layernorm", "layernorm", ""},
                                                    {"layer_norm", "layernorm", ""},
                                                    {"positional_encoding", "positional_encoding", ""},
                                                    {"rmsnorm", "rmsnorm", ""},
                                                    {"batchnorm", "batchnorm", ""},
                                                    {"pooling", "pooling", ""},
                                                    {"elementwise", "elementwise", ""},
                                                    {"softmax", "softmax", ""}}};

/// A column of PreNeT and the one of layers.csv that has its content, of one type of layer or (empty) of all.
struct Name {
  std::string_view prenet, ours, layer;
};
constexpr std::array<Name, 28> names = {{{"batchsize", "batch_size", ""},
                                         {"matsize", "image_size", "conv2d"},
                                         {"channels_in", "in_channels", "conv2d"},
                                         {"channels_out", "out_channels", "conv2d"},
                                         {"kernelsize", "kernel_size", "conv2d"},
                                         {"strides", "stride", "conv2d"},
                                         {"padding", "padding", "conv2d"},
                                         {"seq_len", "seq_len", ""},
                                         {"dim_input", "in_features", "linear"},
                                         {"dim_output", "out_features", "linear"},
                                         {"dim_input", "input_size", "rnn"},
                                         {"dim_output", "hidden_size", "rnn"},
                                         {"num_layers", "num_layers", "rnn"},
                                         {"rnn_type", "variant", "rnn"},
                                         {"is_bidirectional", "bidirectional", "rnn"},
                                         {"embed_dim", "embed_dim", ""},
                                         {"num_heads", "num_heads", "attention"},
                                         {"embed_dim", "embedding_dim", "embedding"},
                                         {"num_embeddings", "num_embeddings", "embedding"},
                                         {"embed_dim", "normalized_shape", "layernorm"},
                                         {"use_bias", "bias", ""},
                                         {"activation_fct", "activation", ""},
                                         {"precision", "precision", ""},
                                         {"optimizer", "optimizer", ""},
                                         {time_column, "step_ms", ""},
                                         {"timeUsed_min", "min_ms", ""},
                                         {"timeUsed_max", "max_ms", ""},
                                         {"timeUsed_std", "std_ms", ""}}};

std::string lower(std::string_view text) {
  std::string low(text);
  std::transform(low.begin(), low.end(), low.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return low;
}

/// A value under our spelling: PreNeT writes "SAME", "None", "True" and the bits of a precision.
std::string spelt(std::string_view column, std::string_view text) {
  std::string value = lower(text);
  if (column == "precision") {
    value = value == "16" ? "fp16" : value == "32" || value.empty() ? "fp32" : value == "64" ? "fp64" : value;
  }
  if (column == "optimizer" && value.empty()) value = "none";
  if (value == "true" || value == "false") value = value == "true" ? "1" : "0";
  return value;
}

struct FileName {
  const LayerName* layer = nullptr;
  std::string device;
};

/// "benchmark_dense_Tesla_T4_20230401.csv": dense on a Tesla T4.
FileName file_name(const std::string& path) {
  constexpr std::string_view begin = "benchmark_";
  const std::string stem = std::filesystem::path(path).stem().string();
  FileName found;
  if (!stem.starts_with(begin)) return found;
  std::string_view rest = std::string_view(stem).substr(begin.size());
  for (const LayerName& name : layer_names) {
    const bool is_longer = found.layer == nullptr || name.prenet.size() > found.layer->prenet.size();
    if (lower(rest).starts_with(std::string(name.prenet) + '_') && is_longer) found.layer = &name;
  }
  if (found.layer == nullptr) return found;
  rest.remove_prefix(found.layer->prenet.size() + 1);
  found.device = rest.substr(0, rest.rfind('_'));
  std::replace(found.device.begin(), found.device.end(), '_', ' ');
  return found;
}

const LayerName* layer_named(std::string_view text) {
  const auto* found = std::find_if(layer_names.begin(), layer_names.end(), [&](const LayerName& name) {
    return name.prenet == lower(text) || (name.layer == lower(text) && name.variant.empty());
  });
  return found == layer_names.end() ? nullptr : found;
}

/// Fields of layers.csv, by their names.
using Fields = std::map<std::string_view, std::string>;

/// What a row says, but for its layer and device.
Fields fields_of_row(const CsvReader& csv, const LayerName& layer) {
  Fields fields;
  for (const Name& name : names) {
    const CsvColumn column = csv.optional(name.prenet);
    if (column.index && (name.layer.empty() || name.layer == layer.layer)) {
      fields[name.ours] = spelt(name.prenet, csv.text(column));
    }
  }
  for (const Column<LayerRow>& column : layer_row_columns()) {  // those that our own tables have besides
    const CsvColumn own = csv.optional(column.name);
    if (own.index && !fields.contains(column.name)) fields[column.name] = csv.text(own);
  }
  fields["layer"] = layer.layer;
  if (!layer.variant.empty()) fields["variant"] = layer.variant;
  const bool trained = fields["optimizer"] != "none" && !fields["optimizer"].empty();
  fields.try_emplace("backward", trained ? "1" : "0");
  fields.try_emplace("input_gradient", "0");
  fields.try_emplace("outcome", "ok");
  if (fields["step_ms"].empty()) throw_bad_value(csv.place(time_column), "", "a time in ms");
  if (!trained && fields["forward_ms"].empty()) fields["forward_ms"] = fields["step_ms"];
  return fields;
}

std::string_view prenet_name(LayerType type) {
  const auto* found = std::find_if(layer_names.begin(), layer_names.end(), [&](const LayerName& name) {
    return name.layer == to_string(type) && name.variant.empty();
  });
  return found == layer_names.end() ? to_string(type) : found->prenet;
}

/// The names and the fields of a layer's row. Which columns there are depends on the layer's type alone.
std::pair<std::vector<std::string>, std::vector<std::string>> prenet_row(const LayerRow& row) {
  std::map<std::string_view, std::string> ours;
  for (const Column<LayerRow>& column : layer_row_columns()) ours[column.name] = column.get(row);
  std::vector<std::string> header, fields;
  for (const Name& name : names) {
    const bool is_time = name.prenet.starts_with("timeUsed");  // which rows of an older table lack
    if (name.layer.empty() ? !is_time && ours.at(name.ours).empty() : name.layer != to_string(row.layer.type)) continue;
    header.emplace_back(name.prenet);
    fields.push_back(ours.at(name.ours));
  }
  for (const Column<LayerRow>& column : layer_row_columns()) {
    if (std::find(header.begin(), header.end(), column.name) != header.end()) continue;
    header.emplace_back(column.name);
    fields.push_back(ours.at(column.name));
  }
  return {header, fields};
}

}  // namespace

bool is_prenet_header(std::span<const std::string> header) {
  return std::find(header.begin(), header.end(), time_column) != header.end();
}

std::string layers_of_prenet(CsvReader& csv) {
  const FileName of_file = file_name(csv.path());
  const CsvColumn layer_column = csv.optional("layer");
  const CsvColumn device_column = csv.optional("device");
  const Columns<LayerRow>& columns = layer_row_columns();
  std::string text = csv_line(names_of(columns));
  while (csv.next()) {
    const LayerName* layer = layer_column.index ? layer_named(csv.text(layer_column)) : of_file.layer;
    const std::string device = device_column.index ? std::string(csv.text(device_column)) : of_file.device;
    if (layer == nullptr || device.empty()) {
      throw InputError(csv.place("").prefix() +
                       "neither columns layer and device nor the file's name, benchmark_<layer>_<device>_<date>.csv, "
                       "say which layer this is, and on what device");
    }
    Fields fields = fields_of_row(csv, *layer);
    fields["device"] = device;
    std::vector<std::string> row;
    for (const Column<LayerRow>& column : columns) row.push_back(fields[column.name]);
    text += csv_line(row);
  }
  return text;
}

PrenetTables write_prenet_tables(std::span<const LayerRow> rows, const std::string& folder, std::string_view date) {
  std::map<std::string, std::string> files;
  PrenetTables written;
  for (const LayerRow& row : rows) {
    if (row.outcome != "ok") {
      ++written.left_out;
      continue;
    }
    std::string device = row.device;
    std::replace_if(
        device.begin(), device.end(), [](char c) { return c == ' ' || c == '/'; }, '_');
    std::string& text =
        files[fmt::format("{}/benchmark_{}_{}_{}.csv", folder, prenet_name(row.layer.type), device, date)];
    const auto [header, fields] = prenet_row(row);
    if (text.empty()) text = csv_line(header);
    text += csv_line(fields);
  }
  for (const auto& [path, text] : files) {
    write_file(path, text);
    written.files.push_back(path);
  }
  return written;
}

}  // namespace perfpred
