// SPDX-License-Identifier: Apache-2.0
#include "optime/step_formula.h"

#include <algorithm>
#include <cmath>

namespace perfpred {
namespace {

// Exponent p of the roofline's rounded corner; 1.5 and 2.5 times as sharp was without gain (docs/notes/optime.md).
constexpr double sharpness = 2.5;

/// FlashAttention-2, which PyTorch has, does not use Hopper's own instructions: 225 of 312 TFLOP/s on an A100, 335 of
/// 989 on an H100 (Dao 2023, section 4.1).
constexpr double late_attention = (225.0 / 312) / (335.0 / 989);

// Fused attention in half precision beside a product of its size: what its softmax takes on the vector units, the less
// of it hidden the faster the matrix units are, and rows of queries that fill no tile or see half of one
// (docs/notes/optime.md, Fused attention of long texts).
constexpr double of_attention = 1.11, of_softmax = 0.04, attention_rows_half = 350;
/// Forward and backward together FlashAttention-2 reaches 203 on the A100 (figure 4), the 335 are of both.
constexpr double late_softmax = 203.0 / 225;

using P = StepParameters;

/// A group's shares of the bandwidth and of the peak; without the latter its time follows from its bytes.
struct GroupParameters {
  StepGroup group;
  double P::*memory;
  double P::*compute = nullptr;
};

/// Depthwise convolutions compute on CPUs only.
constexpr auto group_parameters = std::to_array<GroupParameters>({
    {StepGroup::conv_forward, &P::memory_conv, &P::conv_forward},
    {StepGroup::conv_input, &P::memory_conv, &P::conv_input},
    {StepGroup::conv_weight, &P::memory_conv, &P::conv_weight},
    {StepGroup::depthwise_forward, &P::memory_depthwise_forward, &P::depthwise_forward},
    {StepGroup::depthwise_input, &P::memory_depthwise_input, &P::depthwise_input},
    {StepGroup::depthwise_weight, &P::memory_depthwise_weight, &P::depthwise_weight},
    {StepGroup::product, &P::memory_conv, &P::product},
    {StepGroup::recurrent, &P::memory_conv, &P::recurrent},
    {StepGroup::batch_norm, &P::memory_norm},
    {StepGroup::elementwise, &P::memory_elementwise},
    {StepGroup::rearrangement, &P::memory_rearrangement},
    {StepGroup::pooling, &P::memory_pooling},
    {StepGroup::other, &P::memory_other},
    {StepGroup::unknown, &P::memory_other},
});
static_assert([] {  // group_parameters[index of the group]
  for (std::size_t i = 0; i < step_groups; ++i) {
    if (group_parameters.at(i).group != static_cast<StepGroup>(i)) return false;
  }
  return group_parameters.size() == step_groups;
}());

/// Kernels before the backward pass.
std::size_t forward_part(std::span<const StepKernel> kernels) {
  const auto backward = std::find_if(kernels.begin(), kernels.end(), [](const StepKernel& k) { return k.backward; });
  return static_cast<std::size_t>(backward - kernels.begin());
}

}  // namespace

double log_host(const StepParameters& parameters, const StepDevice& device, double effect) {
  return parameters.host + device.host + effect;
}

double host_effect(const StepParameters& parameters, const StepDevice& device, double log_host) {
  return log_host - parameters.host - device.host;
}

/// A kernel's seconds without its gaps: a rounded maximum of computing c and of moving bytes m, (c^p + m^p)^(1/p),
/// split into compute and memory in proportion to c^p : m^p, which is also d log t / d log c : d log t / d log m; and
/// what copies to another layout take.
struct StepFormula::Parts {
  double compute = 0, memory = 0, transposing = 0;
  double depth = 1, width = 1;  ///< of the product
  double by_cache = 0;          ///< d log memory / d log of the cache
  [[nodiscard]] double sec() const { return compute + memory + transposing; }
};

StepFormula::StepFormula(const StepParameters& p, const StepDevice& device, const MachineEffects& effects)
    : fp64_(device.fp64),
      emulated_half_(device.emulated_half),
      stored_half_(!device.emulated_half && device.byte_scale < 1),
      matrix_units_(device.matrix_units),
      conv_matrix_units_(device.conv_matrix_units),
      has_winograd_(device.winograd && !device.conv_matrix_units),
      wants_sizes_(device.matrix.family == KernelFamily::volta_turing) {
  const double byte = device.byte_scale / device.matrix.bandwidth * std::exp(-effects.memory) /
                      (emulated_half_ ? std::exp(p.emulated_memory)
                       : stored_half_ ? std::exp(p.half_storage)
                                      : 1);
  const double slow = std::exp(-effects.compute) / (fp64_            ? std::exp(p.fp64)
                                                    : emulated_half_ ? std::exp(p.emulated_compute)
                                                                     : 1);
  unfed_ = take_clock_bytes(std::exp(p.clock_bytes), device.matrix.clock_bytes);
  set_groups(p, device, byte, slow);
  if (device.transposes) transposed_byte_ = unfed_ * byte / std::exp(p.memory_rearrangement - p.transposing);
  transposing_single_ = std::exp(p.transposing_single);
  misaligned_ = std::exp(p.misaligned);
  depthwise_channels_last_ = std::exp(p.depthwise_channels_last);
  grouped_channels_last_ = std::exp(p.grouped_channels_last);
  attention_single_ = std::exp(p.attention_single);
  fused_ = std::exp(-p.fused);
  softmax_power_ = p.attention_softmax;
  softmax_ = of_attention * (1 + of_softmax * device.matrix.flops / device.matrix.vector_flops);
  if (device.chip.data_centre && generation(device.chip.arch) >= generation("Hopper")) {
    attention_ = late_attention;
    softmax_ *= late_softmax;
  }
  depth_half_ = std::exp(p.depth_half);
  width_half_ = std::exp(p.width_half);
  grouped_ = std::exp(p.grouped);
  winograd_ = std::exp(p.winograd);
  winograd_weight_ = std::exp(p.winograd_weight);
  number_ = std::exp(p.norm_number);
  native_number_ = std::exp(p.norm_number_own);
  gap_ = std::exp(p.gap);
  fixed_ = std::exp(p.fixed + device.host);  // the host's, too
  host_ = device.replays ? 0 : std::exp(log_host(p, device, effects.host));
  host_backward_ = std::exp(p.host_backward);
  host_conv_ = std::exp(p.host_conv);
  host_norm_ = std::exp(p.host_norm);
  sms_ = device.matrix.family == KernelFamily::none ? 0 : device.matrix.sms;
  l2_ = device.matrix.l2;
  if (sms_ != 0) cached_bytes_ = usable_cache * l2_ * std::exp(p.cache) / device.byte_scale;
}

/// A multiprocessor has only so many reads under way (Little's law), so that a share of the bandwidth is left where few
/// of them have much: 1 / (1 + x / limit), beside that of a usual card, a V100.
/// @returns factor of the seconds of a byte
double StepFormula::take_clock_bytes(double limit, double given) {
  constexpr double usual = 900.0 / 80 / 1.53;
  if (given == 0) return 1;
  by_clock_bytes_ = given / (limit + given) - usual / (limit + usual);
  return (1 + given / limit) / (1 + usual / limit);
}

void StepFormula::set_groups(const StepParameters& p, const StepDevice& device, double byte, double slow) {
  // What power_share() was fitted to: products on the vector units.
  const double on_vectors = device.matrix.power_share, on_units = device.matrix.matrix_share * std::exp(p.matrix_units);
  const double conv = slow / device.conv_flops / (conv_matrix_units_ ? on_units : on_vectors);
  const double matrix = slow / device.matrix.flops / (matrix_units_ ? on_units : on_vectors);
  const double vector = slow / device.matrix.vector_flops;
  for (std::size_t i = 0; i < step_groups; ++i) {
    Group& group = groups_[i];
    group.conv = is_convolution(static_cast<StepGroup>(i));
    group.depthwise = is_depthwise(static_cast<StepGroup>(i));
    group.memory = group_parameters[i].memory;
    group.compute = group.depthwise && device.kind != DeviceKind::cpu ? nullptr : group_parameters[i].compute;
    group.seconds_per_byte =
        byte / std::exp(p.*group.memory) / (group.depthwise && emulated_half_ ? std::exp(p.emulated_depthwise) : 1);
    if (group.compute == nullptr) continue;
    group.matrix_units = group.conv ? conv_matrix_units_ : matrix_units_;
    const double flop = group.depthwise ? vector : group.conv ? conv : matrix;
    group.seconds_per_flop = flop / std::exp(p.*group.compute);
    if (group.matrix_units) group.vector_ratio = std::max(1.0, vector / flop);
  }
  if (conv_matrix_units_)
    groups_[static_cast<std::size_t>(StepGroup::conv_forward)].seconds_per_flop /= std::exp(p.matrix_units_forward);
}

/// How much longer a product with the state takes because its rows, one for each sample, do not fill tiles of 32x32, or
/// its tiles not the device, even if their sums are split in eight (NVIDIA, Matrix Multiplication Background User's
/// Guide, Tile Quantization, Wave Quantization).
double StepFormula::idle_factor(const StepKernel& kernel) const {
  if (sms_ == 0) return 1;
  constexpr double tile = 32, max_splits = 8;
  const double of_rows = std::ceil(kernel.rows / tile), tiles = of_rows * std::ceil(kernel.width / tile);
  const double splits = std::clamp(kernel.depth / tile, 1.0, max_splits);
  return of_rows * tile / kernel.rows * std::max(1.0, sms_ / (tiles * splits));
}

/// Weights that do not fit the cache are read from memory for each position (Diamos et al. 2016, Persistent RNNs). A
/// GPU's depthwise convolutions read an element once for each tap; efficiencies are those of the usual 3x3.
double StepFormula::moved_bytes(const StepKernel& kernel) const {
  if (sms_ != 0 && is_depthwise(kernel.group)) {
    const double taps = kernel.group == StepGroup::depthwise_weight ? kernel.width : kernel.depth;
    return kernel.bytes * std::max(1.0, taps / 9) * (kernel.channels_last ? depthwise_channels_last_ : 1);
  }
  if (kernel.reread == 0) return kernel.bytes - cached_share(kernel)[0] * kernel.near_bytes;
  const double cached = std::min(1.0, usable_cache * l2_ / kernel.reread);
  return kernel.bytes + (kernel.calls - 1) * kernel.reread * (1 - cached);
}

/// A cache that replaces what was used longest ago holds a result until as many bytes have been moved since; the corner
/// is rounded. It is faster than memory, by about a factor of three.
std::array<double, 2> StepFormula::cached_share(const StepKernel& kernel) const {
  if (cached_bytes_ == 0 || kernel.near_bytes == 0 || is_depthwise(kernel.group)) return {0, 0};
  constexpr double saved = 2.0 / 3;
  const double filled = kernel.near_distance / cached_bytes_, power = filled * filled * filled;
  const double held = 1 / (1 + power);
  return {saved * held, saved * 3 * held * (1 - held)};
}

double StepFormula::transposing_seconds(const StepKernel& kernel) const {
  return kernel.transposed * transposed_byte_ * (kernel.type == DataType::f32 ? transposing_single_ : 1);
}

/// A thread block waits for its numbers in turn, so that few channels leave most of a large device idle.
double StepFormula::block_seconds(const StepKernel& kernel) const {
  if (sms_ == 0 || kernel.channels == 0) return 0;
  constexpr double blocks_per_sm = 4;  // of 512 threads
  const double waves = std::max(1.0, kernel.channels / (blocks_per_sm * sms_));
  return waves * kernel.numbers * (kernel.by_library ? number_ : native_number_);
}

/// Transforms, products and transforms back, one after the other.
StepFormula::Parts StepFormula::fourier_parts(const StepKernel& kernel) const {
  const Group& group = groups_[static_cast<std::size_t>(kernel.group)];
  const bool weight = kernel.group == StepGroup::conv_weight;
  const double area = 9, depth = weight ? kernel.depth : kernel.depth / area,
               width = kernel.width / (weight ? area : 1);
  return {kernel.fourier_flops * group.seconds_per_flop * (1 + depth_half_ / depth) * (1 + width_half_ / width),
          kernel.fourier_bytes * group.seconds_per_byte * unfed_, 0, depth, width};
}

double StepFormula::log_softmax(const StepKernel& kernel) const {
  return std::log(softmax_ * (1 + attention_rows_half / kernel.depth));
}

/// @param compute  seconds of its FLOPs at the group's rate
double StepFormula::product_seconds(const StepKernel& kernel, double compute) const {
  const Group& group = groups_[static_cast<std::size_t>(kernel.group)];
  compute *= (1 + depth_half_ / kernel.depth) * (1 + width_half_ / kernel.width);
  if (kernel.group == StepGroup::recurrent) compute *= idle_factor(kernel);
  if (is_attention(kernel)) compute *= attention_;
  if (is_single_attention(kernel)) compute *= attention_single_;
  if (has_softmax(kernel)) compute *= std::exp(softmax_power_ * log_softmax(kernel));
  if (kernel.grouped && group.conv) compute *= (kernel.channels_last ? grouped_channels_last_ : 1) / grouped_;
  if (!fills_matrix_units(kernel))
    compute *= wants_sizes_ ? group.vector_ratio : std::min(group.vector_ratio, misaligned_);
  if (kernel.three_by_three && group.conv && has_winograd_) {
    compute /= kernel.group == StepGroup::conv_weight ? winograd_weight_ : winograd_;
  }
  return compute;
}

StepFormula::Parts StepFormula::parts(const StepKernel& kernel) const {
  const Group& group = groups_[static_cast<std::size_t>(kernel.group)];
  const double moved = moved_bytes(kernel);
  // What blocks wait for their numbers is in block_seconds().
  const double memory =
      moved * group.seconds_per_byte * (kernel.channels > 0 ? 1 : unfed_) * (kernel.kind == OpKind::fused ? fused_ : 1);
  const double by_cache = kernel.reread == 0 && moved > 0 ? -cached_share(kernel)[1] * kernel.near_bytes / moved : 0;
  double compute = kernel.flops * group.seconds_per_flop + block_seconds(kernel);
  if (compute == 0) return {0, memory, 0, 1, 1, by_cache};
  if (group.seconds_per_flop != 0 && !group.depthwise) compute = product_seconds(kernel, compute);
  const double compute_power = compute * compute * std::sqrt(compute);
  const double sum = compute_power + memory * memory * std::sqrt(memory);
  if (!(sum > 0)) return {0, 0, transposing_seconds(kernel)};
  const double sec = std::exp(std::log(sum) / sharpness), of_compute = sec * compute_power / sum;
  if (kernel.fourier_flops > 0 && !has_winograd_ && !conv_matrix_units_) {
    if (const Parts fourier = fourier_parts(kernel); fourier.sec() < sec) return fourier;
  }
  return {of_compute, sec - of_compute, transposing_seconds(kernel), kernel.depth, kernel.width, by_cache};
}

double StepFormula::seconds(const StepKernel& kernel, double factor) const {
  return factor * parts(kernel).sec() + kernel.calls * gap_;
}

double StepFormula::host_seconds(const StepKernel& kernel, bool backward) const {
  if (!kernel.dispatched) return 0;
  const double own = is_convolution(kernel.group) ? host_conv_ : kernel.group == StepGroup::batch_norm ? host_norm_ : 1;
  return host_ * own * (backward ? host_backward_ : 1);
}

std::vector<double> StepFormula::host_seconds(std::span<const StepKernel> kernels) const {
  const std::size_t forward = forward_part(kernels);
  std::vector<double> seconds;
  seconds.reserve(kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) seconds.push_back(host_seconds(kernels[i], i >= forward));
  return seconds;
}

std::size_t StepFormula::last_wait(std::span<const StepKernel> kernels, std::span<const double> seconds) const {
  const std::size_t forward = forward_part(kernels);
  double host_sec = 0, device_sec = 0, lead = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    host_sec += host_seconds(kernels[i], i >= forward);
    if (host_sec - device_sec > lead) {
      lead = host_sec - device_sec;
      last = i;
    }
    device_sec += seconds[i];
  }
  return last;
}

