// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/executed_step.h>
#include <perfpred/workload.h>

#include <memory>

namespace perfpred {

/// execute(workload.graph(), device, compiler_of(workload)); of DeviceKind::other the graph itself. Each thread keeps
/// the steps that it asked for last: asked for one again, it gets the same one, and of another batch size the same one
/// re-sized, if the step grows with its batch alone (StepGrowth). A captured step is kept until a rule of operators
/// changes.
/// @throws InputError as Workload::graph()
[[nodiscard]] std::shared_ptr<const ExecutedStep> executed_step(const Workload& workload, DeviceKind device);

}  // namespace perfpred
