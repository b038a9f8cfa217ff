// SPDX-License-Identifier: Apache-2.0
#include "tools/ncu_report.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "text/files.h"
#include "text/csv.h"

namespace perfpred {
namespace {

/// What a metric is for. The FLOP counters of a precision stand together: addition, multiplication, fused multiply-add.
enum Role {
  time,
  read,
  written,
  moved,
  sm,
  dram,
  fp32,
  fp16 = fp32 + 3,
  fp64 = fp16 + 3,
  tensor = fp64 + 3,
  tensor_instructions,
  roles
};

enum class Unit { second, byte, count, percent };

struct Metric {
  Role role;
  Unit unit;
  double factor = 1;  // to seconds, bytes, FLOPs
};

/// Metrics by their names; counts without the unit of the chip in front (`sm__`, `smsp__`), which does not change a
/// sum.
const std::map<std::string_view, Metric>& metrics() {
  static const std::map<std::string_view, Metric> all = {
      {"gpu__time_duration.sum", {time, Unit::second}},
      {"gpu__time_duration.avg", {time, Unit::second}},
      {"Duration", {time, Unit::second}},
      {"dram__bytes_read.sum", {read, Unit::byte}},
      {"dram__bytes_write.sum", {written, Unit::byte}},
      {"dram__sectors_read.sum", {read, Unit::count, 32}},
      {"dram__sectors_write.sum", {written, Unit::count, 32}},
      {"dram__bytes.sum", {moved, Unit::byte}},
      {"sm__throughput.avg.pct_of_peak_sustained_elapsed", {sm, Unit::percent}},
      {"Compute (SM) Throughput", {sm, Unit::percent}},
      {"dram__throughput.avg.pct_of_peak_sustained_elapsed", {dram, Unit::percent}},
      {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", {dram, Unit::percent}},
      {"DRAM Throughput", {dram, Unit::percent}},
      {"sass_thread_inst_executed_op_fadd_pred_on.sum", {fp32, Unit::count}},
      {"sass_thread_inst_executed_op_fmul_pred_on.sum", {Role(fp32 + 1), Unit::count}},
      {"sass_thread_inst_executed_op_ffma_pred_on.sum", {Role(fp32 + 2), Unit::count, 2}},
      {"sass_thread_inst_executed_op_hadd_pred_on.sum", {fp16, Unit::count}},
      {"sass_thread_inst_executed_op_hmul_pred_on.sum", {Role(fp16 + 1), Unit::count}},
      {"sass_thread_inst_executed_op_hfma_pred_on.sum", {Role(fp16 + 2), Unit::count, 2}},
      {"sass_thread_inst_executed_op_dadd_pred_on.sum", {fp64, Unit::count}},
      {"sass_thread_inst_executed_op_dmul_pred_on.sum", {Role(fp64 + 1), Unit::count}},
      {"sass_thread_inst_executed_op_dfma_pred_on.sum", {Role(fp64 + 2), Unit::count, 2}},
      {"inst_executed_pipe_tensor.sum", {tensor_instructions, Unit::count}},
      {"inst_executed_pipe_tensor_op_hmma.sum", {tensor_instructions, Unit::count}},
  };
  return all;
}

std::optional<Metric> metric_named(std::string_view name) {
  if (const auto found = metrics().find(name); found != metrics().end()) return found->second;
  for (const std::string_view unit : {"smsp__", "sm__"}) {
    if (!name.starts_with(unit)) continue;
    const std::string_view bare = name.substr(unit.size());
    // Operations on floating-point numbers by the tensor units, by source and destination type.
    if (bare.starts_with("ops_path_tensor_src_") && bare.ends_with(".sum") &&
        bare.find("int") == std::string_view::npos) {
      return Metric{tensor, Unit::count};
    }
    if (const auto found = metrics().find(bare); found != metrics().end()) return found->second;
  }
  return std::nullopt;
}

/// Factor of a unit with its decimal prefix; nothing for a unit of another kind.
std::optional<double> unit_factor(std::string_view text, Unit unit) {
  if (unit == Unit::percent) return text == "%" ? std::optional(1.0) : std::nullopt;
  if (unit == Unit::second) {
    static const std::map<std::string_view, double> seconds = {{"second", 1},     {"s", 1},          {"sec", 1},
                                                               {"msecond", 1e-3}, {"ms", 1e-3},      {"usecond", 1e-6},
                                                               {"us", 1e-6},      {"nsecond", 1e-9}, {"ns", 1e-9}};
    const auto found = seconds.find(text);
    return found == seconds.end() ? std::nullopt : std::optional(found->second);
  }
  const auto is_base = [unit](std::string_view base) {
    if (unit == Unit::byte) return base == "byte" || base == "bytes" || base == "B";
    return base == "inst" || base == "sector" || base == "ops" || base == "op" || base.empty();
  };
  if (is_base(text)) return 1;
  static const std::map<char, double> prefixes = {{'k', 1e3}, {'K', 1e3},  {'M', 1e6},
                                                  {'G', 1e9}, {'T', 1e12}, {'P', 1e15}};
  const auto prefix = text.empty() ? prefixes.end() : prefixes.find(text.front());
  if (prefix == prefixes.end() || !is_base(text.substr(1))) return std::nullopt;
  return prefix->second;
}

/// Length of a thousands separator that is never a decimal one (apostrophe, blanks of several kinds) at this place.
std::size_t blank_separator(std::string_view text) {
  for (const std::string_view separator : {"'", " ", "\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x89", "\xE2\x80\x99"}) {
    if (text.starts_with(separator)) return separator.size();
  }
  return 0;
}

/// The decimal separator that this number gives away: `.`, `,`, or 0 where it may be either.
char decimal_separator(std::string_view number, bool whole) {
  const std::size_t point = number.rfind('.'), comma = number.rfind(',');
  constexpr auto none = std::string_view::npos;
  if (point == none && comma == none) return 0;
  if (point != none && comma != none) return point > comma ? '.' : ',';
  const std::size_t last = point != none ? point : comma;
  const char separator = number[last], other = separator == '.' ? ',' : '.';
  const bool several = number.find(separator) != last;
  if (several) return other;
  std::size_t digits = 0;
  while (last + 1 + digits < number.size() && std::isdigit(static_cast<unsigned char>(number[last + 1 + digits])) != 0)
    ++digits;
  if (digits != 3 || last == 0 || last > 3 || number.front() == '0') return separator;
  return whole ? other : '\0';
}

/// The number in a text with this decimal separator; nothing if it is none.
std::optional<double> localised_number(std::string_view text, char decimal) {
  std::array<char, 64> plain{};
  std::size_t length = 0, digits = 0;
  bool grouped = false, fraction = false;
  while (!text.empty()) {
    const char c = text.front();
    std::size_t used = 1;
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      ++digits;
    } else if (c == decimal && !fraction) {
      if (grouped && digits != 3) return std::nullopt;
      fraction = true;
    } else if ((c == 'e' || c == 'E' || c == '+' || c == '-') && (fraction || !grouped)) {
      // of an exponent, or a sign; checked by the conversion
    } else {
      used = c == '.' || c == ',' ? 1 : blank_separator(text);
      if (used == 0 || fraction || c == decimal || digits == 0 || digits > 3 || (grouped && digits < 2))
        return std::nullopt;
      grouped = true;
      digits = 0;
      text.remove_prefix(used);
      continue;
    }
    if (length + 1 == plain.size()) return std::nullopt;
    plain[length++] = c == decimal ? '.' : c;
    text.remove_prefix(used);
  }
  if (grouped && !fraction && digits != 3) return std::nullopt;
  double value = 0;
  const char* end = plain.data() + length;
  const auto [stop, error] = std::from_chars(plain.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_missing(std::string_view value) {
  return value.empty() || value.find("n/a") != std::string_view::npos || value == "nan" || value == "-nan" ||
         value == "inf";
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool holds_any(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&text](const char* word) { return text.find(word) != std::string::npos; });
}

bool names_backward_range(const std::string& range) { return holds_any(lower_case(range), {"backward", "bwd"}); }

bool names_backward_kernel(const std::string& kernel) {
  return holds_any(lower_case(kernel),
                   {"wgrad", "dgrad", "backward", "bwd", "bprop", "_bw_", "grad_input", "grad_weight"});
}

/// Names of the NVTX ranges in a field such as `3984  "<default domain>:forward:none:none:none:none:none:none"`.
std::vector<std::string> range_names(std::string_view field) {
  std::vector<std::string> names;
  constexpr auto none = std::string_view::npos;
  for (std::size_t open = field.find('"'); open != none; open = field.find('"', open + 1)) {
    const std::size_t close = field.find('"', open + 1);
    if (close == none) break;
    std::string_view range = field.substr(open + 1, close - open - 1);
    open = close;
    const std::size_t domain = range.find(':');
    if (domain == none) continue;
    range.remove_prefix(domain + 1);
    for (int part = 0; part < 6; ++part) {  // payload, colour and message types and values
      const std::size_t colon = range.rfind(':');
      if (colon == none) break;
      range.remove_suffix(range.size() - colon);
    }
    if (!range.empty() && std::find(names.begin(), names.end(), range) == names.end()) names.emplace_back(range);
  }
  return names;
}

/// Sums while a file is read.
struct Sums {
  std::int64_t kernels = 0;
  double vector_flops = 0, tensor_flops = 0, read = 0, written = 0, moved = 0, time = 0, sm = 0, dram = 0;
  bool backward = false;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : lines_(path) {}

  NcuReport run() {
    // The first numbers that give away the decimal separator decide for the file.
    std::deque<std::pair<std::size_t, std::string>> pending;
    std::size_t bytes = 0;
    while (decimal_ == 0 && bytes < (4U << 20)) {
      char* line = lines_.next();
      if (line == nullptr) break;
      pending.emplace_back(lines_.line(), line);
      bytes += pending.back().second.size() + 64;
      deciding_ = true;
      std::string copy = pending.back().second;
      take(copy.data(), lines_.line());
    }
    deciding_ = false;
    if (decimal_ == 0) decimal_ = '.';
    columns_ = {};
    for (auto& [number, line] : pending) take(line.data(), number);
    pending.clear();
    while (char* line = lines_.next()) take(line, lines_.line());
    finish_launch();
    if (!found_header_) {
      throw InputError(lines_.path() +
                       ": is no CSV of Nsight Compute: no line has the columns \"ID\" and \"Kernel Name\"");
    }
    return report();
  }

 private:
  struct Columns {
    std::size_t count = 0, id = 0, kernel = 0;
    bool quoted = true;  // the header; where it is not, a spreadsheet saved the file
    std::optional<std::size_t> process, capability, push_pop, start_stop, metric, unit, value;
    std::vector<std::pair<std::size_t, Metric>> wide;
    std::vector<double> wide_factors;  // empty until the row of units
  };

  struct Launch {
    bool open = false;
    std::string process, id, kernel, push_pop, start_stop, capability;
    std::array<double, roles> values{};
    std::array<bool, roles> known{};
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}:{}: {}", lines_.path(), line_, what));
  }

  void take(char* line, std::size_t number) {
    line_ = number;
    if (*line == '\0' || std::strncmp(line, "==", 2) == 0) return;
    const bool quoted = *line == '"';
    const bool plain = !columns_.quoted && (*line == ',' || std::isdigit(static_cast<unsigned char>(*line)) != 0);
    if (columns_.count > 0 && !quoted && !plain) return;  // what the profiled program printed
    if (!split_csv_fields(line, fields_)) {
      if (columns_.count == 0) return;
      fail("a quote is not closed");
    }
    if (const auto header = parse_header()) {
      finish_launch();
      columns_ = *header;
      columns_.quoted = quoted;
      if (!deciding_) {
        found_header_ = true;
        seen_.clear();
      }
      return;
    }
    if (columns_.count == 0) return;
    if (fields_.size() != columns_.count) {
      fail(fmt::format("{} fields where the header has {}", fields_.size(), columns_.count));
    }
    if (!columns_.metric && columns_.wide_factors.empty()) {
      take_units();
      return;
    }
    if (deciding_) {
      decide();
      return;
    }
    begin_launch();
    if (columns_.metric) {
      take_long();
    } else {
      for (std::size_t i = 0; i < columns_.wide.size(); ++i) {
        const auto& [column, metric] = columns_.wide[i];
        add(metric, fields_[column], columns_.wide_factors[i]);
      }
    }
  }

  std::optional<Columns> parse_header() const {
    Columns columns;
    std::optional<std::size_t> id, kernel;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const std::string_view name = fields_[i];
      if (name == "ID" || name == "\xEF\xBB\xBFID") id = i;
      if (name == "Kernel Name") kernel = i;
      if (name == "Process ID") columns.process = i;
      if (name == "CC") columns.capability = i;
      if (name.starts_with("thread Domain:Push/Pop_Range")) columns.push_pop = i;
      if (name.starts_with("Id:Domain:Start/Stop_Range")) columns.start_stop = i;
      if (name == "Metric Name") columns.metric = i;
      if (name == "Metric Unit") columns.unit = i;
      if (name == "Metric Value") columns.value = i;
      if (const auto metric = metric_named(name)) columns.wide.emplace_back(i, *metric);
    }
    if (!id || !kernel) return std::nullopt;
    columns.id = *id;
    columns.kernel = *kernel;
    columns.count = fields_.size();
    if (columns.metric && !(columns.unit && columns.value))
      fail("column \"Metric Unit\" or \"Metric Value\" is missing");
    return columns;
  }

