// SPDX-License-Identifier: Apache-2.0
#include "aggregate/partial_aggregate.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>

#include "text/enum_names.h"
#include "text/files.h"
#include "text/hash.h"
#include "text/json.h"

namespace perfpred {
namespace {

using Json = nlohmann::ordered_json;

constexpr int partial_format = 1;

Json to_json(const DoubleDouble& x) { return Json::array({x.high, x.low}); }

Json to_json(const Moments& moments) {
  return {{"n", moments.n},
          {"sum", to_json(moments.sum)},
          {"sum_of_squares", to_json(moments.sum_of_squares)},
          {"min", moments.min},
          {"max", moments.max}};
}

Json to_json(const RunGroup& group) {
  return {{"key", group.workload.key()},
          {"env", group.env},
          {"params", Json::array({group.min_params, group.max_params})},
          {"kept", group.kept},
          {"oom", group.oom},
          {"n_rejected", group.n_rejected},
          {"time", to_json(group.time)},
          {"throughput", to_json(group.throughput)},
          {"accuracy", to_json(group.accuracy)},
          {"epoch_rel_variance", to_json(group.epoch_rel_variance)}};
}

Json to_json(const PartialAggregate::Rejected& entry) {
  return {{"group", entry.group},
          {"timestamp_utc", entry.timestamp_utc},
          {"avg_time_sec", or_null(entry.avg_time_sec)},
          {"reason", to_string(entry.reason)}};
}

[[noreturn]] void refuse(std::string_view what) { throw InputError(std::string(what)); }

/// Reads a field of an object by `read`; an error names the field.
template <class Read>
auto field(const Json& object, const char* name, Read read) {
  try {
    return read(object.at(name));
  } catch (const Json::exception&) {
    refuse(fmt::format("field \"{}\" is missing or of another type", name));
  } catch (const InputError& error) {
    refuse(fmt::format("field \"{}\": {}", name, error.what()));
  }
}

template <class T>
T as(const Json& json) {
  return json.get<T>();
}

constexpr std::int64_t max_count = std::int64_t{1} << 53;  // a double holds it, and hundreds of them have a sum

std::int64_t count(const Json& json) {
  if (!json.is_number_integer()) refuse("a count is not an integer");
  const auto value = json.get<std::int64_t>();
  if (value < 0) refuse("a count is negative");
  if (value > max_count) refuse("a count is too large");
  return value;
}

DoubleDouble double_double(const Json& json) { return {json.at(0).get<double>(), json.at(1).get<double>()}; }

/// Whether n numbers from min to max can have these sums.
bool agree(const Moments& moments) {
  if (moments.n == 0) return moments.max == 0 && moments.sum.high == 0 && moments.sum_of_squares.high == 0;
  constexpr double rounding = 1e-9, tiny = 1e-290;  // far above those of the sums, which have 106 bits
  const auto is_between = [](double low, double value, double high) {
    return value >= low * (1 - rounding) - tiny && value <= high * (1 + rounding) + tiny;
  };
  const auto is_part = [](const DoubleDouble& sum) { return std::abs(sum.low) <= rounding * sum.high + tiny; };
  if (moments.n == 1 && moments.min != moments.max) return false;
  const auto n = static_cast<double>(moments.n);
  const double least = moments.min + (moments.max - moments.min) / n, most = moments.max + moments.min - least;
  const double mean = moments.sum.high / n, square = moments.sum_of_squares.high / n;
  return is_part(moments.sum) && is_part(moments.sum_of_squares) && is_between(least, mean, most) &&
         is_between(mean * mean, square, moments.max * moments.max);
}

Moments moments_of(const Json& json) {
  Moments moments;
  moments.n = field(json, "n", count);
  moments.sum = field(json, "sum", double_double);
  moments.sum_of_squares = field(json, "sum_of_squares", double_double);
  moments.min = field(json, "min", as<double>);
  moments.max = field(json, "max", as<double>);
  if (moments.min < 0 || moments.max < moments.min) refuse("min and max are not in order");
  if (moments.max > max_summable) refuse("max is too large to be summed");
  if (!agree(moments)) refuse("n, sum, sum_of_squares, min and max contradict one another");
  return moments;
}

RunGroup group_of(const Json& json) {
  RunGroup group;
  group.workload = field(json, "key", [](const Json& key) { return Workload::from_key(key.get<std::string>()); });
  if (json.contains("env")) group.env = field(json, "env", as<std::string>);
  group.min_params = field(json, "params", [](const Json& params) { return count(params.at(0)); });
  group.max_params = field(json, "params", [](const Json& params) { return count(params.at(1)); });
  group.kept = field(json, "kept", as<bool>);
  group.oom = field(json, "oom", as<bool>);
  group.n_rejected = field(json, "n_rejected", count);
  group.time = field(json, "time", moments_of);
  group.throughput = field(json, "throughput", moments_of);
  group.accuracy = field(json, "accuracy", moments_of);
  group.epoch_rel_variance = field(json, "epoch_rel_variance", moments_of);
  if (group.throughput.n != group.time.n || group.accuracy.n > group.time.n ||
      group.epoch_rel_variance.n > group.time.n)
    refuse("the counts do not agree");
  if (group.time.n > 0 && !(group.time.min >= min_summable && group.throughput.min >= min_summable))
    refuse("a time is not positive");
  return group;
}

Rejection reason_of(const std::string& text) {
  const auto reason = enumerator_named<Rejection::untrusted>(text);
  if (!reason) refuse("an unknown reason");
  return *reason;
}

const Json& list(const Json& json) {
  if (!json.is_array()) refuse("is not a list");
  return json;
}

PartialAggregate partial_of(const Json& json) {
  if (field(json, "format", count) != partial_format) refuse("an unknown format");
  PartialAggregate partial(
      field(json, "label", [](const Json& label) { return parse_label(label.get<std::string>()); }));
  partial.runs = field(json, "runs", count);
  field(json, "groups", [&](const Json& groups) {
    for (const Json& element : list(groups)) {
      RunGroup group = group_of(element);
      const std::size_t before = partial.groups.all().size();
      if (partial.groups.index_of(group.workload, group.env) != before) refuse("the same workload and env twice");
      group.key_hash = partial.groups[before].key_hash;
      partial.groups[before] = std::move(group);
    }
  });
  field(json, "rejected", [&](const Json& rejected) {
    for (const Json& element : list(rejected)) {
      PartialAggregate::Rejected entry;
      entry.group = static_cast<std::size_t>(field(element, "group", count));
      if (entry.group >= partial.groups.all().size()) refuse("a rejected run of no group");
      entry.avg_time_sec = field(element, "avg_time_sec", [](const Json& sec) {
        return sec.is_null() ? std::nullopt : std::optional(sec.get<double>());
      });
      entry.reason = field(element, "reason", [](const Json& text) { return reason_of(text.get<std::string>()); });
      entry.timestamp_utc = field(element, "timestamp_utc", as<std::string>);
      partial.rejected.push_back(std::move(entry));
    }
  });
  if (json.contains("fingerprints")) {
    field(json, "fingerprints", [&](const Json& prints) {
      for (const Json& print : list(prints)) {
        if (!print.is_number_unsigned()) refuse("a fingerprint is not a whole number");
        partial.fingerprints.push_back(print.get<Fingerprint>());
      }
    });
  }
  return partial;
}

Fingerprint fingerprint_of(const Run& run, const RunGroup& group) {
  Fingerprint print = fnv1a(run.host, fnv1a(run.timestamp_utc, group.key_hash));
  for (const auto& figure : {run.avg_time_sec, run.test_acc}) {
    const double value = figure.value_or(-1);
    print = (print ^ std::bit_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;  // an odd number of random bits
    print ^= print >> 32U;
  }
  return print;
}

}  // namespace

RunSet::RunSet(const std::deque<Fingerprint>& fingerprints) : table_(std::bit_ceil(2 * fingerprints.size() + 1)) {
  for (const Fingerprint run : fingerprints) {
    has_zero_ = has_zero_ || run == 0;
    table_[place_of(run)] = run;
  }
}

bool RunSet::contain(Fingerprint run) const { return run == 0 ? has_zero_ : table_[place_of(run)] == run; }

std::size_t RunSet::place_of(Fingerprint run) const {
  std::size_t place = run & (table_.size() - 1);
  while (table_[place] != 0 && table_[place] != run) place = (place + 1) & (table_.size() - 1);
  return place;
}

void PartialAggregate::add(const Run& run, std::size_t group, const RunSet& earlier) {
  const bool identified = !run.timestamp_utc.empty();
  const Fingerprint print = identified ? fingerprint_of(run, groups[group]) : 0;
  if (identified && earlier.contain(print)) {
    ++repeated;
    return;
  }
  const auto reason = groups[group].add(run, label);
  ++runs;
  if (reason) rejected.push_back({group, *reason, run.avg_time_sec, run.timestamp_utc});
  if (identified) fingerprints.push_back(print);
}

void PartialAggregate::merge(const PartialAggregate& other) {
  runs += other.runs;
  repeated += other.repeated;
  std::vector<std::size_t> index;
  for (const RunGroup& group : other.groups.all()) {
    index.push_back(groups.index_of(group.workload, group.env));
    groups[index.back()].merge(group);
  }
  for (Rejected entry : other.rejected) {
    entry.group = index[entry.group];
    rejected.push_back(std::move(entry));
  }
  fingerprints.insert(fingerprints.end(), other.fingerprints.begin(), other.fingerprints.end());
}

void write_partial_json(const std::string& path, const PartialAggregate& partial) {
  AtomicFile file(path);
  file.write(fmt::format("{{\"format\":{},\"label\":\"{}\",\"runs\":{},\n\"groups\":[", partial_format,
                         to_string(partial.label), partial.runs));
  const auto write_element = [&file, first = true](const Json& json) mutable {
    file.write(first ? "\n" : ",\n");
    file.write(dumped(json));
    first = false;
  };
  auto write_group = write_element;
  for (const RunGroup& group : partial.groups.all()) write_group(to_json(group));
  file.write("],\n\"rejected\":[");
  auto write_rejected = write_element;
  for (const PartialAggregate::Rejected& entry : partial.rejected) write_rejected(to_json(entry));
  file.write("],\n\"fingerprints\":[");
  const char* separator = "";
  for (const Fingerprint print : partial.fingerprints)
    file.write(fmt::format("{}{}", std::exchange(separator, ",\n"), print));
  file.write("]}\n");
  file.commit();
}

PartialAggregate read_partial_json(const std::string& path) {
  const Json json = read_json<Json>(path);
  try {
    return partial_of(json);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: is not a partial aggregate: {}", path, error.what()));
  }
}

}  // namespace perfpred
