// SPDX-License-Identifier: Apache-2.0
#include "service/service.h"

#include <perfpred/answer.h>
#include <perfpred/error.h>
#include <perfpred/layouts.h>
#include <perfpred/timeline.h>
#include <perfpred/version.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "answer/answer_json.h"
#include "model/refusal.h"
#include "runs/run_row.h"
#include "service/embedded_files.h"
#include "service/former_models.h"
#include "service/request_list.h"
#include "statistics/estimate.h"
#include "text/csv.h"
#include "text/json.h"
#include "text/nearest_name.h"
#include "text/parse.h"
#include "tools/aggregate_answer.h"
#include "tools/answer_lines.h"
#include "tools/device_json.h"
#include "tools/json_request.h"
#include "tools/network_list.h"
#include "tools/plan_answer.h"

namespace perfpred {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::string_view json_type = "application/json", csv_type = "text/csv";
/// A body of at least this size is a list of some hundred requests, or a step file.
constexpr std::size_t long_body = 32 << 10;
/// Of partial plans.
constexpr std::size_t plan_memory = std::size_t{256} << 20U;

/// Of kernels and passes: some megabytes of JSON, and more than a picture can show.
constexpr std::size_t most_trace_events = 20'000;

/// A request that is refused with a status of its own.
class Refused : public std::exception {
 public:
  explicit Refused(HttpResponse response) : response_(std::move(response)) {}
  [[nodiscard]] const HttpResponse& response() const { return response_; }

 private:
  HttpResponse response_;
};

[[noreturn]] void refuse(int status, std::string_view line) { throw Refused(http_refusal(status, line)); }

template <class Json>
HttpResponse document(const Json& said, int status = 200) {
  return {status, std::string(json_type), dumped(said) + "\n"};
}

/// Of what a request fails by.
int http_status(JobStatus status) {
  switch (status) {
    case JobStatus::ok:
      return 200;
    case JobStatus::failed:
      return 500;
    case JobStatus::wrong_input:
    case JobStatus::unstated:
      return 400;
  }
  return 500;
}

/// `a%20b+c` as `a b c`.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      plain += static_cast<char>(byte);
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

/// The value of the one name that a query may have; empty if it has none. @throws InputError for another name
std::string query_value(std::string_view query, std::string_view name) {
  std::string value;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const std::size_t equals = std::min(part.find('='), part.size());
    if (part.substr(0, equals) != name)
      throw InputError(fmt::format("?{} is not known; there is ?{}=", shown(part.substr(0, equals)), name));
    value = unescaped(part.substr(std::min(equals + 1, part.size())));
  }
  return value;
}

/// The type without its parameters, in lower case.
std::string media_type(std::string_view content_type) {
  return lower_case(trimmed(content_type.substr(0, content_type.find(';'))));
}

json object_of(const HttpRequest& request) {
  check_json_memory(request.body);
  return parse_request(request.body);
}

/// @throws InputError for a path in the options of a plan, or in its table
void check_no_paths_in_plan(const json& options) {
  check_no_paths(options);
  for (const char* name : {"runs_agg", "device_file", "out"}) {
    if (options.contains(name))
      throw InputError(fmt::format("{} is a path, and a service opens no file: send rows", name));
  }
}

/// @throws InputError for a table of which a column names files
void check_no_paths_in_table(const TableSource& table) {
  if (table.open().optional("config").index)
    throw InputError("rows: the column config has paths, and a service opens no file: name networks");
}

/// What is asked for in a body `{"rows": ...}`, or in a table itself.
TableSource table_of(const HttpRequest& request) {
  if (media_type(request.content_type) == csv_type) return {"rows", request.body};
  const json options = object_of(request);
  for (const auto& item : options.items()) {
    if (item.key() != "rows")
      throw InputError(fmt::format("\"{}\" is not known; there is rows, a table of runs", shown(item.key())));
  }
  return plan_table(options);
}

/// @throws InputError for networks whose samples the table does not state: in files of runs, a column that is missing
/// is that of cifar_cnn (docs/formats.md), and in requests the network's own
void check_samples_stated(const TableSource& table, std::span<const Run> runs) {
  const auto is_other = [](const Run& run) { return run.workload.network.family() != "cifar_cnn"; };
  const auto other = std::ranges::find_if(runs, is_other);
  if (other == runs.end()) return;
  const CsvReader csv = table.open();
  if (csv.optional("key").index) return;
  for (const char* column : {"input", "classes", "train_images"}) {
    if (csv.optional(column).index) continue;
    throw InputError(
        fmt::format("rows: column {} is missing: a table of runs without it is of 3x32x32 images of CIFAR-10, "
                    "and a run of {} has to say what it was trained on",
                    column, shown(std::string(other->workload.network))));
  }
}

