// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "aggregate/partial_aggregate.h"
#include "text/atomic_file.h"
#include "text/csv.h"
#include "text/parse.h"

namespace perfpred {
namespace {

// Each list is in the order of its enum.
constexpr std::array<std::string_view, 5> rejections = {"epochs_disagree", "oom", "failed", "interrupted", "untrusted"};
constexpr std::array<std::string_view, 2> labels = {"robust", "mean"};

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

}  // namespace

std::string_view to_string(Rejection reason) { return rejections.at(static_cast<std::size_t>(reason)); }

std::string_view to_string(Aggregator::Label label) { return labels.at(static_cast<std::size_t>(label)); }

Aggregator::Label parse_label(std::string_view text) {
  const auto found = std::find(labels.begin(), labels.end(), text);
  if (found == labels.end()) throw_bad_value({{}, 0, "label"}, text, "robust or mean");
  return static_cast<Aggregator::Label>(found - labels.begin());
}

struct Aggregator::Impl : PartialAggregate {
  using PartialAggregate::PartialAggregate;
  explicit Impl(PartialAggregate partial) : PartialAggregate(std::move(partial)) {}
};

Aggregator::Aggregator(Label label) : impl_(std::make_unique<Impl>(label)) {}
Aggregator::~Aggregator() = default;
Aggregator::Aggregator(Aggregator&&) noexcept = default;
Aggregator& Aggregator::operator=(Aggregator&&) noexcept = default;

void Aggregator::add(const Run& run) { impl_->add(run); }

void Aggregator::add_file(const std::string& path, int threads) {
  impl_->merge(aggregate_file(path, impl_->label, threads));
}

std::vector<std::string> Aggregator::add_logs(const std::string& folder) {
  std::vector<std::string> without_row;
  PartialAggregate added(impl_->label);
  for (const std::string& file : log_files(folder)) {
    const RunLog log = read_run_log(file);
    if (!log.run) {
      without_row.push_back(file);
      continue;
    }
    try {
      added.add(*log.run);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", file, error.what()));
    }
  }
  impl_->merge(added);
  return without_row;
}

void Aggregator::merge(const Aggregator& other) {
  if (other.label() != label()) {
    throw InputError(fmt::format("a partial aggregate of label {} cannot be merged into one of label {}",
                                 to_string(other.label()), to_string(label())));
  }
  impl_->merge(*other.impl_);
}

void Aggregator::write_partial(const std::string& path) const { write_partial_json(path, *impl_); }

Aggregator Aggregator::read_partial(const std::string& path) {
  Aggregator aggregator;
  *aggregator.impl_ = Impl(read_partial_json(path));
  return aggregator;
}

Aggregator::Label Aggregator::label() const { return impl_->label; }
std::int64_t Aggregator::runs() const { return impl_->runs; }
std::int64_t Aggregator::rejected() const { return impl_->rejected.size(); }

std::vector<AggregateRow> Aggregator::rows() const {
  std::vector<AggregateRow> rows;
  for (const RunGroup& group : impl_->groups.all()) {
    if (group.time.n + group.n_rejected > 0) rows.push_back(group.row());
  }
  std::sort(rows.begin(), rows.end(), [](const AggregateRow& a, const AggregateRow& b) {
    const auto sizes = [](const Workload& w) { return std::tie(w.network, w.depth, w.base_filters, w.batch_size); };
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
    const std::array<std::string, 4> fields = {run.key, run.timestamp_utc, number_text(run.avg_time_sec),
                                               std::string(to_string(run.reason))};
    file.write(csv_line(fields));
  });
  file.commit();
}

void Aggregator::for_each_rejected(const std::function<void(const RejectedRun&)>& call) const {
  impl_->rejected.for_each([&](const RejectedEntry& entry) {
    call({impl_->groups.all()[entry.group].workload.key(), std::string(entry.timestamp_utc), entry.avg_time_sec,
          entry.reason});
  });
}

}  // namespace perfpred
