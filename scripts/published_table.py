#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks perfpred for the rows of a table of published trainings and compares times, or with --memory peaks of memory.

    scripts/published_table.py TABLE.csv --bin build/release/bin [--memory] [--leave source|device|network] [--json F]

A row becomes a request by the words of its source: the rules and names below say what they mean. A row that they do not
cover is counted with the reason. --leave asks a standard model that was fitted without the row's group, from the data of
PERFPRED_REFERENCE_DIR (with --memory: bounds that were calibrated without it).
"""
import argparse
import collections
import csv
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

import fit_standard_model

GB = 1e9
GIB = float(2**30)

# Sources whose memory the table gives in 10^9 bytes, as its description says. The unit of others follows from rows.
IN_GB = {"pytorch/torchtitan", "pytorch/torchtune", "modelscope/ms-swift", "FlagOpen/FlagPerf",
         "foundation-model-stack/fms-acceleration"}

# What a source's programs do that its rows do not repeat: (source, word of the row's model) -> fields.
RECIPES = [
    ("pytorch/torchtune", "lora", {"adapter_targets": "all"}),  # recipes: q, v, output and MLP
    ("pytorch/torchtune", "", {"optimizer_impl": "fused"}),
    ("modelscope/ms-swift", "", {"attention": "eager"}),  # transformers before 4.36, or the model's own code
    ("Lightning-AI/litgpt", "lora", {"adapter_targets": "q+v"}),  # its defaults
    ("Lightning-AI/litgpt", "", {"padding": "packed"}),  # trains the longest sample first: lengths leave no blocks behind
    ("NVIDIA/DeepLearningExamples", "", {"loader": "included"}),
    ("NVIDIA/DeepLearningExamples", "ssd300", {"layout": "nhwc"}),  # its main.py's default --data-layout
    ("huggingface/optimum-habana", "", {"loader": "included"}),
    ("mlcommons/training_results_v5.0", "", {"loader": "included"}),
    ("facebookresearch/detectron2", "", {"loader": "included"}),
    ("xiaoran007/GPU-Insights", "", {"classes": "10"}),
]

# Tokens of a sample where a source pads to a length that its rows do not repeat: (source, word of the row's notes).
LENGTHS = {("NVIDIA/DeepLearningExamples", "SQuAD"): "384"}  # max_seq_length of its run_squad.sh

# Names that no rule makes; keys without anything but letters and digits.
NETWORKS = {
    "resnet50for3x32x32": "cifar_resnet50",
    "distilbert": "distilbert_base", "bertlarge": "bert_large", "bertbase": "bert_base", "bert": "bert_large",
    "biobertbase": "bert_base",
    "resnet50v15": "resnet50",
    "resnext10132x4d": "resnext101_32x4d",
    # As fast as without wide squeezing, to a percent, where both are in the table.
    "efficientnetwideseb0": "efficientnet_b0", "efficientnetwideseb4": "efficientnet_b4",
    "mobilenetv2": "mobilenet_v2",
    "vithugepatch14": "vit_h_14", "vitgiantpatch14dinov2": "dinov2_g14",
    "vitbasepatch16": "vit_b_16", "vitlargepatch16": "vit_l_16",
    "swinbasepatch4window7": "swin_b",
    "gpt2xl": "gpt2_xl", "gpt2124m": "gpt2", "nanogpt124m": "gpt2",
    "inception3": "inception_v3", "squeezenet": "squeezenet1_0", "shufflenet": "shufflenet_v2_x1_0",
    "shufflenetv2": "shufflenet_v2_x1_0", "mnasnet": "mnasnet1_0", "regnety16gf": "regnet_y_16gf",
    "swintransformertiny": "swin_t", "swintransformersmall": "swin_s", "swintransformerbase": "swin_b",
    "deitsmallpatch16": "deit_s_16", "deitbasepatch16": "deit_b_16", "deits": "deit_s_16", "deitb": "deit_b_16",
    "vits16": "vit_s_16", "vitb16": "vit_b_16", "vitl16": "vit_l_16", "dinov2vitl14": "dinov2_l14",
}

# Published sizes of networks that the build may have no name for.
SIZES = {
    name: f"transformer:layers={layers},hidden={hidden},heads={heads},vocab={words},"
          f"kv_heads={kv_heads},mlp_hidden={inner},norm=rms,positions=rotary,mlp=swiglu,bias=0,dropout=0,tied={tied}"
    for name, layers, hidden, heads, kv_heads, inner, words, tied in (
        ("qwen_1.8b", 24, 2048, 16, 16, 5504, 151936, 0),
        ("qwen_7b", 32, 4096, 32, 32, 11008, 151936, 0),
        ("qwen_14b", 40, 5120, 40, 40, 13696, 152064, 0),
        ("qwen_72b", 80, 8192, 64, 64, 24576, 152064, 0),
        ("baichuan2_7b", 32, 4096, 32, 32, 11008, 125696, 0),
        ("baichuan2_13b", 40, 5120, 40, 40, 13696, 125696, 0),
        ("chatglm3_6b", 28, 4096, 32, 2, 13696, 65024, 0),
        ("yi_6b", 32, 4096, 32, 4, 11008, 64000, 0),
        ("yi_34b", 60, 7168, 56, 8, 20480, 64000, 0),
        ("llama3.2_1b", 16, 2048, 32, 8, 8192, 128256, 1),
        ("llama3.2_3b", 28, 3072, 24, 8, 8192, 128256, 1),
        ("llama3.1_8b", 32, 4096, 32, 8, 14336, 128256, 0),
        ("llama2_70b", 80, 8192, 64, 8, 28672, 32000, 0),
        ("phi3_mini", 32, 3072, 32, 32, 8192, 32064, 0),
    )
}
# MPT as llm-foundry trains it (its scripts/train/yamls/pretrain).
SIZES.update({
    f"mpt_{name}": f"transformer:layers={layers},hidden={hidden},heads={heads},vocab=50368,bias=0,dropout=0"
    for name, layers, hidden, heads in (
        ("125m", 12, 768, 12), ("350m", 24, 1024, 16), ("760m", 24, 1536, 12), ("1b", 24, 2048, 16),
        ("3b", 32, 2560, 20), ("7b", 32, 4096, 32), ("13b", 40, 5120, 40), ("30b", 48, 7168, 56), ("70b", 64, 8192, 64),
    )
})
SIZES["stablelm_alpha_3b"] = ("transformer:layers=16,hidden=4096,heads=32,vocab=50432,positions=rotary,dropout=0,"
                              "tied=0")

# Families that publish one size, version or tune of a network under several names.
SAME = [
    (r"openbuddy-zephyr", "mistral"), (r"zephyr", "mistral"), (r"codellama", "llama-2"), (r"llamaguard", "llama-2"),
    (r"meta-llama", "llama"), (r"baichuan2", "baichuan-2"), (r"chatglm3", "chatglm-3"), (r"^llama-(7|13|30|65)b", r"llama-2-\1b"),
    (r"tiny-?llama\b(?!-1)", "tinyllama-1.1b"), (r"tiny-?llama-1\.1b", "tinyllama-1.1b"),
    (r"stablelm-base-alpha", "stablelm-alpha"), (r"phi-1\.5 1\.3b", "phi-1.5"),
    (r"phi-3-mini-4k", "phi-3-mini"), (r"qwen-(\d)_(\d)b", r"qwen-\1.\2b"), (r"^gemma2b$", "gemma2-2b"),
    (r"powermoe-3b", "granite3_3b_a800m"),
]

# What follows the name of a network in a model's text.
METHODS = re.compile(
    r"[\s,]+(qlora|lora\+?|rslora|dora|adalora|adapter|ia3|full|pretrain\w*|finetun\w*|fine-tune|classification|"
    r"llamapro|galore|lisa\d*|run_\w+|speedrun|sft|none|scattermoe|\(phase).*$")
TUNES = re.compile(r"[-_](chat|instruct|it|hf|uncased|cased|v0\.\d|whole-word-masking|in2[12]k|224)(?![a-z0-9])")

UNMAPPABLE = [  # methods, layouts and programs that no field of a workload says
    (r"galore", "method galore"), (r"\blisa\d*\b", "method lisa"), (r"llamapro", "method llamapro"),
    (r"\b(boft|c3a|deft|delora|fourierft|frod|glora|gralora|hra|lily|ln_tuning|loha|lokr|miss|oft|peanut|psoft|p?vera|"
     r"randlora|road|shira|vblora|waveft)\b", "method of peft without a field"),
    (r"suspect:", "contradicts its own table"),
    (r"offload", "offloading"), (r"optimizer (fused )?in backward", "optimizer in backward"),
    (r"thunder", "software thunder"), (r"transformer engine layer", "software transformer engine"),
    (r"scattermoe", "software scattermoe"), (r"speedrun", "custom network"), (r"adapter_v2", "method adapter_v2"),
    (r"4-bit rank-1|(ao|lpmm) 4-bit", "optimizer of 4 bits"), (r"novograd", "optimizer novograd"),
]

SOFTWARE = [(r"xla", "xla"), (r"tensorflow", "tensorflow"), (r"mxnet", "mxnet"), (r"paddle", "paddle"),
            (r"\bjax\b|flax", "jax"), (r"pytorch|torch", "pytorch")]

PACKED = ("nf4", "int8", "int4")  # types of frozen weights

DEFAULTS = {"attention": "sdpa", "optimizer_impl": "fused", "weights": "as_precision", "adapter": "", "checkpoint": "none", "accumulate": "1", "compiled": "0",
            "software": "pytorch", "loader": "none", "loss": "whole", "padding": "packed"}


class Unmapped(Exception):
    """Why a row has no request."""


def key_of(text):
    return re.sub(r"[^a-z0-9]", "", text.lower())


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


class Programs:
    """The programs of one build, and what they know."""

    def __init__(self, folder):
        self.predict = os.path.join(folder, "perfpred-predict")
        usage = subprocess.run([self.predict, "--help"], check=True, capture_output=True, text=True).stdout
        self.fields = {name.replace("-", "_") for name in re.findall(r"^\s+--([a-z0-9-]+)", usage, re.M)}
        listed = subprocess.run([os.path.join(folder, "perfpred-devices"), "--json"], check=True, capture_output=True,
                                text=True).stdout
        self.devices = {}
        self.aliases = collections.defaultdict(set)
        for row in json.loads(listed)["devices"]:
            self.devices[row["name"]] = row
            aliases = row["aliases"]
            names = [row["name"]] + (aliases.split("|") if isinstance(aliases, str) else list(aliases or []))
            for name in names:
                self.aliases[key_of(name)].add(row["name"])
        self.network_errors = {}
        self.inspect = os.path.join(folder, "perfpred-inspect")
        self.parameters = {}

    def params(self, network, size):
        """Parameters of a network."""
        if network not in self.parameters:
            command = [self.inspect, "--network", network, "--input", str(size), "--batch-size", "1", "--json"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            self.parameters[network] = json.loads(done.stdout)["params"]
        return self.parameters[network]

    def answers(self, requests, model=None):
        """One answer for each request, an object of a workload's fields."""
        if not requests:
            return []
        command = [self.predict, "--jsonl"] + (["--model", model] if model else [])
        text = "".join(json.dumps(request) + "\n" for request in requests)
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if len(answers) != len(requests):
            sys.exit(f"{self.predict}: {len(answers)} answers to {len(requests)} requests: {done.stderr.strip()[:500]}")
        return answers

    def knows_network(self, name, size):
        """Empty, or why the binary has no such network."""
        if name not in self.network_errors:
            request = {"network": name, "device": "H200", "batch_size": 1, "precision": "fp32", **size}
            error = self.answers([request])[0].get("error", "")
            self.network_errors[name] = error if "not known" in error else ""
        return self.network_errors[name]

    def device(self, text, memory=False):
        """The catalogue's name. A variant that the text leaves open is the one of servers (SXM). A card whose owner gave it
        more memory is as fast as others, but for --memory another one."""
        likely = re.search(r"not stated \((\S+) likely\)", text)
        text = likely.group(1) if likely else text
        if text.startswith("not stated"):
            raise Unmapped("device not stated")
        text = re.sub(r" GPU \((\d+) cores\)", r" \1-core GPU", text.replace("Radeon Instinct ", ""))
        bare = re.sub(r"\(.*?\)|\?$", "", text).strip()
        edition = re.search(r"\((\d+) GB edition\)", text)
        size = edition or re.search(r"-(\d+)GB\b", bare)
        without = [re.sub(r"-\d+GB\b", "", name) for name in (bare, bare.replace("-", " "), re.sub("[()]", "", text))]
        for name in (bare, *without, without[0] + " Edition", without[0] + "2"):
            found = self.aliases.get(key_of(name), set())
            if size and (memory or not edition):
                found = {device for device in found if self.memory_is(device, float(size.group(1)))}
            servers = {device for device in found if "SXM" in device} or found
            if found:
                return min(servers)
        raise Unmapped("unknown device")

    def memory_is(self, device, size):
        memory = self.devices[device].get("mem_gb")
        return memory is None or abs(float(memory) / size - 1) < 0.1


