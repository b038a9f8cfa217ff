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

using Variable = std::function<const char*(const char* name)>;

std::string address_of(const Variable& variable, bool by_slurm) {
  if (const char* const address = variable("MASTER_ADDR")) return address;
  const char* const nodes = by_slurm ? variable("SLURM_STEP_NODELIST") : nullptr;
  if (nodes == nullptr) throw InputError("MASTER_ADDR is not set: where do the ranks meet?");
  return first_host(nodes);
}

std::uint16_t port_of(const Variable& variable, bool by_slurm) {
  if (const char* const port = variable("MASTER_PORT"))
    return static_cast<std::uint16_t>(number("MASTER_PORT", port, std::numeric_limits<std::uint16_t>::max()));
  const char* const job = by_slurm ? variable("SLURM_JOB_ID") : nullptr;
  if (job == nullptr) throw InputError("MASTER_PORT is not set: where do the ranks meet?");
  const std::int64_t id = number("SLURM_JOB_ID", job, std::numeric_limits<std::int64_t>::max());
  return static_cast<std::uint16_t>(first_port + id % ports);
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
  place.address = address_of(variable, by_slurm);
  place.port = port_of(variable, by_slurm);
  const char* const agent = variable("TORCHELASTIC_USE_AGENT_STORE");
  place.opens_port = agent == nullptr || std::string_view(agent) != "True";
  return place;
}

}  // namespace perfpred
