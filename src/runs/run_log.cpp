// SPDX-License-Identifier: Apache-2.0
#include "runs/run_log.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runs/run_row.h"
#include "text/files.h"
#include "text/json.h"
#include "text/parse.h"

namespace perfpred {
namespace {

using Json = nlohmann::ordered_json;

struct MeasureKey {
  std::string_view key;
  std::optional<double> LoggedEpoch::*value;
};

constexpr std::array<MeasureKey, 4> measures = {{{"train_loss", &LoggedEpoch::train_loss},
                                                 {"train_acc", &LoggedEpoch::train_acc},
                                                 {"val_loss", &LoggedEpoch::val_loss},
                                                 {"val_acc", &LoggedEpoch::val_acc}}};

std::string field_text(const Json& value, const ValuePlace& place) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_array()) return dumped(value);
  throw_bad_value(place, dumped(value), "a number, a text or a list");
}

LoggedEpoch epoch_from_json(const Json& json, ValuePlace place) {
  const auto number = [&](std::string_view key) -> std::optional<double> {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return std::nullopt;
    place.name = key;
    if (!found->is_number()) throw_bad_value(place, dumped(*found), "a number");
    return found->get<double>();
  };
  LoggedEpoch epoch;
  const auto index = number("epoch");
  if (!index || *index < 1 || *index > 1e9 || *index != std::floor(*index)) {
    throw_bad_value(place, dumped(json.value("epoch", Json())), "a positive integer");
  }
  epoch.epoch = static_cast<int>(*index);
  const auto sec = number("sec");
  if (!sec || *sec < 0) throw_bad_value({place.file, place.line, "sec"}, dumped(json.value("sec", Json())), "a time");
  epoch.sec = *sec;
  for (const MeasureKey& measure : measures) epoch.*measure.value = number(measure.key);
  return epoch;
}

Run run_from_json(const Json& json, ValuePlace place) {
  std::vector<std::string> fields;
  for (const std::string& column : run_columns()) {
    place.name = column;
    const auto found = json.find(column);
    fields.push_back(found == json.end() ? std::string() : field_text(*found, place));
  }
  return run_from_fields(run_columns(), fields, fmt::format("{}:{}", place.file, place.line));
}

/// @throws InputError at the place
Json placed_json(std::string_view line, const ValuePlace& place) {
  try {
    return parse_json<Json>(line);
  } catch (const InputError& error) {
    throw InputError(place.prefix() + error.what());
  }
}

}  // namespace

/// A loss that is not finite, as of a diverged run, becomes null.
std::string epoch_json(const LoggedEpoch& epoch) {
  Json json = {{"epoch", epoch.epoch}, {"sec", epoch.sec}};
  for (const MeasureKey& measure : measures) json[std::string(measure.key)] = or_null(epoch.*measure.value);
  return dumped(json);
}

std::string run_json(const Run& run) { return dumped(row_json(run_table(), run)); }

RunLog read_run_log(const std::string& path) {
  const std::string text = read_file(path);
  RunLog log;
  ValuePlace place{path, 0, {}};
  for (std::string_view rest = text; !rest.empty();) {
    ++place.line;
    const std::size_t feed = rest.find('\n');
    const std::string_view line = rest.substr(0, feed);
    rest.remove_prefix(feed == std::string_view::npos ? rest.size() : feed + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json json = placed_json(line, place);
    if (!json.is_object()) {
      if (feed == std::string_view::npos) break;
      throw InputError(fmt::format("{}:{}: is not a JSON object", path, place.line));
    }
    if (json.contains("epoch") && json.contains("sec")) {
      log.epochs.push_back(epoch_from_json(json, place));
    } else if (json.contains("timestamp_utc") && json.contains("avg_time_sec")) {
      if (log.run) throw InputError(fmt::format("{}:{}: a second row in one log", path, place.line));
      log.run = run_from_json(json, place);
    }
  }
  return log;
}

}  // namespace perfpred
