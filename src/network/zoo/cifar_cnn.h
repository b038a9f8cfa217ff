// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "network/network_builder.h"

namespace perfpred {

inline constexpr std::string_view cifar_cnn_family = "cifar_cnn";
inline constexpr std::string_view cifar_cnn_example = "cifar_cnn:depth=3,base_filters=32";

/// A member of the CIFAR-10 CNN family (Workload::cifar_cnn), `cifar_cnn:depth=3,base_filters=32`, or as much of it as
/// its name states: tables and options state the sizes apart, one after the other.
struct CifarCnn {
  std::optional<int> depth, base_filters;
  bool well_formed = true;  ///< the name states nothing else, and its numbers as they are shown

  [[nodiscard]] std::string name() const;
};

/// Whether a canonical name is one of the family, with or without sizes.
[[nodiscard]] bool is_cifar_cnn(std::string_view name);

/// The sizes of a canonical name of the family, without allocating: each prediction asks for them.
[[nodiscard]] CifarCnn parse_cifar_cnn(std::string_view name);

/// @throws InputError if the name does not state both sizes
void build_cifar_cnn(NetworkBuilder& builder, std::string_view name);

}  // namespace perfpred
