# SPDX-License-Identifier: Apache-2.0
"""What perfpred.measure writes about a training loop. With perfpred-aggregate in PERFPRED_AGGREGATE the program reads it."""

import contextlib
import csv
import gc
import hashlib
import importlib
import io
import json
import math
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import unittest.mock
import warnings

import torch
from torch import nn

import perfpred
from perfpred._measure import runs_file
from perfpred._measure.samples import StepSamples

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def recorded_streams(path):
    streams = {}
    with open(os.path.join(SOURCES, path)) as file:
        for row in csv.DictReader(file):
            streams.setdefault(row["name"], []).append(
                (float(row["sec"]), row["disturbed"] == "1")
            )
    return streams


class Samples(unittest.TestCase):
    # What perfpred-collect says of the streams in tests/data/step_streams.csv, with a limit in seconds:
    # median, low, high, mean, mean_rel_sem, cv, samples, warmup, stopped_by.
    OF_LIBRARY = {
        ("depth:2/base:16/batch:128", 3): (
            0.07689381,
            0.075609462,
            0.07906438,
            0.078252471,
            0.020047475,
            0.061628761,
            39,
            0,
            "limit",
        ),
        ("depth:2/base:16/batch:32", 3): (
            0.02658272,
            0.020929791,
            0.033762448,
            0.0253006,
            0.11121169,
            0.12343013,
            119,
            0,
            "limit",
        ),
        ("depth:2/base:32/batch:32", 15): (
            0.052664815,
            0.052226024,
            0.053107292,
            0.053251157,
            0.012233193,
            0.074505465,
            122,
            2,
            "interval",
        ),
        ("depth:3/base:16/batch:32", 3): (
            0.025181395,
            0.02472521,
            0.025615787,
            0.02542974,
            0.012746229,
            0.05394681,
            68,
            49,
            "limit",
        ),
    }

    def test_recorded_steps_make_the_label_that_the_library_makes_of_them(self):
        streams = recorded_streams("tests/data/step_streams.csv")
        for (name, limit), expected in self.OF_LIBRARY.items():
            with self.subTest(name, limit=limit):
                samples = StepSamples(limit)
                for sec, disturbed in streams[f"cifar_cnn/{name}"]:
                    samples.add([sec], disturbed)
                    if samples.finished():
                        break
                label = samples.label()
                keys = (
                    "median",
                    "low",
                    "high",
                    "mean",
                    "mean_rel_sem",
                    "cv",
                    "samples",
                    "warmup",
                )
                for key, value in zip(keys, expected):
                    self.assertTrue(
                        math.isclose(label[key], value, rel_tol=1e-6),
                        f"{key}: {label[key]}, not {value}",
                    )
                self.assertEqual(label["stopped_by"], expected[-1])

    def test_disturbed_samples_are_dropped_while_they_are_few(self):
        samples = StepSamples(1000)
        for i in range(30):
            samples.add(
                [5.0 if i % 5 == 0 else 1.0 + 1e-4 * (i % 3)], disturbed=i % 5 == 0
            )
        samples.finished()
        label = samples.label()
        self.assertEqual((label["discarded"], label["disturbed"]), (6, False))
        self.assertLess(label["p95"], 1.01)

    def test_disturbed_samples_are_kept_where_they_are_most(self):
        samples = StepSamples(1000)
        for i in range(30):
            samples.add([1.0 + 1e-4 * (i % 3)], disturbed=i % 3 != 0)
        self.assertTrue(samples.label()["disturbed"])

    def test_a_smaller_last_step_is_dropped(self):
        samples = StepSamples(1000)
        samples.add([1.0, 1.0, 1.0, 0.2])
        samples.drop_last()
        self.assertEqual(
            (len(samples), str(samples)),
            (3, "3 steps timed, at most 997 s of steps left"),
        )
        label = samples.label(ended=True)
        self.assertEqual(
            (label["samples"], label["mean"], label["stopped_by"]), (3, 1.0, "limit")
        )


def cifar_cnn(depth, base_filters):
    """The zoo's, for pictures of 32 x 32."""
    layers, channels = [], 3
    for block in range(depth):
        made = base_filters << block
        for given in (channels, made):
            layers += [nn.Conv2d(given, made, 3, padding=1), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
        channels = made
    features = channels * (32 >> depth) ** 2
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(features, 128), nn.ReLU(), nn.Linear(128, 10)
    )


