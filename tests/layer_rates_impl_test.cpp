// SPDX-License-Identifier: Apache-2.0
// Rates of a device from layers measured on it, and from a probe. Made-up times follow the roofline of Williams,
// Waterman and Patterson (2009), so that what is to be found is known.
#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "evaluate/fit_report.h"
#include "optime/layers/layer_rates.h"
#include "optime/layers/layer_sampler.h"
#include "optime/layers/layer_step.h"
#include "optime/probe.h"
#include "refusal.h"
#include "temporary_folder.h"
#include "text/csv.h"
#include "text/files.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

constexpr double compute_share = 0.5, memory_share = 0.6, start_sec = 5e-6;

const Device& t4() {
  static const DeviceCatalogue devices;
  static const Device device = devices.find("T4");
  return device;
}

/// Each kernel takes the longer of its FLOPs and its bytes, and some time to start.
double made_up_seconds(const std::vector<StepKernel>& kernels) {
  double sec = 0;
  for (const StepKernel& kernel : kernels) {
    const bool product = kernel.group == StepGroup::product || kernel.group == StepGroup::recurrent;
    sec += std::max(product ? kernel.flops / (compute_share * *t4().matrix_flops(Precision::fp32)) : 0,
                    kernel.bytes / (memory_share * *t4().mem_bw_gbs * 1e9)) +
           kernel.calls * start_sec;
  }
  return sec;
}

LayerRow made_up(const LayerCase& layer, double factor = 1) {
  LayerRow row;
  row.layer = layer;
  row.device = "T4";
  const auto step = layer_step(layer, DeviceKind::gpu);
  std::vector<StepKernel> forward, backward, update;
  for (const StepKernel& kernel : step_kernels(step.executed)) {
    if (!step.own[kernel.op]) continue;
    const Phase phase = step.executed.graph().ops()[kernel.op].phase;
    (phase == Phase::forward ? forward : phase == Phase::backward ? backward : update).push_back(kernel);
  }
  row.forward_sec = factor * made_up_seconds(forward);
  if (!backward.empty()) row.backward_sec = factor * made_up_seconds(backward);
  if (!update.empty()) row.optimizer_sec = factor * made_up_seconds(update);
  row.step_sec = *row.forward_sec + row.backward_sec.value_or(0) + row.optimizer_sec.value_or(0);
  return row;
}

std::vector<LayerRow> made_up_layers(std::uint64_t seed, std::size_t count, double factor = 1) {
  std::vector<LayerRow> rows;
  for (const LayerType type : {LayerType::linear, LayerType::elementwise}) {
    SamplerOptions options;
    options.shapes = LayerShapes::log;
    options.seed = seed;
    options.ranges = {"linear.seq_len=16:512", "linear.in_features=64:4096", "linear.out_features=64:4096"};
    for (LayerCase layer : LayerSampler(options).draw(type, count)) {
      layer.activation = "none";
      rows.push_back(made_up(layer, factor));
    }
  }
  return rows;
}

DeviceProbe made_up_probe(double factor) {
  DeviceProbe probe;
  probe.device = t4();
  probe.layers = made_up_layers(5, 8, factor);
  probe.host_sec = 1e-6;
  return probe;
}

