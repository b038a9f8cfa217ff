# SPDX-License-Identifier: Apache-2.0
"""Networks of torchvision that detect, segment, and see films; those that classify pictures are in the zoo."""

import torch
import torch.nn.functional as F
import torchvision
from torchvision.models import detection

from records.network import Network, cross_entropy, real, whole

_LICENCE = "BSD-3-Clause"
_COCO_IMAGES, _COCO_CLASSES = 118287, 91
_OBJECTS = 8  # in a picture: COCO 2017 has 7.3
_IMAGENET = 1281167


def _source(name):
    return f"torchvision {torchvision.__version__} {name}"


# ---- Detection ----



def _as_cuda_has_it(roi_align):
    """Under autocast torchvision's kernel for CUDA computes in single precision (csrc/ops/autocast/roi_align_kernel.cpp);
    without memory there is none."""

    def called(images, boxes, *args, **kwargs):
        if not torch.is_autocast_enabled("cuda"):
            return roi_align(images, boxes, *args, **kwargs)
        boxes = [one.float() for one in boxes] if isinstance(boxes, (list, tuple)) else boxes.float()
        return roi_align(images.float(), boxes, *args, **kwargs).to(images.dtype)

    return called


for _user in (torchvision.ops.poolers, detection.roi_heads):
    _user.roi_align = _as_cuda_has_it(_user.roi_align)

# Pictures are a list, each of which has operators of its own: a step is that of one batch size.
_BATCHES = (1, 2, 4, 8)


def _detection(name, parts, sides, aliases, published, classes=_COCO_CLASSES, more="", batch_sizes=_BATCHES, **options):
    """parts: of the targets beside boxes and labels, what they are of a picture of so many rows and columns."""

    def batch(rows, columns):
        def made(size):
            targets = [{"boxes": real(_OBJECTS, 4), "labels": whole(_OBJECTS), **{k: part(rows, columns) for k, part in parts.items()}}
                       for _ in range(size)]
            return {"images": [real(3, rows, columns) for _ in range(size)], "targets": targets}

        return made

    def make():
        return detection.__dict__[name](weights=None, weights_backbone=None, **options)

    return Network(
        name,
        make,
        {f"3x{rows}x{columns}": batch(rows, columns) for rows, columns in sides},
        _source(name),
        _LICENCE,
        f"a picture with {_OBJECTS} objects{more}",
        aliases=aliases,
        published=published,
        classes=classes,
        samples=_COCO_IMAGES,
        call=lambda model, batch: model(batch["images"], batch["targets"]),
        loss=lambda losses, batch: sum(losses.values()),
        batch_sizes=batch_sizes,
    )


def _detectors():
    wide = ((800, 1216),)  # the shorter side becomes 800; a picture of COCO is 1.5 times as wide as it is high
    two_stages = "; 512 of 2000 proposals are trained on, 128 of them as objects"
    faster, mask = "Ren et al. 2015", "He et al. 2017"
    yield _detection("fasterrcnn_resnet50_fpn", {}, wide, ("faster_rcnn", "faster_rcnn_r50_fpn"), f"41.8M, {faster}", more=two_stages)
    yield _detection("fasterrcnn_resnet50_fpn_v2", {}, wide, ("faster_rcnn_v2",), "43.7M, Li et al. 2021", more=two_stages)
    yield _detection("fasterrcnn_mobilenet_v3_large_fpn", {}, wide, (), "19.4M, torchvision", more=two_stages)
    masks = {"masks": lambda rows, columns: torch.zeros(_OBJECTS, rows, columns, dtype=torch.uint8, device="meta")}
    yield _detection("maskrcnn_resnet50_fpn", masks, wide, ("mask_rcnn", "mask_rcnn_r50_fpn", "maskrcnn"), f"44.4M, {mask}", more=two_stages)
    yield _detection("maskrcnn_resnet50_fpn_v2", masks, wide, ("mask_rcnn_v2",), "46.4M, Li et al. 2021", more=two_stages)
    points = {"keypoints": lambda rows, columns: real(_OBJECTS, 17, 3)}
    yield _detection("keypointrcnn_resnet50_fpn", points, wide, ("keypoint_rcnn",), f"59.1M, {mask}", classes=2, more=two_stages)
    yield _detection("retinanet_resnet50_fpn", {}, wide, ("retinanet", "retinanet_r50_fpn"), "34.0M, Lin et al. 2017")
    yield _detection("retinanet_resnet50_fpn_v2", {}, wide, ("retinanet_v2",), "38.2M, Zhang et al. 2020")
    yield _detection("fcos_resnet50_fpn", {}, wide, ("fcos",), "32.3M, Tian et al. 2019")
    yield _detection("ssd300_vgg16", {}, ((300, 300),), ("ssd300", "ssd"), "35.6M, Liu et al. 2016")
    yield _detection("ssdlite320_mobilenet_v3_large", {}, ((320, 320),), ("ssdlite",), "3.4M, Howard et al. 2019", batch_sizes=_BATCHES[1:])  # its last norm has one pixel


