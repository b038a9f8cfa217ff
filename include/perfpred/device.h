// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/vocabulary.h>

#include <cstddef>
#include <cstdint>
#include <memory>
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
  std::optional<double> mem_gb;  ///< GB as the vendor counts them
  std::optional<double>
      usable_gib;  ///< 2^30 bytes that a program can have (total_memory of PyTorch's device properties)
  std::optional<double> mem_bw_gbs;  ///< 10^9 bytes/s
  std::optional<double> l2_mb;
  std::optional<double> sms;  ///< streaming multiprocessors, compute units, or CPU cores
  std::optional<double> boost_mhz, tdp_w;
  std::optional<double> launch_us;  ///< between the starts of two kernels that do nothing
  std::string source;               ///< of these figures
  std::string mem_type;             ///< `HBM3`, `GDDR6X`, ...
  std::optional<double> bus_bits;   ///< width of the memory's bus
  std::optional<double> base_mhz;   ///< clock that the vendor promises under any load
  std::optional<double> mem_mhz;    ///< clock of the memory, which transfers several bits a pin and clock
  std::optional<double> cores;      ///< lanes of the vector units in single precision, of all multiprocessors
  std::string bus;                  ///< to the host: `PCIe 4.0 x16`, ...
  /// Of the matrix units where there are some: 10^12 operations/s; fp8 accumulates in fp32.
  std::optional<double> int8_tops, fp8_tflops, fp4_tflops;

  /// FLOP/s of matrix products in this precision. A device without TF32 computes `tf32` at its fp32 rate.
  [[nodiscard]] std::optional<double> matrix_flops(Precision precision) const;

  /// FLOP/s of convolutions: as matrix products, but `default` computes them in TF32.
  [[nodiscard]] std::optional<double> convolution_flops(Precision precision) const;

  /// FLOP/s of everything else: half precision computes in fp32 there.
  [[nodiscard]] std::optional<double> vector_flops(Precision precision) const;

  /// Bytes that a program can have: usable_gib, else by mem_gb. GPUs' GB are 2^30 bytes; NVIDIA's drivers keep 1.5 %
  /// (23.64 GiB of an RTX 4090's 24 are left), with the error correction of servers' GDDR 7.5 %, AMD's 0.1 %; others'
  /// GB are taken for 10^9 bytes.
  [[nodiscard]] std::optional<std::int64_t> usable_bytes() const;

  /// The CPU of this machine without its rates: its name is the model name that the kernel gives, `cpu` if there is
  /// none; `sms` are the CPUs that this thread may use.
  [[nodiscard]] static Device this_cpu();

  /// this_cpu() with its rates, measured now on all its cores, which takes about a second: fp32 and fp64 by a small
  /// matrix product, bandwidth by a copy that no cache holds.
  /// @throws Error if the system has too little memory for that, or refuses a thread
  [[nodiscard]] static Device measured_cpu();

  friend bool operator==(const Device&, const Device&) = default;
};

/// What a text says of a device: its row in the catalogue, this machine's CPU where no row is of it, one of several
/// devices that share an alias, or nothing.
enum class DeviceOrigin { row, this_cpu, ambiguous, unknown };

class DeviceCatalogue;

/// What a text means in a catalogue. Points into the catalogue and the text: valid until these change, move or go.
struct PERFPRED_API ResolvedDevice {
  const DeviceCatalogue* catalogue;
  std::string_view text;
  const Device* device;  ///< null where the origin is `ambiguous` or `unknown`
  DeviceOrigin origin;

  /// A device that is not known is a CPU if its job has CPU threads, else a GPU.
  [[nodiscard]] DeviceKind kind(bool has_threads) const;

  /// Whether it is this machine's CPU, whose rates are not known before DeviceCatalogue::set_cpu().
  [[nodiscard]] bool lacks_rates() const;

