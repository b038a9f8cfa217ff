# SPDX-License-Identifier: Apache-2.0
"""What the package answers, by the library that PERFPRED_LIBRARY names or the one of the package. With the program
perfpred-predict in PERFPRED_PREDICT answers are compared with its own."""

import csv
import datetime
import doctest
import hashlib
import importlib
import io
import json
import math
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import perfpred

try:
    import numpy
    import pandas
except ImportError:
    numpy = pandas = None
try:
    import torch
except ImportError:
    torch = None

PAGE = os.path.join(
    os.path.dirname(os.path.abspath(__file__)),
    "..",
    "..",
    "docs",
    "guides",
    "python.md",
)
JOB = {"device": "A100-80GB-PCIe", "batch_size": 64, "precision": "bf16"}


def made_up_sec(depth, base_filters, batch_size):
    return (
        0.3 + 50000 / batch_size * (1e-3 + 2e-4 * depth) + 2e-5 * base_filters * depth
    )


def write_table(path):
    """A runs_agg.csv of 36 configurations of a CNN."""
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            "depth base_filters batch_size params n steps_per_epoch avg_time_mean avg_time_std thr_mean thr_std "
            "acc_mean acc_std".split()
        )
        for depth in (2, 3, 4):
            for base in (16, 32, 64):
                for batch in (32, 96, 256, 1024):
                    sec = made_up_sec(depth, base, batch)
                    steps = math.ceil(50000 / batch)
                    rows.writerow(
                        [
                            depth,
                            base,
                            batch,
                            1000,
                            1,
                            steps,
                            sec,
                            0,
                            50000 / sec,
                            0,
                            0.5 + depth / 100,
                            0,
                        ]
                    )
    return path


def write_runs(path, *times, batch_sizes=(64, 128)):
    """A runs.csv of a CNN's runs, which took so many seconds an epoch."""
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            "timestamp_utc framework depth base_filters batch_size epochs params epoch_times_json avg_time_sec "
            "images_per_sec test_acc".split()
        )
        for i, (batch, sec) in enumerate(zip(batch_sizes, times)):
            epochs = json.dumps([2 * sec, sec, sec])
            rows.writerow(
                [
                    f"2026-01-01T00:00:0{i}Z",
                    "t",
                    3,
                    32,
                    batch,
                    3,
                    1000,
                    epochs,
                    sec,
                    50000 / sec,
                    0.6,
                ]
            )
    return path


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def fitted(self, **options):
        return perfpred.fit(write_table(self.path("runs_agg.csv")), **options)


class Imports(unittest.TestCase):
    def test_the_package_does_not_import_torch(self):
        code = "import sys, perfpred; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code]).returncode, 0)

    def test_the_version_is_that_of_the_package(self):
        with open(
            os.path.join(os.path.dirname(PAGE), "..", "..", "python", "pyproject.toml")
        ) as file:
            self.assertIn(f'version = "{perfpred.__version__}"', file.read())

    def test_what_is_missing_is_named_in_a_line(self):
        code = "import sys; sys.modules['numpy'] = None\nimport perfpred\nperfpred.load().predict_many({'depth': [3]})"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True
        )
        last = done.stderr.splitlines()[-1]
        self.assertEqual(
            last,
            'ImportError: predict_many() needs NumPy: pip install "perfpred[arrays]"',
        )

    def test_a_function_is_not_hidden_by_the_package_of_its_name(self):
        if torch is None:
            with self.assertRaisesRegex(ImportError, r"perfpred\[capture\]"):
                perfpred.capture
            return
        importlib.import_module("perfpred._capture.session")
        self.assertTrue(callable(perfpred.capture))
        self.assertIn("capture", dir(perfpred))
        self.assertRaises(AttributeError, lambda: perfpred.nothing)


class Types(unittest.TestCase):
    def test_name_the_fields_that_there_are(self):
        fields = importlib.import_module("perfpred._fields")
        with self.assertRaises(perfpred.InputError) as refused:
            perfpred.predict("resnet18", device="T4", batch_size=1, colour="red")
        known = set(
            str(refused.exception).partition(" is not one of ")[2].split(", ")
        ) - {"network"}
        of_workloads = set(fields.WorkloadFields.__annotations__)
        of_jobs = set(fields.Job.__annotations__)
        self.assertLess(of_workloads, known)
        self.assertEqual(set(fields.Sweep.__annotations__), of_jobs)
        self.assertEqual(known - of_jobs, set())
        terms = of_jobs - of_workloads - {"config", "step"}
        for term in terms:
            with self.assertRaises(perfpred.InputError) as refused:  # of its value
                perfpred.predict("resnet18", device="T4", batch_size=1, **{term: "?"})
            self.assertNotIn(" is not one of ", str(refused.exception))


