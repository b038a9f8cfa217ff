// SPDX-License-Identifier: Apache-2.0
#include "tools/plan_chart.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/json.h"

namespace perfpred {
namespace {

using nlohmann::json;

struct Unit {
  const char* name;
  double sec;
};

Unit unit_for(double last_sec) {
  constexpr std::array<Unit, 4> units = {{{"days", 86'400}, {"hours", 3600}, {"minutes", 60}, {"seconds", 1}}};
  constexpr double least = 3;  // so many units, or a smaller one
  return *std::find_if(units.begin(), units.end() - 1, [&](const Unit& unit) { return last_sec >= least * unit.sec; });
}

/// The id of its job, or what differs between the runs.
std::string name_of(const json& item) {
  if (item.at("id").is_string()) return item.at("id").get<std::string>();
  const auto key = item.at("key").get<std::string>();
  std::string name = key.substr(key.find('=') + 1, key.find(';') - key.find('=') - 1);
  for (const auto& [field, value] : item.at("fields").items()) {
    if (field == "network" || field == "device") continue;
    name += fmt::format(" {}={}", field, value.is_string() ? value.get<std::string>() : dumped(value));
  }
  return name;
}

double budget_of(const json& plan, const std::string& device) {
  const json& budget = plan.at("budget_sec");
  return budget.is_object() ? budget.at(device).get<double>() : budget.get<double>();
}

/// Of a device by its place; 0 where nobody said.
double free_from_of(const json& plan, std::size_t device) {
  return plan.contains("free_from_sec") ? plan.at("free_from_sec").at(device).get<double>() : 0;
}

Chart chart_of(const json& plan) {
  Chart chart;
  double last = 0;
  for (const json& item : plan.at("items")) last = std::max(last, item.at("end_sec").get<double>());
  const auto devices = plan.at("devices").get<std::vector<std::string>>();
  for (const std::string& device : devices) last = std::max(last, budget_of(plan, device));
  const Unit unit = unit_for(last);
  Series runs = {.label = "run", .style = Series::Style::spans, .color = 5};
  Series budgets = {.label = "end of the budget", .color = 6};
  Series busy = {.label = "device not free", .style = Series::Style::spans, .color = 7};
  for (const json& item : plan.at("items")) {
    const auto device = item.at("device_index").get<double>();
    const double from = item.at("start_sec").get<double>() / unit.sec, to = item.at("end_sec").get<double>() / unit.sec;
    runs.points.push_back({device, (from + to) / 2, from, to, name_of(item)});
  }
  for (std::size_t d = 0; d < devices.size(); ++d) {
    chart.x.categories.push_back(devices[d].empty() ? "device" : devices[d]);
    budgets.points.push_back({static_cast<double>(d), budget_of(plan, devices[d]) / unit.sec, {}, {}, {}});
    const double free_from = free_from_of(plan, d) / unit.sec;
    if (free_from > 0) busy.points.push_back({static_cast<double>(d), free_from / 2, 0, free_from, {}});
  }
  chart.title = fmt::format("Plan: {} of {} runs, value {:.6g}", plan.at("n").get<std::size_t>(),
                            plan.at("candidates").get<std::size_t>(), plan.at("value").get<double>());
  chart.y = {.label = fmt::format("time from the begin of the plan ({})", unit.name), .low = 0.0};
  chart.series = {std::move(runs), std::move(budgets)};
  if (!busy.points.empty()) chart.series.push_back(std::move(busy));
  return chart;
}

}  // namespace

Chart plan_chart(const std::string& path) {
  try {
    return chart_of(read_json<json>(path));
  } catch (const json::exception&) {
    throw InputError(path + ": is not the JSON of a plan");
  }
}

}  // namespace perfpred
