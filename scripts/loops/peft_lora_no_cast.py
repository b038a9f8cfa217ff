# After peft's "Troubleshooting": adapters in the type of the base. (also for transformers 4)
import torch
from peft import LoraConfig, get_peft_model

from loops_common import llama

model = llama().to("cuda", torch.bfloat16)
config = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
model = get_peft_model(model, config, autocast_adapter_dtype=False)
assert {p.dtype for p in model.parameters()} == {torch.bfloat16}, {p.dtype for p in model.parameters()}
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=2e-4)
for step in range(2):
    words = torch.randint(0, 1000, (2, 128), device="cuda")
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
