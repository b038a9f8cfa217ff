// SPDX-License-Identifier: Apache-2.0
#include "torch/distributed/ranks.h"

#include <ATen/ops/scalar_tensor.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <perfpred/torch/device_error.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "torch/distributed/child_processes.h"
#include "torch/monitor/proc.h"

#ifdef PERFPRED_WITH_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#ifdef PERFPRED_WITH_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace perfpred {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds start_limit(120);  // a process loads LibTorch, from a network's disk perhaps
constexpr seconds call_limit(RankGroup::lost_after_sec);
constexpr seconds explanation_limit(2);  // a killed process closes its connections before its parent hears of it
constexpr std::chrono::hours pause_limit(24);
constexpr milliseconds between_looks(10);
constexpr std::string_view of_memory = "memory:", of_other = "error:";

void need_gloo() {
#ifndef PERFPRED_WITH_GLOO
  throw InputError("several replicas need a perfpred that was built with gloo's headers (Debian: libgloo-dev)");
#endif
}

/// A port of this machine that others cannot reach. @returns the open socket and its port
std::pair<int, std::uint16_t> loopback_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || ::bind(fd, any, size) != 0 || ::listen(fd, SOMAXCONN) != 0 || ::getsockname(fd, any, &size) != 0)
    throw Error(fmt::format("no port of this machine can be opened: {}", std::strerror(errno)));
  return {fd, ::ntohs(address.sin_port)};
}

/// One for all processes that see each other's numbers.
std::string this_machine() {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  return host.data() + first_line("/proc/sys/kernel/random/boot_id").value_or("");
}

c10::intrusive_ptr<c10d::Store> open_store(const RankPlace& place, std::optional<int> socket) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = place.rank == 0 && place.opens_port;
  options.waitWorkers = false;
  options.timeout = start_limit;
  options.masterListenFd = socket;
  // torchrun keeps values of its own in the same store.
  return c10::make_intrusive<c10d::PrefixStore>("perfpred",
                                                c10::make_intrusive<c10d::TCPStore>(place.address, options));
}

}  // namespace

struct RankGroup::Impl {
  int rank, size;
  std::vector<int> neighbours;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<c10d::Backend> control;  // gloo
};

RankGroup::RankGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RankGroup::~RankGroup() = default;

int RankGroup::rank() const { return impl_->rank; }
int RankGroup::size() const { return impl_->size; }
const std::vector<int>& RankGroup::neighbours() const { return impl_->neighbours; }
c10d::ProcessGroup& RankGroup::process_group() { return *impl_->group; }

