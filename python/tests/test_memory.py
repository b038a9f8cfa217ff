# SPDX-License-Identifier: Apache-2.0
"""What is in memory beside the tensors that a step computes."""

import json
import unittest

import torch
from captures import Captures, Scripts, of_role
from torch import nn


class Gradients(Captures):
    """Of the step before. Expected: 8 layers of 256 x 256 with biases, 17 activations of 1024 x 256 with those of ReLU."""

    PARAMETERS = 4 * 8 * (256 * 256 + 256)
    ACTIVATION = 4 * 1024 * 256

    def step_of(self, order, model, optimizer):
        x = torch.zeros(1024, 256)
        if order.startswith("first"):
            optimizer.zero_grad(set_to_none=order == "first")
        loss = model(x).mean()
        if order == "between":
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if order == "last":
            optimizer.zero_grad()

    def peaks(self, order):
        found = []
        for before in (0, 2):
            model = nn.Sequential(
                *[m for _ in range(8) for m in (nn.Linear(256, 256), nn.ReLU())]
            )
            optimizer = torch.optim.Adam(model.parameters(), foreach=False)
            for _ in range(before):
                self.step_of(order, model, optimizer)
            document = self.captured(lambda: self.step_of(order, model, optimizer))
            self.assertIn(
                of_role(document, "gradient"), (self.PARAMETERS, 2 * self.PARAMETERS)
            )
            found.append(self.inspected("--step", self.path)["memory"]["peak_bytes"])
        self.assertEqual(*found)  # whichever step was captured
        return found[0]

    def test_they_are_in_memory_until_they_are_cleared(self):
        peaks = {
            order: self.peaks(order)
            for order in ("first", "between", "first_kept", "last")
        }
        self.assertEqual(peaks["first"], peaks["last"])
        # Between: during the forward pass both the old gradients and all activations, but not the last gradient's two.
        self.assertEqual(
            peaks["between"] - peaks["first"], self.PARAMETERS - self.ACTIVATION - 8
        )
        self.assertEqual(peaks["first_kept"] - peaks["first"], self.PARAMETERS)

    def test_they_are_added_to(self):
        model = nn.Linear(6, 5)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step():
            optimizer.zero_grad(set_to_none=False)
            model(torch.randn(8, 6)).sum().backward()
            optimizer.step()

        names = [op["name"] for op in self.captured(step)["ops"]]
        self.assertEqual(names[:2], ["aten::zero_"] * 2)
        self.assertEqual(names.count("aten::add_"), 2)
        self.assertIsNone(model.weight.grad)


class Accumulation(Scripts):
    """min.py of a bug report: a network with a wide result, so that each batch's logits are seen in memory."""

    SCRIPT = """
        import sys
        import torch
        import torch.nn.functional as F
        accumulated, batch = int(sys.argv[1]), int(sys.argv[2])
        model = torch.nn.Linear(64, 10000).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(2 * accumulated):
            x, y = torch.randn(256, 64, device="cuda"), torch.zeros(256, dtype=torch.long, device="cuda")
            if i == batch:
                x, y = x[:7], y[:7]
            (F.cross_entropy(model(x), y) / accumulated).backward()
            if (i + 1) % accumulated == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        """

    def answers(self, accumulated, odd_batch=-1):
        code, said = self.run_script(self.SCRIPT, [str(accumulated), str(odd_batch)])
        self.assertEqual(code, 0, said)
        with open(self.path) as file:
            document = json.load(file)
        return document, self.inspected(
            "--step", self.path, "--device", "A100-SXM4-80GB"
        )

    def test_one_batch_stands_for_all(self):
        one, two, more = (self.answers(count) for count in (1, 2, 5))
        self.assertEqual([d["accumulate"] for d, _ in (two, more)], [2, 5])
        self.assertEqual(len(two[0]["ops"]), len(more[0]["ops"]))
        self.assertEqual(len(two[0]["storages"]), len(more[0]["storages"]))
        self.assertEqual(two[1]["memory"], more[1]["memory"])
        self.assertEqual(
            two[1]["memory"]["activations"], one[1]["memory"]["activations"]
        )  # of one batch at a time
        for phase, ratio in (
            ("forward", 2.5),
            ("loss", 2.5),
            ("backward", 2.5),
            ("optimizer", 1),
        ):
            of_two, of_five = (
                answer["phases"][phase]["flops"] for _, answer in (two, more)
            )
            self.assertEqual(of_five, of_two * ratio, phase)

    def test_batches_that_differ_are_all_recorded(self):
        for odd in (0, 1, 3):
            document, answer = self.answers(4, odd)
            self.assertEqual(document["batches"], 4)
            self.assertEqual(
                answer["phases"]["forward"]["flops"], 2 * (3 * 256 + 7) * 64 * 10000
            )
            self.assertNotIn("accumulate", document)


if __name__ == "__main__":
    unittest.main()