def names_of(text):
    """perfpred's possible names of a network that its source calls `text`."""
    if key_of(text) in NETWORKS:
        return [NETWORKS[key_of(text)]]
    names = [re.sub(r"[-\s/]", "_", text)]
    sized = re.fullmatch(r"([a-z]+)[-_ ]?v?(?:(\d+(?:\.\d+)?)(?=[-_ ]))?[-_ ]?(alpha|mini|small|medium)?[-_ ]?"
                         r"(\d+x)?(\d+(?:\.\d+)?)?(b|m)?", text)
    if sized:
        family, version, kind, experts, size, unit = (part or "" for part in sized.groups())
        tail = "_".join(part for part in (kind, experts + size + unit) if part)
        names += [f"{family}{version}_{tail}", f"{family}_{version}_{tail}", f"{family}{version}{size}"]
        names += [f"{family}{version}_{kind}"] if kind else []
    names = [name.rstrip("_") for name in dict.fromkeys(names) if "__" not in name]
    return names + [SIZES[name] for name in names if name in SIZES]


def network_of(row):
    """The source's name without its method, and perfpred's possible names of it. Where the notes name a recipe's file,
    its folder says more than the model's name does."""
    texts = [METHODS.sub("", " " + re.sub(r"\(.*$", "", row["model"].lower()).strip()).strip()]
    recipe = re.search(r"([\w.-]+)/(?:lora|qlora|full)\.yaml", row["notes"])
    if recipe:
        texts.insert(0, recipe.group(1).lower())
    names = []
    for i, text in enumerate(texts):
        text = re.sub(r"^[\w.-]+/(?=[a-z])", "", text)  # an owner on the Hub
        for pattern, name in SAME:
            text = re.sub(pattern, name, text)
        texts[i] = TUNES.sub("", TUNES.sub("", text))
        names += names_of(texts[i])
    return texts[-1], list(dict.fromkeys(names))