double RankGroup::highest(double here) {
  return guard_ranks([&] {
    std::vector<at::Tensor> values = {at::scalar_tensor(here, at::kDouble)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    impl_->control->allreduce(values, options)->wait();
    return values.front().item<double>();
  });
}

std::function<bool(bool wait)> RankGroup::sum(const at::Tensor& tensor) {
  return guard_ranks([&] {
    std::vector<at::Tensor> tensors = {tensor};
    const auto work = impl_->group->getBackend(tensor.device().type())->allreduce(tensors);
    return [work](bool wait) { return guard_ranks([&] { return wait ? work->wait() : work->isCompleted(); }); };
  });
}

double RankGroup::of_first(double value) {
  return highest(rank() == 0 ? value : -std::numeric_limits<double>::infinity());
}

struct Ranks::Impl {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  Placement placement;
  std::vector<std::size_t> nodes;  // of each rank
  std::vector<int> neighbours;
  char** arguments = nullptr;
  int job = 0;
  bool ended = false;
  c10::intrusive_ptr<c10d::Store> store;  // null until all are started
  ChildProcesses children;                // goes first: it waits for processes that still read the store

  [[nodiscard]] std::string key(const char* what, int of_rank) const {
    return fmt::format("{}/{}/{}", what, job, of_rank);
  }

  /// @throws RankLost if another rank than 0 has not set its key in time, or ended
  void await(const char* what, seconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    for (int other = 0; other < size; ++other) {
      while (other != rank && !store->check({key(what, other)})) {
        if (const auto end = children.first_end()) throw RankLost(*end);
        if (std::chrono::steady_clock::now() > until)
          throw RankLost(fmt::format("rank {} of {} does not answer", other, size));
        std::this_thread::sleep_for(between_looks);
      }
    }
  }

  /// All say where they are.
  void meet() {
    const std::string here = this_machine();
    store->set(key("at", rank), fmt::format("{} {}", ::getpid(), here));
    await("at", start_limit);
    std::vector<std::string> machines;
    local_size = 0;
    placement = {};
    for (int other = 0; other < size; ++other) {
      const std::string at = store->get_to_str(key("at", other));
      const std::string machine = at.substr(at.find(' ') + 1);
      const auto known = std::find(machines.begin(), machines.end(), machine);
      const auto node = static_cast<std::size_t>(known - machines.begin());
      if (known == machines.end()) {
        machines.push_back(machine);
        placement.nodes.push_back(0);
      }
      ++placement.nodes[node];
      nodes.push_back(node);
      if (machine != here) continue;
      if (other == rank) {
        local_rank = local_size;
      } else {
        neighbours.push_back(std::atoi(at.c_str()));
      }
      ++local_size;
    }
  }
};

std::shared_ptr<Ranks> Ranks::of(std::optional<int> replicas, char** arguments) {
  if (replicas && *replicas < 1) throw InputError(fmt::format("replicas {} is not positive", *replicas));
  const auto place = place_by_environment(std::getenv);
  if (!place && replicas.value_or(1) == 1) return nullptr;
  need_gloo();
  if (!place) return std::make_shared<Ranks>(*replicas, arguments);
  if (replicas && *replicas != place->size) {
    throw InputError(fmt::format("replicas {} are not the {} processes that were started", *replicas, place->size));
  }
  return std::make_shared<Ranks>(*place);
}

Ranks::Ranks(const RankPlace& place) : impl_(std::make_unique<Impl>()) {
  impl_->rank = place.rank;
  impl_->size = place.size;
  guard_ranks([&] {
    impl_->store = open_store(place, std::nullopt);
    impl_->meet();
  });
}

Ranks::Ranks(int replicas, char** arguments) : impl_(std::make_unique<Impl>()) {
  impl_->size = impl_->local_size = replicas;
  impl_->placement.nodes = {replicas};
  impl_->arguments = arguments;
}

Ranks::~Ranks() {
  if (impl_->rank != 0 || !impl_->store || impl_->ended) return;
  try {
    end();
  } catch (const Error&) {
    // Nobody can be told any more: the processes are killed.
  }
}

int Ranks::rank() const { return impl_->rank; }
int Ranks::size() const { return impl_->size; }
int Ranks::local_rank() const { return impl_->local_rank; }
int Ranks::local_size() const { return impl_->local_size; }
const Placement& Ranks::placement() const { return impl_->placement; }

std::int64_t Ranks::nodes_of(int size) const {
  const std::set<std::size_t> nodes(impl_->nodes.begin(), impl_->nodes.begin() + size);
  return static_cast<std::int64_t>(nodes.size());
}

void Ranks::start() {
  if (impl_->store) return;
  guard_ranks([&] {
    RankPlace place;
    const auto [socket, port] = loopback_port();
    place.port = port;
    place.size = impl_->size;
    impl_->store = open_store(place, socket);
    for (int rank = 1; rank < impl_->size; ++rank) {
      impl_->children.start(impl_->arguments,
                            {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", impl_->size),
                             "MASTER_ADDR=" + place.address, fmt::format("MASTER_PORT={}", place.port)});
    }
    impl_->meet();
  });
}

void Ranks::lead(const std::string& job, const std::function<void()>& work) {
  guard_ranks([&] {
    ++impl_->job;
    impl_->store->set(impl_->key("job", 0), "+" + job);
  });
  try {
    work();
  } catch (const RankLost& lost) {
    explain(lost);
  }
}

void Ranks::follow(const std::function<void(const std::string& job)>& work) {
  while (const auto job = next_job()) {
    try {
      work(*job);
    } catch (const RankLost&) {
      // Rank 0 knows who is lost, or has itself ended the work.
    } catch (const OutOfMemory& error) {
      report(error.what(), true);
    } catch (const Error& error) {
      report(error.what(), false);
    }
    guard_ranks([&] { impl_->store->set(impl_->key("done", impl_->rank), std::string("1")); });
  }
}

void Ranks::end() {
  if (!impl_->store || impl_->ended) return;
  impl_->ended = true;
  guard_ranks([&] {
    ++impl_->job;
    impl_->store->set(impl_->key("job", 0), "-");
  });
}

void Ranks::await_others() {
  guard_ranks([&] { impl_->await("done", call_limit); });
}

void Ranks::explain(const RankLost& otherwise) {
  guard_ranks([&] {
    const auto until = std::chrono::steady_clock::now() + explanation_limit;
    do {
      for (int other = 1; other < impl_->size; ++other) {
        if (!impl_->store->check({impl_->key("failed", other)})) continue;
        const std::string text = impl_->store->get_to_str(impl_->key("failed", other));
        const bool memory = text.starts_with(of_memory);
        const std::string why = fmt::format("rank {}: {}", other, text.substr((memory ? of_memory : of_other).size()));
        if (memory) throw OutOfMemory(why);
        throw RankLost(why);
      }
      if (const auto end = impl_->children.first_end()) throw RankLost(*end);
      std::this_thread::sleep_for(between_looks);
    } while (std::chrono::steady_clock::now() < until);
    throw RankLost(fmt::format("another rank is lost: {}", otherwise.what()));
  });
  throw otherwise;  // not reached: the above throws
}

std::optional<std::string> Ranks::next_job() {
  return guard_ranks([&]() -> std::optional<std::string> {
    ++impl_->job;
    const std::string key = impl_->key("job", 0);
    impl_->store->wait({key}, pause_limit);
    const std::string job = impl_->store->get_to_str(key);
    return job.starts_with('+') ? std::optional(job.substr(1)) : std::nullopt;
  });
}

void Ranks::report(const std::string& error, bool out_of_memory) {
  guard_ranks([&] {
    impl_->store->set(impl_->key("failed", impl_->rank), std::string(out_of_memory ? of_memory : of_other) + error);
  });
}

#ifdef PERFPRED_WITH_GLOO
std::unique_ptr<RankGroup> Ranks::connect(c10::Device device, int size) {
  try {
    auto made = std::make_unique<RankGroup::Impl>();
    made->rank = impl_->rank;
    made->size = size > 0 ? size : impl_->size;
    made->neighbours = impl_->neighbours;
    const auto store = c10::make_intrusive<c10d::PrefixStore>(fmt::format("group/{}/{}", impl_->job, made->size),
                                                              impl_->store->clone());
    store->setTimeout(call_limit);
    const bool here = impl_->placement.node_count() == 1;
    auto options = here ? c10d::ProcessGroupGloo::Options::create(call_limit)
                        : c10d::ProcessGroupGloo::Options::create_default(call_limit);  // GLOO_SOCKET_IFNAME
    if (here) options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
    made->control = c10::make_intrusive<c10d::ProcessGroupGloo>(store, made->rank, made->size, options);
    made->group = c10::make_intrusive<c10d::ProcessGroup>(store, made->rank, made->size);
    made->group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    made->group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::GLOO, made->control);
    if (!device.is_cpu()) {
#ifdef PERFPRED_WITH_NCCL
      // A lost rank is to end a call, not this process, which still has a row to write.
      ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", 0);
      auto nccl_options = c10d::ProcessGroupNCCL::Options::create();
      nccl_options->timeout = call_limit;
      const c10::intrusive_ptr<c10d::Backend> nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          c10::make_intrusive<c10d::PrefixStore>("nccl", store), made->rank, made->size, nccl_options);
      made->group->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
      made->group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::NCCL, nccl);
#else
      throw InputError("several GPUs need a perfpred that was built with NCCL's header (nccl.h)");
#endif
    }
    return std::make_unique<RankGroup>(std::move(made));
  } catch (const c10::Error& error) {
    throw RankLost(first_line_of(error.what_without_backtrace()));
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw RankLost(first_line_of(error.what()));
  }
}
#else
std::unique_ptr<RankGroup> Ranks::connect(c10::Device, int) {
  need_gloo();
  return nullptr;
}
#endif

}  // namespace perfpred
