// SPDX-License-Identifier: Apache-2.0
#include "tools/json_request.h"

#include <perfpred/error.h>
#include <perfpred/network.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "answer/prices.h"
#include "text/byte_size.h"
#include "text/enum_names.h"
#include "text/json.h"
#include "text/other_words.h"
#include "text/parse.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

constexpr const char* id_key = "id";

/// A field of a request that no workload has.
struct RequestField {
  std::string_view name, type, meaning;
  std::string_view usual = {};  ///< where it is left out; empty: it is not given then
  bool sweeps = true;
};

struct Term : RequestField {
  void (*set)(AnswerTerms& terms, std::string_view text, const ValuePlace& place);
  bool of_epochs = false;  ///< AnswerTerms::of_epochs
};

constexpr std::array<Term, 12> job_terms = {{
    {{"epochs", "number", "epochs of the job", "1"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.job.epochs = parse_positive(text, p); },
     true},
    {{"max_steps", "integer", "updates of the job, in place of epochs"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.max_steps = parse_positive_integer(text, p); }},
    {{"startup_sec", "seconds", "before the first epoch", "0"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.job.startup_sec = parse_seconds(text, p); },
     true},
    {{"evaluation", "integer", "samples that the network is judged on after each epoch", "0"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.job.evaluation = parse_integer(text, p); },
     true},
    {{"checkpoint_sec", "seconds", "to write the network to the disk once", "0"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.job.checkpoint_sec = parse_seconds(text, p); },
     true},
    {{"checkpoint_every", "number", "epochs from one writing to the next", "1"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) {
       t.job.checkpoint_every = parse_positive(text, p);
     },
     true},
    {{"price_per_hour", "number", "of the device"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) {
       t.job.price_per_hour = parse_non_negative(text, p);
     },
     true},
    {{"budget_sec", "seconds", "in which epochs_in_budget are trained"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.job.budget_sec = parse_seconds(text, p); },
     true},
    {{"train_tokens", "integer", "tokens an epoch, in place of train_images"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) {
       t.train_tokens = parse_positive_integer(text, p);
     }},
    {{"group_by_length", "flag", "1: texts of alike lengths come together in a batch", "0"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.group_by_length = parse_flag(text, p); }},
    {{"reserved_by_others", "bytes", "of the device's memory that other programs hold, as 1500MB or 2GiB", "0"},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) {
       t.job.reserved_by_others = parse_byte_size(text, p);
     }},
    {{"fit_advice", "flag", "0: without advice and the largest batch, which take most of the time", "1", false},
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.advises = parse_flag(text, p); }},
}};

/// Terms that take_many() reads.
constexpr std::array<RequestField, 3> terms_of_many = {
    {{"lengths", "lengths", "of the texts of an epoch: a list, a file with one a line, or mean=,p95=,max=", "", false},
     {"prices", "prices", "per hour by device, or a prices.csv; for jobs without price_per_hour", "", false},
     {"quantiles", "numbers", "probabilities with which a step and the job take no longer than the seconds asked for",
      "", false}}};

constexpr std::array<RequestField, 2> in_place_of_network = {
    {{"config", "path", "a config.json of Hugging Face's transformers"},
     {"step", "path", "a step file, which perfpred.capture writes"}}};

std::string_view name_of(FieldType type) { return enumerator_name_of<FieldType::shape>(type); }

/// What the field of a workload is where neither the request nor a model's rows say; null where that depends on others.
nlohmann::ordered_json usual_text(const WorkloadColumn& column) {
  if (column.usual) return std::string(*column.usual);
  const bool of_device = column.how == DomainViolation::none || column.how == DomainViolation::other_device;
  return of_device ? nlohmann::ordered_json() : nlohmann::ordered_json(column.get(Workload()));
}

template <class Word>
nlohmann::ordered_json words_json(OtherWords<Word> words) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [other, word] : words) json[std::string(other)] = to_string(word);
  return json;
}

