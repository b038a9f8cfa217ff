// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace perfpred {

// Fields of a model file. @throws ModelError naming the field if it is missing or has another type, size or range
[[nodiscard]] const nlohmann::json& json_field(const nlohmann::json& object, const char* name);
[[nodiscard]] const nlohmann::json& json_object(const nlohmann::json& object, const char* name);
[[nodiscard]] const nlohmann::json& json_objects(const nlohmann::json& object, const char* name);  ///< a list of them
[[nodiscard]] double json_number(const nlohmann::json& object, const char* name);
inline constexpr double max_abs_log = 350;  ///< of a logarithm whose exponential, squared, is a double
[[nodiscard]] double json_log(const nlohmann::json& object, const char* name);
[[nodiscard]] double json_non_negative(const nlohmann::json& object, const char* name);
[[nodiscard]] std::int64_t json_positive_integer(const nlohmann::json& object, const char* name);
[[nodiscard]] std::string json_text(const nlohmann::json& object, const char* name);
[[nodiscard]] std::vector<std::string> json_texts(const nlohmann::json& object, const char* name);
[[nodiscard]] std::vector<std::int32_t> json_integers(const nlohmann::json& object, const char* name);
[[nodiscard]] Eigen::VectorXd json_vector(const nlohmann::json& object, const char* name);
[[nodiscard]] Eigen::VectorXd json_vector(const nlohmann::json& object, const char* name, Eigen::Index size);
[[nodiscard]] Eigen::VectorXd json_logs(const nlohmann::json& object, const char* name, Eigen::Index size);
[[nodiscard]] Eigen::MatrixXd json_matrix(const nlohmann::json& object, const char* name, Eigen::Index rows,
                                          Eigen::Index cols);

/// ModelError `field "name" is not what_is_wanted`.
[[noreturn]] void refuse_field(const char* name, const char* wanted);

[[nodiscard]] nlohmann::json vector_json(const Eigen::Ref<const Eigen::VectorXd>& vector);
[[nodiscard]] nlohmann::json matrix_json(const Eigen::Ref<const Eigen::MatrixXd>& matrix);  ///< list of rows

}  // namespace perfpred
