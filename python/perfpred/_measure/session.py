# SPDX-License-Identifier: Apache-2.0
"""The context manager `measure`: times the training steps of the program around it."""

import collections
import contextlib
import datetime
import gc
import json
import logging
import math
import os
import statistics
import sys
import threading
import time
import warnings
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Optional,
    SupportsIndex,
    Union,
)

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from perfpred._answers import Answer
from perfpred._capture.place import is_meta, swap
from perfpred._capture.progress import Line
from perfpred._capture.session import CaptureError
from perfpred._capture.session import capture as captured_step
from perfpred._explanation import Explanation
from perfpred._library import Error, json_of
from perfpred._measure import checks, runs_file
from perfpred._measure.callbacks import lightning_callback, trainer_callback
from perfpred._measure.errors import MeasureError
from perfpred._measure.fields import FUSED, text_of
from perfpred._measure.found import Found, first_call, replaced
from perfpred._measure.graphs import Graphs, is_step_file, layout, of_file, read
from perfpred._measure.monitor import Monitor, value_of
from perfpred._measure.samples import MIN_SAMPLES, StepSamples
from perfpred._measure.world import World, processes
from perfpred._model import Model, add_graphs
from perfpred._model import _model as known_model
from perfpred._tables import Path
from perfpred._values import plain

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from perfpred._fields import MeasuredFields

__all__ = ["MeasureError", "measure"]

_log = logging.getLogger("perfpred")

# As perfpred-collect --timing steps has them.
_LIMIT_SEC = {"cpu": 15.0, "cuda": 3.0}
_WINDOW_SEC = 0.1  # between readings of the device
_MAX_OPEN_MARKS = 8  # how far the host should run ahead of the device
_HOST_STEPS = 5
_TAKEN_BYTES = 200e6
_STEADY_CLOCK_RANGE = 1.05  # p95 / p05
_SHOWN_ERROR = 0.01
_Z95 = statistics.NormalDist().inv_cdf(0.975)

_OF_MEMORY = (
    "not enough memory",
    "can't allocate memory",
    "out of memory",
    "ALLOC_FAILED",
    "ALLOCATION_FAILED",
)


# Fields of a workload whose network is a step file. What else there is to say of the step is in the file.
_OF_STEP_FILE = (
    "network batch_size train_images precision layout cuda_graph device threads compiled software loader parallel "
    "gpus_per_node cluster"
).split()


def _of_step_file(workload):
    return {name: workload[name] for name in _OF_STEP_FILE if name in workload}


def _first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _nearest_rank(values, share):
    """A quantile that is one of the values."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def _without_memory():
    return [
        thing
        for thing in gc.get_objects()
        if issubclass(type(thing), torch.Tensor) and is_meta(thing)
    ]


def _cpu_name():
    return value_of("/proc/cpuinfo", "model name") or "unknown"


class _Clock:
    """Times between marks in a device's work: events on a GPU, so that nothing waits, the steady clock on a CPU."""

    def __init__(self, device):
        self._cuda = device.type == "cuda"
        self._device = device
        self._marks: collections.deque[Any] = collections.deque()
        self._spare = []

    def mark(self):
        if not self._cuda:
            self._marks.append(time.perf_counter())
            return
        self._marks.append(
            self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        )
        self._marks[-1].record(torch.cuda.current_stream(self._device))

    def take(self, behind):
        """Seconds between marks that the device has passed; waits until at most `behind` marks are open."""
        seconds, marks = [], self._marks
        while len(marks) > 1 and (
            not self._cuda or len(marks) - 1 > behind or marks[1].query()
        ):
            begin = marks.popleft()
            if not self._cuda:
                seconds.append(marks[0] - begin)
                continue
            marks[0].synchronize()
            seconds.append(begin.elapsed_time(marks[0]) * 1e-3)
            self._spare.append(begin)
        return seconds

    def restart(self):
        """The next mark begins anew: no interval ends there."""
        if self._cuda:
            self._spare.extend(self._marks)
        self._marks.clear()


