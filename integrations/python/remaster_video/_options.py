"""Options of commands. Written by generate.py out of `remaster generate options --json`: do not edit."""

from __future__ import annotations

import os
from typing import Dict, List, Literal, Tuple, TypedDict, Union

StrPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
# Words may also be numbers, such as a resolution, or files, such as a model.
Text = Union[str, int, float, "os.PathLike[str]"]


class CommonOptions(TypedDict, total=False):
    """Options of every command."""

    model: Text
    "Model: 3b, 7b, 7b-sharp, anime, or a model file [default: 3b]."

    vae: Text
    "VAE file [default: the installed one]."

    text: StrPath
    "Text embedding [default: inside the model, or pos_emb.pt]."

    model_dir: StrPath
    "Search this folder first."

    seed: int
    "Random seed; the same seed gives the same result [default: 42]."

    softness: float
    "Soften input that is blurrier than its size, 0 to 1 [default: 0]."

    scenes: Text
    "Where shots begin: auto, none, or a `remaster scenes` list [default: auto]."

    window: int
    "Frames the transformer sees at once [default: 45]."

    input_noise: float
    "Add noise to the input, 0 to 1 [default: 0]."

    latent_noise: float
    "Add noise to the latents that guide the transformer, 0 to 1 [default: 0]."

    strength: float
    "Blend between the input (0) and the restored picture (1) [default: 1]."

    color: Literal["lab", "wavelet", "wavelet_adaptive", "hsv", "adain", "none"]
    "Colours: lab, wavelet, wavelet_adaptive, hsv, adain or none."

    color_pool: Literal["frame", "window", "shot"]
    "Match colours per frame, window or shot [default: frame]."

    dither: bool
    "Dither instead of rounding."

    ss: Text
    "Start at TIME, in seconds (90.5) or as 1:30.5."

    to: Text
    "End at TIME (exclusive), counted like --ss."

    vf: Text
    "ffmpeg filters to apply first, e.g. hqdn3d,crop=704:576:8:0."

    fps: Text
    "Frame rate of an image folder, e.g. 25 or 24000/1001 [default: 25]."

    deinterlace: Literal["auto", "on", "double", "ivtc", "off"]
    "Deinterlacing: auto, on, double, ivtc or off [default: auto]."

    hdr: Literal["refuse", "keep"]
    "HDR video (PQ, HLG): refuse, or keep the signal [default: refuse]."

    damaged: Literal["refuse", "keep"]
    "Damaged video: refuse, or keep what can be decoded [default: refuse]."

    exr: bool
    "Read and write OpenEXR images; linear values are converted to sRGB and back."

    ffmpeg: StrPath
    "Path to ffmpeg [default: found in PATH]."

    ffprobe: StrPath
    "Path to ffprobe [default: beside ffmpeg, or found in PATH]."

    vspipe: StrPath
    "Path to vspipe, which runs VapourSynth scripts [default: found in PATH]."

    resolution: Text
    "Resize first: short side (720, 1080p, 4k, 8k), factor (2x) or WxH."

    edges: Literal["mirror-black", "mirror", "black"]
    "Padding at the right and bottom edges: mirror-black, mirror or black [default: mirror-black]."

    keep_sar: bool
    "Keep non-square pixels as they are."

    ram: Text
    "Memory limit, ffmpeg included: 8G, 80% or -1G (free minus 1G) [default: -512M]."

    vram: Text
    "GPU memory limit: 8G, 80% or -1G [default: free minus a tenth, at least 512M]."

    disk: Text
    "Disk limit for temporary data: 100G or -1G (free minus 1G) [default: -1G]."

    spill: StrPath
    "Folder for temporary data [default: the system's]."

    mode: Literal["auto", "whole", "exact", "shared-stats", "blend"]
    "How to fit into memory: auto, whole, exact, shared-stats or blend [default: auto]."

    stripes: int
    "Stripes in exact mode [default: as few as fit]."

    tile: int
    "Tile size in blend mode [default: 1024]."

    overlap: int
    "Overlap of neighbouring tiles in blend mode [default: 128]."

    slice: int
    "Frames per slice, a multiple of 4; 0 runs the whole clip at once [default: as fits]."

    device: Text
    "auto (best GPU, else cpu), or a name from `remaster devices` [default: auto]."

    dtype: Literal["f32", "bf16", "f16"]
    "Storage format: f32, bf16 or f16 [default: f16 on GPUs, bf16 on CPUs with AMX, else f32]."

    threads: int
    "CPU threads [default: one per core]."

    cpu_path: Text
    "CPU kernels: auto, portable, neon, avx2, avx512 or amx; `,direct` disables Winograd [default: auto]."

    no_tune: bool
    "Use default GPU kernels: skip tuning and ignore saved results."

    no_collapse: bool
    "Run upsamplers step by step instead of folded into one convolution."


class PreviewOptions(CommonOptions, total=False):
    """Options of `preview`."""

    yes: bool
    "Overwrite the output if it exists."


