"""Writes the trained network as a 16-bit checkpoint, and a golden pair made with it.

    export.py STATE --weights FILE [--clips DIR --cache DIR --golden FILE]

The golden holds a piece of a held-out clip (`x`) and what this network makes of it with the rounded
weights in f32: the mean of the latents and the decoded clip.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import data
from measure import psnr_of
from model import Vae

# NASA footage, public domain.
GOLDEN_CLIP = data.HELD_CLIPS[1]
GOLDEN_FRAMES, GOLDEN_HEIGHT, GOLDEN_WIDTH = 9, 48, 32


def load(path):
    """The network of an exported file. No tensor shows the groups of a norm: the metadata does."""
    with safe_open(path, "pt") as file:
        groups = int(file.metadata()["norm_num_groups"])
    tensors = load_file(path)
    stages = [f"encoder.down_blocks.{i}.resnets.0.conv1.weight" for i in range(4)]
    latent = tensors["decoder.conv_in.weight"].shape[1]
    model = Vae([tensors[name].shape[0] for name in stages], groups, latent)
    model.load_state_dict({name: value.float() for name, value in tensors.items()})
    return model.eval().requires_grad_(False)


def save_sorted(tensors, path, about):
    """The same bytes for the same tensors: safetensors writes the metadata in any order."""
    save_file(tensors, path, about)
    stored = path.read_bytes()
    size = int.from_bytes(stored[:8], "little")
    header = json.loads(stored[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + stored[8 + size :])
    path.chmod(0o644)


def write_weights(state, path):
    tensors = {name: value.half().contiguous() for name, value in state["smooth"].items()}
    for name, value in tensors.items():
        if not value.isfinite().all():
            raise SystemExit(f"{name} does not fit into 16 bits")
    about = {"norm_num_groups": str(state["groups"]), "title": "Remaster nano: a small video VAE for tests"}
    save_sorted(tensors, path, about)
    count = sum(value.numel() for value in tensors.values())
    print(f"{path.name}: step {state['step']}, {count} parameters, {path.stat().st_size} bytes")


def write_golden(model, clips, cache, path):
    pictures = data.cached(clips, [GOLDEN_CLIP], data.HELD_SIDE, cache)[GOLDEN_CLIP]
    # The rocket on its pad: dark and bright, edges and smoke.
    height, width = pictures.shape[1:3]
    y, x = (height - GOLDEN_HEIGHT) // 2, (width - GOLDEN_WIDTH) // 2
    part = pictures[100 : 100 + GOLDEN_FRAMES, y : y + GOLDEN_HEIGHT, x : x + GOLDEN_WIDTH]
    # The input is what 16 bits hold of it, so that the file is small and still exact.
    clip = data.to_values(part)[None].half().contiguous()
    with torch.no_grad():
        mean, _ = model.encode(clip.float())
        decoded = model.decode(mean)
    save_file({"x": clip, "mean": mean.contiguous(), "decoded": decoded.contiguous()}, path)
    path.chmod(0o644)
    print(f"{path.name}: {path.stat().st_size} bytes, round trip {psnr_of(decoded, clip.float()):.2f} dB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("state", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--clips", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--golden", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    write_weights(torch.load(args.state), args.weights)
    if args.golden:
        write_golden(load(args.weights), args.clips, args.cache, args.golden)


if __name__ == "__main__":
    main()
