# SPDX-License-Identifier: Apache-2.0
"""python -m perfpred.capture [options] SCRIPT [arguments of the script]

Runs a training script, a module (-m) or a notebook without a GPU, records one step of its training, writes it to a step
file, and stops the script. Of a file of torch.export (net.pt2) it records a step of the module with Adam.
"""

import argparse
import contextlib
import importlib.util
import os
import runpy
import shutil
import sys
import warnings
from collections.abc import Sequence
from typing import Optional

import torch

from perfpred._capture import notebook, step_file
from perfpred._capture.progress import Progress
from perfpred._capture.recorder import CaptureError, is_of_library
from perfpred._capture.session import Session
from perfpred._capture.steps import StepIsWhole, Steps
from perfpred._captured import exported_step
from perfpred._library import InputError

DONE, FAILED, WRONG_INPUT = 0, 1, 2

_OF_TORCHRUN = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)


def _parser():
    parser = argparse.ArgumentParser(
        prog="perfpred.capture",
        usage="python -m perfpred.capture [options] SCRIPT [arguments of the script]\n"
        "       python -m perfpred.capture [options] -m MODULE [arguments of the module]",
        description="Records one training step of a script, without a GPU, for perfpred-inspect and perfpred-predict.",
        epilog="What follows the script goes to the script, as python does it. "
        "Example: python -m perfpred.capture --out step.json --batch-sizes 16,32 train.py --epochs 1",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--out", default="step.json", help="the step file to write (default: step.json)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=1,
        help="the step to record, counted from 1 (default: 1)",
    )
    parser.add_argument(
        "--updates",
        type=int,
        default=1,
        help="updates of optimizers that make one step, as 2 of a GAN (default: 1)",
    )
    parser.add_argument(
        "--batch-sizes",
        help="two batch sizes, joined by a comma: the file then answers for all. DataLoaders get each in turn, and so "
        "does {batch_size} in the script's arguments",
    )
    parser.add_argument(
        "--execute",
        action="store_true",
        help="compute the step on the CPU: for steps whose shapes depend on values",
    )
    parser.add_argument(
        "-m",
        dest="is_module",
        action="store_true",
        help="the script is the name of a module, as for python -m",
    )
    parser.add_argument("script", help="train.py, notebook.ipynb or net.pt2")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _say_what_the_script_gets(parser, options, is_explicit):
    """Options of ours behind the script are the script's: whoever means us learns that we did not take them."""
    own = {name for name in vars(options) if name not in ("script", "arguments")}
    own = {"--" + name.replace("_", "-") for name in own if name != "is_module"}
    given = [a.partition("=")[0] for a in options.arguments]
    taken = [name for name in dict.fromkeys(given) if name in own]
    if taken and not is_explicit:
        print(
            f"perfpred.capture: {options.script} gets {', '.join(taken)}: options of perfpred.capture stand before the "
            "script",
            file=sys.stderr,
        )


def _options(arguments):
    parser = _parser()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(arguments)
    rest = len(arguments) - len(options.arguments)
    is_explicit = rest > 0 and arguments[rest - 1] == "--"
    if options.arguments[:1] == ["--"]:
        options.arguments, is_explicit = options.arguments[1:], True
    for name in ("steps", "updates"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)} is not positive")
    if options.script.endswith(".pt2") and (
        options.arguments
        or options.batch_sizes
        or options.execute
        or options.is_module
        or (options.steps, options.updates) != (1, 1)
    ):
        parser.error(
            "of a file of torch.export only --out is an option, and it stands before the file: the step is for all batch "
            "sizes"
        )
    _say_what_the_script_gets(parser, options, is_explicit)
    options.sizes = [None]
    if options.batch_sizes is not None:
        try:
            options.sizes = [int(size) for size in options.batch_sizes.split(",")]
        except ValueError:
            options.sizes = []
        if (
            len(options.sizes) != 2
            or min(options.sizes) < 1
            or options.sizes[0] == options.sizes[1]
        ):
            parser.error(
                f"--batch-sizes {options.batch_sizes} is not two different positive integers, as in 16,32"
            )
    return options


def _check_there(options):
    """Raises FileNotFoundError where there is nothing to run."""
    if not options.is_module:
        if not os.path.isfile(options.script):
            raise FileNotFoundError(f"{options.script}: there is no such file")
        return
    name = options.script
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise FileNotFoundError(f"{name}: there is no such module")


def _execute(options):
    """Runs the program; sys.argv are its arguments."""
    if options.is_module:
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
    elif options.script.endswith(".ipynb"):
        notebook.run(options.script)
    else:
        runpy.run_path(options.script, run_name="__main__")


@contextlib.contextmanager
def _loaders_of(size):
    """Lets all DataLoaders make batches of this size."""
    if size is None:
        yield
        return
    kind = torch.utils.data.DataLoader
    init = kind.__init__

    def made(self, dataset, batch_size=1, *rest, **kwargs):
        given = kwargs.get("batch_sampler") is not None or batch_size is None
        init(self, dataset, batch_size if given else size, *rest, **kwargs)

    kind.__init__ = made
    try:
        yield
    finally:
        kind.__init__ = init


