"""The program `remaster`: where it is, and what it lists."""

import functools
import json
import os
import subprocess
import threading
import time
from typing import Any, Dict, Iterable, List, Tuple

from . import sentences
from .choices import Catalogue, catalogue
from .refused import Refused

# ComfyUI asks for the choices of a node several times per prompt. A list takes 20 ms per folder.
_FRESH_SECONDS = 5.0
# Drivers may take seconds to name their devices; a folder on a network disk takes long to list.
_ANSWER_SECONDS = 60


def package() -> Any:
    """The Python package `remaster_video`, which has the program inside."""
    try:
        import remaster_video
    except ImportError as error:
        raise Refused(sentences.not_installed(error)) from None
    return remaster_video


def binary() -> str:
    """The path of the program."""
    try:
        return str(package().find_binary())
    except Refused:
        raise
    except Exception as error:
        raise Refused(sentences.not_installed(error)) from None


def ask(*arguments: str) -> Dict[str, Any]:
    """The document that the program prints for `arguments` and `--json`."""
    program = binary()
    try:
        done = subprocess.run(
            [program, *arguments, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_ANSWER_SECONDS,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        document = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise Refused(f"`{program} {' '.join(arguments)}` gave no answer ({error}); start ComfyUI again") from None
    if not isinstance(document, dict) or "error" in document:
        message = str(document.get("error", "")) if isinstance(document, dict) else ""
        raise Refused(sentences.sentence(message, "", program))
    return document


def colors() -> List[str]:
    """The methods of `--color`. Empty without a program, so that the nodes load nevertheless."""
    try:
        return list(_choices(binary(), "color"))
    except Refused:
        return []


@functools.lru_cache(maxsize=8)
def _choices(program: str, name: str) -> Tuple[str, ...]:
    """Words that an option of `program` takes. They change with the program alone."""
    options = ask("generate", "options").get("options", [])
    return tuple(str(word) for option in options if option.get("name") == name for word in option.get("choices", ()))


class Known:
    """What the program lists, asked again when it is older than a few seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = float("-inf")
        self._folders: Tuple[str, ...] = ()
        self._models = Catalogue()

    def models(self, folders: Iterable[str]) -> Catalogue:
        """Files in the folders that the program searches by itself, and in `folders` of ComfyUI."""
        wanted = tuple(folder for folder in dict.fromkeys(folders) if os.path.isdir(folder))
        with self._lock:
            if self._folders != wanted or time.monotonic() - self._at > _FRESH_SECONDS:
                files: List[Dict[str, Any]] = []
                for folder in wanted or ("",):
                    place = ["--model-dir", folder] if folder else []
                    files += ask("models", "list", *place)["files"]
                self._models, self._folders, self._at = catalogue(files), wanted, time.monotonic()
            return self._models
