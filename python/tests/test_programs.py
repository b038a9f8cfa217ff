# SPDX-License-Identifier: Apache-2.0
"""Ordinary programs, which are captured right at the first try."""

import contextlib
import importlib.util
import io
import json
import os
import sys
import textwrap
import unittest

from captures import Scripts, shapes

from perfpred._capture.command import main


class Programs(Scripts):
    def step_of(self, text, arguments=(), options=()):
        code, self.said = self.run_script(text, arguments, options)
        self.assertEqual(code, 0, self.said)
        with open(self.path) as file:
            return json.load(file)

    def names(self, document):
        return [op["name"].partition("::")[2] for op in document["ops"]]


class Launched(Programs):
    """Ways to start a program."""

    LOOP = """
        import sys
        import torch
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(torch.randn(4, 3)).sum().backward()
            optimizer.step()
        """

    def test_what_follows_the_script_is_the_scripts(self):
        check = "import sys\nassert sys.argv[1:] == [{}], sys.argv\n"
        for arguments, taken in (
            (
                ["data", "--out", "own.pt", "--steps=3", "-m", "--lr", "1"],
                "--out, --steps",
            ),
            (["--", "--out", "own.pt"], ""),
            (["--outer", "--step", "{batch_size}"], ""),
        ):
            expected = arguments[arguments[:1] == ["--"] :]
            text = check.format(", ".join(map(repr, expected)))
            self.step_of(text + textwrap.dedent(self.LOOP), arguments)
            before, *rest = self.said.splitlines()
            if taken:
                self.assertRegex(
                    before,
                    f"train.py gets {taken}: options of perfpred.capture stand before",
                )
            self.assertEqual(len(rest), 1 if taken else 0, self.said)

    def write(self, name, text):
        path = os.path.join(self.folder.name, *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(textwrap.dedent(text).lstrip())
        return path

    def run_main(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = main(["--out", self.path, *arguments])
        return code, said.getvalue()

    def test_modules_of_packages(self):
        self.write("first_try/__init__.py", "")
        self.write(
            "first_try/parts.py", "import torch\nmodel = torch.nn.Linear(3, 2)\n"
        )
        self.write(
            "first_try/train.py",
            """
            import sys
            import torch
            from .parts import model
            if __name__ == "__main__":
                assert sys.argv[1:] == ["--steps", "9"], sys.argv
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                model(torch.randn(4, 3)).sum().backward()
                optimizer.step()
            """,
        )
        self.write("first_try/__main__.py", "from . import absent\n")
        sys.path.insert(0, self.folder.name)
        self.addCleanup(sys.path.remove, self.folder.name)
        code, said = self.run_main("-m", "first_try.train", "--steps", "9")
        self.assertEqual(code, 0, said)
        code, said = self.run_main("-m", "first_try.absent")
        self.assertEqual(code, 2)
        self.assertIn("first_try.absent: there is no such module", said)
        code, said = self.run_main("-m", "first_try")
        self.assertEqual(code, 1)
        self.assertIn("__main__.py:1: ImportError", said)

    def test_notebooks(self):
        cells = [
            ("markdown", "for\n"),
            ("code", "!pip install torch\n%matplotlib inline\nimport torch\n"),
            ("code", "%%bash\nfor x in *; do\n"),
            (
                "code",
                "%%time\nmodel = torch.nn.Linear(3, 2)\nmodel?\n"
                "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\ndisplay(model)\n",
            ),
            ("code", "model(torch.randn(4, 3)).sum().backward()\noptimizer.step()\n"),
        ]
        content = {
            "nbformat": 4,
            "cells": [
                {"cell_type": kind, "source": text.splitlines(True)}
                for kind, text in cells
            ],
        }
        path = self.write("train.ipynb", json.dumps(content))
        code, said = self.run_main(path)
        self.assertEqual(code, 0, said)
        content["cells"][-1]["source"] = "\nraise KeyError('of the notebook')"
        self.write("train.ipynb", json.dumps(content))
        code, said = self.run_main(path)
        self.assertEqual((code, len(said.splitlines())), (1, 1))
        self.assertIn("train.ipynb[5]:2: KeyError", said)
        self.write("train.ipynb", "[]")
        self.assertEqual(self.run_main(path)[0], 2)

    OF_CUDA = """
        import torch
        data = torch.utils.data.TensorDataset(torch.randn(64, 6), torch.randint(5, (64,)))
        loader = torch.utils.data.DataLoader(data, 8, num_workers=2, pin_memory=True)
        model = torch.nn.Linear(6, 5).to("cuda:0")
        optimizer = torch.optim.Adam(model.parameters())
        scaler = torch.amp.GradScaler("cuda")
        stream = torch.cuda.Stream()
        torch.manual_seed(0)
        for x, y in loader:
            with torch.cuda.stream(stream):
                x, y = x.cuda(non_blocking=True), y.to(0, non_blocking=True)
            torch.cuda.current_stream().wait_stream(stream)
            x.record_stream(torch.cuda.current_stream())
            noise = torch.randn(x.shape, device="cuda", generator=torch.Generator("cuda"))
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(model(x + noise), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            torch.cuda.synchronize()
            assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] >= 0
            assert torch.cuda.memory.memory_allocated() >= 0
        """

    def test_programs_for_a_gpu(self):
        products = []
        for options in ((), ("--execute", "--steps", "2")):
            document = self.step_of(self.OF_CUDA, options=options)
            self.assertEqual(
                (document["batch_size"], document["precision"]), (8, "bf16")
            )
            products.append(
                [
                    (name, shapes(document, op))
                    for name, op in zip(self.names(document), document["ops"])
                    if name in ("addmm", "mm")
                ]
            )
        self.assertEqual(*products)
        self.assertRegex(document["notes"][0], "was executed")


class Questions(Programs):
    def test_checks_pass(self):
        text = """
            import torch
            from torch.distributions import Categorical, Normal, Bernoulli
            policy = torch.nn.Linear(6, 5).cuda()
            optimizer = torch.optim.Adam(policy.parameters())
            x, y = torch.randn(8, 6).cuda(), torch.randint(5, (8,), device="cuda")
            assert (y >= 0).all() and (y < 5).all(), "labels"
            if not (y >= 0).all():
                raise ValueError(f"labels below {y.min()}")
            if (y < 0).any() or torch.isnan(x).any().item():
                raise ValueError("labels")
            assert not bool((y < 0).any())
            out = policy(x)
            actions = Categorical(logits=out)
            width = Normal(out, out.exp(), validate_args=True)
            sure = Bernoulli(logits=out)
            loss = actions.log_prob(actions.sample()).sum() + width.log_prob(width.rsample()).sum()
            loss = loss + sure.log_prob(sure.sample()).sum()
            if loss > 1e9:
                print("large")
            loss.backward()
            optimizer.step()
            """
        document = self.step_of(text)
        lines = [value["line"].rpartition(":")[2] for value in document["values"]]
        self.assertEqual(lines, ["18"])  # nobody knows whether the loss is large

    PACKED = """
        import sys
        import torch
        from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
        network, head = torch.nn.LSTM(6, 5, batch_first=True).cuda(), torch.nn.Linear(5, 2).cuda()
        optimizer = torch.optim.SGD([*network.parameters(), *head.parameters()], lr=0.1)
        lengths = torch.tensor([3, 7, 2, 7])
        x = torch.randn(4, 7, 6, requires_grad=True, device="cuda")
        if sys.argv[1] == "unknown":
            lengths = (x[:, :, 0] > 0).sum(1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        assert packed.batch_sizes.tolist() == [4, 4, 3, 2, 2, 2, 2] or sys.argv[1] == "unknown"
        out, _ = pad_packed_sequence(network(packed)[0], batch_first=True)
        assert out.shape == (4, 7, 5)
        head(out).sum().backward()
        optimizer.step()
        """

    def test_packed_sequences(self):
        for lengths, rows, notes in (("known", 19, 0), ("unknown", 28, 1)):
            document = self.step_of(self.PACKED, [lengths])
            (op,) = [op for op in document["ops"] if op["name"] == "perfpred::rnn"]
            self.assertEqual(shapes(document, op)[0], [rows, 6])
            self.assertEqual(len(document.get("notes", [])), notes)
            answer = self.inspected("--step", self.path)
            self.assertEqual(answer["unknown_ops"], [])
            of_rnn = (
                3 * 2 * rows * 4 * 5 * (6 + 5)
            )  # forward, and twice as much backward
            self.assertEqual(answer["conv_matmul_flops"], of_rnn + 3 * 2 * 28 * 5 * 2)

    def test_a_mask_before_the_loss_is_an_upper_bound(self):
        text = """
            import torch
            model = torch.nn.Linear(6, 5).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                x, y = torch.randn(8, 6).cuda(), torch.randint(5, (8,), device="cuda")
                keep = torch.rand(8, device="cuda") > 0.5
                out = model(x)
                loss = torch.nn.functional.cross_entropy(out[keep], y[keep])
                loss = loss + out.masked_select(keep[:, None]).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """
        document = self.step_of(text)
        chosen = [op for op in document["ops"] if op["name"] == "aten::index"]
        self.assertEqual(shapes(document, chosen[0], "outputs"), [[8, 5]])
        self.assertEqual(len(document["notes"]), 2)
        self.assertRegex(document["notes"][0], "train.py:8: a mask .* upper bound")
        self.assertRegex(document["notes"][1], "train.py:9: a mask")

    def test_samplers_of_detectors(self):
        """As torchvision's: so many of all boxes are marked, whose features the head gets."""
        text = """
            import torch
            model, head = torch.nn.Linear(6, 5).cuda(), torch.nn.Linear(5, 2).cuda()
            optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
            x, y = torch.randn(80, 6).cuda(), torch.randint(2, (80,), device="cuda")
            masks = []
            for labels in (y, 1 - y):
                chosen = torch.where(labels >= 1)[0]
                chosen = chosen[torch.randperm(chosen.numel(), device="cuda")[:12]]
                mask = torch.zeros_like(labels, dtype=torch.uint8)
                mask[chosen] = 1
                masks.append(mask)
            features = model(x)
            both = torch.where(masks[0] | masks[1])[0]
            assert both.shape == (24,)
            assert features[torch.cat(masks).bool()[80:]].shape == (24, 5)
            head(features[both]).sum().backward()
            optimizer.step()
            """
        document = self.step_of(text)
        products = [op for op in document["ops"] if op["name"] == "aten::addmm"]
        self.assertEqual(shapes(document, products[1])[1], [24, 5])
        self.assertTrue(all("upper bound" in note for note in document["notes"]))

    def test_what_the_host_said_is_known_there_again(self):
        text = """
            import torch
            model = torch.nn.Linear(6, 5).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            x = torch.randn(8, 6, device="cuda")
            sizes = torch.tensor(x.shape, device=x.device)[None].cpu()
            assert max(size[1] for size in sizes) == 6 and sizes.tolist() == [[8, 6]]
            average = torch.optim.swa_utils.AveragedModel(model, device="cuda")
            model(x).sum().backward()
            optimizer.step()
            average.update_parameters(model)  # copies in the first step alone
            """
        document = self.step_of(text)
        self.assertNotIn("copy_", self.names(document))
        lines = [value["line"] for value in document["values"]]
        self.assertFalse([line for line in lines if line.endswith(":6")])

    def test_lazy_modules(self):
        text = """
            import torch
            from torch import nn
            model = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(2)).to("cuda")
            model(torch.zeros(1, 6, device="cuda"))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loss = model(torch.randn(8, 6, device="cuda")).sum()
            torch.autograd.backward(tensors=loss)
            optimizer.step()
            """
        names = []
        for options in ((), ("--execute",)):
            document = self.step_of(text, options=options)
            self.assertEqual(document["batch_size"], 8)
            names.append([n for n in self.names(document) if n in ("addmm", "mm")])
        self.assertEqual(names, [["addmm"] * 2 + ["mm"] * 3] * 2)

    def test_optimizers_that_look_for_convergence(self):
        text = """
            import torch
            model = torch.nn.Linear(6, 5).cuda()
            optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
            x = torch.randn(8, 6, device="cuda")
            def closure():
                optimizer.zero_grad()
                loss = model(x).square().sum()
                loss.backward()
                return loss
            optimizer.step(closure)
            """
        self.assertEqual(self.names(self.step_of(text)).count("addmm"), 4)


class Boundaries(Programs):
    """Where a step begins and ends."""

    BEFORE = """
        import sys
        import torch
        from torch import nn
        kind = sys.argv[1]
        net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 5)).cuda()
        teacher, optimizer = nn.Linear(6, 5).cuda(), torch.optim.SGD(net.parameters(), lr=0.1)
        large = torch.zeros(80, 6, device="cuda")
        kept = []
        if kind == "strides":
            kept.extend(net(large) for _ in range(9))
        if kind == "evaluation":
            with torch.no_grad():
                kept = [net(large).argmax(1) for _ in range(3)]
        if kind == "style":
            wanted = teacher(large[:8]).detach()
        if kind == "bank":
            with torch.no_grad():
                wanted = net(large)[:8]
        for _ in range(3):
            x = torch.zeros(8, 6, device="cuda")
            if kind == "teacher":
                with torch.no_grad():
                    wanted = teacher(x)
            with torch.autocast("cuda", torch.float16, enabled=kind in ("nothing", "strides")):
                out = net(x)
            loss = (out - (wanted if kind in ("style", "bank", "teacher") else x[:, :5])).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """

    def test_what_precedes_the_step_is_no_part_of_it(self):
        expected = self.step_of(self.BEFORE, ["nothing"])
        names, products = self.names(expected), 2 + 3
        self.assertEqual(names.count("addmm") + names.count("mm"), products)
        for kind in ("strides", "evaluation", "style", "bank", "teacher"):
            with self.subTest(kind):
                document = self.step_of(self.BEFORE, [kind])
                self.assertEqual(document["batch_size"], 8)
                got = self.names(document)
                if kind == "teacher":
                    products += 1
                if kind == "strides":
                    self.assertEqual(document["precision"], "fp16")
                    self.assertEqual(sorted(got), sorted(names))
                self.assertEqual(got.count("addmm") + got.count("mm"), products)

    BEHIND = """
        import sys
        import torch
        net = torch.nn.Linear(6, 5).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            out = net(torch.zeros(8, 6, device="cuda"))
            out.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if sys.argv[1] == "shape":
                print(torch.unique(out.long()).shape)
            if sys.argv[1] == "exception":
                raise KeyError("of a metric")
            if sys.argv[1] == "evaluation":
                with torch.no_grad():
                    print(net(torch.zeros(80, 6, device="cuda")).exp().tanh().sum().item())
        """

    def test_what_follows_the_update_never_loses_the_step(self):
        expected = self.names(self.step_of(self.BEHIND, ["nothing"]))
        for kind, note in (
            ("shape", "behind the update: .*train.py:11: the shape of .*unique"),
            ("exception", "behind the update: .*train.py:13: KeyError: 'of a metric'"),
            ("evaluation", None),
        ):
            with self.subTest(kind):
                document = self.step_of(self.BEHIND, [kind])
                got = self.names(document)
                update = expected.index("_foreach_add_") + 1
                self.assertEqual(got[:update], expected[:update])
                self.assertFalse({"exp", "tanh"} & set(got))
                self.assertEqual(document["batch_size"], 8)
                notes = document.get("notes", [])
                self.assertEqual(len(notes), 0 if note is None else 1)
                if note is not None:
                    self.assertRegex(notes[0], note)

    @unittest.skipUnless(importlib.util.find_spec("keras"), "needs Keras")
    def test_the_symbolic_build_of_keras_is_not_counted(self):
        text = """
            import os
            os.environ["KERAS_BACKEND"] = "torch"
            import numpy
            import keras
            from keras import layers
            model = keras.Sequential([keras.Input((6,)), layers.Dense(5, activation="relu"), layers.Dense(3)])
            model.compile(loss="mse", optimizer="adam", metrics=["mae"])
            model.fit(numpy.zeros((64, 6), "float32"), numpy.zeros((64, 3), "float32"), batch_size=16, verbose=0)
            """
        first, second = (self.step_of(text, options=["--steps", n]) for n in ("1", "2"))
        self.assertEqual(first["batch_size"], 16)
        self.assertEqual(self.names(first), self.names(second))


class Samples(Programs):
    """One meaning of the batch size, with and without --batch-sizes."""

    SCRIPT = """
        import sys
        import torch
        from torch import nn
        kind, size = sys.argv[1], int(sys.argv[2])


        class Tagger(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.rnn = nn.Embedding(50, 6), nn.GRU(6, 6)

            def forward(self, words):
                return self.rnn(self.words(words))[0]


        class Lists(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 6)

            def forward(self, pictures):
                return torch.stack([self.layer(picture) for picture in pictures])


        net = {"words": Tagger, "lists": Lists}.get(kind, lambda: nn.Linear(6, 6))().cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        data = [torch.zeros(3, 6) for _ in range(120)] if kind == "lists" else torch.zeros(120, 6)
        collate = (lambda rows: rows) if kind == "lists" else None
        for x in torch.utils.data.DataLoader(data, size, collate_fn=collate):
            if kind == "lists":
                x = [one.cuda() for one in x]
            elif kind == "words":
                x = torch.zeros(11, size, dtype=torch.long, device="cuda")
            elif kind == "loaded pairs":
                x = torch.cat([x, x + 1]).cuda()
            elif kind == "pairs":
                x = torch.cat([torch.zeros(size, 6).cuda(), torch.zeros(size, 6).cuda()])
            elif kind == "parts":
                for part in x.chunk(2):
                    net(part.cuda()).sum().backward()
                optimizer.step()
                continue
            net(x).sum().backward()
            optimizer.step()
        """

    def test_samples_of_the_loader(self):
        for kind in ("plain", "lists", "words", "loaded pairs"):
            with self.subTest(kind):
                document = self.step_of(self.SCRIPT, [kind, "4"])
                self.assertEqual(document["batch_size"], 4)
                notes = 0 if kind in ("plain", "lists") else 1
                self.assertEqual(len(document.get("notes", [])), notes)
        document = self.step_of(self.SCRIPT, ["parts", "4"])
        self.assertEqual((document["batch_size"], document["accumulate"]), (2, 2))
        document = self.step_of(self.SCRIPT, ["parts", "4"], ["--batch-sizes", "4,8"])
        self.assertEqual((document["batch_size"], document["accumulate"]), (2, 2))

    def test_samples_without_a_loader(self):
        text = self.SCRIPT.replace(
            "torch.utils.data.DataLoader(data, size, collate_fn=collate)", "range(9)"
        )
        for kind, note in (
            ("words", "11 positions of 4 seq"),
            ("pairs", "8 rows, .*joins"),
        ):
            with self.subTest(kind):
                document = self.step_of(text, [kind, "4"])
                self.assertEqual(document["batch_size"], 4)
                self.assertRegex(document["notes"][0], note)
                sizes = self.step_of(
                    text, [kind, "{batch_size}"], ["--batch-sizes", "4,6"]
                )
                self.assertEqual(sizes["batch_size"], 4)
                self.assertNotIn("notes", sizes)


if __name__ == "__main__":
    unittest.main()
