#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares networks that perfpred makes from a config.json with the modules of transformers: parameters, and FLOPs and
memory of captured training steps.

    scripts/config_zoo.py --bin build/release/bin [--out data/tables/config_zoo.csv] [--store tests/data/transformers] [NAME...]

Needs torch, transformers 5.24.0 and peft 0.21.2. The networks are small ones of each architecture. Grouped products of
experts, which no rule counts, are captured a second time as batched ones, for their FLOPs. With --store, config.json
files and what was captured become data of a test.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

BATCH, LENGTH = 2, 256
SMALL = dict(num_hidden_layers=3, hidden_size=256, num_attention_heads=8, intermediate_size=768, vocab_size=2048)
GROUPED = dict(SMALL, num_key_value_heads=2)

# Configurations of small networks, by the class of the model.
NETWORKS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", dict(GROUPED)),
    "llama_tied": ("LlamaForCausalLM", "LlamaConfig", dict(GROUPED, tie_word_embeddings=True)),
    "llama_bias": ("LlamaForCausalLM", "LlamaConfig", dict(SMALL, attention_bias=True, mlp_bias=True)),
    "mistral": ("MistralForCausalLM", "MistralConfig", dict(GROUPED, head_dim=32)),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", dict(GROUPED)),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", dict(GROUPED, head_dim=64)),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", dict(GROUPED, head_dim=64)),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", dict(GROUPED, head_dim=64)),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", dict(GROUPED, head_dim=64)),
    "phi": ("PhiForCausalLM", "PhiConfig", dict(SMALL)),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", dict(GROUPED, pad_token_id=0)),
    "falcon": ("FalconForCausalLM", "FalconConfig", {k: v for k, v in SMALL.items() if k != "intermediate_size"}),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", dict(GROUPED)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(n_layer=3, n_embd=256, n_head=8, vocab_size=2048)),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", dict(SMALL)),
    "bert": ("BertForMaskedLM", "BertConfig", dict(SMALL)),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", dict(SMALL, max_position_embeddings=514)),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig",
                   dict(n_layers=3, dim=256, n_heads=8, hidden_dim=768, vocab_size=2048)),
    "opt": ("OPTForCausalLM", "OPTConfig",
            dict(num_hidden_layers=3, hidden_size=256, word_embed_proj_dim=256, num_attention_heads=8, ffn_dim=768,
                 vocab_size=2048)),
    "vit": ("ViTForImageClassification", "ViTConfig",
            {k: v for k, v in SMALL.items() if k != "vocab_size"}),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Config",
               dict(num_hidden_layers=3, hidden_size=256, num_attention_heads=8)),
    "dinov2_swiglu": ("Dinov2ForImageClassification", "Dinov2Config",
                      dict(num_hidden_layers=3, hidden_size=256, num_attention_heads=8, use_swiglu_ffn=True)),
    "swin": ("SwinForImageClassification", "SwinConfig", dict(embed_dim=64, depths=[2, 2, 4, 2], num_heads=[2, 4, 8, 16])),
    "swin_window12": ("SwinForImageClassification", "SwinConfig",
                      dict(image_size=384, embed_dim=96, depths=[1, 2, 1, 1], window_size=12, qkv_bias=False, mlp_ratio=3.0,
                           use_absolute_embeddings=True, hidden_dropout_prob=0.1)),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", dict(GROUPED)),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig",
                  dict(GROUPED, num_experts=8, moe_intermediate_size=128, shared_expert_intermediate_size=256)),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig",
                  dict(GROUPED, head_dim=32, num_local_experts=8, num_experts_per_tok=2, moe_intermediate_size=128)),
    "granitemoe": ("GraniteMoeForCausalLM", "GraniteMoeConfig", dict(GROUPED, num_local_experts=8)),
}

