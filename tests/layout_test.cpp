// SPDX-License-Identifier: Apache-2.0
// The folders ("rooms") of src/, read from its sources: data flows one way, a function is defined in the room of its
// declaration, and the name of a test says what it may include. scripts/lint.sh bounds the length of functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "source_scan.h"

namespace perfpred::testing {
namespace {

namespace fs = std::filesystem;

const fs::path root = PERFPRED_SOURCE_DIR;

/// In the order of the data flow: a room includes those before it. docs/architecture.md says what each is for.
constexpr std::array<std::string_view, 18> rooms = {"text",   "statistics", "catalogue", "network", "workload", "step",
                                                    "device", "runs",       "aggregate", "optime",  "parallel", "model",
                                                    "answer", "evaluate",   "plan",      "tools",   "service",  "c"};
constexpr std::array<std::string_view, 11> torch_rooms = {
    "device", "monitor", "files", "data", "network", "distributed", "step", "trace", "train", "measure", "layers"};

struct Source {
  std::string path;  // below src/, or as it is included
  std::vector<std::string> includes;
  std::vector<Statement> statements;
};

std::vector<Source> sources_below(const fs::path& folder, const std::string& prefix = {}) {
  std::vector<Source> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".h") continue;
    const std::string text = text_of(entry.path());
    found.push_back(
        {prefix + fs::relative(entry.path(), folder).string(), includes_of(text), statements_of(bare_code(text))});
  }
  return found;
}

std::string room_of(const std::string& path) { return path.substr(0, path.find('/')); }

template <class Rooms>
std::ptrdiff_t place_in(const Rooms& order, std::string_view room) {
  return std::find(order.begin(), order.end(), room) - order.begin();
}

/// "a.cpp includes b.h" for each source that includes a header of a later room. `room` names the room of an included
/// header; "" for one that belongs to none.
template <class Rooms, class RoomOf>
std::vector<std::string> arrows_back(const std::vector<Source>& sources, const Rooms& order, const RoomOf& room) {
  std::vector<std::string> arrows;
  for (const Source& source : sources) {
    const auto own = place_in(order, room(source.path));
    for (const std::string& include : source.includes) {
      const auto other = place_in(order, room(include));
      if (other < static_cast<std::ptrdiff_t>(order.size()) && other > own)
        arrows.push_back(source.path + " includes " + include);
    }
  }
  return arrows;
}

/// Elsewhere a deep document or a byte that is not UTF-8 would be forgotten.
TEST(Layout, JsonIsReadAndWrittenInOnePlace) {
  static const std::regex around(R"(\.dump\(|[jJ]son::parse\(|json_abi\S*::parse\()");
  for (const char* part : {"src", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / part)) {
      const std::string path = fs::relative(entry.path(), root).string();
      if (!entry.is_regular_file() || path.starts_with("src/torch/") || path == "src/text/json.cpp") continue;
      const std::string text = text_of(entry.path());
      if (text.find("perfpred/torch/") != std::string::npos) continue;  // a program of the torch component
      EXPECT_FALSE(std::regex_search(text, around)) << path << ": use parse_json, read_json and dumped of text/json.h";
    }
  }
}

TEST(Layout, EveryCoreSourceStandsInARoomOfTheDataFlow) {
  for (const Source& source : sources_below(root / "src")) {
    if (source.path.starts_with("torch/")) continue;
    EXPECT_LT(place_in(rooms, room_of(source.path)), static_cast<std::ptrdiff_t>(rooms.size())) << source.path;
  }
  for (const Source& source : sources_below(root / "src/torch")) {
    EXPECT_LT(place_in(torch_rooms, room_of(source.path)), static_cast<std::ptrdiff_t>(torch_rooms.size()))
        << source.path;
  }
}

/// src/ and the public headers, and where everything that a header declares is defined.
class House {
 public:
  House() : sources_(sources_below(root / "src")) {
    for (Source& header : sources_below(root / "include/perfpred", "perfpred/")) {
      if (header.path != "perfpred/perfpred.h") sources_.push_back(std::move(header));
    }
    for (const Source& source : sources_) {
      for (const Statement& statement : source.statements) note(source, statement);
    }
    for (const Source& source : sources_) {
      if (source.path.ends_with(".cpp")) note_definitions(source);
    }
  }

  [[nodiscard]] const std::vector<Source>& sources() const { return sources_; }

  /// Of a file as it is included: "text", "torch/files". A public header stands in the room of the source of its name,
  /// else in the only one that defines its functions; "" if there is none.
  [[nodiscard]] std::string room(const std::string& path) const {
    if (!path.starts_with("perfpred/")) {
      const std::size_t from = path.starts_with("torch/") ? 6 : 0;
      return path.find('/', from) == std::string::npos ? "" : path.substr(0, path.find('/', from));
    }
    const auto defined = rooms_of_definitions_.find(path);
    if (defined == rooms_of_definitions_.end()) return {};
    if (const auto own = sources_of_name_.find(path); own != sources_of_name_.end()) return own->second;
    return defined->second.size() == 1 ? *defined->second.begin() : "";
  }

