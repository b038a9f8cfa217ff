// SPDX-License-Identifier: Apache-2.0
#include "tools/roofline/ncu_metrics.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string>

namespace perfpred {
namespace {

const std::map<std::string_view, NcuMetric>& metrics() {
  using enum NcuCounter;
  static const std::map<std::string_view, NcuMetric> all = {
      {"gpu__time_duration.sum", {duration, NcuUnit::second}},
      {"gpu__time_duration.avg", {duration, NcuUnit::second}},
      {"Duration", {duration, NcuUnit::second}},
      {"dram__bytes_read.sum", {bytes_read, NcuUnit::byte}},
      {"dram__bytes_write.sum", {bytes_written, NcuUnit::byte}},
      {"dram__sectors_read.sum", {bytes_read, NcuUnit::count, 32}},
      {"dram__sectors_write.sum", {bytes_written, NcuUnit::count, 32}},
      {"dram__bytes.sum", {bytes, NcuUnit::byte}},
      {"sm__throughput.avg.pct_of_peak_sustained_elapsed", {sm_pct, NcuUnit::percent}},
      {"Compute (SM) Throughput", {sm_pct, NcuUnit::percent}},
      {"dram__throughput.avg.pct_of_peak_sustained_elapsed", {dram_pct, NcuUnit::percent}},
      {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", {dram_pct, NcuUnit::percent}},
      {"DRAM Throughput", {dram_pct, NcuUnit::percent}},
      {"sass_thread_inst_executed_op_fadd_pred_on.sum", {fp32_add, NcuUnit::count}},
      {"sass_thread_inst_executed_op_fmul_pred_on.sum", {fp32_mul, NcuUnit::count}},
      {"sass_thread_inst_executed_op_ffma_pred_on.sum", {fp32_fma, NcuUnit::count, 2}},
      {"sass_thread_inst_executed_op_hadd_pred_on.sum", {fp16_add, NcuUnit::count}},
      {"sass_thread_inst_executed_op_hmul_pred_on.sum", {fp16_mul, NcuUnit::count}},
      {"sass_thread_inst_executed_op_hfma_pred_on.sum", {fp16_fma, NcuUnit::count, 2}},
      {"sass_thread_inst_executed_op_dadd_pred_on.sum", {fp64_add, NcuUnit::count}},
      {"sass_thread_inst_executed_op_dmul_pred_on.sum", {fp64_mul, NcuUnit::count}},
      {"sass_thread_inst_executed_op_dfma_pred_on.sum", {fp64_fma, NcuUnit::count, 2}},
      {"inst_executed_pipe_tensor.sum", {tensor_instructions, NcuUnit::count}},
      {"inst_executed_pipe_tensor_op_hmma.sum", {tensor_instructions, NcuUnit::count}},
  };
  return all;
}

/// Length of a thousands separator (point, comma, apostrophe, blanks of several kinds) at this place.
std::size_t separator(std::string_view text) {
  for (const std::string_view known :
       {".", ",", "'", " ", "\xC2\xA0", "\xE2\x80\xAF", "\xE2\x80\x89", "\xE2\x80\x99"}) {
    if (text.starts_with(known)) return known.size();
  }
  return 0;
}

/// Appends what stands in front of the fraction, without its thousands separators. A group has two or three digits, the
/// first may have one, the last has three; a sign or an exponent goes without groups.
bool append_whole(std::string_view whole, std::string& plain) {
  const bool zero_first = whole.starts_with('0');  // such a number has no groups: "0,125" is a fraction
  bool grouped = false;
  std::size_t digits = 0;  // of this group
  while (!whole.empty()) {
    if (const std::size_t used = separator(whole); used != 0) {
      if (zero_first || digits > 3 || digits < (grouped ? 2U : 1U)) return false;
      grouped = true;
      digits = 0;
      whole.remove_prefix(used);
      continue;
    }
    const bool digit = std::isdigit(static_cast<unsigned char>(whole.front())) != 0;
    if (grouped && !digit) return false;
    digits += digit ? 1 : 0;
    plain += whole.front();
    whole.remove_prefix(1);
  }
  return !grouped || digits == 3;
}

}  // namespace

std::optional<NcuMetric> ncu_metric(std::string_view name) {
  if (const auto found = metrics().find(name); found != metrics().end()) return found->second;
  for (const std::string_view unit : {"smsp__", "sm__"}) {
    if (!name.starts_with(unit)) continue;
    name.remove_prefix(unit.size());
    // Operations on floating-point numbers by the tensor units, by source and destination type.
    if (name.starts_with("ops_path_tensor_src_") && name.ends_with(".sum") && name.find("int") == name.npos) {
      return NcuMetric{NcuCounter::tensor_ops, NcuUnit::count};
    }
    if (const auto found = metrics().find(name); found != metrics().end()) return found->second;
    break;
  }
  return std::nullopt;
}

std::optional<double> ncu_unit_factor(std::string_view text, NcuUnit unit) {
  if (unit == NcuUnit::percent) return text == "%" ? std::optional(1.0) : std::nullopt;
  if (unit == NcuUnit::second) {
    static const std::map<std::string_view, double> seconds = {{"second", 1},     {"s", 1},          {"sec", 1},
                                                               {"msecond", 1e-3}, {"ms", 1e-3},      {"usecond", 1e-6},
                                                               {"us", 1e-6},      {"nsecond", 1e-9}, {"ns", 1e-9}};
    const auto found = seconds.find(text);
    return found == seconds.end() ? std::nullopt : std::optional(found->second);
  }
  static const std::set<std::string_view> bytes = {"byte", "bytes", "B"}, counts = {"inst", "sector", "ops", "op", ""};
  const auto is_base = [&known = unit == NcuUnit::byte ? bytes : counts](std::string_view base) {
    return known.contains(base);
  };
  if (is_base(text)) return 1;
  static const std::map<char, double> prefixes = {{'k', 1e3}, {'K', 1e3},  {'M', 1e6},
                                                  {'G', 1e9}, {'T', 1e12}, {'P', 1e15}};
  const auto prefix = text.empty() ? prefixes.end() : prefixes.find(text.front());
  if (prefix == prefixes.end() || !is_base(text.substr(1))) return std::nullopt;
  return prefix->second;
}

std::optional<double> ncu_number(std::string_view text, char decimal) {
  const std::size_t point = text.find(decimal);
  std::string plain;
  if (!append_whole(text.substr(0, point), plain)) return std::nullopt;
  if (point != text.npos) (plain += '.') += text.substr(point + 1);
  double value = 0;
  const char* end = plain.data() + plain.size();
  const auto [stop, error] = std::from_chars(plain.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace perfpred
