// SPDX-License-Identifier: Apache-2.0
#include "text/json.h"

#include <set>
#include <vector>

namespace perfpred {
namespace {

/// Goes through a text without keeping it, to the first thing that is wrong.
class JsonCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::string wrong;  ///< empty: nothing

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool start_object(std::size_t) override {
    names_.emplace_back();
    return true;
  }
  bool end_object() override {
    names_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (names_.back().insert(name).second) return true;
    wrong = fmt::format("\"{}\" is there twice", shown(name));
    return false;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    const std::string complaint = json_complaint(error);
    const bool has_place = complaint.find(" at line ") != std::string::npos;
    wrong = printable(has_place ? complaint : fmt::format("{} at byte {}", complaint, position));
    return false;
  }

 private:
  std::vector<std::set<std::string>> names_;  // of the objects around
};

}  // namespace

void check_json_depth(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
    } else if (c == '[' || c == '{') {
      if (++depth > max_json_depth) {
        throw InputError(fmt::format("lists and objects are nested more than {} deep", max_json_depth));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

nlohmann::json parse_object(std::string_view text, std::string_view what) {
  check_json_depth(text);
  JsonCheck check;
  (void)nlohmann::json::sax_parse(text, &check);
  if (!check.wrong.empty()) throw InputError(fmt::format("{}: {}", what, check.wrong));
  auto object = parse_json<nlohmann::json>(text);
  if (!object.is_object()) throw InputError(std::string(what));
  return object;
}

template <class Json>
std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <class Json>
Json parse_json(std::string_view text) {
  check_json_depth(text);
  return Json::parse(text, nullptr, false);
}

template <class Json>
Json read_json_text(std::string_view text, const std::string& place) {
  try {
    check_json_depth(text);
    return Json::parse(text);
  } catch (const typename Json::parse_error& error) {
    throw InputError(fmt::format("{}: is not JSON (byte {})", place, error.byte));
  } catch (const typename Json::exception& error) {
    throw InputError(fmt::format("{}: {}", place, shown(json_complaint(error))));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", place, error.what()));
  }
}

template <class Json>
Json read_json(const std::string& path) {
  return read_json_text<Json>(read_file(path), path);
}

template std::string dumped(const nlohmann::json&, int);
template std::string dumped(const nlohmann::ordered_json&, int);
template nlohmann::json parse_json(std::string_view);
template nlohmann::ordered_json parse_json(std::string_view);
template nlohmann::json read_json(const std::string&);
template nlohmann::ordered_json read_json(const std::string&);
template nlohmann::json read_json_text(std::string_view, const std::string&);
template nlohmann::ordered_json read_json_text(std::string_view, const std::string&);

}  // namespace perfpred
