"""Command lines. A value can never become an option: options are `--flag=value`, and files come behind `--`."""

from __future__ import annotations

import difflib
import numbers
import os
from typing import Any, Dict, List, Mapping, Tuple

from ._options import OPTIONS, StrPath

# Options that stand in the signatures of functions.
_TYPES: Dict[str, Dict[str, str]] = {
    # Beside those of a restoration.
    "plan": {"card": "text"},
    "preview": {"shots": "integer"},
    "probe": {"ffmpeg": "path", "ffprobe": "path"},
    "models list": {"model_dir": "path"},
    "models pull": {"model_dir": "path", "quant": "text"},
    "models verify": {"model_dir": "path"},
    "compare": {
        "min_psnr": "number",
        "quick": "bool",
        "frames": "integer",
        "tile": "integer",
        "ss": "text",
        "to": "text",
        "vf": "text",
        "fps": "text",
        "deinterlace": "text",
        "hdr": "text",
        "damaged": "text",
        "exr": "bool",
        "ffmpeg": "path",
        "ffprobe": "path",
        "sheet": "path",
        "drift": "path",
        "plot": "path",
        "yes": "bool",
        "ram": "text",
    },
}
FEW: Dict[str, Dict[str, Tuple[str, str, bool]]] = {
    command: {name: ("--" + name.replace("_", "-"), kind, False) for name, kind in types.items()}
    for command, types in _TYPES.items()
}


def path(value: StrPath, what: str) -> str:
    """A file's name as the program takes it."""
    name = os.fsdecode(value)
    if not name:
        raise ValueError(f"{what} is empty; name a file")
    if "\0" in name:
        raise ValueError(f"{what} has a NUL byte: {name!r}; name a file")
    if name == "-":
        raise ValueError(f"{what} is `-`, which is no file; use restore_frames() for frames in memory")
    return name


def word(value: str, what: str) -> str:
    """A word that is no file."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}, but must be text")
    if "\0" in value:
        raise ValueError(f"{what} has a NUL byte: {value!r}")
    return value


def options(command: str, values: Mapping[str, Any]) -> List[str]:
    """The words of options given as keywords. None and False leave an option out."""
    known: Dict[str, Tuple[Any, ...]] = {**OPTIONS.get(command, {}), **FEW.get(command, {})}
    words: List[str] = []
    for name, value in values.items():
        option = known.get(name)
        if option is None:
            near = difflib.get_close_matches(name, list(known), 5)
            # The same letters in another order are nearer than one letter less: modle is model, not mode.
            near.sort(key=lambda other: sorted(other) != sorted(name))
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{command}() got an unexpected keyword argument {name!r}{hint}")
        if value is None:
            continue
        flag, kind, many = option[:3]
        if kind == "bool":
            if not isinstance(value, bool):
                raise TypeError(f"{name} is {value!r}, but is a switch: True or False")
            words += [flag] if value else []
        elif many and isinstance(value, (list, tuple)):
            items = [_text(name, kind, item) for item in value]
            if any("," in item for item in items):
                raise ValueError(f"{name} is {value!r}, but its parts must not have commas")
            words += [flag + "=" + ",".join(items)] if items else []
        else:
            words.append(flag + "=" + _text(name, kind, value))
    return words


def _text(name: str, kind: str, value: Any) -> str:
    # Numbers of numpy and of enumerations are numbers too, but do not print as such.
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if number and isinstance(value, numbers.Integral):
        return str(int(value))
    if number and kind != "integer":
        return repr(float(value))
    if kind in ("number", "integer"):
        raise TypeError(f"{name} is {value!r}, but must be {'a number' if kind == 'number' else 'an integer'}")
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is {value!r}, but must be text or a path")
    text = os.fsdecode(value)
    if "\0" in text:
        raise ValueError(f"{name} has a NUL byte: {text!r}")
    return text
