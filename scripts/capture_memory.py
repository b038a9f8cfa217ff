#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the peak memory of captured steps with what LibTorch allocates while this CPU executes them.

    scripts/capture_memory.py --inspect build/release/bin/perfpred-inspect --out data/tables/capture_memory.csv [NAME...]

Needs torchvision, timm, transformers and diffusers; weights are random, nothing is downloaded. The networks are some of those of
scripts/capture_zoo.py, each trained for a step (SGD with momentum) that is measured, captured without memory, and
captured while it is executed.
"""

import argparse
import csv
import json
import os
import subprocess
import tempfile

import torch

import capture_zoo
import perfpred
from memory_peak import measured

NETWORKS = (
    "torchvision resnet18, torchvision resnet50, torchvision vgg11, torchvision densenet121, torchvision mnasnet1_0, "
    "torchvision shufflenet_v2_x1_0, torchvision regnet_y_400mf, torchvision efficientnet_b0, "
    "torchvision mobilenet_v3_large, torchvision squeezenet1_1, torchvision convnext_tiny, torchvision vit_b_16, "
    "torchvision swin_t, timm mobilevit_s, timm deit_tiny_patch16_224, timm poolformer_s12, timm seresnet50, "
    "timm mixer_s32_224, transformers GPT2LMHeadModel, transformers BertForMaskedLM, transformers LlamaForCausalLM, "
    "transformers T5ForConditionalGeneration, transformers ViTForImageClassification, "
    "transformers WhisperForConditionalGeneration"
).split(", ")


def on_cpu(data):
    """Arguments with memory, in place of those without; a tensor that is given twice stays one."""
    made = {}

    def real(value):
        if id(value) not in made:
            floats = value.is_floating_point()
            made[id(value)] = (torch.randn if floats else torch.zeros)(value.shape, dtype=value.dtype)
        return made[id(value)]

    arguments, options = data
    return [real(value) for value in arguments], {name: real(value) for name, value in options.items()}, made.values()


def estimated(inspect, step, execute):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.json")
        with perfpred.capture(path, batch_size=capture_zoo.BATCH, execute=execute):
            step()
        answer = subprocess.run(
            [inspect, "--step", path, "--device", "cpu", "--json"], stdout=subprocess.PIPE, text=True, check=True
        )
    memory = json.loads(answer.stdout)["memory"]
    return memory["peak_bytes"] - memory["loader"]  # there is no loader here


def row(name, make, data, inspect):
    torch.manual_seed(0)
    model = make().train()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=True)
    arguments, options, inputs = on_cpu(data())

    def step():
        optimizer.zero_grad()
        capture_zoo.loss(model(*arguments, **options)).backward()
        optimizer.step()

    step()
    optimizer.zero_grad()
    peak = measured(step)
    optimizer.zero_grad()
    state = [s["momentum_buffer"] for s in optimizer.state.values()]
    peak += sum(t.nbytes for t in (*model.parameters(), *model.buffers(), *inputs, *state))
    return name, peak, estimated(inspect, step, execute=False), estimated(inspect, step, execute=True)


COLUMNS = ("network", "measured_mb", "captured_mb", "executed_mb")


def print_worst(rows):
    for column, how in ((2, "captured without memory"), (3, "captured while they were executed")):
        worst = max(abs(r[column] / r[1] - 1) for r in rows)
        print(f"steps {how}: at most {100 * worst:.2f} % off")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inspect", default="build/release/bin/perfpred-inspect")
    parser.add_argument("--out", default="data/tables/capture_memory.csv")
    parser.add_argument("names", nargs="*", help="only networks whose name holds one of these")
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count())  # as many as --device cpu counts with
    rows = []
    for name, make, data in capture_zoo.networks():
        if name in NETWORKS and (not options.names or any(wanted in name for wanted in options.names)):
            rows.append(row(name, make, data, options.inspect))
            print(*rows[-1], *(f"{estimate / rows[-1][1]:.4f}" for estimate in rows[-1][2:]), flush=True)
    print_worst(rows)
    with open(options.out, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((name, *(f"{peak / 1e6:.2f}" for peak in peaks)) for name, *peaks in rows)


if __name__ == "__main__":
    main()
