"""Photos and clips as small uint8 arrays, and random windows out of them.

Only files under CC0, public domain, CC-BY, BSD or MIT are used; testdata/nano.md names their authors.
"""

import random
import subprocess
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

# With how often they are drawn: half of them are grey textures, which no 16 channels can hold.
TRAIN_PHOTOS = {
    "astronaut.png": 3,
    "rocket.jpg": 2,
    "flower_2268x1512.png": 3,
    "brick.png": 1,
    "grass.png": 1,
    "gravel.png": 1,
}
TRAIN_CLIPS = [
    "bbb_1080p24_cuts.mp4",
    "sintel_trailer_720p24.mp4",
    "tears_of_steel_400p24_vp8.webm",
    "city_405p25_mpeg2.mpg",
    "flowers_phone_1080p_rot90_fullrange_vfr.mp4",
    "grandprix1906_160p_theora.ogv",
]
# Never seen in training.
HELD_PHOTOS = ["chelsea.png", "coffee.png"]
HELD_CLIPS = ["cockatoo_720p20_yuv444.mp4", "rocket_launch_360p24_vp8.webm"]

# Length of the shorter side in the cache. Clips are held out at 256, so training sees about that scale.
PHOTO_SIDE, CLIP_SIDE, HELD_SIDE = 640, 288, 256


def read_ppm(stream):
    """Frames [t, h, w, 3] of concatenated binary PPM pictures."""
    frames, at = [], 0
    while at < len(stream):
        fields, start = [], at
        while len(fields) < 4:
            end = start
            while stream[end : end + 1] not in (b" ", b"\n"):
                end += 1
            fields.append(stream[start:end])
            start = end + 1
        width, height = int(fields[1]), int(fields[2])
        size = width * height * 3
        frames.append(np.frombuffer(stream, np.uint8, size, start).reshape(height, width, 3))
        at = start + size
    return np.stack(frames)


def decode(path, side, every=1, most=None):
    """All pictures of a file, scaled down so that the shorter side is at most `side`."""
    scale = f"scale='if(gt(iw,ih),-2,min(iw,{side}))':'if(gt(iw,ih),min(ih,{side}),-2)':flags=area"
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-map", "0:v:0", "-vf", scale]
    command += ["-fps_mode", "passthrough", *(["-frames:v", str(most)] if most else [])]
    command += ["-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(command, capture_output=True, check=True)
    return read_ppm(done.stdout)[::every]


def cached(folder, names, side, cache):
    """Memory-mapped arrays, decoded on the first use."""
    arrays = {}
    for name in names:
        kept = Path(cache) / f"{name}.{side}.npy"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.save(kept, decode(Path(folder) / name, side))
        arrays[name] = np.load(kept, mmap_mode="r")
    return arrays


def to_values(pictures):
    """uint8 [t, h, w, 3] to [-1, 1] as [3, t, h, w]."""
    return torch.from_numpy(np.array(pictures)).permute(3, 0, 1, 2).float() / 127.5 - 1.0


class Windows:
    """Random windows: a box that may move and change its size, from a photo or along a clip."""

    def __init__(self, photos, clips, seed):
        self.photos, self.clips = list(photos.values()), list(clips.values())
        self.often = [TRAIN_PHOTOS[name] for name in photos]
        self.random = random.Random(seed)
        # Long clips more often, but not in proportion: a trailer would be all there is.
        self.weights = [len(clip) ** 0.5 for clip in self.clips]

    def batch(self, count, frames, size):
        return torch.stack([self.lively(frames, size) for _ in range(count)])

    def lively(self, frames, size):
        """A window with something in it: trailers are black for a good part."""
        for _ in range(4):
            window = self.window(frames, size)
            if window.std() > 0.05:
                break
        return window

    def window(self, frames, size):
        r = self.random
        if r.random() < 0.3:
            source = r.choices(self.photos, self.often)[0]
            times = [0] * frames
            moving = True
        else:
            source = r.choices(self.clips, self.weights)[0]
            step = r.choice([1, 1, 1, 2]) if len(source) > 2 * frames else 1
            start = r.randrange(len(source) - (frames - 1) * step)
            times = [start + i * step for i in range(frames)]
            moving = r.random() < 0.25
            if r.random() < 0.3:
                times.reverse()
        height, width = source.shape[1:3]
        largest = min(height, width)
        first = self.box(size, largest, height, width)
        last = self.drift(first, size, largest, height, width, frames) if moving else first
        pictures = []
        for i, time in enumerate(times):
            part = i / max(1, frames - 1)
            y, x, side = (round(a + (b - a) * part) for a, b in zip(first, last))
            picture = to_values(source[time : time + 1, y : y + side, x : x + side])[:, 0]
            if side != size:
                picture = F.interpolate(picture[None], (size, size), mode="bilinear", antialias=True)[0]
            pictures.append(picture)
        window = torch.stack(pictures, dim=1)
        if r.random() < 0.5:
            window = window.flip(3)
        if r.random() < 0.1:
            window = window.transpose(2, 3)
        if r.random() < 0.3:
            # Other exposures and tints than the few sources have.
            gain = torch.tensor([r.uniform(0.7, 1.1) for _ in range(3)]).view(3, 1, 1, 1)
            window = ((window + 1.0) * gain + r.uniform(-0.15, 0.15) - 1.0).clamp(-1.0, 1.0)
        return window.contiguous()

    def box(self, size, largest, height, width):
        side = min(largest, round(size * self.random.choice([1, 1, self.random.uniform(1, 2.5)])))
        return self.random.randint(0, height - side), self.random.randint(0, width - side), side

    def drift(self, box, size, largest, height, width, frames):
        """Where the box is at the end: up to 4 pixels and 1 % of its size further for each frame."""
        y, x, side = box
        reach = 4 * frames * side / size
        side = round(side * self.random.uniform(1 - 0.01 * frames, 1 + 0.01 * frames))
        side = max(min(size, largest), min(largest, side))
        y = round(y + self.random.uniform(-reach, reach))
        x = round(x + self.random.uniform(-reach, reach))
        return max(0, min(height - side, y)), max(0, min(width - side, x)), side


def held_clips(folder, cache):
    """Name to [n, 3, t, 256, 256]: the middle of the picture at three places of the clip."""
    windows = {}
    for name, clip in cached(folder, HELD_CLIPS, HELD_SIDE, cache).items():
        windows[name] = torch.stack([middle(clip[s : s + 17]) for s in spread(len(clip), 17, 3)])
    return windows


def held_photos(folder, cache):
    return {n: middle(p)[None] for n, p in cached(folder, HELD_PHOTOS, HELD_SIDE, cache).items()}


def spread(length, frames, count):
    return [round((length - frames) * (i + 0.5) / count) for i in range(count)]


def middle(pictures, size=256):
    height, width = pictures.shape[1:3]
    y, x = (height - size) // 2, (width - size) // 2
    return to_values(pictures[:, y : y + size, x : x + size])
