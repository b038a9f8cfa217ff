// SPDX-License-Identifier: Apache-2.0
#include "tools/roofline/roofline_study.h"

#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "text/nearest_name.h"
#include "text/parse.h"
#include "workload/workload_labels.h"

namespace perfpred {
namespace {

template <class Value>
void append_new(std::vector<Value>& values, const Value& value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

std::string network_text(const TimedSteps& steps) {
  const Workload& workload = steps.workload;
  std::string text = workload.network;
  if (const auto depth = workload.depth()) {
    text = fmt::format("{} d{} f{}", workload.network.family(), *depth, workload.base_filters().value_or(0));
  }
  return steps.accumulate == 1 ? text : fmt::format("{} x{}", text, steps.accumulate);
}

struct Work {
  double flops, bytes;
};

/// Of a step: an update and, for each batch whose gradients it sums up, the rest.
Work work_of(const OpGraph& graph, std::int64_t accumulate) {
  const OpTotals whole = graph.totals();
  const OpTotals update = graph.totals(Phase::optimizer);
  const auto more = static_cast<double>(accumulate - 1);
  return {whole.flops + more * (whole.flops - update.flops),
          static_cast<double>(whole.bytes()) + more * static_cast<double>(whole.bytes() - update.bytes())};
}

/// A CPU whose model is not named: "cpu", "CPU" or nothing.
bool is_unnamed(const std::string& device) {
  return device.empty() || device == "cpu" || device == "CPU" || device == "unknown";
}

/// Sets the device of a point that has a roof, and what follows from its place there.
void put_under_roof(StudyPoint& point) {
  for (const double value : {point.ai, point.flops_per_sec}) {
    if (!(value > 0) || !std::isfinite(value)) {
      throw InputError(fmt::format("{}: intensity and FLOP/s of a point must be positive", point.label));
    }
  }
  const double ridge = point.roof->ridge(point.precision);
  point.device = point.roof->device().name;
  point.bound = point.ai < ridge ? Bound::memory : Bound::compute;
  point.margin = 1 - std::min(point.ai, ridge) / std::max(point.ai, ridge);
  point.efficiency = point.flops_per_sec / point.roof->attainable(point.ai, point.precision);
}

/// The fields in which steps differ and which their labels show, by network. A set of pointers keeps a key's order.
std::map<std::string, std::set<const WorkloadColumn*>> shown_fields(const std::vector<StudyPoint>& points) {
  const std::initializer_list<std::string_view> shown_otherwise = {"network", "depth", "base_filters", "batch_size",
                                                                   "device"};
  std::map<std::string, std::vector<Workload>> by_network, by_place;
  std::vector<Workload> all;
  for (const StudyPoint& p : points) {
    if (!p.steps) continue;
    const Workload& workload = p.steps->workload;
    by_network[p.network].push_back(workload);
    by_place[p.network + '\n' + p.steps->environment + '\n' + workload.device].push_back(workload);
    all.push_back(workload);
  }
  const WorkloadFields overall = differing_fields(all, shown_otherwise);
  std::map<std::string, std::set<const WorkloadColumn*>> fields;
  for (const auto& [network, workloads] : by_network) {
    auto& shown = fields[network];
    for (const WorkloadColumn* field : differing_fields(workloads, shown_otherwise)) {
      if (field->name != "threads") shown.insert(field);  // those of another device do not tell steps apart
    }
    std::copy_if(overall.begin(), overall.end(), std::inserter(shown, shown.end()),
                 [](const WorkloadColumn* field) { return field->name == "precision"; });  // roofs differ by precision
  }
  for (const auto& [place, workloads] : by_place) {
    const WorkloadFields differing = differing_fields(workloads, shown_otherwise);
    fields[place.substr(0, place.find('\n'))].insert(differing.begin(), differing.end());
  }
  return fields;
}

}  // namespace

RooflineStudy::RooflineStudy(StudyDevices devices, Precision precision)
    : devices_(std::move(devices)), precision_(precision) {}

std::map<std::string, std::string>::const_iterator RooflineStudy::named_device(const std::string& environment,
                                                                               const std::string& device) const {
  const auto one_name = [this](const std::string& text) {
    const ResolvedDevice known = devices_.catalogue.resolve(text);
    return known.origin == DeviceOrigin::row ? known.device->name : text;
  };
  const auto is_device = [&](const auto& entry) { return one_name(entry.first) == one_name(device); };
  const std::map<std::string, std::string>& names = devices_.names;
  auto chosen = environment.empty() ? names.end() : names.find(environment);
  if (chosen == names.end() && !device.empty()) chosen = std::find_if(names.begin(), names.end(), is_device);
  if (chosen == names.end()) chosen = names.find("");
  return chosen;
}

std::shared_ptr<const Roofline> RooflineStudy::roof_of(const std::string& environment, const std::string& device) {
  const std::map<std::string, std::string>& names = devices_.names;
  const auto chosen = named_device(environment, device);
  if (chosen != names.end()) used_names_.insert(chosen->first);
  const std::string& name = chosen != names.end() ? chosen->second : device;
  const bool unnamed = is_unnamed(name);
  if (!devices_.by_hand && chosen == names.end() && (unnamed || !is_known(name))) {
    const std::string& where = environment.empty() ? device : environment;
    const std::string what = unnamed ? fmt::format("environment \"{}\" names no device", where)
                                     : fmt::format("device \"{}\" is not known", name);
    if (without_roof_.insert(what).second) {
      warnings_.push_back(what + ", so its peaks are unknown; map it to a device to see its roof");
    }
    return nullptr;
  }
  auto& roof = roofs_[devices_.by_hand ? std::string() : name];
  if (roof) return roof;
  if (devices_.by_hand) return roof = std::make_shared<const Roofline>(*devices_.by_hand);
  const ResolvedDevice on = devices_.catalogue.resolve(name);
  if (on.lacks_rates() && devices_.rates) devices_.catalogue.set_cpu(devices_.rates());
  return roof = std::make_shared<const Roofline>(on.rated());
}

bool RooflineStudy::is_known(const std::string& device) const {
  return roofs_.contains(device) || devices_.catalogue.resolve(device).origin != DeviceOrigin::unknown;
}

Precision RooflineStudy::or_given(Precision stated) {
  if (stated != Precision::unknown) return stated;
  precision_used_ = true;
  return precision_;
}

void RooflineStudy::check_all_used(bool precision_given) const {
  for (const auto& [name, device] : devices_.names) {
    if (name.empty() || used_names_.contains(name)) continue;
    throw InputError(fmt::format("device \"{}\" is given for \"{}\", but the measurements are of \"{}\"", device, name,
                                 fmt::join(environments_of(points_), "\", \"")));
  }
  if (precision_given && !precision_used_) {
    throw InputError(
        fmt::format("precision {} has no effect: all measurements state their own", to_string(precision_)));
  }
}

void RooflineStudy::add_steps(TimedSteps steps) {
  steps.workload.precision = or_given(steps.workload.precision);
  StudyPoint point;
  point.roof = roof_of(steps.environment, steps.workload.device);
  point.precision = steps.workload.precision;
  point.network = network_text(steps);
  const bool known = point.roof && !devices_.by_hand;
  const ExecutedStep step = execute(steps.workload.graph(), known ? point.roof->device().kind : DeviceKind::other);
  const Work work = work_of(step.graph(), steps.accumulate);
  point.ai = work.bytes > 0 ? work.flops / work.bytes : 0;
  point.flops_per_sec = work.flops / (steps.mean_ms / 1e3);
  if (point.roof) {
    put_under_roof(point);
    if (const StepLimits limits = point.roof->limits(step, point.precision); limits.bound == Bound::launch) {
      point.bound = limits.bound;
      point.margin = limits.margin;
    }
  }
  point.steps = std::move(steps);
  points_.push_back(std::move(point));
}

void RooflineStudy::finish_steps(std::size_t first) {
  name_steps();
  for (const StudyPoint& p : std::span(points_).subspan(first)) {
    check_against_roof(p, fmt::format("{}, {}", p.environment, p.label));
  }
}

void RooflineStudy::check_against_roof(const StudyPoint& point, const std::string& name) {
  if (point.efficiency.value_or(0) <= 1) return;
  warnings_.push_back(
      fmt::format("{}: faster than the roof of {} in {} allows, so the device or the precision must be another one",
                  name, point.device, to_string(point.precision)));
}

void RooflineStudy::name_steps() {
  std::map<std::string, std::set<std::string>> devices;  // by environment
  for (const StudyPoint& p : points_) {
    if (p.steps) devices[p.steps->environment].insert(p.steps->workload.device);
  }
  const auto fields = shown_fields(points_);
  for (StudyPoint& p : points_) {
    if (!p.steps) continue;
    const Workload& workload = p.steps->workload;
    const std::string& tag = p.steps->environment;
    p.environment = tag.empty()               ? workload.device
                    : devices[tag].size() > 1 ? fmt::format("{} ({})", tag, workload.device)
                                              : tag;
    const auto& shown = fields.at(p.network);
    p.setting = label_of(workload, {shown.begin(), shown.end()});
    p.label = fmt::format("{} b{}{}{}", p.network, workload.batch_size, p.setting.empty() ? "" : ", ", p.setting);
    if (!p.roof) p.device = p.environment;
  }
}

void RooflineStudy::add(const IterationSummary& summary) {
  warnings_.insert(warnings_.end(), summary.warnings.begin(), summary.warnings.end());
  if (!summary.missing_columns.empty()) {
    warnings_.push_back(fmt::format(
        "not every iteration log states its {}; assumed where missing: the network's own input and classes, "
        "optimizer nesterov, precision {}",
        fmt::join(summary.missing_columns, ", "), to_string(precision_)));
  }
  const std::size_t before = points_.size();
  for (const TimedSteps& row : summary.rows) add_steps(row);
  finish_steps(before);
}

void RooflineStudy::add(std::span<const AggregateRow> rows) {
  const std::size_t before = points_.size();
  for (const AggregateRow& row : rows) {
    if (!row.avg_time_mean) continue;
    const double step_ms = 1e3 / static_cast<double>(row.steps_per_epoch);
    const std::int64_t steps = Shape::product(std::array{row.steps_per_epoch, row.n});
    if (steps > Shape::max_numel)
      throw InputError(fmt::format("{} runs of {} steps are more than can be counted", row.n, row.steps_per_epoch));
    // The shortest and longest step are not in the table; the deviation is that of runs, so one run has none.
    const auto deviation =
        row.n > 1 && row.avg_time_std ? std::optional(*row.avg_time_std * step_ms) : std::optional<double>();
    add_steps({row.env, row.workload, 1, steps, *row.avg_time_mean * step_ms, deviation, {}, {}, *row.thr_mean});
  }
  if (points_.size() == before) throw InputError("no configuration has a time: there is no step to place");
  finish_steps(before);
}

void RooflineStudy::add(const NcuReport& report, const std::string& label) {
  const auto place = [&](const std::string& name, const NcuTotals& totals) {
    const auto ai = totals.arithmetic_intensity();
    if (totals.kernels > 0 && !(totals.time_sec > 0)) {
      warnings_.push_back(fmt::format("{}: its kernels took 0 s, so it has no rate and no point", printable(name)));
    }
    if (ai && *ai > 0 && totals.time_sec > 0) add(name, *ai, totals.flops_per_sec());
  };
  place(label, report.total);
  for (const NcuTotals& range : report.ranges) place(label + " " + range.name, range);
  warnings_.insert(warnings_.end(), report.warnings.begin(), report.warnings.end());
}

void RooflineStudy::add(const std::string& label, double ai, double flops_per_sec) {
  if (!devices_.by_hand && !devices_.names.contains("")) throw InputError("the device of this point is not given");
  StudyPoint point;
  point.roof = roof_of("", "");
  point.precision = or_given(Precision::unknown);
  point.label = printable(label);
  point.ai = ai;
  point.flops_per_sec = flops_per_sec;
  put_under_roof(point);
  check_against_roof(point, point.label);
  points_.push_back(std::move(point));
}

std::vector<const Roofline*> roofs_of(std::span<const StudyPoint> points) {
  std::vector<const Roofline*> roofs;
  for (const StudyPoint& p : points) {
    const auto same = [&p](const Roofline* other) { return other->device().name == p.roof->device().name; };
    if (p.roof && std::none_of(roofs.begin(), roofs.end(), same)) roofs.push_back(p.roof.get());
  }
  return roofs;
}

std::vector<Precision> precisions_on(std::span<const StudyPoint> points, const std::string& device) {
  std::vector<Precision> precisions;
  for (const StudyPoint& p : points) {
    if (p.roof && p.device == device) append_new(precisions, p.precision);
  }
  return precisions;
}

std::vector<std::string> environments_of(std::span<const StudyPoint> points) {
  std::vector<std::string> environments;
  for (const StudyPoint& p : points) {
    if (p.steps) append_new(environments, p.environment);
  }
  return environments;
}

std::vector<Workload> workloads_of(std::span<const StudyPoint> points) {
  std::vector<Workload> workloads;
  for (const StudyPoint& p : points) {
    if (p.steps) workloads.push_back(p.steps->workload);
  }
  return workloads;
}

std::string percent_text(const std::optional<double>& fraction) {
  if (!fraction) return "unknown";
  const double percent = 100 * *fraction;
  if (percent >= 1e6) return fmt::format("{:.3g} %", percent);  // the peak is in another unit
  return fmt::format("{:.1f} %", percent);
}

}  // namespace perfpred
