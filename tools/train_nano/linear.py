"""The VAE begun as a linear transform: the principal components of blocks of 4 frames of 8 x 8 pixels.

    linear.py --pictures DIR --state STATE [--clips DIR --cache DIR --curve CSV]

Shortcuts carry the picture and the blocks of the network add nothing, so that it is a transform of blocks of pixels in
two steps: 16 components of 2 frames of 4 x 4 pixels, then 28 of the 2 x 2 x 2 neighbours of those. The two layers that
no shortcut goes around are a norm and SiLU. A channel pair of a large constant makes the norm divide by the same number
for every picture, and silu(x) - silu(-x) = x.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import data
from model import Mid, Resnet, Vae
from train import append, save

WIDTHS, GROUPS, LATENT = (16, 16, 32, 64), 4, 28
# Components of a block of 2 frames of 4 x 4 pixels.
INNER = 16
# The constants, and what components are divided by beside the one of the encoder.
CONSTANT, LARGE = 64.0, 16.0
# How much a clip that stands still counts: the first latent of a clip holds one frame.
STILL = 0.3


def blocks(x):
    """[n, c, t, h, w] to [n, 8 c, t/2, h/2, w/2]: time, then rows, then columns, then channels fastest."""
    n, c, t, h, w = x.shape
    x = x.reshape(n, c, t // 2, 2, h // 2, 2, w // 2, 2)
    return x.permute(0, 3, 5, 7, 1, 2, 4, 6).reshape(n, 8 * c, t // 2, h // 2, w // 2)


def quarters(x):
    """[n, 3, t, h, w] to [n, 12, t, h/2, w/2]."""
    n, c, t, h, w = x.shape
    x = x.reshape(n, c, t, h // 2, 2, w // 2, 2)
    return x.permute(0, 4, 6, 1, 2, 3, 5).reshape(n, 4 * c, t, h // 2, w // 2)


def components(spread, count, flat):
    """Orthonormal rows, and the deviation of what they give. Those of `flat`, turned, come first: a block of one colour
    is to come back exactly, or smooth pictures would show the blocks. The mean is not removed: middle grey is zero."""
    _, turn = torch.linalg.eigh(flat @ spread @ flat.T)
    flat = turn.flip(1).T @ flat
    rest = torch.eye(len(spread)) - flat.T @ flat
    _, vectors = torch.linalg.eigh(rest @ spread @ rest)
    rows = torch.cat([flat, vectors.flip(1)[:, : count - len(flat)].T])
    return rows.float(), (rows @ spread @ rows.T).diagonal().sqrt().float()


def spread(clips, change):
    """Mean of the products of all values of a block, over blocks of the clips and of clips that stand still."""
    total = 0.0
    for i, clip in enumerate(clips):
        # Neither side is preferred.
        clip = clip.flip([[], [2], [3], [2, 3]][i % 4])
        for part, x in ((1.0, clip[None]), (STILL, clip[None, :, :1].expand(-1, -1, 4, -1, -1))):
            x = change(x).transpose(0, 1).flatten(1)
            total = total + (part / x.shape[1] * x @ x.T).double()
    return total / (len(clips) * (1.0 + STILL))


def transforms(clips):
    """Both steps from clips [3, 4 k, h, w]: rows of components, and the deviations of the last."""
    small = lambda x: blocks(quarters(x))
    colours = torch.eye(3).double()
    first, _ = components(spread(clips, small), INNER, colours.repeat(1, 32) / 32**0.5)
    inner = lambda x: blocks(torch.einsum("oc,ncthw->nothw", first, small(x)))
    colours = F.pad(colours, (0, INNER - 3))
    return first, *components(spread(clips, inner), LATENT, colours.repeat(1, 8) / 8**0.5)


@torch.no_grad()
def begun(first, second, deviation):
    """The network. Weights of the blocks that add nothing stay as they were drawn."""
    a, b, c, d = WIDTHS
    vae = Vae(WIDTHS, GROUPS, LATENT)
    for module in vae.modules():
        if isinstance(module, Resnet):
            module.conv2.weight.zero_()
            if hasattr(module, "conv_shortcut"):
                module.conv_shortcut.weight.zero_()
        if isinstance(module, Mid):
            module.attentions[0].to_out[0].weight.zero_()
            module.attentions[0].to_out[0].bias.zero_()

    def only(conv, rows):
        """[outputs, inputs] at this frame and place."""
        conv.weight.zero_()
        middle = conv.weight.shape[-1] // 2
        conv.weight[: rows.shape[0], : rows.shape[1], -1, middle, middle] = rows

    coder, maker = vae.encoder, vae.decoder
    only(coder.conv_in, torch.eye(3))
    down = [stage.downsamplers[0].conv for stage in list(coder.down_blocks)[:3]]
    for conv in down:
        conv.weight.zero_()
    for y in range(2):
        for x in range(2):
            for k in range(3):
                down[0].weight[(2 * y + x) * 3 + k, k, 0, y, x] = 1.0
    for conv, rows, inputs in ((down[1], first, 12), (down[2], second / LARGE, INNER)):
        # The older of the three frames belongs to the block before.
        taps = rows.view(len(rows), 2, 2, 2, inputs).permute(0, 4, 1, 2, 3)
        conv.weight[: len(rows), :inputs, 1:, :2, :2] = taps
    only(coder.down_blocks[2].resnets[0].conv_shortcut, torch.eye(INNER))
    # Each group of the norm has 7 components and their negatives, and the two constants.
    each = LATENT // GROUPS
    pairs = torch.zeros(d, LATENT)
    for i in range(LATENT):
        at = d // GROUPS * (i % GROUPS) + 2 * (i // GROUPS)
        pairs[at, i], pairs[at + 1, i] = 1.0, -1.0
    enter = coder.down_blocks[3].resnets[0].conv_shortcut
    only(enter, pairs)
    for group in range(GROUPS):
        at = d // GROUPS * group + 2 * each
        enter.bias[at], enter.bias[at + 1] = CONSTANT, -CONSTANT
    coder.conv_norm_out.weight.fill_(CONSTANT * (2.0 * GROUPS / d) ** 0.5)
    only(coder.conv_out, pairs.T * (LARGE / deviation)[:, None])
    # A deviation of 1 %, were it drawn from.
    coder.conv_out.bias[LATENT:] = -9.2

    only(maker.conv_in, torch.diag(deviation))
    for stage, rows, width, inputs in ((0, second, d, INNER), (1, first, c, 12)):
        up = maker.up_blocks[stage].upsamplers[0]
        only(up.conv, torch.eye(width))
        up.upscale_conv.weight.zero_()
        # Outputs go by rows, columns, time, channel.
        out = up.upscale_conv.weight.view(2, 2, 2, width, width)
        out[:, :, :, :inputs, : len(rows)] = rows.view(len(rows), 2, 2, 2, inputs).permute(2, 3, 1, 4, 0)
    only(maker.up_blocks[1].resnets[0].conv_shortcut, torch.eye(INNER))
    only(maker.up_blocks[2].resnets[0].conv_shortcut, torch.eye(12))
    up = maker.up_blocks[2].upsamplers[0]
    up.upscale_conv.weight.zero_()
    up.upscale_conv.weight.view(2, 2, b, b)[:, :, :3, :12] = torch.eye(12).view(2, 2, 3, 12)
    # At last each colour, its negative and two constants are a group.
    colours = torch.zeros(a, 3)
    for k in range(3):
        colours[4 * k, k], colours[4 * k + 1, k] = 1.0, -1.0
    only(up.conv, colours)
    up.conv.bias.view(4, 4)[:, 2:] = torch.tensor([CONSTANT, -CONSTANT])
    maker.conv_norm_out.weight.fill_(CONSTANT / 2**0.5)
    only(maker.conv_out, colours.T)
    return vae


def samples(folder):
    """Good clips of the shards, up to eight frames behind the first: a quarter of all is plenty."""
    for path in sorted(folder.glob("*.safetensors"))[::2]:
        for clip in load_file(path)["good"][::2]:
            yield clip[:, 1:9].float() / 127.5 - 1.0


def latents(clip, first, second, deviation):
    """What the encoder gives for [3, 4 k + 1, h, w], without the network: [t, h/8, w/8, c]."""
    clip = torch.cat([clip[:, :1].expand(-1, 3, -1, -1), clip], dim=1)[None]
    inner = blocks(torch.einsum("oc,ncthw->nothw", first, blocks(quarters(clip))))
    found = torch.einsum("oc,ncthw->nothw", second, inner)[0] / deviation.view(-1, 1, 1, 1)
    return found.permute(1, 2, 3, 0).contiguous()


def by_channels(windows, first, second, deviation):
    """Mean PSNR of windows with the first channels only, for each number of them. Frames 1 to 16: whole blocks."""
    curves = []
    for window in windows:
        whole = window[:, 1:17].square().sum()
        held = (latents(window[:, :17], first, second, deviation)[1:] * deviation).square().sum((0, 1, 2)).cumsum(0)
        curves.append(10.0 * torch.log10(4.0 * window[:, 1:17].numel() / (whole - held)))
    return torch.stack(curves).mean(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pictures", type=Path, required=True, help="shards of pairs.py")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--clips", type=Path, help="for the curve of the held-out clips")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--curve", type=Path)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    found = transforms(list(samples(args.pictures)))
    vae = begun(*found)
    values = vae.state_dict()
    about = dict(widths=vae.widths, groups=vae.groups, latent=vae.latent, step=0, spent=0.0, of_clips=True)
    save(args.state, model=values, smooth=values, transforms=found, **about)
    if args.curve:
        held = [by_channels(windows, *found) for windows in data.held_clips(args.clips, args.cache).values()]
        for i, values in enumerate(zip(*held)):
            append(args.curve, {"channels": i + 1, "cockatoo": round(values[0].item(), 3), "launch": round(values[1].item(), 3)})


if __name__ == "__main__":
    main()
