// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/csv.h"

namespace perfpred {

/// A column of a table: its name, and how its text becomes part of a row and back. A table is a list of columns in the
/// order in which it is written: header, reader, writer and JSON follow from the list.
template <class Row>
struct Column {
  std::string_view name;
  /// The text may be empty. @throws InputError that names the place if it is not a value of this column
  std::function<void(Row& row, std::string_view text, const ValuePlace& place)> set;
  std::function<std::string(const Row& row)> get;
  bool is_text = false;                          ///< in JSON; else a number or a list
  bool required = false;                         ///< tables without it are refused
  std::optional<double> Row::*number = nullptr;  ///< of a column of numbers that may be empty: its member
};

template <class Row>
using Columns = std::vector<Column<Row>>;

template <class Row>
[[nodiscard]] Column<Row> text_column(std::string_view name, std::string Row::*member, bool required = false) {
  return {name, [member](Row& row, std::string_view text, const ValuePlace&) { row.*member = text; },
          [member](const Row& row) { return row.*member; }, true, required};
}

/// @param parse  of a text that is not empty: parse_positive, parse_non_negative, ...
template <class Row, class Parse>
[[nodiscard]] Column<Row> number_column(std::string_view name, std::optional<double> Row::*member, Parse parse,
                                        bool required = false) {
  return {name,
          [member, parse](Row& row, std::string_view text, const ValuePlace& place) {
            row.*member = text.empty() ? std::nullopt : std::optional<double>(parse(text, place));
          },
          [member](const Row& row) { return number_text(row.*member); },
          false,
          required,
          member};
}

/// The column of a part of the row.
template <class Row, class Part>
[[nodiscard]] Column<Row> column_of(Part Row::*part, const Column<Part>& column) {
  return {column.name,
          [part, set = column.set](Row& row, std::string_view text, const ValuePlace& place) {
            set(row.*part, text, place);
          },
          [part, get = column.get](const Row& row) { return get(row.*part); }, column.is_text, column.required};
}

template <class Table>
[[nodiscard]] std::vector<std::string> names_of(const Table& columns) {
  std::vector<std::string> names;
  for (const auto& column : columns) names.emplace_back(column.name);
  return names;
}

/// The fields of a row, unquoted.
template <class Table, class Row>
[[nodiscard]] std::vector<std::string> fields_of(const Table& columns, const Row& row) {
  std::vector<std::string> fields;
  for (const auto& column : columns) fields.push_back(column.get(row));
  return fields;
}

/// Reads the rows of a table.
template <class Row>
class TableReader {
 public:
  /// @param columns  outlive the reader
  /// @throws InputError if the table lacks a required one
  TableReader(const CsvReader& csv, const Columns<Row>& columns) : columns_(columns) {
    for (const Column<Row>& column : columns)
      fields_.push_back(column.required ? csv.required(column.name) : csv.optional(column.name));
  }

  /// Sets every column of this row, those that the table lacks from an empty text.
  void read(const CsvReader& csv, Row& row) const {
    for (std::size_t i = 0; i < fields_.size(); ++i)
      columns_[i].set(row, csv.text(fields_[i]), csv.place(columns_[i].name));
  }

 private:
  const Columns<Row>& columns_;
  std::vector<CsvColumn> fields_;
};

}  // namespace perfpred
