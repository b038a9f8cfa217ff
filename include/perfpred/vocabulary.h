// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <string_view>

namespace perfpred {

/// Arithmetic of a training step. `fp32` turns TF32 off, `tf32` turns it on, for matrix products and convolutions.
/// `default_`, in text `default`, is what PyTorch does without settings: TF32 in convolutions, fp32 in matrix products.
/// `bf16` and `fp16` are automatic mixed precision (fp16 with a gradient scaler).
enum class Precision { fp32, tf32, bf16, fp16, fp64, unknown, default_ };

/// `sgd` has no momentum, `nesterov` has momentum 0.9.
enum class Optimizer { none, sgd, nesterov, adam, adamw, adagrad, adadelta, rmsprop };

/// How an optimizer goes through the parameters: `fused`, one kernel that does the whole update; `foreach`, PyTorch's
/// default, a kernel for each of its arithmetic operations.
enum class OptimizerImpl { fused, foreach };

/// Memory layout of image tensors.
enum class Layout { nchw, nhwc };

/// How a transformer computes softmax(q k^T) v: `sdpa` calls PyTorch's scaled_dot_product_attention, one kernel where
/// the device has it; `eager` multiplies, masks and normalises the matrix of all pairs in operators of their own.
enum class Attention { sdpa, eager };

/// The program that trains. `xla` is TensorFlow compiled by XLA; `tensorflow` executes its graph operator by operator.
enum class Software { pytorch, tensorflow, xla, mxnet, paddle, jax };

/// Whether a step's time includes reading and preparing its samples: `none`, they are on the device; `included`, a
/// loader brings them.
enum class Loader { none, included };

/// What a step does: `all`, it trains; `forward`, a pass in evaluation mode without gradients.
enum class Phases { all, forward };

/// Part of a training step.
enum class Phase { forward, loss, backward, optimizer };

/// What limits a training step.
enum class Bound { compute, memory, launch, data };

[[nodiscard]] PERFPRED_API std::string_view to_string(Precision precision);
[[nodiscard]] PERFPRED_API std::string_view to_string(Optimizer optimizer);
[[nodiscard]] PERFPRED_API std::string_view to_string(Layout layout);
[[nodiscard]] PERFPRED_API std::string_view to_string(Attention attention);
[[nodiscard]] PERFPRED_API std::string_view to_string(OptimizerImpl impl);
[[nodiscard]] PERFPRED_API std::string_view to_string(Software software);
[[nodiscard]] PERFPRED_API std::string_view to_string(Loader loader);
[[nodiscard]] PERFPRED_API std::string_view to_string(Phases phases);
[[nodiscard]] PERFPRED_API std::string_view to_string(Phase phase);
[[nodiscard]] PERFPRED_API std::string_view to_string(Bound bound);

/// @throws InputError, listing the choices, for any other text
[[nodiscard]] PERFPRED_API Precision parse_precision(std::string_view text);
[[nodiscard]] PERFPRED_API Optimizer parse_optimizer(std::string_view text);           ///< @copydoc parse_precision
[[nodiscard]] PERFPRED_API Layout parse_layout(std::string_view text);                 ///< @copydoc parse_precision
[[nodiscard]] PERFPRED_API Attention parse_attention(std::string_view text);           ///< @copydoc parse_precision
[[nodiscard]] PERFPRED_API OptimizerImpl parse_optimizer_impl(std::string_view text);  ///< @copydoc parse_precision
[[nodiscard]] PERFPRED_API Software parse_software(std::string_view text);             ///< @copydoc parse_precision
[[nodiscard]] PERFPRED_API Loader parse_loader(std::string_view text);                 ///< @copydoc parse_precision
[[nodiscard]] PERFPRED_API Phases parse_phases(std::string_view text);                 ///< @copydoc parse_precision

}  // namespace perfpred
