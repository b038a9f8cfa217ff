// SPDX-License-Identifier: Apache-2.0
#include "aggregate/run_scanner.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "workload/workload_columns.h"

namespace perfpred {
namespace {

/// Reads a number that fills its field; the field may be empty where that is allowed.
bool scan_number(const char*& at, const char* end, std::optional<double>& value) {
  value.reset();
  if (at == end || *at == ',') return true;
  double number = 0;
  const auto [behind, error] = std::from_chars(at, end, number);
  if (error != std::errc{} || !(number >= 0) || !std::isfinite(number)) return false;
  value = number;
  at = behind;
  return true;
}

bool scan_integer(const char*& at, const char* end, std::int64_t& value) {
  const auto [behind, error] = std::from_chars(at, end, value);
  at = behind;
  return error == std::errc{};
}

/// A field with at most the quotes around it.
bool scan_text(const char*& at, const char* end, std::string_view& text) {
  if (at != end && *at == '"') {
    const char* begin = at + 1;
    const auto* quote = static_cast<const char*>(std::memchr(begin, '"', static_cast<std::size_t>(end - begin)));
    if (quote == nullptr) return false;
    text = {begin, static_cast<std::size_t>(quote - begin)};
    at = quote + 1;
    return true;
  }
  const char* begin = at;
  while (at != end && *at != ',') {
    if (*at == '"') return false;
    ++at;
  }
  text = {begin, static_cast<std::size_t>(at - begin)};
  return true;
}

}  // namespace

RunScanner::Role RunScanner::role_of(std::string_view column) {
  struct Named {
    std::string_view name;
    Role role;
  };
  static constexpr std::array<Named, 17> named = {{{"timestamp_utc", Role::timestamp},
                                                   {"framework", Role::text},
                                                   {"epochs", Role::epochs},
                                                   {"params", Role::params},
                                                   {"epoch_times_json", Role::epoch_times},
                                                   {"avg_time_sec", Role::avg_time_sec},
                                                   {"images_per_sec", Role::images_per_sec},
                                                   {"test_acc", Role::test_acc},
                                                   {"env", Role::workload},
                                                   {"host", Role::text},
                                                   {"driver", Role::text},
                                                   {"cuda", Role::text},
                                                   {"cudnn", Role::text},
                                                   {"note", Role::text},
                                                   {"timing", Role::timing},
                                                   {"outcome", Role::outcome},
                                                   {"epoch_rel_sem", Role::epoch_rel_sem}}};
  for (const Named& entry : named) {
    if (entry.name == column) return entry.role;
  }
  for (const WorkloadColumn& field : workload_columns()) {
    if (field.name == column) return Role::workload;
  }
  // The rest are numbers; a text among them that is none would only be left to the careful reader.
  const bool ours = std::find(run_columns().begin(), run_columns().end(), column) != run_columns().end();
  return ours ? Role::number : Role::text;
}

RunScanner::RunScanner(const std::vector<std::string>& columns) {
  for (const std::string& column : columns) roles_.push_back(role_of(column));
}

bool RunScanner::scan_epoch_times(const char*& at, const char* end) {
  epoch_times_.clear();
  const bool quoted = at != end && *at == '"';
  if (quoted) ++at;
  if (at == end || *at != '[') return false;
  ++at;
  while (at != end && *at != ']') {
    if (!epoch_times_.empty()) {
      if (*at != ',' || !quoted) return false;
      ++at;
      while (at != end && *at == ' ') ++at;
    }
    double sec = 0;
    const auto [behind, error] = std::from_chars(at, end, sec);
    if (error != std::errc{} || !(sec >= 0) || !std::isfinite(sec)) return false;
    epoch_times_.push_back(sec);
    at = behind;
  }
  if (at == end) return false;
  ++at;
  if (!quoted) return true;
  if (at == end || *at != '"') return false;
  ++at;
  return true;
}

bool RunScanner::scan(std::string_view line) {
  const char* at = line.data();
  const char* const end = at + line.size();
  figures_ = RunFigures();
  workload_text_.clear();
  timestamp_ = {};
  std::string_view text;
  std::optional<double> unused;
  for (std::size_t i = 0; i < roles_.size(); ++i) {
    if (i > 0) {
      if (at == end || *at != ',') return false;
      ++at;
    }
    switch (roles_[i]) {
      case Role::text:
        if (!scan_text(at, end, text)) return false;
        break;
      case Role::workload:
        if (!scan_text(at, end, text)) return false;
        workload_text_ += text;
        workload_text_ += '\n';  // which no field holds
        break;
      case Role::timestamp:
        if (!scan_text(at, end, timestamp_)) return false;
        break;
      case Role::epochs: {
        std::int64_t epochs = 0;
        if (!scan_integer(at, end, epochs) || epochs < 0 || epochs > std::numeric_limits<int>::max()) return false;
        break;
      }
      case Role::params:
        if (!scan_integer(at, end, figures_.params) || figures_.params < 1) return false;
        break;
      case Role::epoch_times:
        if (!scan_epoch_times(at, end)) return false;
        break;
      case Role::avg_time_sec:
        if (!scan_number(at, end, figures_.avg_time_sec) || figures_.avg_time_sec == 0.0) return false;
        break;
      case Role::images_per_sec:
        if (!scan_number(at, end, figures_.images_per_sec)) return false;
        break;
      case Role::test_acc:
        if (!scan_number(at, end, figures_.test_acc) || figures_.test_acc > 1.0) return false;
        break;
      case Role::epoch_rel_sem:
        if (!scan_number(at, end, figures_.epoch_rel_sem)) return false;
        break;
      case Role::number:
        if (!scan_number(at, end, unused)) return false;
        break;
      case Role::timing:
        if (!scan_text(at, end, text) || !(text.empty() || text == "epochs" || text == "steps")) return false;
        figures_.timing = text == "steps" ? Timing::steps : Timing::epochs;
        break;
      case Role::outcome:
        if (!scan_text(at, end, text) || !(text.empty() || text == "ok" || text == "oom")) return false;
        figures_.outcome = text == "oom" ? Outcome::oom : Outcome::ok;
        break;
    }
  }
  return at == end && (figures_.avg_time_sec.has_value() || figures_.outcome != Outcome::ok);
}

RunFigures RunScanner::figures() {
  figures_.epoch_times = epoch_times_;
  return figures_;
}

}  // namespace perfpred
