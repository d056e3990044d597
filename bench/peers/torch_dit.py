"""The SeedVR2 diffusion transformer in plain PyTorch on the CPU: the peer our own engine is timed against.

    torch_dit.py check GOLDEN_DIR    compare with the golden files, f32
    torch_dit.py serve ...           one timed forward per line on stdin, one line of JSON each

Weights and inputs are the formula values u(name, index), so both engines compute the same thing
without any file passing between them. Tokens are [n, channel]; windows are runs of consecutive
tokens once a block has put them into the order of its windows.

In bf16, weights and what goes into matrix products are bf16; norms, modulation and the residual
stream are f32. So it is in the original, which runs under autocast. The time embedding and the
projected text are constants of the one-step model and are computed at the start, outside the timing.
"""

import argparse
import ctypes
import json
import math
import os
import sys
import time
from dataclasses import dataclass, replace

# Sets torch's allocator up before torch is imported.
from torch_vae import DTYPES, busy_seconds, formula_weight, uniform

import torch
import torch.nn.functional as F

EPS = 1e-5
PATCH, INPUT, LATENT = 2, 33, 16
TIME, STEP = 256, 1000.0
# Tokens of the published text embedding.
WORDS = 58


@dataclass(frozen=True)
class Config:
    """`shared`: the 3B network, where video and text share the weights of blocks from `separate` on."""

    shared: bool
    width: int
    head: int
    layers: int
    separate: int
    hidden: int
    text: int

    @property
    def heads(self):
        return self.width // self.head


CONFIGS = {
    "3b": Config(True, 2560, 128, 32, 10, 6912, 5120),
    "7b": Config(False, 3072, 128, 36, 36, 12288, 5120),
    "tiny_3b": Config(True, 64, 32, 4, 2, 256, 48),
    "tiny_7b": Config(False, 64, 32, 4, 4, 256, 48),
}


# ------------------------------------------------------------------------------------------------
# Windows and positions


def window_cuts(size, window, shifted):
    """Ranges of one axis. Shifted ones start half a window early and are cut at the border."""
    if not shifted or window >= size:
        return [(a, min(a + window, size)) for a in range(0, size, window)]
    count = math.ceil((size - 0.5) / window) + 1
    cuts = [(max(int((i - 0.5) * window), 0), min(int((i + 0.5) * window), size)) for i in range(count)]
    return [(a, b) for a, b in cuts if a < b]


def windows(grid, shifted):
    """Windows of a grid (t, h, w) of tokens as three ranges each, time fastest."""
    t, h, w = grid
    scale = math.sqrt(45 * 80 / (h * w))
    sizes = (math.ceil(min(t, 30) / 4), math.ceil(round(h * scale) / 3), math.ceil(round(w * scale) / 3))
    frames, rows, columns = (window_cuts(n, size, shifted) for n, size in zip(grid, sizes))
    return [(f, r, c) for c in columns for r in rows for f in frames]


