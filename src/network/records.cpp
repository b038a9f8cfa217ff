// SPDX-License-Identifier: Apache-2.0
#include "network/records.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <perfpred/error.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "text/csv.h"
#include "text/nearest_name.h"
#include "text/parse.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;

/// The file that this code is in: a library, or the program itself.
fs::path own_file() {
  static const char here = 0;
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(&here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return {};
  std::error_code error;
  return map->l_name[0] == '\0' ? fs::read_symlink("/proc/self/exe", error) : fs::absolute(map->l_name, error);
}

/// Beside the library (a wheel), or in share/ of the folder that has lib/ or bin/; empty where there is none.
fs::path shipped_folder() {
  constexpr int highest = 3;  // lib/x86_64-linux-gnu/
  std::error_code error;
  fs::path folder = fs::weakly_canonical(own_file(), error).parent_path();
  for (int level = 0; level < highest && !folder.empty(); ++level, folder = folder.parent_path()) {
    const fs::path records = folder / "share" / "perfpred" / "networks";
    if (fs::exists(records / "index.csv", error)) return records;
  }
  return {};
}

std::vector<Record> read_index(const fs::path& folder) {
  CsvReader csv((folder / "index.csv").string());
  const auto column = [&](const char* name) { return csv.required(name); };
  const CsvColumn name = column("name"), version = column("version"), aliases = column("aliases"),
                  inputs = column("inputs"), batches = column("batches"), params = column("params"),
                  classes = column("classes"), samples = column("samples"), sample = column("sample"),
                  source = column("source"), licence = column("licence");
  const auto number = [&](const CsvColumn& of) { return csv.text(of).empty() ? 0 : csv.positive_integer(of); };
  std::vector<Record> read;
  while (csv.next()) {
    Record record;
    const std::string plain(csv.text(name));
    record.version = csv.positive_integer(version);
    record.name = fmt::format("{}@{}", plain, record.version);
    record.file = (folder / (plain + ".xz")).string();
    for (const std::string_view alias : words_of(csv.text(aliases))) record.aliases.emplace_back(alias);
    for (const std::string_view input : words_of(csv.text(inputs)))
      record.inputs.push_back(parse_sizes(input, csv.place("inputs")));
    if (record.inputs.empty()) throw_bad_value(csv.place("inputs"), "", "sizes such as 3x224x224");
    for (const std::string_view size : words_of(csv.text(batches)))
      record.batches.push_back(parse_positive_integer(size, csv.place("batches")));
    record.params = csv.positive_integer(params);
    record.classes = number(classes);
    record.samples = number(samples);
    record.sample = csv.text(sample);
    record.source = csv.text(source);
    record.licence = csv.text(licence);
    read.push_back(std::move(record));
  }
  std::sort(read.begin(), read.end(), [](const Record& a, const Record& b) { return a.name < b.name; });
  return read;
}

/// All records, and their numbers by the letters and digits of what they are called.
struct Library {
  std::vector<Record> all;
  std::unordered_map<std::string, std::size_t> by_spelling;
};

const Library& library() {
  static const Library read = [] {
    Library made;
    const char* const named = std::getenv("PERFPRED_NETWORKS");
    const fs::path folder = named != nullptr ? fs::path(named) : shipped_folder();
    if (folder.empty()) return made;
    made.all = read_index(folder);
    for (std::size_t i = 0; i < made.all.size(); ++i) {
      const Record& record = made.all[i];
      made.by_spelling.emplace(bare(record.plain_name()), i);
      for (const std::string& alias : record.aliases) made.by_spelling.emplace(bare(alias), i);
    }
    return made;
  }();
  return read;
}

}  // namespace

std::span<const Record> records() { return library().all; }

const Record* find_record(std::string_view name) {
  const Library& known = library();
  if (is_recorded(name)) {
    const auto found = std::lower_bound(known.all.begin(), known.all.end(), name,
                                        [](const Record& record, std::string_view key) { return record.name < key; });
    return found != known.all.end() && found->name == name ? &*found : nullptr;
  }
  const auto found = known.by_spelling.find(bare(name));
  return found == known.by_spelling.end() ? nullptr : &known.all[found->second];
}

}  // namespace perfpred
