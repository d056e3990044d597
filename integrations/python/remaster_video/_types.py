"""What commands answer. The fields are those of docs/json.md; `document` is the whole answer as a dictionary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    phase: str
    unit: str
    done: int
    estimated: bool
    elapsed_seconds: float
    paused: bool
    total: Optional[int] = None
    rate: Optional[float] = None
    share: Optional[float] = None
    eta_seconds: Optional[float] = None
    eta: Optional[str] = None
    memory_bytes: Optional[int] = None
    peak_bytes: Optional[int] = None
    planned_bytes: Optional[int] = None
    saved: Optional[int] = None
    saved_seconds: Optional[float] = None
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Fraction:
    """A fraction, such as frames per second."""

    num: int
    den: int

    def __float__(self) -> float:
        return self.num / self.den if self.den else 0.0


@dataclass(frozen=True)
class Tag:
    """A tag of colour, and whether the file does not say it."""

    value: str
    guessed: bool


@dataclass(frozen=True)
class Colour:
    """What samples mean."""

    matrix: Tag
    range: Tag
    primaries: Tag
    transfer: Tag
    siting: Tag


@dataclass(frozen=True)
class Hdr:
    """Static metadata of HDR10."""

    master_display: Optional[str] = None
    light_level: Optional[Tuple[int, ...]] = None


@dataclass(frozen=True)
class Source:
    """What is read."""

    width: int
    height: int
    colour: Colour
    sample_aspect: Tuple[int, ...]
    time_base: Fraction
    frames_estimated: bool
    hdr: Optional[Hdr] = None
    rate: Optional[Fraction] = None
    frames: Optional[int] = None


@dataclass(frozen=True)
class Geometry:
    """Sizes as width and height: of the input, of the output, and what the networks see."""

    source: Tuple[int, ...]
    shown: Tuple[int, ...]
    padded: Tuple[int, ...]
    edges: str
    alpha: bool


@dataclass(frozen=True)
class Total:
    """What `ram` counts, in bytes."""

    ram_bytes: int
    network_bytes: int
    frames_bytes: int
    children_bytes: int
    process_bytes: int


@dataclass(frozen=True)
class PhaseSummary:
    """A part of the work."""

    phase: str
    seconds: float
    share: float
    frames: int
    fps: Optional[float] = None
    peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class Summary:
    """Time and memory of a run."""

    version: str
    system: str
    device: str
    model: str
    input: str
    output: str
    unit: str
    phases: Tuple[PhaseSummary, ...]
    total_seconds: float
    frames: int
    cpu: Optional[str] = None
    fps: Optional[float] = None
    planned_bytes: Optional[int] = None
    peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class Restored:
    """A restored film. If `skipped`, it was there already: `input` and `output` are known, and `frames` if it has a manifest."""

    input: str
    output: str
    skipped: bool = False
    model: Optional[str] = None
    vae: Optional[str] = None
    seed: Optional[int] = None
    backend: Optional[str] = None
    dtype: Optional[str] = None
    frames: Optional[int] = None
    height: Optional[int] = None
    width: Optional[int] = None
    geometry: Optional[Geometry] = None
    source: Optional[Source] = None
    shots: Optional[Tuple[int, ...]] = None
    groups: Optional[int] = None
    latent_bytes: Optional[int] = None
    load_seconds: Optional[float] = None
    manifest: Optional[str] = None
    left: Optional[Tuple[int, ...]] = None
    notes: Optional[Tuple[str, ...]] = None
    total: Optional[Total] = None
    summary: Optional[Summary] = None
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Planned:
    """What a restoration takes."""

    input: str
    model: str
    backend: str
    dtype: str
    geometry: Geometry
    source: Source
    notes: Tuple[str, ...]
    total: Total
    macs_per_frame: Optional[float] = None
    vae: Optional[str] = None
    latent_bytes: Optional[int] = None
    checkpoint_bytes: Optional[int] = None
    groups: Optional[int] = None
    seconds: Optional[float] = None
    seconds_per_frame: Optional[float] = None
    basis: Optional[str] = None
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Previewed:
    """A sheet of frames before and after."""

    input: str
    output: str
    frames: Tuple[int, ...]
    seconds: Optional[Tuple[float, ...]] = None
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Video:
    """The video stream that is used."""

    index: int
    codec: str
    width: int
    height: int
    pixel_format: str
    depth: int
    alpha: bool
    sample_aspect: Tuple[int, ...]
    turns: int
    colour: Colour
    time_base: Fraction
    frames_estimated: bool
    tags: Mapping[str, str]
    notes: Tuple[str, ...]
    profile: Optional[str] = None
    hdr: Optional[Hdr] = None
    fields: Optional[str] = None
    rate: Optional[Fraction] = None
    frames: Optional[int] = None


@dataclass(frozen=True)
class Stream:
    """Another stream of a file."""

    index: int
    kind: str
    codec: str
    cover: bool
    language: Optional[str] = None


@dataclass(frozen=True)
class Probed:
    """What a file contains."""

    path: str
    format: str
    tags: Mapping[str, str]
    chapters: int
    video: Video
    others: Tuple[Stream, ...]
    duration: Optional[float] = None
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Statistic:
    """What frames say about a measure."""

    mean: float
    min: float
    max: float
    worst_frame: int
    frames: int


@dataclass(frozen=True)
class Pooled:
    """Of all frames together, in dB. None: no difference."""

    psnr: Optional[float] = None
    psnr_luma: Optional[float] = None


@dataclass(frozen=True)
class Clip:
    """One of two clips that were compared."""

    width: int
    height: int
    frames: int
    fps: Optional[float] = None


@dataclass(frozen=True)
class DeltaE:
    """CIEDE2000 of the pixels of a frame."""

    mean: float
    p95: float
    max: float


@dataclass(frozen=True)
class ComparedFrame:
    """The measures of a frame."""

    frame: int
    identical: bool
    drift: float
    psnr: Optional[float] = None
    psnr_luma: Optional[float] = None
    ssim: Optional[float] = None
    ssimulacra2: Optional[float] = None
    delta_e: Optional[DeltaE] = None
    flicker: Optional[float] = None
    flicker_a: Optional[float] = None
    flicker_b: Optional[float] = None


@dataclass(frozen=True)
class Compared:
    """How two clips differ. `passed` is False if `min_psnr` was given and not reached."""

    a: str
    b: str
    width: int
    height: int
    frames: int
    clips: Tuple[Clip, ...]
    mismatches: Tuple[str, ...]
    identical: bool
    pooled: Pooled
    summary: Mapping[str, Statistic]
    per_frame: Tuple[ComparedFrame, ...]
    notes: Tuple[str, ...]
    passed: bool = True
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Searched:
    """A folder that was searched for models."""

    why: str
    folder: str
    exists: bool


@dataclass(frozen=True)
class ModelFile:
    """A model file that was found."""

    file: str
    place: str
    bytes: int
    usable: bool
    kind: Optional[str] = None
    precision: Optional[str] = None
    reason: Optional[str] = None
    revision: Optional[str] = None
    warning: Optional[str] = None


@dataclass(frozen=True)
class BuiltInModel:
    """A model inside the program; `model` is the name that options take."""

    model: str
    public_name: str
    kind: str
    bytes: int


@dataclass(frozen=True)
class Models:
    """Installed models, and those inside the program."""

    searched: Tuple[Searched, ...]
    files: Tuple[ModelFile, ...]
    others: int
    built_in: Tuple[BuiltInModel, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class PulledFile:
    """A model file that is installed now."""

    model: str
    quant: str
    file: str
    repo: str
    bytes: int
    sha256: str
    downloaded: bool


@dataclass(frozen=True)
class Pulled:
    """The file that was asked for, then what it needs."""

    files: Tuple[PulledFile, ...]
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Published:
    """The published file that a file is."""

    file: str
    repo: str


@dataclass(frozen=True)
class VerifiedFile:
    """The verdict on a file."""

    file: str
    sha256: str
    bytes: int
    verdict: str
    reason: str
    kind: Optional[str] = None
    published: Optional[Published] = None


@dataclass(frozen=True)
class Verified:
    """Verdicts on model files."""

    passed: bool
    files: Tuple[VerifiedFile, ...]
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of a GPU. If `shared`, it is that of the machine."""

    bytes: int
    shared: bool
    free_bytes: Optional[int] = None


@dataclass(frozen=True)
class Device:
    """A device; `device` is the name that options take."""

    device: str
    name: str
    kind: str
    driver: str
    usable: bool
    notes: Tuple[str, ...]
    memory: Optional[DeviceMemory] = None


@dataclass(frozen=True)
class Devices:
    """All devices, and the one that is used if none is named."""

    devices: Tuple[Device, ...]
    auto: str
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
