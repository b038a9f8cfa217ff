// SPDX-License-Identifier: Apache-2.0
#include "tools/model_requests.h"

#include <fmt/format.h>
#include <perfpred/device.h>
#include <perfpred/error.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "catalogue/device_table.h"

namespace perfpred {
namespace {

/// A model without rows: Workload() without network.
std::vector<Workload> base_workloads(const Workload& example, const std::vector<AggregateRow>& rows) {
  std::vector<Workload> bases = {example};
  if (rows.empty()) bases.front().network = "";
  for (const AggregateRow& row : rows) {
    const auto same = [&](const Workload& base) { return base.network.family() == row.workload.network.family(); };
    if (std::any_of(bases.begin(), bases.end(), same)) continue;
    bases.push_back(row.workload.trained_like(bases.front()));
    bases.back().batch_size = bases.front().batch_size;
  }
  for (const AggregateRow& row : rows) {
    const auto same = [&](const Workload& base) { return base.device == row.workload.device; };
    if (std::none_of(bases.begin(), bases.end(), same)) bases.push_back(row.workload);
  }
  return bases;
}

/// `batch_size=32,64` as a field and its values.
SweptField parse_sweep(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals + 1 == text.size()) {
    throw InputError("--sweep is not field=value,value,...");
  }
  SweptField field = {text.substr(0, equals), {}};
  for (std::size_t begin = equals + 1;;) {
    const std::size_t comma = text.find(',', begin);
    field.values.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return field;
    begin = comma + 1;
  }
}

void require(const std::vector<SweptField>& fields, const std::string& name) {
  if (is_given(fields, name)) return;
  std::string option = name;
  std::replace(option.begin(), option.end(), '_', '-');
  throw InputError("--" + option + " is missing");
}

}  // namespace

ModelRequests::ModelRequests(const TimeRegressor& model, std::vector<SweptField> given)
    : model_(model), given_(std::move(given)) {
  const std::vector<AggregateRow> rows = model.fitted_rows();
  for (const AggregateRow& row : rows) devices_.insert(row.workload.device);
  name_devices(given_);
  bases_ = base_workloads(model.example(), rows);
  unsized_ = bases_;
  for (Workload& base : unsized_) {
    base.network = base.network.family();
    base.batch_size = 0;
  }
}

std::vector<Workload> ModelRequests::of_options(const std::string& sweep) const {
  std::vector<SweptField> fields = given_;
  if (!sweep.empty()) {
    std::vector<SweptField> swept = {parse_sweep(sweep)};
    name_devices(swept);
    if (is_given(given_, swept.front().name)) {
      throw InputError(fmt::format("{} is swept and given as an option, too", swept.front().name));
    }
    fields.push_back(std::move(swept.front()));
  }
  std::vector<Workload> workloads = sweep_workloads(bases_, fields);
  if (devices_.empty()) {
    require(fields, "network");
    require(fields, "device");
  }
  if (sweep.empty()) {
    require(fields, "batch_size");
    if (asked_network(bases_, {&fields}) == "cifar_cnn") {
      require(fields, "depth");
      require(fields, "base_filters");
    }
  }
  return workloads;
}

std::vector<Workload> ModelRequests::of_table(const std::string& path,
                                              const std::function<void(const Workload&)>& use) const {
  return read_configurations(
      path, unsized_, given_, [this](const std::string& name) { return device(name); }, use);
}

Workload ModelRequests::of_fields(std::vector<SweptField> fields) const {
  name_devices(fields);
  return fill_workload(unsized_, given_, fields);
}

std::string ModelRequests::device(const std::string& asked) const {
  const ResolvedDevice device = model_.devices().resolve(asked);
  const auto known = find_name(device, devices_);
  return known ? *known : device.full_name();
}

void ModelRequests::name_devices(std::vector<SweptField>& fields) const {
  for (SweptField& field : fields) {
    if (field.name != "device") continue;
    for (std::string& name : field.values) name = device(name);
  }
}

std::vector<std::string> ModelRequests::unstated(const std::vector<SweptField>& fields) const {
  std::vector<std::string> missing;
  for (const char* field : {"layout", "compiled", "software", "loader"}) {
    if (!is_given(fields, field) && !is_given(given_, field)) missing.emplace_back(field);
  }
  return missing;
}

}  // namespace perfpred
