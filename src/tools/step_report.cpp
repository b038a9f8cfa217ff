// SPDX-License-Identifier: Apache-2.0
#include "tools/step_report.h"

#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/roofline.h>

#include <utility>

#include "tools/complexity_tables.h"

namespace perfpred {
namespace {

DeviceAnswer ask(const Device& device, const std::optional<TrainingJob>& job, const StepReport& report,
                 const NetworkSteps& network, Precision precision) {
  DeviceAnswer answer;
  answer.name = device.name;
  if (const auto limits = limits_if_known(device, report.step, precision)) {
    answer.bound = limits->bound;
    answer.time_at_peak_sec = limits->time_sec;
  }
  if (!job) {
    answer.largest_batch_unknown = "how the device allocates memory is unknown";
    return answer;
  }
  const std::optional<MemoryVerdict> verdict = report.memory->verdict(device);
  if (!verdict) {
    answer.largest_batch_unknown = "the device's memory size is unknown";
    return answer;
  }
  answer.fits = *verdict == MemoryVerdict::fits;
  try {
    answer.largest_batch = largest_batch(network.step, *job, device);
  } catch (const InputError& error) {  // a file that was traced may hold its batch size
    answer.largest_batch_unknown = error.what();
  }
  return answer;
}

}  // namespace

std::map<std::string, OpTotals> StepReport::kinds() const {
  std::map<std::string, OpTotals> kinds;
  for (const Op& op : step.graph().ops()) kinds[std::string(step.graph().name(op))].add(op, step.graph().times(op));
  return kinds;
}

std::map<std::string, std::int64_t> StepReport::unknown_ops() const {
  std::map<std::string, std::int64_t> unknown;
  for (const Op& op : step.graph().ops()) {
    if (op.kind == OpKind::unknown) ++unknown[std::string(step.graph().name(op))];
  }
  return unknown;
}

StepReport report_step(const NetworkSteps& network, std::int64_t batch_size, Precision precision,
                       const std::optional<Device>& device) {
  ExecutedStep step = execute(network.step(batch_size), device ? device->kind : DeviceKind::other);
  StepReport report{network.network, batch_size, std::move(step), {}, {}};
  const std::optional<TrainingJob> job = device ? TrainingJob::on(*device, precision) : TrainingJob();
  if (job) report.memory = estimate_memory(report.step, *job);
  if (device) report.device = ask(*device, job, report, network, precision);
  return report;
}

}  // namespace perfpred
