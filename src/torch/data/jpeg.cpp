// SPDX-License-Identifier: Apache-2.0
#include "torch/data/jpeg.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#ifdef PERFPRED_WITH_TURBOJPEG
#include <turbojpeg.h>
#endif

#include <fstream>
#include <memory>
#include <string_view>

#include "text/files.h"

namespace perfpred {

#ifndef PERFPRED_WITH_TURBOJPEG

bool reads_jpeg() { return false; }
JpegFile::JpegFile(const std::string& path) : path_(path) {
  throw InputError(fmt::format("{}: this build reads no JPEG files (built without libjpeg-turbo)", path));
}
Picture JpegFile::decode(int) const { return {}; }
bool looks_whole(const std::string&) { return false; }

#else

namespace {

struct Header {
  int width = 0, height = 0, subsampling = 0, colours = 0;
};

tjhandle decoder() {
  thread_local const std::unique_ptr<void, int (*)(void*)> handle(tjInitDecompress(), tjDestroy);
  if (!handle) throw Error("libjpeg-turbo cannot be started");
  return handle.get();
}

const unsigned char* raw(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

bool read_header(std::string_view bytes, Header& header) {
  return tjDecompressHeader3(decoder(), raw(bytes), bytes.size(), &header.width, &header.height, &header.subsampling,
                             &header.colours) == 0;
}

/// Adobe's files hold CMYK inverted: 255 is no ink. Works in place.
void to_rgb(std::vector<std::uint8_t>& cmyk) {
  const std::size_t pixels = cmyk.size() / 4;
  for (std::size_t i = 0; i < pixels; ++i) {
    const int black = cmyk[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      cmyk[3 * i + c] = static_cast<std::uint8_t>((cmyk[4 * i + c] * black + 127) / 255);
    }
  }
  cmyk.resize(pixels * 3);
}

}  // namespace

bool reads_jpeg() { return true; }

JpegFile::JpegFile(const std::string& path) : path_(path), bytes_(read_file(path)) {
  if (bytes_.empty()) throw Error(fmt::format("{}: is empty", path));
  Header header;
  if (!read_header(bytes_, header)) throw Error(fmt::format("{}: {}", path, tjGetErrorStr2(decoder())));
  width_ = header.width;
  height_ = header.height;
  cmyk_ = header.colours == TJCS_CMYK || header.colours == TJCS_YCCK;
}

Picture JpegFile::decode(int divisor) const {
  const tjscalingfactor factor = {1, divisor};
  Picture picture;
  picture.width = TJSCALED(width_, factor);
  picture.height = TJSCALED(height_, factor);
  const auto pixels = static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height);
  picture.rgb.resize(pixels * (cmyk_ ? 4 : 3));
  if (tjDecompress2(decoder(), raw(bytes_), bytes_.size(), picture.rgb.data(), picture.width, 0, picture.height,
                    cmyk_ ? TJPF_CMYK : TJPF_RGB, 0) != 0) {
    throw Error(fmt::format("{}: {}", path_, tjGetErrorStr2(decoder())));
  }
  if (cmyk_) to_rgb(picture.rgb);
  return picture;
}

bool looks_whole(const std::string& path) {
  constexpr std::size_t head_bytes = 65'536;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(head_bytes, '\0');
  file.read(bytes.data(), head_bytes);
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  Header header;
  if (!read_header(bytes, header)) return false;
  file.clear();
  char end[2] = {};
  file.seekg(-2, std::ios::end);
  file.read(end, 2);
  return file && std::string_view(end, 2) == "\xff\xd9";
}

#endif

}  // namespace perfpred
