// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perfpred {

/// A request without what the connection needs.
struct HttpRequest {
  std::string method;             ///< `GET`
  std::string path;               ///< `/v1/predict`
  std::string query = {};         ///< behind `?`, as it was sent
  std::string content_type = {};  ///< as it was sent
  std::string body = {};
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  ///< further ones
};

/// `{"error": line}`
[[nodiscard]] HttpResponse http_refusal(int status, std::string_view line);

}  // namespace perfpred
