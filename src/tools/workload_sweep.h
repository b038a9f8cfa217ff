// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

class CsvReader;

/// A field of a workload, by its name in a key, and the values that it takes.
struct SweptField {
  std::string name;
  std::vector<std::string> values;  ///< empty: the field stays as it is
  bool asked = true;                ///< false: a program's default, which may have no effect
};

/// Whether one of the fields has this name, and a value.
[[nodiscard]] bool is_given(const std::vector<SweptField>& fields, std::string_view name);

/// The fields of a workload that none of the lists gives (JobTerms::unstated).
[[nodiscard]] std::vector<std::string> unstated_fields(std::initializer_list<const std::vector<SweptField>*> lists);

/// The first of the workloads that has this network, of `cifar_cnn` one of any sizes, with the network replaced as
/// with_field() does; else the first one with its network replaced
/// and, of a file that is known (add_graphs()), with the precision of a captured step, else with the file's input.
/// @param bases  not empty
/// @throws InputError for a network that is not known
[[nodiscard]] Workload with_network(std::span<const Workload> bases, std::string_view network);

/// A field `config` as the field `network`: its values, each the path of a config.json, as the names of their networks.
/// Other fields as they are. @throws InputError as add_config()
[[nodiscard]] SweptField with_configs(SweptField field);

/// The network that the last of the lists with one asks for, with the sizes that its name states; else that of the
/// first of `bases`, without sizes.
[[nodiscard]] NetworkName asked_network(std::span<const Workload> bases,
                                        std::initializer_list<const std::vector<SweptField>*> fields);

using NameOf = std::function<std::string(const std::string& device)>;  ///< the device that a text means

/// with_network(), or the first of `bases` where no network is given, with fields replaced: first by `defaults` (not
/// depth and base_filters but for `cifar_cnn` without sizes, nor what a captured step decides), then by `fields`.
/// Each has one value. A device replaces threads, too, by those of the first of `bases` there, else by none, unless
/// they are given.
/// @param name_of  of a device in `fields`; empty: the device of that name
/// @throws InputError for a field that is not known, a text that is not a value of it, or an input, classes or
/// optimizer of a captured step
[[nodiscard]] Workload fill_workload(std::span<const Workload> bases, const std::vector<SweptField>& defaults,
                                     const std::vector<SweptField>& fields, const NameOf& name_of = {});

/// A row of a table, or a combination of the values of a sweep, and why it is no workload or has no answer.
struct AskedRow {
  std::string place;                       ///< `configs.csv:3: `; empty in a sweep
  std::optional<Workload> workload;        ///< none if there is no such one
  std::vector<std::string> fields;         ///< as asked, in the order of workload_columns(), where there is no workload
  std::string error;                       ///< one line, with the place; empty if nothing is wrong
  std::vector<std::string> unstated = {};  ///< JobTerms::unstated

  /// A field as it was asked for.
  [[nodiscard]] std::string text(std::string_view field) const;
  /// A field for each column of workload_columns().
  [[nodiscard]] std::vector<std::string> texts() const;
};

/// The first error that a row has is thrown. @throws InputError
[[nodiscard]] std::vector<Workload> workloads_of(std::vector<AskedRow> rows);

/// @throws InputError, the first error, if all rows have one
void check_some(std::span<const AskedRow> rows);

/// Every combination of the values, the first field varying slowest; other fields are those of with_network(), or of
/// the first of `bases` where no network is given, a device's threads as in fill_workload(). depth and base_filters are
/// swept for `cifar_cnn` only. A network `transformer:layers=2,hidden=64` may come in the pieces into which the commas
/// of a list cut it.
/// @param name_of  empty: the device of that name
/// @returns a row each, also of values and networks that fill_workload() refuses, or whose name states another value
/// @throws InputError for a depth or base_filters where no network is a `cifar_cnn`
[[nodiscard]] std::vector<AskedRow> sweep_rows(std::span<const Workload> bases, const std::vector<SweptField>& fields,
                                               const NameOf& name_of = {});

/// workloads_of() these
[[nodiscard]] std::vector<Workload> sweep_workloads(std::span<const Workload> bases,
                                                    const std::vector<SweptField>& fields);

/// The configurations of a table, one a row, its columns named as the fields of a key. Missing fields are taken from
/// `fields` (one value each), then from with_network(), or the first of `bases` where no network is given.
/// @param name_of  empty: the device of that name
/// @throws InputError for a file that is no table, for a column whose name is nearly a field's, for a field with
/// several values, or one that is asked for and that no row takes
[[nodiscard]] std::vector<AskedRow> configuration_rows(const std::string& path, std::span<const Workload> bases,
                                                       const std::vector<SweptField>& fields,
                                                       const NameOf& name_of = {});

/// The same of a table that is open.
[[nodiscard]] std::vector<AskedRow> configuration_rows(CsvReader csv, std::span<const Workload> bases,
                                                       const std::vector<SweptField>& fields,
                                                       const NameOf& name_of = {});

/// workloads_of() these
[[nodiscard]] std::vector<Workload> read_configurations(const std::string& path, std::span<const Workload> bases,
                                                        const std::vector<SweptField>& fields,
                                                        const NameOf& name_of = {});

}  // namespace perfpred
