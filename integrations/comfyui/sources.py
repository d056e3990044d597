"""The file behind a VIDEO. One that is only in memory is written to ComfyUI's temporary folder first."""

import hashlib
import io as bytes_io
import os
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Callable, Mapping

from . import places
from .refused import Refused

_LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1"}


class Interrupted(Exception):
    """Writing a film was stopped."""


@dataclass(frozen=True)
class Source:
    """A film to restore."""

    path: str
    stem: str
    # What changes when it is another film. The same for the same film, also if it had to be written again.
    identity: Mapping[str, Any]
    # It was made of tensors, so it has no format of its own to keep.
    drawn: bool = False


def source_of(video: Any, temporary: str, from_file: Callable[[Any], Any], stop: Callable[[], bool]) -> Source:
    """The file behind `video`. `from_file` makes a VIDEO of a path, to compare with; `stop` is asked before each frame."""
    if not _has_file(video):
        return _written(temporary, ".mkv", lambda path: _write_components(video.get_components(), path, stop), drawn=True)
    stream = video.get_stream_source()
    if isinstance(stream, str):
        path = places.checked_source(stream)
        identity = places.identity(path)
        if not _trimmed(video, from_file(path)):
            return Source(path, os.path.splitext(os.path.basename(path))[0], identity)
        return _written(temporary, places.ending(path, "auto"), video.save_to)
    ending = _ending_of(video)

    def copy(path: str) -> None:
        with open(path, "wb") as file:
            file.write(stream.getbuffer())

    if not _trimmed(video, from_file(bytes_io.BytesIO(stream.getvalue()))):
        return _written(temporary, ending, copy)
    return _written(temporary, ending, video.save_to)


def _has_file(video: Any) -> bool:
    # A VIDEO of tensors would encode itself as H.264 at a middling quality when it is asked for a stream.
    return "Components" not in type(video).__name__


def _trimmed(video: Any, whole: Any) -> bool:
    """Newer versions of ComfyUI cut a VIDEO without touching its file. Then it is shorter than the file says."""
    try:
        return abs(float(video.get_duration()) - float(whole.get_duration())) > 0.001
    except Exception:
        # A file that ComfyUI cannot read: the program says what is wrong with it.
        return False


def _ending_of(video: Any) -> str:
    try:
        names = str(video.get_container_format()).lower().split(",")
    except Exception:
        names = []
    known = {"mov": ".mp4", "mp4": ".mp4", "matroska": ".mkv", "webm": ".webm", "mpegts": ".ts"}
    # ffmpeg says `matroska,webm` of both, and `mov,mp4,...` of all of that family.
    return next((known[name] for name in names if name in known), ".mkv")


def _written(temporary: str, ending: str, write: Callable[[str], Any], drawn: bool = False) -> Source:
    """A file named after its content, so that the same VIDEO has the same name when it is queued again."""
    folder = os.path.join(temporary, "remaster")
    os.makedirs(folder, exist_ok=True)
    handle, path = tempfile.mkstemp(dir=folder, suffix=ending)
    os.close(handle)
    try:
        write(path)
        digest = _sha256(path)
        final = os.path.join(folder, digest[:32] + ending)
        os.replace(path, final)
    except (Refused, Interrupted):
        raise
    except OSError as error:
        raise Refused(f"cannot write the video to {folder}: {error.strerror or error}; free some space and queue it again") from None
    except Exception as error:
        reason = " ".join(str(error).split())
        raise Refused(f"cannot write the video to a file: {reason}; save it with Save Video and load that file") from None
    finally:
        if os.path.exists(path):
            os.remove(path)
    return Source(final, "video", {"sha256": digest}, drawn)


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            block = file.read(1 << 20)
            if not block:
                return digest.hexdigest()
            digest.update(block)


def _write_components(components: Any, path: str, stop: Callable[[], bool]) -> None:
    """Frames as lossless FFV1 of 8 bits, sound as AAC, which every container of ours holds."""
    import av

    images = components.images
    if len(images) == 0:
        raise Refused("the video has no frames; connect one that has")
    rate = Fraction(round(Fraction(components.frame_rate) * 1000), 1000)
    with av.open(path, mode="w", format="matroska", options={"fflags": "+bitexact"}) as out:
        picture = out.add_stream("ffv1", rate=rate)
        picture.width, picture.height, picture.pix_fmt = int(images.shape[2]), int(images.shape[1]), "bgr0"
        sound, waveform = None, None
        if components.audio:
            waveform = components.audio["waveform"][0]
            channels = int(waveform.shape[0])
            if channels not in _LAYOUTS:
                raise Refused(f"the sound has {channels} channels; connect one with 1, 2 or 6")
            sound = out.add_stream("aac", rate=int(components.audio["sample_rate"]), layout=_LAYOUTS[channels])
            sound.bit_rate = 96_000 * channels
        for image in images:
            if stop():
                raise Interrupted
            eight = (image[..., :3] * 255).round().clamp(0, 255).byte().cpu().numpy()
            frame = av.VideoFrame.from_ndarray(eight, format="rgb24").reformat(format="bgr0")
            out.mux(picture.encode(frame))
        out.mux(picture.encode(None))
        if sound is not None:
            samples = waveform.float().cpu().contiguous().numpy()
            frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout=_LAYOUTS[samples.shape[0]])
            frame.sample_rate, frame.pts = int(components.audio["sample_rate"]), 0
            out.mux(sound.encode(frame))
            out.mux(sound.encode(None))
