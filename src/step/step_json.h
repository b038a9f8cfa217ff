// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "step/step_content.h"
#include "text/parse.h"

// Reads the parts of a captured step from JSON. Everything wrong is an InputError that names the place.
namespace perfpred::step_json {

using nlohmann::json;

/// A place in the file, for messages: `step.json: ops[3]: inputs`.
class JsonPlace {
 public:
  explicit JsonPlace(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] JsonPlace in(std::string_view key) const { return JsonPlace(fmt::format("{}: {}", text_, key)); }
  [[nodiscard]] JsonPlace at(std::string_view key, std::size_t index) const {
    return JsonPlace(fmt::format("{}: {}[{}]", text_, key, index));
  }
  [[noreturn]] void refuse(const std::string& what) const { throw InputError(fmt::format("{}: {}", text_, what)); }

 private:
  std::string text_;
};

[[nodiscard]] std::int64_t integer(const json& value, const JsonPlace& place, std::int64_t least, std::int64_t most);
[[nodiscard]] const json& member(const json& object, const char* key, const JsonPlace& place);
[[nodiscard]] const json& list(const json& object, const char* key, const JsonPlace& place);
[[nodiscard]] std::string text(const json& object, const char* key, const JsonPlace& place);
/// A list of texts that may be missing.
[[nodiscard]] std::vector<std::string> texts(const json& object, const char* key, const JsonPlace& place);
[[nodiscard]] bool flag(const json& value, const JsonPlace& place);

/// A list of indices below `count`. @param none  whether null may stand for nothing
[[nodiscard]] std::vector<std::uint32_t> indices(const json& op, const char* key, const JsonPlace& place,
                                                 std::size_t count, bool none);

/// The position of a field's word in a list.
template <class Words, class Projection = std::identity>
std::size_t position(const json& object, const char* key, const JsonPlace& place, const Words& words,
                     Projection projection = {}) {
  const std::string word = text(object, key, place);
  const auto found = std::ranges::find(words, word, projection);
  if (found == words.end()) place.in(key).refuse(fmt::format("\"{}\" is not known", shown(word)));
  return static_cast<std::size_t>(found - words.begin());
}

/// A step's batch sizes, batches, precision and notes.
void read_head(StepContent& step, const json& document, const JsonPlace& place);

/// A tensor, but for its storage.
[[nodiscard]] StepTensor tensor_of(const json& from, const JsonPlace& place);

/// An operator, but for its operands, layer and frees.
[[nodiscard]] StepOp op_of(const json& from, const JsonPlace& place);

}  // namespace perfpred::step_json
