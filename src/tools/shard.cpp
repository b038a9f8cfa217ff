// SPDX-License-Identifier: Apache-2.0
#include "tools/shard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <tuple>

#include "model/random_number.h"
#include "text/files.h"
#include "text/parse.h"
#include "workload/workload_on.h"

namespace perfpred {
Shard Shard::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const ValuePlace place{{}, 0, "shard"};
    const auto number = [&](std::string_view digits) {
      return digits.empty() ? -1 : parse_integer(digits, place);  // an unset variable of a shell is empty
    };
    const Shard shard{number(text.substr(0, slash)), number(text.substr(slash + 1))};
    if (shard.index >= 0 && shard.index < shard.count) return shard;
  }
  throw InputError(fmt::format("shard \"{}\" is not i/n with i from 0 to n - 1, as 0/40 to 39/40", shown(text)));
}

std::string Shard::name() const { return fmt::format("{}-of-{}", index, count); }

std::string Shard::file(const std::string& path) const {
  std::filesystem::path own(path);
  own.replace_filename(fmt::format("{}.{}{}", own.stem().string(), name(), own.extension().string()));
  return own.string();
}

std::vector<Workload> Shard::of(std::span<const Workload> workloads, std::uint64_t seed) const {
  struct Dealt {
    std::uint64_t number;
    std::string key;
    std::size_t place;
  };
  std::vector<Dealt> cards;
  std::set<std::string> keys;
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    std::string key = key_anywhere(workloads[i]);
    if (keys.insert(key).second) cards.push_back({random_number_of(key, seed), std::move(key), i});
  }
  std::sort(cards.begin(), cards.end(),
            [](const Dealt& a, const Dealt& b) { return std::tie(a.number, a.key) < std::tie(b.number, b.key); });
  std::vector<std::size_t> places;
  for (auto i = static_cast<std::size_t>(index); i < cards.size(); i += static_cast<std::size_t>(count))
    places.push_back(cards[i].place);
  std::sort(places.begin(), places.end());
  std::vector<Workload> own;
  for (const std::size_t place : places) own.push_back(workloads[place]);
  return own;
}

std::int64_t count_different(std::span<const Workload> workloads) {
  std::set<std::string> keys;
  for (const Workload& workload : workloads) keys.insert(key_anywhere(workload));
  return static_cast<std::int64_t>(keys.size());
}

ShardLock::ShardLock(const std::string& runs_csv, const Say& say) : path_(runs_csv + ".lock") {
  const int tried = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (tried >= 0) {
    const bool taken = ::flock(tried, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(tried);
    if (taken) say(fmt::format("waits for another process, which measures into {}", runs_csv));
  }
  fd_ = open_locked(path_, O_RDWR | O_CREAT);
}

ShardLock::~ShardLock() {
  ::unlink(path_.c_str());  // before somebody else holds it: who waits looks whether the file has its name still
  ::close(fd_);
}

}  // namespace perfpred
