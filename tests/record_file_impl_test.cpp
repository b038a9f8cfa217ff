// SPDX-License-Identifier: Apache-2.0
// Files of recorded networks (docs/formats.md), written by hand: what they say, and what is refused.
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "network/records.h"
#include "refusal.h"
#include "step/record_file.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using testing::refusal;
using testing::TemporaryFolder;

std::string packed(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  const lzma_ret code =
      lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                              text.size(), reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size());
  if (code != LZMA_OK) throw std::runtime_error("xz refuses");
  out.resize(size);
  return out;
}

// y = x w with x of [batch, 4] and w of [4, 3], whose gradient is x^T times ones.
const std::string head = R"({"format": 2, "layers": ["fc"], "kinds": [
{"sizes": [2, 4], "strides": [4, 1], "growth": [1, 0], "dtype": "float32", "role": "input"},
{"sizes": [4, 3], "strides": [3, 1], "dtype": "float32", "role": "parameter"},
{"sizes": [2, 3], "strides": [3, 1], "growth": [1, 0], "dtype": "bfloat16", "role": "activation"},
{"sizes": [2, 3], "strides": [3, 1], "growth": [1, 0], "dtype": "float32", "role": "temporary"},
{"sizes": [4, 3], "strides": [3, 1], "dtype": "float32", "role": "gradient"},
{"sizes": [4, 2], "strides": [1, 4], "growth": [0, 1], "dtype": "float32", "role": "input"}],
"calls": [{"name": "aten::mm", "phase": "forward", "operands": [2, 1]},
{"name": "aten::ones_like", "phase": "backward", "operands": [1, 1]},
{"name": "aten::mm", "phase": "backward", "operands": [2, 1]}], "steps": [)";
const std::string described = R"({"input": "4", "form": "fp32", "precision": "fp32", "batch_size": 2, )"
                              R"("other_batch_size": 4})";
const std::string in_half = R"(, {"input": "4", "form": "autocast", "precision": "bf16", "batch_size": 2, )"
                            R"("other_batch_size": 4})";
const std::string step = R"({"tensors": [0,0, 1,0, 2,0, 3,0, 5,4, 4,0], "bytes": [], "updates": [1,5,1], )"
                         R"("ops": [0,1, 1,1,1, 0,  1,-1, 2,1, 1,2,  2,0, 1,3,1, 2,2,5]})";

std::string without_line_feeds(std::string text) {
  std::erase(text, '\n');
  return text + "\n";
}

class RecordFile : public ::testing::Test {
 protected:
  OpGraph step_of(const std::string& bytes, const Workload& training) {
    Record record;
    record.name = "linear@1";
    record.inputs = {{4}};
    record.batches = batches_;
    record.file = folder_.write(std::to_string(++files_) + ".xz", bytes);
    return recorded_step(record, training);
  }

  static Workload training(std::int64_t batch) {
    Workload job;
    job.input = {4};
    job.batch_size = batch;
    job.network = "linear@1";
    job.optimizer = Optimizer::sgd;
    return job;
  }

  std::string whole() const {
    return without_line_feeds(head + described + in_half + "]}") + step + "\n" + step + "\n";
  }

  std::vector<std::int64_t> batches_;
  TemporaryFolder folder_;
  int files_ = 0;
};

TEST_F(RecordFile, HoldsTheStepOfAnyBatchAndItsUpdate) {
  const OpGraph graph = step_of(packed(whole()), training(5));
  EXPECT_EQ(graph.totals(Phase::forward).conv_matmul_flops, 2 * 5 * 4 * 3);
  EXPECT_EQ(graph.totals(Phase::backward).conv_matmul_flops, 2 * 4 * 5 * 3);
  EXPECT_EQ(graph.params(), 4 * 3);
  ASSERT_EQ(graph.totals(OpKind::fused_sgd).ops, 1);
  const Op& update =
      *std::find_if(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.kind == OpKind::fused_sgd; });
  EXPECT_EQ(graph.tensors()[graph.inputs(update)[0]].role, TensorRole::parameter);
  EXPECT_EQ(graph.tensors()[graph.inputs(update)[1]].role, TensorRole::gradient);
  EXPECT_EQ(graph.layer_name(graph.ops()[0]), "fc");
  EXPECT_EQ(graph.layer_name(graph.ops()[1]), "");
}