class Predictions(WithFolder):
    def test_a_name(self):
        answer = perfpred.predict("ResNet-50", **JOB)
        self.assertTrue(
            answer.key.startswith(
                "network=resnet50;depth=;base_filters=;batch_size=64;"
            )
        )
        self.assertLess(answer.time_sec.p05, answer.time_sec.p50)
        self.assertLess(answer.time_sec.p50, answer.time_sec.p95)
        self.assertEqual(answer.time_sec.p50, answer.to_dict()["time_sec"]["p50"])
        self.assertTrue(answer.fits)
        shown = repr(answer)
        for word in (
            "network=resnet50;",
            "batch_size=64;",
            "precision=bf16;",
            "images/s",
            "memory",
            "GB",
            "fits",
            "90 %",
            answer.provenance,
        ):
            self.assertIn(word, shown)

    def test_the_program_gives_the_same(self):
        program = os.environ.get("PERFPRED_PREDICT")
        if not program:
            self.skipTest("PERFPRED_PREDICT does not name the program")
        options = [
            "--network",
            "gpt2",
            "--input",
            "256",
            "--batch-size",
            "4",
            "--device",
            "T4",
            "--epochs",
            "2",
            "--json",
        ]
        options += ["--train-images", "1000"]
        done = subprocess.run(
            [program, *options], capture_output=True, text=True, check=True
        )
        answer = perfpred.predict(
            "gpt2", input=256, batch_size=4, device="T4", epochs=2, train_images=1000
        )
        self.assertEqual(answer.to_dict(), json.loads(done.stdout))

    def test_prints_what_the_program_prints(self):
        program = os.environ.get("PERFPRED_PREDICT")
        if not program:
            self.skipTest("PERFPRED_PREDICT does not name the program")

        def printed(*options):
            done = subprocess.run(
                [program, *options], capture_output=True, text=True, check=True
            )
            text = re.sub(r"say --(\S+) and", r"say \1= and", done.stdout)
            return (
                re.sub(r"--([a-z-]+) (\S)", r"\1=\2", text)
                .replace("batch-size", "batch_size")
                .replace("train-images", "train_images")
            )

        llama = {
            "network": "llama3_8b",
            "device": "RTX 4090",
            "batch_size": 1,
            "input": 2048,
            "precision": "bf16",
        }
        for job in (
            {
                "network": "resnet50",
                "device": "T4",
                "batch_size": 8,
                "price_per_hour": 1,
                "budget_sec": "1:00:00",
            },
            {
                "network": "resnet50",
                "device": "T4",
                "batch_size": 8,
                "train_images": 5,
                "accumulate": 2,
                "software": "xla",
            },
            {**llama, "padding": "packed"},
            {**llama, "compiled": 1, "quantile": 0.99},
        ):
            asked = {
                "quantiles" if name == "quantile" else name: value
                for name, value in job.items()
            }
            options = [
                text
                for name, value in job.items()
                for text in (f"--{name}".replace("_", "-"), str(value))
            ]
            self.assertEqual(repr(perfpred.predict(**asked)) + "\n", printed(*options))
        options = "--network gpt2 --batch-size 1 --sweep device=T4,L4 --price-per-hour 2 --train-images 9 --quantile 0.9"
        swept = perfpred.predict(
            "gpt2",
            device=["T4", "L4"],
            batch_size=1,
            price_per_hour=2,
            train_images=9,
            quantiles=0.9,
            fit_advice=False,
        )
        self.assertEqual(repr(swept) + "\n", printed(*options.split()))

    def test_texts_of_several_lengths(self):
        job = {"device": "T4", "batch_size": 2, "precision": "fp16"}
        listed = perfpred.predict("gpt2", lengths=[100, 200, 300, 900], **job)
        self.assertEqual(listed.lengths["mean"], 375)
        self.assertEqual(listed.lengths["longest"], 900)
        self.assertIn("memory is that of 900", repr(listed))
        summary = perfpred.predict("gpt2", lengths="mean=375,p95=900,max=900", **job)
        self.assertIsNone(summary.lengths["texts"])
        grouped = perfpred.predict(
            "gpt2", lengths=[100, 200, 300, 900], group_by_length=True, **job
        )
        self.assertLess(
            grouped.lengths["padding_share"], listed.lengths["padding_share"]
        )
        with self.assertRaisesRegex(perfpred.InputError, "length 0 is not between"):
            perfpred.predict("gpt2", lengths=[100, 0], **job)

    def test_several_devices(self):
        one, many = perfpred.predict(
            "gpt2",
            device="T4",
            batch_size=4,
            precision="fp16",
            gpus_per_node=["1", "4"],
        )
        self.assertIsNone(one.scaling)
        self.assertEqual(many.scaling["devices"], 4)
        self.assertLess(many.scaling["efficiency"], 1)
        found = perfpred.layouts(
            "gpt2", gpus=8, top=2, device="T4", batch_size=64, precision="fp16"
        )
        self.assertEqual(len(found["layouts"]), 2)
        with self.assertRaisesRegex(perfpred.InputError, "4 and 6 do"):
            perfpred.predict("gpt2", device="T4", batch_size=4, parallel="tp=5")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "links.csv")
            with open(path, "w") as file:
                file.write("cluster,scope,bus_gb_s,source\nlab,intra,0.1,probe\n")
            slow = perfpred.load(links=path).predict(
                "gpt2",
                device="T4",
                batch_size=4,
                precision="fp16",
                gpus_per_node="4",
                cluster="lab",
            )
        self.assertGreater(slow.scaling["limits"]["links"], 0.9)

    def test_answers_are_copied_whole(self):
        answers = perfpred.predict(
            "resnet18", device="T4", batch_size=[8, 16], fit_advice=False
        )
        copied = pickle.loads(pickle.dumps(answers))
        self.assertEqual(repr(copied), repr(answers))
        self.assertEqual(
            (copied[0].step_sec, copied[0].row()),
            (answers[0].step_sec, answers[0].row()),
        )
        with self.assertRaises(AttributeError):
            answers[0].step_sec = None

    def test_says_what_nobody_stated(self):
        answer = perfpred.predict("gpt2", device="T4", batch_size=1, compiled=True)
        self.assertEqual(answer.assumed, {"input": "1024", "padding": "packed"})
        self.assertRegex(
            repr(answer),
            "\n  assumed +input=1024, padding=packed\n  left out +epoch, total and price: ",
        )
        self.assertEqual(len(answer.left_out), 2)
        for line in answer.left_out:
            self.assertRegex(repr(answer), rf"\n  left out +{re.escape(line)}\n")
        self.assertEqual(
            (answer.time_sec, answer.total_sec, answer.price), (None, None, None)
        )
        self.assertAlmostEqual(answer.tokens_per_sec.p50 * answer.step_sec.p50, 1024)
        self.assertEqual(
            perfpred.predict("resnet18", device="T4", batch_size=8).assumed,
            {"train_images": "1281167"},
        )
        self.assertEqual(
            perfpred.predict(
                "resnet18", device="T4", batch_size=8, train_images=9
            ).left_out,
            [],
        )
        with self.assertRaisesRegex(
            perfpred.InputError, "epochs needs train_images or train_tokens"
        ):
            perfpred.predict("gpt2", device="T4", batch_size=1, epochs=3)

    def test_a_table_of_a_language_model_is_in_steps(self):
        answers = perfpred.predict("gpt2", device=["T4", "L4"], batch_size=1)
        shown = repr(answers).splitlines()
        self.assertRegex(shown[0], "device +step s")
        self.assertEqual(shown[-3], "assumed input=1024, padding=packed")
        self.assertEqual(
            shown[-2:], [f"left out: {line}" for line in answers[0].left_out]
        )
        self.assertIsNone(answers.to_dict()[0]["time_sec"])

    def test_lists_sweep(self):
        answers = perfpred.predict(
            "resnet18",
            device=["T4", "V100-SXM2-16GB"],
            batch_size=(32, 64),
            fit_advice=False,
        )
        self.assertEqual(
            [one.key.split(";")[3] for one in answers],
            ["batch_size=32", "batch_size=64"] * 2,
        )
        self.assertIn("device=V100-SXM2-16GB", answers[2].key)
        self.assertEqual(len(answers[1:]), 3)
        self.assertEqual(len(repr(answers).splitlines()), 6)
        with self.assertRaises(perfpred.InputError):
            perfpred.predict("resnet18", device="T4", batch_size=[])

    def test_a_combination_without_an_answer_says_why(self):
        with self.assertLogs("perfpred", "WARNING") as logged:
            answers = perfpred.predict(
                "resnet18",
                device=["T4", "no such"],
                batch_size=[8, 0],
                precision="fp16",
            )
        self.assertEqual(
            [bool(one.error) for one in answers], [False, True, True, True]
        )
        self.assertIn(
            "3 of 4 rows have no answer; the first: batch_size", logged.output[0]
        )
        self.assertIn("no such", answers[3].error)
        self.assertIsNone(answers[3].step_sec)
        self.assertIsNone(answers[3].fits)
        self.assertEqual(answers.to_dict()[3], {"key": None, "error": answers[3].error})
        self.assertIn(answers[3].error, repr(answers))
        self.assertIn(answers[3].error, repr(answers[3]))
        self.assertGreater(answers[0].step_sec.p50, 0)
        with self.assertRaisesRegex(
            perfpred.InputError, "batch_size"
        ):  # none has an answer
            perfpred.predict("resnet18", device="T4", batch_size=[0, -1])

    @unittest.skipIf(pandas is None, "no pandas")
    def test_frames_say_why(self):
        with self.assertLogs("perfpred"):
            frame = perfpred.predict(
                "resnet18", device=["T4", "no such"], batch_size=8
            ).to_frame()
        self.assertEqual(list(frame["device"]), ["T4", "no such"])
        self.assertEqual(frame["error"][0], "")
        self.assertIn("no such", frame["error"][1])
        self.assertTrue(math.isnan(frame["time_sec_p50"][1]))

    @unittest.skipIf(pandas is None, "no pandas")
    def test_frames(self):
        answers = perfpred.predict(
            "resnet18", device="T4", batch_size=numpy.array([32, 64]), fit_advice=False
        )
        frame = answers.to_frame()
        self.assertEqual(list(frame["batch_size"]), [32, 64])
        self.assertEqual(frame["time_sec_p50"][1], answers[1].time_sec.p50)
        self.assertEqual(len(answers[0].to_frame()), 1)

    def test_all_gpus_that_compute_in_the_precision(self):
        answers = perfpred.predict(
            "resnet18", device="all", batch_size=8, precision="bf16", fit_advice=False
        )
        devices = [one.device for one in answers]
        self.assertGreater(len(devices), 20)
        self.assertEqual(len(devices), len(set(devices)))
        self.assertIn("RTX 3090", devices)
        self.assertNotIn("T4", devices)  # Turing has no bf16

    def test_the_best_answer_is_of_those_that_fit(self):
        prices = {"T4": 0.35, "L4": 0.8, "A100-80GB-PCIe": 2.5}
        answers = perfpred.predict(
            "resnet50",
            device=list(prices),
            batch_size=[64, 2048],
            prices=prices,
            fit_advice=False,
        )
        fit = [one for one in answers if one.verdict != "does_not_fit"]
        self.assertLess(len(fit), len(answers))
        for by, value in {
            "time": lambda one: one.total_sec.p50,
            "price": lambda one: one.price.p50,
            "memory": lambda one: one.memory["device"]["upper"],
        }.items():
            self.assertEqual(value(answers.best(by)), min(map(value, fit)), by)
        words = perfpred.predict(
            "gpt2", device="L4", batch_size=[1, 8], input=128, fit_advice=False
        )
        self.assertEqual(words.best().batch_size, 8)  # the most samples a second
        for by, why in {"price": "has a price", "colour": "is not one of"}.items():
            with self.assertRaisesRegex(perfpred.InputError, why):
                words.best(by)

    def test_an_answer_says_what_it_is_of(self):
        with self.assertLogs("perfpred"):
            answers = perfpred.predict(
                "ResNet-18", device=["t4", "no such"], batch_size=8, fit_advice=False
            )
        first = answers[0]
        self.assertEqual(
            (first.network, first.device, first.batch_size), ("resnet18", "T4", 8)
        )
        self.assertEqual(first.params, 11_689_512)  # torchvision's
        row = first.row()
        self.assertEqual((row["network"], row["device"]), ("resnet18", "t4"))
        self.assertEqual(row["flops"], first.flops)
        self.assertIsNone(answers[1].network)
        self.assertEqual(answers[1].row()["device"], "no such")

    def test_notebooks_show_tables(self):
        with self.assertLogs("perfpred"):
            answers = perfpred.predict(
                "resnet18", device=["T4", "<no such>"], batch_size=8, fit_advice=False
            )
        page = answers._repr_html_()
        self.assertEqual(page.count("<tr>"), 3)
        self.assertIn("<th>device</th><th>step s</th>", page)
        self.assertNotIn("<no such>", page)
        width = page.partition("<tbody>")[0].count("<th>") - 1
        self.assertIn(f'<td colspan="{width}"', page)
        self.assertNotIn("tokens/s", page)  # of no answer
        one = answers[0]._repr_html_()
        self.assertIn("<b>network</b> resnet18, ", one)
        self.assertIn("where the time goes", one)
        self.assertIn("no answer: device", answers[1]._repr_html_())

    def test_what_pytorch_people_write(self):
        def key(**fields):
            fields = {"device": "RTX 3090", "batch_size": 2, "input": 64, **fields}
            return perfpred.predict("gpt2", fit_advice=False, **fields).key

        self.assertIn(";optimizer=adamw;", key(optimizer="AdamW"))
        self.assertIn(";optimizer=adamw;", key(optimizer="adamw_torch"))
        self.assertIn(";precision=bf16;", key(precision="bfloat16"))
        self.assertIn(";checkpoint=all", key(checkpoint=True))
        self.assertEqual(key(checkpoint=False), key())
        job = {"device": "T4", "batch_size": 8}
        self.assertEqual(
            perfpred.predict("resnet18", reserved_by_others="1.5GB", **job).verdict,
            perfpred.predict(
                "resnet18", reserved_by_others=1_500_000_000, **job
            ).verdict,
        )
        self.assertEqual(
            perfpred.predict(
                "resnet18", budget_sec=datetime.timedelta(hours=2), **job
            ).epochs_in_budget,
            perfpred.predict("resnet18", budget_sec="2:00:00", **job).epochs_in_budget,
        )
        if torch is None:
            return
        self.assertIn(";precision=bf16;", key(precision=torch.bfloat16))
        self.assertIn(";optimizer=adamw;", key(optimizer=torch.optim.AdamW))
        weight = [torch.nn.Parameter(torch.zeros(2))]
        for made, word in {
            torch.optim.Adam(weight): "adam",
            torch.optim.SGD(weight, lr=1): "sgd",
            torch.optim.SGD(weight, lr=1, momentum=0.9): "momentum",
            torch.optim.SGD(weight, lr=1, momentum=0.9, nesterov=True): "nesterov",
        }.items():
            self.assertIn(f";optimizer={word};", key(optimizer=made))
        swept = perfpred.predict(
            "gpt2",
            device="RTX 3090",
            batch_size=2,
            input=64,
            optimizer=[torch.optim.SGD, "AdamW"],
            precision=[torch.float32, torch.bfloat16],
            fit_advice=False,
        )
        self.assertEqual(len(swept), 4)
        self.assertIn(";optimizer=adamw;precision=bf16;", swept[3].key)
        net, example = torch.nn.Linear(8, 8), torch.zeros(4, 8)
        same = [
            perfpred.predict(
                net, example, device="L4", precision=precision, optimizer=optimizer
            ).key
            for precision, optimizer in (
                (torch.bfloat16, torch.optim.AdamW),
                ("bf16", "adamw_torch"),
                ("bf16-mixed", "adamw"),
            )
        ]
        self.assertEqual(len(set(same)), 1)

    def test_a_name_of_other_software_is_told_the_right_one(self):
        for other, name in {
            "gpu": "device",
            "dtype": "precision",
            "bs": "batch_size",
            "seq_len": "input",
            "steps": "train_images",
            "num_train_epochs": "epochs",
        }.items():
            with self.assertRaisesRegex(
                perfpred.InputError, f'"{other}" is not known: it is {name}'
            ):
                perfpred.predict("gpt2", device="T4", **{other: 8})

    @unittest.skipIf(torch is None, "torch is not there")
    def test_several_step_files(self):
        paths = []
        for width in (8, 16):
            paths.append(self.path(f"of{width}.json"))
            net = torch.nn.Linear(width, 4)
            with perfpred.capture(paths[-1], batch_size=2):
                loss = net(torch.zeros(2, width)).sum()
                loss.backward()
                torch.optim.SGD(net.parameters(), lr=1).step()
        swept = perfpred.predict(step=paths, device="T4", fit_advice=False)
        self.assertEqual([one.params for one in swept], [4 * 9, 4 * 17])
        again = perfpred.predict(paths, device="T4", fit_advice=False)
        self.assertEqual([one.key for one in again], [one.key for one in swept])
        with self.assertRaisesRegex(perfpred.InputError, "files are among names"):
            perfpred.predict(["resnet18", paths[0]], device="T4")

    def test_a_shape_is_one_value(self):
        answer = perfpred.predict(
            "resnet18", device="T4", batch_size=8, input=(3, 64, 64)
        )
        self.assertIn(";input=3x64x64;", answer.key)

    def test_a_config(self):
        config = pathlib.Path(self.path("config.json"))
        config.write_text(
            json.dumps(
                {
                    "model_type": "gpt2",
                    "n_layer": 2,
                    "n_head": 2,
                    "n_embd": 64,
                    "vocab_size": 1000,
                    "n_positions": 128,
                }
            )
        )
        answer = perfpred.predict(config, device="T4", batch_size=4, input=128)
        self.assertTrue(answer.key.startswith("network=config:"))

    @unittest.skipIf(torch is None, "no torch")
    def test_a_module(self):
        module = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 30 * 30, 10),
        )
        weights = module[0].weight.detach().clone()
        example = torch.zeros(4, 3, 32, 32)
        answers = perfpred.predict(
            module,
            example,
            device="T4",
            batch_size=[8, 64],
            optimizer="sgd",
            loss=lambda y: y.square().mean(),
        )
        self.assertTrue(torch.equal(weights, module[0].weight))
        self.assertTrue(all(one.key.startswith("network=step:") for one in answers))
        self.assertIsNone(answers[0].time_sec)
        self.assertGreater(answers[1].step_sec.p50, answers[0].step_sec.p50)
        known = perfpred.predict(
            module,
            example,
            device="T4",
            batch_size=8,
            train_images=800,
            precision="fp16",
        )
        self.assertIsNotNone(known.time_sec)
        self.assertIn(";precision=fp16;", known.key)
        with self.assertRaisesRegex(perfpred.InputError, "example is missing"):
            perfpred.predict(module, device="T4")

    @unittest.skipIf(torch is None, "no torch")
    def test_a_file_of_torch_export(self):
        module, example = (
            torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 10)),
            torch.zeros(4, 3, 4, 4),
        )
        refused = lambda what, call: self.assertRaisesRegex(
            perfpred.InputError, what, call
        )
        batches = ({0: torch.export.Dim("batch")},)
        for name, shapes in (("net.pt2", batches), ("fixed.pt2", None)):
            program = torch.export.export(
                module, (example,), dynamic_shapes=shapes, strict=False
            )
            torch.export.save(program, self.path(name))
        step = lambda network, example=None: perfpred.predict(
            network,
            example,
            device="T4",
            batch_size=64,
            optimizer="sgd",
            fit_advice=False,
        )
        exported, known = step(self.path("net.pt2")), step(module, example)
        self.assertEqual(exported.step_sec, known.step_sec)
        self.assertEqual(exported.memory_bytes, known.memory_bytes)
        self.assertEqual(
            step(self.path("net.pt2"), torch.zeros(6, 3, 4, 4)).step_sec, known.step_sec
        )
        refused(
            "fixed.pt2: .*export it with dynamic_shapes",
            lambda: step(self.path("fixed.pt2")),
        )
        refused("gone.pt2: there is no such file", lambda: step(self.path("gone.pt2")))
        pathlib.Path(self.path("text.pt2")).write_text("weights")
        refused("text.pt2: torch.export.load", lambda: step(self.path("text.pt2")))

        from perfpred._capture.command import main

        self.assertEqual(
            main(["--out", self.path("step.json"), self.path("net.pt2")]), 0
        )
        document = json.loads(pathlib.Path(self.path("step.json")).read_text())
        self.assertEqual(document["batch_size"], 4)
        self.assertIn("the file states no loss", document["notes"][0])

    @unittest.skipIf(torch is None, "no torch")
    def test_a_module_leaves_no_file_behind(self):
        code = (
            "import os, tempfile, perfpred, torch\n"
            "for width in 4, 4, 5:\n"
            "    module = torch.nn.Linear(width, 4)\n"
            "    perfpred.predict(module, torch.zeros(8, width), device='T4', fit_advice=False)\n"
            "try: perfpred.predict(module, torch.zeros(8, 5), device='T4', precision='fp64')\n"
            "except perfpred.InputError: pass\n"
            "print(sum(len(files) for _, _, files in os.walk(tempfile.gettempdir())))"
        )
        environment = {**os.environ, "TMPDIR": self.folder.name}
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=environment,
        )
        self.assertEqual(
            done.stdout.strip(), "2", done.stderr
        )  # a file for each network
        self.assertEqual(os.listdir(self.folder.name), [])

    @unittest.skipIf(torch is None, "no torch")
    def test_a_compiled_module(self):
        module, example = torch.nn.Linear(64, 64), torch.zeros(8, 64)
        step = lambda network, **fields: perfpred.predict(
            network, example, device="L4", fit_advice=False, **fields
        )
        eager, said = step(module), step(module, compiled=1)
        self.assertNotIn("compiled", eager.key)
        compiled = step(torch.compile(module))
        self.assertIn(";compiled=1", compiled.key)
        self.assertEqual(compiled.step_sec, said.step_sec)
        module.compile()
        self.assertIn(";compiled=1", step(module).key)

    @unittest.skipIf(torch is None, "no torch")
    def test_the_precision_of_a_module(self):
        module, example = torch.nn.Linear(8, 4), torch.zeros(4, 8)
        set_before = (
            torch.backends.cudnn.allow_tf32,
            torch.backends.cuda.matmul.allow_tf32,
        )
        for asked, word in (
            ("fp32", "fp32"),
            ("tf32", "tf32"),
            ("default", "default"),
            ("amp", "fp16"),
            ("bf16", "bf16"),
        ):
            key = perfpred.predict(
                module, example, device="L4", precision=asked, fit_advice=False
            ).key
            self.assertIn(f";precision={word};", key)
        self.assertEqual(
            (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32),
            set_before,
        )
        with self.assertRaisesRegex(
            perfpred.InputError,
            "precision 'fp64' is given, but the module computes in default",
        ):
            perfpred.predict(module, example, device="L4", precision="fp64")
        with self.assertRaisesRegex(perfpred.InputError, "precision is a list"):
            perfpred.predict(module, example, device="L4", precision=["fp32", "bf16"])

    @unittest.skipIf(torch is None, "no torch")
    def test_graphs_of_a_models_rows(self):
        from perfpred._captured import captured_step

        step = captured_step(
            torch.nn.Linear(64, 64), torch.zeros(4, 64), "fp32", "sgd", None
        )
        with open(step, "rb") as file:
            network = "step:" + hashlib.sha256(file.read()).hexdigest()[:12]
        table = self.path("runs_agg.csv")
        with open(table, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(
                "network depth base_filters batch_size params n steps_per_epoch avg_time_mean avg_time_std thr_mean "
                "thr_std acc_mean acc_std train_images precision device".split()
            )
            for batch in (4, 8, 16, 32, 64, 128):
                steps, sec = 1024 // batch, 1024 / batch * 1e-3 + 0.2
                rows.writerow(
                    [
                        network,
                        "",
                        "",
                        batch,
                        4160,
                        1,
                        steps,
                        sec,
                        0,
                        1024 / sec,
                        0,
                        "",
                        "",
                        1024,
                        "fp32",
                        "T4",
                    ]
                )
        script = (
            "import sys, perfpred\n"
            "step, table, model, network = sys.argv[1:]\n"
            "if not model:\n"
            "    try: perfpred.fit(table)\n"
            "    except perfpred.InputError as error: print(error)\n"
            "    perfpred.add_graphs(step)\n"
            "    perfpred.fit(table).save('{}')\n"
            "else:\n"
            "    asked = step or network\n"
            "    print(perfpred.predict(asked, model=model, batch_size=24, train_images=1024, fit_advice=False).provenance)\n"
        ).format(self.path("model.json"))

        def run(*arguments):  # what is known of graphs is a process's
            done = subprocess.run(
                [sys.executable, "-c", script, *arguments],
                capture_output=True,
                text=True,
            )
            return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

        self.assertIn("its graph is not in a folder", run(step, table, "", ""))
        self.assertEqual(run(step, table, self.path("model.json"), ""), "runs")
        self.assertIn(
            "its graph is not in a folder",
            run("", table, self.path("model.json"), network),
        )

    def test_own_devices(self):
        own = self.path("own.csv")
        with open(own, "w") as file:
            file.write(
                "name,kind,mem_gb,fp32_tflops,mem_bw_gbs\nMy Card,gpu,10,20,500\n"
            )
        self.assertEqual(
            perfpred.devices("my card", device_file=own)[0]["mem_bw_gbs"], 500
        )
        self.assertGreater(len(perfpred.devices()), 50)
        answer = perfpred.load(device_file=own).predict(
            "resnet18", device="My Card", batch_size=8
        )
        self.assertIn("device=My Card", answer.key)


@unittest.skipIf(pandas is None, "no NumPy and pandas")
class Arrays(WithFolder):
    def jobs(self, n):
        i = numpy.arange(n)
        return {
            "depth": 2 + i % 3,
            "base_filters": 16 + i % 40,
            "batch_size": 32 + i % 900,
        }

    def test_are_what_single_predictions_are(self):
        model = self.fitted()
        jobs = self.jobs(1000)
        out = model.predict_many(jobs)
        for i in (0, 1, 999):
            one = model.predict(
                **{name: int(column[i]) for name, column in jobs.items()},
                fit_advice=False,
            )
            self.assertAlmostEqual(out["time_sec_p05"][i], one.time_sec.p05, delta=1e-9)
            self.assertAlmostEqual(out["time_sec_p50"][i], one.time_sec.p50, delta=1e-9)
            self.assertAlmostEqual(out["time_sec_p95"][i], one.time_sec.p95, delta=1e-9)

    def test_frames_keep_their_index(self):
        networks = ["resnet18", "resnet50", "resnet18"]
        frame = pandas.DataFrame(
            {"network": networks, "batch_size": [8, 8, 16]}, index=["a", "b", "c"]
        )
        out = perfpred.load().predict_many(frame, device="T4")
        self.assertEqual(list(out.index), ["a", "b", "c"])
        for row, name in enumerate(networks):
            one = perfpred.predict(
                name,
                device="T4",
                batch_size=int(frame["batch_size"].iloc[row]),
                fit_advice=False,
            )
            self.assertEqual(out["time_sec_p50"].iloc[row], one.time_sec.p50)

    def test_rows_are_columns(self):
        model, jobs = self.fitted(), self.jobs(5)
        rows = [
            {name: int(column[i]) for name, column in jobs.items()} for i in range(5)
        ]
        self.assertEqual(
            model.predict_many(rows)["time_sec_p50"].tolist(),
            model.predict_many(jobs)["time_sec_p50"].tolist(),
        )

    @unittest.skipUnless(os.path.exists(PAGE), "the page is not there")
    def test_the_example_of_the_page(self):
        with open(PAGE) as file:
            (example,) = re.findall(r"```python\n(>>> .*?)```", file.read(), flags=re.S)
        test = doctest.DocTestParser().get_doctest(example, {}, "python.md", PAGE, 0)
        said = io.StringIO()
        self.assertEqual(
            doctest.DocTestRunner().run(test, out=said.write).failed, 0, said.getvalue()
        )

    def test_gaps_are_not_given(self):
        model, job = (
            perfpred.load(),
            {"network": "resnet18", "device": "T4", "batch_size": 8},
        )
        whole = model.predict_many([job])["time_sec_p50"][0]
        one = model.predict_many([{**job, "classes": 10}])["time_sec_p50"][0]
        for none in (None, math.nan, "", pandas.NA):
            columns = {name: [value] * 3 for name, value in job.items()}
            frame = pandas.DataFrame(
                {
                    **columns,
                    "precision": none,
                    "threads": none,
                    "classes": [none, 10, none],
                }
            )
            self.assertEqual(
                model.predict_many(frame)["time_sec_p50"].tolist(),
                [whole, one, whole],
                repr(none),
            )
        texts = {
            name: [str(value) if name != "batch_size" else "8.0"]
            for name, value in job.items()
        }
        frame = pandas.DataFrame(
            {
                **texts,
                "cuda_graph": "0.0",
                "compiled": "0.0",
                "accumulate": "1.0",
                "classes": "10.0",
            }
        )
        self.assertEqual(model.predict_many(frame)["time_sec_p50"].tolist(), [one])
        some = model.predict_many(
            {
                **{name: [value] * 2 for name, value in job.items()},
                "batch_size": [8, None],
            }
        )
        self.assertEqual(some["time_sec_p50"][0], whole)
        self.assertRegex(some["error"][1], "^batch_size is missing")

    def test_a_bad_job_leaves_the_others_their_answers(self):
        model = self.fitted()
        good = model.predict_many(self.jobs(1000))
        self.assertEqual(set(good["status"]), {"ok"})
        self.assertEqual(set(good["error"]), {""})
        for place, value, error in (
            (700, 0, "batch_size"),
            (998, math.nan, "batch_size is missing"),
            (0, math.inf, "batch_size inf is not"),
            (0, 0, "batch_size"),
            (999, "x", "batch_size 'x' is not a number"),
        ):
            jobs = self.jobs(1000)
            jobs["batch_size"] = jobs["batch_size"].astype(
                object if value == "x" else float
            )
            jobs["batch_size"][place] = value
            with self.assertLogs("perfpred", "WARNING") as logs:
                out = model.predict_many(jobs)
            self.assertIn(
                f"1 of 1000 jobs have no answer; the first: [{place}]: {error}",
                logs.output[0],
            )
            self.assertRegex(out["error"][place], "^" + error)
            self.assertEqual(out["status"][place], "wrong_input")
            self.assertTrue(math.isnan(out["time_sec_p50"][place]))
            others = numpy.arange(1000) != place
            numpy.testing.assert_allclose(
                out["time_sec_p95"][others], good["time_sec_p95"][others], rtol=1e-9
            )
            self.assertEqual(set(out["status"][others]), {"ok"})
        mixed = {"network": ["resnet18", "nonet", "resnet18"], "batch_size": [8, 8, 0]}
        with self.assertLogs("perfpred", "WARNING"):
            frame = perfpred.load().predict_many(pandas.DataFrame(mixed), device="T4")
        self.assertEqual(frame["status"].tolist(), ["ok", "wrong_input", "wrong_input"])
        self.assertIn("nonet", frame["error"][1])
        with self.assertLogs("perfpred", "WARNING"):
            queue = perfpred.load().predict_many(
                [
                    {
                        "network": "resnet50",
                        "batch_size": 64,
                        "device": "T4",
                        "precision": one,
                    }
                    for one in ("fp16", "bf16")
                ]
            )
        self.assertEqual(queue["status"].tolist(), ["ok", "wrong_input"])
        self.assertIn("bf16", queue["error"][1])

    def test_say_what_is_wrong_with_all(self):
        model = self.fitted()
        with self.assertRaisesRegex(perfpred.InputError, "one length"):
            model.predict_many({"batch_size": [1, 2], "depth": [3]})
        with self.assertRaisesRegex(perfpred.InputError, r"^\[0\]: batch_size"):
            model.predict_many({**self.jobs(3), "batch_size": [0, 0, -1]})
        with self.assertRaisesRegex(perfpred.InputError, "quantile 1 "):
            model.predict_many(self.jobs(3), quantiles=[1.0])
        with self.assertRaisesRegex(perfpred.InputError, "quantiles are not numbers"):
            model.predict_many(self.jobs(3), quantiles=["high"])
        self.assertIn("time_sec_p99", model.predict_many(self.jobs(3), quantiles=0.99))
        self.assertEqual(len(model.predict_many(self.jobs(0))["time_sec_p50"]), 0)

    def test_quantiles_by_number(self):
        jobs = self.jobs(10)
        out = self.fitted().predict_many(jobs, quantiles=[0.999, 0.95])
        self.assertEqual(
            list(out),
            [
                "time_sec_p05",
                "time_sec_p50",
                "time_sec_p95",
                "time_sec_p99.9",
                "status",
                "error",
            ],
        )
        beyond = out["time_sec_p50"] * (out["time_sec_p95"] / out["time_sec_p50"]) ** (
            7.1731822197823083 / 2.1318467863266499
        )
        numpy.testing.assert_allclose(out["time_sec_p99.9"], beyond, rtol=1e-9)


class Models(WithFolder):
    def test_reload(self):
        model, other, file = (
            self.fitted(kind="linear"),
            self.fitted(),
            self.path("model.json"),
        )
        other.save(file)
        job = {"depth": 3, "base_filters": 32, "batch_size": 64}
        before = model.predict(**job).time_sec
        with self.assertRaises(perfpred.InputError):
            model.reload(self.path("no.json"))
        self.assertEqual(model.predict(**job).time_sec, before)
        model.reload(file)
        self.assertEqual(model.predict(**job).time_sec, other.predict(**job).time_sec)
        model.reload()
        self.assertEqual(model.info()["rows"], 0)

    def test_observe_what_a_scheduler_has(self):
        model = self.fitted()
        answer = model.predict(depth=3, base_filters=33, batch_size=64)
        rows = [
            {
                "key": answer.key,
                "timestamp_utc": "2026-01-01T00:00:00Z",
                "epochs": 4,
                "seconds": 4.002 * answer.time_sec.p50,
            }
        ]
        self.assertEqual(model.observe(rows), {"observed": 1, "set_aside": []})
        self.assertGreater(
            model.predict(depth=3, base_filters=33, batch_size=64).time_sec.p50,
            answer.time_sec.p50,
        )
        self.assertEqual(
            model.observe(rows)["set_aside"][0]["reason"], "already observed"
        )

    def test_quantiles_of_a_job(self):
        job = {
            "device": "T4",
            "batch_size": 8,
            "epochs": 3,
            "startup_sec": 60,
            "fit_advice": False,
        }
        answer = perfpred.predict("resnet18", quantiles=[0.95, 0.999], **job)
        self.assertEqual([one["q"] for one in answer.quantiles], [0.95, 0.999])
        self.assertEqual(answer.quantiles[0]["total_sec"], answer.total_sec.p95)
        self.assertGreater(answer.quantiles[1]["total_sec"], answer.total_sec.p95)
        self.assertEqual(
            answer.row()["total_sec_q0.999"], answer.quantiles[1]["total_sec"]
        )
        self.assertIn("99.9 % below", repr(answer))
        self.assertEqual(perfpred.predict("resnet18", **job).quantiles, [])
        sweep = perfpred.predict(
            "resnet18", quantiles=[0.99], **{**job, "batch_size": [8, 16]}
        )
        self.assertEqual([len(one.quantiles) for one in sweep], [1, 1])

    def test_fit_save_observe(self):
        model = self.fitted(kind="hybrid", seed=1)
        self.assertEqual(model.info()["rows"], 36)
        self.assertIn("36 rows", repr(model))
        job = {"depth": 3, "base_filters": 32, "batch_size": 64}
        before = model.predict(**job).time_sec.p50
        self.assertAlmostEqual(before / made_up_sec(3, 32, 64), 1, delta=0.1)
        file = self.path("model.json")
        model.save(file)
        self.assertEqual(
            pickle.loads(pickle.dumps(model)).predict(**job).time_sec.p50, before
        )
        done = perfpred.observe(
            file, write_runs(self.path("runs.csv"), before * 1.0002, 9.0)
        )
        self.assertEqual((done["observed"], len(done["set_aside"])), (1, 1), done)
        self.assertIn("outlier", done["set_aside"][0]["reason"])
        self.assertNotEqual(perfpred.predict(model=file, **job).time_sec.p50, before)
        self.assertEqual(model.predict(**job).time_sec.p50, before)

    def test_rows_that_nothing_can_be_learnt_from_are_left_out_and_said(self):
        with open(write_table(self.path("runs_agg.csv"))) as file:
            rows = list(csv.DictReader(file))
        some = [
            rows[0],
            {**rows[1], "network": "nonet", "depth": "", "base_filters": ""},
            *rows[2:],
        ]
        with self.assertLogs("perfpred", "WARNING") as said:
            model = perfpred.fit(some)
        (line,) = said.output
        self.assertRegex(line, r"a row is left out: \[1\]: .*nonet")
        info = model.info()
        self.assertEqual(info["rows"], len(rows) - 1)
        self.assertRegex(info["dropped"][0]["reason"], r"^\[1\]: .*nonet")
        with self.assertRaisesRegex(perfpred.InputError, r"^\[0\]: .*nonet"):
            perfpred.fit(some[1:2])

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_tables_with_gaps(self):
        with open(write_table(self.path("runs_agg.csv"))) as file:
            rows = [
                {**row, "threads": math.nan, "cuda_graph": "0.0", "precision": None}
                for row in csv.DictReader(file)
            ]
        self.assertEqual(perfpred.fit(rows).info()["rows"], len(rows))
        self.assertEqual(perfpred.fit(pandas.DataFrame(rows)).info()["rows"], len(rows))

    def test_eight_that_observe_at_once_lose_no_run(self):
        file, observed = self.path("model.json"), []
        self.fitted().save(file)

        def observe(i):
            runs = write_runs(
                self.path(f"runs{i}.csv"),
                made_up_sec(3, 32, 70 + i),
                batch_sizes=(70 + i,),
            )
            observed.append(perfpred.observe(file, runs)["observed"])

        threads = [threading.Thread(target=observe, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(observed, [1] * 8)
        self.assertEqual(perfpred.load(file).info()["rows"], 36 + 8)

    def test_aggregate_and_plan(self):
        runs, table = (
            write_runs(self.path("runs.csv"), 30.0, 30.0),
            self.path("agg.csv"),
        )
        done = perfpred.aggregate(runs, out=table)
        self.assertEqual((done["runs"], done["rows"]), (2, 2))
        plan = perfpred.plan(table, budget_sec="0:20:00", epochs=30)
        self.assertEqual((plan.n, plan.cost_sec, plan.optimal), (1, 900, True))
        self.assertIn("1 of 2 runs", repr(plan))
        self.assertLess(max(map(len, repr(plan).splitlines())), 120)
        predicted = perfpred.plan(
            table, budget_sec=1e6, epochs=30, model=self.fitted(), value="thr"
        )
        self.assertEqual(predicted.n, 2)
        with self.assertRaises(perfpred.Error) as refused:
            perfpred.plan(table, budget_sec=1200, epochs=30, min_acc=0.9)
        self.assertNotIsInstance(refused.exception, perfpred.InputError)
        with self.assertRaisesRegex(perfpred.InputError, "colour"):
            perfpred.plan(table, budget_sec=1200, epochs=30, colour=1)

    def test_tables_in_memory(self):
        def rows_of(path):
            with open(path) as file:
                return list(csv.DictReader(file))

        table, runs = (
            write_table(self.path("runs_agg.csv")),
            write_runs(self.path("runs.csv"), 30.0, 31.0),
        )
        job = {"depth": 3, "base_filters": 32, "batch_size": 100}
        of_file = perfpred.fit(table)
        expected = (
            of_file.predict(**job).time_sec,
            of_file.observe(runs),
            perfpred.aggregate(runs),
        )
        kinds = [rows_of] if pandas is None else [rows_of, pandas.read_csv]
        for read in kinds:
            model = perfpred.fit(read(table))
            made = (
                model.predict(**job).time_sec,
                model.observe(read(runs)),
                perfpred.aggregate(read(runs)),
            )
            self.assertEqual(made, expected)
        file = self.path("model.json")
        perfpred.fit(table).save(file)
        self.assertEqual(perfpred.observe(file, rows_of(runs)), expected[1])
        if pandas is not None:  # a gap makes a column one of floating-point numbers
            gap = pandas.concat(
                [pandas.read_csv(table), pandas.DataFrame([{"batch_size": 8}])]
            ).iloc[:-1]
            self.assertEqual(str(gap["depth"].dtype), "float64")
            self.assertEqual(perfpred.fit(gap).predict(**job).time_sec, expected[0])

    def test_aggregate_logs_of_other_software(self):
        log = os.path.join(
            os.path.dirname(__file__), "..", "..", "tests", "data", "logs", "keras.csv"
        )
        said = {
            "network": "resnet18",
            "batch_size": 32,
            "train_images": 512,
            "optimizer": "sgd",
            "precision": "fp32",
        }
        runs = self.path("keras_runs.csv")
        done = perfpred.aggregate(
            from_logs=log, runs_out=runs, out=self.path("agg.csv"), device="T4", **said
        )
        self.assertEqual((done["runs"], done["rows"]), (1, 1))
        self.assertEqual(perfpred.aggregate(runs)["runs"], 1)
        with self.assertRaisesRegex(perfpred.InputError, "device"):
            perfpred.aggregate(from_logs=log, **said)

    def test_plans_of_a_queue(self):
        rows = [
            {
                "network": "resnet18",
                "batch_size": 32,
                "id": "a",
                "count": 2,
                "epochs": 1,
                "value": 2.5,
            }
        ]
        plan = perfpred.plan(
            rows,
            budget_sec={"T4": "1-00:00:00"},
            devices=["T4", "T4"],
            model=perfpred.load(),
        )
        self.assertEqual(
            (plan.n, plan.value, plan.devices), (2, 5.0, ["T4 #1", "T4 #2"])
        )
        self.assertEqual({run["id"] for run in plan.items}, {"a"})
        self.assertIn("T4 #", repr(plan))
        uneven = {"T4 #1": 80000, "T4": 90000}
        plan = perfpred.plan(
            rows, budget_sec=uneven, devices=["T4", "T4"], model=perfpred.load()
        )
        self.assertEqual(plan.budget_sec, {"T4 #1": 80000, "T4 #2": 90000})
        self.assertIn(" + ", repr(plan))

    def test_plans_keep_times_of_jobs_and_devices(self):
        job = {"network": "resnet18", "batch_size": 32, "epochs": 1, "value": 1}
        first = perfpred.plan(
            [{**job, "id": "a"}],
            budget_sec="1-00:00:00",
            devices=["T4"],
            model=perfpred.load(),
        )
        cost = first.items[0]["cost_sec"]
        self.assertEqual(
            (first.makespan_sec, first.makespan_optimal, first.free_from_sec),
            (cost, True, []),
        )
        rows = [
            {**job, "id": "late", "earliest_sec": 600 + 2 * cost, "deadline_sec": None},
            {**job, "id": "soon", "earliest_sec": None, "deadline_sec": 600 + cost},
            {**job, "id": "never", "earliest_sec": None, "deadline_sec": cost},
        ]
        plan = perfpred.plan(
            rows,
            budget_sec="1-00:00:00",
            devices=["T4"],
            free_from_sec={"T4": "10:00"},
            model=perfpred.load(),
        )
        self.assertEqual(
            [(run["id"], run["start_sec"], run["end_sec"]) for run in plan.items],
            [
                ("soon", 600, 600 + cost),
                ("late", 600 + 2 * cost, 600 + 3 * cost),
            ],
        )
        self.assertEqual(
            (plan.optimal, plan.makespan_sec, plan.free_from_sec),
            (True, 600 + 3 * cost, [600]),
        )

    def test_plans_of_workloads_by_a_model(self):
        table = self.path("workloads.csv")
        with open(table, "w") as file:
            file.write(
                "network,batch_size,precision,device\nresnet18,32,fp16,T4\nresnet50,64,fp16,L4\n"
            )
        terms = {
            "budget_sec": 1e6,
            "epochs": 1,
            "value": "thr",
            "prices": {"T4": 0.36, "L4": 0.72},
        }
        plan = perfpred.plan(table, model=perfpred.load(), **terms)
        self.assertEqual((plan.n, plan.left_out), (2, []))
        self.assertEqual({run["device"] for run in plan.items}, {"T4", "L4"})
        hours = {run["device"]: run["cost_sec"] / 3600 for run in plan.items}
        self.assertAlmostEqual(plan.price, 0.36 * hours["T4"] + 0.72 * hours["L4"])
        self.assertIn(f"for {plan.price:.2f}, value", repr(plan))
        with open(table) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(
            perfpred.plan(rows, model=perfpred.load(), **terms).to_dict(),
            plan.to_dict(),
        )
        with self.assertRaisesRegex(perfpred.InputError, 'column "depth" is missing'):
            perfpred.plan(table, **terms)
        with self.assertRaisesRegex(perfpred.InputError, "int is neither a path"):
            perfpred.plan(3, **terms)
        with self.assertRaisesRegex(perfpred.InputError, "the table has no row"):
            perfpred.plan([], **terms)
        unsized = [
            rows[0],
            {"network": "resnet18", "device": "T4"},
        ]  # places are those of the list
        with self.assertRaisesRegex(perfpred.InputError, r"^\[0\]: batch_size"):
            perfpred.plan(unsized[1:], model=perfpred.load(), **terms)
        self.assertEqual(
            [
                row["key"]
                for row in perfpred.plan(
                    unsized, model=perfpred.load(), **terms
                ).left_out
            ],
            ["[1]"],
        )
        with self.assertRaisesRegex(
            perfpred.InputError, '^the table: column "depth" is missing'
        ):
            perfpred.plan(rows, **terms)
        with self.assertRaisesRegex(perfpred.InputError, "both given"):
            perfpred.plan(table, model=perfpred.load(), price_per_hour=1, **terms)
        if pandas is not None:
            frame = pandas.DataFrame(rows)
            self.assertEqual(
                perfpred.plan(frame, model=perfpred.load(), **terms).to_dict(),
                plan.to_dict(),
            )
            planned = plan.to_frame()
            self.assertEqual(sorted(planned["network"]), ["resnet18", "resnet50"])
            self.assertEqual(list(planned["precision"]), ["fp16", "fp16"])

    def test_prices_of_devices(self):
        job = {"batch_size": 8, "fit_advice": False, "epochs": 2}
        answers = perfpred.predict(
            "resnet18",
            device=["T4", "L4"],
            prices={"Tesla T4": 0.36, "L4": 0.72},
            **job,
        )
        for answer, price in zip(answers, (0.36, 0.72)):
            self.assertAlmostEqual(
                answer.price.p50, answer.total_sec.p50 * price / 3600
            )
        file = self.path("prices.csv")
        with open(file, "w") as table:
            table.write("device,price_per_hour,currency\nT4,0.36,EUR\n")
        answer = perfpred.predict("resnet18", device="T4", prices=file, **job)
        self.assertEqual((answer.price, answer.currency), (answers[0].price, "EUR"))

    def test_threads_ask_while_another_observes(self):
        model, wrong = self.fitted(), []
        stop = threading.Event()

        def ask():
            while not stop.is_set():
                answer = model.predict(
                    depth=3, base_filters=32, batch_size=64, fit_advice=False
                )
                if not answer.time_sec.p50 > 0:
                    wrong.append(answer)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(5):
            model.observe(
                write_runs(
                    self.path("runs.csv"),
                    made_up_sec(3, 32, 70 + i),
                    batch_sizes=(70 + i,),
                )
            )
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class BadInput(WithFolder):
    def refused(self, what, call, kind=perfpred.InputError):
        with self.assertRaisesRegex(kind, what):
            call()

    def test_values(self):
        self.assertTrue(issubclass(perfpred.InputError, ValueError))
        self.refused(
            "nonet", lambda: perfpred.predict("nonet", device="T4", batch_size=1)
        )
        self.refused(
            "no such",
            lambda: perfpred.predict("resnet18", device="no such", batch_size=1),
        )
        self.refused(
            "batch_size",
            lambda: perfpred.predict("resnet18", device="T4", batch_size=math.nan),
        )
        self.refused(
            "batch_size",
            lambda: perfpred.predict("resnet18", device="T4", batch_size="many"),
        )
        self.refused(
            "object",
            lambda: perfpred.predict("resnet18", device="T4", batch_size=object()),
        )
        self.refused(
            "colour",
            lambda: perfpred.predict(
                "resnet18", device="T4", batch_size=1, colour="red"
            ),
        )
        self.refused(
            "example",
            lambda: perfpred.predict("resnet18", 1, device="T4", batch_size=1),
        )
        self.refused("batch_size", lambda: perfpred.predict("resnet18", device="T4"))
        self.refused(
            "BadInput is neither the name of a network",
            lambda: perfpred.predict(BadInput, 1, device="T4"),
        )

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_an_array_of_one_number_is_that_number(self):
        sec = perfpred.predict("resnet18", device="T4", batch_size=8).step_sec
        for eight in (numpy.array(8), numpy.int64(8), numpy.float32(8)):
            self.assertEqual(
                perfpred.predict("resnet18", device="T4", batch_size=eight).step_sec,
                sec,
            )
        self.assertEqual(
            perfpred.predict(
                "resnet18", device=numpy.array("T4"), batch_size=8
            ).step_sec,
            sec,
        )

    def test_values_that_cannot_be_written_out(self):
        deep = []
        for _ in range(5000):
            deep = [deep]
        itself = {}
        itself["a"] = itself

        class Silent:
            def __repr__(self):
                raise RuntimeError

        job = lambda **fields: (
            lambda: perfpred.predict(
                "resnet18", **{"device": "T4", "batch_size": 8, **fields}
            )
        )
        self.refused("batch_size", job(batch_size=10**5000))
        self.refused("batch_size", job(batch_size=-(10**400)))
        self.refused("batch_size", job(batch_size=[10**5000]))
        self.refused("prices is nested too deeply", job(prices=itself))
        self.refused("batch_size", job(batch_size=deep))
        self.refused("batch_size: Silent", job(batch_size=Silent()))
        self.refused(
            "a value that no file holds", lambda: perfpred.fit([{"depth": 10**5000}])
        )
        self.refused(
            "a value that no file holds", lambda: perfpred.fit([{"network": "\ud800"}])
        )
        if numpy is not None:
            many = lambda value: (
                lambda: perfpred.load().predict_many(
                    {"batch_size": [value, 8]}, network="resnet18"
                )
            )
            self.refused(r"\[0\]: batch_size", many(10**400))
            self.refused(r"\[0\]: batch_size", many(10**5000))

    def test_files_that_are_no_networks(self):
        folder = self.path("folder.json")
        os.mkdir(folder)
        with open(self.path("deep.json"), "w") as file:
            file.write("[" * 200000)
        job = lambda network: (
            lambda: perfpred.predict(network, device="T4", batch_size=1)
        )
        self.refused("folder.json: cannot be read: Is a directory", job(folder))
        self.refused("deep.json: is nested too deeply", job(self.path("deep.json")))
        if os.getuid() != 0:
            os.chmod(self.path("deep.json"), 0)
            self.refused(
                "deep.json: cannot be read: Permission denied",
                job(self.path("deep.json")),
            )

    def test_what_the_system_refuses_is_an_error_of_the_package(self):
        import resource

        from perfpred._measure import runs_file
        from perfpred._measure.errors import MeasureError

        runs, before = self.path("runs.csv"), resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            self.refused(
                "runs.csv: cannot be written: File too large",
                lambda: runs_file.append(runs, {}),
                MeasureError,
            )
            self.refused(
                "cannot be written: File too large",
                lambda: perfpred.fit([{"depth": 1}]),
                perfpred.Error,
            )
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.assertEqual(os.path.getsize(runs), 0)
        gone = self.path("gone")
        before, tempfile.tempdir = tempfile.tempdir, gone
        try:
            self.refused("gone", lambda: perfpred.fit([{"depth": 1}]), perfpred.Error)
        finally:
            tempfile.tempdir = before

    def test_texts_that_would_be_cut(self):
        self.refused(
            r"network: 'resnet18\\x00' has a zero byte",
            lambda: perfpred.predict("resnet18\0", device="T4"),
        )
        self.refused(
            "device: .* zero",
            lambda: perfpred.predict("resnet18", device=["T4\0"], batch_size=1),
        )
        self.refused(
            "network: .*Unicode",
            lambda: perfpred.predict("resnet18\ud800", device="T4", batch_size=1),
        )
        self.refused("zero byte", lambda: perfpred.devices("T4\0"))
        self.refused("zero byte", lambda: perfpred.load("model.json\0"))
        self.refused("int 3 is not a text", lambda: perfpred.devices(3))

    def test_tables(self):
        self.refused("int 7 is not a path", lambda: perfpred.load(7))
        self.refused(
            "int 7 is not a path",
            lambda: perfpred.predict("resnet18", model=7, device="T4", batch_size=1),
        )
        self.refused("int is neither a path, nor a DataFrame", lambda: perfpred.fit(7))
        self.refused("int is neither a path", lambda: perfpred.aggregate(7))
        self.refused("list is neither a path", lambda: perfpred.aggregate([1]))
        self.refused("the table has no row", lambda: perfpred.aggregate([]))
        self.refused("int is neither a path", lambda: self.fitted().observe(7))
        self.refused(
            "the table: column .* is missing",
            lambda: perfpred.fit([{"network": "resnet18"}]),
        )
        with open(write_table(self.path("runs_agg.csv"))) as file:
            rows = list(csv.DictReader(file))
        self.refused(
            r"^\[3\]: depth",
            lambda: perfpred.fit([*rows[:3], {**rows[3], "depth": "deep"}]),
        )

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_columns(self):
        model = perfpred.load()
        many = lambda jobs: (
            lambda: model.predict_many(jobs, network="resnet18", device="T4")
        )
        self.refused(
            r"\[0\]: batch_size .*'a'.* is not a number",
            many({"batch_size": ["a", "b"]}),
        )
        self.refused(r"\[0\]: batch_size .* is not", many({"batch_size": [{}]}))
        self.refused(
            "list is neither a DataFrame, nor a dictionary of columns", many([1, 2])
        )
        self.refused("int is neither", many(3))
        self.refused(
            r"\[0\]: batch_size is missing", many([{"classes": 100}, {"classes": 10}])
        )
        self.refused("batch_size: its values", many({"batch_size": [[1], [2, 3]]}))
        self.refused("not columns of one length", many({"batch_size": 8}))

    @unittest.skipIf(torch is None, "no torch")
    def test_losses_and_examples(self):
        module, example = torch.nn.Linear(4, 4), torch.zeros(3, 4)
        step = lambda loss=None, example=example, module=module: perfpred.predict(
            module, example, device="T4", batch_size=2, loss=loss, fit_advice=False
        )
        self.refused("loss: int 5 is not a function", lambda: step(5))
        self.refused(
            r"the loss is a tensor of \[3, 4\], not one number",
            lambda: step(lambda output: output),
        )
        self.refused("the loss is float", lambda: step(lambda output: 1.0))
        self.refused(
            "depends on no parameter", lambda: step(lambda output: torch.zeros(()))
        )
        self.refused("no tensor with a batch", lambda: step(example=5))

        class Silent(torch.nn.Linear):
            def forward(self, x):
                super().forward(x)

        self.refused(
            "the module gives NoneType: loss=", lambda: step(module=Silent(4, 4))
        )
        if numpy is not None:
            self.refused(
                "ndarray is no tensor", lambda: step(example=numpy.zeros((3, 4)))
            )
            self.refused(
                "ndarray is no tensor",
                lambda: step(example={"input": numpy.zeros((3, 4))}),
            )
        sec = step().step_sec
        with torch.no_grad():
            self.assertEqual(step().step_sec, sec)
        with torch.inference_mode():
            self.assertEqual(step().step_sec, sec)

    @unittest.skipIf(torch is None, "no torch")
    def test_modules(self):
        frozen, example = torch.nn.Linear(4, 4).requires_grad_(False), torch.zeros(3, 4)
        self.refused(
            "no parameter to train",
            lambda: perfpred.predict(frozen, example, device="T4", batch_size=2),
        )
        self.refused(
            "Linear is neither",
            lambda: perfpred.predict(
                torch.nn.Linear, example, device="T4", batch_size=2
            ),
        )
        self.assertTrue(issubclass(perfpred.CaptureError, perfpred.Error))
        self.assertTrue(issubclass(perfpred.MeasureError, perfpred.Error))

    def test_files(self):
        gone = self.path("gone.json")
        self.refused("gone.json", lambda: perfpred.load(gone))
        self.refused(
            "gone.json", lambda: perfpred.predict(gone, device="T4", batch_size=1)
        )
        self.refused("gone.json", lambda: perfpred.fit(gone))
        runs = write_runs(self.path("runs.csv"), 1.0)
        self.refused(
            "runs.csv: is a runs.csv, of single runs; perfpred-aggregate",
            lambda: perfpred.fit(runs),
        )
        self.refused("gone.json", lambda: perfpred.aggregate(gone))
        self.refused("gone.json", lambda: self.fitted().observe(gone))
        self.refused("gone.json", lambda: perfpred.devices(device_file=gone))
        self.refused("gone.json: is not a folder", lambda: perfpred.add_graphs(gone))
        self.refused("gone.json", lambda: perfpred.add_op_rules(gone))
        self.refused("gone.json", lambda: perfpred.plan(gone, budget_sec=1, epochs=1))

    def test_models_of_another_version(self):
        file = self.path("model.json")
        self.fitted().save(file)
        with open(file) as opened:
            document = json.load(opened)
        document["format"] += 1
        with open(file, "w") as opened:
            json.dump(document, opened)
        self.refused("format", lambda: perfpred.load(file), perfpred.ModelError)
        self.assertFalse(issubclass(perfpred.ModelError, ValueError))

    def test_a_closed_model(self):
        with self.fitted() as model:
            pass
        self.refused(
            "not open", lambda: model.predict(depth=3, base_filters=32, batch_size=64)
        )
        self.refused("not open", lambda: model.save(self.path("model.json")))
        self.assertEqual(repr(model), "<perfpred.Model closed>")
        model.close()


if __name__ == "__main__":
    unittest.main()
