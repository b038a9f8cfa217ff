# After transformers' "Gemma 2" page: attention written out, capped logits. (also for transformers 4)
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from loops_common import SMALL

model = Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=32, attn_implementation="eager")).to("cuda", torch.bfloat16)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
for step in range(2):
    words = torch.randint(0, 1000, (2, 128), device="cuda")
    mask = torch.ones_like(words)
    model(input_ids=words, attention_mask=mask, labels=words, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
