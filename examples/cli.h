// SPDX-License-Identifier: Apache-2.0
#pragma once
// How all programs parse options and report errors.
#include <perfpred/error.h>
#include <perfpred/version.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "text/files.h"
#include "text/json.h"
#include "text/nearest_name.h"
#include "text/parse.h"
#include "text/several_devices.h"
#include "tools/commands.h"

namespace perfpred::cli {

enum ExitCode { done = 0, failed = 1, wrong_input = 2 };

/// CLI11 has such checks, too, but their messages print the largest double in 309 digits.
inline CLI::Validator number_where(const char* what, bool (*is_so)(double)) {
  return CLI::Validator(
      [what, is_so](const std::string& text) {
        return is_so(std::strtod(text.c_str(), nullptr)) ? std::string() : text + " is not " + what;
      },
      "");
}
inline CLI::Validator positive() {
  return number_where("positive", [](double x) { return x > 0; });
}
inline CLI::Validator not_negative() {
  return number_where("a number >= 0", [](double x) { return x >= 0; });
}

/// Lets an option of a number take a time as parse_seconds() does.
inline CLI::Option* takes_seconds(CLI::Option* option) {
  const auto to_seconds = [name = option->get_name()](std::string& text) {
    text = number_text(parse_seconds(text, {{}, 0, name}));
    return std::string();
  };
  return option->transform(CLI::Validator(to_seconds, ""));
}

/// Refuses options that have no effect, and says what they are for.
inline void refuse(const std::vector<CLI::Option*>& options, const std::string& use) {
  for (const CLI::Option* option : options) {
    if (!option->empty()) throw InputError(option->get_name() + " is for " + use);
  }
}

/// A program `perfpred-<name>` with --help (ending in an example) and --version. src/tools/commands.cpp says what it
/// does.
class Program : public CLI::App {
 public:
  Program(const std::string& name, const std::string& example)
      : CLI::App(std::string(command_named(name).does), "perfpred-" + name), example_(example) {
    set_version_flag("--version", std::string("perfpred-") + name + " " + PERFPRED_VERSION);
    footer("Example:\n  " + example);
    get_formatter()->column_width(34);
  }

  /// Lets `output` replace the file of `input`, or add to it.
  void lets_overwrite(const std::string& input, const std::string& output) { overwritten_ = {input, output}; }

  /// An option that --help does not list: it is refused, and the message says what to use instead.
  void add_refused(const std::string& name, const std::string& instead) {
    const auto refuse = [=](const std::string&) { throw InputError(name + " is not an option: " + instead); };
    add_option_function<std::string>(name, refuse)->group("");
  }

  /// What to say when the body is done.
  void at_end(std::function<void()> say) { at_end_ = std::move(say); }

  /// Parses, runs the body, and turns whatever is thrown into one line and an exit code.
  int run(int argc, char** argv, const std::function<void()>& body) {
    try {
      if (argc == 2 && std::string_view(argv[1]) == "--help-json") {
        std::printf("%s\n", help_json().c_str());
      } else if (parsed(argc, argv)) {
        check_numbers();
        check_outputs();
        redirect_stdout();
        check_texts();
        body();
        if (at_end_) at_end_();
      }
      if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw Error("standard output cannot be written");
      return done;
    } catch (const CLI::ParseError& error) {
      return complain(error.what(), wrong_input);
    } catch (const InputError& error) {
      return complain(error.what(), wrong_input);
    } catch (const ModelError& error) {
      return complain(error.what(), wrong_input);
    } catch (const std::bad_alloc&) {
      return complain("out of memory", failed);
    } catch (const std::exception& error) {
      return complain(error.what(), failed);
    }
  }

 private:
  /// What --help says, for completion of command lines and manual pages (tools/command_pages.h).
  [[nodiscard]] std::string help_json() const {
    nlohmann::ordered_json options = nlohmann::ordered_json::array();
    for (const CLI::Option* option : get_options()) {
      if (option->get_group().empty()) continue;
      std::vector<std::string> names;
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      const bool takes_value = option->get_items_expected_max() > 0;
      const std::string type = names.empty() ? option->get_name() : option->get_type_name();
      options.push_back({{"names", names}, {"value", takes_value ? type : ""}, {"help", option->get_description()}});
    }
    return dumped(nlohmann::ordered_json{{"name", get_name()},
                                         {"does", get_description()},
                                         {"example", example_},
                                         {"version", PERFPRED_VERSION},
                                         {"options", options}});
  }

  /// @returns false if --help or --version was given, which is answered here
  bool parsed(int argc, char** argv) {
    try {
      parse(argc, argv);
      return true;
    } catch (const CLI::Success& asked) {
      exit(asked);
      return false;
    } catch (const CLI::ExtrasError&) {  // its message has them in reverse order
      const std::vector<std::string> extras = remaining();
      const std::string all = CLI::detail::join(extras, " ");
      const auto counts = [](const std::string& text) {
        return text.starts_with("--") && counts_devices(text.substr(0, text.find('=')));
      };
      if (std::any_of(extras.begin(), extras.end(), counts))
        throw InputError(fmt::format("not expected: {}; {}", all, where_devices_are));
      throw InputError(fmt::format("not expected: {}{} (--help lists the options)", all, meant_option(extras.front())));
    }
  }

