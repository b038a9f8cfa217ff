# SPDX-License-Identifier: Apache-2.0
"""Predicts time, memory and price of training jobs before they run; records and measures steps of PyTorch.

    import perfpred
    print(perfpred.predict("resnet50", device="A100-80GB-PCIe", batch_size=64, precision="bf16"))

`capture` and `measure` need PyTorch, which is imported where they are used: `pip install "perfpred[capture]"`;
`predict_many` NumPy (`perfpred[arrays]`), `to_frame` pandas (`perfpred[frames]`).
"""

import importlib
from typing import TYPE_CHECKING, Any

from perfpred._answers import Answer, Answers, Plan
from perfpred._explanation import Explanation, Explanations
from perfpred._inspection import Inspection, Layer
from perfpred._library import Error, InputError, ModelError, library
from perfpred._model import (
    Model,
    add_graphs,
    add_op_rules,
    aggregate,
    devices,
    explain,
    fit,
    inspect,
    layouts,
    load,
    networks,
    observe,
    plan,
    predict,
)
from perfpred._values import Quantiles

if TYPE_CHECKING:
    from perfpred._capture.session import CaptureError, capture
    from perfpred._capture.step_file import combine
    from perfpred._measure.session import MeasureError, measure

    __version__: str

# What needs PyTorch, by the module that has it.
_OF_TORCH = {
    "CaptureError": "perfpred._capture.session",
    "MeasureError": "perfpred._measure.session",
    "capture": "perfpred._capture.session",
    "combine": "perfpred._capture.step_file",
    "measure": "perfpred._measure.session",
}

__all__ = [
    "Answer",
    "Answers",
    "CaptureError",
    "Error",
    "Explanation",
    "Explanations",
    "InputError",
    "Inspection",
    "Layer",
    "MeasureError",
    "Model",
    "ModelError",
    "Plan",
    "Quantiles",
    "add_graphs",
    "add_op_rules",
    "aggregate",
    "capture",
    "combine",
    "devices",
    "explain",
    "fit",
    "inspect",
    "layouts",
    "load",
    "measure",
    "networks",
    "observe",
    "plan",
    "predict",
]


def _made_when_asked_for(name: str) -> Any:
    """Loads the library, or imports PyTorch, no earlier than they are needed."""
    if name == "__version__":
        return library().perfpred_version().decode()
    if name not in _OF_TORCH:
        raise AttributeError(f"module 'perfpred' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_OF_TORCH[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f'perfpred.{name} needs PyTorch: pip install "perfpred[capture]"',
            name="torch",
        ) from error
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # a name that is not there is an error
    __getattr__ = _made_when_asked_for


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
