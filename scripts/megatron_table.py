#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks perfpred-inspect for the peak bytes of a rank in each row of a table of Megatron-LM's own tests.

    scripts/megatron_table.py TABLE.csv --bin build/release/bin [--json F]

A row becomes a request by its flags, which have Megatron-LM's names, and by the software and GPU that it names; neither
the name of a test nor what was measured is read for it. The prediction is that of the last rank, the one that logs. A
row that no request can express is counted with the reason.
"""
import argparse
import collections
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile

OTHER_FAMILIES = ("t5", "hybrid", "mimo", "multimodal-llava")
# Flags that change a rank's memory in ways that no request can state.
UNANSWERED = {
    "mtp-num-layers": "multi-token prediction",
    "use-megatron-fsdp": "Megatron's FSDP",
    "pipeline-model-parallel-layout": "a layout of stages in words",
    "decoder-first-pipeline-num-layers": "stages of unequal length",
    "decoder-last-pipeline-num-layers": "stages of unequal length",
    "account-for-embedding-in-pipeline-split": "stages of unequal length",
    "account-for-loss-in-pipeline-split": "stages of unequal length",
    "hybrid-override-pattern": "layers of several kinds",
    "hybrid-layer-pattern": "layers of several kinds",
    "is-hybrid-model": "layers of several kinds",
    "encoder-num-layers": "an encoder with a decoder",
    "main-params-dtype": "states of another type",
    "exp-avg-dtype": "states of another type",
    "exp-avg-sq-dtype": "states of another type",
}
WORDS = {"": 50257, "GPT2BPETokenizer": 50257, "GPTSentencePieceTokenizer": 256000, "Llama2Tokenizer": 32000,
         "TikTokenizer": 131072, "BertWordPieceLowerCase": 30522, "BertWordPieceCase": 28996}


class Unmapped(Exception):
    """Why a row cannot be asked for."""


class Flags:
    """A row's flags; one that is not stated has Megatron-LM's default."""

    def __init__(self, row):
        self.row = row

    def text(self, name, usual=""):
        return (self.row.get(name) or "").strip() or usual

    def number(self, name, usual):
        text = self.text(name)
        return int(float(text)) if text else usual

    def real(self, name, usual):
        text = self.text(name)
        return float(text) if text else usual

    def on(self, name):
        return self.text(name) in ("True", "true", "1")


def refuse_unanswered(flags):
    if flags.text("model") in OTHER_FAMILIES:
        raise Unmapped(f"family {flags.text('model')}")
    for name, reason in UNANSWERED.items():
        if flags.text(name) not in ("", "False", "0"):
            raise Unmapped(reason)
    if flags.text("optimizer", "adam") not in ("adam", "sgd"):
        raise Unmapped(f"optimizer {flags.text('optimizer')}")
    modules = flags.text("recompute-modules").strip("[]").split()
    if modules not in ([], ["core_attn"]):
        raise Unmapped(f"recomputed modules {' '.join(modules)}")
    if flags.text("recompute-granularity") == "full" and (flags.text("recompute-method") != "uniform"
                                                          or flags.number("recompute-num-layers", 1) != 1):
        raise Unmapped("recomputation of several layers at a time")
    if flags.text("cuda-graph-impl") and flags.number("gpus", 0) == 1:
        raise Unmapped("reinforcement learning: the keys and values of its inference are no flag")
    if not flags.number("hidden-size", 0) or not flags.number("num-layers", 0) or not flags.number("seq-length", 0):
        raise Unmapped("no size of the network in the row")


def layout_of(flags):
    """Numbers of the layout and of the micro-batches on a replica."""
    tp, pp = flags.number("tensor-model-parallel-size", 1), flags.number("pipeline-model-parallel-size", 1)
    cp, experts = flags.number("context-parallel-size", 1), flags.number("num-experts", 0)
    ep = flags.number("expert-model-parallel-size", 1) if experts else 1
    etp = flags.number("expert-tensor-parallel-size", tp) if experts else 1
    world, is_distributed = flags.number("gpus", 8), flags.on("use-distributed-optimizer")
    needed, replica = pp * max(tp * cp, ep * etp), tp * pp * cp
    if is_distributed and not flags.text("gpus_from").startswith("recipe"):
        if world < needed:
            raise Unmapped("GPUs not stated: the assumed ones hold no replica, so the optimizer's shards are unknown")
        if world // replica <= 1 and not flags.text("global-batch-size"):
            raise Unmapped("GPUs not stated: a distributed optimizer over one replica")
    world = -(-max(world, needed) // replica) * replica
    chunk = flags.number("num-layers-per-virtual-pipeline-stage", 0)
    vp = flags.number("num-virtual-stages-per-pipeline-rank", 0)
    vp = vp or (flags.number("num-layers", 0) // pp // chunk if chunk else 1)
    layout = {"tp": tp, "pp": pp, "dp": world // replica, "cp": cp, "ep": ep, "etp": etp, "vp": vp}
    if flags.on("sequence-parallel") and tp > 1:
        layout["sp"] = 1
    batch = flags.number("micro-batch-size", 1) * layout["dp"]
    return layout, world, max(1, flags.number("global-batch-size", batch * pp) // batch)


def parallel_text(flags, layout):
    numbers = ",".join(f"{name}={value}" for name, value in layout.items())
    return f"zero1+{numbers}" if flags.on("use-distributed-optimizer") else numbers


def nodes_text(world):
    whole, rest = divmod(world, 8)
    return "+".join(([f"8x{whole}"] if whole else []) + ([str(rest)] if rest else []))


def words_of(flags):
    """Of the vocabulary, before it is padded."""
    tokenizer = flags.text("tokenizer-type")
    stated = flags.number("vocab-size", 0)
    if stated:
        return stated + (1 if tokenizer == "NullTokenizer" else 0)
    if flags.text("model") == "bert" and not tokenizer:
        return 30522
    if tokenizer not in WORDS:
        raise Unmapped(f"vocabulary of {tokenizer} not stated")
    return WORDS[tokenizer]


def inner_of(flags, hidden):
    usual = hidden * 8 // 3 // 64 * 64 if flags.on("swiglu") else 4 * hidden
    return flags.number("ffn-hidden-size", usual)


def bert_config(flags, folder):
    """A config.json of the row's BERT, as --config takes it."""
    hidden = flags.number("hidden-size", 0)
    config = {"architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": hidden,
              "num_hidden_layers": flags.number("num-layers", 0),
              "num_attention_heads": flags.number("num-attention-heads", 0),
              "intermediate_size": inner_of(flags, hidden), "vocab_size": words_of(flags),
              "max_position_embeddings": flags.number("seq-length", 0),
              "hidden_dropout_prob": flags.real("hidden-dropout", 0.1),
              "attention_probs_dropout_prob": flags.real("attention-dropout", 0.1)}
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return ["--config", path]


