// SPDX-License-Identifier: Apache-2.0
#include "aggregate/rejected_list.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <cerrno>
#include <cstring>

namespace perfpred {
namespace {

constexpr std::size_t most_in_memory = std::size_t{4} << 20;

/// What stands before the bytes of the time stamp.
struct Record {
  std::uint64_t group;
  double avg_time_sec;
  std::uint32_t timestamp_bytes;
  Rejection reason;
  bool timed;
};

[[noreturn]] void fail(const char* what) {
  throw Error(fmt::format("a temporary file cannot be {}: {}", what, std::strerror(errno)));
}

}  // namespace

void RejectedList::add(const RejectedEntry& entry) {
  Record record{};
  record.group = entry.group;
  record.avg_time_sec = entry.avg_time_sec.value_or(0);
  record.timestamp_bytes = static_cast<std::uint32_t>(entry.timestamp_utc.size());
  record.reason = entry.reason;
  record.timed = entry.avg_time_sec.has_value();
  buffer_.append(reinterpret_cast<const char*>(&record), sizeof record);
  buffer_ += entry.timestamp_utc;
  ++size_;
  if (buffer_.size() < most_in_memory) return;
  if (!file_) file_.reset(std::tmpfile());
  if (!file_) fail("made");
  if (std::fseek(file_.get(), 0, SEEK_END) != 0 ||
      std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) != buffer_.size() || std::fflush(file_.get()) != 0) {
    fail("written");
  }
  buffer_.clear();
}

void RejectedList::for_each(const std::function<void(const RejectedEntry&)>& call) const {
  std::string timestamp;
  const auto replay = [&](const auto& read) {
    for (Record record{}; read(reinterpret_cast<char*>(&record), sizeof record);) {
      timestamp.resize(record.timestamp_bytes);
      if (!read(timestamp.data(), timestamp.size())) fail("read");
      call({record.group, record.reason, record.timed ? std::optional(record.avg_time_sec) : std::nullopt, timestamp});
    }
  };
  if (file_) {
    std::rewind(file_.get());
    replay([this](char* to, std::size_t bytes) { return std::fread(to, 1, bytes, file_.get()) == bytes; });
    if (std::ferror(file_.get()) != 0) fail("read");
  }
  std::string_view rest = buffer_;
  replay([&rest](char* to, std::size_t bytes) {
    if (rest.size() < bytes) return false;
    std::memcpy(to, rest.data(), bytes);
    rest.remove_prefix(bytes);
    return true;
  });
}

}  // namespace perfpred
