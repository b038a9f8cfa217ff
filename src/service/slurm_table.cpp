// SPDX-License-Identifier: Apache-2.0
#include "service/slurm_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/answer.h>
#include <perfpred/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "model/refusal.h"
#include "service/request_list.h"
#include "text/files.h"
#include "text/parse.h"
#include "tools/json_request.h"
#include "tools/slurm_forecast.h"

namespace perfpred {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view table_head = "perfpred-slurm-table 1 ";
/// Of a comment; job_submit.lua has the same. A key of all fields takes some 400.
constexpr std::size_t longest_request = 1024;
/// That are read at once; job_submit.lua appends no more.
constexpr std::size_t most_request_bytes = std::size_t{1} << 20U;
constexpr auto time_to_answer = std::chrono::seconds(1);

/// Of `name=value;name=value`. @throws InputError for what is none
nlohmann::json json_of(std::string_view job) {
  nlohmann::json asked = nlohmann::json::object();
  while (!job.empty()) {
    const std::string_view part = job.substr(0, job.find(';'));
    job.remove_prefix(std::min(part.size() + 1, job.size()));
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string_view::npos)
      throw InputError(fmt::format("\"{}\" is not name=value", shown(part)));
    const std::string name(part.substr(0, equals));
    if (asked.contains(name)) throw InputError(fmt::format("{} is given twice", name));
    asked[name] = part.substr(equals + 1);
  }
  return asked;
}

/// @throws InputError for a request of which no time limit follows
void check_job(const nlohmann::json& asked) {
  for (const char* name : {"quantiles", "fit_advice", "id"}) {
    if (asked.contains(name)) throw InputError(fmt::format("{} is not for a job of Slurm", name));
  }
  if (!asked.contains("epochs") && !asked.contains("max_steps")) throw InputError("epochs or max_steps is missing");
}

std::string without_tabs(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

/// Makes a file with these permissions where there is none. @throws InputError
void make_file(const std::string& path, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST) return;
  if (fd < 0) throw InputError(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  ::fchmod(fd, mode);  // whatever the umask is: Slurm's user is another one
  ::close(fd);
}

/// What a file has behind its first bytes, up to the end of its last whole line.
std::string lines_behind(const std::string& path, std::size_t begin) {
  try {
    const RegularFile file(path, O_RDONLY);
    if (file.size() <= begin) return {};
    const std::string text = file.text(most_request_bytes);
    const std::size_t end = text.rfind('\n');
    return end == std::string::npos || end < begin ? std::string() : text.substr(begin, end + 1 - begin);
  } catch (const InputError& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
}

/// Empties a file of which so much is read, if nothing was appended meanwhile, or if it is too long to be read.
/// @returns whether it is empty
bool empty_if_read(const std::string& path, std::size_t read) {
  try {
    RegularFile file(path, O_RDWR);
    if (file.size() > read && file.size() < most_request_bytes) return false;
    file.clear();
    return true;
  } catch (const InputError& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
}

template <class Call>
void for_each_line(std::string_view text, const Call& call) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() == text.size()) return;  // without its end: cut off
    call(line);
    text.remove_prefix(line.size() + 1);
  }
}

}  // namespace

std::string slurm_row(const ServedModel& model, const SlurmTableOptions& options, std::string_view partition,
                      std::string_view job) {
  try {
    nlohmann::json asked = json_of(job);
    check_job(asked);
    check_no_paths(asked);
    const auto device = options.devices.find(partition);
    if (!asked.contains("device") && device != options.devices.end()) asked["device"] = device->second;
    asked["quantiles"] = limit_quantile;
    asked["fit_advice"] = 0;
    AnswerTerms terms;
    terms.job.startup_sec = options.startup_sec;
    const AskedJob read = read_request(model.requests, asked, terms);
    const Answer answered = answer(model.regressor, read.workload, read.terms);
    const SlurmForecast forecast = slurm_forecast(answered, read.terms, model.file.name);
    return fmt::format("ok\t{:.0f}\t{}\t{}\t{}", forecast.total_sec.p05, forecast.limit_minutes, forecast.verdict,
                       without_tabs(admin_comment(forecast)));
  } catch (const std::exception&) {
    return "refused\t" + without_tabs(refusal().error);
  }
}

SlurmTable::SlurmTable(const ServedModels& models, SlurmTableOptions options, Say say)
    : models_(models), options_(std::move(options)), requests_file_(options_.file + ".requests"), say_(std::move(say)) {
  for (const auto& [partition, device] : options_.devices) {
    if (models_.devices().resolve(device).device == nullptr)
      throw InputError(fmt::format("device \"{}\" of partition {} is not known", shown(device), partition));
  }
  constexpr mode_t all_read = 0644, group_writes = 0660;
  make_file(options_.file, all_read);
  make_file(requests_file_, group_writes);
  const std::string left = read_file(options_.file);
  if (!left.starts_with(table_head)) return;
  for_each_line(std::string_view(left).substr(left.find('\n') + 1),
                [&](std::string_view line) { add(line.substr(0, line.find('\t'))); });
}

bool SlurmTable::add(std::string_view request) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  const bool good = request.size() <= longest_request && std::ranges::all_of(request, is_plain) &&
                    request.find(' ') != std::string_view::npos;
  if (!good || rows_.contains(request)) return false;
  order_.emplace_back(request);
  rows_.emplace(request, Row());
  if (order_.size() > options_.most) {
    rows_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

bool SlurmTable::take_requests() {
  bool any = false;
  const std::string text = lines_behind(requests_file_, taken_);
  for_each_line(text, [&](std::string_view line) { any = add(line) || any; });
  taken_ += text.size();
  return any;
}

void SlurmTable::forget_requests() {
  const auto waits = [](const auto& row) { return row.second.text.empty(); };
  if (taken_ > 0 && std::ranges::none_of(rows_, waits) && empty_if_read(requests_file_, taken_)) taken_ = 0;
}

bool SlurmTable::answer_rows() {
  const std::shared_ptr<const ServedModel> model = models_.find({});
  const auto end = Clock::now() + time_to_answer;
  bool any = false;
  for (auto& [request, row] : rows_) {
    if (row.answered_by.lock() == model) continue;
    const std::size_t blank = request.find(' ');
    const std::string_view text = request;
    row.text = slurm_row(*model, options_, text.substr(0, blank), text.substr(blank + 1));
    row.answered_by = model;
    any = true;
    if (Clock::now() > end) break;
  }
  return any;
}

void SlurmTable::write(std::time_t now) const {
  std::string body;
  std::size_t rows = 0;
  for (const auto& [request, row] : rows_) {
    if (row.text.empty()) continue;  // not answered yet
    body += request + '\t' + row.text + '\n';
    ++rows;
  }
  write_file(options_.file, fmt::format("{}written={} mode={} rows={} bytes={}\n", table_head, now,
                                        options_.enforces ? "enforce" : "observe", rows, body.size()) +
                                body);
}

void SlurmTable::refresh(std::time_t now) {
  try {
    const bool asked = take_requests();
    const bool answered = answer_rows();
    if (asked || answered || now - written_ >= refresh_sec || now < written_) {
      write(now);
      written_ = now;
      complaint_.clear();
    }
    forget_requests();  // the table has them now
  } catch (const std::exception& error) {
    if (complaint_ != error.what()) say_(fmt::format("the table of Slurm's jobs is not written: {}", error.what()));
    complaint_ = error.what();
  }
}

}  // namespace perfpred
