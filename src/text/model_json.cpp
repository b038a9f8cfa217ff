// SPDX-License-Identifier: Apache-2.0
#include "text/model_json.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace perfpred {
namespace {

/// A list whose items are all wanted.
template <class IsWanted>
const nlohmann::json& list(const nlohmann::json& object, const char* name, const char* wanted,
                           const IsWanted& is_wanted) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_wanted)) refuse_field(name, wanted);
  return value;
}

template <class Item, class IsWanted>
std::vector<Item> items(const nlohmann::json& object, const char* name, const char* wanted, const IsWanted& is_wanted) {
  std::vector<Item> all;
  for (const nlohmann::json& item : list(object, name, wanted, is_wanted)) all.push_back(item.get<Item>());
  return all;
}

/// Larger ones would become infinite where they are multiplied.
constexpr double max_number = 1e30;

bool is_number(const nlohmann::json& value) { return value.is_number() && std::abs(value.get<double>()) <= max_number; }

}  // namespace

void refuse_field(const char* name, const char* wanted) {
  throw ModelError(fmt::format("field \"{}\" is not {}", name, wanted));
}

const nlohmann::json& json_field(const nlohmann::json& object, const char* name) {
  if (!object.contains(name)) throw ModelError(fmt::format("field \"{}\" is missing", name));
  return object.at(name);
}

const nlohmann::json& json_object(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_object()) refuse_field(name, "an object");
  return value;
}

const nlohmann::json& json_objects(const nlohmann::json& object, const char* name) {
  return list(object, name, "a list of objects", [](const auto& item) { return item.is_object(); });
}

double json_number(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!is_number(value)) refuse_field(name, "a number of usual size");
  return value.get<double>();
}

double json_log(const nlohmann::json& object, const char* name) {
  const double value = json_number(object, name);
  if (!(std::abs(value) <= max_abs_log)) refuse_field(name, "a logarithm");
  return value;
}

double json_non_negative(const nlohmann::json& object, const char* name) {
  const double value = json_number(object, name);
  if (value < 0) refuse_field(name, "zero or more");
  return value;
}

std::int64_t json_positive_integer(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 1) refuse_field(name, "a positive integer");
  return value.get<std::int64_t>();
}

std::string json_text(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_string()) refuse_field(name, "a text");
  return value.get<std::string>();
}

std::vector<std::string> json_texts(const nlohmann::json& object, const char* name) {
  return items<std::string>(object, name, "a list of texts", [](const auto& item) { return item.is_string(); });
}

std::vector<std::int32_t> json_integers(const nlohmann::json& object, const char* name) {
  using Limits = std::numeric_limits<std::int32_t>;
  return items<std::int32_t>(object, name, "a list of integers", [](const auto& item) {
    return item.is_number_integer() && item >= Limits::min() && item <= Limits::max();
  });
}

Eigen::VectorXd json_vector(const nlohmann::json& object, const char* name) {
  const std::vector<double> values = items<double>(object, name, "a list of numbers of usual size", is_number);
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

Eigen::VectorXd json_vector(const nlohmann::json& object, const char* name, Eigen::Index size) {
  Eigen::VectorXd vector = json_vector(object, name);
  if (vector.size() != size) throw ModelError(fmt::format("field \"{}\" has a wrong size", name));
  return vector;
}

Eigen::VectorXd json_logs(const nlohmann::json& object, const char* name, Eigen::Index size) {
  Eigen::VectorXd vector = json_vector(object, name, size);
  if (!(vector.cwiseAbs().maxCoeff() <= max_abs_log)) refuse_field(name, "a list of logarithms");
  return vector;
}

Eigen::MatrixXd json_matrix(const nlohmann::json& object, const char* name, Eigen::Index rows, Eigen::Index cols) {
  const nlohmann::json& value = list(object, name, "a matrix", [](const auto& row) { return row.is_array(); });
  if (value.size() != static_cast<std::size_t>(rows))
    throw ModelError(fmt::format("field \"{}\" has a wrong size", name));
  Eigen::MatrixXd matrix(rows, cols);
  for (Eigen::Index i = 0; i < rows; ++i) {
    matrix.row(i) = json_vector({{name, value[static_cast<std::size_t>(i)]}}, name, cols).transpose();
  }
  return matrix;
}

nlohmann::json vector_json(const Eigen::Ref<const Eigen::VectorXd>& vector) {
  return std::vector<double>(vector.begin(), vector.end());
}

nlohmann::json matrix_json(const Eigen::Ref<const Eigen::MatrixXd>& matrix) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& row : matrix.rowwise()) rows.push_back(std::vector<double>(row.begin(), row.end()));
  return rows;
}

}  // namespace perfpred
