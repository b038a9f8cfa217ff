#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks two builds the same 1,200 questions and tells which answers moved: what a change does, not whether it is right.

    scripts/compare_answers.py OLD_BIN NEW_BIN [--moved PERCENT] [--json OUT]

OLD_BIN and NEW_BIN are the bin folders of two builds. The questions are fixed: 820 steps by the standard model (network x
device x precision x batch size x layout, time and memory), 140 by regressors on runs that each build fits itself on
data/, 40 of perfpred-inspect (memory, time at the roofline), 100 about step files that this script writes, 20 sweeps, 20
layers, and 60 that the C library beside the bin folder answers (lib/libperfpred.so), which Python shows. Whole documents
are compared: every figure, text and null.
An answer has moved where a figure differs by more than PERCENT (default 0) or something else differs at all. Prints how
many, by how much, and for which devices, networks and precisions; --json writes both answers to each question. Exit code
1 if an answer moved.
"""

import argparse
import collections
import itertools
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVICES = ["K80", "P100-PCIe-16GB", "V100-SXM2-16GB", "T4", "RTX 2080 Ti", "RTX 3090", "A10", "A100-PCIe-40GB",
           "A100-SXM4-80GB", "L4", "L40S", "RTX 4090", "H100-PCIe-80GB", "H100-SXM5-80GB", "H200-SXM-141GB", "B200-SXM",
           "MI210", "MI300X"]
IMAGES = ["alexnet", "vgg16", "resnet18", "resnet50", "resnet101", "wide_resnet50_2", "mobilenet_v2", "shufflenet_v2_x1_0",
          "densenet121", "googlenet", "efficientnet_b0", "convnext_tiny", "vit_b_16", "swin_t", "cifar_resnet18"]
TOKENS = ["bert_base", "gpt2", "transformer:layers=6,hidden=512,heads=8,vocab=30522", "lstm:layers=2,hidden=650,vocab=10000"]
PRECISIONS = ["fp32", "tf32", "default", "bf16", "fp16"]
WITHOUT_BF16 = {"K80", "P100-PCIe-16GB", "V100-SXM2-16GB", "T4", "RTX 2080 Ti"}


def standard_questions():
    """820 requests to the standard model, a fixed sample of all combinations."""
    images = [{"network": network, "device": device, "precision": precision, "batch_size": batch, "layout": layout,
               "optimizer": optimizer}
              for network, device, precision, batch, layout, optimizer in itertools.product(
                  IMAGES, DEVICES, PRECISIONS, (1, 8, 32, 128, 512), ("nchw", "nhwc"), ("nesterov", "adam"))]
    tokens = [{"network": network, "device": device, "precision": precision, "batch_size": batch, "optimizer": "adamw",
               "input": length}
              for network, device, precision, batch, length in itertools.product(
                  TOKENS, DEVICES, PRECISIONS, (1, 4, 16, 64), ("128", "512"))]
    family = [{"network": "cifar_cnn", "device": device, "precision": precision, "batch_size": batch, "depth": depth,
               "base_filters": width}
              for device, precision, batch, depth, width in itertools.product(
                  DEVICES, PRECISIONS, (32, 256, 2048), (1, 3, 5), (8, 32, 128))]
    draw = random.Random(1)
    asked = []
    for requests, count in ((images, 520), (tokens, 200), (family, 100)):
        asked += draw.sample([request for request in requests
                              if request["precision"] != "bf16" or request["device"] not in WITHOUT_BF16], count)
    return asked


def run_questions():
    """140 requests by (measured table, request)."""
    draw = random.Random(2)
    family = [{"depth": depth, "base_filters": width, "batch_size": batch}
              for depth, width, batch in itertools.product((1, 2, 3, 4, 5), (8, 16, 24, 64, 128), (16, 48, 128, 500, 2048))]
    networks = [{"network": network, "batch_size": batch, "precision": precision}
                for network, batch, precision in itertools.product(IMAGES, (4, 32, 100), ("fp32", "bf16"))]
    return ([("intel_xeon_processor_2_threads/runs_agg.csv", asked) for asked in draw.sample(family, 50)] +
            [("amd_epyc_2_threads/runs_agg.csv", asked) for asked in draw.sample(family, 50)] +
            [("nvidia_h200/runs_agg.csv", asked) for asked in draw.sample(networks, 40)])


def inspect_questions():
    return [{"network": network, "batch-size": batch, "precision": precision, "device": device}
            for network, (batch, precision, device) in itertools.product(
                ["resnet50", "vgg16", "mobilenet_v2", "densenet121", "convnext_tiny", "vit_b_16", "swin_t", "bert_base",
                 "gpt2", "cifar_resnet18"],
                [(1, "fp32", "T4"), (32, "tf32", "A100-PCIe-40GB"), (64, "bf16", "H100-SXM5-80GB"), (16, "fp16", "MI210")])]


def step_of_layers(widths, batch, other_batch, precision="fp32", compiled=False):
    """A step file: linear layers and ReLUs in a row, their backward pass, and SGD's update."""
    size = 2 if precision == "bf16" else 4
    dtype = "bfloat16" if precision == "bf16" else "float32"
    storages, tensors, ops = [], [], []

    def tensor(sizes, growth, role, storage=None, strides=None):
        if storage is None:
            storages.append({"bytes": size * sizes[0] * sizes[1]})
            storage = len(storages) - 1
        tensors.append({"sizes": sizes, "strides": strides or [sizes[1], 1], "growth": growth, "dtype": dtype,
                        "storage": storage, "role": role})
        return len(tensors) - 1

    def turned(of):
        """Its transpose: a view."""
        whole = tensors[of]
        return tensor(whole["sizes"][::-1], whole["growth"][::-1], whole["role"], whole["storage"], [1, whole["sizes"][1]])

    def op(name, inputs, outputs, phase, layer=0, frees=()):
        ops.append({"name": name, "inputs": inputs, "outputs": outputs, "phase": phase, "layer": layer,
                    **({"frees": [tensors[one]["storage"] for one in frees]} if frees else {})})

    flowing, forward = tensor([batch, widths[0]], [1, 0], "input"), []
    for layer, (width, out) in enumerate(zip(widths, widths[1:]), 1):
        weight = tensor([width, out], [0, 0], "parameter")
        product, active = (tensor([batch, out], [1, 0], "activation") for _ in range(2))
        op("aten::mm", [flowing, weight], [product], "forward", layer)
        op("aten::relu", [product], [active], "forward", layer)
        forward.append((flowing, weight, product, active))
        flowing = active
    gradient = tensor([batch, widths[-1]], [1, 0], "temporary")
    op("aten::ones_like", [flowing], [gradient], "loss")
    updated = []
    for layer, (before, weight, product, active) in reversed(list(enumerate(forward, 1))):
        of_product = tensor([batch, widths[layer]], [1, 0], "temporary")
        op("aten::threshold_backward", [gradient, active], [of_product], "backward", layer, [active])
        of_weight = tensor(tensors[weight]["sizes"], [0, 0], "gradient")
        op("aten::mm", [turned(before), of_product], [of_weight], "backward", layer)
        updated.append((weight, of_weight))
        if layer > 1:
            gradient = tensor([batch, widths[layer - 1]], [1, 0], "temporary")
            op("aten::mm", [of_product, turned(weight)], [gradient], "backward", layer, [of_product])
    for weight, of_weight in updated:
        op("aten::_foreach_add_", [weight, of_weight], [weight], "optimizer")
    return {"format": 1, "torch": "2.11.0", "precision": precision, "batch_size": batch, "compiled": compiled,
            **({"other_batch_size": other_batch} if other_batch else {}),
            "layers": ["", *(f"linear{i}" for i in range(1, len(widths)))],
            "storages": storages, "tensors": tensors, "ops": ops}


