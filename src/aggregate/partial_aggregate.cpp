// SPDX-License-Identifier: Apache-2.0
#include "aggregate/partial_aggregate.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <cstddef>
#include <nlohmann/json.hpp>

#include "text/atomic_file.h"

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
          {"params", Json::array({group.least_params, group.most_params})},
          {"kept", group.kept},
          {"oom", group.oom},
          {"n_rejected", group.n_rejected},
          {"time", to_json(group.time)},
          {"throughput", to_json(group.throughput)},
          {"accuracy", to_json(group.accuracy)},
          {"epoch_rel_variance", to_json(group.epoch_rel_variance)}};
}

Json to_json(const RejectedEntry& entry) {
  return {{"group", entry.group},
          {"timestamp_utc", entry.timestamp_utc},
          {"avg_time_sec", entry.avg_time_sec ? Json(*entry.avg_time_sec) : Json(nullptr)},
          {"reason", to_string(entry.reason)}};
}

[[noreturn]] void refuse(std::string_view what) { throw InputError(std::string(what)); }

/// What `read` makes of a field; what is wrong with it is said with its name.
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

std::int64_t count(const Json& json) {
  if (!json.is_number_integer()) refuse("a count is not an integer");
  const auto value = json.get<std::int64_t>();
  if (value < 0) refuse("a count is negative");
  return value;
}

DoubleDouble double_double(const Json& json) { return {json.at(0).get<double>(), json.at(1).get<double>()}; }

Moments moments_of(const Json& json) {
  Moments moments;
  moments.n = field(json, "n", count);
  moments.sum = field(json, "sum", double_double);
  moments.sum_of_squares = field(json, "sum_of_squares", double_double);
  moments.min = field(json, "min", as<double>);
  moments.max = field(json, "max", as<double>);
  if (moments.min < 0 || moments.max < moments.min) refuse("min and max are not in order");
  return moments;
}

RunGroup group_of(const Json& json) {
  RunGroup group;
  group.workload = field(json, "key", [](const Json& key) { return Workload::from_key(key.get<std::string>()); });
  if (json.contains("env")) group.env = field(json, "env", as<std::string>);
  group.least_params = field(json, "params", [](const Json& params) { return count(params.at(0)); });
  group.most_params = field(json, "params", [](const Json& params) { return count(params.at(1)); });
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
  if (group.time.n > 0 && !(group.time.min > 0 && group.throughput.min > 0)) refuse("a time is not positive");
  return group;
}

Rejection reason_of(const std::string& text) {
  for (const Rejection reason :
       {Rejection::epochs_disagree, Rejection::oom, Rejection::failed, Rejection::interrupted, Rejection::untrusted}) {
    if (to_string(reason) == text) return reason;
  }
  refuse("an unknown reason");
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
      const RunGroup group = group_of(element);
      const std::size_t before = partial.groups.all().size();
      if (partial.groups.index_of(group.workload, group.env) != before) refuse("the same workload twice");
      partial.groups.merge(group);
    }
  });
  field(json, "rejected", [&](const Json& rejected) {
    for (const Json& element : list(rejected)) {
      RejectedEntry entry;
      entry.group = static_cast<std::uint64_t>(field(element, "group", count));
      if (entry.group >= partial.groups.all().size()) refuse("a rejected run of no group");
      entry.avg_time_sec = field(element, "avg_time_sec", [](const Json& sec) {
        return sec.is_null() ? std::nullopt : std::optional(sec.get<double>());
      });
      entry.reason = field(element, "reason", [](const Json& text) { return reason_of(text.get<std::string>()); });
      const auto timestamp = field(element, "timestamp_utc", as<std::string>);
      entry.timestamp_utc = timestamp;
      partial.rejected.add(entry);
    }
  });
  return partial;
}

}  // namespace

void PartialAggregate::add(const Run& run) {
  const std::size_t group = groups.index_of(run.workload, run.env);
  std::vector<double> epoch_times = run.epoch_times;
  const auto reason = groups[group].add({run.timing, run.outcome, run.params, epoch_times, run.avg_time_sec,
                                         run.images_per_sec, run.test_acc, run.epoch_rel_sem},
                                        label);
  ++runs;
  if (reason) rejected.add({group, *reason, run.avg_time_sec, run.timestamp_utc});
}

void PartialAggregate::merge(const PartialAggregate& other) {
  runs += other.runs;
  std::vector<std::size_t> index;
  for (const RunGroup& group : other.groups.all()) {
    index.push_back(groups.index_of(group.workload, group.env));
    groups.merge(group);
  }
  other.rejected.for_each([&](RejectedEntry entry) {
    entry.group = index[entry.group];
    rejected.add(entry);
  });
}

void write_partial_json(const std::string& path, const PartialAggregate& partial) {
  AtomicFile file(path);
  file.write(fmt::format("{{\"format\":{},\"label\":\"{}\",\"runs\":{},\n\"groups\":[", partial_format,
                         to_string(partial.label), partial.runs));
  const auto write_element = [&file, first = true](const Json& json) mutable {
    file.write(first ? "\n" : ",\n");
    file.write(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    first = false;
  };
  auto write_group = write_element;
  for (const RunGroup& group : partial.groups.all()) write_group(to_json(group));
  file.write("],\n\"rejected\":[");
  auto write_rejected = write_element;
  partial.rejected.for_each([&](const RejectedEntry& entry) { write_rejected(to_json(entry)); });
  file.write("]}\n");
  file.commit();
}

PartialAggregate read_partial_json(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return partial_of(Json::parse(text));
  } catch (const Json::parse_error& error) {
    throw InputError(fmt::format("{}: is not JSON (byte {})", path, error.byte));
  } catch (const Json::out_of_range&) {  // of the parser
    throw InputError(fmt::format("{}: is not a partial aggregate: a number is too large", path));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: is not a partial aggregate: {}", path, error.what()));
  }
}

}  // namespace perfpred