/// Seconds of an epoch, as a model learns it from this run; nothing if the run has no such time.
std::optional<double> measured_sec(const Run& run) {
  Aggregator aggregator;
  aggregator.add(run);
  const AggregateRow row = aggregator.rows().front();
  return row.flags.unstable ? std::nullopt : row.avg_time_mean;
}

/// Seconds of an epoch; nothing where the model had no answer.
std::optional<Quantiles> expected_sec(const TimeRegressor& model, const Workload& workload) {
  try {
    const Quantiles sec = model.predict(workload).time_sec;
    return std::isfinite(sec.p50) ? std::optional(sec) : std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// What a call gives that may find that there is nothing to give: no plan in the budget, no ranking in time.
template <class Call>
auto within_limits(const Call& call) {
  try {
    return call();
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    refuse(422, error.what());
  }
}

/// Of the versions that a roll-back could go to.
json former_times(const ServedModel& model) {
  return model.file.path.empty() ? json::array() : json(FormerModels(model.file.path).times());
}

/// Allowed methods of a path, joined by commas; empty if there is no such path.
std::string methods_of(std::string_view path) {
  std::string methods;
  for (const Service::Route& route : Service::routes()) {
    if (route.path == path) methods += (methods.empty() ? "" : ", ") + std::string(route.method);
  }
  return methods;
}

const Service::Route* find_route(std::string_view method, std::string_view path) {
  const std::string_view asked = method == "HEAD" ? "GET" : method;
  const auto routes = Service::routes();
  const auto found =
      std::ranges::find_if(routes, [&](const Service::Route& one) { return one.path == path && one.method == asked; });
  return found == routes.end() ? nullptr : &*found;
}

}  // namespace

HttpResponse http_refusal(int status, std::string_view line) { return document(json{{"error", line}}, status); }

Service::Service(ServedModels& models, Metrics& metrics, const ServiceLimits& limits)
    : models_(models), metrics_(metrics), limits_(limits) {}

Service::~Service() = default;

std::span<const Service::Route> Service::routes() {
  static constexpr std::array<Route, 14> all = {{{"POST", "/v1/predict", false, &Service::predict},
                                                 {"POST", "/v1/trace", true, &Service::trace},
                                                 {"POST", "/v1/layouts", true, &Service::layouts},
                                                 {"POST", "/v1/plan", true, &Service::plan},
                                                 {"POST", "/v1/observe", true, &Service::observe},
                                                 {"POST", "/v1/rollback", true, &Service::roll_back},
                                                 {"GET", "/v1/models", false, &Service::list_models},
                                                 {"GET", "/v1/devices", false, &Service::list_devices},
                                                 {"GET", "/v1/networks", false, &Service::list_networks},
                                                 {"GET", "/v1/fields", false, &Service::list_fields},
                                                 {"GET", "/v1/openapi.json", false, &Service::openapi},
                                                 {"GET", "/healthz", false, &Service::health},
                                                 {"GET", "/metrics", false, &Service::metrics},
                                                 {"GET", "/", false, &Service::page}}};
  return all;
}

bool Service::is_slow(const HttpRequest& request) {
  const Route* route = find_route(request.method, request.path);
  return route != nullptr && (route->is_slow || request.body.size() >= long_body);
}

HttpResponse Service::answer(const HttpRequest& request) const {
  const auto begin = Clock::now();
  HttpResponse response;
  try {
    response = routed(request);
  } catch (const Refused& refused) {
    response = refused.response();
  } catch (const std::bad_alloc&) {
    response = http_refusal(503, "out of memory");
  } catch (const std::exception&) {
    const Refusal why = refusal();
    response = http_refusal(http_status(why.status), why.error);
  }
  const std::string_view route = methods_of(request.path).empty() ? "other" : std::string_view(request.path);
  metrics_.answered(route, response.status, std::chrono::duration<double>(Clock::now() - begin).count());
  return response;
}

HttpResponse Service::routed(const HttpRequest& request) const {
  const Route* route = find_route(request.method, request.path);
  if (route == nullptr) {
    const std::string methods = methods_of(request.path);
    if (methods.empty()) refuse(404, fmt::format("there is no {}; /v1/openapi.json lists what there is", request.path));
    HttpResponse response = http_refusal(405, fmt::format("{} takes {}", request.path, methods));
    response.headers.emplace_back("Allow", methods);
    throw Refused(std::move(response));
  }
  if (route->method == "POST") {
    const std::string type = media_type(request.content_type);
    if (type != json_type && (type != csv_type || route->path != "/v1/observe"))
      refuse(415, fmt::format("Content-Type \"{}\" is not {}", shown(request.content_type), json_type));
  }
  return (this->*route->answer)(request);
}

std::shared_ptr<const ServedModel> Service::model_with_file(const HttpRequest& request) const {
  auto model = model_of(request);
  if (model->file.path.empty())
    refuse(409, fmt::format("model {} has no file that could keep what it observes", model->file.name));
  return model;
}

std::shared_ptr<const ServedModel> Service::model_of(const HttpRequest& request) const {
  const std::string name = query_value(request.query, "model");
  if (auto model = models_.find(name)) return model;
  std::vector<std::string> names;
  for (const auto& model : models_.all()) names.push_back(model->file.name);
  refuse(404, fmt::format("there is no model \"{}\"; there are {}", shown(name), fmt::join(names, ", ")));
}

HttpResponse Service::predict(const HttpRequest& request) const {
  const auto model = model_of(request);
  const auto answer_to = [&](const json& asked) {
    check_no_paths(asked);
    const AskedJob job = read_request(model->requests, asked);
    json said = to_json(perfpred::answer(model->regressor, job.workload, job.terms));
    if (!job.notes.empty()) said["notes"] = job.notes;
    return said;
  };
  const auto answered = [&](std::string_view text) {
    check_json_memory(text);
    return answer_request(text, answer_to);
  };
  if (!is_list(request.body)) {
    const AnsweredRequest one = answered(request.body);
    return document(one.document, http_status(one.status));
  }
  const auto end = Clock::now() + std::chrono::duration<double>(limits_.answer_sec);
  std::string body;
  for (const std::string_view text : split_list(request.body, limits_.requests)) {
    AnsweredRequest one;
    int status = 503;
    if (Clock::now() < end) {
      one = answered(text);
      status = http_status(one.status);
    } else {
      one.document = {{"error", fmt::format("the list is not answered within {} s", limits_.answer_sec)}};
    }
    one.document["status"] = status;
    body += (body.empty() ? "[" : ",\n") + dumped(one.document);
  }
  return {200, std::string(json_type), (body.empty() ? "[" : body) + "]\n"};
}

HttpResponse Service::trace(const HttpRequest& request) const {
  const auto model = model_of(request);
  const json asked = object_of(request);
  check_no_paths(asked);
  const AskedJob job = read_request(model->requests, asked);
  Timeline drawn = timeline(model->regressor, job.workload, job.terms.job);
  if (drawn.events.size() > most_trace_events) {
    std::erase_if(drawn.events, [](const TimelineEvent& event) { return event.lane == Lane::host || event.bytes > 0; });
    drawn.simplified.emplace_back("there are too many kernels to draw them");
  }
  return {200, std::string(json_type), trace_json(drawn) + "\n"};
}

HttpResponse Service::layouts(const HttpRequest& request) const {
  const auto model = model_of(request);
  const json asked = object_of(request);
  check_no_paths(asked);
  AskedLayouts job = read_layouts(model->requests, asked);
  job.search.time_sec = limits_.answer_sec;
  const Layouts ranked = within_limits([&] { return rank_layouts(model->regressor, job.workload, job.search); });
  json said = to_json(ranked);
  echo_id(said, asked);
  return document(said);
}

HttpResponse Service::plan(const HttpRequest& request) const {
  const auto model = model_of(request);
  json options = object_of(request);
  check_no_paths_in_plan(options);
  const json id = options.value("id", json());
  const std::string source = dumped(options.value("time_source", json("predicted")));
  options.erase("id");
  const bool predicted = source == "\"predicted\"";
  if (!predicted && source != "\"measured\"") throw_bad_value({{}, 0, "time_source"}, source, "measured or predicted");
  constexpr std::array<std::string_view, 3> own = {"rows", "prices", "time_source"};
  PlanTerms terms = read_plan_terms(options, own);
  const TableSource table = plan_table(options);
  check_no_paths_in_table(table);
  terms.request.catalogue = model->regressor.devices();
  if (const json prices = options.value("prices", json()); !prices.is_null())
    terms.prices = prices_of(prices, terms.request.catalogue);
  terms.request.limits.time_sec = std::min(terms.request.limits.time_sec, limits_.answer_sec);
  terms.request.limits.memory_bytes = plan_memory;
  terms.complete_request();
  const PlanCandidates candidates = read_candidates(table, predicted ? &model->requests : nullptr);
  terms.complete_for(candidates);
  const RunPlan made = plan_candidates(candidates, terms.request, predicted ? &model->regressor : nullptr);
  within_limits([&] { check_planned(made, terms); });
  json said = to_json(made, terms);
  if (!id.is_null()) said["id"] = id;
  return document(said);
}

HttpResponse Service::observe(const HttpRequest& request) const {
  const auto model = model_with_file(request);
  const TableSource table = table_of(request);
  const std::vector<Run> runs = read_runs_text(table.name, *table.text);
  if (runs.empty()) throw InputError("rows: holds no run");
  check_samples_stated(table, runs);
  try {
    const std::vector<RejectedRun> set_aside = learn(*model, runs);
    return document(json{{"observed", runs.size() - set_aside.size()}, {"set_aside", to_json(set_aside)}});
  } catch (const ModelError& error) {  // the file is damaged, and the request is not
    refuse(500, error.what());
  }
}

HttpResponse Service::roll_back(const HttpRequest& request) const {
  const auto model = model_with_file(request);
  const json options = object_of(request);
  std::string time;
  for (const auto& [name, value] : options.items()) {
    if (name != "to" || !value.is_string())
      throw InputError(fmt::format("\"{}\" is not known; there is to, the time of a former version", shown(name)));
    time = value.get<std::string>();
  }
  try {
    time = models_.roll_back(model->file.name, time);
  } catch (const InputError& error) {
    refuse(409, error.what());
  }
  return document(json{{"to", time.empty() ? json() : json(time)}, {"former", former_times(*model)}});
}

std::vector<RejectedRun> Service::learn(const ServedModel& model, std::span<const Run> runs) const {
  std::vector<RejectedRun> set_aside = models_.observe(model.file.name, runs);
  count_outside(model, runs, set_aside);
  return set_aside;
}

void Service::count_outside(const ServedModel& before, std::span<const Run> runs,
                            const std::vector<RejectedRun>& set_aside) const {
  std::multiset<std::pair<std::string, std::string>> unfit;
  for (const RejectedRun& run : set_aside) {
    if (run.reason != "outlier") unfit.emplace(run.key, run.timestamp_utc);  // an outlier is outside, and counts
  }
  for (const Run& run : runs) {
    const auto found = unfit.find({run.workload.key(), run.timestamp_utc});
    if (found != unfit.end()) {
      unfit.erase(found);
      continue;
    }
    const std::optional<double> sec = measured_sec(run);
    const std::optional<Quantiles> expected = expected_sec(before.regressor, run.workload);
    if (sec && expected) metrics_.observed(before.file.name, !covers(*expected, *sec));
  }
}

HttpResponse Service::list_models(const HttpRequest&) const {
  json list = json::array();
  for (const auto& model : models_.all()) {
    std::set<std::string> devices, networks;
    const std::vector<AggregateRow> rows = model->regressor.fitted_rows();
    for (const AggregateRow& row : rows) {
      devices.insert(row.workload.device);
      networks.insert(std::string(row.workload.network.family()));
    }
    list.push_back({{"name", model->file.name},
                    {"kind", model->regressor.kind()},
                    {"rows", rows.size()},
                    {"devices", devices},
                    {"networks", networks},
                    {"observes", !model->file.path.empty()},
                    {"former", former_times(*model)},
                    {"loaded", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(model->loaded))}});
  }
  return document(json{{"models", list}});
}

HttpResponse Service::list_devices(const HttpRequest&) const { return document(to_json(models_.devices().devices())); }

HttpResponse Service::list_networks(const HttpRequest& request) const {
  return document(to_json(perfpred::list_networks(query_value(request.query, "word"))));
}

HttpResponse Service::list_fields(const HttpRequest&) const { return document(request_fields()); }

HttpResponse Service::openapi(const HttpRequest&) const {
  return {200, std::string(json_type), std::string(embedded_openapi)};
}

HttpResponse Service::health(const HttpRequest&) const {
  return document(json{{"status", "ok"}, {"version", PERFPRED_VERSION}});
}

HttpResponse Service::metrics(const HttpRequest&) const {
  return {200, "text/plain; version=0.0.4; charset=utf-8", metrics_.text()};
}

HttpResponse Service::page(const HttpRequest&) const {
  return {200,
          "text/html; charset=utf-8",
          std::string(embedded_page),
          {{"Content-Security-Policy",
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src "
            "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
           {"Cache-Control", "no-cache"}}};
}

}  // namespace perfpred
