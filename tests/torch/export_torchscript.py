# SPDX-License-Identifier: Apache-2.0
"""Exports networks of torchvision and of transformers as TorchScript files into a folder, and counts the FLOPs of their
convolutions and matrix products, forward and backward, with torch.utils.flop_counter: networks.csv beside the files.

usage: export_torchscript.py FOLDER
"""

import csv
import sys
from pathlib import Path

import torch
import torchvision
import transformers
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

SCRIPTED = [
    ("alexnet", 64), ("resnet18", 64), ("resnet50", 64), ("resnext50_32x4d", 64), ("vgg11_bn", 32),
    ("mobilenet_v2", 96), ("mobilenet_v3_small", 96), ("mobilenet_v3_large", 96), ("mnasnet0_5", 96),
    ("shufflenet_v2_x0_5", 96), ("squeezenet1_1", 96), ("densenet121", 96), ("efficientnet_b0", 96),
    ("regnet_y_400mf", 96), ("regnet_x_400mf", 96), ("convnext_tiny", 64), ("googlenet", 96), ("swin_t", 64),
]
SEGMENTATION = [("lraspp_mobilenet_v3_large", 96)]
SMALL = dict(vocab_size=1000)
WORDS = 24


def transformer_models():
    """Two layers of each; attention by plain matrix products."""
    t = transformers
    small = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256,
                 attn_implementation="eager", torchscript=True, **SMALL)
    yield "bert", t.BertForMaskedLM(t.BertConfig(**small))
    yield "roberta", t.RobertaForMaskedLM(t.RobertaConfig(**small))
    yield "electra", t.ElectraForMaskedLM(t.ElectraConfig(**small, embedding_size=64))
    yield "albert", t.AlbertForMaskedLM(t.AlbertConfig(**small, embedding_size=64))
    yield "distilbert", t.DistilBertForMaskedLM(
        t.DistilBertConfig(dim=128, n_layers=2, n_heads=4, hidden_dim=256, attn_implementation="eager",
                           torchscript=True, **SMALL))
    yield "gpt2", Decoder(t.GPT2LMHeadModel(
        t.GPT2Config(n_embd=128, n_layer=2, n_head=4, attn_implementation="eager", use_cache=False, torchscript=True,
                     **SMALL)))


class Upsampler(torch.nn.Module):
    """Transposed convolutions, of several groups too."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 4, 2, 1), torch.nn.ReLU(), torch.nn.ConvTranspose2d(16, 24, 4, 2, 1, groups=4),
            torch.nn.ReLU(), torch.nn.ConvTranspose2d(24, 5, 3, 2, 1, 1))

    def forward(self, x):
        return self.layers(x)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(12, 16, num_layers=2, batch_first=True)
        self.gru = torch.nn.GRU(16, 16, batch_first=True)
        self.classes = torch.nn.Linear(16, 10)

    def forward(self, x):
        return self.classes(self.gru(self.lstm(x)[0])[0][:, -1])


class Decoder(torch.nn.Module):
    """Gives the causal mask, which the library makes in a way that cannot be traced."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, words):
        mask = torch.full((1, 1, words.shape[1], words.shape[1]), torch.finfo(torch.float).min).triu(1)
        return self.model(words, attention_mask=mask)[0]


def backward_of_convolution(grad_out, x, w, bias, stride, padding, dilation, transposed, output_padding, groups,
                            output_mask, out_shape=None):
    """The library's rule counts the weight's gradient as if groups were 1."""
    each = conv_flop_count(x, w, grad_out, transposed=transposed)
    return each * (int(output_mask[0]) + int(output_mask[1]))


def count(model, inputs):
    """FLOPs forward and backward."""
    mapping = {torch.ops.aten.convolution_backward: backward_of_convolution}
    with FlopCounterMode(display=False) as forward:
        output = model(*inputs)
    with FlopCounterMode(display=False, custom_mapping=mapping) as backward:
        loss_of(output).backward()
    return forward.get_total_flops(), backward.get_total_flops()


def loss_of(output):
    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values())) if isinstance(output, dict) else output[0]
    if output.dim() == 3:
        output = output.flatten(0, 1)
    shape = [size for axis, size in enumerate(output.shape) if axis != 1]
    return torch.nn.functional.cross_entropy(output, torch.zeros(shape, dtype=torch.long, device=output.device))


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rows = []

    def add(name, model, script, shape, dtype):
        model.train()
        example = torch.ones(shape, dtype=dtype)
        exported = torch.jit.script(model) if script else torch.jit.trace(model, (example,), check_trace=False)
        exported.save(str(folder / f"{name}.pt"))
        if dtype != torch.long:  # transformers look at the words
            model, example = model.to("meta"), example.to("meta")
        forward, backward = count(model, (example,))
        params = sum(p.numel() for p in model.parameters() if p.requires_grad)
        rows.append([name, "x".join(map(str, shape)), "i64" if dtype == torch.long else "f32", params, forward, backward])
        print(*rows[-1], flush=True)

    for name, size in SCRIPTED:
        options = dict(aux_logits=False, init_weights=False) if name == "googlenet" else {}
        add(name, torchvision.models.get_model(name, **options), True, (2, 3, size, size), torch.float)
    for name, size in SEGMENTATION:
        model = torchvision.models.get_model(name, weights_backbone=None)
        add(name, model, True, (2, 3, size, size), torch.float)
    add("upsampler", Upsampler(), True, (2, 3, 16, 16), torch.float)
    add("recurrent", Recurrent(), True, (2, 7, 12), torch.float)
    add("resnet18_traced", torchvision.models.resnet18(), False, (2, 3, 64, 64), torch.float)
    vit = torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64,
                                               mlp_dim=128)
    add("vision_transformer", vit, True, (2, 3, 32, 32), torch.float)
    for name, model in transformer_models():
        add(name, model, False, (2, WORDS), torch.long)

    with open(folder / "networks.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["network", "input", "type", "params", "forward_flops", "backward_flops"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
