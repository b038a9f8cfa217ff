# SPDX-License-Identifier: Apache-2.0
"""What a model answers, as objects that print well."""

from typing import Any, Dict, Iterator, List, Optional, Sequence, Union, overload

from perfpred._values import Quantiles, duration, gigabytes, table

__all__ = ["Answer", "Answers", "Plan"]

_QUANTILES = {"p05", "p50", "p95"}
_VERDICTS = {"fits": "fits", "only_just": "may or may not fit", "does_not_fit": "does not fit"}


def _frame(rows: List[Dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_frame() needs pandas: pip install pandas") from error
    return pandas.DataFrame(rows)


_NAMING = ("network", "depth", "base_filters", "batch_size", "precision", "device", "threads")


def _fields_of(key: str) -> Dict[str, str]:
    """The fields of a workload's key."""
    return dict(field.split("=", 1) for field in key.split(";"))


def _label(fields: Dict[str, str], names: Sequence[str]) -> str:
    """`resnet50 batch_size=64 precision=bf16`, of those that are not empty."""
    shown = (fields[name] if name == "network" else f"{name}={fields[name]}" for name in names if fields.get(name))
    return " ".join(shown)


class Answer:
    """What is expected of one training job.

    Attributes are the keys of `perfpred-predict --json` (docs/formats.md); what is not known is None.
    """

    key: str  #: the workload, every field of it
    assumed: Optional[Dict[str, str]]  #: fields that the answer rests on and that nobody stated
    left_out: Optional[List[str]]  #: what the answer does not hold, a line each
    step_sec: Quantiles  #: seconds of one training step
    time_sec: Optional[Quantiles]  #: seconds of an epoch; None where nobody stated its samples
    total_sec: Optional[Quantiles]  #: seconds of all epochs with the start-up; None as time_sec
    images_per_sec: Quantiles  #: samples a second
    tokens_per_sec: Optional[Quantiles]  #: of networks of sequences
    price: Optional[Quantiles]  #: of the total, in the currency of the price per hour
    currency: str = ""  #: of the price, where prices have one
    epochs_in_budget: Optional[Quantiles] = None  #: whole epochs, where a budget is given
    quantiles: List[Dict[str, float]] = []  #: those asked for: q, step_sec, total_sec
    memory_bytes: Optional[int]  #: peak of the job on the device, expected
    memory: Optional[Dict[str, Any]]  #: bytes of tensors, reserved and on the device, with upper bounds
    largest_batch: Optional[int]  #: that fits
    verdict: Optional[str]  #: "fits", "only_just" or "does_not_fit"
    fits: Optional[bool]  #: whether the verdict is "fits"
    fit_advice: List[Dict[str, Any]]  #: what would take less memory
    mfu: Optional[float]  #: share of the device's peak FLOP/s
    bound: Optional[str]  #: what limits a step: "compute", "memory", "launch" or "data"
    breakdown: Optional[List[Dict[str, Any]]]  #: where the time goes: op, sec (of an epoch, else of a step), share
    provenance: str  #: what the answer rests on: "runs", "probe", "family", "other_family" or "bytes"
    in_domain: bool  #: False for an extrapolation
    reason: str  #: why it is one
    unknown_bytes: float  #: share of the bytes that unknown operators move
    scaling: Optional[Dict[str, Any]]
    narrow_by: Optional[List[str]]  #: fields that would narrow the interval most
    narrow_to: Optional[List[float]]  #: of each of them: p95 / p05 then
    error: str = ""  #: of a sweep's row without an answer: why; everything else of it is None

    def __init__(self, document: Dict[str, Any], fields: Optional[Dict[str, Any]] = None) -> None:
        self._document = document
        self._fields = fields or {}
        if "error" in document:
            self.__dict__.update(dict.fromkeys(Answer.__annotations__))
        for name, value in document.items():
            is_quantiles = isinstance(value, dict) and value.keys() == _QUANTILES
            setattr(self, name, Quantiles(**value) if is_quantiles else value)

    def to_dict(self) -> Dict[str, Any]:
        """The document of `perfpred-predict --json`."""
        return self._document

    def row(self) -> Dict[str, Any]:
        """The answer without lists, one value a name: `time_sec_p50`. A sweep's fields come first."""
        flat: Dict[str, Any] = dict(self._fields)
        for name, value in self._document.items():
            if isinstance(value, dict) and value.keys() == _QUANTILES:
                flat.update({f"{name}_{quantile}": one for quantile, one in value.items()})
            elif not isinstance(value, (dict, list)):
                flat[name] = value
        for one in self.quantiles or []:
            flat.update({f"{name}_q{one['q']}": one[name] for name in ("step_sec", "total_sec")})
        return {**flat, "error": self.error}

    def to_frame(self) -> Any:
        """row() as a DataFrame of pandas with one row."""
        return _frame([self.row()])

    def __repr__(self) -> str:
        if self.error:
            return f"no answer: {self.error}"
        rows = []
        for name, q, unit in (
            ("step", self.step_sec, "s"),
            ("epoch", self.time_sec, "s"),
            ("total", self.total_sec, ""),
            ("throughput", self.images_per_sec, "samples/s"),
            ("", self.tokens_per_sec, "tokens/s"),
            ("price", self.price, self._document.get("currency", "")),
        ):
            if q is not None:
                texts = [duration(one) if name == "total" else f"{one:.4g}" for one in q]
                rows.append([name, texts[1], unit, f"{texts[0]} .. {texts[2]}"])
        for one in self.quantiles:
            sec, of = (one["step_sec"], "a step") if one["total_sec"] is None else (one["total_sec"], "the job")
            rows.append([f"{100 * one['q']:g} % below", duration(sec), "", f"for {of}"])
        if self.epochs_in_budget is not None:
            p05, p50, p95 = (f"{epochs:.0f}" for epochs in self.epochs_in_budget)
            rows.append(["budget", p50, "epochs", f"{p05} .. {p95}"])
        rows += self._shown_limits()
        lines = [_label(_fields_of(self.key), _NAMING)]
        lines += _remarks([self])
        lines.append(table(["", "expected", "", "90 %"], rows))
        outside = "" if self.in_domain else f"; outside what was measured: {self.reason}"
        lines.append(f"rests on: {self.provenance}{outside}")
        if self.unknown_bytes > 0:
            lines.append(f"unknown operators move {100 * self.unknown_bytes:.1f} % of the bytes")
        now = self.step_sec.p95 / self.step_sec.p05
        for field, ratio in zip(self.narrow_by or [], self.narrow_to or []):
            lines.append(f"say {field}= and the interval is narrower: p95 / p05 {ratio:.2f}, not {now:.2f}")
        return "\n".join([*lines, *self._shown_advice()])

    def _shown_limits(self) -> List[List[str]]:
        """Rows of memory and of what limits a step."""
        rows = []
        if self.memory_bytes is not None:
            memory = self.memory or {}
            below = f"95 %: below {gigabytes(memory['device']['upper'])}" if memory.get("device") else ""
            of = f"of {gigabytes(memory['usable'])} GB" if memory.get("usable") is not None else ""
            verdict = _VERDICTS.get(self.verdict or "", "")
            rows.append(["memory", gigabytes(self.memory_bytes), "GB", ", ".join(filter(None, (below, of, verdict)))])
        if self.largest_batch is not None:
            rows.append(["largest batch", str(self.largest_batch), "", ""])
        if self.bound is not None:
            rows.append(["bound by", self.bound, "", ""])
        if self.mfu is not None:
            rows.append(["utilisation", f"{100 * self.mfu:.1f}", "%", "of the peak FLOP/s"])
        return rows

    def _shown_advice(self) -> List[str]:
        if not self.fit_advice:
            return []
        rows = [
            [one["change"], f"{gigabytes(one['memory_bytes'])} GB", f"{one['time_factor']:.2f} x the time"]
            + ([""] if one["verdict"] == "does_not_fit" else [_VERDICTS[one["verdict"]]])
            for one in self.fit_advice
        ]
        return [table(["what would take less, or has more", "", "", ""], rows)]


def _remarks(answers: Sequence[Answer]) -> List[str]:
    """What nobody stated, in a line, and what answers do not hold, a line each."""
    assumed = [f"{name}={value}" for one in answers for name, value in (one.assumed or {}).items()]
    lines = [f"assumed: {', '.join(dict.fromkeys(assumed))}"] if assumed else []
    left_out = dict.fromkeys(line for one in answers for line in one.left_out or [])
    return [*lines, *(f"left out: {line}" for line in left_out)]


class Answers(Sequence[Answer]):
    """The answers of a sweep, in the order of its values; one that cannot be has its `error`."""

    def __init__(self, answers: List[Answer]) -> None:
        self._answers = answers

    @overload
    def __getitem__(self, index: int) -> Answer: ...

    @overload
    def __getitem__(self, index: slice) -> "Answers": ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Answer, "Answers"]:
        return Answers(self._answers[index]) if isinstance(index, slice) else self._answers[index]

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def to_dict(self) -> List[Dict[str, Any]]:
        return [answer.to_dict() for answer in self]

    def to_frame(self) -> Any:
        """A DataFrame of pandas: a row for each answer, the swept fields first, quantiles as `time_sec_p50`, and `error`."""
        return _frame([answer.row() for answer in self])

    def __repr__(self) -> str:
        fields = list(self._answers[0]._fields) if self._answers else []
        given = [one for one in self if not one.error]
        of_epochs = all(one.time_sec for one in given)
        extra = [n for n in ("price", "epochs_in_budget") if any(getattr(one, n) is not None for one in given)]
        rows = []
        for one in self:
            swept = [str(one._fields[f]) for f in fields]
            if one.error:
                rows.append([*swept, *[""] * (4 + len(extra)), "no answer", one.error])
                continue
            q = one.time_sec if of_epochs and one.time_sec else one.step_sec
            of_job = [getattr(one, name) for name in extra]
            rows.append(
                [*swept, f"{q.p50:.4g}", f"{q.p05:.4g} .. {q.p95:.4g}", f"{one.images_per_sec.p50:.4g}"]
                + ["" if value is None else f"{value.p50:.4g}" for value in of_job]
                + [gigabytes(one.memory_bytes), _VERDICTS.get(one.verdict or "", ""), one.reason]
            )
        head = [*fields, "epoch s" if of_epochs else "step s", "90 %", "samples/s"]
        head += [name.partition("_")[0] for name in extra]
        return "\n".join([table([*head, "memory GB", "verdict", "outside"], rows), *_remarks(self)])


class Plan:
    """Which runs to do in a budget.

    Attributes are the keys of `perfpred-plan --json`: optimal, n, candidates, cost_sec, budget_sec, devices, value,
    upper_bound, items, marginal, missed, pareto, left_out, price.
    """

    optimal: bool  #: whether nothing better exists
    n: int  #: planned runs
    candidates: int
    cost_sec: int  #: of all devices together
    budget_sec: Union[int, Dict[str, int]]  #: of each device; by device where they differ
    devices: List[str]  #: names by device_index, a repeated one with its number
    value: float  #: sum over the planned runs, by the objective
    upper_bound: float  #: no plan is worth more
    #: The runs: key, id, fields (that candidates differ in), device, device_index, start_sec, end_sec, cost_sec, verdict,
    #: ...
    items: List[Dict[str, Any]]
    marginal: List[Dict[str, Any]]  #: what more time would be worth
    missed: List[Dict[str, Any]]  #: what was left out by the least
    pareto: List[Dict[str, Any]]
    left_out: List[Dict[str, Any]]  #: rows that cannot run, on a `device` or on any, and why
    price: Optional[float]  #: of all planned runs
    currency: str = ""  #: of the price, where prices have one

    def __init__(self, document: Dict[str, Any]) -> None:
        self._document = document
        self.__dict__.update(document)

    def to_dict(self) -> Dict[str, Any]:
        """The document of `perfpred-plan --json`."""
        return self._document

    def to_frame(self) -> Any:
        """The planned runs as a DataFrame of pandas: network, precision, other fields that candidates differ in, then the
        keys of an item."""
        rows = []
        for item in self.items:
            fields = _fields_of(item["key"])
            differ = {name: value for name, value in item["fields"].items() if name not in item}
            plain = {name: value for name, value in item.items() if name != "fields"}
            rows.append({"network": fields["network"], "precision": fields["precision"], **differ, **plain})
        return _frame(rows)

    def __repr__(self) -> str:
        proof = "optimal" if self.optimal else f"at most {self.upper_bound:.6g} is possible"
        budgets = list(self.budget_sec.values()) if isinstance(self.budget_sec, dict) else [self.budget_sec]
        budget = " + ".join(duration(one) for one in budgets)
        head = f"{self.n} of {self.candidates} runs, {duration(self.cost_sec)} of {budget}, "
        if self.price is not None:
            head += f"for {self.price:.2f} {self.currency}".rstrip() + ", "
        keys = [_fields_of(run["key"]) for run in self.items]
        differ = ["network", *(n for n in (self.items[0]["fields"] if keys else {}) if n not in ("network", "device"))]
        names = [self.devices[run["device_index"]] or run["device"] for run in self.items]
        rows = [
            [_label(key, differ), name, str(run["start_sec"]), str(run["cost_sec"]), f"{run['value']:.6g}"]
            for key, name, run in zip(keys, names, self.items)
        ]
        runs = table(["run", "device", "start s", "cost s", "value"], rows)
        text = f"{head}value {self.value:.6g} ({proof})\n{runs}"
        if self.left_out:
            first = self.left_out[0]
            text += f"\n{len(self.left_out)} left out; the first: {first['key']}: {first['reason']}"
        return text
