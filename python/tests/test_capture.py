# SPDX-License-Identifier: Apache-2.0
"""What perfpred.capture records of a step."""

import copy
import unittest

import torch
import torch.nn.functional as F
from captures import Captures, of_role, operators, shapes, types
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """Of ResNet-18 (He et al. 2015)."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or channels != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu_(out.add_(x if self.downsample is None else self.downsample(x)))


def resnet18():
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, width, stride), Block(width, width, 1)]
        channels = width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)
    )


class Gpt2(nn.Module):
    """Radford et al. 2019; attention as torch.nn.functional has it."""

    def __init__(self, layers=12, hidden=768, heads=12, words=50257, positions=1024):
        super().__init__()
        self.words, self.places = (
            nn.Embedding(words, hidden),
            nn.Embedding(positions, hidden),
        )
        self.heads = heads
        self.blocks = nn.ModuleList()
        for _ in range(layers):
            self.blocks.append(
                nn.ModuleDict(
                    {
                        "norm1": nn.LayerNorm(hidden),
                        "qkv": nn.Linear(hidden, 3 * hidden),
                        "out": nn.Linear(hidden, hidden),
                        "norm2": nn.LayerNorm(hidden),
                        "up": nn.Linear(hidden, 4 * hidden),
                        "down": nn.Linear(4 * hidden, hidden),
                    }
                )
            )
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x):
        batch, length = x.shape
        h = F.dropout(
            self.words(x) + self.places(torch.arange(length, device=x.device)), 0.1
        )
        for block in self.blocks:
            q, k, v = (
                block["qkv"](block["norm1"](h))
                .view(batch, length, 3, self.heads, -1)
                .permute(2, 0, 3, 1, 4)
            )
            attention = F.scaled_dot_product_attention(
                q, k, v, is_causal=True, dropout_p=0.1
            )
            h = h + F.dropout(
                block["out"](attention.transpose(1, 2).reshape(batch, length, -1)), 0.1
            )
            h = h + F.dropout(
                block["down"](
                    F.gelu(block["up"](block["norm2"](h)), approximate="tanh")
                ),
                0.1,
            )
        return self.norm(h) @ self.words.weight.t()


class Counts(Captures):
    def test_resnet18_is_counted_as_the_network_that_perfpred_knows(self):
        model, images, labels = (
            resnet18(),
            torch.randn(4, 3, 224, 224),
            torch.zeros(4, dtype=torch.long),
        )
        self.captured(lambda: F.cross_entropy(model(images), labels).backward())
        step = self.inspected("--step", self.path)
        zoo = self.inspected(
            "--network", "resnet18", "--batch-size", "4", "--optimizer", "none"
        )
        self.assertEqual(step["params"], 11_689_512)
        for phase in ("forward", "loss", "backward"):
            self.assertEqual(step["phases"][phase], zoo["phases"][phase], phase)
        self.assertEqual(step["batch_size"], 4)
        self.assertAlmostEqual(
            step["memory"]["peak_bytes"] / zoo["memory"]["peak_bytes"], 1, delta=0.001
        )

    def test_gpt2_has_the_products_of_the_textbook(self):
        with torch.device("meta"):
            model = Gpt2()
        words = torch.zeros(8, 1024, dtype=torch.long)
        optimizer = torch.optim.AdamW(model.parameters())

        def step():
            optimizer.zero_grad()
            F.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()
            optimizer.step()

        self.captured(step)
        step = self.inspected("--step", self.path)
        self.assertEqual(step["params"], 124_439_808)
        tokens, hidden, layers = 8 * 1024, 768, 12
        products = 6 * tokens * (12 * layers * hidden**2 + 50257 * hidden)
        attention = 14 * layers * 8 * 12 * 1024**2 * 64 / 2
        self.assertEqual(step["conv_matmul_flops"], products + attention)
        self.assertEqual(step["unknown_ops"], [])


class Roles(Captures):
    def test_roles_phases_and_layers(self):
        model = nn.Sequential(
            nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4)
        )
        optimizer = torch.optim.Adam(model.parameters())
        features, labels = torch.randn(8, 6), torch.zeros(8, dtype=torch.long)

        def step():
            optimizer.zero_grad()
            F.cross_entropy(model(features), labels).backward()
            optimizer.step()

        document = self.captured(step)
        parameters = 4 * sum(p.numel() for p in model.parameters())
        self.assertEqual(of_role(document, "parameter"), parameters)
        self.assertEqual(of_role(document, "gradient"), parameters)
        self.assertEqual(of_role(document, "optimizer_state"), 2 * parameters)
        self.assertEqual(of_role(document, "input"), features.nbytes + labels.nbytes)
        self.assertEqual(of_role(document, "buffer"), 2 * 5 * 4 + 8)
        self.assertEqual(document["batch_size"], 8)
        phases = [op["phase"] for op in document["ops"]]
        self.assertEqual(
            phases,
            sorted(phases, key=["forward", "loss", "backward", "optimizer"].index),
        )
        layer_of = {
            (op["name"], op["phase"]): document["layers"][op["layer"]]
            for op in document["ops"]
            if "layer" in op
        }
        self.assertEqual(layer_of["aten::native_batch_norm", "forward"], "1")
        self.assertEqual(layer_of["aten::native_batch_norm_backward", "backward"], "1")
        self.assertEqual(layer_of["aten::threshold_backward", "backward"], "2")

    def test_batches_of_a_step_with_several_backward_passes(self):
        generator, judge, data = nn.Linear(2, 6), nn.Linear(6, 1), torch.randn(8, 6)
        optimizer = torch.optim.SGD(judge.parameters(), 0.1)

        def accumulating():
            for _ in range(4):
                judge(data).sum().backward()
            optimizer.step()

        def adversarial():  # as in PyTorch's DCGAN
            made = generator(torch.randn(8, 2))
            judge(data).sum().backward()
            judge(made.detach()).sum().backward()
            optimizer.step()
            judge(made).sum().backward()

        def sharpness_aware():  # Foret et al. 2021: two passes on one batch, whose gradients do not add up
            judge(data).sum().backward()
            optimizer.zero_grad()
            judge(data).sum().backward()
            optimizer.step()

        document = self.captured(accumulating)
        self.assertEqual((document["batch_size"], document["accumulate"]), (8, 4))
        self.assertNotIn("batches", self.captured(sharpness_aware))
        self.assertNotIn("batches", self.captured(adversarial))

    def test_memory_is_freed_when_the_program_frees_it(self):
        weight = nn.Parameter(torch.randn(64, 64))

        def step():
            a = weight * 2  # dies with the name
            b = a.sum()
            del a
            b.backward()

        document = self.captured(step, batch_size=1)
        made = document["ops"][0]["outputs"][0]
        storage = document["tensors"][made]["storage"]
        freed = [
            i for i, op in enumerate(document["ops"]) if storage in op.get("frees", ())
        ]
        self.assertEqual(freed, [1])  # after the sum, which keeps nothing of it

    def test_the_program_is_as_before(self):
        model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        model(torch.randn(8, 6)).sum().backward()
        optimizer.step()
        before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        parameters = list(model.parameters())
        gradients = [p.grad.clone() for p in parameters]
        average = {name: p.detach().clone() for name, p in model.named_parameters()}
        averages = copy.deepcopy(average)
        random = torch.get_rng_state()

        def step():
            optimizer.zero_grad()
            model(torch.ones(8, 6)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                for name, p in model.named_parameters():
                    average[name].mul_(0.9).add_(p, alpha=0.1)

        self.captured(step)
        for name, tensor in averages.items():
            self.assertTrue(torch.equal(tensor, average[name]), name)
        after = (model.state_dict(), optimizer.state_dict())
        for name, tensor in before[0].items():
            self.assertTrue(torch.equal(tensor, after[0][name]), name)
        for key, state in before[1]["state"].items():
            self.assertTrue(
                torch.equal(
                    state["momentum_buffer"], after[1]["state"][key]["momentum_buffer"]
                )
            )
        for old, new, gradient in zip(parameters, model.parameters(), gradients):
            self.assertIs(old, new)
            self.assertTrue(torch.equal(new.grad, gradient))
        self.assertTrue(torch.equal(random, torch.get_rng_state()))
        step()  # trains on


class AsCudaDoes(Captures):
    def linear_steps(self, cast):
        """A step that `cast` puts into half precision."""
        model = nn.Linear(6, 5)
        features = torch.randn(8, 6)
        return self.captured(lambda: cast(model, features), batch_size=8)

    def test_autocast_is_explicit_half_precision(self):
        def automatic(model, features):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.softmax(model(features), dim=1).exp().sum()
            loss.backward()

        def explicit(model, features):
            weight, bias = (p.bfloat16() for p in (model.weight, model.bias))
            out = F.linear(features.bfloat16(), weight, bias)
            F.softmax(out, dim=1, dtype=torch.float32).exp().sum().backward()

        def kinds(document):
            return sorted(map(str, operators(document)))

        automatic, explicit = self.linear_steps(automatic), self.linear_steps(explicit)
        self.assertEqual(kinds(automatic), kinds(explicit))
        self.assertEqual(automatic["precision"], "bf16")

    def test_autocast_casts_a_weight_once(self):
        def twice(model, features):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = (model(features) + model(features)).float().sum()
            loss.backward()

        document = self.linear_steps(twice)
        casts = [
            op
            for op in document["ops"]
            if op["phase"] == "forward" and shapes(document, op) == [[5, 6]]
        ]
        self.assertEqual([op["name"] for op in casts], ["aten::_to_copy"])

    def test_autocast_reaches_what_checkpoints_compute_again(self):
        model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))

        def step():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = (
                    checkpoint(
                        model,
                        torch.randn(8, 6, requires_grad=False),
                        use_reentrant=False,
                    )
                    .float()
                    .sum()
                )
            loss.backward()

        document = self.captured(step)
        products = [op for op in document["ops"] if op["name"] == "aten::addmm"]
        self.assertEqual(
            [op["phase"] for op in products], ["forward", "forward", "backward"]
        )
        self.assertEqual({types(document, op)[1] for op in products}, {"bfloat16"})

    def test_pinned_batches_reach_the_device(self):
        def step(pinned):
            model, features, labels = (
                nn.Linear(6, 5),
                torch.randn(8, 6),
                torch.empty(8, 5, pin_memory=pinned),
            )
            features = features.pin_memory() if pinned else features
            self.assertTrue(features.is_pinned() or not pinned)
            F.mse_loss(
                model(features.to("cuda", non_blocking=True)),
                labels.cuda(non_blocking=True),
            ).backward()

        self.assertEqual(
            *(
                operators(self.captured(lambda: step(pinned)))
                for pinned in (True, False)
            )
        )

    def test_optimizers_choose_foreach_as_on_cuda(self):
        for kind, options in (
            (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
            (torch.optim.Adam, {}),
            (torch.optim.AdamW, {}),
            (torch.optim.RMSprop, {}),
        ):
            with self.subTest(kind.__name__):
                chosen = []
                for foreach in (None, True):
                    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
                    optimizer = kind(model.parameters(), foreach=foreach, **options)

                    def step():
                        model(torch.randn(8, 6)).sum().backward()
                        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                        optimizer.step()

                    chosen.append(operators(self.captured(step)))
                self.assertEqual(*chosen)
                self.assertTrue(any("_foreach_" in op[0] for op in chosen[0]))
                executed = self.captured(step, execute=True)
                self.assertIn(
                    "aten::_foreach_norm", [op["name"] for op in executed["ops"]]
                )
                updates = [
                    op["name"] for op in executed["ops"] if op["phase"] == "optimizer"
                ]
                self.assertTrue(any("_foreach_" in name for name in updates), updates)
                self.assertFalse(
                    {"aten::mul_", "aten::add_", "aten::addcdiv_", "aten::lerp_"}
                    & set(updates),
                    updates,
                )

    def test_channels_last_memory_stays_so(self):
        """As the same step leaves it when it is computed; no gradient is copied into another layout."""
        image = torch.randn(2, 8, 6, 6).to(memory_format=torch.channels_last)
        laid_out = []
        for execute in (False, True):
            model = nn.Sequential(
                nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 4, 3)
            ).to(memory_format=torch.channels_last)
            document = self.captured(
                lambda: model(image).sum().backward(), execute=execute
            )
            laid_out.append(
                [
                    [
                        None if i is None else document["tensors"][i]["strides"]
                        for i in op["outputs"]
                    ]
                    for op in document["ops"]
                    if "convolution" in op["name"]
                ]
            )
            self.assertNotIn("aten::copy_", [op["name"] for op in document["ops"]])
        self.assertEqual(*laid_out)

    def test_the_step_is_a_later_one(self):
        """The first step of SGD with momentum copies gradients; later ones multiply and add."""
        model = nn.Linear(6, 5)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

        def step():
            model(torch.randn(8, 6)).sum().backward()
            optimizer.step()

        names = [
            op["name"]
            for op in self.captured(step)["ops"]
            if op["phase"] == "optimizer"
        ]
        self.assertEqual(
            names, ["aten::_foreach_mul_", "aten::_foreach_add_", "aten::_foreach_add_"]
        )
        self.assertEqual(optimizer.state_dict()["state"], {})

    def test_a_closure_computes_gradients_while_the_optimizer_steps(self):
        steps = []
        for in_closure in (False, True):
            model = nn.Linear(6, 5)
            optimizer = torch.optim.Adam(model.parameters())

            def gradients():
                optimizer.zero_grad()
                loss = model(torch.randn(8, 6)).square().mean()
                loss.backward()
                return loss

            def step():
                if in_closure:
                    optimizer.step(gradients)
                else:
                    gradients()
                    optimizer.step()

            steps.append(self.captured(step))
            self.assertEqual(optimizer.state_dict()["state"], {})
        for phase in ("forward", "loss", "backward", "optimizer"):
            self.assertEqual(*(operators(document, phase) for document in steps))

    def attention(self, **options):
        q, k, v = (
            torch.randn(2, heads, 16, 8, requires_grad=True)
            for heads in (4, options.pop("kv_heads", 4), 4)
        )
        if options.get("enable_gqa"):
            v = torch.randn(2, k.shape[1], 16, 8, requires_grad=True)
        return self.captured(
            lambda: F.scaled_dot_product_attention(q, k, v, **options).sum().backward(),
            batch_size=2,
        )

    def test_attention_is_one_operator(self):
        document = self.attention(is_causal=True, dropout_p=0.1)
        forward = [op for op in document["ops"] if op["name"] == "perfpred::attention"]
        backward = [
            op for op in document["ops"] if op["name"] == "perfpred::attention_backward"
        ]
        self.assertEqual(len(forward), 1)
        self.assertEqual(forward[0]["args"], {"causal": True})
        self.assertEqual(
            shapes(document, forward[0], "outputs"), [[2, 4, 16, 8], [2, 4, 16]]
        )
        self.assertEqual(backward[0]["args"], {"causal": True})
        self.assertEqual(shapes(document, backward[0], "outputs"), [[2, 4, 16, 8]] * 3)
        self.assertFalse(
            any(op["name"] in ("aten::bmm", "aten::_softmax") for op in document["ops"])
        )

    def test_attention_with_masks_and_groups(self):
        mask = torch.ones(16, 16, dtype=torch.bool)
        document = self.attention(attn_mask=mask)
        op = next(op for op in document["ops"] if op["name"] == "perfpred::attention")
        self.assertEqual(shapes(document, op)[3], [2, 4, 16, 16])
        self.assertEqual(document["tensors"][op["inputs"][3]]["strides"], [0, 0, 16, 1])
        document = self.attention(kv_heads=2, enable_gqa=True)
        op = next(
            op for op in document["ops"] if op["name"] == "perfpred::attention_backward"
        )
        self.assertEqual(
            shapes(document, op, "outputs"),
            [[2, 4, 16, 8], [2, 2, 16, 8], [2, 2, 16, 8]],
        )

    def test_attention_reads_each_slice_of_a_packed_projection(self):
        batch, positions, heads, width = 2, 16, 4, 8
        project = nn.Linear(32, 3 * heads * width)

        def step():
            packed = project(torch.randn(batch, positions, 32)).view(
                batch, positions, 3, heads, width
            )
            q, k, v = packed.permute(2, 0, 3, 1, 4)
            F.scaled_dot_product_attention(q, k, v).sum().backward()

        document = self.captured(step, batch_size=batch)
        one = 4 * batch * heads * positions * width
        op = next(op for op in document["ops"] if op["name"] == "perfpred::attention")
        self.assertEqual(len(set(op["inputs"])), 3)
        forward = self.inspected("--step", self.path)["kinds"]["attention"]
        self.assertEqual(forward["bytes_read"], 3 * one)

    def test_a_mask_that_hides_nothing_is_known_to(self):
        """As transformers asks of a padding mask, wherever it is, before it relies on is_causal."""

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(2, 4, 16, 8))
                self.asked = []

            def forward(self, mask):
                mask = mask.to("cuda", torch.bool)
                self.asked.append(bool((mask[:, :16] & torch.ones_like(mask)).all()))
                changed = mask.clone()
                changed.bernoulli_(0.5)
                self.asked.append(bool(changed.all()))
                return F.scaled_dot_product_attention(
                    self.weight, self.weight, self.weight, is_causal=self.asked[0]
                )

        for ones, known in ((torch.ones(2, 16), True), (torch.eye(2, 16), False)):
            net = Net()
            document = self.captured(
                lambda: net(ones.long()).sum().backward(), batch_size=2
            )
            self.assertEqual(
                net.asked, [known, False]
            )  # of a changed mask nobody knows: it is told False
            self.assertEqual(len(document["values"]), 1)
            op = next(
                op for op in document["ops"] if op["name"] == "perfpred::attention"
            )
            self.assertEqual(op.get("args", {}).get("causal", False), known)

    def test_attention_keeps_the_order_of_axes_in_half_precision(self):
        """So what nn.MultiheadAttention does with the result, [positions, batch, heads, width], needs no copy."""
        for dtype, copies in ((torch.bfloat16, 0), (torch.float32, 1)):
            q = torch.randn(16, 2, 4, 8, dtype=dtype, requires_grad=True)

            def step():
                heads = q.permute(1, 2, 0, 3)
                F.scaled_dot_product_attention(heads, heads, heads).permute(
                    2, 0, 1, 3
                ).contiguous().sum().backward()

            document = self.captured(step, batch_size=2)
            forward = [op["name"] for op in document["ops"] if op["phase"] == "forward"]
            self.assertEqual(forward.count("aten::clone"), copies)

    def test_dropout_keeps_a_byte_for_each_element(self):
        weight = nn.Parameter(torch.randn(64, 64))
        document = self.captured(
            lambda: F.dropout(weight, 0.5).sum().backward(), batch_size=1
        )
        op = next(op for op in document["ops"] if op["name"] == "aten::native_dropout")
        self.assertEqual(types(document, op, "outputs"), ["float32", "bool"])

    def test_without_memory_is_as_with_memory(self):
        """The operators of a step that is really computed."""
        documents = []
        for execute in (False, True):
            torch.manual_seed(0)
            model = nn.Sequential(
                nn.Conv2d(3, 8, 3),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(8 * 36, 10),
            )
            images, labels = torch.randn(4, 3, 8, 8), torch.zeros(4, dtype=torch.long)
            documents.append(
                self.captured(
                    lambda: F.cross_entropy(model(images), labels).backward(),
                    execute=execute,
                )
            )
        self.assertEqual(operators(documents[0]), operators(documents[1]))


if __name__ == "__main__":
    unittest.main()
