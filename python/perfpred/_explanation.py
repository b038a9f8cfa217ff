# SPDX-License-Identifier: Apache-2.0
"""Why measured steps do not take the expected time, as objects that print well."""

import dataclasses
import json
from typing import Any, Optional

from perfpred._library import text_of
from perfpred._values import Quantiles

__all__ = ["Explanation", "Explanations"]


def _shown(document: Any) -> str:
    return text_of("explanation_text", json.dumps(document).encode()).rstrip("\n")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """A measured step beside the expected one: the keys of `perfpred-explain --json` (docs/formats.md)."""

    key: str
    """The workload, every field of it."""
    measured_sec: Optional[float]
    """Of a step, on average."""
    expected_sec: Optional[Quantiles]
    """Seconds of a step."""
    ratio: Optional[float]
    """Measured over expected."""
    finding: Optional[str]
    """"within" the 90 % interval, "above" or "below" it."""
    difference_sec: Optional[float]
    """Measured less expected: what the seconds of `causes` add up to."""
    causes: list[dict[str, Any]]
    """cause, sec (None: not measured in time), share (of the difference) and evidence of each."""
    to_measure: list[str]
    """What would tell more, a line each."""
    error: str = ""
    """Of a run without an answer: why."""
    _document: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def _of(cls, document: dict[str, Any]) -> "Explanation":
        expected = document.get("expected_sec")
        return cls(
            document["key"],
            document.get("measured_sec"),
            expected and Quantiles(**expected),
            document.get("ratio"),
            document.get("finding"),
            document.get("difference_sec"),
            document.get("causes", []),
            document.get("to_measure", []),
            document.get("error", ""),
            document,
        )

    def to_dict(self) -> dict[str, Any]:
        """The document of `perfpred-explain --json`."""
        return self._document

    def __repr__(self) -> str:
        """What `perfpred-explain` prints."""
        return f"no explanation: {self.error}" if self.error else _shown(self._document)


class Explanations(list[Explanation]):
    """Those of several runs, in their order; one that cannot be has its `error`."""

    def to_dict(self) -> list[dict[str, Any]]:
        return [one.to_dict() for one in self]

    def __repr__(self) -> str:
        return _shown(self.to_dict())
