// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace perfpred {

/// Draws the first values of parameters, in the order in which it is asked. On the CPU they are drawn in single
/// precision, whatever the parameter's type.
class FirstWeights {
 public:
  /// @param on_device  draws on the device: fast, but the values then differ between devices
  /// @param tokens     of a network of token numbers
  FirstWeights(std::uint64_t seed, c10::Device device, bool on_device, bool tokens);

  void normal(at::Tensor& parameter, double deviation);
  void uniform(at::Tensor& parameter, double limit);  ///< from -limit to limit
  [[nodiscard]] bool tokens() const { return tokens_; }

 private:
  template <class Fill>
  void draw(at::Tensor& parameter, const Fill& fill);

  bool on_device_, tokens_;
  at::Generator generator_;
};

}  // namespace perfpred
