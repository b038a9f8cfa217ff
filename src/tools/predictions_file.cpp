// SPDX-License-Identifier: Apache-2.0
#include "tools/predictions_file.h"

#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/throughput_deriver.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "text/csv.h"
#include "text/files.h"
#include "workload/workload_columns.h"
#include "workload/workload_labels.h"

namespace perfpred {
namespace {

/// Empty where there is none: the seconds of an epoch that the workload does not know.
std::string text_of(double value) { return std::isnan(value) ? std::string() : number_text(value); }

/// `input=1024;padding=packed`, fields that the answer rests on and that nobody stated.
std::string assumed_text(const Answer& answer) {
  std::vector<std::string> fields;
  for (const std::string& field : answer.assumed)
    fields.push_back(fmt::format("{}={}", field, answer.assumed_value(field)));
  return fmt::format("{}", fmt::join(fields, ";"));
}

std::vector<std::string> header() {
  std::vector<std::string> names = names_of(workload_columns());
  for (const char* name : {"time_sec_p05", "time_sec_p50", "time_sec_p95", "images_per_sec_p05", "images_per_sec_p50",
                           "images_per_sec_p95", "in_domain", "reason", "provenance"}) {
    names.emplace_back(name);
  }
  return names;
}

/// @param throughput  images a second
std::vector<std::string> fields_of(const Workload& workload, const Prediction& prediction, const Quantiles& throughput,
                                   const std::vector<std::string>& unknown = {}) {
  std::vector<std::string> fields;
  for (const WorkloadColumn& column : workload_columns()) {
    const bool known = std::find(unknown.begin(), unknown.end(), column.name) == unknown.end();
    fields.push_back(known ? column.get(workload) : "");
  }
  for (const Quantiles* q : {&prediction.time_sec, &throughput}) {
    for (const double value : {q->p05, q->p50, q->p95}) fields.push_back(text_of(value));
  }
  fields.emplace_back(prediction.in_domain() ? "true" : "false");
  fields.emplace_back(to_string(prediction.reason));
  fields.emplace_back(to_string(prediction.provenance));
  return fields;
}

/// What the columns behind the error say of an answer.
struct AnswerColumn {
  std::string name;
  std::function<std::string(const Answer& answer)> text;
};

/// The columns of a value's quantiles; empty where an answer has none.
void add_quantiles(std::vector<AnswerColumn>& columns, const std::string& name,
                   std::optional<Quantiles> (*get)(const Answer& answer)) {
  using Level = double Quantiles::*;
  for (const auto& [suffix, level] :
       {std::pair<const char*, Level>("_p05", &Quantiles::p05), {"_p50", &Quantiles::p50}, {"_p95", &Quantiles::p95}}) {
    columns.push_back({name + suffix, [get, level = level](const Answer& answer) {
                         const std::optional<Quantiles> q = get(answer);
                         return q ? text_of((*q).*level) : std::string();
                       }});
  }
}

const std::vector<AnswerColumn>& answer_columns() {
  static const std::vector<AnswerColumn> all = [] {
    using A = Answer;
    std::vector<AnswerColumn> columns;
    add_quantiles(columns, "step_sec", [](const A& a) { return std::optional(a.forecast.step_sec); });
    add_quantiles(columns, "tokens_per_sec", [](const A& a) { return a.forecast.tokens_per_sec; });
    columns.push_back({"memory_bytes", [](const A& a) {
                         return a.forecast.memory ? std::to_string(a.forecast.memory->peak_bytes) : std::string();
                       }});
    columns.push_back({"usable_bytes", [](const A& a) {
                         return a.forecast.usable_bytes ? std::to_string(*a.forecast.usable_bytes) : std::string();
                       }});
    columns.push_back({"verdict", [](const A& a) {
                         return a.forecast.verdict ? std::string(to_string(*a.forecast.verdict)) : std::string();
                       }});
    add_quantiles(columns, "total_sec", [](const A& a) { return std::optional(a.forecast.total_sec); });
    add_quantiles(columns, "price", [](const A& a) { return a.forecast.price; });
    columns.push_back({"currency", [](const A& a) { return a.currency; }});
    add_quantiles(columns, "epochs_in_budget", [](const A& a) { return a.forecast.epochs_in_budget; });
    columns.push_back({"assumed", [](const A& a) { return assumed_text(a); }});
    columns.push_back({"left_out", [](const A& a) { return fmt::format("{}", fmt::join(a.left_out, "; ")); }});
    return columns;
  }();
  return all;
}

/// The same, and columns of the quantiles that the answers have by number, named by it: `total_sec_q0.999`.
std::vector<AnswerColumn> columns_of(std::span<const std::optional<Answer>> answers) {
  std::vector<AnswerColumn> columns = answer_columns();
  const auto any = std::find_if(answers.begin(), answers.end(), [](const auto& answer) { return answer.has_value(); });
  if (any == answers.end()) return columns;
  for (const auto& [name, sec] :
       {std::pair("step_sec_q", &QuantileOfJob::step_sec), std::pair("total_sec_q", &QuantileOfJob::total_sec)}) {
    for (std::size_t i = 0; i < (*any)->forecast.quantiles.size(); ++i) {
      columns.push_back({name + number_text((*any)->forecast.quantiles[i].q),
                         [i, sec = sec](const Answer& answer) { return text_of(answer.forecast.quantiles[i].*sec); }});
    }
  }
  return columns;
}

Quantiles read_quantiles(const CsvReader& csv, const std::array<CsvColumn, 3>& columns) {
  const Quantiles q = {csv.positive(columns[0]), csv.positive(columns[1]), csv.positive(columns[2])};
  if (q.p05 > q.p50 || q.p50 > q.p95) {
    throw InputError(csv.place(columns[0].name).prefix() +
                     "is above the median, or the median above the 95th percentile");
  }
  return q;
}

}  // namespace

void write_predictions(const std::string& path, std::span<const AskedRow> rows,
                       std::span<const std::optional<Answer>> answers) {
  if (rows.size() != answers.size()) throw Error("write_predictions: as many answers as rows are needed");
  AtomicFile file(path);
  std::vector<std::string> names = header();
  const std::size_t before_error = names.size();
  names.emplace_back("error");
  const std::vector<AnswerColumn> columns = columns_of(answers);
  for (const AnswerColumn& column : columns) names.push_back(column.name);
  file.write(csv_line(names));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& answer = answers[i];
    std::vector<std::string> fields = answer
                                          ? fields_of(answer->workload, answer->forecast.prediction,
                                                      answer->forecast.images_per_sec, unknown_fields(answer->workload))
                                          : rows[i].texts();
    fields.resize(before_error);
    fields.push_back(rows[i].error);
    for (const AnswerColumn& column : columns) fields.push_back(answer ? column.text(*answer) : "");
    file.write(csv_line(fields));
  }
  file.commit();
}