def transformer_name(flags):
    hidden, heads = flags.number("hidden-size", 0), flags.number("num-attention-heads", 0)
    dropouts = {flags.real("attention-dropout", 0.1), flags.real("hidden-dropout", 0.1)}
    if dropouts not in ({0.1}, {0.0}):
        raise Unmapped("dropouts other than .1 or 0 everywhere")
    positions = flags.text("position-embedding-type", "learned_absolute")
    if positions not in ("learned_absolute", "rope"):
        raise Unmapped(f"positions {positions}")
    options = {"layers": flags.number("num-layers", 0), "hidden": hidden, "heads": heads, "vocab": words_of(flags),
               "mlp": "swiglu" if flags.on("swiglu") else "gelu", "mlp_hidden": inner_of(flags, hidden),
               "positions": "rotary" if positions == "rope" else "learned",
               "kv_heads": flags.number("num-query-groups", heads),
               "head_dim": flags.number("kv-channels", hidden // heads),
               "bias": 0 if flags.on("disable-bias-linear") else 1, "dropout": 1 if 0.1 in dropouts else 0,
               "tied": 0 if flags.on("untie-embeddings-and-output-weights") else 1}
    experts = flags.number("num-experts", 0)
    if experts:
        options.update(experts=experts, top_k=flags.number("moe-router-topk", 2),
                       expert_hidden=flags.number("moe-ffn-hidden-size", options["mlp_hidden"]))
        shared = flags.number("moe-shared-expert-intermediate-size", 0)
        if shared:
            options["shared_hidden"] = shared
    return "transformer:" + ",".join(f"{name}={value}" for name, value in options.items())


def deterministic_flash(flags):
    """Whether the row's software has a deterministic FlashAttention. The containers of `lts` on the dracooci clusters
    are from before it; those of `lts` elsewhere are of both ages."""
    if flags.text("environment") != "lts":
        return "yes"
    return "no" if "dracooci" in flags.text("platform") else "unknown"


def program_of(flags):
    words = [f"transformer-impl={flags.text('transformer-impl', 'transformer_engine')}",
             f"attention-backend={flags.text('attention-backend', 'auto')}",
             f"deterministic-flash={deterministic_flash(flags)}",
             f"make-vocab-size-divisible-by={flags.number('make-vocab-size-divisible-by', 128)}",
             f"num-distributed-optimizer-instances={flags.number('num-distributed-optimizer-instances', 1)}"]
    for name in ("deterministic-mode", "moe-grouped-gemm", "tp-comm-overlap", "defer-embedding-wgrad-compute",
                 "grad-reduce-in-bf16", "multi-latent-attention"):
        if flags.on(name):
            words.append(name)
    if flags.text("main-grads-dtype") in ("bf16", "fp16"):
        words.append("grad-reduce-in-bf16")
    if flags.text("fp8-format"):
        words.append("fp8")
    if flags.text("recompute-granularity") == "selective":
        words.append("recompute-granularity=selective")
    return ",".join(words)


def device_of(flags):
    """The generation decides, by the GPU or the cluster that the row names. Unknown ones count as A100."""
    named = (flags.text("gpu") + " " + flags.text("platform")).lower()
    for word, device in (("b200", "B200"), ("h200", "H200"), ("h100", "H100-SXM5-80GB")):
        if word in named:
            return device
    return "A100-SXM4-80GB"


def arguments_of(row, folder):
    """Of perfpred-inspect."""
    flags = Flags(row)
    refuse_unanswered(flags)
    layout, world, micro_batches = layout_of(flags)
    network = bert_config(flags, folder) if flags.text("model") == "bert" else ["--network", transformer_name(flags)]
    precision = "fp16" if flags.on("fp16") else "bf16" if flags.on("bf16") else "fp32"
    optimizer = "momentum" if flags.text("optimizer") == "sgd" else "adam"
    full = flags.text("recompute-granularity") == "full"
    return [*network, "--input", str(flags.number("seq-length", 0)),
            "--batch-size", str(flags.number("micro-batch-size", 1)), "--accumulate", str(micro_batches),
            "--precision", precision, "--optimizer", optimizer, "--checkpoint", "all" if full else "none",
            "--device", device_of(flags), "--parallel", parallel_text(flags, layout),
            "--gpus-per-node", nodes_text(world), "--program", program_of(flags), "--json"]


class Inspect:
    """perfpred-inspect, and what it said; a request is asked once."""

    def __init__(self, folder):
        self.program = os.path.join(folder, "perfpred-inspect")
        self.answers = {}

    def last_rank(self, arguments):
        key = tuple(arguments)
        if "--config" in arguments:  # another file of the same name
            with open(arguments[1], encoding="utf-8") as file:
                key += (file.read(),)
        if key not in self.answers:
            done = subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False)
            if done.returncode not in (0, 2):
                sys.exit(f"{self.program} {' '.join(arguments)}: {done.stderr.strip()}")
            self.answers[key] = json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()
        answer = self.answers[key]
        if isinstance(answer, str):
            raise Unmapped(f"refused: {answer}")
        if "ranks" not in answer:
            raise Unmapped("one device")
        return answer["ranks"][-1]["tensors"]


