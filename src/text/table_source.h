// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "text/csv.h"

namespace perfpred {

/// A table in a file, or in memory.
struct TableSource {
  std::string name;  ///< the path of the file, or what messages call the text
  std::optional<std::string> text = {};

  /// The reader must not outlive this object. @throws InputError as CsvReader()
  [[nodiscard]] CsvReader open() const { return text ? CsvReader::from_text(name, *text) : CsvReader(name); }
};

}  // namespace perfpred
