// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/prediction.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/column.h"

namespace perfpred {

/// A step that perfpred.capture recorded, named by the hash of its file: `step:0123456789ab`. What it is trained on is
/// not known.
[[nodiscard]] bool is_captured_step(std::string_view name);

/// @param digits  of its file (text_hash())
[[nodiscard]] std::string captured_step_name(const std::string& digits);

/// Whether a network has a value of its own for a field, so that a workload's is a stand-in: a captured step for its
/// input, classes and optimizer; a record that tells no classes apart for these.
[[nodiscard]] bool decides(std::string_view network, std::string_view field);

/// Whether texts of several lengths may be a workload's samples: those of a network that is built for any length.
[[nodiscard]] bool takes_lengths(const Workload& workload);

/// The fields that nobody knows of a workload, which holds stand-ins there: those of a captured step that the step file
/// does not say, and the samples of an epoch that it does not know.
[[nodiscard]] std::vector<std::string> unknown_fields(const Workload& workload);

/// Says in a line why a workload does not know its epoch.
[[nodiscard]] std::string lacking_epoch(const Workload& workload);

/// Parameters of a valid workload of `cifar_cnn`, in closed form: a prediction asks for them, and must neither allocate
/// nor build the network.
[[nodiscard]] std::int64_t cifar_cnn_params(const Workload& workload);

/// Refuses fields that are out of range whatever the others are. @throws InputError as Workload::validate()
void check_ranges(const Workload& workload);

/// What else there is to a field of a workload.
struct FieldTraits {
  std::optional<std::string_view> usual = {};  ///< the value that keys leave out; without one they have every value
  /// Of a field that says how a workload is trained: why rows that differ in it are of another group of a model.
  DomainViolation how = DomainViolation::none;
  bool mandatory = false;     ///< measured tables must have it, and have it first
  bool of_step = false;       ///< a captured step decides it
  bool of_cifar_cnn = false;  ///< other networks do not have it
  bool of_transformers = false;
  bool of_network = false;      ///< says how a network of the zoo is built and trained; a file's step has its own
  bool only_predicted = false;  ///< LibTorch trains and traces the usual value alone
  /// Refuses a value that is out of range whatever the others are. @throws InputError as Workload::validate()
  void (*check)(const Workload& workload) = nullptr;
};

/// What the text of a field is: any text, one of its words, a whole number, 0 or 1, or sizes as 3x224x224.
enum class FieldType { text, word, integer, flag, shape };

/// One field of a workload: keys, tables, options and requests have it by this name and as this text. All that they do
/// with it follows from this row.
struct WorkloadColumn : Column<Workload>, FieldTraits {
  std::string_view help;                                                  ///< of the option
  std::function<void(Workload& to, const Workload& from)> copy;           ///< of the fields that have a `how`,
  std::function<bool(const Workload& one, const Workload& other)> equal;  ///< and whether two workloads share it
  FieldType type = FieldType::text;
  std::vector<std::string> words = {};  ///< that it may be; of an integer, also in place of a number
};

/// All fields, in the order in which a key has them.
[[nodiscard]] const std::vector<WorkloadColumn>& workload_columns();
/// @throws InputError if there is no such field, naming the one that is meant
[[nodiscard]] const WorkloadColumn& workload_column(std::string_view name);
[[nodiscard]] bool is_workload_field(std::string_view name);
/// What workload_column() throws. @param others  names that are possible beside fields
[[noreturn]] void throw_unknown_field(std::string_view field, std::span<const std::string_view> others = {});
/// The field that a name means which is nearly its own (`batchsize`, `lyaout`, `batch`); nothing for other names.
[[nodiscard]] std::optional<std::string_view> meant_field(std::string_view name);

/// The columns of measured rows: `first`, the workload's mandatory ones, `results`, its others, `ours`.
template <class Row>
[[nodiscard]] Columns<Row> with_workload(Workload Row::*workload, const Columns<Row>& first,
                                         const Columns<Row>& results, const Columns<Row>& ours) {
  Columns<Row> table = first;
  for (const bool mandatory : {true, false}) {
    for (const WorkloadColumn& column : workload_columns()) {
      if (column.mandatory == mandatory) table.push_back(column_of<Row, Workload>(workload, column));
    }
    const Columns<Row>& own = mandatory ? results : ours;
    table.insert(table.end(), own.begin(), own.end());
  }
  return table;
}

/// Sets the fields whose texts are not empty, one for each of workload_columns(), and validates the workload.
/// @throws InputError at the place
void set_fields(Workload& workload, const std::vector<std::string_view>& texts, ValuePlace place);

/// The values of columns that a table of measurements lacks (docs/formats.md); `cifar_cnn` without its sizes.
[[nodiscard]] Workload unstated_workload();

/// Reads the workload columns that a table has; an empty or missing field keeps the value in `defaults`.
class WorkloadReader {
 public:
  /// @param measured  whether the table must have the mandatory columns. @throws InputError if it has not
  WorkloadReader(const CsvReader& csv, Workload defaults, bool measured = false);
  [[nodiscard]] Workload read(const CsvReader& csv) const { return read(csv, defaults_); }
  /// With defaults for this row only. @throws InputError with file and line
  [[nodiscard]] Workload read(const CsvReader& csv, Workload workload) const;

 private:
  std::vector<CsvColumn> columns_;
  Workload defaults_;
};

}  // namespace perfpred