  /// "function in a.cpp, declared in b.h" for each that is defined in another room than all of its declarations.
  [[nodiscard]] std::vector<std::string> strayed() const {
    std::vector<std::string> found;
    for (const auto& [function, source, headers] : definitions_) {
      const bool at_home =
          std::any_of(headers.begin(), headers.end(), [&, own = room(source)](const std::string& header) {
            const std::string declared = room(header);
            return declared.empty() || declared == own;
          });
      if (!at_home) found.push_back(function + " in " + source + ", declared in " + *headers.begin());
    }
    return found;
  }

 private:
  struct Definition {
    std::string function, source;
    std::set<std::string> headers;  // that declare it, or define its class
  };

  void note(const Source& source, const Statement& statement) {
    if (!source.path.ends_with(".h")) return;
    if (const std::string name = class_defined_by(statement); !name.empty()) declaring_[name].insert(source.path);
    if (statement.has_body) return;
    if (const std::string name = function_of(statement); !name.empty()) declaring_[name].insert(source.path);
  }

  void note_definitions(const Source& source) {
    for (const Statement& statement : source.statements) {
      if (!statement.has_body || statement.is_private) continue;
      const std::string name = function_of(statement);
      const auto declared = declaring_.find(name.substr(0, name.find("::")));
      if (name.empty() || declared == declaring_.end()) continue;
      definitions_.push_back({name, source.path, declared->second});
      for (const std::string& header : declared->second) {
        rooms_of_definitions_[header].insert(room(source.path));
        if (fs::path(header).stem() == fs::path(source.path).stem()) sources_of_name_[header] = room(source.path);
      }
    }
  }

  std::vector<Source> sources_;
  std::map<std::string, std::set<std::string>> declaring_;  // headers, by class or function
  std::vector<Definition> definitions_;
  std::map<std::string, std::set<std::string>> rooms_of_definitions_;  // by header
  std::map<std::string, std::string> sources_of_name_;                 // the room of a header's own source
};

const House& house() {
  static const House all;
  return all;
}

bool is_of_torch(const Source& source) { return source.path.find("torch/") != std::string::npos; }

TEST(Layout, NoRoomOfCoreIncludesALaterOne) {
  auto sources = house().sources();
  std::erase_if(sources, is_of_torch);
  EXPECT_THAT(arrows_back(sources, rooms, [](const std::string& file) { return house().room(file); }),
              ::testing::IsEmpty());
}

/// Definitions that wait for their functions to move; a test fails where one of them is gone.
const std::set<std::string> strayed_definitions = {
    "build_network in workload/workload.cpp, declared in network/layers.h",
    "Workload::graph in step/program.cpp, declared in perfpred/workload.h",
    "Workload::params in step/program.cpp, declared in perfpred/workload.h",
    "Workload::steps_per_epoch in step/program.cpp, declared in perfpred/workload.h"};

TEST(Layout, NoRoomOfTorchIncludesALaterOne) {
  auto sources = house().sources();
  std::erase_if(sources, std::not_fn(is_of_torch));
  const auto room = [](const std::string& file) {
    const std::string own = house().room(file);
    return own.starts_with("torch/") ? own.substr(6) : std::string();  // core's rooms are others
  };
  EXPECT_THAT(arrows_back(sources, torch_rooms, room), ::testing::IsEmpty());
}

TEST(Layout, FunctionsAreDefinedInTheRoomOfTheirDeclaration) {
  EXPECT_THAT(house().strayed(), ::testing::UnorderedElementsAreArray(strayed_definitions));
}

TEST(Layout, CoreNeverSeesLibTorch) {
  const std::regex torch("^(torch|ATen|c10|caffe2|cuda)[/_].*|^perfpred/torch/.*");
  for (const fs::path& folder : {root / "src", root / "include/perfpred"}) {
    for (const Source& source : sources_below(folder)) {
      if (is_of_torch(source)) continue;
      for (const std::string& include : source.includes) {
        EXPECT_FALSE(std::regex_match(include, torch)) << source.path << " includes " << include;
      }
    }
  }
}

/// `x_test.cpp` sees the public interface only, `x_impl_test.cpp` a header of src/, too: a change inside may rewrite
/// the second kind, never the first.
TEST(Layout, TheNameOfATestSaysWhatItIncludes) {
  for (const Source& test : sources_below(root / "tests")) {
    if (!test.path.ends_with("_test.cpp")) continue;
    const bool is_private = std::any_of(test.includes.begin(), test.includes.end(),
                                        [](const std::string& name) { return fs::exists(root / "src" / name); });
    EXPECT_EQ(test.path.ends_with("_impl_test.cpp"), is_private) << test.path;
  }
}

/// What the public headers do not declare is not exported, but for registries, which all components share.
TEST(Layout, PrivateHeadersExportNothing) {
  std::set<std::string> exporting;
  for (const Source& source : house().sources()) {
    if (source.path.starts_with("perfpred/")) continue;
    if (text_of(root / "src" / source.path).find("PERFPRED_API") != std::string::npos) exporting.insert(source.path);
  }
  EXPECT_THAT(exporting, ::testing::IsSubsetOf(std::set<std::string>{"model/kinds/ann.h", "model/kinds/trees.h",
                                                                     "plan/branch_and_cut.h", "step/graph_folder.h",
                                                                     "step/op_rules.h"}));
}

}  // namespace
}  // namespace perfpred::testing
