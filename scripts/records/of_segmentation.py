# SPDX-License-Identifier: Apache-2.0
"""U-Nets and their kin: of segmentation-models-pytorch on encoders that classify pictures, and of MONAI in two and three
dimensions."""

import torch.nn.functional as F

from records.network import Network, real, whole


def _mask_loss(output, batch):
    return F.binary_cross_entropy_with_logits(output, batch["target"])


def _of_smp():
    import segmentation_models_pytorch as smp

    def batch(side):
        return lambda size: {"input": real(size, 3, side, side), "target": real(size, 1, side, side)}

    decoders = {"unet": (smp.Unet, (256, 512, 224)), "unetplusplus": (smp.UnetPlusPlus, (256, 512)), "fpn": (smp.FPN, (256, 512)),
                "deeplabv3plus": (smp.DeepLabV3Plus, (256, 512)), "linknet": (smp.Linknet, (256, 512)), "pspnet": (smp.PSPNet, (256, 512)),
                "manet": (smp.MAnet, (256, 512)), "pan": (smp.PAN, (256, 512))}
    encoders = {name: ("resnet34", "resnet50") for name in decoders}
    encoders["unet"] = ("resnet18", "resnet34", "resnet50", "resnet101", "efficientnet-b0", "efficientnet-b3", "efficientnet-b4", "vgg16_bn",
                        "mobilenet_v2", "se_resnext50_32x4d", "densenet121")
    encoders["unetplusplus"] += ("efficientnet-b4",)
    encoders["deeplabv3plus"] += ("resnet101", "mobilenet_v2")
    for decoder, (kind, sides) in decoders.items():
        for encoder in encoders[decoder]:
            name = f"{decoder}_{encoder.replace('-', '_')}"
            aliases = (f"smp_{name}", *(("smp_unet",) if name == "unet_resnet34" else ()))
            yield Network(name, lambda kind=kind, encoder=encoder: kind(encoder, encoder_weights=None, classes=1),
                          {f"3x{side}x{side}": batch(side) for side in sides}, f"segmentation_models_pytorch {smp.__version__} {kind.__name__}",
                          "MIT", "a picture with a mask", aliases=aliases, call=lambda model, batch: model(batch["input"]),
                          loss=_mask_loss)


def _class_loss(output, batch):
    """Cross entropy of each pixel, of all outputs where the network has several."""
    heads = output.unbind(1) if output.dim() == batch["labels"].dim() + 2 else [output]
    return sum(F.cross_entropy(head, batch["labels"]) for head in heads)


def _of_monai():
    import monai
    from monai.networks import nets

    def network(name, kind, options, channels, sizes, sample, aliases, published, classes):
        def batch(size):
            return lambda count: {"input": real(count, channels, *size), "labels": whole(count, *size)}

        batches = {"x".join(map(str, (channels, *size))): batch(size) for size in sizes}
        return Network(name, lambda: kind(**options), batches, f"monai {monai.__version__} {kind.__name__}", "Apache-2.0", sample,
                       aliases=aliases, published=published, classes=classes, call=lambda model, batch: model(batch["input"]),
                       loss=_class_loss)

    flat, deep = "a picture with a class for each pixel", "a volume with a class for each voxel"
    wide = (64, 128, 256, 512, 1024, 64)
    yield network("unet_2d", nets.BasicUNet, dict(spatial_dims=2, in_channels=1, out_channels=2, features=wide), 1,
                  ((256, 256), (512, 512)), flat, ("unet", "u_net", "unet2d"), "31M, Ronneberger et al. 2015", 2)
    yield network("unet_3d", nets.BasicUNet, dict(spatial_dims=3, in_channels=1, out_channels=2), 1,
                  ((96, 96, 96), (128, 128, 128)), deep, ("unet3d", "basic_unet_3d"), "Falk et al. 2019", 2)
    filters = (32, 64, 128, 256, 320, 320)
    common = dict(kernel_size=[3] * 6, strides=[1] + [2] * 5, upsample_kernel_size=[2] * 5, filters=filters, res_block=False)
    yield network("nnunet_3d", nets.DynUNet, dict(common, spatial_dims=3, in_channels=4, out_channels=4), 4,
                  ((128, 128, 128), (96, 96, 96)), deep, ("nnunet", "dynunet_3d", "nnu_net"), "31M, Isensee et al. 2021", 4)
    flat_filters = (32, 64, 128, 256, 512, 512, 512)
    yield network("nnunet_2d", nets.DynUNet, dict(spatial_dims=2, in_channels=1, out_channels=2, kernel_size=[3] * 7, strides=[1] + [2] * 6,
                  upsample_kernel_size=[2] * 6, filters=flat_filters, res_block=False), 1, ((512, 512), (256, 256)), flat, ("dynunet_2d",),
                  "33M, Isensee et al. 2021", 2)
    yield network("segresnet", nets.SegResNet, dict(spatial_dims=3, init_filters=32, in_channels=4, out_channels=3), 4,
                  ((128, 128, 128), (96, 96, 96)), deep, (), "19M, Myronenko 2018", 3)
    yield network("vnet", nets.VNet, dict(spatial_dims=3, in_channels=1, out_channels=2), 1, ((96, 96, 96), (128, 128, 128)), deep, ("v_net",),
                  "45.6M, Milletari et al. 2016", 2)
    yield network("unetr", nets.UNETR, dict(in_channels=1, out_channels=14, img_size=(96, 96, 96)), 1, ((96, 96, 96),), deep, (),
                  "92.6M, Hatamizadeh et al. 2021", 14)
    yield network("swin_unetr", nets.SwinUNETR, dict(in_channels=1, out_channels=14, feature_size=48), 1, ((96, 96, 96),), deep, (),
                  "62.2M, Hatamizadeh et al. 2022", 14)


def networks():
    yield from _of_smp()
    try:
        yield from _of_monai()
    except ImportError as error:
        print(f"MONAI's are left out: {error}")
