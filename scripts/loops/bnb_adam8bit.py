# After bitsandbytes' "8-bit optimizers".
import bitsandbytes as bnb
import torch

from loops_common import llama

model = llama().to("cuda", torch.bfloat16)
optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=1e-4)
for step in range(2):
    words = torch.randint(0, 1000, (2, 128), device="cuda")
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
