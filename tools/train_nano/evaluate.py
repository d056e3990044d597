"""The held-out table, as Markdown: PSNR of the round trip through the exported file.

    evaluate.py WEIGHTS --photos DIR --clips DIR --cache DIR [--state STATE]

With `--state` the f32 weights before rounding are measured too.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch

import data
from export import load
from measure import psnr_of, roundtrip
from model import Vae


def row(name, windows, models):
    """The mean over the windows for each network, then the worst window of the first."""
    columns = [[*map(psnr_of, roundtrip(model, windows), windows)] for model in models]
    still = [psnr_of(x[:, :1].expand_as(x), x) for x in windows]
    frames = windows.shape[2]
    means = " | ".join(f"{sum(c) / len(c):.2f}" for c in columns)
    first = f"{sum(still) / len(still):.1f}" if frames > 1 else "-"
    print(f"| `{name}` | {len(windows)} x {frames} | {means} | {min(columns[0]):.2f} | {first} |", flush=True)
    return columns[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--clips", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--state", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(2)
    models, heads = [load(args.weights)], ["f16 weights"]
    if args.state:
        kept = torch.load(args.state)
        models.append(Vae(kept["widths"], kept["groups"], kept["latent"]))
        models[-1].load_state_dict(kept["smooth"])
        heads.append("f32 weights")
    print(f"| held out | windows x frames | {' | '.join(heads)} | worst window | first frame repeated |")
    print("|---|---|" + "---|" * (len(heads) + 2))
    values = []
    for name, windows in data.held_clips(args.clips, args.cache).items():
        values += row(name, windows, models)
    print(f"| all clips | | {sum(values) / len(values):.2f} |" + " |" * (len(heads) + 1))
    for name, windows in data.held_photos(args.photos, args.cache).items():
        row(name, windows, models)


if __name__ == "__main__":
    main()
