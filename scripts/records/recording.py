# SPDX-License-Identifier: Apache-2.0
"""Captures the steps of a network and packs them into a record."""

import contextlib
import os
import tempfile

import torch

import perfpred
from perfpred._capture import step_file
from perfpred._capture.session import Session
from records.packing import NotRecorded, Packer

def optimizer_of(model):
    """One operator for each parameter that has a gradient, which tells the two apart; the record has no update."""
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1, foreach=False)


def casts(form, half=torch.bfloat16):
    return torch.autocast("cuda", dtype=half) if form == "autocast" else contextlib.nullcontext()


def in_type(value, dtype):
    """Batches of a network whose parameters are in a half type are so, too."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: in_type(one, dtype) for key, one in value.items()}
    return type(value)(in_type(one, dtype) for one in value) if isinstance(value, (list, tuple)) else value


def made(network):
    with Session():
        model = network.make()  # without memory
    return model.train()


def capture(network, model, input_text, size, form, path, optimizer=None, scales=False, half=torch.bfloat16):
    """One training step, as a user's script has it."""
    batch = network.batches[input_text](size)
    if form == "half":
        batch = in_type(batch, half)
    optimizer = optimizer or optimizer_of(model)
    with perfpred.capture(path, batch_size=size):
        optimizer.zero_grad()
        with casts(form, half):
            loss = network.loss(network.call(model, batch), batch)
        scaler = torch.amp.GradScaler("cuda", enabled=scales)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def hidden_matrices(network, model):
    """Names of the linear layers between others, as Muon takes them."""
    heads = [getattr(model, name)() for name in ("get_output_embeddings", "get_classifier") if hasattr(model, name)]
    return {
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name not in network.heads and not any(module is head for head in heads)
    }


def grown(step, batch_size):
    """The capture of so many samples, a prime, with what each size grows by with a sample."""
    trained = {op["inputs"][0] for op in step["ops"] if op["phase"] == "optimizer"}
    for number, tensor in enumerate(step["tensors"]):
        for key, grows in (("sizes", "growth"), ("strides", "stride_growth")):
            growth = [size // batch_size if size % batch_size == 0 else 0 for size in tensor[key]]
            in_memory = [g for g, stride in zip(growth, tensor["strides"]) if stride != 0]
            if any(in_memory) and number in trained:
                raise NotRecorded(f"a parameter of {tensor['sizes']} grows with the batch")
            if any(in_memory) and tensor["role"] == "parameter":
                tensor["role"] = "input"  # as wav2vec 2.0's, which its network lets have a gradient
            if any(growth):
                tensor[grows] = growth
    for op in step["ops"]:
        if "flops" in op:
            op["flops_growth"] = op["flops"] / batch_size
    return {**step, "other_batch_size": 2 * batch_size}


def record(network):
    """The packed steps, and the parameters of the network."""
    model = made(network)
    count = sum(p.numel() for p in model.parameters())
    hidden = hidden_matrices(network, model)
    packer = Packer()
    with tempfile.TemporaryDirectory() as folder:
        for form in network.forms:
            if form == "half":
                model = model.to(torch.bfloat16)
            for input_text in network.batches:
                for size in network.batch_sizes or (network.prime,):
                    path = os.path.join(folder, "step.json")
                    capture(network, model, input_text, size, form, path)
                    step = step_file.read(path) if network.batch_sizes else grown(step_file.read(path), size)
                    packer.add(step, hidden.__contains__, input=input_text, form=form)
    return packer.packed(), count
