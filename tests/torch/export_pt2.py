# SPDX-License-Identifier: Apache-2.0
"""Exports small networks with torch.export into a folder, and records what PyTorch computes with them: NAME.pt2 and
NAME.pt, a dictionary of the inputs (input.0), outputs (output.0), gradients of the sum of the outputs' squares
(gradient.WEIGHT) and buffers after the step (buffer.NAME). Random numbers start at seed 7 in the recorded step.

usage: export_pt2.py FOLDER [--torchvision]
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, groups=2), nn.BatchNorm2d(16), nn.Hardswish(), nn.AdaptiveAvgPool2d(1))
        self.dropout = nn.Dropout(0.4)
        self.classes = nn.Linear(16, 10)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 16), persistent=False)

    def forward(self, x):
        return self.classes(self.dropout(self.features(x).flatten(1) * self.scale) + torch.tensor(0.25))


class Transformer(nn.Module):
    """Its embedding is tied to its head."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        return self.head(self.layer(self.words(x)))


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(12, 12) for _ in range(3))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.second(torch.relu(self.first(x)))
            with torch.autocast("cpu", enabled=False):
                y = self.third(y.float())
        with torch.no_grad():
            shift = y.mean(0)
        return y - shift


class Shapes(nn.Module):
    """Numbers that follow from shapes, lists of tensors, indices, two inputs and two outputs."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(6, 6)

    def forward(self, x, mask=None):
        b, n, c = x.shape
        half = (b * n) // 2
        y = self.mix(x).view(b * n, c)
        parts = torch.split(y, [2, 1, 3], dim=1)
        y = torch.cat([parts[2], parts[0], parts[1]], 1)
        y = y[torch.arange(b * n - 1, -1, -1)] * (half / (b + n)) + max(b, n)
        y = y.reshape(b, n, c)
        return torch.where(mask, y, -1.0), torch.stack(y.chunk(3, -1)).amax(0)


class Classifier(nn.Module):
    """Its logits; or, given targets, their loss or what is none."""

    def __init__(self, result):
        super().__init__()
        self.classes = nn.Linear(3 * 32 * 32, 10, bias=False)
        self.result = result

    def forward(self, x, targets=None):
        logits = self.classes(x.flatten(1))
        return nn.functional.cross_entropy(logits, targets) if self.result == "loss" else logits


def unwrapped(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def record(model, arguments):
    torch.manual_seed(7)
    outputs = unwrapped(model(*arguments))
    sum(output.float().square().sum() for output in outputs).backward()
    values = {f"input.{i}": value for i, value in enumerate(arguments)}
    values |= {f"output.{i}": value.detach() for i, value in enumerate(outputs)}
    values |= {f"gradient.{name}": p.grad for name, p in model.named_parameters()}
    values |= {f"buffer.{name}": b for name, b in model.named_buffers()}
    return values


def networks():
    """Name, model, what it is exported with, what is recorded, dynamic shapes, changes to the exported program."""
    batch, length = Dim("batch", min=2, max=64), Dim("length", min=2, max=32)
    images = lambda n: (torch.randn(n, 3, 8, 8),)
    words = lambda n, s: (torch.randint(0, 50, (n, s)),)
    masked = lambda n, s: (torch.randn(n, s, 6), torch.rand(n, s, 6) > 0.3)
    same = lambda program: program

    def made(model):
        torch.manual_seed(5)
        return model()

    yield "cnn", made(Cnn).train(), images(4), images(6), ({0: batch},), same
    yield "fixed", made(Cnn).train(), images(4), images(4), None, same
    yield "evaluated", made(Cnn).eval(), images(4), images(6), ({0: batch},), same
    yield "decomposed", made(Cnn).train(), images(4), images(6), ({0: batch},), lambda p: p.run_decompositions()
    yield "frozen", made(Cnn).eval(), images(4), images(6), ({0: batch},), lambda p: p.run_decompositions()
    yield "transformer", made(Transformer).train(), words(4, 6), words(3, 9), ({0: batch, 1: length},), same
    yield "autocast", made(Autocast).train(), (torch.randn(4, 12),), (torch.randn(5, 12),), ({0: batch},), same
    yield "shapes", made(Shapes).train(), masked(4, 3), masked(5, 7), ({0: batch, 1: length}, {0: batch, 1: length}), same
    for result, inputs in (("logits", 1), ("loss", 2), ("no_loss", 2)):
        example = (torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,)))[:inputs]
        yield result, made(lambda: Classifier(result)), example, example, ({0: batch}, ) * inputs, same


def save(program, path):
    torch.export.save(program, path)
    print(path.name, flush=True)


def export_torchvision(folder):
    import torchvision

    for name in ("resnet18", "vit_b_16", "mobilenet_v3_large"):
        model = torchvision.models.get_model(name).train()
        example = (torch.zeros(2, 3, 224, 224),)
        program = torch.export.export(model, example, dynamic_shapes=({0: Dim("batch", min=2)},), strict=False)
        save(program, folder / f"{name}.pt2")


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if "--torchvision" in sys.argv:
        return export_torchvision(folder)
    for name, model, example, recorded, shapes, change in networks():
        program = torch.export.export(model, example, dynamic_shapes=shapes, strict=False)
        save(change(program), folder / f"{name}.pt2")
        torch.save(record(model, recorded), folder / f"{name}.pt")


if __name__ == "__main__":
    main()
