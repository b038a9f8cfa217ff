# SPDX-License-Identifier: Apache-2.0
"""What perfpred.capture promises. With the program perfpred-inspect in PERFPRED_INSPECT its counts are compared, too."""

import contextlib
import copy
import io
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import perfpred
from perfpred.capture.__main__ import main

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Captures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "step.json")
        self.addCleanup(self.folder.cleanup)

    def captured(self, step, **options):
        with perfpred.capture(self.path, **options):
            step()
        with open(self.path) as file:
            return json.load(file)

    def inspected(self, *arguments):
        program = os.environ.get("PERFPRED_INSPECT")
        if not program:
            self.skipTest("PERFPRED_INSPECT does not name the program")
        done = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


def shapes(document, op, key="inputs"):
    return [None if i is None else document["tensors"][i]["sizes"] for i in op[key]]


def types(document, op, key="inputs"):
    return [None if i is None else document["tensors"][i]["dtype"] for i in op[key]]


def operators(document, phase=None):
    """Names, shapes and types, without what depends on addresses and on the program around."""
    return [
        (op["name"], shapes(document, op), types(document, op), shapes(document, op, "outputs"))
        for op in document["ops"]
        if phase in (None, op["phase"])
    ]


def of_role(document, role):
    """Bytes of the storages of a role."""
    storages = {t["storage"] for t in document["tensors"] if t["role"] == role}
    return sum(document["storages"][s]["bytes"] for s in storages)


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
            self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu_(out.add_(x if self.downsample is None else self.downsample(x)))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, width, stride), Block(width, width, 1)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Gpt2(nn.Module):
    """Radford et al. 2019; attention as torch.nn.functional has it."""

    def __init__(self, layers=12, hidden=768, heads=12, words=50257, positions=1024):
        super().__init__()
        self.words, self.places = nn.Embedding(words, hidden), nn.Embedding(positions, hidden)
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
        h = F.dropout(self.words(x) + self.places(torch.arange(length, device=x.device)), 0.1)
        for block in self.blocks:
            q, k, v = block["qkv"](block["norm1"](h)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            attention = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)
            h = h + F.dropout(block["out"](attention.transpose(1, 2).reshape(batch, length, -1)), 0.1)
            h = h + F.dropout(block["down"](F.gelu(block["up"](block["norm2"](h)), approximate="tanh")), 0.1)
        return self.norm(h) @ self.words.weight.t()


