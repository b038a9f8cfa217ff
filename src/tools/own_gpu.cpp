// SPDX-License-Identifier: Apache-2.0
#include "tools/own_gpu.h"

#include <fmt/format.h>

#include "catalogue/nvml.h"

namespace perfpred {

std::string take_own_gpu(std::vector<SweptField>& given, std::int64_t& reserved_by_others) {
  if (is_given(given, "device")) return {};
  const Nvml& nvml = Nvml::instance();
  void* const device = nvml.device(0);
  const std::optional<std::string> name = nvml.name(device);
  if (!name) return {};
  given.push_back({"device", {*name}});
  std::string note = fmt::format("--device is this machine's {}{}", nvml.devices() > 1 ? "first GPU, " : "", *name);
  const std::optional<std::int64_t> used = reserved_by_others == 0 ? nvml.used_bytes(device) : std::nullopt;
  if (!used || *used == 0) return note;
  reserved_by_others = *used;
  return fmt::format("{}, of which other programs hold {:.2f} GB now", note, 1e-9 * static_cast<double>(*used));
}

}  // namespace perfpred
