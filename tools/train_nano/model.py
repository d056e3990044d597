"""The SeedVR2 video VAE at a small width, for training.

Module names are the tensor names of the public checkpoint, so the state dict is the file. Clips are
folded into the batch: activations are [clips * frames, channels, height, width], which makes the
per-frame norm and attention plain 2-D operations.
"""

import torch
import torch.nn.functional as F
from torch import nn

EPS = 1e-6


class CausalConv(nn.Module):
    """Sees this frame and the ones before; the first frame is repeated in front of the clip."""

    def __init__(self, inputs, outputs, kernel=3, kernel_t=3, stride=1, stride_t=1, padding=1, gain=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, kernel_t, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.stride, self.stride_t, self.padding = stride, stride_t, padding
        self.kernel_t = kernel_t
        bound = gain / (inputs * kernel * kernel) ** 0.5
        with torch.no_grad():
            # A picture model at first: the newest frame carries everything, and the older ones grow in clips.
            self.weight[:, :, -1].uniform_(-bound, bound)

    def forward(self, x, frames):
        if self.kernel_t == 1:
            return F.conv2d(x, self.weight[:, :, 0], self.bias, self.stride, self.padding), frames
        if frames == 1:
            # All taps see the same frame, so their sum does the work in a third of the time. Only the newest
            # learns from it: with equal shares every layer becomes a mean over time, and moving clips smear.
            weight = self.weight[:, :, -1] + self.weight[:, :, :-1].detach().sum(2)
            return F.conv2d(x, weight, self.bias, self.stride, self.padding), 1
        clip = x.unflatten(0, (-1, frames)).transpose(1, 2)
        clip = torch.cat([clip[:, :, :1], clip[:, :, :1], clip], dim=2)
        stride = (self.stride_t, self.stride, self.stride)
        y = F.conv3d(clip, self.weight, self.bias, stride, (0, self.padding, self.padding))
        return y.transpose(1, 2).flatten(0, 1), y.shape[2]


    @torch.no_grad()
    def begin_clips(self):
        if self.kernel_t == 3:
            shares = torch.tensor([0.0, 0.4, 0.6] if self.stride_t == 2 else [0.0, 0.0, 1.0])
            self.weight.copy_(self.weight.sum(2, keepdim=True) * shares.view(1, 1, 3, 1, 1))


class PointConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, 1, 1, 1))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.uniform_(self.weight, -(inputs**-0.5), inputs**-0.5)

    def forward(self, x):
        return F.conv2d(x, self.weight[:, :, 0], self.bias)


class Norm(nn.GroupNorm):
    """In 32 bits, whatever the layers around it have: the gradient of the 16-bit one is slow."""

    def forward(self, x):
        return super().forward(x.float())


def norm(channels, groups):
    return Norm(groups, channels, eps=EPS)


class Resnet(nn.Module):
    def __init__(self, inputs, outputs, groups):
        super().__init__()
        self.norm1 = norm(inputs, groups)
        self.conv1 = CausalConv(inputs, outputs, gain=1.7)
        self.norm2 = norm(outputs, groups)
        # Small, so that the untrained network is close to its shortcuts.
        self.conv2 = CausalConv(outputs, outputs, gain=0.2)
        if inputs != outputs:
            self.conv_shortcut = PointConv(inputs, outputs)

    def forward(self, x, frames):
        h, _ = self.conv1(F.silu(self.norm1(x)), frames)
        h, _ = self.conv2(F.silu(self.norm2(h)), frames)
        return (self.conv_shortcut(x) if hasattr(self, "conv_shortcut") else x) + h


class Attention(nn.Module):
    """One head over all places of a frame."""

    def __init__(self, channels, groups):
        super().__init__()
        self.group_norm = norm(channels, groups)
        self.to_q = nn.Linear(channels, channels)
        self.to_k = nn.Linear(channels, channels)
        self.to_v = nn.Linear(channels, channels)
        self.to_out = nn.ModuleList([nn.Linear(channels, channels)])
        nn.init.normal_(self.to_out[0].weight, std=0.01)

    def forward(self, x):
        y = self.group_norm(x).flatten(2).transpose(1, 2).unsqueeze(1)
        y = F.scaled_dot_product_attention(self.to_q(y), self.to_k(y), self.to_v(y))
        y = self.to_out[0](y.squeeze(1))
        return x + y.transpose(1, 2).unflatten(2, x.shape[2:])


