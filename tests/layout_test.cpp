// SPDX-License-Identifier: Apache-2.0
// The folders ("rooms") of src/, read from its #include lines: data flows one way, and no source grows too long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path root = PERFPRED_SOURCE_DIR;

/// In the order of the data flow: a room includes those before it. docs/architecture.md says what each is for.
constexpr std::array<std::string_view, 14> rooms = {"text",  "statistics", "catalogue", "network",   "workload",
                                                    "step",  "device",     "runs",      "aggregate", "optime",
                                                    "model", "evaluate",   "plan",      "tools"};
constexpr std::array<std::string_view, 11> torch_rooms = {"device", "monitor", "files",   "exported", "data", "network",
                                                          "step",   "train",   "measure", "layers",   "trace"};

struct Source {
  std::string path;  // below src/
  std::vector<std::string> includes;
  std::size_t lines = 0;
};

std::vector<Source> sources_below(const fs::path& folder) {
  static const std::regex include("^#include [\"<]([^\">]+)[\">]");
  std::vector<Source> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".h" && extension != ".py") continue;
    Source source{fs::relative(entry.path(), folder).string(), {}, 0};
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line); ++source.lines) {
      if (std::smatch match; std::regex_search(line, match, include)) source.includes.push_back(match[1]);
    }
    found.push_back(std::move(source));
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

bool is_torch(const Source& source) { return source.path.find("torch/") == 0; }

TEST(Layout, EveryCoreSourceStandsInARoomOfTheDataFlow) {
  for (const Source& source : sources_below(root / "src")) {
    if (is_torch(source)) continue;
    EXPECT_LT(place_in(rooms, room_of(source.path)), static_cast<std::ptrdiff_t>(rooms.size())) << source.path;
  }
  for (const Source& source : sources_below(root / "src/torch")) {
    EXPECT_LT(place_in(torch_rooms, room_of(source.path)), static_cast<std::ptrdiff_t>(torch_rooms.size()))
        << source.path;
  }
}

TEST(Layout, NoRoomOfCoreIncludesALaterOne) {
  auto sources = sources_below(root / "src");
  std::erase_if(sources, is_torch);
  std::map<std::string, std::string> public_rooms;  // a public header stands in the room of the source of its name
  for (const Source& source : sources) {
    const fs::path path(source.path);
    if (path.extension() == ".cpp") public_rooms["perfpred/" + path.stem().string() + ".h"] = room_of(source.path);
  }
  for (Source header : sources_below(root / "include/perfpred")) {
    header.path = "perfpred/" + header.path;
    if (header.path != "perfpred/perfpred.h" && header.path.find("torch/") == std::string::npos)
      sources.push_back(std::move(header));
  }
  EXPECT_THAT(arrows_back(sources, rooms,
                          [&](const std::string& header) {
                            const auto found = public_rooms.find(header);
                            return found == public_rooms.end() ? room_of(header) : found->second;
                          }),
              testing::IsEmpty());
}

TEST(Layout, NoRoomOfTorchIncludesALaterOne) {
  auto sources = sources_below(root / "src");
  std::erase_if(sources, std::not_fn(is_torch));
  const auto room = [](const std::string& file) {
    return file.find("torch/") == 0 ? room_of(file.substr(6)) : std::string();  // core's rooms are others
  };
  EXPECT_THAT(arrows_back(sources, torch_rooms, room), testing::IsEmpty());
}

TEST(Layout, CoreNeverSeesLibTorch) {
  const std::regex torch("^(torch|ATen|c10|caffe2|cuda)[/_].*|^perfpred/torch/.*");
  for (const fs::path& folder : {root / "src", root / "include/perfpred"}) {
    for (const Source& source : sources_below(folder)) {
      if (is_torch(source)) continue;
      for (const std::string& include : source.includes) {
        EXPECT_FALSE(std::regex_match(include, torch)) << source.path << " includes " << include;
      }
    }
  }
}

TEST(Layout, NoSourceHasMoreThan500Lines) {
  for (const char* folder : {"src", "include", "examples", "tests", "benchmarks", "python"}) {
    for (const Source& source : sources_below(root / folder)) EXPECT_LE(source.lines, 500U) << source.path;
  }
}

TEST(Layout, ThePublicInterfaceStaysSmall) {
  std::size_t headers = 0;
  for (const auto& entry : fs::directory_iterator(root / "include/perfpred")) {
    if (entry.path().extension() == ".h") ++headers;
  }
  EXPECT_LE(headers, 22U);
}

/// What the public headers do not declare is not exported, but for registries, which all components share.
TEST(Layout, PrivateHeadersExportNothing) {
  std::set<std::string> exporting;
  for (const Source& source : sources_below(root / "src")) {
    std::ifstream file(root / "src" / source.path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    if (text.find("PERFPRED_API") != std::string::npos) exporting.insert(source.path);
  }
  EXPECT_THAT(exporting, testing::IsSubsetOf(std::set<std::string>{"model/kinds/ann.h", "model/kinds/trees.h",
                                                                   "plan/branch_and_cut.h",
                                                                   "step/graph_folder.h", "step/op_rules.h"}));
}

}  // namespace