def turns(config, positions):
    """What rotates tokens at `positions` [n, 3], one complex number per pair of channels: [n, 1, head / 2]."""
    count = config.head // 3 // 2 if config.shared else config.head // 2 // 3 // 2
    if config.shared:
        frequencies = 1.0 / 10000.0 ** (torch.arange(0, 2 * count, 2).float() / (2 * count))
    else:
        frequencies = torch.linspace(1.0, 128.0, count) * math.pi
    angles = torch.zeros(len(positions), config.head // 2)
    angles[:, : 3 * count] = (positions[:, :, None] * frequencies).reshape(len(positions), -1)
    return torch.polar(torch.ones_like(angles), angles).unsqueeze(1)


def axis(config, length, start):
    """Positions along one axis of a window."""
    return torch.arange(start, start + length).float() if config.shared else torch.linspace(-1.0, 1.0, length)


class Layout:
    """The order of the tokens by windows, the length of each, and what rotates them."""

    def __init__(self, config, grid, shifted, words):
        index = torch.arange(math.prod(grid)).reshape(grid)
        order, places, self.lengths = [], [], []
        for (t0, t1), (y0, y1), (x0, x1) in windows(grid, shifted):
            order.append(index[t0:t1, y0:y1, x0:x1].reshape(-1))
            # The text stands before the first frame.
            axes = (axis(config, t1 - t0, words), axis(config, y1 - y0, 0), axis(config, x1 - x0, 0))
            places.append(torch.cartesian_prod(*axes))
            self.lengths.append(len(order[-1]))
        self.order = torch.cat(order)
        self.turns = turns(config, torch.cat(places))


# ------------------------------------------------------------------------------------------------
# The network


def normalized(x, scale=None, shift=None):
    """RMS norm over the channels in f32, then scale and shift."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    y = x * torch.rsqrt(length.square() / x.shape[-1] + EPS)
    if scale is not None:
        y.mul_(scale)
    if shift is not None:
        y.add_(shift)
    return y


class Stream:
    """What a block does to video or text."""

    def __init__(self, model, block, name):
        self.config, self.dtype = model.config, model.dtype
        attn, mlp, ada = f"{block}.attn", f"{block}.mlp.{name}", f"{block}.ada.{name}"
        d, hidden = model.config.width, model.config.hidden
        self.qkv = model.linear(f"{attn}.proj_qkv.{name}", d, 3 * d, bias=False)
        self.out = model.linear(f"{attn}.proj_out.{name}", d, d)
        self.norms = [model.f32(f"{attn}.norm_{x}.{name}.weight", model.config.head) for x in "qk"]
        biased = not model.config.shared
        self.gate = None if biased else model.linear(f"{mlp}.proj_in_gate", d, hidden, bias=False)
        self.enter = model.linear(f"{mlp}.proj_in", d, hidden, biased)
        self.leave = model.linear(f"{mlp}.proj_out", hidden, d, biased)
        # Shift, scale and gate of attention, then of the MLP.
        names = [f"{layer}_{part}" for layer in ("attn", "mlp") for part in ("shift", "scale", "gate")]
        parts = [model.f32(f"{ada}.{part}", d) + model.embedding[i::6] for i, part in enumerate(names)]
        self.around_attention, self.around_mlp = parts[:3], parts[3:]

    def projected(self, x, rotation):
        """Queries, keys and values, [n, heads, channels of a head] each."""
        q, k, v = F.linear(x, *self.qkv).view(len(x), 3, self.config.heads, self.config.head).unbind(1)
        return self.turned(q, self.norms[0], rotation), self.turned(k, self.norms[1], rotation), v

    def turned(self, x, weight, rotation):
        y = normalized(x.float(), weight)
        if rotation is not None:
            torch.view_as_complex(y.view(*y.shape[:2], -1, 2)).mul_(rotation)
        return y.to(self.dtype)

    def add_attention(self, x, seen):
        y = F.linear(seen.reshape(len(x), -1), *self.out)
        x.addcmul_(y, self.around_attention[2])

    def add_mlp(self, x):
        shift, scale, gate = self.around_mlp
        y = normalized(x, scale, shift).to(self.dtype)
        if self.gate is None:
            y = F.gelu(F.linear(y, *self.enter), approximate="tanh")
        else:
            y = F.silu(F.linear(y, *self.gate), inplace=True).mul_(F.linear(y, *self.enter))
        x.addcmul_(F.linear(y, *self.leave), gate)


def attention(video, text, lengths, asks):
    """Each window sees itself and the text. What the text sees is averaged over the windows."""
    (q, k, v), (text_q, text_k, text_v) = video, text
    out = torch.empty_like(q)
    seen = torch.zeros(text_k.shape) if asks else None
    start = 0
    for n in lengths:
        rows = slice(start, start + n)
        queries = torch.cat([q[rows], text_q]) if asks else q[rows]
        parts = (queries, torch.cat([k[rows], text_k]), torch.cat([v[rows], text_v]))
        y = F.scaled_dot_product_attention(*(x.transpose(0, 1).unsqueeze(0) for x in parts))
        y = y[0].transpose(0, 1)
        out[rows] = y[:n]
        if asks:
            seen += y[n:]
        start += n
    return out, seen.div_(len(lengths)).to(q.dtype) if asks else None


class Block:
    def __init__(self, model, number):
        names = ("vid", "txt") if number < model.config.separate else ("all",)
        streams = [Stream(model, f"blocks.{number}", name) for name in names]
        self.video, self.text = streams[0], streams[-1]
        self.shifted = number % 2 == 1
        # Behind the last block of the 3B network nobody looks at the text, and it is not modulated.
        self.ends_text = model.config.shared and number + 1 == model.config.layers
        self.dtype = model.dtype

    def forward(self, x, text, layouts, text_turns):
        """Adds to the tokens `x` and to the text in place."""
        layout = layouts[self.shifted]
        shift, scale, _ = (None, None, None) if self.ends_text else self.text.around_attention
        words = self.text.projected(normalized(text, scale, shift).to(self.dtype), text_turns)
        shift, scale, _ = self.video.around_attention
        y = normalized(x, scale, shift).to(self.dtype)[layout.order]
        y, seen = attention(self.video.projected(y, layout.turns), words, layout.lengths, not self.ends_text)
        ordered = torch.empty_like(y)
        ordered[layout.order] = y
        del y
        self.video.add_attention(x, ordered)
        del ordered
        self.video.add_mlp(x)
        if not self.ends_text:
            self.text.add_attention(text, seen)
            self.text.add_mlp(text)


class Dit:
    """`words` is the text embedding, [tokens, channels]."""

    def __init__(self, config, dtype, words, step=STEP):
        self.config, self.dtype, self.words = config, DTYPES[dtype], len(words)
        d = config.width
        self.embedding = self.time_embedding(step)
        self.text = F.linear(words, self.f32("txt_in.weight", d, config.text), self.f32("txt_in.bias", d))
        self.enter = self.linear("vid_in.proj", INPUT * PATCH**2, d)
        self.blocks = [Block(self, i) for i in range(config.layers)]
        self.leave = self.linear("vid_out.proj", d, LATENT * PATCH**2)
        if config.shared:
            # The head uses the slots of attention: the original caches both under one name.
            self.shift = self.f32("vid_out_ada.out_shift", d) + self.embedding[0::6]
            scale = self.f32("vid_out_ada.out_scale", d) + self.embedding[1::6]
            self.scale = scale * self.f32("vid_out_norm.weight", d)
        self.layouts = {}

    def f32(self, name, *shape):
        return torch.from_numpy(formula_weight(name, shape))

    def linear(self, name, inputs, outputs, bias=True):
        weight = self.f32(f"{name}.weight", outputs, inputs).to(self.dtype)
        return weight, self.f32(f"{name}.bias", outputs).to(self.dtype) if bias else None

    def time_embedding(self, step):
        angles = step * torch.exp(-math.log(10000.0) * torch.arange(TIME // 2).float() / (TIME // 2))
        x = torch.cat([angles.sin(), angles.cos()])
        d = self.config.width
        for name, inputs, outputs in (("in", TIME, d), ("hid", d, d), ("out", d, 6 * d)):
            name = f"emb_in.proj_{name}"
            x = F.linear(x, self.f32(f"{name}.weight", outputs, inputs), self.f32(f"{name}.bias", outputs))
            x = F.silu(x) if name != "emb_in.proj_out" else x
        return x

    def layout(self, grid):
        if grid not in self.layouts:
            rotation = None
            if self.config.shared:
                rotation = turns(self.config, torch.arange(self.words).float()[:, None].expand(-1, 3))
            layouts = [Layout(self.config, grid, shifted, self.words) for shifted in (False, True)]
            self.layouts[grid] = layouts, rotation
        return self.layouts[grid]

    @torch.inference_mode()
    def forward(self, patches, grid):
        """[t * h * w, 132] to [t * h * w, 64]."""
        layouts, text_turns = self.layout(grid)
        x = F.linear(patches.to(self.dtype), *self.enter).float()
        text = self.text.clone()
        for block in self.blocks:
            block.forward(x, text, layouts, text_turns)
        if self.config.shared:
            x = normalized(x, self.scale, self.shift)
        return F.linear(x.to(self.dtype), *self.leave)


def patched(cells):
    """[t, h, w, c] to [t * h/2 * w/2, 4 c]."""
    t, h, w, c = cells.shape
    cells = cells.reshape(t, h // PATCH, PATCH, w // PATCH, PATCH, c)
    return cells.permute(0, 1, 3, 2, 4, 5).reshape(-1, PATCH**2 * c), (t, h // PATCH, w // PATCH)


def unpatched(tokens, grid):
    t, h, w = grid
    cells = tokens.reshape(t, h, w, PATCH, PATCH, -1).permute(0, 1, 3, 2, 4, 5)
    return cells.reshape(t, h * PATCH, w * PATCH, -1)


# ------------------------------------------------------------------------------------------------
# Modes


def mode_check(args):
    from safetensors.torch import load_file

    good = True
    for config in ("tiny_3b", "tiny_7b"):
        for case in ("small", "image", "multi"):
            data = load_file(os.path.join(args.golden, f"dit_{config}_{case}.safetensors"))
            model = Dit(CONFIGS[config], args.dtype, data["txt"], data["timestep"].item())
            y = unpatched(model.forward(*(found := patched(data["vid"]))).float(), found[1])
            if y.shape != data["out"].shape:
                raise SystemExit(f"{config} {case}: {tuple(y.shape)} is not {tuple(data['out'].shape)}")
            error = (y - data["out"]).abs().max().item()
            good &= error <= args.tolerance
            verdict = "ok" if error <= args.tolerance else "TOO FAR"
            print(f"{config} {case:5} {error:.3e} of {data['out'].abs().max():.2f} {verdict}", flush=True)
    print("check passed" if good else "check FAILED")
    return 0 if good else 1


def generated(name, *shape):
    return torch.from_numpy(uniform(name, math.prod(shape)).reshape(shape))


def memory_bytes(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field + ":")) * 1024


def forget_peak():
    """Gives freed memory back and makes the highest resident size the present one."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return memory_bytes("VmRSS")


def mode_serve(args):
    config = CONFIGS[args.config]
    layers = min(args.layers or config.layers, config.layers)
    config = replace(config, layers=layers, separate=min(config.separate, layers))
    grid = ((args.frames - 1) // 4 + 1, -(-args.height // 16), -(-args.width // 16))
    with torch.inference_mode():
        model = Dit(config, args.dtype, generated("input/bench-text", WORDS, config.text))
        x = generated("input/bench", math.prod(grid), INPUT * PATCH**2)
        # Libraries set themselves up at their first call, which is no part of a run's memory.
        model.forward(x[:16], (1, 4, 4))
        model.layout(grid)
    before = forget_peak()
    print("ready", flush=True)
    for _ in sys.stdin:
        busy, own, start = busy_seconds(), time.process_time(), time.perf_counter()
        y = model.forward(x, grid)
        seconds = time.perf_counter() - start
        others = max(0.0, (busy_seconds() - busy - (time.process_time() - own)) / seconds)
        answer = {"seconds": seconds, "other_cores_busy": round(others, 2), "tokens": len(x)}
        answer["beside_weights_bytes"] = memory_bytes("VmHWM") - before
        answer["output_std"] = y.float().std().item()
        del y
        print(json.dumps(answer), flush=True)
    return 0


def main():
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dtype", choices=DTYPES, default="f32")
    common.add_argument("--threads", type=int, default=2)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    check = modes.add_parser("check", parents=[common])
    check.add_argument("golden")
    check.add_argument("--tolerance", type=float, default=1e-5)
    check.set_defaults(call=mode_check)
    serve = modes.add_parser("serve", parents=[common])
    serve.add_argument("--config", choices=CONFIGS, default="3b")
    serve.add_argument("--layers", type=int, default=0, help="only the first N blocks, 0 = all")
    serve.add_argument("--frames", type=int, default=5, help="video frames, 4n + 1")
    serve.add_argument("--height", type=int, default=720)
    serve.add_argument("--width", type=int, default=1280)
    serve.set_defaults(call=mode_serve)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    sys.exit(args.call(args))


if __name__ == "__main__":
    main()
