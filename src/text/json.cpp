// SPDX-License-Identifier: Apache-2.0
#include "text/json.h"

namespace perfpred {

void check_json_depth(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_json_depth) {
        throw InputError(fmt::format("lists and objects are nested more than {} deep", max_json_depth));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

}  // namespace perfpred
