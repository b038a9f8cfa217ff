# SPDX-License-Identifier: Apache-2.0
"""What a model answers, as objects that print well."""

import dataclasses
import html
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, Union, overload

from perfpred._library import InputError, shown, text_of
from perfpred._values import Quantiles, duration, table

__all__ = ["Answer", "Answers", "Plan"]

_QUANTILES = {"p05", "p50", "p95"}


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_frame() needs pandas: pip install pandas") from error
    return pandas.DataFrame(rows)


def _is_quantiles(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == _QUANTILES


def _attributes(kind: Any, document: dict[str, Any]) -> dict[str, Any]:
    """The keys of a document that the class names, and None for those that the document lacks and that have no default."""
    named = [one for one in dataclasses.fields(kind) if not one.name.startswith("_")]
    needed = {
        one.name: None
        for one in named
        if one.default is one.default_factory is dataclasses.MISSING
    }
    given = {one.name: document[one.name] for one in named if one.name in document}
    return {
        **needed,
        **{
            name: Quantiles(**value) if _is_quantiles(value) else value
            for name, value in given.items()
        },
    }


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """What is expected of one training job.

    Attributes are the keys of `perfpred-predict --json` (docs/formats.md); what is not known is None.
    """

    key: str
    """The workload, every field of it."""
    assumed: Optional[dict[str, str]]
    """Fields that the answer rests on and that nobody stated."""
    left_out: Optional[list[str]]
    """What the answer does not hold, a line each."""
    batches_per_step: int
    """Whose gradients one update uses."""
    params: Optional[int]
    """That are trained."""
    flops: Optional[float]
    """Of a step, forward, backward and update; on several devices of a replica's."""
    step_sec: Quantiles
    """Seconds of one training step."""
    time_sec: Optional[Quantiles]
    """Seconds of an epoch; None where nobody stated its samples."""
    total_sec: Optional[Quantiles]
    """Seconds of all epochs with the start-up, evaluations and checkpoints; None as time_sec."""
    images_per_sec: Quantiles
    """Samples a second."""
    tokens_per_sec: Optional[Quantiles]
    """Of networks of sequences."""
    price: Optional[Quantiles]
    """Of the total, in the currency of the price per hour."""
    memory_bytes: Optional[int]
    """Peak of the job on the device, expected."""
    memory: Optional[dict[str, Any]]
    """Bytes of tensors, reserved and on the device, with upper bounds."""
    largest_batch: Optional[int]
    """That fits."""
    verdict: Optional[str]
    """"fits", "only_just" or "does_not_fit"."""
    fits: Optional[bool]
    """Whether the verdict is "fits"."""
    fit_advice: list[dict[str, Any]]
    """What would take less memory."""
    mfu: Optional[float]
    """Share of the device's peak FLOP/s."""
    bound: Optional[str]
    """What limits a step: "compute", "memory", "launch" or "data"."""
    breakdown: Optional[list[dict[str, Any]]]
    """Where the time goes: op, sec (of an epoch, else of a step), share."""
    provenance: str
    """What the answer rests on: "runs", "probe", "family", "other_family" or "bytes"."""
    in_domain: bool
    """False for an extrapolation."""
    reason: str
    """Why it is one."""
    unknown_bytes: float
    """Share of the bytes that unknown operators move."""
    scaling: Optional[dict[str, Any]]
    """Of a job on several devices: how far it is from perfect scaling, and why."""
    narrow_by: Optional[list[str]]
    """Fields that would narrow the interval most."""
    narrow_to: Optional[list[float]]
    """Of each of them: p95 / p05 then."""
    currency: str = ""
    """Of the price, where prices have one."""
    evaluation_sec: Optional[Quantiles] = None
    """Seconds of one evaluation, where the job has some."""
    epochs_in_budget: Optional[Quantiles] = None
    """Whole epochs, where a budget is given."""
    lengths: Optional[dict[str, Any]] = None
    """Of texts of several lengths: words of a batch, share of padding, what packing would save."""
    quantiles: list[dict[str, float]] = dataclasses.field(default_factory=list)
    """Those asked for: q, step_sec, total_sec."""
    error: str = ""
    """Of a sweep's row without an answer: why; everything else of it is None."""
    _document: dict[str, Any] = dataclasses.field(default_factory=dict)
    _fields: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def _of(
        cls, document: dict[str, Any], fields: Optional[dict[str, Any]] = None
    ) -> "Answer":
        """fields: the values that the answer has of a sweep."""
        attributes = _attributes(cls, document)
        if "error" in document:
            named = (
                one.name
                for one in dataclasses.fields(cls)
                if not one.name.startswith("_")
            )
            attributes = {**dict.fromkeys(named), **attributes}
        return cls(**attributes, _document=document, _fields=fields or {})

    @property
    def network(self) -> Optional[str]:
        """Its name; None where there is no answer."""
        return self._field("network")

    @property
    def device(self) -> Optional[str]:
        return self._field("device")

    @property
    def batch_size(self) -> Optional[int]:
        """Samples a step."""
        size = self._field("batch_size")
        return None if size is None else int(size)

    def _field(self, name: str) -> Optional[str]:
        return None if self.error else _fields_of(self.key)[name]

    def to_dict(self) -> dict[str, Any]:
        """The document of `perfpred-predict --json`."""
        return self._document

    def row(self) -> dict[str, Any]:
        """The answer without lists, one value a name: `time_sec_p50`. A sweep's fields come first, then network, device and
        batch_size."""
        job = {
            name: getattr(self, name) for name in ("network", "device", "batch_size")
        }
        flat: dict[str, Any] = {
            **self._fields,
            **{n: v for n, v in job.items() if n not in self._fields},
        }
        for name, value in self._document.items():
            if _is_quantiles(value):
                flat.update(
                    {f"{name}_{quantile}": one for quantile, one in value.items()}
                )
            elif not isinstance(value, (dict, list)):
                flat[name] = value
        for one in self.quantiles or []:
            flat.update(
                {f"{name}_q{one['q']}": one[name] for name in ("step_sec", "total_sec")}
            )
        return {**flat, "error": self.error}

    def to_frame(self) -> Any:
        """row() as a DataFrame of pandas with one row."""
        return _frame([self.row()])

    def __repr__(self) -> str:
        """What `perfpred-predict` prints."""
        return f"no answer: {self.error}" if self.error else _shown(self._document)

    def _repr_html_(self) -> str:
        """For notebooks: the same with the workload as a headline."""
        if self.error:
            return f"<p>{html.escape(repr(self))}</p>"
        head, _, text = repr(self).partition("\n")
        fields = [
            f"<b>{name}</b> {html.escape(value)}"
            for name, value in _fields_of(head).items()
            if value
        ]
        return f"<p>{', '.join(fields)}</p><pre>{html.escape(text)}</pre>"


def _shown(document: dict[str, Any]) -> str:
    return text_of("answer_text", json.dumps(document).encode()).rstrip("\n")


class Answers(Sequence[Answer]):
    """The answers of a sweep, in the order of its values; one that cannot be has its `error`."""

    def __init__(self, answers: list[Answer]) -> None:
        self._answers = answers

    @overload
    def __getitem__(self, index: int) -> Answer: ...

    @overload
    def __getitem__(self, index: slice) -> "Answers": ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Answer, "Answers"]:
        return (
            Answers(self._answers[index])
            if isinstance(index, slice)
            else self._answers[index]
        )

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def best(self, by: str = "time") -> Answer:
        """The answer with the least of a quantity, of those that may fit: the first of several.

        by: "time" (of the job; where no epoch is known, of a sample), "price" (of the job), or "memory" (its upper
        bound). Raises InputError for another word, and if no answer has the quantity.
        """
        if by not in _QUANTITIES:
            raise InputError(f"by {shown(by)} is not one of {', '.join(_QUANTITIES)}")
        quantity = _QUANTITIES[by]
        able = [one for one in self if not one.error and one.verdict != "does_not_fit"]
        if by == "time" and any(one.total_sec is None for one in able):
            quantity = _sec_of_a_sample
        known = [
            (value, i)
            for i, value in enumerate(map(quantity, able))
            if value is not None
        ]
        if not known:
            raise InputError(f"no answer that fits has a {by}")
        return able[min(known)[1]]

    def to_dict(self) -> list[dict[str, Any]]:
        return [answer.to_dict() for answer in self]

    def to_frame(self) -> Any:
        """A DataFrame of pandas: a row for each answer, the swept fields first, quantiles as `time_sec_p50`, and `error`."""
        return _frame([answer.row() for answer in self])

    def __repr__(self) -> str:
        """The table that `perfpred-predict --sweep` prints."""
        fields, values = self._asked()
        return _shown({"fields": fields, "values": values, "answers": self.to_dict()})

    def _asked(self) -> tuple[list[str], list[list[str]]]:
        """The swept fields, and their values of each answer."""
        fields = list(self._answers[0]._fields) if self._answers else []
        return fields, [[str(one._fields[name]) for name in fields] for one in self]

    def _repr_html_(self) -> str:
        """For notebooks: a table, with what is unknown left empty, and an error across its row."""
        fields, values = self._asked()
        columns = {name: [text(one) for one in self] for name, text in _COLUMNS.items()}
        columns = {name: texts for name, texts in columns.items() if any(texts)}
        head = "".join(f"<th>{html.escape(name)}</th>" for name in (*fields, *columns))
        rows = []
        for i, answer in enumerate(self):
            cells = [f"<td>{html.escape(value)}</td>" for value in values[i]]
            if answer.error:
                width = max(len(columns), 1)
                cells.append(
                    f'<td colspan="{width}" style="text-align: left">{html.escape(answer.error)}</td>'
                )
            else:
                cells += [
                    f"<td>{html.escape(texts[i])}</td>" for texts in columns.values()
                ]
            rows.append(f"<tr>{''.join(cells)}</tr>")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _sec_of_a_sample(answer: Answer) -> float:
    return 1 / answer.images_per_sec.p50