# How they are trained: fields of perfpred, and what the program does.
MIXED = {"precision": "bf16"}
PURE = {"precision": "bf16", "weights": "bf16"}
EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "granitemoe")  # whose grouped products are of bf16 alone
CASES = [(name, "full, fp32", {"precision": "fp32"}, {}) for name in NETWORKS if name not in EXPERTS]
CASES += [(name, "full, autocast", MIXED, {}) for name in ("llama", "gemma3", "qwen3", "phi", "bert")]
CASES += [(name, "full, pure bf16", PURE, {}) for name in ("llama", "llama_tied", "phi3", *EXPERTS)]
CASES += [
    ("llama", "LoRA all", dict(PURE, adapter="lora:r=16,targets=all"), {"lora": "all"}),
    ("llama", "LoRA attention", dict(PURE, adapter="lora:r=16,targets=attention"), {"lora": "attention"}),
    ("llama", "LoRA q, v", dict(PURE, adapter="lora:r=16,targets=q+v"), {"lora": "q+v"}),
    ("qwen2", "LoRA all", dict(PURE, adapter="lora:r=16,targets=all"), {"lora": "all"}),
    ("llama", "LoRA all, checkpoints", dict(PURE, adapter="lora:r=16,targets=all", checkpoint="all"),
     {"lora": "all", "checkpoint": True}),
    ("llama", "checkpoints, pure bf16", dict(PURE, checkpoint="all"), {"checkpoint": True}),
    ("llama", "checkpoints, fp32", dict(precision="fp32", checkpoint="all"), {"checkpoint": True}),
    ("llama", "LoRA all, autocast", dict(MIXED, adapter="lora:r=16,targets=all"), {"lora": "all"}),
    ("llama", "DoRA all", dict(PURE, adapter="dora:r=16,targets=all"), {"lora": "all", "dora": True}),
    ("llama", "padded", dict(PURE, padding="padded"), {"padded": True}),
    ("llama", "accumulate 4", dict(PURE, accumulate="4"), {"accumulate": 4}),
    ("llama", "adafactor", dict(PURE, optimizer="adafactor"), {"optimizer": "adafactor"}),
]

# What perfpred reads, beside the sizes above.
KEPT = set("""architectures model_type hidden_act hidden_activation activation_function tie_word_embeddings attention_bias
mlp_bias qkv_bias use_qkv_bias head_dim rope_parameters partial_rotary_factor resid_pdrop embd_pdrop attn_pdrop
dropout activation do_layer_norm_before
hidden_dropout hidden_dropout_prob attention_dropout attention_probs_dropout_prob max_position_embeddings n_positions
type_vocab_size multi_query parallel_attn new_decoder_architecture bias num_kv_heads num_key_value_heads ffn_hidden_size
patch_size image_size num_channels mlp_ratio use_swiglu_ffn num_experts_per_tok num_local_experts num_experts
moe_intermediate_size shared_expert_intermediate_size use_parallel_residual final_logit_softcapping
attn_logit_softcapping id2label embed_dim depths num_heads window_size drop_path_rate use_absolute_embeddings""".split())

TARGETS = {"all": "all-linear", "attention": ["q_proj", "k_proj", "v_proj", "o_proj"], "q+v": ["q_proj", "v_proj"]}


def config_of(name, experts=None):
    model, config, sizes = NETWORKS[name]
    made = getattr(transformers, config)(**sizes)
    if experts:
        made._experts_implementation = experts
    made.architectures = [model]
    made.use_cache = False
    return made


def write_config(name, folder):
    path = os.path.join(folder, f"{name}.json")
    content = {key: value for key, value in config_of(name).to_dict().items() if key in KEPT or key in NETWORKS[name][2]}
    with open(path, "w") as file:
        json.dump(content, file, default=str)
    return path


