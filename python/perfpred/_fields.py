# SPDX-License-Identifier: Apache-2.0
"""What may be asked, by name: scripts/python_fields.py writes this file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, Protocol, SupportsIndex, TypedDict, Union

from perfpred._tables import Path

Whole = SupportsIndex  # integers, those of NumPy, too
Flag = Union[bool, SupportsIndex]
Shape = Union[str, SupportsIndex, Sequence[SupportsIndex]]
Prices = Union[Path, Mapping[str, float]]
Span = Union[float, str, timedelta]  # of time
OfOutput = Callable[[Any], Any]  # a function of what a module gives


class OptimizerOfTorch(Protocol):
    """An optimizer of torch.optim."""

    param_groups: Any


class Dtype(Protocol):
    """A type of torch: torch.bfloat16."""

    @property
    def is_floating_point(self) -> bool: ...


OfTorch = Union[OptimizerOfTorch, type[OptimizerOfTorch]]


# Fields of a workload, in the order of a key.
WORKLOAD: tuple[str, ...] = (
    "network",
    "depth",
    "base_filters",
    "batch_size",
    "input",
    "classes",
    "train_images",
    "optimizer",
    "precision",
    "layout",
    "cuda_graph",
    "device",
    "threads",
    "attention",
    "optimizer_impl",
    "weights",
    "adapter",
    "checkpoint",
    "accumulate",
    "compiled",
    "software",
    "loader",
    "loss",
    "padding",
    "phases",
    "parallel",
    "gpus_per_node",
    "cluster",
)

# Those that are numbers.
NUMBERS: tuple[str, ...] = (
    "depth",
    "base_filters",
    "batch_size",
    "classes",
    "train_images",
    "cuda_graph",
    "threads",
    "accumulate",
    "compiled",
)

# A list of numbers is one value.
SHAPES: tuple[str, ...] = ("input",)

# A list is one value.
LISTS: tuple[str, ...] = ("lengths", "quantiles")

# Words of fields that have no other values.
WORDS: dict[str, tuple[str, ...]] = {
    "optimizer": (
        "none",
        "sgd",
        "nesterov",
        "adam",
        "adamw",
        "adagrad",
        "adadelta",
        "rmsprop",
        "adam8bit",
        "adamw8bit",
        "paged_adamw8bit",
        "adafactor",
        "lion",
        "muon",
        "lamb",
        "momentum",
    ),
    "precision": ("fp32", "tf32", "bf16", "fp16", "fp64", "unknown", "default"),
    "layout": ("nchw", "nhwc"),
    "attention": ("sdpa", "eager"),
    "optimizer_impl": ("fused", "foreach"),
    "weights": ("as_precision", "bf16", "fp16", "nf4", "int8", "int4"),
    "software": ("pytorch", "tensorflow", "xla", "mxnet", "paddle", "jax"),
    "loader": ("none", "included"),
    "loss": ("whole", "chunked"),
    "padding": ("packed", "padded", "max"),
    "phases": ("all", "forward"),
}

# What else a word is called; case and punctuation do not count.
OTHER_WORDS: dict[str, dict[str, str]] = {
    "optimizer": {
        "SGD": "sgd",
        "Adam": "adam",
        "AdamW": "adamw",
        "Adagrad": "adagrad",
        "Adadelta": "adadelta",
        "RMSprop": "rmsprop",
        "Adafactor": "adafactor",
        "Muon": "muon",
        "adamw_torch": "adamw",
        "adamw_torch_fused": "adamw",
        "adamw_8bit": "adamw8bit",
        "adamw_bnb_8bit": "adamw8bit",
        "paged_adamw_8bit": "paged_adamw8bit",
        "lion_32bit": "lion",
    },
    "precision": {
        "amp": "fp16",
        "mixed": "fp16",
        "half": "fp16",
        "float16": "fp16",
        "amp_fp16": "fp16",
        "16-mixed": "fp16",
        "bfloat16": "bf16",
        "amp_bf16": "bf16",
        "bf16-mixed": "bf16",
        "float32": "fp32",
        "single": "fp32",
        "float": "fp32",
        "tensorfloat32": "tf32",
        "float64": "fp64",
        "double": "fp64",
    },
}

Optimizer = Literal[
    "none",
    "sgd",
    "nesterov",
    "adam",
    "adamw",
    "adagrad",
    "adadelta",
    "rmsprop",
    "adam8bit",
    "adamw8bit",
    "paged_adamw8bit",
    "adafactor",
    "lion",
    "muon",
    "lamb",
    "momentum",
    "SGD",
    "Adam",
    "AdamW",
    "Adagrad",
    "Adadelta",
    "RMSprop",
    "Adafactor",
    "Muon",
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_8bit",
    "adamw_bnb_8bit",
    "paged_adamw_8bit",
    "lion_32bit",
]
Precision = Literal[
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "fp64",
    "unknown",
    "default",
    "amp",
    "mixed",
    "half",
    "float16",
    "amp_fp16",
    "16-mixed",
    "bfloat16",
    "amp_bf16",
    "bf16-mixed",
    "float32",
    "single",
    "float",
    "tensorfloat32",
    "float64",
    "double",
]
Layout = Literal["nchw", "nhwc"]
Attention = Literal["sdpa", "eager"]
OptimizerImpl = Literal["fused", "foreach"]
Weights = Literal["as_precision", "bf16", "fp16", "nf4", "int8", "int4"]
Checkpoint = Literal["none", "all", "selective", "op"]
Software = Literal["pytorch", "tensorflow", "xla", "mxnet", "paddle", "jax"]
Loader = Literal["none", "included"]
Loss = Literal["whole", "chunked"]
Padding = Literal["packed", "padded", "max"]
Phases = Literal["all", "forward"]


class MeasuredFields(TypedDict, total=False):
    """What may be said to measure() beside its own arguments."""

    depth: Whole
    base_filters: Whole
    input: Shape
    classes: Whole
    optimizer: Optimizer
    precision: Precision
    layout: Layout
    attention: Attention
    optimizer_impl: OptimizerImpl
    weights: Weights
    adapter: str
    checkpoint: Union[Checkpoint, Whole]
    accumulate: Whole
    compiled: Flag
    software: Software
    loader: Loader
    loss: Loss
    padding: Padding
    phases: Phases
    parallel: str
    cluster: str


class WorkloadFields(TypedDict, total=False):
    """The fields of a workload (docs/formats.md)."""

    depth: Whole
    """Blocks of cifar_cnn."""
    base_filters: Whole
    """Channels of its first block."""
    batch_size: Whole
    """Images (or sequences) a step."""
    input: Shape
    """One sample, as 3x32x32, or a sequence length."""
    classes: Whole
    """Classes."""
    train_images: Whole
    """Images (or sequences) an epoch."""
    optimizer: Union[Optimizer, OfTorch]
    """None, sgd, nesterov, adam, ... (default adam)."""
    precision: Union[Precision, Dtype]
    """Fp32, tf32, default, bf16, fp16 or fp64 (default fp32)."""
    layout: Layout
    """Nchw or nhwc (default nchw)."""
    cuda_graph: Flag
    """0 or 1 (default 0)."""
    device: str
    """Name of the device."""
    threads: Whole
    """CPU threads."""
    attention: Attention
    """Of transformers: sdpa (PyTorch's fused kernels) or eager (written out)
    (default sdpa)."""
    optimizer_impl: OptimizerImpl
    """Fused (one kernel for the update) or foreach (PyTorch's default: one for each
    operation) (default fused)."""
    weights: Weights
    """Type of the parameters: as_precision, bf16, fp16 (with gradients and states),
    or packed and frozen: nf4, int8, int4 (default as_precision)."""
    adapter: str
    """Trained in place of the network: lora:r=16,targets=attention (or all, q+v),
    dora, adalora, ia3, adapter."""
    checkpoint: Union[Checkpoint, Whole]
    """What the backward pass computes anew: none, all, every k-th block as a number,
    selective (the attention), or op (all but every second product and fused
    attention, as torchtitan's) (default none)."""
    accumulate: Whole
    """Batches whose gradients one update uses (default 1)."""
    compiled: Flag
    """1: by torch.compile (default 0)."""
    software: Software
    """Pytorch, tensorflow, xla, mxnet, paddle or jax (default pytorch)."""
    loader: Loader
    """Included: the step's time has that of loading its samples (default none)."""
    loss: Union[Loss, OfOutput]
    """Of language models: whole, or chunked (some positions at a time) (default
    whole)."""
    padding: Padding
    """Packed, or masked: padded (to a batch's longest), max (to one) (default
    packed)."""
    phases: Phases
    """All (training) or forward (a pass in evaluation mode) (default all)."""
    parallel: str
    """How devices share it: ddp, fsdp, zero1, zero2, zero3, tp=2,pp=4,sp=1, or
    joined by + (default ddp)."""
    gpus_per_node: str
    """Devices on each node: 8, 1+3, or 8x32 for 32 nodes of 8 (default 1)."""
    cluster: str
    """Name in the table of links; without one: the device's usual node."""


class SharedFields(WorkloadFields, total=False):
    """Those that all jobs of predict_many() share."""

    network: str
    """Of the zoo, or cifar_cnn, transformer:..., lstm:...."""
    config: Path
    """A config.json of Hugging Face's transformers."""
    step: Path
    """A step file, which perfpred.capture writes."""


class Job(WorkloadFields, total=False):
    """A job, with its terms."""

    config: Path
    """A config.json of Hugging Face's transformers."""
    step: Path
    """A step file, which perfpred.capture writes."""
    epochs: float
    """Epochs of the job (default 1)."""
    max_steps: Whole
    """Updates of the job, in place of epochs."""
    startup_sec: Span
    """Before the first epoch (default 0)."""
    evaluation: Whole
    """Samples that the network is judged on after each epoch (default 0)."""
    checkpoint_sec: Span
    """To write the network to the disk once (default 0)."""
    checkpoint_every: float
    """Epochs from one writing to the next (default 1)."""
    price_per_hour: float
    """Of the device."""
    budget_sec: Span
    """In which epochs_in_budget are trained."""
    train_tokens: Whole
    """Tokens an epoch, in place of train_images."""
    group_by_length: Flag
    """1: texts of alike lengths come together in a batch (default 0)."""
    reserved_by_others: Union[Whole, str]
    """Of the device's memory that other programs hold, as 1500MB or 2GiB (default
    0)."""
    fit_advice: Flag
    """0: without advice and the largest batch, which take most of the time (default
    1)."""
    lengths: Union[Path, Sequence[Whole]]
    """Of the texts of an epoch: a list, a file with one a line, or mean=,p95=,max=."""
    prices: Prices
    """Per hour by device, or a prices.csv; for jobs without price_per_hour."""
    quantiles: Union[float, Sequence[float]]
    """Probabilities with which a step and the job take no longer than the seconds
    asked for."""


class SweepOnAll(TypedDict, total=False):
    """Jobs on all GPUs: each field has one value or several."""

    depth: Union[Whole, Iterable[Whole]]
    base_filters: Union[Whole, Iterable[Whole]]
    batch_size: Union[Whole, Iterable[Whole]]
    input: Union[Shape, Iterable[Shape]]
    classes: Union[Whole, Iterable[Whole]]
    train_images: Union[Whole, Iterable[Whole]]
    optimizer: Union[Optimizer, OfTorch, Iterable[Union[Optimizer, OfTorch]]]
    precision: Union[Precision, Dtype, Iterable[Union[Precision, Dtype]]]
    layout: Union[Layout, Iterable[Layout]]
    cuda_graph: Union[Flag, Iterable[Flag]]
    threads: Union[Whole, Iterable[Whole]]
    attention: Union[Attention, Iterable[Attention]]
    optimizer_impl: Union[OptimizerImpl, Iterable[OptimizerImpl]]
    weights: Union[Weights, Iterable[Weights]]
    adapter: Union[str, Iterable[str]]
    checkpoint: Union[Checkpoint, Whole, Iterable[Union[Checkpoint, Whole]]]
    accumulate: Union[Whole, Iterable[Whole]]
    compiled: Union[Flag, Iterable[Flag]]
    software: Union[Software, Iterable[Software]]
    loader: Union[Loader, Iterable[Loader]]
    loss: Union[Loss, OfOutput, Iterable[Union[Loss, OfOutput]]]
    padding: Union[Padding, Iterable[Padding]]
    phases: Union[Phases, Iterable[Phases]]
    parallel: Union[str, Iterable[str]]
    gpus_per_node: Union[str, Iterable[str]]
    cluster: Union[str, Iterable[str]]
    config: Union[Path, Iterable[Path]]
    step: Union[Path, Iterable[Path]]
    epochs: Union[float, Iterable[float]]
    max_steps: Union[Whole, Iterable[Whole]]
    startup_sec: Union[Span, Iterable[Span]]
    evaluation: Union[Whole, Iterable[Whole]]
    checkpoint_sec: Union[Span, Iterable[Span]]
    checkpoint_every: Union[float, Iterable[float]]
    price_per_hour: Union[float, Iterable[float]]
    budget_sec: Union[Span, Iterable[Span]]
    train_tokens: Union[Whole, Iterable[Whole]]
    group_by_length: Union[Flag, Iterable[Flag]]
    reserved_by_others: Union[Whole, str, Iterable[Union[Whole, str]]]
    fit_advice: Flag
    lengths: Union[Path, Sequence[Whole]]
    prices: Prices
    quantiles: Union[float, Sequence[float]]


class Sweep(SweepOnAll, total=False):
    """Jobs: each field has one value or several."""

    device: Union[str, Iterable[str]]
