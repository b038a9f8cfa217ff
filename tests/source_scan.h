// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads C++ sources as far as tests of their layout need: what they include, declare and define at namespace scope.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace perfpred::testing {

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The names in `#include <...>` and `#include "..."`.
inline std::vector<std::string> includes_of(const std::string& text) {
  static const std::regex include("(?:^|\n)#include [\"<]([^\">]+)[\">]");
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), include), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

/// Without comments, preprocessor lines and what quotes hold.
inline std::string bare_code(const std::string& text) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#' && (code.empty() || code.back() == '\n')) {
      while (i + 1 < text.size() && (text[i + 1] != '\n' || text[i] == '\\')) ++i;
    } else if (text.compare(i, 2, "//") == 0) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (text.compare(i, 3, "R\"(") == 0) {
      i = text.find(")\"", i) + 1;
    } else if (c == '"' || (c == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0))) {
      for (++i; text[i] != c; ++i) i += text[i] == '\\' ? 1 : 0;
    } else {
      code += c;
    }
  }
  return code;
}

/// A declaration or definition at namespace scope, up to its `{` or `;`.
struct Statement {
  std::string head;
  bool has_body = false;
  bool is_private = false;  ///< in a namespace without a name
};

/// Those of bare_code().
inline std::vector<Statement> statements_of(const std::string& code) {
  static const std::regex opens_namespace("(?:^|\\s)namespace\\s*([\\w:]*)\\s*$");
  std::vector<Statement> found;
  std::vector<bool> nameless;  // of the namespaces around
  std::string head;
  int parentheses = 0;
  const auto end_statement = [&](bool has_body) {
    const bool is_private = std::find(nameless.begin(), nameless.end(), true) != nameless.end();
    found.push_back({std::exchange(head, {}), has_body, is_private});
  };
  for (std::size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    if (c == '(') ++parentheses;
    if (c == ')') --parentheses;
    std::smatch match;
    if (parentheses > 0 || (c != '{' && c != '}' && c != ';')) {
      head += c;
    } else if (c == ';') {
      end_statement(false);
    } else if (c == '}') {
      if (!nameless.empty()) nameless.pop_back();
      head.clear();
    } else if (std::regex_search(head, match, opens_namespace)) {
      nameless.push_back(match[1].length() == 0);
      head.clear();
    } else {
      for (int depth = 1; depth > 0; depth += code[i] == '{' ? 1 : code[i] == '}' ? -1 : 0) ++i;
      end_statement(true);
    }
  }
  return found;
}

/// The class that the statement defines; empty if it defines none.
inline std::string class_defined_by(const Statement& statement) {
  static const std::regex pattern(
      "(?:^|\\s)(?:class|struct)\\s+(?:PERFPRED_API\\s+)?(\\w+)(?:\\s+final)?\\s*(?::[^:(].*)?$");
  std::string line = statement.head;
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::smatch match;
  return statement.has_body && std::regex_search(line, match, pattern) ? match[1].str() : std::string();
}

/// The function that the statement declares or defines, with its class in front (`Workload::key`); else empty.
inline std::string function_of(const Statement& statement) {
  static const std::regex not_one("^\\s*(?:using|typedef|enum|friend|static_assert|extern template)\\b");
  static const std::regex name("([A-Za-z_]\\w*(?:::~?[A-Za-z_]\\w*)*)\\s*\\(");
  const std::string& head = statement.head;
  const std::size_t open = head.find('(');
  std::smatch match;
  if (open == std::string::npos || std::regex_search(head, not_one) || !class_defined_by(statement).empty()) return {};
  if (head.substr(0, open).find('=') != std::string::npos) return {};  // a variable
  return std::regex_search(head, match, name) ? match[1].str() : std::string();
}

}  // namespace perfpred::testing
