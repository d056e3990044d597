"""Goldens for RRDB networks of all factors and spellings, made with PyTorch on the CPU in f32.

    pip install torch
    python tools/upscaler/rrdb_goldens.py testdata/compact

Writes `rrdb_CASE.safetensors` with the weights of a small random network under the names that its files have, and
`rrdb_small.safetensors` with `CASE.input` and `CASE.output`.
"""

import json
import struct
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

# Name, spelling, scale, blocks, and rows and columns of the input.
CASES = [
    ("new_x4", "new", 4, 2, 13, 18),
    ("new_x2", "new", 2, 2, 14, 18),
    ("new_x1", "new", 1, 2, 16, 20),
    ("old_x4", "old", 4, 2, 9, 14),
    ("old_x2", "old", 2, 2, 11, 7),
    ("old_x1", "old", 1, 2, 12, 9),
    ("deep", "new", 4, 23, 9, 11),
]
WIDTH, GROWTH = 8, 4


def layers(spelling, scale, blocks):
    """Our name of each convolution with its channels."""
    unshuffle = {4: 1, 2: 2, 1: 4}[scale] if spelling == "new" else 1
    steps = (scale * unshuffle).bit_length() - 1
    yield "conv_first", 3 * unshuffle**2, WIDTH
    for block in range(blocks):
        for dense in (1, 2, 3):
            for k in range(1, 6):
                made = WIDTH if k == 5 else GROWTH
                yield f"body.{block}.rdb{dense}.conv{k}", WIDTH + (k - 1) * GROWTH, made
    yield "conv_body", WIDTH, WIDTH
    for step in range(steps):
        yield f"conv_up{step + 1}", WIDTH, WIDTH
    yield "conv_hr", WIDTH, WIDTH
    yield "conv_last", WIDTH, 3


def old_name(name, scale, blocks):
    """The same convolution in files of ESRGAN."""
    behind = {4: (3, 6, 8, 10), 2: (3, None, 5, 7), 1: (None, None, 2, 4)}[scale]
    table = dict(zip(("conv_up1", "conv_up2", "conv_hr", "conv_last"), behind))
    table |= {"conv_first": 0}
    if name == "conv_body":
        return f"model.1.sub.{blocks}"
    if name in table:
        return f"model.{table[name]}"
    _, block, dense, conv = name.split(".")
    return f"model.1.sub.{block}.RDB{dense[3:]}.{conv}.0"


def network(x, weights, spelling, scale, blocks):
    def conv(name, x):
        return F.conv2d(x, weights[name + ".weight"], weights[name + ".bias"], padding=1)

    def leaky(x):
        return F.leaky_relu(x, 0.2)

    unshuffle = {4: 1, 2: 2, 1: 4}[scale] if spelling == "new" else 1
    x = F.pixel_unshuffle(x, unshuffle) if unshuffle > 1 else x
    features = conv("conv_first", x)
    y = features
    for block in range(blocks):
        b = y
        for dense in (1, 2, 3):
            parts = [b]
            for k in range(1, 5):
                parts.append(leaky(conv(f"body.{block}.rdb{dense}.conv{k}", torch.cat(parts, 1))))
            b = b + 0.2 * conv(f"body.{block}.rdb{dense}.conv5", torch.cat(parts, 1))
        y = y + 0.2 * b
    y = features + conv("conv_body", y)
    for step in range((scale * unshuffle).bit_length() - 1):
        y = leaky(conv(f"conv_up{step + 1}", F.interpolate(y, scale_factor=2, mode="nearest")))
    return conv("conv_last", leaky(conv("conv_hr", y)))


def save(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    folder, goldens = Path(sys.argv[1]), {}
    for seed, (case, spelling, scale, blocks, rows, columns) in enumerate(CASES):
        random = torch.Generator().manual_seed(seed)
        weights = {}
        for name, cin, cout in layers(spelling, scale, blocks):
            spread = 0.6 * (9 * cin) ** -0.5
            weights[name + ".weight"] = spread * torch.randn(cout, cin, 3, 3, generator=random)
            weights[name + ".bias"] = 0.05 * torch.randn(cout, generator=random)
        x = torch.rand(1, 3, rows, columns, generator=random)
        goldens[f"{case}.input"] = x
        goldens[f"{case}.output"] = network(x, weights, spelling, scale, blocks)
        named = weights
        if spelling == "old":
            named = {}
            for key, tensor in weights.items():
                name, part = key.rsplit(".", 1)
                named[f"{old_name(name, scale, blocks)}.{part}"] = tensor
        save(folder / f"rrdb_{case}.safetensors", named)
    save(folder / "rrdb_small.safetensors", goldens)


main()
