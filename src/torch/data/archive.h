// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <string>

namespace perfpred {

/// The bytes of files in an archive, by their names without folders: tar or zip, compressed or not.
/// @param wanted  says of such a name whether its file is read
/// @throws InputError, `path: reason`, for a file that is no whole archive, for one that holds more than 512 MB of
/// wanted files or two of one name, and in builds without libarchive
[[nodiscard]] std::map<std::string, std::string> read_archive(const std::string& path,
                                                              const std::function<bool(const std::string&)>& wanted);

}  // namespace perfpred
