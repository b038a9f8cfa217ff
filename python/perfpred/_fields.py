# SPDX-License-Identifier: Apache-2.0
"""What may be asked, by name, for those who check types: `**fields` of predict() and of other functions."""

from typing import Any, Callable, Iterable, Literal, Mapping, Protocol, Sequence, SupportsIndex, TypedDict, TypeVar, Union

from perfpred._tables import Path

__all__ = ["Job", "Kind", "Label", "MeasuredFields", "Network", "PlanOptions", "SharedFields", "Sweep", "WorkloadFields"]

Kind = Literal["hybrid", "linear"]
Label = Literal["robust", "mean"]
Network = Union[Path, Callable[..., Any]]  # a name, a file or a torch.nn.Module

_T = TypeVar("_T")
_Many = Union[_T, Iterable[_T]]
_Whole = SupportsIndex  # integers, those of NumPy, too
_Flag = Union[bool, _Whole]
_Shape = Union[str, _Whole, Sequence[_Whole]]
_Loss = Union[str, Callable[[Any], Any]]
_Prices = Union[Path, Mapping[str, float]]
_Quantiles = Union[float, Sequence[float]]


class _OfTorch(Protocol):
    """An optimizer of torch.optim."""

    param_groups: Any


_Optimizer = Union[str, _OfTorch]


class _StepFields(TypedDict, total=False):
    depth: _Whole
    base_filters: _Whole
    input: _Shape
    classes: _Whole
    precision: str
    layout: str
    attention: str
    optimizer_impl: str
    weights: str
    adapter: str
    checkpoint: Union[str, _Whole]
    accumulate: _Whole
    compiled: _Flag
    software: str
    loader: str
    padding: str


class MeasuredFields(_StepFields, total=False):
    """What may be said to measure() beside its own arguments."""

    optimizer: str
    loss: str
    phases: str


class WorkloadFields(_StepFields, total=False):
    """The fields of a workload (docs/formats.md)."""

    batch_size: _Whole
    train_images: _Whole
    optimizer: _Optimizer
    cuda_graph: _Flag
    device: str
    threads: _Whole
    loss: _Loss
    phases: str


class SharedFields(WorkloadFields, total=False):
    """Those that all jobs of predict_many() share."""

    network: str
    config: Path
    step: Path


class Job(WorkloadFields, total=False):
    """A job, with its terms."""

    config: Path
    step: Path
    epochs: float
    startup_sec: float
    price_per_hour: float
    prices: _Prices
    budget_sec: Union[float, str]
    quantiles: _Quantiles
    train_tokens: _Whole
    reserved_by_others: _Whole
    fit_advice: bool


class Sweep(TypedDict, total=False):
    """Jobs: each field has one value or several."""

    depth: _Many[_Whole]
    base_filters: _Many[_Whole]
    batch_size: _Many[_Whole]
    input: Union[_Shape, Iterable[_Shape]]
    classes: _Many[_Whole]
    train_images: _Many[_Whole]
    optimizer: Union[_Optimizer, Iterable[str]]
    precision: _Many[str]
    layout: _Many[str]
    cuda_graph: _Many[_Flag]
    device: _Many[str]
    threads: _Many[_Whole]
    attention: _Many[str]
    optimizer_impl: _Many[str]
    weights: _Many[str]
    adapter: _Many[str]
    checkpoint: _Many[Union[str, _Whole]]
    accumulate: _Many[_Whole]
    compiled: _Many[_Flag]
    software: _Many[str]
    loader: _Many[str]
    loss: Union[_Loss, Iterable[str]]
    padding: _Many[str]
    phases: _Many[str]
    config: _Many[Path]
    step: _Many[Path]
    epochs: _Many[float]
    startup_sec: _Many[float]
    price_per_hour: _Many[float]
    prices: _Prices
    quantiles: _Quantiles
    budget_sec: _Many[Union[float, str]]
    train_tokens: _Many[_Whole]
    reserved_by_others: _Many[_Whole]
    fit_advice: bool


class PlanOptions(TypedDict, total=False):
    """Options of plan()."""

    min_acc: float
    value: Literal["acc", "thr", "value"]
    objective: Literal["sum", "best", "cover-depth", "cover-architecture"]
    confidence: float
    startup_sec: Union[float, str]
    gpus: _Whole
    devices: Iterable[str]
    price_per_hour: float
    prices: _Prices
    time_limit_sec: Union[float, str]
    pareto: bool
    ignore_memory: bool
    out: Path
    device_file: Path
