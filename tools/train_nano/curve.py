"""Draws the held-out PSNR by the number of latent channels as SVG.

    curve.py CSV OUT.svg
"""

import csv
import sys
from pathlib import Path

WIDTH, HEIGHT = 820, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 790, 84, 404
INK, SOFT, GRID = "#24292f", "#6e7781", "#e6e8eb"
BLUE, ORANGE = "#0072b2", "#d55e00"


def read(path):
    with open(path) as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def text(x, y, words, anchor="middle", size=12, colour=INK, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{more}>{words}</text>'


def line(points, colour, width, more=""):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" '
        f'stroke-linejoin="round" stroke-linecap="round"{more}/>'
    )


def plot(title, below, across, lines, step, ticks, form):
    """`lines`: name, colour and points of each; ticks every `step` upwards and every `ticks` across."""
    points = [p for _, _, line in lines for p in line]
    first, last = min(p[0] for p in points), max(p[0] for p in points)
    low, high = min(p[1] for p in points) // step * step, -(-max(p[1] for p in points) // step) * step
    x = lambda value: LEFT + (RIGHT - LEFT) * (value - first) / (last - first)
    y = lambda value: BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 26, title, "start", 17, more=' font-weight="600"'),
        text(LEFT, 46, below, "start", 12, SOFT),
    ]
    for i in range(round((high - low) / step) + 1):
        at = low + i * step
        out.append(f'<line x1="{LEFT}" y1="{y(at):.1f}" x2="{RIGHT}" y2="{y(at):.1f}" stroke="{GRID}"/>')
        out.append(text(LEFT - 8, y(at) + 4, form.format(at), "end", colour=SOFT))
    for at in range(-(-int(first) // ticks) * ticks, int(last) + 1, ticks):
        out.append(f'<line x1="{x(at):.1f}" y1="{BOTTOM}" x2="{x(at):.1f}" y2="{BOTTOM + 5}" stroke="{SOFT}"/>')
        out.append(text(x(at), BOTTOM + 20, at, colour=SOFT))
    out.append(f'<line x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{BOTTOM}" stroke="{SOFT}"/>')
    out.append(text((LEFT + RIGHT) / 2, HEIGHT - 14, across, colour=SOFT))
    for i, (name, colour, values) in enumerate(lines):
        values = [(x(a), y(b)) for a, b in values]
        out.append(line(values, colour, 2.5))
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.8" fill="{colour}"/>' for a, b in values]
        out.append(text(RIGHT, 26 + 20 * i, name, "end", 12, colour))
    return "\n".join([*out, "</svg>", ""])


def main():
    rows, out = read(sys.argv[1]), Path(sys.argv[2])
    names = [("cockatoo", BLUE), ("launch", ORANGE)]
    lines = [(f"{n}, {rows[-1][n]:.1f} dB", colour, [(r["channels"], r[n]) for r in rows]) for n, colour in names]
    title = "The nano VAE by the number of latent channels"
    out.write_text(plot(title, "PSNR of held-out clips in dB, higher is better", "channels", lines, 2, 4, "{:.0f}"))


if __name__ == "__main__":
    main()
