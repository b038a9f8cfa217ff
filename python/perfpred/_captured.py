# SPDX-License-Identifier: Apache-2.0
"""A network that is an object of PyTorch, as a step file."""

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any, Callable, Optional

from perfpred._library import InputError
from perfpred._values import word_of

_HALVES = {"bf16": "bfloat16", "fp16": "float16"}
_OPTIMIZERS = {
    "adam": "Adam",
    "adamw": "AdamW",
    "sgd": "SGD",
    "nesterov": "SGD",
    "momentum": "SGD",
    "adagrad": "Adagrad",
    "adadelta": "Adadelta",
    "rmsprop": "RMSprop",
    "adafactor": "Adafactor",
}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "momentum": {"momentum": 0.9},
}


def _made_optimizer(optimizer: Any, parameters: Any) -> Any:
    import torch

    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    if isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer):
        return optimizer(parameters, lr=1e-3)
    word = word_of("optimizer", optimizer) if isinstance(optimizer, str) else ""
    name = _OPTIMIZERS.get(word)
    if name is None:
        raise InputError(
            f"optimizer {optimizer!r} is none of {', '.join(_OPTIMIZERS)}, nor an optimizer of torch.optim"
        )
    return getattr(torch.optim, name)(parameters, lr=1e-3, **_ARGUMENTS.get(word, {}))


@contextlib.contextmanager
def _set_to(precision: Optional[str]) -> Iterator[None]:
    """PyTorch, set to one of the precisions of float32; to another one, or None, as it is."""
    import torch

    from perfpred._capture.step_file import TF32

    places = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [place.allow_tf32 for place in places]
    try:
        for place, allowed in zip(places, TF32.get(precision or "", before)):
            place.allow_tf32 = allowed
        yield
    finally:
        for place, allowed in zip(places, before):
            place.allow_tf32 = allowed


def _default_loss(output: Any) -> Any:
    """The loss that the network computes itself, else the mean of its first output."""
    loss = getattr(output, "loss", None)
    if loss is not None:
        return loss
    while not hasattr(output, "mean"):
        parts = output.values() if hasattr(output, "values") else output
        if not isinstance(parts, Iterable) or isinstance(parts, str):
            raise InputError(
                f"the module gives {type(output).__name__}: loss=... makes a number of it"
            )
        output = next(iter(parts), None)
    return output.float().mean()


def _loss(output: Any, given: Optional[Callable[[Any], Any]]) -> Any:
    """One number, which depends on what is trained."""
    import torch

    value = (given or _default_loss)(output)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        found = (
            f"a tensor of {list(value.shape)}"
            if isinstance(value, torch.Tensor)
            else type(value).__name__
        )
        raise InputError(f"the loss is {found}, not one number")
    if not value.requires_grad:
        raise InputError("the loss depends on no parameter that is trained")
    return value


def _of_size(value: Any, size: int) -> Any:
    """An example with another number of samples."""
    import torch

    if isinstance(value, torch.Tensor):
        rows = torch.arange(size, device=value.device) % value.shape[0]
        return value.detach()[rows] if value.dim() else value
    if isinstance(value, dict):
        return {name: _of_size(one, size) for name, one in value.items()}
    return (
        type(value)(_of_size(one, size) for one in value)
        if isinstance(value, (list, tuple))
        else value
    )


def _batch_of(value: Any) -> Optional[int]:
    import torch

    if isinstance(value, torch.Tensor):
        return int(value.shape[0]) if value.dim() else None
    if hasattr(value, "shape"):
        raise InputError(
            f"example: {type(value).__name__} is no tensor of PyTorch; torch.as_tensor() makes one"
        )
    parts = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, (list, tuple))
        else ()
    )
    return next((size for size in map(_batch_of, parts) if size is not None), None)


@functools.cache
def _kept() -> "tempfile.TemporaryDirectory[str]":
    """A folder for the step files of this process, which is removed as it ends: the library may read them until then."""
    return tempfile.TemporaryDirectory(prefix="perfpred-steps-")