class PlanOptions(CommonOptions, total=False):
    """Options of `plan`."""

    video: Text
    "ffmpeg video encoder and its options, e.g. 'libx265 -crf 16'."

    crf: int
    "Quality: 0 (best) to 51, or 63 for VP9 and AV1 [default: 12 to 18]."

    encoder_threads: int
    "Threads of the video encoder, 1 to 64 [default: 4]."

    pixel_format: Text
    "Output pixel format, e.g. yuv420p10le [default: as the input]."

    lossless: bool
    "Write lossless FFV1 (.mkv only)."

    audio: Literal["copy", "none"]
    "Audio: copy, or none [default: copy]."

    unit_frames: int
    "Frames in a unit of work, about [default: 1500]."

    mix_devices: bool
    "Allow devices and encoders whose results differ in the last digits."

    lossless_units: bool
    "Keep units as lossless FFV1 and encode the film at the end."


class RestoreOptions(PlanOptions, total=False):
    """Options of `restore`."""

    yes: bool
    "Overwrite the output if it exists."

    keep_latents: StrPath
    "Also keep the restored latents (.safetensors)."

    devices: Union[Text, List[Text]]
    "Devices to use at once, e.g. vulkan:0,vulkan:1, as listed by `remaster devices`."

    temp: StrPath
    "Folder for unfinished work [default: OUTPUT.remaster, beside the output]."

    keep: bool
    "Keep the folder of unfinished work when the film is done."

    restart: bool
    "Drop unfinished work of an earlier run and start over."

    keep_going: bool
    "If a unit fails because its input is bad, write its input frames instead and go on."

    wait_disk: Text
    "How long to wait for space on a full disk, e.g. 30m or 2h [default: 1h]."

    checkpoint: Text
    "How often to save unfinished work, e.g. 4m; frames of an upscaler at least once a minute [default: 4m]."

    no_manifest: bool
    "Do not write OUTPUT.manifest.json."

    embed_manifest: bool
    "Also store the settings in the film itself, as the tag REMASTER (.mkv, .webm)."


