# SPDX-License-Identifier: Apache-2.0
"""Models and what they are asked: the functions of the package."""

import contextlib
import ctypes
import functools
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Optional,
    Union,
    overload,
)

from perfpred._answers import Answer, Answers, Plan
from perfpred._explanation import Explanation, Explanations
from perfpred._fields import NUMBERS
from perfpred._inspection import Inspection
from perfpred._library import (
    Handle,
    InputError,
    call,
    encoded,
    encoded_path,
    json_of,
    text_of,
)
from perfpred._tables import (
    Path,
    Table,
    columns_of,
    is_path,
    numbers_of,
    table_file,
    texts_of,
    with_rows,
)
from perfpred._values import combinations, encoded_json, plain

if TYPE_CHECKING:
    import numpy
    import pandas
    from typing_extensions import Unpack

    from perfpred._fields import Job, SharedFields, Span, Sweep, SweepOnAll
    from perfpred._options import Kind, Label, Network, PlanOptions

__all__ = [
    "Model",
    "add_graphs",
    "add_op_rules",
    "aggregate",
    "devices",
    "explain",
    "fit",
    "inspect",
    "layouts",
    "load",
    "networks",
    "observe",
    "plan",
    "predict",
    "timeline",
    "trained_params",
]

_log = logging.getLogger("perfpred")

_OF_CAPTURE = ("precision", "optimizer")  # a captured module has them already
_QUANTILES = (0.05, 0.5, 0.95)
_STATUSES = ("ok", "failed", "wrong_input", "unstated")  # perfpred_status of c_api.h


def _catalogue(
    device_file: Optional[Path], links: Optional[Path] = None
) -> Optional[Handle]:
    if device_file is None and links is None:
        return None
    devices = encoded_path(device_file)
    if links is None:
        return Handle("catalogue", "catalogue_create", devices)
    known = encoded_path(links)
    return Handle("catalogue", "catalogue_create_with_links", devices, known)


def _value(handle: Optional[Handle]) -> Any:
    return None if handle is None else handle.value


