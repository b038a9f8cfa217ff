# SPDX-License-Identifier: Apache-2.0
"""Writes step files; docs/guides/capture.md says what is in them."""

import json
import os
import tempfile
from typing import Any, Optional, Union

import torch

from perfpred._capture.recorder import CaptureError
from perfpred._tables import Path

_PRODUCTS = ("convolution", "mm", "addmm", "bmm", "baddbmm", "attention")
HALVES = {torch.bfloat16: "bf16", torch.float16: "fp16"}
TF32 = {
    "fp32": (False, False),
    "tf32": (True, True),
    "default": (True, False),
}  # in convolutions, in matrix products
SINGLE = (*TF32, "unknown")


def precision_of(dtype):
    """In which products of operands of a type compute: of float32 by what PyTorch is set to."""
    if dtype in HALVES:
        return HALVES[dtype]
    if dtype == torch.float64:
        return "fp64"
    allowed = (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32)
    return next((name for name, of_it in TF32.items() if of_it == allowed), "unknown")


def _precision(ops, tensors):
    """The precision in which most convolutions and matrix products compute."""
    counts: dict[torch.dtype, int] = {}
    for op in ops:
        if op["name"].partition("::")[2] in _PRODUCTS and op["inputs"]:
            dtype = tensors[op["inputs"][0]][1]
            counts[dtype] = counts.get(dtype, 0) + 1
    return precision_of(
        max(counts, key=lambda dtype: counts[dtype]) if counts else torch.float32
    )


def _kept(recorder, ops):
    """Operators, and the tensors and storages of which they or the program's state make use, numbered anew."""
    used = {
        i
        for op in ops
        for key in ("inputs", "outputs")
        for i in op[key]
        if i is not None
    }
    state = ("parameter", "buffer", "gradient", "optimizer_state")
    tensors = [
        i
        for i, t in enumerate(recorder.tensors)
        if i in used or recorder.storages[t[0]]["role"] in state
    ]
    storages = sorted({recorder.tensors[i][0] for i in tensors})
    new_tensor, new_storage = (
        {old: new for new, old in enumerate(old_ids)} for old_ids in (tensors, storages)
    )
    renumbered = []
    for op in ops:
        op = {
            **op,
            **{
                key: [None if i is None else new_tensor[i] for i in op[key]]
                for key in ("inputs", "outputs")
            },
        }
        frees = [new_storage[s] for s in op.pop("frees", ()) if s in new_storage]
        renumbered.append({**op, "frees": frees} if frees else op)
    kept = [
        (new_storage[s], *rest) for s, *rest in (recorder.tensors[i] for i in tensors)
    ]
    return renumbered, kept, [recorder.storages[s] for s in storages]


def _name_given(recorder, ops):
    """What was computed before the step is given to it."""
    written: set[int] = set()
    for op in ops:
        of = {
            key: {recorder.tensors[i][0] for i in op[key] if i is not None}
            for key in ("inputs", "outputs")
        }
        for storage in of["inputs"] - written:
            if recorder.storages[storage]["role"] in ("activation", "temporary"):
                recorder.storages[storage]["role"] = "input"
        written |= of["outputs"]


def _samples(stated, found, batches):
    """Samples of a batch: as stated, unless the step divides what was stated among its batches."""
    if stated and found and batches > 1 and found * batches == stated:
        return found
    if not (stated or found):
        raise CaptureError(
            "the batch size is not known: no module was called with a tensor; name it (batch_size=...)"
        )
    return stated or found


def document(recorder, batch_size, hooks):
    """What the file says, as a dictionary. batch_size: as somebody states it, or None."""
    if not recorder.ops:
        raise CaptureError("no operator was executed: there is no training step")
    if not any(op["phase"] == "backward" for op in recorder.ops):
        raise CaptureError("no backward pass was executed: there is no training step")
    folded = hooks.accumulated.folded(recorder.ops)
    ops, tensors, storages = recorder.ops, recorder.tensors, recorder.storages
    if folded is None and hooks.begin > 0:
        _name_given(recorder, ops[hooks.begin :])
    if folded is not None or hooks.begin > 0:
        ops, tensors, storages = _kept(
            recorder, ops[hooks.begin :] if folded is None else folded
        )
    batches = (
        {"accumulate": hooks.accumulated.count}
        if folded is not None
        else {"batches": hooks.batches}
    )
    precision = _precision(ops, tensors)
    batch_size = _samples(
        batch_size,
        hooks.samples(tell=not batch_size),
        next(iter(batches.values())),
    )
    tensors = [
        {
            "sizes": list(sizes),
            "strides": list(strides),
            "dtype": str(dtype).partition(".")[2],
            "storage": storage,
            "role": storages[storage]["role"],
        }
        for storage, dtype, sizes, strides in tensors
    ]
    return {
        "format": 1,
        "torch": torch.__version__,
        "precision": precision,
        "batch_size": batch_size,
        **{key: count for key, count in batches.items() if count > 1},
        **({"compiled": True} if recorder.compiled else {}),
        **({"notes": recorder.remarks} if recorder.remarks else {}),
        "layers": recorder.layers,
        "values": recorder.values,
        "storages": [{"bytes": s["bytes"]} for s in storages],
        "tensors": tensors,
        "ops": ops,
    }


