"""Draws the gain of a run of the transformer as SVG.

    curve_dit.py RUN_DIR OUT.svg
"""

import sys
from pathlib import Path

from curve import BLUE, plot, read


def main():
    run, out = map(Path, sys.argv[1:])
    rows = read(run / "dit_kept.csv")
    lines = [(f"{rows[-1]['gain']:.3f} dB at the end", BLUE, [(r["step"], r["gain"]) for r in rows])]
    title, below = "Training of the nano transformer", "gain in dB on windows that were not trained on, higher is better"
    ticks = max(20, round(rows[-1]["step"] / 8 / 20) * 20)
    out.write_text(plot(title, below, "steps", lines, 0.02, ticks, "{:.2f}"))


if __name__ == "__main__":
    main()