double predicted(const LayerRates& rates, const LayerPart& part, const StepDevice& device) {
  const std::vector<double> seconds = rates.kernel_seconds(part.kernels, device);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

TEST(LayerRates, FindTheConstantsThatTimesWereMadeWith) {
  const StepDevice device = step_device(t4(), Precision::fp32, StepArithmetic::as_graph);
  const auto known = parts_of(made_up_layers(1, 150), DeviceKind::gpu);
  const auto others = parts_of(made_up_layers(2, 60), DeviceKind::gpu);
  const LayerRates rates = LayerRates::fit(known, device, StepModel().parameters);
  std::vector<double> errors;
  for (const LayerPart& part : others) errors.push_back(std::abs(predicted(rates, part, device) / part.sec - 1));
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.03);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.15);  // at the roofline's corner, which the formula rounds
  EXPECT_GE(rates.groups.at(StepGroup::product).width, 0.05);
  EXPECT_LT(rates.groups.at(StepGroup::product).width, 0.2);

  // A large relu moves its bytes at the rate that was put in, a large product computes at it.
  LayerCase relu;
  relu.type = LayerType::elementwise;
  relu.variant = "relu";
  relu.batch_size = 64;
  relu.seq_len = 512;
  relu.in = 3000;
  const double elements = 64.0 * 512 * 3000;
  const auto forward_of = [&](const LayerCase& layer) {
    const auto parts = parts_of(std::vector<LayerRow>{made_up(layer)}, DeviceKind::gpu);
    return predicted(rates, parts.front(), device);
  };
  EXPECT_NEAR(forward_of(relu) / (8 * elements / (memory_share * *t4().mem_bw_gbs * 1e9)), 1, 0.05);
  LayerCase linear;
  linear.batch_size = 64;
  linear.seq_len = 256;
  linear.in = linear.out = 4000;
  linear.bias = false;
  const double flops = 2.0 * 64 * 256 * 4000 * 4000;
  EXPECT_NEAR(forward_of(linear) / (flops / (compute_share * *t4().fp32_tflops * 1e12)), 1, 0.08);
}

TEST(LayerRates, KindsOfAGroupHaveSpeedsOfTheirOwn) {
  const StepDevice device = step_device(t4(), Precision::fp32, StepArithmetic::as_graph);
  const auto slow_gelu = [](std::vector<LayerRow> rows) {
    for (LayerRow& row : rows) {
      if (row.layer.variant == "gelu") *row.forward_sec = 3 * (*row.forward_sec - start_sec) + start_sec;
    }
    return rows;
  };
  const LayerRates rates =
      LayerRates::fit(parts_of(slow_gelu(made_up_layers(1, 150)), DeviceKind::gpu), device, StepModel().parameters);
  LayerCase layer;
  layer.type = LayerType::elementwise;
  layer.batch_size = 64;
  layer.seq_len = 512;
  layer.in = 3000;
  for (const char* variant : {"gelu", "relu"}) {
    layer.variant = variant;
    const auto parts = parts_of(slow_gelu({made_up(layer)}), DeviceKind::gpu);
    EXPECT_NEAR(predicted(rates, parts.front(), device) / parts.front().sec, 1, 0.1) << variant;
  }
}

/// Recurrent layers whose positions take a time each, whatever else they are.
std::vector<LayerRow> made_up_rnns(std::uint64_t seed, double position_sec) {
  SamplerOptions options;
  options.seed = seed;
  std::vector<LayerRow> rows;
  for (const LayerCase& layer : LayerSampler(options).draw(LayerType::rnn, 60)) {
    rows.push_back(made_up(layer));
    const double in_turn = static_cast<double>(layer.seq_len * layer.num_layers * (layer.bidirectional ? 2 : 1));
    *rows.back().forward_sec += in_turn * position_sec;
    *rows.back().backward_sec += in_turn * position_sec;
  }
  return rows;
}

TEST(LayerRates, LearnHowLongAPositionOfARecurrentLayerTakes) {
  const StepDevice device = step_device(t4(), Precision::fp32, StepArithmetic::as_graph);
  const auto known = parts_of(made_up_rnns(1, 50e-6), DeviceKind::gpu);
  const LayerRates rates = LayerRates::fit(known, device, StepModel().parameters);
  EXPECT_TRUE(rates.knows(StepGroup::recurrent) || rates.knows(StepGroup::elementwise));
  std::vector<double> errors;
  for (const LayerPart& part : parts_of(made_up_rnns(2, 50e-6), DeviceKind::gpu)) {
    errors.push_back(std::abs(predicted(rates, part, device) / part.sec - 1));
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.1);
}