# ---- Segmentation ----


def _both_heads(output, batch):
    """torchvision's references/segmentation/train.py."""
    loss = F.cross_entropy(output["out"], batch["labels"], ignore_index=255)
    return loss + 0.5 * F.cross_entropy(output["aux"], batch["labels"], ignore_index=255) if "aux" in output else loss


def _segmentation():
    rows = [("deeplabv3_resnet50", "42.0M", True, ("deeplabv3",)), ("deeplabv3_resnet101", "61.0M", True, ()),
            ("deeplabv3_mobilenet_v3_large", "11.0M", True, ()), ("fcn_resnet50", "35.3M", True, ("fcn",)), ("fcn_resnet101", "54.3M", True, ()),
            ("lraspp_mobilenet_v3_large", "3.2M", False, ("lraspp",))]
    for name, published, aux, aliases in rows:

        def make(name=name, aux=aux):
            return torchvision.models.segmentation.__dict__[name](weights=None, weights_backbone=None, **({"aux_loss": True} if aux else {}))

        def batch(side):
            return lambda size: {"input": real(size, 3, side, side), "labels": whole(size, side, side)}

        yield Network(name, make, {f"3x{side}x{side}": batch(side) for side in (480, 520, 512)}, _source(name), _LICENCE,
                      "a picture with a class for each pixel" + ("; with the auxiliary head" if aux else ""), aliases=aliases,
                      published=f"{published}, torchvision", classes=21, call=lambda model, batch: model(batch["input"]),
                      loss=_both_heads)


# ---- Films, and pictures that the zoo lacks ----


def _classifier(name, size, aliases, published, classes, samples=0, sample=""):
    def make():
        return torchvision.models.get_model(name, weights=None)

    def batch(size):
        return lambda count: {"input": real(count, *size), "labels": whole(count)}

    return Network(name, make, {"x".join(map(str, size)): batch(size)}, _source(name), _LICENCE, sample, aliases=aliases,
                   published=f"{published}, torchvision", classes=classes, samples=samples,
                   call=lambda model, batch: model(batch["input"]), loss=cross_entropy)


def _classifiers():
    for name, frames, side, published in (("r3d_18", 16, 112, "33.4M"), ("mc3_18", 16, 112, "11.7M"), ("r2plus1d_18", 16, 112, "31.5M"),
                                          ("s3d", 16, 224, "8.3M"), ("mvit_v1_b", 16, 224, "36.6M"), ("mvit_v2_s", 16, 224, "34.5M"),
                                          ("swin3d_t", 16, 224, "28.2M"), ("swin3d_s", 16, 224, "49.8M"), ("swin3d_b", 16, 224, "88.0M")):
        yield _classifier(name, (3, frames, side, side), (), published, 400, sample=f"a film of {frames} frames")
    for size, published in (("t", "28.4M"), ("s", "49.7M"), ("b", "87.9M")):
        yield _classifier(f"swin_v2_{size}", (3, 256, 256), (), published, 1000, _IMAGENET)


def networks():
    for family in (_detectors, _segmentation, _classifiers):
        yield from family()