  void take_units() {
    if (!fields_[columns_.id].empty()) fail("the row of units is missing");
    for (const auto& [column, metric] : columns_.wide) columns_.wide_factors.push_back(factor(metric, fields_[column]));
    if (columns_.wide.empty()) columns_.wide_factors.push_back(1);  // the row of units was there
  }

  [[nodiscard]] double factor(const Metric& metric, std::string_view unit) const {
    const auto value = unit_factor(unit, metric.unit);
    if (!value) fail(fmt::format("unit \"{}\" is not one of this metric", shown(unit)));
    return *value * metric.factor;
  }

  void decide() {
    // Counts are whole, but not in thousands.
    const auto look = [this](std::string_view value, bool whole) {
      if (decimal_ == 0) decimal_ = decimal_separator(value, whole);
    };
    if (!columns_.metric) {
      for (std::size_t i = 0; i < columns_.wide.size(); ++i) {
        const auto& [column, metric] = columns_.wide[i];
        look(fields_[column], metric.unit == Unit::count && columns_.wide_factors[i] == metric.factor);
      }
    } else if (const auto metric = metric_named(fields_[*columns_.metric])) {
      look(fields_[*columns_.value],
           metric->unit == Unit::count && unit_factor(fields_[*columns_.unit], Unit::count) == 1);
    }
  }