TEST(LayerRates, LayersOfADeviceOfOnesOwnAreLearnedUnderItsName) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("layers.csv");
  {
    LayerRecorder recorder(path);
    for (LayerRow row : made_up_layers(1, 100)) {
      row.device = "Maker My Card";
      recorder.append(row);
    }
  }
  EXPECT_THAT(refusal([&] { static_cast<void>(OpTimeModel::fit({}, {}, path)); }), HasSubstr("is not known"));
  Device own = t4();
  own.name = "My Card";
  own.aliases = {"Maker My Card"};
  DeviceCatalogue devices;
  devices.add(own);
  const std::string saved = folder.file("ops.json");
  OpTimeModel::fit({}, {}, path, devices).save(saved);
  Workload job = Workload::zoo("transformer:layers=2,hidden=512,heads=8,vocab=30000", 8);
  job.input = {128};
  job.device = "maker my card";
  EXPECT_EQ(TimeRegressor::load(saved, devices).predict(job).provenance, Provenance::probe);
  job.device = own.name;
  EXPECT_EQ(TimeRegressor::load(saved).predict(job).provenance, Provenance::probe);  // the file has its rates
  own.mem_bw_gbs = 400;
  devices.add(own);
  EXPECT_EQ(TimeRegressor::load(saved, devices).predict(job).provenance, Provenance::family);
}

TEST(LayerRates, WhatIsLearnedOfARowOfOnesOwnIsKnownOfItsRatesOnly) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("layers.csv"), saved = folder.file("ops.json");
  {
    LayerRecorder recorder(path);
    for (const LayerRow& row : made_up_layers(1, 100)) recorder.append(row);
  }
  Device own = t4();
  own.mem_bw_gbs = 300;
  DeviceCatalogue devices;
  devices.add(own);
  Workload job = Workload::zoo("transformer:layers=2,hidden=512,heads=8,vocab=30000", 8);
  job.input = {128};
  const OpGraph step = job.graph();
  OpTimeModel::fit({}, {}, path, devices).save(saved);
  OpTimeModel model = OpTimeModel::load(saved);
  EXPECT_EQ(model.predict(step, own, Precision::fp32).provenance, Provenance::probe);
  EXPECT_EQ(model.predict(step, t4(), Precision::fp32).provenance, Provenance::family);

  OpModelState state = load_op_model({});
  DeviceProbe probe = made_up_probe(1);
  probe.device = own;
  learn_probe(state, probe);
  model = OpTimeModel::load(folder.write("here.json", to_json(state).dump()));
  const OpGraph network = Workload::zoo("vgg11", 32).graph();
  EXPECT_EQ(model.predict(network, own, Precision::fp32).provenance, Provenance::probe);
  EXPECT_EQ(model.predict(network, t4(), Precision::fp32).provenance, Provenance::family);
}

TEST(LayerRates, LayersThatWereMeasuredTwiceCountWithTheirMeanTimes) {
  const testing::TemporaryFolder folder;
  const auto fitted = [&](const std::vector<double>& factors) {
    const std::string path = folder.file("layers.csv");
    std::string text = csv_line(names_of(layer_row_columns()));
    for (const double factor : factors) {
      for (const LayerRow& row : made_up_layers(1, 60, factor)) text += csv_line(fields_of(layer_row_columns(), row));
    }
    write_file(path, text);
    return fit_layers(read_layer_groups(path, DeviceCatalogue()), StepModel().parameters)
        .rates.at({"T4", Precision::fp32});
  };
  const LayerRates once = fitted({1}), twice = fitted({0.8, 1.2});
  for (const auto& [group, own] : once.groups) {
    EXPECT_EQ(twice.groups.at(group).parts, own.parts);
    EXPECT_NEAR(twice.groups.at(group).width, own.width, 0.01);
  }
}

