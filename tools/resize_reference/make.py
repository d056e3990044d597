#!/usr/bin/env python3
"""Makes testdata/resize_reference.bin: pictures resized by Pillow and padded by torch, for the tests of `picture`.

    pip install pillow==13.0.0 torch numpy
    python tools/resize_reference/make.py testdata/resize_reference.bin

Pillow resizes mode "F" (one channel of f32) with BICUBIC: Keys' cubic with a = -0.5, widened when shrinking. Sizes
after a short side come from the rule of torchvision, in Python's own int() and round(). When torch is there, its
own antialiased bicubic must agree with Pillow within 1e-5, or nothing is written.

The file is a list of cases, little endian. A case is six u32: channels, width and height before, width and height
after, kind (0 resized, 1 resized to a short side and a largest side, 2 padded to multiples of 16), two u32 with
short side and largest side (0 for none) or the multiple, then the values before and after as f16 and f32.
"""

import struct
import sys

import numpy as np
import torch
from PIL import Image

# Width and height before and after, channels: up, down, both at once, odd, tiny, unchanged on one axis.
SIZES = [
    ((7, 5), (14, 10), 3),
    ((13, 9), (29, 31), 3),
    ((33, 21), (16, 11), 3),
    ((40, 23), (13, 8), 4),
    ((17, 31), (34, 15), 3),
    ((31, 17), (15, 34), 4),
    ((24, 16), (24, 37), 3),
    ((24, 16), (9, 16), 3),
    ((1, 1), (5, 3), 3),
    ((2, 3), (1, 1), 4),
    ((50, 3), (7, 2), 3),
    ((3, 3), (40, 2), 3),
]

# Width, height, short side, largest side.
SHORT = [(16, 9, 21, 0), (9, 16, 13, 0), (30, 17, 12, 0), (25, 11, 20, 32), (11, 26, 20, 33), (20, 20, 31, 17)]

PADDED = [(1, 1), (16, 16), (17, 5), (15, 32), (20, 33)]


def picture(width, height, channels, seed):
    """Smooth, with edges and noise, beyond 0 to 1 here and there; exact in f16."""
    rng = np.random.default_rng(seed)
    y, x, c = np.mgrid[0:height, 0:width, 0:channels].astype(np.float64)
    value = 0.5 + 0.3 * np.sin(0.7 * x + c) * np.cos(0.4 * y - c) + 0.3 * (x + 2 * y > width) + 0.2 * rng.normal(size=x.shape)
    return value.astype(np.float16).astype(np.float32)


def resized(image, width, height):
    channels = [
        np.asarray(Image.fromarray(np.ascontiguousarray(image[..., c]), mode="F").resize((width, height), Image.Resampling.BICUBIC))
        for c in range(image.shape[2])
    ]
    out = np.stack(channels, axis=2).astype(np.float32)
    tensor = torch.from_numpy(image).permute(2, 0, 1)[None]
    other = torch.nn.functional.interpolate(tensor, size=(height, width), mode="bicubic", antialias=True)
    other = other[0].permute(1, 2, 0).numpy()
    distance = float(np.abs(out - other).max())
    assert distance < 1e-5, (image.shape, width, height, distance)
    return out


def short_side(width, height, short, largest):
    """The two sizes a picture goes through."""
    if width <= height:
        first = (short, int(short * height / width))
    else:
        first = (int(short * width / height), short)
    if largest and max(first) > largest:
        longest = max(first)
        return first, (round(first[0] * largest / longest), round(first[1] * largest / longest))
    return first, first


def case(before, after, kind, a, b):
    head = struct.pack(
        "<8I", before.shape[2], before.shape[1], before.shape[0], after.shape[1], after.shape[0], kind, a, b
    )
    return head + before.astype("<f2").tobytes() + after.astype("<f4").tobytes()


def main(path):
    cases = []
    for i, ((w, h), (to_w, to_h), channels) in enumerate(SIZES):
        image = picture(w, h, channels, i)
        cases.append(case(image, resized(image, to_w, to_h), 0, 0, 0))
    for i, (w, h, short, largest) in enumerate(SHORT):
        image = picture(w, h, 3, 100 + i)
        first, last = short_side(w, h, short, largest)
        out = resized(image, *first)
        if last != first:
            out = resized(out, *last)
        cases.append(case(image, out, 1, short, largest))
    for i, (w, h) in enumerate(PADDED):
        image = picture(w, h, 3, 200 + i)
        tensor = torch.from_numpy(image).permute(2, 0, 1)
        out = torch.nn.functional.pad(tensor, (0, -w % 16, 0, -h % 16)).permute(1, 2, 0).contiguous().numpy()
        cases.append(case(image, out, 2, 16, 0))
    data = b"".join(cases)
    with open(path, "wb") as file:
        file.write(data)
    print(f"{len(cases)} cases, {len(data)} bytes, Pillow {Image.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main(sys.argv[1])
