#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the peak memory of captured steps with what torch.profiler measures on this CPU.

    scripts/capture_memory.py build/release/bin/perfpred-inspect resnet18 vgg11

Needs torchvision. A step of batch 4 (SGD with momentum) is trained on the CPU and captured.
"""

import json
import os
import subprocess
import sys
import tempfile

import torch
import torchvision

import perfpred


def measured(step):
    """Bytes that a step holds at its peak beyond what it finds."""
    with torch.profiler.profile(profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def main(inspect, names):
    print("| network | measured MB | estimated MB | ratio |\n|---|---|---|---|")
    for name in names:
        model = torchvision.models.get_model(name, weights=None).train()
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=True)
        images, labels = torch.randn(4, 3, 224, 224), torch.zeros(4, dtype=torch.long)

        def step():
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()

        step()
        optimizer.zero_grad()
        peak = measured(step)
        optimizer.zero_grad()
        state = [s["momentum_buffer"] for s in optimizer.state.values()]
        peak += sum(t.nbytes for t in (*model.parameters(), *model.buffers(), images, labels, *state))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.json")
            with perfpred.capture(path):
                step()
            answer = subprocess.run([inspect, "--step", path, "--json"], capture_output=True, text=True, check=True)
        memory = json.loads(answer.stdout)["memory"]
        estimate = memory["peak_bytes"] - memory["loader"]  # there is no loader here
        print(f"| {name} | {peak / 1e6:.2f} | {estimate / 1e6:.2f} | {estimate / peak:.4f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