class Loop(unittest.TestCase):
    """A training loop of a network with 8 inputs, 16 hidden and 4 outputs."""

    PARAMS = 8 * 16 + 16 + 16 * 4 + 4

    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "runs.csv")
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.optimizer = torch.optim.Adam(self.network.parameters())

    def loader(self, samples=40, batch=4, **options):
        data = torch.utils.data.TensorDataset(
            torch.randn(samples, 8), torch.randint(0, 4, (samples,))
        )
        return torch.utils.data.DataLoader(data, batch, **options)

    def pictures(self, size=32):
        return [
            (torch.randn(2, 3, size, size), torch.randint(0, 10, (2,)))
            for _ in range(8)
        ]

    def train(self, network):
        self.network = network
        self.optimizer = torch.optim.Adam(network.parameters())

    def step(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.network(x), y).backward()
        self.optimizer.step()

    def measured(self, loader=None, network="mine", step=None, **options):
        with perfpred.measure(self.path, network=network, **options) as m:
            for x, y in loader or self.loader():
                (step or self.step)(x, y)
                m.step()
        return m

    @staticmethod
    def taken(m):
        """How many steps were timed, warm-up included."""
        return m.label["samples"] + m.label["warmup"] + m.label["discarded"]

    def rows(self):
        with open(self.path, newline="") as file:
            return list(csv.DictReader(file))