_QUANTITIES: dict[str, Callable[[Answer], Optional[float]]] = {
    "time": lambda answer: answer.total_sec and answer.total_sec.p50,
    "price": lambda answer: answer.price and answer.price.p50,
    "memory": lambda answer: (
        float(answer.memory["device"]["upper"]) if answer.memory else None
    ),
}


def _median(quantiles: Optional[Quantiles]) -> str:
    return "" if quantiles is None else f"{quantiles.p50:.4g}"


# What a notebook shows of answers, by heading; empty for answers that have it not.
_COLUMNS: dict[str, Callable[[Answer], str]] = {
    "step s": lambda answer: _median(answer.step_sec),
    "90 %": lambda answer: (
        ""
        if answer.error
        else f"{answer.step_sec.p05:.4g} .. {answer.step_sec.p95:.4g}"
    ),
    "samples/s": lambda answer: _median(answer.images_per_sec),
    "tokens/s": lambda answer: _median(answer.tokens_per_sec),
    "memory GB": lambda answer: (
        f"{answer.memory_bytes / 1e9:.2f}" if answer.memory_bytes else ""
    ),
    "verdict": lambda answer: (answer.verdict or "").replace("_", " "),
    "total": lambda answer: duration(answer.total_sec.p50) if answer.total_sec else "",
    "price": lambda answer: _median(answer.price),
    "rests on": lambda answer: answer.provenance or "",
    "outside": lambda answer: answer.reason or "",
}


