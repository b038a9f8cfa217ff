# After torchvision's references/classification/train.py: AMP, averaged weights, mixup and cutmix.
import torch
import torchvision
from torchvision.transforms import v2

device = torch.device("cuda")
model = torchvision.models.get_model("efficientnet_b0", weights=None, num_classes=100).to(device)
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1, momentum=0.9, weight_decay=2e-5, eps=0.0316, alpha=0.9)
average = torch.optim.swa_utils.AveragedModel(model, device=device, use_buffers=True)
scaler, criterion = torch.amp.GradScaler("cuda"), torch.nn.CrossEntropyLoss(label_smoothing=0.1)
mix = v2.RandomChoice([v2.MixUp(num_classes=100), v2.CutMix(num_classes=100)])
data = torchvision.datasets.FakeData(32, (3, 160, 160), 100, v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]))
collate = lambda batch: mix(*torch.utils.data.default_collate(batch))
loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, pin_memory=True, collate_fn=collate)
for pictures, labels in loader:
    pictures, labels = pictures.to(device), labels.to(device)
    with torch.amp.autocast("cuda"):
        loss = criterion(model(pictures), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    average.update_parameters(model)
