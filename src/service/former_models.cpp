// SPDX-License-Identifier: Apache-2.0
#include "service/former_models.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

#include "text/files.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view pattern = "00000000T000000.000Z";  // 0 stands for a digit
constexpr std::size_t day_length = 8;

bool is_time(std::string_view text) {
  return std::ranges::equal(text, pattern, [](char c, char of) { return of == '0' ? c >= '0' && c <= '9' : c == of; });
}

/// @param at  milliseconds since 1970
std::string time_text(std::int64_t at) {
  return fmt::format("{:%Y%m%dT%H%M%S}.{:03}Z", fmt::gmtime(static_cast<std::time_t>(at / 1000)), at % 1000);
}

/// Milliseconds since 1970 of what time_text() gave.
std::int64_t milliseconds_of(const std::string& time) {
  std::tm parts{};
  const char* fraction = ::strptime(time.c_str(), "%Y%m%dT%H%M%S.", &parts);
  return std::int64_t{::timegm(&parts)} * 1000 + (fraction == nullptr ? 0 : std::strtol(fraction, nullptr, 10));
}

std::int64_t now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

void remove(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw Error(fmt::format("{}: cannot be removed: {}", path, error.message()));
}

}  // namespace

FormerModels::FormerModels(const std::string& path) : path_(file_behind(path)) {}

std::vector<std::string> FormerModels::times() const {
  const fs::path whole(path_);
  const std::string start = whole.filename().string() + ".";
  std::vector<std::string> times;
  std::error_code unreadable;
  for (fs::directory_iterator at(whole.parent_path(), unreadable), end; !unreadable && at != end;
       at.increment(unreadable)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(start) && is_time(std::string_view(name).substr(start.size())))
      times.push_back(name.substr(start.size()));
  }
  std::ranges::sort(times, std::greater());
  return times;
}

void FormerModels::keep(std::string_view text) const {
  std::vector<std::string> kept = times();
  if (!kept.empty() && read_file(file(kept.front())) == text) return;
  // Later than the newest one, even if the clock was put back.
  const std::int64_t earliest = kept.empty() ? 0 : milliseconds_of(kept.front()) + 1;
  kept.insert(kept.begin(), time_text(std::max(now(), earliest)));
  write_file(file(kept.front()), text);
  std::size_t different_days = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const bool is_last_of_day = i == 0 || kept[i].substr(0, day_length) != kept[i - 1].substr(0, day_length);
    if (is_last_of_day) ++different_days;
    if (i >= newest && !(is_last_of_day && different_days <= days)) remove(file(kept[i]));
  }
}

void FormerModels::remove_from(std::string_view time) const {
  for (const std::string& one : times()) {
    if (one >= time) remove(file(one));
  }
}

}  // namespace perfpred
