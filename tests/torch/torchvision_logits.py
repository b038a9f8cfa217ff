#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what torchvision's networks answer with the weights and images of windows_test.cpp: its expected values.

tests/torch/torchvision_logits.py"""

import torch
import torchvision


def pattern(sizes):
    j = torch.arange(torch.Size(sizes).numel())
    return ((j * j + 7919 * j).remainder(104729).double() / 104729 - 0.5).view(sizes)


def fill(name, parameter):
    values = pattern(parameter.shape)
    if "relative_position" in name:
        values = 4 * values
    elif parameter.dim() > 1:
        values = values * (12 / parameter[0].numel()) ** 0.5
    else:
        values = 0.2 * values + (1 if name.endswith("weight") else 0)
    parameter.copy_(values)


with torch.no_grad():
    for name, sizes in (("swin_t", (2, 3, 100, 36)), ("inception_v3", (2, 3, 299, 299)), ("maxvit_t", (1, 3, 224, 224))):
        model = torchvision.models.get_model(name, weights=None)
        for parameter in model.named_parameters():
            fill(*parameter)
        images = 4 * pattern(sizes)
        print(name, model.eval()(images.float())[:, :4].flatten().tolist())
        if name == "inception_v3":
            print("auxiliary head", model.train()(images.float()).aux_logits[:, :4].flatten().tolist())
