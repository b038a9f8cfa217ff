#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps here beside PyTorch's, in turns: the same network, batch and optimizer on the same machine.

    python benchmarks/peers/training_step.py --collect build/release/bin/perfpred-collect [--rounds 3] [--seconds 2]
        [--network cifar_cnn,resnet18,mobilenet_v2] [--batch-size 8] [--device cpu] [--json ratios.json]
    python benchmarks/peers/training_step.py --collect build/release/bin/perfpred-collect --network vit_b_16,gpt2
        --batch-size 4 --peers eager --fused --rounds 5

Run it with the Python of the LibTorch that the project is built against. The CNN is written out here, gpt2 is Hugging
Face's, other networks of the zoo are torchvision's; they are left out where these packages are missing. Both sides:
fp32 without TF32, Adam, images of 3x224x224 (the CNN: 3x32x32) or 512 words, as many threads, training mode, the same
number of parameters. Ours loads its batches from generated data, the peer has one batch. Our Adam is LibTorch's fused
one, the peer's the one that PyTorch chooses by itself, or with --fused the fused one, too.

Prints our step and, in a column each, its ratio here / peer: PyTorch eager, torch.compile (Inductor; on a CPU it wants
a C++ compiler), on CUDA also a CUDA graph, against ours in a CUDA graph; below 1 we are faster. "-": does not work
here, and a line says why. On a machine with other work, ratios say little.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as the programs set it; read when torch is loaded

import torch  # noqa: E402
from torch import nn  # noqa: E402

try:
    import torchvision
except ImportError:
    torchvision = None
try:
    import transformers
except ImportError:
    transformers = None

RUN_AHEAD = 8  # steps that the host may be ahead of the device, as ours
WORDS = 512  # of a sequence
CNNS = [(2, 16, 64), (2, 32, 128), (3, 16, 128), (3, 32, 64)]  # depth, base filters, batch


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


class Gpt2(nn.Module):
    """The logits of Hugging Face's GPT-2, of all words one below the other."""

    def __init__(self):
        super().__init__()
        self.network = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))

    def forward(self, words):
        return self.network(words).logits.flatten(0, 1)


class Row:
    """A network and batch size; the CNN's also have a depth and a width."""

    def __init__(self, network, batch, depth=None, base=None):
        self.network, self.batch, self.depth, self.base = network, batch, depth, base
        self.name = f"{network}{f'/depth:{depth}/base:{base}' if depth else ''}/batch:{batch}"

    def model(self):
        if self.network == "gpt2":
            return Gpt2()
        return Cnn(self.depth, self.base) if self.depth else torchvision.models.get_model(self.network)

    def sample(self):
        side = 32 if self.depth else 224
        return (WORDS,) if self.network == "gpt2" else (3, side, side)

    def batches(self, device):
        """Inputs and targets."""
        shape = self.batch, *self.sample()
        if self.network == "gpt2":
            return torch.randint(50257, shape, device=device), torch.randint(50257, shape, device=device).flatten()
        return torch.randn(shape, device=device), torch.randint(10, (self.batch,), device=device)

    def options(self):
        cnn = ["--depth", str(self.depth), "--base-filters", str(self.base)] if self.depth else []
        words = ["--input", str(WORDS)] if self.network == "gpt2" else []
        return ["--network", self.network, "--batch-size", str(self.batch), *cnn, *words]


def rows_of(options):
    rows = []
    for network in options.network.split(","):
        if network == "cifar_cnn":
            rows += [Row(network, batch, depth, base) for depth, base, batch in CNNS]
        elif (transformers if network == "gpt2" else torchvision) is None:
            print(f"{network}: left out, this Python has no {'transformers' if network == 'gpt2' else 'torchvision'}")
        else:
            rows += [Row(network, int(batch)) for batch in options.batch_size.split(",")]
    return rows


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def peer_step(row, device, kind, fused):
    """A function that runs one training step of the peer, and its number of parameters."""
    torch.manual_seed(0)
    model = row.model().to(device)
    params = sum(p.numel() for p in model.parameters())
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=kind == "graph", fused=fused or None)
    inputs, targets = row.batches(device)
    torch.compiler.reset()  # a row is compiled for itself, as if it were the only one
    run = torch.compile(model, dynamic=False) if kind == "compile" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(run(inputs), targets).backward()
        optimizer.step()

    if kind != "graph":
        return step, params
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(11):
            step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay, params


class Mark:
    """A moment in the device's work, as ours take it: an event that nothing waits for, the clock on a CPU."""

    def __init__(self, device):
        self.event = torch.cuda.Event(enable_timing=True) if device.type == "cuda" else None
        if self.event:
            self.event.record()
        else:
            self.time = time.perf_counter()

    def ms_to(self, later):
        return self.event.elapsed_time(later.event) if self.event else (later.time - self.time) * 1e3