/// By other words the words that they stand for.
nlohmann::ordered_json other_words(std::string_view field) {
  if (field == "precision") return words_json(other_precisions());
  return field == "optimizer" ? words_json(other_optimizers()) : nlohmann::ordered_json();
}

void add_field(nlohmann::ordered_json& fields, const char* of, const RequestField& field) {
  fields.push_back({{"name", field.name},
                    {"of", of},
                    {"type", field.type},
                    {"words", nullptr},
                    {"other_words", nullptr},
                    {"default", field.usual.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(field.usual)},
                    {"meaning", field.meaning},
                    {"sweeps", field.sweeps}});
}

/// Whether true and false are values of a field, a term, or an option of a plan.
bool is_flag(std::string_view name) {
  const auto is_flag_field = [&](const WorkloadColumn& one) { return one.name == name && one.type == FieldType::flag; };
  const auto is_flag_term = [&](const Term& one) { return one.name == name && one.type == "flag"; };
  return name == "pareto" || std::ranges::any_of(workload_columns(), is_flag_field) ||
         std::ranges::any_of(job_terms, is_flag_term);
}

/// Whether a step file decides the field.
bool is_of_file(const WorkloadColumn& column) {
  return column.of_step || column.of_cifar_cnn || column.name == "network" || column.name == "precision";
}

bool is_passed_over(const std::string& name, const nlohmann::json& value, bool has_terms) {
  return value.is_null() || (name == id_key && has_terms);
}

/// A number or a list of numbers.
std::vector<double> quantiles_of(const nlohmann::json& value) {
  const auto fail = [&] { throw_bad_value({{}, 0, "quantiles"}, dumped(value), "a list of numbers such as 0.99"); };
  std::vector<double> quantiles;
  for (const auto& one : value.is_array() ? value : nlohmann::json::array({value})) {
    if (!one.is_number()) fail();
    quantiles.push_back(one.get<double>());
  }
  return quantiles;
}

/// A list of lengths, or what TextLengths::parse() reads.
TextLengths lengths_of(const nlohmann::json& value) {
  if (value.is_string()) return TextLengths::parse(value.get<std::string>());
  const auto is_length = [](const nlohmann::json& one) { return one.is_number_integer(); };
  if (!value.is_array() || !std::ranges::all_of(value, is_length))
    throw_bad_value({{}, 0, "lengths"}, dumped(value), "a list of whole numbers, a file, or mean=,p95=,max=");
  return TextLengths(value.get<std::vector<std::int64_t>>());
}

/// Takes a term that may have several values. @returns whether it is one
bool take_many(AnswerTerms& terms, std::string_view name, const nlohmann::json& value, const ModelRequests& requests) {
  if (name == "prices") {
    terms.prices = prices_of(value, requests.catalogue());
    terms.of_epochs = name;
  } else if (name == "quantiles") {
    terms.job.quantiles = quantiles_of(value);
  } else if (name == "lengths") {
    terms.lengths = lengths_of(value);
  } else {
    return false;
  }
  return true;
}

/// Of a request that states its samples: those that all requests have do not hold. @throws InputError if it has its own
void leave_tokens(AnswerTerms& terms, const nlohmann::json& request) {
  const auto tokens = request.find("train_tokens");
  if (tokens != request.end() && !tokens->is_null()) throw InputError("train_images and train_tokens are both given");
  terms.train_tokens.reset();
}

/// @throws InputError for a job of epochs and of steps, and for checkpoints that take no time
void check_epochs(const AnswerTerms& terms, const nlohmann::json& request) {
  if (terms.job.checkpoint_every != 1 && terms.job.checkpoint_sec == 0)
    throw InputError("checkpoint_every needs checkpoint_sec, what one takes");
  const auto epochs = request.find("epochs");
  if (terms.max_steps && epochs != request.end() && !epochs->is_null())
    throw InputError("epochs and max_steps are both given");
}

