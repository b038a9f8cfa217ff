# SPDX-License-Identifier: Apache-2.0
"""The step files that measured networks are named after, in a folder of graphs (docs/guides/capture.md)."""

import contextlib
import fcntl
import hashlib
import math
import os
import shutil

from perfpred._capture import step_file
from perfpred._capture.recorder import CaptureError
from perfpred._measure.errors import MeasureError

_STATE = ("parameter", "buffer", "gradient", "optimizer_state")
_OF_SIZES = ("growth", "stride_growth")


def is_step_file(network):
    """Whether a network is given as a file."""
    return isinstance(network, os.PathLike) or (
        isinstance(network, str) and network.endswith(".json")
    )


def read(path):
    """The document of a step file, and the name of its network. Raises MeasureError for a file that is none."""
    try:
        with open(path, "rb") as file:
            digits = hashlib.sha256(file.read()).hexdigest()[:12]
        return step_file.read(path), f"step:{digits}"
    except OSError as error:
        raise MeasureError(f"{path}: {error.strerror}") from None
    except (CaptureError, ValueError):
        raise MeasureError(
            f"{path}: is not a step file, as perfpred.capture writes them"
        ) from None


def layout(document):
    """Of most bytes of the images that convolutions read, as perfpred has it of a step file."""
    tensors, channels_last = document["tensors"], 0
    for op in document["ops"]:
        if (
            op["name"].partition("::")[2] != "convolution"
            or tensors[op["inputs"][1]]["sizes"][1] == 1
        ):
            continue
        image = tensors[op["inputs"][0]]
        sizes = image["sizes"]
        if len(sizes) == 4 and sizes[1] != 1 and sizes[2:] != [1, 1]:
            channels_last += math.prod(sizes) * (1 if image["strides"][1] == 1 else -1)
    return "nhwc" if channels_last > 0 else "nchw"


def of_file(document, path, fields, batches, knows_no_tf32):
    """The fields of a step whose network is a file: what the file decides is the file's.

    batches: of the step; None: not known. knows_no_tf32: whatever is set, fp32 is what a CPU computes in.

    Raises MeasureError if the file is of another step: of another batch size, number of batches or precision.
    """
    size = int(fields["batch_size"])
    if size != document["batch_size"] and "other_batch_size" not in document:
        raise MeasureError(
            f"{path}: answers for batch size {document['batch_size']}, not for {size}: capture it at two sizes, or say "
            "capture= in place of network="
        )
    of_step = document.get("accumulate", document.get("batches", 1))
    if batches is not None and of_step != batches:
        raise MeasureError(
            f"{path}: is a step of {of_step} batches, the loop's is one of {batches}"
        )
    precision, found = document["precision"], fields["precision"]
    if "unknown" in (precision, found):
        precision = found if precision == "unknown" else precision
    elif precision != found and not (
        knows_no_tf32 and {precision, found} <= set(step_file.SINGLE)
    ):
        raise MeasureError(
            f"{path}: was captured in {precision}, and the loop computes in {found}; precision={precision!r} overrules that"
        )
    return {**fields, "precision": precision, "layout": layout(document)}


def _check_alike(known, step):
    """Raises CaptureError if two documents of one batch size say different steps."""
    if len(known["ops"]) != len(step["ops"]) or len(known["tensors"]) != len(
        step["tensors"]
    ):
        raise CaptureError(f"{len(known['ops'])} and {len(step['ops'])} operators")
    for i, (op, other) in enumerate(zip(known["ops"], step["ops"])):
        if op != other:
            raise CaptureError(
                f"they differ from operator {i} on: {op['name']} and {other['name']}"
            )
    for i, (tensor, other) in enumerate(zip(known["tensors"], step["tensors"])):
        if any(
            tensor[key] != other[key]
            for key in ("sizes", "strides", "dtype", "storage", "role")
        ):
            raise CaptureError(f"they differ in tensor {i}")