void write_predictions(const std::string& path, std::span<const AggregateRow> measured,
                       std::span<const Prediction> predictions) {
  if (measured.size() != predictions.size()) throw Error("write_predictions: as many predictions as rows are needed");
  AtomicFile file(path);
  std::vector<std::string> names = header();
  names.insert(names.end(), {"measured_time_sec", "measured_images_per_sec", "time_error"});
  file.write(csv_line(names));
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const Workload& workload = measured[i].workload;
    const Quantiles throughput = ThroughputDeriver(workload.train_images).derive(predictions[i].time_sec);
    std::vector<std::string> fields = fields_of(workload, predictions[i], throughput);
    fields.push_back(number_text(measured[i].avg_time_mean));
    fields.push_back(number_text(measured[i].thr_mean));
    fields.push_back(number_text(time_error(measured[i], predictions[i])));
    file.write(csv_line(fields));
  }
  file.commit();
}

std::optional<double> time_error(const AggregateRow& measured, const Prediction& prediction) {
  if (!measured.avg_time_mean) return std::nullopt;
  return prediction.time_sec.p50 / *measured.avg_time_mean - 1;
}

std::string errors_text(std::span<const AggregateRow> measured, std::span<const Prediction> predictions) {
  std::vector<Workload> workloads;
  for (const AggregateRow& row : measured) workloads.push_back(row.workload);
  const WorkloadFields fields = differing_fields(workloads, {});
  constexpr const char* line = "  {:<48} {:>13} {:>13} {:>9}\n";
  std::string text = fmt::format(line, "configuration", "measured (s)", "predicted (s)", "error");
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const std::optional<double> error = time_error(measured[i], predictions[i]);
    if (!error) continue;
    text += fmt::format(line, name_of(workloads[i], fields), fmt::format("{:.4g}", *measured[i].avg_time_mean),
                        fmt::format("{:.4g}", predictions[i].time_sec.p50), fmt::format("{:+.1f} %", 100 * *error));
  }
  return text;
}

std::vector<PredictionRow> read_predictions(const std::string& path) {
  CsvReader csv(path);
  const auto quantiles = [&csv](const std::string& name) {
    return std::array{csv.required(name + "_p05"), csv.required(name + "_p50"), csv.required(name + "_p95")};
  };
  const auto time = quantiles("time_sec"), images = quantiles("images_per_sec");
  const CsvColumn in_domain = csv.optional("in_domain"), error = csv.optional("error");
  const CsvColumn measured_time = csv.optional("measured_time_sec");
  const CsvColumn measured_images = csv.optional("measured_images_per_sec");
  const auto positive_or_empty = [&csv](const CsvColumn& column) {
    return csv.text(column).empty() ? std::nullopt : std::optional(csv.positive(column));
  };
  const WorkloadReader workload(csv, unstated_workload());
  std::vector<PredictionRow> rows;
  while (csv.next()) {
    if (!csv.text(error).empty() || csv.text(time[1]).empty()) continue;  // no answer, or none for an epoch
    rows.push_back({workload.read(csv), read_quantiles(csv, time), read_quantiles(csv, images),
                    csv.text(in_domain) != "false", positive_or_empty(measured_time),
                    positive_or_empty(measured_images)});
  }
  if (rows.empty()) throw InputError(path + ": has no prediction of an epoch");
  return rows;
}

std::vector<PredictionRow> of_networks(std::vector<PredictionRow> rows, const std::vector<std::string>& networks) {
  if (networks.empty()) return rows;
  std::set<std::string, std::less<>> wanted;
  for (const std::string& network : networks) wanted.insert(canonical_network(network));
  std::erase_if(rows, [&](const auto& row) { return !wanted.contains(row.workload.network.family()); });
  if (rows.empty()) throw InputError("--predictions has no row of --network");
  return rows;
}

}  // namespace perfpred
