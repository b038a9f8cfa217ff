// SPDX-License-Identifier: Apache-2.0
#include "torch/distributed/rank_place.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <limits>
#include <string_view>

#include "text/parse.h"

namespace perfpred {
namespace {

// As Lightning chooses the port of a job, which has to be the same on all nodes.
constexpr std::int64_t first_port = 15'000, ports = 10'000;

std::int64_t number(const char* name, const char* text, std::int64_t most) {
  const ValuePlace place{{}, 0, name};
  const std::int64_t value = parse_integer(text, place);
  if (value < 0 || value > most) throw_bad_value(place, text, fmt::format("a number from 0 to {}", most));
  return value;
}

/// The first host of `node[03-07,9],other`.
std::string first_host(std::string_view list) {
  const std::size_t end = list.find_first_of(",[");
  if (end == std::string_view::npos || list[end] == ',') return std::string(list.substr(0, end));
  const std::string_view numbers = list.substr(end + 1);
  return std::string(list.substr(0, end)) + std::string(numbers.substr(0, numbers.find_first_of("-,]")));
}

}  // namespace

std::optional<RankPlace> place_by_environment(const std::function<const char*(const char* name)>& variable) {
  const bool by_torchrun = variable("RANK") != nullptr && variable("WORLD_SIZE") != nullptr;
  const bool by_slurm = variable("SLURM_PROCID") != nullptr && variable("SLURM_STEP_NUM_TASKS") != nullptr;
  if (!by_torchrun && !by_slurm) return std::nullopt;
  const char* const size = by_torchrun ? "WORLD_SIZE" : "SLURM_STEP_NUM_TASKS";
  const char* const rank = by_torchrun ? "RANK" : "SLURM_PROCID";
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  RankPlace place;
  place.size = static_cast<int>(number(size, variable(size), most));
  place.rank = static_cast<int>(number(rank, variable(rank), most));
  if (place.size < 2) return std::nullopt;
  if (place.rank >= place.size)
    throw InputError(fmt::format("{} {} is not below {} {}", rank, place.rank, size, place.size));
  const char* const address = variable("MASTER_ADDR");
  const char* const port = variable("MASTER_PORT");
  const char* const nodes = variable("SLURM_STEP_NODELIST");
  const char* const job = variable("SLURM_JOB_ID");
  if (address != nullptr) {
    place.address = address;
  } else if (by_slurm && nodes != nullptr) {
    place.address = first_host(nodes);
  } else {
    throw InputError(fmt::format("MASTER_ADDR is not set: where do the {} ranks meet?", place.size));
  }
  if (port != nullptr) {
    place.port = static_cast<std::uint16_t>(number("MASTER_PORT", port, std::numeric_limits<std::uint16_t>::max()));
  } else if (by_slurm && job != nullptr) {
    place.port = static_cast<std::uint16_t>(first_port + number("SLURM_JOB_ID", job, most) % ports);
  } else {
    throw InputError(fmt::format("MASTER_PORT is not set: where do the {} ranks meet?", place.size));
  }
  const char* const agent = variable("TORCHELASTIC_USE_AGENT_STORE");
  place.opens_port = agent == nullptr || std::string_view(agent) != "True";
  return place;
}

}  // namespace perfpred