# Software before PyTorch 2.0's fused attention, or before transformers used it (4.36, end of 2023).
WRITTEN_OUT = re.compile(r"\b20(1\d|2[0-2])\b|pytorch-?1\.|PyTorch 1\.|TensorFlow 1")

IS_TEXT = re.compile(r"llama|mistral|mixtral|qwen|gemma|falcon|phi|stablelm|baichuan|chatglm|glm|yi|gpt|bert|bloom|mpt|"
                     r"zephyr|moe|opt-|pythia|\bt5|(?<!swin )transformer|lora|xl base|smollm|vicuna|olmo|deepseek|electra")


# Where a source states the longest text alone, the mean is taken to lie between an eighth of it and all of it, the
# logarithm of one share as likely as that of another: the middle, and the half width that holds 90 % of them.
SHORTEST = 1 / 8
MIDDLE, HALF_WIDTH = math.sqrt(SHORTEST), -0.45 * math.log(SHORTEST)


def knows_length(row):
    """Whether the mean length of a row's texts is known."""
    return bool(number(row["tokens_per_sample"])) or not row["seq_len"].startswith("<=")


def sequence_of(row, memory):
    """Tokens of a sample: for memory the longest, for time the mean."""
    stated = re.match(r"(<=)?\s*(\d+)", row["seq_len"])
    padded = next((length for (source, word), length in LENGTHS.items()
                   if row["source"].startswith(source) and word in row["notes"]), None)
    if memory:
        return stated.group(2) if stated else padded
    mean = number(row["tokens_per_sample"])
    if mean or padded:
        return str(round(mean)) if mean else padded
    if not stated:
        raise Unmapped("unknown_length")
    return stated.group(2) if knows_length(row) else str(round(MIDDLE * float(stated.group(2))))


