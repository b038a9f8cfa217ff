// SPDX-License-Identifier: Apache-2.0
#include <perfpred/parallel_layout.h>

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "text/parse.h"
#include "workload/divisors.h"
#include "workload/rank_network.h"
#include "workload/world.h"

namespace perfpred {
namespace {

constexpr std::int64_t most_of_layout = 1 << 20;  // of each number
constexpr std::string_view layout_form =
    "ddp, fsdp, zero1, zero2, zero3, or numbers as tp=2,pp=4 (of tp, pp, dp, cp, ep, etp, vp, sp, full), to which fsdp "
    "or zero1 to zero3 may be joined by +";

constexpr std::array<std::pair<std::string_view, Sharding>, 5> shardings = {{{"ddp", Sharding::none},
                                                                             {"zero1", Sharding::zero1},
                                                                             {"zero2", Sharding::zero2},
                                                                             {"zero3", Sharding::zero3},
                                                                             {"fsdp", Sharding::fsdp}}};

using LayoutNumber = std::int64_t ParallelLayout::*;
constexpr std::array<std::pair<std::string_view, LayoutNumber>, 7> layout_numbers = {{{"tp", &ParallelLayout::tp},
                                                                                      {"pp", &ParallelLayout::pp},
                                                                                      {"dp", &ParallelLayout::dp},
                                                                                      {"cp", &ParallelLayout::cp},
                                                                                      {"ep", &ParallelLayout::ep},
                                                                                      {"etp", &ParallelLayout::etp},
                                                                                      {"vp", &ParallelLayout::vp}}};

[[noreturn]] void refuse_layout(std::string_view whole, std::string_view expected = layout_form) {
  throw_bad_value({{}, 0, "parallel"}, whole, expected);
}

/// `tp=2`; each key once.
void set_number(ParallelLayout& layout, std::string_view item, std::vector<std::string_view>& seen,
                std::string_view whole) {
  const std::size_t equals = item.find('=');
  if (equals == std::string_view::npos) refuse_layout(whole);
  const std::string_view key = trimmed(item.substr(0, equals)), value = item.substr(equals + 1);
  if (std::find(seen.begin(), seen.end(), key) != seen.end())
    refuse_layout(whole, fmt::format("of one {}", shown(key)));
  seen.push_back(key);
  const ValuePlace place = {{}, 0, key};
  if (key == "sp" || key == "full") {
    (key == "sp" ? layout.sp : layout.full) = parse_flag(value, place);
    return;
  }
  const auto* const found =
      std::find_if(layout_numbers.begin(), layout_numbers.end(), [&](const auto& n) { return n.first == key; });
  if (found == layout_numbers.end()) refuse_layout(whole);
  const std::int64_t number = parse_positive_integer(value, place);
  if (number > most_of_layout) throw_bad_value(place, value, fmt::format("a number up to {}", most_of_layout));
  layout.*found->second = number;
}

void set_numbers(ParallelLayout& layout, std::string_view items, std::string_view whole) {
  std::vector<std::string_view> seen;
  for (std::size_t begin = 0; begin <= items.size();) {
    const std::size_t end = std::min(items.find(',', begin), items.size());
    set_number(layout, items.substr(begin, end - begin), seen, whole);
    begin = end + 1;
  }
}

}  // namespace

std::string_view to_string(Sharding sharding) {
  return std::find_if(shardings.begin(), shardings.end(), [&](const auto& s) { return s.second == sharding; })->first;
}

ParallelLayout ParallelLayout::parse(std::string_view text) {
  ParallelLayout layout;
  const std::string_view whole = trimmed(text);
  bool has_sharding = false, has_numbers = false;
  for (std::size_t begin = 0; begin <= whole.size();) {
    const std::size_t end = std::min(whole.find('+', begin), whole.size());
    const std::string_view part = trimmed(whole.substr(begin, end - begin));
    begin = end + 1;
    const auto* const found =
        std::find_if(shardings.begin(), shardings.end(), [&](const auto& s) { return s.first == part; });
    if (found != shardings.end()) {
      const bool is_joined = part.size() != whole.size();
      if (std::exchange(has_sharding, true) || (found->second == Sharding::none && is_joined)) refuse_layout(whole);
      layout.sharding = found->second;
    } else {
      if (std::exchange(has_numbers, true)) refuse_layout(whole);
      set_numbers(layout, part, whole);
    }
  }
  layout.sp = layout.sp && layout.tp > 1;
  if (layout.vp > 1 && layout.pp == 1) refuse_layout(whole, "of a pipeline: vp is for pp above 1");
  if (layout.full && (!gathers_parameters(layout) || splits_network(layout)))
    refuse_layout(whole, "of shares of a whole network: full is for fsdp or zero3 alone");
  return layout;
}

std::string ParallelLayout::text() const {
  std::string list;
  for (const auto& [name, number] : layout_numbers) {
    const std::int64_t usual = name == "dp" ? 0 : 1;
    if (this->*number != usual) list += fmt::format("{}{}={}", list.empty() ? "" : ",", name, this->*number);
  }
  for (const auto& [name, is_set] : {std::pair("sp", sp), std::pair("full", full)}) {
    if (is_set) list += fmt::format("{}{}=1", list.empty() ? "" : ",", name);
  }
  if (list.empty()) return std::string(to_string(sharding));
  return sharding == Sharding::none ? list : fmt::format("{}+{}", to_string(sharding), list);
}

std::int64_t ParallelLayout::devices() const {
  std::int64_t product = 1;
  for (const std::int64_t factor : {tp, pp, cp, std::max<std::int64_t>(dp, 1)}) {
    if (__builtin_mul_overflow(product, factor, &product)) throw InputError("parallel has too many devices");
  }
  return product;
}

ParallelLayout ParallelLayout::on(const Placement& placement) const {
  ParallelLayout layout = *this;
  const std::int64_t world = placement.devices();
  layout.dp = 1;
  const std::int64_t replica = layout.devices();
  if (world % replica != 0 || (dp > 0 && world / replica != dp)) {
    const std::string wanted = dp > 0 ? fmt::format("{} are needed", devices())
                                      : fmt::format("a multiple of {} (tp x pp x cp) is needed", replica);
    throw InputError(
        fmt::format("parallel {} does not fit the {} devices of gpus_per_node: {}", text(), world, wanted));
  }
  layout.dp = world / replica;
  check_divides(fmt::format("ep x etp = {} of parallel", ep * etp), ep * etp, world / pp,
                "devices of a pipeline stage");
  return layout;
}

}  // namespace perfpred
