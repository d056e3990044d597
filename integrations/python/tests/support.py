"""What tests share: a folder of their own, the program or something that stands in for it, and its processes."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from typing import Any, Iterator, List, Optional, Tuple
from unittest import mock

import remaster_video

# A shell that starts the tests in the background has Ctrl-C ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = pathlib.Path(__file__).resolve().parent
FAKE = HERE / "fake.py"
REPOSITORY = HERE.parents[2]
MEDIA = REPOSITORY / "testdata" / "media"
MARK = "REMARK_OF_TEST"

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]


def program() -> Optional[str]:
    """The program to test with, if there is one."""
    try:
        path = remaster_video.find_binary()
    except remaster_video.RemasterError:
        return None
    return path if os.access(path, os.X_OK) else None


def ffmpeg_version() -> Tuple[int, ...]:
    """Of ffmpeg and ffprobe in PATH, the older one; builds without a number count as new."""
    versions = []
    for name in ("ffmpeg", "ffprobe"):
        if shutil.which(name) is None:
            return (0,)
        text = subprocess.run([name, "-version"], stdout=subprocess.PIPE, universal_newlines=True).stdout
        number = re.match(name + r" version n?(\d+)\.(\d+)", text)
        versions.append((99,) if number is None else (int(number[1]), int(number[2])))
    return min(versions)


PROGRAM = program()
needs_program = unittest.skipIf(PROGRAM is None, "there is no program; name its path in REMASTER_BINARY")
needs_numpy = unittest.skipIf(numpy is None, "numpy is not installed")
needs_ffmpeg = unittest.skipIf(ffmpeg_version() < (5, 1), "ffmpeg and ffprobe are not installed, or older than 5.1")
needs_unix = unittest.skipIf(os.name == "nt", "scripts do not run as programs on Windows")


class Case(unittest.TestCase):
    """A test in a folder of its own, whose processes can be counted."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="remaster-test-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.mark = uuid.uuid4().hex
        # The settings and models of this user do not count.
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "APPDATA", "LOCALAPPDATA", "HF_HOME"):
            self.set(name, str(self.folder / "home"))
        self.set(MARK, self.mark)
        if PROGRAM is not None:
            self.set("REMASTER_BINARY", PROGRAM)

    def set(self, name: str, value: str) -> None:
        patch = mock.patch.dict(os.environ, {name: value})
        patch.start()
        self.addCleanup(patch.stop)

    def fake(self, how: str) -> None:
        """Lets something else stand in for the program."""
        launcher = self.home() / "fake"
        if not launcher.exists():
            # The interpreter of the tests, without the modules that take long to find.
            words = " ".join(shlex.quote(word) for word in (sys.executable, "-IS", str(FAKE)))
            launcher.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            launcher.chmod(0o755)
        self.set("REMASTER_BINARY", str(launcher))
        self.set("FAKE", how)

    def clip(self, name: str) -> pathlib.Path:
        """Five frames of 64 x 36 pixels, with sound."""
        path = self.folder / name
        words = ["ffmpeg", "-v", "error", "-i", str(MEDIA / "launch.mp4"), "-t", "0.2", "-vf", "scale=64:36", str(path)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        return path

    def home(self) -> pathlib.Path:
        """A folder that is no result of a test."""
        folder = self.folder / "home"
        folder.mkdir(exist_ok=True)
        return folder

    def processes(self) -> List[int]:
        return processes(self.mark)

    def assert_none_left(self) -> None:
        if sys.platform == "linux":
            # A process that was waited for is gone; those below it may take a moment.
            until = time.monotonic() + 2
            while self.processes() and time.monotonic() < until:
                time.sleep(0.01)
            self.assertEqual(self.processes(), [])

    def names(self) -> List[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name != "home")

    @contextlib.contextmanager
    def fails(self, kind: str, *parts: str) -> Iterator[Any]:
        with self.assertRaises(remaster_video.RemasterError) as caught:
            yield caught
        self.assertEqual(caught.exception.kind, kind, caught.exception)
        for part in parts:
            self.assertIn(part, str(caught.exception))


def processes(mark: str) -> List[int]:
    """Processes with this mark in their environment, zombies of this one included, this one not."""
    found = []
    sought = f"{MARK}={mark}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            mine = fields[0] == b"Z" and int(fields[1]) == os.getpid()
            if mine or sought in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
