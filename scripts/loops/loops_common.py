# SPDX-License-Identifier: Apache-2.0
"""Words and networks of a few sizes, so that the loops need no download."""

import tempfile

SMALL = dict(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    vocab_size=1000,
    max_position_embeddings=512,
)


def llama(**options):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**{**SMALL, **options}))


def saved_llama(**options):
    """A folder for from_pretrained(), of zeros."""
    import numpy as np
    import torch
    from safetensors.numpy import save_file

    folder = tempfile.mkdtemp()
    with torch.device("meta"):
        model = llama(**options)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    weights = {name: np.zeros(tuple(t.shape), np.float32) for name, t in model.state_dict().items()}
    save_file(weights, f"{folder}/model.safetensors", metadata={"format": "pt"})
    return folder


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(996))])}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def sentences(count=64, words=64):
    return [" ".join(f"w{(7 * i + j) % 996}" for j in range(words)) for i in range(count)]


class Tokens:
    """A dataset of random words."""

    def __init__(self, length=128, count=64, words=1000):
        import torch

        self.words = torch.randint(0, words, (count, length))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.words[index]}
