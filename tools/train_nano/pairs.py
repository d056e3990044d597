"""Makes training pairs: pictures of good and of worse clips, and their latents by the frozen VAE.

    pairs.py pictures --photos DIR --clips DIR --out DIR [--minutes 10] [--seed 1]
    pairs.py latents --weights FILE --out DIR [--seed 1]

Pairs are written in shards. The pictures do not depend on the VAE, so they can be made while it is trained. Each seed
has its own shards, and one process makes their latents.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import data
from degrade import degraded
from export import load

# What a shard is made of: (share, windows, frames, height, width). Seventeen frames are five latents, and the first
# few of them are the latents of the first frames alone. Attention sees at most 20 x 20 or 15 x 27 tokens of 16 pixels,
# so some windows are that large.
SHARDS = [
    (0.60, 8, 17, 128, 128),
    (0.15, 4, 17, 192, 192),
    (0.15, 4, 5, 256, 256),
    (0.05, 4, 5, 128, 432),
    (0.05, 4, 5, 320, 160),
]


class Rectangles(data.Windows):
    """Windows of any shape: a box that pans over a photo or stands still, or pans, along a clip."""

    def rectangle(self, frames, height, width):
        for _ in range(4):
            window = self.one(frames, height, width)
            if window.std() > 0.05:
                break
        return window

    def one(self, frames, height, width):
        r = self.random
        if r.random() < 0.3:
            source = r.choices(self.photos, self.often)[0]
            times, pans = [0] * frames, r.random() < 0.85
        else:
            source = r.choices(self.clips, self.weights)[0]
            step = r.choice([1, 1, 1, 2]) if len(source) > 2 * frames else 1
            start = r.randrange(max(1, len(source) - (frames - 1) * step))
            times = [min(start + i * step, len(source) - 1) for i in range(frames)]
            pans = r.random() < 0.2
            if r.random() < 0.3:
                times.reverse()
        rows, columns = source.shape[1:3]
        most = min(rows / height, columns / width)
        # A clip smaller than the window is enlarged.
        scale = min(most, r.choice([1.0, 1.0, r.uniform(0.8, 2.2)]))
        high, wide = min(rows, round(height * scale)), min(columns, round(width * scale))
        y, x = r.uniform(0, rows - high), r.uniform(0, columns - wide)
        reach = 3.0 * scale if pans else 0.0
        dy, dx = r.uniform(-reach, reach), r.uniform(-reach, reach)
        pictures = []
        for i, time in enumerate(times):
            top = round(max(0.0, min(rows - high, y + dy * i)))
            left = round(max(0.0, min(columns - wide, x + dx * i)))
            picture = data.to_values(source[time : time + 1, top : top + high, left : left + wide])[:, 0]
            if (high, wide) != (height, width):
                picture = F.interpolate(picture[None], (height, width), mode="bilinear", antialias=True)[0]
            pictures.append(picture)
        window = torch.stack(pictures, dim=1)
        if r.random() < 0.5:
            window = window.flip(3)
        if r.random() < 0.3:
            # Other exposures and tints than the few sources have.
            gain = torch.tensor([r.uniform(0.7, 1.1) for _ in range(3)]).view(3, 1, 1, 1)
            window = ((window + 1.0) * gain + r.uniform(-0.15, 0.15) - 1.0).clamp(-1.0, 1.0)
        return window.contiguous()


def pictures(windows, count, frames, height, width):
    """Both clips in 8 bits, [n, 3, t, h, w]."""
    good = torch.stack([windows.rectangle(frames, height, width) for _ in range(count)])
    worse = torch.stack([degraded(clip, windows.random.randrange(1 << 30)) for clip in good])
    return {name: ((x + 1.0) * 127.5).round().to(torch.uint8) for name, x in (("good", good), ("worse", worse))}


@torch.no_grad()
def latents(vae, shard):
    """Latents [n, t, h, w, c] of both clips, and the pictures of the good one."""
    found = {"pictures": shard["good"]}
    for name, clips in shard.items():
        mean = torch.cat([vae.encode(two.float() / 127.5 - 1.0)[0] for two in clips.split(2)])
        found[name] = mean.permute(0, 2, 3, 4, 1).half().contiguous()
    return found


def write(path, tensors):
    scratch = path.with_suffix(".part")
    save_file(tensors, scratch)
    os.replace(scratch, path)


def make_pictures(args):
    cache = args.out / "cache"
    photos = data.cached(args.photos, data.TRAIN_PHOTOS, data.PHOTO_SIDE, cache)
    clips = data.cached(args.clips, data.TRAIN_CLIPS, data.CLIP_SIDE, cache)
    windows = Rectangles(photos, clips, f"pairs {args.seed}")
    folder = args.out / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    began, number = time.time(), 0
    while time.time() - began < 60 * args.minutes:
        shape = windows.random.choices(SHARDS, [s[0] for s in SHARDS])[0]
        write(folder / f"{args.seed}-{number:04}.safetensors", pictures(windows, *shape[1:]))
        number += 1
        if number % 10 == 0:
            print(f"{(time.time() - began) / 60:.1f} minutes, {number} shards", flush=True)


def make_latents(args):
    vae = load(args.weights)
    folder = args.out / "pairs"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((args.out / "pictures").glob(f"{args.seed}-*.safetensors")):
        write(folder / path.name, latents(vae, load_file(path)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["pictures", "latents"])
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--clips", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    make_pictures(args) if args.what == "pictures" else make_latents(args)


if __name__ == "__main__":
    main()
