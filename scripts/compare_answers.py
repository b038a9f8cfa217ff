#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks two builds the same 1,000 questions and tells which answers moved: what a change does, not whether it is right.

    scripts/compare_answers.py OLD_BIN NEW_BIN [--moved PERCENT] [--json OUT]

OLD_BIN and NEW_BIN are the bin folders of two builds. The questions are fixed: 820 steps by the standard model (network x
device x precision x batch size x layout, time and memory), 140 by regressors on runs that each build fits itself on
data/, and 40 of perfpred-inspect (memory, time at the roofline). Whole documents are compared: every figure, text and null.
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


def all_answers(folder, standard, runs, inspected):
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
    return answers


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
    questions = standard + [{"table": table, **asked} for table, asked in runs] + inspected
    old, new = (all_answers(folder, standard, runs, inspected) for folder in (given.old, given.new))

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