StepClocks StepFormula::clocks(std::span<const StepKernel> kernels, std::span<const double> seconds) const {
  const std::size_t forward = forward_part(kernels), wait = last_wait(kernels, seconds);
  StepClocks clocks;
  clocks.total_sec = fixed_;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const double host_sec = host_seconds(kernels[i], i >= forward);
    clocks.host_sec += host_sec;
    clocks.device_sec += seconds[i];
    clocks.total_sec += (i <= wait ? host_sec : 0) + (i >= wait ? seconds[i] : 0);
  }
  return clocks;
}

MachineEffects StepFormula::slopes(std::span<const StepKernel> kernels, std::span<const double> seconds) const {
  const std::size_t forward = forward_part(kernels), wait = last_wait(kernels, seconds);
  MachineEffects slopes;
  for (std::size_t i = 0; i <= wait && i < kernels.size(); ++i) slopes.host += host_seconds(kernels[i], i >= forward);
  double total = fixed_ + slopes.host;
  for (std::size_t i = wait; i < kernels.size(); ++i) {
    total += seconds[i];
    const Parts part = parts(kernels[i]);
    const double scale = seconds[i] / (part.sec() + kernels[i].calls * gap_);
    if (kernels[i].channels == 0) slopes.compute -= scale * part.compute;
    slopes.memory -= scale * (part.memory + part.transposing);
  }
  for (double* slope : {&slopes.compute, &slopes.memory, &slopes.host}) *slope /= total;
  return slopes;
}

