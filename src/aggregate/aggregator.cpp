// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "aggregate/aggregate_state.h"
#include "runs/run_log.h"
#include "runs/run_row.h"
#include "text/csv.h"
#include "text/enum_names.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {
namespace {

/// All `*.jsonl` below a folder, sorted.
std::vector<std::string> log_files(const std::string& folder) {
  std::vector<std::string> files;
  try {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
    }
  } catch (const std::filesystem::filesystem_error& error) {
    throw InputError(fmt::format("{}: {}", folder, error.code().message()));
  }
  if (files.empty()) throw InputError(fmt::format("{}: holds no log (*.jsonl)", folder));
  std::sort(files.begin(), files.end());
  return files;
}

void note_repeated(const std::string& input, std::int64_t repeated, std::int64_t runs,
                   std::vector<std::string>& notes) {
  if (repeated == 0) return;
  notes.push_back(fmt::format("{}: skipped {} of {} runs, which are in an earlier input", input, repeated, runs));
}

}  // namespace

std::string_view to_string(Aggregator::Label label) { return enumerator_name_of<Aggregator::Label::mean>(label); }

Aggregator::Label parse_label(std::string_view text) {
  if (const auto label = enumerator_named<Aggregator::Label::mean>(text)) return *label;
  throw_bad_value({{}, 0, "label"}, text, "robust or mean");
}

struct Aggregator::Impl : AggregateState {
  using AggregateState::AggregateState;
};

Aggregator::Aggregator(Label label) : impl_(std::make_unique<Impl>(label)) {}
Aggregator::~Aggregator() = default;
Aggregator::Aggregator(Aggregator&&) noexcept = default;
Aggregator& Aggregator::operator=(Aggregator&&) noexcept = default;

void Aggregator::add(const Run& run) {
  check_run(run);
  static const RunSet none;
  impl_->add(run, impl_->groups.index_of(run.workload, run.env), none);
}

std::vector<std::string> Aggregator::add_file(const std::string& path, int threads) {
  std::optional<std::string> cut_off;
  const AggregateState file = aggregate_file(path, impl_->label, threads, RunSet(impl_->fingerprints), cut_off);
  impl_->merge(file);
  std::vector<std::string> notes;
  if (file.runs + file.repeated == 0) notes.push_back(path + ": holds no run");
  if (cut_off) notes.push_back(*cut_off + "; the last line was cut off by its writer and is skipped");
  note_repeated(path, file.repeated, file.runs + file.repeated, notes);
  return notes;
}

std::vector<std::string> Aggregator::add_logs(const std::string& folder) {
  std::vector<std::string> notes;
  const RunSet earlier(impl_->fingerprints);
  AggregateState logs(impl_->label);
  for (const std::string& file : log_files(folder)) {
    const RunLog log = read_run_log(file);
    if (!log.run) {
      notes.push_back(file + ": holds no row; its run was cut off");
      continue;
    }
    try {
      logs.add(*log.run, logs.groups.index_of(log.run->workload, log.run->env), earlier);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", file, error.what()));
    }
  }
  impl_->merge(logs);
  note_repeated(folder, logs.repeated, logs.runs + logs.repeated, notes);
  return notes;
}

bool Aggregator::merge(const Aggregator& other) {
  if (other.label() != label()) {
    throw InputError(fmt::format("holds label {}, where {} is wanted", to_string(other.label()), to_string(label())));
  }
  const auto& ours = impl_->fingerprints;
  const auto& theirs = other.impl_->fingerprints;
  const auto are_in = [](const RunSet& runs) { return [&runs](Fingerprint run) { return runs.contain(run); }; };
  if (std::any_of(ours.begin(), ours.end(), are_in(RunSet(theirs)))) {
    const auto repeated = std::count_if(theirs.begin(), theirs.end(), are_in(RunSet(ours)));
    if (repeated == other.runs()) return false;
    throw InputError(fmt::format("{} of its {} runs are in an earlier input; give their runs.csv files instead",
                                 repeated, other.runs()));
  }
  impl_->merge(*other.impl_);
  return true;
}

Aggregator::Label Aggregator::label() const { return impl_->label; }
std::int64_t Aggregator::runs() const { return impl_->runs; }
std::int64_t Aggregator::rejected() const { return std::ssize(impl_->rejected); }

std::vector<AggregateRow> Aggregator::rows() const {
  std::vector<AggregateRow> rows;
  for (const RunGroup& group : impl_->groups.all()) {
    if (group.time.n + group.n_rejected > 0) rows.push_back(group.row());
  }
  std::sort(rows.begin(), rows.end(), [](const AggregateRow& a, const AggregateRow& b) {
    const auto sizes = [](const Workload& w) {
      return std::tuple(w.network.family(), w.depth(), w.base_filters(), w.batch_size);
    };
    if (sizes(a.workload) != sizes(b.workload)) return sizes(a.workload) < sizes(b.workload);
    const auto texts = [](const AggregateRow& row) { return std::pair(row.workload.key(), row.env); };
    return texts(a) < texts(b);
  });
  return rows;
}

void Aggregator::write_rejected(const std::string& path) const {
  AtomicFile file(path);
  file.write("key,timestamp_utc,avg_time_sec,reason\n");
  for_each_rejected([&file](const RejectedRun& run) {
    const std::array<std::string, 4> fields = {run.key, run.timestamp_utc, number_text(run.avg_time_sec), run.reason};
    file.write(csv_line(fields));
  });
  file.commit();
}

void Aggregator::for_each_rejected(const std::function<void(const RejectedRun&)>& call) const {
  if (!call) throw InputError("for_each_rejected: the function is empty");
  for (const AggregateState::Rejected& run : impl_->rejected) {
    call({impl_->groups.all()[run.group].workload.key(), std::string(to_string(run.reason)), run.timestamp_utc,
          run.avg_time_sec});
  }
}

}  // namespace perfpred
