#pragma once
// All of perfpred::core, in the order in which data flows.
// clang-format off

#include <perfpred/version.h>
#include <perfpred/error.h>
#include <perfpred/vocabulary.h>

// What is trained, and what it asks of a device.
#include <perfpred/shape.h>
#include <perfpred/workload.h>
#include <perfpred/workload_field.h>
#include <perfpred/workload_sweep.h>
#include <perfpred/network.h>
#include <perfpred/op_graph.h>

// What a device can do, and what a step takes there.
#include <perfpred/device.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/roofline.h>
#include <perfpred/complexity_tables.h>
#include <perfpred/step_report.h>

// What was measured.
#include <perfpred/run.h>
#include <perfpred/run_recorder.h>
#include <perfpred/run_log.h>
#include <perfpred/aggregate_row.h>
#include <perfpred/aggregator.h>

// What is expected of a job.
#include <perfpred/time_regressor.h>
#include <perfpred/prediction.h>
#include <perfpred/suggestion.h>
#include <perfpred/throughput_deriver.h>
#include <perfpred/forecast.h>
#include <perfpred/predictions_file.h>
#include <perfpred/features_file.h>
#include <perfpred/metrics.h>
#include <perfpred/evaluation.h>

// Which jobs to run.
#include <perfpred/knapsack_planner.h>
#include <perfpred/run_plan.h>

// What to make of samples, counters and logs.
#include <perfpred/step_samples.h>
#include <perfpred/stop_criterion.h>
#include <perfpred/benchmark_comparison.h>
#include <perfpred/iteration_log.h>
#include <perfpred/ncu_report.h>
#include <perfpred/roofline_study.h>
#include <perfpred/plot.h>
