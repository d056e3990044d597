"""The SeedVR2 video VAE in plain PyTorch on the CPU: the peer our own engine is timed against.

    torch_vae.py check GOLDEN_DIR    compare with the golden files, f32, both memory layouts
    torch_vae.py bench ...           time one side (encode or decode), print JSON
    torch_vae.py serve ...           one timed forward per JSON line on stdin
    torch_vae.py limits              what this machine gives torch: matmul and copy rates

Weights and inputs are the formula values u(name, index), so both engines compute the same thing
without any file passing between them. Tensors are [1, channel, time, height, width].
"""

import argparse
import json
import math
import os
import statistics
import sys
import time

# Large tensors on huge pages: fewer page faults, which shows in bf16. Read by torch at its first
# allocation, so it has to be set before the import; the environment can still say 0.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CONFIGS = {
    "full": {"channels": (128, 256, 512, 512), "groups": 32},
    "tiny": {"channels": (32, 32, 64, 64), "groups": 8},
}
LATENT_CHANNELS = 16
NORM_EPS = 1e-6
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
LAYOUTS = {
    "contiguous": torch.contiguous_format,
    "channels_last_3d": torch.channels_last_3d,
}
HALVES = {"encode": "encoder", "decode": "decoder"}

# Which part of a clip a forward pass sees. WHOLE keeps no state; FIRST leaves the tails of every
# causal convolution behind; NEXT starts from those tails and replaces them.
WHOLE, FIRST, NEXT = "whole", "first", "next"


