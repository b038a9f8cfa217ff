# SPDX-License-Identifier: Apache-2.0
"""Steps of other forms than a network, a loss and an optimizer, and of other operators than those of pictures."""

import unittest
import warnings

import torch
import torch.nn.functional as F
from captures import Captures, of_role, operators, shapes, types
from torch import nn

import perfpred


class Kinds(Captures):
    def test_operators_of_video_speech_graphs_and_recommenders(self):
        clip, picture, sound = (
            torch.randn(2, 3, 4, 16, 16),
            torch.randn(2, 3, 16, 16),
            torch.randn(2, 3, 32),
        )
        words, edges = torch.randint(100, (2, 8)), torch.randint(6, (20,))
        table, bags = nn.Embedding(6, 4), nn.EmbeddingBag(100, 8)
        log_probabilities = torch.randn(12, 2, 10, requires_grad=True)
        for tensor in (clip, picture, sound):
            tensor.requires_grad_()

        def step():
            outputs = [
                F.max_pool3d(F.conv3d(clip, torch.ones(4, 3, 3, 3, 3), padding=1), 2),
                F.avg_pool3d(clip, 2),
                F.adaptive_avg_pool3d(clip, 1),
                F.adaptive_max_pool2d(picture, 2),
                F.interpolate(sound, scale_factor=2, mode="linear"),
                F.interpolate(clip, scale_factor=2, mode="trilinear"),
                F.interpolate(picture, 8, mode="bicubic", antialias=True),
                F.grid_sample(
                    picture,
                    F.affine_grid(torch.ones(2, 2, 3), (2, 3, 8, 8), False),
                    align_corners=False,
                ),
                F.pad(sound, (1, 1), mode="reflect"),
                F.fold(F.unfold(picture, 2), 16, 2),
                torch.zeros(6, 4).scatter_reduce(
                    0, edges[:, None].expand(-1, 4), table(edges), "amax"
                ),
                torch.cdist(picture.flatten(2), picture.flatten(2)),
                bags(words),
            ]
            targets, lengths = torch.randint(1, 10, (2, 5)), torch.full((2,), 12)
            loss = F.ctc_loss(
                log_probabilities.log_softmax(2), targets, lengths, torch.full((2,), 5)
            )
            (sum(output.sum() for output in outputs) + loss).backward()

        document = self.captured(step, execute=True)
        self.assertEqual(self.inspected("--step", self.path)["unknown_ops"], [])
        self.assertIn("aten::_embedding_bag", {op["name"] for op in document["ops"]})

    def test_recurrent_networks_and_weak_references(self):
        network, sequences = nn.LSTM(8, 16, batch_first=True), torch.randn(4, 10, 8)
        document = self.captured(lambda: network(sequences)[0].sum().backward())
        self.assertEqual(
            of_role(document, "parameter"),
            4 * sum(p.numel() for p in network.parameters()),
        )
        network(sequences)[0].sum().backward()  # has its weights back

    def test_recurrent_networks_are_one_operator(self):
        products = (
            2 * 4 * 10 * 16 * ((8 + 16) + (16 + 16))
        )  # of a gate: 4 samples, 10 positions, two layers
        for kind, gates in ((nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)):
            for batch_first in (False, True):
                network = kind(8, 16, 2, batch_first=batch_first, dropout=0.5)
                sequences = torch.randn(
                    (4, 10, 8) if batch_first else (10, 4, 8), requires_grad=True
                )
                document = self.captured(
                    lambda: network(sequences)[0].square().mean().backward()
                )
                names = [
                    op["name"]
                    for op in document["ops"]
                    if "rnn" in op["name"] or "mm" in op["name"]
                ]
                self.assertEqual(names, ["perfpred::rnn", "perfpred::rnn_backward"])
                step = self.inspected("--step", self.path)
                self.assertEqual(step["conv_matmul_flops"], 3 * gates * products)

    def test_recurrent_networks_that_a_cpu_computes(self):
        """oneDNN has an operator for each layer and direction: the same products, and nothing unknown."""
        for options in ({}, {"bidirectional": True, "batch_first": True}):
            network, sequences = nn.LSTM(8, 16, 2, **options), torch.randn(10, 4, 8)
            steps = []
            for execute in (False, True):
                document = self.captured(
                    lambda: network(sequences)[0].square().mean().backward(),
                    execute=execute,
                )
                self.assertFalse(
                    {"aten::set_", "aten::empty"}
                    & {op["name"] for op in document["ops"][:3]}
                )
                for device in ([], ["--device", "cpu"]):
                    steps.append(self.inspected("--step", self.path, *device))
                    self.assertEqual(steps[-1]["unknown_ops"], [])
            self.assertEqual(
                [step["conv_matmul_flops"] for step in steps],
                [steps[0]["conv_matmul_flops"]] * 4,
            )
            layers = 4 if options else 2
            self.assertEqual(
                [
                    step["kinds"].get("mkldnn_rnn_layer", {}).get("ops")
                    for step in steps[1:2]
                ],
                [layers],
            )
            self.assertEqual(
                [step["kinds"]["rnn_backward"]["ops"] for step in steps[2:]],
                [layers] * 2,
            )

    def test_numbers_that_nobody_knows_are_finite(self):
        model = nn.Linear(6, 5)

        def step():
            loss = model(torch.randn(4, 6).cuda()).sum()
            self.assertTrue(torch.isfinite(loss))
            self.assertTrue(torch.isfinite(model.weight).all())
            self.assertFalse(
                loss.isnan() or torch.isinf(loss) or model.weight.isnan().any()
            )
            self.assertFalse(loss == torch.inf)
            loss.backward()

        self.assertEqual(self.captured(step)["values"], [])

    def test_operators_in_place_are_those_out_of_place(self):
        x = torch.randn(4, 6, requires_grad=True)

        def step():
            y = x * 2
            for function in (
                F.leaky_relu,
                F.elu,
                F.celu,
                F.selu,
                F.mish,
                F.hardsigmoid,
                F.hardswish,
                F.relu6,
                F.silu,
            ):
                y = function(y + 0, inplace=True)
            y = F.threshold(y + 0, 0.1, 0.0, inplace=True).abs_()
            y.detach().clone().eq_(1).gt_(0)
            y.sum().backward()

        self.captured(step, batch_size=4)
        self.assertEqual(self.inspected("--step", self.path)["unknown_ops"], [])

    def test_recurrent_networks_in_half_precision_of_packed_sequences(self):
        network, lengths = nn.LSTM(8, 16, proj_size=4), torch.tensor([10, 7, 3])
        sequences = torch.randn(10, 3, 8)

        def step():
            with torch.autocast("cuda", torch.float16):
                packed = nn.utils.rnn.pack_padded_sequence(sequences, lengths)
                network(packed)[0].data.float().square().mean().backward()

        document = self.captured(step, execute=False)
        (op,) = [op for op in document["ops"] if op["name"] == "perfpred::rnn"]
        self.assertEqual(set(types(document, op)), {"float16"})
        self.assertEqual(
            shapes(document, op, "outputs")[:3], [[20, 4], [1, 3, 4], [1, 3, 16]]
        )

    def test_rms_norms_are_cudas_kernel(self):
        network = nn.RMSNorm(16)
        document = self.captured(lambda: network(torch.randn(4, 16)).sum().backward())
        names = [op["name"] for op in document["ops"]]
        self.assertIn("perfpred::rms_norm", names)
        self.assertIn("perfpred::rms_norm_backward", names)
        self.assertEqual(of_role(document, "gradient"), 4 * 16)

    def test_gradients_of_gradients(self):
        critic = nn.Linear(8, 1)

        def step():
            mixed = torch.randn(4, 8, requires_grad=True)
            (gradient,) = torch.autograd.grad(
                critic(mixed).sum(), mixed, create_graph=True
            )
            (gradient.norm(2, 1) - 1).pow(2).mean().backward()

        self.assertEqual(
            of_role(self.captured(step), "gradient"), 4 * 8
        )  # the bias has none

    def test_updates_without_an_optimizer(self):
        model, features = nn.Linear(8, 8), torch.randn(4, 8)

        def step():
            model(features).sum().backward()
            for parameter in model.parameters():
                parameter.data.add_(parameter.grad, alpha=-0.1)

        names = [op["name"] for op in self.captured(step)["ops"]]
        self.assertEqual(names[-2:], ["aten::add_", "aten::add_"])

    def test_shapes_that_depend_on_values_when_executed(self):
        weight = nn.Parameter(torch.tensor([[1.0, -1.0], [2.0, 3.0]]))
        document = self.captured(
            lambda: weight[weight > 0].sum().backward(), execute=True, batch_size=1
        )
        op = next(op for op in document["ops"] if op["name"] == "aten::index")
        self.assertEqual(shapes(document, op, "outputs"), [[3]])
        self.assertEqual(weight.grad.tolist(), [[1, 0], [1, 1]])