def check_writable(path):
    """Raises OSError if there can be no file of this name."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder")
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path}: the folder {folder} cannot be written")


def _lines(value):
    """A list, one element a line, so that people can read it and tools compare it."""
    if not value:
        return "[]"
    return (
        "[\n" + ",\n".join(json.dumps(v, separators=(",", ":")) for v in value) + "\n]"
    )


def write(path: Union[str, "os.PathLike[str]"], content: dict[str, Any]) -> None:
    """Writes a document; the file appears whole or not at all."""
    parts = []
    for key, value in content.items():
        long = key in ("values", "storages", "tensors", "ops")
        parts.append(
            f"{json.dumps(key)}: {_lines(value) if long else json.dumps(value)}"
        )
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(
        prefix=os.path.basename(path) + ".", dir=folder
    )
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("{" + ",\n".join(parts) + "}\n")
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read(path):
    """The document in a file. Raises CaptureError if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise CaptureError(f"{path}: is not a step file") from None
    if not isinstance(content, dict) or content.get("format") != 1:
        raise CaptureError(f"{path}: is not a step file of format 1")
    return content


def _growth(first, second, samples, what):
    growth = []
    for a, b in zip(first, second):
        if (b - a) % samples != 0:
            raise CaptureError(
                f"{what}: {first} and {second} do not grow by a whole number for each sample"
            )
        growth.append((b - a) // samples)
    return growth


def combine(
    first: Union[Path, dict[str, Any]],
    second: Union[Path, dict[str, Any]],
    path: Optional[Path] = None,
) -> dict[str, Any]:
    """Joins captures of one step at two batch sizes into one that answers for any batch size.

    first, second: step files, or what is in them. path: the file to write; default: the document is only returned.
    Raises CaptureError if the two are not the same step, or one is no step file; OSError if the file cannot be written.
    """
    a, b = (read(p) if not isinstance(p, dict) else p for p in (first, second))
    samples = b["batch_size"] - a["batch_size"]
    if samples == 0:
        raise CaptureError(f"both files have the batch size {a['batch_size']}")
    alone = (
        "; a batch of 1 needs fewer operators: take two sizes above 1"
        if 1 in (a["batch_size"], b["batch_size"])
        else ""
    )
    for i, (op, other) in enumerate(zip(a["ops"], b["ops"])):
        if any(
            op.get(key) != other.get(key)
            for key in ("name", "inputs", "outputs", "phase", "args")
        ):
            raise CaptureError(
                f"the steps differ from operator {i} on: {op['name']} and {other['name']}{alone}"
            )
    if len(a["ops"]) != len(b["ops"]) or len(a["tensors"]) != len(b["tensors"]):
        raise CaptureError(
            f"the steps differ: {len(a['ops'])} and {len(b['ops'])} operators{alone}"
        )
    joined = dict(a)
    joined["tensors"] = []
    for i, (tensor, other) in enumerate(zip(a["tensors"], b["tensors"])):
        if any(tensor[key] != other[key] for key in ("dtype", "storage", "role")):
            raise CaptureError(f"the steps differ in tensor {i}{alone}")
        tensor = dict(tensor)
        for key, grows in (("sizes", "growth"), ("strides", "stride_growth")):
            growth = _growth(tensor[key], other[key], samples, f"tensor {i}")
            if any(growth):
                tensor[grows] = growth
        joined["tensors"].append(tensor)
    if not any("growth" in tensor for tensor in joined["tensors"]):
        raise CaptureError(
            f"no tensor differs at batch sizes {a['batch_size']} and {b['batch_size']}: batches come neither from a "
            "DataLoader nor from {batch_size} in the script's arguments"
        )
    joined["ops"] = [
        {**op, "flops_growth": (other["flops"] - op["flops"]) / samples}
        if "flops" in op
        else op
        for op, other in zip(a["ops"], b["ops"])
    ]
    joined["other_batch_size"] = b["batch_size"]
    ordered = {
        key: joined[key]
        for key in a
        if key not in ("values", "storages", "tensors", "ops")
    }
    ordered["other_batch_size"] = b["batch_size"]
    for key in ("values", "storages", "tensors", "ops"):
        ordered[key] = joined[key]
    if path is not None:
        check_writable(path)
        write(path, ordered)
    return ordered
