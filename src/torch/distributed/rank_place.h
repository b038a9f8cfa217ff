// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace perfpred {

/// Where a process stands among those that train one network together, and where they meet.
struct RankPlace {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  bool opens_port = true;  ///< of rank 0: where torchrun's agent has the port open already, it does not
};

/// What torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) or a step of Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS,
/// SLURM_STEP_NODELIST, SLURM_JOB_ID) says in the environment; nothing where there is one process.
/// @param variable  of the environment, null where it is not set
/// @throws InputError for a number that is none, and for ranks without a place to meet
[[nodiscard]] std::optional<RankPlace> place_by_environment(
    const std::function<const char*(const char* name)>& variable);

}  // namespace perfpred
