#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures a training step of networks of torchvision, timm, transformers and NVIDIA and compares the counts.

    scripts/capture_zoo.py --inspect build/release/bin/perfpred-inspect --out data/tables/capture_zoo.csv [NAME...]

Needs torchvision, timm, transformers and diffusers; weights are random, nothing is downloaded. Each network is trained for a step
of batch 2 (SGD with momentum), captured without memory, and counted by perfpred-inspect. torch's FlopCounterMode counts
the same step; it knows no causal attention, so attention is compared without halving.
"""

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

import capture_loops
import perfpred
from perfpred._capture.session import Session

BATCH = 2
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _image(size):
    return torch.zeros(BATCH, 3, size, size, device="meta")


def _first_tensor(output):
    """The output of which a loss is taken: HF's loss, logits, or the first tensor."""
    if isinstance(output, torch.Tensor):
        return output
    if hasattr(output, "loss") and output.loss is not None:
        return output.loss
    values = output.values() if isinstance(output, dict) else output
    for value in values:
        if isinstance(value, (torch.Tensor, tuple, list, dict)):
            return _first_tensor(value)
    raise ValueError("no tensor in the output")


def _torchvision():
    import torchvision

    for name in torchvision.models.list_models(module=torchvision.models):
        size = {"inception_v3": 299}.get(name, 224)
        yield f"torchvision {name}", lambda name=name: torchvision.models.get_model(
            name, weights=None
        ), lambda size=size: (
            (_image(size),),
            {},
        )


TIMM = """resnet50d seresnet50 efficientnetv2_rw_t regnetz_b16 convnextv2_atto ghostnet_100 mobilevit_s
    mobilenetv4_conv_small hrnet_w18_small resnext101_32x4d dla34 cspdarknet53 repvgg_a2 vovnet39a nfnet_l0 xception41
    deit_tiny_patch16_224 beit_base_patch16_224 mixer_s32_224 poolformer_s12 cait_xxs24_224 swinv2_tiny_window8_256
    levit_128 pvt_v2_b0 eva02_tiny_patch14_224 tinynet_a""".split()


def _timm():
    import timm

    for name in TIMM:

        def data(name=name):
            config = timm.get_pretrained_cfg(name)
            return (_image(config.input_size[-1] if config is not None else 224),), {}

        yield f"timm {name}", lambda name=name: timm.create_model(name, pretrained=False), data