TEST(LayerRates, AnOpModelFittedOnLayersAloneAnswersForTheirDevice) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("layers.csv"), saved = folder.file("ops.json");
  {
    LayerRecorder recorder(path);
    for (const LayerRow& row : made_up_layers(1, 100)) recorder.append(row);
    LayerRow failed;
    failed.device = "T4";
    failed.outcome = "oom";
    failed.layer.in = 5000;
    recorder.append(failed);
  }
  const OpTimeModel model = OpTimeModel::fit({}, {}, path);
  EXPECT_THAT(model.notes(), ElementsAre(path + ": 1 layers left out: their outcome is not ok"));
  EXPECT_TRUE(model.devices().empty());  // T4 is in the catalogue
  Workload job = Workload::zoo("transformer:layers=2,hidden=512,heads=8,vocab=30000", 8);
  job.input = {128};
  const OpGraph step = job.graph();
  const StepTime known = model.predict(step, t4(), Precision::fp32);
  EXPECT_EQ(known.provenance, Provenance::probe);
  EXPECT_NE(model.predict(step, t4(), Precision::fp16).provenance, Provenance::probe);
  model.save(saved);
  const StepTime again = OpTimeModel::load(saved).predict(step, t4(), Precision::fp32);
  EXPECT_NEAR(again.sec.p50 / known.sec.p50, 1, 1e-6);
  EXPECT_NEAR(again.sec.p95 / known.sec.p95, 1, 1e-6);

  const std::string few = folder.file("few.csv");
  { LayerRecorder(few).append(made_up_layers(1, 1).front()); }
  EXPECT_THAT(refusal([&] { static_cast<void>(OpTimeModel::fit({}, {}, few)); }),
              HasSubstr("layers on T4 in fp32: a fit needs"));

  const std::string none = folder.write("none.csv",
                                        "layer,batch_size,num_features,seq_len,device,precision,outcome,forward_ms\n"
                                        "softmax,1,8,8,A device with a long name,fp32,oom,\n");
  EXPECT_THAT(refusal([&] { static_cast<void>(OpTimeModel::fit({}, {}, none)); }),
              HasSubstr("A device with a long name"));

  const std::string failed = folder.file("failed.csv");
  {
    LayerRecorder recorder(failed);
    for (LayerRow row : made_up_layers(1, 8)) {
      row.outcome = "failed";
      recorder.append(row);
    }
  }
  EXPECT_THAT(refusal([&] { static_cast<void>(OpTimeModel::fit({}, {}, failed)); }),
              HasSubstr("layers left out: their outcome is not ok"));
}

TEST(LayerRates, DisturbedTimesCountWhereALayerHasNoOthers) {
  const testing::TemporaryFolder folder;
  const auto fitted = [&](const std::string& name, std::initializer_list<std::pair<const char*, double>> measured) {
    const std::string path = folder.file(name);
    LayerRecorder recorder(path);
    for (const auto& [outcome, factor] : measured) {
      for (LayerRow row : made_up_layers(1, 60)) {
        row.outcome = outcome;
        for (const auto time : {&LayerRow::forward_sec, &LayerRow::backward_sec, &LayerRow::optimizer_sec})
          if (row.*time) *(row.*time) *= factor;
        EXPECT_FALSE(recorder.holds(row)) << "a disturbed layer is measured again";
        recorder.append(row);
      }
    }
    return fit_layers(read_layer_groups(path, DeviceCatalogue()), StepModel().parameters);
  };
  const RatesKey key{"T4", Precision::fp32};
  const auto good = fitted("good.csv", {{"ok", 1}}), both = fitted("both.csv", {{"untrusted", 3}, {"ok", 1}}),
             alone = fitted("alone.csv", {{"untrusted", 1}});
  for (const MeasuredDevices* same : {&both, &alone}) EXPECT_EQ(same->rates.at(key).kinds, good.rates.at(key).kinds);
  EXPECT_THAT(good.notes, ElementsAre());
  EXPECT_THAT(both.notes, ElementsAre(HasSubstr("120 layers left out: their outcome is not ok")));
  EXPECT_THAT(alone.notes, ElementsAre(HasSubstr("120 layers have disturbed times only, which count")));
}

