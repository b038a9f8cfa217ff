// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>
#include <perfpred/layouts.h>
#include <perfpred/step_file.h>
#include <perfpred/workload.h>

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "tools/model_requests.h"
#include "tools/workload_sweep.h"

namespace perfpred {

/// What one request asks of a model.
struct AskedJob {
  Workload workload;
  AnswerTerms terms;
  std::vector<std::string> notes = {};  ///< what a step file says to whoever reads the answer
};

/// A request is a JSON object: fields of a workload by the names of its key, `config` (a config.json) or `step` (a step
/// file) in place of `network`, each a path, an object, or the file's text, which begins with `{`, and terms of the job
/// by the names of perfpred-predict's options: epochs, max_steps, startup_sec, evaluation,
/// checkpoint_sec, checkpoint_every, price_per_hour, prices (as prices_of()),
/// budget_sec, quantiles (a number or a list), train_tokens, lengths (a list, or as TextLengths::parse()),
/// group_by_length, reserved_by_others, and `fit_advice`, 0 to leave out the advice and the largest batch. Values are
/// texts, numbers, true and false, and lists of sizes for `input`; null stands for a field that is not given. `id` may
/// be anything: it is for echo_id().
/// @param request  of parse_request()
/// @param terms    of requests that do not say otherwise
/// @throws InputError for prices without the device's, and for a field or value as ModelRequests::of_fields()
[[nodiscard]] AskedJob read_request(const ModelRequests& requests, const nlohmann::json& request,
                                    const AnswerTerms& terms = {});

/// What one request asks of layouts.
struct AskedLayouts {
  Workload workload;
  LayoutSearch search;
};

/// The same with `gpus`, `top` and `by`. @throws InputError as read_request(), for a missing gpus, and for fields that
/// are searched for
[[nodiscard]] AskedLayouts read_layouts(const ModelRequests& requests, nlohmann::json request);

/// @throws InputError for a text that is no JSON object
[[nodiscard]] nlohmann::json parse_request(std::string_view text);

/// Every field that a request may have, in the order of a key, then those in place of `network`, then the terms of the
/// job: {"fields": [{"name", "of": "workload" | "network" | "job", "type", "words", "other_words", "default",
/// "meaning", "sweeps"}]}. Types are those of FieldType, `number`, `seconds` (a number or 12:00:00), `bytes` (a number
/// or 2GiB), `path`, `numbers` (one or a list), `lengths` and `prices`. `words` is null where there are none,
/// `other_words`, {other: word}, where none stands for a word. `default` is the text where neither the request nor a
/// model's rows say; null where that depends on the network or the device. `sweeps`: whether a list of values makes
/// several jobs; else it is one value, or one for all of them.
[[nodiscard]] nlohmann::ordered_json request_fields();

/// Gives an answer the `id` of its request, if that has one.
void echo_id(nlohmann::json& answer, const nlohmann::json& request);

/// The same without terms. @throws InputError for a term, as for any field that a workload does not have
[[nodiscard]] AskedJob read_workload(const ModelRequests& requests, std::string_view text);

/// read_prices() of the value of an option `prices`: the path of such a table, or an object of prices by device.
[[nodiscard]] Prices prices_of(const nlohmann::json& value, const DeviceCatalogue& devices);

/// The text of a value, as an option has it. @throws InputError for what is neither a text nor a number, but for true
/// and false of a flag and of `checkpoint` (all, none), and a list of numbers for `input`
[[nodiscard]] std::string option_text(std::string_view name, const nlohmann::json& value);

/// Adds what a step file decides: its network and precision and, unless it is given or `swept`, its batch size.
/// @throws InputError if another field that the step decides is given or `swept`
void add_step_fields(std::vector<SweptField>& fields, const StepFile& file, std::string_view swept = {});

}  // namespace perfpred
