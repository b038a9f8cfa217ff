// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <perfpred/error.h>
#include <perfpred/torch/exported_network.h>

#include <fmt/format.h>

#include "text/file_hash.h"
#include "torch/device/torch_errors.h"
#include "torch/exported/exported_module.h"

namespace perfpred {

std::string pt2_name(const std::string& path) { return "pt2:" + file_hash(path); }

Workload pt2_workload(const std::string& path) {
  const ExportedModule module(path, {at::kMeta});
  const auto refuse = [&](const std::string& why) { throw InputError(fmt::format("{}: {}", path, why)); };
  const bool gives_loss = module.inputs().size() == 2 && !module.outputs().empty() &&
                          module.outputs().front().sizes.empty();  // of the samples and their targets
  if (module.inputs().size() != 1 && !gives_loss) {
    refuse(
        fmt::format("takes {} inputs; images and sequences of words are one, and their targets another for a network "
                    "that returns its loss",
                    module.inputs().size()));
  }
  const auto& sizes = module.inputs().front().sizes;
  if (sizes.size() != 2 && sizes.size() != 4) {
    refuse("takes neither batches of images (channels, height, width) nor of sequences of words");
  }
  Workload workload;
  workload.network = pt2_name(path);
  workload.batch_size = sizes.front().example;
  workload.input.clear();
  for (std::size_t axis = 1; axis < sizes.size(); ++axis) workload.input.push_back(sizes[axis].example);
  if (gives_loss) {
    workload.classes = 0;
    return workload;
  }
  if (module.outputs().empty() || module.outputs().front().sizes.size() < 2)
    refuse("does not return one tensor of logits");
  const auto& given = module.outputs().front().sizes;
  workload.classes = given.size() == 3 ? given[2].example : given[1].example;
  return workload;
}

void load_operators(const std::string& path) {
  const std::string place = path.find('/') == std::string::npos ? "./" + path : path;  // not from the system's folders
  try {
    // Never unloaded: LibTorch keeps pointers into it.
    if (dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      throw InputError(fmt::format("{}: cannot be loaded: {}", path, first_line_of(dlerror())));
    }
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& error) {  // from the library's registrations
    throw InputError(fmt::format("{}: cannot be loaded: {}", path, first_line_of(error.what())));
  }
}

}  // namespace perfpred