def write_steps(folder):
    """@returns paths of step files, and batch sizes that each may be asked for."""
    steps = {"wide": (step_of_layers([3072, 4096, 4096, 1000], 32, 64), [1, 7, 32, 100, 4096]),
             "deep": (step_of_layers([256] * 40, 16, 32, "bf16"), [1, 2, 16, 333, 100_000]),
             "alone": (step_of_layers([784, 512, 512, 10], 128, None), [128]),
             "compiled": (step_of_layers([1024, 1024, 1024, 16], 64, 128, "fp32", True), [8, 64, 65, 2048])}
    for name, (step, _) in steps.items():
        (folder / f"{name}.json").write_text(json.dumps(step))
    return {str(folder / f"{name}.json"): batches for name, (_, batches) in steps.items()}


def step_questions(steps):
    """100 requests about step files."""
    asked = [{"step": step, "device": device, "batch_size": batch, **more}
             for step, batches in steps.items() for batch, device, more in itertools.product(
                 batches, ["T4", "A100-SXM4-80GB", "H100-SXM5-80GB", "MI300X"],
                 [{}, {"epochs": 3, "train_images": 50_000}, {"fit_advice": 0}])]
    return random.Random(3).sample(asked, 100)


def sweep_questions(steps):
    """20 tables, each of many answers."""
    sweeps = [["--network", network, "--device", device, "--sweep", sweep]
              for network, device in (("resnet50", "A100-SXM4-80GB"), ("gpt2", "L4"), ("vit_b_16", "RTX 4090"),
                                      ("mobilenet_v2", "T4"))
              for sweep in ("batch_size=1,2,4,8,16,32,64,128", "precision=fp32,tf32,bf16", "optimizer=sgd,adam,adamw")]
    sweeps += [["--network", "resnet50", "--batch-size", "64", "--sweep", f"device={devices}"]
               for devices in ("all", "T4,L4,A10", "H100,H200")]
    sweeps += [["--step", step, "--device", device, "--sweep", f"batch_size={','.join(map(str, batches))}"]
               for step, batches in list(steps.items())[:2] for device in ("T4", "H100-SXM5-80GB")]
    return sweeps + [["--network", "cifar_cnn", "--device", "T4", "--batch-size", "64", "--depth", "3", "--sweep",
                      "base_filters=8,16,32"]]


