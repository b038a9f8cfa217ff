// SPDX-License-Identifier: Apache-2.0
#include "torch/device/cuda_device.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDAFunctions.h>

#include <fmt/format.h>

namespace perfpred {

int cuda_device_count() { return c10::cuda::device_count(); }

CudaDevice cuda_device(int index) {
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(index));
  CudaDevice device;
  device.name = properties->name;
  device.pci_bus_id =
      fmt::format("{:08x}:{:02x}:{:02x}.0", properties->pciDomainID, properties->pciBusID, properties->pciDeviceID);
  device.capability = fmt::format("{}.{}", properties->major, properties->minor);
  device.memory_bytes = static_cast<std::int64_t>(properties->totalGlobalMem);
  device.l2_bytes = properties->l2CacheSize;
  device.sms = properties->multiProcessorCount;
  return device;
}

std::string cuda_version() { return fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10); }

std::optional<std::string> cudnn_version() {
  const auto& hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCuDNN()) return std::nullopt;
  const long version = hooks.versionRuntimeCuDNN();
  return fmt::format("{}.{}.{}", version / 10'000, version % 10'000 / 100, version % 100);
}

}  // namespace perfpred