class Rows(Loop):
    def test_a_row_says_what_was_trained(self):
        self.measured()
        (row,) = self.rows()
        self.assertEqual(list(row), runs_file.COLUMNS)
        expected = {
            "network": "mine",
            "batch_size": "4",
            "input": "8",
            "classes": "4",
            "train_images": "40",
            "optimizer": "adam",
            "precision": "fp32",
            "layout": "nchw",
            "params": str(self.PARAMS),
            "threads": "1",
            "timing": "steps",
            "epoch_times_json": "[]",
            "framework": f"PyTorch {torch.__version__}",
            "optimizer_impl": "foreach",
            "accumulate": "",
            "test_acc": "",
        }
        self.assertEqual({name: row[name] for name in expected}, expected)
        self.assertIn(row["outcome"], ("ok", "untrusted"))
        self.assertLessEqual(float(row["step_p05_ms"]), float(row["step_p50_ms"]))
        self.assertLessEqual(float(row["step_p50_ms"]), float(row["step_p95_ms"]))
        self.assertAlmostEqual(
            float(row["images_per_sec"]) * float(row["avg_time_sec"]), 40
        )

    def test_a_folder_gets_each_row_as_a_file_of_its_own(self):
        spool = os.path.join(self.folder.name, "spool")
        os.mkdir(spool)
        with unittest.mock.patch.object(self, "path", spool):
            rows = [self.measured(env=str(i)).row for i in range(2)]
        names = os.listdir(spool)
        self.assertEqual(len(names), 2)  # no hidden file stays
        found = []
        for name in names:
            self.assertRegex(name, r"^[^.].*\.csv$")
            with open(os.path.join(spool, name), newline="") as file:
                found += csv.DictReader(file)
        self.assertEqual({row["env"] for row in found}, {"0", "1"})
        self.assertEqual(list(found[0]), runs_file.COLUMNS)
        self.assertEqual(
            {float(row["avg_time_sec"]) for row in found},
            {row["avg_time_sec"] for row in rows},
        )

    def test_an_epoch_takes_its_steps(self):
        m = self.measured(self.loader(42, drop_last=False))
        # 42 samples are 10.5 batches of 4.
        self.assertAlmostEqual(m.row["avg_time_sec"], 10.5 * m.label["mean"])

    def test_aggregate_reads_the_rows(self):
        program = os.environ.get("PERFPRED_AGGREGATE")
        if not program:
            self.skipTest("PERFPRED_AGGREGATE does not name the program")
        self.measured()
        self.train(cifar_cnn(2, 4))
        self.measured(
            self.pictures(), network="cifar_cnn:depth=2,base_filters=4", train_images=16
        )
        out = os.path.join(self.folder.name, "agg.csv")
        done = subprocess.run(
            [program, "--runs", self.path, "--out", out], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(out, newline="") as file:
            rows = {row["network"]: row for row in csv.DictReader(file)}
        self.assertEqual(rows["mine"]["steps_per_epoch"], "10")
        self.assertEqual(
            (rows["cifar_cnn"]["depth"], rows["cifar_cnn"]["base_filters"]), ("2", "4")
        )

    def test_what_is_said_replaces_what_is_found(self):
        self.measured(
            batch_size=7,
            classes=9,
            optimizer="lion_32bit",
            train_images=70,
            input=(2, 4),
            env="here",
        )
        (row,) = self.rows()
        said = ("batch_size", "classes", "optimizer", "train_images", "input", "env")
        self.assertEqual(
            [row[name] for name in said], ["7", "9", "lion", "70", "2x4", "here"]
        )

    def test_accumulated_batches_make_one_step(self):
        with perfpred.measure(self.path, network="mine") as m:
            for i, (x, y) in enumerate(self.loader(80)):
                nn.functional.cross_entropy(self.network(x), y).backward()
                if i % 2 == 0:
                    m.micro_step()
                    continue
                self.optimizer.step()
                self.optimizer.zero_grad()
                m.step()
        (row,) = self.rows()
        self.assertEqual((row["batch_size"], row["accumulate"]), ("4", "2"))
        self.assertAlmostEqual(m.row["avg_time_sec"], 10 * m.label["mean"])

    def test_a_new_epoch_is_no_step(self):
        with perfpred.measure(self.path, network="mine") as m:
            loader = self.loader(18)  # 4 full steps and one of two samples
            for _ in range(3):
                for x, y in loader:
                    self.step(x, y)
                    m.step()
        # Of the first epoch the first two are warm-up and the last is smaller; of the others the first has the loader's
        # start in it. The last one of all is smaller, too, but the loop ends there.
        self.assertEqual(self.taken(m), 2 + 3 + 4)

    def test_a_step_that_is_skipped_is_no_sample(self):
        with perfpred.measure(self.path, network="mine") as m:
            for i, (x, y) in enumerate(self.loader()):
                if i == 5:
                    m.skip()
                self.step(x, y)
                m.step()
        self.assertEqual(self.taken(m), 7)

    def test_the_row_is_there_as_soon_as_the_time_is_known(self):
        loader = self.loader(drop_last=True)
        with perfpred.measure(self.path, network="mine", limit_sec=0.01) as m:
            while not m.done:
                for x, y in loader:
                    self.step(x, y)
                    m.step()
            self.assertEqual(len(self.rows()), 1)
            m.step()
        self.assertEqual(len(self.rows()), 1)
        self.assertTrue(m.label["stopped_by"])


class Finds(Loop):
    def row_of(self, **options):
        self.measured(**options)
        return self.rows()[-1]

    def test_precisions(self):
        def autocast(x, y):
            with torch.autocast("cpu", torch.bfloat16):
                self.step(x, y)

        self.assertEqual(self.row_of(step=autocast)["precision"], "bf16")
        self.network.double()
        self.optimizer = torch.optim.Adam(self.network.parameters())
        self.assertEqual(
            self.row_of(step=lambda x, y: self.step(x.double(), y))["precision"], "fp64"
        )
        self.network.bfloat16()
        self.optimizer = torch.optim.Adam(self.network.parameters())
        row = self.row_of(step=lambda x, y: self.step(x.bfloat16(), y))
        self.assertEqual((row["precision"], row["weights"]), ("bf16", "bf16"))

    def test_autocast_inside_of_the_network(self):
        forward = self.network.forward
        self.network.forward = torch.autocast("cpu", torch.bfloat16)(forward)
        self.assertEqual(self.row_of()["precision"], "bf16")

    def test_optimizers(self):
        parameters = list(self.network.parameters())
        for optimizer, name in (
            (torch.optim.SGD(parameters, 0.1), "sgd"),
            (torch.optim.SGD(parameters, 0.1, momentum=0.9), "momentum"),
            (torch.optim.SGD(parameters, 0.1, momentum=0.9, nesterov=True), "nesterov"),
            (torch.optim.AdamW(parameters, fused=True), "adamw"),
            (torch.optim.RMSprop(parameters), "rmsprop"),
        ):
            self.optimizer = optimizer
            row = self.row_of()
            self.assertEqual(row["optimizer"], name)
            self.assertEqual(
                row["optimizer_impl"], "" if name in ("adamw", "rmsprop") else "foreach"
            )

    def test_a_forward_pass_alone(self):
        def step(x, y):
            with torch.no_grad():
                self.network(x)

        row = self.row_of(step=step)
        self.assertEqual(
            (row["phases"], row["optimizer"], row["optimizer_impl"]),
            ("forward", "none", ""),
        )
        perfpred.aggregate(self.path, out=self.path + ".agg")
        with open(self.path + ".agg") as file:
            self.assertEqual(
                [row["phases"] for row in csv.DictReader(file)], ["forward"]
            )
        self.assertEqual(self.row_of()["phases"], "")  # of training
        teacher = nn.Linear(8, 4)

        def taught(x, y):
            with torch.no_grad():
                teacher(x)
            self.step(x, y)

        self.assertEqual(self.row_of(step=taught, optimizer="adam")["phases"], "")

    def test_backends_that_compile_nothing(self):
        self.addCleanup(gc.collect)
        made = lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        own = lambda module, inputs: (
            module.forward
        )  # of the program's own: it may do anything
        in_place = made()
        in_place.compile(backend="aot_eager")
        for network, compiled in (
            (torch.compile(made(), backend="eager"), ""),
            (in_place, ""),
            (torch.compile(made(), backend=own), "1"),
        ):
            self.train(network)
            self.assertEqual(self.row_of()["compiled"], compiled)

    def test_shows_how_far_it_is_to_people_alone(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        def step(x, y):
            self.step(x, y)
            time.sleep(0.05)

        for kind in (Terminal, io.StringIO):
            with contextlib.redirect_stderr(kind()) as said:
                self.measured(self.loader(samples=100), step=step)
            if kind is Terminal:
                self.assertRegex(
                    said.getvalue(),
                    r"\rperfpred.measure: \d+ steps timed, at most \d+ s of steps left",
                )
                self.assertTrue(said.getvalue().endswith("\r\x1b[K"))
            else:
                self.assertEqual(said.getvalue(), "")

    def test_is_shown_by_its_row(self):
        with perfpred.measure(self.path, network="mine") as m:
            self.assertEqual(repr(m), f"{self.path}: nothing is written yet")
            for x, y in self.loader():
                self.step(x, y)
                m.step()
        self.assertRegex(
            repr(m), rf"^{self.path}: mine at 4: [0-9.e-]+ ms a step, outcome"
        )

    def test_nhwc(self):
        self.network = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 4)
        )
        self.optimizer = torch.optim.Adam(self.network.parameters())
        images = lambda x: torch.randn(4, 3, 8, 8).to(memory_format=torch.channels_last)
        row = self.row_of(step=lambda x, y: self.step(images(x), y))
        self.assertEqual((row["layout"], row["input"]), ("nhwc", "3x8x8"))

    def test_a_frozen_network_before_is_not_the_one_that_is_trained(self):
        teacher = nn.Linear(8, 3).requires_grad_(False)

        def step(x, y):
            teacher(x)
            self.step(x, y)

        self.assertEqual(self.row_of(step=step)["params"], str(self.PARAMS))

    def test_words(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.head = nn.Embedding(50, 8), nn.Linear(8, 50)

            def forward(self, x):
                return self.head(self.words(x))

        self.network = Model()
        self.optimizer = torch.optim.Adam(self.network.parameters())

        def step(*_):
            words = torch.randint(0, 50, (4, 12))
            self.optimizer.zero_grad()
            self.network(words).mean().backward()
            self.optimizer.step()

        row = self.row_of(step=step)
        self.assertEqual((row["input"], row["classes"]), ("12", "50"))


class Ends(Loop):
    def ends_by(self, error, steps):
        with self.assertRaises(type(error)):
            with perfpred.measure(
                self.path, network="mine", batch_size=4, train_images=40
            ) as m:
                for i, (x, y) in enumerate(self.loader()):
                    self.step(x, y)
                    if i == steps:
                        raise error
                    m.step()
        return self.rows()[-1]

    def test_exceptions_pass_and_leave_a_row(self):
        for error, outcome in (
            (
                torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
                "oom",
            ),
            (
                RuntimeError(
                    "[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"
                ),
                "oom",
            ),
            (ValueError("no such label\nwith details"), "failed"),
            (KeyboardInterrupt(), "interrupted"),
        ):
            for steps in (0, 1, 6):
                row = self.ends_by(error, steps)
                self.assertEqual(
                    (row["outcome"], row["avg_time_sec"], row["batch_size"]),
                    (outcome, "", "4"),
                )
            if outcome == "failed":
                self.assertEqual(row["note"], "no such label")

    def test_a_run_of_which_nothing_is_known_leaves_a_warning(self):
        with (
            self.assertRaises(ZeroDivisionError),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            with perfpred.measure(self.path, network="mine"):
                raise ZeroDivisionError
        self.assertIn("gets no row", str(caught[-1].message))
        self.assertFalse(os.path.exists(self.path))

    def refused(self, *words, **options):
        with self.assertRaises(perfpred.MeasureError) as caught:
            self.measured(**options)
        self.assertEqual(len(str(caught.exception).splitlines()), 1)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertFalse(os.path.exists(self.path))

    def test_what_is_neither_found_nor_said_is_asked_for(self):
        self.refused("network=", network=None)
        data = [
            (torch.randn(4, 8), torch.zeros(4, dtype=torch.int64)) for _ in range(10)
        ]
        self.refused("train_images=", loader=data)

        class Unheard(torch.optim.SGD):
            pass

        self.optimizer = Unheard(self.network.parameters(), 0.1)
        self.refused("optimizer=", "Unheard")

    def test_one_loop_each(self):
        m = perfpred.measure(self.path, network="mine")
        with self.assertRaisesRegex(perfpred.MeasureError, r"step\(\) is outside"):
            m.step()
        for times in range(2):
            with self.assertRaisesRegex(
                perfpred.MeasureError, "too few steps" if times == 0 else "another one"
            ):
                with m:
                    pass

    def test_what_cannot_be(self):
        self.refused("3 are needed", loader=self.loader(16))
        self.refused("batchsize", batchsize=3)
        self.refused("optimizer 'adm'", "adamw", optimizer="adm")
        self.refused("precision 'half16'", precision="half16")
        self.refused("batch_size '0'", batch_size=0)
        self.refused("input '3x0'", input=(3, 0))
        self.refused("network 'a;b'", network="a;b")
        self.refused("limit_sec 0", limit_sec=0)
        self.refused("limit_sec '3' is not a positive number", limit_sec="3")
        self.refused("device 'gpu' is none of PyTorch's", device="gpu")
        self.refused(
            "device cuda:0 is given, but the network is on cpu", device="cuda:0"
        )
        self.refused(
            "there is no folder",
            "nowhere",
            network=None,
            capture=os.path.join(self.folder.name, "nowhere", "x"),
        )
        self.refused("3 are needed", network=None, capture=True, loader=self.loader(4))
        os.rmdir(os.path.join(self.folder.name, "graphs"))
        self.refused("capture", capture=True)
        self.refused("no torch.nn.Module", step=lambda x, y: None)
        self.path = os.path.join(self.folder.name, "nowhere", "runs.csv")
        self.refused("there is no folder")

    def test_sizes_of_a_network(self):
        self.train(cifar_cnn(2, 4))
        options = {
            "network": "cifar_cnn",
            "train_images": 16,
            "loader": self.pictures(),
            "limit_sec": 0.1,
        }
        self.refused("depth is missing; cifar_cnn needs it", **options)
        self.refused("base_filters is missing", depth=2, **options)
        self.refused(
            "depth '7' is not an integer from 1 to 5",
            depth=7,
            base_filters=4,
            **options,
        )
        self.refused(
            "mine has no depth",
            **{**options, "network": "mine"},
            depth=2,
            base_filters=4,
        )
        self.refused(
            "cifar_cnn of perfpred's has",
            "parameters",
            depth=3,
            base_filters=4,
            **options,
        )
        self.measured(depth=2, base_filters=4, **options)
        self.measured(**{**options, "network": "cifar_cnn:depth=2,base_filters=4"})
        self.assertEqual(
            [(row["network"], row["depth"]) for row in self.rows()][0],
            ("cifar_cnn", "2"),
        )
        self.assertEqual(perfpred.aggregate(self.path)["runs"], 2)

    def test_a_name_of_the_zoo_is_that_of_its_network(self):
        options = {"train_images": 16, "loader": self.pictures(16), "limit_sec": 0.1}
        self.train(nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 10)))
        self.refused("resnet50", "7690", "capture=True", network="resnet50", **options)
        self.refused("do not fit bert_base", network="bert_base", **options)
        self.refused("input 3x16x16 is too small for vgg16", network="vgg16", **options)
        self.network[1].bias.requires_grad_(
            False
        )  # what is frozen may be most of a network
        self.measured(network="resnet50", **options)
        self.assertEqual(self.rows()[0]["network"], "resnet50")

    def test_a_row_of_a_failure_can_be_read(self):
        self.train(cifar_cnn(2, 4))
        with (
            warnings.catch_warnings(record=True) as caught,
            self.assertRaises(torch.OutOfMemoryError),
        ):
            warnings.simplefilter("always")
            with perfpred.measure(self.path, network="cifar_cnn", train_images=16):
                self.network(self.pictures()[0][0])
                raise torch.OutOfMemoryError("no")
        self.assertIn("depth is missing", str(caught[-1].message))
        self.assertFalse(os.path.exists(self.path))

    def test_the_types_name_the_fields_that_there_are(self):
        typed = importlib.import_module(
            "perfpred._fields"
        ).MeasuredFields.__annotations__
        known = importlib.import_module("perfpred._measure.fields").NAMES
        self.assertEqual(
            sorted({*typed, "network", "batch_size", "train_images"}), sorted(known)
        )

    def test_what_narrows_an_answer_can_be_said(self):
        self.refused("software 'tf' is not one of", software="tf")
        self.refused("compiled is for PyTorch", compiled=True, software="xla")
        said = {"compiled": True, "software": "pytorch", "loader": "included"}
        with perfpred.measure(self.path, network="mine", **said) as m:
            for x, y in self.loader():
                self.step(x, y)
                m.step()
        (row,) = self.rows()
        self.assertEqual({name: row[name] for name in said}, {**said, "compiled": "1"})
        self.assertEqual(row["env"], "compile")


