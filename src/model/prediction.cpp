// SPDX-License-Identifier: Apache-2.0
#include <perfpred/prediction.h>

#include <array>

namespace perfpred {
namespace {

// In the order of the enum.
constexpr std::array<std::string_view, 10> words = {"",
                                                    "depth_out_of_range",
                                                    "width_out_of_range",
                                                    "batch_out_of_range",
                                                    "size_out_of_range",
                                                    "other_network",
                                                    "other_device",
                                                    "other_precision",
                                                    "other_optimizer",
                                                    "other_layout"};

}  // namespace

std::string_view to_string(DomainViolation violation) { return words.at(static_cast<std::size_t>(violation)); }

}  // namespace perfpred
