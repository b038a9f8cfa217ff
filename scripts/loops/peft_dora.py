# After peft's "LoRA" guide: weight-decomposed adapters (DoRA) and rank-stabilised scaling.
import torch
from peft import LoraConfig, get_peft_model

from loops_common import llama

model = get_peft_model(llama(), LoraConfig(r=8, use_dora=True, use_rslora=True, task_type="CAUSAL_LM")).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
for step in range(2):
    words = torch.randint(0, 1000, (2, 128), device="cuda")
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
