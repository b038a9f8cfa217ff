// SPDX-License-Identifier: Apache-2.0
#include "tools/features_file.h"

#include "model/hybrid/step_shape.h"
#include "model/kinds/features.h"
#include "text/csv.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {

void write_features(const std::string& path, std::span<const AggregateRow> rows, const DeviceCatalogue& devices) {
  AtomicFile file(path);
  std::vector<std::string> names = {"key"};
  names.insert(names.end(), feature_names.begin(), feature_names.end());
  names.insert(names.end(), {"steps", "samples", "layers", "other_ops", "flops", "elements", "conv_params",
                             "deep_params", "dense_params", "avg_time_mean"});
  file.write(csv_line(names));
  for (const AggregateRow& row : rows) {
    std::vector<std::string> fields = {row.workload.key()};
    if (row.workload.depth()) {
      for (const double value : features_of(row.workload)) fields.push_back(number_text(value));
    } else {
      fields.resize(fields.size() + feature_names.size());
    }
    const StepShape shape(row.workload, devices.resolve(row.workload.device).kind(row.workload.threads.has_value()));
    double flops = 0, elements = shape.other_elements, conv = 0, deep = 0, dense = 0;
    for (const StepLayer& layer : shape.layers()) {
      flops += layer.flops;
      elements += layer.elements;
      (layer.is_dense() ? dense : layer.is_deep() ? deep : conv) += layer.params;
    }
    const auto layers = static_cast<double>(shape.layers().size());
    for (const double value :
         {shape.steps, shape.samples, layers, shape.other_ops, flops, elements, conv, deep, dense}) {
      fields.push_back(number_text(value));
    }
    fields.push_back(number_text(row.avg_time_mean));
    file.write(csv_line(fields));
  }
  file.commit();
}

}  // namespace perfpred
