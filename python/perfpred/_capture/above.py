# SPDX-License-Identifier: Apache-2.0
"""What CUDA does above autograd and tensors without memory do not: autocast, attention and dropout in one kernel.

Autocast, scaled_dot_product_attention and dropout choose by the device of their tensors. To choose as for CUDA, kernels
are registered on the autocast key of a backend that has none of its own; they run on threads where `above_autograd()`
includes that key.
"""

from typing import Any

import torch

from perfpred._capture.place import META, is_meta

_KEY = torch._C.DispatchKey.AutocastIPU
_BELOW = torch._C._dispatch_keyset_full_after(_KEY)
_KEYSET = torch._C.DispatchKeySet(_KEY)

# The lists of LibTorch's ATen/autocast_mode.h for CUDA: in the half type; in single precision; with a result in single
# precision; in the widest type of the arguments.
_HALF = """_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution prelu
    addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
    _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"""
_SINGLE = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm
    native_layer_norm group_norm frobenius_norm nuclear_norm cosine_similarity poisson_nll_loss cosine_embedding_loss
    nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist
    pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
    _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
    _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa"""
_SINGLE_RESULT = "prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum norm"
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"

# Losses: what computes them belongs to the phase `loss`, also inside a network's forward().
_LOSSES = """cross_entropy_loss nll_loss_nd nll_loss nll_loss2d mse_loss l1_loss smooth_l1_loss huber_loss kl_div
    binary_cross_entropy binary_cross_entropy_with_logits ctc_loss cosine_embedding_loss hinge_embedding_loss
    margin_ranking_loss multilabel_margin_loss multi_margin_loss poisson_nll_loss soft_margin_loss
    triplet_margin_loss"""

_libraries: list[Any] = []
_on_loss: Any = None  # makes a context manager; the session sets it
_recorder: Any = None  # puts stand-ins in the place of tensors of the host, knows where tensors are; the session sets it
_cast_weights: dict[
    Any, Any
] = {}  # a parameter and its cast, each once, as in LibTorch; until autocast ends


def above_autograd(on_loss, recorder):
    """While this context manager is active, operators of this thread choose what they choose for CUDA.

    on_loss: makes a context manager that is entered while a loss is computed.
    """
    global _on_loss, _recorder
    if not _libraries:
        _register()
    _on_loss, _recorder = on_loss, recorder
    include = torch._C._dispatch_tls_local_include_set().add(_KEY)
    exclude = torch._C._dispatch_tls_local_exclude_set().remove(_KEY)
    return torch._C._ForceDispatchKeyGuard(include, exclude)


def below_autograd():
    """While this context manager is active, above_autograd() is without effect."""
    return torch._C._ExcludeDispatchKeyGuard(_KEYSET)


def clear_cast_weights():
    _cast_weights.clear()


def _half_type():
    """The type of autocast, or None where it is off."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return torch.get_autocast_dtype(device)
    return None


def _eligible(value):
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _cast(value, dtype):
    if isinstance(value, (list, tuple)):
        return [_cast(v, dtype) for v in value]
    if not _eligible(value) or value.dtype == dtype:
        return value
    cached = (
        dtype != torch.float32
        and value.is_leaf
        and value.requires_grad
        and torch.is_autocast_cache_enabled()
    )
    if not cached:
        return value.to(dtype)
    key = (id(value), torch.is_grad_enabled())
    if key not in _cast_weights:
        _cast_weights[key] = (value, value.to(dtype))
    return _cast_weights[key][1]


def _autocast_kernel(op, policy):
    names = [a.name for a in op._schema.arguments]
    dtype_place = names.index("dtype") if "dtype" in names else None

    def kernel(keys, *args, **kwargs):
        half = _half_type()
        if half is None:
            return op.redispatch(keys & _BELOW, *args, **kwargs)
        with below_autograd():
            if policy == "single_result":
                if not _eligible(args[0]):
                    return op(*args, **kwargs)
                if dtype_place is None:
                    return op(_cast(args[0], torch.float32), *args[1:], **kwargs)
                given = (
                    args[dtype_place]
                    if dtype_place < len(args)
                    else kwargs.pop("dtype", None)
                )
                return op(*args[:dtype_place], dtype=given or torch.float32, **kwargs)
            dtype = half if policy == "half" else torch.float32
            if policy == "widest":
                types = {v.dtype for v in args if _eligible(v)}
                dtype = torch.float32 if torch.float32 in types else half
            args = tuple(_cast(v, dtype) for v in args)
            kwargs = {name: _cast(v, dtype) for name, v in kwargs.items()}
            return op(*args, **kwargs)

    return kernel