def precision_of(row):
    """precision and weights"""
    text = row["precision"].lower()
    everything = f"{row['model']} {row['precision']}".lower()
    weights = "as_precision"
    if re.search(r"gptq.*int8|int8.*gptq|int8", everything):
        weights = "int8"
    elif re.search(r"gptq|int4 gptq", everything):
        weights = "int4"
    elif re.search(r"nf4|qlora|int4 bnb|bnb", everything):
        weights = "nf4"
    if re.search(r"tf32 (in|where)", text):
        precision = "default" if "cudnn" in text else "tf32"
    elif "tf32" in text:
        precision = "tf32"
    elif "bf16" in text and "fp16 or" not in text:
        precision = "bf16"
    elif "fp16" in text:
        precision = "fp16"
    elif "fp32" in text:
        precision = "fp32"
    else:
        raise Unmapped("unknown precision")
    mixed = re.search(r"amp|mixed", text)
    if weights == "as_precision" and precision in ("bf16", "fp16") and not mixed:
        weights = precision  # parameters in that type, not autocast
    return {"precision": precision, "weights": weights}


def optimizer_of(row, notes):
    text = row["optimizer"].lower()
    if re.search(r"8-bit adamw|paged 8-bit", notes.lower()):
        return "paged_adamw8bit" if "paged" in notes.lower() else "adamw8bit"
    if re.search(r"8-bit|fp8", text):
        return "adamw8bit" if "adamw" in text else "adam8bit"
    if text in ("", "see recipe"):
        if IS_TEXT.search(row["model"].lower()):
            return "adamw"  # how they are trained everywhere
        return "momentum"  # images: SGD with momentum
    for name in ("adafactor", "lion", "muon", "lamb", "rmsprop", "adagrad", "adadelta"):
        if name in text:
            return name
    if "adamw" in text:
        return "adamw"
    if "adam" in text:
        return "adam"
    if "sgd" in text:
        return "sgd" if "no momentum" in text else "momentum"
    raise Unmapped("unknown optimizer")


def adapter_of(row, targets):
    text = f"{row['model']} {row['notes']}".lower()
    name = re.search(r"\b(qlora|lora|rslora|dora|adalora|ia3|adapter)\b", row["model"].lower().replace("lora+", "lora"))
    if not name:
        return ""
    name = {"qlora": "lora", "rslora": "lora"}.get(name.group(1), name.group(1))
    rank = re.search(r"\br=?(\d+)\b", row["model"].lower())
    if re.search(r"all linear layers|lora\+? r\d+ all|q k v o", text) or row["model"].lower().endswith(" all"):
        targets = "attention" if "q k v o" in text else "all"
    if name == "adapter":
        return "adapter:r=64"  # the usual width of a bottleneck (Houlsby et al. 2019)
    return f"ia3:targets={targets}" if name == "ia3" else f"{name}:r={rank.group(1) if rank else 8},targets={targets}"


def additions(rows):
    """Notes of rows, with those of the rows before where each row adds to the one before."""
    added = collections.defaultdict(list)
    for row in rows:
        notes = row["notes"]
        if "each row adds to the one before" in notes:
            group = added[row["source"], network_of(row)[0], row["gpu"]]
            group.append(notes)
            notes = "; ".join(group)
        yield notes


def network_and_input(row, programs, memory):
    """@throws Unmapped"""
    text, names = network_of(row)
    if number(row.get("hidden") or "") and number(row.get("layers") or "") and number(row.get("heads") or ""):
        # Megatron-LM's usual vocabulary where none is stated: GPT-2's, padded.
        words = int(number(row["vocab"]) or 51200)
        names.append(f"transformer:layers={row['layers']},hidden={row['hidden']},heads={row['heads']},vocab={words}")
    sized = {}
    if not IS_TEXT.search(text):
        size = re.match(r"\d*", row["image_size"]).group() or "224"  # ImageNet's, where none is stated
        sized["input"] = f"3x{size}x{size}"
    elif IS_TEXT.search(text):
        length = sequence_of(row, memory)
        if not length:
            raise Unmapped("unknown_length")
        sized["input"] = length
    known = [name for name in names if not programs.knows_network(name, sized)]
    if not known:
        raise Unmapped(f"unknown network {text}")
    return {"network": known[0], **sized}


