// SPDX-License-Identifier: Apache-2.0
#include "tools/ops_file.h"

#include <fmt/format.h>

#include "text/files.h"

namespace perfpred {
namespace {

std::string shapes(const OpGraph& step, std::span<const TensorId> tensors) {
  std::string text;
  for (const TensorId id : tensors) {
    if (!text.empty()) text += ' ';
    text += id == no_tensor ? "-" : step.shape(id).rank() == 0 ? "1" : step.shape(id).text();
  }
  return text;
}

}  // namespace

void write_ops(const OpGraph& step, const std::string& path) {
  AtomicFile file(path);
  file.write("index,phase,op,layer,type,inputs,outputs,flops,bytes_read,bytes_written\n");
  for (std::size_t i = 0; i < step.ops().size(); ++i) {
    const Op& op = step.ops()[i];
    file.write(fmt::format("{},{},{},{},{},{},{},{:.0f},{},{}\n", i, to_string(op.phase), step.name(op),
                           step.layer_name(op), to_string(op.type), shapes(step, step.inputs(op)),
                           shapes(step, step.outputs(op)), op.flops, op.bytes_read, op.bytes_written));
  }
  file.commit();
}

}  // namespace perfpred