TEST(LayerRates, ADeviceThatMostlyWaitedForItsHostIsKnownByAFactorOfTwo) {
  const testing::TemporaryFolder folder;
  const auto fitted = [&](const std::string& name, std::size_t waiting) {
    const std::string path = folder.file(name);
    LayerRecorder recorder(path);
    std::vector<LayerRow> rows = made_up_layers(1, 100);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].host_sec = (i * 7 % rows.size() < waiting ? 1.0 : 0.1) * *rows[i].step_sec;
      recorder.append(rows[i]);
    }
    return fit_layers(read_layer_groups(path, DeviceCatalogue()), StepModel().parameters);
  };
  const auto width = [](const MeasuredDevices& known) {
    return known.rates.at({"T4", Precision::fp32}).groups.at(StepGroup::product).width;
  };
  const MeasuredDevices some = fitted("some.csv", 90), most = fitted("most.csv", 110);
  EXPECT_LT(width(some), 0.3);
  EXPECT_THAT(some.notes, ElementsAre(HasSubstr("90 layers left out: the device waited for its host")));
  EXPECT_DOUBLE_EQ(width(most), std::log(2.0));
  EXPECT_THAT(most.notes, ElementsAre(HasSubstr("110 layers left out"),
                                      HasSubstr("warning: 110 of 200 layers on T4 in fp32 waited for their host")));
}

std::vector<std::string> made_up_steps(const testing::TemporaryFolder& folder) {
  std::string text = "source,gpu,model,dataset,batch,precision,ms_per_step\n";
  for (int i = 1; i <= 10; ++i)
    text += fmt::format("x,T4,resnet{},imagenet,{},fp32,{}\n", i % 2 ? 18 : 50, 8 * i, 50 * i);
  return {folder.write("steps.csv", text)};
}

TEST(LayerRates, StepsOfADeviceAnswerWhereItsLayersMostlyWaited) {
  const testing::TemporaryFolder folder;
  const std::vector<std::string> steps = made_up_steps(folder);
  const DeviceCatalogue devices;
  const auto by_layers = [&](const std::string& layers) {
    const OpTimeModel model = OpTimeModel::fit({}, steps, layers, devices);
    EXPECT_EQ(OpModelAccess::state(model).steps.machines.size(), 1U);
    return std::pair(OpModelAccess::state(model).measured.rates.count({"T4", Precision::fp32}),
                     report_op_fit(model, steps, layers, devices).by_layers);
  };
  const auto layers = [&](const std::string& name, double waiting) {
    std::string path = folder.file(name);
    LayerRecorder recorder(path);
    std::vector<LayerRow> rows = made_up_layers(1, 100);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].host_sec = (static_cast<double>(i % 10) < 10 * waiting ? 1.0 : 0.1) * *rows[i].step_sec;
      recorder.append(rows[i]);
    }
    return path;
  };
  EXPECT_EQ(by_layers(layers("waited.csv", 0.7)), (std::pair<std::size_t, std::size_t>(0, 0)));
  EXPECT_EQ(by_layers(layers("computed.csv", 0.2)), (std::pair<std::size_t, std::size_t>(1, 10)));
}

/// Layers that are too long to wait for their host, with a factor of their times each. @param deviation  of its
/// logarithm
OpFitReport report_on_layers(double deviation) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("layers.csv");
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> noise(0, deviation);
  {
    LayerRecorder recorder(path);
    for (LayerRow& row : made_up_layers(1, 150)) {
      if (*row.step_sec < 1e-3) continue;
      const double factor = deviation > 0 ? noise(random) : 1;
      for (const auto time :
           {&LayerRow::forward_sec, &LayerRow::backward_sec, &LayerRow::optimizer_sec, &LayerRow::step_sec})
        if (row.*time) *(row.*time) *= factor;
      recorder.append(row);
    }
  }
  const DeviceCatalogue devices;
  return report_op_fit(OpTimeModel::fit({}, {}, path, devices), {}, path, devices);
}