def _as_loss(op, kernel):
    def marked(keys, *args, **kwargs):
        with _on_loss():
            if kernel is not None:
                return kernel(keys, *args, **kwargs)
            return op.redispatch(keys & _BELOW, *args, **kwargs)

    return marked


def _to_kernel(op):
    """Tensors go to the meta device instead of CUDA. One without memory that goes there says so from then on."""

    def kernel(keys, tensor, *args, **kwargs):
        places = _recorder.places
        if op._overloadname == "other":
            like, *others = args if args else (kwargs.pop("other"),)
            args = (places.of(like), like.dtype, *others)
            return torch.ops.aten.to.device(tensor, *args, **kwargs)
        device = next(
            (v for v in (*args, *kwargs.values()) if isinstance(v, torch.device)), None
        )
        if (
            device is None or device.type == "meta"
        ):  # LibTorch's own word for tensors without memory
            return op.redispatch(keys & _BELOW, tensor, *args, **kwargs)
        if device.type == "cuda" and tensor.is_nested:
            _recorder.refuse_layout()
        if (
            device.type == "cuda"
            or places.of(tensor).type == device.type
            and is_meta(tensor)
        ):
            args = tuple(META if isinstance(v, torch.device) else v for v in args)
            kwargs = {
                name: META if isinstance(v, torch.device) else v
                for name, v in kwargs.items()
            }
        result = op.redispatch(keys & _BELOW, tensor, *args, **kwargs)
        places.put(result, device)
        made = is_meta(result) and not is_meta(tensor)
        if made and tensor.dim() > 0:
            # No dispatch mode sees torch.tensor(). Single numbers are counters, which a later step finds elsewhere.
            _recorder.known.learn(result, tensor.to(result.dtype))
        return result

    return kernel


_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def _rnn_meta(x, weights, states, gates, layers, dropout, bidirectional, batch_first):
    """Outputs, with the positions in front in memory; last states; what the backward needs (docs/guides/counting.md)."""
    inside = x.transpose(0, 1) if batch_first else x
    out = x.new_empty(
        (*inside.shape[:-1], (2 if bidirectional else 1) * states[0].shape[2])
    )
    of_layer = gates + 1 if gates > 1 else 0
    elements = layers * of_layer + (layers - 1) * (2 if dropout > 0 else 1)
    kept = x.new_empty(
        inside.shape[:-1].numel()
        * (2 if bidirectional else 1)
        * states[-1].shape[2]
        * elements
    )
    return [
        out.transpose(0, 1) if batch_first else out,
        *(torch.empty_like(s) for s in states),
        kept,
    ]


def _rnn_backward_meta(
    x, weights, states, out, grad, kept, of_x, of_states, batch_first
):
    inside = x.transpose(0, 1) if batch_first else x
    of_input = x.new_empty(inside.shape)
    gradients = [of_input.transpose(0, 1) if batch_first else of_input] if of_x else []
    gradients += [torch.empty_like(s) for s in states] if of_states else []
    return gradients + [torch.empty_like(w) for w in weights]


class _Rnn(torch.autograd.Function):
    """A recurrent network of all layers and positions, as cuDNN executes it."""

    @staticmethod
    def forward(ctx, options, count, x, *states_and_weights):
        states, weights = states_and_weights[:count], states_and_weights[count:]
        *results, kept = torch.ops.perfpred.rnn(x, weights, states, *options)
        ctx.save_for_backward(x, results[0], kept, *states_and_weights)
        ctx.count, ctx.batch_first = count, options[-1]
        return tuple(results)

    @staticmethod
    def backward(ctx, grad, *of_last):
        x, out, kept, *states_and_weights = ctx.saved_tensors
        states, weights = (
            states_and_weights[: ctx.count],
            states_and_weights[ctx.count :],
        )
        of_x, of_states = (
            ctx.needs_input_grad[2],
            any(ctx.needs_input_grad[3 : 3 + ctx.count]),
        )
        gradients = torch.ops.perfpred.rnn_backward(
            x, weights, states, out, grad, kept, of_x, of_states, ctx.batch_first
        )
        gradients = list(gradients)
        first = gradients.pop(0) if of_x else None
        of_first = (
            [gradients.pop(0) for _ in states] if of_states else [None] * ctx.count
        )
        return (None, None, first, *of_first, *gradients)


