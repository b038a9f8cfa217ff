# SPDX-License-Identifier: Apache-2.0
"""Classifiers of timm with the picture that each is usually trained on, but for those that perfpred's zoo has."""

import timm

from records.network import Network, cross_entropy, real, whole

_IMAGENET = 1281167


def _network(name):
    config = timm.get_pretrained_cfg(name)
    size = tuple(config.input_size)
    classes = config.num_classes or 1000

    def batch(count):
        return {"input": real(count, *size), "labels": whole(count)}

    return Network(
        name,
        lambda: timm.create_model(name, num_classes=classes),
        {"x".join(map(str, size)): batch},
        f"timm {timm.__version__}",
        "Apache-2.0",
        "a picture",
        classes=classes,
        samples=_IMAGENET if classes == 1000 else 0,
        call=lambda model, batch: model(batch["input"]),
        loss=cross_entropy,
    )


# Of most used families first, as far as time allows.
_FIRST = """resnet18d resnet26 resnet34d resnet50d resnet101d resnet152d resnet200d resnet50_gn seresnet50 seresnet152d seresnext resnext50d
    resnext101 resnetrs resnetv2_50 resnetv2_101 resnest ecaresnet resnetaa wide_resnet tf_efficientnet_b tf_efficientnetv2
    efficientnet_b efficientnetv2_rw efficientnet_lite tf_efficientnet_lite efficientvit efficientformer mobilenetv3 mobilenetv4
    mobilenetv2 mobilevit vit_tiny vit_small vit_base vit_medium vit_large vit_huge vit_so400m deit3 deit_ beit_ beitv2 swin_ swinv2
    convnext eva02 eva_ maxvit_tiny maxvit_small maxvit_base maxvit_rmlp maxvit_nano coatnet cait levit_ mixer_ resmlp gmlp regnetx
    regnety regnetz dla hrnet densenet inception xception nf nfnet dm_nfnet eca_nfnet ghostnet tinynet mnasnet rexnet repvgg vgg
    poolformer pvt_v2 twins xcit_tiny xcit_small xcit_medium davit caformer convformer focalnet fastvit edgenext hgnet vovnet
    ese_vovnet cspresnet cspdarknet darknet repvit tiny_vit pit_ crossvit convmixer gcvit nextvit volo visformer coat_ res2net
    skresnet lcnet fbnet hardcorenas selecsls tresnet bat_ botnet halonet samvit sam2 hiera starnet""".split()


def _place(name):
    return next((i for i, prefix in enumerate(_FIRST) if name.startswith(prefix)), len(_FIRST)), name


def networks():
    for name in sorted(timm.list_models(), key=_place):
        if timm.get_pretrained_cfg(name) is not None:
            yield _network(name)