std::vector<double> StepFormula::all_seconds(std::span<const StepKernel> kernels) const {
  std::vector<double> seconds(kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    seconds[i] = kernels[i].same_as == i ? this->seconds(kernels[i]) : seconds[kernels[i].same_as];
  }
  return seconds;
}

double StepFormula::total_sec(std::span<const StepKernel> kernels, std::span<const double> seconds, double input_sec,
                              bool whole) const {
  return clocks(kernels, seconds).total_sec + input_sec - (whole ? 0 : fixed_);
}

double StepFormula::log_step(std::span<const StepKernel> kernels, double input_sec, bool whole) const {
  return std::log(total_sec(kernels, all_seconds(kernels), input_sec, whole));
}

void StepFormula::add_host(std::span<const StepKernel> kernels, std::size_t forward, std::size_t wait,
                           StepSlopes& slopes) const {
  StepParameters& d = slopes.parameters;
  for (std::size_t i = 0; i <= wait && i < kernels.size(); ++i) {
    const double sec = host_seconds(kernels[i], i >= forward);
    slopes.machine.host += sec;
    if (i >= forward) d.host_backward += sec;
    if (is_convolution(kernels[i].group)) d.host_conv += sec;
    if (kernels[i].group == StepGroup::batch_norm) d.host_norm += sec;
  }
  d.host = slopes.machine.host;
}

