# After timm's train.py: mixup, fp16 with a scaler, averaged weights, channels-last images.
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, NativeScaler

device = torch.device("cuda")
model = timm.create_model("resnet50d", pretrained=False, num_classes=100).to(device, memory_format=torch.channels_last)
optimizer = create_optimizer_v2(model, opt="lamb", lr=5e-3, weight_decay=0.02)
average, scaler = ModelEmaV3(model, decay=0.9998), NativeScaler()
mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, num_classes=100)
criterion, schedule = SoftTargetCrossEntropy(), CosineLRScheduler(optimizer, t_initial=10)
for update in range(2):
    pictures = torch.rand(4, 3, 160, 160).to(device).contiguous(memory_format=torch.channels_last)
    pictures, labels = mixup(pictures, torch.randint(0, 100, (4,)).to(device))
    with torch.amp.autocast(device_type=device.type, dtype=torch.float16):
        loss = criterion(model(pictures), labels)
    scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
    optimizer.zero_grad()
    average.update(model, step=update)
    schedule.step_update(update)
