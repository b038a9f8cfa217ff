// SPDX-License-Identifier: Apache-2.0
#include "torch/data/picture_file.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#ifdef PERFPRED_WITH_TURBOJPEG
#include <turbojpeg.h>
#endif
#ifdef PERFPRED_WITH_PNG
#include <png.h>
#endif
#ifdef PERFPRED_WITH_WEBP
#include <webp/decode.h>
#endif

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <memory>
#include <string_view>

#include "text/files.h"

namespace perfpred {
namespace {

using namespace std::string_view_literals;

constexpr std::int64_t most_pixels = 178'956'970;

/// What a library says of a picture.
struct Size {
  int width = 0, height = 0;
};

/// A format and the library that reads it; its functions throw Error with a reason alone.
struct Format {
  PictureFormat format;
  std::string_view name, library;
  bool (*begins)(std::string_view head);  ///< whether a file of these first bytes is one
  /// Whether a file of so many bytes that begins and ends like this is whole.
  bool (*ends)(std::string_view head, std::string_view tail, std::uint64_t bytes);
  Size (*size_of)(std::string_view bytes);  ///< of the beginning of a file; null: without the library
  Picture (*decode)(std::string_view bytes, int divisor);
};

[[maybe_unused]] const unsigned char* raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

[[maybe_unused]] Picture picture_of(Size size, int channels) {
  Picture picture;
  picture.width = size.width;
  picture.height = size.height;
  picture.rgb.resize(static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height) *
                     static_cast<std::size_t>(channels));
  return picture;
}

#ifdef PERFPRED_WITH_TURBOJPEG

tjhandle decoder() {
  thread_local const std::unique_ptr<void, int (*)(void*)> handle(tjInitDecompress(), tjDestroy);
  if (!handle) throw Error("libjpeg-turbo cannot be started");
  return handle.get();
}

/// @param colours  gets one of TJCS_...
Size jpeg_header(std::string_view bytes, int& colours) {
  Size size;
  int subsampling = 0;
  if (tjDecompressHeader3(decoder(), raw(bytes), bytes.size(), &size.width, &size.height, &subsampling, &colours) !=
      0) {
    throw Error(tjGetErrorStr2(decoder()));
  }
  return size;
}

Size jpeg_size(std::string_view bytes) {
  int colours = 0;
  return jpeg_header(bytes, colours);
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

Picture decode_jpeg(std::string_view bytes, int divisor) {
  int colours = 0;
  const Size whole = jpeg_header(bytes, colours);
  const bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  const tjscalingfactor factor = {1, divisor};
  Picture picture = picture_of({TJSCALED(whole.width, factor), TJSCALED(whole.height, factor)}, cmyk ? 4 : 3);
  if (tjDecompress2(decoder(), raw(bytes), bytes.size(), picture.rgb.data(), picture.width, 0, picture.height,
                    cmyk ? TJPF_CMYK : TJPF_RGB, 0) != 0) {
    throw Error(tjGetErrorStr2(decoder()));
  }
  if (cmyk) to_rgb(picture.rgb);
  return picture;
}

#else
constexpr auto jpeg_size = nullptr, decode_jpeg = nullptr;
#endif

#ifdef PERFPRED_WITH_PNG

/// libpng's simplified interface, which catches its own errors.
class Png {
 public:
  explicit Png(std::string_view bytes) {
    image_.version = PNG_IMAGE_VERSION;
    check(png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()));
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  }
  ~Png() { png_image_free(&image_); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  [[nodiscard]] Size size() const { return {static_cast<int>(image_.width), static_cast<int>(image_.height)}; }

  Picture rgb() {
    image_.format = PNG_FORMAT_RGBA;  // read as RGB, a transparent picture is drawn on black
    Picture picture = picture_of(size(), 4);
    check(png_image_finish_read(&image_, nullptr, picture.rgb.data(), 0, nullptr));
    auto& values = picture.rgb;
    const std::size_t pixels = values.size() / 4;
    for (std::size_t i = 0; i < pixels; ++i) {
      for (std::size_t c = 0; c < 3; ++c) values[3 * i + c] = values[4 * i + c];
    }
    values.resize(3 * pixels);
    return picture;
  }

 private:
  void check(int done) const {
    if (done == 0) throw Error(image_.message);
  }

  png_image image_{};
};

Size png_size(std::string_view bytes) { return Png(bytes).size(); }
Picture decode_png(std::string_view bytes, int) { return Png(bytes).rgb(); }

#else
constexpr auto png_size = nullptr, decode_png = nullptr;
#endif

#ifdef PERFPRED_WITH_WEBP

Size webp_size(std::string_view bytes) {
  Size size;
  if (WebPGetInfo(raw(bytes), bytes.size(), &size.width, &size.height) == 0) throw Error("its WebP header is damaged");
  return size;
}

Picture decode_webp(std::string_view bytes, int) {
  Picture picture = picture_of(webp_size(bytes), 3);
  if (WebPDecodeRGBInto(raw(bytes), bytes.size(), picture.rgb.data(), picture.rgb.size(), 3 * picture.width) ==
      nullptr) {
    throw Error("its WebP data are damaged, or moving pictures");
  }
  return picture;
}

#else
constexpr auto webp_size = nullptr, decode_webp = nullptr;
#endif

/// The size of a RIFF file by its own header, of at least 12 bytes.
std::uint64_t riff_bytes(std::string_view head) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 8; i-- > 4;) bytes = bytes << 8U | static_cast<unsigned char>(head[i]);
  return bytes + 8;
}