# ------------------------------------------------------------------------------------------------
# Formula values


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode("utf-8"):
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def uniform(name, count):
    """u(name, i) for i in 0..count as f32 in [-1, 1)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    seed = np.uint64(fnv1a64(name))
    out = np.empty(count, dtype=np.float32)
    # Small pieces stay in the cache and keep the 64-bit temporaries out of the peak memory.
    piece = 1 << 17
    for start in range(0, count, piece):
        z = np.arange(start, min(start + piece, count), dtype=np.uint64)
        z *= golden
        z ^= seed
        z += golden
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        z >>= np.uint64(40)
        u = out[start : start + len(z)]
        u[:] = z
        u *= np.float32(2.0**-23)
        u -= np.float32(1.0)
    return out


def formula_weight(name, shape):
    value = uniform(name, math.prod(shape))
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "weight" and len(shape) >= 2:
        fan_in = math.prod(shape[1:])
        value *= np.float32(math.sqrt(3.0 / fan_in))
    elif leaf == "weight" and "norm" in name:
        value *= np.float32(0.1)
        value += np.float32(1.0)
    elif leaf == "bias":
        value *= np.float32(0.05 if "norm" in name else 0.02)
    elif leaf.endswith("_shift"):
        value *= np.float32(0.2)
    elif leaf.endswith("_scale"):
        value *= np.float32(0.2)
        value += np.float32(1.0)
    elif leaf.endswith("_gate"):
        value *= np.float32(0.5)
    else:
        raise ValueError(f"no formula for {name} {shape}")
    return value.reshape(shape)


def bench_input(what, frames, height, width):
    if what == "encode":
        name, shape = "input/bench_x", (1, 3, frames, height, width)
    else:
        latents = (frames - 1) // 4 + 1
        name, shape = "input/bench_z", (1, LATENT_CHANNELS, latents, height // 8, width // 8)
    return torch.from_numpy(uniform(name, math.prod(shape)).reshape(shape))


# ------------------------------------------------------------------------------------------------
# The network. Module names are the state-dict names of the public checkpoint.


def conv3d(x, weight, bias, stride=(1, 1, 1), padding=(0, 0, 0)):
    # The oneDNN kernel F.conv3d itself uses for large inputs. Called directly, because F.conv3d
    # sends small f32 inputs (also the 3-channel video of the encoder) to an unfolding path that
    # is slower there and returns the contiguous layout whatever it was given.
    return torch.mkldnn_convolution(x, weight, bias, padding, stride, (1, 1, 1), 1)


class CausalConv3d(nn.Module):
    """A convolution that never looks ahead in time: first frame repeated in front, or the tail
    of the slice before."""

    def __init__(self, inputs, outputs, kernel=3, stride=1, padding=1, kernel_t=3, stride_t=1):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel_t, kernel, kernel))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.stride = (stride_t, stride, stride)
        self.padding = (0, padding, padding)
        self.kernel_t = kernel_t
        self.keep = kernel_t - stride_t
        self.tail = None

    def forward(self, parts, phase):
        """`parts` are consecutive pieces of the input in time. The list is emptied, so that the
        pieces are freed as soon as they are joined and not only after the convolution."""
        if self.kernel_t == 1:
            x = parts.pop()
        else:
            if phase == NEXT:
                parts.insert(0, self.tail)
            else:
                head = parts[0][:, :, :1]
                parts[:0] = [head] * (self.kernel_t - 1)
                del head
            x = torch.cat(parts, dim=2)
            parts.clear()
            # A clone: a view would keep the whole joined input alive until the next slice.
            self.tail = None if phase == WHOLE else x[:, :, -self.keep :].clone()
        return conv3d(x, self.weight, self.bias, self.stride, self.padding)


class PointConv3d(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, 1, 1, 1))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return conv3d(x, self.weight, self.bias)


class FrameNorm(nn.Module):
    """Group norm with the statistics of one frame."""

    def __init__(self, channels, groups):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels))
        self.bias = nn.Parameter(torch.empty(channels))
        self.groups = groups

    def forward(self, x):
        # Time becomes the batch. With one clip this is a view, and in channels_last_3d the view
        # is an ordinary channels_last batch, so nothing is copied in that layout.
        frames = x[0].transpose(0, 1)
        frames = F.group_norm(frames, self.groups, self.weight, self.bias, NORM_EPS)
        # In this order the batch axis gets its natural stride. The other order gives it the
        # stride of a channel; torch then takes the tensor for contiguous and torch.cat copies
        # everything out of channels_last_3d without a word.
        return frames.unsqueeze(0).transpose(1, 2)

    def silu(self, x):
        # In place is safe: the norm's result belongs to nobody else.
        return F.silu(self(x), inplace=True)


class Resnet(nn.Module):
    def __init__(self, inputs, outputs, groups):
        super().__init__()
        self.norm1 = FrameNorm(inputs, groups)
        self.conv1 = CausalConv3d(inputs, outputs)
        self.norm2 = FrameNorm(outputs, groups)
        self.conv2 = CausalConv3d(outputs, outputs)
        self.conv_shortcut = PointConv3d(inputs, outputs) if inputs != outputs else None

    def forward(self, x, phase):
        h = self.conv1([self.norm1.silu(x)], phase)
        h = [self.norm2.silu(h)]
        h = self.conv2(h, phase)
        return h.add_(x if self.conv_shortcut is None else self.conv_shortcut(x))


class Attention(nn.Module):
    """One head over the pixels of each frame."""

    def __init__(self, channels, groups):
        super().__init__()
        self.group_norm = FrameNorm(channels, groups)
        self.to_q = nn.Linear(channels, channels)
        self.to_k = nn.Linear(channels, channels)
        self.to_v = nn.Linear(channels, channels)
        self.to_out = nn.ModuleList([nn.Linear(channels, channels)])

    def forward(self, x):
        _, channels, frames, height, width = x.shape
        tokens = self.group_norm(x)[0].permute(1, 2, 3, 0).reshape(frames, 1, -1, channels)
        q, k, v = self.to_q(tokens), self.to_k(tokens), self.to_v(tokens)
        y = self.to_out[0](F.scaled_dot_product_attention(q, k, v))
        y = y.reshape(1, frames, height, width, channels).permute(0, 4, 1, 2, 3)
        # x is the result of a resnet and read by nobody else.
        return x.add_(y)


class MidBlock(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.resnets = nn.ModuleList([Resnet(channels, channels, groups) for _ in range(2)])
        self.attentions = nn.ModuleList([Attention(channels, groups)])

    def forward(self, x, phase):
        x = self.resnets[0](x, phase)
        x = self.attentions[0](x)
        return self.resnets[1](x, phase)


class Downsample(nn.Module):
    def __init__(self, channels, temporal):
        super().__init__()
        step = 2 if temporal else 1
        self.conv = CausalConv3d(
            channels, channels, stride=2, padding=0, kernel_t=3 if temporal else 1, stride_t=step
        )

    def forward(self, x, phase):
        # One zero column at the right and one zero row at the bottom only.
        return self.conv([F.pad(x, (0, 1, 0, 1))], phase)


class Upsample(nn.Module):
    def __init__(self, channels, temporal):
        super().__init__()
        self.scale_t = 2 if temporal else 1
        self.upscale_conv = PointConv3d(channels, channels * 4 * self.scale_t)
        self.conv = CausalConv3d(channels, channels)

    def forward(self, x, phase):
        _, c, t, h, w = x.shape
        z = self.scale_t
        u = self.upscale_conv(x)
        layout = torch.channels_last_3d if u.stride(1) == 1 else torch.contiguous_format
        y = torch.empty((1, c, t * z, h * 2, w * 2), dtype=u.dtype, memory_format=layout)
        # Channels of u are (row phase, column phase, frame phase, channel).
        source = u.view(2, 2, z, c, t, h, w).permute(3, 4, 2, 5, 0, 6, 1)
        y.view(c, t, z, h, 2, w, 2).copy_(source)
        del u, source
        if z == 2 and phase != NEXT:
            # The first latent frame stands for one video frame, so its second copy is dropped.
            # An image has nothing after that; an empty part would make torch.cat forget the layout.
            parts = [y[:, :, :1], y[:, :, 2:]] if t > 1 else [y[:, :, :1]]
        else:
            parts = [y]
        del y
        return self.conv(parts, phase)


class DownBlock(nn.Module):
    def __init__(self, inputs, outputs, groups, downsample, temporal):
        super().__init__()
        self.resnets = nn.ModuleList(
            [Resnet(inputs if i == 0 else outputs, outputs, groups) for i in range(2)]
        )
        self.downsamplers = nn.ModuleList([Downsample(outputs, temporal)] if downsample else [])

    def forward(self, x, phase):
        for resnet in self.resnets:
            x = resnet(x, phase)
        for sampler in self.downsamplers:
            x = sampler(x, phase)
        return x


class UpBlock(nn.Module):
    def __init__(self, inputs, outputs, groups, upsample, temporal):
        super().__init__()
        self.resnets = nn.ModuleList(
            [Resnet(inputs if i == 0 else outputs, outputs, groups) for i in range(3)]
        )
        self.upsamplers = nn.ModuleList([Upsample(outputs, temporal)] if upsample else [])

    def forward(self, x, phase):
        for resnet in self.resnets:
            x = resnet(x, phase)
        for sampler in self.upsamplers:
            x = sampler(x, phase)
        return x


class Encoder(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.conv_in = CausalConv3d(3, channels[0])
        inputs = (channels[0],) + tuple(channels[:-1])
        self.down_blocks = nn.ModuleList(
            [
                DownBlock(inputs[i], channels[i], groups, downsample=i < 3, temporal=i in (1, 2))
                for i in range(4)
            ]
        )
        self.mid_block = MidBlock(channels[-1], groups)
        self.conv_norm_out = FrameNorm(channels[-1], groups)
        self.conv_out = CausalConv3d(channels[-1], 2 * LATENT_CHANNELS)

    def forward(self, x, phase):
        x = self.conv_in([x], phase)
        for block in self.down_blocks:
            x = block(x, phase)
        x = self.mid_block(x, phase)
        return self.conv_out([self.conv_norm_out.silu(x)], phase)


class Decoder(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        outputs = tuple(reversed(channels))
        inputs = (outputs[0],) + outputs[:-1]
        self.conv_in = CausalConv3d(LATENT_CHANNELS, outputs[0])
        self.mid_block = MidBlock(outputs[0], groups)
        self.up_blocks = nn.ModuleList(
            [
                UpBlock(inputs[i], outputs[i], groups, upsample=i < 3, temporal=i in (0, 1))
                for i in range(4)
            ]
        )
        self.conv_norm_out = FrameNorm(outputs[-1], groups)
        self.conv_out = CausalConv3d(outputs[-1], 3)

    def forward(self, z, phase):
        x = self.conv_in([z], phase)
        x = self.mid_block(x, phase)
        for block in self.up_blocks:
            x = block(x, phase)
        return self.conv_out([self.conv_norm_out.silu(x)], phase)


# ------------------------------------------------------------------------------------------------
# Building and running


def empty_model(config, what):
    settings = CONFIGS[config]
    kind = Encoder if what == "encode" else Decoder
    # The meta device gives names and shapes without memory for the values.
    with torch.device("meta"):
        return kind(settings["channels"], settings["groups"])


def weight_values(config, what, cache=None):
    """Yields (name inside the half, full name, f32 array) one by one. The cache is a flat f32
    file, one per config and half: reading it tensor by tensor keeps the peak memory honest,
    which a mapped file would not."""
    half = HALVES[what]
    wanted = [(n, f"{half}.{n}", tuple(p.shape)) for n, p in empty_model(config, what).state_dict().items()]
    total = 4 * sum(math.prod(shape) for _, _, shape in wanted)
    path = f"{cache}-{config}-{half}.f32" if cache else None
    if path and os.path.exists(path) and os.path.getsize(path) == total:
        with open(path, "rb") as file:
            for short, name, shape in wanted:
                value = np.fromfile(file, dtype="<f4", count=math.prod(shape))
                yield short, name, value.reshape(shape)
        return
    scratch = f"{path}.{os.getpid()}.part"
    file = open(scratch, "wb") if path else None
    for short, name, shape in wanted:
        value = formula_weight(name, shape)
        if file:
            value.tofile(file)
        yield short, name, value
    if file:
        file.close()
        os.replace(scratch, path)


def build(config, what, dtype, layout, cache=None):
    model = empty_model(config, what)
    state = {}
    for short, _, value in weight_values(config, what, cache):
        tensor = torch.from_numpy(value).to(DTYPES[dtype])
        if tensor.dim() == 5:
            tensor = tensor.contiguous(memory_format=LAYOUTS[layout])
        state[short] = tensor
    model.load_state_dict(state, strict=True, assign=True)
    return model.requires_grad_(False).eval()


def prepare(x, dtype, layout):
    return x.to(DTYPES[dtype]).contiguous(memory_format=LAYOUTS[layout])


def clear_tails(model):
    for module in model.modules():
        if isinstance(module, CausalConv3d):
            module.tail = None


def run(model, what, x, slice_frames):
    """One forward pass. `slice_frames` counts video frames for both sides; 0 is one piece."""
    if slice_frames % 4:
        raise ValueError("a slice must be a multiple of 4 frames")
    step = slice_frames if what == "encode" else slice_frames // 4
    length = x.shape[2]
    with torch.inference_mode():
        if step == 0 or length - 1 <= step:
            return model(x, WHOLE)
        results = [model(x[:, :, : 1 + step], FIRST)]
        for start in range(1 + step, length, step):
            results.append(model(x[:, :, start : start + step], NEXT))
        clear_tails(model)
        return torch.cat(results, dim=2)


def busy_seconds():
    """Processor seconds this machine has spent on anything, stolen time included."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def timed_run(model, what, x, slice_frames):
    """Seconds, the cores other processes used meanwhile, and the output. A sample with busy
    neighbours says nothing about the engine; judged by this figure, no sample has to be judged
    by its own time."""
    busy, own, start = busy_seconds(), time.process_time(), time.perf_counter()
    y = run(model, what, x, slice_frames)
    seconds = time.perf_counter() - start
    others = busy_seconds() - busy - (time.process_time() - own)
    return seconds, round(max(0.0, others / seconds), 2), y