def accumulation_of(row):
    micro_steps = number(row["accumulate"])
    whole = re.fullmatch(r"\d+", row["global_batch"])
    if micro_steps is None and whole:
        micro_steps = int(whole.group()) / number(row["batch_per_gpu"]) / replicas_of(row)
    return str(max(1, round(micro_steps or 1)))


def devices_of(row):
    return int(number(row["gpus"]) or 1)


# Words of a layout, `dp tp4 pp8 cp1 vp5`, and of what replicas share.
LAYOUT = re.compile(r"\b(tp|pp|cp|ep|vp)_?(?:size )?\s?(\d+)")
SHARED = [(r"fsdp zero3|zero-?3", "zero3"), (r"zero-?2", "zero2"), (r"zero-?1|distributed optimizer", "zero1"), (r"fsdp", "fsdp")]

# Programs whose tensor parallelism shares the words, too: torchtitan's parallelize.py; NeMo's recipes.
WITH_SP = re.compile("pytorch/torchtitan|NVIDIA-NeMo/|NVIDIA/NeMo")


def layout_of(row):
    """The numbers of a row's layout, and what its replicas share. @throws Unmapped"""
    text = row["parallelism"].lower().replace("=", "").replace(",", " ")
    if re.search(r"see |device_map|\(\d+\)", text):
        raise Unmapped("layout not stated")
    numbers = {name: int(value) for name, value in LAYOUT.findall(text)}
    numbers.update({name: int(row[name]) for name in ("tp", "pp", "cp", "ep", "vp") if number(row.get(name) or "")})
    stage = row.get("zero") or ""
    shared = next((name for pattern, name in SHARED if re.search(pattern, text)), "ddp")
    if stage in ("1", "2", "3"):
        shared = f"zero{stage}"
    elif text == "zero":
        raise Unmapped("stage of ZeRO not stated")
    return {name: value for name, value in numbers.items() if value > 1}, shared


