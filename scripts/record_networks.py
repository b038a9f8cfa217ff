#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records networks of transformers, diffusers, torchvision, timm, segmentation-models-pytorch and MONAI by name.

    scripts/record_networks.py [--out data/networks] [--jobs 2] [--family t5 --family whisper] [NAME...]

Each network is captured without weights (perfpred.capture), in fp32, under autocast and with parameters in bf16, with
each of its inputs, at two batch sizes, and packed into OUT/NAME.xz; its row of OUT/index.csv is written anew. A record
that differs from the one that is there gets the next version. Networks that the zoo has are left out. What could not be
captured stands on standard error. Needs the packages, and the library in PERFPRED_LIBRARY.
"""

import argparse
import csv
import gc
import importlib
import lzma
import multiprocessing
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import perfpred  # noqa: E402
from records import recording  # noqa: E402

MODULES = ("of_transformers", "of_diffusers", "of_torchvision", "of_segmentation", "of_timm")
COLUMNS = ("name", "version", "aliases", "inputs", "batches", "params", "classes", "samples", "sample", "source", "licence", "published")
_networks = {}


def networks():
    """All that can be recorded here, by name, and by module."""
    found = {}
    for module in MODULES:
        try:
            for network in importlib.import_module(f"records.{module}").networks():
                if network.name in found:
                    raise ValueError(f"{network.name} is there twice")
                found[network.name] = network
        except ImportError as error:
            print(f"{module} is left out: {error}", file=sys.stderr)
    return found


def attempt(name):
    torch.set_num_threads(1)
    gc.freeze()  # a capture looks through all objects, of which only the network's matter
    try:
        return name, *recording.record(_networks[name]), None
    except Exception as error:  # of any network: the others go on
        reason = str(error).strip().partition("\n")[0]
        return name, None, 0, f"{type(error).__name__}: {reason}"


def is_of_zoo(name):
    """Whether perfpred builds the network itself, by this name."""
    try:
        return "@" not in perfpred.inspect(name, batch_size=2).network
    except perfpred.InputError:
        return False


def read_index(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8", newline="") as table:
        return {row["name"]: row for row in csv.DictReader(table)}


def write_index(path, rows):
    with open(path + ".tmp", "w", encoding="utf-8", newline="") as table:
        out = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(rows[name] for name in sorted(rows))
    os.replace(path + ".tmp", path)


def version_of(row, path, packed):
    if row is None or not os.path.exists(path):
        return 1
    with lzma.open(path) as before:
        return int(row["version"]) + (before.read() != lzma.decompress(packed))


def keep(network, packed, params, folder, rows):
    path = os.path.join(folder, f"{network.name}.xz")
    version = version_of(rows.get(network.name), path, packed)
    with open(path, "wb") as file:
        file.write(packed)
    rows[network.name] = {
        "name": network.name, "version": version, "aliases": " ".join(a.lower() for a in network.aliases),
        "inputs": " ".join(network.batches), "batches": " ".join(map(str, network.batch_sizes)), "params": params, "classes": network.classes or "",
        "samples": network.samples or "", "sample": network.sample, "source": network.source,
        "licence": network.licence, "published": network.published,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="those alone")
    parser.add_argument("--out", default=os.path.join(os.path.dirname(__file__), "..", "data", "networks"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--family", action="append", default=[], help="names that begin so; may be repeated")
    parser.add_argument("--new", action="store_true", help="only those that are not there yet")
    options = parser.parse_args()
    _networks.update(networks())
    begins = tuple(options.family)
    names = list(_networks) if not (options.names or begins) else []
    names += [*options.names, *(n for n in _networks if begins and n.startswith(begins))]
    names = [n for n in names if not is_of_zoo(n)]
    index = os.path.join(options.out, "index.csv")
    os.makedirs(options.out, exist_ok=True)
    rows = read_index(index)
    if options.new:
        names = [n for n in names if n not in rows]
    failed = 0
    with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=4) as pool:
        for done, (name, packed, params, error) in enumerate(pool.imap_unordered(attempt, names), 1):
            print(f"{done}/{len(names)} {name}: {error or f'{len(packed)} bytes, {params:,} parameters'}", file=sys.stderr, flush=True)
            failed += error is not None
            if error is None:
                keep(_networks[name], packed, params, options.out, rows)
                write_index(index, rows)
    print(f"{len(names) - failed} networks recorded, {failed} failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