  [[nodiscard]] std::string_view field(const std::optional<std::size_t>& column) const {
    return column ? fields_[*column] : std::string_view();
  }

  void begin_launch() {
    const std::string_view id = fields_[columns_.id], process = field(columns_.process);
    if (launch_.open && launch_.id == id && launch_.process == process) return;
    finish_launch();
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
    if (error != std::errc{} || end != id.data() + id.size() || number > 1'000'000'000) {
      fail(fmt::format("ID \"{}\" is not the number of a kernel", shown(id)));
    }
    std::vector<bool>& seen = seen_[std::string(process)];
    if (seen.size() <= number) seen.resize(std::max<std::size_t>(number + 1, seen.size() * 2));
    if (seen[number])
      fail(fmt::format("kernel {} was complete before: the rows of a kernel must follow each other", number));
    seen[number] = true;
    launch_.open = true;
    launch_.id = id;
    launch_.process = process;
    launch_.kernel = fields_[columns_.kernel];
    launch_.push_pop = field(columns_.push_pop);
    launch_.start_stop = field(columns_.start_stop);
    launch_.capability = field(columns_.capability);
    launch_.values.fill(0);
    launch_.known.fill(false);
  }

  void take_long() {
    const std::string_view name = fields_[*columns_.metric];
    if (name.empty()) return;  // a rule's row
    const auto metric = metric_named(name);
    if (!metric) return;
    const std::string_view value = fields_[*columns_.value];
    if (!is_missing(value)) add(*metric, value, factor(*metric, fields_[*columns_.unit]));
  }

