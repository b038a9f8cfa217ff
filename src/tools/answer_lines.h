// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdio>
#include <functional>
#include <istream>

#include <nlohmann/json.hpp>

namespace perfpred {

/// Answers requests, one JSON object a line: one answer a line, an object with `error` where there is none, each
/// written before the next request is read. What one request fails by, memory included, is that request's error. The
/// `id` of a request stands in its answer as it is.
/// @param answer  to a request. @throws std::exception, whose text becomes the `error`
/// @throws Error as soon as an answer cannot be written, or if the requests cannot be read to their end
void answer_lines(std::istream& requests, std::FILE* answers,
                  const std::function<nlohmann::json(const nlohmann::json& request)>& answer);

}  // namespace perfpred
