// SPDX-License-Identifier: Apache-2.0
// Models of one class of kernels.
#include "optime/kernel_model.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace perfpred
