// SPDX-License-Identifier: Apache-2.0
#include "tools/workload_sweep.h"

#include <perfpred/error.h>
#include <perfpred/network.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "network/zoo/zoo.h"
#include "runs/run_row.h"
#include "step/program.h"
#include "text/csv.h"
#include "text/several_devices.h"
#include "workload/workload_columns.h"
#include "workload/workload_on.h"

namespace perfpred {
namespace {

/// Joins what commas within a network's name have cut apart: a piece `hidden=64` belongs to the name before it.
std::vector<std::string> whole_networks(const std::vector<std::string>& pieces) {
  std::vector<std::string> names;
  for (const std::string& piece : pieces) {
    if (!names.empty() && names.back().find('=') != std::string::npos && piece.find('=') != std::string::npos &&
        piece.find(':') == std::string::npos) {
      names.back() += "," + piece;
    } else {
      names.push_back(piece);
    }
  }
  return names;
}

std::string joined(const std::vector<std::string>& pieces) { return fmt::format("{}", fmt::join(pieces, ",")); }

void check_of_step(std::string_view network, std::string_view field) {
  if (!decides(network, field)) return;
  if (is_captured_step(network)) throw InputError(fmt::format("{} is given; a captured step has its own", field));
  throw InputError(fmt::format("{} is given; network {} has none", field, network));
}

/// with_field(), but that threads follow the device unless they are given.
/// @param asked  the network as it was asked for, of which the workload may have more sizes
Workload with_value(std::span<const Workload> bases, const Workload& workload, const NetworkName& asked,
                    const std::string& field, const std::string& value, bool has_threads) {
  check_of_step(asked, field);
  const bool moves = field == "device" && !has_threads;
  Workload changed = moves ? workload_on(workload, value, bases) : with_field(workload, field, value);
  if (workload.network == asked && changed.network != asked && states_sizes(asked)) {
    throw InputError(fmt::format("{} {} is given, but network {} has another", field, value, asked));
  }
  return changed;
}

/// Whether a network takes the field from what holds for all: not what its name states, nor what a captured step does.
bool takes(const NetworkName& asked, const SweptField& field) {
  const WorkloadColumn& column = workload_column(field.name);
  if (column.of_cifar_cnn) return asked == "cifar_cnn";
  return !decides(asked, field.name);
}

bool lacks(const NetworkName& name, const SweptField& field) {
  return workload_column(field.name).of_cifar_cnn && name.family() != "cifar_cnn";
}

/// A workload as far as its fields are set, and the one that is being set.
struct Filling {
  std::optional<Workload> workload;
  std::string_view field = "network";
  std::string value;

  /// The fields, where the one that is being set is no value of it.
  [[nodiscard]] std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    for (const WorkloadColumn& column : workload_columns())
      texts.push_back(column.name == field ? value : workload ? column.get(*workload) : "");
    return texts;
  }
};

/// fill_workload()
void fill(Filling& filling, std::span<const Workload> bases, const std::vector<SweptField>& defaults,
          const std::vector<SweptField>& fields, const NameOf& name_of) {
  const NetworkName asked = asked_network(bases, {&defaults, &fields});
  filling.value = asked;
  filling.workload = with_network(bases, asked);
  const bool has_threads = is_given(defaults, "threads") || is_given(fields, "threads");
  for (const auto* list : {&defaults, &fields}) {
    for (const SweptField& field : *list) {
      const bool applies = list == &fields || takes(asked, field);
      if (field.name == "network" || field.values.empty() || !applies) continue;
      filling.field = field.name;
      filling.value = field.values.front();
      const bool is_named = field.name == "device" && list == &fields && name_of;
      const std::string value = is_named ? name_of(filling.value) : filling.value;
      filling.workload = with_value(bases, *filling.workload, asked, field.name, value, has_threads);
    }
  }
}

/// Every combination of the values of those fields that the network has, the first field varying slowest.
std::vector<std::vector<SweptField>> combinations(const NetworkName& name, const std::vector<SweptField>& fields) {
  std::vector<std::vector<SweptField>> all = {{SweptField{"network", {name}}}};
  for (const SweptField& field : fields) {
    if (field.name == "network" || field.values.empty() || lacks(name, field)) continue;
    std::vector<std::vector<SweptField>> next;
    for (const std::vector<SweptField>& one : all) {
      for (const std::string& value : field.values) next.emplace_back(one).push_back({field.name, {value}});
    }
    all = std::move(next);
  }
  return all;
}

/// @throws InputError for a field with several values
void check_single(const std::vector<SweptField>& fields) {
  for (const SweptField& field : fields) {
    if ((field.name == "network" ? whole_networks(field.values) : field.values).size() > 1) {
      throw InputError(fmt::format("{}: only one value is possible beside a table of configurations", field.name));
    }
  }
}

/// What the rows of a table left to a field that is given beside it.
struct GivenField {
  const SweptField& field;
  CsvColumn column;
  bool is_stated = true;  // by every row
  bool is_taken = false;  // by some row

