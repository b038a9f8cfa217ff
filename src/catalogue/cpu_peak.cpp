// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <latch>
#include <new>
#include <numeric>
#include <string_view>
#include <thread>
#include <vector>

#include "catalogue/device_table.h"
#include "statistics/parallel.h"

namespace perfpred {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// What a sanitizer adds to these loops is not the CPU's.
#define PERFPRED_UNSANITIZED __attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")))

/// C[rows x width] += A[rows x depth] B[depth x width], A and B packed; C stays in registers, A and B in the L1 cache.
template <class Number, int vector_bytes, int rows, int vectors>
[[gnu::always_inline]] PERFPRED_UNSANITIZED inline void multiply_panel(const Number* a, const Number* b, Number* c,
                                                                       int depth) {
  using Vector [[gnu::vector_size(vector_bytes)]] = Number;
  constexpr int lanes = vector_bytes / static_cast<int>(sizeof(Number));
  Vector sum[rows][vectors] = {};
  for (int k = 0; k < depth; ++k) {
    Vector right[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) std::memcpy(&right[v], b + (k * vectors + v) * lanes, vector_bytes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] += a[k * rows + r] * right[v];
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      for (int l = 0; l < lanes; ++l) c[(r * vectors + v) * lanes + l] += sum[r][v][l];
    }
  }
}

constexpr int depth = 192;              // both panels fit a first-level cache of 48 KB
constexpr int max_panel = 12 * 2 * 16;  // of C, in numbers

/// One product of panels and the floating-point operations in it.
template <class Number>
struct PanelKernel {
  void (*run)(const Number* a, const Number* b, Number* c);
  double flops;
};

template <class Number, int vector_bytes, int rows, int vectors>
constexpr double panel_flops{2.0 * depth * rows * vectors * vector_bytes / sizeof(Number)};

template <class Number>
PERFPRED_UNSANITIZED void panel_baseline(const Number* a, const Number* b, Number* c) {
  multiply_panel<Number, 16, 6, 2>(a, b, c, depth);
}

#if defined(__x86_64__)
template <class Number>
[[gnu::target("avx2,fma")]] PERFPRED_UNSANITIZED void panel_avx2(const Number* a, const Number* b, Number* c) {
  multiply_panel<Number, 32, 6, 2>(a, b, c, depth);
}

template <class Number>
[[gnu::target("avx512f")]] PERFPRED_UNSANITIZED void panel_avx512(const Number* a, const Number* b, Number* c) {
  multiply_panel<Number, 64, 12, 2>(a, b, c, depth);
}
#endif

#undef PERFPRED_UNSANITIZED

template <class Number>
std::vector<PanelKernel<Number>> kernels() {
  std::vector<PanelKernel<Number>> all = {{panel_baseline<Number>, panel_flops<Number, 16, 6, 2>}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    all.push_back({panel_avx2<Number>, panel_flops<Number, 32, 6, 2>});
  }
  if (__builtin_cpu_supports("avx512f")) all.push_back({panel_avx512<Number>, panel_flops<Number, 64, 12, 2>});
#endif
  return all;
}

/// Blocks a second of all threads together while all of them work, from the tenth fastest of a hundred blocks of
/// each: other processes take whole time slices, which are longer than a block.
/// @param prepare  called in each thread; returns the function that does one block
/// @throws Error if the system has too little memory or refuses a thread
double blocks_per_sec(unsigned threads, int blocks, const std::function<std::function<void(int)>(unsigned)>& prepare) {
  std::latch gate(static_cast<std::ptrdiff_t>(threads));
  std::vector<double> rates(threads);
  std::atomic<bool> failed = false;
  const auto measure = [&](unsigned t) {
    std::function<void(int)> work;
    std::vector<double> secs;
    try {
      work = prepare(t);
      secs.reserve(static_cast<std::size_t>(blocks));
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    gate.arrive_and_wait();
    if (failed) return;
    for (int block = 0; block < blocks; ++block) {
      const auto begin = Clock::now();
      work(block);
      secs.push_back(seconds_since(begin));
    }
    const auto fast = secs.begin() + blocks / 10;
    std::nth_element(secs.begin(), fast, secs.end());
    rates[t] = 1 / *fast;
  };
  {
    std::vector<std::jthread> pool;
    try {
      for (unsigned t = 0; t < threads; ++t) pool.emplace_back(measure, t);
    } catch (const std::exception&) {
      failed = true;
      gate.count_down(static_cast<std::ptrdiff_t>(threads - pool.size()));  // for those that did not start
    }
  }
  if (failed) throw Error("this CPU cannot be measured: too little memory, or the system refuses a thread");
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

template <class Number>
double matrix_product_rate(unsigned threads) {
  constexpr int products = 100;
  double best = 0;
  std::atomic<Number> kept{0};  // so that no product is left out
  for (const PanelKernel<Number>& kernel : kernels<Number>()) {
    const auto prepare = [&kernel, &kept](unsigned) {
      const std::vector<Number> a(12 * depth, Number(1e-3)), b(2 * 16 * depth, Number(1e-3));
      return [a, b, c = std::vector<Number>(max_panel, 0), &kernel, &kept](int) mutable {
        for (int i = 0; i < products; ++i) kernel.run(a.data(), b.data(), c.data());
        kept = c.front();
      };
    };
    best = std::max(best, products * kernel.flops * blocks_per_sec(threads, 300, prepare));
  }
  return best;
}

double copy_rate(unsigned threads) {
  constexpr std::size_t chunk = 4 << 20;
  const double cache = static_cast<double>(std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  const double wanted = std::min(std::max(2 * cache, 128e6), memory / 8) / threads;  // no cache holds it
  const std::size_t chunks = std::max<std::size_t>(static_cast<std::size_t>(wanted) / chunk, 1);
  const auto prepare = [chunks](unsigned) {
    return [chunks, from = std::vector<char>(chunks * chunk, 1),
            to = std::vector<char>(chunks * chunk, 0)](int block) mutable {
      const std::size_t at = static_cast<std::size_t>(block) % chunks * chunk;
      std::memcpy(to.data() + at, from.data() + at, chunk);
    };
  };
  return 2.0 * chunk * blocks_per_sec(threads, static_cast<int>(3 * chunks), prepare);
}

}  // namespace

Device Device::this_cpu() {
  Device cpu;
  cpu.name = cpu_model_name();
  if (cpu.name.empty()) cpu.name = "cpu";
  cpu.aliases = {"cpu"};
  cpu.kind = DeviceKind::cpu;
  cpu.sms = usable_cpus();
  cpu.mem_gb = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e9;
  return cpu;
}

bool is_this_cpu(const Device& device) {
  if (device.kind != DeviceKind::cpu) return false;
  const auto means = [](std::string_view name) { return name == "cpu" || (!name.empty() && name == cpu_model_name()); };
  return means(device.name) || std::any_of(device.aliases.begin(), device.aliases.end(), means);
}

int this_cpu_vector_bits() {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512) return 512;
  if (__builtin_cpu_supports("avx2")) return 256;
#endif
  return 0;
}

Device Device::measured_cpu() {
  Device cpu = this_cpu();
  const auto threads = static_cast<unsigned>(*cpu.sms);
  cpu.fp32_tflops = cpu.fp32_vector_tflops = matrix_product_rate<float>(threads) / 1e12;
  cpu.fp64_tflops = cpu.fp64_vector_tflops = matrix_product_rate<double>(threads) / 1e12;
  cpu.mem_bw_gbs = copy_rate(threads) / 1e9;
  cpu.source = "measured now: small matrix product, copy";
  return cpu;
}

}  // namespace perfpred