TEST(LayerRates, AFitTellsItsErrorsOnLayersThatItLeftOut) {
  const OpFitReport exact = report_on_layers(0);
  EXPECT_EQ(exact.steps.metrics.time.n, 0U);
  EXPECT_EQ(exact.fitted.metrics.time.n, 50U);
  EXPECT_EQ(exact.left_out_layers.metrics.time.n, exact.fitted.metrics.time.n);
  EXPECT_LT(*exact.left_out_layers.metrics.time.mape, 0.025);
  EXPECT_GT(*exact.left_out_layers.coverage90, 0.75);
  EXPECT_EQ(coverage_warning(exact), "");

  // The mean of |x - 1| of this factor is 0.243; a fit that has seen a layer knows part of it.
  const OpFitReport noisy = report_on_layers(0.3);
  EXPECT_NEAR(*noisy.left_out_layers.metrics.time.mape, 0.243, 0.03);
  EXPECT_GT(*noisy.left_out_layers.metrics.time.mape, *noisy.fitted.metrics.time.mape);

  OpFitReport narrow = exact;
  narrow.left_out_layers.coverage90 = 0.548;
  EXPECT_THAT(coverage_warning(narrow), HasSubstr("hold 55 % of the"));
}

TEST(LayerRates, AFitTellsItsErrorsOnSteps) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("layers.csv");
  {
    LayerRecorder recorder(path);
    for (const LayerRow& row : made_up_layers(1, 100)) recorder.append(row);
  }
  const std::vector<std::string> steps = made_up_steps(folder);
  const DeviceCatalogue devices;
  const OpFitReport report = report_op_fit(OpTimeModel::fit({}, steps, path, devices), steps, path, devices);
  EXPECT_EQ(report.steps.metrics.time.n, 10U);
  EXPECT_GT(*report.steps.metrics.time.mape, 0);
  EXPECT_EQ(report.fitted.metrics.time.n, 10 + report.left_out_layers.metrics.time.n);
}

double probed_seconds(const DeviceProbe& probe) {
  const testing::TemporaryFolder folder;
  OpModelState state = load_op_model({});
  learn_probe(state, probe);
  const OpTimeModel model = OpTimeModel::load(folder.write("here.json", to_json(state).dump()));
  const Workload job = Workload::zoo("vgg11", 32);
  const StepTime time = model.predict(job.graph(), t4(), Precision::fp32);
  EXPECT_EQ(time.provenance, Provenance::probe);
  return time.device_sec;
}

TEST(Probe, ADeviceThatIsSlowerByAFactorIsPredictedSlower) {
  const double usual = probed_seconds(made_up_probe(1)), slow = probed_seconds(made_up_probe(1.5));
  EXPECT_GT(slow / usual, 1.25);  // shrunk towards other devices
  EXPECT_LT(slow / usual, 2);     // eight layers of each type do not say exactly how slow products are
}

TEST(Probe, KnowsTheHostInEveryPrecision) {
  const testing::TemporaryFolder folder;
  const OpGraph step = Workload::zoo("mobilenet_v2", 1).graph();
  const auto host_of = [&](double host_sec, Precision precision) {
    OpModelState state = load_op_model({});
    DeviceProbe probe = made_up_probe(1);
    probe.layers.erase(probe.layers.begin() + 1, probe.layers.end());  // one layer moves no host
    probe.host_sec = host_sec;
    learn_probe(state, probe);
    const OpTimeModel model = OpTimeModel::load(folder.write("here.json", to_json(state).dump()));
    const StepTime time = model.predict(step, t4(), precision);
    EXPECT_EQ(time.provenance == Provenance::probe, precision == Precision::fp32);
    return time.host_sec;
  };
  const double single = host_of(1e-6, Precision::fp32), twice = host_of(2e-6, Precision::fp32);
  EXPECT_NEAR(twice / single, 2, 0.2);
  EXPECT_NEAR(host_of(1e-6, Precision::fp16) / single, 1, 1e-6);  // the same operators
  EXPECT_NEAR(host_of(2e-6, Precision::fp16) / twice, 1, 1e-6);
}