# The flag, the type, whether it may be given several times, and the help of each.
_Rows = Dict[str, Tuple[str, str, bool, str]]
_COMMON: _Rows = {
    "model": ("--model", "text", False, "Model: 3b, 7b, 7b-sharp, anime, or a model file [default: 3b]."),
    "vae": ("--vae", "text", False, "VAE file [default: the installed one]."),
    "text": ("--text", "path", False, "Text embedding [default: inside the model, or pos_emb.pt]."),
    "model_dir": ("--model-dir", "path", False, "Search this folder first."),
    "seed": ("--seed", "integer", False, "Random seed; the same seed gives the same result [default: 42]."),
    "softness": ("--softness", "number", False, "Soften input that is blurrier than its size, 0 to 1 [default: 0]."),
    "scenes": ("--scenes", "text", False, "Where shots begin: auto, none, or a `remaster scenes` list [default: auto]."),
    "window": ("--window", "integer", False, "Frames the transformer sees at once [default: 45]."),
    "input_noise": ("--input-noise", "number", False, "Add noise to the input, 0 to 1 [default: 0]."),
    "latent_noise": ("--latent-noise", "number", False, "Add noise to the latents that guide the transformer, 0 to 1 [default: 0]."),
    "strength": ("--strength", "number", False, "Blend between the input (0) and the restored picture (1) [default: 1]."),
    "color": ("--color", "text", False, "Colours: lab, wavelet, wavelet_adaptive, hsv, adain or none."),
    "color_pool": ("--color-pool", "text", False, "Match colours per frame, window or shot [default: frame]."),
    "dither": ("--dither", "bool", False, "Dither instead of rounding."),
    "ss": ("--ss", "text", False, "Start at TIME, in seconds (90.5) or as 1:30.5."),
    "to": ("--to", "text", False, "End at TIME (exclusive), counted like --ss."),
    "vf": ("--vf", "text", False, "ffmpeg filters to apply first, e.g. hqdn3d,crop=704:576:8:0."),
    "fps": ("--fps", "text", False, "Frame rate of an image folder, e.g. 25 or 24000/1001 [default: 25]."),
    "deinterlace": ("--deinterlace", "text", False, "Deinterlacing: auto, on, double, ivtc or off [default: auto]."),
    "hdr": ("--hdr", "text", False, "HDR video (PQ, HLG): refuse, or keep the signal [default: refuse]."),
    "damaged": ("--damaged", "text", False, "Damaged video: refuse, or keep what can be decoded [default: refuse]."),
    "exr": ("--exr", "bool", False, "Read and write OpenEXR images; linear values are converted to sRGB and back."),
    "ffmpeg": ("--ffmpeg", "path", False, "Path to ffmpeg [default: found in PATH]."),
    "ffprobe": ("--ffprobe", "path", False, "Path to ffprobe [default: beside ffmpeg, or found in PATH]."),
    "vspipe": ("--vspipe", "path", False, "Path to vspipe, which runs VapourSynth scripts [default: found in PATH]."),
    "resolution": ("--resolution", "text", False, "Resize first: short side (720, 1080p, 4k, 8k), factor (2x) or WxH."),
    "edges": ("--edges", "text", False, "Padding at the right and bottom edges: mirror-black, mirror or black [default: mirror-black]."),
    "keep_sar": ("--keep-sar", "bool", False, "Keep non-square pixels as they are."),
    "ram": ("--ram", "text", False, "Memory limit, ffmpeg included: 8G, 80% or -1G (free minus 1G) [default: -512M]."),
    "vram": ("--vram", "text", False, "GPU memory limit: 8G, 80% or -1G [default: free minus a tenth, at least 512M]."),
    "disk": ("--disk", "text", False, "Disk limit for temporary data: 100G or -1G (free minus 1G) [default: -1G]."),
    "spill": ("--spill", "path", False, "Folder for temporary data [default: the system's]."),
    "mode": ("--mode", "text", False, "How to fit into memory: auto, whole, exact, shared-stats or blend [default: auto]."),
    "stripes": ("--stripes", "integer", False, "Stripes in exact mode [default: as few as fit]."),
    "tile": ("--tile", "integer", False, "Tile size in blend mode [default: 1024]."),
    "overlap": ("--overlap", "integer", False, "Overlap of neighbouring tiles in blend mode [default: 128]."),
    "slice": ("--slice", "integer", False, "Frames per slice, a multiple of 4; 0 runs the whole clip at once [default: as fits]."),
    "device": ("--device", "text", False, "auto (best GPU, else cpu), or a name from `remaster devices` [default: auto]."),
    "dtype": ("--dtype", "text", False, "Storage format: f32, bf16 or f16 [default: f16 on GPUs, bf16 on CPUs with AMX, else f32]."),
    "threads": ("--threads", "integer", False, "CPU threads [default: one per core]."),
    "cpu_path": ("--cpu-path", "text", False, "CPU kernels: auto, portable, neon, avx2, avx512 or amx; `,direct` disables Winograd [default: auto]."),
    "no_tune": ("--no-tune", "bool", False, "Use default GPU kernels: skip tuning and ignore saved results."),
    "no_collapse": ("--no-collapse", "bool", False, "Run upsamplers step by step instead of folded into one convolution."),
}
_PREVIEW: _Rows = {
    **_COMMON,
    "yes": ("--yes", "bool", False, "Overwrite the output if it exists."),
}
_PLAN: _Rows = {
    **_COMMON,
    "video": ("--video", "text", False, "ffmpeg video encoder and its options, e.g. 'libx265 -crf 16'."),
    "crf": ("--crf", "integer", False, "Quality: 0 (best) to 51, or 63 for VP9 and AV1 [default: 12 to 18]."),
    "encoder_threads": ("--encoder-threads", "integer", False, "Threads of the video encoder, 1 to 64 [default: 4]."),
    "pixel_format": ("--pixel-format", "text", False, "Output pixel format, e.g. yuv420p10le [default: as the input]."),
    "lossless": ("--lossless", "bool", False, "Write lossless FFV1 (.mkv only)."),
    "audio": ("--audio", "text", False, "Audio: copy, or none [default: copy]."),
    "unit_frames": ("--unit-frames", "integer", False, "Frames in a unit of work, about [default: 1500]."),
    "mix_devices": ("--mix-devices", "bool", False, "Allow devices and encoders whose results differ in the last digits."),
    "lossless_units": ("--lossless-units", "bool", False, "Keep units as lossless FFV1 and encode the film at the end."),
}
_RESTORE: _Rows = {
    **_PLAN,
    "yes": ("--yes", "bool", False, "Overwrite the output if it exists."),
    "keep_latents": ("--keep-latents", "path", False, "Also keep the restored latents (.safetensors)."),
    "devices": ("--devices", "text", True, "Devices to use at once, e.g. vulkan:0,vulkan:1, as listed by `remaster devices`."),
    "temp": ("--temp", "path", False, "Folder for unfinished work [default: OUTPUT.remaster, beside the output]."),
    "keep": ("--keep", "bool", False, "Keep the folder of unfinished work when the film is done."),
    "restart": ("--restart", "bool", False, "Drop unfinished work of an earlier run and start over."),
    "keep_going": ("--keep-going", "bool", False, "If a unit fails because its input is bad, write its input frames instead and go on."),
    "wait_disk": ("--wait-disk", "text", False, "How long to wait for space on a full disk, e.g. 30m or 2h [default: 1h]."),
    "checkpoint": ("--checkpoint", "text", False, "How often to save unfinished work, e.g. 4m; frames of an upscaler at least once a minute [default: 4m]."),
    "no_manifest": ("--no-manifest", "bool", False, "Do not write OUTPUT.manifest.json."),
    "embed_manifest": ("--embed-manifest", "bool", False, "Also store the settings in the film itself, as the tag REMASTER (.mkv, .webm)."),
}
OPTIONS: Dict[str, _Rows] = {
    "restore": _RESTORE,
    "plan": _PLAN,
    "preview": _PREVIEW,
}
