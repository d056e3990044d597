"""The diffusion transformer of the SeedVR2 3B kind, small, with the tensor names of the public checkpoint.

Clips of one size go through together: tokens are [b, n, channel], text is [b, rows, channel]. Blocks below
`separate` have weights for video and for text, the others share them. The network makes one step, at time 1000.
"""

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn

EPS = 1e-5
PATCH = 2
TIME, STEP = 256, 1000.0
# Tokens of a 720p picture, which decide the size of a window.
ROWS, COLUMNS = 45, 80
# What a constant channel holds at the start, see `Dit.begin`.
CONSTANT = 3200.0
# Deviation of the scaled latents. Noise has one of 1, so they can be read out of noise minus latent.
DEVIATION = 16.0


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
    scale = math.sqrt(ROWS * COLUMNS / (h * w))
    sizes = (math.ceil(min(t, 30) / 4), math.ceil(round(h * scale) / 3), math.ceil(round(w * scale) / 3))
    frames, rows, columns = (window_cuts(n, size, shifted) for n, size in zip(grid, sizes))
    return [(f, r, c) for c in columns for r in rows for f in frames]


def turns(head, positions):
    """Cosine and sine that rotate tokens at `positions` [n, 3]: [n, head] each, equal for both of a pair."""
    count = head // 3 // 2
    frequencies = 1.0 / 10000.0 ** (torch.arange(0, 2 * count, 2).float() / (2 * count))
    angles = torch.zeros(len(positions), head // 2)
    angles[:, : 3 * count] = (positions[:, :, None] * frequencies).reshape(len(positions), -1)
    angles = angles.repeat_interleave(2, dim=1)
    return angles.cos(), angles.sin()


class Layout:
    """The order of the tokens by windows, the way back, the length of each, and what rotates them."""

    def __init__(self, head, grid, shifted, words):
        index = torch.arange(math.prod(grid)).reshape(grid)
        order, places, self.lengths = [], [], []
        for (t0, t1), (y0, y1), (x0, x1) in windows(grid, shifted):
            order.append(index[t0:t1, y0:y1, x0:x1].reshape(-1))
            # The text stands before the first frame.
            axes = [torch.arange(n).float() for n in (t1 - t0, y1 - y0, x1 - x0)]
            axes[0] += words
            places.append(torch.cartesian_prod(*axes))
            self.lengths.append(len(order[-1]))
        self.order = torch.cat(order)
        self.back = torch.argsort(self.order)
        self.turns = turns(head, torch.cat(places))


@functools.lru_cache(maxsize=64)
def layout(head, grid, shifted, words):
    return Layout(head, grid, shifted, words)


@functools.lru_cache(maxsize=8)
def text_turns(head, words):
    return turns(head, torch.arange(words).float()[:, None].expand(-1, 3))


def rms(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)


def rotated(x, weight, rotation):
    """Norm over the channels of a head, then the rotation of neighbouring pairs: [b, n, heads, head]."""
    cosine, sine = rotation
    y = rms(x) * weight
    turned = torch.stack([-y[..., 1::2], y[..., ::2]], dim=-1).flatten(-2)
    return y * cosine[:, None] + turned * sine[:, None]


def by_stream(names, make):
    return nn.ModuleDict({name: make() for name in names})


class Weight(nn.Module):
    """One vector called `weight`."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))


class Rope(nn.Module):
    """Files of the public network hold the table of the rotation. It is computed; the name only has to be there."""

    def __init__(self, head):
        super().__init__()
        count = head // 3 // 2
        self.rope = nn.Module()
        frequencies = 1.0 / 10000.0 ** (torch.arange(0, 2 * count, 2).float() / (2 * count))
        self.rope.register_buffer("freqs", frequencies)


class Attention(nn.Module):
    def __init__(self, width, head, streams):
        super().__init__()
        self.head, self.heads = head, width // head
        self.proj_qkv = by_stream(streams, lambda: nn.Linear(width, 3 * width, bias=False))
        self.proj_out = by_stream(streams, lambda: nn.Linear(width, width))
        self.norm_q = by_stream(streams, lambda: Weight(head))
        self.norm_k = by_stream(streams, lambda: Weight(head))
        self.rope = Rope(head)

    def projected(self, x, stream, rotation):
        q, k, v = self.proj_qkv[stream](x).unflatten(-1, (3, self.heads, self.head)).unbind(2)
        q = rotated(q, self.norm_q[stream].weight, rotation)
        k = rotated(k, self.norm_k[stream].weight, rotation)
        return [part.transpose(1, 2) for part in (q, k, v)]

    def forward(self, x, text, video, words, grid, shifted):
        """Each window sees itself and the text. What the text sees is averaged over the windows."""
        where = layout(self.head, grid, shifted, text.shape[1])
        ordered = x if len(where.lengths) == 1 else x[:, where.order]
        q, k, v = (part.split(where.lengths, dim=2) for part in self.projected(ordered, video, where.turns))
        tq, tk, tv = self.projected(text, words, text_turns(self.head, text.shape[1]))
        seen, read = [], 0.0
        for q, k, v, n in zip(q, k, v, where.lengths):
            parts = (torch.cat(pair, dim=2) for pair in ((q, tq), (k, tk), (v, tv)))
            y = F.scaled_dot_product_attention(*parts)
            seen.append(y[:, :, :n])
            read = read + y[:, :, n:]
        y = torch.cat(seen, dim=2).transpose(1, 2).flatten(2)
        y = y if len(where.lengths) == 1 else y[:, where.back]
        read = (read / len(seen)).transpose(1, 2).flatten(2)
        return self.proj_out[video](y), self.proj_out[words](read)


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.proj_in_gate = nn.Linear(width, hidden, bias=False)
        self.proj_out = nn.Linear(hidden, width, bias=False)
        self.proj_in = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return self.proj_out(F.silu(self.proj_in_gate(x)) * self.proj_in(x))


class Ada(nn.Module):
    """Shift, scale and gate around attention and around the MLP, added to those of the time."""

    def __init__(self, width):
        super().__init__()
        for layer in ("attn", "mlp"):
            self.register_parameter(f"{layer}_shift", nn.Parameter(torch.zeros(width)))
            self.register_parameter(f"{layer}_scale", nn.Parameter(torch.ones(width)))
            self.register_parameter(f"{layer}_gate", nn.Parameter(torch.ones(width)))

    def around(self, layer, time):
        at = 3 * ("attn", "mlp").index(layer)
        parts = ("shift", "scale", "gate")
        return [getattr(self, f"{layer}_{part}") + time[:, at + i] for i, part in enumerate(parts)]


class Block(nn.Module):
    def __init__(self, width, head, hidden, separate, shifted, last):
        super().__init__()
        names = ("vid", "txt") if separate else ("all",)
        self.video, self.words = names[0], names[-1]
        # Behind the last block nobody looks at the text, and it is not modulated.
        self.shifted, self.last = shifted, last
        seen = names[:1] if last else names
        self.attn = Attention(width, head, names)
        self.mlp = by_stream(seen, lambda: Mlp(width, hidden))
        self.ada = by_stream(seen, lambda: Ada(width))

    def forward(self, x, text, time, grid):
        shift, scale, gate = self.ada[self.video].around("attn", time)
        y, words = rms(x) * scale + shift, rms(text)
        if not self.last:
            text_shift, text_scale, text_gate = self.ada[self.words].around("attn", time)
            words = words * text_scale + text_shift
        y, words = self.attn(y, words, self.video, self.words, grid, self.shifted)
        x = x + y * gate
        x = self.add_mlp(x, self.video, time)
        if not self.last:
            text = self.add_mlp(text + words * text_gate, self.words, time)
        return x, text

    def add_mlp(self, x, stream, time):
        shift, scale, gate = self.ada[stream].around("mlp", time)
        return x + self.mlp[stream](rms(x) * scale + shift) * gate


class Time(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj_in = nn.Linear(TIME, width)
        self.proj_hid = nn.Linear(width, width)
        self.proj_out = nn.Linear(width, 6 * width)

    def forward(self, step):
        """[width, 6]: the slot is the fastest axis."""
        angles = step * torch.exp(-math.log(10000.0) * torch.arange(TIME // 2).float() / (TIME // 2))
        x = torch.cat([angles.sin(), angles.cos()])
        x = F.silu(self.proj_hid(F.silu(self.proj_in(x))))
        return self.proj_out(x).view(-1, 6)


class Projected(nn.Module):
    """One linear layer called `proj`."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.proj = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.proj(x)


class OutAda(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out_shift = nn.Parameter(torch.zeros(width))
        self.out_scale = nn.Parameter(torch.ones(width))


class Dit(nn.Module):
    def __init__(self, latent=28, width=192, head=32, layers=4, separate=1, hidden=512, text=64, rows=4):
        super().__init__()
        self.sizes = dict(
            latent=latent,
            width=width,
            head=head,
            layers=layers,
            separate=separate,
            hidden=hidden,
            text=text,
            rows=rows,
        )
        # Blocks in 16 bits, for speed.
        self.bf16 = False
        self.vid_in = Projected((2 * latent + 1) * PATCH**2, width)
        self.txt_in = nn.Linear(text, width)
        self.emb_in = Time(width)
        blocks = [
            Block(width, head, hidden, i < separate, i % 2 == 1, i + 1 == layers) for i in range(layers)
        ]
        self.blocks = nn.ModuleList(blocks)
        self.vid_out_norm = Weight(width)
        self.vid_out_ada = OutAda(width)
        self.vid_out = Projected(width, latent * PATCH**2)
        self.positive_conditioning = nn.Parameter(torch.randn(rows, text))

    def forward(self, cells, step=STEP, text=None):
        """[b, t, h, w, 2 latent + 1] to [b, t, h, w, latent]."""
        tokens, grid = patched(cells)
        time = self.emb_in(step)
        text = self.txt_in(self.positive_conditioning if text is None else text)
        text = text.expand(len(tokens), -1, -1)
        x = self.vid_in(tokens)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            for block in self.blocks:
                x, text = block(x, text, time, grid)
        # The head uses the slots of attention: the original caches both under one name.
        x = rms(x) * self.vid_out_norm.weight
        x = x * (self.vid_out_ada.out_scale + time[:, 1]) + self.vid_out_ada.out_shift + time[:, 0]
        return unpatched(self.vid_out(x), grid)

    def restored(self, noise, latent):
        """One step from `noise` with the scaled latent of the input: [b, t, h, w, latent] each."""
        one = torch.ones_like(noise[..., :1])
        return noise - self(torch.cat([noise, latent, one], dim=-1))

    @torch.no_grad()
    def begin(self, change=None, bias=None, weights=None):
        """Starts as a linear network: it gives the latents of a token back, or `latents + change @ latents + bias`.

        The first channels of a token hold noise minus latent, which is what the head is to give. The last one is a large
        constant, so that the norm before the head divides by nearly the same number everywhere. The others hold what
        the change needs most of the latent, where `weights` says how much each value counts. Blocks add nothing at first.
        """
        latent, width = self.sizes["latent"], self.sizes["width"]
        values, cell = latent * PATCH**2, 2 * latent + 1
        others = min(values, width - values - 1)
        size = math.sqrt((CONSTANT**2 + values * (DEVIATION**2 + 1.0) + others * DEVIATION**2) / width)
        change = torch.zeros(values, values) if change is None else change
        bias = torch.zeros(values) if bias is None else bias
        weights = torch.ones(values) if weights is None else weights
        u, s, v = torch.linalg.svd(weights[:, None] * change)
        enter, leave = self.vid_in.proj, self.vid_out.proj
        for part in (enter.weight, enter.bias, leave.weight):
            part.zero_()
        leave.bias.copy_(-DEVIATION * bias)
        cells = enter.weight.view(width, PATCH**2, cell)
        same = torch.eye(values).view(values, PATCH**2, latent)
        cells[:values, :, :latent] = same
        cells[:values, :, latent : 2 * latent] = -same
        cells[values : values + others, :, latent : 2 * latent] = v[:others].view(others, PATCH**2, latent)
        leave.weight[:, :values] = torch.eye(values)
        leave.weight[:, values : values + others] = -(u * s)[:, :others] / weights[:, None]
        enter.weight[-1] = 0.0
        enter.bias[-1] = CONSTANT
        scale = torch.full((width,), size)
        scale[-1] = size / CONSTANT
        self.emb_in.proj_out.weight.mul_(0.1)
        self.emb_in.proj_out.bias.zero_()
        time = self.emb_in(STEP)
        self.vid_out_ada.out_scale.copy_(scale - time[:, 1])
        self.vid_out_ada.out_shift.copy_(-time[:, 0])
        for block in self.blocks:
            for stream, ada in block.ada.items():
                if stream != "txt":
                    # What the blocks read has a deviation of 1.
                    ada.attn_scale.copy_(scale / DEVIATION)
                    ada.mlp_scale.copy_(scale / DEVIATION)
                block.mlp[stream].proj_out.weight.zero_()
            for out in block.attn.proj_out.values():
                out.weight.zero_()
                out.bias.zero_()


def patched(cells):
    """[b, t, h, w, c] to [b, t * h/2 * w/2, 4 c]."""
    b, t, h, w, c = cells.shape
    cells = cells.reshape(b, t, h // PATCH, PATCH, w // PATCH, PATCH, c)
    return cells.permute(0, 1, 2, 4, 3, 5, 6).reshape(b, -1, PATCH**2 * c), (t, h // PATCH, w // PATCH)


def unpatched(tokens, grid):
    t, h, w = grid
    cells = tokens.reshape(len(tokens), t, h, w, PATCH, PATCH, -1).permute(0, 1, 2, 4, 3, 5, 6)
    return cells.reshape(len(tokens), t, h * PATCH, w * PATCH, -1)