def _fields_of(key: str) -> dict[str, str]:
    """The fields of a workload's key."""
    return dict(field.split("=", 1) for field in key.split(";"))


def _label(fields: dict[str, str], names: Sequence[str]) -> str:
    """`resnet50 batch_size=64 precision=bf16`, of those that are not empty."""
    shown = (
        fields[name] if name == "network" else f"{name}={fields[name]}"
        for name in names
        if fields.get(name)
    )
    return " ".join(shown)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Which runs to do in a budget. Attributes are the keys of `perfpred-plan --json`."""

    optimal: bool
    """Whether nothing better exists."""
    n: int
    """Planned runs."""
    candidates: int
    cost_sec: int
    """Of all devices together."""
    budget_sec: Union[int, dict[str, int]]
    """Of each device; by device where they differ."""
    devices: list[str]
    """Names by device_index, a repeated one with its number."""
    value: float
    """Sum over the planned runs, by the objective."""
    value_of: str
    """What a run's value is: "acc", "thr" or "value"."""
    upper_bound: float
    """No plan is worth more."""
    confidence: float
    """Probability with which the budget holds."""
    makespan_sec: int
    """When the last run ends."""
    makespan_lower_bound_sec: int
    """No plan of this value ends sooner."""
    makespan_optimal: bool
    """Whether that is proved of this plan."""
    items: list[dict[str, Any]]
    """The runs: key, id, fields (that candidates differ in), device, device_index, start_sec, end_sec, cost_sec, verdict,
    ..."""
    marginal: list[dict[str, Any]]
    """What more time would be worth."""
    missed: list[dict[str, Any]]
    """What was left out by the least."""
    pareto: list[dict[str, Any]]
    left_out: list[dict[str, Any]]
    """Rows that cannot run, on a `device` or on any, and why."""
    price: Optional[float]
    """Of all planned runs."""
    price_lower_bound: Optional[float]
    """No plan of this value that ends as soon is cheaper; None if nothing is known."""
    price_optimal: bool
    """Whether that is proved of this plan."""
    free_from_sec: list[int] = dataclasses.field(default_factory=list)
    """Of each device, where the option was given."""
    currency: str = ""
    """Of the price, where prices have one."""
    _document: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def _of(cls, document: dict[str, Any]) -> "Plan":
        return cls(**_attributes(cls, document), _document=document)

    def to_dict(self) -> dict[str, Any]:
        """The document of `perfpred-plan --json`."""
        return self._document

    def to_frame(self) -> Any:
        """The planned runs as a DataFrame of pandas: network, precision, other fields that candidates differ in, then the
        keys of an item, without what was assumed."""
        rows = []
        for item in self.items:
            fields = _fields_of(item["key"])
            differ = {
                name: value
                for name, value in item["fields"].items()
                if name not in item
            }
            plain = {
                name: value
                for name, value in item.items()
                if name not in ("fields", "assumed")
            }
            rows.append(
                {
                    "network": fields["network"],
                    "precision": fields["precision"],
                    **differ,
                    **plain,
                }
            )
        return _frame(rows)

    def __repr__(self) -> str:
        proof = (
            "optimal" if self.optimal else f"at most {self.upper_bound:.6g} is possible"
        )
        budgets = (
            list(self.budget_sec.values())
            if isinstance(self.budget_sec, dict)
            else [self.budget_sec]
        )
        budget = " + ".join(duration(one) for one in budgets)
        head = f"{self.n} of {self.candidates} runs, {duration(self.cost_sec)} of {budget}, "
        if self.price is not None:
            head += f"for {self.price:.2f} {self.currency}".rstrip() + ", "
        keys = [_fields_of(run["key"]) for run in self.items]
        differ = [
            "network",
            *(
                n
                for n in (self.items[0]["fields"] if keys else {})
                if n not in ("network", "device")
            ),
        ]
        names = [
            self.devices[run["device_index"]] or run["device"] for run in self.items
        ]
        rows = [
            [
                _label(key, differ),
                name,
                str(run["start_sec"]),
                str(run["end_sec"]),
                str(run["cost_sec"]),
                f"{run['value']:.6g}",
            ]
            for key, name, run in zip(keys, names, self.items)
        ]
        runs = table(["run", "device", "start s", "end s", "cost s", "value"], rows)
        text = f"{head}value {self.value:.6g} ({proof})\n{runs}"
        if self.left_out:
            first = self.left_out[0]
            text += f"\n{len(self.left_out)} left out; the first: {first['key']}: {first['reason']}"
        return text
