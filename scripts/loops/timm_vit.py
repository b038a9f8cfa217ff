# After timm's "Fine-tuning" guide: layer decay, bfloat16, checkpointed blocks.
import timm
import timm.loss
import torch
from timm.optim import create_optimizer_v2

model = timm.create_model("vit_small_patch16_224", pretrained=False, drop_path_rate=0.1).cuda()
model.set_grad_checkpointing()
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-4, layer_decay=0.75)
criterion = timm.loss.LabelSmoothingCrossEntropy(0.1).cuda()
for step in range(2):
    pictures, labels = torch.rand(8, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (8,), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(pictures), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