  void add(const Metric& metric, std::string_view text, double unit) {
    if (is_missing(text)) return;
    const auto value = localised_number(text, decimal_);
    if (!value || *value < 0) {
      fail(fmt::format("value \"{}\" is not a number with the decimal separator of this file, \"{}\"", shown(text),
                       decimal_));
    }
    // Two metrics of one meaning (a section and a raw counter) are not added; tensor operations have one per type.
    const bool several = metric.role == tensor;
    if (launch_.known[metric.role] && !several) return;
    launch_.known[metric.role] = true;
    launch_.values[metric.role] += *value * unit;
  }

  Sums& sums_of(std::unordered_map<std::string, std::size_t>& index, std::deque<std::pair<std::string, Sums>>& all,
                const std::string& name) {
    const auto [at, fresh] = index.try_emplace(name, all.size());
    if (fresh) all.emplace_back(name, Sums{});
    return all[at->second].second;
  }

  void finish_launch() {
    if (!launch_.open) return;
    launch_.open = false;
    const auto& v = launch_.values;
    Sums one;
    one.kernels = 1;
    one.time = v[time];
    one.read = v[read];
    one.written = v[written];
    one.moved = v[moved];
    one.sm = v[sm] * v[time];
    one.dram = v[dram] * v[time];
    for (int role = fp32; role < tensor; ++role) one.vector_flops += v[static_cast<std::size_t>(role)];
    one.tensor_flops = v[tensor];
    if (!launch_.known[tensor] && v[tensor_instructions] > 0) {
      // A warp's instruction is a product of 8 x 8 x 4 on the first tensor cores; later ones have several shapes.
      if (launch_.capability.starts_with("7.0") || launch_.capability.starts_with("7.2")) {
        one.tensor_flops = 512 * v[tensor_instructions];
      } else {
        ++uncounted_tensor_;
      }
    }
    one.backward = names_backward_kernel(launch_.kernel);
    for (std::size_t role = 0; role < roles; ++role) known_[role] += launch_.known[role] ? 1 : 0;

    add_to(total_, one);
    add_to(sums_of(kernel_index_, kernels_, launch_.kernel), one);
    std::vector<std::string> names = range_names(launch_.push_pop);
    for (std::string& name : range_names(launch_.start_stop)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    }
    if (names.empty()) ++outside_ranges_;
    for (const std::string& name : names) add_to(sums_of(range_index_, ranges_, name), one);
  }

