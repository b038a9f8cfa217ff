#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports networks of torchvision, timm and transformers with torch.export and compares what perfpred-trace counts with what
perfpred.capture records of the same module.

    scripts/pt2_zoo.py --bin build/release/bin --out docs/results/pt2_table.md [NAME...]

Needs what scripts/capture_zoo.py needs. Networks are exported on the meta device, in training mode, for batches of 2.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import torch

import capture_zoo


class FirstTensor(torch.nn.Module):
    """Gives the tensor that a loss is taken of: many networks give classes of their own, which export does not write."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, *arguments, **options):
        return capture_zoo._first_tensor(self.network(*arguments, **options))


def exported(make, data, path):
    try:
        with torch.device("meta"):
            network = make()
    except NotImplementedError:  # it computes its sizes with tensors, as torchvision's RegNets do
        network = make().to("meta")
    model = FirstTensor(network).train()
    arguments, options = data()
    program = torch.export.export(model, arguments, options, strict=False)
    torch.export.save(program, path)


def answer(command):
    done = subprocess.run([*command, "--optimizer", "nesterov", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().rpartition("/")[2])
    return json.loads(done.stdout)


def captured(make, data, folder, bin_dir):
    path = os.path.join(folder, "step.json")
    capture_zoo.capture("", make, data, path)
    done = subprocess.run([f"{bin_dir}/perfpred-inspect", "--step", path, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().rpartition("/")[2])
    return json.loads(done.stdout)


def reason_of(error):
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:160].replace("|", "/")


def row(name, make, data, folder, bin_dir):
    result = {"name": name}
    path = os.path.join(folder, "net.pt2")
    began = time.perf_counter()
    try:
        exported(make, data, path)
    except Exception as error:  # torch's, of any kind: the reason stands in the table
        return result | {"failed": "torch.export: " + reason_of(error)}
    result["seconds"] = time.perf_counter() - began
    try:
        ours = answer([f"{bin_dir}/perfpred-trace", "--pt2", path, "--batch-size", str(capture_zoo.BATCH)])
    except RuntimeError as error:
        return result | {"failed": reason_of(error)}
    try:
        step = captured(make, data, folder, bin_dir)
    except Exception as error:
        return result | {"failed": "not captured: " + reason_of(error)}
    phases = ("forward", "backward")
    count = lambda of, key: sum(of["phases"][phase][key] for phase in phases)
    return result | {
        "params": ours["params"],
        "params_captured": step["params"],
        "products": count(ours, "conv_matmul_flops"),
        "products_captured": count(step, "conv_matmul_flops"),
        "bytes": count(ours, "bytes_read") + count(ours, "bytes_written"),
        "bytes_captured": count(step, "bytes_read") + count(step, "bytes_written"),
    }


def same(row):
    return row["params"] == row["params_captured"] and capture_zoo.is_equal(row["products"], row["products_captured"])


def table(rows):
    good = [r for r in rows if "failed" not in r]
    text = f"""# Networks of other people, exported

See whether a network counts the same exported and captured, or count again
(needs torch, torchvision, timm, transformers and diffusers of Python, and `pip install ./python`):

    python3 scripts/pt2_zoo.py --bin build/release/bin --out table.md resnet18

{len(rows)} networks with random weights were exported by `torch.export` in training mode (batch {capture_zoo.BATCH}) and counted by `perfpred-trace --pt2`
([exported files](../guides/tracing.md)); `captured` is what `perfpred.capture` records of the same modules. {len(good)} were counted both ways; {sum(same(r) for r in good)} have equal
parameters and FLOPs of products. Bytes are those of forward and backward pass. Where products differ and parameters do not, the export
has attention with a mask and the capture causal attention, which counts half.

| network | parameters | products GFLOP | captured | bytes / captured | seconds to export |
|---|---|---|---|---|---|
"""
    for r in rows:
        if "failed" in r:
            text += f"| {r['name']} | {r['failed']} | | | | |\n"
            continue
        params = f"{r['params']}" + ("" if r["params"] == r["params_captured"] else f" (captured: {r['params_captured']})")
        text += (
            f"| {r['name']} | {params} | {r['products'] / 1e9:.6g} | {r['products_captured'] / 1e9:.6g} "
            f"| {r['bytes'] / r['bytes_captured']:.3f} | {r['seconds']:.1f} |\n"
        )
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bin", default="build/release/bin", help="folder of the programs")
    parser.add_argument("--out", default="docs/results/pt2_table.md")
    parser.add_argument("names", nargs="*", help="only these networks")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, make, data in capture_zoo.networks():
            if options.names and name.partition(" ")[2] not in options.names:
                continue
            rows.append(row(name, make, data, folder, options.bin))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            with open(options.out, "w", encoding="utf-8") as out:
                out.write(table(rows))


if __name__ == "__main__":
    main()
