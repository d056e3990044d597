"""What takes minutes: python3 -m unittest tests.slow, as scripts/python-check does it.

The documents as they stand, 200 restorations that are cancelled at random moments, and the memory of 1,000 frames.
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import threading
import time
from typing import Any, Dict, Iterator

import remaster_video
from remaster_video import Cancelled

from .support import Case, needs_ffmpeg, needs_numpy, needs_program, numpy
from .test_documents import blocks

PACKAGE = str(pathlib.Path(remaster_video.__file__).parents[1])
RUNS = int(os.environ.get("CANCELLED_RUNS", "200"))
FRAMES = 1000


@needs_program
@needs_ffmpeg
class Documents(Case):
    def test_every_block_runs(self) -> None:
        self.clip("film.mkv")
        environment = {**os.environ, "PYTHONPATH": PACKAGE}
        ran = 0
        for block in blocks("python.md", "python"):
            if "numpy" in block and numpy is None:
                continue
            done = subprocess.run(
                [sys.executable, "-W", "error", "-c", block],
                cwd=self.folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                universal_newlines=True,
                timeout=60,
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""), block)
            self.assertNotEqual(done.stdout, "", block)
            ran += 1
        self.assertGreaterEqual(ran, 4)


@needs_program
@needs_ffmpeg
class Cancels(Case):
    def test_cancelled_runs_leave_no_process_and_no_file(self) -> None:
        clip = self.clip("in.mkv")
        temporary = self.home() / "temporary"
        temporary.mkdir()
        self.set("TMPDIR", str(temporary))
        begun = time.monotonic()
        remaster_video.restore(clip, self.folder / "whole.mkv", model="anime", resolution="2x", threads=1)
        usual = time.monotonic() - begun
        for path in self.folder.glob("whole*"):
            path.unlink()
        ends: Dict[str, int] = {"cancelled": 0, "done": 0}
        slowest = 0.0
        chance = random.Random(28)
        for run in range(RUNS):
            event = threading.Event()
            set_at = [0.0]

            def stop() -> None:
                set_at[0] = time.monotonic()
                event.set()

            timer = threading.Timer(chance.uniform(0, usual), stop)
            timer.start()
            try:
                remaster_video.restore(
                    clip, self.folder / "out.mkv", model="anime", resolution="2x", threads=1, cancel=event
                )
                ends["done"] += 1
            except Cancelled:
                ends["cancelled"] += 1
                slowest = max(slowest, time.monotonic() - set_at[0])
            timer.cancel()
            timer.join()
            self.assertEqual(self.processes(), [], run)
            # What a finished piece leaves to resume from is no stray file: the next run takes it up.
            for path in self.folder.glob("out.mkv*"):
                if path.name == "out.mkv.remaster":
                    continue
                self.assertIn(path.name, ("out.mkv", "out.mkv.manifest.json"), run)
                path.unlink()
            self.assertEqual([n for n in self.names() if n not in ("in.mkv", "out.mkv.remaster")], [], run)
            self.assertEqual(list(temporary.iterdir()), [], run)
        print(f"{RUNS} runs of {usual:.1f} s: {ends}, the slowest stop took {slowest:.2f} s")
        self.assertGreater(ends["cancelled"], RUNS // 2)
        self.assertEqual([thread.name for thread in threading.enumerate() if thread.name == "remaster"], [])

    @needs_numpy
    def test_dropped_frames_leave_no_process_and_no_file(self) -> None:
        temporary = self.home() / "temporary"
        temporary.mkdir()
        self.set("TMPDIR", str(temporary))
        picture = numpy.zeros((48, 64, 3), numpy.uint8)
        chance = random.Random(28)
        slowest = 0.0
        for run in range(RUNS // 4):
            until = time.monotonic() + chance.uniform(0, 1.5)
            with remaster_video.restore_frames((picture for _ in range(10**6)), rate=25, model="anime", resolution="2x") as frames:
                while time.monotonic() < until:
                    next(frames)
                begun = time.monotonic()
            slowest = max(slowest, time.monotonic() - begun)
            self.assertEqual((self.processes(), list(temporary.iterdir()), self.names()), ([], [], []), run)
        print(f"{RUNS // 4} streams, the slowest stop took {slowest:.2f} s")


@needs_program
@needs_numpy
class Memory(Case):
    def resident(self) -> int:
        text = pathlib.Path("/proc/self/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    def test_memory_is_flat_over_frames(self) -> None:
        if sys.platform != "linux":
            self.skipTest("memory is read from /proc")
        picture = numpy.random.RandomState(1).randint(0, 65536, (72, 128, 3)).astype(numpy.uint16)

        def source() -> Iterator[Any]:
            for number in range(FRAMES):
                yield picture // 2 + numpy.uint16(number)

        seen, after_100 = 0, 0
        most = 0
        for frame in remaster_video.restore_frames(source(), rate=25, count=FRAMES, model="anime", resolution="2x"):
            seen += 1
            self.assertEqual(frame.shape, (144, 256, 3))
            if seen == 100:
                after_100 = self.resident()
            most = max(most, self.resident())
        self.assertEqual(seen, FRAMES)
        whole = FRAMES * 144 * 256 * 6 // 1024
        print(f"resident after 100 frames {after_100} KiB, at most {most} KiB; all frames have {whole} KiB")
        self.assertLess(most - after_100, 4096)
