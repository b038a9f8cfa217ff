// SPDX-License-Identifier: Apache-2.0
#include "tools/answer_lines.h"

#include <perfpred/error.h>

#include <exception>
#include <new>
#include <string>

#include "text/json.h"
#include "tools/json_request.h"

namespace perfpred {
namespace {

using nlohmann::json;

std::string answer_text(const std::string& line, const std::function<json(const json& request)>& answer) {
  json request;
  const auto refused = [&](const char* why) {
    json said = {{"error", why}};
    echo_id(said, request);
    return dumped(said);
  };
  try {
    request = parse_request(line);
    json said = answer(request);
    echo_id(said, request);
    return dumped(said);
  } catch (const std::bad_alloc&) {
    return refused("out of memory");
  } catch (const std::exception& error) {
    return refused(error.what());
  }
}

}  // namespace

void answer_lines(std::istream& requests, std::FILE* answers, const std::function<json(const json& request)>& answer) {
  std::string line;
  while (std::getline(requests, line)) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string text = answer_text(line, answer) + '\n';
    const bool written = std::fwrite(text.data(), 1, text.size(), answers) == text.size();
    if (!written || std::fflush(answers) != 0) throw Error("the answers cannot be written");
  }
  if (requests.bad()) throw Error("the requests cannot be read");
}

}  // namespace perfpred
