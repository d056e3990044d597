"""Draws the curve of a run of the transformer as SVG.

    curve_dit.py RUN_DIR OUT.svg
"""

import sys
from pathlib import Path

from curve import BOTTOM, CLIPS, GRID, HEIGHT, LEFT, PHOTOS, RIGHT, SOFT, TOP, WIDTH, line, read, text

STEP = 0.1


def draw(held):
    last = max(row["step"] for row in held)
    alone = held[0]["alone"]
    values = [alone] + [row["restored"] for row in held]
    low, high = min(values) // STEP * STEP, -(-max(values) // STEP) * STEP
    x = lambda step: LEFT + (RIGHT - LEFT) * step / last
    y = lambda psnr: BOTTOM - (BOTTOM - TOP) * (psnr - low) / (high - low)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 26, "Training of the nano transformer", "start", 17, more=' font-weight="600"'),
        text(LEFT, 46, "PSNR of held-out clips in dB, higher is better", "start", 12, SOFT),
    ]
    for i in range(round((high - low) / STEP) + 1):
        at = low + i * STEP
        out.append(f'<line x1="{LEFT}" y1="{y(at):.1f}" x2="{RIGHT}" y2="{y(at):.1f}" stroke="{GRID}"/>')
        out.append(text(LEFT - 8, y(at) + 4, f"{at:.1f}", "end", colour=SOFT))
    for step in range(0, int(last) + 1, 100):
        out.append(f'<line x1="{x(step):.1f}" y1="{BOTTOM}" x2="{x(step):.1f}" y2="{BOTTOM + 5}" stroke="{SOFT}"/>')
        out.append(text(x(step), BOTTOM + 20, step, colour=SOFT))
    out.append(f'<line x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{BOTTOM}" stroke="{SOFT}"/>')
    out.append(text((LEFT + RIGHT) / 2, HEIGHT - 14, "steps", colour=SOFT))
    # It begins as the way through.
    points = [(x(0), y(alone))] + [(x(r["step"]), y(r["restored"])) for r in held]
    out.append(line([(LEFT, y(alone)), (RIGHT, y(alone))], PHOTOS, 2, ' stroke-dasharray="5 4"'))
    out.append(line(points, CLIPS, 2.5))
    out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.8" fill="{CLIPS}"/>' for a, b in points]
    legend = [(f"restored, {held[-1]['restored']:.2f} dB at the end", CLIPS), (f"the VAE alone, {alone:.2f} dB", PHOTOS)]
    for i, (words, colour) in enumerate(legend):
        out.append(text(RIGHT, 26 + 20 * i, words, "end", 12, colour))
    return "\n".join([*out, "</svg>", ""])


def main():
    run, out = map(Path, sys.argv[1:])
    out.write_text(draw(read([run], "dit_held.csv")))


if __name__ == "__main__":
    main()
