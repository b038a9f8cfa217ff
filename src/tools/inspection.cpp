// SPDX-License-Identifier: Apache-2.0
#include "tools/inspection.h"

#include <perfpred/device.h>

#include <optional>

#include "tools/complexity_tables.h"
#include "tools/report_json.h"

namespace perfpred {

AskedJob read_inspection(const ModelRequests& requests, nlohmann::json request) {
  const auto is_missing = [&](const char* name) { return !request.contains(name) || request[name].is_null(); };
  if (is_missing("batch_size") && is_missing("step")) request["batch_size"] = usual_batch_size;
  AskedJob job = read_request(requests, request);
  job.workload.validate();
  return job;
}

nlohmann::json inspection(const Workload& workload, const DeviceCatalogue& devices) {
  std::optional<Device> device;
  if (workload.device != Workload().device) device = devices.find(workload.device);
  if (const auto ranks = report_ranks(workload, "", device)) return to_json(*ranks);
  const StepReport report = report_step(steps_of(workload), workload.batch_size, workload.precision, device);
  nlohmann::json document = to_json(report);
  document["layers"] = to_json(report.layers());
  return document;
}

}  // namespace perfpred
