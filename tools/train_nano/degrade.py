"""What is done to a clip before it is restored, in training and in the held-out table.

Half the size by area, Gaussian noise of 8/255, x264 at crf 35, and bicubic back to the size.
"""

import subprocess

import numpy as np
import torch
import torch.nn.functional as F

from data import to_values

NOISE, CRF = 8.0, 35


def through_x264(pictures):
    """uint8 [t, h, w, 3] through the encoder and back, 4:2:0."""
    frames, height, width = pictures.shape[:3]
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
    quiet = ["ffmpeg", "-v", "error", "-threads", "1"]
    encode = [*quiet, *raw, "-r", "24", "-i", "-", "-c:v", "libx264", "-threads", "1", "-crf", str(CRF)]
    encode += ["-pix_fmt", "yuv420p", "-f", "h264", "-"]
    coded = subprocess.run(encode, input=pictures.tobytes(), capture_output=True, check=True).stdout
    decode = [*quiet, "-f", "h264", "-i", "-", "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    values = subprocess.run(decode, input=coded, capture_output=True, check=True).stdout
    return np.frombuffer(values, np.uint8).reshape(frames, height, width, 3)


def degraded(clip, seed):
    """A clip [3, t, h, w] in [-1, 1] of even size, made worse; the same for the same seed."""
    random = torch.Generator().manual_seed(seed)
    small = F.interpolate(clip.transpose(0, 1), scale_factor=0.5, mode="area")
    small = (small + 1.0) * 127.5 + NOISE * torch.randn(small.shape, generator=random)
    small = small.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    back = to_values(through_x264(small.numpy())).transpose(0, 1)
    large = F.interpolate(back, clip.shape[2:], mode="bicubic", align_corners=False)
    return large.clamp(-1.0, 1.0).transpose(0, 1).contiguous()
