// SPDX-License-Identifier: Apache-2.0
#include "tools/roofline/ncu_report.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/icl/interval_set.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "text/csv.h"
#include "text/parse.h"
#include "tools/roofline/ncu_metrics.h"

namespace perfpred {
namespace {

using enum NcuCounter;

constexpr std::size_t at(NcuCounter counter) { return static_cast<std::size_t>(counter); }

/// What the profiler writes where a metric has no value: it marks what it could not compute with "(!) ".
bool is_no_number(std::string_view value) {
  constexpr std::string_view mark = "(!)";
  if (value.starts_with(mark)) value = trimmed(value.substr(mark.size()));
  return value == "nan" || value == "-nan" || value == "inf" || value == "-inf" || value == "no data";
}

bool is_missing(std::string_view value) {
  return value.empty() || value.find("n/a") != std::string_view::npos || is_no_number(value);
}

bool contains_any(std::string text, std::initializer_list<const char*> words) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::any_of(words.begin(), words.end(),
                     [&text](const char* word) { return text.find(word) != std::string::npos; });
}

bool names_backward_range(const std::string& range) { return contains_any(range, {"backward", "bwd"}); }

bool names_backward_kernel(const std::string& kernel) {
  return contains_any(kernel, {"wgrad", "dgrad", "backward", "bwd", "bprop", "_bw_", "grad_input", "grad_weight"});
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
    std::string name = printable(range);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

void add_to(NcuTotals& sum, const NcuTotals& one) {
  sum.kernels += one.kernels;
  sum.flops += one.flops;
  sum.tensor_flops += one.tensor_flops;
  sum.bytes += one.bytes;
  sum.time_sec += one.time_sec;
  for (const auto member :
       {&NcuTotals::bytes_read, &NcuTotals::bytes_written, &NcuTotals::sm_pct, &NcuTotals::dram_pct}) {
    sum.*member = (sum.*member).value_or(0) + (one.*member).value_or(0);
  }
}

/// Totals by name, in order of appearance.
class NamedTotals {
 public:
  NcuTotals& operator[](const std::string& name) {
    const auto [found, fresh] = index_.try_emplace(name, all_.size());
    if (fresh) all_.emplace_back().name = name;
    return all_[found->second];
  }
  [[nodiscard]] const std::deque<NcuTotals>& all() const { return all_; }

 private:
  std::deque<NcuTotals> all_;
  std::unordered_map<std::string, std::size_t> index_;
};

class Reader {
 public:
  Reader(const std::string& path, char decimal) : lines_(path), decimal_(decimal) {}

  NcuReport run() {
    while (char* line = lines_.next()) take(line);
    finish_launch();
    if (columns_.count == 0) {
      throw InputError(
          fmt::format("{}: is not a CSV of Nsight Compute: no line has the columns \"ID\" and \"Kernel Name\"{}",
                      lines_.path(), semicolons_ ? "; it is separated by semicolons, where commas are expected" : ""));
    }
    return report();
  }

 private:
  struct Columns {
    std::size_t count = 0, id = 0, kernel = 0;
    bool quoted = true;  // the header; a spreadsheet saves it without quotes
    std::optional<std::size_t> host, process, capability, push_pop, start_stop, metric, unit, value;
    std::vector<std::pair<std::size_t, NcuMetric>> wide;
    std::vector<double> wide_factors;  // empty until the row of units
  };

  struct Launch {
    bool open = false;
    std::string process, id, kernel, push_pop, start_stop, capability;
    std::array<std::optional<double>, ncu_counters> values;
    [[nodiscard]] double value(NcuCounter counter) const { return values[at(counter)].value_or(0); }
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}:{}: {}", lines_.path(), lines_.line(), what));
  }

  void take(char* line) {
    if (*line == '\0' || std::strncmp(line, "==", 2) == 0) return;
    const bool quoted = *line == '"';
    const bool plain = !columns_.quoted && (*line == ',' || std::isdigit(static_cast<unsigned char>(*line)) != 0);
    if (columns_.count > 0 && !quoted && !plain) return;  // the profiled program printed this
    semicolons_ = semicolons_ || (std::strstr(line, "Kernel Name") != nullptr && std::strchr(line, ';') != nullptr);
    if (!split_csv_fields(line, fields_)) {
      if (columns_.count == 0) return;
      fail("a quote is not closed");
    }
    if (const auto header = parse_header()) {
      finish_launch();
      columns_ = *header;
      columns_.quoted = quoted;
      seen_.clear();
      return;
    }
    if (columns_.count != 0) take_row();
  }

  void take_row() {
    if (fields_.size() != columns_.count) {
      fail(fmt::format("{} fields where the header has {}", fields_.size(), columns_.count));
    }
    if (!columns_.metric && columns_.wide_factors.empty()) {
      take_units();
      return;
    }
    begin_launch();
    if (columns_.metric) {
      const auto metric = ncu_metric(fields_[*columns_.metric]);
      if (metric && has_value(*columns_.value))
        add(*metric, fields_[*columns_.value], factor(*metric, fields_[*columns_.unit]));
      return;
    }
    for (std::size_t i = 0; i < columns_.wide.size(); ++i) {
      const auto& [column, metric] = columns_.wide[i];
      if (has_value(column)) add(metric, fields_[column], columns_.wide_factors[i]);
    }
  }

  bool has_value(std::size_t column) {
    if (is_no_number(fields_[column])) ++no_numbers_;
    return !is_missing(fields_[column]);
  }

  std::optional<Columns> parse_header() const {
    Columns columns;
    std::optional<std::size_t> id, kernel;
    const std::map<std::string_view, std::optional<std::size_t>*> wanted = {{"ID", &id},
                                                                            {"\xEF\xBB\xBFID", &id},
                                                                            {"Kernel Name", &kernel},
                                                                            {"Host Name", &columns.host},
                                                                            {"Process ID", &columns.process},
                                                                            {"CC", &columns.capability},
                                                                            {"Metric Name", &columns.metric},
                                                                            {"Metric Unit", &columns.unit},
                                                                            {"Metric Value", &columns.value}};
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const std::string_view name = fields_[i];
      if (const auto found = wanted.find(name); found != wanted.end()) *found->second = i;
      if (name.starts_with("thread Domain:Push/Pop_Range")) columns.push_pop = i;
      if (name.starts_with("Id:Domain:Start/Stop_Range")) columns.start_stop = i;
      if (const auto metric = ncu_metric(name)) columns.wide.emplace_back(i, *metric);
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

  [[nodiscard]] double factor(const NcuMetric& metric, std::string_view unit) const {
    const auto value = ncu_unit_factor(unit, metric.unit);
    if (!value) fail(fmt::format("unit \"{}\" does not fit this metric", shown(unit)));
    return *value * metric.factor;
  }

  [[nodiscard]] std::string_view field(const std::optional<std::size_t>& column) const {
    return column ? fields_[*column] : std::string_view();
  }

  void begin_launch() {
    const std::string_view id = fields_[columns_.id];
    // Containers may have one number of a process each.
    const std::string process = fmt::format("{}\n{}", field(columns_.host), field(columns_.process));
    if (launch_.open && launch_.id == id && launch_.process == process) return;
    finish_launch();
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
    if (error != std::errc{} || end != id.data() + id.size() || number > 1'000'000'000) {
      fail(fmt::format("ID \"{}\" is not the number of a kernel", shown(id)));
    }
    processes_.insert(process);
    auto& seen = seen_[process];
    if (boost::icl::contains(seen, number)) {
      fail(fmt::format("kernel {} was complete before: the rows of a kernel must follow each other", number));
    }
    seen.insert(number);
    launch_.open = true;
    launch_.id = id;
    launch_.process = process;
    launch_.kernel = fields_[columns_.kernel];
    launch_.push_pop = field(columns_.push_pop);
    launch_.start_stop = field(columns_.start_stop);
    launch_.capability = field(columns_.capability);
    launch_.values.fill(std::nullopt);
  }

  void add(const NcuMetric& metric, std::string_view text, double factor) {
    const auto value = ncu_number(text, decimal_);
    // Counts are whole unless they are in thousands ("Kinst"): a fraction was a thousands separator.
    const bool must_be_whole = metric.unit == NcuUnit::count && factor == metric.factor;
    if (!value || *value < 0 || (must_be_whole && std::floor(*value) != *value)) {
      fail(
          fmt::format("value \"{}\" is not a number with a decimal {}; export the report with LC_ALL=C, or say that "
                      "it has decimal {}",
                      shown(text), decimal_ == ',' ? "comma" : "point", decimal_ == ',' ? "points" : "commas"));
    }
    if (metric.counter == duration && *value == 0) {  // a short kernel's, in a long unit with few digits
      fail(fmt::format("kernel {} has a duration of 0; export the report with --print-units base", launch_.id));
    }
    // A section and a raw counter may both give one quantity; tensor operations have one metric per type to add up.
    auto& sum = launch_.values[at(metric.counter)];
    if (!sum || metric.counter == tensor_ops) sum = sum.value_or(0) + *value * factor;
  }

  void finish_launch() {
    if (!launch_.open) return;
    launch_.open = false;
    NcuTotals one;
    one.kernels = 1;
    one.time_sec = launch_.value(duration);
    one.bytes = launch_.value(bytes);
    one.bytes_read = launch_.value(bytes_read);
    one.bytes_written = launch_.value(bytes_written);
    one.sm_pct = launch_.value(sm_pct) * one.time_sec;  // divided by the time of all at the end
    one.dram_pct = launch_.value(dram_pct) * one.time_sec;
    one.tensor_flops = launch_.value(tensor_ops);
    if (!launch_.values[at(tensor_ops)] && launch_.value(tensor_instructions) > 0) {
      // A warp's instruction is a product of 8 x 8 x 4 on the first tensor cores; later ones have several shapes.
      if (launch_.capability.starts_with("7.0") || launch_.capability.starts_with("7.2")) {
        one.tensor_flops = 512 * launch_.value(tensor_instructions);
      } else {
        ++uncounted_tensor_;
      }
    }
    one.flops = one.tensor_flops;
    for (std::size_t i = at(fp32_add); i <= at(fp64_fma); ++i) one.flops += launch_.values[i].value_or(0);
    for (std::size_t i = 0; i < ncu_counters; ++i) known_[i] += launch_.values[i] ? 1 : 0;

    add_to(total_, one);
    add_to(kernels_[launch_.kernel], one);
    std::vector<std::string> names = range_names(launch_.push_pop);
    for (std::string& name : range_names(launch_.start_stop)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    }
    if (names.empty()) ++outside_ranges_;
    const bool backward = names_backward_kernel(launch_.kernel);
    any_backward_ = any_backward_ || backward;
    for (const std::string& name : names) {
      add_to(ranges_[name], one);
      ++launches_[name][launch_.kernel];
      if (backward) ranges_with_backward_.insert(name);
    }
  }

  [[nodiscard]] bool is_known(NcuCounter counter) const { return known_[at(counter)] > 0; }

  /// Appends the counters of FLOPs that are missing: of a precision that has some, or of fp32 where there is none.
  void add_missing_flops(std::vector<std::string>& missing) const {
    bool any = is_known(tensor_ops) || is_known(tensor_instructions);
    for (const auto& [first, letter] : {std::pair(fp32_add, 'f'), std::pair(fp16_add, 'h'), std::pair(fp64_add, 'd')}) {
      constexpr std::array<const char*, 3> operations = {"add", "mul", "fma"};
      std::vector<std::string> absent;
      for (std::size_t i = 0; i < operations.size(); ++i) {
        if (known_[at(first) + i] > 0) continue;
        absent.push_back(fmt::format("smsp__sass_thread_inst_executed_op_{}{}_pred_on.sum", letter, operations[i]));
      }
      if (absent.size() == operations.size()) continue;
      any = true;
      missing.insert(missing.end(), absent.begin(), absent.end());
    }
    if (!any) missing.emplace_back("smsp__sass_thread_inst_executed_op_{fadd,fmul,ffma}_pred_on.sum");
  }

  void check_metrics() const {
    std::vector<std::string> missing;
    if (!is_known(duration)) missing.emplace_back("gpu__time_duration.sum");
    if (!is_known(bytes) && !is_known(bytes_read)) missing.emplace_back("dram__bytes_read.sum");
    if (!is_known(bytes) && !is_known(bytes_written)) missing.emplace_back("dram__bytes_write.sum");
    add_missing_flops(missing);
    if (!missing.empty()) {
      throw InputError(fmt::format("{}: metrics are missing: {}", lines_.path(), fmt::join(missing, ", ")));
    }
  }

  /// Sums -> figures: quantities that were not collected become empty, percentages are divided by the time.
  [[nodiscard]] NcuTotals figures(NcuTotals totals) const {
    if (is_known(bytes_read) && is_known(bytes_written)) {
      totals.bytes = *totals.bytes_read + *totals.bytes_written;
    } else {
      totals.bytes_read = totals.bytes_written = std::nullopt;
    }
    for (const auto& [counter, member] :
         {std::pair(sm_pct, &NcuTotals::sm_pct), std::pair(dram_pct, &NcuTotals::dram_pct)}) {
      auto& percent = totals.*member;
      percent = is_known(counter) && totals.time_sec > 0 ? std::optional(*percent / totals.time_sec) : std::nullopt;
    }
    return totals;
  }

  [[nodiscard]] NcuReport report() const {
    if (total_.kernels == 0) throw InputError(lines_.path() + ": has no kernel");
    check_metrics();
    NcuReport report;
    report.total = figures(total_);
    for (const NcuTotals& range : ranges_.all()) report.ranges.push_back(figures(range));
    for (const NcuTotals& kernel : kernels_.all()) report.by_kernel.push_back(figures(kernel));
    std::stable_sort(report.by_kernel.begin(), report.by_kernel.end(),
                     [](const NcuTotals& a, const NcuTotals& b) { return a.time_sec > b.time_sec; });
    warn_of_ranges(report.warnings);
    warn_of_steps(report.warnings);
    warn_of_counters(report.warnings);
    return report;
  }

  void warn_of_ranges(std::vector<std::string>& warnings) const {
    bool backward_range = false;
    for (const NcuTotals& range : ranges_.all()) {
      if (!names_backward_range(range.name)) continue;
      backward_range = true;
      if (ranges_with_backward_.contains(range.name)) continue;
      warnings.push_back(fmt::format(
          "range \"{}\" has {} kernel{}, but none from a backward pass: another thread launched the backward kernels, "
          "and a range covers its own thread only{}",
          range.name, range.kernels, range.kernels == 1 ? "" : "s",
          any_backward_ ? "" : "; a profile filtered by range does not have them, so these totals lack them"));
    }
    if (!backward_range && !ranges_.all().empty() && !any_backward_) {
      warnings.emplace_back(
          "the report has no kernel from a backward pass: if a training step was profiled, another thread launched "
          "them, and a range covers its own thread only");
    }
    if (!ranges_.all().empty() && outside_ranges_ > 0) {
      warnings.push_back(fmt::format("{} of {} kernels are in no range", outside_ranges_, total_.kernels));
    }
  }

  /// Steps repeat their kernels; in one step the first and the last layers have kernels of their own.
  void warn_of_steps(std::vector<std::string>& warnings) const {
    constexpr std::size_t least_kernels = 3;  // fewer may well be launched alike
    if (ranges_.all().empty()) return;
    const NcuTotals& longest =
        *std::max_element(ranges_.all().begin(), ranges_.all().end(),
                          [](const NcuTotals& a, const NcuTotals& b) { return a.kernels < b.kernels; });
    const auto& launches = launches_.at(longest.name);
    std::int64_t times = 0;
    for (const auto& [kernel, count] : launches) times = std::gcd(times, count);
    if (times < 2 || launches.size() < least_kernels) return;
    warnings.push_back(fmt::format(
        "range \"{0}\" launches each of its {1} kernels {2} times or a multiple of it: if it holds {2} steps, "
        "all totals are those of the {2} together",
        longest.name, launches.size(), times));
  }

  void warn_of_counters(std::vector<std::string>& warnings) const {
    if (processes_.size() > 1)
      warnings.push_back(fmt::format("the totals are those of {} processes together", processes_.size()));
    if (no_numbers_ > 0) {
      warnings.push_back(
          fmt::format("{} values are no numbers (nan, inf or no data): they count as missing", no_numbers_));
    }
    if (uncounted_tensor_ > 0) {
      warnings.push_back(
          fmt::format("tensor instructions of {} kernels are not in the FLOPs, because the FLOPs of one depend on its "
                      "shape; collect sm__ops_path_tensor_src_*.sum",
                      uncounted_tensor_));
    }
    for (const auto& [counter, name] :
         {std::pair(duration, "duration"), std::pair(bytes_read, "bytes read"),
          std::pair(bytes_written, "bytes written"), std::pair(bytes, "bytes"), std::pair(sm_pct, "SM throughput"),
          std::pair(dram_pct, "DRAM throughput"), std::pair(fp32_add, "fp32 operations"),
          std::pair(fp16_add, "fp16 operations"), std::pair(fp64_add, "fp64 operations")}) {
      const std::int64_t known = known_[at(counter)];
      if (known > 0 && known < total_.kernels) {
        warnings.push_back(
            fmt::format("{} of {} kernels have no {}: they count as 0", total_.kernels - known, total_.kernels, name));
      }
    }
    for (const auto& [counter, name] : {std::pair(sm_pct, "SM"), std::pair(dram_pct, "DRAM")}) {
      if (!is_known(counter)) warnings.push_back(fmt::format("{} throughput was not collected", name));
    }
  }

  LineReader lines_;
  char decimal_;
  Columns columns_;
  std::vector<std::string_view> fields_;
  Launch launch_;
  std::map<std::string, boost::icl::interval_set<std::uint32_t>> seen_;  // IDs by process
  NcuTotals total_;                                                      // percentages are sums of percent x seconds
  NamedTotals kernels_, ranges_;
  std::map<std::string, std::map<std::string, std::int64_t>> launches_;  // by range and kernel
  std::set<std::string> ranges_with_backward_;
  std::array<std::int64_t, ncu_counters> known_{};  // kernels with this counter
  std::set<std::string> processes_;                 // with their hosts
  std::int64_t outside_ranges_ = 0, uncounted_tensor_ = 0, no_numbers_ = 0;
  bool any_backward_ = false, semicolons_ = false;
};

std::string percent_or_unknown(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : "unknown";
}

std::string intensity_text(const NcuTotals& totals) {
  const auto value = totals.arithmetic_intensity();
  return value ? fmt::format("{:.3f}", *value) : "-";
}

/// A kernel's name without its parameters, which may be 500 characters long.
std::string short_name(const std::string& name) {
  constexpr std::size_t max_length = 70;
  return printable(name.size() <= max_length ? name : name.substr(0, max_length - 3) + "...");
}

}  // namespace

std::optional<double> NcuTotals::arithmetic_intensity() const {
  if (bytes <= 0) return std::nullopt;
  return flops / bytes;
}

NcuReport NcuReport::read(const std::string& path, char decimal) { return Reader(path, decimal).run(); }

std::string NcuReport::text(const std::string& label) const {
  std::string out = label.empty() ? "" : printable(label) + "\n";
  out += fmt::format("kernels    {}\nFLOPs      {:.4e}", total.kernels, total.flops);
  if (total.tensor_flops > 0) out += fmt::format(" ({:.4e} on tensor units)", total.tensor_flops);
  out += fmt::format("\nbytes      {:.4e}", total.bytes);
  if (total.bytes_read) out += fmt::format(" (read {:.4e}, written {:.4e})", *total.bytes_read, *total.bytes_written);
  out += fmt::format(
      "\ntime       {:.5f} ms\nrate       {:.3f} GFLOP/s\nbandwidth  {:.3f} GB/s\nintensity  {} FLOP/byte\n",
      total.time_sec * 1e3, total.flops_per_sec() / 1e9, total.bytes_per_sec() / 1e9, intensity_text(total));
  out += fmt::format("SM         {} %\nDRAM       {} %\n", percent_or_unknown(total.sm_pct),
                     percent_or_unknown(total.dram_pct));
  const auto table = [&out](const char* title, const std::vector<NcuTotals>& rows) {
    if (rows.empty()) return;
    out += fmt::format("\n{:<72}{:>8}{:>12}{:>12}{:>12}{:>10}\n", title, "kernels", "GFLOP", "MB", "ms", "FLOP/B");
    for (const NcuTotals& row : rows) {
      out += fmt::format("{:<72}{:>8}{:>12.4f}{:>12.3f}{:>12.4f}{:>10}\n", short_name(row.name), row.kernels,
                         row.flops / 1e9, row.bytes / 1e6, row.time_sec * 1e3, intensity_text(row));
    }
  };
  table("range", ranges);
  table("kernel", by_kernel);
  for (const std::string& warning : warnings) out += "warning: " + warning + "\n";
  return out;
}

}  // namespace perfpred