void StepFormula::add_matrix_units(const StepKernel& kernel, double compute, StepParameters& d) const {
  const double vector_ratio = groups_[static_cast<std::size_t>(kernel.group)].vector_ratio;
  const bool misses = !fills_matrix_units(kernel) && vector_ratio > 1;
  const bool slowed = misses && !wants_sizes_ && misaligned_ < vector_ratio;
  if (slowed) d.misaligned += compute;
  if (!misses || slowed) d.matrix_units -= compute;
  if (kernel.group == StepGroup::conv_forward) d.matrix_units_forward -= compute;
}

void StepFormula::add_products(const StepKernel& kernel, const Parts& part, double compute, StepParameters& d) const {
  const Group& group = groups_[static_cast<std::size_t>(kernel.group)];
  d.depth_half += compute * depth_half_ / (part.depth + depth_half_);
  d.width_half += compute * width_half_ / (part.width + width_half_);
  if (kernel.grouped && group.conv) {
    d.grouped -= compute;
    if (kernel.channels_last) d.grouped_channels_last += compute;
  }
  if (is_single_attention(kernel)) d.attention_single += compute;
  if (has_softmax(kernel)) d.attention_softmax += log_softmax(kernel) * compute;
  if (group.matrix_units) add_matrix_units(kernel, compute, d);
  if (kernel.three_by_three && group.conv && has_winograd_) {
    (kernel.group == StepGroup::conv_weight ? d.winograd_weight : d.winograd) -= compute;
  }
}

