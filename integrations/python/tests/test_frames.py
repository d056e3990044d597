"""Frames in and out through pipes."""

from __future__ import annotations

import decimal
import fractions
import gc
import os
import sys
import threading
import time
import unittest
from typing import Any, Iterator, List
from unittest import mock

import remaster_video
from remaster_video import Cancelled, _frames

from .support import PROGRAM, Case, needs_numpy, needs_program, needs_unix, numpy as np


def frame(number: int, height: int = 6, width: int = 8, channels: int = 3) -> Any:
    random = np.random.RandomState(number)
    return random.randint(0, 65536, (height, width, channels)).astype(np.uint16)


def doubled(array: Any) -> Any:
    return array.repeat(2, 0).repeat(2, 1)


class Rates(unittest.TestCase):
    def test_rates_are_fractions(self) -> None:
        ntsc = fractions.Fraction(24000, 1001)
        for given, want in (
            (25, fractions.Fraction(25)),
            (25.0, fractions.Fraction(25)),
            (12.5, fractions.Fraction(25, 2)),
            ("24000/1001", ntsc),
            (23.976, ntsc),
            (24000 / 1001, ntsc),
            (29.97, fractions.Fraction(30000, 1001)),
            ((24000, 1001), ntsc),
            (ntsc, ntsc),
            ("23.976", ntsc),
            (decimal.Decimal("29.97"), fractions.Fraction(30000, 1001)),
            (remaster_video._types.Fraction(24000, 1001), ntsc),
        ):
            self.assertEqual(_frames.rate_of(given), want, given)  # type: ignore[arg-type]
        for bad in (0, -1, "x", None, (1, 0), float("nan"), float("inf"), True, [], (1, 2, 3), 1e30, 10**400, "1e999999999", "1/2/3"):
            with self.assertRaises(ValueError, msg=repr(bad)):
                _frames.rate_of(bad)  # type: ignore[arg-type]


