"""Trains the small transformer on the CPU, on pairs that `pairs.py` made.

    train_dit.py WEIGHTS --clips DIR --out DIR [--begin STATE] [--minutes 60]

The latents of `linear.py` are components of the picture divided by their deviations, so their weighted squared error is
that of the pictures and no decoder is needed. What a window was wrong by before is what its error is divided by: each
counts by the decibels it gains. The learning rate follows the clock, so the run ends when it should on any machine.
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
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file

import data
from degrade import degraded
from dit import DEVIATION, PATCH, Dit, patched
from export import load
from measure import psnr_of
from train import append, average, save

# Tokens of a step, about.
TOKENS = 2000
# Every so many windows one is kept for the choice of settings; it is from the same files, but not trained on.
KEPT = 12
# Seconds between two means over the processes.
AVERAGED = 20.0
# Least error of a window, as of 46 dB: in a black one nothing can be gained.
LEAST = 1e-4


class Pairs:
    """Scaled latents of good and worse windows by their shape."""

    def __init__(self, folder, seed):
        self.random = random.Random(seed)
        self.by_shape, self.kept = {}, []
        found = []
        for path in sorted(folder.glob("*.safetensors")):
            shard = load_file(path)
            found += zip(shard["good"], shard["worse"])
        for i, pair in enumerate(found):
            if i % KEPT:
                self.by_shape.setdefault(tuple(pair[0].shape[:3]), []).append(pair)
            else:
                self.kept.append(pair)

    def batch(self):
        r = self.random
        shapes = list(self.by_shape)
        t, h, w = r.choices(shapes, [len(self.by_shape[s]) for s in shapes])[0]
        count = max(2, min(len(self.by_shape[t, h, w]), round(4 * TOKENS / (t * h * w))))
        chosen = r.sample(self.by_shape[t, h, w], count)
        # The VAE is causal: the first latents are those of the first frames alone.
        frames = t if r.random() < 0.8 else r.randint(1, t)
        return [DEVIATION * torch.stack([c[i][:frames] for c in chosen]).float() for i in (0, 1)]


def weights_of(vae):
    """How much a channel counts: the squared deviation of its component, over the values of a block."""
    middle = vae.decoder.conv_in.weight[: vae.latent, :, -1, 1, 1].diagonal()
    return (middle / DEVIATION).square() / 768.0


def relative(z, good, worse, weights):
    """Error of each window, and what it was before, as of pictures."""
    wrong, before = ((x - good).square() @ weights for x in (z, worse))
    return wrong.mean((1, 2, 3)), before.mean((1, 2, 3)).clamp(min=LEAST)


def fitted(pairs, weights, ridge):
    """The best linear change of a token, its bias, and how much the values count: what `Dit.begin` takes."""
    square = product = 0.0
    for windows in pairs.by_shape.values():
        for good, worse in windows:
            good, worse = (patched(x[None].float())[0][0] for x in (good, worse))
            change = good - worse
            before = (change.square() @ weights.repeat(PATCH**2)).mean() * DEVIATION**2 / PATCH**2
            seen = torch.cat([worse, torch.ones(len(worse), 1)], dim=1)
            part = 1.0 / (before.clamp(min=LEAST) * len(seen))
            square, product = square + part * seen.T @ seen, product + part * seen.T @ change
    small = ridge * square.diagonal().mean() * torch.eye(len(square))
    found = torch.linalg.solve((square + small).double(), product.double()).float()
    return found[:-1].T, found[-1], weights.repeat(PATCH**2).sqrt()


@torch.no_grad()
def judge_kept(network, kept, weights):
    """Mean gain in dB on the windows that were put aside."""
    noise, gains = torch.Generator().manual_seed(5), []
    for good, worse in kept:
        good, worse = (DEVIATION * x[None].float() for x in (good, worse))
        z = network.restored(torch.randn(worse.shape, generator=noise), worse)
        wrong, before = relative(z, good, worse, weights)
        gains.append(10.0 * torch.log10(before / wrong).item())
    return sum(gains) / len(gains)


def decode(vae, latents, scale):
    """[b, t, h, w, c], scaled, to [b, 3, frames, 8 h, 8 w]."""
    return vae.decode((latents / scale).permute(0, 4, 1, 2, 3))


@torch.no_grad()
def held_windows(clips, cache, vae):
    """Nine frames of each held-out clip: the good pictures and the worse one's scaled latents."""
    found = []
    for windows in data.held_clips(clips, cache).values():
        good = windows[1, :, :9]
        mean, _ = vae.encode(degraded(good, 1)[None])
        found.append((good, mean.permute(0, 2, 3, 4, 1) * DEVIATION))
    return found


@torch.no_grad()
def judge(network, vae, held):
    """Mean PSNR of the held-out windows; without a network that of the VAE alone."""
    noise = torch.Generator().manual_seed(7)
    values = []
    for good, worse in held:
        z = worse
        if network is not None:
            z = network.restored(torch.randn(worse.shape, generator=noise), worse)
        values.append(psnr_of(decode(vae, z, DEVIATION).clamp(-1.0, 1.0)[0], good))
    return sum(values) / len(values)