class measure:
    """Times the training steps that run inside of it, by the rules of `perfpred-collect --timing steps`, and appends a row
    to a runs.csv as soon as their time is known:

        with perfpred.measure("runs.csv", network="resnet50") as m:
            for images, labels in loader:
                train_step(images, labels)
                if m.step():
                    break

    path: runs.csv, which is made where it is missing; other programs may append to it at the same time. A folder gets the
        row as a file of its own: that of perfpred serve --spool, which teaches it to a model.
    network: a name of perfpred's zoo (cifar_cnn with depth= and base_filters=), any other of your own, or a step file of
        perfpred.capture ("step.json"), which is copied into graphs/ beside path (in a folder that path is). Not needed with capture.
    batch_size: samples of a micro-step; default: the first size of the first tensor that the network is called with.
    device: a torch.device or its name; default: where the network's parameters are.
    train_images: samples of an epoch; default: the length of the DataLoader's data set.
    capture: records the second step into graphs/ beside path, and names the network after the file. That step computes
        nothing: it changes no weights. Where the folder has the same step at another batch size, both are joined into one
        file, and are one network. A path of a folder: in place of graphs/; of a file ("step.json"): it is joined with that
        file, which is made where it is missing.
    env: a free tag; rows of different tags are never put together. Default: "compile" for compiled networks.
    limit_sec: seconds of steps after which the time is what it is; default: 3 on a GPU, 15 on a CPU.
    model: a Model or its file, whose answer is `expected`; default: the standard model.
    fields: other columns of a workload, by name, in place of what is found: optimizer="lion", precision="bf16", classes=10,
        input="3x224x224", adapter="lora:r=16,targets=all", compiled=1, software="xla", loader="included", ...

    Raises MeasureError, in one line, for what is neither found nor said, and for a network that has the name of one of the
    zoo but other parameters or another input. An exception of the program passes through; the row then has the outcome
    `oom`, `failed` or `interrupted`.
    """

    LightningCallback = classmethod(lightning_callback)
    TrainerCallback = classmethod(trainer_callback)

    def __init__(
        self,
        path: Path,
        *,
        network: Optional[Path] = None,
        batch_size: Optional[SupportsIndex] = None,
        device: Union[str, torch.device, None] = None,
        train_images: Optional[SupportsIndex] = None,
        capture: Union[bool, Path] = False,
        env: str = "",
        limit_sec: Optional[float] = None,
        model: Union[Model, Path, None] = None,
        **fields: "Unpack[MeasuredFields]",
    ) -> None:
        self.path = os.fspath(path)
        self.done = False  # is the row written?
        self.row: Optional[dict[str, Any]] = None  # what was written, by column
        self.label: Optional[dict[str, Any]] = (
            None  # what the samples say beside that: medians and means in seconds, and how they came about
        )
        if capture and network is not None:
            raise MeasureError(
                "network and capture: the captured file names the network; say one of them"
            )
        self._step, self._step_path = (
            None,
            None,
        )  # the document of the network's step file, and where it is
        if network is not None and is_step_file(network):
            self._step_path = os.fspath(network)
            self._step, network = read(self._step_path)
        given = dict(
            fields, network=network, batch_size=batch_size, train_images=train_images
        )
        self._given = {
            name: text_of(name, value)
            for name, value in given.items()
            if value is not None
        }
        self._is_step = bool(capture) or self._given.get("network", "").startswith(
            "step:"
        )
        if self._is_step:
            for name in self._given:
                if name not in _OF_STEP_FILE:
                    raise MeasureError(
                        f"{name}: of a network step:... the file says it"
                    )
        if limit_sec is not None and not (
            isinstance(limit_sec, (int, float)) and limit_sec > 0
        ):
            raise MeasureError(f"limit_sec {limit_sec!r} is not a positive number")
        self._graphs = self._graphs_of(capture)
        try:
            self._device: Any = None if device is None else torch.device(device)
        except (RuntimeError, TypeError):
            raise MeasureError(
                f"device {device!r} is none of PyTorch's, as cpu and cuda:0 are"
            ) from None
        self._captures = bool(capture)
        self._env = env
        self._model = model
        self._asked: dict[str, Any] = {}  # fields of `expected`
        self._expected: Optional[Answer] = None
        self._limit_sec = limit_sec
        self._found = Found()
        self._open = contextlib.ExitStack()
        self._of_step = contextlib.ExitStack()
        self._next: Any = (
            None  # what the end of a step means; a method of this, from __enter__() on
        )
        self._session: Any = None  # these four from their first use on
        self._samples: Any = None
        self._monitor: Any = None
        self._clock: Any = None
        self._line = Line(sys.stderr)
        self._world: Any = (
            None  # the processes that train together, if there are several
        )
        self._params = None  # trained, where one process has a share of them
        self._window: list[float] = []  # seconds of steps
        self._clocks_mhz: list[float] = []
        self._host_sec: list[float] = []
        self._in_window = 0.0  # seconds since the last reading
        self._throttled = self._company = self._skips = False
        self._micro_steps = 0
        self._accumulated = 1
        self._step_waited = self._step_began = 0.0  # for loaders; when it began
        self._waited = self._looped = 0.0  # seconds of the steps: for loaders, in all
        self._workload: dict[str, Any] = {}
        self._of_memory: dict[str, Any] = {}  # columns of the row

    def _graphs_of(self, capture):
        """Where step files are kept. Raises MeasureError for a capture that is neither a Boolean nor a path."""
        path = os.path.abspath(self.path)
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        beside = os.path.join(folder, "graphs")
        if isinstance(capture, bool) or capture is None:
            return Graphs(beside)
        if not isinstance(capture, (str, os.PathLike)) or not os.fspath(capture):
            raise MeasureError(f"capture {capture!r} is neither True nor a path")
        path = os.fspath(capture)
        above = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(above):
            raise MeasureError(f"capture {path}: there is no folder {above}")
        return Graphs(beside, path) if path.endswith(".json") else Graphs(path)

    def __enter__(self) -> "measure":
        if self._next is not None:
            raise MeasureError(
                "a perfpred.measure is for one with statement: make another one"
            )
        if processes() > 1 and self._captures:
            raise MeasureError(
                "capture: a step is captured in one process; in several, say network=... (the captured file)"
            )
        runs_file.check_writable(self.path)
        now = datetime.datetime.now(datetime.timezone.utc)
        self._begun = (
            now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03}Z"
        )
        self._load = os.getloadavg()[0]
        self._of_step.enter_context(self._found.watching())
        self._open.enter_context(
            replaced(torch.utils.data.DataLoader, "__iter__", self._loader_begins)
        )
        self._open.enter_context(
            replaced(_BaseDataLoaderIter, "__next__", self._loader_gives)
        )
        self._open.callback(self._of_step.close)
        self._thread = threading.get_ident()
        self._next = self._end_first
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._open.close()
        self._line.clear()
        if self._session is not None:
            self._end_capture(False)  # the step has not ended
        if self.done or (self._world is not None and self._world.rank > 0):
            return
        if kind is None:
            self._end_early()
        elif not issubclass(kind, (CaptureError, MeasureError)):
            self._write_failure(kind, error)

    def __str__(self) -> str:
        if self.row is None:
            return f"{self.path}: nothing is written yet"
        if self.row["outcome"] not in ("ok", "untrusted"):
            return f"{self.path}: {self.row['network']}: {self.row['outcome']}: {self.row['note']}"
        text = f"{self.row['network']} at {self.row['batch_size']}: {self.row['step_p50_ms']:.4g} ms a step"
        return f"{self.path}: {text}, outcome {self.row['outcome']}" + (
            f" ({self.row['note']})" if self.row["note"] else ""
        )

    __repr__ = __str__  # as that of answers

    @property
    def expected(self) -> Optional[Answer]:
        """What the model expects of the workload that is measured, from the end of the first step on, without advice. None
        where that is not known; the logger `perfpred` gets a line that says why."""
        if "network" not in self._workload:
            return None  # the first step has not ended, or it is being captured
        stated = {"software": "pytorch", "loader": "none"}  # as the row has them
        stated["compiled"] = "1" if self._found.compiled() else "0"
        job = {**stated, **self._workload}
        if job != self._asked:
            self._asked, self._expected = job, self._answer_for(job)
        return self._expected

    def _answer_for(self, job):
        given = {name: value for name, value in job.items() if value not in ("", None)}
        try:
            self._know_graph(job["network"])
            return known_model(self._model).predict(**given, fit_advice=False)
        except Error as error:
            _log.warning("%s: no time is expected of it: %s", self.path, error)
            return None

    def _know_graph(self, network):
        if network.startswith("step:"):
            add_graphs(self._step_path or self._graphs.path_of(network))

    def explain(self) -> Explanation:
        """The measured step beside the expected one, and why they differ as far as it was measured: print it. Raises
        MeasureError before the row is written, InputError where no time is expected."""
        if self.row is None or not self.row.get("avg_time_sec"):
            raise MeasureError(
                f"{self.path}: explain() is for a step that was timed: call it when the row is written"
            )
        self._know_graph(self.row["network"])
        row = {name: plain(value) for name, value in self.row.items() if value != ""}
        document = json_of(
            "explain",
            known_model(self._model)._handle.value,
            json.dumps({"row": row}).encode(),
        )
        return Explanation._of(document)

    def step(self) -> bool:
        """A step has ended, with its update by the optimizer. Returns whether the row is written."""
        if self._next is None:
            raise MeasureError(
                "step() is outside of the with statement of perfpred.measure"
            )
        if not self.done:
            self._accumulated, self._micro_steps = self._micro_steps + 1, 0
            self._next()
        return self.done if self._world is None else self._is_over()

    def micro_step(self) -> None:
        """A batch has ended whose gradients a later update uses: to be called in place of step() then."""
        self._micro_steps += 1

    def skip(self) -> None:
        """What runs before the next step() is no usual step: it holds a validation or writes a checkpoint, say. A new
        iteration over a DataLoader is noticed without this.
        """
        self._skips = True

    def _loader_begins(self, begin, _):
        def begun(loader):
            smaller_last = loader is self._found.loader and self._has_smaller_last(
                loader
            )
            if smaller_last and self._next == self._sample:
                self._drop_last()
            self._found.note_loader(loader)
            self._skips = True
            return begin(loader)

        return begun

    def _loader_gives(self, give, _):
        """Times what the loop waits for batches."""

        def given(iterator):
            if threading.get_ident() != self._thread:
                return give(iterator)  # the program fetches ahead of its loop
            begin = time.perf_counter()
            try:
                return give(iterator)
            finally:
                self._step_waited += time.perf_counter() - begin

        return given

    def _note_loop(self, counts):
        """A step has ended, whose waits count or do not."""
        now = time.perf_counter()
        if counts:
            self._waited += self._step_waited
            self._looped += now - self._step_began
        self._step_waited, self._step_began = 0.0, now

    @staticmethod
    def _has_smaller_last(loader):
        with contextlib.suppress(TypeError):  # a data set without a length
            return not loader.batch_size or (
                not loader.drop_last and len(loader.dataset) % loader.batch_size != 0
            )
        return True

    def _drop_last(self):
        self._window += self._clock.take(0)
        if self._window:
            self._window.pop()
        else:
            self._samples.drop_last()

    def note_loader(self, loader: Any) -> None:
        """The DataLoader of the training, where its iteration began before this was entered."""
        self._found.note_loader(loader)

    def _is_over(self):
        """What rank 0 says, so that all processes leave their loops at the same step."""
        over, asked = self._world.over(self.done)
        if asked and self._next == self._sample and self._device.type == "cpu":
            self._window += self._clock.take(0)
            self._clock.restart()  # the agreement is not part of the next step
            self._clock.mark()
        return over

    def _follow(self):
        """A step of another process than rank 0, which measures."""

    # What the end of a step means, in the order of the steps.

    def _end_first(self):
        """The first step chose and loaded kernels, and allocated: it is not a sample."""
        self._of_step.close()
        if processes() > 1:
            self._world = World()
            if self._found.module is not None and self._found.has_share_of_params():
                self._params = self._world.sum(self._found.params())
            if self._world.rank > 0:
                self._next = self._follow
                return
        self._know_workload()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self._device)
            self._of_memory["mem_free_mb"] = self._free_bytes() * 1e-6
        self._next = self._begin_sampling
        if self._captures:
            self._enter_capture()
            self._next = self._end_captured

    def _end_captured(self):
        self._end_capture(True)
        self._next = self._begin_sampling

    def _begin_sampling(self):
        beside = () if self._world is None else self._world.neighbours
        self._monitor = Monitor(self._device, beside)
        self._samples = StepSamples(self._limit_sec or _LIMIT_SEC[self._device.type])
        self._clock = _Clock(self._device)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            self._memory_before = self._free_bytes()
        self._monitor.read()
        self._clock.mark()
        self._note_loop(False)
        self._skips = False
        self._next = self._sample

    def _sample(self):
        self._note_loop(not self._skips)
        if self._skips:
            self._window += self._clock.take(0)
            self._clock.restart()
            self._skips = False
        self._clock.mark()
        taken = self._clock.take(_MAX_OPEN_MARKS)
        self._window += taken
        self._in_window += sum(taken)
        if self._in_window < _WINDOW_SEC:
            return
        self._end_window()
        if not self._window and self._samples.finished():
            self._end_sampling()

    def _end_window(self):
        self._in_window, reading = 0.0, self._monitor.read()
        self._line.write(lambda: f"perfpred.measure: {self._samples}")
        if (
            self._device.type == "cpu"
        ):  # the reading is not part of the next step; a GPU has steps queued meanwhile
            self._clock.restart()
            self._clock.mark()
            self._note_loop(False)
        self._throttled |= reading.throttled
        self._company |= reading.company
        if reading.clock_mhz is not None:
            self._clocks_mhz.append(reading.clock_mhz)
        if (
            not self._monitor.awaits_company
        ):  # else the reading to come tells of these samples, too
            self._add_window(reading.disturbed)

    def _add_window(self, disturbed):
        self._samples.add(self._window, disturbed)
        self._window = []

    def _end_sampling(self):
        if self._device.type == "cpu":
            self._finish()
            return
        torch.cuda.synchronize(self._device)
        self._note_peak()
        self._company |= self._memory_before - self._free_bytes() > _TAKEN_BYTES
        self._time_next_host()

    def _free_bytes(self):
        """Of the device, with what the allocator could give back."""
        return torch.cuda.mem_get_info(self._device)[0] + torch.cuda.memory_reserved(
            self._device
        )

    def _time_next_host(self):
        """What the host needs to submit a step to an idle device: from the network's call on, so without its batch."""
        torch.cuda.synchronize(self._device)
        self._called = time.perf_counter()

        def called(*_):
            self._called = time.perf_counter()

        self._of_step.enter_context(first_call(called))
        self._next = self._end_host

    def _end_host(self):
        self._host_sec.append(time.perf_counter() - self._called)
        self._of_step.close()
        if len(self._host_sec) < _HOST_STEPS:
            self._time_next_host()
        else:
            self._finish()

    def _end_early(self):
        """The loop has ended before the time of its step was known as well as wanted."""
        if self._next == self._sample:
            self._window += self._clock.take(0)
            self._add_window(self._monitor.read().disturbed)
            self._note_peak()
        taken = 0 if self._samples is None else len(self._samples)
        if taken < MIN_SAMPLES:
            before = 3 if self._captures else 2
            raise MeasureError(
                f"the loop ended after too few steps: {taken} were timed, where {MIN_SAMPLES} are needed after the first "
                f"{before}; {self.path} gets no row"
            )
        self._finish(ended=True)

    def _enter_capture(self):
        os.makedirs(self._graphs.folder, exist_ok=True)
        self._temporary = os.path.join(self._graphs.folder, f".{os.getpid()}.json")
        self._session = captured_step(
            self._temporary, batch_size=self._workload["batch_size"]
        )
        self._meta = _without_memory()  # the program's own
        self._session.__enter__()

    def _end_capture(self, whole):
        session, self._session = self._session, None
        session.__exit__(
            *(None, None, None) if whole else (CaptureError, CaptureError(), None)
        )
        places = session.session.recorder.places
        del session
        self._give_memory(places)
        if not whole:
            return
        captured, _ = read(self._temporary)
        os.unlink(self._temporary)
        document, name, former = self._graphs.add(captured)
        if former is not None:
            runs_file.rename_network(self.path, former, name)
        of_step = {
            "network": name,
            "precision": document["precision"],
            "layout": layout(document),
        }
        self._check_said(of_step)
        self._workload = _of_step_file({**self._workload, **of_step})

    def _give_memory(self, places):
        """Gives zeros to the tensors that the program made in the captured step and still holds."""
        gc.collect()
        own = {id(tensor) for tensor in self._meta}
        for tensor in _without_memory():
            if id(tensor) not in own:
                device = "cpu" if places.of(tensor).type == "cpu" else self._device
                swap(
                    tensor, torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)
                )
        self._meta = []

    # The row.

    def _workload_of_first(self, ended=True):
        """The fields of the workload. Raises MeasureError for what is neither found nor said."""
        found, given = self._found, self._given
        if found.module is None:
            raise MeasureError(
                "the first step called no torch.nn.Module that has something to train"
            )
        device = found.device()
        if self._device is not None and self._device.type != device.type:
            raise MeasureError(
                f"device {self._device} is given, but the network is on {device}"
            )
        self._device = self._device or device
        if self._device.type not in _LIMIT_SEC:
            raise MeasureError(
                f"device {self._device}: is neither a CPU nor a CUDA device, whose steps are timed"
            )
        known = dict(found.fields(), **given)
        known.setdefault("batch_size", found.batch_size)
        if "input" not in known and found.input:
            known["input"] = text_of("input", found.input)
        if "optimizer" not in known and not self._is_step:
            known["optimizer"] = (
                "none" if known.get("phases") == "forward" else found.optimizer()
            )
        if (
            "optimizer" in known
            and known["optimizer"] not in FUSED
            and "optimizer_impl" not in given
        ):
            known.pop("optimizer_impl", None)  # has no effect on the others
        if "classes" not in known and found.classes:
            known["classes"] = found.classes
        if "accumulate" not in known and self._accumulated > 1:
            known["accumulate"] = self._accumulated
        for name in (
            ("batch_size", "train_images")
            if self._is_step
            else ("batch_size", "input", "train_images")
        ):
            if known.get(name) is None:
                raise MeasureError(
                    f"{name} is not known: say {name}=... of perfpred.measure"
                )
        if "network" not in known and not self._captures:
            raise MeasureError(
                "the network is not known: say network=... (a name of the zoo, or your own), or capture=True"
            )
        if self._world is not None:
            known["gpus_per_node"] = self._world.gpus_per_node
            if "parallel" not in known:
                known["parallel"] = found.parallel()
        known["cuda_graph"] = 0
        known["threads"] = torch.get_num_threads() if self._device.type == "cpu" else ""
        known["device"] = (
            _cpu_name()
            if self._device.type == "cpu"
            else torch.cuda.get_device_name(self._device)
        )
        if not known.get("network", "").startswith("step:"):
            return known
        return _of_step_file(
            self._as_in_file(known, self._accumulated if ended else None)
        )

    def _check_said(self, of_step):
        """Raises MeasureError where something else was said than the step has."""
        for name in ("precision", "layout"):
            if self._given.get(name, of_step[name]) != of_step[name]:
                raise MeasureError(
                    f"{name} {self._given[name]} is given, but the step has {of_step[name]}"
                )

    def _know_workload(self, ended=True):
        """Raises MeasureError, too, for a row that could not be read, or that has the name of another network."""
        self._workload = self._workload_of_first(ended)
        if "network" not in self._workload:
            return
        try:
            checks.check_readable(self._row("ok", ""))
        except ImportError as error:
            warnings.warn(
                f"perfpred.measure: the row is not checked: {error}", stacklevel=4
            )
            return
        if not self._is_step:
            whole = self._found.trains_all() and not self._workload.get("adapter")
            checks.check_network(self._workload, self._trained() if whole else None)

    def _as_in_file(self, fields, batches):
        """Fields of a network step:..., as far as its file is known. Raises MeasureError if that is of another step."""
        name, says_precision = fields["network"], "precision" in self._given
        path = self._step_path or self._graphs.path_of(name)
        if self._step is None and not os.path.exists(path):
            return (
                fields
                if says_precision
                else {**fields, "precision": self._found.set_precision()}
            )
        document = self._step or read(path)[0]
        agreed = of_file(
            document,
            path,
            fields,
            batches,
            self._device.type == "cpu" and not says_precision,
        )
        self._check_said(agreed)
        self._graphs.keep_file(path, name)
        return agreed

    def _row(self, outcome, note):
        device = self._device
        row: dict[str, Any] = dict.fromkeys(runs_file.COLUMNS, "")
        row.update(
            {"compiled": "1"} if self._found.compiled() else {}, **self._workload
        )
        row.update(
            timestamp_utc=self._begun,
            framework=f"PyTorch {torch.__version__}",
            epochs=0,
            params=self._trained(),
            epoch_times_json="[]",
            env=self._env or ("compile" if row["compiled"] == "1" else ""),
            host=os.uname().nodename,
            load=self._load,
            timing="steps",
            outcome=outcome,
            note=note,
        )
        if device.type == "cuda":
            cudnn = torch.backends.cudnn.version()
            row["driver"] = (self._monitor or Monitor(device)).driver() or ""
            row["cuda"] = torch.version.cuda or ""
            row["cudnn"] = (
                f"{cudnn // 10000}.{cudnn % 10000 // 100}.{cudnn % 100}"
                if cudnn
                else ""
            )
        row.update(self._of_memory)
        return row

    def _trained(self):
        """Parameters, of all processes."""
        return self._found.params() if self._params is None else self._params

    def _note_peak(self):
        if self._device.type == "cuda":
            self._of_memory["peak_mem_mb"] = (
                torch.cuda.max_memory_allocated(self._device) * 1e-6
            )
            self._of_memory["peak_reserved_mb"] = (
                torch.cuda.max_memory_reserved(self._device) * 1e-6
            )

    def _epoch_sec(self, mean_sec):
        """Full steps and a last, smaller one by its share, without what an epoch takes beyond its steps."""
        samples = int(self._workload["batch_size"]) * int(
            self._workload.get("accumulate", self._accumulated)
        )
        if self._world is not None:
            samples *= self._world.size
        return max(int(self._workload["train_images"]) / samples, 1) * mean_sec

    def _finish(self, ended=False):
        """ended: before the time of the step was known as well as wanted."""
        self._line.clear()
        self.label = label = self._samples.label(ended)
        epoch_sec = self._epoch_sec(label["mean"])
        notes = []
        if label["disturbed"]:
            notes.append(
                f"disturbed {100 * label['disturbed_share']:.0f} % of the samples"
            )
        notes += ["throttled"] * self._throttled + ["company"] * self._company
        half_width = _Z95 * label["mean_rel_sem"]
        if half_width > _SHOWN_ERROR:
            notes.append(f"known to {100 * half_width:.1f} %")
        row = self._row("untrusted" if label["disturbed"] else "ok", "; ".join(notes))
        row.update(
            avg_time_sec=epoch_sec,
            images_per_sec=int(self._workload["train_images"]) / epoch_sec,
            step_p05_ms=label["p05"] * 1e3,
            step_p50_ms=label["median"] * 1e3,
            step_p95_ms=label["p95"] * 1e3,
            step_cv=label["cv"],
        )
        if math.isfinite(label["mean_rel_sem"]):
            row["epoch_rel_sem"] = label["mean_rel_sem"]
        moved = label["drift"]
        if clocks := self._clocks_mhz:
            low, high = _nearest_rank(clocks, 0.05), _nearest_rank(clocks, 0.95)
            row.update(
                clock_mhz=statistics.median(clocks),
                clock_p05_mhz=low,
                clock_p95_mhz=high,
            )
            moved = moved or high > _STEADY_CLOCK_RANGE * low
        row["drift"] = int(moved)
        if self._waited > 0:  # else no DataLoader gave the batches
            row["data_wait_share"] = self._waited / self._looped
        if self._host_sec:
            row["host_p50_ms"] = statistics.median(self._host_sec) * 1e3
        self._append(row)

    def _write_failure(self, kind, error):
        """A row about a run that did not finish, as far as the run is known; the exception says the rest."""
        text = _first_line(error)
        if not issubclass(kind, Exception):
            outcome, text = "interrupted", kind.__name__
        elif issubclass(kind, (torch.OutOfMemoryError, MemoryError)) or any(
            words in str(error) for words in _OF_MEMORY
        ):
            outcome = "oom"
        else:
            outcome = "failed"
        try:
            if not self._workload:
                self._know_workload(ended=False)
            if "network" not in self._workload:
                raise MeasureError(
                    "its step was not captured yet, which names the network"
                )
        except MeasureError as unknown:
            warnings.warn(
                f"perfpred.measure: {self.path} gets no row about this run: {unknown}",
                stacklevel=3,
            )
            return
        self._append(self._row(outcome, text))

    def _append(self, row):
        runs_file.append(self.path, row)
        self._open.close()
        self.row, self.done = row, True
