#!/usr/bin/env python3
"""Training steps here beside PyTorch's, in turns: the same network, batch and optimizer on the same machine.

    python benchmarks/peers/training_step.py --collect build/release/bin/perfpred-collect [--device cpu] [--rounds 5]

Run it with the Python of the LibTorch that the project is built against. Prints the ratio here / peer for every row and
peer (eager; on CUDA also CUDA graphs and torch.compile), then the median; below 1 we are faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the programs set it; read when torch is loaded

import torch  # noqa: E402
from torch import nn  # noqa: E402

ROWS = [(2, 16, 64), (2, 32, 128), (3, 16, 128), (3, 32, 64)]  # depth, base filters, batch


class Cnn(nn.Sequential):
    def __init__(self, depth, base):
        layers, channels, side = [], 3, 32
        for block in range(depth):
            out = base << block
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(inplace=True)]
            layers += [nn.Conv2d(out, out, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
            channels, side = out, side // 2
        layers += [nn.Flatten(), nn.Linear(channels * side * side, 128), nn.ReLU(inplace=True), nn.Linear(128, 10)]
        super().__init__(*layers)


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def peer_step(row, device, kind):
    """A function that runs one training step of the peer."""
    depth, base, batch = row
    torch.manual_seed(0)
    model = Cnn(depth, base).to(device)
    loss_of = nn.CrossEntropyLoss()
    capturable = kind == "graph"
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=capturable)
    inputs = torch.randn(batch, 3, 32, 32, device=device)
    targets = torch.randint(10, (batch,), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(inputs), targets).backward()
        optimizer.step()

    if kind == "compile":
        model = torch.compile(model)
    if kind != "graph":
        return step
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(11):
            step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def peer_ms(step, device, seconds):
    for _ in range(3):
        step()
    synchronise(device)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 10:
        begin = time.perf_counter()
        step()
        synchronise(device)
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def our_ms(collect, row, device, threads, graph):
    depth, base, batch = row
    with tempfile.TemporaryDirectory() as folder:
        command = [collect, "--timing", "steps", "--depth", str(depth), "--base-filters", str(base), "--batch-size",
                   str(batch), "--train-images", str(batch * 20), "--device", str(device), "--precision", "fp32",
                   "--cuda-graph", "1" if graph else "0", "--out", folder + "/runs.csv", "--log-dir", folder, "--json"]
        if device.type == "cpu":
            command += ["--threads", str(threads)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(done.stdout)["runs"][0]["step_p50_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collect", required=True, help="the program perfpred-collect")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of a peer's measurement")
    parser.add_argument("--json", help="write the rows here")
    options = parser.parse_args()
    device = torch.device(options.device)
    threads = torch.get_num_threads()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    kinds = ["eager"] + (["graph", "compile"] if device.type == "cuda" else [])
    rows = []
    for row in ROWS:
        for kind in kinds:
            try:
                step = peer_step(row, device, kind)
                step()
            except Exception as error:  # torch.compile and graphs do not work everywhere
                print(f"depth {row[0]} base {row[1]} batch {row[2]:4d} {kind}: does not work here: {str(error).splitlines()[0]}")
                continue
            ratios = []
            for turn in range(options.rounds):
                ours_first = turn % 2 == 0
                ours = our_ms(options.collect, row, device, threads, kind == "graph") if ours_first else None
                peer = peer_ms(step, device, options.seconds)
                if not ours_first:
                    ours = our_ms(options.collect, row, device, threads, kind == "graph")
                ratios.append(ours / peer)
            rows.append({"depth": row[0], "base_filters": row[1], "batch_size": row[2], "peer": kind,
                         "ratio_median": statistics.median(ratios), "ratios": ratios})
            print(f"depth {row[0]} base {row[1]} batch {row[2]:4d} {kind:8s} here/peer "
                  f"{statistics.median(ratios):.3f}  ({min(ratios):.3f} to {max(ratios):.3f})", flush=True)
    for kind in sorted({w["peer"] for w in rows}):
        print(f"median of all, {kind}: {statistics.median(r for w in rows if w['peer'] == kind for r in w['ratios']):.3f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "device": str(device), "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
