"""Trains the small transformer on the CPU, on pairs that `pairs.py` makes before or meanwhile.

    train_dit.py WEIGHTS --clips DIR --out DIR [--minutes 60]

The error is that of pictures out of the frozen decoder: a lower error of latents gave worse pictures. The learning rate
follows the clock, so the run ends when it should on any machine.
"""

import argparse
import copy
import math
import os
import random
import time
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
from safetensors import safe_open

import data
from degrade import degraded
from dit import Dit
from export import load
from measure import psnr_of
from train import append, save, slopes

# Windows of a step. One would be slower than two: see the README.
WINDOWS = 2
# Most cells each way that are decoded, which takes most of the time; the network sees the whole window. Where a window is
# cut the decoder lacks what is around, so that many cells do not count there.
DECODED, MARGIN = 16, 2
# Seconds between two looks for new pairs.
SHARDS_AGAIN = 20.0


class Pairs:
    """Windows by their shape."""

    def __init__(self, folder, scale, seed):
        self.folder, self.scale = folder, scale
        self.random = random.Random(seed)
        self.known, self.by_shape, self.looked = set(), {}, 0.0
        self.look()

    def look(self):
        self.looked = time.time()
        for path in sorted(self.folder.glob("*.safetensors")):
            if path.name in self.known:
                continue
            self.known.add(path.name)
            with safe_open(path, "pt") as file:
                good, worse = (file.get_tensor(name) for name in ("good", "worse"))
            windows = self.by_shape.setdefault(tuple(good.shape[1:4]), [])
            windows += [(good[i], worse[i], path, i) for i in range(len(good))]

    def batch(self):
        """Scaled latents of worse clips, which to decode, which of the pixels count, and the good pictures."""
        if time.time() - self.looked > SHARDS_AGAIN:
            self.look()
        r = self.random
        shapes = list(self.by_shape)
        t, h, w = r.choices(shapes, [len(self.by_shape[s]) for s in shapes])[0]
        # The VAE is causal: the first latents are those of the first frames alone.
        frames = t if r.random() < 0.7 else r.randint(1, t)
        chosen = r.sample(self.by_shape[t, h, w], WINDOWS)
        worse = torch.stack([c[1][:frames] for c in chosen]).float() * self.scale
        latents = min(frames, r.choice([1, 2, 2]))
        (y, rows, counted_rows), (x, columns, counted_columns) = (self.cut(n) for n in (h, w))
        place = slice(0, latents), slice(y, y + rows), slice(x, x + columns)
        counts = counted_rows, counted_columns
        pictures = []
        for _, _, path, i in chosen:
            with safe_open(path, "pt") as file:
                part = file.get_slice("pictures")
                part = part[i : i + 1, :, : 4 * latents - 3, 8 * y : 8 * (y + rows), 8 * x : 8 * (x + columns)]
            pictures.append(part)
        return worse, place, counts, torch.cat(pictures).float() / 127.5 - 1.0

    def cut(self, cells):
        """Where a piece of an axis begins, how long it is, and which of its pixels count."""
        size = min(cells, DECODED)
        start = self.random.randint(0, cells - size)
        first = MARGIN if start > 0 else 0
        last = size - (MARGIN if start + size < cells else 0)
        return start, size, slice(8 * first, 8 * last)


def decode(vae, latents, scale):
    """[b, t, h, w, 16], scaled, to [b, 3, frames, 8 h, 8 w]."""
    return vae.decode((latents / scale).permute(0, 4, 1, 2, 3))


def held_windows(clips, cache, vae, scale):
    """Nine frames of each held-out clip: the good pictures and the worse one's scaled latents."""
    found = []
    for windows in data.held_clips(clips, cache).values():
        good = windows[1, :, :9]
        with torch.no_grad():
            mean, _ = vae.encode(degraded(good, 1)[None])
        found.append((good, mean.permute(0, 2, 3, 4, 1) * scale))
    return found


@torch.no_grad()
def judge(network, vae, held, scale):
    """Mean PSNR of the held-out windows; without a network that of the VAE alone."""
    noise = torch.Generator().manual_seed(7)
    values = []
    for good, worse in held:
        z = worse
        if network is not None:
            z = network.restored(torch.randn(worse.shape, generator=noise), worse)
        values.append(psnr_of(decode(vae, z, scale).clamp(-1.0, 1.0)[0], good))
    return sum(values) / len(values)


def scale_of(pairs):
    """Makes the latents of unit deviation."""
    values = torch.cat([good.float().flatten() for windows in pairs.by_shape.values() for good, *_ in windows])
    return round(1.0 / values.std().item(), 3)


