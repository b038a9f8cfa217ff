# SPDX-License-Identifier: Apache-2.0
"""What may be asked beside the fields of a workload, for those who check types."""

from collections.abc import Iterable, Mapping
from typing import Any, Callable, Literal, TypedDict, Union

from perfpred._fields import Prices, Span, Whole
from perfpred._tables import Path

__all__ = ["Kind", "Label", "Network", "PlanOptions"]

Kind = Literal["hybrid", "linear"]
Label = Literal["robust", "mean"]
Network = Union[Path, Callable[..., Any]]  # a name, a file or a torch.nn.Module


class PlanOptions(TypedDict, total=False):
    """Options of plan()."""

    min_acc: float
    value: Literal["acc", "thr", "value"]
    objective: Literal["sum", "best", "cover-depth", "cover-architecture"]
    confidence: float
    startup_sec: Span
    free_from_sec: Union[Span, Mapping[str, Span]]
    gpus: Whole
    devices: Iterable[str]
    price_per_hour: float
    prices: Prices
    time_limit_sec: Span
    pareto: bool
    ignore_memory: bool
    out: Path
    device_file: Path
