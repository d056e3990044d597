"""Writes the trained transformer as a 16-bit checkpoint, and a golden made with it.

    export_dit.py STATE --weights FILE [--golden FILE --clip FILE]

`--clip` is the golden of the VAE: its `mean` is the latent that is restored. The golden holds the scaled latent, the
noise and the restored latent, computed with the rounded weights in f32.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from dit import PATCH, Dit
from export import save_sorted

TITLE = "Remaster nano: a small diffusion transformer for tests, for the latents of nano.safetensors"
LICENCE = "MIT OR Apache-2.0"


def sizes_of(tensors):
    """What the shapes say."""
    layers = 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("blocks."))
    rows, text = tensors["positive_conditioning"].shape
    return dict(
        latent=tensors["vid_out.proj.weight"].shape[0] // PATCH**2,
        width=tensors["vid_in.proj.weight"].shape[0],
        head=tensors["blocks.0.attn.norm_q.vid.weight"].shape[0],
        layers=layers,
        separate=sum(f"blocks.{i}.attn.proj_qkv.vid.weight" in tensors for i in range(layers)),
        hidden=tensors["blocks.0.mlp.vid.proj_in.weight"].shape[0],
        text=text,
        rows=rows,
    )


def load_dit(path):
    """The network of an exported file, and the factor of its latents."""
    with safe_open(path, "pt") as file:
        scale = float(file.metadata()["latent_scale"])
    tensors = load_file(path)
    network = Dit(**sizes_of(tensors))
    network.load_state_dict({name: value.float() for name, value in tensors.items()})
    return network.eval().requires_grad_(False), scale


def write_weights(state, path):
    tensors = {name: value.half().contiguous() for name, value in state["smooth"].items()}
    for name, value in tensors.items():
        if not value.isfinite().all():
            raise SystemExit(f"{name} does not fit into 16 bits")
    save_sorted(tensors, path, {"latent_scale": str(state["scale"]), "title": TITLE, "license": LICENCE})
    count = sum(value.numel() for value in tensors.values())
    print(f"{path.name}: step {state['step']}, {len(tensors)} tensors, {count} values, {path.stat().st_size} bytes")


def write_golden(network, scale, clip, path):
    mean = load_file(clip)["mean"].permute(0, 2, 3, 4, 1)
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(1))
    # What 16 bits hold of the inputs, so that the file is small and still exact.
    latent, noise = (mean * scale).half().contiguous(), noise.half().contiguous()
    with torch.no_grad():
        z = network.restored(noise.float(), latent.float())
    save_file({"latent": latent[0], "noise": noise[0], "z": z[0].contiguous()}, path)
    path.chmod(0o644)
    change = (z - latent.float()).square().mean().sqrt()
    print(f"{path.name}: {path.stat().st_size} bytes, changed by {change:.3f} of {latent.float().std():.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("state", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--golden", type=Path)
    parser.add_argument("--clip", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    write_weights(torch.load(args.state), args.weights)
    if args.golden:
        write_golden(*load_dit(args.weights), args.clip, args.golden)


if __name__ == "__main__":
    main()
