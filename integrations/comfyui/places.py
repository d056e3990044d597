"""Where films are written.

The name of a film follows from its source and its settings. So a film that was interrupted is found again when it is
queued again, and two films never share a name.
"""

import hashlib
import json
import os
import re
from typing import Any, Mapping

from .refused import Refused

# Endings that the program writes, so a film keeps the one of its source. Any other becomes Matroska, which holds all streams.
WRITTEN = frozenset({".mkv", ".mp4", ".m4v", ".mov", ".webm", ".nut", ".ts", ".m2ts"})
# Endings of films. A source that ends otherwise is refused: the program runs scripts (.vpy) that are named as its input,
# and a workflow must not name a program to run.
FILMS = WRITTEN | frozenset(
    ".3g2 .3gp .asf .avi .divx .dv .f4v .flv .gif .m2v .mjpeg .mpeg .mpg .mts .mxf .ogg .ogv .qt .rm .rmvb .vob .wmv .y4m".split()
)

_PART = re.compile(r'[^<>:"|?*\x00-\x1f\x7f]{1,120}')
_NOT_IN_NAMES = re.compile(r"[^\w.+-]+")


def film(output: str, prefix: Any, stem: str, key: str, ending: str) -> str:
    """The path of a film in the folder `output`: `prefix` may name folders inside it, and starts the file's name."""
    if not isinstance(prefix, str):
        raise Refused("filename_prefix is not text; set it to a name such as video/remaster")
    parts = prefix.replace("\\", "/").split("/")
    if not all(_PART.fullmatch(part) and not part.startswith((".", " ")) and not part.endswith((".", " ")) for part in parts):
        raise Refused(
            f"filename_prefix {prefix[:60]!r} does not stay in ComfyUI's output folder; set it to a name such as video/remaster"
        )
    output = os.path.abspath(output)
    name = "_".join([parts[-1], plain(stem), key]) + ending
    path = os.path.abspath(os.path.join(output, *parts[:-1], name))
    # What the parts allow cannot leave the folder; this holds if a system reads them in another way.
    if os.path.commonpath([output, path]) != output:
        raise Refused("filename_prefix leaves ComfyUI's output folder; set it to a name such as video/remaster")
    return path


def plain(stem: str) -> str:
    """`stem` with what is safe in a file name on every system."""
    return _NOT_IN_NAMES.sub("-", stem).strip(".-")[:60] or "film"


def ending(source: str, wanted: str) -> str:
    """The ending of the film that is made of `source`."""
    if wanted != "auto":
        return "." + wanted
    own = os.path.splitext(source)[1].lower()
    return own if own in WRITTEN else ".mkv"


def key(source: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that change with the source and with the settings."""
    text = json.dumps([source, options], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def identity(path: str) -> Mapping[str, Any]:
    """What changes when a file is replaced."""
    try:
        at = os.stat(path)
    except OSError as error:
        raise Refused(f"cannot open {os.path.basename(path)}: {error.strerror}; choose another file in Load Video") from None
    return {"path": os.path.realpath(path), "bytes": at.st_size, "changed": at.st_mtime_ns}


def checked_source(path: str) -> str:
    """`path` in full, if it ends like a film."""
    path = os.path.abspath(path)
    if os.path.splitext(path)[1].lower() not in FILMS:
        raise Refused(f"{os.path.basename(path)} does not end like a film; convert it to .mp4 or .mkv and load that")
    return path
