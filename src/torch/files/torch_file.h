// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "torch/device/named_tensors.h"

namespace perfpred {

/// A value in a file of torch.save(). Only what weights need is kept.
struct SavedValue {
  struct Other {
    std::string type;  ///< "torch.nn.modules.conv.Conv2d", or "number", "list", "None"
  };
  struct Entry;
  using Dictionary = std::vector<Entry>;  ///< items whose key is a text

  std::variant<Other, std::string, at::Tensor, Dictionary> is;

  /// The value of a key of a dictionary; null if this is not a dictionary or has no such key.
  [[nodiscard]] const SavedValue* find(const std::string& key) const;
  /// "a tensor", "a dictionary of epoch, model", ...
  [[nodiscard]] std::string what() const;
};

struct SavedValue::Entry {
  std::string key;
  SavedValue value;
};

/// Reads a file of torch.save() (of PyTorch 1.6 or later) without executing code in it.
/// @throws InputError, `path: reason`, for other files and damaged ones
[[nodiscard]] SavedValue read_torch_file(const std::string& path);

/// A file that Python's torch.load() reads with its defaults: a dictionary of these texts and of a dictionary of the
/// tensors; if `tensors_name` is empty, of the tensors alone. Written whole or not at all.
/// @throws InputError if no file can be made there, Error if the disk refuses
void write_torch_file(const std::vector<std::pair<std::string, std::string>>& texts, const std::string& tensors_name,
                      const NamedTensors& tensors, const std::string& path);

}  // namespace perfpred
