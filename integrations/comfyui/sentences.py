"""Errors of the program in the words of ComfyUI: one line, with a next step that works there."""

import os
import re
import shlex
from typing import Optional

# Options that a node has as an input of the same name.
_INPUT = r"--(model|vae|resolution|color|strength|seed|ram|hdr|damaged)\b"
_WITH_VALUE = re.compile(_INPUT + r"[ =](?=[0-9]|anime\b|keep\b|auto\b)")
_ALONE = re.compile(_INPUT)
_OTHER_FILE = "choose another file in Load Video"
# What to do where the program's own sentence ends without it.
_STEPS = {
    "not-a-video": _OTHER_FILE,
    "no-video-stream": _OTHER_FILE,
    "no-frames": _OTHER_FILE,
    "not-readable": _OTHER_FILE,
    "input-changed": "queue it again",
    "disk-full": "free some space and queue it again; finished work is kept",
    "not-enough-disk": "free some space and queue it again",
    "device-failed": "queue it again; finished work is kept",
    "internal": "please report it, with the log of ComfyUI",
}


def sentence(message: str, kind: str, binary: str, film: Optional[str] = None) -> str:
    """`message` of the program for people in front of ComfyUI."""
    # Frames come through a pipe, which the program calls `-`.
    text = " ".join(message.split()).removeprefix("-: ") or "Remaster failed without a message"
    # A command has to work when it is pasted, and ComfyUI's Python is seldom in the PATH of a shell.
    text = text.replace("`remaster ", f"`{_quoted(binary)} ")
    text = text.replace("add --", "set --").replace("with --ffmpeg", "in the variable REMASTER_FFMPEG")
    if film is not None:
        text = text.replace("or --restart to discard it", f"or delete {film}.remaster to discard it")
    text = _ALONE.sub(r"\1", _WITH_VALUE.sub(r"\1 = ", text))
    if kind == "not-enough-memory":
        return text + ", or choose a smaller resolution"
    # ffmpeg's words may have a semicolon and no step, so these kinds get theirs in any case.
    if ";" in text and kind not in _STEPS:
        return text
    step = _STEPS.get(kind)
    # Images come from anywhere, so a file is not what is wrong with them.
    if step is None or (step == _OTHER_FILE and film is None):
        step = f"run `{_quoted(binary)} doctor`, which says what is wrong with this machine"
    return f"{text}; {step}"


def not_installed(error: BaseException) -> str:
    return f"Remaster is not installed ({error}); run `pip install remaster-video` with ComfyUI's Python and start ComfyUI again"


def _quoted(binary: str) -> str:
    return f'"{binary}"' if os.name == "nt" else shlex.quote(binary)
