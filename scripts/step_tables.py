# SPDX-License-Identifier: Apache-2.0
"""Tables of training steps as scripts hand them to the programs."""
import csv
import os
import re


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
    rows = list(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


# Networks of the published table that the zoo has, by the beginning of their name there.
PUBLISHED = {"resnet50": "resnet50", "efficientnet-b0": "efficientnet_b0", "efficientnet-b4": "efficientnet_b4",
             "mobilenetv2": "mobilenet_v2", "resnext101-32x4d": "resnext101_32x4d",
             "ResNet-50 for 3x32x32": "resnet50", "bert-large": "bert_large"}
PRECISIONS = {"amp-fp16": "amp", "amp-bf16": "bf16", "tf32": "tf32", "fp32": "fp32",
              "fp32 (tf32 in cuDNN on Ampere and newer)": "default",
              "fp32 (tf32 where the framework allows it)": "tf32"}
# Their licences were not checked for a fit that is passed on.
UNCHECKED = ("modelscope/ms-swift", "NVIDIA/NeMo", "huggingface/transformers", "NVIDIA-NeMo/Automodel",
             "NVIDIA/TransformerEngine", "google/flax")


def card(name):
    """`RTX 2080 Ti (22 GB edition)`, `RTX 3090-24GB`: the name that the catalogue knows."""
    name = name.split(" (")[0]
    return re.sub(r"-\d+GB$", "", name) if name.startswith(("RTX", "TITAN", "Radeon", "H20", "P104", "Arc")) else name


def published_steps(reference):
    """Rows of published/visible.csv that a table of steps can hold: training on one GPU of a network of the zoo."""
    rows = []
    for row in csv_rows(reference, "published", "visible.csv"):
        network = next((zoo for name, zoo in PUBLISHED.items() if row["model"].startswith(name)), None)
        whole = row["gpus"] == "1" and row["ms_per_step"] and row["batch_per_gpu"] and "SUSPECT" not in row["notes"]
        texts = network == "bert_large"
        if network is None or not whole or row["precision"] not in PRECISIONS or row["source"] in UNCHECKED or \
                (texts and row["seq_len"] != "128") or "fine-tuning" in row["notes"]:
            continue
        small = "32x32" in row["model"]
        xla = "XLA" in row["notes"]
        micro = "grad accumulation" in row["notes"]
        rows.append({
            "source": row["source"], "licence": row["licence"], "gpu": card(row["gpu"]), "model": network,
            "dataset": "words 128" if texts else "CIFAR-10" if small else f"synthetic {row['image_size'] or 224}",
            "batch": row["batch_per_gpu"],
            "precision": PRECISIONS[row["precision"]] + (f"-{row['layout']}" if row["layout"] in ("nchw", "nhwc") else ""),
            "ms_per_step": row["ms_per_step"], "optimizer": "none" if micro else "sgd",
            "software": "xla" if xla else "tensorflow" if row["framework"].startswith(("TensorFlow", "tensorflow")) else "",
            "compiled": "1" if "compile" in row["framework"] and "version 2" in row["framework"] else "",
            "loader": "included" if "DeepLearningExamples" in row["source"] and not texts else ""})
    return rows


# timm's names of the zoo's networks where they differ.
TIMM = {"mobilenetv2_100": "mobilenet_v2", "mobilenetv3_large_100": "mobilenet_v3_large",
        "mobilenetv3_small_100": "mobilenet_v3_small", "mnasnet_100": "mnasnet1_0", "mnasnet_050": "mnasnet0_5",
        **{f"tf_efficientnetv2_{size}": f"efficientnet_v2_{size}" for size in "sml"},
        **{f"regnet{kind}_{size}": f"regnet_{kind}_{name}" for kind in "xy" for size, name in
           {"004": "400mf", "008": "800mf", "016": "1_6gf", "032": "3_2gf", "080": "8gf", "160": "16gf",
            "320": "32gf"}.items()},
        **{f"swin_{size}_patch4_window7_224": f"swin_{size[0]}" for size in ("tiny", "small", "base")},
        **{f"swinv2_{size}_window8_256": f"swin_v2_{size[0]}" for size in ("tiny", "small", "base")},
        **{f"vit_{size}_patch{patch}_{side}": f"vit_{size[0]}_{patch}" for size, patch in
           (("base", 16), ("base", 32), ("large", 16), ("large", 32), ("huge", 14)) for side in (224, 384)}}


def timm_passes(reference):
    """Forward passes in mixed precision on GPUs, by the newest PyTorch of each card and condition. Networks that the
    zoo lacks keep their names: a folder of step files may have them."""
    newest = {}
    for row in csv_rows(reference, "timm_inference", "inference.csv"):
        if row["precision"] not in ("amp-fp16", "amp-bf16") or not row["step_ms"]:
            continue
        name = row["model"].split(".")[0]
        key = (row["gpu"], row["precision"], row["layout"], row["compiled"], name, row["image"])
        if key not in newest or float(row["torch"]) > float(newest[key]["torch"]):
            newest[key] = {**row, "name": name}
    return [{"source": "huggingface/pytorch-image-models", "licence": "Apache-2.0", "gpu": row["gpu"],
             "model": TIMM.get(row["name"], row["name"]), "dataset": f"synthetic {row['image']}", "batch": row["batch"],
             "precision": f"{PRECISIONS[row['precision']]}-{row['layout']}", "ms_per_step": row["step_ms"],
             "compiled": row["compiled"], "phases": "forward"} for row in newest.values()]