def map_rows(rows, inspect):
    out, unmapped = [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for line, row in enumerate(rows, start=2):
            try:
                measured = Flags(row).number("mem_max_allocated_bytes", 0)
                if not measured:
                    raise Unmapped("no peak in the row")
                tensors = inspect.last_rank(arguments_of(row, folder))
            except Unmapped as reason:
                unmapped[str(reason)] += 1
                continue
            out.append({"line": line, "case": row["case"], "gpu": row["gpu"], "measured_bytes": measured,
                        "predicted_bytes": tensors["p50"], "upper_bytes": tensors["upper"]})
    return out, unmapped


def summary(group):
    errors = [row["predicted_bytes"] / row["measured_bytes"] - 1 for row in group]
    size = [abs(error) for error in errors]
    holds = statistics.fmean(row["measured_bytes"] <= row["upper_bytes"] for row in group)
    width = statistics.median(row["upper_bytes"] / row["measured_bytes"] for row in group)
    return (f"{len(group):5} {statistics.median(size):8.4f} {statistics.fmean(size):8.4f} "
            f"{statistics.median(errors):+8.4f} {statistics.fmean(error < .1 for error in size):8.3f} {holds:9.3f} "
            f"{width:9.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table")
    parser.add_argument("--bin", required=True, help="folder of the programs")
    parser.add_argument("--json", help="write rows and counts to this file")
    given = parser.parse_args()
    with open(given.table, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    out, unmapped = map_rows(rows, Inspect(given.bin))
    models = {row["line"]: rows[row["line"] - 2]["model"] for row in out}
    print(f"{'':12} {'n':>5} {'median':>8} {'mean':>8} {'bias':>8} {'< 10 %':>8} {'upper hd.':>9} {'upper/m.':>9}")
    for model in sorted(set(models.values())):
        print(f"{model:12} {summary([row for row in out if models[row['line']] == model])}")
    if out:
        print(f"{'all':12} {summary(out)}")
    print(f"rows {len(rows)}, unmapped {sum(unmapped.values())}:")
    for reason, count in unmapped.most_common():
        print(f"  {count:5} {reason}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"rows": out, "unmapped": dict(unmapped)}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
