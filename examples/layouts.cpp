// SPDX-License-Identifier: Apache-2.0
// perfpred-layouts: how to spread a transformer's training over several devices.
#include <perfpred/answer.h>
#include <perfpred/layouts.h>
#include <perfpred/time_regressor.h>
#include <perfpred/timeline.h>

#include <string>
#include <vector>

#include "cli.h"
#include "device_file.h"
#include "text/files.h"
#include "tools/layouts_text.h"
#include "tools/model_requests.h"
#include "workload_options.h"

namespace perfpred::cli {

int layouts_command(int argc, char** argv) {
  Program program("layouts",
                  "perfpred-layouts --network llama3.1_8b --input 4096 --batch-size 256 --precision bf16 "
                  "--device H100-SXM5-80GB --gpus 64");
  WorkloadOptions asked;
  DeviceFile device_file;
  LayoutSearch search;
  std::string model_file, price_file, trace, by = "time";
  bool json = false;
  asked.add_to(program, {"parallel", "gpus_per_node", "accumulate", "checkpoint"});
  program.get_option("--batch-size")->description("sequences of an update, over all devices");
  program.add_option("--gpus", search.gpus, "devices, eight on a node")->required();
  program.add_option("--top", search.top, "layouts that are shown")->capture_default_str()->check(positive());
  program.add_option("--by", by, "time, price or memory")->capture_default_str();
  program.add_option("--model", model_file, "model file; default: the standard model");
  program.add_option("--prices", price_file, "table of prices: device, price_per_hour, currency");
  device_file.add_to(program);
  device_file.add_links_to(program)->needs(program.get_option("--cluster"));
  program.add_option("--trace", trace, "the first layout's step over time, for Perfetto or chrome://tracing");
  program.add_flag("--json", json, "one JSON document on stdout");
  return program.run(argc, argv, [&] {
    const DeviceCatalogue devices = device_file.catalogue();
    const TimeRegressor model =
        model_file.empty() ? TimeRegressor::standard(devices) : TimeRegressor::load(model_file, devices);
    search.by = parse_layout_order(by);
    const std::vector<Workload> jobs = workloads_of(ModelRequests(model, asked.fields()).of_options(""));
    if (jobs.size() > 1) throw InputError(fmt::format("device {} is the name of several", *asked.find("device")));
    const Workload& job = jobs.front();
    if (!price_file.empty()) {
      const Prices prices = read_prices(price_file, devices);
      if (const auto price = prices.find(job.device); price != prices.end())
        search.price_per_hour = price->second.per_hour;
    }
    const Layouts found = rank_layouts(model, job, search);
    if (!trace.empty()) write_file(trace, trace_json(timeline(model, found.layouts.front().workload)) + "\n");
    fmt::print("{}", json ? json_text(found) + "\n" : layouts_text(found));
  });
}

}  // namespace perfpred::cli
