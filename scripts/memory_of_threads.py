#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much memory training steps hold on this CPU with several numbers of threads.

    scripts/memory_of_threads.py [--threads 1,2,4] [NETWORK:SIZE:BATCH...] > data/MACHINE/memory_of_threads.csv

Each row is the peak of two steps with Adam in fp32 (weights, batch, state), from before the network is made, of the
bytes that LibTorch's allocator reports to torch.profiler: oneDNN's scratch memory is among them. Networks are those of
torchvision, and cifar_cnn;depth=D;base_filters=F. Needs torch and torchvision.
"""

import argparse
import csv
import os
import sys

import torch
import torchvision

from memory_peak import measured

NETWORKS = (
    "resnet18:64:16 resnet18:96:6 resnet18:32:8 resnet50:64:8 resnet50:224:2 "
    "cifar_cnn;depth=1;base_filters=8:32:32 cifar_cnn;depth=2;base_filters=4:32:64 "
    "cifar_cnn;depth=2;base_filters=12:32:64 cifar_cnn;depth=3;base_filters=8:32:32 "
    "cifar_cnn;depth=4;base_filters=20:32:32 cifar_cnn;depth=5;base_filters=8:32:32 "
    "cifar_cnn;depth=5;base_filters=32:32:32 shufflenet_v2_x0_5:64:16 mobilenet_v2:64:8 squeezenet1_1:96:4 "
    "googlenet:64:4 efficientnet_b0:64:4 regnet_y_400mf:64:4 resnext50_32x4d:64:2 convnext_tiny:96:2 alexnet:96:4"
).split()


def cifar_cnn(depth, filters, classes):
    layers, channels = [], 3
    for block in range(depth):
        for _ in range(2):
            layers += [torch.nn.Conv2d(channels, filters << block, 3, padding=1), torch.nn.ReLU(inplace=True)]
            channels = filters << block
        layers.append(torch.nn.MaxPool2d(2))
    layers += [torch.nn.Flatten(), torch.nn.Linear(channels * (32 >> depth) ** 2, 128), torch.nn.ReLU(inplace=True)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(128, classes))


def make(name):
    if name.startswith("cifar_cnn"):
        sizes = dict(part.split("=") for part in name.split(";")[1:])
        return cifar_cnn(int(sizes["depth"]), int(sizes["base_filters"]), 10)
    without = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    return getattr(torchvision.models, name)(**without)


def train(name, size, batch):
    """Two training steps; the second holds the optimizer's state from its beginning."""
    model = make(name).train()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    images = torch.randn(batch, 3, size, size)
    labels = torch.zeros(batch, dtype=torch.long)
    for _ in range(2):
        optimizer.zero_grad()
        result = model(images)
        loss = torch.nn.functional.cross_entropy(result, labels)
        loss.backward()
        optimizer.step()


def print_row(network, threads):
    """From a process of its own, whose allocator and caches of oneDNN are new."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        name, size, batch = network.split(":")
        torch.set_num_threads(threads)
        held = measured(lambda: train(name, int(size), int(batch)))
        sizes = name.replace(";", ":", 1).replace(";", ",")
        row = [sizes, size, batch, threads, torch.backends.cpu.get_cpu_capability(), held]
        csv.writer(sys.stdout, lineterminator="\n").writerow(row)
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit(f"{network} could not be measured")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", default="1,2,4")
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    options = parser.parse_args()
    print("network,image_size,batch_size,threads,cpu_capability,peak_bytes")
    for network in options.networks:
        for threads in options.threads.split(","):
            print_row(network, int(threads))


if __name__ == "__main__":
    main()
