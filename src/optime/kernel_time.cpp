// SPDX-License-Identifier: Apache-2.0
#include "optime/kernel_time.h"

#include <algorithm>
#include <cmath>

namespace perfpred {
namespace {

/// log(e^a + e^b)
double log_sum(double a, double b) { return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b))); }

/// Smooth maximum of two logarithms: the p-norm of what they are the logarithms of.
double smooth_max(double a, double b, double p) { return log_sum(p * a, p * b) / p; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Tile {
  double m, n;
  int cost;  // index of the parameter that holds log efficiency; -1: the best
};

/// Seconds of a matrix product at the peak rate, by the best tile and split of the sum: whole tiles, waves between
/// their number and its ceiling.
template <std::size_t count>
double tiled_seconds(const std::array<Tile, count>& tiles, const double* parameters, double small_tiles,
                     double wave_mix, double extra_depth, const Kernel& kernel, const Hardware& hardware) {
  constexpr std::array<double, 4> split_cost = {1, 1.030454533953517, 1.0618365465453596, 1.0941742837052104};
  double best = HUGE_VAL;
  for (const Tile& tile : tiles) {
    const double efficiency =
        std::exp((tile.cost < 0 ? 0 : parameters[tile.cost]) -
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

/// Efficiencies have tight priors, so that a throttled card does not pass for slow tiles, nor one for slow memory.
constexpr std::array<KernelParameter, 14> matmul_parameters = {{{"compute", -0.05, 0.03},
                                                                {"memory", -0.25, 0.03},
                                                                {"floor", -10.82, 1},
                                                                {"extra_depth", 3, 0.5},
                                                                {"wave_mix", 0, 1},
                                                                {"sharpness", 1.8, 0.2},
                                                                {"power", -0.03, 0.03},
                                                                {"unaligned32", 0, 0.1},
                                                                {"long_rows", 0, 0.1},
                                                                {"unaligned4", 0.1, 0.1},
                                                                {"tile_128x64", -0.03, 0.1},
                                                                {"tile_64x64", -0.1, 0.1},
                                                                {"tile_64x32", -0.2, 0.1},
                                                                {"tile_32x32", -0.3, 0.1}}};
constexpr std::array<KernelEffect, 5> matmul_effects = {{{"compute", 0.1, 0.01, 0.1},
                                                         {"memory", 0.2, 0.05, 0.2},
                                                         {"floor", 0.3, 0.3, 0.3},
                                                         {"long_rows", 0.1, 0.3, 0.3},
                                                         {"small_tiles", 0.005, 0.005, 0.3}}};

double matmul_time(const double* p, const DeviceEffects& e, const Kernel& kernel, const Hardware& hardware) {
  constexpr std::array<Tile, 5> tiles = {{{128, 128, -1}, {128, 64, 10}, {64, 64, 11}, {64, 32, 12}, {32, 32, 13}}};
  const double tiled = std::log(tiled_seconds(tiles, p, e[4], sigmoid(p[4]), std::exp(p[3]), kernel, hardware)) - p[0];
  const double powered = std::log(kernel.flops() / (hardware.flops * hardware.power_share)) - p[6];
  const auto unaligned = [&](double unit) { return std::fmod(kernel.k, unit) != 0 || std::fmod(kernel.n, unit) != 0; };
  double penalty = (unaligned(4) ? p[9] : 0) + (unaligned(32) ? p[7] : 0);
  penalty += (p[8] + e[3]) * std::clamp(std::log(kernel.k / 8192), 0.0, 1.2);  // rows on many pages
  const double compute = smooth_max(tiled, powered, 12) - e[0] + penalty;
  const double memory = std::log(kernel.bytes() / hardware.bandwidth) - p[1] - e[1];
  return log_sum(smooth_max(compute, memory, std::exp(p[5])), p[2] + e[2]);
}

constexpr std::array<KernelParameter, 9> half_matmul_parameters = {{{"compute", -0.2, 0.03},
                                                                    {"memory", -0.25, 0.15},
                                                                    {"floor", -12.56, 0.3},
                                                                    {"extra_depth", 4, 0.5},
                                                                    {"wave_mix", 0, 1},
                                                                    {"small_tile", -0.1, 0.1},
                                                                    {"sharpness", 0.9, 0.3},
                                                                    {"l2_speed", 0.5, 0.3},
                                                                    {"power", -0.15, 0.03}}};
constexpr std::array<KernelEffect, 4> half_matmul_effects = {
    {{"compute", 0.15, 0.02, 0.15}, {"memory", 0.1, 0.02, 0.15}, {"floor", 0.2, 0.2, 0.2}, {"power", 0.3, 0.02, 0.4}}};

/// A limit of power is a ceiling beside the tiles: where a product leaves units idle, the clock rises.
double half_matmul_time(const double* p, const DeviceEffects& e, const Kernel& kernel, const Hardware& hardware) {
  constexpr std::array<Tile, 5> tiles = {{{128, 256, -1}, {128, 128, 0}, {64, 128, 1}, {64, 64, 2}, {32, 64, 3}}};
  const std::array<double, 4> costs = {p[5], 2 * p[5], 3 * p[5], 4 * p[5]};
  const double tiled =
      std::log(tiled_seconds(tiles, costs.data(), 0, sigmoid(p[4]), std::exp(p[3]), kernel, hardware)) - p[0] - e[0];
  const double powered = std::log(kernel.flops() / hardware.flops) - p[8] - e[3];
  const double compute = smooth_max(tiled, powered, 12);
  const double bytes = kernel.bytes(), cached = std::min(1.0, 0.7 * hardware.l2 / bytes);
  const double memory = std::log(bytes / hardware.bandwidth * (1 - cached + cached * std::exp(-p[7]))) - p[1] - e[1];
  return log_sum(smooth_max(compute, memory, std::exp(p[6])), p[2] + e[2]);
}

constexpr std::array<KernelParameter, 16> elementwise_parameters = {{{"memory", -0.15, 0.1},
                                                                     {"l2_speed", 0.5, 0.5},
                                                                     {"floor", -11.33, 0.5},
                                                                     {"sharpness", 0.5, 0.4},
                                                                     {"flops", 0.69, 0.5},
                                                                     {"l2_share", 0, 0.3},
                                                                     {"add", 0, 0.1},
                                                                     {"div", 0, 0.1},
                                                                     {"divu", 0, 0.1},
                                                                     {"gelu", 0, 0.1},
                                                                     {"mul", 0, 0.1},
                                                                     {"mulu", 0, 0.1},
                                                                     {"pow", 0, 0.1},
                                                                     {"powu", 0, 0.1},
                                                                     {"relu", 0, 0.1},
                                                                     {"tanh", 0, 0.1}}};
constexpr std::array<KernelEffect, 4> vector_effects = {
    {{"memory", 0.1, 0.05, 0.15}, {"l2_speed", 0.3, 0.2, 0.3}, {"floor", 0.3, 0.2, 0.3}, {"flops", 0.1, 0.05, 0.3}}};

/// Seconds to move a vector kernel's bytes: what fits the cache moves at the cache's speed.
double log_memory(const double* p, const DeviceEffects& e, const Kernel& kernel, const Hardware& hardware,
                  double l2_share) {
  const double bytes = kernel.bytes(), cached = std::min(1.0, 0.7 * hardware.l2 * std::exp(l2_share) / bytes);
  return std::log(bytes / hardware.bandwidth * (1 - cached + cached * std::exp(-p[1] - e[1]))) - p[0] - e[0];
}

double elementwise_time(const double* p, const DeviceEffects& e, const Kernel& kernel, const Hardware& hardware) {
  const double own = kernel.variant == 0 ? 0 : p[5 + kernel.variant];
  const double memory = log_memory(p, e, kernel, hardware, p[5]) - own;
  const double compute = std::log(kernel.m * kernel.n / hardware.vector_flops) + p[4] + e[3];
  return smooth_max(smooth_max(memory, compute, 4), p[2] + e[2], std::exp(p[3]));
}

/// Of kernels that read a row more than once.
constexpr std::array<KernelEffect, 5> row_effects = {{{"memory", 0.1, 0.05, 0.15},
                                                      {"l2_speed", 0.3, 0.2, 0.3},
                                                      {"floor", 0.3, 0.2, 0.3},
                                                      {"round", 0.1, 0.05, 0.3},
                                                      {"rows_in_flight", 0.2, 0.05, 0.2}}};

/// Seconds of rows, each read more than once by so many threads. What is read again comes from the cache where the rows
/// in flight fit it. Threads wait for each of their `rounds` of loads, which p[8] more stand for what a row waits else.
double log_repeated(const double* p, const DeviceEffects& e, const Kernel& kernel, const Hardware& hardware,
                    double threads, double rounds) {
  const double in_flight = hardware.threads / threads, again = std::exp(p[4]);
  const double filled = kernel.element_bytes * kernel.n * in_flight / (hardware.l2 / hardware.l2_partitions);
  const double from_memory = again * sigmoid((std::log(filled) + p[6] + e[4]) / 0.2);
  const double memory = log_memory(p, e, kernel, hardware, p[5]) + std::log1p(from_memory);
  const double cache = std::log(kernel.bytes() * (1 + again) / hardware.bandwidth) - p[1] - e[1];
  const double latency = std::log(kernel.m / in_flight * (rounds + std::exp(p[8]))) + p[7] + e[3];
  return smooth_max(smooth_max(memory, cache, 4), latency, 4);
}

/// Caches read 2.2 to 5 times as fast as memory (Jia, Maggioni, Smith, Scarpazza 2019: T4, P4, V100, P100).
constexpr std::array<KernelParameter, 9> layernorm_parameters = {{{"memory", -0.15, 0.1},
                                                                  {"l2_speed", 0.9, 0.3},
                                                                  {"floor", -11.33, 0.5},
                                                                  {"sharpness", 0.5, 0.4},
                                                                  {"read_again", -0.7, 0.1},
                                                                  {"l2_share", 0, 0.3},
                                                                  {"rows_in_flight", 0, 0.3},
                                                                  {"round", -13, 0.5},
                                                                  {"other_rounds", 0.5, 0.5}}};

/// Rows are read twice, by 128 threads that load four numbers in a round (PyTorch, layer_norm_kernel.cu).
double layernorm_time(const double* p, const DeviceEffects& e, const Kernel& kernel, const Hardware& hardware) {
  const double rows = log_repeated(p, e, kernel, hardware, 128, std::ceil(kernel.n / (4 * 128)));
  return smooth_max(rows, p[2] + e[2], std::exp(p[3]));
}

constexpr std::array<KernelParameter, 10> softmax_parameters = {{{"memory", -0.15, 0.1},
                                                                 {"l2_speed", 0.9, 0.3},
                                                                 {"floor", -11.33, 0.5},
                                                                 {"sharpness", 0.5, 0.4},
                                                                 {"read_again", 0, 0.1},
                                                                 {"l2_share", 0, 0.3},
                                                                 {"rows_in_flight", 0, 0.3},
                                                                 {"round", -13, 0.5},
                                                                 {"other_rounds", 0.5, 0.5},
                                                                 {"unaligned", 0.1, 0.2}}};

/// Rows of up to 1,024 numbers stay in registers. Longer ones are read three times, for the largest, the sum and the
/// result. A round loads 16 aligned bytes for each thread, or one number: before the first aligned one, and of what
/// full rounds leave (PyTorch, SoftMax.cu).
double softmax_time(const double* p, const DeviceEffects& e, const Kernel& kernel, const Hardware& hardware) {
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
    rows = log_memory(p, e, kernel, hardware, p[5]);
  }
  return smooth_max(rows + (unaligned ? p[9] : 0), p[2] + e[2], std::exp(p[3]));
}

constexpr std::array<KernelParameter, 15> conv_parameters = {{{"compute", -0.2, 0.2},
                                                              {"memory", -0.2, 0.2},
                                                              {"floor", -9, 0.7},
                                                              {"extra_depth", 3, 0.7},
                                                              {"wave_mix", 0, 1},
                                                              {"small_tile", -0.1, 0.1},
                                                              {"sharpness", 1, 0.3},
                                                              {"choice", 2.1, 0.5},
                                                              {"fused_compute", -0.2, 0.3},
                                                              {"fused_extra_depth", 3, 0.7},
                                                              {"fused_wave_mix", 0, 1},
                                                              {"fused_filter", 0, 0.4},
                                                              {"separate_compute", -0.2, 0.3},
                                                              {"separate_small_tile", -0.1, 0.1},
                                                              {"separate_transforms", 0, 0.4}}};
constexpr std::array<KernelEffect, 3> conv_effects = {
    {{"compute", 0.15, 0.05, 0.15}, {"memory", 0.2, 0.1, 0.15}, {"floor", 0.3, 0.2, 0.2}}};

/// 3x3, stride 1, padding 1, by the fastest of three algorithms of cuDNN: one implicit product; Winograd's F(2x2, 3x3)
/// in one kernel after the filter's transform; F(4x4, 3x3) as 36 products between kernels that transform (Lavin, Gray
/// 2016). They were measured on zeros, which draw some 0.6 of the power that other numbers do (Gregersen, Patel,
/// Choukse 2024).
double conv_time(const double* p, const DeviceEffects& e, const Kernel& kernel, const Hardware& hardware) {
  const double images = kernel.batch, in = kernel.k, out = kernel.n, size = kernel.m, bytes = kernel.element_bytes;
  const double sharpness = std::exp(p[6]);
  const double rate = p[0] + e[0] + log_share_at(hardware.power_share, 0.6);
  const auto moved = [&](double elements) { return std::log(bytes * elements / hardware.bandwidth) - p[1] - e[1]; };
  const auto product = [&](double batch, double m, double k, double small_tile) {
    constexpr std::array<Tile, 4> tiles = {{{128, 128, -1}, {128, 64, 0}, {64, 64, 1}, {128, 32, 2}}};
    const std::array<double, 3> costs = {small_tile, 1.5 * small_tile, 2 * small_tile};
    const Kernel gemm{KernelClass::linear, 0, batch, m, out, k, 0, bytes};
    return std::log(tiled_seconds(tiles, costs.data(), 0, sigmoid(p[4]), std::exp(p[3]), gemm, hardware)) - rate;
  };
  const double images_moved = images * size * size * (in + out), filters = in * out;
  const double direct =
      smooth_max(product(1, images * size * size, 9 * in, p[5]), moved(images_moved + 9 * filters), sharpness);

  // A block: 4 x 8 patches of 2 x 2 pixels of one image, 32 channels out.
  const double blocks = images * std::ceil(size / 8) * std::ceil(size / 16) * std::ceil(out / 32);
  const double waves = blocks / hardware.sms, mix = sigmoid(p[10]);
  const double counted = mix * std::ceil(waves) + (1 - mix) * std::max(waves, 1.0);
  const double block_flops = 2 * 16 * 32 * 32 * (8 * std::ceil(in / 8) + std::exp(p[9]));
  const double multiplied = std::log(counted * block_flops * hardware.sms / hardware.flops) - rate - p[8];
  const double fused =
      log_sum(smooth_max(multiplied, moved(images_moved + 16 * filters), sharpness), moved((9 + 16) * filters) - p[11]);

  const double patches = images * std::pow(std::ceil(size / 4), 2), transformed = 36 * patches * (in + out);
  const double products =
      smooth_max(product(36, patches, in, p[13]) - p[12], moved(transformed + 36 * filters), sharpness);
  const double separate = log_sum(products, moved(images_moved + transformed + (9 + 36) * filters) - p[14]);

  const double choice = -std::exp(p[7]);
  return log_sum(smooth_max(smooth_max(direct, fused, choice), separate, choice), p[2] + e[2]);
}

constexpr std::array<KernelFormula, kernel_classes> formulas = {{
    {"linear", matmul_parameters, matmul_effects, matmul_time, 2, 2, 0, false, 0.02},
    {"bmm", matmul_parameters, matmul_effects, matmul_time, 2, 2, 0, false, 0.02},
    {"elementwise", elementwise_parameters, vector_effects, elementwise_time, 2, 2},
    {"softmax", softmax_parameters, row_effects, softmax_time, 2, 2, 0.15},
    {"layernorm", layernorm_parameters, row_effects, layernorm_time, 2, 2, 0.05},
    {"conv", conv_parameters, conv_effects, conv_time, 2, 2, 0, true},
    {"gemm_bf16", half_matmul_parameters, half_matmul_effects, half_matmul_time, 2, 2},
}};

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
