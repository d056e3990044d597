"""Programs that answer, fail, end and do not end."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings
from typing import Any, List
from unittest import mock

import remaster_video
from remaster_video import Cancelled, Progress, RemasterError, _binary, _process

from .support import Case, needs_unix


@needs_unix
class Answers(Case):
    def test_fields_that_are_not_known_are_skipped_and_kept(self) -> None:
        self.fake("echo")
        film = remaster_video.restore("in.mkv")
        self.assertEqual((film.input, film.output, film.skipped, film.frames), ("in", "out", False, None))
        self.assertEqual(film.document["novelty"], {"a": 1})
        with self.assertRaises(AttributeError):
            film.input = "x"  # type: ignore[misc]

    def test_errors_have_their_kind(self) -> None:
        self.fake("error")
        with self.fails("not-readable", "no such file; name another") as caught:
            remaster_video.restore("in.mkv")
        self.assertEqual(caught.exception.exit_code, 3)
        self.assertNotIsInstance(caught.exception, Cancelled)
        self.fake("interrupted")
        with self.assertRaises(Cancelled):
            remaster_video.restore("in.mkv")

    def test_errors_can_be_pickled(self) -> None:
        import pickle

        for error in (RemasterError("m", "k", 3), Cancelled()):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), again.args), (type(error), error.args))

    def test_answers_that_are_none(self) -> None:
        for how in ("garbage", "list", "deep", "empty"):
            self.fake(how)
            with self.fails("binary-failed", "did not print a JSON document"):
                remaster_video.restore("in.mkv")
        self.fake("other")
        with self.fails("binary-failed", "Restored.input is int"):
            remaster_video.restore("in.mkv")

    def test_a_program_of_another_version(self) -> None:
        self.fake("older")
        with self.fails("binary-failed", "has no option --no-scripts; install the version") as caught:
            remaster_video.restore("in.mkv")
        self.assertEqual(caught.exception.exit_code, 2)
        self.fake("refuses")
        with self.fails("usage") as caught:
            remaster_video.restore("in.mkv")
        self.assertEqual(str(caught.exception), "`pink` is no colour; use lab")

    def test_tracebacks_show_names_that_can_be_imported(self) -> None:
        for error in (RemasterError, Cancelled):
            self.assertIs(getattr(sys.modules[error.__module__], error.__name__), error)
            self.assertEqual(error.__module__, "remaster_video")

    def test_a_lot_of_words_neither_block_nor_fill_the_memory(self) -> None:
        self.fake("noisy")
        with self.fails("binary-failed", "exit code 9", "last words") as caught:
            remaster_video.restore("in.mkv")
        self.assertLess(len(str(caught.exception)), 10_000)

    def test_a_program_that_is_killed(self) -> None:
        self.fake("killed")
        with self.fails("binary-failed", "killed by signal 9", "about to go") as caught:
            remaster_video.restore("in.mkv")
        self.assertEqual(caught.exception.exit_code, -9)

    def test_a_slow_listener_gets_the_newest(self) -> None:
        self.fake("flood")
        seen: List[int] = []

        def slow(progress: Progress) -> None:
            time.sleep(0.2 if not seen else 0)
            seen.append(progress.done)

        remaster_video.restore("in.mkv", on_progress=slow)
        self.assertEqual(seen[-1], 19999)
        self.assertEqual(seen, sorted(seen))
        self.assert_none_left()


class Binary(Case):
    def test_a_program_that_is_not_there(self) -> None:
        self.set("REMASTER_BINARY", str(self.folder / "nothing"))
        with self.fails("binary-missing", "cannot be started", "REMASTER_BINARY"):
            remaster_video.restore("in.mkv")

    def test_a_program_that_is_none(self) -> None:
        path = self.folder / "remaster"
        path.write_bytes(b"\x7fELF no")
        self.set("REMASTER_BINARY", str(path))
        for mode in (0o644, 0o755):
            path.chmod(mode)
            with self.fails("binary-missing", str(path)):
                remaster_video.restore("in.mkv")
        self.set("REMASTER_BINARY", str(self.folder))
        with self.fails("binary-missing"):
            remaster_video.restore("in.mkv")

    def test_without_any(self) -> None:
        environment = {"PATH": str(self.folder), "HOME": str(self.folder)}
        with mock.patch.dict(os.environ, environment, clear=True):
            with mock.patch("remaster_video._binary._folders", lambda: iter([str(self.folder)])):
                with self.fails("binary-missing", "pip install remaster-video"):
                    remaster_video.find_binary()
                name = self.folder / ("remaster.exe" if os.name == "nt" else "remaster")
                name.write_bytes(b"")
                self.assertEqual(remaster_video.find_binary(), str(name))

    @needs_unix
    def test_what_came_with_the_package_comes_first(self) -> None:
        for package, folder in (
            ("/env/lib/python3.9/site-packages", "/env/bin"),
            ("/usr/local/lib/python3.9/dist-packages", "/usr/local/bin"),
            ("/opt/target", "/opt/target/bin"),
        ):
            with mock.patch("remaster_video._binary.__file__", f"{package}/remaster_video/_binary.py"):
                folders = list(_binary._folders())
            self.assertIn(folder, folders[:2], package)


@needs_unix
class Stops(Case):
    def after_news(self, event: threading.Event) -> Any:
        return lambda progress: event.set()

    def test_a_cancel_that_is_set_before_starts_nothing(self) -> None:
        self.fake("waits")
        event = threading.Event()
        event.set()
        with mock.patch.object(_process, "Child", side_effect=AssertionError):
            with self.assertRaises(Cancelled):
                remaster_video.restore("in.mkv", cancel=event)

    def test_cancel_ends_the_program(self) -> None:
        self.fake("waits")
        event = threading.Event()
        begun = time.monotonic()
        with self.fails("interrupted") as caught:
            remaster_video.restore("in.mkv", cancel=event, on_progress=self.after_news(event))
        self.assertIsInstance(caught.exception, Cancelled)
        self.assertEqual(caught.exception.exit_code, 130)
        self.assertLess(time.monotonic() - begun, 5)
        self.assert_none_left()

    def test_a_run_that_is_done_when_it_is_cancelled_is_done(self) -> None:
        self.fake("finishes")
        event = threading.Event()
        threading.Timer(0.3, event.set).start()
        self.assertEqual(remaster_video.restore("in.mkv", cancel=event).output, "out")

    def test_one_that_does_not_stop_is_killed(self) -> None:
        self.fake("stubborn")
        event = threading.Event()
        with mock.patch.object(_process, "TERMINATE_SECONDS", 0.2):
            with mock.patch.object(_process.Child.stop, "__defaults__", (0.3,)):
                begun = time.monotonic()
                with self.assertRaises(Cancelled):
                    remaster_video.restore("in.mkv", cancel=event, on_progress=self.after_news(event))
        self.assertLess(time.monotonic() - begun, 5)
        self.assert_none_left()

    def test_an_error_of_the_listener_or_of_the_token_ends_the_program_and_comes_out(self) -> None:
        self.fake("waits")

        def listener(progress: Progress) -> None:
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            remaster_video.restore("in.mkv", on_progress=listener)
        self.assert_none_left()

        class Token:
            asked = 0

            def is_set(self) -> bool:
                self.asked += 1
                if self.asked > 3:
                    raise LookupError
                return False

        with self.assertRaises(LookupError):
            remaster_video.restore("in.mkv", cancel=Token())
        self.assert_none_left()

    def test_two_in_two_threads_do_not_hold_each_other(self) -> None:
        self.fake("waits")
        events = [threading.Event(), threading.Event()]
        ended: List[int] = []

        def body(number: int) -> None:
            try:
                remaster_video.restore("in.mkv", cancel=events[number])
            except Cancelled:
                ended.append(number)

        threads = [threading.Thread(target=body, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        # The pipe of the second program must not be open in the first one, or this would wait.
        events[0].set()
        threads[0].join(5)
        self.assertEqual((ended, threads[1].is_alive()), ([0], True))
        events[1].set()
        threads[1].join(5)
        self.assertEqual(ended, [0, 1])
        self.assert_none_left()

    def test_a_process_that_is_forked_off_does_not_hold_the_pipe(self) -> None:
        self.fake("waits")
        event, forked = threading.Event(), []

        def fork(progress: Progress) -> None:
            if not forked:
                with warnings.catch_warnings():
                    # Newer versions warn of a fork beside threads; this one only sleeps.
                    warnings.simplefilter("ignore")
                    forked.append(os.fork())
                if forked[0] == 0:
                    time.sleep(30)
                    os._exit(0)
                event.set()

        begun = time.monotonic()
        with self.assertRaises(Cancelled):
            remaster_video.restore("in.mkv", cancel=event, on_progress=fork)
        self.assertLess(time.monotonic() - begun, _process.STOP_SECONDS)
        os.kill(forked[0], signal.SIGKILL)
        os.waitpid(forked[0], 0)

    def script(self, text: str) -> "subprocess.Popen[str]":
        package = str(pathlib.Path(remaster_video.__file__).parents[1])
        self.fake("waits")
        environment = {**os.environ, "PYTHONPATH": package}
        return subprocess.Popen(
            [sys.executable, "-c", "import remaster_video, threading, sys, asyncio, time\n" + text],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            env=environment,
            # As in a shell that runs it in the background, where the program does not get Ctrl-C by itself.
            start_new_session=True,
        )

    RUN = "remaster_video.restore('in.mkv', on_progress=lambda p: print('on', flush=True) if p.done == 0 else None)\n"

    def begun(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "on\n")

    def ended(self, process: "subprocess.Popen[str]") -> str:
        out, error = process.communicate(timeout=15)
        self.assert_none_left()
        return out + error

    def test_ctrl_c_ends_both(self) -> None:
        process = self.script(self.RUN)
        self.begun(process)
        process.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", self.ended(process))
        self.assertIn(process.returncode, (-signal.SIGINT, 130))

    def test_ctrl_c_ends_both_with_asyncio(self) -> None:
        process = self.script(
            "from remaster_video import aio\n"
            "async def main():\n"
            "    await aio.restore('in.mkv', on_progress=lambda p: print('on', flush=True) if p.done == 0 else None)\n"
            "asyncio.run(main())\n"
        )
        self.begun(process)
        process.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", self.ended(process))

    def test_a_python_that_is_killed_takes_the_program_with_it(self) -> None:
        process = self.script(self.RUN)
        self.begun(process)
        process.kill()
        self.ended(process)

    def test_a_python_that_ends_meanwhile_stops_the_program(self) -> None:
        process = self.script(
            "ready = threading.Event()\n"
            "def body(): remaster_video.restore('in.mkv', on_progress=lambda p: ready.set())\n"
            "threading.Thread(target=body, daemon=True).start()\n"
            "ready.wait(); print('on', flush=True)\n"
        )
        self.begun(process)
        self.ended(process)
        self.assertEqual(process.returncode, 0)

    def test_a_second_ctrl_c_while_it_stops_leaves_nothing(self) -> None:
        process = self.script("import os; os.environ['FAKE'] = 'stubborn'\n" + self.RUN)
        self.begun(process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", self.ended(process))


if __name__ == "__main__":
    unittest.main()
