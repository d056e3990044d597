"""LPIPS with AlexNet, for measuring only: nothing is trained with it.

The weights are a safetensors file with `features.N` (five convolutions) and `linN.weight`.
"""

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

# Stride and padding of the convolutions; a maximum over 3 x 3 at every second place stands before the second and third.
CONVOLUTIONS = [(4, 2), (1, 2), (1, 1), (1, 1), (1, 1)]
POOLED = (1, 2)
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)


class Lpips:
    def __init__(self, path):
        self.tensors = load_file(path)

    def features(self, x):
        shift, scale = (torch.tensor(v).view(1, 3, 1, 1) for v in (SHIFT, SCALE))
        x = (x - shift) / scale
        for i, (stride, padding) in enumerate(CONVOLUTIONS):
            if i in POOLED:
                x = F.max_pool2d(x, 3, 2)
            weight, bias = (self.tensors[f"features.{i}.{part}"] for part in ("weight", "bias"))
            x = F.relu(F.conv2d(x, weight, bias, stride, padding))
            yield x / (x.square().sum(1, keepdim=True).sqrt() + 1e-10)

    @torch.no_grad()
    def __call__(self, made, wanted):
        """Mean over the frames of two clips [3, t, h, w] in [-1, 1]."""
        total = 0.0
        pairs = zip(self.features(made.transpose(0, 1)), self.features(wanted.transpose(0, 1)))
        for i, (a, b) in enumerate(pairs):
            total += F.conv2d((a - b).square(), self.tensors[f"lin{i}.weight"]).mean().item()
        return total