def _kept_by_digits(path: str) -> str:
    with open(path, "rb") as file:
        kept = os.path.join(
            _kept().name, hashlib.sha256(file.read()).hexdigest()[:12] + ".json"
        )
    os.replace(path, kept)
    return kept


def exported_module(path: str) -> tuple[Any, Any]:
    """The module in a file of torch.export.save(), and the inputs that it was exported with: a tuple or, by name, a dict."""
    import torch

    if not os.path.exists(path):
        raise InputError(f"{path}: there is no such file")
    try:
        program = torch.export.load(path)
    except Exception as error:  # of many types, by what is wrong with the file
        lines = str(error).strip().splitlines()
        raise InputError(
            f"{path}: torch.export.load() does not read it: {lines[0] if lines else type(error).__name__}"
        ) from error
    args, kwargs = program.example_inputs or ((), {})
    if args and kwargs:
        raise InputError(
            f"{path}: takes inputs by place and by name: export it with one of both"
        )
    return program.module(), args or kwargs


def exported_step(
    path: str,
    example: Any,
    precision: Optional[str],
    optimizer: Any,
    loss: Optional[Callable[[Any], Any]],
) -> str:
    """captured_step() of the module in a file of torch.export.save(). example: default the file's own."""
    module, own = exported_module(path)
    note = (
        "the file states no loss: it is the output's .loss, or the mean of its first tensor"
        if loss is None
        else None
    )
    try:
        return captured_step(
            module,
            own if example is None else example,
            precision,
            optimizer,
            loss,
            note,
        )
    except AssertionError as error:  # of the guards that torch.export wrote
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f'{path}: {reason}: export it with dynamic_shapes=({{0: torch.export.Dim("batch")}},), so that batches may vary'
        ) from error


def captured_step(
    module: Any,
    example: Any,
    precision: Optional[str],
    optimizer: Any,
    loss: Optional[Callable[[Any], Any]],
    note: Optional[str] = None,
) -> str:
    """The step file of a training step of the module, for all batch sizes; it stays until the process ends.

    Nothing is computed and the module stays as it was (perfpred.capture). note: what who reads the file should know.
    """
    import torch

    from perfpred._capture.session import capture
    from perfpred._capture.step_file import combine, write

    if loss is not None and not callable(loss):
        raise InputError(
            f"loss: {type(loss).__name__} {loss!r} is not a function of the module's output"
        )
    size = _batch_of(example)
    if size is None:
        raise InputError("example: no tensor with a batch as its first size")
    precision = None if precision is None else word_of("precision", precision)
    size = max(size, 2)  # a batch of 1 executes fewer operators
    trained = [one for one in module.parameters() if one.requires_grad]
    if not trained:
        raise InputError("the module has no parameter to train")
    made = _made_optimizer(optimizer or "adam", trained)

    def step(inputs: Any) -> None:
        half = getattr(torch, _HALVES[precision]) if precision in _HALVES else None
        scaler = torch.amp.GradScaler(
            "cuda", enabled=precision == "fp16"
        )  # in a capture CUDA is there
        made.zero_grad()
        with torch.autocast("cuda", dtype=half) if half else contextlib.nullcontext():
            if isinstance(inputs, dict):
                output = module(**inputs)
            else:
                output = (
                    module(*inputs)
                    if isinstance(inputs, (list, tuple))
                    else module(inputs)
                )
            value = _loss(output, loss)
        scaler.scale(value).backward()
        scaler.step(made)
        scaler.update()

    with (
        tempfile.TemporaryDirectory(dir=_kept().name) as folder,
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        paths = []
        for batch in (size, 2 * size):
            inputs = _of_size(example, batch)
            paths.append(os.path.join(folder, f"at{batch}.json"))
            with _set_to(precision), capture(paths[-1], batch_size=batch):
                step(inputs)
        path = os.path.join(folder, "step.json")
        document = combine(paths[0], paths[1])
        if precision not in (None, document["precision"]):
            raise InputError(
                f"precision {precision!r} is given, but the module computes in {document['precision']}"
            )
        if note is not None:
            document["notes"] = [note, *document.get("notes", [])]
        write(path, document)
        return _kept_by_digits(path)