void StepFormula::add_kernel(const StepKernel& kernel, double calls, StepSlopes& slopes) const {
  StepParameters& d = slopes.parameters;
  const Group& group = groups_[static_cast<std::size_t>(kernel.group)];
  const Parts part = parts(kernel);
  const double compute = calls * part.compute, memory = calls * part.memory, transposing = calls * part.transposing;
  d.gap += calls * kernel.calls * gap_;
  d.*group.memory -= memory;
  if (kernel.kind == OpKind::fused) d.fused -= memory;
  d.memory_rearrangement -= transposing;
  if (group.depthwise && kernel.channels_last && sms_ != 0) d.depthwise_channels_last += memory;
  d.transposing += transposing;
  if (kernel.type == DataType::f32) d.transposing_single += transposing;
  d.cache += memory * part.by_cache;
  slopes.machine.memory -= memory + transposing;
  d.clock_bytes -= by_clock_bytes_ * ((kernel.channels > 0 ? 0 : memory) + transposing);
  if (emulated_half_ && group.depthwise) d.emulated_depthwise -= memory;
  if (compute == 0) return;
  if (kernel.channels > 0) {  // waits for its numbers, whatever the device computes
    (kernel.by_library ? d.norm_number : d.norm_number_own) += compute;
    return;
  }
  slopes.machine.compute -= compute;
  d.*group.compute -= compute;
  if (!group.depthwise) add_products(kernel, part, compute, d);
}

