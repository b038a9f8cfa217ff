// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <string>
#include <vector>

namespace perfpred {

/// A field of a workload, by its name in a key, and the values that it takes.
struct SweptField {
  std::string name;
  std::vector<std::string> values;  ///< none: the field stays as it is
};

/// Every combination of the values, the first field varying slowest. A network other than the base's brings its usual
/// input and classes; depth and base_filters go with `cifar_cnn` alone. `transformer:layers=2,hidden=64` may come in
/// the pieces into which a list's commas cut it.
/// @param fields  `network`, if it is among them, comes first
/// @throws InputError for a field that is not known, or a text that is no value of it
[[nodiscard]] std::vector<Workload> sweep_workloads(const Workload& base, const std::vector<SweptField>& fields);

/// The configurations of a table, one a row, its columns named as the fields of a key. What a row leaves out is as the
/// swept fields say, which have one value each, else the network's own input and classes, else the base's.
/// @throws InputError with file and line for a row that is no workload; for a field with several values
[[nodiscard]] std::vector<Workload> read_configurations(const std::string& path, const Workload& base,
                                                        const std::vector<SweptField>& fields);

}  // namespace perfpred
