# After peft's "IA3" page.
import torch
from peft import IA3Config, get_peft_model

from loops_common import llama

model = get_peft_model(llama(), IA3Config(task_type="CAUSAL_LM")).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
for step in range(2):
    words = torch.randint(0, 1000, (2, 128), device="cuda")
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