@needs_numpy
class Numbers(unittest.TestCase):
    def test_types_of_numbers_are_brought_to_that_of_the_stream(self) -> None:
        form, floats = _frames.Layout("rgb16"), _frames.Layout("rgbf32")
        for value, of_16, of_float in (
            (np.uint8(255), 65535, 1.0),
            (np.uint8(1), 257, 1 / 255),
            (np.uint16(65535), 65535, 1.0),
            (np.float32(0.5), 32768, 0.5),
            (np.float64(1.0), 65535, 1.0),
            (np.float16(1.5), 65535, 1.0),
            (np.float32(-0.1), 0, 0.0),
            (np.float64(1e300), 65535, 1.0),
            (np.array(257, ">u2"), 257, 257 / 65535),
        ):
            array = np.full((2, 3, 3), value, dtype=value.dtype)
            self.assertEqual(form.planes(array, 0).ravel()[0], of_16)
            self.assertAlmostEqual(float(floats.planes(array, 0).ravel()[0]), of_float, 6)

    def test_rates_and_counts_may_be_of_numpy(self) -> None:
        self.assertEqual(_frames.rate_of(np.float32(12.5)), fractions.Fraction(25, 2))
        self.assertEqual(_frames.rate_of(np.int64(25)), fractions.Fraction(25))
        self.assertEqual(_frames.Job("rgb16", fractions.Fraction(25), np.int64(3), None, {}).count, 3)

    def test_planes_are_a_copy_in_their_order(self) -> None:
        form = _frames.Layout("rgb16")
        planar = np.arange(3 * 2 * 4, dtype=np.uint16).reshape(3, 2, 4)
        data = form.planes(planar.transpose(1, 2, 0), 0)
        self.assertFalse(np.shares_memory(data, planar))
        self.assertEqual(data.tobytes(), planar.astype("<u2").tobytes())
        self.assertTrue((form.array(bytearray(data.tobytes()), 2, 4) == planar.transpose(1, 2, 0)).all())

    def test_frames_that_cannot_be_taken_are_named(self) -> None:
        form = _frames.Layout("rgb16")
        nan = np.zeros((2, 2, 3), np.float32)
        nan[1, 1, 1] = np.nan
        for bad, part in (
            (np.zeros((2, 2), np.uint8), r"frame 4 has the shape \(2, 2\)"),
            (np.zeros((2, 2, 4), np.uint8), r"needs \(height, width, 3\)"),
            (np.zeros((0, 2, 3), np.uint8), "shape"),
            (nan, "not finite"),
            # Nothing of it is in memory, and nothing may be.
            (np.broadcast_to(np.uint8(0), (40_000, 1, 3)), "frame 4 is 1 x 40000"),
            (np.broadcast_to(np.uint8(0), (30_000, 30_000, 3)), "pixels per side and 268435456 in all"),
        ):
            with self.assertRaisesRegex(ValueError, part):
                form.planes(bad, 4)
        for dtype in (np.int32, np.int64, bool, complex, object):
            with self.assertRaisesRegex(TypeError, "frame 4 is of"):
                form.planes(np.zeros((2, 2, 3), dtype), 4)

    def test_headers(self) -> None:
        form = _frames.Layout("rgb16")
        good = b"REMASTER-FRAMES rgb16 W640 H480 F25:1 A1:1 L500 XNEW\n"
        self.assertEqual(_frames.header_of(good, form), ((640, 480), fractions.Fraction(25)))
        for bad in (
            b"YUV4MPEG2 W640 H480 F25:1\n",
            b"REMASTER-FRAMES rgbf32 W640 H480 F25:1\n",
            b"REMASTER-FRAMES rgb16 W640 F25:1\n",
            b"REMASTER-FRAMES rgb16 W0 H480 F25:1\n",
            b"REMASTER-FRAMES rgb16 W-1 H480 F25:1\n",
            b"REMASTER-FRAMES rgb16 W9999999999 H480 F25:1\n",
            b"REMASTER-FRAMES rgb16 W640 H480 F25:0\n",
            b"REMASTER-FRAMES rgb16 W640 H480 F25:1",
            b"\xff\n",
        ):
            with self.assertRaises(ValueError, msg=repr(bad)):
                _frames.header_of(bad, form)