def memory_mib(field):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return round(int(line.split()[1]) / 1024, 1)
    return None


def check_clip(what, frames, height, width):
    if frames % 4 != 1 or height % 8 or width % 8:
        raise ValueError("frames must be 4n + 1, height and width multiples of 8")
    if what not in HALVES:
        raise ValueError("what must be encode or decode")


# ------------------------------------------------------------------------------------------------
# Modes

CASES = {
    "image_64x64": 0,
    "video_5x64x64": 0,
    "video_9x48x80": 0,
    "sliced_17x32x32": 4,
}


def check_weights(config, golden):
    """Compares the formula weights with the checksums of the golden set, bit for bit."""
    expected = {}
    with open(os.path.join(golden, f"{config}_weights_checksum.txt")) as file:
        for line in file:
            if " [" in line:
                expected[line.split(" [", 1)[0]] = int(line.rsplit("sum=", 1)[1], 16)
    bad = 0
    for what in HALVES:
        for _, name, value in weight_values(config, what):
            bits = value.reshape(-1).view(np.uint32).astype(np.uint64)
            odd = np.arange(1, 2 * len(bits), 2, dtype=np.uint64)
            if int((bits * odd).sum(dtype=np.uint64)) != expected.pop(name, None):
                print(f"{config} weight differs: {name}")
                bad += 1
    bad += len(expected)
    print(f"{config:5} weights: {'as the golden checksums' if bad == 0 else f'{bad} DIFFER'}", flush=True)
    return bad == 0


