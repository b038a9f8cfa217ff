// SPDX-License-Identifier: Apache-2.0
#include "evaluate/folds.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <unordered_map>
#include <utility>

#include "statistics/parallel.h"

namespace perfpred {
namespace {

std::string left_out_name(Protocol protocol, const Workload& workload) {
  if (protocol == Protocol::lono) return fmt::format("network={}", workload.network.family());
  const auto depth = workload.depth(), base_filters = workload.base_filters();
  if (!depth || !base_filters) {
    if (protocol == Protocol::loao) return fmt::format("network={}", workload.network.family());
    throw InputError(fmt::format(
        "protocols that leave a depth or width out take cifar_cnn rows only; {} is another network", workload.network));
  }
  switch (protocol) {
    case Protocol::loao:
      return fmt::format("depth={};base_filters={}", *depth, *base_filters);
    case Protocol::lodo:
      return fmt::format("depth={}", *depth);
    default:
      return fmt::format("base_filters={}", *base_filters);
  }
}

/// Takes options.own_rows workloads out of what is left out.
void keep_some(Fold& fold, std::span<const AggregateRow> rows, const ProtocolOptions& options) {
  const std::vector<AggregateRow> left_out = pick(rows, fold.test);
  std::vector<std::vector<std::size_t>> workloads = rows_by_workload(left_out);
  std::mt19937_64 random(options.seed);
  std::shuffle(workloads.begin(), workloads.end(), random);
  std::vector<std::size_t> scored;
  for (std::size_t i = static_cast<std::size_t>(options.own_rows); i < workloads.size(); ++i) {
    for (const std::size_t index : workloads[i]) scored.push_back(fold.test[index]);
  }
  fold.test = std::move(scored);
}

std::vector<Fold> random_folds(std::span<const AggregateRow> rows, const ProtocolOptions& options) {
  const std::vector<std::vector<std::size_t>> workloads = rows_by_workload(rows);
  if (options.folds < 2 || static_cast<std::size_t>(options.folds) > workloads.size()) {
    throw InputError(fmt::format("{} workloads cannot make {} folds", workloads.size(), options.folds));
  }
  if (options.repeats < 1) throw InputError("repeats is not positive");
  std::vector<Fold> folds;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    std::vector<std::vector<std::size_t>> order = workloads;
    std::mt19937_64 random(options.seed * 1'000'003U + static_cast<std::uint64_t>(repeat));
    std::shuffle(order.begin(), order.end(), random);
    for (int part = 0; part < options.folds; ++part) {
      Fold fold{fmt::format("repeat={};fold={}", repeat, part), repeat, {}, {}};
      for (auto i = static_cast<std::size_t>(part); i < order.size(); i += static_cast<std::size_t>(options.folds)) {
        fold.test.insert(fold.test.end(), order[i].begin(), order[i].end());
      }
      fold.train = all_but(fold.test, rows.size());
      folds.push_back(std::move(fold));
    }
  }
  return folds;
}

}  // namespace

std::vector<Fold> make_folds(std::span<const AggregateRow> rows, Protocol protocol, const ProtocolOptions& options) {
  if (protocol == Protocol::kfold) return random_folds(rows, options);
  std::map<std::string, Fold> by_name;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = left_out_name(protocol, rows[i].workload);
    by_name.try_emplace(name, Fold{name, 0, {}, {}}).first->second.test.push_back(i);
  }
  if (by_name.size() < 2)
    throw InputError(
        fmt::format("nothing to leave out: all rows have {}", by_name.empty() ? "no time" : by_name.begin()->first));
  std::vector<Fold> folds;
  for (auto& [name, fold] : by_name) {
    if (protocol == Protocol::lono && options.own_rows > 0) keep_some(fold, rows, options);
    fold.train = all_but(fold.test, rows.size());
    if (!fold.test.empty()) folds.push_back(std::move(fold));
  }
  if (folds.empty()) throw InputError(fmt::format("no network has more than {} workloads", options.own_rows));
  return folds;
}

void parallel_for(std::size_t count, const ProtocolOptions& options, const std::function<void(std::size_t)>& task) {
  std::mutex mutex;
  std::size_t done = 0;
  parallel_for(count, options.threads, [&](std::size_t i, std::size_t) {
    if (options.stop.stop_requested()) throw Error("stopped");
    task(i);
    const std::lock_guard lock(mutex);
    ++done;
    if (options.progress) options.progress(done, count);
  });
}

std::vector<std::vector<std::size_t>> rows_by_workload(std::span<const AggregateRow> rows) {
  std::vector<std::vector<std::size_t>> groups;
  std::unordered_map<std::string, std::size_t> group_of;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [found, is_new] = group_of.emplace(rows[i].workload.key(), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(i);
  }
  return groups;
}

std::vector<std::size_t> flatten(std::span<const std::vector<std::size_t>> groups) {
  std::vector<std::size_t> indices;
  for (const auto& group : groups) indices.insert(indices.end(), group.begin(), group.end());
  return indices;
}

std::vector<std::size_t> all_but(const std::vector<std::size_t>& indices, std::size_t count) {
  std::vector<bool> held(count, false);
  for (const std::size_t i : indices) held[i] = true;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < count; ++i) {
    if (!held[i]) others.push_back(i);
  }
  return others;
}

std::vector<AggregateRow> pick(std::span<const AggregateRow> rows, const std::vector<std::size_t>& indices) {
  std::vector<AggregateRow> picked;
  for (const std::size_t i : indices) picked.push_back(rows[i]);
  return picked;
}

}  // namespace perfpred
