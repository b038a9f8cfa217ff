// SPDX-License-Identifier: Apache-2.0
// The fields of an op model's file.
#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "optime/op_model_state.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;

TEST(OpModelFile, KeepsParametersAndMachinesByName) {
  OpModelState state = OpModelAccess::state(OpTimeModel::standard());
  const MachineKey machine = {"a|b", "T4", Precision::default_, StepArithmetic::half, Layout::nhwc};
  state.steps.machines[machine] = {{0.1, -0.2, 0.3}, {"Ampere", true}, {2, true, false}, prior_means()};
  state.steps.conditions = {{"compiled", -0.1}, {"software=xla", 0.2}};
  state.steps.networks[{2, true, true}] = {0.25, {{{"net|work", 224}, 0.5}}};
  nlohmann::json json = to_json(state);
  const StepModel read = read_op_model(json).steps;
  ASSERT_EQ(read.machines.size(), state.steps.machines.size());
  EXPECT_EQ(read.effects_of(machine).memory, -0.2);
  EXPECT_EQ(read.parameters_of(machine).gap, prior_means().gap);
  EXPECT_EQ(read.known({"net|work", 224}, {2, true, true}, Phases::all).log_factor, 0.5);
  EXPECT_EQ(read.known({"net|work", 224}, {2, true, true}, Phases::all).width, 0.25);
  const auto complaint = [](const nlohmann::json& of) {
    try {
      (void)read_op_model(of);
    } catch (const ModelError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  nlohmann::json lacks = json;
  lacks["steps"]["parameters"].erase("gap");
  EXPECT_THAT(complaint(lacks), HasSubstr("\"gap\""));
  lacks = json;
  lacks["steps"]["machines"][0]["precision"] = "fp17";
  EXPECT_THAT(complaint(lacks), HasSubstr("fp17"));
  json["format"] = 8;
  EXPECT_THAT(complaint(json), HasSubstr("format 8 is not known"));
}

}  // namespace
}  // namespace perfpred