def guarded_conv3d(plain, layout, seen):
    """conv3d that refuses an input or output in another layout. A lost layout changes no value
    beyond rounding, so without this the two layouts could silently be one and the same."""

    def strides(x):
        # The stride of an axis of length 1 says nothing.
        return [st for st, size in zip(x.stride(), x.shape) if size > 1]

    def call(x, *rest):
        y = plain(x, *rest)
        for tensor in (x, y):
            ideal = torch.empty(tensor.shape, device="meta").contiguous(memory_format=LAYOUTS[layout])
            if strides(tensor) != strides(ideal):
                raise SystemExit(f"layout {layout} lost: {tuple(tensor.shape)} has strides {tensor.stride()}")
        seen.append(1)
        return y

    return call


def mode_check(args):
    from safetensors.numpy import load_file

    plain = conv3d
    good = True
    for config in args.configs.split(","):
        good &= check_weights(config, args.golden)
        for layout in LAYOUTS:
            models = {w: build(config, w, args.dtype, layout, args.cache) for w in HALVES}
            seen = []
            globals()["conv3d"] = guarded_conv3d(plain, layout, seen)
            for case, slice_frames in CASES.items():
                data = load_file(os.path.join(args.golden, f"{config}_{case}.safetensors"))
                data = {k: torch.from_numpy(np.array(v)) for k, v in data.items()}
                # Sliced files hold both ways of running the same input.
                ways = [("_unsliced", 0), ("_sliced", slice_frames)] if slice_frames else [("", 0)]
                for suffix, pieces in ways:
                    for what, source, target in (
                        ("encode", "x", "moments" + suffix),
                        ("decode", "z", "decoded" + suffix),
                    ):
                        x = data[source]
                        # Still images are stored without the time axis.
                        image = x.dim() == 4
                        x = prepare(x.unsqueeze(2) if image else x, args.dtype, layout)
                        y = run(models[what], what, x, pieces).float()
                        wanted = data[target]
                        if wanted.dim() == 4:
                            wanted = wanted.unsqueeze(2)
                        if y.shape != wanted.shape:
                            raise SystemExit(f"{case} {target}: {tuple(y.shape)} is not {tuple(wanted.shape)}")
                        error = (y - wanted).abs().max().item()
                        fits = error <= args.tolerance
                        good &= fits
                        verdict = "ok" if fits else "TOO FAR"
                        print(f"{config:5} {layout:17} {case:16} {target:17} {error:.3e} {verdict}", flush=True)
            globals()["conv3d"] = plain
            print(f"{config:5} {layout:17} all {len(seen)} convolutions kept the layout", flush=True)
            del models
    print("check passed" if good else "check FAILED")
    return 0 if good else 1


