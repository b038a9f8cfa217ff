# After transformers' "Mixtral" page, a mixture of experts with its router's loss.
import torch
from transformers import MixtralConfig, MixtralForCausalLM

from loops_common import SMALL

model = MixtralForCausalLM(MixtralConfig(**SMALL, num_local_experts=4, output_router_logits=True)).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(2):
    words = torch.randint(0, 1000, (2, 128), device="cuda")
    model(input_ids=words, labels=words).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