def _check_growth(document):
    """Raises CaptureError where more than the batch grows: two widths of a network may execute the same operators."""
    for i, tensor in enumerate(document["tensors"]):
        growth = [
            (g, size) for g, size in zip(tensor.get("growth", ()), tensor["sizes"]) if g
        ]
        if tensor["role"] in _STATE and growth:
            raise CaptureError(f"tensor {i} is a {tensor['role']} of another size")
        grows_with_batch = len(growth) < 2 and all(
            size == g * document["batch_size"] for g, size in growth
        )
        if tensor["role"] == "input" and not grows_with_batch:
            raise CaptureError(
                f"tensor {i} is an input whose samples have another size"
            )


def joined(known, step):
    """The document of a known step with that of a capture: `known` itself where it says the captured step, else both, for
    all batch sizes. Raises CaptureError if they are different steps.
    """
    for key in ("precision", "accumulate", "batches", "compiled", "layers"):
        if known.get(key) != step.get(key):
            raise CaptureError(f"{key} differs")
    is_general = "other_batch_size" in known
    if known["batch_size"] == step["batch_size"]:
        _check_alike(known, step)
        return known
    single = dict(known)
    single["tensors"] = [
        {k: v for k, v in tensor.items() if k not in _OF_SIZES}
        for tensor in known["tensors"]
    ]
    both = step_file.combine(single, step)
    if not is_general:
        _check_growth(both)
        return both
    for i, (tensor, other) in enumerate(zip(known["tensors"], both["tensors"])):
        if any(tensor.get(key) != other.get(key) for key in _OF_SIZES):
            raise CaptureError(f"tensor {i} grows otherwise with the batch")
    return known


class Graphs:
    """A folder of step files, `<digits>.json` each. Where there is `file`, it is the one that captures are joined with."""

    def __init__(self, folder, file=None):
        self.folder = folder
        self.file = file

    @contextlib.contextmanager
    def _locked(self):
        os.makedirs(self.folder, exist_ok=True)
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def path_of(self, name):
        return os.path.join(self.folder, name.partition(":")[2] + ".json")

    def _copied(self, path, name):
        """The name of a file that then stands under its digits, as it is."""
        if os.path.abspath(path) != os.path.abspath(self.path_of(name)):
            temporary = os.path.join(self.folder, f".{os.getpid()}.json")
            shutil.copyfile(path, temporary)
            os.replace(temporary, self.path_of(name))
        return name

    def keep_file(self, path, name):
        with self._locked():
            self._copied(path, name)

    def _written(self, document):
        """The name of the network of a document."""
        path = self.file or os.path.join(self.folder, f".{os.getpid()}.json")
        step_file.write(path, document)
        _, name = read(path)
        if self.file is not None:
            return self._copied(path, name)
        os.replace(path, self.path_of(name))
        return name

    def _known(self):
        """Paths, documents and names: of `file`, else of all files of the folder, those for all batch sizes first."""
        if self.file is not None:
            return [(self.file, *read(self.file))] if os.path.exists(self.file) else []
        found = []
        for entry in sorted(os.listdir(self.folder)):
            if entry.endswith(".json") and not entry.startswith("."):
                path = os.path.join(self.folder, entry)
                with contextlib.suppress(MeasureError):  # a file of someone else
                    found.append((path, *read(path)))
        return sorted(found, key=lambda one: "other_batch_size" not in one[1])

    def add(self, step):
        """Keeps a captured step. Returns its document, for all batch sizes where the same step is known of another one; its
        network's name; and the name that the same network had until now, or None.

        Raises MeasureError if `file` is of another step.
        """
        with self._locked():
            for path, known, name in self._known():
                try:
                    document = joined(known, step)
                except CaptureError as error:
                    if self.file is not None:
                        raise MeasureError(
                            f"{self.file}: is of another step: {error}; name another file"
                        ) from None
                    continue
                if document is known:
                    return known, self._copied(path, name), None
                return document, self._written(document), name
            return step, self._written(step), None