  static void add_to(Sums& sums, const Sums& one) {
    sums.kernels += one.kernels;
    sums.vector_flops += one.vector_flops;
    sums.tensor_flops += one.tensor_flops;
    sums.read += one.read;
    sums.written += one.written;
    sums.moved += one.moved;
    sums.time += one.time;
    sums.sm += one.sm;
    sums.dram += one.dram;
    sums.backward = sums.backward || one.backward;
  }

  void check_metrics() const {
    std::vector<std::string> missing;
    if (known_[time] == 0) missing.emplace_back("gpu__time_duration.sum");
    const bool sum_known = known_[moved] > 0;
    if (!sum_known && known_[read] == 0) missing.emplace_back("dram__bytes_read.sum");
    if (!sum_known && known_[written] == 0) missing.emplace_back("dram__bytes_write.sum");
    bool any = known_[tensor] > 0 || known_[tensor_instructions] > 0, partial = false;
    for (const auto& [first, letter] : {std::pair(fp32, 'f'), std::pair(fp16, 'h'), std::pair(fp64, 'd')}) {
      std::vector<std::string> absent;
      for (std::size_t i = 0; i < 3; ++i) {
        constexpr std::array<const char*, 3> operations = {"add", "mul", "fma"};
        if (known_[first + i] > 0) continue;
        absent.push_back(fmt::format("smsp__sass_thread_inst_executed_op_{}{}_pred_on.sum", letter, operations[i]));
      }
      if (absent.empty()) any = true;
      if (absent.empty() || absent.size() == 3) continue;
      partial = true;
      missing.insert(missing.end(), absent.begin(), absent.end());
    }
    if (!any && !partial) missing.emplace_back("smsp__sass_thread_inst_executed_op_{fadd,fmul,ffma}_pred_on.sum");
    if (!missing.empty()) {
      throw InputError(fmt::format("{}: metrics are missing: {}", lines_.path(), fmt::join(missing, ", ")));
    }
  }

