// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/vocabulary.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// How PyTorch executes a training step on a device: by CUDA or ROCm kernels, by CPU threads, or by a back-end of the
/// vendor (Trainium, Inferentia).
enum class DeviceKind { gpu, cpu, other };

[[nodiscard]] PERFPRED_API std::string_view to_string(DeviceKind kind);

/// Peak rates and sizes of a device, stated by its vendor or measured: a row of devices.csv. Rates are dense, in 10^12
/// FLOP/s; unknown values are empty.
struct PERFPRED_API Device {
  std::string name;
  std::vector<std::string> aliases;  ///< what drivers and people call it; several devices may share one ("V100")
  DeviceKind kind = DeviceKind::gpu;
  std::string vendor, arch;
  std::optional<double> year;
  /// Of the matrix units where there are some, else of the vector units; half precision accumulates in fp32.
  std::optional<double> fp64_tflops, fp32_tflops, tf32_tflops, bf16_tflops, fp16_tflops;
  std::optional<double> fp64_vector_tflops, fp32_vector_tflops, fp16_vector_tflops;
  std::optional<double> mem_gb;      ///< GB as the vendor counts them
  std::optional<double> mem_bw_gbs;  ///< 10^9 bytes/s
  std::optional<double> l2_mb;
  std::optional<double> sms;  ///< streaming multiprocessors, compute units, or CPU cores
  std::optional<double> boost_mhz, tdp_w;
  std::optional<double> launch_us;  ///< between the starts of two kernels that do nothing
  std::string source;               ///< of these figures

  /// FLOP/s of matrix products in this precision. A device without TF32 computes `tf32` at its fp32 rate.
  [[nodiscard]] std::optional<double> matrix_flops(Precision precision) const;

  /// FLOP/s of convolutions: as matrix products, but `default` computes them in TF32.
  [[nodiscard]] std::optional<double> convolution_flops(Precision precision) const;

  /// FLOP/s of everything else: half precision computes in fp32 there.
  [[nodiscard]] std::optional<double> vector_flops(Precision precision) const;

  /// mem_gb * 10^9. Where the vendor's GB is 2^30 bytes, the difference stands for what drivers and ECC take.
  [[nodiscard]] std::optional<double> memory_bytes() const;

  /// The CPU of this machine without its rates: its name is the model name that the kernel gives, `cpu` if there is
  /// none; `sms` are the CPUs that this thread may use.
  [[nodiscard]] static Device this_cpu();

  /// this_cpu() with its rates, measured now on all its cores, which takes about a second: fp32 and fp64 by a small
  /// matrix product, bandwidth by a copy that no cache holds.
  /// @throws Error if the system has too little memory for that, or refuses a thread
  [[nodiscard]] static Device measured_cpu();

  friend bool operator==(const Device&, const Device&) = default;
};

/// Devices by name: those of data/devices.csv, which the library carries inside, and the user's own.
class PERFPRED_API DeviceCatalogue {
 public:
  DeviceCatalogue();

  /// Adds the rows of a CSV with the columns of devices.csv; only `name` is mandatory. A row whose name is known
  /// already replaces that device, whose spelling of the name and aliases stay.
  /// @throws InputError (`file:line: ...`) for a file that cannot be read, a name twice, a name that is an alias of
  /// another device or has `;`, `cpu` as the name of another kind of device, a value that is not positive or not of a
  /// real device (another unit)
  void add(const std::string& path);

  /// Adds a device, or replaces the one of its name. @throws InputError as above for its name and values
  void add(Device device);

  [[nodiscard]] std::span<const Device> devices() const& { return devices_; }
  std::span<const Device> devices() && = delete;  // it would outlive what it looks at

  /// The device with this name or alias, without regard to case, blanks, `-` and `_`; `cpu`, or the name of this
  /// machine's CPU, is Device::this_cpu(), whose rates are unknown.
  /// @throws InputError for an unknown name, listing the nearest and all, or an alias of several devices, listing them
  [[nodiscard]] Device find(std::string_view name) const;

  /// As find(), but this machine's CPU has rates: Device::measured_cpu(), once per process.
  [[nodiscard]] Device find_measured(std::string_view name) const;

  /// The name that rows and models carry for what a user calls a device: `cpu` is this machine's CPU, which is not
  /// measured here; `unknown` stays. @throws InputError as find()
  [[nodiscard]] std::string full_name(std::string_view name) const;

  /// All devices that the name may mean; more than one for a shared alias, none for an unknown name.
  [[nodiscard]] std::vector<const Device*> candidates(std::string_view name) const&;
  std::vector<const Device*> candidates(std::string_view name) && = delete;

 private:
  [[nodiscard]] const Device& named(std::string_view name) const;

  std::vector<Device> devices_;
};

/// The one spelling of a device's name: the built-in catalogue's name if exactly one of its devices has this name or
/// alias, else the name unchanged.
[[nodiscard]] PERFPRED_API std::string canonical_device(std::string_view name);

}  // namespace perfpred
