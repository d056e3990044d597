"""The round trip and its PSNR."""

import math

import torch


@torch.no_grad()
def roundtrip(model, clip):
    """Encoded to the mean and decoded, clipped to the range of pictures."""
    mean, _ = model.encode(clip)
    return model.decode(mean).clamp(-1.0, 1.0)


def psnr_of(made, wanted):
    """In dB for values that span 2, over all frames together; infinite if they are equal."""
    error = (made - wanted).square().mean().item()
    return 10.0 * math.log10(4.0 / error) if error else math.inf