class Counts(Captures):
    def test_resnet18_is_counted_as_the_network_that_perfpred_knows(self):
        model, images, labels = resnet18(), torch.randn(4, 3, 224, 224), torch.zeros(4, dtype=torch.long)
        self.captured(lambda: F.cross_entropy(model(images), labels).backward())
        step = self.inspected("--step", self.path)
        zoo = self.inspected("--network", "resnet18", "--batch-size", "4", "--optimizer", "none")
        self.assertEqual(step["params"], 11_689_512)
        for phase in ("forward", "loss", "backward"):
            self.assertEqual(step["phases"][phase], zoo["phases"][phase], phase)
        self.assertEqual(step["batch_size"], 4)
        self.assertAlmostEqual(step["memory"]["peak_bytes"] / zoo["memory"]["peak_bytes"], 1, delta=0.001)

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
        model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4))
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
        self.assertEqual(phases, sorted(phases, key=["forward", "loss", "backward", "optimizer"].index))
        layer_of = {
            (op["name"], op["phase"]): document["layers"][op["layer"]] for op in document["ops"] if "layer" in op
        }
        self.assertEqual(layer_of["aten::native_batch_norm", "forward"], "1")
        self.assertEqual(layer_of["aten::native_batch_norm_backward", "backward"], "1")
        self.assertEqual(layer_of["aten::threshold_backward", "backward"], "2")

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
        freed = [i for i, op in enumerate(document["ops"]) if storage in op.get("frees", ())]
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
            self.assertTrue(torch.equal(state["momentum_buffer"], after[1]["state"][key]["momentum_buffer"]))
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
        casts = [op for op in document["ops"] if op["phase"] == "forward" and shapes(document, op) == [[5, 6]]]
        self.assertEqual([op["name"] for op in casts], ["aten::_to_copy"])

    def test_autocast_reaches_what_checkpoints_compute_again(self):
        model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))

        def step():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = checkpoint(model, torch.randn(8, 6, requires_grad=False), use_reentrant=False).float().sum()
            loss.backward()

        document = self.captured(step)
        products = [op for op in document["ops"] if op["name"] == "aten::addmm"]
        self.assertEqual([op["phase"] for op in products], ["forward", "forward", "backward"])
        self.assertEqual({types(document, op)[1] for op in products}, {"bfloat16"})

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

    def test_the_step_is_a_later_one(self):
        """The first step of SGD with momentum copies gradients; later ones multiply and add."""
        model = nn.Linear(6, 5)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

        def step():
            model(torch.randn(8, 6)).sum().backward()
            optimizer.step()

        names = [op["name"] for op in self.captured(step)["ops"] if op["phase"] == "optimizer"]
        self.assertEqual(names, ["aten::_foreach_mul_", "aten::_foreach_add_", "aten::_foreach_add_"])
        self.assertEqual(optimizer.state_dict()["state"], {})

    def attention(self, **options):
        q, k, v = (torch.randn(2, heads, 16, 8, requires_grad=True) for heads in (4, options.pop("kv_heads", 4), 4))
        if options.get("enable_gqa"):
            v = torch.randn(2, k.shape[1], 16, 8, requires_grad=True)
        return self.captured(lambda: F.scaled_dot_product_attention(q, k, v, **options).sum().backward(), batch_size=2)

    def test_attention_is_one_operator(self):
        document = self.attention(is_causal=True, dropout_p=0.1)
        forward = [op for op in document["ops"] if op["name"] == "perfpred::attention"]
        backward = [op for op in document["ops"] if op["name"] == "perfpred::attention_backward"]
        self.assertEqual(len(forward), 1)
        self.assertEqual(forward[0]["args"], {"causal": True})
        self.assertEqual(shapes(document, forward[0], "outputs"), [[2, 4, 16, 8], [2, 4, 16]])
        self.assertEqual(backward[0]["args"], {"causal": True})
        self.assertEqual(shapes(document, backward[0], "outputs"), [[2, 4, 16, 8]] * 3)
        self.assertFalse(any(op["name"] in ("aten::bmm", "aten::_softmax") for op in document["ops"]))

    def test_attention_with_masks_and_groups(self):
        mask = torch.ones(16, 16, dtype=torch.bool)
        document = self.attention(attn_mask=mask)
        op = next(op for op in document["ops"] if op["name"] == "perfpred::attention")
        self.assertEqual(shapes(document, op)[3], [2, 4, 16, 16])
        self.assertEqual(document["tensors"][op["inputs"][3]]["strides"], [0, 0, 16, 1])
        document = self.attention(kv_heads=2, enable_gqa=True)
        op = next(op for op in document["ops"] if op["name"] == "perfpred::attention_backward")
        self.assertEqual(shapes(document, op, "outputs"), [[2, 4, 16, 8], [2, 2, 16, 8], [2, 2, 16, 8]])

    def test_attention_reads_each_slice_of_a_packed_projection(self):
        batch, positions, heads, width = 2, 16, 4, 8
        project = nn.Linear(32, 3 * heads * width)

        def step():
            packed = project(torch.randn(batch, positions, 32)).view(batch, positions, 3, heads, width)
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
            document = self.captured(lambda: net(ones.long()).sum().backward(), batch_size=2)
            self.assertEqual(net.asked, [known, False])  # of a changed mask nobody knows: it is told False
            self.assertEqual(len(document["values"]), 1)
            op = next(op for op in document["ops"] if op["name"] == "perfpred::attention")
            self.assertEqual(op.get("args", {}).get("causal", False), known)

    def test_attention_keeps_the_order_of_axes_in_half_precision(self):
        """So what nn.MultiheadAttention does with the result, [positions, batch, heads, width], needs no copy."""
        for dtype, copies in ((torch.bfloat16, 0), (torch.float32, 1)):
            q = torch.randn(16, 2, 4, 8, dtype=dtype, requires_grad=True)

            def step():
                heads = q.permute(1, 2, 0, 3)
                F.scaled_dot_product_attention(heads, heads, heads).permute(2, 0, 1, 3).contiguous().sum().backward()

            document = self.captured(step, batch_size=2)
            forward = [op["name"] for op in document["ops"] if op["phase"] == "forward"]
            self.assertEqual(forward.count("aten::clone"), copies)

    def test_dropout_keeps_a_byte_for_each_element(self):
        weight = nn.Parameter(torch.randn(64, 64))
        document = self.captured(lambda: F.dropout(weight, 0.5).sum().backward(), batch_size=1)
        op = next(op for op in document["ops"] if op["name"] == "aten::native_dropout")
        self.assertEqual(types(document, op, "outputs"), ["float32", "bool"])

    def test_without_memory_is_as_with_memory(self):
        """The operators of a step that is really computed."""
        documents = []
        for execute in (False, True):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
            images, labels = torch.randn(4, 3, 8, 8), torch.zeros(4, dtype=torch.long)
            documents.append(self.captured(lambda: F.cross_entropy(model(images), labels).backward(), execute=execute))
        self.assertEqual(operators(documents[0]), operators(documents[1]))


