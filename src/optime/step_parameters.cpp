// SPDX-License-Identifier: Apache-2.0
#include "optime/step_parameters.h"

namespace perfpred {
constinit const std::array<StepParameter, sizeof(StepParameters) / sizeof(double)> step_parameters = [] {
  using P = StepParameters;
  // Paragraphs of docs/notes/optime.md. Those of steps, middling efficiencies of CNNs on NVIDIA's cards, are moved by
  // the fit of all steps.
  constexpr std::string_view steps = "Training steps", h200 = "One H200", cpu = "Layers measured on a CPU",
                             timm = "One card, hundreds of networks", copies = "Copies to channels-last memory",
                             worth = "What was worth how much", cache = "Results that the cache holds",
                             feeding = "Bandwidth of a multiprocessor",
                             alignment = "Products that miss rows of 16 bytes",
                             compilers = "Compiled steps on the H200", softmax = "Fused attention of long texts";
  constexpr std::string_view winograd_paper = "Lavin, Gray 2016: 2.25 to 4 times fewer products",
                             recurrent_paper = "Diamos et al. 2016, Persistent RNNs";
  return std::to_array<StepParameter>({
      {"conv_forward", &P::conv_forward, {-0.78, 0.3}, "share of the peak, convolutions", steps},
      {"conv_input", &P::conv_input, {-0.37, 0.3}, "share of the peak, gradients of inputs", steps},
      {"conv_weight", &P::conv_weight, {-0.06, 0.3}, "share of the peak, gradients of weights", steps},
      {"winograd", &P::winograd, {0.99, 0.3}, "factor by which 3x3 convolutions need less", winograd_paper},
      {"winograd_weight", &P::winograd_weight, {0, 0.4}, "the same of the gradients of weights", winograd_paper},
      {"depth_half", &P::depth_half, {3.18, 0.7}, "terms of a sum at which a product has half its rate", steps},
      {"width_half", &P::width_half, {3.18, 0.7}, "columns at which a product has half its rate", steps},
      {"grouped", &P::grouped, {-0.78, 0.4}, "factor of the rate of grouped convolutions", timm},
      {"product", &P::product, {-0.36, 0.3}, "share of the peak, matrix products", steps},
      {"matrix_units", &P::matrix_units, {-0.5, 0.5}, "factor of the rate on matrix units", steps},
      {"fp64", &P::fp64, {-0.2, 0.4}, "factor of the rate in double precision", steps},
      {"memory_conv", &P::memory_conv, {-0.24, 0.3}, "share of the bandwidth, convolutions, products", steps},
      {"memory_depthwise_forward", &P::memory_depthwise_forward, {-0.69, 0.4}, "and depthwise ones", h200},
      {"memory_depthwise_input", &P::memory_depthwise_input, {-0.87, 0.4}, "and gradients of their inputs", h200},
      {"memory_depthwise_weight", &P::memory_depthwise_weight, {-1.5, 0.4}, "and gradients of their weights", h200},
      {"memory_norm", &P::memory_norm, {-0.8, 0.3}, "share of the bandwidth, batch norm", steps},
      {"memory_elementwise", &P::memory_elementwise, {-0.15, 0.2}, "share of the bandwidth, elementwise", steps},
      {"memory_rearrangement", &P::memory_rearrangement, {-0.42, 0.3}, "share of the bandwidth, copies", copies},
      {"memory_pooling", &P::memory_pooling, {-0.5, 0.4}, "share of the bandwidth, pooling", steps},
      {"memory_other", &P::memory_other, {-0.5, 0.4}, "share of the bandwidth, other operators", steps},
      {"gap", &P::gap, {-12.7, 0.4}, "s between two kernels (3 us)", steps},
      {"host", &P::host, {-11.3, 0.4}, "s in which the host dispatches an operator (12 us)", steps},
      {"host_backward", &P::host_backward, {0.4, 0.4}, "factor of the host's seconds for gradients", h200},
      {"half_storage", &P::half_storage, {-0.2, 0.3}, "factor of the bandwidth in half precision", steps},
      {"fixed", &P::fixed, {-7.3, 0.4}, "s of a step beside its kernels (0.7 ms)", steps},
      {"emulated_compute", &P::emulated_compute, {-0.2, 0.3}, "factor of the rate, half computed in single", steps},
      {"emulated_memory", &P::emulated_memory, {-0.4, 0.3}, "factor of the bandwidth there", steps},
      {"emulated_depthwise", &P::emulated_depthwise, {-0.4, 0.4}, "and of depthwise convolutions", steps},
      {"host_conv", &P::host_conv, {0.4, 0.4}, "factor of the host's seconds for convolutions", worth},
      {"host_norm", &P::host_norm, {0.2, 0.4}, "factor of the host's seconds for batch norm", worth},
      {"recurrent", &P::recurrent, {-0.66, 0.5}, "share of the peak, products with a state", recurrent_paper},
      {"depthwise_forward", &P::depthwise_forward, {-2, 0.5}, "share of a CPU's peak, depthwise convolutions", cpu},
      {"depthwise_input", &P::depthwise_input, {-2.5, 0.5}, "and gradients of their inputs", cpu},
      {"depthwise_weight", &P::depthwise_weight, {-2.5, 0.5}, "and gradients of their weights", cpu},
      {"norm_number", &P::norm_number, {-21.9, 0.15}, "s a number in a block of cuDNN's batch norm (0.3 ns)", h200},
      {"norm_number_own", &P::norm_number_own, {-21.3, 0.15}, "s a number in one of PyTorch's (0.6 ns)", h200},
      {"cache", &P::cache, {0, 0.5}, "factor of what of the cache holds the results just made", cache},
      {"clock_bytes",
       &P::clock_bytes,
       {3, 0.7},
       "bytes a clock that a multiprocessor moves at half the bandwidth (20)",
       feeding},
      {"transposing", &P::transposing, {0, 0.4}, "factor of the seconds of copies to channels-last memory", copies},
      {"transposing_single", &P::transposing_single, {0, 0.4}, "and of those in single precision", copies},
      {"misaligned", &P::misaligned, {0.4, 0.4}, "factor of products that miss the rows of matrix units", alignment},
      {"matrix_units_forward", &P::matrix_units_forward, {0, 0.3}, "and of convolutions forward", steps},
      {"depthwise_channels_last", &P::depthwise_channels_last, {0, 0.4}, "factor, depthwise in channels-last", timm},
      {"grouped_channels_last", &P::grouped_channels_last, {0, 0.4}, "factor, grouped in channels-last memory", timm},
      {"attention_single",
       &P::attention_single,
       {1.5, 0.01},
       "factor of the seconds of TF32's attention",
       compilers,
       true},
      {"fused", &P::fused, {0.5, 0.01}, "factor of the bandwidth, kernels that a compiler writes", compilers, true},
      {"attention_softmax",
       &P::attention_softmax,
       {1, 0.01},
       "power of what the softmax of fused attention takes beside its products",
       softmax,
       true},
  });
}();

StepParameters prior_means() {
  StepParameters parameters;
  for (const StepParameter& row : step_parameters) parameters.*row.value = row.prior.mean;
  return parameters;
}

}  // namespace perfpred
