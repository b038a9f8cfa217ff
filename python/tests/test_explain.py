# SPDX-License-Identifier: Apache-2.0
"""Measured steps beside the expected ones: perfpred.explain(), and measure's `expected` and explain()."""

import os
import tempfile
import time
import unittest

import torch
from torch import nn

import perfpred

STEP = {"network": "resnet50", "batch_size": 64, "device": "T4", "precision": "fp16"}


class Explain(unittest.TestCase):
    def test_a_step_beside_its_prediction(self):
        expected = perfpred.predict(**STEP).step_sec
        slow = perfpred.explain(measured_ms=2e3 * expected.p95, **STEP)
        self.assertEqual(slow.expected_sec, expected)
        self.assertEqual(slow.finding, "above")
        self.assertAlmostEqual(slow.ratio, 2 * expected.p95 / expected.p50)
        self.assertAlmostEqual(
            sum(one["sec"] for one in slow.causes), slow.difference_sec
        )
        self.assertIn("above the interval", repr(slow))
        self.assertIn("host: perfpred.measure", "\n".join(slow.to_measure))
        usual = perfpred.explain(measured_ms=1e3 * expected.p50, **STEP)
        self.assertIn("nothing to explain", repr(usual))

    def test_runs_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "runs.csv")
            with open(path, "w") as file:
                file.write("key,avg_time_sec,data_wait_share\n")
                file.write(f"{perfpred.predict(**STEP).key},1e6,0.5\n" * 2)
            found = perfpred.explain(path)
        self.assertEqual(len(found), 2)
        self.assertEqual(found[0].causes[0]["cause"], "data")
        self.assertAlmostEqual(
            found[0].causes[0]["sec"], 0.5 * found[0].measured_sec, places=6
        )
        self.assertEqual(len(repr(found).splitlines()), 3)

    def test_is_refused_without_something_measured(self):
        with self.assertRaisesRegex(perfpred.InputError, "one of runs, log"):
            perfpred.explain(**STEP)
        with self.assertRaisesRegex(perfpred.InputError, "no such card"):
            perfpred.explain(measured_ms=5, **{**STEP, "device": "no such card"})


class SlowPictures(torch.utils.data.Dataset):
    def __init__(self, sec):
        self.sec = sec

    def __len__(self):
        return 4000

    def __getitem__(self, i):
        if i % 4 == 0:
            time.sleep(self.sec)
        return torch.randn(3, 32, 32), i % 10


class Measured(unittest.TestCase):
    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "runs.csv")
        torch.manual_seed(0)
        self.network = nn.Sequential(  # cifar_cnn of depth 1 and 4 filters
            *(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()),
            *(nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(4 * 16 * 16, 128), nn.ReLU(), nn.Linear(128, 10)),
        )

    def measured(self, batches, steps=60, **options):
        optimizer = torch.optim.Adam(self.network.parameters())
        given = {
            "network": "cifar_cnn:depth=1,base_filters=4",
            "limit_sec": 0.5,
            **options,
        }
        with perfpred.measure(self.path, **given) as m:
            self.early = m.expected
            for i, (x, y) in enumerate(batches):
                optimizer.zero_grad()
                nn.functional.cross_entropy(self.network(x), y).backward()
                optimizer.step()
                if m.step() or i == steps:
                    break
                self.later = m.expected
        return m

    def loader(self, sec):
        return torch.utils.data.DataLoader(SlowPictures(sec), batch_size=4)

    def test_a_loader_that_is_waited_for_is_found(self):
        m = self.measured(self.loader(0.3), limit_sec=1.2)
        share = m.row["data_wait_share"]
        self.assertGreater(share, 0.5)  # 300 ms beside a step of some
        self.assertLess(share, 1)
        data = [one for one in m.explain().causes if one["cause"] == "data"]
        self.assertAlmostEqual(data[0]["sec"], share * m.explain().measured_sec)
        self.assertIn("waiting for data", repr(m.explain()))

    def test_a_loop_without_a_loader_does_not_say(self):
        batches = [(torch.randn(4, 3, 32, 32), torch.randint(10, (4,)))] * 80
        m = self.measured(batches, train_images=4000)
        self.assertNotIn("data_wait_share", {k for k, v in m.row.items() if v != ""})
        explained = m.explain().to_dict()
        self.assertNotIn("data", [one["cause"] for one in explained["causes"]])
        if explained["finding"] != "within":  # else there is nothing to explain
            self.assertIn("data", explained["not_measured"])

    def test_expected_is_the_answer_for_what_is_measured(self):
        m = self.measured(self.loader(0))
        self.assertIsNone(self.early)
        self.assertEqual(self.later.key, m.expected.key)
        self.assertEqual(m.expected.batch_size, 4)
        self.assertIn("depth=1;base_filters=4", m.expected.key)
        self.assertEqual(m.expected.step_sec, m.explain().expected_sec)
        self.assertAlmostEqual(
            m.explain().measured_sec,
            m.row["avg_time_sec"] / 1000,  # steps of an epoch
        )

    def test_expected_of_a_network_that_nobody_knows_is_none(self):
        with self.assertLogs("perfpred", "WARNING") as logged:
            m = self.measured(self.loader(0), network="mine")
        self.assertIsNone(m.expected)
        self.assertEqual(len(logged.output), 1)  # and is not asked again
        self.assertIn("mine", logged.output[0])
        with self.assertRaisesRegex(perfpred.InputError, "mine"):
            m.explain()

    def test_a_captured_step_is_expected_too(self):
        m = self.measured(self.loader(0), network=None, capture=True)
        self.assertTrue(m.expected.network.startswith("step:"))
        self.assertEqual(m.explain().expected_sec, m.expected.step_sec)

    def test_explain_is_for_a_row(self):
        m = perfpred.measure(self.path, network="mine")
        with self.assertRaisesRegex(perfpred.MeasureError, "when the row is written"):
            m.explain()


if __name__ == "__main__":
    unittest.main()
