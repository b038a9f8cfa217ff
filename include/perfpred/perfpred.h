// SPDX-License-Identifier: Apache-2.0
#pragma once
// All of perfpred::core, in the order in which data flows.
// clang-format off

#include <perfpred/version.h>
#include <perfpred/error.h>
#include <perfpred/vocabulary.h>

// What is trained, and what it asks of a device.
#include <perfpred/workload.h>
#include <perfpred/network.h>
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>
#include <perfpred/op_rule_registry.h>

// What a device can do, and what a step takes there.
#include <perfpred/device.h>
#include <perfpred/executed_step.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/roofline.h>
#include <perfpred/op_time_model.h>
#include <perfpred/parallel_layout.h>

// What was measured.
#include <perfpred/run.h>
#include <perfpred/run_recorder.h>
#include <perfpred/training_log.h>
#include <perfpred/aggregator.h>

// What is expected of a job.
#include <perfpred/time_regressor.h>
#include <perfpred/prediction.h>
#include <perfpred/job_prediction.h>
#include <perfpred/suggestion.h>
#include <perfpred/throughput_deriver.h>
#include <perfpred/forecast.h>
#include <perfpred/answer.h>
#include <perfpred/explanation.h>
#include <perfpred/layouts.h>

// Which jobs to run.
#include <perfpred/knapsack_planner.h>
#include <perfpred/run_plan.h>

// What to make of samples, counters and logs.
#include <perfpred/step_samples.h>
