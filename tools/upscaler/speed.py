"""Times the upscaler inside the program against PyTorch on the CPU, 480 x 270 to 1920 x 1080, alternating.

    pip install torch
    python tools/upscaler/speed.py path/to/remaster [--rounds 5] [--frames 12]

PyTorch runs in both layouts, eager and compiled, in f32 and bf16; the best of them counts. The program restores a clip of noise
to raw frames, and its own figure is the time that its network took for a frame (`restore` with `-v`).
"""

import argparse
import json
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

WEIGHTS = Path(__file__).parents[2] / "crates/anime/realesr-animevideov3.safetensors"
WIDTH, HEIGHT, DEPTH, SCALE = 480, 270, 16, 4


def load(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body, tensors = json.loads(data[8 : 8 + length]), data[8 + length :], {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        start, end = about["data_offsets"]
        dtype = {"F32": torch.float32, "F16": torch.float16}[about["dtype"]]
        values = torch.frombuffer(bytearray(body[start:end]), dtype=dtype)
        tensors[name] = values.reshape(about["shape"]).float()
    return tensors


class Compact(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for i in range(0, 2 * DEPTH + 3, 2):
            weight = tensors[f"body.{i}.weight"]
            conv = torch.nn.Conv2d(weight.shape[1], weight.shape[0], 3, padding=1)
            conv.weight.data, conv.bias.data = weight, tensors[f"body.{i}.bias"]
            self.layers.append(conv)
            if i < 2 * DEPTH + 2:
                slopes = tensors[f"body.{i + 1}.weight"]
                prelu = torch.nn.PReLU(len(slopes))
                prelu.weight.data = slopes
                self.layers.append(prelu)

    def forward(self, x):
        y = x
        for layer in self.layers:
            y = layer(y)
        return F.pixel_shuffle(y, SCALE) + F.interpolate(x, scale_factor=SCALE, mode="nearest")


def ways(dtype):
    for layout in (torch.contiguous_format, torch.channels_last):
        network = Compact(load(WEIGHTS)).eval().to(dtype=dtype, memory_format=layout)
        x = torch.rand(1, 3, HEIGHT, WIDTH).to(dtype=dtype).contiguous(memory_format=layout)
        name = "channels last" if layout == torch.channels_last else "contiguous"
        yield f"eager, {name}", network, x
        yield f"compiled, {name}", torch.compile(network), x


def ours(program, clip, dtype, folder):
    out = subprocess.run(
        [program, clip, "-o", folder / "out.y4m", "-y", "--model", "anime", "--device", "cpu", "--dtype", dtype]
        + ["--resolution", "4x", "-v"],
        capture_output=True, text=True, check=True,
    )
    line = next(line for line in (out.stdout + out.stderr).splitlines() if line.startswith("restore "))
    words = line.split()
    return float(words[1]) / int(words[4])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=12)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        folder = Path(folder)
        clip = folder / "clip.y4m"
        source = f"nullsrc=s={WIDTH}x{HEIGHT}:r=24,geq=random(1)*255:128:128"
        frames = ["-frames:v", str(args.frames), "-pix_fmt", "yuv420p", str(clip)]
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, *frames], check=True)
        for dtype, word in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            peers = list(ways(dtype))
            for _, network, x in peers:
                network(x)
            took = {name: [] for name, _, _ in peers} | {"remaster": []}
            for _ in range(args.rounds):
                for name, network, x in peers:
                    start = time.perf_counter()
                    network(x)
                    took[name].append(time.perf_counter() - start)
                took["remaster"].append(ours(args.program, clip, word, folder))
            print(word)
            for name, seconds in took.items():
                print(f"  {name:26} min {min(seconds):.3f} s, median {statistics.median(seconds):.3f} s")
            best = [min(f(took[name]) for name, _, _ in peers) for f in (min, statistics.median)]
            mine = [f(took["remaster"]) for f in (min, statistics.median)]
            print(f"  PyTorch by remaster        min {best[0] / mine[0]:.2f}, median {best[1] / mine[1]:.2f}")


main()
