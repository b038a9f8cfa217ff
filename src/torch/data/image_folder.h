// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/torch/image_data.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// Number of files by extension.
using Extensions = std::map<std::string, std::size_t>;

/// A file of a picture in the folder of its class.
struct PictureEntry {
  std::string path;
  std::int64_t label;
};

/// Names of the folders in a folder, ascending: the classes.
/// @throws InputError if it is no folder or has fewer than two of them
[[nodiscard]] std::vector<std::string> class_folders(const std::string& folder);

/// The pictures of each class, by their names, in ascending order.
/// @param ignored  gets the other files
/// @throws InputError if a class has no picture
[[nodiscard]] std::vector<PictureEntry> picture_entries(const std::string& folder,
                                                        const std::vector<std::string>& classes, Extensions& ignored);

struct ImageFolderOptions {
  int threads = 1;            ///< that check pictures
  bool skip_corrupt = false;  ///< leave corrupt pictures out instead of refusing the folder
  bool verify = false;        ///< decode every picture while checking
  bool train = true;          ///< check the training part; false where only its classes and size are needed
  std::function<bool()> stop = [] { return false; };  ///< asked while pictures are checked; true ends it
  std::function<void(const std::string&)> message = [](const std::string&) {};  ///< told every 5 s how far it is
};

/// Pictures that turned out to be corrupt when they were needed. Safe to use from several threads.
class CorruptPictures {
 public:
  void add(std::string line);
  /// Those added since the last call, `path: reason`.
  [[nodiscard]] std::vector<std::string> take();

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct ImageFolder {
  ImageData data;
  std::vector<std::string> classes;           ///< names of the folders, ascending
  std::vector<std::string> skipped;           ///< corrupt files that were left out, `path: reason`
  std::string ignored;                        ///< files that are no pictures by their names: "3 .csv, 1 .txt"
  std::shared_ptr<CorruptPictures> replaced;  ///< found later and replaced by the next picture of their class
};

/// The first five of the lines and the number of the others, in one line.
[[nodiscard]] std::string first_few(const std::vector<std::string>& lines);

/// JPEG, PNG and WebP files in `folder/train/<class>/` and `folder/val/<class>/`. If `folder/test/` has folders,
/// `folder/test/<class>/` is the test part, else the validation part is.
///
/// Training pictures are varied as torchvision's RandomResizedCrop does (8-100 % of the area, sides 3:4 to 4:3) and
/// mirrored half of the time. The other parts show the middle of the picture (7/8 of the shorter side). Pictures are
/// scaled with antialiasing (resample()) and normalised with ImageNet's mean and deviation.
///
/// Every picture's header and end are read before use; what looks cut off is decoded to be sure. Damage inside a
/// picture shows when it is needed: then reading it throws Error or, with `skip_corrupt`, the next picture of its class
/// takes its place.
/// @return nothing if `stop` returned true
/// @throws InputError for folders that are missing, empty or of different classes, and for pictures that are corrupt or
/// that this build lacks the library for (with `skip_corrupt` only if a class keeps none)
[[nodiscard]] std::optional<ImageFolder> read_image_folder(const std::string& folder,
                                                           const std::vector<std::int64_t>& shape,
                                                           const ImageFolderOptions& options);

}  // namespace perfpred
