// SPDX-License-Identifier: Apache-2.0
#include "parallel/stages.h"

#include <algorithm>

namespace perfpred {

std::vector<std::int64_t> in_flight(std::int64_t stage, std::int64_t stages, std::int64_t chunks,
                                    std::int64_t micro_batches) {
  if (chunks == 1) return {std::min(stages - stage, micro_batches)};
  const std::int64_t group = micro_batches % stages == 0 ? stages : micro_batches;
  std::int64_t passes = std::min(micro_batches * chunks, 1 + 2 * (stages - 1 - stage) + (chunks - 1) * group);
  std::vector<std::int64_t> held(static_cast<std::size_t>(chunks), 0);
  for (std::size_t chunk = 0; passes > 0; chunk = (chunk + 1) % held.size()) {
    const std::int64_t some = std::min(group, passes);
    held[chunk] += some;
    passes -= some;
  }
  return held;
}

}  // namespace perfpred