def make_model(name, fields, how):
    config = config_of(name, how.get("experts"))
    model = getattr(transformers, NETWORKS[name][0])(config)
    if fields.get("weights") == "bf16":
        model = model.to(torch.bfloat16)
    if how.get("checkpoint"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if how.get("lora"):
        from peft import LoraConfig, get_peft_model

        lora = LoraConfig(r=16, lora_alpha=16, target_modules=TARGETS[how["lora"]], use_dora=how.get("dora", False))
        model = get_peft_model(model, lora)
    return model.train(), config


def batch_of(name, config, how):
    if hasattr(config, "patch_size"):
        size = config.image_size
        return {"pixel_values": torch.zeros(BATCH, 3, size, size), "labels": torch.zeros(BATCH, dtype=torch.long)}
    words = torch.ones(BATCH, LENGTH, dtype=torch.long)
    batch = {"input_ids": words, "labels": words.clone()}
    if how.get("padded"):
        batch["attention_mask"] = torch.ones(BATCH, LENGTH, dtype=torch.long)
        batch["attention_mask"][0, LENGTH // 2:] = 0
    return batch


def capture(name, fields, how, path):
    import perfpred
    from perfpred._capture.session import Session

    with Session():
        model, config = make_model(name, fields, how)
    batch = batch_of(name, config, how)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if how.get("optimizer") == "adafactor":
        optimizer = transformers.Adafactor(parameters, lr=1e-3, relative_step=False)
    else:
        optimizer = torch.optim.AdamW(parameters, 1e-4, fused=True)
    mixed = fields["precision"] == "bf16" and (fields.get("weights") != "bf16" or "lora" in how)
    with perfpred.capture(path, batch_size=BATCH):
        optimizer.zero_grad()
        for _ in range(how.get("accumulate", 1)):
            with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
                loss = model(**batch).loss
            loss.backward()
        optimizer.step()
    return sum(p.numel() for p in parameters)


def inspect(binary, options):
    done = subprocess.run([binary, *options, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def compare(case, binary, folder):
    name, what, fields, how = case
    step = os.path.join(folder, "step.json")
    params = capture(name, fields, how, step)
    theirs = inspect(binary, ["--step", step])
    if name in EXPERTS:
        capture(name, fields, dict(how, experts="batched_mm"), step)
        theirs["conv_matmul_flops"] = inspect(binary, ["--step", step])["conv_matmul_flops"]
    options = ["--config", write_config(name, folder), "--batch-size", str(BATCH), "--optimizer", "adamw"]
    if not hasattr(config_of(name), "patch_size"):
        options += ["--input", str(LENGTH)]
    for field, value in fields.items():
        if field == "optimizer":
            options[options.index("--optimizer") + 1] = value
        else:
            options += [f"--{field}", value]
    ours = inspect(binary, options)
    return {
        "name": name, "what": what, "fields": fields, "params": params, "our_params": ours["params"],
        "flops": theirs["conv_matmul_flops"], "our_flops": ours["conv_matmul_flops"],
        "peak": theirs["memory"]["peak_bytes"], "our_peak": ours["memory"]["peak_bytes"],
    }


COLUMNS = ("network", "trained", "params_more", "flops_ratio", "peak_ratio")  # perfpred's over the captured step's


def cells(row):
    return (row["name"], row["what"], row["our_params"] - row["params"], f"{row['our_flops'] / row['flops']:.4f}",
            f"{row['our_peak'] / row['peak']:.4f}")


def store(rows, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "steps.csv"), "w") as file:
        file.write("config,fields,params,conv_matmul_flops,peak_bytes\n")
        for row in rows:
            fields = ";".join(f"{field}={value}" for field, value in row["fields"].items())
            file.write(f'{row["name"]},"{fields}",{row["params"]},{row["flops"]:.0f},{row["peak"]}\n')
    for name in {row["name"] for row in rows}:
        write_config(name, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out")
    parser.add_argument("--store")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    binary = os.path.join(given.bin, "perfpred-inspect")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if given.names and case[0] not in given.names:
                continue
            try:
                rows.append(compare(case, binary, folder))
                print(*cells(rows[-1]), flush=True)
            except Exception as error:
                print(f"{case[0]}, {case[1]}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
    if given.store:
        store(rows, given.store)
    if given.out:
        with open(given.out, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *map(cells, rows)])


if __name__ == "__main__":
    main()
