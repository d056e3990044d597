"""The program itself, on small clips."""

from __future__ import annotations

import pathlib
import shutil
import sys
import threading
import time
from typing import List

import remaster_video
from remaster_video import Cancelled

from .support import MEDIA, Case, needs_ffmpeg, needs_program


@needs_program
@needs_ffmpeg
class Real(Case):
    def setUp(self) -> None:
        super().setUp()
        self.film = self.clip("in.mkv").rename(self.folder / "-in.mkv")

    def test_a_film_from_one_end_to_the_other(self) -> None:
        film = remaster_video.probe(self.film)
        self.assertEqual((film.video.width, film.video.height), (64, 36))
        self.assertEqual([stream.kind for stream in film.others], ["audio"])

        planned = remaster_video.plan(self.film, model="anime", resolution="2x")
        self.assertEqual(planned.geometry.shown, (128, 72))
        self.assertGreater(planned.total.ram_bytes, 0)

        news: List[str] = []
        out = self.folder / "--out.mkv"
        made = remaster_video.restore(
            str(self.film), out, model="anime", resolution="2x", on_progress=lambda p: news.append(p.phase)
        )
        self.assertEqual((made.width, made.height, made.output, made.skipped), (128, 72, str(out), False))
        self.assertIn("restore", news)
        assert made.summary is not None
        self.assertEqual(made.summary.frames, made.frames)
        again = remaster_video.restore(self.film, out, model="anime", resolution="2x")
        self.assertEqual((again.skipped, again.frames), (True, made.frames))

        compared = remaster_video.compare(self.film, out, quick=True, min_psnr=90.0)
        self.assertFalse(compared.passed)
        self.assertEqual(compared.frames, made.frames)
        self.assertTrue(remaster_video.compare(out, out, quick=True, min_psnr=90.0).identical)

        sheet = remaster_video.preview(self.film, self.folder / "sheet.png", model="anime", resolution="2x", shots=1)
        self.assertEqual(len(sheet.frames), 1)
        self.assertTrue(pathlib.Path(sheet.output).exists())

    def test_errors(self) -> None:
        with self.fails("not-readable", "nothing.mkv"):
            remaster_video.restore(self.folder / "nothing.mkv", model="anime")
        with self.fails("model-not-installed"):
            remaster_video.restore(self.film, model_dir=self.folder)
        (self.folder / "there.mkv").write_bytes(b"mine")
        with self.fails("output-exists"):
            remaster_video.restore(self.film, self.folder / "there.mkv", model="anime")
        with self.fails("usage"):
            remaster_video.restore(self.film, model="anime", strength=float("nan"))
        with self.assertRaises(remaster_video.RemasterError) as caught:
            remaster_video.restore(self.film, self.folder / "o.mkv", model="anime", ram="1M")
        self.assertEqual(caught.exception.exit_code, 4)

    def test_models_and_devices(self) -> None:
        self.assertIsInstance(remaster_video.models(model_dir=self.folder).files, tuple)
        self.assertIn("cpu", [device.device for device in remaster_video.devices().devices])
        with self.fails("usage"):
            remaster_video.pull_model("--help")
        (self.folder / "x.safetensors").write_bytes(b"<html>")
        verdict = remaster_video.verify_models(self.folder / "x.safetensors")
        self.assertFalse(verdict.passed)
        self.assertEqual(verdict.files[0].verdict, "damaged")

    def test_cancel(self) -> None:
        event = threading.Event()
        set_at: List[float] = []
        long = self.folder / "long.mkv"
        shutil.copy(MEDIA / "launch.mp4", long)

        def stop(progress: remaster_video.Progress) -> None:
            set_at.append(time.monotonic())
            event.set()

        with self.assertRaises(Cancelled):
            remaster_video.restore(long, self.folder / "out.mkv", model="anime", resolution="4x", cancel=event, on_progress=stop)
        self.assertLess(time.monotonic() - set_at[0], 5)
        self.assert_none_left()
        self.assertEqual([name for name in self.names() if not name.endswith("in.mkv")], ["long.mkv"])

    def test_names_that_are_no_text(self) -> None:
        if sys.platform != "linux":
            self.skipTest("names are text here")
        odd = bytes(self.folder) + b"/\xff\n.mkv"
        shutil.copy(self.film, odd)
        made = remaster_video.restore(odd, model="anime", resolution="1x")
        self.assertEqual(made.frames, made.summary.frames if made.summary else None)
