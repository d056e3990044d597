"""Holds the network of this folder against the goldens of the original, with formula weights.

    check.py TESTDATA
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from model import Vae

sys.path.append(str(Path(__file__).parent / "../../bench/peers"))
from torch_vae import formula_weight

CASES = ["image_64x64", "video_5x64x64", "video_9x48x80"]
TOLERANCE = 5e-5


def main():
    torch.set_num_threads(1)
    model = Vae((32, 32, 64, 64), 8).requires_grad_(False)
    formula = {n: torch.from_numpy(formula_weight(n, tuple(v.shape))) for n, v in model.state_dict().items()}
    model.load_state_dict(formula)
    worst = 0.0
    for case in CASES:
        golden = load_file(Path(sys.argv[1]) / f"tiny_{case}.safetensors")
        # Stills are stored without the time axis.
        golden = {n: v.unsqueeze(2) if v.dim() == 4 else v for n, v in golden.items()}
        mean, _ = model.encode(golden["x"])
        pairs = {"mean": mean, "decoded": model.decode(golden["z"])}
        for name, ours in pairs.items():
            error = (ours - golden[name]).abs().max().item()
            worst = max(worst, error)
            print(f"{case:14} {name:8} {error:.2e}")
    sys.exit(0 if worst <= TOLERANCE else f"more than {TOLERANCE} off")


if __name__ == "__main__":
    main()
