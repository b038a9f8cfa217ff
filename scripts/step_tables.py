# SPDX-License-Identifier: Apache-2.0
"""Tables of training steps as scripts hand them to the programs."""
import csv
import os


def csv_rows(*path):
    with open(os.path.join(*path), newline="") as file:
        return list(csv.DictReader(file))


def measured_steps(reference):
    """Steps by others, in the spellings of their authors, which perfpred reads as they are."""
    return csv_rows(reference, "cnn_training", "single_gpu_training.csv")


def free(rows):
    """Those whose licence lets a fit on them be passed on."""
    return [row for row in rows if row["licence"] in ("MIT", "Apache-2.0")]


def write(path, rows):
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path
