// SPDX-License-Identifier: Apache-2.0
#include "torch/device/runtime_device.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <perfpred/device.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "catalogue/device_table.h"
#include "torch/device/cuda_device.h"
#include "torch/device/torch_errors.h"

namespace perfpred {
namespace {

c10::Device cuda(int index) {
  const int count = cuda_device_count();
  if (count == 0) throw DeviceError("device cuda: this machine has no CUDA device");
  if (index >= count) throw DeviceError(fmt::format("device cuda:{}: this machine has {} CUDA devices", index, count));
  const c10::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  guard_torch([device] {
    at::globalContext().lazyInitDevice(at::kCUDA);
    at::accelerator::setDeviceIndex(device.index());
  });
  return device;
}

}  // namespace

c10::Device runtime_device(std::string_view text) {
  if (text == "cpu") return c10::kCPU;
  if (text == "auto") return cuda_device_count() > 0 ? cuda(0) : c10::Device(c10::kCPU);
  if (text == "cuda") return cuda(0);
  constexpr std::string_view prefix = "cuda:";
  if (text.starts_with(prefix)) {
    int index = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + prefix.size(), end, index);
    if (error == std::errc() && stop == end && index >= 0 && index <= 127) return cuda(index);
  }
  throw InputError(fmt::format("device \"{}\" is not auto, cpu, cuda or cuda:N", text));
}

c10::Device runtime_device(std::string_view text, int local_rank, int processes) {
  if (processes == 1) return runtime_device(text);
  const int gpus = text == "cpu" ? 0 : cuda_device_count();
  if (text == "auto" && gpus == 0) text = "cpu";
  if (text != "auto" && text != "cuda") {
    const c10::Device one = runtime_device(text);
    if (!one.is_cpu())
      throw InputError(fmt::format("device {} is one for {} replicas: cuda gives each its own", text, processes));
    return one;
  }
  if (gpus < processes)
    throw DeviceError(fmt::format("{} replicas need as many CUDA devices: this machine has {}", processes, gpus));
  return cuda(local_rank);
}

std::string device_name(c10::Device device) {
  if (device.is_cpu()) {
    const std::string model = cpu_model_name();
    return model.empty() ? "unknown" : model;
  }
  return guard_torch([device] { return cuda_device(device.index()).name; });
}

std::optional<int> use_cpu_threads(c10::Device device, std::optional<int> asked, int processes) {
  if (!device.is_cpu()) {
    if (asked) throw InputError("threads are those of a CPU, and the device is a GPU");
    return std::nullopt;
  }
  const int most = std::max(cpu_threads(), static_cast<int>(std::thread::hardware_concurrency()));
  if (asked && !(*asked >= 1 && *asked <= most))
    throw InputError(fmt::format("threads {} is not between 1 and this machine's {}", *asked, most));
  const int threads = asked.value_or(std::max(1, cpu_threads() / processes));
  at::set_num_threads(threads);
  return threads;
}

int cpu_threads() { return at::get_num_threads(); }

}  // namespace perfpred
