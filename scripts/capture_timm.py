#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures training steps of timm's networks as timm measured them on an RTX 3090, for a table of measured steps.

    scripts/capture_timm.py --steps steps.csv --device RTX3090 --out graphs
    perfpred-evaluate --steps-train steps.csv --protocol family --graphs graphs

Needs timm. Each network of the device becomes `graphs/<model>.json`: mixed precision, cross entropy, SGD with momentum
without foreach, attention written out, two batch sizes. Networks that are there already are left alone. What could not
be captured stands in `graphs/failed.txt`.
"""

import argparse
import csv
import multiprocessing
import os
import sys
import tempfile

import timm
import timm.layers
import torch
import torch.nn.functional as F

import perfpred
from perfpred._capture.session import Session

BATCH_SIZES = (2, 4)


def capture(name, image_size, path):
    timm.layers.set_fused_attn(False)
    with Session():
        model = timm.create_model(name)  # without memory
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=False)
    with tempfile.TemporaryDirectory() as folder:
        parts = [os.path.join(folder, f"{size}.json") for size in BATCH_SIZES]
        for part, size in zip(parts, BATCH_SIZES):
            images = torch.zeros(size, 3, image_size, image_size, device="meta")
            labels = torch.zeros(size, dtype=torch.long, device="meta")
            with perfpred.capture(part, batch_size=size):
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
        perfpred.combine(*parts, path)


def attempt(job):
    name, image_size, path = job
    torch.set_num_threads(1)
    try:
        capture(name, image_size, path)
    except Exception as error:  # of any network: the others go on, and the file says why
        return name, str(error).strip().partition("\n")[0] or type(error).__name__
    return name, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", required=True, help="table with columns gpu, model, dataset (synthetic SIZE)")
    parser.add_argument("--device", default="RTX3090")
    parser.add_argument("--out", required=True, help="folder of the step files")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with open(options.steps, encoding="utf-8", newline="") as table:
        rows = [r for r in csv.DictReader(table) if r["gpu"] == options.device and r["dataset"].startswith("synthetic ")]
    sizes = {r["model"]: int(r["dataset"].split()[1]) for r in rows}
    jobs = [(name, size, os.path.join(options.out, f"{name}.json")) for name, size in sizes.items()]
    jobs = [job for job in jobs if not os.path.exists(job[2])]
    failed = []
    with multiprocessing.Pool(options.jobs, maxtasksperchild=1) as pool:
        for done, (name, error) in enumerate(pool.imap_unordered(attempt, jobs), 1):
            print(f"{done}/{len(jobs)} {name}{': ' + error if error else ''}", file=sys.stderr, flush=True)
            if error:
                failed.append(f"{name}: {error}\n")
    with open(os.path.join(options.out, "failed.txt"), "w", encoding="utf-8") as out:
        out.writelines(sorted(failed))
    print(f"{len(jobs) - len(failed)} networks captured, {len(failed)} failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
