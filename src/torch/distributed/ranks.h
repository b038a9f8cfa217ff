// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/parallel_layout.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "torch/distributed/rank_group.h"
#include "torch/distributed/rank_place.h"

namespace perfpred {

/// The processes that train together, each on a device of its own: rank 0 says what to do, the others follow.
class Ranks {
 public:
  /// Those that torchrun or Slurm started, of which this process is one; else so many processes of this program on this
  /// machine, of which this one is the first. Null for one.
  /// @param arguments  of main()
  /// @throws InputError if `replicas` is not what torchrun or Slurm started; without gloo, and as Ranks
  [[nodiscard]] static std::shared_ptr<Ranks> of(std::optional<int> replicas, char** arguments);

  /// This process is one of those that somebody started: meets the others. @throws RankLost if one does not come
  explicit Ranks(const RankPlace& place);
  /// This process is rank 0 on this machine; start() starts the others.
  Ranks(int replicas, char** arguments);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] int local_rank() const;  ///< among those on this machine
  [[nodiscard]] int local_size() const;
  [[nodiscard]] const Placement& placement() const;
  [[nodiscard]] std::int64_t nodes_of(int size) const;  ///< on which the first so many ranks are

  void start();  ///< starts those that are to be started, once. @throws RankLost if one does not come

  /// Rank 0 says what the others do, and does its own part of it.
  /// @throws what `work` throws; in place of its RankLost what is known of the other rank: OutOfMemory if it had not
  ///         enough, else RankLost
  void lead(const std::string& job, const std::function<void()>& work);
  void await_others();  ///< rank 0, until all have done their part. @throws RankLost
  void end();           ///< rank 0: there is nothing more to do

  /// The other ranks do what rank 0 says, until it says that there is no more. What `work` throws is reported to it.
  /// @throws RankLost if rank 0 is lost
  void follow(const std::function<void(const std::string& job)>& work);

  /// Connects all ranks for the job: gloo between CPUs, and NCCL between GPUs.
  /// @param size  connects the first so many ranks only, of which this one is one; 0: all
  /// @throws RankLost
  [[nodiscard]] std::unique_ptr<RankGroup> connect(c10::Device device, int size = 0);

 private:
  struct Impl;
  [[noreturn]] void explain(const RankLost& otherwise);
  [[nodiscard]] std::optional<std::string> next_job();
  void report(const std::string& error, bool out_of_memory);

  std::unique_ptr<Impl> impl_;
};

}  // namespace perfpred
