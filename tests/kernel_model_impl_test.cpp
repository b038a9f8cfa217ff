// SPDX-License-Identifier: Apache-2.0
// Models of one class of kernels.
#include "optime/kernel_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "made_up_ops.h"
#include "optime/op_rows.h"

namespace perfpred {
namespace {

// Eight rows that are off by a factor of 1.4, four of them upwards: a normal distribution of that deviation has a 90 %
// interval of 1.645 times log 1.4 to either side.
TEST(KernelModel, AProbeWhoseRowsScatterWidensTheInterval) {
  const testing::TemporaryFolder files;
  testing::write_made_up_ops(files);
  const OpFolder folder = read_op_folder(files.path());
  std::vector<const OpRow*> known, probe;
  for (const OpRow& row : folder.rows) {
    if (row.kernel.kind != KernelClass::linear) continue;
    if (row.gpu != "T4") {
      known.push_back(&row);
    } else if (probe.size() < 8 && row.sec > 1e-3) {
      probe.push_back(&row);
    }
  }
  ASSERT_EQ(probe.size(), 8U);
  const auto width = [&](double factor) {
    std::vector<OpRow> rows;
    for (std::size_t i = 0; i < probe.size(); ++i) {
      rows.push_back(*probe[i]);
      rows.back().sec *= i % 2 == 0 ? factor : 1 / factor;
    }
    std::vector<const OpRow*> scattered;
    for (const OpRow& row : rows) scattered.push_back(&row);
    KernelModels models = KernelModels::fit(known, folder.gpus);
    models.probe(folder.gpus.at("T4"), scattered);
    const KernelModel* model = models.of(KernelClass::linear);
    return model->predict(probe[0]->kernel, folder.gpus.at("T4"), true).half_width();
  };
  EXPECT_LT(width(1), 0.2);
  EXPECT_NEAR(width(1.4), 1.645 * std::log(1.4), 0.2);
}

// A T4 whose memory is half as fast as others'. One product, as long as expected, says nothing of that.
TEST(KernelModel, AProbeKeepsWhatIsKnownOfTheDevice) {
  const testing::TemporaryFolder files;
  testing::write_made_up_ops(files);
  OpFolder folder = read_op_folder(files.path());
  for (OpRow& row : folder.rows) {
    if (row.gpu == "T4" && row.kernel.kind == KernelClass::elementwise) row.sec *= 2;
  }
  const Hardware& t4 = folder.gpus.at("T4");
  KernelModels models = KernelModels::fit(pointers_to(folder.rows), folder.gpus);
  const auto long_call = std::find_if(folder.rows.begin(), folder.rows.end(), [](const OpRow& row) {
    return row.gpu == "T4" && row.kernel.kind == KernelClass::elementwise && row.sec > 1e-3;
  });
  ASSERT_NE(long_call, folder.rows.end());
  const KernelModel& model = *models.of(KernelClass::elementwise);
  const KernelEstimate before = model.predict(long_call->kernel, t4, true);
  OpRow as_expected = *long_call;
  as_expected.sec = std::exp(before.log_sec);
  models.probe(t4, {&as_expected});
  const KernelEstimate after = model.predict(long_call->kernel, t4, true);
  EXPECT_NEAR(after.log_sec, before.log_sec, 1e-3);
  EXPECT_LE(after.half_width(), 1.01 * before.half_width());
  Kernel other = long_call->kernel;
  other.m *= 4;
  EXPECT_NEAR(std::exp(model.predict(other, t4, true).log_sec - before.log_sec), 4, 0.4);
}

}  // namespace
}  // namespace perfpred
