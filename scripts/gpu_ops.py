#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times convolutions and matrix products one by one on a CUDA GPU with PyTorch.

    scripts/gpu_ops.py OUT_DIR

convolutions.csv: forward pass, gradient of the input (dgrad) and of the weights (wgrad), bf16, channels-last memory.
products.csv: M x K by K x N in bf16, tf32 and fp8 (e4m3, one scale for each tensor). Milliseconds, median of 10 after 3;
random operands; operands and results are larger than the L2 cache or are flushed from it.
"""

import csv
import os
import statistics
import sys

import torch

# input size, in channels, out channels, kernel, stride, groups: of ResNet-50, ResNeXt-50, RegNetX, ConvNeXt-T, EfficientNet-B0,
# MobileNetV2, U-Net and VGG-16
CONVOLUTIONS = [
    (224, 3, 64, 7, 2, 1), (56, 64, 64, 1, 1, 1), (56, 64, 64, 3, 1, 1), (56, 64, 256, 1, 1, 1), (56, 256, 64, 1, 1, 1),
    (56, 256, 128, 1, 1, 1), (56, 128, 128, 3, 2, 1), (28, 128, 512, 1, 1, 1), (56, 256, 512, 1, 2, 1),
    (28, 512, 128, 1, 1, 1), (28, 128, 128, 3, 1, 1), (28, 512, 256, 1, 1, 1), (28, 256, 256, 3, 2, 1),
    (14, 256, 1024, 1, 1, 1), (14, 1024, 256, 1, 1, 1), (14, 256, 256, 3, 1, 1), (14, 1024, 512, 1, 1, 1),
    (14, 512, 512, 3, 2, 1), (7, 512, 2048, 1, 1, 1), (7, 2048, 512, 1, 1, 1), (7, 512, 512, 3, 1, 1),
    (56, 128, 128, 3, 1, 32), (28, 256, 256, 3, 1, 32), (14, 512, 512, 3, 1, 32), (7, 1024, 1024, 3, 1, 32),
    (28, 240, 240, 3, 1, 10), (14, 720, 720, 3, 1, 30),
    (56, 96, 96, 7, 1, 96), (28, 192, 192, 7, 1, 192), (14, 384, 384, 7, 1, 384), (7, 768, 768, 7, 1, 768),
    (224, 3, 96, 4, 4, 1), (56, 96, 192, 2, 2, 1), (112, 32, 32, 3, 1, 32), (112, 96, 96, 3, 2, 96),
    (56, 144, 144, 3, 1, 144), (56, 144, 144, 5, 2, 144), (28, 240, 240, 5, 1, 240), (14, 480, 480, 5, 1, 480),
    (7, 1152, 1152, 3, 1, 1152), (112, 16, 96, 1, 1, 1), (28, 240, 40, 1, 1, 1), (14, 80, 480, 1, 1, 1),
    (224, 64, 64, 3, 1, 1), (112, 128, 128, 3, 1, 1), (56, 256, 256, 3, 1, 1), (28, 512, 512, 3, 1, 1),
]
BATCHES = (16, 64, 256)
ROWS = (512, 2048, 8192, 32768)
# K, N of GPT-2, BERT, Llama 1B, 8B and 70B, and their heads
WEIGHTS = [(768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50257), (1024, 4096), (4096, 1024), (2048, 2048),
           (2048, 512), (2048, 8192), (8192, 2048), (2048, 128256), (4096, 4096), (4096, 14336), (14336, 4096),
           (4096, 128256), (8192, 8192), (8192, 28672), (28672, 8192)]
CONVOLUTION_COLUMNS = "device batch_size image_size in_channels out_channels kernel_size stride groups direction precision layout ms".split()
PRODUCT_COLUMNS = "device precision m n k ms".split()


def seconds(function, flush):
    for _ in range(3):
        function()
    times = []
    for _ in range(10):
        flush.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        times.append((begin, end))
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in times)


def convolutions(device, flush):
    for batch in BATCHES:
        for size, inputs, outputs, kernel, stride, groups in CONVOLUTIONS:
            padding = 0 if kernel == stride else kernel // 2
            if batch == 256 and size * size * max(inputs, outputs) > 1.7e6:
                continue
            x = torch.randn(batch, inputs, size, size, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
            w = torch.randn(outputs, inputs // groups, kernel, kernel, device="cuda", dtype=torch.bfloat16)
            w = w.to(memory_format=torch.channels_last)
            options = ([stride, stride], [padding, padding], [1, 1], False, [0, 0], groups)

            def forward():
                return torch.ops.aten.convolution(x, w, None, *options)

            gradient = torch.randn_like(forward())

            def backward(mask):
                return lambda: torch.ops.aten.convolution_backward(gradient, x, w, [0], *options, mask)

            for direction, function in (("forward", forward), ("dgrad", backward([True, False, False])),
                                        ("wgrad", backward([False, True, False]))):
                yield (device, batch, size, inputs, outputs, kernel, stride, groups, direction, "bf16", "nhwc",
                       f"{seconds(function, flush):.6g}")


def products(device, flush):
    torch.backends.cuda.matmul.allow_tf32 = True
    one = torch.ones((), device="cuda")
    for k, n in WEIGHTS:
        for m in ROWS:
            if m * n * 4 > 9e9:
                continue
            for precision in ("bf16", "fp8", "tf32"):
                if precision == "fp8" and n % 16:
                    continue  # cuBLAS wants multiples of 16
                dtype = torch.float32 if precision == "tf32" else torch.bfloat16
                a = torch.randn(m, k, device="cuda", dtype=dtype)
                b = torch.randn(n, k, device="cuda", dtype=dtype)
                if precision == "fp8":
                    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
                    ms = seconds(lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16), flush)
                else:
                    ms = seconds(lambda: torch.mm(a, b.t()), flush)
                yield device, precision, m, n, k, f"{ms:.6g}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    device = torch.cuda.get_device_name()
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for name, columns, rows in (("convolutions", CONVOLUTION_COLUMNS, convolutions), ("products", PRODUCT_COLUMNS, products)):
        with open(os.path.join(sys.argv[1], f"{name}.csv"), "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            for row in rows(device, flush):
                writer.writerow(row)
        print(name, "written", flush=True)


if __name__ == "__main__":
    main()