/// The text of a file that the request holds itself; nothing for a path.
std::optional<std::string> content_of(const nlohmann::json& value) {
  if (value.is_object()) return dumped(value);
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' ? std::optional(text) : std::nullopt;
}

/// The field `config` as the field `network`.
SweptField network_of(const nlohmann::json& config) {
  if (const auto text = content_of(config)) return {"network", {add_config_text(*text)}};
  return with_configs({"config", {option_text("config", config)}});
}

/// @param notes  gets what the file says, after its path if it has one
StepFile step_of(const nlohmann::json& value, std::vector<std::string>& notes) {
  const std::optional<std::string> text = content_of(value);
  const std::string path = text ? "step" : option_text("step", value);
  StepFile file = text ? add_graph_text(*text) : add_graph(path);
  for (const std::string& note : file.notes()) notes.push_back(fmt::format("{}: {}", path, note));
  return file;
}

/// @param known  the terms that the request may have
/// @throws InputError for a name that no workload has: what is meant, else all names that a request of jobs may have
void check_field(const std::string& name, std::span<const Term> known) {
  if (known.empty() || is_workload_field(name)) return;  // of workloads alone whoever fills one says it
  std::vector<std::string_view> others;
  for (const RequestField& field : in_place_of_network) others.push_back(field.name);
  for (const Term& term : known) others.push_back(term.name);
  for (const RequestField& field : terms_of_many) others.push_back(field.name);
  throw_unknown_field(name, others);
}

/// @param known  the terms that the request may have
AskedJob read(const ModelRequests& requests, const nlohmann::json& request, const AnswerTerms& terms,
              std::span<const Term> known) {
  if (request.contains("config") && request.contains("network")) throw InputError("network and config are both given");
  AskedJob asked{{}, terms, {}};
  std::vector<SweptField> fields;
  std::optional<StepFile> step;
  for (const auto& item : request.items()) {
    const std::string& name = item.key();
    const nlohmann::json& value = item.value();
    if (is_passed_over(name, value, !known.empty())) continue;
    if (!known.empty() && take_many(asked.terms, name, value, requests)) continue;
    if (name == "step") {
      step = step_of(value, asked.notes);
      continue;
    }
    if (name == "config") {
      fields.push_back(network_of(value));
      continue;
    }
    const std::string given = option_text(name, value);
    const auto term = std::find_if(known.begin(), known.end(), [&](const Term& one) { return one.name == name; });
    if (term == known.end()) {
      check_field(name, known);
      fields.push_back({name, {given}});
    } else {
      term->set(asked.terms, given, {{}, 0, name});
      if (term->of_epochs) asked.terms.of_epochs = name;
    }
  }
  if (step) add_step_fields(fields, *step);
  asked.workload = requests.of_fields(fields);
  asked.terms.job.unstated = requests.unstated(fields);
  if (is_given(fields, "train_images")) leave_tokens(asked.terms, request);
  check_epochs(asked.terms, request);
  if (request.contains("prices") && !asked.terms.job.price_per_hour)
    check_priced(asked.terms.prices, {asked.workload.device});
  return asked;
}

}  // namespace

std::string option_text(std::string_view name, const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) {
    if (is_flag(name)) return value.get<bool>() ? "1" : "0";
    if (name == "checkpoint") return value.get<bool>() ? "all" : "none";
  }
  if (value.is_number()) return dumped(value);
  const bool sizes = name == "input" && value.is_array() && !value.empty() &&
                     std::all_of(value.begin(), value.end(), [](const auto& one) { return one.is_number(); });
  if (!sizes)
    throw_bad_value({{}, 0, name}, dumped(value), name == "input" ? "a text or a list of sizes" : "a text or a number");
  std::string text;
  for (const auto& size : value) text += (text.empty() ? "" : "x") + dumped(size);
  return text;
}

