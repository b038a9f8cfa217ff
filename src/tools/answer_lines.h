// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/job_prediction.h>

#include <cstdio>
#include <functional>
#include <istream>
#include <string_view>

#include <nlohmann/json.hpp>

namespace perfpred {

struct AnsweredRequest {
  nlohmann::json document;  ///< the answer, or an object with `error`; either with the `id` of the request
  JobStatus status;
};

/// Answers one request. What it fails by, memory included, is its error.
/// @param text    of a JSON object
/// @param answer  to a request. @throws std::exception, whose text becomes the `error`
[[nodiscard]] AnsweredRequest answer_request(
    std::string_view text, const std::function<nlohmann::json(const nlohmann::json& request)>& answer);

/// Answers requests, one JSON object a line: one answer a line, an object with `error` where there is none, each
/// written before the next request is read. Each is answered as by answer_request().
/// @throws Error as soon as an answer cannot be written, or if the requests cannot be read to their end
void answer_lines(std::istream& requests, std::FILE* answers,
                  const std::function<nlohmann::json(const nlohmann::json& request)>& answer);

}  // namespace perfpred
