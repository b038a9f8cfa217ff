// SPDX-License-Identifier: Apache-2.0
#include "tools/answer_rows.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>

#include "answer/prices.h"

namespace perfpred {

std::vector<std::optional<Answer>> answer_rows(const TimeRegressor& model, std::span<AskedRow> rows, AnswerTerms terms,
                                               const std::function<void(const Workload&)>& prepare) {
  std::set<std::string> devices;
  for (const AskedRow& row : rows) {
    if (row.workload) devices.insert(row.workload->device);
  }
  if (!terms.job.price_per_hour) check_priced(terms.prices, devices);
  std::vector<std::optional<Answer>> answers(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].workload) continue;
    terms.job.unstated = rows[i].unstated;
    try {
      if (terms.train_tokens && std::ranges::find(rows[i].unstated, "train_images") == rows[i].unstated.end())
        throw InputError("train_images and train_tokens are both given");
      prepare(*rows[i].workload);
      answers[i] = perfpred::answer(model, *rows[i].workload, terms);
    } catch (const InputError& error) {
      rows[i].error = rows[i].place + error.what();
    } catch (const std::bad_alloc&) {  // of one row: the others may be small enough
      rows[i].error = rows[i].place + "out of memory";
    }
  }
  check_some(rows);
  return answers;
}

std::string unanswered_text(std::span<const AskedRow> rows) {
  const auto has_error = [](const AskedRow& row) { return !row.error.empty(); };
  const auto first = std::find_if(rows.begin(), rows.end(), has_error);
  if (first == rows.end()) return {};
  return fmt::format("{} of {} rows have no answer; the first: {}", std::count_if(first, rows.end(), has_error),
                     rows.size(), first->error);
}

nlohmann::json to_json(const AskedRow& row) {
  return {{"key", row.workload ? nlohmann::json(row.workload->key()) : nlohmann::json()}, {"error", row.error}};
}

}  // namespace perfpred