def _recurrent_kernel(op):
    """aten/src/ATen/native/cudnn/RNN.cpp, _cudnn_impl(). These also check that their tensors are on one device."""
    gates = _GATES[op._opname]
    packed = op._overloadname == "data"

    def kernel(keys, *args, **kwargs):
        args = tuple(_recorder.without_memory(v) for v in args)
        if not is_meta(args[0]):
            return op.redispatch(keys & _BELOW, *args, **kwargs)
        x, rest = args[0], args[2 if packed else 1 :]
        states, weights, _, layers, dropout, train, bidirectional, *batch_first = rest
        states = list(states) if gates == 4 else [states]
        with below_autograd():
            half = _half_type()
            if half is not None:
                x, states, weights = (
                    _cast(x, half),
                    _cast(states, half),
                    _cast(weights, half),
                )
            options = (
                gates,
                layers,
                dropout if train else 0.0,
                bidirectional,
                bool(batch_first and batch_first[0]),
            )
            return _Rnn.apply(options, len(states), x, *states, *weights)

    return kernel


def _rms_norm_meta(x, weight, axes):
    return torch.empty_like(x), x.new_empty(
        (*x.shape[: x.dim() - axes], *[1] * axes), dtype=torch.float32
    )


def _rms_norm_backward_meta(grad, x, root, weight):
    return [torch.empty_like(t) for t in (x, weight) if t is not None]


class _RmsNorm(torch.autograd.Function):
    """aten/src/ATen/native/layer_norm.cpp: on CUDA _fused_rms_norm, which a CPU and the meta device write out."""

    @staticmethod
    def forward(ctx, x, weight, axes):
        out, root = torch.ops.perfpred.rms_norm(x, weight, axes)
        ctx.save_for_backward(x, root, weight)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, root, weight = ctx.saved_tensors
        return (*torch.ops.perfpred.rms_norm_backward(grad, x, root, weight), None)[
            :2
        ] + (None,)


def _rms_norm_kernel(op):
    def kernel(keys, x, shape, weight=None, eps=None):
        if not is_meta(x):
            return op.redispatch(keys & _BELOW, x, shape, weight, eps)
        with below_autograd():
            return _RmsNorm.apply(x, weight, len(shape))

    return kernel


def _dropout_kernel(op):
    """CUDA: aten/src/ATen/native/Dropout.cpp, dropout() with is_fused_kernel_acceptable()."""

    def kernel(keys, tensor, p, train):
        if is_meta(tensor) and train and 0 < p < 1 and tensor.numel() > 0:
            return torch.native_dropout(tensor, p, train)[0]
        return op.redispatch(keys & _BELOW, tensor, p, train)

    return kernel


def _laid_out(width, like, bias):
    """A result or gradient shaped as `like`, but so wide. Memory is [batch, positions, heads, width]; flash attention (half
    precision, no bias) keeps the order of axes that `like` has: mha_fwd() of flash_api.cpp makes empty_like(q).
    """
    inside = like.transpose(1, 2)
    flash = like.dtype in (torch.float16, torch.bfloat16) and bias is None
    if flash and width == like.shape[-1]:
        return torch.empty_like(inside).transpose(1, 2)
    return like.new_empty((*inside.shape[:-1], width)).transpose(1, 2)


def _attention_meta(query, key, value, bias, dropout, causal):
    logsumexp = query.new_empty(query.shape[:-1], dtype=torch.float32)
    return _laid_out(value.shape[-1], query, bias), logsumexp


def _attention_backward_meta(
    grad, query, key, value, out, logsumexp, bias, dropout, causal
):
    return tuple(_laid_out(t.shape[-1], t, bias) for t in (query, key, value))


def _attention_backward_bias_meta(
    grad, query, key, value, out, logsumexp, bias, dropout, causal
):
    gradients = _attention_backward_meta(
        grad, query, key, value, out, logsumexp, bias, dropout, causal
    )
    return (*gradients, bias.new_empty(bias.shape))


class _Attention(torch.autograd.Function):
    """Attention in one kernel, which keeps q, k, v, the result and its log-sum-exp for the backward pass."""

    @staticmethod
    def forward(ctx, query, key, value, bias, dropout, causal):
        out, logsumexp = torch.ops.perfpred.attention(
            query, key, value, bias, dropout, causal
        )
        ctx.save_for_backward(query, key, value, bias, out, logsumexp)
        ctx.options = (dropout, causal)
        return out

    @staticmethod
    def backward(ctx, grad):
        query, key, value, bias, out, logsumexp = ctx.saved_tensors
        operands = (grad, query, key, value, out, logsumexp, bias, *ctx.options)
        if bias is not None and ctx.needs_input_grad[3]:
            return (*torch.ops.perfpred.attention_backward.bias(*operands), None, None)
        return (*torch.ops.perfpred.attention_backward(*operands), None, None, None)


