#include <perfpred/device.h>
#include <perfpred/error.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace perfpred {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// C[rows x width] += A[rows x depth] B[depth x width], A and B packed; C stays in registers, A and B in the L1 cache.
template <class Number, int vector_bytes, int rows, int vectors>
[[gnu::always_inline]] inline void multiply_panel(const Number* a, const Number* b, Number* c, int depth) {
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

constexpr int depth = 192;                  // both panels fit a first-level cache of 48 KB
constexpr int largest_panel = 12 * 2 * 16;  // of C, in numbers

/// One product of panels and the floating-point operations in it.
template <class Number>
struct PanelKernel {
  void (*run)(const Number* a, const Number* b, Number* c);
  double flops;
};

template <class Number, int vector_bytes, int rows, int vectors>
constexpr double panel_flops = 2.0 * rows* vectors*(vector_bytes / static_cast<int>(sizeof(Number))) * depth;

template <class Number>
void panel_baseline(const Number* a, const Number* b, Number* c) {
  multiply_panel<Number, 16, 6, 2>(a, b, c, depth);
}

#if defined(__x86_64__)
template <class Number>
[[gnu::target("avx2,fma")]] void panel_avx2(const Number* a, const Number* b, Number* c) {
  multiply_panel<Number, 32, 6, 2>(a, b, c, depth);
}

template <class Number>
[[gnu::target("avx512f")]] void panel_avx512(const Number* a, const Number* b, Number* c) {
  multiply_panel<Number, 64, 12, 2>(a, b, c, depth);
}
#endif

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

/// Seconds that all threads together need for `work(thread)`: from their common start to the end of the last one, the
/// shortest of several times (what else runs on the machine only adds).
double shortest_sec(unsigned threads, int times, const std::function<void(unsigned)>& work) {
  std::barrier gate(static_cast<std::ptrdiff_t>(threads) + 1);
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < threads; ++t) {
    pool.emplace_back([&gate, &work, times, t] {
      for (int i = 0; i < times; ++i) {
        gate.arrive_and_wait();
        work(t);
        gate.arrive_and_wait();
      }
    });
  }
  double shortest = 0;
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    gate.arrive_and_wait();
    gate.arrive_and_wait();
    const double sec = seconds_since(begin);
    if (i == 0 || sec < shortest) shortest = sec;
  }
  for (std::thread& thread : pool) thread.join();
  return shortest;
}

template <class Number>
double matrix_product_rate(unsigned threads) {
  std::atomic<Number> kept{0};  // so that no product is left out
  double best = 0;
  for (const PanelKernel<Number>& kernel : kernels<Number>()) {
    constexpr int products = 1500;
    const auto work = [&kernel, &kept](unsigned) {
      const std::vector<Number> a(12 * depth, Number(1e-3)), b(2 * 16 * depth, Number(1e-3));
      std::vector<Number> c(largest_panel, 0);
      for (int i = 0; i < products; ++i) kernel.run(a.data(), b.data(), c.data());
      kept = c.front();
    };
    best = std::max(best, threads * products * kernel.flops / shortest_sec(threads, 9, work));
  }
  return best;
}

double copy_rate(unsigned threads) {
  const long cache = std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0L);
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  const double wanted = std::max(2.0 * static_cast<double>(cache), 128e6);
  const auto bytes = static_cast<std::size_t>(std::min(wanted, memory / 8)) / threads;
  struct Buffers {
    std::unique_ptr<char[]> from, to;
  };
  std::vector<Buffers> buffers(threads);
  const auto touch = [&buffers, bytes](unsigned t) {
    buffers[t] = {std::make_unique<char[]>(bytes), std::make_unique<char[]>(bytes)};
  };
  shortest_sec(threads, 1, touch);
  const auto copy = [&buffers, bytes](unsigned t) { std::memcpy(buffers[t].to.get(), buffers[t].from.get(), bytes); };
  return 2.0 * static_cast<double>(bytes) * threads / shortest_sec(threads, 5, copy);
}

}  // namespace

Device Device::measured_cpu() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) throw DeviceError("the kernel does not name our CPUs");
  const auto threads = static_cast<unsigned>(std::max(CPU_COUNT(&allowed), 1));
  Device cpu;
  cpu.name = cpu_model_name();
  if (cpu.name.empty()) cpu.name = "cpu";
  cpu.aliases = {"cpu"};
  cpu.sms = threads;
  cpu.mem_gb = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e9;
  cpu.fp32_tflops = cpu.fp32_vector_tflops = matrix_product_rate<float>(threads) / 1e12;
  cpu.fp64_tflops = cpu.fp64_vector_tflops = matrix_product_rate<double>(threads) / 1e12;
  cpu.mem_bw_gbs = copy_rate(threads) / 1e9;
  cpu.source = "measured now: small matrix product, copy";
  return cpu;
}

}  // namespace perfpred
