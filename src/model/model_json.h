// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

#include <nlohmann/json.hpp>

#include <string>

namespace perfpred {

// Fields of a model file. @throws ModelError naming the field if it is missing or has another type
[[nodiscard]] const nlohmann::json& json_field(const nlohmann::json& object, const char* name);
[[nodiscard]] const nlohmann::json& json_list(const nlohmann::json& object, const char* name);
[[nodiscard]] double json_number(const nlohmann::json& object, const char* name);
[[nodiscard]] std::string json_text(const nlohmann::json& object, const char* name);
[[nodiscard]] std::vector<std::string> json_texts(const nlohmann::json& object, const char* name);
[[nodiscard]] Eigen::VectorXd json_vector(const nlohmann::json& object, const char* name);
[[nodiscard]] Eigen::MatrixXd json_matrix(const nlohmann::json& object, const char* name);
[[nodiscard]] nlohmann::json to_json(const Eigen::VectorXd& vector);
[[nodiscard]] nlohmann::json to_json(const Eigen::MatrixXd& matrix);  ///< list of rows

}  // namespace perfpred
