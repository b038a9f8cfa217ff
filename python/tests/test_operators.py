# SPDX-License-Identifier: Apache-2.0
"""Operators of LibTorch and of others' libraries that data/op_rules.txt counts. The libraries need not be there: their
schemas are registered."""

import unittest

import torch
from captures import Captures
from torch import nn


def library(name, schemas):
    """Registers operators whose results are as their second argument (forward: the first)."""
    made = torch.library.Library(name, "FRAGMENT")
    for schema, rule in schemas.items():
        try:
            made.define(schema)
        except RuntimeError:
            continue  # the library is there
        made.impl(schema[: schema.index("(")], rule, "Meta")
    return made


class Operators(Captures):
    def flops(self, run):
        """Of matrix products, and of all operators, that `run` executes before a step."""
        counts = []
        for more in (lambda: None, run):
            model = nn.Linear(4, 4)

            def step():
                more()
                model(torch.ones(2, 4)).sum().backward()

            self.captured(step)
            answer = self.inspected("--step", self.path)
            counts.append((answer["conv_matmul_flops"], answer["flops"]))
            self.assertEqual(answer["unknown_ops"], [])
        return [after - before for before, after in zip(*counts)]

    def test_products_of_libtorch(self):
        a, b = torch.randn(300, 200), torch.randn(400, 200)
        e4m3 = lambda *shape: torch.empty(
            shape, dtype=torch.float8_e4m3fn, device="cuda"
        )
        one = torch.ones(())
        pairs = 300 * 400
        for run, flops in (
            (lambda: a.cuda() @ torch.randn(200, device="cuda"), 2 * 300 * 200),
            (
                lambda: nn.functional.bilinear(
                    a.cuda(), b[:300].cuda(), torch.randn(7, 200, 200, device="cuda")
                ),
                2 * 300 * 7 * 200 * 200,
            ),
            (
                lambda: torch.ops.aten._cdist_forward(a.cuda(), b.cuda(), 2.0, None),
                2 * pairs * (200 + 2),
            ),
            (
                lambda: torch._scaled_mm(
                    e4m3(64, 128),
                    e4m3(32, 128).t(),
                    one.cuda(),
                    one.cuda(),
                    out_dtype=torch.bfloat16,
                ),
                2 * 64 * 128 * 32,
            ),
        ):
            self.assertEqual(self.flops(run)[0], flops)

    def test_an_activation_is_the_kernels_that_pytorch_runs(self):
        kinds = (
            nn.SiLU,
            nn.GELU,
            nn.Hardswish,
            nn.Hardsigmoid,
            nn.ELU,
            nn.Softplus,
            nn.LeakyReLU,
            nn.LogSigmoid,
            nn.Tanh,
        )
        for kind in kinds:
            model = nn.Sequential(nn.Linear(4, 4), kind(), nn.Linear(4, 4))

            def step():
                model(torch.ones(2, 4)).sum().backward()

            with torch.profiler.profile() as profile:
                step()
            executed = [
                event.name
                for event in sorted(
                    profile.events(), key=lambda event: event.time_range.start
                )
            ]
            backward = [
                name
                for name in executed
                if name.startswith("aten::") and name.endswith("_backward")
            ]
            self.assertEqual(len(backward), 1)
            recorded = [op["name"] for op in self.captured(step)["ops"]]
            self.assertEqual(
                [name for name in recorded if name.endswith("_backward")], backward
            )
            self.assertNotIn("aten::empty_like", recorded)

    def test_fourier_transforms(self):
        def run():
            torch.fft.rfft2(torch.empty(3, 5, 64, 32, device="cuda"))

        self.assertEqual(self.flops(run), [0, 15 * 2.5 * 64 * 32 * 11])

    def test_attention_of_flash_attn_and_xformers(self):
        q = torch.empty(2, 128, 4, 16, device="meta", dtype=torch.bfloat16)
        pairs = 2 * 4 * 128 * 128
        like = lambda x, *rest: torch.empty_like(x)
        backward = lambda grad, q, k, v, *rest: (
            torch.empty_like(q),
            torch.empty_like(k),
            torch.empty_like(v),
        )
        kept = [
            library(
                "flash_attn",
                {
                    "_flash_attn_forward(Tensor q, Tensor k, Tensor v, float dropout_p, bool causal) -> Tensor": like,
                    "_flash_attn_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, bool causal) "
                    "-> (Tensor, Tensor, Tensor)": backward,
                },
            ),
            library(
                "xformers",
                {
                    "efficient_attention_forward_cutlass(Tensor query, Tensor key, Tensor value) -> Tensor": like,
                    "efficient_attention_backward_cutlass(Tensor grad_out, Tensor query, Tensor key, Tensor value) "
                    "-> (Tensor, Tensor, Tensor)": backward,
                },
            ),
        ]
        flash, xformers = torch.ops.flash_attn, torch.ops.xformers
        for run, flops in (
            (lambda: flash._flash_attn_forward(q, q, q, 0.0, False), 4 * pairs * 16),
            (lambda: flash._flash_attn_forward(q, q, q, 0.0, True), 2 * pairs * 16),
            (lambda: flash._flash_attn_backward(q, q, q, q, q, True), 5 * pairs * 16),
            (
                lambda: xformers.efficient_attention_forward_cutlass(q, q, q),
                4 * pairs * 16,
            ),
            (
                lambda: xformers.efficient_attention_backward_cutlass(q, q, q, q),
                10 * pairs * 16,
            ),
        ):
            self.assertEqual(self.flops(run), [flops, flops])
        self.assertEqual(len(kept), 2)

    def test_four_and_eight_bits_of_bitsandbytes(self):
        x = torch.empty(2, 128, 256, device="meta", dtype=torch.bfloat16)
        packed = torch.empty(256 * 512 // 2, 1, device="meta", dtype=torch.uint8)
        scales = torch.empty(256 * 512 // 64, device="meta")
        bytes_ = lambda *shape: torch.empty(shape, device="cuda", dtype=torch.int8)
        kept = library(
            "bitsandbytes",
            {
                "gemm_4bit(Tensor A, Tensor B, int[] shapeB, Tensor absmax, int blocksize, str quant_type, Tensor? bias=None, "
                "Tensor? absmax_8bit=None, Tensor? absmax_code=None, Tensor? absmax_offset=None) -> Tensor": lambda A, B, shapeB, *rest: (
                    A.new_empty(*A.shape[:-1], shapeB[0])
                ),
                "int8_linear_matmul(Tensor A, Tensor B) -> Tensor": lambda A, B: (
                    A.new_empty(A.shape[0], B.shape[0])
                ),
            },
        )
        four = lambda: torch.ops.bitsandbytes.gemm_4bit(
            x, packed, [512, 256], scales, 64, "nf4"
        )
        eight = lambda: torch.ops.bitsandbytes.int8_linear_matmul(
            bytes_(128, 256), bytes_(512, 256)
        )
        self.assertEqual(self.flops(four)[0], 2 * 2 * 128 * 256 * 512)
        self.assertEqual(self.flops(eight)[0], 2 * 128 * 256 * 512)
        self.assertIsNotNone(kept)


if __name__ == "__main__":
    unittest.main()
