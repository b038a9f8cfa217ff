// SPDX-License-Identifier: Apache-2.0
#include "network/zoo/cifar_cnn.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <charconv>

#include "text/parse.h"

namespace perfpred {
namespace {

/// The number behind `key` at the start of `rest`, which both leave; nothing where the key does not stand there.
std::optional<int> take(std::string_view& rest, std::string_view key) {
  if (!rest.starts_with(key)) return std::nullopt;
  const std::string_view digits = rest.substr(key.size());
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const auto size = static_cast<std::size_t>(end - digits.data());
  if (error != std::errc{} || (digits.front() == '0' && size > 1)) return std::nullopt;
  rest = digits.substr(size);
  return value;
}

}  // namespace

bool is_cifar_cnn(std::string_view name) {
  return name.starts_with(cifar_cnn_family) &&
         (name.size() == cifar_cnn_family.size() || name[cifar_cnn_family.size()] == ':');
}

CifarCnn parse_cifar_cnn(std::string_view name) {
  CifarCnn network;
  std::string_view rest = name.substr(cifar_cnn_family.size());
  network.depth = take(rest, ":depth=");
  network.base_filters = take(rest, network.depth ? ",base_filters=" : ":base_filters=");
  network.well_formed = rest.empty();
  return network;
}

std::string CifarCnn::name() const {
  std::string text(cifar_cnn_family);
  if (depth) text += fmt::format(":depth={}", *depth);
  if (base_filters) text += fmt::format("{}base_filters={}", depth ? ',' : ':', *base_filters);
  return text;
}

void build_cifar_cnn(NetworkBuilder& b, std::string_view name) {
  const CifarCnn network = parse_cifar_cnn(name);
  if (!network.well_formed || !network.depth || !network.base_filters) {
    throw_bad_value({{}, 0, "network"}, name, fmt::format("of the form {}", cifar_cnn_example));
  }
  LayerId x = b.images();
  for (int block = 0; block < *network.depth; ++block) {
    const std::int64_t filters = static_cast<std::int64_t>(*network.base_filters) << block;
    b.enter(fmt::format("block{}", block));
    x = b.relu(b.conv(x, "conv1", filters, {3, 1, 1}, true));
    x = b.relu(b.conv(x, "conv2", filters, {3, 1, 1}, true));
    x = b.max_pool(x, {2, 2});
  }
  b.enter("");
  x = b.relu(b.linear(b.flatten(x), "dense1", 128));
  b.linear(x, "dense2", b.classes());
}

}  // namespace perfpred