def peer_ms(step, device, seconds):
    for _ in range(3):
        step()
    synchronise(device)
    marks, end = [Mark(device)], time.perf_counter() + seconds
    while time.perf_counter() < end or len(marks) < 6:
        step()
        marks.append(Mark(device))
        if device.type == "cuda" and len(marks) > RUN_AHEAD:
            marks[-1 - RUN_AHEAD].event.synchronize()
    synchronise(device)
    return statistics.median(a.ms_to(b) for a, b in zip(marks, marks[1:]))


def our_ms(collect, row, device, graph, params):
    with tempfile.TemporaryDirectory() as folder:
        command = [collect, "--timing", "steps", *row.options(), "--train-images", str(row.batch * 20), "--device",
                   str(device), "--precision", "fp32", "--optimizer", "adam", "--cuda-graph", "1" if graph else "0",
                   "--out", folder + "/runs.csv", "--log-dir", folder, "--json"]
        if device.type == "cpu":
            command += ["--threads", str(torch.get_num_threads())]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        run = json.loads(done.stdout)["runs"][0]
        if run["params"] != params or run["input"] != "x".join(map(str, row.sample())):
            sys.exit(f"{row.name}: {run['params']} parameters, samples {run['input']} here, {params} in the peer: "
                     "not the same network")
        return run["step_p50_ms"]


def compare(row, device, kinds, options):
    """Our times of each round and the ratios of each kind of peer."""
    peers = {}
    for kind in kinds:
        try:
            step, params = peer_step(row, device, kind, options.fused)
            step()
            peers[kind] = step
        except Exception as error:  # torch.compile and graphs do not work everywhere
            print(f"{row.name}: {kind} does not work here: {str(error).splitlines()[0]}")
    ours, ratios = [], {kind: [] for kind in peers}
    for turn in range(options.rounds):
        # Ours without and with a graph, and the peers; backwards every other round.
        turns = [("ours", graph) for graph in sorted({kind == "graph" for kind in peers})]
        turns += [("peer", kind) for kind in peers]
        times = {}
        for who, what in turns if turn % 2 == 0 else reversed(turns):
            times[who, what] = (our_ms(options.collect, row, device, what, params) if who == "ours"
                                else peer_ms(peers[what], device, options.seconds))
        ours += [times["ours", False]] if ("ours", False) in times else []
        for kind in peers:
            ratios[kind].append(times["ours", kind == "graph"] / times["peer", kind])
    return ours, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collect", required=True, help="the program perfpred-collect")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--network", default="cifar_cnn,resnet18,mobilenet_v2", help="cifar_cnn, gpt2, or torchvision's names")
    parser.add_argument("--batch-size", default="8", help="of networks of the zoo; several joined by commas")
    parser.add_argument("--peers", default="eager,graph,compile", help="some of these, joined by commas")
    parser.add_argument("--fused", action="store_true", help="the peer's Adam is the fused one, as ours is")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of a peer's measurement, five steps at least")
    parser.add_argument("--json", help="write the rows here")
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    # Compiled last: making another peer forgets what is compiled.
    kinds = ["eager"] + (["graph"] if device.type == "cuda" else []) + ["compile"]
    kinds = [kind for kind in kinds if kind in options.peers.split(",")]
    print(f"{'ratio here / peer: median (lowest to highest)':48s} {'here, ms':>9s}", *(f"{k:>22s}" for k in kinds))
    rows = []
    for row in rows_of(options):
        ours, ratios = compare(row, device, kinds, options)
        cells = [f"{statistics.median(r):.3f} ({min(r):.3f} to {max(r):.3f})" if (r := ratios.get(kind)) else "-"
                 for kind in kinds]
        print(f"{row.name:48s} {statistics.median(ours) if ours else float('nan'):9.3f}", *(f"{c:>22s}" for c in cells),
              flush=True)
        rows += [{"network": row.network, "depth": row.depth, "base_filters": row.base, "batch_size": row.batch,
                  "peer": kind, "ratio_median": statistics.median(r), "ratios": r} for kind, r in ratios.items()]
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump({"torch": torch.__version__, "device": str(device), "rows": rows}, file, indent=1)
    medians = {kind: [ratio for row in rows if row["peer"] == kind for ratio in row["ratios"]] for kind in kinds}
    print(f"{'median of all':58s}", *(f"{f'{statistics.median(r):.3f}' if r else '-':>22s}" for r in medians.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