constexpr std::array<Format, 3> formats = {
    {{PictureFormat::jpeg, "JPEG", "libjpeg-turbo", [](std::string_view head) { return head.starts_with("\xff\xd8"); },
      [](std::string_view, std::string_view tail, std::uint64_t) { return tail.ends_with("\xff\xd9"); }, jpeg_size,
      decode_jpeg},
     {PictureFormat::png, "PNG", "libpng", [](std::string_view head) { return head.starts_with("\x89PNG\r\n\x1a\n"); },
      [](std::string_view, std::string_view tail, std::uint64_t) {
        return tail.ends_with("\0\0\0\0IEND\xae\x42\x60\x82"sv);
      },
      png_size, decode_png},
     {PictureFormat::webp, "WebP", "libwebp",
      [](std::string_view head) { return head.starts_with("RIFF") && head.substr(0, 12).ends_with("WEBP"); },
      [](std::string_view head, std::string_view, std::uint64_t bytes) { return riff_bytes(head) <= bytes; }, webp_size,
      decode_webp}}};

const Format& row_of(PictureFormat format) { return formats.at(static_cast<std::size_t>(format)); }

const Format* format_of(std::string_view head) {
  const auto* found = std::find_if(formats.begin(), formats.end(), [&](const Format& f) { return f.begins(head); });
  return found == formats.end() ? nullptr : found;
}

/// The size of a picture, of whose file the beginning is given. @throws Error with a reason
Size checked_size(const Format& format, std::string_view bytes) {
  if (format.size_of == nullptr) {
    throw Error(fmt::format("this build reads no {} files (built without {})", format.name, format.library));
  }
  const Size size = format.size_of(bytes);
  if (size.width < 1 || size.height < 1) throw Error("has no pixels");
  if (std::int64_t{size.width} * size.height > most_pixels) {
    throw Error(fmt::format("has {} x {} pixels; at most {} are read", size.width, size.height, most_pixels));
  }
  return size;
}

}  // namespace

bool reads(PictureFormat format) { return row_of(format).decode != nullptr; }

bool is_picture_name(std::string_view name) {
  constexpr std::array<std::string_view, 4> extensions = {".jpg", ".jpeg", ".png", ".webp"};
  return std::any_of(extensions.begin(), extensions.end(), [&](std::string_view extension) {
    const auto equal = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
    return name.size() > extension.size() && std::equal(name.end() - static_cast<std::ptrdiff_t>(extension.size()),
                                                        name.end(), extension.begin(), extension.end(), equal);
  });
}

PictureFile::PictureFile(const std::string& path) : path_(path), bytes_(read_file(path)) {
  if (bytes_.empty()) throw Error(fmt::format("{}: is empty", path));
  const Format* format = format_of(bytes_);
  if (format == nullptr) throw Error(fmt::format("{}: is not a JPEG, PNG or WebP picture", path));
  format_ = format->format;
  try {
    const Size size = checked_size(*format, bytes_);
    width_ = size.width;
    height_ = size.height;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
}

Picture PictureFile::decode(int divisor) const {
  try {
    return row_of(format_).decode(bytes_, divisor);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", path_, error.what()));
  }
}

bool looks_whole(const std::string& path) {
  constexpr std::size_t head_bytes = 65'536;
  constexpr std::int64_t tail_bytes = 16;
  std::ifstream file(path, std::ios::binary);
  std::string head(head_bytes, '\0');
  file.read(head.data(), head_bytes);
  head.resize(static_cast<std::size_t>(file.gcount()));
  const Format* format = format_of(head);
  if (format == nullptr) return false;
  try {
    static_cast<void>(checked_size(*format, head));
  } catch (const Error&) {
    return false;  // decoding says what is wrong
  }
  file.clear();
  std::string tail(tail_bytes, '\0');
  file.seekg(-tail_bytes, std::ios::end);
  file.read(tail.data(), tail_bytes);
  return file && format->ends(head, tail, static_cast<std::uint64_t>(file.tellg()));
}

}  // namespace perfpred