class Mid(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.resnets = nn.ModuleList([Resnet(channels, channels, groups) for _ in range(2)])
        self.attentions = nn.ModuleList([Attention(channels, groups)])

    def forward(self, x, frames):
        return self.resnets[1](self.attentions[0](self.resnets[0](x, frames)), frames)


class Down(nn.Module):
    def __init__(self, channels, time):
        super().__init__()
        self.conv = CausalConv(channels, channels, 3, 3 if time else 1, 2, 2 if time else 1, 0)

    def forward(self, x, frames):
        return self.conv(F.pad(x, (0, 1, 0, 1)), frames)


class Up(nn.Module):
    def __init__(self, channels, time):
        super().__init__()
        self.time = 2 if time else 1
        self.upscale_conv = PointConv(channels, channels * 4 * self.time)
        self.conv = CausalConv(channels, channels)
        with torch.no_grad():
            # Every new pixel starts as a copy of its parent.
            copies = torch.eye(channels).repeat(4 * self.time, 1)
            self.upscale_conv.weight.copy_(copies[:, :, None, None, None])

    @torch.no_grad()
    def begin_clips(self):
        if self.time == 2:
            # Pictures use the first of two frames only; the second starts as its copy.
            for tensor in (self.upscale_conv.weight, self.upscale_conv.bias):
                pairs = tensor.view(4, 2, -1)
                pairs[:, 1] = pairs[:, 0]

    def forward(self, x, frames):
        count, channels, height, width = x.shape
        z = self.time
        y = self.upscale_conv(x).view(count, 2, 2, z, channels, height, width)
        y = y.permute(0, 3, 4, 5, 1, 6, 2).reshape(count // frames, frames * z, channels, 2 * height, 2 * width)
        if z == 2:
            # The first frame has no second copy: 2 t - 1 frames come out.
            y = torch.cat([y[:, :1], y[:, 2:]], dim=1)
        frames = y.shape[1]
        y = y.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        return self.conv(y, frames)


class Stage(nn.Module):
    def __init__(self, inputs, outputs, resnets, groups, down=None, up=None):
        super().__init__()
        widths = [inputs] + [outputs] * resnets
        self.resnets = nn.ModuleList([Resnet(a, b, groups) for a, b in zip(widths, widths[1:])])
        if down is not None:
            self.downsamplers = nn.ModuleList([Down(outputs, down)])
        if up is not None:
            self.upsamplers = nn.ModuleList([Up(outputs, up)])

    def forward(self, x, frames):
        for resnet in self.resnets:
            x = resnet(x, frames)
        for change in [*getattr(self, "downsamplers", []), *getattr(self, "upsamplers", [])]:
            x, frames = change(x, frames)
        return x, frames


class Encoder(nn.Module):
    def __init__(self, widths, groups, latent):
        super().__init__()
        a, b, c, d = widths
        self.conv_in = CausalConv(3, a)
        self.down_blocks = nn.ModuleList(
            [
                Stage(a, a, 2, groups, down=False),
                Stage(a, b, 2, groups, down=True),
                Stage(b, c, 2, groups, down=True),
                Stage(c, d, 2, groups),
            ]
        )
        self.mid_block = Mid(d, groups)
        self.conv_norm_out = norm(d, groups)
        self.conv_out = CausalConv(d, 2 * latent)

    def forward(self, x, frames):
        x, frames = self.conv_in(x, frames)
        for stage in self.down_blocks:
            x, frames = stage(x, frames)
        x = self.mid_block(x, frames)
        return self.conv_out(F.silu(self.conv_norm_out(x)), frames)


class Decoder(nn.Module):
    def __init__(self, widths, groups, latent):
        super().__init__()
        a, b, c, d = widths
        self.conv_in = CausalConv(latent, d)
        self.mid_block = Mid(d, groups)
        self.up_blocks = nn.ModuleList(
            [
                Stage(d, d, 3, groups, up=True),
                Stage(d, c, 3, groups, up=True),
                Stage(c, b, 3, groups, up=False),
                Stage(b, a, 3, groups),
            ]
        )
        self.conv_norm_out = norm(a, groups)
        self.conv_out = CausalConv(a, 3)

    def forward(self, x, frames):
        x, frames = self.conv_in(x, frames)
        x = self.mid_block(x, frames)
        for stage in self.up_blocks:
            x, frames = stage(x, frames)
        return self.conv_out(F.silu(self.conv_norm_out(x)), frames)


class Vae(nn.Module):
    def __init__(self, widths=(16, 32, 64, 64), groups=4, latent=16):
        super().__init__()
        self.widths, self.groups, self.latent = tuple(widths), groups, latent
        self.encoder = Encoder(widths, groups, latent)
        self.decoder = Decoder(widths, groups, latent)

    def begin_clips(self):
        """Turns a network that was trained on pictures into one for clips: nearly every frame by itself, and
        the mean of neighbours where time is halved. Worth 2.5 dB on moving clips by itself."""
        for module in self.modules():
            if isinstance(module, (CausalConv, Up)):
                module.begin_clips()

    def encode(self, clip):
        """Clips [b, 3, t, h, w] to mean and log-variance [b, latent, t', h/8, w/8]."""
        moments = over_frames(self.encoder, clip)
        mean, logvar = moments.chunk(2, dim=1)
        return mean, logvar.clamp(-30, 20)

    def decode(self, latent):
        return over_frames(self.decoder, latent)

    def forward(self, clip):
        """The decoded clip from a sampled latent, mean and log-variance."""
        mean, logvar = self.encode(clip)
        latent = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
        return self.decode(latent), mean, logvar


def over_frames(half, x):
    frames = x.shape[2]
    x = x.transpose(1, 2).flatten(0, 1).contiguous(memory_format=torch.channels_last)
    y, frames = half(x, frames)
    return y.unflatten(0, (-1, frames)).transpose(1, 2).float()