def _transformers():
    import transformers as hf

    def words(**more):
        ids = torch.zeros(BATCH, 64, dtype=torch.long, device="meta")
        return (), {"input_ids": ids, "labels": ids, **more}

    small = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000)
    grouped = dict(small, num_key_value_heads=2)
    causal = {
        "Llama": ("LlamaConfig", grouped),
        "Mistral": ("MistralConfig", grouped),
        "Qwen2": ("Qwen2Config", grouped),
        "Qwen3": ("Qwen3Config", dict(grouped, head_dim=32)),
        "Gemma": ("GemmaConfig", dict(grouped, head_dim=32)),
        "Phi": ("PhiConfig", small),
        "GPTNeoX": ("GPTNeoXConfig", small),
        "StableLm": ("StableLmConfig", grouped),
        "OPT": (
            "OPTConfig",
            dict(
                hidden_size=128,
                ffn_dim=256,
                num_hidden_layers=2,
                num_attention_heads=4,
                vocab_size=1000,
                word_embed_proj_dim=128,
            ),
        ),
        "Bloom": ("BloomConfig", dict(hidden_size=128, n_layer=2, n_head=4, vocab_size=1000)),
        "Falcon": ("FalconConfig", dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000)),
        "Mixtral": ("MixtralConfig", dict(grouped, num_local_experts=4)),
        "GPTJ": ("GPTJConfig", dict(n_embd=128, n_layer=2, n_head=4, vocab_size=1000, rotary_dim=16)),
    }
    for name, (config, options) in causal.items():

        def make(name=name, config=config, options=options):
            cls = getattr(hf, f"{name}ForCausalLM")
            return cls(getattr(hf, config)(**options))

        yield f"transformers {name}ForCausalLM", make, words
    yield "transformers GPT2LMHeadModel", lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(n_embd=128, n_layer=2, n_head=4, vocab_size=1000)
    ), words
    for name in ("Bert", "Roberta", "Electra", "Albert"):

        def make(name=name):
            options = dict(small, embedding_size=128) if name in ("Electra", "Albert") else small
            return getattr(hf, f"{name}ForMaskedLM")(getattr(hf, f"{name}Config")(**options))

        yield f"transformers {name}ForMaskedLM", make, words
    yield "transformers DistilBertForMaskedLM", lambda: hf.DistilBertForMaskedLM(
        hf.DistilBertConfig(dim=128, hidden_dim=256, n_layers=2, n_heads=4, vocab_size=1000)
    ), words
    yield "transformers T5ForConditionalGeneration", lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(
            decoder_start_token_id=0, d_model=128, d_ff=256, d_kv=32, num_layers=2, num_heads=4, vocab_size=1000
        )
    ), words
    sides = dict(layers=2, ffn_dim=256, attention_heads=4)
    both_sides = {f"{side}_{what}": size for side in ("encoder", "decoder") for what, size in sides.items()}
    both_sides["d_model"] = 128
    yield "transformers BartForConditionalGeneration", lambda: hf.BartForConditionalGeneration(
        hf.BartConfig(**both_sides, vocab_size=1000)
    ), words
    image = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4)
    yield "transformers ViTForImageClassification", lambda: hf.ViTForImageClassification(
        hf.ViTConfig(**image)
    ), lambda: ((_image(224),), {})
    yield "transformers Dinov2ForImageClassification", lambda: hf.Dinov2ForImageClassification(
        hf.Dinov2Config(**image)
    ), lambda: ((_image(518),), {})
    yield "transformers SegformerForImageClassification", lambda: hf.SegformerForImageClassification(
        hf.SegformerConfig()
    ), lambda: ((_image(224),), {})

    def sound():
        return (), {
            "input_features": torch.zeros(BATCH, 80, 3000, device="meta"),
            "labels": torch.zeros(BATCH, 32, dtype=torch.long, device="meta"),
        }

    yield "transformers WhisperForConditionalGeneration", lambda: hf.WhisperForConditionalGeneration(
        hf.WhisperConfig(**both_sides)
    ), sound


def _diffusers():
    import diffusers

    def data():
        sample = torch.zeros(BATCH, 4, 32, 32, device="meta")
        text = torch.zeros(BATCH, 16, 64, device="meta")
        return (sample, torch.zeros(BATCH, dtype=torch.long, device="meta"), text), {}

    yield "diffusers UNet2DConditionModel", lambda: diffusers.UNet2DConditionModel(
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=64,
        attention_head_dim=8,
        norm_num_groups=8,
    ), data


