# SPDX-License-Identifier: Apache-2.0
"""perfpred.measure in several processes that train together."""

import csv
import os
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import perfpred

SAMPLES, BATCH = 640, 8


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        return torch.zeros(3, 8, 8), i % 10


def train(rank, path, report, accumulate, wrap):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{report}-meeting", rank=rank, world_size=2
    )
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
    if wrap == "ddp":
        network = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    data = Data()
    sampler = torch.utils.data.DistributedSampler(data)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, sampler=sampler)
    steps, over, error, mean_sec = 0, False, "", None
    try:
        with perfpred.measure(path, network="own", limit_sec=1, cluster="lab") as m:
            while not over:
                for i, (images, labels) in enumerate(loader):
                    nn.functional.cross_entropy(network(images), labels).backward()
                    if (i + 1) % accumulate:
                        m.micro_step()
                        continue
                    optimizer.step()
                    optimizer.zero_grad()
                    steps += 1
                    over = m.step()
                    if over:
                        break
        mean_sec = m.label["mean"] if rank == 0 else None
    except (perfpred.MeasureError, RuntimeError) as e:  # gloo says when rank 0 left
        error = str(e)
    with open(f"{report}{rank}", "w") as file:
        file.write(f"{steps}\n{mean_sec}\n{error}")
    dist.destroy_process_group()


class Ranks(unittest.TestCase):
    def run_two(self, accumulate=1, wrap="ddp"):
        with tempfile.TemporaryDirectory() as folder:
            path, report = os.path.join(folder, "runs.csv"), os.path.join(folder, "of")
            mp.spawn(train, (path, report, accumulate, wrap), nprocs=2)
            rows = []
            if os.path.exists(path):
                with open(path) as file:
                    rows = list(csv.DictReader(file))
                if rows:
                    perfpred.aggregate(path)  # it is read
            reports = []
            for rank in range(2):
                with open(f"{report}{rank}") as file:
                    steps, mean_sec, error = file.read().split("\n", 2)
                reports.append((int(steps), mean_sec, error))
            return rows, reports

    def test_the_first_writes_one_row_of_both(self):
        rows, reports = self.run_two()
        self.assertEqual([error for _, _, error in reports], ["", ""])
        self.assertEqual(reports[0][0], reports[1][0])  # they left at the same step
        (row,) = rows
        self.assertEqual(row["gpus_per_node"], "2")
        self.assertEqual(row["parallel"], "ddp")
        self.assertEqual(row["cluster"], "lab")
        self.assertEqual(row["batch_size"], str(BATCH))
        self.assertEqual(row["train_images"], str(SAMPLES))
        self.assertEqual(row["threads"], "1")
        # An epoch has 40 steps of both.
        self.assertAlmostEqual(float(row["avg_time_sec"]), 40 * float(reports[0][1]))
        self.assertAlmostEqual(
            float(row["images_per_sec"]), SAMPLES / float(row["avg_time_sec"]), 3
        )

    def test_accumulated_batches_count(self):
        rows, _ = self.run_two(accumulate=2)
        self.assertEqual(rows[0]["accumulate"], "2")

    def test_how_they_share_has_to_be_known(self):
        rows, reports = self.run_two(wrap="none")
        self.assertEqual(rows, [])
        self.assertIn("say parallel=", reports[0][2])


if __name__ == "__main__":
    unittest.main()