StepSlopes StepFormula::log_slopes(std::span<const StepKernel> kernels, double input_sec, bool whole) const {
  const std::vector<double> seconds = all_seconds(kernels);
  const double total = total_sec(kernels, seconds, input_sec, whole);
  StepSlopes slopes;
  StepParameters& d = slopes.parameters;
  const std::size_t forward = forward_part(kernels), wait = last_wait(kernels, seconds);
  add_host(kernels, forward, wait, slopes);
  d.fixed = whole ? fixed_ : 0;
  std::vector<double> calls(kernels.size());
  for (std::size_t i = wait; i < kernels.size(); ++i) ++calls[kernels[i].same_as];
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (calls[i] != 0) add_kernel(kernels[i], calls[i], slopes);
  }
  if (fp64_ || emulated_half_) (fp64_ ? d.fp64 : d.emulated_compute) = slopes.machine.compute;
  if (emulated_half_ || stored_half_) (emulated_half_ ? d.emulated_memory : d.half_storage) = slopes.machine.memory;
  slopes.input = input_sec / total;
  for (const StepParameter& row : step_parameters) d.*row.value /= total;
  for (double* slope : {&slopes.machine.compute, &slopes.machine.memory, &slopes.machine.host}) *slope /= total;
  slopes.log_sec = std::log(total);
  return slopes;
}

}  // namespace perfpred