def _is_step_file(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            content = json.load(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{path}: is not JSON") from error
    return isinstance(content, dict) and "ops" in content and "tensors" in content


def _network_fields(
    network: Any, example: Any, fields: dict[str, Any]
) -> dict[str, Any]:
    """The fields with the network: its name, a config.json, a step file, a file of torch.export, or a module of PyTorch
    with an example."""
    if network is None:
        return fields
    captured = {
        name: value
        for name, value in fields.items()
        if name not in (*_OF_CAPTURE, "loss")
    }
    how = [fields.get(name) for name in (*_OF_CAPTURE, "loss")]
    if isinstance(network, (str, os.PathLike)) and os.fspath(network).endswith(".pt2"):
        _refuse_lists(fields)
        from perfpred._captured import exported_step

        return {"step": exported_step(os.fspath(network), example, *how), **captured}
    if isinstance(network, (str, os.PathLike)):
        if example is not None:
            raise InputError(
                "example is given, but the network is not a torch.nn.Module"
            )
        text = os.fspath(network)
        if isinstance(network, str) and not text.endswith(".json"):
            return {"network": text, **fields}
        if not os.path.exists(text):
            raise InputError(f"{text}: there is no such file")
        return {"step" if _is_step_file(text) else "config": text, **fields}
    if not callable(network):  # of a sweep
        return {**_several(network), **fields}
    _refuse_lists(fields)
    if isinstance(network, type) or not hasattr(network, "parameters"):
        name = getattr(network, "__name__", type(network).__name__)
        raise InputError(
            f"{name} is neither the name of a network, nor a file, nor a torch.nn.Module"
        )
    if example is None:
        raise InputError(
            "example is missing: the tensors that the module takes, with a batch as their first size"
        )
    from perfpred._captured import captured_step

    return {"step": captured_step(network, example, *how), **captured}


def _several(networks: Any) -> dict[str, Any]:
    """The field of several networks: names, or files of one kind. Raises InputError for a mixture."""
    given = list(networks) if isinstance(networks, Iterable) else networks
    if not isinstance(given, list) or not any(map(_is_file, given)):
        return {"network": given}
    if not all(map(_is_file, given)):
        raise InputError("files are among names of networks: predict each kind alone")
    kinds = {_is_step_file(os.fspath(path)) for path in given}
    if len(kinds) > 1:
        raise InputError(
            "step files are among files config.json: predict each kind alone"
        )
    return {"step" if kinds.pop() else "config": given}


def _is_file(network: Any) -> bool:
    return is_path(network) and os.fspath(network).endswith(".json")


def _refuse_lists(fields: dict[str, Any]) -> None:
    for name in _OF_CAPTURE:
        if isinstance(fields.get(name), (list, tuple)):
            raise InputError(
                f"{name} is a list, but a module is captured with one: predict each"
            )


class Model:
    """Predicts seconds per epoch of training jobs. Any number of threads may use it at once."""

    def __init__(self, handle: Handle, table: Optional[Path] = None) -> None:
        self._handle = handle
        self._table = (
            table  # the file that a table in memory was written to, and that is gone
        )

    def close(self) -> None:
        """Gives its memory back; later calls raise InputError."""
        self._handle.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Processes of a pool get a model of the same text, without the rows of a device_file."""
        return _of_text, (text_of("model_text", self._handle.value),)

    def info(self) -> dict[str, Any]:
        """kind, rows (how many it has learnt from), their devices and networks, and dropped: key and reason of each row that
        it could not learn from."""
        found: dict[str, Any] = json_of("model_info", self._handle.value)
        if self._table is not None:
            for row in found["dropped"]:
                row["reason"] = with_rows(self._table, row["reason"])
        return found

    def __repr__(self) -> str:
        if not self._handle.close.alive:
            return "<perfpred.Model closed>"
        info = self.info()
        of = (
            f"{info['rows']} rows of {', '.join(info['devices'])}"
            if info["rows"]
            else "no runs"
        )
        return f"<perfpred.Model {info['kind']}: {of}>"

    @overload
    def predict(  # type: ignore[overload-overlap] # "all" is a text, too
        self,
        network: "Union[Network, Iterable[Path], None]" = None,
        example: Any = None,
        *,
        device: 'Literal["all"]',
        **fields: "Unpack[SweepOnAll]",
    ) -> Answers: ...

    @overload
    def predict(
        self,
        network: "Optional[Network]" = None,
        example: Any = None,
        **fields: "Unpack[Job]",
    ) -> Answer: ...

    @overload
    def predict(
        self,
        network: "Union[Network, Iterable[Path], None]" = None,
        example: Any = None,
        **fields: "Unpack[Sweep]",
    ) -> Answers: ...

    def predict(
        self, network: Any = None, example: Any = None, **fields: Any
    ) -> Union[Answer, Answers]:
        """Time, memory, throughput and price of a training job: an Answer; of lists of values all combinations.

        network: a name ("resnet50"), a config.json of Hugging Face's, a step file of perfpred.capture, a
            torch.nn.Module with an `example` of its input (a tensor, a tuple or a dict of keyword arguments; a batch
            comes first), or a file of torch.export (net.pt2), which has an example. The module is not computed.
            `loss=` is a function of its output.
        fields: of the workload: device ("all": a row for each GPU), batch_size (samples a step), precision, optimizer,
            input (sizes of one sample), train_images (samples an epoch), and others of docs/formats.md. Of the job:
            epochs, startup_sec, evaluation (samples, after each epoch), checkpoint_sec and checkpoint_every (epochs),
            price_per_hour, or prices of devices ({"T4": 0.35} or a prices.csv), budget_sec (3600,
            "1:00:00" or a timedelta), quantiles ([0.99]: seconds that a step and the job take no longer than with this
            probability), train_tokens (an epoch), reserved_by_others (bytes, or "2GiB"), fit_advice (False: without
            advice and the largest batch, which take most of the time). What is left out is that of the model's rows,
            else the usual one.

        Raises InputError for a field or value that is wrong; of a sweep, if no combination has an answer.
        """
        fields = self._with_gpus(fields)
        names, rows = combinations(_network_fields(network, example, fields))
        if not names:
            return Answer._of(self._forecast(next(rows)))
        answers, refused = [], []
        for row in rows:
            try:
                document = self._forecast(row)
            except InputError as error:
                refused.append(error)
                document = {"key": None, "error": str(error)}
            answers.append(Answer._of(document, {name: row[name] for name in names}))
        if len(refused) == len(answers):
            raise refused[0]
        if refused:
            _log.warning(
                "%d of %d rows have no answer; the first: %s",
                len(refused),
                len(answers),
                refused[0],
            )
        return Answers(answers)

    def _with_gpus(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields with the GPUs that compute in the precision, or in one of several, in place of all."""
        if not isinstance(fields.get("device"), str) or fields["device"] != "all":
            return fields
        asked = fields.get("precision")
        names: dict[str, None] = {}
        for precision in asked if isinstance(asked, (list, tuple)) else [asked]:
            text = None if precision is None else encoded(plain(precision))
            found = json_of("model_gpus", self._handle.value, text)["devices"]
            names.update(dict.fromkeys(found))
        return {**fields, "device": list(names)}

    def inspect(
        self,
        network: "Optional[Network]" = None,
        example: Any = None,
        **fields: "Unpack[Job]",
    ) -> Inspection:
        """FLOPs, parameters, bytes and memory of a training step, and of each layer.

        network, example, fields: as those of predict(), of one job. A device is not needed, and batch_size is 32 where
        it is not given, or that of the step file. Nothing but the step is looked at: epochs, prices and the like
        change nothing.

        Raises InputError for a field or value that is wrong.
        """
        asked = _network_fields(network, example, dict(fields))
        names, rows = combinations(asked)
        if names:
            raise InputError(f"{names[0]} is a list, but a step has one: inspect each")
        document = json_of("inspect", self._handle.value, encoded_json(next(rows)))
        return Inspection._of(document)

    def timeline(
        self,
        network: "Optional[Network]" = None,
        example: Any = None,
        *,
        path: Optional[Path] = None,
        **fields: "Unpack[Job]",
    ) -> dict[str, Any]:
        """Where the time of a predicted step goes: the kernels of one device beside their host; of several devices the
        passes of each pipeline stage and their collectives. Chrome's trace events, which Perfetto and chrome://tracing
        show; written to path, where there is one.

        network, example, fields: as those of predict(), of one job.
        """
        asked = _network_fields(network, example, dict(fields))
        names, rows = combinations(asked)
        if names:
            raise InputError(f"{names[0]} is a list, but a timeline has one step")
        trace: dict[str, Any] = json_of(
            "timeline", self._handle.value, encoded_json(next(rows))
        )
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(trace, file)
        return trace

    def _forecast(self, fields: dict[str, Any]) -> dict[str, Any]:
        document: dict[str, Any] = json_of(
            "forecast", self._handle.value, encoded_json(fields)
        )
        return document

    @overload
    def predict_many(
        self,
        jobs: Union[Mapping[str, Any], Sequence[Mapping[str, Any]]],
        *,
        quantiles: Union[float, Sequence[float]] = (),
        **fields: "Unpack[SharedFields]",
    ) -> "dict[str, numpy.ndarray[Any, Any]]": ...

    @overload
    def predict_many(
        self,
        jobs: "pandas.DataFrame",
        *,
        quantiles: Union[float, Sequence[float]] = (),
        **fields: "Unpack[SharedFields]",
    ) -> "pandas.DataFrame": ...

    def predict_many(
        self, jobs: Any, *, quantiles: Union[float, Sequence[float]] = (), **fields: Any
    ) -> Any:
        """Seconds per epoch of many jobs, fast: a DataFrame of pandas, a dict of arrays of one length, or a list of
        dictionaries.

        jobs: columns by the names of a workload's fields; None, NaN and an empty text are values that are not given.
        quantiles: also asked for, above 0 and below 1: 0.999 gives the column time_sec_p99.9.
        fields: those that all jobs share.
        Returns the columns time_sec_p05, time_sec_p50 and time_sec_p95, and for each job its status ("ok",
        "wrong_input", "unstated" or "failed") and error, one line, empty where it is ok, else its times are NaN: of a
        DataFrame a DataFrame with its index, else a dict of arrays of NumPy.

        Raises InputError, which names the first row, if none can be predicted; ImportError without NumPy.
        """
        try:
            import numpy
        except ImportError as missing:
            needs = 'predict_many() needs NumPy: pip install "perfpred[arrays]"'
            raise ImportError(needs, name="numpy") from missing

        columns, count = columns_of(jobs)
        try:
            wanted = [
                float(q)
                for q in (
                    [quantiles] if isinstance(quantiles, (int, float)) else quantiles
                )
            ]
        except (TypeError, ValueError, OverflowError):
            raise InputError("quantiles are not numbers") from None
        asked = {f"time_sec_p{100 * q:02.10g}": q for q in (*_QUANTILES, *wanted)}
        out = {name: numpy.full(count, numpy.nan) for name in asked}
        refused: dict[int, tuple[str, str]] = {}
        for base, numbers, places in _groups(columns, refused):
            times = self._predict_group(
                {**fields, **base}, places, numbers, list(asked.values()), refused
            )
            for name, answer in zip(asked, times):
                out[name][places] = answer
        out["status"], out["error"] = (
            numpy.full(count, "ok", object),
            numpy.full(count, "", object),
        )
        for place, (status, error) in refused.items():
            out["status"][place], out["error"][place] = status, error
        if refused:
            first = min(refused)
            message = f"[{first}]: {refused[first][1]}"
            if len(refused) == count:
                raise InputError(message)
            _log.warning(
                "%d of %d jobs have no answer; the first: %s",
                len(refused),
                count,
                message,
            )
        if hasattr(jobs, "index") and hasattr(jobs, "columns"):
            import pandas

            return pandas.DataFrame(out, index=jobs.index)
        return out

    def _predict_group(
        self,
        fields: dict[str, Any],
        places: Any,
        numbers: dict[str, Any],
        quantiles: list[float],
        refused: dict[int, tuple[str, str]],
    ) -> list[Any]:
        """Quantiles of jobs that differ in numbers alone."""
        import numpy

        answers = [numpy.full(len(places), numpy.nan) for _ in quantiles]
        for start, place in enumerate(
            places.tolist()
        ):  # the first job that can be makes those of the others
            try:
                first = {
                    name: _whole(name, values[start])
                    for name, values in numbers.items()
                }
                job = Handle(
                    "workload",
                    "workload_create",
                    self._handle.value,
                    encoded_json({**fields, **first}),
                )
                break
            except InputError as error:
                refused[place] = ("wrong_input", str(error))
        else:
            return answers
        names = (ctypes.c_char_p * len(numbers))(*(name.encode() for name in numbers))
        doubles = ctypes.POINTER(ctypes.c_double)
        values = (doubles * len(numbers))(
            *(one[start:].ctypes.data_as(doubles) for one in numbers.values())
        )
        asked = (ctypes.c_double * len(quantiles))(*quantiles)
        times = (doubles * len(quantiles))(
            *(one[start:].ctypes.data_as(doubles) for one in answers)
        )
        statuses: numpy.ndarray[Any, Any] = numpy.zeros(len(places) - start, numpy.intc)
        sizes = (len(numbers), len(statuses), asked, len(quantiles), times)
        try:
            by = (self._handle.value, job.value, names, values, *sizes)
            call(
                "predict_variants",
                *by,
                statuses.ctypes.data_as(ctypes.POINTER(ctypes.c_int)),
            )
        finally:
            job.close()
        for i in numpy.flatnonzero(statuses).tolist():
            refused[int(places[start + i])] = (
                _STATUSES[statuses[i]],
                text_of("job_error", i),
            )
        return answers

    def observe(self, runs: Table) -> dict[str, Any]:
        """Learns from the runs of a runs.csv, a DataFrame or a list of dictionaries; other threads may predict meanwhile. A row
        needs the fields of its workload, or `key`, and avg_time_sec, or seconds and epochs.

        Returns observed (how many) and set_aside (key and reason of each that was not).
        """
        with table_file(runs) as file:
            document: dict[str, Any] = json_of(
                "model_observe", self._handle.value, encoded_path(file)
            )
        return document

    def reload(self, path: Optional[Path] = None) -> None:
        """Takes the model of a file (default: the standard model) in place of its own; other threads may predict
        meanwhile. If it raises, the model stays as it is. Runs that were observed and not saved are gone."""
        call("model_reload", self._handle.value, encoded_path(path))
        self._table = None

    def save(self, path: Path) -> None:
        """Writes a model file, for load() and the programs."""
        call("model_save", self._handle.value, encoded_path(path))


def trained_params(**fields: Any) -> int:
    """How many parameters the network of a workload trains."""
    params = ctypes.c_int64()
    job = Handle(
        "workload", "workload_create", _standard()._handle.value, encoded_json(fields)
    )
    try:
        call("workload_params", job.value, ctypes.byref(params))
    finally:
        job.close()
    return params.value


def _of_text(text: str) -> Model:
    content = text.encode()
    return Model(Handle("model", "model_load_text", content, len(content), None))


def _whole(name: str, value: float) -> Any:
    if value in (float("inf"), float("-inf")):
        raise InputError(f"{name} {value} is not a finite number")
    return int(value) if value == int(value) else float(value)


def _groups(
    columns: Mapping[str, Any], refused: dict[int, tuple[str, str]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any], Any]]:
    """Rows that agree in all texts and in which values are given: the texts, the numbers of the rows, and their places;
    all but those whose numbers are none, which are refused."""
    import numpy

    count = len(next(iter(columns.values())))
    numbers = {
        name: numbers_of(name, columns[name], refused)
        for name in NUMBERS
        if name in columns
    }
    texts = {
        name: texts_of(column)
        for name, column in columns.items()
        if name not in numbers
    }
    missing = [numpy.isnan(values) for values in numbers.values()]
    keys = [*texts.values(), *(gaps.tolist() for gaps in missing if gaps.any())]
    rows: dict[tuple[Any, ...], Any] = {}
    if keys:
        for i, row in enumerate(zip(*keys)):
            if i not in refused:
                rows.setdefault(row, []).append(i)
    elif count:
        rows[()] = numpy.setdiff1d(numpy.arange(count), list(refused))
    for row, found in rows.items():
        places = numpy.asarray(found)
        given = {name: value for name, value in zip(texts, row) if value is not None}
        of_rows = {
            name: values[places]
            for name, values in numbers.items()
            if not numpy.isnan(values[places[0]])
        }
        yield given, of_rows, places


@functools.lru_cache(maxsize=1)
def _standard() -> Model:
    return load()


def _model(model: Union[Model, Path, None]) -> Model:
    if model is None:
        return _standard()
    return model if isinstance(model, Model) else load(model)


def add_graphs(path: Path) -> None:
    """Makes captured networks known by their names (`step:` and digits), for this process: a folder of step files, as
    perfpred.measure(..., capture=True) writes beside runs.csv, or one step file. Models of such rows need it.
    """
    call("add_graphs", encoded_path(path))


def add_op_rules(path: Path) -> None:
    """Adds rules that count operators of your own, for this process: a text file (docs/guides/counting.md)."""
    call("add_op_rules", encoded_path(path))


def load(
    path: Optional[Path] = None,
    *,
    device_file: Optional[Path] = None,
    links: Optional[Path] = None,
) -> Model:
    """The model of a file; without one the standard model, which knows networks and devices without a run.

    device_file: a devices.csv of your own, whose rows are added to the known devices. links: a links.csv, of the
    clusters that jobs on several devices name.
    """
    catalogue = _catalogue(device_file, links)
    return Model(Handle("model", "model_load", encoded_path(path), _value(catalogue)))


@overload
def predict(  # type: ignore[overload-overlap] # "all" is a text, too
    network: "Union[Network, Iterable[Path], None]" = None,
    example: Any = None,
    *,
    model: Union[Model, Path, None] = None,
    device: 'Literal["all"]',
    **fields: "Unpack[SweepOnAll]",
) -> Answers: ...


@overload
def predict(
    network: "Optional[Network]" = None,
    example: Any = None,
    *,
    model: Union[Model, Path, None] = None,
    **fields: "Unpack[Job]",
) -> Answer: ...


@overload
def predict(
    network: "Union[Network, Iterable[Path], None]" = None,
    example: Any = None,
    *,
    model: Union[Model, Path, None] = None,
    **fields: "Unpack[Sweep]",
) -> Answers: ...


def predict(
    network: Any = None,
    example: Any = None,
    *,
    model: Union[Model, Path, None] = None,
    **fields: Any,
) -> Union[Answer, Answers]:
    """Model.predict() of a model or its file; default: the standard model.

    >>> perfpred.predict("resnet50", device="A100-80GB-PCIe", batch_size=[32, 64], precision="bf16")  # doctest: +SKIP
    """
    asked = _network_fields(network, example, fields)
    _add_steps(asked)
    answer: Union[Answer, Answers] = _model(model).predict(**asked)
    return answer


def inspect(
    network: "Optional[Network]" = None,
    example: Any = None,
    *,
    model: Union[Model, Path, None] = None,
    **fields: "Unpack[Job]",
) -> Inspection:
    """Model.inspect() of a model or its file; default: the standard model.

    >>> print(perfpred.inspect("resnet50", batch_size=32))  # doctest: +SKIP
    >>> perfpred.inspect(my_module, torch.zeros(32, 3, 224, 224)).forward_flops  # doctest: +SKIP
    """
    asked = _network_fields(network, example, dict(fields))
    _add_steps(asked)
    found: Inspection = _model(model).inspect(**asked)
    return found


def timeline(
    network: "Optional[Network]" = None,
    example: Any = None,
    *,
    path: Optional[Path] = None,
    model: Union[Model, Path, None] = None,
    **fields: "Unpack[Job]",
) -> dict[str, Any]:
    """Model.timeline() of a model or its file; default: the standard model.

    >>> perfpred.timeline("resnet50", device="A100-80GB-PCIe", batch_size=64, path="step.json")  # doctest: +SKIP
    """
    asked = _network_fields(network, example, dict(fields))
    _add_steps(asked)
    return _model(model).timeline(path=path, **asked)


def _add_steps(fields: dict[str, Any]) -> None:
    """Makes step files known: a model that is loaded next may have rows of them."""
    step = fields.get("step")
    for path in step if isinstance(step, (list, tuple)) else [step]:
        if path is not None:
            add_graphs(path)


def explain(
    files: Union[Path, Sequence[Path], None] = None,
    *,
    measured_ms: Optional[float] = None,
    model: Union[Model, Path, None] = None,
    **fields: Any,
) -> Union[Explanation, Explanations]:
    """Why measured steps take longer or shorter than a model (default: the standard model) expects: an Explanation, of
    several runs Explanations.

    files: runs.csv, or logs that other software wrote, told apart by their content. measured_ms: of a step, in place of
    files. fields: of the workload, as those of predict(), of a log what it does not say, as those of aggregate(); rows
    of runs.csv say all of theirs.

    Raises InputError for a file or field that is wrong; if no run has an answer.

    >>> print(perfpred.explain(measured_ms=52, network="resnet50", batch_size=64, device="T4"))  # doctest: +SKIP
    """
    asked = _network_fields(fields.pop("network", None), None, fields)
    _add_steps(asked)
    document = json_of(
        "explain",
        _model(model)._handle.value,
        encoded_json({**asked, "files": files, "measured_ms": measured_ms}),
    )
    if isinstance(document, list):
        return Explanations(map(Explanation._of, document))
    return Explanation._of(document)


def networks(word: Optional[str] = None) -> list[dict[str, Any]]:
    """The networks that are known by name, or those whose name has a word, here or elsewhere: name, aliases, hub (the
    name on the Hugging Face Hub, or None), params, input (of one sample; None: none is usual) and classes; of recorded
    ones also inputs (all that were recorded), sample (what one is), source, version and licence.

    Raises InputError for a word that means none, with the nearest name.
    """
    found: list[dict[str, Any]] = json_of("networks", encoded(word))["networks"]
    return found


def layouts(
    network: "Network",
    *,
    gpus: int,
    top: int = 20,
    by: str = "time",
    model: Union[Model, Path, None] = None,
    **fields: "Unpack[Job]",
) -> dict[str, Any]:
    """The ways to spread a transformer's training over `gpus` devices, ranked by time, price or memory: the document of
    `perfpred-layouts --json`.

    fields: as those of predict(), but batch_size is that of an update over all devices.

    >>> found = perfpred.layouts("llama3.1_8b", gpus=64, device="H100-SXM5-80GB", batch_size=256,
    ...                          input=4096, precision="bf16")  # doctest: +SKIP
    """
    asked = {**fields, "network": network, "gpus": gpus, "top": top, "by": by}
    document: dict[str, Any] = json_of(
        "layouts", _model(model)._handle.value, encoded_json(asked)
    )
    return document


def fit(
    runs_agg: Table,
    *,
    kind: "Kind" = "hybrid",
    seed: int = 0,
    prior: Optional[Path] = None,
    device_file: Optional[Path] = None,
) -> Model:
    """A model fitted on the rows of a runs_agg.csv, which aggregate() writes, or of such a table: a DataFrame, or a list of
    dictionaries. Rows of networks that are not known, or that the input does not fit, are left out: each is logged as a
    warning, and in info()["dropped"].

    kind: "hybrid" or "linear". prior: an op model that answers where no run does; default: the standard model.
    """
    options = encoded_json({"kind": kind, "seed": seed, "prior": prior})
    catalogue = _catalogue(device_file)
    with table_file(runs_agg) as file:
        fitted = Handle(
            "model", "model_fit", encoded_path(file), options, _value(catalogue)
        )
    return Model(fitted, None if file is runs_agg else file)


def observe(model: Path, runs: Table, out: Optional[Path] = None) -> dict[str, Any]:
    """Corrects a model file by the runs of a runs.csv (or of a DataFrame, or a list of dictionaries), and writes it to
    `out` (default: the same file).

    Calls that correct one file at the same time, of threads or processes, lose no run.
    """
    to = None if out is None else encoded_path(out)
    with table_file(runs) as file:
        document: dict[str, Any] = json_of(
            "observe_file", encoded_path(model), encoded_path(file), to, None
        )
    return document


def aggregate(
    runs: Union[Table, Sequence[Path], None] = None,
    *,
    logs: Optional[Path] = None,
    label: "Label" = "robust",
    out: Optional[Path] = None,
    rejected: Optional[Path] = None,
    from_logs: Union[Path, Sequence[Path], None] = None,
    runs_out: Optional[Path] = None,
    **facts: Any,
) -> dict[str, Any]:
    """Turns measured runs (files runs.csv, a folder of logs) into one row for each workload.

    runs: one file or several, or the rows of one as a DataFrame or a list of dictionaries.
    from_logs: logs that other software wrote (MLPerf, trainer_state.json, Lightning, Keras, TensorBoard). runs_out: a
    runs.csv for their runs. facts: what they do not say: fields of a workload (batch_size=32), config, params, env,
    counted ("steps" or "epochs", of a TensorBoard file or W&B's history) and step_tokens (of torchtune's log).

    out: the runs_agg.csv to write. rejected: another file to write. Returns the document of
    `perfpred-aggregate --json`: runs, rows, rejected, flagged.
    """
    options: dict[str, Any] = {
        "logs": logs,
        "label": label,
        "out": out,
        "rejected": rejected,
    }
    options.update({"from": from_logs, "runs_out": runs_out, **facts})
    files = (
        isinstance(runs, (list, tuple)) and runs and all(is_path(one) for one in runs)
    )
    with (
        contextlib.nullcontext(runs)
        if runs is None or files
        else table_file(runs) as given
    ):
        document: dict[str, Any] = json_of(
            "aggregate", encoded_json({"runs": given, **options})
        )
    return document


def plan(
    runs_agg: Table,
    *,
    budget_sec: "Union[Span, Mapping[str, Span]]",
    epochs: Optional[int] = None,
    model: Union[Model, Path, None] = None,
    **options: "Unpack[PlanOptions]",
) -> Plan:
    """The most valuable runs within a time budget.

    runs_agg: the candidates: measured rows (a runs_agg.csv), or with a model any workloads, with a column acc_mean where
        accuracy is the value; a file, a DataFrame, or a list of dictionaries. Columns id, count, epochs, value,
        earliest_sec and deadline_sec make them a queue of jobs, in which equal ones stay. budget_sec: seconds of each device, a text like "12:00:00", a
        timedelta, or a dictionary of these by device. epochs: of each run without a column epochs. model: predicts the
        times; default: the measured ones. options: min_acc, value ("acc", "thr" or "value"), objective ("sum", "best", "cover-depth",
        "cover-architecture"), confidence, startup_sec, free_from_sec (when a device is free, as budget_sec), gpus, devices (names), ignore_memory (plans also what a device's
        memory does not hold), price_per_hour or prices (of devices, as those of predict()), time_limit_sec, pareto, out
        (a file), device_file.

    Raises Error if there is no such plan.
    """
    by = None if model is None else _model(model)._handle.value
    with table_file(runs_agg) as table:
        asked = {
            **options,
            "runs_agg": table,
            "budget_sec": budget_sec,
            "epochs": epochs,
        }
        made = Handle("plan", "plan_create", encoded_json(asked), by)
    try:
        document = json_of("plan_text", made.value)
    finally:
        made.close()
    if table is not runs_agg:
        document["left_out"] = [
            {**row, "key": with_rows(table, row["key"])} for row in document["left_out"]
        ]
    return Plan._of(document)


def devices(
    name: Optional[str] = None, *, device_file: Optional[Path] = None
) -> list[dict[str, Any]]:
    """The known devices, or the one of a name: rows of devices.csv (TFLOP/s, GB, GB/s, W; None: not known)."""
    catalogue = Handle("catalogue", "catalogue_create", encoded_path(device_file))
    found: list[dict[str, Any]] = json_of(
        "catalogue_devices", catalogue.value, encoded(name)
    )["devices"]
    return found