def keep(path, network, smooth, optimiser, step, spent, scale):
    save(
        path,
        model=network.state_dict(),
        smooth=smooth.state_dict(),
        optimiser=optimiser.state_dict(),
        sizes=network.sizes,
        step=step,
        spent=spent,
        scale=scale,
    )


def optimiser_of(network):
    """Groups with the part of the rate they get. What begins as the way through is changed slowly. The time is always
    1000, so its layers stay as they began."""
    network.emb_in.requires_grad_(False)
    groups = {}
    for name, p in network.named_parameters():
        if p.requires_grad:
            part = 1.0 if name.startswith("blocks.") else 0.05
            groups.setdefault((part, 1e-2 if p.dim() > 1 and part == 1.0 else 0.0), []).append(p)
    return torch.optim.AdamW(
        [{"params": params, "part": part, "weight_decay": decay} for (part, decay), params in groups.items()],
        betas=(0.9, 0.98),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights", type=Path, help="the frozen VAE")
    parser.add_argument("--clips", type=Path, required=True, help="for the held-out curve")
    parser.add_argument("--out", type=Path, required=True, help="pairs, curves and state; a run goes on from its state")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--judge", type=float, default=8, help="minutes between points of the held-out curve")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    vae = load(args.weights)
    state = args.out / "dit.pt"
    kept = torch.load(state) if state.exists() else None
    pairs = Pairs(args.out / "pairs", 1.0, f"{args.seed} {kept['step'] if kept else 0}")
    pairs.scale = kept["scale"] if kept else scale_of(pairs)

    network = Dit()
    network.begin()
    smooth = copy.deepcopy(network).requires_grad_(False)
    optimiser = optimiser_of(network)
    step, spent = 0, 0.0
    if kept:
        network.load_state_dict(kept["model"])
        smooth.load_state_dict(kept["smooth"])
        optimiser.load_state_dict(kept["optimiser"])
        step, spent = kept["step"], kept["spent"]
    held = held_windows(args.clips, args.out / "cache", vae, pairs.scale)
    alone = judge(None, vae, held, pairs.scale)
    print(f"scale {pairs.scale}, the VAE alone {alone:.3f} dB", flush=True)

    trained = [p for p in network.parameters() if p.requires_grad]
    averaged = [p for p, q in zip(smooth.parameters(), network.parameters()) if q.requires_grad]
    began = time.time() - spent
    saved = shown = judged = time.time()
    sums = [0.0, 0.0, 0]
    while (part := (time.time() - began) / (60.0 * args.minutes)) < 1.0:
        rate = args.rate * min(1.0, (step + 1) / 40) * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * part)))
        for group in optimiser.param_groups:
            group["lr"] = rate * group["part"]
        worse, place, counts, wanted = pairs.batch()
        z = network.restored(torch.randn_like(worse), worse)
        wrong = (decode(vae, z[:, *place], pairs.scale) - wanted)[..., *counts]
        square = wrong.square().mean()
        loss = square + 0.05 * wrong.abs().mean() + 0.05 * sum(d.abs().mean() for d in slopes(wrong))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        step += 1
        with torch.no_grad():
            decay = min(0.99, (1 + step) / (20 + step))
            torch._foreach_lerp_(averaged, trained, 1 - decay)
        sums = [sums[0] + loss.item(), sums[1] + square.item(), sums[2] + 1]
        now = time.time()
        if now - shown > 20:
            shown = now
            row = {"minutes": round((now - began) / 60, 2), "step": step}
            loss, square = (s / sums[2] for s in sums[:2])
            row |= {"rate": f"{rate:.2e}", "loss": round(loss, 5), "psnr": round(10 * math.log10(4 / square), 3)}
            append(args.out / "dit_train.csv", row | {"windows": sum(map(len, pairs.by_shape.values()))})
            sums = [0.0, 0.0, 0]
        if now - judged > 60 * args.judge:
            row = {"minutes": round((now - began) / 60, 2), "step": step, "alone": round(alone, 3)}
            append(args.out / "dit_held.csv", row | {"restored": round(judge(smooth, vae, held, pairs.scale), 3)})
            judged = time.time()
        if now - saved > 120:
            keep(state, network, smooth, optimiser, step, now - began, pairs.scale)
            saved = time.time()
    keep(state, network, smooth, optimiser, step, time.time() - began, pairs.scale)
    row = {"minutes": round((time.time() - began) / 60, 2), "step": step, "alone": round(alone, 3)}
    append(args.out / "dit_held.csv", row | {"restored": round(judge(smooth, vae, held, pairs.scale), 3)})


if __name__ == "__main__":
    main()
