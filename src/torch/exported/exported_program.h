// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>
#include <c10/util/complex.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace perfpred {

// What torch.export.save() writes as models/model.json, by torch/_export/serde/schema.py of PyTorch 2.11.

struct ExportedGraph;

/// One argument or result of a node.
struct ExportedArgument {
  struct Name {
    std::string name;  ///< of a value of the graph: a tensor, or a number that follows from shapes
  };
  struct Other {
    std::string kind;  ///< of an argument that has no meaning here, "as_custom_obj"
  };
  using List = std::vector<ExportedArgument>;
  using Graph = std::shared_ptr<const ExportedGraph>;

  std::variant<std::monostate, Name, bool, std::int64_t, double, c10::complex<double>, std::string, at::ScalarType,
               at::Layout, at::MemoryFormat, c10::Device, List, Graph, Other>
      is;

  [[nodiscard]] const Name* name() const { return std::get_if<Name>(&is); }
};

struct ExportedNode {
  std::string target;                                            ///< "torch.ops.aten.conv2d.default", "_operator.mul"
  std::vector<std::pair<std::string, ExportedArgument>> inputs;  ///< by the names of the operator's schema
  std::vector<ExportedArgument> outputs;
};

struct ExportedGraph {
  std::vector<ExportedArgument> inputs, outputs;
  std::vector<ExportedNode> nodes;
};

/// A size of a tensor. The file was made with an example, whose size it states.
struct ExportedSize {
  std::int64_t example = 0;
  std::string symbol;  ///< the expression of a size that may vary; empty: it may not
};

/// A tensor that the network takes or gives.
struct ExportedTensor {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<ExportedSize> sizes;
};

enum class ExportedRole : std::uint8_t { parameter, buffer, constant, user };

/// An input or output of the graph. As an output, a parameter or a buffer is one that gets a new value.
struct ExportedBinding {
  ExportedRole role = ExportedRole::user;
  ExportedArgument value;
  std::string target;  ///< name of the parameter, buffer or constant
};

struct ExportedProgram {
  struct Range {
    std::int64_t least = 0;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
  };
  ExportedGraph graph;
  std::vector<ExportedBinding> inputs, outputs;
  std::vector<ExportedTensor> taken, given;  ///< tensors of the user, in order
  std::map<std::string, Range> ranges;       ///< of sizes that may vary, by the names in their expressions
};

/// @throws InputError for a text that is not such a document, or of another version of it
[[nodiscard]] ExportedProgram parse_exported_program(std::string_view text);

/// Where a weight or a constant lies in the file.
struct ExportedPayload {
  std::string record;  ///< name of the file of bytes
  bool pickled = false;
  bool has_tensor = false;  ///< false: it is an object of a class
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;
  bool requires_grad = false;
  bool on_meta = false;  ///< exported without values
};

/// Reads data/weights/model_weights_config.json or its counterpart for constants. @throws InputError
[[nodiscard]] std::map<std::string, ExportedPayload> parse_exported_payloads(std::string_view text);

}  // namespace perfpred
