// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <perfpred/vocabulary.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "torch/device/named_tensors.h"
#include "torch/exported/exported_graph.h"
#include "torch/exported/exported_program.h"

namespace perfpred {

struct ExportedFile;

struct ExportedModuleOptions {
  c10::Device device = at::kCPU;  ///< on `meta`, parameters and buffers have no memory, and constants stay on the CPU
  bool doubles = false;           ///< double precision in place of single
  Layout layout = Layout::nchw;   ///< nhwc: weights of four axes in channels-last memory
};

/// A network that torch.export.save() wrote, executed and trained as the module that it was exported from.
class ExportedModule {
 public:
  /// @throws InputError, `path: reason`, as read_exported_file(), and for a graph with an operator that is not known
  ExportedModule(const std::string& path, const ExportedModuleOptions& options);
  ~ExportedModule();

  /// The tensors among the outputs, in order. Buffers get their new values.
  /// @param inputs  the tensors among the inputs of the exported call, positional and by name, in order
  /// @throws InputError, `path: reason`, for inputs whose number or sizes the file does not allow
  [[nodiscard]] std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);

  /// Off: dropout does nothing, and batch normalisation uses its stored statistics. On: as it was exported.
  void train(bool on) { mode_.training = on; }

  /// Replaces LibTorch's own autocast for torch.autocast inside the network.
  void set_autocast(decltype(RunnableGraph::Mode::autocast) autocast) { mode_.autocast = std::move(autocast); }

  [[nodiscard]] const NamedTensors& parameters() const {
    return parameters_;
  }  ///< without those that are tied to others
  [[nodiscard]] const NamedTensors& buffers() const { return buffers_; }
  [[nodiscard]] std::span<const ExportedTensor> inputs() const { return program_.taken; }
  [[nodiscard]] std::span<const ExportedTensor> outputs() const { return program_.given; }

  /// One line that says how training differs from that of the original network; empty if not at all.
  [[nodiscard]] std::string note() const;

 private:
  using Bound = std::map<std::pair<ExportedRole, std::string>, at::Tensor>;  // by the names that the file gives

  void bind(const std::string& path, const ExportedModuleOptions& options);
  Bound bind_inputs(const ExportedFile& file, const ExportedModuleOptions& options);
  /// Of a file without values. Export has one name of tied parameters read: another of the same shape that is not read
  /// counts as tied.
  void drop_tied(const Bound& bound);
  void check(std::span<const at::Tensor> inputs) const;

  std::string path_;
  ExportedProgram program_;
  NamedTensors parameters_, buffers_;
  NamedTensors values_;                                      // of the graph's inputs that are no user's
  std::vector<std::pair<std::size_t, at::Tensor>> mutated_;  // outputs, and what they are copied to
  std::unique_ptr<const RunnableGraph> graph_;
  RunnableGraph::Mode mode_;
};

}  // namespace perfpred
