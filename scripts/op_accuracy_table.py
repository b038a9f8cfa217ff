#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the tables of docs/results/operators.md and writes them there, between its markers.

    PERFPRED_REFERENCE_DIR=... scripts/op_accuracy_table.py build/release/bin
"""
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile

import op_baselines
from op_baselines import NAMES, nvidia
from step_tables import csv_rows, free, measured_steps, write

if len(sys.argv) != 2 or "PERFPRED_REFERENCE_DIR" not in os.environ:
    sys.exit(__doc__)
PROGRAM = os.path.join(sys.argv[1], "perfpred-evaluate")
REFERENCE = os.environ["PERFPRED_REFERENCE_DIR"]
STEPS = os.path.join(REFERENCE, "cnn_training", "single_gpu_training.csv")
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
PROBE_NETWORKS = ["--probe-networks", "shufflenet_v2_x0_5,vgg16,resnet50"]
PAGE = os.path.join(DATA, "..", "docs", "results", "operators.md")
KINDS = {**op_baselines.OPS, "gemm_bf16": ["gemm_bf16_training"]}


def evaluate(*options):
    done = subprocess.run([PROGRAM, *options, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)


def ops(folder, *options):
    return evaluate("--ops-dir", os.path.join(REFERENCE, folder), *options)


def kind_errors(result, kind, scored_gpus=None):
    """Mean errors in percent by device."""
    means = {}
    for gpu, samples in result["ops"].items():
        own = [samples[op] for op in KINDS[kind] if op in samples]
        if own and nvidia(gpu) and (scored_gpus is None or gpu in scored_gpus):
            means[gpu] = 100 * sum(s["n"] * s["mape"] for s in own) / sum(s["n"] for s in own)
    return means


def kind_cell(result, kind, scored_gpus=None):
    covered = result["kinds"][kind]["coverage90"]
    return f"{statistics.mean(kind_errors(result, kind, scored_gpus).values()):.1f} ({100 * covered:.0f})"


def print_by_device(title, lines):
    """Of each line its name, and errors by device."""
    gpus = sorted({gpu for errors in lines.values() for gpu in errors})
    print(f"\n| {title} | " + " | ".join(gpus) + " |\n|---|" + "---|" * len(gpus))
    for name, errors in lines.items():
        print(f"| {name} | " + " | ".join(f"{errors[gpu]:.1f}" if gpu in errors else "" for gpu in gpus) + " |")


def network_cell(result):
    errors = [abs(r["predicted_ms"] / r["measured_ms"] - 1) for r in result["e2e"]["rows"] if nvidia(r["gpu"])]
    return f"{100 * statistics.mean(errors):.1f}, median {100 * statistics.median(errors):.1f} " \
           f"({100 * result['e2e']['coverage90']:.0f})"


def step_errors(result, precision):
    """Mean errors in percent by device."""
    rows = [r for r in result["rows"] if r["source"].startswith("ryujaehun") and r["precision"].startswith(precision)]
    means = op_baselines.errors_by_gpu((r["gpu"], r["predicted_ms"], r["measured_ms"]) for r in rows)
    return {gpu: 100 * error for gpu, error in means.items()}


def step_cell(result, precision):
    return f"{statistics.mean(step_errors(result, precision).values()):.1f}"


def print_scored(name, result):
    error = result["time"]["mape"] if "time" in result else result["mape"]
    print(f"| {name} | {result['n']} | {100 * error:.0f} | {100 * result['coverage90']:.0f} |")


tables = sys.stdout = io.StringIO()
seen = ops("neusight", "--protocol", "seen")
left_out = ops("neusight", "--protocol", "device")
probed = ops("neusight", "--protocol", "device", "--probe-rows", "8")
print("| mean error in %, in brackets the coverage of the 90 % interval in % | seen | left out | probe |")
print("|---|---|---|---|")
for kind, name in NAMES.items():
    # A100-80-PCIe has no rows to learn from but for convolutions.
    known = None if kind == "conv" else {g for g in seen["ops"] if g != "A100-80-PCIe"}
    print(f"| {name} | {kind_cell(seen, kind, known)} | {kind_cell(left_out, kind)} | {kind_cell(probed, kind)} |")
half, half_probed = ops("modern_ops", "--protocol", "device"), ops("modern_ops", "--protocol", "device",
                                                                  "--probe-rows", "16")
print(f"| products, bf16, M >= 512 (probe: 16 rows) | | {kind_cell(half, 'gemm_bf16')} | "
      f"{kind_cell(half_probed, 'gemm_bf16')} |")
print(f"| transformers by their operators, fp32 | {network_cell(seen)} | {network_cell(left_out)} | "
      f"{network_cell(probed)} |")
steps, steps_probed = (evaluate("--steps-train", STEPS, "--protocol", "device", *more) for more in ([], PROBE_NETWORKS))
for precision, name in (("fp32", "fp32"), ("half", "half precision throughout")):
    print(f"| training steps of CNNs, {name} (probe: 3 networks) | | {step_cell(steps, precision)} | "
          f"{step_cell(steps_probed, precision)} |")

for title, result in (("left out", left_out), ("probe", probed)):
    print_by_device(title, {name: kind_errors(result, kind) for kind, name in NAMES.items()})
print_by_device("products, bf16", {"left out": kind_errors(half, "gemm_bf16"),
                                   "probe": kind_errors(half_probed, "gemm_bf16")})
print_by_device("training steps of CNNs", {f"{precision}, {title}": step_errors(result, precision)
                                           for precision in ("fp32", "half")
                                           for title, result in (("left out", steps), ("probe", steps_probed))})
print()
op_baselines.print_tables()

# The standard model on tables whose licence kept them out of it, without any run.
print("\n| rows that the standard model has not seen | rows | mean error, % | inside the 90 % interval, % |\n|---|---|---|---|")
with tempfile.TemporaryDirectory() as folder:
    rows = csv_rows(REFERENCE, "a100_cifar10", "runs_agg.csv")
    for row in rows:
        row.update(device="A100-80GB-PCIe", precision="tf32")
    standard = os.path.join(DATA, "standard_ops.json")
    print_scored("CNNs for CIFAR-10 on an A100, TensorFlow",
                 evaluate("--model", standard, "--measured", write(os.path.join(folder, "runs_agg.csv"), rows)))
    rows = measured_steps(REFERENCE)
    learned = ",".join([write(os.path.join(folder, "learned.csv"), free(rows)),
                        os.path.join(DATA, "nvidia_h200", "runs_agg.csv")])
    for name, source in (("ResNet-18 and -50, up to 3,072 pictures (Sia)", "siasosp23"), ("ResNet-50 (Lambda)", "lambdal")):
        measured = write(os.path.join(folder, "test.csv"), [r for r in rows if r["source"].startswith(source)])
        print_scored(name, evaluate("--steps-train", learned, "--steps-test", measured))
    own = [r for r in evaluate("--steps-train", learned, "--protocol", "lono")["rows"] if r["source"] == "runs"]
errors = [abs(r["predicted_ms"] / r["measured_ms"] - 1) for r in own]
print(f"\nsteps of an H200, their network left out on all devices: {len(errors)} rows, {100 * statistics.mean(errors):.1f} %, "
      f"median {100 * statistics.median(errors):.1f} %")

sys.stdout = sys.__stdout__
print(tables.getvalue())
begin, end = "<!-- op_accuracy_table -->\n", "<!-- /op_accuracy_table -->"
with open(PAGE) as file:
    text = file.read()
with open(PAGE, "w") as file:
    file.write(text.split(begin)[0] + begin + tables.getvalue() + end + text.split(end)[1])
