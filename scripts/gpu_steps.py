#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures training steps of PyTorch programs as people write them on one CUDA GPU, eager and compiled.

    scripts/gpu_steps.py OUT_DIR [--seconds 400] [--workers 8] [--only WORD] [--graphs GRAPHS]
    scripts/gpu_steps.py --capture GRAPHS           # step files of the networks that the zoo has not; needs no GPU

Networks of torchvision and transformers, random weights and data, AdamW in one kernel; bitsandbytes and peft for QLoRA
and LoRA. OUT_DIR gets runs.csv (perfpred.measure), kernels.jsonl (a profiled step's kernels, and the bytes that
the forward pass left for the backward pass, behind each row), and the code that Inductor generated. Several processes
compile at the same time; while one of them measures, the others are stopped.
"""

import argparse
import collections
import contextlib
import fcntl
import gc
import json
import os
import signal
import subprocess
import sys
import time
import traceback

import torch

LIMIT_SEC = 1.5  # of steps behind a row
GPU_GB = 125.0  # that the processes share

# name, batch sizes, variants, GB that the larger batch may take
CASES = [
    ("gpt2", (8, 32), "amp bf16 tf32", 60),
    ("bert_base", (16, 64), "amp bf16 tf32", 45),
    ("llama_lora", (2, 8), "amp tf32", 80),
    ("llama_qlora", (2, 8), "amp", 80),
    ("resnet50", (64, 256), "amp amp_nhwc tf32", 35),
    ("vit_b_16", (64, 256), "amp bf16 tf32", 50),
    ("convnext_tiny", (64, 256), "amp amp_nhwc tf32", 50),
    ("llama_full", (2, 8), "bf16", 75),
]
ADAPTER = "lora:r=16,targets=all"


def llama_config(transformers):
    return transformers.LlamaConfig(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, max_position_embeddings=131072, rms_norm_eps=1e-5, rope_theta=500000.0,
        tie_word_embeddings=True, use_cache=False, attention_bias=False)


def make(name, variant, batch, device):
    """The network, its arguments, and a function from its result to the loss."""
    if name in ("resnet50", "convnext_tiny", "vit_b_16"):
        import torchvision

        with torch.device(device):
            network = getattr(torchvision.models, name)().train()
            images = torch.randn(batch, 3, 224, 224)
            labels = torch.randint(1000, (batch,))
        if variant.endswith("nhwc"):
            network = network.to(memory_format=torch.channels_last)
            images = images.to(memory_format=torch.channels_last)
        if variant == "bf16":
            network, images = network.bfloat16(), images.bfloat16()
        return network, {"": images}, lambda y: torch.nn.functional.cross_entropy(y, labels)
    import transformers

    length = {"gpt2": 1024, "bert_base": 512}.get(name, 2048)
    with torch.device(device):
        if name == "gpt2":
            network = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))
        elif name == "bert_base":
            network = transformers.BertForMaskedLM(transformers.BertConfig())
        else:
            config = llama_config(transformers)
            if name != "llama_full" and variant == "amp" or variant == "bf16":
                torch.set_default_dtype(torch.bfloat16)
            network = transformers.LlamaForCausalLM(config)
            torch.set_default_dtype(torch.float32)
        words = torch.randint(network.config.vocab_size, (batch, length))
    if variant == "bf16":
        network = network.bfloat16()
    if name == "llama_qlora":
        packed(network, device)
    if "lora" in name:
        import peft

        network = peft.get_peft_model(network, peft.LoraConfig(
            r=16, lora_alpha=16, lora_dropout=0.0, task_type="CAUSAL_LM",
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]))
    return network.train(), {"input_ids": words, "labels": words}, lambda y: y.loss


def packed(network, device):
    """The projections of the blocks as bitsandbytes keeps them in four bits, with double quantisation."""
    import bitsandbytes as bnb

    for block in network.model.layers:
        for part in (block.self_attn, block.mlp):
            for child, linear in list(part.named_children()):
                if isinstance(linear, torch.nn.Linear):
                    four = bnb.nn.Linear4bit(linear.in_features, linear.out_features, bias=False,
                                             compute_dtype=torch.bfloat16, quant_type="nf4", device="meta")
                    four.weight = bnb.nn.Params4bit(linear.weight.data.cpu(), requires_grad=False, quant_type="nf4",
                                                    compress_statistics=True).to(device)
                    setattr(part, child, four)


def make_step(name, variant, batch, compiled, device):
    tf32 = variant == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    network, arguments, loss_of = make(name, variant, batch, device)
    trained = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    called = torch.compile(network) if compiled else network
    positional = [value for key, value in arguments.items() if not key]
    named = {key: value for key, value in arguments.items() if key}

    def step(mark=lambda: None):
        optimizer.zero_grad(set_to_none=True)
        mark()
        with torch.autocast("cuda", torch.bfloat16, enabled=variant.startswith("amp")):
            loss = loss_of(called(*positional, **named))
        mark()
        loss.backward()
        optimizer.step()

    return network, step


def fields(name, variant, graphs):
    """What perfpred.measure cannot see, or what it is told so that it need not look."""
    precision = "tf32" if variant == "tf32" else "bf16"
    if name in ("gpt2", "bert_base"):
        return {"network": os.path.join(graphs, f"{name}_{variant}.json"), "precision": precision}
    told = {"precision": precision, "optimizer": "adamw", "optimizer_impl": "fused"}
    if name.startswith("llama"):
        told |= {"network": "llama3.2_1b", "input": "2048", "classes": 128256, "padding": "packed"}
        if name != "llama_full":
            told["adapter"] = ADAPTER
        told["weights"] = {"llama_qlora": "nf4"}.get(name, "as_precision" if variant == "tf32" else "bf16")
    else:
        told |= {"network": name, "input": "3x224x224", "classes": 1000,
                 "layout": "nhwc" if variant.endswith("nhwc") else "nchw"}
        if variant == "bf16":
            told["weights"] = "bf16"
    return told


def key(case):
    return "{}:{}:{}:{}".format(*case[:4])


def all_cases(only):
    """name, variant, batch, compiled, GB: first what takes longest to compile."""
    found = []
    for name, batches, variants, gb in CASES:
        for variant in variants.split():
            for batch in batches:
                for compiled in (0, 1):
                    large = batch == batches[-1]
                    found.append((name, variant, batch, compiled, gb if large else max(gb / 3, 12)))
    order = {"amp": 0, "bf16": 1, "amp_nhwc": 1, "tf32": 2}
    found.sort(key=lambda case: (order[case[1]], -case[3]))
    return [case for case in found if only in key(case)]


class Shared:
    """What the processes share, in a folder: the next case, the bytes taken, who is there, and who measures."""

    def __init__(self, folder):
        self._folder = folder
        os.makedirs(folder, exist_ok=True)

    @contextlib.contextmanager
    def _state(self):
        with open(os.path.join(self._folder, "state"), "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            state = json.loads(file.read() or '{"done": [], "taken": {}}')
            yield state
            file.seek(0)
            file.truncate()
            file.write(json.dumps(state))

    def next_case(self, cases, until):
        while time.time() < until:
            with self._state() as state:
                free = GPU_GB - sum(state["taken"].values())
                left = [case for case in cases if key(case) not in state["done"]]
                if not left:
                    return None
                for case in left:
                    if case[4] <= free:
                        state["done"].append(key(case))
                        state["taken"][str(os.getpid())] = case[4]
                        return case
            time.sleep(0.5)
        return None

    def give_back(self):
        with self._state() as state:
            state["taken"].pop(str(os.getpid()), None)

    @contextlib.contextmanager
    def alone(self):
        with open(os.path.join(self._folder, "gate"), "a", encoding="utf-8") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            others = [int(pid) for pid in os.listdir(os.path.join(self._folder, "pids")) if int(pid) != os.getpid()]
            try:
                for pid in others:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                time.sleep(0.2)
                yield
            finally:
                for pid in others:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)


def kernels_of(step):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    found = collections.defaultdict(lambda: [0, 0.0])
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            found[event.name][0] += 1
            found[event.name][1] += event.device_time_total
    return sorted(([name[:160], n, round(us, 1)] for name, (n, us) in found.items()), key=lambda k: -k[2])


def measure_case(case, out, graphs, shared, device):
    import perfpred
    from perfpred._measure import monitor

    monitor._Nvml.processes = lambda *_: 1  # the others hold memory, but they are stopped while this one measures
    name, variant, batch, compiled, _ = case
    cuda = device == "cuda"
    began = time.time()
    network, step = make_step(name, variant, batch, compiled, device)
    for _ in range(3):
        step()
    row = {"case": key(case)}
    if cuda:
        torch.cuda.synchronize()
        row["warm_sec"] = round(time.time() - began, 1)
    with shared.alone():
        if cuda:
            marks = []
            step(lambda: marks.append(torch.cuda.memory_allocated()))
            row["kept_bytes"] = marks[1] - marks[0]
        with perfpred.measure(os.path.join(out, "runs.csv"), batch_size=batch, train_images=50000, device=device,
                              compiled=compiled, limit_sec=LIMIT_SEC, **fields(name, variant, graphs)) as m:
            while True:
                step()
                if m.step():
                    break
        row |= {"network": m.row["network"], "timestamp_utc": m.row["timestamp_utc"],
                "params": sum(p.numel() for p in network.parameters() if p.requires_grad)}
        if cuda:
            row["kernels"] = kernels_of(step)
        print(f"{time.time():.0f} {os.getpid()} {row.get('warm_sec')} s to warm, {m}", flush=True)
    with open(os.path.join(out, "kernels.jsonl"), "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def work(options):
    """One of the processes."""
    shared = Shared(os.path.join(options.out, "shared"))
    cases = all_cases(options.only)
    while (case := shared.next_case(cases, options.until)) is not None:
        try:
            measure_case(case, options.out, options.graphs, shared, options.device)
        except Exception:  # one case fails, the others go on
            print(key(case), traceback.format_exc(limit=-4), flush=True)
        torch._dynamo.reset()
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()
        shared.give_back()


def run(options):
    """Starts the processes, and lets them go on if one of them dies while it measures."""
    folder = os.path.join(options.out, "shared", "pids")
    os.makedirs(folder, exist_ok=True)
    command = [sys.executable, __file__, options.out, "--worker", "--until", str(time.time() + options.seconds),
               "--only", options.only, "--device", options.device, "--graphs", options.graphs]
    workers = [subprocess.Popen(command) for _ in range(options.workers)]
    for worker in workers:
        open(os.path.join(folder, str(worker.pid)), "w", encoding="utf-8").close()
    while any(worker.poll() is None for worker in workers):
        for worker in list(workers):
            if worker.poll() is not None:
                workers.remove(worker)
                os.remove(os.path.join(folder, str(worker.pid)))
                if worker.returncode:
                    print(f"a process ended with {worker.returncode}", flush=True)
                    Shared(os.path.join(options.out, "shared")).give_back()
                    for other in workers:
                        os.kill(other.pid, signal.SIGCONT)
        time.sleep(0.5)


def capture(options):
    import perfpred

    for name, batches, variants, _ in CASES:
        if name not in ("gpt2", "bert_base"):
            continue
        for variant in variants.split():
            path = os.path.join(options.capture, f"{name}_{variant}.json")
            parts = []
            for batch in batches:
                torch.manual_seed(0)
                _, step = make_step(name, variant, batch, False, options.device)
                parts.append(f"{path}.{batch}")
                with perfpred.capture(parts[-1], batch_size=batch):
                    step()
            perfpred.combine(*parts, path)
            for part in parts:
                os.remove(part)
            print(path, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", nargs="?")
    parser.add_argument("--seconds", type=float, default=400, help="after which no case begins")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--only", default="", help="cases whose name:variant:batch:compiled has this")
    parser.add_argument("--graphs", default="graphs", help="folder of step files that --capture made")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--capture", metavar="GRAPHS")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.capture:
        return capture(options)
    if options.out is None:
        parser.error("OUT_DIR is missing")
    return work(options) if options.worker else run(options)


if __name__ == "__main__":
    main()