  void see(const CsvReader& csv, const NetworkName& asked) {
    if (!csv.text(column).empty()) return;
    is_stated = false;
    is_taken = is_taken || takes(asked, field);
  }

  void check(const std::string& path) const {
    if (is_taken || !field.asked || field.values.empty()) return;
    throw InputError(is_stated ? fmt::format("{} is a column of {} and given as an option, too", field.name, path)
                               : fmt::format("{} is given, but no row of {} takes it", field.name, path));
  }
};

/// The texts of a row, for each column of a workload.
std::vector<std::string> cells_of(const CsvReader& csv) {
  std::vector<std::string> cells;
  for (const WorkloadColumn& column : workload_columns()) cells.emplace_back(csv.text(csv.optional(column.name)));
  return cells;
}

/// Refuses a column that is nearly a field's, or counts devices, whose values would change nothing. Those of a runs.csv
/// are none.
void check_columns(const CsvReader& csv) {
  const std::vector<std::string>& others = run_columns();
  for (const std::string& name : csv.header()) {
    if (std::find(others.begin(), others.end(), name) != others.end()) continue;
    if (counts_devices(name))
      throw InputError(fmt::format("{}column \"{}\": {}", csv.place("").prefix(), shown(name), where_devices_are));
    const auto meant = meant_field(name);
    if (!meant || csv.optional(*meant).index) continue;
    throw InputError(
        fmt::format("{}column \"{}\" is not known; did you mean {}?", csv.place("").prefix(), shown(name), *meant));
  }
}

/// Reads the rows of a table as fields that are asked for, as options and requests have them.
class ConfigurationReader {
 public:
  ConfigurationReader(CsvReader& csv, std::span<const Workload> bases, const std::vector<SweptField>& fields,
                      const NameOf& name_of)
      : csv_(csv), bases_(bases), fields_(fields), name_of_(name_of), config_(csv.optional("config")) {
    for (const WorkloadColumn& column : workload_columns()) columns_.push_back(csv.optional(column.name));
    for (const SweptField& field : fields) given_.push_back({field, csv.optional(field.name)});
  }

  /// The row at which the table stands. @throws InputError
  void read(AskedRow& row) {
    const std::vector<SweptField> stated = stated_fields();
    Workload workload = fill_workload(bases_, fields_, stated, name_of_);
    workload.validate();
    row.workload = std::move(workload);
    row.unstated = unstated_fields({&fields_, &stated});
    const NetworkName asked = asked_network(bases_, {&fields_, &stated});
    for (GivenField& field : given_) field.see(csv_, asked);
  }

  /// @throws InputError for an option without effect on any row
  void check_fields(const std::string& path) const {
    for (const GivenField& field : given_) field.check(path);
  }

 private:
  /// Those that the row does not leave empty.
  [[nodiscard]] std::vector<SweptField> stated_fields() const {
    std::vector<SweptField> stated;
    for (const CsvColumn& column : columns_) {
      std::string text(csv_.text(column));
      if (!text.empty()) stated.push_back({column.name, {std::move(text)}});
    }
    if (const std::string file(csv_.text(config_)); !file.empty()) {
      if (is_given(stated, "network")) throw InputError("network and config are both given");
      stated.push_back(with_configs({"config", {file}}));
    }
    return stated;
  }

  CsvReader& csv_;
  std::span<const Workload> bases_;
  const std::vector<SweptField>& fields_;
  const NameOf& name_of_;
  CsvColumn config_;
  std::vector<CsvColumn> columns_;  // of a workload
  std::vector<GivenField> given_;
};

}  // namespace

bool is_given(const std::vector<SweptField>& fields, std::string_view name) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const SweptField& field) { return field.name == name && !field.values.empty(); });
}

std::vector<std::string> unstated_fields(std::initializer_list<const std::vector<SweptField>*> lists) {
  std::vector<std::string> missing;
  for (const WorkloadColumn& column : workload_columns()) {
    const auto gives = [&](const std::vector<SweptField>* fields) { return is_given(*fields, column.name); };
    if (std::none_of(lists.begin(), lists.end(), gives)) missing.emplace_back(column.name);
  }
  return missing;
}

SweptField with_configs(SweptField field) {
  if (field.name != "config") return field;
  field.name = "network";
  for (std::string& value : field.values) value = add_config(value);
  return field;
}

