# SPDX-License-Identifier: Apache-2.0
"""What is in memory beside the tensors that a step computes."""

import unittest

import torch
from torch import nn

from captures import Captures, of_role


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
            model = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(256, 256), nn.ReLU())])
            optimizer = torch.optim.Adam(model.parameters(), foreach=False)
            for _ in range(before):
                self.step_of(order, model, optimizer)
            document = self.captured(lambda: self.step_of(order, model, optimizer))
            self.assertIn(of_role(document, "gradient"), (self.PARAMETERS, 2 * self.PARAMETERS))
            found.append(self.inspected("--step", self.path)["memory"]["peak_bytes"])
        self.assertEqual(*found)  # whichever step was captured
        return found[0]

    def test_they_are_in_memory_until_they_are_cleared(self):
        peaks = {order: self.peaks(order) for order in ("first", "between", "first_kept", "last")}
        self.assertEqual(peaks["first"], peaks["last"])
        # Between: during the forward pass both the old gradients and all activations, but not the last gradient's two.
        self.assertEqual(peaks["between"] - peaks["first"], self.PARAMETERS - self.ACTIVATION - 8)
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


if __name__ == "__main__":
    unittest.main()
