"""Trains the small VAE on the CPU.

    train.py --photos DIR --clips DIR --out DIR [--minutes 80] [--pictures 0.4] [--begin WEIGHTS]

Pictures first, clips after; the learning rate follows the clock, so the run ends when it should on any
machine. Each process has one thread, its own windows and its own steps; every few seconds the weights of all are
averaged: on cores that are shared with other work a second thread brought nothing, and no step waits for another.
"""

import argparse
import copy
import csv
import math
import os
import random
import time
from pathlib import Path

# Read when torch is loaded. run.sh sets this and what the C library has to know before.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import data
from export import load
from measure import psnr_of, roundtrip
from model import Vae

# What a step is made of: [(share, windows per process, frames, size)]. At least two windows: torch gives a
# small batch of one to a convolution that takes three times as long as for two.
PICTURES = [(0.85, 8, 1, 64), (0.15, 2, 1, 128)]
# Nine frames have the first latent, the second and one that has only clips before it.
CLIPS = [(0.45, 2, 5, 64), (0.35, 2, 9, 64), (0.2, 4, 1, 64)]
# At last larger frames: the statistics of a norm and the attention see all of a frame.
LARGE = [(0.4, 2, 9, 64), (0.4, 2, 5, 96), (0.2, 2, 1, 96)]
# Seconds between two means over the processes.
AVERAGED = 15.0


def shape_now(part, pictures):
    """What a step is made of now."""
    choices = PICTURES if part < pictures else CLIPS if part < 0.85 else LARGE
    return random.choices(choices, [c[0] for c in choices])[0][1:]


def slopes(x):
    return x.diff(dim=3), x.diff(dim=4)


def losses(made, wanted, mean, logvar):
    error = made - wanted
    square, plain = error.square().mean(), error.abs().mean()
    edges = sum(d.abs().mean() for d in slopes(error))
    kl = 0.5 * (mean.square() + logvar.exp() - 1.0 - logvar).mean()
    return square + 0.05 * plain + 0.05 * edges + 2e-5 * kl, square.detach()


def in_blocks(name):
    return name.startswith("decoder.") and ".resnets." in name and "conv_shortcut" not in name


def average(optimiser, parameters, processes):
    """One network of all processes: the mean of the weights and of what the optimiser knows about them."""
    kept = [optimiser.state[p] for p in parameters]
    tensors = [*parameters, *(s[key] for s in kept if s for key in ("exp_avg", "exp_avg_sq"))]
    flat = torch.cat([t.detach().flatten() for t in tensors])
    dist.all_reduce(flat)
    flat /= processes
    with torch.no_grad():
        for t, mean in zip(tensors, flat.split([t.numel() for t in tensors])):
            t.copy_(mean.view_as(t))


def save(path, **values):
    scratch = path.with_suffix(".part")
    torch.save(values, scratch)
    os.replace(scratch, path)


def append(path, row):
    new = not path.exists()
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, row)
        if new:
            writer.writeheader()
        writer.writerow(row)


def held_psnr(model, held):
    """Mean over the held-out windows: two of each clip, 5 frames each."""
    values = []
    for windows in held.values():
        windows = windows[:2, :, :5]
        values += map(psnr_of, roundtrip(model, windows), windows)
    return sum(values) / len(values)