  [[nodiscard]] NcuTotals totals(const std::string& name, const Sums& sums) const {
    NcuTotals t;
    t.name = name;
    t.kernels = sums.kernels;
    t.flops = sums.vector_flops + sums.tensor_flops;
    t.tensor_flops = sums.tensor_flops;
    if (known_[read] > 0 && known_[written] > 0) {
      t.bytes_read = sums.read;
      t.bytes_written = sums.written;
      t.bytes = sums.read + sums.written;
    } else {
      t.bytes = sums.moved;
    }
    t.time_sec = sums.time;
    if (known_[sm] > 0 && sums.time > 0) t.sm_pct = sums.sm / sums.time;
    if (known_[dram] > 0 && sums.time > 0) t.dram_pct = sums.dram / sums.time;
    return t;
  }

  [[nodiscard]] NcuReport report() const {
    if (total_.kernels == 0) throw InputError(lines_.path() + ": holds no kernel");
    check_metrics();
    NcuReport report;
    report.total = totals("", total_);
    for (const auto& [name, sums] : ranges_) report.ranges.push_back(totals(name, sums));
    for (const auto& [name, sums] : kernels_) report.by_kernel.push_back(totals(name, sums));
    std::stable_sort(report.by_kernel.begin(), report.by_kernel.end(),
                     [](const NcuTotals& a, const NcuTotals& b) { return a.time_sec > b.time_sec; });
    warn(report.warnings);
    return report;
  }

  void warn(std::vector<std::string>& warnings) const {
    bool backward_range = false;
    for (const auto& [name, sums] : ranges_) {
      if (!names_backward_range(name)) continue;
      backward_range = true;
      if (sums.backward) continue;
      warnings.push_back(fmt::format(
          "range \"{}\" has {} kernel{} and none of a backward pass: the backward kernels were launched by another "
          "thread, "
          "where the range does not reach{}",
          name, sums.kernels, sums.kernels == 1 ? "" : "s",
          total_.backward ? "" : "; a profile filtered by range does not have them, and neither have these totals"));
    }
    if (!backward_range && !ranges_.empty() && !total_.backward) {
      warnings.emplace_back(
          "no kernel of a backward pass is in the report: if a training step was profiled, they were launched "
          "by another thread, where the ranges do not reach");
    }
    if (!ranges_.empty() && outside_ranges_ > 0) {
      warnings.push_back(fmt::format("{} of {} kernels are in no range", outside_ranges_, total_.kernels));
    }
    if (uncounted_tensor_ > 0) {
      warnings.push_back(
          fmt::format("tensor instructions of {} kernels are not in the FLOPs: what one does depends on its shape; "
                      "collect sm__ops_path_tensor_src_*.sum",
                      uncounted_tensor_));
    }
    static constexpr std::array<std::pair<Role, const char*>, 9> names = {{{time, "duration"},
                                                                           {read, "bytes read"},
                                                                           {written, "bytes written"},
                                                                           {moved, "bytes"},
                                                                           {sm, "SM throughput"},
                                                                           {dram, "DRAM throughput"},
                                                                           {fp32, "fp32 operations"},
                                                                           {fp16, "fp16 operations"},
                                                                           {fp64, "fp64 operations"}}};
    for (const auto& [role, name] : names) {
      if (known_[role] > 0 && known_[role] < total_.kernels) {
        warnings.push_back(fmt::format("{} of {} kernels have no {}: they count as 0", total_.kernels - known_[role],
                                       total_.kernels, name));
      }
    }
    for (const auto& [role, name] : {std::pair(sm, "SM"), std::pair(dram, "DRAM")}) {
      if (known_[role] == 0) warnings.push_back(fmt::format("{} throughput was not collected", name));
    }
  }

