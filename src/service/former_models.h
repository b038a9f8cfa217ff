// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// What a model's file had before, each version a file of its own beside it: `lab.json.20261130T183701.042Z`, named by
/// the time (UTC) at which another one took its place. A version is written whole and synchronised.
class FormerModels {
 public:
  /// The newest versions are kept, and the last one of each of the newest days that have one.
  static constexpr std::size_t newest = 10, days = 10;

  explicit FormerModels(const std::string& path);  ///< of the model's file

  /// Their times, the newest first; none if the folder cannot be read.
  [[nodiscard]] std::vector<std::string> times() const;

  [[nodiscard]] std::string file(std::string_view time) const { return path_ + "." + std::string(time); }

  /// Keeps a text as the newest version, unless the newest has it, and removes those beyond the limits.
  /// @throws as write_file(), and Error if one cannot be removed
  void keep(std::string_view text) const;

  /// Removes a version and those that came after it. @throws Error
  void remove_from(std::string_view time) const;

 private:
  std::string path_;
};

}  // namespace perfpred