def _attention_kernel(op):
    widest_head = 256  # of flash and memory-efficient attention

    def kernel(
        keys,
        query,
        key,
        value,
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        **kwargs,
    ):
        fits = (
            is_meta(query)
            and query.dim() == 4
            and query.dtype != torch.float64
            and query.shape[-1] <= widest_head
        )
        if not fits or kwargs.get("scale") == 0:
            arguments = (query, key, value, attn_mask, dropout_p, is_causal)
            return op.redispatch(keys & _BELOW, *arguments, **kwargs)
        with below_autograd():
            half = _half_type()
            if half is not None:
                query, key, value, attn_mask = (
                    _cast(t, half) for t in (query, key, value, attn_mask)
                )
            if attn_mask is not None:
                if (
                    attn_mask.dtype == torch.bool
                ):  # convert_boolean_attn_mask() of transformers/attention.cpp
                    masked = query.new_full((), float("-inf"))
                    attn_mask = torch.where(attn_mask, 0.0, masked)
                attn_mask = attn_mask.expand(
                    query.shape[0], query.shape[1], query.shape[2], key.shape[2]
                )
            return _Attention.apply(query, key, value, attn_mask, dropout_p, is_causal)

    return kernel


def flex_attention(remark):
    """torch.nn.attention.flex_attention, in one kernel."""

    def attention(query, key, value, *rest, **options):
        remark(
            "flex_attention is counted with all pairs of positions, whatever its mask leaves out"
        )
        out = _Attention.apply(query, key, value, None, 0.0, False)
        logsumexp = query.new_empty(query.shape[:-1], dtype=torch.float32)
        return out, logsumexp, logsumexp

    return attention


def _overloads(name):
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return []
    return [
        op
        for op in (getattr(packet, o) for o in packet.overloads())
        if not any(a.is_out for a in op._schema.arguments)
    ]


def _register():
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(torch.library.fallthrough_kernel, _KEY.name)
    aten = torch.library.Library("aten", "IMPL")
    own = torch.library.Library("perfpred", "DEF")
    _libraries.extend((fallback, aten, own))

    operands = "Tensor query, Tensor key, Tensor value"
    options = "Tensor? bias, float dropout, bool causal"
    saved = f"Tensor grad, {operands}, Tensor out, Tensor logsumexp, {options}"
    for schema, rule in (
        (f"attention({operands}, {options}) -> (Tensor, Tensor)", _attention_meta),
        (
            f"attention_backward({saved}) -> (Tensor, Tensor, Tensor)",
            _attention_backward_meta,
        ),
        (
            "rnn(Tensor x, Tensor[] weights, Tensor[] states, int gates, int layers, float dropout, "
            "bool bidirectional, bool batch_first) -> Tensor[]",
            _rnn_meta,
        ),
        (
            "rnn_backward(Tensor x, Tensor[] weights, Tensor[] states, Tensor out, Tensor grad, Tensor kept, "
            "bool of_x, bool of_states, bool batch_first) -> Tensor[]",
            _rnn_backward_meta,
        ),
        (
            "rms_norm(Tensor x, Tensor? weight, int axes) -> (Tensor, Tensor)",
            _rms_norm_meta,
        ),
        (
            "rms_norm_backward(Tensor grad, Tensor x, Tensor root, Tensor? weight) -> Tensor[]",
            _rms_norm_backward_meta,
        ),
        (
            f"attention_backward.bias({saved}) -> (Tensor, Tensor, Tensor, Tensor)",
            _attention_backward_bias_meta,
        ),
    ):
        own.define(schema)
        own.impl(schema[: schema.index("(")], rule, "Meta")

    kernels = {}
    for names, policy in (
        (_HALF, "half"),
        (_SINGLE, "single"),
        (_SINGLE_RESULT, "single_result"),
        (_WIDEST, "widest"),
    ):
        for name in names.split():
            for op in _overloads(name):
                kernels[op] = _autocast_kernel(op, policy)
    for name in _LOSSES.split():
        for op in _overloads(name):
            kernels[op] = _as_loss(op, kernels.get(op))
    for op in _overloads("to"):
        kernels[op] = _to_kernel(op)
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        for op in _overloads(name):
            kernels[op] = _recurrent_kernel(op)
    kernels[torch.ops.aten.dropout.default] = _dropout_kernel(
        torch.ops.aten.dropout.default
    )
    for op in _overloads("rms_norm"):
        kernels[op] = _rms_norm_kernel(op)
    attention = torch.ops.aten.scaled_dot_product_attention.default
    kernels[attention] = _attention_kernel(attention)
    for op, kernel in kernels.items():
        aten.impl(op, kernel, _KEY.name, with_keyset=True)
