// SPDX-License-Identifier: Apache-2.0
#include "torch/network/first_weights.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/empty.h>

namespace perfpred {

FirstWeights::FirstWeights(std::uint64_t seed, c10::Device device, bool on_device, bool tokens)
    : on_device_(on_device && !device.is_cpu()),
      tokens_(tokens),
      generator_(on_device_ ? at::globalContext().defaultGenerator(device).clone()
                            : at::make_generator<at::CPUGeneratorImpl>()) {
  generator_.set_current_seed(seed);
}

template <class Fill>
void FirstWeights::draw(at::Tensor& parameter, const Fill& fill) {
  if (on_device_) {
    fill(parameter);
    return;
  }
  at::Tensor values = at::empty(parameter.sizes(), at::kFloat);
  fill(values);
  parameter.copy_(values);
}

void FirstWeights::normal(at::Tensor& parameter, double deviation) {
  draw(parameter, [&](at::Tensor& values) { values.normal_(0, deviation, generator_); });
}

void FirstWeights::uniform(at::Tensor& parameter, double limit) {
  draw(parameter, [&](at::Tensor& values) { values.uniform_(-limit, limit, generator_); });
}

}  // namespace perfpred
