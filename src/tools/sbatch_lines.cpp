// SPDX-License-Identifier: Apache-2.0
#include "tools/sbatch_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "text/sbatch.h"

namespace perfpred {
namespace {

/// A type of GPU as gres.conf writes it: `A100-PCIe-80GB` is `a100-pcie-80gb`; no blanks, commas or colons.
std::string gres_type(const std::string& device) {
  std::string type;
  for (const char letter : device) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool plain = std::isalnum(byte) != 0 || letter == '-' || letter == '.';
    type += plain ? static_cast<char>(std::tolower(byte)) : '_';
  }
  return type;
}

/// @param earlier_end  of the run before it on its device; 0 for the first
std::string line_of(const PlannedRun& run, std::size_t number, std::size_t before, std::int64_t earlier_end,
                    const PlanTerms& terms, const std::string& script) {
  const std::string name = run.id.empty() ? fmt::format("{}-{}", run.workload.network.family(), number) : run.id;
  std::string line = fmt::format("run_{}=$(sbatch --parsable --job-name={} --time={}", number, shell_word(name),
                                 slurm_time(run.cost_sec));
  if (before > 0) line += fmt::format(" --dependency=afterany:\"$run_{}\"", before);
  if (run.start_sec > earlier_end) line += fmt::format(" --begin=now+{}", run.start_sec);
  if (run.deadline_sec) {
    // Slurm removes a job whose whole limit does not end before its deadline; the limit is whole minutes.
    const std::int64_t limit_end = run.start_sec + 60 * limit_minutes(static_cast<double>(run.cost_sec));
    line += fmt::format(" --deadline=now+{}", std::max(*run.deadline_sec, limit_end));
  }
  const std::string device(run.workload.device);
  if (terms.request.catalogue.resolve(device).kind(run.workload.threads.has_value()) == DeviceKind::gpu)
    line += " --gres=gpu:" + (terms.devices.empty() ? "" : gres_type(device) + ":") + "1";
  const std::string file = script.starts_with('-') ? "./" + script : script;  // or it is an option of sbatch
  return line + fmt::format(" {} {} {} {})\n", shell_word(file), shell_word(run.workload.key()), run.epochs,
                            shell_word(run.id));
}

}  // namespace

std::string sbatch_lines(const RunPlan& plan, const PlanTerms& terms, const std::string& script, bool predicted) {
  std::string text =
      "#!/bin/sh\n"
      "# A plan of perfpred, as jobs of Slurm. Each line starts the batch script with key, epochs and id of its run.\n";
  text += predicted
              ? "# --time: the 50 % quantile of the predicted time of each run, in whole minutes, rounded up: half "
                "of such runs\n# take longer. A limit for all but 1 in 1,000 jobs: perfpred predict --quantile "
                "0.999\n"
              : "# --time: the mean of the measured times of each run, in whole minutes, rounded up; some runs take "
                "longer.\n";
  text += "set -eu\n";
  std::size_t number = 0;
  for (const PlannedRun& run : plan.runs) {
    const PlannedRun* const last = number > 0 ? &plan.runs[number - 1] : nullptr;
    const bool follows = last != nullptr && last->device_index == run.device_index;
    ++number;
    text +=
        line_of(run, number, follows ? number - 1 : 0, follows ? last->start_sec + last->cost_sec : 0, terms, script);
  }
  return text;
}

}  // namespace perfpred