  LineReader lines_;
  std::size_t line_ = 0;
  char decimal_ = 0;
  bool deciding_ = false;
  bool found_header_ = false;
  Columns columns_;
  std::vector<std::string_view> fields_;
  Launch launch_;
  std::map<std::string, std::vector<bool>, std::less<>> seen_;
  Sums total_;
  std::deque<std::pair<std::string, Sums>> kernels_, ranges_;
  std::unordered_map<std::string, std::size_t> kernel_index_, range_index_;
  std::array<std::int64_t, roles> known_{};
  std::int64_t outside_ranges_ = 0, uncounted_tensor_ = 0;
};

std::string percent(const std::optional<double>& value) { return value ? fmt::format("{:.3f}", *value) : "unknown"; }

std::string intensity(const NcuTotals& totals) {
  const auto value = totals.arithmetic_intensity();
  return value ? fmt::format("{:.3f}", *value) : "-";
}

/// A kernel's name without its parameters, which may be 500 characters long.
std::string short_name(const std::string& name) {
  constexpr std::size_t longest = 70;
  return name.size() <= longest ? name : name.substr(0, longest - 3) + "...";
}

}  // namespace

std::optional<double> NcuTotals::arithmetic_intensity() const {
  if (bytes <= 0) return std::nullopt;
  return flops / bytes;
}

NcuReport NcuReport::read(const std::string& path) { return Reader(path).run(); }

std::string NcuReport::text(const std::string& label) const {
  std::string out = label.empty() ? "" : label + "\n";
  out += fmt::format("kernels    {}\nFLOPs      {:.4e}", total.kernels, total.flops);
  if (total.tensor_flops > 0) out += fmt::format(" ({:.4e} on tensor units)", total.tensor_flops);
  out += fmt::format("\nbytes      {:.4e}", total.bytes);
  if (total.bytes_read) out += fmt::format(" (read {:.4e}, written {:.4e})", *total.bytes_read, *total.bytes_written);
  out += fmt::format(
      "\ntime       {:.5f} ms\nrate       {:.3f} GFLOP/s\nbandwidth  {:.3f} GB/s\nintensity  {} FLOP/byte\n",
      total.time_sec * 1e3, total.flops_per_sec() / 1e9, total.bytes_per_sec() / 1e9, intensity(total));
  out += fmt::format("SM         {} %\nDRAM       {} %\n", percent(total.sm_pct), percent(total.dram_pct));
  const auto table = [&out](const char* title, const std::vector<NcuTotals>& rows) {
    if (rows.empty()) return;
    out += fmt::format("\n{:<72}{:>8}{:>12}{:>12}{:>12}{:>10}\n", title, "kernels", "GFLOP", "MB", "ms", "FLOP/B");
    for (const NcuTotals& row : rows) {
      out += fmt::format("{:<72}{:>8}{:>12.4f}{:>12.3f}{:>12.4f}{:>10}\n", short_name(row.name), row.kernels,
                         row.flops / 1e9, row.bytes / 1e6, row.time_sec * 1e3, intensity(row));
    }
  };
  table("range", ranges);
  table("kernel", by_kernel);
  for (const std::string& warning : warnings) out += "warning: " + warning + "\n";
  return out;
}

void write_ncu_summary(const std::string& path, const NcuReport& report, const std::string& label) {
  write_file(path, report.text(label));
}

}  // namespace perfpred