void add_step_fields(std::vector<SweptField>& fields, const StepFile& file, std::string_view swept) {
  for (const WorkloadColumn& column : workload_columns()) {
    if (!is_of_file(column)) continue;
    if (is_given(fields, std::string(column.name)) || swept == column.name)
      throw InputError(fmt::format("{} is given; a step file has its own", column.name));
  }
  fields.push_back({"network", {file.name()}});
  fields.push_back({"precision", {std::string(to_string(file.precision()))}});
  if (file.compiled() && !is_given(fields, "compiled") && !is_given(fields, "software") && swept != "compiled")
    fields.push_back({"compiled", {"1"}});
  if (!is_given(fields, "batch_size") && swept != "batch_size")
    fields.push_back({"batch_size", {std::to_string(file.batch_size())}});
}

nlohmann::json parse_request(std::string_view text) {
  return parse_object(text, "a request is a JSON object of workload fields");
}

Prices prices_of(const nlohmann::json& value, const DeviceCatalogue& devices) {
  if (value.is_string()) return read_prices(value.get<std::string>(), devices);
  if (!value.is_object())
    throw InputError(fmt::format("prices {} is neither the path of a table nor prices by device", dumped(value)));
  Prices prices;
  for (const auto& item : value.items()) {
    if (!item.value().is_number()) throw InputError(fmt::format("prices: that of \"{}\" is not a number", item.key()));
    add_price(prices, item.key(), {item.value().get<double>(), {}}, devices, "prices: ");
  }
  return prices;
}

AskedJob read_request(const ModelRequests& requests, const nlohmann::json& request, const AnswerTerms& terms) {
  return read(requests, request, terms, job_terms);
}

AskedJob read_workload(const ModelRequests& requests, std::string_view text) {
  return read(requests, parse_request(text), {}, {});
}

nlohmann::ordered_json request_fields() {
  nlohmann::ordered_json fields = nlohmann::ordered_json::array();
  for (const WorkloadColumn& column : workload_columns()) {
    fields.push_back({{"name", column.name},
                      {"of", "workload"},
                      {"type", name_of(column.type)},
                      {"words", column.words.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(column.words)},
                      {"other_words", other_words(column.name)},
                      {"default", usual_text(column)},
                      {"meaning", column.help},
                      {"sweeps", true}});
  }
  for (const RequestField& field : in_place_of_network) add_field(fields, "network", field);
  for (const Term& term : job_terms) add_field(fields, "job", term);
  for (const RequestField& field : terms_of_many) add_field(fields, "job", field);
  nlohmann::ordered_json document;
  document["fields"] = std::move(fields);
  return document;
}

void echo_id(nlohmann::json& answer, const nlohmann::json& request) {
  if (const auto id = request.find(id_key); id != request.end()) answer[id_key] = *id;
}

AskedLayouts read_layouts(const ModelRequests& requests, nlohmann::json request) {
  AskedLayouts asked;
  const auto take = [&](const char* name) {
    const nlohmann::json value = request.contains(name) ? request[name] : nlohmann::json();
    request.erase(name);
    return value.is_null() ? std::string() : option_text(name, value);
  };
  for (const char* searched : {"parallel", "gpus_per_node", "accumulate", "checkpoint"}) {
    if (!take(searched).empty()) throw InputError(fmt::format("{} is what is searched for", searched));
  }
  const std::string gpus = take("gpus"), top = take("top"), by = take("by");
  if (gpus.empty()) throw InputError("gpus is missing");
  asked.search.gpus = parse_positive_integer(gpus, {{}, 0, "gpus"});
  if (!top.empty()) asked.search.top = static_cast<std::size_t>(parse_positive_integer(top, {{}, 0, "top"}));
  if (!by.empty()) asked.search.by = parse_layout_order(by);
  const AskedJob job = read_request(requests, request);
  asked.workload = job.workload;
  asked.search.price_per_hour = job.terms.job.price_per_hour;
  if (const auto price = job.terms.prices.find(job.workload.device); price != job.terms.prices.end())
    asked.search.price_per_hour = price->second.per_hour;
  return asked;
}

}  // namespace perfpred
