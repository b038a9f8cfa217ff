# SPDX-License-Identifier: Apache-2.0
"""What perfpred itself says of a row before it is written: that it reads it, and that it knows the network by its name."""

import os
import tempfile

from perfpred._library import InputError
from perfpred._measure import runs_file
from perfpred._measure.errors import MeasureError
from perfpred._model import aggregate, trained_params

_DEVICE = "T4"  # any GPU of the catalogue: the sizes of a network are the same on all
_OWN_HEAD = 0.1  # of the parameters: by how much a network may differ from the zoo's, as by layers behind it


def check_readable(row):
    """Raises MeasureError for a row that makes its file unreadable."""
    with tempfile.TemporaryDirectory(prefix="perfpred-") as folder:
        path = os.path.join(folder, "runs.csv")
        runs_file.append(
            path, {**row, "avg_time_sec": 1, "images_per_sec": row["train_images"]}
        )
        try:
            aggregate(path)
        except InputError as error:
            raise MeasureError(str(error).replace(f"{path}:2: ", "")) from None


def _params_of(network):
    return trained_params(**network, precision="fp32", batch_size=1, device=_DEVICE)


def check_network(workload, params):
    """Raises MeasureError where a network has the name of one of the zoo and is another one: its parameters or its input
    differ. params: None where not all of them are trained.
    """
    network = {
        name: workload[name]
        for name in ("network", "depth", "base_filters")
        if name in workload
    }
    try:
        _params_of(network)
    except InputError:
        return  # a name of the user's own
    network.update(
        {name: workload[name] for name in ("input", "classes") if name in workload}
    )
    name, advice = (
        network["network"],
        "a network of your own has a name of its own, or capture=True in place of it",
    )
    try:
        of_zoo = _params_of(network)
    except InputError as error:
        raise MeasureError(
            f"network {name} is one of perfpred's: {error}; {advice}"
        ) from None
    if params is not None and abs(params - of_zoo) > _OWN_HEAD * of_zoo:
        raise MeasureError(
            f"network {name} of perfpred's has {of_zoo} parameters, and this one has {params}; {advice}"
        )