def _nvidia():
    """SSD300 on a ResNet-50 with its loss, after NVIDIA's DeepLearningExamples, PyTorch/Detection/SSD."""
    import torchvision
    from torch import nn
    from torch.nn import functional as F

    classes = 81

    class Ssd300(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(*list(torchvision.models.resnet50(weights=None).children())[:7])
            first = self.features[-1][0]
            first.conv2.stride = first.downsample[0].stride = (1, 1)
            channels, boxes = (1024, 512, 512, 256, 256, 256), (4, 6, 6, 6, 4, 4)
            strided = dict(kernel_size=3, stride=2, padding=1, bias=False)
            shapes = [(256, strided)] * 2 + [(128, strided)] + [(128, dict(kernel_size=3, bias=False))] * 2
            self.blocks = nn.ModuleList()
            for before, after, (inner, window) in zip(channels, channels[1:], shapes):
                narrow = nn.Conv2d(before, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True)
                wide = nn.Conv2d(inner, after, **window), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
                self.blocks.append(nn.Sequential(*narrow, *wide))
            self.loc = nn.ModuleList(nn.Conv2d(c, 4 * n, 3, padding=1) for c, n in zip(channels, boxes))
            self.conf = nn.ModuleList(nn.Conv2d(c, classes * n, 3, padding=1) for c, n in zip(channels, boxes))

        def forward(self, images, places, labels):
            maps = [self.features(images)]
            for block in self.blocks:
                maps.append(block(maps[-1]))
            found = [
                torch.cat([head(x).reshape(x.size(0), numbers, -1) for head, x in zip(heads, maps)], 2).contiguous()
                for heads, numbers in ((self.loc, 4), (self.conf, classes))
            ]
            return mined_loss(*found, places, labels)

    def mined_loss(found, scores, places, labels):
        """Of boxes with an object, and of three times as many of the hardest others; the mean of the samples' sums."""
        matched = labels > 0
        objects = matched.sum(dim=1)
        distance = (matched.float() * F.smooth_l1_loss(found, places, reduction="none").sum(dim=1)).sum(dim=1)
        entropy = F.cross_entropy(scores, labels, reduction="none")
        hardest = entropy.clone().masked_fill_(matched, 0).sort(dim=1, descending=True)[1].sort(dim=1)[1]
        mined = hardest < torch.clamp(3 * objects, max=labels.size(1)).unsqueeze(-1)
        total = distance + (entropy * (matched.float() + mined.float())).sum(dim=1)
        return (total * (objects > 0).float() / objects.float().clamp(min=1e-6)).mean(dim=0)

    def data():
        places = torch.zeros(BATCH, 4, 8732, device="meta")
        return (_image(300), places, torch.zeros(BATCH, 8732, dtype=torch.long, device="meta")), {}

    yield "NVIDIA ssd300_resnet50", Ssd300, data


# Networks above that perfpred's zoo has under another name than torchvision's.
OF_THE_ZOO = {"NVIDIA ssd300_resnet50": "ssd300_resnet50", "timm resnext101_32x4d": "resnext101_32x4d"}


def beside_zoo(name, captured, inspect):
    """What the zoo's network counts beside what was captured: parameters, products' FLOPs and bytes of each phase."""
    command = [inspect, "--network", OF_THE_ZOO[name], "--batch-size", str(BATCH), "--optimizer", "momentum", "--json"]
    zoo = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def counts(step):
        phases = {p: (c["conv_matmul_flops"], c["bytes_read"] + c["bytes_written"]) for p, c in step["phases"].items()}
        return {"params": step["params"], **phases}

    return {"zoo": counts(zoo), "captured": counts(captured)}


def networks():
    """Triples of a name, a function that makes the network, and one that makes its arguments."""
    for family in (_torchvision, _timm, _transformers, _diffusers, _nvidia):
        try:
            yield from family()
        except ImportError as error:
            print(f"{family.__name__[1:]} is left out: {error}", file=sys.stderr)


def counted_by_torch(model, arguments, options, more=None):
    """FLOPs of the step by torch.utils.flop_counter, as perfpred.capture executes it: attention in one kernel."""
    with Session() as _, FlopCounterMode(
        display=False, custom_mapping={**_attention_flops(), **(more or {})}
    ) as counter:
        loss(model(*arguments, **options)).backward()
    return counter.get_total_flops()


def _attention_flops():
    """torch's own formulas of flash attention, for the operators that stand for it here."""
    ops = torch.ops.perfpred
    return {
        ops.attention: lambda q, k, v, *rest, **kw: sdpa_flop_count(*_grouped(q, k, v)),
        ops.attention_backward: lambda grad, q, k, v, *rest, **kw: sdpa_backward_flop_count(grad, *_grouped(q, k, v)),
    }


def _gradient_flops(
    grad, image, weight, bias, stride, padding, dilation, transposed, output_padding, groups, mask, out_shape=None
):
    """Of a convolution's gradients, with groups: each element of the result is made of the channels of a group."""
    elements = image if transposed else grad
    return 2 * sum(mask[:2]) * math.prod(elements) * math.prod(weight[1:])


def _grouped(query, key, value):
    """Shapes with as many heads of keys as of queries: a group of queries computes with one of them."""
    heads = query[1]
    return query, (key[0], heads, *key[2:]), (value[0], heads, *value[2:])


def loss(output):
    output = _first_tensor(output)
    return output if output.dim() == 0 else output.float().mean()


def capture(name, make, data, path):
    with Session():
        model = make()  # without memory
    model.train()
    arguments, options = data()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    with perfpred.capture(path, batch_size=BATCH):
        optimizer.zero_grad()
        loss(model(*arguments, **options)).backward()
        optimizer.step()
    return model, arguments, options


def row(name, make, data, inspect, folder):
    path = os.path.join(folder, "step.json")
    began = time.perf_counter()
    try:
        model, arguments, options = capture(name, make, data, path)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        return {"name": name, "failed": reason.replace(_ROOT, "")}
    seconds = time.perf_counter() - began
    answer = subprocess.run([inspect, "--step", path, "--json"], capture_output=True, text=True)
    if answer.returncode != 0:
        return {"name": name, "failed": answer.stderr.strip()}
    ours = json.loads(answer.stdout)
    content = json.load(open(path))
    causal = sum(
        flops_of_attention(content, op)
        for op in content["ops"]
        if "attention" in op["name"] and op.get("args", {}).get("causal")
    )
    theirs = counted_by_torch(model, arguments, options)
    products = ours["conv_matmul_flops"] + causal
    equal = is_equal(products, theirs)
    with_groups = equal or is_equal(
        products, counted_by_torch(model, arguments, options, {torch.ops.aten.convolution_backward: _gradient_flops})
    )
    params = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {
        "name": name,
        "ops": sum(p["ops"] for p in ours["phases"].values()),
        "params": ours["params"],
        "params_torch": params,
        "gflop": ours["flops"] / 1e9,
        "products": products / 1e9,
        "torch": theirs / 1e9,
        "equal": equal,
        "with_groups": with_groups,
        "peak": ours["memory"]["peak_bytes"] / 1e6,
        "unknown": " ".join(f"{u['name']} ({u['count']})" for u in ours["unknown_ops"]),
        "seconds": seconds,
        **(beside_zoo(name, ours, inspect) if name in OF_THE_ZOO else {}),
    }


def is_equal(ours, theirs):
    return abs(ours - theirs) <= 1e-9 * theirs


def flops_of_attention(content, op):
    """The half that causal attention saves."""
    backward = op["name"].endswith("backward")
    q, k, v = (content["tensors"][i]["sizes"] for i in op["inputs"][backward : backward + 3])
    pairs = q[0] * q[1] * q[2] * k[2]
    return pairs * (3 * k[3] + 2 * v[3] if backward else k[3] + v[3])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inspect", default="build/release/bin/perfpred-inspect")
    parser.add_argument("--out", default="data/tables/capture_zoo.csv")
    parser.add_argument("names", nargs="*", help="only networks whose name holds one of these")
    parser.add_argument("--loops", action="store_true", help="the training loops in scripts/loops instead")
    options = parser.parse_args()
    if options.loops:
        return capture_loops.main(options.inspect, options.out, options.names)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, make, data in networks():
            if options.names and not any(wanted in name for wanted in options.names):
                continue
            rows.append(row(name, make, data, options.inspect, folder))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print_summary(rows)
    with open(options.out, "w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([COLUMNS, *map(cells, rows)])
    return 0


# FlopCounterMode counts the gradients of a grouped convolution as if it had one group, and ignores causal masks: so do
# products_gflop; step_gflop counts half for causal attention, and all other operators.
COLUMNS = ("network", "operators", "unknown_ops", "params", "module_params", "products_gflop", "flop_counter_gflop",
           "is_equal_with_groups", "step_gflop", "peak_mb", "capture_sec", "failed")


def cells(r):
    if "failed" in r:
        return (r["name"], *[""] * (len(COLUMNS) - 2), r["failed"])
    return (r["name"], r["ops"], r["unknown"], r["params"], r["params_torch"], f"{r['products']:.6g}", f"{r['torch']:.6g}",
            int(r["with_groups"] and not r["equal"]), f"{r['gflop']:.6g}", f"{r['peak']:.1f}", f"{r['seconds']:.1f}", "")


def print_summary(rows):
    good = [r for r in rows if "failed" not in r]
    print(f"{len(good)} of {len(rows)} captured; {sum(r['params'] == r['params_torch'] for r in good)} have the parameters of "
          f"the module; FLOPs of {sum(r['equal'] for r in good)} equal those of FlopCounterMode, those of "
          f"{sum(r['with_groups'] and not r['equal'] for r in good)} more once groups are counted")


if __name__ == "__main__":
    sys.exit(main())
