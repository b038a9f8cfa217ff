// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <string_view>

namespace perfpred {

/// Arithmetic of a training step. `fp32` turns TF32 off, `tf32` turns it on, for matrix products and convolutions.
/// `default_`, in text `default`, is what PyTorch does without settings: TF32 in convolutions, fp32 in matrix products.
/// `bf16` and `fp16` are automatic mixed precision (fp16 with a gradient scaler).
enum class Precision { fp32, tf32, bf16, fp16, fp64, unknown, default_ };

/// Whether products are computed in 16 bits.
[[nodiscard]] constexpr bool is_half(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::fp16;
}

/// `sgd` has no momentum, `nesterov` and `momentum` have momentum 0.9. `adam8bit` and `adamw8bit` are those of
/// bitsandbytes, with states of a byte an element; `paged_adamw8bit` keeps them in unified memory, which the driver
/// moves to the host where the device's is full. `adafactor` is that of transformers, `muon` and `lion` those of their
/// papers.
enum class Optimizer {
  none,
  sgd,
  nesterov,
  adam,
  adamw,
  adagrad,
  adadelta,
  rmsprop,
  adam8bit,
  adamw8bit,
  paged_adamw8bit,
  adafactor,
  lion,
  muon,
  lamb,
  momentum
};

/// How an optimizer goes through the parameters: `fused`, one kernel that does the whole update; `foreach`, PyTorch's
/// default, a kernel for each of its arithmetic operations.
enum class OptimizerImpl { fused, foreach };

/// Memory layout of image tensors.
enum class Layout { nchw, nhwc };

/// How a transformer computes softmax(q k^T) v: `sdpa` calls PyTorch's scaled_dot_product_attention, one kernel where
/// the device has it; `eager` multiplies, masks and normalises the matrix of all pairs in operators of their own.
enum class Attention { sdpa, eager };

/// Type of the parameters. `as_precision`: single precision, cast by autocast under `bf16` and `fp16`. `bf16`, `fp16`:
/// parameters, gradients and optimizer states are in that type. `nf4` (Dettmers et al. 2023), `int8` (Dettmers et al.
/// 2022), `int4` (GPTQ, Frantar et al. 2022): those of the blocks' projections are packed, and all are frozen.
enum class Weights { as_precision, bf16, fp16, nf4, int8, int4 };

/// How a language model's head computes the loss: `whole`, from the logits of all positions; `chunked`, of some
/// positions at a time, whose gradients are computed at once (Hsu et al. 2024).
enum class LossForm { whole, chunked };

/// What fills the sequences of a batch: `packed`, words alone; `padded`, also padding, which attention masks, up to the
/// longest of the batch; `max`, padding up to one length that all batches have.
enum class Padding { packed, padded, max };
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
[[nodiscard]] PERFPRED_API std::string_view to_string(Weights weights);
[[nodiscard]] PERFPRED_API std::string_view to_string(LossForm loss);
[[nodiscard]] PERFPRED_API std::string_view to_string(Padding padding);
[[nodiscard]] PERFPRED_API std::string_view to_string(Software software);
[[nodiscard]] PERFPRED_API std::string_view to_string(Loader loader);
[[nodiscard]] PERFPRED_API std::string_view to_string(Phases phases);
[[nodiscard]] PERFPRED_API std::string_view to_string(Phase phase);
[[nodiscard]] PERFPRED_API std::string_view to_string(Bound bound);

/// Without regard to case, and by other words: `amp`, `mixed`, `half` and `float16` are fp16, `bfloat16` is bf16,
/// `float32` fp32. @throws InputError, listing the choices, for any other text
[[nodiscard]] PERFPRED_API Precision parse_precision(std::string_view text);
/// @throws InputError, listing the choices, for any other text
[[nodiscard]] PERFPRED_API Optimizer parse_optimizer(std::string_view text);
[[nodiscard]] PERFPRED_API Layout parse_layout(std::string_view text);                 ///< @copydoc parse_optimizer
[[nodiscard]] PERFPRED_API Attention parse_attention(std::string_view text);           ///< @copydoc parse_optimizer
[[nodiscard]] PERFPRED_API OptimizerImpl parse_optimizer_impl(std::string_view text);  ///< @copydoc parse_optimizer
[[nodiscard]] PERFPRED_API Weights parse_weights(std::string_view text);               ///< @copydoc parse_optimizer
[[nodiscard]] PERFPRED_API LossForm parse_loss_form(std::string_view text);            ///< @copydoc parse_optimizer
[[nodiscard]] PERFPRED_API Padding parse_padding(std::string_view text);               ///< @copydoc parse_optimizer
[[nodiscard]] PERFPRED_API Software parse_software(std::string_view text);             ///< @copydoc parse_optimizer
[[nodiscard]] PERFPRED_API Loader parse_loader(std::string_view text);                 ///< @copydoc parse_optimizer
[[nodiscard]] PERFPRED_API Phases parse_phases(std::string_view text);                 ///< @copydoc parse_optimizer

}  // namespace perfpred
