#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a ResNet-18 for one step with perfpred-train-net and loads the final weights as PyTorch's users do.

usage: load_weights.py PERFPRED_TRAIN_NET FOLDER

The module is torchvision's where that is installed, else one of the same names (torchvision/models/resnet.py)."""

import os
import shutil
import subprocess
import sys

import torch
from torch import nn

try:
    from torchvision.models import resnet18
except ImportError:

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
            return torch.relu(y + (x if self.downsample is None else self.downsample(x)))

    class ResNet18(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            channels = 64
            for i, outputs in enumerate((64, 128, 256, 512)):
                blocks = [Block(channels, outputs, 1 if i == 0 else 2), Block(outputs, outputs, 1)]
                setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
                channels = outputs
            self.fc = nn.Linear(512, classes)

        def forward(self, x):
            x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
            for i in range(4):
                x = getattr(self, f"layer{i + 1}")(x)
            return self.fc(x.mean((2, 3)))

    def resnet18(num_classes):
        return ResNet18(num_classes)


def main():
    program, folder = sys.argv[1:]
    shutil.rmtree(folder, ignore_errors=True)
    command = [program, "--network", "resnet18", "--input", "3x64x64", "--data", "dummy", "--train-images", "8"]
    command += ["--batch-size", "8", "--threads", "1", "--device", "cpu", "--out-dir", folder]
    subprocess.run(command, check=True)
    weights = torch.load(os.path.join(folder, "final.pt"), weights_only=True)
    assert all(isinstance(value, torch.Tensor) for value in weights.values()), "not a state dictionary"
    model = resnet18(num_classes=10)
    before = model.fc.weight.clone()
    model.load_state_dict(weights)
    assert not torch.equal(before, model.fc.weight), "nothing was loaded"
    with torch.no_grad():
        answer = model.eval()(torch.zeros(1, 3, 64, 64))
    assert answer.shape == (1, 10) and answer.isfinite().all(), answer
    checkpoint = torch.load(os.path.join(folder, "last.pt"), weights_only=True)
    for name, value in weights.items():
        assert torch.equal(checkpoint["tensors"]["network." + name], value), name
    print(f"{len(weights)} tensors loaded into {type(model).__module__}.{type(model).__name__}")


if __name__ == "__main__":
    main()
