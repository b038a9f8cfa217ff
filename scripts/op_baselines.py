#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others say of the rows that scripts/op_accuracy_table.py scores: published methods by their own predictions, a
roofline, and three constants (shares of the peak and of the bandwidth, seconds to start) fitted to other devices.

    PERFPRED_REFERENCE_DIR=... scripts/op_baselines.py
"""
import math
import os
import random
import statistics
import sys

from step_tables import csv_rows

METHODS = {"NeuSight": "neusight_ms", "Habitat": "habitat_ms", "Li et al.": "micro_ms"}
BINARY = ("add", "div", "mul", "pow")
UNARY = ("addu", "divu", "gelu", "mulu", "powu", "relu", "tanh")
NAMES = {"linear": "linear layers, fp32", "bmm": "batched products, fp32", "elementwise": "elementwise, fp32",
         "softmax": "softmax, fp32", "layernorm": "layer norm, fp32", "conv": "3x3 convolutions, fp32"}
OPS = {"linear": ["linear"], "bmm": ["bmm"], "elementwise": [*BINARY, *UNARY], "softmax": ["softmax"],
       "layernorm": ["ln"], "conv": ["conv"]}


def nvidia(gpu):
    return not gpu.startswith("MI")


def errors_by_gpu(pairs):
    """Mean errors of (gpu, predicted, measured)."""
    errors = {}
    for gpu, predicted, measured in pairs:
        errors.setdefault(gpu, []).append(abs(predicted / measured - 1))
    return {gpu: statistics.mean(own) for gpu, own in errors.items()}


def published(folder, ops, gpus):
    """Mean over devices, in percent, of each method; None without predictions."""
    rows = [r for r in csv_rows(folder, "peers_ops.csv") if r["op"] in ops and r["gpu"] in gpus]
    result = {}
    for method, column in METHODS.items():
        means = errors_by_gpu((r["gpu"], float(r[column]), float(r["measured_ms"])) for r in rows if r[column])
        result[method] = 100 * statistics.mean(means.values()) if means else None
    return result


def published_networks(folder):
    """Mean and median, in percent, of the end-to-end times."""
    rows = [r for r in csv_rows(folder, "peers_e2e.csv") if nvidia(r["gpu"])]
    result = {}
    for method, column in {**METHODS, "roofline": "roofline_ms"}.items():
        errors = [abs(float(r[column]) / float(r["measured_ms"]) - 1) for r in rows if r[column]]
        result[method] = (100 * statistics.mean(errors), 100 * statistics.median(errors))
    return result


def work(row, number_bytes):
    """FLOPs of matrix units, and bytes."""
    n = {name: int(row[name]) for name in ("B", "M", "N", "K", "H", "Cin", "Cout", "ksize", "HW", "stride")
         if row.get(name)}
    if "ksize" in n:
        out = n["HW"] // n["stride"]
        area = n["ksize"] ** 2
        return (2 * n["B"] * n["Cout"] * out ** 2 * n["Cin"] * area,
                number_bytes * (n["B"] * (n["Cin"] * n["HW"] ** 2 + n["Cout"] * out ** 2) + n["Cin"] * n["Cout"] * area))
    if "M" in n:
        batch, m, k, width = n.get("B", 1), n["M"], n["N"], n["K"]
        return 2 * batch * m * k * width, number_bytes * batch * (m * k + k * width + m * width)
    return 0, number_bytes * n["B"] * n["H"] * (3 if row["op"] in BINARY else 2)


def is_decoding(row):
    """Shapes of inference, which the products in bf16 have, too."""
    return row["op"] == "gemm" and (int(row["M"]) < 512 or min(int(row["N"]), int(row["K"])) < 256)


class Table:
    """Rows of one kind of operator, by device: (seconds to compute at the peak, to move at the bandwidth, measured)."""

    def __init__(self, folder, file, number_bytes, peak):
        devices = {r["gpu"]: r for r in csv_rows(folder, "gpus.csv")}
        self.learned, self.scored = {}, {}
        for row in csv_rows(folder, file):
            device = devices[row["gpu"]]
            if not nvidia(row["gpu"]) or is_decoding(row):
                continue
            flops, moved = work(row, number_bytes)
            times = (flops / (1e9 * float(device[peak])), moved / (1e9 * float(device["mem_bw_gbs"])),
                     float(row["fwd_ms"]) / 1e3)
            self.learned.setdefault(row["gpu"], []).append(times)
            if row["split"] == "test":
                self.scored.setdefault(row["gpu"], []).append(times)
        if not self.scored:
            self.scored = self.learned

    def roofline(self):
        means = errors_by_gpu((gpu, max(compute, memory), sec) for gpu, rows in self.scored.items()
                              for compute, memory, sec in rows)
        return 100 * statistics.mean(means.values())

    def three_constants(self):
        """Each device by the constants of all others, from at most 400 rows of each."""
        draw = random.Random(0)
        sample = {gpu: draw.sample(rows, min(400, len(rows))) for gpu, rows in self.learned.items()}
        means = []
        for gpu, rows in self.scored.items():
            constants = fit([row for other, own in sample.items() if other != gpu for row in own])
            pairs = ((gpu, predict(constants, row), row[2]) for row in rows)
            means.append(errors_by_gpu(pairs)[gpu])
        return 100 * statistics.mean(means)


def predict(constants, row):
    compute, memory, start = constants
    return max(row[0] / compute, row[1] / memory) + start


def fit(rows):
    """The constants with the least mean |ln(predicted / measured)|, by steps that are halved when none is better."""
    def loss(logs):
        constants = [math.exp(x) for x in logs]
        return statistics.fmean(abs(math.log(predict(constants, row) / row[2])) for row in rows)

    logs, step = [-0.5, -0.3, math.log(1e-5)], 0.8
    best = loss(logs)
    while step > 0.01:
        tried = [logs[:i] + [logs[i] + way * step] + logs[i + 1:] for i in range(3) for way in (-1, 1)]
        losses = [loss(x) for x in tried]
        if min(losses) < best:
            best = min(losses)
            logs = tried[losses.index(best)]
        else:
            step /= 2
    return [math.exp(x) for x in logs]


def cell(value):
    return "" if value is None else f"{value:.1f}"


def print_tables():
    reference = os.environ["PERFPRED_REFERENCE_DIR"]
    folder = os.path.join(reference, "neusight")
    print("| mean error, % | " + " | ".join(METHODS) + " | roofline | three constants, device left out |")
    print("|---|" + "---|" * (len(METHODS) + 2))
    for kind, name in NAMES.items():
        table = Table(folder, f"op_{kind}.csv", 4, "fp32_gflops")
        others = published(folder, OPS[kind], table.scored)
        print(f"| {name} | " + " | ".join(cell(others[method]) for method in METHODS) +
              f" | {table.roofline():.1f} | {table.three_constants():.1f} |")
    half = Table(os.path.join(reference, "modern_ops"), "op_gemm_bf16.csv", 2, "bf16_gflops")
    print("| products, bf16, M >= 512 |" + " |" * len(METHODS) + f" {half.roofline():.1f} | {half.three_constants():.1f} |")
    networks = published_networks(folder)
    print("| transformers, fp32: mean, median | " + " | ".join("{:.1f}, {:.1f}".format(*v) for v in networks.values()) + " | |")


if __name__ == "__main__":
    if len(sys.argv) != 1 or "PERFPRED_REFERENCE_DIR" not in os.environ:
        sys.exit(__doc__)
    print_tables()
