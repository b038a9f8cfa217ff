// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// A network whose step was recorded from a package of PyTorch: a row of data/networks/index.csv (docs/formats.md).
struct Record {
  std::string name;                               ///< with its version: `t5_base@1`
  std::string file;                               ///< of its steps: step/record_file.h
  std::vector<std::string> aliases;               ///< what others call it, in lower case
  std::vector<std::vector<std::int64_t>> inputs;  ///< of a sample, the usual one first
  std::vector<std::int64_t> batches;              ///< batch sizes; empty: all
  std::int64_t params = 0;                        ///< trained and frozen, as its package counts them
  std::int64_t classes = 0;                       ///< that it tells apart; words of a language model; 0: none
  std::int64_t samples = 0;  ///< an epoch of the data that it is usually trained on; 0: there are none
  std::int64_t version = 1;
  std::string sample, source, licence;

  [[nodiscard]] std::string_view plain_name() const {  ///< without its version
    return std::string_view(name).substr(0, name.find('@'));
  }
};

/// Whether a name has the form of a record's: `t5_base@1`.
[[nodiscard]] inline bool is_recorded(std::string_view name) { return name.find('@') != std::string_view::npos; }

/// Those of the folder that ships with the library, share/perfpred/networks, or that the environment variable
/// PERFPRED_NETWORKS names; none where there is no such folder. Sorted by name; read at the first call.
/// @throws InputError naming the file and line that are wrong
[[nodiscard]] std::span<const Record> records();

/// By its name, or as people spell it (`T5-base`, `google-t5/t5-base`); null if there is none.
/// @throws InputError as records()
[[nodiscard]] const Record* find_record(std::string_view name);

}  // namespace perfpred
