# After transformers' "Loading models": weights of files, in the type of the files, on the device by name. (also for transformers 4)
import torch
from transformers import AutoModelForCausalLM

from loops_common import saved_llama

model = AutoModelForCausalLM.from_pretrained(saved_llama(), dtype=torch.bfloat16, device_map="cuda")
assert model.device.type == "cuda" and model.dtype == torch.bfloat16, (model.device, model.dtype)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for step in range(3):
    words = torch.randint(0, 1000, (2, 128), device=model.device)
    loss = model(input_ids=words, labels=words).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