def replicas_of(row):
    numbers, _ = layout_of(row)
    return max(1, devices_of(row) // math.prod(numbers.get(name, 1) for name in ("tp", "pp", "cp")))


def placement_of(row):
    """parallel and gpus_per_node; nodes of eight where the row does not say how many there are."""
    gpus = devices_of(row)
    if gpus == 1:
        return {}
    numbers, shared = layout_of(row)
    nodes = int(number(row["nodes"]) or 0) or -(-gpus // 8)
    if gpus % nodes:
        raise Unmapped("nodes of several sizes")
    if numbers.get("tp", 1) > 1 and WITH_SP.search(row["source"]):
        numbers["sp"] = 1
    split = ",".join(f"{name}={value}" for name, value in numbers.items())
    if row["source"].startswith("Lightning-AI/litgpt") and shared in ("fsdp", "zero3") and not split:
        split = "full=1"  # Fabric's load_raw() and save() of whole networks
    parallel = f"{shared}+{split}" if split and shared != "ddp" else split or shared
    return {"parallel": parallel, "gpus_per_node": f"{gpus // nodes}x{nodes}" if nodes > 1 else str(gpus)}


# torchtitan's default selective_ac_option.
PER_OP = re.compile(r"^pytorch/torchtitan .*selective|per[- ]op")


def is_megatron(row):
    return "megatron" in row["framework"].lower()


def program_of(row, notes):
    """What executes the step: software, torch.compile, attention written out or fused."""
    framework = row["framework"].lower()
    software = framework + (" xla" if notes.startswith("XLA") else "")
    fields = {"software": next((name for pattern, name in SOFTWARE if re.search(pattern, software)), "pytorch")}
    may_be_eager = "eager or compiled" in framework
    fields["compiled"] = "1" if "compile" in f"{framework} {notes.lower()}" and not may_be_eager else "0"
    old = WRITTEN_OUT.search(row["framework"]) or row["source"].startswith("NVIDIA/DeepLearningExamples")
    if IS_TEXT.search(row["model"].lower()) and (old or "flash attention off" in notes):
        fields["attention"] = "eager"
    if re.match(r"<=", row["seq_len"]):
        fields["padding"] = "padded"
    return fields


def refuse_unmappable(row, notes, memory):
    """@throws Unmapped"""
    other = re.match(r"oneflow|libai/oneflow|mindspore|thunder", row["framework"].lower())
    if other:
        raise Unmapped(f"software {other.group()}")
    words = " ".join((row["model"], row["framework"], row["precision"], row["optimizer"], notes)).lower()
    for pattern, reason in UNMAPPABLE:
        if re.search(pattern, words):
            raise Unmapped(reason)
    if "fp8" in row["precision"]:
        raise Unmapped("precision fp8")
    if not number(row["batch_per_gpu"]):
        raise Unmapped("unknown batch")
    if not memory and not number(row["ms_per_step"]):
        raise Unmapped("unknown time")
    if not memory and row["source"].startswith("NVIDIA/DeepLearningExamples") and row["seq_len"] == "512":
        raise Unmapped("unknown_length")  # its pre-training sorts shorter texts together


def request_of(row, notes, programs, memory):
    """The request of a row, an object of a workload's fields. @throws Unmapped"""
    refuse_unmappable(row, notes, memory)
    request = network_and_input(row, programs, memory)
    request.update(device=programs.device(row["gpu"], memory), batch_size=int(number(row["batch_per_gpu"])),
                   optimizer=optimizer_of(row, notes), accumulate=accumulation_of(row), **precision_of(row),
                   **program_of(row, notes))
    targets = "attention"
    for source, word, fields in RECIPES:
        if row["source"].startswith(source) and word in row["model"].lower():
            targets = fields.get("adapter_targets", targets)
            request.update({name: value for name, value in fields.items() if name != "adapter_targets"})
    if row["source"].startswith("NVIDIA/DeepLearningExamples") and "bert" in request["network"] and \
            (request["software"], request["precision"]) == ("pytorch", "fp16"):
        request["weights"] = "fp16"  # apex.amp's O2 in its run_pretraining.py and run_squad.py
    if "flash attention on" in notes:
        request["attention"] = "sdpa"
    request.update(placement_of(row))
    if is_megatron(row):
        # It computes with parameters in 16 bits, and keeps others of 32 beside them, as its ranks' memory says.
        is_split = bool(layout_of(row)[0])
        request.update(weights="as_precision" if is_split or memory else request["weights"], optimizer_impl="fused")
        if re.search(r"20(19|2[0-3])|deepspeed", row["framework"].lower()):
            request["attention"] = "eager"  # a fused softmax, before FlashAttention
    request["adapter"] = adapter_of(row, targets)
    if request["adapter"] and row["source"].startswith("Lightning-AI/litgpt") and "fsdp" in row["parallelism"]:
        request["checkpoint"] = "all"  # its finetune scripts' activation_checkpointing_policy={Block}
    if request["weights"] in PACKED and not request["adapter"]:
        request["weights"] = "as_precision"
    if request["optimizer"] in ("adam", "adamw") and "fused" not in row["optimizer"].lower():
        request.setdefault("optimizer_impl", "foreach")  # PyTorch's default
    if row["layout"] in ("nchw", "nhwc"):
        request["layout"] = row["layout"]
    if re.match(r"(true|yes)", row["activation_checkpointing"].lower()):
        request["checkpoint"] = "all"
    if PER_OP.search(f"{row['source']} {row['activation_checkpointing']}"):
        request["checkpoint"] = "op"
    if "chunked cross entropy" in notes:
        request["loss"] = "chunked"
    if memory and request["software"] != "pytorch":
        raise Unmapped("software that reserves the whole card")
    return known_fields(request, programs.fields)


def known_fields(request, fields):
    kept = {}
    for name, value in request.items():
        if name in fields:
            kept[name] = value
        elif value != DEFAULTS.get(name):
            raise Unmapped(f"field {name}")
    return kept


def method_of(request, row):
    adapter = request.get("adapter", "").split(":")[0]
    if adapter:
        return ("q" if request.get("weights") in PACKED else "") + adapter
    return "full" if IS_TEXT.search(row["model"].lower()) else "train"


def recompute_what_does_not_fit(programs, cases):
    """Where a row of Megatron-LM does not say whether activations are recomputed, those of attention
    are if the job does not fit else, and all if it still does not."""
    silent = [case for case in cases if is_megatron(case["row"]) and devices_of(case["row"]) > 1
              and not case["row"]["activation_checkpointing"] and "checkpoint" in programs.fields]
    for more in ("selective", "all"):
        answers = programs.answers([case["request"] for case in silent])
        silent = [case for case, answer in zip(silent, answers) if answer.get("verdict") == "does_not_fit"]
        for case in silent:
            case["request"]["checkpoint"] = more


def ask_time(programs, cases, model=None):
    """Milliseconds of what ms_per_step times: a micro step or a whole one."""
    recompute_what_does_not_fit(programs, cases)
    steps = 1000
    requests = []
    for case in cases:
        micro = int(case["request"].get("accumulate", 1))
        samples = case["request"]["batch_size"] * micro * replicas_of(case["row"])
        requests.append({**case["request"], "train_images": samples * steps})
    for case, answer in zip(cases, programs.answers(requests, model)):
        if "error" in answer:
            case["error"] = answer["error"]
            continue
        micro = int(case["request"].get("accumulate", 1)) if case["row"]["step_is"] == "micro" else 1
        time = answer["time_sec"]
        if not knows_length(case["row"]):
            for quantile in ("p05", "p95"):
                width = math.hypot(math.log(time[quantile] / time["p50"]), HALF_WIDTH)
                time[quantile] = time["p50"] * math.exp(width if quantile == "p95" else -width)
        for name, quantile in (("predicted_ms", "p50"), ("p05_ms", "p05"), ("p95_ms", "p95")):
            case[name] = time[quantile] / steps / micro * 1e3
        case["verdict"] = answer.get("verdict")


def group_of(case, field):
    """What --leave calls a row's group."""
    return case["row"]["source"] if field == "source" else case["request"][field]


def keeps_rows_of_others(field, group, programs):
    """Whether a row that the standard model is fitted on is of another group, as a function of the row."""
    def device_of(row):
        try:
            return programs.device(row["gpu"])
        except Unmapped:
            return None

    def network_of_row(row):
        if "model" not in row:
            return None  # operators
        small = row.get("dataset", "").lower().startswith("cifar") and not row["model"].startswith("cifar")
        return key_of(("cifar_" if small else "") + row["model"])

    return {"source": lambda row: row.get("source") != group,
            "device": lambda row: device_of(row) != group,
            "network": lambda row: network_of_row(row) != key_of(group)}[field]


def ask_time_without(programs, folder, cases, field):
    """Asks for each row a standard model that was fitted without the row's group."""
    reference = os.environ.get("PERFPRED_REFERENCE_DIR") or sys.exit("--leave needs PERFPRED_REFERENCE_DIR")
    groups = collections.defaultdict(list)
    for case in cases:
        groups[group_of(case, field)].append(case)
    with tempfile.TemporaryDirectory() as scratch:
        model = os.path.join(scratch, "model.json")
        for group, own in sorted(groups.items()):
            fit_standard_model.fit(folder, reference, model, keeps_rows_of_others(field, group, programs))
            ask_time(programs, own, model)


MEMORY_KINDS = {"tensors": "tensors", "reserved": "reserved", "device": "device", "unknown": "reserved"}


def states_less_than_its_tensors(case, programs):
    """Whether a full fine-tune's peak is below its parameters, their gradients and Adam's two states, in the types that the
    row states: then some of them are elsewhere, or never there together, and the row does not say so."""
    request, stated = case["request"], number(case["row"]["peak_memory_gb"])
    if request.get("adapter") or not stated or request["optimizer"] not in ("adam", "adamw"):
        return False
    bytes_of_each = 2 if request["weights"] in ("bf16", "fp16") else 4
    return stated * GIB < 4 * bytes_of_each * programs.params(request["network"], request["input"])


def ask_memory(programs, cases):
    answers = programs.answers([case["request"] for case in cases])
    for case, answer in zip(cases, answers):
        if "error" not in answer and states_less_than_its_tensors(case, programs):
            answer["error"] = "states less than its parameters, gradients and Adam's states"
        if "error" in answer:
            case["error"] = answer["error"]
            continue
        kind = MEMORY_KINDS[case["row"]["memory_kind"] or "unknown"]
        memory = answer.get("memory")
        if memory:
            case["predicted_bytes"] = memory[kind]["p50"]
            case["upper_bytes"] = memory[kind]["upper"]
            case["usable_bytes"] = memory["usable"]
        else:
            case["predicted_bytes"] = answer["memory_bytes"]
        case["verdict"] = answer.get("verdict") or ("fits" if answer.get("fits") else "does_not_fit")


def units_by_rows(cases):
    """Bytes of a GB of each source that does not say: 2^30 where that explains its rows better, and none of them is then
    larger than its card."""
    units = {}
    groups = collections.defaultdict(list)
    for case in cases:
        measured = number(case["row"]["peak_memory_gb"])
        if measured and case.get("predicted_bytes"):
            groups[case["row"]["source"].split(" ")[0]].append((case, measured))
    for source, group in groups.items():
        errors = {unit: statistics.median(abs(case["predicted_bytes"] / (gb * unit) - 1) for case, gb in group)
                  for unit in (GB, GIB)}
        too_large = any(gb * GIB > case.get("usable_bytes", math.inf) for case, gb in group)
        units[source] = GB if source in IN_GB or too_large else min(errors, key=errors.get)
    return units


def table_rows(path):
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def map_rows(rows, programs, memory):
    cases, unmapped = [], collections.Counter()
    for line, (row, notes) in enumerate(zip(rows, additions(rows)), start=2):
        oom = row["throughput"] == "OOM"
        if memory and not (number(row["peak_memory_gb"]) or oom):
            continue
        if not memory and oom:
            continue
        try:
            cases.append({"line": line, "row": row, "oom": oom, "request": request_of(row, notes, programs, memory)})
        except Unmapped as reason:
            unmapped[str(reason)] += 1
            if memory and oom and row["gpus"] == "1":
                unmapped["(of these, one GPU and out of memory)"] += 1
    return cases, unmapped


def out_row(case, units):
    row, request = case["row"], case["request"]
    unit = units.get(row["source"].split(" ")[0], GB)
    measured = number(row["peak_memory_gb"])
    bytes_of = {name: case[f"{name}_bytes"] / GB if f"{name}_bytes" in case else None for name in ("predicted", "upper")}
    return {"line": case["line"], "source": row["source"], "network": request["network"],
            "method": method_of(request, row), "gpu": request["device"], "gpus": devices_of(row),
            "parallel": request.get("parallel"), "gpus_per_node": request.get("gpus_per_node"),
            "measured_ms": number(row["ms_per_step"]), "predicted_ms": case.get("predicted_ms"),
            "p05_ms": case.get("p05_ms"), "p95_ms": case.get("p95_ms"),
            "memory_kind": row["memory_kind"] or None, "measured_gb": measured * unit / GB if measured else None,
            "predicted_gb": bytes_of["predicted"], "upper_gb": bytes_of["upper"], "oom": case["oom"],
            "verdict": case.get("verdict"), "knows_length": knows_length(row)}


def summary(errors, covered, widths):
    """n, median |error|, mean |error|, bias, coverage, median width"""
    size = [abs(error) for error in errors]
    coverage = f"{statistics.fmean(covered):9.3f}" if covered else f"{'':9}"
    width = f"{statistics.median(widths):9.2f}" if widths else f"{'':9}"
    return (f"{len(errors):5} {statistics.median(size):8.3f} {statistics.fmean(size):8.3f} "
            f"{statistics.median(errors):+8.3f} {coverage} {width}")


def print_groups(rows, memory):
    """Times of texts whose length is not known are left out. Errors are predicted / measured - 1; coverage is of p05..p95, or of the upper bound; width is p95/p05, or
    upper / measured."""
    def numbers(group):
        errors, covered, widths = [], [], []
        for row in group:
            if memory:
                errors.append(row["predicted_gb"] / row["measured_gb"] - 1)
                if row["upper_gb"] is not None:
                    covered.append(row["measured_gb"] <= row["upper_gb"])
                    widths.append(row["upper_gb"] / row["measured_gb"])
            else:
                errors.append(row["predicted_ms"] / row["measured_ms"] - 1)
                covered.append(row["p05_ms"] <= row["measured_ms"] <= row["p95_ms"])
                widths.append(row["p95_ms"] / row["p05_ms"])
        return summary(errors, covered, widths)

    value = "measured_gb" if memory else "measured_ms"
    scored = [row for row in rows if row[value] and row["predicted_gb" if memory else "predicted_ms"]
              and (memory or row["knows_length"])]
    head = ("upper holds", "upper/m.") if memory else ("coverage", "p95/p05")
    print(f"{'':62} {'n':>5} {'median':>8} {'mean':>8} {'bias':>8} {head[0]:>9} {head[1]:>9}")
    for names in (("source", "network", "method", "gpu"), ("source",), ("method",), ("memory_kind",), ()):
        groups = collections.defaultdict(list)
        for row in scored:
            groups[" ".join(str(row[name]) for name in names) or "all"].append(row)
        for name in sorted(groups):
            print(f"{name[:62]:62} {numbers(groups[name])}")
        print()
    return scored


def print_memory_verdicts(rows, scored, asked):
    within = statistics.fmean(abs(row["predicted_gb"] / row["measured_gb"] - 1) <= 0.2 for row in scored) if scored else 0
    print(f"rows on one GPU: {asked}, answered: {len(scored)} ({len(scored) / max(1, asked):.3f})")
    print(f"within 20 %: {within:.3f}")
    verdicts = collections.Counter((row["oom"], row["verdict"]) for row in rows if row["verdict"])
    for (oom, verdict), count in sorted(verdicts.items()):
        print(f"{'ran out of memory' if oom else 'fitted'}, called {verdict}: {count}")


def calibrate_without(rows, field):
    """Sets each row's upper bound to what the other groups of `field` say: the distance from the expected value to the
    bound is scaled so that 95 % of their rows lie below."""
    def position(row):
        return (row["measured_gb"] - row["predicted_gb"]) / (row["upper_gb"] - row["predicted_gb"])

    kept = [row for row in rows if row["measured_gb"] and row["predicted_gb"] and row["upper_gb"]]
    scales = {}
    for group in {row[field] for row in kept}:
        others = sorted(position(row) for row in kept if row[field] != group)
        if others:
            scales[group] = others[min(len(others) - 1, math.ceil(0.95 * len(others)) - 1)]
    for row in kept:
        scale = scales.get(row[field], 1.0)
        row["upper_gb"] = row["predicted_gb"] + scale * (row["upper_gb"] - row["predicted_gb"])
    return scales


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table")
    parser.add_argument("--bin", required=True, help="folder of the programs")
    parser.add_argument("--memory", action="store_true", help="peaks of memory in place of times")
    parser.add_argument("--leave", choices=("source", "device", "network"), help="fit without each group of rows")
    parser.add_argument("--json", help="write rows and counts to this file")
    given = parser.parse_args()
    rows = table_rows(given.table)
    programs = Programs(given.bin)
    cases, unmapped = map_rows(rows, programs, given.memory)
    if given.leave and not given.memory:
        ask_time_without(programs, given.bin, cases, given.leave)
    else:
        (ask_memory if given.memory else ask_time)(programs, cases)
    for case in cases:
        if "error" in case:
            unmapped[f"refused: {case['error']}"] += 1
    cases = [case for case in cases if "error" not in case]
    units = units_by_rows(cases) if given.memory else {}
    out = [out_row(case, units) for case in cases]
    if given.leave and given.memory:
        scales = calibrate_without(out, {"device": "gpu"}.get(given.leave, given.leave))
        print(f"upper bounds calibrated without each {given.leave}, scaled by", end=" ")
        print(", ".join(f"{scale:.2f}" for scale in sorted(set(scales.values()))))
    single = [row for row in out if row["gpus"] == 1]
    scored = print_groups(single, given.memory)
    if len(single) < len(out):
        print("rows on several devices, whose errors are also those of what one device takes:")
        print_groups([row for row in out if row["gpus"] > 1], given.memory)
    if given.memory:
        asked = sum(1 for row in rows if row["gpus"] == "1" and number(row["peak_memory_gb"]))
        print_memory_verdicts(single, scored, asked)
        for source, unit in sorted(units.items()):
            print(f"{source}: GB of {'10^9' if unit == GB else '2^30'} bytes")
    else:
        asked = sum(1 for row in rows if row["gpus"] == "1" and number(row["ms_per_step"]) and number(row["batch_per_gpu"]))
        print(f"rows on one GPU with time and batch: {asked}, answered: {len(single)} ({len(single) / max(1, asked):.3f})")
    print("unmapped:")
    for reason, count in unmapped.most_common():
        print(f"  {count:5} {reason}")
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"rows": out, "unmapped": dict(unmapped)}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
