// SPDX-License-Identifier: Apache-2.0
#include "text/xz.h"

#include <fmt/format.h>
#include <lzma.h>
#include <perfpred/error.h>

#include <cstdint>
#include <limits>
#include <memory>

#include "text/files.h"

namespace perfpred {
namespace {

constexpr std::size_t most_bytes = 1'000'000'000;

const std::uint8_t* bytes_of(const std::string& text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

[[noreturn]] void refuse(const std::string& path, lzma_ret code) {
  if (code == LZMA_FORMAT_ERROR) throw InputError(fmt::format("{}: is not a file that xz packed", path));
  throw InputError(fmt::format("{}: is cut off or damaged", path));
}

}  // namespace

std::string read_xz(const std::string& path) {
  const std::string packed = read_file(path);
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, std::numeric_limits<std::uint64_t>::max(), 0) != LZMA_OK)
    throw Error(fmt::format("{}: there is no memory to unpack it", path));
  const std::unique_ptr<lzma_stream, void (*)(lzma_stream*)> ends(&stream, &lzma_end);
  stream.next_in = bytes_of(packed);
  stream.avail_in = packed.size();
  std::string text;
  for (std::size_t room = 8 * packed.size() + 4096;; room *= 2) {
    const std::size_t filled = text.size();
    text.resize(filled + room);
    stream.next_out = reinterpret_cast<std::uint8_t*>(text.data()) + filled;
    stream.avail_out = room;
    const lzma_ret code = lzma_code(&stream, LZMA_FINISH);
    text.resize(text.size() - stream.avail_out);
    if (code == LZMA_STREAM_END) return text;
    if (code != LZMA_OK || stream.avail_out > 0) refuse(path, code);
    if (text.size() > most_bytes) throw InputError(fmt::format("{}: holds more than 1 GB", path));
  }
}

}  // namespace perfpred