def mode_bench(args):
    check_clip(args.what, args.frames, args.height, args.width)
    rss_import = memory_mib("VmRSS")
    start = time.perf_counter()
    model = build(args.config, args.what, args.dtype, args.layout, args.cache)
    load_seconds = time.perf_counter() - start
    x = prepare(bench_input(args.what, args.frames, args.height, args.width), args.dtype, args.layout)
    peak_load = memory_mib("VmHWM")
    samples, others = [], []
    for i in range(args.warmup + args.repeat):
        seconds, busy, y = timed_run(model, args.what, x, args.slice)
        if i >= args.warmup:
            samples.append(seconds)
            others.append(busy)
        shape, deviation = list(y.shape), y.float().std().item()
        # Freed before the next pass, or the old output would count in its peak.
        del y
    report = {
        "engine": "torch",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "huge_pages": os.environ["THP_MEM_ALLOC_ENABLE"] == "1",
        "config": args.config,
        "what": args.what,
        "dtype": args.dtype,
        "layout": args.layout,
        "frames": args.frames,
        "height": args.height,
        "width": args.width,
        "slice": args.slice,
        "warmup": args.warmup,
        "samples_s": [round(s, 6) for s in samples],
        "other_cores_busy": others,
        "min_s": round(min(samples), 6),
        "median_s": round(statistics.median(samples), 6),
        "load_s": round(load_seconds, 3),
        "rss_import_mib": rss_import,
        "peak_load_mib": peak_load,
        "peak_mib": memory_mib("VmHWM"),
        "output_shape": shape,
        "output_std": deviation,
    }
    print(json.dumps(report, indent=None if args.json else 2), flush=True)
    return 0