class Found(Captures):
    """Ways of programs that once gave wrong counts or a traceback."""

    def teacher(self, guard):
        teacher = nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.Dropout(0.1),
            nn.Flatten(),
            nn.Linear(288, 10),
            nn.RMSNorm(10),
        )
        positions, student = nn.LSTM(10, 10), nn.Linear(192, 10)

        def step():
            x = torch.randn(4, 3, 8, 8)
            with guard(), torch.autocast("cuda", dtype=torch.bfloat16):
                wanted = positions(teacher(x)[None])[0][0]
                wanted = torch.einsum("ij,kj->ik", wanted, wanted)[:, :1]
            (student(x.flatten(1)).softmax(1) * wanted.float().clone()).sum().backward()

        return operators(self.captured(step))

    def test_inference_mode_is_taken_apart_as_no_grad(self):
        expected = self.teacher(torch.no_grad)
        self.assertIn("aten::convolution", [name for name, *_ in expected])
        self.assertEqual(self.teacher(torch.inference_mode), expected)

    def test_rows_that_known_labels_choose(self):
        labels = torch.tensor([[3, -100, 2, -100], [-100, 1, 1, 1]])
        model = nn.Linear(6, 5)

        def step():
            x, wanted = torch.randn(2, 4, 6, device="cuda"), labels.to("cuda")
            chosen = x[wanted != -100]
            self.assertEqual(chosen.shape, (5, 6))
            self.assertEqual(torch.nonzero(wanted == 1).shape, (3, 2))
            F.cross_entropy(model(chosen), wanted[wanted != -100]).backward()

        document = self.captured(step)
        self.assertIn("aten::index", [op["name"] for op in document["ops"]])

    def test_threads_that_load(self):
        from concurrent.futures import ThreadPoolExecutor

        def step():
            with ThreadPoolExecutor(2) as pool:
                x, y = pool.map(
                    lambda t: t.to("cuda"), [torch.randn(4, 6), torch.randn(4, 6)]
                )
            nn.Linear(6, 5)(x + y).sum().backward()

        self.assertEqual(self.captured(step)["batch_size"], 4)

    def test_torchscript_is_refused_in_a_line(self):
        net = nn.Sequential(nn.Linear(6, 5), nn.ReLU())
        for scripted in (
            torch.jit.script(net),
            nn.Sequential(torch.jit.trace(net, torch.ones(8, 6)), nn.Linear(5, 4)),
        ):
            with self.assertRaisesRegex(
                perfpred.CaptureError,
                "test_kinds.py.*TorchScript.*is not captured: call the",
            ):
                self.captured(lambda: scripted(torch.ones(8, 6)).sum().backward())

    def test_sparse_tensors_are_executed(self):
        edges, layer = (
            torch.sparse_coo_tensor(
                torch.randint(0, 20, (2, 60)), torch.ones(60), (20, 20)
            ),
            nn.Linear(6, 5),
        )

        def step():
            torch.sparse.mm(edges, layer(torch.ones(20, 6))).sum().backward()

        with self.assertRaisesRegex(
            perfpred.CaptureError, "test_kinds.py.*sparse.*--execute"
        ):
            self.captured(step)
        document = self.captured(step, execute=True)
        product = next(op for op in document["ops"] if "sparse" in op["name"])
        self.assertIn([2, 60], shapes(document, product))
        self.assertEqual(shapes(document, product, "outputs"), [[20, 5]])

    def test_sparse_and_nested_tensors_are_refused_in_a_line(self):
        edges, rows = (
            torch.randint(0, 20, (2, 60)),
            [torch.ones(3, 6), torch.ones(5, 6)],
        )
        layer = nn.Linear(6, 5)

        def coalesced():
            adjacency = torch.sparse_coo_tensor(
                edges, torch.ones(60), (20, 20)
            ).coalesce()
            torch.sparse.mm(adjacency, layer(torch.ones(20, 6))).sum().backward()

        def on_gpu():
            adjacency = torch.sparse_coo_tensor(
                edges, torch.ones(60), (20, 20), device="cuda"
            )
            torch.sparse.mm(adjacency, layer(torch.ones(20, 6))).sum().backward()

        def nested():
            layer(torch.nested.nested_tensor(rows)).to_padded_tensor(
                0.0
            ).sum().backward()

        def jagged_on_gpu():
            layer(
                torch.nested.nested_tensor(rows, layout=torch.jagged, device="cuda")
            ).values().sum().backward()

        def jagged_to_gpu():
            layer(
                torch.nested.nested_tensor(rows, layout=torch.jagged).cuda()
            ).values().sum().backward()

        for step in (coalesced, on_gpu, nested, jagged_on_gpu, jagged_to_gpu):
            with self.subTest(step.__name__):
                with self.assertRaisesRegex(
                    perfpred.CaptureError,
                    "test_kinds.py:[0-9]+: sparse and nested.*--execute",
                ):
                    self.captured(step)

    def test_flex_attention_is_one_operator(self):
        from torch.nn.attention.flex_attention import flex_attention

        q = torch.randn(2, 4, 128, 16, requires_grad=True)
        document = self.captured(
            lambda: (
                flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + (i - j))
                .sum()
                .backward()
            ),
            batch_size=2,
        )
        names = [op["name"] for op in document["ops"]]
        self.assertEqual(
            [n for n in names if "attention" in n],
            ["perfpred::attention", "perfpred::attention_backward"],
        )
        self.assertEqual(len(document["notes"]), 1)
        forward = self.inspected("--step", self.path)["kinds"]["attention"]["flops"]
        self.assertEqual(forward, 2 * 2 * 2 * 4 * 128 * 128 * 16)

    def test_kernels_of_triton_are_operators(self):
        try:
            import triton.runtime.jit
        except ImportError:
            self.skipTest("there is no triton")

        class Kernel(triton.runtime.jit.KernelInterface):
            __name__ = "scaled"

        def step():
            x, y = torch.randn(8, 6, device="cuda"), torch.empty(8, 6, device="cuda")
            Kernel()[(1,)](x, y, 0.5, BLOCK=64)
            nn.Linear(6, 5)(y).sum().backward()

        document = self.captured(step)
        kernel = next(op for op in document["ops"] if op["name"] == "triton::scaled")
        self.assertEqual(shapes(document, kernel), [[8, 6], [8, 6]])

    def test_compiling_is_said(self):
        for compiled in (
            lambda net: torch.compile(net),
            lambda net: net.compile() or net,
            lambda net: net,
        ):
            net, told = nn.Linear(6, 5), []
            document = self.captured(
                lambda: compiled(net)(torch.ones(8, 6)).sum().backward(),
                tell=told.append,
            )
            self.assertEqual(document.get("compiled", False), bool(told))
        self.assertEqual(told, [])

    def test_a_network_that_was_compiled_before(self):
        def document(net):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return self.captured(lambda: net(torch.ones(8, 6)).sum().backward())

        def compiled_in_place(net):
            net.compile()
            return net

        eager = document(nn.Sequential(nn.Linear(6, 5)))
        self.assertNotIn("compiled", eager)
        for compiled in (
            torch.compile(nn.Sequential(nn.Linear(6, 5))),
            compiled_in_place(nn.Sequential(nn.Linear(6, 5))),
            nn.Sequential(compiled_in_place(nn.Linear(6, 5))),
            nn.Sequential(torch.compile(nn.Linear(6, 5))),
        ):
            found = document(compiled)
            self.assertTrue(found.pop("compiled"))
            self.assertEqual(found["layers"], eager["layers"])
            self.assertEqual(operators(found), operators(eager))
        call = torch._dynamo.OptimizedModule.__call__
        self.assertEqual(call.__qualname__, "OptimizedModule.__call__")  # as it was

    def test_updates_without_an_optimizer_of_torch(self):
        model = nn.Linear(6, 5).eval()

        def step():
            model(torch.randn(8, 6)).sum().backward()
            with torch.no_grad():
                updates = torch._foreach_mul([p.grad for p in model.parameters()], 0.1)
                torch._foreach_sub_(list(model.parameters()), updates)

        other = torch.optim.Adam(
            nn.Linear(3, 3).parameters()
        )  # the program's, of another network
        phases = [op["phase"] for op in self.captured(step)["ops"]]
        self.assertEqual(phases[-2:], ["optimizer"] * 2)
        self.assertEqual(phases.count("optimizer"), 2)
        del other

    def test_writes_after_an_optimizer_are_not_another_update(self):
        model = nn.Linear(6, 5)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step():
            model(torch.randn(8, 6)).sum().backward()
            with torch.no_grad():
                model.weight.mul_(0.99)  # decay by hand, before the update
            optimizer.step()

        ops = self.captured(step)["ops"]
        self.assertEqual(
            [op["phase"] for op in ops if op["name"] == "aten::mul_"], ["backward"]
        )

    def test_a_backend_that_compiles_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            net = torch.compile(nn.Linear(6, 5), backend="eager")
            document = self.captured(lambda: net(torch.ones(8, 6)).sum().backward())
        self.assertNotIn("compiled", document)


if __name__ == "__main__":
    unittest.main()