TEST_F(RecordFile, FreesWhatTheFileSays) {
  const OpGraph graph = step_of(packed(whole()), training(2));
  std::vector<std::pair<std::size_t, std::string>> freed;
  for (const auto& [op, id] : graph.frees()) freed.emplace_back(op, graph.shape(id).text());
  ASSERT_GE(freed.size(), 3U);
  freed.resize(3);
  EXPECT_THAT(freed, ::testing::ElementsAre(std::pair(1, "2x3"), std::pair(2, "2x4"), std::pair(2, "2x3")));
}

TEST_F(RecordFile, HasTheOtherHalfTypeInFp16) {
  const auto type_of_result = [&](Precision precision) {
    Workload job = training(2);
    job.precision = precision;
    const OpGraph graph = step_of(packed(whole()), job);
    return graph.tensors()[graph.outputs(graph.ops()[0])[0]].type;
  };
  EXPECT_EQ(type_of_result(Precision::bf16), DataType::bf16);
  EXPECT_EQ(type_of_result(Precision::fp16), DataType::f16);
}

// Memory of a graph with frees lives to the end unless it is freed: the temporaries of an update that consists of many
// operators, too.
TEST_F(RecordFile, FreesTheTemporariesOfTheUpdate) {
  Workload job = training(2);
  job.optimizer = Optimizer::adadelta;
  const OpGraph graph = step_of(packed(whole()), job);
  std::vector<TensorId> freed;
  for (const auto& [op, id] : graph.frees()) freed.push_back(id);
  for (TensorId id = 0; id < graph.tensors().size(); ++id) {
    const Tensor& tensor = graph.tensors()[id];
    if (tensor.storage != id || tensor.role != TensorRole::temporary) continue;
    EXPECT_NE(std::find(freed.begin(), freed.end(), id), freed.end()) << id;
  }
}

TEST_F(RecordFile, AnswersForTheBatchesThatAreThereWhereThereAreSeveral) {
  batches_ = {2};
  EXPECT_EQ(step_of(packed(whole()), training(2)).params(), 12);
  EXPECT_THAT(refusal([&] { (void)step_of(packed(whole()), training(3)); }),
              HasSubstr("network linear@1 was recorded with batches of 2, not 3"));
}

TEST_F(RecordFile, IsRefusedInOneLineWhereItIsDamaged) {
  const std::string good = packed(whole());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = whole();
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return packed(text.replace(at, from.size(), to));
  };
  const std::vector<std::pair<std::string, const char*>> cases = {
      {good.substr(0, good.size() / 2), "is cut off or damaged"},
      {good.substr(0, good.size() - 1), "is cut off or damaged"},
      {"", "is cut off or damaged"},
      {whole(), "is not a file that xz packed"},
      {packed(""), "has too few lines"},
      {packed(without_line_feeds(head + described + "]}")), "has too few lines"},
      {replaced("\"format\": 2", "\"format\": 3"), "is not a record of format 2"},
      {replaced("\"tensors\": [0,0", "\"tensors\": [9,0"), "9 is not an integer in 0..5"},
      {replaced("5,4, 4,0]", "5,9, 4,0]"), "there is none 9 back"},
      {replaced("5,4, 4,0]", "5]"), "is too short"},
      {replaced("\"ops\": [0,1, 1", "\"ops\": [0,2, 1"), "there is no layer 1"},
      {replaced("2,0, 1,3,1, 2,2,5", "2,0, 1,3,0, 0"), "has not the operands of mm"},
      {replaced("2,0, 1,3,1", "2,0, 1,9,1"), "there is none 8 back"},
      {replaced("\"updates\": [1,5,1]", "\"updates\": [1,6,1]"), "6 is not an integer in 0..5"}};
  for (const auto& [bytes, says] : cases) {
    const std::string said = refusal([&, one = bytes] { (void)step_of(one, training(2)); });
    EXPECT_THAT(said, HasSubstr(says));
    EXPECT_THAT(said, HasSubstr(".xz: ")) << says;
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace perfpred
