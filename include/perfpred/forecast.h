// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/memory_estimate.h>
#include <perfpred/prediction.h>
#include <perfpred/time_regressor.h>
#include <perfpred/vocabulary.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// The quantile of a probability, of a quantity of which three quantiles are known: what a time limit is set by, since
/// one in twenty runs takes longer than p95. Of 0.05, 0.5 and 0.95 the three themselves; else the logarithm is taken
/// for Student's distribution with 4 degrees of freedom, scaled to p05 below the median and to p95 above. How often an
/// interval holds the truth was checked at 90 %; far beyond it the answer rests on this tail (docs/predict.md, A time
/// limit).
/// @param q  of positive numbers, in ascending order
/// @throws InputError if the probability is not above 0 and below 1
[[nodiscard]] PERFPRED_API double quantile(const Quantiles& q, double probability);

/// Terms of a job besides its workload.
struct JobTerms {
  double epochs = 1;            ///< > 0
  double startup_sec = 0;       ///< before the first ordinary epoch, >= 0
  std::int64_t evaluation = 0;  ///< samples that the network is judged on after each epoch, >= 0
  double checkpoint_sec = 0;    ///< to write the network to the disk once, >= 0
  double checkpoint_every = 1;  ///< epochs from one such writing to the next, > 0; the last one is written
  std::optional<double> price_per_hour = {};  ///< of each device, >= 0
  std::optional<double> budget_sec = {};      ///< > 0
  std::int64_t reserved_by_others = 0;        ///< bytes of the device's memory that other programs hold, >= 0
  bool find_largest_batch = false;            ///< takes some ten times as long as the rest of a forecast
  std::vector<double> quantiles = {};         ///< also asked for, each above 0 and below 1
  /// Fields of the workload that nobody stated. The interval is wide enough for other values of those among `layout`,
  /// `compiled`, `software` and `loader`, too, unless runs of the workload are known.
  std::vector<std::string> unstated = {};
};

/// What an interval would be if a field were stated.
struct Narrowing {
  std::string field;
  double half_width = 0;  ///< of the logarithm of the time, 90 %
};

/// Why a job on several devices takes longer than on one, where each of them does its share: shares of the time above
/// perfect scaling. They add up to 1; all are 0 if no time is lost.
struct ScalingLimits {
  double loader = 0;  ///< samples come no faster
  double host = 0;    ///< waiting for the host, and for the slowest device
  double links = 0;   ///< collectives and transfers that no computation hides
  double batch = 0;   ///< the operators of a rank are too small to fill its device
  double bubble = 0;  ///< a pipeline that fills and drains
};

/// A step of several devices beside one of one device.
struct Scaling {
  std::int64_t devices = 1;
  /// The share of one device's time that a step takes, of as many replicas that each train the same batches, over the
  /// devices of a replica: 1 is perfect. Above it where experts are shared, as each device reads fewer weights.
  double efficiency = 1;
  double exposed_comm_sec = 0;
  double critical_bucket_bytes = 0;  ///< of gradients whose all-reduce waits for its latency as long as for its links
  double intra_gb_s = 0, inter_gb_s = 0;  ///< that links within a node and between nodes are taken to have
  ScalingLimits limits;
};

/// One of a job's devices, by its places from 0.
struct Rank {
  std::int64_t stage = 0, tp = 0, ep = 0;
};

/// What a job takes no longer than with a probability; perfpred::quantile() says what it rests on.
struct QuantileOfJob {
  double q = 0;  ///< the probability
  double step_sec = 0, total_sec = 0;
};

/// Time, price and memory of a job before it is launched. Of a workload that does not know its epoch
/// (Workload::knows_epoch()) the seconds of an epoch and in total are NaN, price and epochs_in_budget empty; throughput
/// and breakdown are those of a step.
struct Forecast {
  Prediction prediction;  ///< of one epoch
  Quantiles images_per_sec;
  Quantiles total_sec;                        ///< start-up, all epochs, their evaluations, all checkpoints
  std::optional<Quantiles> evaluation_sec;    ///< of one evaluation, where the terms have one
  std::vector<QuantileOfJob> quantiles = {};  ///< that the terms ask for, in their order
  std::optional<Quantiles> price;             ///< of the total, where a price per hour is given
  std::optional<Quantiles> epochs_in_budget;  ///< whole epochs; p05 is the number for a slow run
  /// Peak of the job (memory_estimate.h). A device that the catalogue does not know is taken for a CPU if the workload
  /// has threads, else for a GPU. Empty where it is not known how the device allocates memory.
  std::optional<MemoryEstimate> memory;
  std::optional<std::int64_t> usable_bytes;  ///< of the device's memory, less what others hold; empty if unknown
  std::optional<MemoryVerdict> verdict;      ///< empty where one of the two is
  /// That fits, if the terms ask for it; 0 if none does. Empty where it is not known, as of a step that was captured at
  /// one batch size, and on several devices.
  std::optional<std::int64_t> largest_batch;
  std::optional<Quantiles> tokens_per_sec;  ///< of networks whose samples are sequences
  /// Model FLOPs utilisation (Chowdhery et al. 2022): the time of the step's convolutions and matrix products at the
  /// device's peaks for their types, those computed a second time left out, as a share of the expected step; empty
  /// where a peak is not known.
  std::optional<double> mfu;
  /// What limits the steps: the largest part of a hybrid's breakdown; `launch` if the op model's device waits for its
  /// host more than half of the time; else the roofline's bound; empty if the device's peaks are not known.
  std::optional<Bound> bound;
  std::vector<TimeTerm> breakdown;  ///< TimeRegressor::breakdown()
  Quantiles step_sec;               ///< of a step of batch_size samples, or of all of an epoch where these are fewer
  /// Of the unstated fields those that would narrow the interval most, at most two, the one worth most first.
  std::vector<Narrowing> narrow_by;
  std::optional<Scaling> scaling;  ///< of a job on several devices
  std::optional<Rank> rank;        ///< the fullest of a job on several devices, whose memory `memory` is
  double unknown_bytes = 0;        ///< share of a step's bytes that unknown operators move
};

/// Of a file's network whose graph is not known, which runs may answer, memory, verdict, mfu and unknown_bytes are
/// empty.
/// @throws InputError as TimeRegressor::predict(), or naming the term that is out of range
[[nodiscard]] PERFPRED_API Forecast forecast(const TimeRegressor& model, const Workload& workload,
                                             const JobTerms& terms = {});

}  // namespace perfpred