// Kernels in fp32, softmax for one, are not what a probe in another precision has timed.
TEST(Probe, OtherPrecisionsTeachNoKernelsOfSinglePrecision) {
  for (const Precision precision : {Precision::fp64, Precision::fp16}) {
    OpModelState state = load_op_model({});
    const nlohmann::json before = to_json(state).at("kernels");
    DeviceProbe probe = made_up_probe(1);
    probe.precision = precision;
    for (LayerRow& row : probe.layers) {
      row.layer.precision = precision;
      for (auto* sec : {&row.forward_sec, &row.backward_sec, &row.step_sec}) {
        if (*sec) **sec *= 40;  // of a T4's fp64
      }
    }
    learn_probe(state, probe);
    const nlohmann::json after = to_json(state).at("kernels");
    for (const auto& [kind, model] : before.items()) {
      if (kind == "gemm_bf16") continue;
      EXPECT_EQ(after.at(kind), model) << kind;
    }
  }
}

TEST(Probe, IsRefusedIfItIsEmptyOrContradictsItself) {
  const auto refused = [](const DeviceProbe& probe) {
    OpModelState state = load_op_model({});
    return refusal([&] { learn_probe(state, probe); });
  };
  DeviceProbe probe = made_up_probe(1);
  probe.layers.clear();
  EXPECT_THAT(refused(probe), HasSubstr("the probe is empty"));
  probe = made_up_probe(1);
  *probe.layers.front().step_sec *= 12;  // as LibTorch's pooling on a CPU
  EXPECT_NO_THROW(([&] {
    OpModelState state = load_op_model({});
    learn_probe(state, probe);
  }()));
  *probe.layers.front().step_sec *= 1000;
  EXPECT_THAT(refused(probe), HasSubstr("contradicts itself"));
  // A busy machine may hold one layer up for a thousand times its time: then the others count.
  probe.layers.front().outcome = "untrusted";
  OpModelState with = load_op_model({}), without = load_op_model({});
  learn_probe(with, probe);
  probe.layers.erase(probe.layers.begin());
  learn_probe(without, probe);
  EXPECT_EQ(to_json(with), to_json(without));
  probe = made_up_probe(1);
  const auto largest = std::max_element(probe.layers.begin(), probe.layers.begin() + 8,
                                        [](const auto& a, const auto& b) { return *a.step_sec < *b.step_sec; });
  *largest->step_sec /= 1000;
  EXPECT_THAT(refused(probe), HasSubstr("contradicts the device"));
  probe = made_up_probe(1);
  probe.device.mem_bw_gbs = std::nullopt;
  EXPECT_THAT(refused(probe), HasSubstr("mem_bw_gbs"));
}

TEST(Probe, ChoosesTheLayersWithTheMostWork) {
  const auto layers = probe_layers({"vgg16", "bert_base"}, 4, Precision::fp32);
  const auto heavy = std::count_if(layers.begin(), layers.end(), [](const LayerCase& c) {
    return c.type == LayerType::conv2d || c.type == LayerType::linear || c.type == LayerType::attention;
  });
  EXPECT_EQ(heavy, 16);
  // VGG-16's second layer has more FLOPs than any other, three times: 3x3, 512 channels at 28 pixels twice, 256 at 56.
  EXPECT_EQ(layers.front().type, LayerType::conv2d);
  EXPECT_TRUE(
      std::any_of(layers.begin(), layers.end(), [](const LayerCase& c) { return c.type == LayerType::layernorm; }));
  EXPECT_EQ(layers, probe_layers({"vgg16", "bert_base"}, 4, Precision::fp32));
  EXPECT_THAT(refusal([] { static_cast<void>(probe_layers({"vgg61"}, 4, Precision::fp32)); }), HasSubstr("vgg61"));
}

}  // namespace
}  // namespace perfpred
