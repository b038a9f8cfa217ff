// SPDX-License-Identifier: Apache-2.0
#include "network/zoo/sized_name.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>

#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::int64_t max_size = 1 << 30;

/// A positive number, written as it is shown: one network has one name.
std::int64_t plain_number(std::string_view key, std::string_view text) {
  const std::int64_t most = key == "layers" ? max_network_blocks : max_size;
  const std::int64_t value = parse_positive_integer(text, {{}, 0, key});
  if (value > most || text != std::to_string(value)) {
    throw_bad_value({{}, 0, key}, text, fmt::format("a plain number from 1 to {}", most));
  }
  return value;
}

}  // namespace

SizedName::SizedName(std::string_view name, std::span<const std::string_view> sizes, std::string_view example)
    : canonical_(name.substr(0, name.find(':'))) {
  const auto refuse = [&] { throw_bad_value({{}, 0, "network"}, name, fmt::format("of the form {}", example)); };
  std::string_view rest = name.substr(canonical_.size() + 1);
  char separator = ':';
  for (bool more = !rest.empty(); more;) {
    const std::size_t end = rest.find(',');
    const std::string_view field = rest.substr(0, end);
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos) refuse();
    const std::string_view key = field.substr(0, equals), value = field.substr(equals + 1);
    if (sizes_.size() == sizes.size()) {
      options_.emplace_back(key, value);
    } else {
      if (key != sizes[sizes_.size()]) refuse();
      sizes_.push_back(plain_number(key, value));
      canonical_ += fmt::format("{}{}={}", separator, key, value);
      separator = ',';
    }
    more = end != std::string_view::npos;
    if (more) rest.remove_prefix(end + 1);
  }
  if (sizes_.size() != sizes.size()) refuse();
}

std::string_view SizedName::take(std::string_view key) {
  known_.push_back(key);
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const auto& o) { return o.first == key; });
  if (found == options_.end()) return {};
  const std::string_view value = found->second;
  options_.erase(found);
  if (value.empty()) throw_bad_value({{}, 0, key}, value, "a value");
  return value;
}

void SizedName::write(std::string_view key, std::string_view value) { canonical_ += fmt::format(",{}={}", key, value); }

std::int64_t SizedName::number(std::string_view key, std::int64_t usual) {
  const std::string_view text = take(key);
  const std::int64_t value = text.empty() ? usual : plain_number(key, text);
  if (value != usual) write(key, text);
  return value;
}

std::size_t SizedName::choice(std::string_view key, std::span<const std::string_view> values) {
  const std::string_view text = take(key);
  if (text.empty()) return 0;
  const auto found = std::find(values.begin(), values.end(), text);
  if (found == values.end()) throw_bad_value({{}, 0, key}, text, fmt::format("{}", fmt::join(values, " or ")));
  if (found != values.begin()) write(key, text);
  return static_cast<std::size_t>(found - values.begin());
}

bool SizedName::flag(std::string_view key, bool usual) {
  const std::string_view text = take(key);
  if (text.empty()) return usual;
  const bool value = parse_flag(text, {{}, 0, key});
  if (value != usual) write(key, text);
  return value;
}

std::string SizedName::finish() && {
  if (!options_.empty()) {
    throw_bad_value({{}, 0, "option"}, options_.front().first,
                    fmt::format("one of {}, each at most once", fmt::join(known_, ", ")));
  }
  return std::move(canonical_);
}

}  // namespace perfpred
