// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

#include "torch/files/torch_archive.h"
#include "torch/files/torch_file.h"

namespace perfpred {

/// The value of a pickle as torch.save() writes it, with the tensors of its archive.
///
/// LibTorch's torch::pickle_load() is not used because it creates objects through TorchScript's unpickler: it checks
/// neither bounds nor checksums and fails on classes that it does not know, such as the argparse.Namespace in many
/// checkpoints.
/// @throws InputError for a damaged pickle, see Pickle
[[nodiscard]] SavedValue unpickle(std::string_view pickle, TorchArchive& file);

}  // namespace perfpred
