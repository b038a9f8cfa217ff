// SPDX-License-Identifier: Apache-2.0
#pragma once
// A folder of operators on three made-up GPUs whose times follow the roofline of Williams, Waterman and Patterson
// (2009).
#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "temporary_folder.h"

namespace perfpred::testing {

struct MadeUpGpu {
  const char* name;
  const char* arch;
  double tflops, gbs;
};

inline constexpr MadeUpGpu made_up_gpus[] = {
    {"T4", "Turing", 8, 320}, {"V100-32-PCIe", "Volta", 14, 900}, {"A100-40-PCIe", "Ampere", 19, 1555}};

/// Seconds at 80 % of the peak or 75 % of the bandwidth, and 10 us to start.
inline double made_up_seconds(const MadeUpGpu& gpu, double flops, double bytes) {
  return std::max(flops / (0.8e12 * gpu.tflops), bytes / (0.75e9 * gpu.gbs)) + 1e-5;
}

inline void write_made_up_ops(const TemporaryFolder& folder) {
  std::string gpus = "gpu,mem_bw_gbs,num_sm,freq_mhz,fp32_gflops,fp32_matrix_gflops,l2_mb,x_arch,x_tdp_w\n";
  std::string linear = "gpu,split,op,dtype,B,M,N,K,fwd_ms\n", vectors = "gpu,split,op,dtype,B,H,fwd_ms\n";
  std::string e2e = "gpu,model,mode,option,seq,batch,e2e_ms\n";
  std::mt19937 random(7);
  const auto size = [&](int low, int high) {
    return std::round(std::exp2(low + (high - low) * static_cast<double>(random()) / 4294967296.0) / 4) * 4;
  };
  const auto text = [](double value) { return std::to_string(value); };
  const auto whole = [](double value) { return std::to_string(static_cast<long>(value)); };
  for (const MadeUpGpu& gpu : made_up_gpus) {
    const std::string name = gpu.name, gflops = text(gpu.tflops * 1e3);
    // Without a power limit: the made-up cards sustain their peaks.
    gpus += name + "," + text(gpu.gbs) + ",64,1400," + gflops + "," + gflops + ",6," + gpu.arch + ",\n";
    for (int i = 0; i < 120; ++i) {
      const std::string split = i % 3 == 0 ? "test" : "train";
      const double m = size(7, 13), n = size(7, 12), k = size(7, 12);
      const double sec = made_up_seconds(gpu, 2 * m * n * k, 4 * (m * n + n * k + m * k));
      linear += name + "," + split + ",linear,fp32,1," + whole(m) + "," + whole(n) + "," + whole(k) + "," +
                text(sec * 1e3) + "\n";
      const double rows = size(8, 15), width = size(6, 12);
      vectors += name + "," + split + ",relu,fp32," + whole(rows) + "," + whole(width) + "," +
                 text(1e3 * made_up_seconds(gpu, rows * width, 8 * rows * width)) + "\n";
    }
    const double flops = 2.0 * 1024 * 1024 * 1024;
    e2e += name + ",mlp,inf,,128,8," + text(1e3 * 20 * flops / (0.8e12 * gpu.tflops)) + "\n";
    e2e += name + ",no_graph,inf,,128,8,1\n";
  }
  folder.write("gpus.csv", gpus);
  folder.write("op_linear.csv", linear);
  folder.write("op_elementwise.csv", vectors);
  folder.write("op_dropout.csv", "gpu,fwd_ms\nT4,1\n");
  folder.write("e2e.csv", e2e);
  folder.write(
      "graph_ops.csv",
      "model,mode,option,seq,batch,count,op,B,M,N,K,H,mem_elems\nmlp,inf,,128,8,20,linear,1,1024,1024,1024,,\n");
}

}  // namespace perfpred::testing