@needs_unix
@needs_numpy
class Streams(Case):
    def setUp(self) -> None:
        super().setUp()
        self.fake("frames")

    def tearDown(self) -> None:
        gc.collect()
        self.assert_none_left()

    def test_frames_come_back_in_order(self) -> None:
        for mood in ("", "late"):
            self.set("FAKE_FRAMES", mood)
            for count in (1, 2, 40):
                frames = [frame(number) for number in range(count)]
                news: List[int] = []
                out = remaster_video.restore_frames(iter(frames), rate=25, on_progress=lambda p: news.append(p.done))
                got = list(out)
                self.assertEqual(len(got), count)
                for a, b in zip(frames, got):
                    self.assertEqual((b.dtype, b.shape, b.flags.c_contiguous), (np.uint16, (12, 16, 3), True))
                    self.assertTrue((doubled(a) == b).all())
                self.assertEqual((out.size, out.rate), ((16, 12), 25))
                assert out.summary is not None
                self.assertEqual(out.summary.frames, count)
                self.assertEqual(list(out), [])

    def test_every_format(self) -> None:
        out = list(remaster_video.restore_frames([frame(0, channels=4)], rate=25, format="rgba16"))
        self.assertEqual((out[0].shape, out[0].dtype), ((12, 16, 4), np.uint16))
        out = list(remaster_video.restore_frames([frame(0)], rate=25, format="rgbf32"))
        self.assertEqual((out[0].shape, out[0].dtype), ((12, 16, 3), np.float32))
        self.assertTrue(np.allclose(out[0], doubled(frame(0)) / 65535))

    def test_arrays_of_four_dimensions_and_buffers_that_are_used_again(self) -> None:
        film = np.stack([frame(number) for number in range(5)])
        self.assertEqual(len(list(remaster_video.restore_frames(film, rate=25))), 5)
        buffer = np.zeros((6, 8, 3), np.uint16)

        def source() -> Iterator[Any]:
            for number in range(30):
                buffer[:] = number
                yield buffer

        got = [int(array[0, 0, 0]) for array in remaster_video.restore_frames(source(), rate=25)]
        self.assertEqual(got, list(range(30)))

    def test_large_frames_and_a_reader_that_is_slow(self) -> None:
        frames = (frame(number, 300, 400) for number in range(6))
        count = 0
        for array in remaster_video.restore_frames(frames, rate=25):
            time.sleep(0.1)
            self.assertEqual(array.shape, (600, 800, 3))
            count += 1
        self.assertEqual(count, 6)

    def test_frames_are_taken_as_they_are_needed(self) -> None:
        taken = []

        def source() -> Iterator[Any]:
            for number in range(10_000):
                taken.append(number)
                yield frame(number, 300, 400)

        with remaster_video.restore_frames(source(), rate=25) as out:
            next(out)
            next(out)
            self.assertLess(len(taken), 12)
        self.assertEqual(list(out), [])

    def test_dropping_it_stops_the_program(self) -> None:
        for _ in range(3):
            out = remaster_video.restore_frames((frame(n, 300, 400) for n in range(1000)), rate=25)
            next(out)
            del out
            gc.collect()
            self.assert_none_left()
        for array in remaster_video.restore_frames((frame(n) for n in range(1000)), rate=25):
            break

    def test_one_that_is_collected_by_its_own_thread(self) -> None:
        faults: List[Any] = []
        with mock.patch.object(sys, "unraisablehook", faults.append):
            out = remaster_video.restore_frames((frame(n) for n in range(1000)), rate=25)
            next(out)
            out.itself = out  # type: ignore[attr-defined]
            gc.disable()
            self.addCleanup(gc.enable)
            assert out._job.pipe is not None
            # Called by the threads that read and write.
            out._job.pipe.child.on_change = lambda: gc.collect() and None
            del out
            self.assert_none_left()
        self.assertEqual(faults, [])

    def test_an_error_of_the_source_comes_out(self) -> None:
        def source() -> Iterator[Any]:
            yield frame(0)
            yield frame(1)
            raise LookupError("no more")

        with self.assertRaisesRegex(LookupError, "no more"):
            list(remaster_video.restore_frames(source(), rate=25))
        self.assert_none_left()

    def test_frames_of_another_size_or_kind(self) -> None:
        for second, part in ((frame(1, 6, 10), "frame 1 is 10 x 6, but the first one is 8 x 6"), (None, "frame 1")):
            with self.assertRaisesRegex((ValueError, TypeError), part):
                list(remaster_video.restore_frames([frame(0), second], rate=25))
            self.assert_none_left()

    def test_a_run_that_fails_gives_its_frames_and_then_its_error(self) -> None:
        self.set("FAKE_FRAMES", "fails")
        got = []
        with self.fails("restoration", "leave it out") as caught:
            for array in remaster_video.restore_frames((frame(n) for n in range(10)), rate=25):
                got.append(array)
        self.assertEqual((len(got), caught.exception.exit_code), (2, 5))
        # Its name for the pipe means nothing to the caller.
        self.assertEqual(str(caught.exception), "the third frame is bad; leave it out")

    def test_a_stream_that_is_cut_or_is_none(self) -> None:
        self.set("FAKE_FRAMES", "cut")
        with self.fails("binary-failed", "inside a frame"):
            list(remaster_video.restore_frames((frame(n) for n in range(10)), rate=25))
        for how in ("garbage", "empty", "list"):
            self.fake(how)
            with self.fails("binary-failed", "something else than frames"):
                list(remaster_video.restore_frames([frame(0, 300, 400)] * 5, rate=25))
        self.fake("refuses")
        with self.fails("usage", "`pink` is no colour; use lab"):
            list(remaster_video.restore_frames([frame(0)], rate=25))
        self.fake("killed")
        with self.fails("binary-failed", "signal 9"):
            list(remaster_video.restore_frames([frame(0, 300, 400)] * 5, rate=25))

    def test_a_wrong_count(self) -> None:
        with self.fails("input-truncated", "7 frames were announced, 3 came"):
            list(remaster_video.restore_frames((frame(n) for n in range(3)), rate=25, count=7))

    def test_without_frames(self) -> None:
        with self.fails("no-frames"):
            list(remaster_video.restore_frames([], rate=25))
        with self.fails("no-frames"):
            list(remaster_video.restore_frames(iter(()), rate=25))

    def test_mistakes_show_at_once(self) -> None:
        with self.assertRaisesRegex(TypeError, "needs rate"):
            remaster_video.restore_frames([frame(0)])
        with self.assertRaisesRegex(ValueError, r"one array of the shape \(6, 8, 3\); put it into a list"):
            remaster_video.restore_frames(frame(0), rate=25)
        with self.assertRaisesRegex(TypeError, "on_progress is"):
            remaster_video.restore_frames([frame(0)], rate=25, on_progress=5)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "format is 'rgb8'"):
            remaster_video.restore_frames([frame(0)], rate=25, format="rgb8")  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "those of the file"):
            remaster_video.restore_frames("in.mkv", rate=25)
        with self.assertRaisesRegex(ValueError, "count is 0"):
            remaster_video.restore_frames(iter([]), rate=25, count=0)
        with self.assertRaisesRegex(TypeError, "did you mean 'model'"):
            remaster_video.restore_frames([frame(0)], rate=25, modell="x")  # type: ignore[call-arg]

    def test_cancel(self) -> None:
        event = threading.Event()
        with self.assertRaises(Cancelled):
            for number, array in enumerate(
                remaster_video.restore_frames((frame(n) for n in range(10_000)), rate=25, cancel=event)
            ):
                if number == 5:
                    event.set()
        event.set()
        with self.assertRaises(Cancelled):
            next(remaster_video.restore_frames([frame(0)], rate=25, cancel=event))

    def test_a_listener_that_fails(self) -> None:
        def listener(progress: remaster_video.Progress) -> None:
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            list(remaster_video.restore_frames((frame(n) for n in range(1000)), rate=25, on_progress=listener))
        self.assert_none_left()

    def test_a_program_that_does_not_read_is_stopped(self) -> None:
        self.fake("waits")
        event = threading.Event()
        threading.Timer(0.5, event.set).start()
        begun = time.monotonic()
        with self.assertRaises(Cancelled):
            list(remaster_video.restore_frames([frame(0, 600, 800)] * 9, rate=25, cancel=event))
        self.assertLess(time.monotonic() - begun, 5)


@needs_program
@needs_numpy
class Real(Case):
    def test_frames_through_the_program(self) -> None:
        frames = [frame(0, 32, 48) // 4 + 8000 * n for n in range(6)]
        out = remaster_video.restore_frames(iter(frames), rate="24000/1001", model="anime", resolution="2x", count=6)
        try:
            got = list(out)
        except remaster_video.RemasterError as error:
            if error.kind == "usage" and "--frames" in error.message:
                self.skipTest(f"{PROGRAM} has no --frames")
            raise
        self.assertEqual([array.shape for array in got], [(64, 96, 3)] * 6)
        means = [float(array.mean()) for array in got]
        self.assertEqual(means, sorted(means))
        self.assertEqual(out.rate, fractions.Fraction(24000, 1001))
        assert out.summary is not None
        self.assertEqual(out.summary.frames, 6)
        self.assert_none_left()
        self.assertEqual(self.names(), [])

    def test_its_errors_have_a_kind(self) -> None:
        with self.assertRaises(remaster_video.RemasterError) as caught:
            list(remaster_video.restore_frames([frame(0, 32, 48)], rate=25, model="anime", seed=3))
        self.assertIn(caught.exception.exit_code, (2, 3))
        self.assertNotEqual(caught.exception.message, "")
