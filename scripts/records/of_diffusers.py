# SPDX-License-Identifier: Apache-2.0
"""Networks of diffusers. Sizes are those of the config.json that the authors publish on the Hub. What makes latents and
embeddings of texts is frozen, and no part of a step."""

import functools

import diffusers
import torch.nn.functional as F

from records.network import Network, real, whole

_LICENCE = "Apache-2.0"
# Of large networks that people train with parameters in bf16, too.
_FORMS = dict.fromkeys((diffusers.FluxTransformer2DModel, diffusers.SD3Transformer2DModel), ("fp32", "autocast", "half"))


def _denoised(output, batch):
    """Mean squared error of what the network says beside the noise, in single precision as in the training scripts."""
    sample = output.sample if hasattr(output, "sample") else output[0]
    return F.mse_loss(sample.float(), batch["target"].float())


def _call(model, batch):
    return model(**{key: value for key, value in batch.items() if key != "target"})


def _network(name, kind, config, batches, sample, **more):
    source = f"diffusers {diffusers.__version__} {kind.__name__}"
    more = {"call": _call, "loss": _denoised, "forms": _FORMS.get(kind, ("fp32", "autocast")), **more}
    return Network(name, lambda: kind(**config), batches, source, _LICENCE, sample, **more)


def _latents(channels, *sides):
    return {f"{channels}x{side}x{side}": side for side in sides}


# ---- UNets with texts ----


def _unet_batch(side, width, channels=4, words=77, more=None, target=4):
    def batch(size):
        return {
            "sample": real(size, channels, side, side),
            "timestep": whole(size),
            "encoder_hidden_states": real(size, words, width),
            "target": real(size, target, side, side),
            **(more(size) if more else {}),
        }

    return batch


_ATTENDING = ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",)
_ATTENDING_UP = ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3
_SD1 = dict(
    in_channels=4,
    out_channels=4,
    block_out_channels=(320, 640, 1280, 1280),
    layers_per_block=2,
    down_block_types=_ATTENDING,
    cross_attention_dim=768,
    attention_head_dim=8,
    sample_size=64,
)
_UNET = dict(_SD1, up_block_types=_ATTENDING_UP)


def _stable_diffusion():
    kind = diffusers.UNet2DConditionModel
    sample = "latents (an eighth of the picture's side), with a text of 77 embedded tokens"
    names = ("stable-diffusion-v1-5/stable-diffusion-v1-5", "runwayml/stable-diffusion-v1-5", "compvis/stable-diffusion-v1-4",
             "stable_diffusion_1.5", "stable_diffusion", "sd15", "sd1.5_unet")
    yield _network("sd1.5", kind, _UNET, {k: _unet_batch(s, 768) for k, s in _latents(4, 64, 32, 96).items()}, sample,
                   aliases=names, published="860M, Rombach et al. 2022")
    names = ("stabilityai/stable-diffusion-2-1", "stabilityai/stable-diffusion-2", "stabilityai/stable-diffusion-2-1-base", "stable_diffusion_2.1", "sd21")
    two = dict(_UNET, cross_attention_dim=1024, attention_head_dim=(5, 10, 20, 20), use_linear_projection=True)
    yield _network("sd2.1", kind, two, {k: _unet_batch(s, 1024) for k, s in _latents(4, 96, 64).items()}, sample,
                   aliases=names, published="866M, Rombach et al. 2022")

    def added(size):
        return {"added_cond_kwargs": {"text_embeds": real(size, 1280), "time_ids": real(size, 6)}}

    names = ("stabilityai/stable-diffusion-xl-base-1.0", "stable_diffusion_xl", "sd_xl", "sdxl_unet", "sdxl_base")
    xl = dict(
        in_channels=4,
        out_channels=4,
        block_out_channels=(320, 640, 1280),
        layers_per_block=2,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=2048,
        attention_head_dim=(5, 10, 20),
        transformer_layers_per_block=(1, 2, 10),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
        sample_size=128,
    )
    yield _network("sdxl", kind, xl, {k: _unet_batch(s, 2048, more=added) for k, s in _latents(4, 128, 64).items()}, sample,
                   aliases=names, published="2.6B, Podell et al. 2023")

    def condition(side):
        def batch(size):
            made = _unet_batch(side, 768)(size)
            picture = real(size, 3, 8 * side, 8 * side)
            return {**made, "controlnet_cond": picture}

        return batch

    names = ("lllyasviel/sd-controlnet-canny", "controlnet")
    yield _network("controlnet_sd1.5", diffusers.ControlNetModel, _SD1, {k: condition(s) for k, s in _latents(4, 64).items()},
                   f"{sample} and a picture; the frozen UNet behind it is left out", aliases=names, published="361M, Zhang et al. 2023",
                   loss=lambda output, batch: output.mid_block_res_sample.float().mean() + sum(r.float().mean() for r in output.down_block_res_samples))


