# After diffusers' "train_text_to_image_lora.py": a U-Net with adapters, frozen VAE and text encoder, seeded noise.
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from peft import LoraConfig
from transformers import CLIPTextConfig, CLIPTextModel

device, half = torch.device("cuda"), torch.float16
vae = AutoencoderKL(block_out_channels=(32, 64), norm_num_groups=8, down_block_types=("DownEncoderBlock2D",) * 2,
                    up_block_types=("UpDecoderBlock2D",) * 2).to(device, half).requires_grad_(False)
text = CLIPTextModel(CLIPTextConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                    vocab_size=1000)).to(device, half).requires_grad_(False)
unet = UNet2DConditionModel(
    block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8, cross_attention_dim=64, attention_head_dim=8,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
).to(device, half).requires_grad_(False)
unet.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
trained = [p for p in unet.parameters() if p.requires_grad]
for parameter in trained:
    parameter.data = parameter.data.float()
schedule = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(trained, lr=1e-4)
scaler = torch.amp.GradScaler("cuda")
generator = torch.Generator(device=device).manual_seed(0)
for step in range(2):
    pictures, words = torch.rand(2, 3, 64, 64).to(device, half), torch.randint(0, 1000, (2, 77)).to(device)
    with torch.autocast("cuda", dtype=half):
        latents = vae.encode(pictures).latent_dist.sample() * vae.config.scaling_factor
        noise = torch.randn(latents.shape, generator=generator, device=device, dtype=half)
        steps = torch.randint(0, 1000, (2,), device=device)
        predicted = unet(schedule.add_noise(latents, noise, steps), steps, text(words)[0]).sample
        loss = F.mse_loss(predicted.float(), noise.float())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