def work(rank, args):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    if args.processes > 1:
        meet = f"file://{args.out.resolve()}/.meet"
        dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=args.processes)
    cache = args.out / "cache"
    photos = data.cached(args.photos, data.TRAIN_PHOTOS, data.PHOTO_SIDE, cache)
    clips = data.cached(args.clips, data.TRAIN_CLIPS, data.CLIP_SIDE, cache)
    held = {"clips": data.held_clips(args.clips, cache), "photos": data.held_photos(args.photos, cache)}

    model = Vae(args.widths, args.groups, args.latent)
    chosen = lambda network: [p for name, p in network.named_parameters() if not args.blocks or in_blocks(name)]
    parameters = chosen(model)
    for p in model.parameters():
        p.requires_grad_(any(p is q for q in parameters))
    if args.begin:
        model.load_state_dict(load(args.begin).state_dict())
    smooth = copy.deepcopy(model).requires_grad_(False)
    optimiser = torch.optim.AdamW(parameters, lr=args.rate, betas=(0.9, 0.95), weight_decay=1e-3)
    step, spent, of_clips = args.step, 0.0, args.of_clips
    state = args.out / "state.pt"
    if state.exists():
        kept = torch.load(state)
        model.load_state_dict(kept["model"])
        smooth.load_state_dict(kept["smooth"])
        optimiser.load_state_dict(kept["optimiser"])
        step, spent, of_clips = kept["step"], kept["spent"], kept["of_clips"]
    windows = data.Windows(photos, clips, f"{args.seed} {rank} {step}")
    torch.manual_seed(hash((args.seed, rank, step)))
    random.seed(f"{args.seed} {rank} {step}")

    first, averaged = step, 0
    # One clock for all.
    began = torch.tensor([time.time() - spent], dtype=torch.float64)
    if args.processes > 1:
        dist.broadcast(began, 0)
    began = began.item()
    saved = shown = judged = time.time()
    sums = [0.0, 0.0, 0]
    while True:
        clock = min(time.time() - began, 60.0 * args.minutes)
        part = clock / (60.0 * args.minutes)
        # Each process makes its own steps meanwhile, so that none waits for one whose core is busy.
        while args.processes > 1 and step > first and averaged < (clock - spent) // AVERAGED:
            average(optimiser, parameters, args.processes)
            averaged += 1
        if part >= 1.0:
            break
        if part >= args.pictures and not of_clips:
            of_clips = True
            for network in (model, smooth):
                network.begin_clips()
            # What it knows about the older taps is no longer true.
            optimiser.state.clear()
        rate = args.rate * min(1.0, (step + 1 - first) / 50) * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * part)))
        for group in optimiser.param_groups:
            group["lr"] = rate
        clip = windows.batch(*shape_now(part, args.pictures))
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            made, mean, logvar = model(clip)
        loss, square = losses(made, clip, mean, logvar)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        step += 1
        if rank:
            continue
        with torch.no_grad():
            decay = min(args.smooth, (1 + step) / (20 + step))
            torch._foreach_lerp_(chosen(smooth), parameters, 1 - decay)
        sums = [sums[0] + loss.item(), sums[1] + square.item(), sums[2] + 1]
        now = time.time()
        if now - shown > 20:
            shown = now
            loss, square = (s / sums[2] for s in sums[:2])
            row = {"minutes": round((now - began) / 60, 2), "step": step, "frames": clip.shape[2]}
            row |= {"rate": f"{rate:.2e}", "loss": round(loss, 5), "psnr": round(10 * math.log10(4 / square), 3)}
            append(args.out / "train.csv", row)
            sums = [0.0, 0.0, 0]
        if now - judged > 60 * args.judge:
            judge(args.out / "held.csv", smooth, held, step, now - began)
            judged = time.time()
        if now - saved > 120:
            keep(state, model, smooth, optimiser, step, time.time() - began, of_clips)
            saved = time.time()
    if rank == 0:
        keep(state, model, smooth, optimiser, step, time.time() - began, of_clips)
        judge(args.out / "held.csv", smooth, held, step, time.time() - began)


def judge(path, smooth, held, step, spent):
    """A point of the held-out curve."""
    row = {"minutes": round(spent / 60, 2), "step": step}
    append(path, row | {what: round(held_psnr(smooth, held[what]), 3) for what in held})


def keep(path, model, smooth, optimiser, step, spent, of_clips):
    """All that is needed to go on."""
    save(
        path,
        model=model.state_dict(),
        smooth=smooth.state_dict(),
        optimiser=optimiser.state_dict(),
        widths=model.widths,
        groups=model.groups,
        latent=model.latent,
        step=step,
        spent=spent,
        of_clips=of_clips,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--clips", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="cache, curves and state; a run goes on from its state")
    parser.add_argument("--minutes", type=float, default=80)
    parser.add_argument("--pictures", type=float, default=0.4, help="part of the time before clips")
    parser.add_argument("--begin", type=Path, help="exported weights to begin with")
    parser.add_argument("--step", type=int, default=0, help="steps that were done before")
    parser.add_argument("--judge", type=float, default=5, help="minutes between points of the held-out curve")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--widths", type=lambda s: tuple(map(int, s.split(","))), default=(16, 16, 32, 64))
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--latent", type=int, default=28)
    parser.add_argument("--blocks", action="store_true", help="only what the decoder's blocks add learns")
    parser.add_argument("--of-clips", action="store_true", help="what it begins with was trained on clips")
    parser.add_argument("--bf16", action="store_true", help="convolutions in 16 bits")
    parser.add_argument("--smooth", type=float, default=0.995, help="of the running mean of the weights")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / ".meet").unlink(missing_ok=True)
    # Decoded before the processes start, or both would do it.
    cache = args.out / "cache"
    data.cached(args.photos, data.TRAIN_PHOTOS, data.PHOTO_SIDE, cache)
    data.cached(args.clips, data.TRAIN_CLIPS, data.CLIP_SIDE, cache)
    data.held_clips(args.clips, cache)
    data.held_photos(args.photos, cache)
    mp.spawn(work, (args,), args.processes)


if __name__ == "__main__":
    main()