class Kinds(Captures):
    """Steps of other forms than a network, a loss and an optimizer."""

    def test_recurrent_networks_and_weak_references(self):
        network, sequences = nn.LSTM(8, 16, batch_first=True), torch.randn(4, 10, 8)
        document = self.captured(lambda: network(sequences)[0].sum().backward())
        self.assertEqual(of_role(document, "parameter"), 4 * sum(p.numel() for p in network.parameters()))
        network(sequences)[0].sum().backward()  # has its weights back

    def test_recurrent_networks_are_one_operator(self):
        products = 2 * 4 * 10 * 16 * ((8 + 16) + (16 + 16))  # of a gate: 4 samples, 10 positions, two layers
        for kind, gates in ((nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)):
            for batch_first in (False, True):
                network = kind(8, 16, 2, batch_first=batch_first, dropout=0.5)
                sequences = torch.randn((4, 10, 8) if batch_first else (10, 4, 8), requires_grad=True)
                document = self.captured(lambda: network(sequences)[0].square().mean().backward())
                names = [op["name"] for op in document["ops"] if "rnn" in op["name"] or "mm" in op["name"]]
                self.assertEqual(names, ["perfpred::rnn", "perfpred::rnn_backward"])
                step = self.inspected("--step", self.path)
                self.assertEqual(step["conv_matmul_flops"], 3 * gates * products)

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
        self.assertEqual(shapes(document, op, "outputs")[:3], [[20, 4], [1, 3, 4], [1, 3, 16]])

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
            (gradient,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            (gradient.norm(2, 1) - 1).pow(2).mean().backward()

        self.assertEqual(of_role(self.captured(step), "gradient"), 4 * 8)  # the bias has none

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
        document = self.captured(lambda: weight[weight > 0].sum().backward(), execute=True, batch_size=1)
        op = next(op for op in document["ops"] if op["name"] == "aten::index")
        self.assertEqual(shapes(document, op, "outputs"), [[3]])
        self.assertEqual(weight.grad.tolist(), [[1, 0], [1, 1]])


class Scripts(Captures):
    SCRIPT = """
        import argparse
        import torch
        import torch.nn.functional as F

        parser = argparse.ArgumentParser()
        parser.add_argument("--fail", action="store_true")
        parser.add_argument("--amp", action="store_true")
        options = parser.parse_args()
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


        class Pictures(torch.utils.data.Dataset):
            def __len__(self):
                return 1000

            def __getitem__(self, index):
                return torch.randn(3, 16, 16), index % 10


        model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(6272, 10))
        model.cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled=options.amp)
        average = torch.optim.swa_utils.AveragedModel(model)
        loader = torch.utils.data.DataLoader(Pictures(), batch_size=8, num_workers=2, pin_memory=True)
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.cuda()
            with torch.autocast("cuda", dtype=torch.float16, enabled=options.amp):
                loss = F.cross_entropy(model(x), y) / 2
            scaler.scale(loss).backward()
            if options.fail:
                raise ValueError("of the script")
            if step % 2 == 1:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                average.update_parameters(model)
            print(f"{step} {loss.item():.3f} {loss:.3f}", loss.detach().cpu().tolist())
        """

    def write_script(self, text=None):
        script = os.path.join(self.folder.name, "train.py")
        with open(script, "w") as file:
            file.write(textwrap.dedent(text or self.SCRIPT).lstrip())
        return script

    def line_of(self, text):
        lines = textwrap.dedent(self.SCRIPT).lstrip().splitlines()
        return "train.py:" + str(1 + next(i for i, line in enumerate(lines) if text in line))

    def run_script(self, text=None, arguments=(), options=(), out=None):
        """In this process, as that is quicker. Returns the exit code and what was said."""
        said, printed = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
            code = main(["--out", out or self.path, *options, self.write_script(text), *arguments])
        return code, said.getvalue()

    def test_an_untouched_script(self):
        command = [sys.executable, "-m", "perfpred.capture", "--out", self.path, "--steps", "2", self.write_script()]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": PYTHON})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(self.line_of("loss.item()") + ": asks for a tensor's value", done.stderr)
        with open(self.path) as file:
            document = json.load(file)
        names = [op["name"] for op in document["ops"]]
        self.assertEqual(names.count("aten::convolution"), 2)  # accumulates the gradients of two batches
        self.assertEqual(names.count("aten::_foreach_norm"), 1)
        self.assertIn("aten::_foreach_lerp_", names[names.index("aten::_foreach_addcdiv_") :])  # the average
        self.assertEqual(document["batch_size"], 8)
        self.assertNotIn("aten::uniform_", names)

    def test_options_may_follow_the_script(self):
        script = self.write_script("""
            import sys
            import torch
            model = torch.nn.Linear(3, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            assert sys.argv[1:] == ["data", "--epochs", "1", "--out", "own.pt"], sys.argv
            for _ in range(3):
                model(torch.randn(4, 3)).sum().backward()
                optimizer.step()
            """)
        arguments = [script, "--steps", "2", "data", "--epochs", "1", "--out", self.path, "--", "--out", "own.pt"]
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(main(arguments), 0, said.getvalue())
        with open(self.path) as file:
            self.assertEqual(json.load(file)["batch_size"], 4)

    def test_two_batch_sizes_give_all(self):
        code, said = self.run_script(arguments=["--amp"], options=["--batch-sizes", "4,6"])
        self.assertEqual(code, 0, said)
        with open(self.path) as file:
            joined = json.load(file)
        direct = os.path.join(self.folder.name, "direct.json")
        code, said = self.run_script(arguments=["--amp"], out=direct)
        self.assertEqual(code, 0, said)
        with open(direct) as file:
            direct = json.load(file)
        self.assertEqual(len(joined["tensors"]), len(direct["tensors"]))
        for tensor, expected in zip(joined["tensors"], direct["tensors"]):
            growth = tensor.get("growth", [0] * len(tensor["sizes"]))
            self.assertEqual([s + 4 * g for s, g in zip(tensor["sizes"], growth)], expected["sizes"])
        step, exact = self.inspected("--step", self.path, "--batch-size", "8"), self.inspected(
            "--step", os.path.join(self.folder.name, "direct.json")
        )
        del step["network"], exact["network"]
        self.assertEqual(step, exact)

    def refused(self, text, message, code=2, **options):
        got, said = self.run_script(text, **options)
        self.assertEqual(got, code, said)
        self.assertIn(message, said)
        self.assertEqual(len(said.splitlines()), 1, said)
        self.assertEqual([f for f in os.listdir(self.folder.name) if "json" in f], [])

    def test_what_cannot_be_captured_is_said_in_a_line(self):
        self.refused("print('hello')\n", "train.py: made no training step")
        self.refused("for\n", "train.py:1: SyntaxError", code=1)
        self.refused(None, self.line_of("raise") + ": ValueError: of the script", code=1, arguments=["--fail"])
        self.refused(None, "there is no folder", out=os.path.join(self.folder.name, "missing", "step.json"))

    def test_an_interrupted_script_writes_nothing(self):
        self.refused("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", "interrupted", code=1)


class Refusals(Captures):
    def refusal(self, step):
        with self.assertRaises(perfpred.CaptureError) as caught:
            self.captured(step)
        self.assertFalse(os.path.exists(self.path))
        self.assertIn(os.path.basename(__file__), str(caught.exception))
        return str(caught.exception)

    def test_shapes_that_depend_on_values(self):
        x = torch.randn(8, 6, requires_grad=True)
        for step in (lambda: x[torch.nonzero(x[:, 0] > 0)].sum().backward(), lambda: x[x > 0].sum().backward()):
            self.assertRegex(self.refusal(step), "the shape of the result of aten::(nonzero|index).* execute")

    def test_an_operator_without_shapes(self):
        library = torch.library.Library("perfpred_test", "DEF")
        library.define("secret(Tensor x) -> Tensor")
        library.impl("secret", lambda x: x * 2, "CUDA")
        x = torch.randn(8, 6, requires_grad=True)
        message = self.refusal(lambda: torch.ops.perfpred_test.secret(x).sum().backward())
        self.assertIn('torch.library.register_fake("perfpred_test::secret")', message)

    def test_no_step(self):
        with self.assertRaisesRegex(perfpred.CaptureError, "no operator was executed"):
            self.captured(lambda: None)
        with self.assertRaisesRegex(perfpred.CaptureError, "no backward pass"):
            self.captured(lambda: nn.Linear(3, 2)(torch.ones(4, 3)))

    def test_the_programs_own_exceptions_pass(self):
        with self.assertRaises(ZeroDivisionError):
            self.captured(lambda: 1 / 0)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_steps_that_differ_are_not_joined(self):
        documents = []
        for width, batch in ((5, 4), (7, 8)):
            model = nn.Linear(6, width)
            documents.append(self.captured(lambda: model(torch.randn(batch, 6)).sum().backward()))
        with self.assertRaisesRegex(perfpred.CaptureError, "do not grow by a whole number"):
            perfpred.combine(*documents)
        with self.assertRaisesRegex(perfpred.CaptureError, "both files have the batch size 4"):
            perfpred.combine(documents[0], documents[0])


if __name__ == "__main__":
    unittest.main()
