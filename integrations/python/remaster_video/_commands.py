"""Commands as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional

from . import _words
from ._json import parse
from ._options import PlanOptions, PreviewOptions, RestoreOptions, StrPath, Text
from ._process import CancelToken, OnProgress, run
from ._signatures import with_options
from ._types import Compared, Devices, Models, Planned, Previewed, Probed, Pulled, Restored, Verified

if TYPE_CHECKING:
    from typing_extensions import Unpack

# How commands are run: one document on stdout, news on stderr, and they stop when stdin is closed.
JSON = "--json"
NEWS = "--progress=json"
LISTEN = "--cancel-on-stdin-close"
# A file that is named to a function may be a stranger's. A VapourSynth script would run.
TAME = "--no-scripts"


def _file(command: str, input: StrPath, output: Optional[StrPath], common: List[str], options: Any) -> List[str]:
    """The words of a command about one file."""
    words = [command, *common, TAME, *_words.options(command, dict(options))]
    if output is not None:
        words.append("--output=" + _words.path(output, "output"))
    return [*words, "--", _words.path(input, "input")]


@with_options("restore")
def restore(
    input: StrPath,
    output: Optional[StrPath] = None,
    *,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
    **options: Unpack[RestoreOptions],
) -> Restored:
    """Restore and upscale a video, an image or a folder of images.

    Without `output` the result is `NAME_upscaled` beside the input. `on_progress` gets a `Progress` about twice a second,
    in the thread that called. `cancel` is a `threading.Event` or anything else with `is_set()`; once it is set, the run
    stops within about a second and raises `Cancelled`. Unfinished work on a video is kept, and the same call goes on
    with it.
    """
    words = _file("restore", input, output, [JSON, NEWS, LISTEN], options)
    return parse(Restored, run(words, on_progress, cancel)[0])


@with_options("plan")
def plan(
    input: StrPath,
    *,
    card: Optional[str] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
    **options: Unpack[PlanOptions],
) -> Planned:
    """Memory, disk and time that a restoration takes. The model need not be installed.

    `card` names a graphics card that this machine need not have, such as "RTX 4060".
    """
    words = _file("plan", input, None, [JSON, NEWS], {**options, "card": card})
    return parse(Planned, run(words, on_progress, cancel, listens=False)[0])


@with_options("preview")
def preview(
    input: StrPath,
    output: Optional[StrPath] = None,
    *,
    shots: Optional[int] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
    **options: Unpack[PreviewOptions],
) -> Previewed:
    """Write one picture with a frame of each of `shots` shots before and after."""
    words = _file("preview", input, output, [JSON, NEWS, LISTEN], {**options, "shots": shots})
    return parse(Previewed, run(words, on_progress, cancel)[0])


def probe(
    input: StrPath,
    *,
    ffmpeg: Optional[StrPath] = None,
    ffprobe: Optional[StrPath] = None,
    cancel: Optional[CancelToken] = None,
) -> Probed:
    """What a video file contains."""
    words = _file("probe", input, None, [JSON, LISTEN], {"ffmpeg": ffmpeg, "ffprobe": ffprobe})
    return parse(Probed, run(words, None, cancel)[0])


def compare(
    a: StrPath,
    b: StrPath,
    *,
    min_psnr: Optional[float] = None,
    quick: bool = False,
    frames: Optional[int] = None,
    tile: Optional[int] = None,
    ss: Optional[Text] = None,
    to: Optional[Text] = None,
    vf: Optional[str] = None,
    fps: Optional[Text] = None,
    deinterlace: Optional[str] = None,
    hdr: Optional[str] = None,
    damaged: Optional[str] = None,
    exr: bool = False,
    ffmpeg: Optional[StrPath] = None,
    ffprobe: Optional[StrPath] = None,
    sheet: Optional[StrPath] = None,
    drift: Optional[StrPath] = None,
    plot: Optional[StrPath] = None,
    yes: bool = False,
    ram: Optional[Text] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
) -> Compared:
    """Measure the difference between two clips: PSNR, SSIM, SSIMULACRA2, delta E, flicker, drift and seams.

    With `min_psnr` a result below it has `passed` False. `quick` measures PSNR, drift and flicker alone. `sheet`, `drift`
    and `plot` name pictures to write; `yes` replaces them.
    """
    given = {name: value for name, value in locals().items() if name in _words.FEW["compare"]}
    words = ["compare", JSON, NEWS, LISTEN, TAME, *_words.options("compare", given)]
    words += ["--", _words.path(a, "a"), _words.path(b, "b")]
    document, code = run(words, on_progress, cancel)
    return parse(Compared, document, passed=code == 0)


def models(*, model_dir: Optional[StrPath] = None, cancel: Optional[CancelToken] = None) -> Models:
    """Installed models, and where they were looked for."""
    words = ["models", "list", JSON, *_words.options("models list", {"model_dir": model_dir})]
    return parse(Models, run(words, None, cancel, listens=False)[0])


def pull_model(
    model: str,
    *,
    quant: Optional[str] = None,
    model_dir: Optional[StrPath] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
) -> Pulled:
    """Download a model, such as `3b`, with what it needs. Does nothing if it is installed."""
    words = ["models", "pull", JSON, NEWS, LISTEN]
    words += _words.options("models pull", {"quant": quant, "model_dir": model_dir})
    return parse(Pulled, run([*words, "--", _words.word(model, "model")], on_progress, cancel)[0])


def verify_models(
    *files: StrPath,
    model_dir: Optional[StrPath] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
) -> Verified:
    """Check model files for corruption: those named, or all that `models()` finds. `passed` is the verdict."""
    words = ["models", "verify", JSON, NEWS, LISTEN, *_words.options("models verify", {"model_dir": model_dir})]
    words += ["--", *(_words.path(file, "file") for file in files)]
    return parse(Verified, run(words, on_progress, cancel)[0])


def devices(*, cancel: Optional[CancelToken] = None) -> Devices:
    """The devices that can run the networks."""
    return parse(Devices, run(["devices", JSON], None, cancel, listens=False)[0])