class Captured(Loop):
    def test_the_file_names_the_network(self):
        weights = []

        def step(x, y):
            weights.append(
                self.network[0].weight.detach().clone() if len(weights) != 1 else None
            )
            self.step(x, y)

        self.measured(network=None, capture=True, step=step)
        (row,) = self.rows()
        kind, _, digits = row["network"].partition(":")
        self.assertEqual((kind, len(digits)), ("step", 12))
        # The file says these, and tables that state them are refused.
        self.assertEqual(
            [row[name] for name in ("input", "classes", "optimizer", "optimizer_impl")],
            [""] * 4,
        )
        # A CPU has no TF32; the file has the precision that a GPU would take, and the row is found by it.
        self.assertEqual((row["batch_size"], row["precision"]), ("4", "default"))
        with open(os.path.join(self.folder.name, "graphs", f"{digits}.json")) as file:
            document = json.load(file)
        self.assertEqual(document["batch_size"], 4)
        self.assertIn("backward", {op["phase"] for op in document["ops"]})
        # The first step trained; the second was captured, and computed nothing.
        self.assertFalse(torch.equal(weights[0], weights[2]))
        self.assertFalse(torch.equal(weights[2], weights[3]))
        self.assertEqual(
            os.listdir(os.path.join(self.folder.name, "graphs")), [f"{digits}.json"]
        )

    def test_a_compiled_network(self):
        self.addCleanup(
            gc.collect
        )  # the compiler's objects refer to each other, and to what was compiled
        self.network = torch.compile(
            self.network, backend=lambda module, inputs: module.forward
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Using `torch.compile")
            self.measured(network=None, capture=True)
        (row,) = self.rows()
        self.assertEqual((row["compiled"], row["env"]), ("1", "compile"))
        with open(
            os.path.join(
                self.folder.name, "graphs", f"{row['network'].partition(':')[2]}.json"
            )
        ) as file:
            self.assertTrue(json.load(file)["compiled"])

    def test_an_optimizer_that_has_no_name(self):
        class Unheard(torch.optim.SGD):
            pass

        self.optimizer = Unheard(self.network.parameters(), 0.1)
        self.measured(network=None, capture=True)
        self.assertTrue(self.rows()[0]["network"].startswith("step:"))

    def test_samples_of_one_number(self):
        self.network = nn.Sequential(nn.Unflatten(0, (-1, 1)), nn.Linear(1, 4))
        self.optimizer = torch.optim.Adam(self.network.parameters())
        self.measured(
            network=None, capture=True, step=lambda x, y: self.step(x[:, 0], y)
        )
        self.assertEqual(self.rows()[0]["batch_size"], "4")

    def test_what_the_step_made_can_be_used_afterwards(self):
        total, losses = torch.zeros(()), []
        with perfpred.measure(self.path, capture=True) as m:
            for x, y in self.loader():
                self.optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.network(x), y)
                loss.backward()
                self.optimizer.step()
                total = total + loss.detach()
                losses.append(loss.detach())
                m.step()
        self.assertEqual(losses[1], 0)
        self.assertTrue(torch.isfinite(torch.stack(losses)).all())
        self.assertAlmostEqual(float(total), float(sum(losses[2:])), places=4)

    def test_a_network_that_is_a_file_says_the_rest(self):
        self.measured(network="step:0123456789ab")
        (row,) = self.rows()
        self.assertEqual(
            [row[name] for name in ("input", "classes", "optimizer", "optimizer_impl")],
            [""] * 4,
        )
        self.assertEqual(
            (row["network"], row["batch_size"], row["precision"]),
            ("step:0123456789ab", "4", "default"),
        )
        with self.assertRaisesRegex(perfpred.MeasureError, "optimizer"):
            self.measured(network="step:0123456789ab", optimizer="lion")


class Sizes(Loop):
    """One script at several batch sizes, with its step in a file."""

    def graphs(self):
        return sorted(os.listdir(os.path.join(self.folder.name, "graphs")))

    def at(self, *sizes, network=None, **options):
        for size in sizes:
            self.measured(self.loader(10 * size, size), network=network, **options)
        return [row["network"] for row in self.rows()]

    def widen(self):
        self.network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
        self.optimizer = torch.optim.Adam(self.network.parameters())

    def file(self, name="step.json"):
        return os.path.join(self.folder.name, name)

    def captured(self, size, name):
        with perfpred.capture(self.file(name)):
            self.step(torch.randn(size, 8), torch.randint(0, 4, (size,)))
        return self.file(name)

    def test_are_one_network(self):
        names = self.at(4, 8, 6, 4, capture=True)
        self.assertEqual(len(set(names)), 1, names)
        with open(
            os.path.join(self.folder.name, "graphs", names[0][5:] + ".json")
        ) as file:
            document = json.load(file)
        self.assertEqual((document["batch_size"], document["other_batch_size"]), (4, 8))

    def test_another_network_stays_another(self):
        self.at(4, capture=True)
        self.widen()  # twice as wide at twice the batch: every tensor has twice the size
        names = self.at(8, capture=True)
        self.assertEqual(len(set(names)), 2)

    def test_longer_samples_are_another_network(self):
        self.network = nn.Sequential(
            nn.Embedding(9, 8), nn.Linear(8, 4), nn.Flatten(0, 1)
        )
        self.optimizer = torch.optim.Adam(self.network.parameters())

        def of_length(length):
            def step(x, _):
                size = x.shape[0]
                self.step(
                    torch.randint(9, (size, length)),
                    torch.randint(0, 4, (size * length,)),
                )

            return step

        self.at(4, step=of_length(10), capture=True)
        names = self.at(8, step=of_length(20), capture=True)
        self.assertEqual(len(set(names)), 2)

    def test_rows_of_others_keep_their_names(self):
        self.at(4, network="mine")
        with open(self.path, "a") as file:
            file.write("half a li")
        names = self.at(4, 8, capture=True)
        self.assertEqual(names[0], "mine")
        self.assertEqual(names[1], names[2])

    def test_capture_into_a_file(self):
        names = self.at(4, 8, capture=self.file())
        self.assertEqual(names[0], names[1])
        with open(self.file(), "rb") as file:
            self.assertEqual(
                names[0], "step:" + hashlib.sha256(file.read()).hexdigest()[:12]
            )
        self.assertIn(names[0][5:] + ".json", self.graphs())
        self.widen()
        with self.assertRaisesRegex(
            perfpred.MeasureError,
            "step.json: is of another step: .*; name another file",
        ):
            self.at(6, capture=self.file())

    def test_capture_into_a_folder(self):
        names = self.at(4, 8, capture=self.file("own"))
        self.assertIn(names[0][5:] + ".json", os.listdir(self.file("own")))
        self.assertNotIn("graphs", os.listdir(self.folder.name))

    def test_a_network_that_is_a_file(self):
        perfpred.combine(
            self.captured(4, "a.json"), self.captured(8, "b.json"), self.file()
        )
        names = self.at(4, 6, network=self.file())
        names = self.at(7, network=pathlib.Path(self.file()))
        self.assertEqual(len(set(names)), 1)
        self.assertEqual(self.graphs(), [names[0][5:] + ".json"])
        self.assertEqual({row["precision"] for row in self.rows()}, {"default"})
        self.at(4, network=names[0])
        self.assertEqual(self.rows()[-1]["precision"], "default")

    def refused(self, words, **options):
        with self.assertRaisesRegex(perfpred.MeasureError, words):
            self.measured(**options)
        self.assertFalse(os.path.exists(self.path))

    def test_files_that_do_not_fit(self):
        self.refused("nowhere.json: No such file", network=self.file("nowhere.json"))
        with open(self.file("config.json"), "w") as file:
            file.write('{"model_type": "bert"}')
        self.refused(
            "config.json: is not a step file", network=self.file("config.json")
        )
        self.refused(
            "a.json: answers for batch size 8, not for 4",
            network=self.captured(8, "a.json"),
        )
        self.captured(4, "a.json")

        def autocast(x, y):
            with torch.autocast("cpu", torch.bfloat16):
                self.step(x, y)

        self.refused(
            "captured in default, .* computes in bf16",
            network=self.file("a.json"),
            step=autocast,
        )
        self.refused(
            "captured in default, .* computes in fp32",
            network=self.file("a.json"),
            precision="fp32",
        )
        with open(self.file("a.json")) as file:
            twice = {**json.load(file), "accumulate": 2}
        with open(self.file("a.json"), "w") as file:
            json.dump(twice, file)
        self.refused("a step of 2 batches", network=self.file("a.json"))
        self.refused("neither True nor a path", capture=3, network=None)
        self.refused(
            "classes: of a network step:... the file says it",
            capture=True,
            network=None,
            classes=4,
        )
        self.refused(
            "precision bf16 is given, but the step has default",
            capture=True,
            network=None,
            precision="bf16",
        )
        self.refused(
            "layout nhwc is given, but the step has nchw",
            capture=True,
            network=None,
            layout="nhwc",
        )


class File(Loop):
    def test_a_file_of_an_older_program_gets_the_columns(self):
        with open(self.path, "w") as file:
            file.write(",".join(runs_file.MANDATORY) + ",own\n")
            file.write(
                '2024-01-01T00:00:00Z,tf,2,8,32,3,100,"[1, 1, 1]",1,50000,0.5,mine\n'
            )
        self.measured()
        old, new = self.rows()
        self.assertEqual(
            (old["own"], old["epoch_times_json"], old["network"]),
            ("mine", "[1, 1, 1]", ""),
        )
        self.assertEqual((new["own"], new["network"]), ("", "mine"))

    def test_a_torn_line_is_kept_aside(self):
        self.measured()
        with open(self.path, "a") as file:
            file.write("2026-01-01,half a li")
        self.measured()
        self.assertEqual(len(self.rows()), 2)
        with open(self.path + ".torn") as file:
            self.assertEqual(file.read(), "2026-01-01,half a li\n")

    def test_another_table_stays_as_it_is(self):
        with open(self.path, "w") as file:
            file.write("a,b\n1,2\n")
        with self.assertRaisesRegex(perfpred.MeasureError, "no column timestamp_utc"):
            self.measured()
        with open(self.path) as file:
            self.assertEqual(file.read(), "a,b\n1,2\n")

    def test_writers_at_once_lose_nothing(self):
        writers, each = 4, 20
        children = []
        for writer in range(writers):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    for i in range(each):
                        runs_file.append(
                            self.path,
                            {"network": f"{writer}_{i}", "note": 'a "b", c\nd'},
                        )
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        for child in children:
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        rows = self.rows()
        self.assertEqual(
            {row["network"] for row in rows},
            {f"{w}_{i}" for w in range(writers) for i in range(each)},
        )
        self.assertEqual({row["note"] for row in rows}, {'a "b", c d'})


if __name__ == "__main__":
    unittest.main()
