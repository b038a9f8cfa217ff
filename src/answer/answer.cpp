// SPDX-License-Identifier: Apache-2.0
#include <perfpred/answer.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "answer/advice.h"
#include "answer/assumed.h"
#include "answer/text_job.h"
#include "model/job_forecast.h"
#include "network/zoo/zoo.h"
#include "step/epoch_steps.h"
#include "step/job.h"
#include "step/kept_steps.h"
#include "step/parts_needed.h"
#include "workload/rank_network.h"
#include "workload/workload_columns.h"
#include "workload/world.h"

namespace perfpred {
namespace {

std::string key_without(const Workload& workload, const std::vector<std::string>& fields) {
  std::string key = workload.key();
  for (const std::string& field : fields) {
    const std::size_t begin = key.find(";" + field + "=") + field.size() + 2;
    key.erase(begin, key.find(';', begin) - begin);
  }
  return key;
}

/// The fields that say how many samples an epoch has.
const char* epoch_fields(const Workload& workload, const Program& program) {
  return program.positions(workload) > 0 ? "train_images or train_tokens" : "train_images";
}

std::vector<std::string> what_is_left_out(const Answer& answer, const Program& program) {
  const Workload& workload = answer.workload;
  std::vector<std::string> lines;
  if (!workload.knows_epoch())
    lines.push_back(fmt::format("epoch, total and price: {} is not stated", epoch_fields(workload, program)));
  if (!answer.texts && std::ranges::find(answer.assumed, "padding") != answer.assumed.end())
    lines.emplace_back("texts of several lengths, which take more memory and time: padding=padded");
  if (!is_on_one_device(workload) && !answer.forecast.memory)
    lines.emplace_back("memory: it is not known for this layout, network and training");
  return lines;
}

/// The work of a replica's step, and what it trains; nothing where the step is not known.
void add_work(Answer& answer, const Job& job) {
  if (!job.program().has_step()) return;
  Workload eager = on_one_device(job.workload());
  eager.compiled = false;
  eager.software = Software::pytorch;
  const std::shared_ptr<const ExecutedStep> step = executed_step(eager, job.device_kind());
  answer.params = step->graph().params();
  answer.flops = step->graph().totals().flops;
}

/// Samples of so many steps. @throws InputError for more than a workload may have
std::int64_t samples_of(const Workload& workload, const Program& program, std::int64_t steps) {
  workload.validate();
  const std::int64_t samples = samples_per_step(workload, program);
  constexpr std::int64_t most = std::int64_t{1} << 52;
  if (steps > most / samples) throw InputError(fmt::format("max_steps {} of {} samples are too many", steps, samples));
  return steps * samples;
}

/// AnswerTerms::applied_to()
Workload with_samples(const AnswerTerms& terms, Workload workload, const Program& program) {
  if (!terms.train_tokens) {
    if (terms.max_steps && !workload.knows_epoch())
      workload.train_images = samples_of(workload, program, *terms.max_steps);
    return workload;
  }
  const std::int64_t positions = program.positions(workload);
  if (positions == 0) {
    throw InputError("train_tokens is for networks of sequences; train_images says how many samples an epoch has");
  }
  workload.train_images = parts_needed(*terms.train_tokens, positions);
  return workload;
}

void add_assumed_of_devices(const Workload& workload, std::vector<std::string>& assumed) {
  if (workload.parallel != ParallelLayout() && workload.gpus_per_node.nodes.empty())
    assumed.emplace_back("gpus_per_node");
  if (is_on_one_device(workload)) return;
  if (workload.cluster.empty()) assumed.emplace_back("cluster");
  if (gathers_parameters(workload.parallel) && !workload.parallel.full && !splits_network(workload.parallel))
    assumed.emplace_back("parallel");
}

}  // namespace

std::vector<std::string> assumed_fields(const Workload& workload, const std::vector<std::string>& unstated,
                                        Provenance provenance) {
  const bool has_length = workload.input.size() == 1 && !decides(workload.network, "input");
  const bool has_usual_epoch = workload.knows_epoch() && !workload.train_images.is_stated();
  std::vector<std::string> assumed;
  for (const std::string& field : unstated) {
    const bool rests_on_it = field == "input"     ? has_length
                             : field == "padding" ? takes_lengths(workload) && provenance != Provenance::runs
                                                  : field == "train_images" && has_usual_epoch;
    if (rests_on_it) assumed.push_back(field);
  }
  add_assumed_of_devices(workload, assumed);
  return assumed;
}

std::string assumed_value(const Workload& workload, std::string_view field) {
  if (field == "gpus_per_node") return world_of(workload).placement.text();
  if (field == "parallel") return workload.parallel.text() + "; each device loads and saves its share (else full=1)";
  return field == "cluster" ? "links of its usual node" : field_text(workload, field);
}

std::string Answer::assumed_value(std::string_view field) const {
  if (field != "cluster" || !forecast.scaling) return perfpred::assumed_value(workload, field);
  return fmt::format("links of its usual node, {:g} GB/s within and {:g} between nodes", forecast.scaling->intra_gb_s,
                     forecast.scaling->inter_gb_s);
}

Workload AnswerTerms::applied_to(Workload workload) const {
  const Program program(workload.network);
  return with_samples(*this, std::move(workload), program);
}

namespace {

/// Takes from the longest batch what it decides.
void take_memory(Forecast& job, const Forecast& longest) {
  job.memory = longest.memory;
  job.usable_bytes = longest.usable_bytes;
  job.verdict = longest.verdict;
  job.largest_batch = longest.largest_batch;
  job.rank = longest.rank;
}

Answer answer(const TimeRegressor& model, const Job& asked, const AnswerTerms& given) {
  const Job job = asked.with(with_samples(given, asked.workload(), asked.program()));
  const Workload& workload = job.workload();
  if (!given.of_epochs.empty() && !workload.knows_epoch()) {
    throw InputError(fmt::format("{} needs {}: network {} has no data that it is usually trained on", given.of_epochs,
                                 epoch_fields(workload, job.program()), shown(workload.network)));
  }
  const Prices& prices = given.prices;
  JobTerms terms = given.job;
  terms.find_largest_batch = given.advises;
  if (given.max_steps) {
    terms.epochs = static_cast<double>(samples_of(workload, job.program(), *given.max_steps)) /
                   static_cast<double>(workload.train_images);
  }
  const auto price = prices.find(workload.device);
  if (!terms.price_per_hour && price != prices.end()) terms.price_per_hour = price->second.per_hour;
  const bool has_stand_ins = decides(workload.network, "classes");
  Answer answer = {workload,
                   forecast(model, job, terms),
                   has_stand_ins ? key_without(workload, unknown_fields(workload)) : workload.key(),
                   {},
                   {}};
  answer.assumed = assumed_fields(workload, terms.unstated, answer.forecast.prediction.provenance);
  answer.left_out = what_is_left_out(answer, job.program());
  answer.batches = job.program().batches(workload);
  add_work(answer, job);
  if (!given.job.price_per_hour && price != prices.end()) answer.currency = price->second.currency;
  if (given.advises) answer.advice = advice(model, job, terms, answer.forecast, prices);
  return answer;
}

Answer answer_of_texts(const TimeRegressor& model, const Job& asked, AnswerTerms given) {
  const TextJob job = text_job(model, asked, given);
  given.lengths.reset();
  given.train_tokens.reset();
  if (job.timed.padding != Padding::packed) std::erase(given.job.unstated, "input");  // the lengths say it
  const bool advises = std::exchange(given.advises, false);
  Answer result = answer(model, asked.with(job.timed), given);
  given.advises = advises;
  const Answer longest = answer(model, asked.with(job.longest), given);
  result.texts = job.batches;
  take_memory(result.forecast, longest.forecast);
  result.advice = longest.advice;
  result.left_out = what_is_left_out(result, asked.program());
  Quantiles& tokens = result.forecast.tokens_per_sec.value();
  const double words = (1 - job.batches.padding_share) * job.batches.width / static_cast<double>(job.timed.input[0]);
  tokens = {tokens.p05 * words, tokens.p50 * words, tokens.p95 * words};
  return result;
}

}  // namespace

Answer answer(const TimeRegressor& model, const Workload& workload, const AnswerTerms& terms) {
  const Job job(workload, model.devices());
  return terms.lengths ? answer_of_texts(model, job, terms) : answer(model, job, terms);
}

}  // namespace perfpred
