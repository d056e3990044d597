"""The asyncio twin."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import time
import unittest
from typing import Any, AsyncIterator, List

import remaster_video
from remaster_video import Cancelled, Progress, aio

from .support import Case, needs_numpy, needs_unix
from .test_frames import doubled, frame


class Twins(unittest.TestCase):
    def test_every_function_has_a_twin_with_the_same_parameters(self) -> None:
        for name in aio.__all__:
            ours, theirs = inspect.signature(getattr(remaster_video, name)), inspect.signature(getattr(aio, name))
            self.assertEqual(list(ours.parameters), list(theirs.parameters), name)
        functions = [n for n in remaster_video.__all__ if inspect.isfunction(getattr(remaster_video, n))]
        self.assertEqual(sorted(set(functions) - {"find_binary"}), aio.__all__)


@needs_unix
class Runs(Case):
    def tearDown(self) -> None:
        gc.collect()
        self.assert_none_left()

    def test_results_and_errors(self) -> None:
        self.fake("echo")
        film = asyncio.run(aio.restore("-in.mkv", "out.mkv", model="anime"))
        self.assertIn("--model=anime", film.document["words"])
        self.fake("error")
        with self.fails("not-readable"):
            asyncio.run(aio.probe("in.mkv"))

    def test_news_come_in_the_loop(self) -> None:
        self.fake("flood")
        threads: List[int] = []
        asyncio.run(aio.restore("in.mkv", on_progress=lambda p: threads.append(threading.get_ident())))
        self.assertEqual(set(threads), {threading.get_ident()})

    def test_a_listener_that_fails_ends_the_run(self) -> None:
        self.fake("waits")

        def listener(progress: Progress) -> None:
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            asyncio.run(aio.restore("in.mkv", on_progress=listener))

    def test_a_listener_that_is_a_coroutine_is_refused(self) -> None:
        async def listener(progress: Progress) -> None:
            pass

        with self.assertRaisesRegex(TypeError, "not a coroutine"):
            asyncio.run(aio.restore("in.mkv", on_progress=listener))

    def test_a_cancelled_task_waits_for_the_end_of_the_program(self) -> None:
        self.fake("waits")

        async def main() -> None:
            begun = asyncio.Event()
            task = asyncio.ensure_future(aio.restore("in.mkv", on_progress=lambda p: begun.set()))
            await begun.wait()
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual(self.processes(), [])

        asyncio.run(main())

    def test_cancelled_before_it_starts(self) -> None:
        self.fake("waits")

        async def main() -> None:
            task = asyncio.ensure_future(aio.restore("in.mkv"))
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            event = threading.Event()
            event.set()
            with self.assertRaises(Cancelled):
                await aio.restore("in.mkv", cancel=event)

        asyncio.run(main())

    def test_timeouts_and_tokens(self) -> None:
        self.fake("waits")

        async def main() -> None:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(aio.restore("in.mkv"), 0.5)
            self.assertEqual(self.processes(), [])
            event = threading.Event()
            asyncio.get_running_loop().call_later(0.3, event.set)
            with self.assertRaises(Cancelled):
                await aio.restore("in.mkv", cancel=event)

        asyncio.run(main())

    def test_many_at_once(self) -> None:
        self.fake("echo")

        async def main() -> None:
            films = await asyncio.gather(*(aio.restore(f"{n}.mkv") for n in range(20)))
            self.assertEqual([film.document["words"][-1] for film in films], [f"{n}.mkv" for n in range(20)])

        asyncio.run(main())

    def test_a_loop_that_is_closed_early(self) -> None:
        self.fake("waits")
        loop = asyncio.new_event_loop()
        tasks: List[Any] = []

        async def main() -> None:
            begun = asyncio.Event()
            tasks.append(asyncio.ensure_future(aio.restore("in.mkv", on_progress=lambda p: begun.set())))
            await begun.wait()

        loop.run_until_complete(main())
        loop.close()
        # As asyncio does for tasks that it drops; the message about it is not ours.
        tasks.pop()._log_destroy_pending = False
        gc.collect()
        self.assert_none_left()


@needs_unix
@needs_numpy
class Frames(Case):
    def setUp(self) -> None:
        super().setUp()
        self.fake("frames")

    def tearDown(self) -> None:
        gc.collect()
        self.assert_none_left()

    async def source(self, count: int) -> AsyncIterator[Any]:
        for number in range(count):
            await asyncio.sleep(0)
            yield frame(number)

    def test_frames_of_iterators_of_both_kinds(self) -> None:
        async def main(frames: Any) -> None:
            got = [array async for array in aio.restore_frames(frames, rate=25)]
            self.assertEqual(len(got), 20)
            for number, array in enumerate(got):
                self.assertTrue((doubled(frame(number)) == array).all())

        asyncio.run(main(self.source(20)))
        asyncio.run(main([frame(number) for number in range(20)]))

    def test_leaving_early(self) -> None:
        async def main() -> None:
            frames = aio.restore_frames(self.source(10_000), rate=25)
            async for array in frames:
                break
            await frames.aclose()
            self.assertEqual(self.processes(), [])
            async for array in aio.restore_frames(self.source(10_000), rate=25):
                break

        asyncio.run(main())

    def test_errors_and_cancelled_tasks(self) -> None:
        async def broken() -> AsyncIterator[Any]:
            yield frame(0)
            raise LookupError

        async def take(frames: Any, **more: Any) -> int:
            return len([array async for array in aio.restore_frames(frames, rate=25, **more)])

        async def main() -> None:
            with self.assertRaises(LookupError):
                await take(broken())
            for seconds in (0, 0.05, 0.1, 0.2, 0.4):
                task = asyncio.ensure_future(take(self.source(100_000)))
                await asyncio.sleep(seconds)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(self.processes(), [])
            event = threading.Event()
            asyncio.get_running_loop().call_later(0.3, event.set)
            with self.assertRaises(Cancelled):
                await take(self.source(100_000), cancel=event)
            self.set("FAKE_FRAMES", "fails")
            with self.fails("restoration"):
                await take(self.source(10))

        asyncio.run(main())

    def test_a_loop_that_is_closed_early(self) -> None:
        loop = asyncio.new_event_loop()
        frames = aio.restore_frames(self.source(10_000), rate=25)
        loop.run_until_complete(frames.__anext__())
        loop.close()
        del frames
        gc.collect()
        self.assert_none_left()

    def test_the_loop_runs_meanwhile(self) -> None:
        async def main() -> None:
            gaps: List[float] = []

            async def clock() -> None:
                last = time.monotonic()
                while True:
                    await asyncio.sleep(0.01)
                    now = time.monotonic()
                    gaps.append(now - last)
                    last = now

            ticking = asyncio.ensure_future(clock())
            async for array in aio.restore_frames([frame(0, 300, 400)] * 5, rate=25):
                pass
            ticking.cancel()
            self.assertGreater(len(gaps), 5)

        asyncio.run(main())