def layer_questions():
    """20 single layers."""
    layers = ["conv2d:in=64,out=128,kernel=3,size=56", "conv2d:in=3,out=64,kernel=7,size=224", "linear:in=1024,out=4096",
              "linear:in=512,out=1000", "batchnorm:in=64,size=56"]
    return [["--layer", layer, "--batch-size", batch, "--device", device]
            for layer in layers for batch, device in (("8", "T4"), ("64", "A100-SXM4-80GB"), ("64", "H200-SXM-141GB"),
                                                      ("256", "MI210"))]


def ask_library(path, requests):
    """Answers of perfpred_forecast() with the standard model, in a process of their own."""
    program = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
library.perfpred_last_error.restype = ctypes.c_char_p
model = ctypes.c_void_p()
if library.perfpred_model_load(None, None, ctypes.byref(model)): sys.exit(library.perfpred_last_error().decode())
buffer = ctypes.create_string_buffer(1 << 22)
for line in sys.stdin:
    if library.perfpred_forecast(model, line.encode(), buffer, ctypes.c_size_t(1 << 22), None):
        print(json.dumps({"error": library.perfpred_last_error().decode()}))
    else:
        print(json.dumps(json.loads(buffer.value)))
"""
    if not path.exists():
        print(f"{path}: is not there; what C answers is not compared")
        return [{} for _ in requests]
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True,
                          input="".join(json.dumps(request) + "\n" for request in requests))
    return [json.loads(line) for line in done.stdout.splitlines()]


def run(command, lines=None):
    """stdout of a program. A refusal is an answer, too: its message."""
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else json.dumps({"error": done.stderr.strip()})


def ask(command, requests):
    """Answers of one `perfpred-predict --jsonl`."""
    answers = run([*command, "--jsonl"], "".join(json.dumps(request) + "\n" for request in requests)).splitlines()
    if len(answers) != len(requests):
        sys.exit(f"{command[0]}: {len(answers)} answers to {len(requests)} questions: {answers[:1]}")
    return [json.loads(answer) for answer in answers]


def leaves(value, path=""):
    """Path and value of everything in a document that is no object or list; empty ones are leaves, too."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from leaves(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for i, part in enumerate(value):
            yield from leaves(part, f"{path}[{i}]")
    else:
        yield path, value


