"""Draws the curves of a run as SVG.

    curve.py RUN_DIR... OUT.svg

Of several runs each goes on where the next one began.
"""

import csv
import math
import sys
from pathlib import Path

WIDTH, HEIGHT = 820, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 790, 84, 404
INK, SOFT, GRID = "#24292f", "#6e7781", "#e6e8eb"
TRAIN, CLIPS, PHOTOS = "#9aa4af", "#0072b2", "#d55e00"


def read(runs, name):
    rows = []
    for run in runs:
        with open(run / name) as file:
            more = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
        rows = [row for row in rows if row["step"] < more[0]["step"]] + more
    return rows


def calm(rows, reach=75):
    """Running mean of the error over the steps around, as PSNR: single windows say little."""
    counts = [1.0] + [max(1.0, b["step"] - a["step"]) for a, b in zip(rows, rows[1:])]
    steady = []
    for here in rows:
        near = [(c, r) for c, r in zip(counts, rows) if abs(r["step"] - here["step"]) <= reach]
        error = sum(c * 10 ** (-r["psnr"] / 10) for c, r in near) / sum(c for c, _ in near)
        steady.append(-10 * math.log10(error))
    return steady


def text(x, y, words, anchor="middle", size=12, colour=INK, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{more}>{words}</text>'


def line(points, colour, width, more=""):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" '
        f'stroke-linejoin="round" stroke-linecap="round"{more}/>'
    )


def draw(train, held):
    last = max(row["step"] for row in train + held)
    # Where clips begin: the first row that saw more than one frame.
    begin = next((i for i, row in enumerate(train) if row["frames"] > 1), len(train))
    parts = [(part, calm(part)) for part in (train[:begin], train[begin:])]
    values = [v for _, steady in parts for v in steady] + [row[k] for row in held for k in ("clips", "photos")]
    low, high = int(min(values) // 2 * 2), int(-(-max(values) // 2) * 2)
    x = lambda step: LEFT + (RIGHT - LEFT) * step / last
    y = lambda psnr: BOTTOM - (BOTTOM - TOP) * (psnr - low) / (high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(LEFT, 26, "Training of the nano network", "start", 17, more=' font-weight="600"'),
        text(LEFT, 46, "PSNR of the round trip in dB, higher is better", "start", 12, SOFT),
    ]
    for psnr in range(low, high + 1, 2):
        out.append(f'<line x1="{LEFT}" y1="{y(psnr):.1f}" x2="{RIGHT}" y2="{y(psnr):.1f}" stroke="{GRID}"/>')
        out.append(text(LEFT - 8, y(psnr) + 4, psnr, "end", colour=SOFT))
    for step in range(0, int(last) + 1, 500):
        out.append(f'<line x1="{x(step):.1f}" y1="{BOTTOM}" x2="{x(step):.1f}" y2="{BOTTOM + 5}" stroke="{SOFT}"/>')
        out.append(text(x(step), BOTTOM + 20, step, colour=SOFT))
    out.append(f'<line x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{BOTTOM}" stroke="{SOFT}"/>')
    out.append(text((LEFT + RIGHT) / 2, HEIGHT - 14, "steps", colour=SOFT))

    if begin < len(train):
        at = x(train[begin]["step"])
        out.append(
            f'<line x1="{at:.1f}" y1="{TOP - 18}" x2="{at:.1f}" y2="{BOTTOM}" stroke="{SOFT}" stroke-dasharray="3 4"/>'
        )
        out.append(text(at - 8, TOP - 8, "pictures", "end", 12, SOFT))
        out.append(text(at + 8, TOP - 8, "clips", "start", 12, SOFT))

    for part, steady in parts:
        out.append(line([(x(r["step"]), y(v)) for r, v in zip(part, steady)], TRAIN, 2))
    for key, colour in (("photos", PHOTOS), ("clips", CLIPS)):
        points = [(x(r["step"]), y(r[key])) for r in held]
        out.append(line(points, colour, 2.5))
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.8" fill="{colour}"/>' for a, b in points]

    legend = [
        (f"held-out photos, {held[-1]['photos']:.1f} dB at the end", PHOTOS),
        (f"held-out clips, {held[-1]['clips']:.1f} dB at the end", CLIPS),
        ("training windows, running mean", TRAIN),
    ]
    out.append(f'<rect x="{RIGHT - 274}" y="{BOTTOM - 80}" width="274" height="72" rx="4" fill="#ffffff" stroke="{GRID}"/>')
    for i, (words, colour) in enumerate(legend):
        at = BOTTOM - 62 + 20 * i
        out.append(f'<line x1="{RIGHT - 262}" y1="{at}" x2="{RIGHT - 238}" y2="{at}" stroke="{colour}" stroke-width="3"/>')
        out.append(text(RIGHT - 230, at + 4, words, "start"))
    return "\n".join([*out, "</svg>", ""])


def main():
    *runs, out = map(Path, sys.argv[1:])
    out.write_text(draw(read(runs, "train.csv"), read(runs, "held.csv")))


if __name__ == "__main__":
    main()