# ---- Transformers ----


def _dit_batch(channels, side, words, width, pooled=None, more=None, target=None):
    def batch(size):
        return {
            "hidden_states": real(size, channels, side, side),
            "timestep": whole(size),
            "encoder_hidden_states": real(size, words, width),
            **({"pooled_projections": real(size, pooled)} if pooled else {}),
            "target": real(size, target or channels, side, side),
            **(more(size) if more else {}),
        }

    return batch


def _sd3(name, config, names, published, sides=(128, 64)):
    sizes = dict(patch_size=2, in_channels=16, out_channels=16, attention_head_dim=64, joint_attention_dim=4096,
                 pooled_projection_dim=2048, sample_size=128, **config)
    batches = {k: _dit_batch(16, s, 333, 4096, 2048) for k, s in _latents(16, *sides).items()}
    return _network(name, diffusers.SD3Transformer2DModel, sizes, batches,
                    "latents (an eighth of the picture's side), with a text of 77 + 256 embedded tokens", aliases=names, published=published)


def _flux_batch(side, guidance, words=512):
    pixels = (side // 2) ** 2

    def batch(size):
        return {
            "hidden_states": real(size, pixels, 64),
            "timestep": real(size),
            "encoder_hidden_states": real(size, words, 4096),
            "pooled_projections": real(size, 768),
            "img_ids": real(pixels, 3),
            "txt_ids": real(words, 3),
            **({"guidance": real(size)} if guidance else {}),
            "target": real(size, pixels, 64),
        }

    return batch


def _flux(name, guidance, names):
    config = dict(patch_size=1, in_channels=64, num_layers=19, num_single_layers=38, attention_head_dim=128,
                  num_attention_heads=24, joint_attention_dim=4096, pooled_projection_dim=768, guidance_embeds=guidance)
    batches = {k: _flux_batch(s, guidance) for k, s in _latents(16, 128, 64).items()}
    return _network(name, diffusers.FluxTransformer2DModel, config, batches,
                    "latents (an eighth of the picture's side), with a text of 512 embedded tokens", aliases=names,
                    published="12B, Black Forest Labs 2024")


def _transformers():
    medium = dict(num_layers=24, num_attention_heads=24, caption_projection_dim=1536, pos_embed_max_size=192)
    yield _sd3("sd3_medium", medium, ("stabilityai/stable-diffusion-3-medium-diffusers", "stabilityai/stable-diffusion-3-medium", "stable_diffusion_3", "sd3"), "2B, Esser et al. 2024")
    newer = dict(medium, pos_embed_max_size=384, qk_norm="rms_norm", dual_attention_layers=tuple(range(13)))
    yield _sd3("sd3.5_medium", newer, ("stabilityai/stable-diffusion-3.5-medium", "stable_diffusion_3.5_medium"), "2.5B, Stability AI 2024")
    large = dict(num_layers=38, num_attention_heads=38, caption_projection_dim=2432, pos_embed_max_size=192, qk_norm="rms_norm")
    yield _sd3("sd3.5_large", large, ("stabilityai/stable-diffusion-3.5-large", "stable_diffusion_3.5_large", "sd3.5"), "8.1B, Stability AI 2024")
    yield _flux("flux1_dev", True, ("black-forest-labs/flux.1-dev", "flux.1-dev", "flux_dev", "flux"))
    yield _flux("flux1_schnell", False, ("black-forest-labs/flux.1-schnell", "flux.1-schnell", "flux_schnell"))
    kind = diffusers.PixArtTransformer2DModel

    def added(size):
        return {"added_cond_kwargs": {"resolution": real(size, 2), "aspect_ratio": real(size, 1)}}

    for side, image in ((64, 512), (128, 1024)):
        more = added if side == 128 else lambda size: {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}
        batches = {f"4x{side}x{side}": _dit_batch(4, side, 120, 4096, more=more, target=8)}
        names = (f"pixart-alpha/pixart-xl-2-{image}x{image}", f"pixart-xl-2-{image}-ms", f"pixart_alpha_{image}", *(("pixart_alpha",) if side == 128 else ()))
        yield _network(f"pixart_xl_2_{image}", kind, dict(sample_size=side), batches, "latents, with a text of 120 embedded tokens",
                       aliases=names, published="0.6B, Chen et al. 2023")
    batch = {f"4x{s}x{s}": functools.partial(lambda s, size: {"hidden_states": real(size, 4, s, s), "timestep": whole(size),
             "class_labels": whole(size), "target": real(size, 8, s, s)}, s) for s in (32,)}
    dit = dict(num_attention_heads=16, attention_head_dim=72, in_channels=4, out_channels=8, num_layers=28, sample_size=32, patch_size=2)
    yield _network("dit_xl_2_256", diffusers.DiTTransformer2DModel, dit, batch, "latents of a picture of 256 x 256, with a class",
                   aliases=("facebook/dit-xl-2-256", "dit-xl/2", "dit"), published="675M, Peebles and Xie 2022")


# ---- Pictures alone ----


def _pictures():
    kind = diffusers.UNet2DModel

    def batch(side):
        return lambda size: {"sample": real(size, 3, side, side), "timestep": whole(size), "target": real(size, 3, side, side)}

    small = dict(sample_size=32, block_out_channels=(128, 256, 256, 256), layers_per_block=2, flip_sin_to_cos=False, freq_shift=1,
                 norm_eps=1e-6, downsample_padding=0, add_attention=True, attention_head_dim=None,
                 down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D", "DownBlock2D"),
                 up_block_types=("UpBlock2D", "UpBlock2D", "AttnUpBlock2D", "UpBlock2D"))
    yield _network("ddpm_cifar10", kind, small, {"3x32x32": batch(32)}, "a picture", aliases=("google/ddpm-cifar10-32", "ddpm"),
                   published="35.7M, Ho et al. 2020", samples=50000)
    large = dict(small, sample_size=256, block_out_channels=(128, 128, 256, 256, 512, 512),
                 down_block_types=("DownBlock2D",) * 4 + ("AttnDownBlock2D", "DownBlock2D"),
                 up_block_types=("UpBlock2D", "AttnUpBlock2D") + ("UpBlock2D",) * 4)
    yield _network("ddpm_256", kind, large, {"3x256x256": batch(256)}, "a picture",
                   aliases=("google/ddpm-celebahq-256", "google/ddpm-church-256", "google/ddpm-bedroom-256"), published="114M, Ho et al. 2020")
    vae = dict(block_out_channels=(128, 256, 512, 512), down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
               layers_per_block=2, latent_channels=4, sample_size=512)

    def image(side):
        return lambda size: {"sample": real(size, 3, side, side), "target": real(size, 3, side, side)}

    yield _network("sd_vae", diffusers.AutoencoderKL, vae, {f"3x{s}x{s}": image(s) for s in (256, 512)}, "a picture; the mean squared error alone",
                   aliases=("stabilityai/sd-vae-ft-mse", "autoencoder_kl", "sdxl_vae"), published="84M, Rombach et al. 2022",
                   call=lambda model, batch: model(batch["sample"], sample_posterior=False))


def networks():
    for family in (_stable_diffusion, _transformers, _pictures):
        yield from family()
