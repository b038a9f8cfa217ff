# SPDX-License-Identifier: Apache-2.0
"""Lets programs for several processes run in one: a process group of one member, which exchanges nothing."""

import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from perfpred._capture.recorder import CaptureError, user_line

_MISSING = "the program is for several processes: the step is that of one, without communication"


class _Alone(DistributedDataParallel):
    """A network for one process. The real one compares values of the parameters."""

    remark = staticmethod(lambda what: None)

    def __init__(self, module, *args, **kwargs):
        torch.nn.Module.__init__(self)
        self.module = module
        self.remark(_MISSING)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def no_sync(self):
        return contextlib.nullcontext()


def _check(processes):
    if processes != 1:
        raise CaptureError(
            f"{user_line()}: asks for {processes} processes; a step is captured in one: make the world size 1"
        )


def _init_process_group(init, remark):
    def made(*args, world_size=-1, **kwargs):
        from torch.testing._internal.distributed.fake_pg import FakeStore

        _check(world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 1)))
        remark(_MISSING)
        init("fake", store=FakeStore(), rank=0, world_size=1)

    return made


def _spawn(function, args=(), nprocs=1, *rest, **kwargs):
    _check(nprocs)
    function(0, *args)


def replacements(remark):
    _Alone.remark = staticmethod(remark)
    yield torch.nn.DataParallel, "forward", _Alone.forward
    if dist.is_available():
        yield (
            dist,
            "init_process_group",
            _init_process_group(dist.init_process_group, remark),
        )
        yield torch.multiprocessing, "spawn", _spawn
        yield (
            torch.nn.SyncBatchNorm,
            "forward",
            torch.nn.modules.batchnorm._BatchNorm.forward,
        )
        for place in (torch.nn.parallel, torch.nn.parallel.distributed):
            yield place, "DistributedDataParallel", _Alone


def leave():
    """Ends the group, if the program has not."""
    if dist.is_available() and dist.is_initialized() and dist.get_backend() == "fake":
        dist.destroy_process_group()