def is_figure(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def changes(old, new):
    """Relative change of each figure that differs (infinite from 0), and what else differs, `path: old -> new`."""
    old_leaves, new_leaves = dict(leaves(old)), dict(leaves(new))
    relative, others = {}, []
    for path in {**old_leaves, **new_leaves}:
        before, after = old_leaves.get(path, "absent"), new_leaves.get(path, "absent")
        if is_figure(before) and is_figure(after):
            if before != after:
                relative[path] = after / before - 1 if before else float("inf")
        elif before != after:
            others.append(f"{path}: {before} -> {after}")
    return relative, others


def all_answers(folder, standard, runs, inspected, of_steps, tables, by_library):
    program = {name: str(folder / f"perfpred-{name}") for name in ("predict", "train", "inspect")}
    answers = ask([program["predict"]], standard)
    with tempfile.TemporaryDirectory() as scratch:
        for table, group in itertools.groupby(runs, key=lambda question: question[0]):
            model = f"{scratch}/model.json"
            run([program["train"], "--runs-agg", str(ROOT / "data" / table), "--test-fraction", "0", "--val-fraction", "0",
                 "--out", model])
            answers += ask([program["predict"], "--model", model], [asked for _, asked in group])
    for question in inspected:
        options = [text for name, value in question.items() for text in ("--" + name, str(value))]
        answers.append(json.loads(run([program["inspect"], *options, "--json"])))
    answers += ask([program["predict"]], of_steps)
    answers += [json.loads(run([program["predict"], *options, "--json"])) for options in tables]
    return answers + ask_library(folder.parent / "lib" / "libperfpred.so", by_library)


def print_group(title, rows):
    print(f"\nby {title}: asked, moved, median and largest change of the expected time")
    for name, group in sorted(rows.items()):
        shifts = [abs(shift) for shift, _ in group if shift is not None]
        moved = sum(moved for _, moved in group)
        if moved:
            print(f"  {name:<52} {len(group):>5} {moved:>5} {100 * statistics.median(shifts or [0]):>8.2f} % "
                  f"{100 * max(shifts or [0]):>9.2f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--moved", type=float, default=0.0, help="percent by which a figure has to differ")
    parser.add_argument("--json", type=pathlib.Path, help="writes questions and answers")
    given = parser.parse_args()

    standard, runs, inspected = standard_questions(), run_questions(), inspect_questions()
    with tempfile.TemporaryDirectory() as scratch:
        steps = write_steps(pathlib.Path(scratch))
        of_steps, tables = step_questions(steps), sweep_questions(steps) + layer_questions()
        by_library = random.Random(4).sample(standard, 40) + random.Random(5).sample(of_steps, 20)
        questions = (standard + [{"table": table, **asked} for table, asked in runs] + inspected + of_steps +
                     [{"options": options} for options in tables] + by_library)
        old, new = (all_answers(folder, standard, runs, inspected, of_steps, tables, by_library)
                    for folder in (given.old, given.new))

    groups = {title: collections.defaultdict(list) for title in ("device", "network", "precision")}
    shifts, texts, errors, moved = collections.defaultdict(list), collections.Counter(), [0, 0], 0
    for question, before, after in zip(questions, old, new):
        relative, others = changes(before, after)
        relative = {name: shift for name, shift in relative.items() if abs(shift) > given.moved / 100}
        errors[0] += "error" in before
        errors[1] += "error" in after
        has_moved = bool(relative or others)
        moved += has_moved
        for name, shift in relative.items():
            shifts[re.sub(r"\[\d+\]", "[]", name)].append(shift)
        texts.update(re.sub(r"\[\d+\]", "[]", other) for other in others)
        for title, group in groups.items():
            name = question.get(title, question.get("table", "default" if title == "precision" else "-"))
            group[name].append((relative.get("step_sec.p50", relative.get("device.time_at_peak_sec", 0.0)), has_moved))

    print(f"{moved} of {len(questions)} answers moved (refused: {errors[0]} before, {errors[1]} after)")
    for name, all_shifts in sorted(shifts.items()):
        sizes = sorted(abs(shift) for shift in all_shifts)
        up = sum(shift > 0 for shift in all_shifts)
        print(f"  {name:<32} {len(sizes):>5} moved, {up} up; median {100 * statistics.median(sizes):.2f} %, "
              f"p90 {100 * sizes[int(0.9 * (len(sizes) - 1))]:.2f} %, largest {100 * sizes[-1]:.2f} %")
    for text, count in texts.most_common(30):
        print(f"  {count:>5} x {text[:150]}")
    if moved:
        for title, group in groups.items():
            print_group(title, group)
    if given.json:
        given.json.write_text(json.dumps([{"question": q, "old": a, "new": b} for q, a, b in zip(questions, old, new)]))
    sys.exit(1 if moved else 0)


if __name__ == "__main__":
    main()
