// SPDX-License-Identifier: Apache-2.0
#pragma once
// How train and evaluate show errors: as JSON and as lines of a table.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "evaluate/baselines.h"
#include "text/json.h"
#include "tools/terminal_text.h"

namespace perfpred::cli {

inline nlohmann::json to_json(const ErrorMetrics& metrics) {
  return {{"mae", or_null(metrics.mae)},
          {"rmse", or_null(metrics.rmse)},
          {"r2", or_null(metrics.r2)},
          {"mape", or_null(metrics.mape)}};
}

inline nlohmann::json to_json(const TimeMetrics& metrics) {
  return {{"n", metrics.time.n}, {"time", to_json(metrics.time)}, {"throughput", to_json(metrics.throughput)}};
}

inline nlohmann::json to_json(const std::vector<NamedMetrics>& named) {
  nlohmann::json json = nlohmann::json::object();
  for (const NamedMetrics& entry : named) json[entry.name] = to_json(entry.metrics);
  return json;
}

inline std::string cell(const std::optional<double>& value, double factor, int digits) {
  return value ? fmt::format("{:.{}f}", *value * factor, digits) : "-";
}

inline void print_metrics_header() {
  fmt::print("{}\n", in_bold(fmt::format("{:<22} {:>5} {:>9} {:>9} {:>9} {:>8} {:>13}", "", "rows", "MAPE %", "MAE s",
                                         "RMSE s", "R2", "MAE samples/s")));
}

inline void print_metrics(const std::string& name, const TimeMetrics& metrics) {
  fmt::print("{:<22} {:>5} {:>9} {:>9} {:>9} {:>8} {:>13}\n", name, metrics.time.n, cell(metrics.time.mape, 100, 2),
             cell(metrics.time.mae, 1, 4), cell(metrics.time.rmse, 1, 4), cell(metrics.time.r2, 1, 4),
             cell(metrics.throughput.mae, 1, 1));
}

}  // namespace perfpred::cli
