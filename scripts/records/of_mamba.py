# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for the kernels that a Mamba is trained with: mamba_ssm's selective scan and causal_conv1d's convolution, which
a machine without CUDA cannot install. Without them transformers goes through the positions one by one."""

import torch

_CHUNK = 2048  # positions between two states that the scan keeps (csrc/selective_scan/selective_scan_fwd_kernel.cuh)


def _meta(name, schema, rule, library):
    library.define(f"{name}{schema}")
    library.impl(name, rule, "Meta")


def _scan(u, delta, a, b, c, d, z, bias):
    chunks = -(-u.shape[2] // _CHUNK)
    states = u.new_empty(u.shape[0], u.shape[1], chunks, 2 * a.shape[1], dtype=torch.float32)
    return torch.empty_like(u), states, torch.empty_like(u)


def _scan_backward(u, delta, a, b, c, d, z, bias, grad, states, out):
    return tuple(torch.empty_like(one) for one in (u, delta, a, b, c, d, z, bias))


_ssm = torch.library.Library("mamba_ssm", "DEF")
_operands = "Tensor u, Tensor delta, Tensor a, Tensor b, Tensor c, Tensor d, Tensor z, Tensor bias"
_meta("selective_scan_fwd", f"({_operands}) -> (Tensor, Tensor, Tensor)", _scan, _ssm)
_meta("selective_scan_bwd", f"({_operands}, Tensor grad, Tensor states, Tensor out) -> ({', '.join(['Tensor'] * 8)})", _scan_backward, _ssm)
_conv = torch.library.Library("causal_conv1d", "DEF")
_meta("causal_conv1d_fwd", "(Tensor x, Tensor weight, Tensor bias) -> Tensor", lambda x, weight, bias: torch.empty_like(x), _conv)
_meta("causal_conv1d_bwd", "(Tensor x, Tensor weight, Tensor bias, Tensor grad) -> (Tensor, Tensor, Tensor)",
      lambda x, weight, bias, grad: (torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)), _conv)


class _Scan(torch.autograd.Function):
    """SelectiveScanFn of mamba_ssm/ops/selective_scan_interface.py, with z."""

    @staticmethod
    def forward(ctx, *operands):
        out, states, gated = torch.ops.mamba_ssm.selective_scan_fwd(*operands)
        ctx.save_for_backward(*operands, states, out)
        return gated

    @staticmethod
    def backward(ctx, grad):
        *operands, states, out = ctx.saved_tensors
        return torch.ops.mamba_ssm.selective_scan_bwd(*operands, grad, states, out)


class _Convolution(torch.autograd.Function):
    """CausalConv1dFn of causal_conv1d/causal_conv1d_interface.py, with SiLU."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight, bias)
        return torch.ops.causal_conv1d.causal_conv1d_fwd(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        return torch.ops.causal_conv1d.causal_conv1d_bwd(*ctx.saved_tensors, grad)


def use_kernels():
    from transformers.models.mamba import modeling_mamba

    def scan(hidden_states, dt, A, B, C, D=None, z=None, delta_bias=None, **_):
        return _Scan.apply(hidden_states, dt, A, B, C, D, z, delta_bias)

    def convolution(hidden_states, weight, bias, activation=None, **_):
        return _Convolution.apply(hidden_states, weight.to(hidden_states.dtype), bias.to(hidden_states.dtype))

    modeling_mamba.mamba_selective_scan = scan
    modeling_mamba.causal_conv1d_fn = convolution
