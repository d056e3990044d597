"""Holds the networks of this folder against the goldens of the original, with formula weights.

    check.py TESTDATA
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from dit import Dit
from model import Vae

sys.path.append(str(Path(__file__).parent / "../../bench/peers"))
from torch_vae import formula_weight

CASES = ["image_64x64", "video_5x64x64", "video_9x48x80"]
TOLERANCE = 5e-5
DIT_CASES = ["small", "image", "multi"]
DIT_TOLERANCE = 1e-5


# Not weights: the text is in the golden and the table of the rotation is computed.
OTHERS = ("positive_conditioning", "rope.freqs")


def with_formula(model):
    names = {n: tuple(v.shape) for n, v in model.state_dict().items() if not n.endswith(OTHERS)}
    model.load_state_dict({n: torch.from_numpy(formula_weight(n, s)) for n, s in names.items()}, strict=False)
    return model.requires_grad_(False)


def check_vae(testdata):
    model = with_formula(Vae((32, 32, 64, 64), 8))
    worst = 0.0
    for case in CASES:
        golden = load_file(testdata / f"tiny_{case}.safetensors")
        # Stills are stored without the time axis.
        golden = {n: v.unsqueeze(2) if v.dim() == 4 else v for n, v in golden.items()}
        mean, _ = model.encode(golden["x"])
        pairs = {"mean": mean, "decoded": model.decode(golden["z"])}
        for name, ours in pairs.items():
            error = (ours - golden[name]).abs().max().item()
            worst = max(worst, error)
            print(f"{case:14} {name:8} {error:.2e}")
    return worst <= TOLERANCE


def check_dit(testdata):
    model = with_formula(Dit(latent=16, width=64, head=32, layers=4, separate=2, hidden=256, text=48, rows=11))
    worst = 0.0
    for case in DIT_CASES:
        golden = load_file(testdata / f"dit/dit_tiny_3b_{case}.safetensors")
        ours = model(golden["vid"][None], golden["timestep"].item(), golden["txt"])[0]
        error = (ours - golden["out"]).abs().max().item()
        worst = max(worst, error)
        print(f"dit {case:10} out      {error:.2e}")
    return worst <= DIT_TOLERANCE


def main():
    torch.set_num_threads(1)
    testdata = Path(sys.argv[1])
    good = [check_dit(testdata), check_vae(testdata)]
    sys.exit(0 if all(good) else f"more than {DIT_TOLERANCE} (transformer) or {TOLERANCE} (VAE) off")


if __name__ == "__main__":
    main()
