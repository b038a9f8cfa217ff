#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures twelve networks on one CPU thread, and two replicas of each on two, and says how far the steps of the replicas
are from what the single ones and a probe of the links predict.

    scripts/replicas_table.py --bin build/release/bin --out build/replicas

It wants a quiet machine with two cores, and takes a quarter of an hour. What is measured stays in the folder. A row
that is to be trusted is not measured again; of others the first counts.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess

CLUSTER = "loopback"
# From much to send beside little to compute (many parameters, one sample) to the reverse.
NETWORKS = [
    ("alexnet", 2, "3x64x64"), ("alexnet", 16, "3x64x64"), ("vgg11", 1, "3x32x32"), ("resnet18", 1, "3x64x64"),
    ("resnet18", 16, "3x64x64"), ("resnet50", 4, "3x64x64"), ("mobilenet_v2", 16, "3x64x64"),
    ("squeezenet1_1", 16, "3x64x64"), ("cifar_cnn:depth=2,base_filters=16", 64, "3x32x32"),
    ("transformer:layers=2,hidden=512,heads=8,vocab=8000", 1, "64"),
    ("transformer:layers=4,hidden=256,heads=4,vocab=4000", 8, "128"), ("shufflenet_v2_x1_0", 32, "3x64x64"),
]


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, text=True, **more)


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Table:
    def __init__(self, programs, folder):
        self._programs, self._folder = programs, folder
        os.makedirs(folder, exist_ok=True)

    def _program(self, name):
        return os.path.join(self._programs, f"perfpred-{name}")

    def _file(self, name):
        return os.path.join(self._folder, name)

    def measure(self, name, *options):
        """A row of each network with these options, in the order of NETWORKS, by network, batch and input."""
        for network, batch, size in NETWORKS:
            run(self._program("collect"), "--network", network, "--batch-size", batch, "--input", size, "--timing", "steps",
                "--threads", 1, "--device", "cpu", "--out", self._file(name), "--log-dir", self._file("logs"), *options,
                stdout=subprocess.DEVNULL)
        rows = {}
        for row in rows_of(self._file(name)):
            if row["outcome"] in ("ok", "untrusted"):
                rows.setdefault((row["network"], row["batch_size"], row["input"]), row)
        return rows

    def model(self, runs):
        run(self._program("aggregate"), "--runs", self._file(runs), "--out", self._file("one_agg.csv"),
            stdout=subprocess.DEVNULL)
        run(self._program("train"), "--runs-agg", self._file("one_agg.csv"), "--test-fraction", 0, "--val-fraction", 0,
            "--out", self._file("model.json"), stdout=subprocess.DEVNULL)

    def probe(self):
        if not os.path.exists(self._file("links.csv")):
            run(self._program("probe"), "--links", "--replicas", 2, "--cluster", CLUSTER, "--out", self._file("links.csv"))

    def predict(self, rows):
        fields = ("network", "depth", "base_filters", "batch_size", "input", "classes", "train_images", "optimizer",
                  "precision", "device", "threads", "parallel", "gpus_per_node", "cluster")
        requests = [{field: row[field] for field in fields if row[field]} for row in rows]
        done = run(self._program("predict"), "--jsonl", "--model", self._file("model.json"), "--links",
                   self._file("links.csv"), input="".join(json.dumps(request) + "\n" for request in requests),
                   stdout=subprocess.PIPE)
        return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True, help="folder of the programs")
    parser.add_argument("--out", required=True, help="folder of what is measured")
    asked = parser.parse_args()
    table = Table(asked.bin, asked.out)
    single = table.measure("one.csv")
    table.probe()
    double = table.measure("two.csv", "--replicas", 2, "--cluster", CLUSTER)
    table.model("one.csv")
    errors, inside = [], []
    print(f"{'network':52} {'batch':>5} {'one ms':>8} {'two ms':>8} {'predicted':>9}  error")
    for (key, row), answer in zip(double.items(), table.predict(double.values())):
        if "error" in answer:
            raise SystemExit(answer["error"])
        measured, sec = float(row["step_p50_ms"]), answer["step_sec"]
        errors.append(1e3 * sec["p50"] / measured - 1)
        inside.append(1e3 * sec["p05"] <= measured <= 1e3 * sec["p95"])
        print(f"{key[0]:52} {key[1]:>5} {float(single[key]['step_p50_ms']):8.1f} {measured:8.1f} {1e3 * sec['p50']:9.1f} "
              f"{errors[-1]:+7.3f} {row['outcome']}")
    print(f"{len(errors)} networks: median {statistics.median(map(abs, errors)):.3f}, mean "
          f"{statistics.fmean(map(abs, errors)):.3f}, inside the interval {statistics.fmean(inside):.2f}")


main()
