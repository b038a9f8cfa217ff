# SPDX-License-Identifier: Apache-2.0
"""The processes that train one network together, as torch.distributed knows them."""

import hashlib
import os
import time

import torch
import torch.distributed as dist

from perfpred._measure.errors import MeasureError

_BETWEEN_SEC = 0.1  # of rank 0's clock, between two agreements


def _this_machine():
    """One number for all processes that see each other's numbers."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        text = f"{os.uname().nodename} {file.read().strip()}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def _text(nodes):
    """Devices on each node as the field gpus_per_node has them: 8, 1+3, 8x32."""
    if len(nodes) > 1 and len(set(nodes)) == 1:
        return f"{nodes[0]}x{len(nodes)}"
    return "+".join(map(str, nodes))


def processes():
    """Raises MeasureError where a launcher started several that do not know each other."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started > 1:
        raise MeasureError(
            f"{started} processes (WORLD_SIZE) were started: call torch.distributed.init_process_group() before "
            "perfpred.measure"
        )
    return 1


class World:
    """All processes make it at the end of the same step, and call over() at the end of each step from then on."""

    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # Numbers alone: the program's own group may take tensors of GPUs only.
        self._group = dist.new_group(backend="gloo")
        # Not all_gather_object(), which takes NumPy.
        this = torch.tensor([_this_machine(), os.getpid()])
        gathered = [torch.empty_like(this) for _ in range(self.size)]
        dist.all_gather(gathered, this, group=self._group)
        everybody = [values.tolist() for values in gathered]
        machines = [machine for machine, _ in everybody]
        self.gpus_per_node = _text([machines.count(m) for m in dict.fromkeys(machines)])
        here = machines[self.rank]
        self.neighbours = [
            pid for machine, pid in everybody if machine == here and pid != os.getpid()
        ]
        self._over = False
        self._steps = self._every = 1
        self._asked = time.perf_counter()

    def sum(self, value):
        """Of all processes' values."""
        values = torch.tensor([value], dtype=torch.int64)
        dist.all_reduce(values, group=self._group)
        return int(values)

    def over(self, done):
        """Whether rank 0 was done at the last agreement, which comes about ten times a second.

        Returns (is it, was this an agreement).
        """
        self._steps -= 1
        if self._over or self._steps > 0:
            return self._over, False
        now = time.perf_counter()
        step_sec = max((now - self._asked) / self._every, 1e-6)
        values = torch.tensor([int(done), max(1, round(_BETWEEN_SEC / step_sec))])
        dist.broadcast(values, src=0, group=self._group)
        self._over, self._every = bool(values[0]), int(values[1])
        self._steps, self._asked = self._every, time.perf_counter()
        return self._over, True
