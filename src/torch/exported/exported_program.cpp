// SPDX-License-Identifier: Apache-2.0
#include "torch/exported/exported_program.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "text/json.h"

namespace perfpred {
namespace {

using nlohmann::json;

constexpr std::int64_t schema_version = 8;
constexpr int deepest = 16;        // graphs and arguments inside one another
constexpr int deepest_json = 256;  // lists and objects inside one another; 16 graphs take some 150

[[noreturn]] void refuse(const std::string& reason) { throw InputError(reason); }

// ---- Values ----

std::int64_t integer(const json& value) {
  if (!value.is_number_integer()) refuse(fmt::format("{} is not an integer", shown(value.dump())));
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    refuse(fmt::format("{} is too large", value.dump()));
  }
  return value.get<std::int64_t>();
}

double number(const json& value) {
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (value == "NaN") return std::nan("");
  if (!value.is_number()) refuse(fmt::format("{} is not a number", shown(value.dump())));
  return value.get<double>();
}

/// By the numbers of schema.py's ScalarType.
at::ScalarType scalar_type(const json& value) {
  using enum at::ScalarType;
  static const std::map<std::int64_t, at::ScalarType> types = {{1, Byte},
                                                               {2, Char},
                                                               {3, Short},
                                                               {4, Int},
                                                               {5, Long},
                                                               {6, Half},
                                                               {7, Float},
                                                               {8, Double},
                                                               {9, ComplexHalf},
                                                               {10, ComplexFloat},
                                                               {11, ComplexDouble},
                                                               {12, Bool},
                                                               {13, BFloat16},
                                                               {28, UInt16},
                                                               {29, Float8_e4m3fn},
                                                               {30, Float8_e5m2},
                                                               {31, Float8_e4m3fnuz},
                                                               {32, Float8_e5m2fnuz}};
  const auto found = types.find(integer(value));
  if (found == types.end()) refuse(fmt::format("{} is not a type of tensors", value.dump()));
  return found->second;
}

at::MemoryFormat memory_format(const json& value) {
  constexpr std::array formats = {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                                  at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::Preserve};
  const std::int64_t at = integer(value);
  if (at < 1 || at > static_cast<std::int64_t>(formats.size())) refuse(value.dump() + " is not a memory format");
  return formats.at(static_cast<std::size_t>(at - 1));
}

at::Layout layout(const json& value) {
  constexpr std::int64_t strided = 7;
  if (integer(value) != strided) refuse("a tensor is not dense");
  return at::kStrided;
}

c10::Device device(const json& value) {
  try {
    return c10::Device(value.at("type").get<std::string>());
  } catch (const c10::Error&) {
    refuse(fmt::format("{} is not a device", shown(value.at("type").dump())));
  }
}

// ---- Arguments ----

ExportedGraph read_graph(const json& value, int depth);

/// The only member of a union that is not null, or the only one at all.
std::pair<std::string, const json*> alternative(const json& value) {
  if (!value.is_object() || value.empty()) refuse(fmt::format("{} is not an argument", shown(value.dump())));
  const json::const_iterator first = value.begin();
  return {first.key(), &first.value()};
}

ExportedArgument named(const json& value) { return {ExportedArgument::Name{value.get<std::string>()}}; }

ExportedArgument read_argument(const json& value, int depth);

/// `{"as_name": ...}` or a value.
ExportedArgument read_symbolic(const json& value, int depth) {
  return value.contains("as_name") ? named(value.at("as_name")) : read_argument(value, depth + 1);
}

// Of the members of schema.py's Argument.
ExportedArgument read_whole(const json& value, int) { return {integer(value)}; }
ExportedArgument read_real(const json& value, int) { return {number(value)}; }
ExportedArgument read_truth(const json& value, int) { return {value.get<bool>()}; }
ExportedArgument read_text(const json& value, int) { return {value.get<std::string>()}; }
ExportedArgument read_tensor(const json& value, int) { return named(value.at("name")); }
ExportedArgument read_complex(const json& value, int) {
  return {c10::complex<double>(number(value.at("real")), number(value.at("imag")))};
}
ExportedArgument read_region(const json& value, int depth) {
  return {std::make_shared<const ExportedGraph>(read_graph(value.at("graph"), depth + 1))};
}

/// A list of what `read` reads.
template <ExportedArgument (*read)(const json&, int)>
ExportedArgument read_list(const json& values, int depth) {
  if (!values.is_array()) refuse(fmt::format("{} is not a list", shown(values.dump())));
  ExportedArgument::List list;
  list.reserve(values.size());
  for (const json& value : values) list.push_back(read(value, depth));
  return {std::move(list)};
}

ExportedArgument read_argument(const json& value, int depth) {
  using Read = ExportedArgument (*)(const json&, int);
  static const std::map<std::string_view, Read> readers = {
      {"as_none", [](const json&, int) { return ExportedArgument(); }},
      {"as_tensor", read_tensor},
      {"as_tensors", read_list<read_tensor>},
      {"as_nested_tensors", read_list<read_list<read_tensor>>},
      {"as_optional_tensor", [](const json& is, int level) { return read_argument(is, level + 1); }},
      {"as_optional_tensors", read_list<read_argument>},
      {"as_int", read_whole},
      {"as_ints", read_list<read_whole>},
      {"as_int_lists", read_list<read_list<read_whole>>},
      {"as_float", read_real},
      {"as_floats", read_list<read_real>},
      {"as_bool", read_truth},
      {"as_bools", read_list<read_truth>},
      {"as_string", read_text},
      {"as_strings", read_list<read_text>},
      {"as_complex", read_complex},
      {"as_sym_int", read_symbolic},
      {"as_sym_ints", read_list<read_symbolic>},
      {"as_sym_float", read_symbolic},
      {"as_sym_floats", read_list<read_symbolic>},
      {"as_sym_bool", read_symbolic},
      {"as_sym_bools", read_list<read_symbolic>},
      {"as_scalar_type", [](const json& is, int) { return ExportedArgument{scalar_type(is)}; }},
      {"as_memory_format", [](const json& is, int) { return ExportedArgument{memory_format(is)}; }},
      {"as_layout", [](const json& is, int) { return ExportedArgument{layout(is)}; }},
      {"as_device", [](const json& is, int) { return ExportedArgument{device(is)}; }},
      {"as_graph", read_region}};
  if (depth > deepest) refuse("has arguments inside arguments without end");
  const auto [kind, content] = alternative(value);
  const auto found = readers.find(kind);
  if (found == readers.end()) return {ExportedArgument::Other{kind}};
  return found->second(*content, depth);
}

std::vector<ExportedArgument> read_arguments(const json& values, int depth) {
  std::vector<ExportedArgument> arguments;
  for (const json& value : values) arguments.push_back(read_argument(value, depth));
  return arguments;
}

ExportedNode read_node(const json& value, int depth) {
  ExportedNode node;
  node.target = value.at("target").get<std::string>();
  try {
    for (const json& input : value.at("inputs")) {
      node.inputs.emplace_back(input.at("name").get<std::string>(), read_argument(input.at("arg"), depth));
    }
    node.outputs = read_arguments(value.at("outputs"), depth);
  } catch (const InputError& error) {
    refuse(fmt::format("{}: {}", shown(node.target), error.what()));
  }
  return node;
}

ExportedGraph read_graph(const json& value, int depth) {
  if (depth > deepest) refuse("has graphs inside graphs without end");
  ExportedGraph graph;
  graph.inputs = read_arguments(value.at("inputs"), depth);
  graph.outputs = read_arguments(value.at("outputs"), depth);
  for (const json& node : value.at("nodes")) graph.nodes.push_back(read_node(node, depth));
  return graph;
}

// ---- Signature ----

ExportedSize read_size(const json& value) {
  if (value.contains("as_int")) return {integer(value.at("as_int")), {}};
  const json& expression = value.at("as_expr");
  ExportedSize size{0, expression.at("expr_str").get<std::string>()};
  if (expression.contains("hint") && expression["hint"].is_object()) {
    size.example = integer(expression["hint"].at("as_int"));
  }
  return size;
}

std::vector<ExportedSize> read_sizes(const json& values) {
  std::vector<ExportedSize> sizes;
  for (const json& value : values) {
    sizes.push_back(read_size(value));
    if (sizes.back().example < 0) refuse("a size is negative");
  }
  return sizes;
}

ExportedBinding read_input(const json& value) {
  const auto [kind, content] = alternative(value);
  const json& is = *content;
  const auto of_file = [&](ExportedRole role, const char* key) {
    return ExportedBinding{role, named(is.at("arg").at("name")), is.at(key).get<std::string>()};
  };
  if (kind == "parameter") return of_file(ExportedRole::parameter, "parameter_name");
  if (kind == "buffer") return of_file(ExportedRole::buffer, "buffer_name");
  if (kind == "tensor_constant") return of_file(ExportedRole::constant, "tensor_constant_name");
  if (kind == "user_input") return {ExportedRole::user, read_argument(is.at("arg"), 0), {}};
  if (kind == "constant_input") return {};
  refuse(fmt::format("an input is of the kind {}, which has no meaning outside Python", shown(kind)));
}

std::optional<ExportedBinding> read_output(const json& value) {
  const auto [kind, content] = alternative(value);
  const json& is = *content;
  const auto mutated = [&](ExportedRole role, const char* key) {
    return ExportedBinding{role, named(is.at("arg").at("name")), is.at(key).get<std::string>()};
  };
  if (kind == "user_output") return ExportedBinding{ExportedRole::user, read_argument(is.at("arg"), 0), {}};
  if (kind == "buffer_mutation") return mutated(ExportedRole::buffer, "buffer_name");
  if (kind == "parameter_mutation") return mutated(ExportedRole::parameter, "parameter_name");
  if (kind == "user_input_mutation") return std::nullopt;  // nobody reads a batch after the step
  if (kind == "loss_output" || kind.starts_with("gradient_to")) {
    refuse("has a backward pass of its own; export the network without it");
  }
  refuse(fmt::format("an output is of the kind {}, which has no meaning outside Python", shown(kind)));
}

/// The tensors among the user's inputs or outputs.
std::vector<ExportedTensor> tensors_of(const std::vector<ExportedBinding>& bindings, const json& values) {
  std::vector<ExportedTensor> tensors;
  for (const ExportedBinding& binding : bindings) {
    const ExportedArgument::Name* name = binding.value.name();
    if (binding.role != ExportedRole::user || name == nullptr || !values.contains(name->name)) continue;
    const json& value = values.at(name->name);
    tensors.push_back({name->name, scalar_type(value.at("dtype")), read_sizes(value.at("sizes"))});
  }
  return tensors;
}

std::map<std::string, ExportedProgram::Range> read_ranges(const json& values) {
  std::map<std::string, ExportedProgram::Range> ranges;
  for (const auto& [symbol, value] : values.items()) {
    ExportedProgram::Range range;
    if (value.contains("min_val") && !value["min_val"].is_null()) range.least = integer(value["min_val"]);
    if (value.contains("max_val") && !value["max_val"].is_null()) range.most = integer(value["max_val"]);
    ranges.emplace(symbol, range);
  }
  return ranges;
}

template <class Read>
auto parsed(std::string_view text, Read read) {
  try {
    return read(json::parse(text, [](int depth, json::parse_event_t, const json&) {
      if (depth > deepest_json) refuse("has lists inside lists without end");
      return true;
    }));
  } catch (const json::parse_error& error) {
    refuse(fmt::format("is not JSON (byte {})", error.byte));
  } catch (const json::exception& error) {
    refuse(shown(json_complaint(error)));
  }
}

}  // namespace

