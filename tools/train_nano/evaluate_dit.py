"""The held-out table of the transformer, as Markdown.

    evaluate_dit.py VAE TRANSFORMER --clips DIR --cache DIR [--lpips FILE] [--windows 0 1 2]

Each window is made worse as `degrade.py` says, with a fixed seed. All clips are held against the good one. What does not
depend on the transformer is kept in the cache.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
import torch.nn.functional as F

import data
from degrade import degraded
from export import load
from export_dit import load_dit
from lpips import Lpips
from measure import psnr_of

ROWS = ["degraded", "degraded, through the VAE alone", "degraded, restored by nano", "clean, through the VAE"]
SEED = 100


def ssim_of(made, wanted):
    """Mean SSIM of the grey pictures, with the usual Gaussian of 11 x 11 and 1.5."""
    grey = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1, 1)
    a, b = (((x + 1.0) / 2.0 * grey).sum(0)[:, None] for x in (made, wanted))
    line = torch.exp(-(torch.arange(11).float() - 5).square() / (2 * 1.5**2))
    kernel = (line[:, None] * line / line.sum() ** 2)[None, None]
    near = lambda x: F.conv2d(x, kernel)
    ma, mb = near(a), near(b)
    va, vb, both = near(a * a) - ma * ma, near(b * b) - mb * mb, near(a * b) - ma * mb
    low, high = 0.01**2, 0.03**2
    return ((2 * ma * mb + low) * (2 * both + high) / ((ma * ma + mb * mb + low) * (va + vb + high))).mean().item()


@torch.no_grad()
def prepared(vae, good, seed, measure, kept):
    """The latent of the worse clip, and the measures of all that is not restored."""
    if kept.exists():
        return torch.load(kept)
    worse = degraded(good, seed)
    shown = lambda mean: vae.decode(mean)[0].clamp(-1.0, 1.0)
    mean, clean = (vae.encode(clip[None])[0] for clip in (worse, good))
    found = mean, [measure(clip, good) for clip in (worse, shown(mean), shown(clean))]
    torch.save(found, kept)
    return found


@torch.no_grad()
def restored(vae, network, scale, mean, seed):
    latent = mean.permute(0, 2, 3, 4, 1) * scale
    noise = torch.randn(latent.shape, generator=torch.Generator().manual_seed(seed))
    z = network.restored(noise, latent).permute(0, 4, 1, 2, 3) / scale
    return vae.decode(z)[0].clamp(-1.0, 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("vae", type=Path)
    parser.add_argument("transformer", type=Path)
    parser.add_argument("--clips", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--lpips", type=Path)
    parser.add_argument("--windows", type=int, nargs="+", default=[0, 1, 2], help="which of the three of each clip")
    args = parser.parse_args()
    torch.set_num_threads(1)
    vae, (network, scale) = load(args.vae), load_dit(args.transformer)
    far = Lpips(args.lpips) if args.lpips else lambda made, wanted: float("nan")
    print("| held out | clip | PSNR | SSIM | LPIPS |\n|---|---|---|---|---|")
    measure = lambda made, good: (psnr_of(made, good), ssim_of(made, good), far(made, good))
    totals = [[] for _ in ROWS]
    for name, windows in data.held_clips(args.clips, args.cache).items():
        found = [[] for _ in ROWS]
        for i in args.windows:
            good = windows[i]
            kept = args.cache / f"{name}.{i}.held.pt"
            mean, values = prepared(vae, good, SEED + i, measure, kept)
            values.insert(2, measure(restored(vae, network, scale, mean, SEED + i), good))
            for row, value in zip(found, values):
                row.append(value)
        show(f"`{name}`", found)
        for total, row in zip(totals, found):
            total += row
    show("all", totals)


def show(name, rows):
    for what, values in zip(ROWS, rows):
        psnr, ssim, lpips = (sum(v) / len(v) for v in zip(*values))
        print(f"| {name} | {what} | {psnr:.2f} | {ssim:.4f} | {lpips:.4f} |", flush=True)


if __name__ == "__main__":
    main()