  /// @throws InputError for an unknown name, with the three nearest of its class (of the same letters before the first
  /// digit), for several devices (`8xT4`), or for an alias that several have, listing them
  [[nodiscard]] const Device& known() const;

  /// The device, for those who compute with its rates.
  /// @throws InputError as known(), or naming the calls that measure them if it lacks_rates()
  [[nodiscard]] const Device& rated() const;

  /// The name that rows and models carry for it; `unknown` stays. @throws InputError as known()
  [[nodiscard]] std::string full_name() const;
};

class Links;

/// Devices by name: those of data/devices.csv, which the library carries inside, the user's own, and this machine's
/// CPU.
class PERFPRED_API DeviceCatalogue {
 public:
  DeviceCatalogue();

  /// Adds the rows of a CSV with the columns of devices.csv; only `name` is mandatory. A row whose name is known
  /// already replaces that device, whose spelling of the name and aliases stay. An `arch` that is one of the built-in
  /// catalogue's but for case and punctuation gets its spelling.
  /// @returns a line for each column of the file that devices.csv does not have, which nothing reads
  /// @throws InputError (`file:line: ...`) for a file that cannot be read, a name twice, a name that is an alias of
  /// another device or has `;`, `cpu` as the name of another kind of device, a value that is not positive or not of a
  /// real device (another unit)
  std::vector<std::string> add(const std::string& path);

  /// Adds a table of links (docs/formats.md), of the clusters that workloads name. @throws InputError (`file:line:
  /// ...`)
  void add_links(const std::string& path);

  [[nodiscard]] const Links& links() const& { return *links_; }
  const Links& links() && = delete;

  /// Adds a device, or replaces the one of its name. @throws InputError as above for its name and values
  void add(Device device);

  /// Sets what is known of this machine's CPU, for texts that mean it and have no row: Device::measured_cpu(), or what
  /// that returned earlier. Until then its rates are not known: nothing but this call's caller measures them.
  /// @throws InputError as add(), or if it is another CPU
  void set_cpu(Device measured);

  [[nodiscard]] std::span<const Device> devices() const&;
  std::span<const Device> devices() && = delete;  // it would outlive what it looks at

  /// What a text means: the device with this name or alias, without regard to case, blanks, `-` and `_`. What vendors
  /// and drivers write around a name may be there (`NVIDIA GeForce RTX 4090`, `AMD Instinct MI300X`), and the memory at
  /// its end, which parts devices that share an alias (`Tesla V100 32GB`). `cpu` and the model name of this machine's
  /// CPU mean the same device: the row that has one of them, else Device::this_cpu() with the rates of set_cpu(). All
  /// that reads names of devices asks here.
  [[nodiscard]] ResolvedDevice resolve(std::string_view text) const&;
  ResolvedDevice resolve(std::string_view text) && = delete;

  /// resolve().known(): a device by any of its names. @throws InputError as that
  [[nodiscard]] Device find(std::string_view text) const { return resolve(text).known(); }

  /// resolve().full_name(). @throws InputError as that
  [[nodiscard]] std::string full_name(std::string_view text) const { return resolve(text).full_name(); }

  /// All rows that the text may mean; more than one for a shared alias, none for an unknown name.
  [[nodiscard]] std::vector<const Device*> candidates(std::string_view text) const&;
  std::vector<const Device*> candidates(std::string_view text) && = delete;

 private:
  struct Rows;

  std::shared_ptr<const Rows> rows_;  // of copies the same until one of them gets a device
  std::shared_ptr<const Links> links_;
  Device cpu_;  // of this machine
};

/// The one spelling of a device's name, wherever a workload or a row is read: the built-in catalogue's name if exactly
/// one of its devices has this name or alias, else the name unchanged. So equal keys mean one device before anybody
/// says which devices are known; a user's own devices and this machine's CPU are told apart by
/// DeviceCatalogue::resolve().
[[nodiscard]] PERFPRED_API std::string canonical_device(std::string_view name);

}  // namespace perfpred
