// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/torch/image_data.h>

#include <cstdint>
#include <string>
#include <vector>

namespace perfpred {

/// What to do with a picture that does not decode.
enum class CorruptImages { refuse, skip };

struct ImageFolder {
  ImageData data;
  std::vector<std::string> classes;  ///< names of the folders, ascending
  std::vector<std::string> skipped;  ///< files that do not decode, `path: why`
};

/// The first of the lines, and how many more there are, in one.
[[nodiscard]] PERFPRED_API std::string first_few(const std::vector<std::string>& lines);

/// JPEG files in `folder/train/<class>/` and `folder/val/<class>/`. The latter are the test part, too, unless there are
/// folders in `folder/test/`: then it is `folder/test/<class>/`. Every picture is decoded once before use. While
/// training: a random part of 8-100 % of the picture's area with sides 3:4 to 4:3, scaled to the size wanted, mirrored
/// every other time. Else: scaled and cut from the middle (7/8 of the shorter side). CMYK becomes RGB by Adobe's
/// convention. Values are normalised as ImageNet's.
/// @param threads  that decode while verifying
/// @throws InputError for folders that are missing, empty or of different classes, for pictures that do not decode
/// (unless such are skipped and each class keeps one), and in builds without libjpeg-turbo
[[nodiscard]] PERFPRED_API ImageFolder read_image_folder(const std::string& folder,
                                                         const std::vector<std::int64_t>& shape, int threads,
                                                         CorruptImages corrupt);

}  // namespace perfpred
