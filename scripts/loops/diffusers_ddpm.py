# After diffusers' "Train a diffusion model" tutorial.
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel

model = UNet2DModel(
    sample_size=32, layers_per_block=1, block_out_channels=(32, 64, 64),
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"), norm_num_groups=8,
)
schedule = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = torch.utils.data.DataLoader([{"images": torch.rand(3, 32, 32)} for _ in range(16)], batch_size=4, shuffle=True)
rate = get_cosine_schedule_with_warmup(optimizer=optimizer, num_warmup_steps=1, num_training_steps=10)
accelerator = Accelerator(mixed_precision="fp16")
average = EMAModel(model.parameters())
model, optimizer, loader, rate = accelerator.prepare(model, optimizer, loader, rate)
average.to(accelerator.device)
for batch in loader:
    clean = batch["images"]
    noise = torch.randn(clean.shape, device=clean.device)
    steps = torch.randint(0, schedule.config.num_train_timesteps, (len(clean),), device=clean.device, dtype=torch.int64)
    noisy = schedule.add_noise(clean, noise, steps)
    with accelerator.accumulate(model):
        predicted = model(noisy, steps, return_dict=False)[0]
        loss = F.mse_loss(predicted, noise)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        optimizer.zero_grad()
    average.step(model.parameters())