def keep(path, network, smooth, optimiser, step, spent):
    save(
        path,
        model=network.state_dict(),
        smooth=smooth.state_dict(),
        optimiser=optimiser.state_dict(),
        sizes=network.sizes,
        step=step,
        spent=spent,
        scale=DEVIATION,
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


def work(rank, args):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    if args.processes > 1:
        meet = f"file://{args.out.resolve()}/.meet"
        dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=args.processes)
    vae = load(args.weights)
    weights = weights_of(vae)
    state = args.out / "dit.pt"
    kept = torch.load(state) if state.exists() else None
    network = Dit(latent=vae.latent, layers=args.layers, separate=args.separate)
    pairs = Pairs(args.out / "pairs", f"{args.seed} {rank} {kept['step'] if kept else 0}")
    if args.begin:
        network.load_state_dict(torch.load(args.begin)["smooth"])
    else:
        network.begin(*(fitted(pairs, weights, args.ridge) if not kept else ()))
    smooth = copy.deepcopy(network).requires_grad_(False)
    network.bf16 = args.bf16
    optimiser = optimiser_of(network)
    step, spent = 0, 0.0
    if kept:
        network.load_state_dict(kept["model"])
        smooth.load_state_dict(kept["smooth"])
        optimiser.load_state_dict(kept["optimiser"])
        step, spent = kept["step"], kept["spent"]
    torch.manual_seed(hash((args.seed, rank, step)))
    trained = [p for p in network.parameters() if p.requires_grad]
    averaged = [p for p, q in zip(smooth.parameters(), network.parameters()) if q.requires_grad]
    began = torch.tensor([time.time() - spent], dtype=torch.float64)
    if args.processes > 1:
        dist.broadcast(began, 0)
    began = began.item()
    saved = shown = time.time()
    judged = 0.0 if args.judge else math.inf
    sums, means, first = [0.0, 0], 0, step
    while True:
        clock = min(time.time() - began, 60.0 * args.minutes)
        part = clock / (60.0 * args.minutes)
        while args.processes > 1 and step > first and means < (clock - spent) // AVERAGED:
            average(optimiser, trained, args.processes)
            means += 1
        if part >= 1.0:
            break
        rate = args.rate * min(1.0, (step + 1 - first) / 60) * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * part)))
        for group in optimiser.param_groups:
            group["lr"] = rate * group["part"]
        good, worse = pairs.batch()
        z = network.restored(torch.randn_like(worse), worse)
        wrong, before = relative(z, good, worse, weights)
        loss = (wrong / before).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        step += 1
        if rank:
            continue
        with torch.no_grad():
            decay = min(0.995, (1 + step) / (20 + step))
            torch._foreach_lerp_(averaged, trained, 1 - decay)
        sums = [sums[0] + (wrong / before).log10().mean().item(), sums[1] + 1]
        now = time.time()
        if now - shown > 20:
            shown = now
            row = {"minutes": round((now - began) / 60, 2), "step": step, "rate": f"{rate:.2e}"}
            row |= {"gain": round(-10 * sums[0] / sums[1], 3)}
            append(args.out / "dit_train.csv", row)
            sums = [0.0, 0]
        if now - judged > 60 * args.judge:
            row = {"minutes": round((now - began) / 60, 2), "step": step}
            append(args.out / "dit_kept.csv", row | {"gain": round(judge_kept(smooth, pairs.kept, weights), 3)})
            judged = time.time()
        if now - saved > 60:
            keep(state, network, smooth, optimiser, step, now - began)
            saved = time.time()
    if rank:
        return
    keep(state, network, smooth, optimiser, step, time.time() - began)
    row = {"minutes": round((time.time() - began) / 60, 2), "step": step}
    append(args.out / "dit_kept.csv", row | {"gain": round(judge_kept(smooth, pairs.kept, weights), 3)})
    held = held_windows(args.clips, args.out / "cache", vae)
    alone = judge(None, vae, held)
    append(args.out / "dit_held.csv", row | {"alone": round(alone, 3), "restored": round(judge(smooth, vae, held), 3)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights", type=Path, help="the frozen VAE")
    parser.add_argument("--clips", type=Path, required=True, help="for the held-out clips")
    parser.add_argument("--out", type=Path, required=True, help="pairs, curves and state; a run goes on from its state")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--begin", type=Path, help="state of fit_dit.py to begin with")
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--separate", type=int, default=1)
    parser.add_argument("--judge", type=float, default=3, help="minutes between points of the curve; 0 for none")
    parser.add_argument("--ridge", type=float, default=1e-2, help="of the linear change it begins with")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="blocks in 16 bits")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    (args.out / ".meet").unlink(missing_ok=True)
    mp.spawn(work, (args,), args.processes)


if __name__ == "__main__":
    main()
