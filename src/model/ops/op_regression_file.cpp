// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <cmath>

#include "model/ops/op_regression.h"
#include "optime/op_model_state.h"
#include "optime/standard_ops.h"
#include "text/json.h"
#include "text/model_json.h"

namespace perfpred {
namespace {

/// The text of an op model's file: of the standard model that of the library, by which it is known again.
std::string prior_text(const OpPrior& prior) {
  return prior.is_standard() ? std::string(standard_ops) : dumped(to_json(OpModelAccess::state(prior.model())));
}

/// @param model  prior_text(), or, up to format 6, the document
std::shared_ptr<const OpTimeModel> read_prior(const nlohmann::json& model) {
  const auto read = [](const nlohmann::json& document) {
    return std::make_shared<const OpTimeModel>(OpModelAccess::model(read_op_model(document)));
  };
  if (model.is_object()) return read(model);
  if (!model.is_string()) refuse_field("model", "the text of an op model");
  const std::string& text = model.get_ref<const std::string&>();
  if (text == standard_ops) return nullptr;
  const auto document = parse_json<nlohmann::json>(text);
  if (!document.is_object()) refuse_field("model", "the text of an op model");
  return read(document);
}

}  // namespace

std::vector<Workload> OpRegression::workloads() const {
  std::vector<Workload> workloads;
  for (const OpError& row : rows()) workloads.push_back(row.workload);
  return workloads;
}

nlohmann::json OpRegression::to_json(const FileRows& file) const {
  nlohmann::json rows = nlohmann::json::array();
  for (const OpError& row : this->rows()) {
    rows.push_back({{"workload", file.place(row.workload.key())},
                    {"log_ratio", row.log_ratio},
                    {"label_variance", row.label_variance},
                    {"runs", row.runs},
                    {"deviation", row.input.deviation},
                    {"features", vector_json(row.input.features)},
                    {"slopes", vector_json(row.input.slopes)}});
  }
  return {{"model", prior_text(*prior_)}, {"scale", spread().scale}, {"noise", spread().noise}, {"rows", rows}};
}

OpRegression OpRegression::read(const nlohmann::json& json, const FileRows& file) {
  OpRegression regression(std::make_shared<const OpPrior>(read_prior(json_field(json, "model"))));
  const ErrorSpread spread{json_number(json, "scale"), json_number(json, "noise")};
  std::vector<OpError> rows;
  if (!(spread.scale > 0 && spread.scale <= 100)) refuse_field("scale", "in (0, 100]");
  if (!(spread.noise > 0 && spread.noise <= 100)) refuse_field("noise", "in (0, 100]");
  for (const nlohmann::json& item : json_objects(json, "rows")) {
    const Workload& workload = file.workload(file.place_in(item, "workload"));
    const OpFeatures features = json_vector(item, "features", OpFeature::count);
    const ByEffect slopes = json_vector(item, "slopes", ByEffect::SizeAtCompileTime);
    OpError row{workload, {workload, json_non_negative(item, "deviation"), features, slopes}};
    if (!features.allFinite() || features.cwiseAbs().maxCoeff() > 1e6) refuse_field("features", "of usual size");
    if (!(slopes.cwiseAbs().maxCoeff() <= 1)) refuse_field("slopes", "of usual size");
    if (!(row.input.deviation <= max_abs_log)) refuse_field("deviation", "of usual size");
    row.log_ratio = json_log(item, "log_ratio");
    row.label_variance = json_non_negative(item, "label_variance");
    if (!(row.label_variance <= max_abs_log)) refuse_field("label_variance", "of usual size");
    row.runs = json_positive_integer(item, "runs");
    rows.push_back(std::move(row));
  }
  regression.solve(std::move(rows), spread);
  return regression;
}

}  // namespace perfpred
