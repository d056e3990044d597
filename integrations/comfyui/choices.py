"""What the nodes offer, and what they accept.

Values of a workflow come from a file that anyone may have written, and ComfyUI does not check those that arrive over a
link. So each is checked here before it reaches the command line: a model is looked up in what the program lists, and
never used as a path; everything else has to have the form of its kind, which never starts with a dash.
"""

import os
import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from .refused import Refused

AUTO = "auto"
# Words of `--model`: four transformers, of which the best installed file is used, and the upscaler inside the program.
TRANSFORMER_WORDS = ("3b", "7b", "7b-sharp", "3b-first")
UPSCALER_WORDS = ("anime",)
WORDS = TRANSFORMER_WORDS + UPSCALER_WORDS
TRANSFORMER_KINDS = frozenset({"dit_3b", "dit_7b"})
UPSCALER_KINDS = frozenset({"compact", "rrdb"})

SIZES = (AUTO, "480", "720", "1080", "1440", "4k", "1x", "2x", "3x", "4x")
FORMATS = (AUTO, "mp4", "mkv", "mov", "webm")
KEEP_OR_REFUSE = ("refuse", "keep")
SEED_MAX = 2**32 - 1

_SIZE = re.compile(r"[1-9][0-9]{0,4}p?|[248]k|[1-9][0-9]{0,4}x[1-9][0-9]{0,4}|[0-9]{1,2}(\.[0-9]{1,3})?x", re.ASCII)
_MEMORY = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?[MG]|[1-9][0-9]?%", re.ASCII)


@dataclass(frozen=True)
class ModelFile:
    """A file that the program listed."""

    path: str
    kind: str


@dataclass
class Catalogue:
    """Model files by the names that the nodes show."""

    models: Dict[str, ModelFile] = field(default_factory=dict)
    vaes: Dict[str, ModelFile] = field(default_factory=dict)

    def model_names(self) -> List[str]:
        return list(WORDS) + list(self.models)

    def vae_names(self) -> List[str]:
        return [AUTO] + list(self.vaes)


def catalogue(files: Iterable[Mapping[str, Any]]) -> Catalogue:
    """Names for the entries of `files` in `remaster models list --json`, in the order of the search."""
    found = Catalogue()
    seen = set()
    for entry in files:
        path, kind = str(entry.get("file", "")), entry.get("kind")
        if not entry.get("usable") or os.path.realpath(path) in seen:
            continue
        seen.add(os.path.realpath(path))
        if kind == "vae":
            _add(found.vaes, ModelFile(path, kind))
        elif kind in TRANSFORMER_KINDS or kind in UPSCALER_KINDS:
            _add(found.models, ModelFile(path, str(kind)))
    return found


def _add(names: Dict[str, ModelFile], file: ModelFile) -> None:
    folder, name = os.path.split(file.path)
    # Of two files with one name the second gets its folder before it. A third has no name, and is not offered.
    for label in (name, os.path.basename(folder) + "/" + name):
        if label not in names and label not in WORDS and label != AUTO and label.isprintable():
            names[label] = file
            return


def model_options(name: Any, vae: Any, seed: Any, known: Catalogue) -> Tuple[Dict[str, Any], bool]:
    """The options for a model, and whether it is an upscaler, which has no seed and no VAE."""
    if name in WORDS:
        options: Dict[str, Any] = {"model": name}
        upscaler = name in UPSCALER_WORDS
    else:
        file = known.models.get(name) if isinstance(name, str) else None
        if file is None:
            raise Refused(
                f"no model file named {_shown(name)} is installed; choose another model, or put the file into "
                "models/SEEDVR2 of ComfyUI and reload the page"
            )
        options = {"model": file.path}
        upscaler = file.kind in UPSCALER_KINDS
    if upscaler:
        return options, True
    if vae != AUTO:
        file = known.vaes.get(vae) if isinstance(vae, str) else None
        if file is None:
            raise Refused(f"no VAE named {_shown(vae)} is installed; set vae to auto, or choose one of the list")
        options["vae"] = file.path
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= SEED_MAX:
        raise Refused(f"seed is {_shown(seed)}; set it to a whole number from 0 to {SEED_MAX}")
    options["seed"] = seed
    return options, False


def picture_options(resolution: Any, color: Any, strength: Any, ram: Any, colors: Iterable[str]) -> Dict[str, Any]:
    """The options for size, colours, strength and memory."""
    options: Dict[str, Any] = {}
    if resolution != AUTO:
        if not isinstance(resolution, str) or not _SIZE.fullmatch(resolution):
            raise Refused(f"resolution is {_shown(resolution)}; set it to a short side (1080), a factor (2x) or 1280x720")
        options["resolution"] = resolution
    if color != AUTO:
        if color not in list(colors):
            raise Refused(f"color is {_shown(color)}; set it to auto, or choose one of the list")
        options["color"] = color
    if isinstance(strength, bool) or not isinstance(strength, (int, float)) or not 0 <= strength <= 1:
        raise Refused(f"strength is {_shown(strength)}; set it to a number from 0 to 1")
    if strength != 1:
        options["strength"] = float(strength)
    if ram != "":
        if not isinstance(ram, str) or not _MEMORY.fullmatch(ram):
            raise Refused(f"ram is {_shown(ram)}; set it to an amount such as 8G or 80%, or leave it empty")
        options["ram"] = ram
    return options


def one_of(name: str, value: Any, allowed: Tuple[str, ...]) -> str:
    """`value`, if it is one of `allowed`."""
    if value not in allowed:
        raise Refused(f"{name} is {_shown(value)}; set it to {', '.join(allowed[:-1])} or {allowed[-1]}")
    return str(value)


def vram(devices: Mapping[str, Any], free: Optional[int]) -> Optional[str]:
    """The limit for `--vram` when ComfyUI says that `free` bytes of its card are free, or None to leave it to the program.

    The program refuses the option where it computes on the CPU or in host memory. With several cards it may choose
    another one than ComfyUI, whose free memory says nothing then.
    """
    cards = [
        d for d in devices.get("devices", []) if d.get("usable") and "memory" in d and not d["memory"].get("shared", True)
    ]
    if free is None or len(cards) != 1 or cards[0].get("device") != devices.get("auto"):
        return None
    # What the program leaves by itself: a tenth, at least 512 MiB, for the desktop and for the driver.
    mebibytes = (free - max(free // 10, 512 << 20)) >> 20
    return f"{mebibytes}M" if mebibytes >= 256 else None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
