// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace perfpred {

/// GPU generations whose libraries choose kernels alike. `none`: a CPU or an architecture that is not listed.
enum class KernelFamily { none, pascal, volta_turing, ampere_ada, cdna };

/// Pascal | Volta, Turing | Ampere and later | CDNA, from the name of an architecture (`Ampere`, `Blackwell-consumer`).
[[nodiscard]] KernelFamily kernel_family(std::string_view arch);
[[nodiscard]] std::string_view to_string(KernelFamily family);

/// Logarithm of the factor of the seconds that the host of a card needs, 0 for one of 2018. Servers up to then have
/// cores of one generation; later ones do a fifth more in a clock every second or third year (Intel of Ice Lake and
/// Sapphire Rapids, AMD of Zen 3 and 4). Taken, not fitted (docs/notes/optime.md, Hosts of newer cards).
[[nodiscard]] double usual_host(std::string_view arch);

/// Devices whose rates fall short of their peaks alike: of one architecture, apart the chips of data centres, which
/// have the units for double precision (an H20 has them, too, though they are cut) and another memory.
struct Chip {
  std::string arch;  ///< as in the catalogue
  bool data_centre = false;

  friend auto operator<=>(const Chip&, const Chip&) = default;
};
[[nodiscard]] Chip chip_of(const Device& device);

/// Whether a device is another one of the same architecture, and at least as good in every rate of the catalogue, and
/// in cache, clock, power and number of multiprocessors, where both are known. A peak that is missing does not exist.
/// How much memory there is makes nothing faster.
[[nodiscard]] bool is_at_least(const Device& better, const Device& other);

/// The place of an architecture among NVIDIA's, from the oldest on; empty for another one's.
[[nodiscard]] std::optional<int> generation(std::string_view arch);

/// The precision that a device computes in: cards without fast half arithmetic compute fp16 in single precision, CPUs
/// bf16, too. How cards without units for bf16 compute it is not known.
[[nodiscard]] Precision computed_precision(const Device& device, Precision asked);

/// What the formulas of kernel_time.h read of a device, in FLOP/s, bytes/s, bytes.
struct Hardware {
  std::string name;
  KernelFamily family = KernelFamily::none;
  double flops = 0;         ///< dense, of matrix products in the precision asked for
  double vector_flops = 0;  ///< of everything else
  double bandwidth = 0;
  double sms = 0;
  double clock_bytes = 0;  ///< that `bandwidth` has for a multiprocessor in a clock; 0: unknown
  double threads = 0;      ///< that its multiprocessors hold at once
  double l2 = 0;
  double l2_partitions = 1;
  /// Share of `flops` that the power limit allows under load, 0 to 1; 1 where clock, power or process are unknown. No
  /// device of the catalogue sustains less than a worse one.
  double power_share = 1;
  // Of matrix units, where clock, power, multiprocessors and process are known.
  double clock_flops = 0;   ///< that those of a multiprocessor do in a clock; 0: unknown
  double matrix_share = 1;  ///< of `flops`, that the power limit allows, 0 to 1

  /// Fills in both. A card that draws too much at the peak has a clock that is lower by that factor, with a rounded
  /// corner; chips of data centres, from 2048 FLOP a clock on, are made for their matrix units (docs/notes/optime.md).
  /// @param watts  the power limit
  void set_matrix_units(std::string_view arch, double ghz, double watts);
};

/// Share of a peak that a card sustains: exp(-log(1 + X^8.4) / 15), X = 1.02 node GHz^2 TFLOP/s / W. Fitted to six
/// NVIDIA cards in single precision on the vector units; matrix units do not follow it.
/// @param arch  gives the node; unknown ones are not limited
[[nodiscard]] double power_share(std::string_view arch, double ghz, double tflops, double watts);

inline constexpr double threads_per_sm = 2048;

/// Share of the L2 cache that operands have before they are read from memory again; the rest holds what else is in
/// use. Taken, not fitted: what a device's cache holds beside it is an effect of the device (kernel_time.h).
inline constexpr double usable_cache = 0.7;

/// Large chips of Ampere and Hopper have a cache of two partitions, each of which keeps what its own multiprocessors
/// read (A100 Tensor Core GPU Architecture, L2 Cache).
/// @param l2  bytes
/// @returns 1 or 2
[[nodiscard]] double l2_partitions(std::string_view arch, double l2);

/// Logarithm of what a power_share() becomes where operands draw `draw` of the power that X stands for.
[[nodiscard]] double log_share_at(double power_share, double draw);

/// A GPU, with a power limit if none is stated: it draws as much of it as the devices of the catalogue that are at
/// least as good, which share chips with it (an instance of a GPU, a superchip), and at least what a device that is at
/// most as good draws at the same peak. A clock that is not stated either is that of the better device. As it was where
/// there is no such device.
[[nodiscard]] Device with_power_limit(Device device, Precision precision);

/// @throws InputError naming the column that the device lacks, or that no real device has (megabytes for gigabytes);
/// for the precision `unknown`
[[nodiscard]] Hardware hardware_of(const Device& device, Precision precision);

}  // namespace perfpred
