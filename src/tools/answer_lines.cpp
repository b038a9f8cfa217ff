// SPDX-License-Identifier: Apache-2.0
#include "tools/answer_lines.h"

#include <perfpred/error.h>

#include <exception>
#include <string>
#include <utility>

#include "model/refusal.h"
#include "text/json.h"
#include "tools/json_request.h"

namespace perfpred {

AnsweredRequest answer_request(std::string_view text,
                               const std::function<nlohmann::json(const nlohmann::json& request)>& answer) {
  nlohmann::json request;
  try {
    request = parse_request(text);
    nlohmann::json said = answer(request);
    echo_id(said, request);
    return {std::move(said), JobStatus::ok};
  } catch (const std::exception&) {
    const Refusal why = refusal();
    nlohmann::json said = {{"error", why.error}};
    echo_id(said, request);
    return {std::move(said), why.status};
  }
}

void answer_lines(std::istream& requests, std::FILE* answers,
                  const std::function<nlohmann::json(const nlohmann::json& request)>& answer) {
  std::string line;
  while (std::getline(requests, line)) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string text = dumped(answer_request(line, answer).document) + '\n';
    const bool written = std::fwrite(text.data(), 1, text.size(), answers) == text.size();
    if (!written || std::fflush(answers) != 0) throw Error("the answers cannot be written");
  }
  if (requests.bad()) throw Error("the requests cannot be read");
}

}  // namespace perfpred