def mode_serve(args):
    models, inputs = {}, {}
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            ask = {
                "config": args.config,
                "what": args.what,
                "dtype": args.dtype,
                "layout": args.layout,
                "frames": args.frames,
                "height": args.height,
                "width": args.width,
                "slice": args.slice,
            }
            ask.update(json.loads(line))
            what, dtype, layout = ask["what"], ask["dtype"], ask["layout"]
            size = (ask["frames"], ask["height"], ask["width"])
            check_clip(what, *size)
            key = (ask["config"], what, dtype, layout)
            if key not in models:
                models[key] = build(*key, args.cache)
            key_x = (what, dtype, layout, *size)
            if key_x not in inputs:
                inputs[key_x] = prepare(bench_input(what, *size), dtype, layout)
            seconds, busy, y = timed_run(models[key], what, inputs[key_x], ask["slice"])
            answer = {"seconds": seconds, "other_cores_busy": busy, "output_std": y.float().std().item()}
            del y
        except (ValueError, KeyError, TypeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    return 0


def best_seconds(work, repeat):
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def mode_limits(args):
    # Rows x depth x columns. The first two have the numbers of a 3x3x3 convolution over 512
    # channels (27 * 512 = 13824), unfolded along the columns or along the depth.
    shapes = [(4096, 512, 13824), (4096, 13824, 512), (2048, 2048, 2048), (4096, 4096, 4096)]
    rates = {}
    with torch.inference_mode():
        for label, dtype in DTYPES.items():
            for m, k, n in shapes:
                a = torch.randn(m, k).to(dtype)
                b = torch.randn(k, n).to(dtype)
                out = torch.empty(m, n, dtype=dtype)
                seconds = best_seconds(lambda: torch.mm(a, b, out=out), args.repeat)
                rates[f"matmul_{label}_{m}x{k}x{n}_gflops"] = round(2e-9 * m * k * n / seconds, 1)
        # 512 MiB each way: more than any cache.
        a = torch.ones(128 << 20)
        b = torch.empty_like(a).fill_(0)
        seconds = best_seconds(lambda: b.copy_(a), args.repeat)
        rates["copy_read_plus_write_gb_s"] = round(2 * 4 * a.numel() / seconds / 1e9, 2)
    report = {"engine": "torch", "torch": torch.__version__, "threads": torch.get_num_threads(), **rates}
    print(json.dumps(report, indent=None if args.json else 2), flush=True)
    return 0


def main():
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", choices=CONFIGS, default="full")
    common.add_argument("--dtype", choices=DTYPES, default="f32")
    common.add_argument("--layout", choices=LAYOUTS, default="channels_last_3d")
    common.add_argument("--threads", type=int, default=2)
    common.add_argument("--frames", type=int, default=5, help="video frames, 4n + 1")
    common.add_argument("--height", type=int, default=256)
    common.add_argument("--width", type=int, default=256)
    common.add_argument("--what", choices=HALVES, default="decode")
    common.add_argument("--slice", type=int, default=0, help="video frames per slice, 0 = unsliced")
    common.add_argument("--repeat", type=int, default=3)
    common.add_argument("--warmup", type=int, default=1)
    common.add_argument("--json", action="store_true", help="one line instead of indented")
    common.add_argument("--cache", help="prefix of the files that keep the formula weights")

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    check = modes.add_parser("check", parents=[common])
    check.add_argument("golden")
    check.add_argument("--configs", default="tiny,full")
    check.add_argument("--tolerance", type=float, default=5e-5)
    check.set_defaults(call=mode_check)
    modes.add_parser("bench", parents=[common]).set_defaults(call=mode_bench)
    modes.add_parser("serve", parents=[common]).set_defaults(call=mode_serve)
    modes.add_parser("limits", parents=[common]).set_defaults(call=mode_limits)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    sys.exit(args.call(args))


if __name__ == "__main__":
    main()
