"""Bicubic enlarging against `anime` on clips whose original is known.

    pip install numpy pillow torch
    python tools/quality/upscalers.py path/to/remaster LPIPS.safetensors OUT CLIP[@SECONDS]...

Each clip is reduced to a quarter of its size (`area`), compressed (H.264, CRF 26), and enlarged again both ways. What comes out is
compared with the original: LPIPS (`lpips.py`), SSIMULACRA2 (`remaster compare`), and flicker: the mean over pixels of how much the change from
one frame to the next differs from that of the original, in 8-bit levels. OUT gets a picture per clip: a crop of the input, of
both results, and of the original.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from lpips import Lpips

CROP = 200


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def ffmpeg(*options):
    run("ffmpeg", "-v", "error", "-nostdin", "-y", *options)


def frames(path):
    """`[n, h, w, 3]` in 8 bits."""
    size = run("ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "stream=width,height", "-of", "csv=p=0", path)
    width, height = (int(word) for word in size.strip().strip(",").split(",")[:2])
    raw = ["ffmpeg", "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    data = subprocess.run(raw, check=True, capture_output=True).stdout
    return np.frombuffer(data, np.uint8).reshape(-1, height, width, 3)


def flicker(frames, original):
    """Of the part that both have."""
    of = lambda clip: np.diff(clip.astype(np.int16), axis=0)
    return float(np.abs(of(frames) - of(original)).mean())


def measure(remaster, lpips, result, original):
    a, b = frames(result), frames(original)
    to = lambda frame: torch.from_numpy(frame.copy()).permute(2, 0, 1)[None].float() / 255
    distance = [lpips(to(x), to(y)).item() for x, y in zip(a, b)]
    report = json.loads(run(remaster, "compare", result, original, "--json", "--progress", "none"))
    return np.mean(distance), report["summary"]["ssimulacra2"]["mean"], flicker(a, b)


def sheet(path, inputs, results, original):
    """The busiest square of the middle frame."""
    middle = len(original) // 2
    grey = original[middle].astype(np.float32).mean(2)
    busy = np.abs(np.diff(grey, axis=0))[:, :-1] + np.abs(np.diff(grey, axis=1))[:-1]
    total = np.pad(busy, ((1, 0), (1, 0))).cumsum(0).cumsum(1)
    sums = total[CROP:, CROP:] - total[CROP:, :-CROP] - total[:-CROP, CROP:] + total[:-CROP, :-CROP]
    y, x = (int(v) // 4 * 4 for v in np.unravel_index(sums.argmax(), sums.shape))
    small = inputs[middle][y // 4 : (y + CROP) // 4, x // 4 : (x + CROP) // 4].repeat(4, 0).repeat(4, 1)
    parts = [small] + [clip[middle][y : y + CROP, x : x + CROP] for clip in (*results, original)]
    Image.fromarray(np.concatenate(parts, axis=1)).save(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("remaster")
    parser.add_argument("lpips")
    parser.add_argument("out", type=Path)
    parser.add_argument("clips", nargs="+")
    parser.add_argument("--frames", type=int, default=16)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    lpips = Lpips(args.lpips)
    print("| clip | size | | LPIPS | SSIMULACRA2 | flicker, levels |\n|---|---|---|---:|---:|---:|")
    for clip in args.clips:
        clip, _, start = clip.partition("@")
        name = Path(clip).stem
        original, small, cubic, anime = (args.out / f"{name}.{what}.mkv" for what in ("original", "small", "bicubic", "anime"))
        lossless = ["-an", "-c:v", "ffv1", "-pix_fmt", "gbrp"]
        whole = "crop=trunc(iw/8)*8:trunc(ih/8)*8"
        ffmpeg("-ss", start or "0", "-i", clip, "-frames:v", args.frames, "-vf", whole, "-fps_mode", "passthrough", *lossless, original)
        reduced = args.out / f"{name}.mp4"
        ffmpeg("-i", original, "-vf", "scale=iw/4:ih/4:flags=area", "-c:v", "libx264", "-crf", "26", "-pix_fmt", "yuv420p", "-fps_mode", "passthrough", reduced)
        ffmpeg("-i", reduced, "-fps_mode", "passthrough", *lossless, small)
        ffmpeg("-i", small, "-vf", "scale=iw*4:ih*4:flags=bicubic", "-fps_mode", "passthrough", *lossless, cubic)
        run(args.remaster, small, "-o", anime, "--model", "anime", "--resolution", "4x", "--lossless", "-y", "--progress", "none")
        results = [frames(cubic), frames(anime)]
        height, width = results[0].shape[1:3]
        for result, word in ((cubic, "bicubic"), (anime, "`anime`")):
            distance, score, change = measure(args.remaster, lpips, result, original)
            print(f"| {name} | {width} x {height} | {word} | {distance:.3f} | {score:.1f} | {change:.2f} |", flush=True)
        sheet(args.out / f"{name}.png", frames(small), results, frames(original))


main()
