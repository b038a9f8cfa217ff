#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures networks anew and compares the answers with those of their records (data/networks).

    scripts/check_records.py --out data/tables/records.csv [--jobs 2] [--every 10] [NAME...]

Each network is captured with another batch size than its record was, with PyTorch's fused AdamW, in fp32, bf16 and fp16
(autocast) and with parameters in bf16, with its usual input. Parameters, FLOPs, seconds a step and memory of both are a
row of the table. Needs the packages of scripts/record_networks.py, and the library in PERFPRED_LIBRARY.
"""

import argparse
import csv
import multiprocessing
import os
import sys
import tempfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import perfpred  # noqa: E402
import record_networks  # noqa: E402
from records import recording  # noqa: E402

DEVICE = "A100-80GB-PCIe"
BATCH = 8
WAYS = {"fp32": ("fp32", {"precision": "default"}), "bf16": ("autocast", {"precision": "bf16"}), "fp16": ("autocast", {"precision": "fp16"}),
        "bf16 parameters": ("half", {"precision": "bf16", "weights": "bf16"})}
COLUMNS = ("network", "precision", "params", "module_params", "flops", "fresh_flops", "step_ms", "fresh_step_ms", "memory_gb", "fresh_memory_gb")
_networks = {}


def figures(answer):
    return answer.params, answer.flops, 1e3 * answer.step_sec.p50, (answer.memory_bytes or 0) / 1e9


def rows_of(network):
    model = recording.made(network)
    count = sum(p.numel() for p in model.parameters())
    text = next(iter(network.batches))
    for way, (form, fields) in WAYS.items():
        if form not in network.forms:
            continue
        half = torch.float16 if way == "fp16" else torch.bfloat16
        if form == "half":
            model = model.to(half)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.json")
            optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)
            recording.capture(network, model, text, BATCH, form, path, optimizer, way == "fp16", half)
            fresh = figures(perfpred.predict(path, device=DEVICE, fit_advice=False))
        record = figures(perfpred.predict(network.name, device=DEVICE, batch_size=BATCH, optimizer="adamw", fit_advice=False, **fields))
        yield (network.name, way, record[0], count, *(f"{x:.6g}" for pair in zip(record[1:], fresh[1:]) for x in pair))


def attempt(name):
    torch.set_num_threads(1)
    try:
        return name, list(rows_of(_networks[name])), None
    except Exception as error:  # of any network: the others go on
        return name, [], f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="those alone")
    parser.add_argument("--out", required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="of all records every n-th")
    options = parser.parse_args()
    _networks.update(record_networks.networks())
    known = {one["name"] for one in perfpred.networks()}
    names = options.names or [name for name in _networks if name in known][:: options.every]
    rows = []
    with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=4) as pool:
        for done, (name, own, error) in enumerate(pool.imap_unordered(attempt, names), 1):
            print(f"{done}/{len(names)} {name}{': ' + error if error else ''}", file=sys.stderr, flush=True)
            rows += own
    with open(options.out, "w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([COLUMNS, *sorted(rows)])
    apart = [max(abs(float(r[a]) / float(r[b]) - 1) for a, b in ((4, 5), (6, 7), (8, 9))) for r in rows]
    print(f"{len(rows)} steps of {len({r[0] for r in rows})} networks: {sum(r[2] == r[3] for r in rows)} with the parameters of the module; "
          f"FLOPs, time and memory differ by at most {max(apart, default=0):.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
