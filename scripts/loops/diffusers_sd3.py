# After diffusers' "train_dreambooth_sd3.py": a transformer by flow matching, checkpointed.
import torch
from diffusers import SD3Transformer2DModel

model = SD3Transformer2DModel(
    sample_size=16, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=4,
    joint_attention_dim=64, caption_projection_dim=64, pooled_projection_dim=64, out_channels=4, pos_embed_max_size=16,
).to("cuda", torch.bfloat16)
model.enable_gradient_checkpointing()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(2):
    latents = torch.randn(2, 4, 16, 16, device="cuda", dtype=torch.bfloat16)
    noise, share = torch.randn_like(latents), torch.rand(2, device="cuda", dtype=torch.bfloat16)
    noisy = (1 - share.view(-1, 1, 1, 1)) * latents + share.view(-1, 1, 1, 1) * noise
    text, pooled = (torch.randn(2, *s, device="cuda", dtype=torch.bfloat16) for s in ((77, 64), (64,)))
    predicted = model(hidden_states=noisy, timestep=share * 1000, encoder_hidden_states=text, pooled_projections=pooled,
                      return_dict=False)[0]
    (predicted.float() - (noise - latents).float()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