def _run(options, size, progress, records_all=False):
    """The document of one step at a batch size; None for the script's own."""
    told = lambda text: print(f"perfpred.capture: {text}", file=sys.stderr)
    session = Session(options.execute, told)
    recorder, hooks = session.recorder, session.hooks
    hooks.accumulated.skips = options.updates == 1 and not records_all
    steps = Steps(session, options.steps, options.updates)

    def state():
        done, before = (
            steps.updates() // options.updates,
            options.sizes.index(size),
        )
        at = f" at batch size {size}" if size else ""
        share = (before + done / options.steps) / len(options.sizes)
        return (
            f"step {min(done + 1, options.steps)} of {options.steps}{at}, {len(recorder.ops)} operators",
            share,
        )

    progress.state = state
    with _program(options, size), session:
        _run_to_the_step(options, steps, recorder)
    if hooks.accumulated.differ:
        told("the batches of the step differ: runs again, to record them all")
        return _run(options, size, progress, records_all=True)
    if steps.left_out:
        told(
            f"the step has no update by {steps.left_out} of the optimizers; --updates N takes N updates as one step"
        )
    return session.document(size)


@contextlib.contextmanager
def _program(options, size):
    """Makes the process that of the script, with its arguments."""
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, sys, "argv", sys.argv)
        stack.callback(sys.path.__setitem__, 0, sys.path[0])
        arguments = options.arguments
        if size:
            arguments = [a.replace("{batch_size}", str(size)) for a in arguments]
        sys.argv = [options.script, *arguments]
        if not options.is_module:
            sys.path[0] = os.path.dirname(os.path.abspath(options.script))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "for .*: copying from a non-meta parameter")
        stack.enter_context(_loaders_of(size))
        yield


def _run_to_the_step(options, steps, recorder):
    """Runs the program until the step is recorded. What goes wrong behind the step ends the recording alone."""
    try:
        _execute(options)
    except StepIsWhole:
        return
    except SystemExit as error:
        if error.code not in (None, 0) and not steps.is_whole():
            raise CaptureError(
                f"{options.script} ended with {error.code!r} before its step {options.steps}"
            ) from error
    except Exception as error:
        if not steps.is_whole():
            raise
        recorder.remark(f"the recording ended behind the update: {_said_by(error)}")
    if not steps.is_whole():
        finished = steps.updates() // options.updates
        made = (
            "no training step"
            if finished == 0
            else f"{finished} of {options.steps} training steps"
        )
        reason = "; an optimizer of torch.optim ends a step" if finished == 0 else ""
        raise CaptureError(f"{options.script}: made {made}{reason}")
    steps.close()


def _said_by(error):
    """A line for an exception of the program."""
    lines = str(error).strip().splitlines()
    said = lines[0] if lines else ""
    if isinstance(error, CaptureError):
        return said
    return f"{_place_of(error)}: {type(error).__name__}: {said}"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = _options(arguments)
    try:
        _check_there(options)
        step_file.check_writable(options.out)
        if options.script.endswith(".pt2"):
            shutil.copyfile(
                exported_step(options.script, None, None, None, None), options.out
            )
            print(f"wrote {options.out}", file=sys.stderr)
            return DONE
        with Progress("perfpred.capture") as progress:
            documents = [_run(options, size, progress) for size in options.sizes]
        document = (
            documents[0] if len(documents) == 1 else step_file.combine(*documents)
        )
        step_file.write(options.out, document)
    except (CaptureError, InputError, OSError) as error:
        print(f"perfpred.capture: {error}", file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        print("perfpred.capture: interrupted; nothing was written", file=sys.stderr)
        return FAILED
    except Exception as error:  # the script's own
        if (
            isinstance(error, KeyError)
            and error.args[:1]
            and error.args[0] in _OF_TORCHRUN
        ):
            print(
                f"perfpred.capture: {_place_of(error)}: asks for {error.args[0]}, which torchrun sets: run torchrun "
                "--nproc-per-node 1 -m perfpred.capture ...",
                file=sys.stderr,
            )
            return WRONG_INPUT
        print(f"perfpred.capture: {_said_by(error)}", file=sys.stderr)
        return FAILED
    count = document.get("accumulate", document.get("batches", 1))
    batches = f", {count} batches a step" if count > 1 else ""
    print(
        f"wrote {options.out}: {len(document['ops'])} operators, batch size {document['batch_size']}{batches}",
        file=sys.stderr,
    )
    return DONE


def _place_of(error):
    """`file:line` of the user's program where an exception came from."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frame, place = error.__traceback__, "?"
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if not is_of_library(file):
            place = f"{file}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


if __name__ == "__main__":
    sys.exit(main())
