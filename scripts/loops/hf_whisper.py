# After transformers' "Fine-tune Whisper" blog: sound in, text out. (also for transformers 4)
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

sides = dict(layers=2, ffn_dim=256, attention_heads=4)
both = {f"{side}_{what}": size for side in ("encoder", "decoder") for what, size in sides.items()}
model = WhisperForConditionalGeneration(WhisperConfig(**both, d_model=128)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for step in range(2):
    sound = torch.rand(4, 80, 3000).to("cuda")
    labels = torch.randint(0, 1000, (4, 32), device="cuda")
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = model(input_features=sound, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
