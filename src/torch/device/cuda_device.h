// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace perfpred {

/// What the driver says about a GPU.
struct CudaDevice {
  std::string name;
  std::string pci_bus_id;  ///< "00000000:01:00.0"
  std::string capability;  ///< "8.0"
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  int sms = 0;
};

[[nodiscard]] int cuda_device_count();  ///< 0 without a driver
[[nodiscard]] CudaDevice cuda_device(int index);

[[nodiscard]] std::string cuda_version();                  ///< of the runtime built against: "13.0"
[[nodiscard]] std::optional<std::string> cudnn_version();  ///< loaded at run time: "9.19.0"

}  // namespace perfpred
