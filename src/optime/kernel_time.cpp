// SPDX-License-Identifier: Apache-2.0
#include "optime/kernel_time.h"

#include <algorithm>
#include <cmath>

namespace perfpred {
namespace {

// Exponents p of rounded maxima (a^p + b^p)^(1/p) whose corner is not fitted: of two ceilings of one unit, and of
// transfers that overlap. Taken, not fitted.
constexpr double ceiling_corner = 12, transfer_corner = 4;

/// log(e^a + e^b)
double log_sum(double a, double b) { return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b))); }

/// Smooth maximum of two logarithms: the p-norm of what they are the logarithms of.
double smooth_max(double a, double b, double p) { return log_sum(p * a, p * b) / p; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// A number of a class of kernels, a parameter or an effect, and its place among the class's own.
template <class Row, class Values>
struct Named {
  Row row;
  double Values::*value;
};
template <class Values>
using Parameter = Named<KernelParameter, Values>;
template <class Values>
using Effect = Named<KernelEffect, Values>;

/// Numbers in the order of the rows as members.
template <class Row, class Values, std::size_t n>
Values by_name(const std::array<Named<Row, Values>, n>& rows, const double* numbers) {
  static_assert(n * sizeof(double) == sizeof(Values), "a member lacks its row");
  Values values;
  for (std::size_t i = 0; i < n; ++i) values.*rows[i].value = numbers[i];
  return values;
}

template <class Row, class Values, std::size_t n>
constexpr std::array<Row, n> rows_of(const std::array<Named<Row, Values>, n>& named) {
  std::array<Row, n> rows;
  for (std::size_t i = 0; i < n; ++i) rows[i] = named[i].row;
  return rows;
}

struct Tile {
  double m, n;
  double log_efficiency;  ///< beside the best tile's
};

/// Seconds of a matrix product at the peak rate, by the best tile and split of the sum: whole tiles, waves between
/// their number and its ceiling.
template <std::size_t count>
double tiled_seconds(const std::array<Tile, count>& tiles, double small_tiles, double wave_mix, double extra_depth,
                     const Kernel& kernel, const Hardware& hardware) {
  // e^0.03 for each doubling: what the parts' sums cost. Taken, not fitted.
  constexpr std::array<double, 4> split_cost = {1, 1.030454533953517, 1.0618365465453596, 1.0941742837052104};
  double best = HUGE_VAL;
  for (const Tile& tile : tiles) {
    const double efficiency =
        std::exp(tile.log_efficiency -
                 (small_tiles == 0 ? 0 : small_tiles * std::clamp(std::log2(128 * 128 / (tile.m * tile.n)), 0.0, 1.0)));
    const double number = kernel.batch * std::ceil(kernel.m / tile.m) * std::ceil(kernel.n / tile.n);
    double split = 1;
    for (const double cost : split_cost) {
      const double waves = number * split / hardware.sms;
      const double counted = wave_mix * std::ceil(waves) + (1 - wave_mix) * std::max(waves, 1.0);
      best = std::min(best, counted * cost * tile.m * tile.n * (kernel.k / split + extra_depth) / efficiency);
      split *= 2;
    }
  }
  return best * 2 * hardware.sms / hardware.flops;
}

constexpr std::string_view share_of_peak = "log share of the peak", share_of_bandwidth = "log share of the bandwidth",
                           least_sec = "log s, least of a call", idle_terms = "log terms that filling a tile costs",
                           whole_waves = "logit of the share of tiles that wait for whole waves",
                           corner = "log exponent of the corner between computing and memory",
                           tile_rate = "log rate beside that of 128 x 128",
                           cache_speed = "log factor by which the cache is faster than memory",
                           cache_use = "log of what of the cache operands have, beside usable_cache";

// Priors are middling values of NVIDIA's cards before their rows are seen; docs/notes/optime.md, What was worth how
// much, says what the tight ones gain. Efficiencies have them so that a throttled card does not pass for slow tiles,
// nor one for slow memory.
struct MatmulParameters {
  double compute, memory, floor, extra_depth, wave_mix, sharpness, power, unaligned32, long_rows, unaligned4,
      tile_128x64, tile_64x64, tile_64x32, tile_32x32;
};
using Matmul = MatmulParameters;
constexpr auto matmul_parameters = std::to_array<Parameter<Matmul>>({
    {{"compute", -0.05, 0.03, share_of_peak}, &Matmul::compute},
    {{"memory", -0.25, 0.03, share_of_bandwidth}, &Matmul::memory},
    {{"floor", -10.82, 1, least_sec}, &Matmul::floor},
    {{"extra_depth", 3, 0.5, idle_terms}, &Matmul::extra_depth},
    {{"wave_mix", 0, 1, whole_waves}, &Matmul::wave_mix},
    {{"sharpness", 1.8, 0.2, corner}, &Matmul::sharpness},
    {{"power", -0.03, 0.03, "log share of what power_share() allows"}, &Matmul::power},
    {{"unaligned32", 0, 0.1, "log time, sizes that are no multiple of 32"}, &Matmul::unaligned32},
    {{"long_rows", 0, 0.1, "log time for each factor of e of terms beyond 8,192"}, &Matmul::long_rows},
    {{"unaligned4", 0.1, 0.1, "log time, sizes that are no multiple of 4"}, &Matmul::unaligned4},
    {{"tile_128x64", -0.03, 0.1, tile_rate}, &Matmul::tile_128x64},
    {{"tile_64x64", -0.1, 0.1, tile_rate}, &Matmul::tile_64x64},
    {{"tile_64x32", -0.2, 0.1, tile_rate}, &Matmul::tile_64x32},
    {{"tile_32x32", -0.3, 0.1, tile_rate}, &Matmul::tile_32x32},
});
struct MatmulEffects {
  double compute, memory, floor, long_rows, small_tiles;
};
constexpr auto matmul_effects = std::to_array<Effect<MatmulEffects>>({
    {{"compute", 0.1, 0.01, 0.1}, &MatmulEffects::compute},
    {{"memory", 0.2, 0.05, 0.2}, &MatmulEffects::memory},
    {{"floor", 0.3, 0.3, 0.3}, &MatmulEffects::floor},
    {{"long_rows", 0.1, 0.3, 0.3}, &MatmulEffects::long_rows},
    {{"small_tiles", 0.005, 0.005, 0.3}, &MatmulEffects::small_tiles},
});

double matmul_time(const MatmulParameters& p, const MatmulEffects& e, const Kernel& kernel, const Hardware& hardware) {
  constexpr double long_terms = 8192, most_pages = 1.2;  // beyond e^1.2 times as many the penalty stays
  const std::array<Tile, 5> tiles = {{{128, 128, 0},
                                      {128, 64, p.tile_128x64},
                                      {64, 64, p.tile_64x64},
                                      {64, 32, p.tile_64x32},
                                      {32, 32, p.tile_32x32}}};
  const double tiled =
      std::log(tiled_seconds(tiles, e.small_tiles, sigmoid(p.wave_mix), std::exp(p.extra_depth), kernel, hardware)) -
      p.compute;
  const double powered = std::log(kernel.flops() / (hardware.flops * hardware.power_share)) - p.power;
  const auto unaligned = [&](double unit) { return std::fmod(kernel.k, unit) != 0 || std::fmod(kernel.n, unit) != 0; };
  double penalty = (unaligned(4) ? p.unaligned4 : 0) + (unaligned(32) ? p.unaligned32 : 0);
  penalty += (p.long_rows + e.long_rows) * std::clamp(std::log(kernel.k / long_terms), 0.0, most_pages);
  const double compute = smooth_max(tiled, powered, ceiling_corner) - e.compute + penalty;
  const double memory = std::log(kernel.bytes() / hardware.bandwidth) - p.memory - e.memory;
  return log_sum(smooth_max(compute, memory, std::exp(p.sharpness)), p.floor + e.floor);
}

struct HalfMatmulParameters {
  double compute, memory, floor, extra_depth, wave_mix, small_tile, sharpness, l2_speed, power, half_rate;
};
using Half = HalfMatmulParameters;
constexpr auto half_matmul_parameters = std::to_array<Parameter<Half>>({
    {{"compute", -0.2, 0.03, share_of_peak}, &Half::compute},
    {{"memory", -0.25, 0.15, share_of_bandwidth}, &Half::memory},
    {{"floor", -12.56, 0.3, least_sec}, &Half::floor},
    {{"extra_depth", 4, 0.5, idle_terms}, &Half::extra_depth},
    {{"wave_mix", 0, 1, whole_waves}, &Half::wave_mix},
    {{"small_tile", -0.1, 0.1, "log rate of a tile beside that of the next larger one"}, &Half::small_tile},
    {{"sharpness", 0.9, 0.3, corner}, &Half::sharpness},
    {{"l2_speed", 0.5, 0.3, cache_speed}, &Half::l2_speed},
    {{"power", -0.15, 0.03, "log share of the peak that power allows"}, &Half::power},
    {{"half_rate", 0.15, 0.05, "log gain of units of half the rate"}, &Half::half_rate},
});
struct HalfMatmulEffects {
  double compute, memory, floor, power;
};
constexpr auto half_matmul_effects = std::to_array<Effect<HalfMatmulEffects>>({
    {{"compute", 0.15, 0.02, 0.15}, &HalfMatmulEffects::compute},
    {{"memory", 0.1, 0.02, 0.15}, &HalfMatmulEffects::memory},
    {{"floor", 0.2, 0.2, 0.2}, &HalfMatmulEffects::floor},
    {{"power", 0.3, 0.02, 0.4}, &HalfMatmulEffects::power},
});

/// Shared memory feeds the matrix units of GeForce cards, 512 FLOP a clock (NVIDIA Ada GPU Architecture, appendix A),
/// better than those of twice the rate.
bool has_half_rate(const Hardware& hardware) { return hardware.clock_flops > 0 && hardware.clock_flops < 768; }

/// A limit of power is a ceiling beside the tiles: where a product leaves units idle, the clock rises.
double half_matmul_time(const HalfMatmulParameters& p, const HalfMatmulEffects& e, const Kernel& kernel,
                        const Hardware& hardware) {
  const std::array<Tile, 5> tiles = {{{128, 256, 0},
                                      {128, 128, p.small_tile},
                                      {64, 128, 2 * p.small_tile},
                                      {64, 64, 3 * p.small_tile},
                                      {32, 64, 4 * p.small_tile}}};
  const double tiled =
      std::log(tiled_seconds(tiles, 0, sigmoid(p.wave_mix), std::exp(p.extra_depth), kernel, hardware)) - p.compute -
      e.compute;
  const double powered = std::log(kernel.flops() / (hardware.flops * hardware.matrix_share)) - p.power - e.power;
  const double compute = smooth_max(tiled, powered, ceiling_corner) - (has_half_rate(hardware) ? p.half_rate : 0);
  const double bytes = kernel.bytes(), cached = std::min(1.0, usable_cache * hardware.l2 / bytes);
  const double memory =
      std::log(bytes / hardware.bandwidth * (1 - cached + cached * std::exp(-p.l2_speed))) - p.memory - e.memory;
  return log_sum(smooth_max(compute, memory, std::exp(p.sharpness)), p.floor + e.floor);
}

struct ElementwiseParameters {
  double memory, l2_speed, floor, sharpness, flops, l2_share;
  double add, div, divu, gelu, mul, mulu, pow, powu, relu, tanh;
};
using Elementwise = ElementwiseParameters;
constexpr std::string_view own_rate = "log rate of this function's bytes beside addu's";
constexpr auto elementwise_parameters = std::to_array<Parameter<Elementwise>>({
    {{"memory", -0.15, 0.1, share_of_bandwidth}, &Elementwise::memory},
    {{"l2_speed", 0.5, 0.5, cache_speed}, &Elementwise::l2_speed},
    {{"floor", -11.33, 0.5, least_sec}, &Elementwise::floor},
    {{"sharpness", 0.5, 0.4, "log exponent of the corner above the floor"}, &Elementwise::sharpness},
    {{"flops", 0.69, 0.5, "log operations a number"}, &Elementwise::flops},
    {{"l2_share", 0, 0.3, cache_use}, &Elementwise::l2_share},
    {{"add", 0, 0.1, own_rate}, &Elementwise::add},
    {{"div", 0, 0.1, own_rate}, &Elementwise::div},
    {{"divu", 0, 0.1, own_rate}, &Elementwise::divu},
    {{"gelu", 0, 0.1, own_rate}, &Elementwise::gelu},
    {{"mul", 0, 0.1, own_rate}, &Elementwise::mul},
    {{"mulu", 0, 0.1, own_rate}, &Elementwise::mulu},
    {{"pow", 0, 0.1, own_rate}, &Elementwise::pow},
    {{"powu", 0, 0.1, own_rate}, &Elementwise::powu},
    {{"relu", 0, 0.1, own_rate}, &Elementwise::relu},
    {{"tanh", 0, 0.1, own_rate}, &Elementwise::tanh},
});
/// By Kernel::variant: the first of elementwise_ops is what the others are compared with.
constexpr std::array<double Elementwise::*, elementwise_ops.size()> own_rates = [] {
  std::array<double Elementwise::*, elementwise_ops.size()> rates{};
  for (const auto& parameter : elementwise_parameters) {
    for (std::size_t i = 0; i < rates.size(); ++i) {
      if (elementwise_ops[i] == parameter.row.name) rates[i] = parameter.value;
    }
  }
  return rates;
}();
static_assert(std::count(own_rates.begin(), own_rates.end(), nullptr) == 1 && own_rates[0] == nullptr);

struct VectorEffects {
  double memory, l2_speed, floor, flops;
};
constexpr auto vector_effects = std::to_array<Effect<VectorEffects>>({
    {{"memory", 0.1, 0.05, 0.15}, &VectorEffects::memory},
    {{"l2_speed", 0.3, 0.2, 0.3}, &VectorEffects::l2_speed},
    {{"floor", 0.3, 0.2, 0.3}, &VectorEffects::floor},
    {{"flops", 0.1, 0.05, 0.3}, &VectorEffects::flops},
});

/// Seconds to move a vector kernel's bytes: what fits the cache moves at the cache's speed.
template <class Parameters, class Effects>
double log_memory(const Parameters& p, const Effects& e, const Kernel& kernel, const Hardware& hardware) {
  const double bytes = kernel.bytes();
  const double cached = std::min(1.0, usable_cache * hardware.l2 * std::exp(p.l2_share) / bytes);
  return std::log(bytes / hardware.bandwidth * (1 - cached + cached * std::exp(-p.l2_speed - e.l2_speed))) - p.memory -
         e.memory;
}

double elementwise_time(const ElementwiseParameters& p, const VectorEffects& e, const Kernel& kernel,
                        const Hardware& hardware) {
  const auto rate = own_rates[static_cast<std::size_t>(kernel.variant)];
  const double memory = log_memory(p, e, kernel, hardware) - (rate == nullptr ? 0 : p.*rate);
  const double compute = std::log(kernel.m * kernel.n / hardware.vector_flops) + p.flops + e.flops;
  return smooth_max(smooth_max(memory, compute, transfer_corner), p.floor + e.floor, std::exp(p.sharpness));
}

/// Of kernels that read a row more than once. Caches read 2.2 to 5 times as fast as memory (Jia, Maggioni, Smith,
/// Scarpazza 2019: T4, P4, V100, P100).
struct RowParameters {
  double memory, l2_speed, floor, sharpness, read_again, l2_share, rows_in_flight, round, other_rounds;
};
template <class Parameters>
constexpr std::array<Parameter<Parameters>, 9> row_parameters(double read_again) {
  return {{{{"memory", -0.15, 0.1, share_of_bandwidth}, &Parameters::memory},
           {{"l2_speed", 0.9, 0.3, cache_speed}, &Parameters::l2_speed},
           {{"floor", -11.33, 0.5, least_sec}, &Parameters::floor},
           {{"sharpness", 0.5, 0.4, "log exponent of the corner above the floor"}, &Parameters::sharpness},
           {{"read_again", read_again, 0.1, "log of how often a row is read again"}, &Parameters::read_again},
           {{"l2_share", 0, 0.3, cache_use}, &Parameters::l2_share},
           {{"rows_in_flight", 0, 0.3, "log factor of the rows that are at work"}, &Parameters::rows_in_flight},
           {{"round", -13, 0.5, "log s of a round of loads"}, &Parameters::round},
           {{"other_rounds", 0.5, 0.5, "log rounds that a row waits beside them"}, &Parameters::other_rounds}}};
}
struct RowEffects {
  double memory, l2_speed, floor, round, rows_in_flight;
};
constexpr auto row_effects = std::to_array<Effect<RowEffects>>({
    {{"memory", 0.1, 0.05, 0.15}, &RowEffects::memory},
    {{"l2_speed", 0.3, 0.2, 0.3}, &RowEffects::l2_speed},
    {{"floor", 0.3, 0.2, 0.3}, &RowEffects::floor},
    {{"round", 0.1, 0.05, 0.3}, &RowEffects::round},
    {{"rows_in_flight", 0.2, 0.05, 0.2}, &RowEffects::rows_in_flight},
});

/// Seconds of rows, each read more than once by so many threads. What is read again comes from the cache where the rows
/// in flight fit it. Threads wait for each of their `rounds` of loads and for what a row waits else.
double log_repeated(const RowParameters& p, const RowEffects& e, const Kernel& kernel, const Hardware& hardware,
                    double threads, double rounds) {
  constexpr double fill_width = 0.2;  // of log bytes: how gradually the cache overflows. Taken, not fitted
  const double in_flight = hardware.threads / threads, again = std::exp(p.read_again);
  const double filled = kernel.element_bytes * kernel.n * in_flight / (hardware.l2 / hardware.l2_partitions);
  const double from_memory = again * sigmoid((std::log(filled) + p.rows_in_flight + e.rows_in_flight) / fill_width);
  const double memory = log_memory(p, e, kernel, hardware) + std::log1p(from_memory);
  const double cache = std::log(kernel.bytes() * (1 + again) / hardware.bandwidth) - p.l2_speed - e.l2_speed;
  const double latency = std::log(kernel.m / in_flight * (rounds + std::exp(p.other_rounds))) + p.round + e.round;
  return smooth_max(smooth_max(memory, cache, transfer_corner), latency, transfer_corner);
}

constexpr auto layernorm_parameters = row_parameters<RowParameters>(-0.7);

/// Rows are read twice, by 128 threads that load four numbers in a round (PyTorch, layer_norm_kernel.cu).
double layernorm_time(const RowParameters& p, const RowEffects& e, const Kernel& kernel, const Hardware& hardware) {
  const double rows = log_repeated(p, e, kernel, hardware, 128, std::ceil(kernel.n / (4 * 128)));
  return smooth_max(rows, p.floor + e.floor, std::exp(p.sharpness));
}

struct SoftmaxParameters : RowParameters {
  double unaligned;
};
constexpr auto softmax_parameters = [] {
  std::array<Parameter<SoftmaxParameters>, 10> rows;
  const auto common = row_parameters<SoftmaxParameters>(0);
  std::copy(common.begin(), common.end(), rows.begin());
  rows.back() = {{"unaligned", 0.1, 0.2, "log time, rows that are no multiple of 16 bytes"},
                 &SoftmaxParameters::unaligned};
  return rows;
}();

/// Rows of up to 1,024 numbers stay in registers. Longer ones are read three times, for the largest, the sum and the
/// result. A round loads 16 aligned bytes for each thread, or one number: before the first aligned one, and of what
/// full rounds leave (PyTorch, SoftMax.cu).
double softmax_time(const SoftmaxParameters& p, const RowEffects& e, const Kernel& kernel, const Hardware& hardware) {
  const double vector = 16 / kernel.element_bytes;
  const bool unaligned = std::fmod(kernel.n, vector) != 0;
  double rows = 0;
  if (kernel.n > 1024) {
    double threads = 32;
    while (threads < std::floor(std::min(kernel.n / vector, 1024.0) / 2)) threads *= 2;
    const double aligned = kernel.n - (unaligned ? threads : 0), full = std::floor(aligned / (vector * threads));
    const double single = std::ceil(aligned / threads - vector * full) + (unaligned ? 1 : 0);
    rows = log_repeated(p, e, kernel, hardware, threads, full + single);
  } else {
    rows = log_memory(p, e, kernel, hardware);
  }
  return smooth_max(rows + (unaligned ? p.unaligned : 0), p.floor + e.floor, std::exp(p.sharpness));
}

struct ConvParameters {
  double compute, memory, floor, extra_depth, wave_mix, small_tile, sharpness, choice, fused_compute, fused_extra_depth,
      fused_wave_mix, fused_filter, separate_compute, separate_small_tile, separate_transforms;
};
using Conv = ConvParameters;
constexpr auto conv_parameters = std::to_array<Parameter<Conv>>({
    {{"compute", -0.2, 0.2, share_of_peak}, &Conv::compute},
    {{"memory", -0.2, 0.2, share_of_bandwidth}, &Conv::memory},
    {{"floor", -9, 0.7, least_sec}, &Conv::floor},
    {{"extra_depth", 3, 0.7, idle_terms}, &Conv::extra_depth},
    {{"wave_mix", 0, 1, whole_waves}, &Conv::wave_mix},
    {{"small_tile", -0.1, 0.1, tile_rate}, &Conv::small_tile},
    {{"sharpness", 1, 0.3, corner}, &Conv::sharpness},
    {{"choice", 2.1, 0.5, "log exponent of the minimum over the algorithms"}, &Conv::choice},
    {{"fused_compute", -0.2, 0.3, "log rate of F(2x2, 3x3) beside the product's"}, &Conv::fused_compute},
    {{"fused_extra_depth", 3, 0.7, "log channels that filling its block costs"}, &Conv::fused_extra_depth},
    {{"fused_wave_mix", 0, 1, "logit of the share of its blocks that wait for whole waves"}, &Conv::fused_wave_mix},
    {{"fused_filter", 0, 0.4, "log share of the bandwidth of its filter's transform"}, &Conv::fused_filter},
    {{"separate_compute", -0.2, 0.3, "log rate of F(4x4, 3x3) beside the product's"}, &Conv::separate_compute},
    {{"separate_small_tile", -0.1, 0.1, tile_rate}, &Conv::separate_small_tile},
    {{"separate_transforms", 0, 0.4, "log share of the bandwidth of its transforms"}, &Conv::separate_transforms},
});
struct ConvEffects {
  double compute, memory, floor;
};
constexpr auto conv_effects = std::to_array<Effect<ConvEffects>>({
    {{"compute", 0.15, 0.05, 0.15}, &ConvEffects::compute},
    {{"memory", 0.2, 0.1, 0.15}, &ConvEffects::memory},
    {{"floor", 0.3, 0.2, 0.2}, &ConvEffects::floor},
});

/// 3x3, stride 1, padding 1, by the fastest of three algorithms of cuDNN: one implicit product; Winograd's F(2x2, 3x3)
/// in one kernel after the filter's transform; F(4x4, 3x3) as 36 products between kernels that transform (Lavin, Gray
/// 2016).
double conv_time(const ConvParameters& p, const ConvEffects& e, const Kernel& kernel, const Hardware& hardware) {
  // Rows were measured on zeros, which draw some 0.6 of the power that other numbers do (Gregersen, Patel, Choukse
  // 2024).
  constexpr double draw_of_zeros = 0.6;
  const double images = kernel.batch, in = kernel.k, out = kernel.n, size = kernel.m, bytes = kernel.element_bytes;
  const double sharpness = std::exp(p.sharpness);
  const double rate = p.compute + e.compute + log_share_at(hardware.power_share, draw_of_zeros);
  const auto moved = [&](double elements) {
    return std::log(bytes * elements / hardware.bandwidth) - p.memory - e.memory;
  };
  const auto product = [&](double batch, double m, double k, double small_tile) {
    const std::array<Tile, 4> tiles = {
        {{128, 128, 0}, {128, 64, small_tile}, {64, 64, 1.5 * small_tile}, {128, 32, 2 * small_tile}}};
    const Kernel gemm{KernelClass::linear, 0, batch, m, out, k, 0, bytes};
    return std::log(tiled_seconds(tiles, 0, sigmoid(p.wave_mix), std::exp(p.extra_depth), gemm, hardware)) - rate;
  };
  const double images_moved = images * size * size * (in + out), filters = in * out;
  const double direct =
      smooth_max(product(1, images * size * size, 9 * in, p.small_tile), moved(images_moved + 9 * filters), sharpness);

  // A block: 4 x 8 patches of 2 x 2 pixels of one image, 32 channels out.
  const double blocks = images * std::ceil(size / 8) * std::ceil(size / 16) * std::ceil(out / 32);
  const double waves = blocks / hardware.sms, mix = sigmoid(p.fused_wave_mix);
  const double counted = mix * std::ceil(waves) + (1 - mix) * std::max(waves, 1.0);
  const double block_flops = 2 * 16 * 32 * 32 * (8 * std::ceil(in / 8) + std::exp(p.fused_extra_depth));
  const double multiplied = std::log(counted * block_flops * hardware.sms / hardware.flops) - rate - p.fused_compute;
  const double fused = log_sum(smooth_max(multiplied, moved(images_moved + 16 * filters), sharpness),
                               moved((9 + 16) * filters) - p.fused_filter);

  const double patches = images * std::pow(std::ceil(size / 4), 2), transformed = 36 * patches * (in + out);
  const double products = smooth_max(product(36, patches, in, p.separate_small_tile) - p.separate_compute,
                                     moved(transformed + 36 * filters), sharpness);
  const double separate =
      log_sum(products, moved(images_moved + transformed + (9 + 36) * filters) - p.separate_transforms);

  const double choice = -std::exp(p.choice);
  return log_sum(smooth_max(smooth_max(direct, fused, choice), separate, choice), p.floor + e.floor);
}

template <const auto& parameters>
constexpr auto erased = rows_of(parameters);

template <class Rows>
constexpr std::size_t place_of(std::string_view name, const Rows& rows) {
  std::size_t place = 0;
  while (rows.at(place).name != name) ++place;
  return place;
}

/// What a class's formula says of numbers in the order of its rows.
template <const auto& parameters, const auto& effects, auto time>
double log_time_of(const double* p, const DeviceEffects& e, const Kernel& kernel, const Hardware& hardware) {
  return time(by_name(parameters, p), by_name(effects, e.data()), kernel, hardware);
}

template <const auto& parameters, const auto& effects, auto time>
constexpr KernelFormula formula_of(std::string_view name) {
  KernelFormula form;
  form.name = name;
  form.parameters = erased<parameters>;
  form.effects = erased<effects>;
  form.log_time = log_time_of<parameters, effects, time>;
  form.floor = place_of("floor", erased<parameters>);
  form.floor_effect = place_of("floor", erased<effects>);
  return form;
}

constexpr std::array<KernelFormula, kernel_classes> formulas = [] {
  KernelFormula linear = formula_of<matmul_parameters, matmul_effects, matmul_time>("linear"), bmm = linear;
  bmm.name = "bmm";
  linear.knee = bmm.knee = 0.02;  // docs/notes/optime.md, What was worth how much
  KernelFormula softmax = formula_of<softmax_parameters, row_effects, softmax_time>("softmax");
  softmax.long_row_width = 0.15;  // docs/notes/optime.md, Intervals
  KernelFormula layernorm = formula_of<layernorm_parameters, row_effects, layernorm_time>("layernorm");
  layernorm.long_row_width = 0.05;
  KernelFormula conv = formula_of<conv_parameters, conv_effects, conv_time>("conv");
  conv.shares_residual = true;  // docs/notes/optime.md, Without gain
  return std::array<KernelFormula, kernel_classes>{
      linear,    bmm,  formula_of<elementwise_parameters, vector_effects, elementwise_time>("elementwise"),   softmax,
      layernorm, conv, formula_of<half_matmul_parameters, half_matmul_effects, half_matmul_time>("gemm_bf16")};
}();

/// Share of the last tile or wave that works.
float filled(double number) { return static_cast<float>(number / std::ceil(number)); }
float log_of(double value) { return static_cast<float>(std::log(value)); }
float divides(double value, double unit) { return std::fmod(value, unit) == 0 ? 1.0F : 0.0F; }

}  // namespace