Workload with_network(std::span<const Workload> bases, std::string_view network) {
  const NetworkName name(network);
  const auto known =
      std::find_if(bases.begin(), bases.end(), [&](const Workload& w) { return w.network.family() == name.family(); });
  if (known != bases.end()) return with_field(*known, "network", name);
  return Program::set_up(with_field(bases.front(), "network", name));
}

NetworkName asked_network(std::span<const Workload> bases,
                          std::initializer_list<const std::vector<SweptField>*> fields) {
  NetworkName asked(bases.front().network.family());
  for (const auto* list : fields) {
    for (const SweptField& field : *list) {
      if (field.name == "network" && !field.values.empty()) asked = joined(field.values);
    }
  }
  return asked;
}

Workload fill_workload(std::span<const Workload> bases, const std::vector<SweptField>& defaults,
                       const std::vector<SweptField>& fields, const NameOf& name_of) {
  Filling filling;
  fill(filling, bases, defaults, fields, name_of);
  return *std::move(filling.workload);
}

std::string AskedRow::text(std::string_view field) const {
  const std::vector<WorkloadColumn>& columns = workload_columns();
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const auto& one) { return one.name == field; });
  return found == columns.end() ? "" : texts().at(static_cast<std::size_t>(found - columns.begin()));
}

std::vector<std::string> AskedRow::texts() const {
  return workload ? fields_of(workload_columns(), *workload) : fields;
}

std::vector<Workload> workloads_of(std::vector<AskedRow> rows) {
  std::vector<Workload> workloads;
  workloads.reserve(rows.size());
  for (AskedRow& row : rows) {
    if (!row.error.empty()) throw InputError(row.error);
    workloads.push_back(std::move(*row.workload));
  }
  return workloads;
}

void check_some(std::span<const AskedRow> rows) {
  const bool all = std::all_of(rows.begin(), rows.end(), [](const AskedRow& row) { return !row.error.empty(); });
  if (all && !rows.empty()) throw InputError(rows.front().error);
}

std::vector<Workload> sweep_workloads(std::span<const Workload> bases, const std::vector<SweptField>& fields) {
  return workloads_of(sweep_rows(bases, fields));
}

std::vector<AskedRow> sweep_rows(std::span<const Workload> bases, const std::vector<SweptField>& fields,
                                 const NameOf& name_of) {
  for (const SweptField& field : fields) (void)workload_column(field.name);  // refuses an unknown one
  std::vector<NetworkName> names;
  for (const SweptField& field : fields) {
    if (field.name != "network") continue;
    for (const std::string& name : whole_networks(field.values)) names.emplace_back(name);
  }
  if (names.empty()) names.emplace_back(bases.front().network.family());
  for (const SweptField& field : fields) {
    const auto lacks_it = [&](const NetworkName& name) { return lacks(name, field); };
    if (!field.values.empty() && std::all_of(names.begin(), names.end(), lacks_it)) {
      throw InputError(fmt::format("{} is given, but only cifar_cnn has it", field.name));
    }
  }
  const std::vector<std::string> unstated = unstated_fields({&fields});
  std::vector<AskedRow> rows;
  for (const NetworkName& name : names) {
    for (const std::vector<SweptField>& combination : combinations(name, fields)) {
      AskedRow& row = rows.emplace_back();
      row.unstated = unstated;
      Filling filling;
      try {
        fill(filling, bases, {}, combination, name_of);
        row.workload = std::move(filling.workload);
      } catch (const InputError& error) {
        row.fields = filling.texts();
        row.error = error.what();
      }
    }
  }
  return rows;
}

std::vector<Workload> read_configurations(const std::string& path, std::span<const Workload> bases,
                                          const std::vector<SweptField>& fields, const NameOf& name_of) {
  return workloads_of(configuration_rows(path, bases, fields, name_of));
}

std::vector<AskedRow> configuration_rows(const std::string& path, std::span<const Workload> bases,
                                         const std::vector<SweptField>& fields, const NameOf& name_of) {
  return configuration_rows(CsvReader(path), bases, fields, name_of);
}

std::vector<AskedRow> configuration_rows(CsvReader csv, std::span<const Workload> bases,
                                         const std::vector<SweptField>& fields, const NameOf& name_of) {
  check_single(fields);
  check_columns(csv);
  ConfigurationReader reader(csv, bases, fields, name_of);
  std::vector<AskedRow> rows;
  bool any = false;
  while (csv.next()) {
    AskedRow& row = rows.emplace_back();
    row.place = csv.place("").prefix();
    try {
      reader.read(row);
      any = true;
    } catch (const InputError& error) {
      const std::string what = error.what();
      row.error = what.starts_with(row.place) ? what : row.place + what;
      row.fields = cells_of(csv);
    }
  }
  if (rows.empty()) throw InputError(csv.path() + ": has a header and no row");
  if (any) reader.check_fields(csv.path());
  return rows;
}

}  // namespace perfpred
