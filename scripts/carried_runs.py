#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What runs of other networks and devices are worth: errors of perfpred-train --prior on a table of measured steps.

    scripts/carried_runs.py --steps steps.csv --ops-dir ops [--source ryujaehun] [--bin build/release/bin]

Each device of the source is the target in turn: an op model is fitted without it, then corrected by runs of its own and
of the source's other devices. Rows are in single precision, or in half precision throughout, which is given as the mixed
precision fp16; without optimizer; an epoch is 100 batches. See docs/notes/optime.md.
"""
import argparse
import collections
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

COLUMNS = ("depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,avg_time_std,thr_mean,thr_std,acc_mean,"
           "acc_std,network,input,classes,train_images,optimizer,precision,layout,cuda_graph,device,threads").split(",")
PROBE = ("vgg16", "resnet50", "shufflenet_v2_x0_5")
PRECISIONS = {"fp32": ("fp32", "default"), "fp16": ("half",)}  # of runs, and how those of tables begin


def plain(name):
    return re.sub("[^a-z0-9]", "", name.lower())


def write_runs(path, rows, precision):
    """A runs_agg.csv of steps. Only names, batch and time matter to a fit; params are a stand-in."""
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for row in rows:
            batch, sec = int(float(row["batch"])), float(row["ms_per_step"]) / 10
            table.writerow(dict(batch_size=batch, params=1000, n=1, steps_per_epoch=100, avg_time_mean=sec, avg_time_std=0,
                                thr_mean=100 * batch / sec, thr_std=0, network=row["model"], input="3x224x224", classes=1000,
                                train_images=100 * batch, optimizer="none", precision=precision, layout="nchw", cuda_graph=0,
                                device=row["gpu"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", required=True)
    parser.add_argument("--ops-dir", required=True)
    parser.add_argument("--source", default="ryujaehun")
    parser.add_argument("--bin", default="build/release/bin", type=pathlib.Path)
    asked = parser.parse_args()
    rows = list(csv.DictReader(open(asked.steps)))
    for precision, begins in PRECISIONS.items():
        measured = [r for r in rows if r["precision"].startswith(begins)]
        if not any(asked.source in r["source"] for r in measured):
            sys.exit(f"carried_runs: {asked.steps} has no {begins[0]} rows of {asked.source}")
        print_table(asked, rows, measured, precision)


def print_table(asked, rows, measured, precision):
    """@param measured  rows in this precision, of all sources"""
    of_source = [r for r in measured if asked.source in r["source"]]
    devices = sorted({r["gpu"] for r in of_source})
    errors, covered = collections.defaultdict(dict), collections.defaultdict(list)

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def run(program, *options):
            done = subprocess.run([asked.bin / program, *options], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            return done.stdout

        def fit_ops(learned):
            with open(folder / "steps.csv", "w", newline="") as file:
                table = csv.DictWriter(file, list(rows[0]))
                table.writeheader()
                table.writerows(learned)
            run("perfpred-train", "--kind", "ops", "--ops-dir", asked.ops_dir, "--steps-train", folder / "steps.csv", "--out",
                folder / "ops.json")

        def score(label, device, learned, scored):
            model = folder / "ops.json"
            write_runs(folder / "scored.csv", scored, precision)
            if learned:
                write_runs(folder / "learned.csv", learned, precision)
                run("perfpred-train", "--runs-agg", folder / "learned.csv", "--test-fraction", "0", "--val-fraction", "0",
                    "--prior", model, "--out", folder / "model.json")
                model = folder / "model.json"
            note(label, device, json.loads(run("perfpred-evaluate", "--model", model, "--measured", folder / "scored.csv",
                                               "--json")), len(scored))

        def note(label, device, answer, count):
            errors[label].setdefault(device, []).append(100 * answer["time"]["mape"])
            covered[label].append((100 * answer["coverage90"], count))

        for device in devices:
            def is_device(row):
                return plain(device) in plain(row["gpu"])
            own = [r for r in of_source if r["gpu"] == device]
            if any(is_device(r) and asked.source not in r["source"] for r in measured):
                fit_ops(r for r in rows if not (is_device(r) and asked.source in r["source"]))
                score("no run, the card in another collection", device, [], own)
            fit_ops(r for r in rows if not is_device(r))
            probe = [r for r in own if r["model"].lower() in PROBE]
            while len({r["model"] for r in probe}) < len(PROBE):
                left = [r for r in own if r not in probe]
                probe.append(min(left, key=lambda r: float(r["ms_per_step"])))
            scored = [r for r in own if r not in probe]
            score("no run", device, [], own)
            write_runs(folder / "own.csv", own, precision)
            answer = run("perfpred-evaluate", "--runs-agg", folder / "own.csv", "--protocol", "lono", "--prior",
                         folder / "ops.json", "--json")
            note("the device's other networks", device, json.loads(answer), len(own))
            score("three networks of the device", device, probe, scored)
            for other in devices:
                there = [r for r in of_source if r["gpu"] == other != device]
                known = [r for r in scored if r["model"] in {t["model"] for t in there}]
                if known:
                    score("the network on one other device, and these three", device, probe + there, known)
            score("the network on all other devices, and these three", device,
                  probe + [r for r in of_source if r["gpu"] != device], scored)

    print(f"| runs of, {precision} | mean error in % (covered) | {' | '.join(devices)} |\n|---|---|{'---|' * len(devices)}")
    for label, by_device in errors.items():
        means = {d: statistics.mean(e) for d, e in by_device.items()}
        inside = sum(c * n for c, n in covered[label]) / sum(n for _, n in covered[label])
        cells = [f"{means[d]:.1f}" if d in means else "" for d in devices]
        print(f"| {label} | {statistics.mean(means.values()):.1f} ({inside:.0f}) | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