ExportedProgram parse_exported_program(std::string_view text) {
  return parsed(text, [](const json& document) {
    const json& version = document.at("schema_version");
    const std::int64_t major = integer(version.at("major"));
    if (major != schema_version) {
      const std::string writer = document.value("torch_version", std::string("another PyTorch"));
      refuse(fmt::format("has version {} of the format (PyTorch {}), not {}; export it again with PyTorch 2.11", major,
                         shown(writer), schema_version));
    }
    const json& module = document.at("graph_module");
    ExportedProgram program;
    program.graph = read_graph(module.at("graph"), 0);
    for (const json& value : module.at("signature").at("input_specs")) program.inputs.push_back(read_input(value));
    for (const json& value : module.at("signature").at("output_specs")) {
      if (auto output = read_output(value)) program.outputs.push_back(*std::move(output));
    }
    const json& tensors = module.at("graph").at("tensor_values");
    program.taken = tensors_of(program.inputs, tensors);
    program.given = tensors_of(program.outputs, tensors);
    program.ranges = read_ranges(document.at("range_constraints"));
    return program;
  });
}

std::map<std::string, ExportedPayload> parse_exported_payloads(std::string_view text) {
  return parsed(text, [](const json& document) {
    std::map<std::string, ExportedPayload> payloads;
    for (const auto& [name, value] : document.at("config").items()) {
      ExportedPayload payload;
      payload.record = value.at("path_name").get<std::string>();
      payload.pickled = value.at("use_pickle").get<bool>();
      payload.has_tensor = !value.at("tensor_meta").is_null();
      if (payload.has_tensor) {
        const json& meta = value["tensor_meta"];
        payload.type = scalar_type(meta.at("dtype"));
        for (const ExportedSize& size : read_sizes(meta.at("sizes"))) payload.sizes.push_back(size.example);
        for (const ExportedSize& stride : read_sizes(meta.at("strides"))) payload.strides.push_back(stride.example);
        payload.offset = read_size(meta.at("storage_offset")).example;
        payload.requires_grad = meta.at("requires_grad").get<bool>();
        payload.on_meta = meta.at("device").at("type") == "meta";
        if (payload.sizes.size() != payload.strides.size() || payload.offset < 0) refuse(name + " has no whole shape");
      }
      payloads.emplace(name, std::move(payload));
    }
    return payloads;
  });
}

}  // namespace perfpred