double Kernel::flops() const {
  if (kind == KernelClass::conv) return 2 * batch * m * m * n * k * 9;
  const bool product = kind == KernelClass::linear || kind == KernelClass::bmm || kind == KernelClass::gemm_bf16;
  return product ? 2 * batch * m * n * k : m * n;
}

double Kernel::bytes() const {
  if (kind == KernelClass::conv) return element_bytes * (batch * m * m * (k + n) + 9 * k * n);
  const bool product = kind == KernelClass::linear || kind == KernelClass::bmm || kind == KernelClass::gemm_bf16;
  return element_bytes * (product ? batch * (m * k + k * n + m * n) : tensors * m * n);
}

const KernelFormula& formula(KernelClass kind) { return formulas[static_cast<std::size_t>(kind)]; }

std::optional<KernelClass> kernel_class(std::string_view name) {
  for (std::size_t i = 0; i < formulas.size(); ++i) {
    if (formulas[i].name == name) return static_cast<KernelClass>(i);
  }
  return std::nullopt;
}

std::array<float, kernel_features> features_of(const Kernel& kernel, const Hardware& hardware) {
  const float cache = log_of(kernel.bytes() / hardware.l2);
  switch (kernel.kind) {
    case KernelClass::linear:
    case KernelClass::bmm:
    case KernelClass::gemm_bf16: {
      const double waves = kernel.batch * std::ceil(kernel.m / 128) * std::ceil(kernel.n / 128) / hardware.sms;
      return {log_of(kernel.batch), log_of(kernel.m),       log_of(kernel.n),       log_of(kernel.k),
              filled(waves),        log_of(waves),          divides(kernel.m, 4),   divides(kernel.n, 4),
              divides(kernel.k, 4), filled(kernel.m / 128), filled(kernel.n / 128), cache};
    }
    case KernelClass::conv: {
      const double rows = kernel.batch * kernel.m * kernel.m;
      const double waves = std::ceil(rows / 128) * std::ceil(kernel.n / 128) / hardware.sms;
      return {log_of(kernel.batch), log_of(kernel.k),      log_of(kernel.n),     log_of(kernel.m),
              log_of(waves),        filled(waves),         divides(kernel.k, 8), divides(kernel.n, 4),
              log_of(rows),         filled(kernel.n / 64), filled(kernel.m / 4), cache};
    }
    default:
      return {log_of(kernel.m),
              log_of(kernel.n),
              log_of(kernel.m * kernel.n),
              divides(kernel.n, 4),
              cache,
              static_cast<float>(kernel.variant)};
  }
}

}  // namespace perfpred
