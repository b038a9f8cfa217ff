// SPDX-License-Identifier: Apache-2.0
#include "model/model_json.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <vector>

namespace perfpred {
namespace {

[[noreturn]] void refuse(const char* name, const char* wanted) {
  throw ModelError(fmt::format("field \"{}\" is not {}", name, wanted));
}

}  // namespace

const nlohmann::json& json_field(const nlohmann::json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) throw ModelError(fmt::format("field \"{}\" is missing", name));
  return object.at(name);
}

const nlohmann::json& json_list(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_array()) refuse(name, "a list");
  return value;
}

double json_number(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_number()) refuse(name, "a number");
  return value.get<double>();
}

std::string json_text(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_field(object, name);
  if (!value.is_string()) refuse(name, "a text");
  return value.get<std::string>();
}

std::vector<std::string> json_texts(const nlohmann::json& object, const char* name) {
  std::vector<std::string> texts;
  for (const nlohmann::json& item : json_list(object, name)) {
    if (!item.is_string()) refuse(name, "a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

Eigen::VectorXd json_vector(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_list(object, name);
  Eigen::VectorXd vector(static_cast<Eigen::Index>(value.size()));
  Eigen::Index i = 0;
  for (const nlohmann::json& item : value) {
    if (!item.is_number()) refuse(name, "a list of numbers");
    vector[i++] = item.get<double>();
  }
  return vector;
}

Eigen::MatrixXd json_matrix(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = json_list(object, name);
  if (value.empty() || !value.front().is_array()) refuse(name, "a matrix");
  Eigen::MatrixXd matrix(static_cast<Eigen::Index>(value.size()), static_cast<Eigen::Index>(value.front().size()));
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
    const nlohmann::json& row = value[static_cast<std::size_t>(i)];
    if (!row.is_array() || row.size() != value.front().size()) refuse(name, "a matrix");
    for (Eigen::Index j = 0; j < matrix.cols(); ++j) {
      const nlohmann::json& item = row[static_cast<std::size_t>(j)];
      if (!item.is_number()) refuse(name, "a matrix");
      matrix(i, j) = item.get<double>();
    }
  }
  return matrix;
}

nlohmann::json to_json(const Eigen::VectorXd& vector) {
  return std::vector<double>(vector.data(), vector.data() + vector.size());
}

nlohmann::json to_json(const Eigen::MatrixXd& matrix) {
  nlohmann::json rows = nlohmann::json::array();
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) rows.push_back(to_json(Eigen::VectorXd(matrix.row(i).transpose())));
  return rows;
}

}  // namespace perfpred
