"""Fits the small transformer without steps: the last layer of every MLP by least squares.

    fit_dit.py WEIGHTS --out DIR [--seed 1]

It begins as the best linear map of a token. Then, block by block, the hidden units of the MLP get fixed weights, and what
they are to add is solved for: the part of the error that is still there, with a ridge that is chosen on windows that are
put aside. Attention adds nothing.
"""

import argparse
import os
import random
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
import torch.nn.functional as F

from dit import DEVIATION, PATCH, STEP, Dit, patched, rms
from export import load
from train import append, save
from train_dit import LEAST, Pairs, fitted, judge_kept, weights_of

LINEAR = 0.1
RIDGES = [1e-3, 1e-2, 1e-1, 1.0]
# Tokens of a window that are used, at most.
TOKENS = 200
# Where the units for brightness and colour bend, in deviations, and how sharply.
KNOTS = [-1.9, -1.7, -1.4, -0.9, -0.3, 0.3, 0.9, 1.5]
SHARP = 6.0


@torch.no_grad()
def draw_units(mlp, latent, number, seed):
    """Hidden units, read from noise minus latent, which is nearly minus the latent, and the constant."""
    r = random.Random(f"{seed} {number}")
    gate, enter = mlp.proj_in_gate.weight, mlp.proj_in.weight
    gate.zero_()
    enter.zero_()
    one = DEVIATION
    units = []
    cell = lambda place, channel: place * latent + channel
    if number == 0:
        for place in range(PATCH**2):
            for channel in range(3):
                units += [({cell(place, channel): SHARP}, -SHARP * k, {}, 1.0) for k in KNOTS]
            for channel in range(latent):
                units += [({cell(place, channel): s}, -2.0, {}, 1.0) for s in (4.0, -4.0)]
    while len(units) < gate.shape[0]:
        # A few values of one cell, or one value of several cells.
        place, channel = r.randrange(PATCH**2), min(int(r.expovariate(0.12)), latent - 1)
        if r.random() < 0.5:
            near = [cell(place, min(int(r.expovariate(0.12)), latent - 1)) for _ in range(3)]
        else:
            near = [cell(p, channel) for p in range(PATCH**2)]
        opened = {at: r.gauss(0.0, 2.0) for at in near}
        seen = {} if r.random() < 0.5 else {r.choice(near): 1.0}
        units.append((opened, r.uniform(-3.0, 1.0), seen, 0.0 if seen else 1.0))
    for i, (opened, bend, seen, constant) in enumerate(units[: gate.shape[0]]):
        for weight, read, bias in ((gate, opened, bend), (enter, seen, constant)):
            weight[i, -1] = bias * one
            for at, value in read.items():
                weight[i, at] = -value


@torch.no_grad()
def stream(network, good, worse, noise, until):
    """Tokens before the MLP of block `until`, which nothing but MLPs have changed."""
    cells = torch.cat([noise, worse, torch.ones_like(noise[..., :1])], dim=-1)
    x = network.vid_in(patched(cells)[0])[0]
    time = network.emb_in(STEP)
    for block in list(network.blocks)[:until]:
        x = block.add_mlp(x, block.video, time)
    return x, time


@torch.no_grad()
def fit_block(network, number, pairs, weights, seed):
    block = network.blocks[number]
    mlp, values = block.mlp[block.video], network.sizes["latent"] * PATCH**2
    draw_units(mlp, network.sizes["latent"], number, seed)
    noise = torch.Generator().manual_seed(number)
    square = product = 0.0
    for windows in pairs.by_shape.values():
        for good, worse in windows:
            good, worse = (DEVIATION * x[None].float() for x in (good, worse))
            drawn = torch.randn(worse.shape, generator=noise)
            x, time = stream(network, good, worse, drawn, number)
            some = torch.randperm(len(x), generator=noise)[:TOKENS]
            x, wanted = x[some], patched(drawn - good)[0][0][some]
            shift, scale, gate = block.ada[block.video].around("mlp", time)
            y = rms(x) * scale + shift
            hidden = F.silu(mlp.proj_in_gate(y)) * mlp.proj_in(y)
            # What the head makes of the stream.
            left = wanted - head(network, x, time)
            before = ((worse - good).square() @ weights).mean().clamp(min=LEAST)
            part = 1.0 / (before * len(x))
            square, product = square + part * hidden.T @ hidden, product + part * hidden.T @ (left / gate[:values])
    best = None
    size = square.diagonal().mean()
    for ridge in RIDGES:
        small = (square + ridge * size * torch.eye(len(square))).double()
        mlp.proj_out.weight.zero_()
        mlp.proj_out.weight[:values] = torch.linalg.solve(small, product.double()).float().T
        gain = judge_kept(network, pairs.kept, weights)
        print(f"block {number}, ridge {ridge}: {gain:.4f} dB", flush=True)
        if best is None or gain > best[0]:
            best = gain, mlp.proj_out.weight.clone()
    mlp.proj_out.weight.copy_(best[1])
    return best[0]


def head(network, x, time):
    y = rms(x) * network.vid_out_norm.weight
    return network.vid_out(y * (network.vid_out_ada.out_scale + time[:, 1]) + network.vid_out_ada.out_shift + time[:, 0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights", type=Path, help="the frozen VAE")
    parser.add_argument("--out", type=Path, required=True, help="pairs, curve and state")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    fit(args)


def fit(args):
    torch.manual_seed(args.seed)
    vae = load(args.weights)
    weights = weights_of(vae)
    pairs = Pairs(args.out / "pairs", args.seed)
    network = Dit(latent=vae.latent, layers=args.layers, separate=1).requires_grad_(False)
    network.begin()
    rows = [judge_kept(network, pairs.kept, weights)]
    network.begin(*fitted(pairs, weights, LINEAR))
    rows.append(judge_kept(network, pairs.kept, weights))
    print(rows, flush=True)
    for number in range(args.layers):
        rows.append(fit_block(network, number, pairs, weights, args.seed))
        values = network.state_dict()
        save(args.out / "dit.pt", smooth=values, sizes=network.sizes, step=number + 1, scale=DEVIATION)
    (args.out / "dit_kept.csv").unlink(missing_ok=True)
    for step, gain in enumerate(rows):
        append(args.out / "dit_kept.csv", {"step": step, "gain": round(gain, 4)})


if __name__ == "__main__":
    main()
