# After transformers' "Fine-tuning in native PyTorch", with PyTorch's AMP recipe. (also for transformers 4)
import torch
from torch.utils.data import DataLoader
from transformers import get_scheduler

from loops_common import Tokens, llama

device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
model = llama()
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
loader = DataLoader(Tokens(), shuffle=True, batch_size=8)
schedule = get_scheduler("linear", optimizer=optimizer, num_warmup_steps=0, num_training_steps=10)
model.train()
for batch in loader:
    batch = {k: v.to(device) for k, v in batch.items()}
    with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
