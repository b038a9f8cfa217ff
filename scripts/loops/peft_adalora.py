# After peft's "AdaLoRA" page.
import torch
from peft import AdaLoraConfig, get_peft_model

from loops_common import llama

config = AdaLoraConfig(init_r=12, target_r=8, total_step=100, tinit=10, tfinal=20, task_type="CAUSAL_LM")
model = get_peft_model(llama(), config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
for step in range(2):
    words = torch.randint(0, 1000, (2, 128), device="cuda")
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    model.base_model.update_and_allocate(step)
    optimizer.zero_grad()