  /// `; did you mean --optimizer?` of `--optimiser=adam`; empty where no option is like it.
  [[nodiscard]] std::string meant_option(const std::string& typed) const {
    NearestName nearest(typed.substr(0, typed.find('=')));
    for (const CLI::Option* option : get_options()) {
      for (const std::string& name : option->get_lnames()) nearest.offer("--" + name, "--" + name);
    }
    return nearest.found() ? fmt::format("; did you mean {}?", *nearest.found()) : "";
  }

  /// Refuses what CLI11 accepts: an empty value (read as 0), NaN (inside every range), a number that is too large (read
  /// as the largest one), a leading 0 (read as octal), and other digits than decimal ones (0x10).
  void check_numbers() const {
    for (const CLI::Option* option : get_options()) {
      const std::string type = option->get_type_name();
      const bool is_signed = type.rfind("INT", 0) == 0;
      if (type.rfind("FLOAT", 0) == 0) {
        check(*option, "a finite number", is_finite);
      } else if (is_signed || type.rfind("UINT", 0) == 0) {
        check(*option, "a whole number in range", is_signed ? is_decimal<std::int64_t> : is_decimal<std::uint64_t>);
      }
    }
  }

  /// Refuses an empty value, as an unset variable of a shell gives.
  void check_texts() const {
    for (const CLI::Option* option : get_options()) {
      for (const std::string& value : option->results()) {
        if (value.empty()) throw InputError(option->get_name() + " is empty");
      }
    }
  }

  /// Refuses two outputs in one file, and an output in a file that is read.
  void check_outputs() const {
    std::map<std::string, std::string> written;  // by file, the option
    for (const char* name :
         {"--out", "--rejected", "--runs-out", "--features-out", "--layers-out", "--ops", "--log-file"}) {
      for (const std::string& file : files(name)) {
        const auto [first, is_new] = written.emplace(file, name);
        if (!is_new && file != "/dev/null") throw InputError(first->second + " and " + name + " are the same file");
      }
    }
    for (const char* name :
         {"--runs", "--from", "--runs-agg", "--measured", "--configs", "--grid", "--split", "--layers", "--steps-train",
          "--model", "--prior", "--step", "--device-file", "--op-rules", "--init", "--resume", "report"}) {
      for (const std::string& file : files(name)) {
        const auto output = written.find(file);
        if (output == written.end() || !std::filesystem::is_regular_file(file)) continue;
        if (overwritten_ != std::pair<std::string, std::string>(name, output->second))
          throw InputError(output->second + " would overwrite " + name);
      }
    }
  }

  /// Refuses an output on stdout beside the JSON document there; what is printed for people makes way for one.
  void redirect_stdout() const {
    const CLI::Option* json = get_option_no_throw("--json");
    for (const CLI::Option* option : get_options()) {
      for (const std::string& value : option->results()) {
        if (value != "/dev/stdout" && value != "/dev/fd/1") continue;
        if (json != nullptr && json->count() != 0)
          throw InputError(option->get_name() + " and --json both write to stdout");
        stdout = stderr;  // what is printed for people; the C library of GNU allows this
      }
    }
  }

  /// The files that an option names, each spelled in one way.
  [[nodiscard]] std::vector<std::string> files(const char* name) const {
    std::vector<std::string> paths;
    if (const CLI::Option* option = get_option_no_throw(name); option != nullptr) {
      for (const std::string& path : option->results()) {
        paths.push_back(file_behind(path));
      }
    }
    return paths;
  }

  static void check(const CLI::Option& option, const char* wanted, bool (*is_good)(const std::string&)) {
    for (const std::string& value : option.results()) {
      if (!is_good(value)) throw InputError(option.get_name() + " \"" + value + "\" is not " + wanted);
    }
  }

  static bool is_finite(const std::string& value) {
    double number = 0;
    const char* begin = value.data() + (value.starts_with('+') ? 1 : 0);
    const char* end = value.data() + value.size();
    const auto [read_to, error] = std::from_chars(begin, end, number);
    return error == std::errc() && read_to == end && std::isfinite(number);
  }

  template <class Integer>
  static bool is_decimal(const std::string& value) {
    Integer number{};
    const char* end = value.data() + value.size();
    const auto [read_to, error] = std::from_chars(value.data(), end, number);
    return error == std::errc() && read_to == end && (number == 0 || value[value[0] == '-' ? 1 : 0] != '0');
  }

  [[nodiscard]] int complain(std::string message, ExitCode code) const {
    if (const auto line_end = message.find('\n'); line_end != std::string::npos) message.resize(line_end);
    std::fprintf(stderr, "%s: %s\n", get_name().c_str(), message.c_str());
    return code;
  }

  std::string example_;
  std::pair<std::string, std::string> overwritten_;
  std::function<void()> at_end_;
};

}  // namespace perfpred::cli
