// SPDX-License-Identifier: Apache-2.0
#include "tools/model_requests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <perfpred/device.h>
#include <perfpred/error.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "catalogue/device_table.h"
#include "text/csv.h"
#include "workload/workload_columns.h"

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
  for (const AggregateRow& row : model.fitted_rows()) devices_.insert(row.workload.device);
  for (SweptField& field : given_) {
    if (field.name == "device") field.values = devices(field.values.front());
  }
  bases_ = base_workloads(model.example(), model.fitted_rows(false));
  unsized_ = bases_;
  for (Workload& base : unsized_) {
    base.network = base.network.family();
    base.batch_size = 0;
  }
}

std::vector<AskedRow> ModelRequests::of_options(const std::string& sweep) const {
  std::vector<SweptField> fields = given_;
  if (!sweep.empty()) {
    check_one_device();
    SweptField swept = with_configs(parse_sweep(sweep));
    if (swept.name == "device" && swept.values == std::vector<std::string>{"all"}) swept.values = all_gpus(precision());
    if (is_given(given_, swept.name)) {
      throw InputError(fmt::format("{} is swept and given as an option, too", swept.name));
    }
    fields.push_back(std::move(swept));
  }
  std::vector<AskedRow> rows = sweep_rows(bases_, fields, name_of());
  if (bases_.front().network == "") {
    require(fields, "network");
    require(fields, "device");
  }
  if (sweep.empty()) {
    if (!is_given(fields, "batch_size")) check_some(rows);  // what is wrong comes before what is missing
    require(fields, "batch_size");
    if (asked_network(bases_, {&fields}) == "cifar_cnn") {
      require(fields, "depth");
      require(fields, "base_filters");
    }
  }
  check_some(rows);
  return rows;
}

std::vector<AskedRow> ModelRequests::of_table(const std::string& path) const { return of_table(CsvReader(path)); }

std::vector<AskedRow> ModelRequests::of_table(CsvReader csv) const {
  check_one_device();
  return configuration_rows(std::move(csv), unsized_, given_, name_of());
}

Workload ModelRequests::of_fields(std::vector<SweptField> fields) const {
  check_one_device();
  for (SweptField& field : fields) {  // first: of two faults a device that is not known is named
    if (field.name != "device") continue;
    for (std::string& name : field.values) name = device(name);
  }
  return fill_workload(unsized_, given_, fields);
}

std::vector<std::string> ModelRequests::all_gpus(Precision precision) const {
  std::vector<std::string> names;
  for (const Device& device : model_.devices().devices()) {
    const bool computes = device.matrix_flops(precision) && device.mem_bw_gbs;
    if (device.kind == DeviceKind::gpu && computes) names.push_back(device.name);
  }
  return names;
}

Precision ModelRequests::precision() const {
  const auto given =
      std::find_if(given_.rbegin(), given_.rend(), [](const SweptField& field) { return field.name == "precision"; });
  return given == given_.rend() ? model_.example().precision : parse_precision(given->values.front());
}

std::vector<std::string> ModelRequests::devices(const std::string& asked) const {
  const ResolvedDevice device = model_.devices().resolve(asked);
  if (const auto known = find_name(device, devices_)) return {*known};
  return full_names(device);
}

std::string ModelRequests::device(const std::string& asked) const {
  const auto is_it = [&](const SweptField& field) {
    return field.name == "device" && std::ranges::find(field.values, asked) != field.values.end();
  };
  if (std::ranges::any_of(given_, is_it)) return asked;
  const std::vector<std::string> names = devices(asked);
  if (names.size() == 1) return names.front();
  throw InputError(fmt::format("device \"{}\" may be any of {}; name one", asked, fmt::join(names, ", ")));
}

void ModelRequests::check_one_device() const {
  for (const SweptField& field : given_) {
    if (field.name != "device" || field.values.size() == 1) continue;
    throw InputError(fmt::format("the device may be any of {}; name one", fmt::join(field.values, ", ")));
  }
}

std::vector<std::string> ModelRequests::unstated(const std::vector<SweptField>& fields) const {
  return unstated_fields({&fields, &given_});
}

}  // namespace perfpred
