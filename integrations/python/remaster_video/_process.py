"""Runs the program. Closing its stdin stops it on every system, and one that does not stop is killed after a while."""

from __future__ import annotations

import atexit
import collections
import errno
import inspect
import io
import json
import os
import subprocess
import threading
import time
import weakref
from typing import IO, Any, Callable, Deque, Dict, List, Optional, Protocol, Sequence, Tuple, cast

from ._binary import find_binary
from ._errors import Cancelled, RemasterError, error_of
from ._json import parse
from ._types import Progress


class CancelToken(Protocol):
    """Anything that says whether to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


OnProgress = Callable[[Progress], object]

# How often a run looks whether it is cancelled.
POLL_SECONDS = 0.05
# The program promises to stop within a second; it may be starting up, on a slow disk. Where there are signals one
# follows; on Windows the second step is the last.
STOP_SECONDS = 10.0 if os.name == "nt" else 5.0
TERMINATE_SECONDS = 5.0
# A process of the program's may hold its pipes a little longer than it lives.
DRAIN_SECONDS = 5.0
# A document has a line or two per frame of a film at most; this is a day of film.
MAX_DOCUMENT_BYTES = 1 << 30
MAX_LINE_BYTES = 1 << 20
MAX_LINES = 40
MAX_EVENTS = 64
MAX_SHOWN = 2000

# Programs that run, to be stopped when Python ends.
_LIVE: "weakref.WeakSet[Child]" = weakref.WeakSet()


class Child:
    """The running program. Its stderr is read by a thread of its own, so it never waits for this process."""

    def __init__(self, words: Sequence[str], listens: bool = True) -> None:
        self.binary = find_binary()
        environment = dict(os.environ)
        # It is for this package alone; the program warns about variables that it does not know.
        environment.pop("REMASTER_BINARY", None)
        # Notified of everything that a thread of this run has done.
        self.changed = threading.Condition()
        # Called then too, by that thread.
        self.on_change: Optional[Callable[[], None]] = None
        # How it is asked to stop.
        self.ask: Callable[[], None] = self.close_stdin if listens else self.terminate
        self.summary: Optional[Dict[str, Any]] = None
        self._events: Deque[Progress] = collections.deque(maxlen=MAX_EVENTS)
        self._lines: Deque[str] = collections.deque(maxlen=MAX_LINES)
        self._error: Optional[Tuple[str, Optional[str]]] = None
        # Not a plain lock: a stream that is collected stops its program wherever that happens, here too.
        self._stopping = threading.RLock()
        self._threads: List[threading.Thread] = []
        # No console window flashes up where a program without one starts this one.
        flags = cast(int, getattr(subprocess, "CREATE_NO_WINDOW", 0))
        try:
            self.process = subprocess.Popen(
                [self.binary, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                bufsize=0,
                creationflags=flags,
            )
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise ValueError("the options are too long for a command line; shorten the longest") from None
            raise RemasterError(
                f"{self.binary} cannot be started: {error.strerror or error}; name the path of the program "
                "in REMASTER_BINARY, or install it again with `pip install --force-reinstall remaster-video`",
                "binary-missing",
                127,
            ) from error
        _LIVE.add(self)
        self.stdin = cast(IO[bytes], self.process.stdin)
        self.stdout = cast(IO[bytes], self.process.stdout)
        # One system call per line, not per byte.
        self.stderr = io.BufferedReader(cast(io.RawIOBase, self.process.stderr))
        self.thread(self._read_events)

    def thread(self, work: Callable[[], None]) -> None:
        # A daemon: this process may end while the program runs, which then stops since its stdin is closed.
        thread = threading.Thread(target=work, name="remaster", daemon=True)
        self._threads.append(thread)
        thread.start()

    def notify(self) -> None:
        with self.changed:
            self.changed.notify_all()
        if self.on_change is not None:
            self.on_change()

    def _read_events(self) -> None:
        while True:
            try:
                line = self.stderr.readline(MAX_LINE_BYTES)
            except (OSError, ValueError):
                break
            if not line:
                break
            self._event(line)
        self.notify()

    def _event(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        try:
            event = json.loads(text) if text.startswith("{") else {}
        except (ValueError, RecursionError):
            event = {}
        kind = event.get("event")
        if kind == "progress":
            try:
                news = parse(Progress, event)
            except RemasterError:
                return
            with self.changed:
                self._events.append(news)
            self.notify()
        elif kind == "error" and isinstance(event.get("text"), str):
            word = event.get("kind")
            self._error = (event["text"], word if isinstance(word, str) else None)
        elif kind == "summary":
            self.summary = event
        elif kind is None and text:
            self._lines.append(text[:MAX_SHOWN])

    def take_event(self) -> Optional[Progress]:
        with self.changed:
            return self._events.popleft() if self._events else None

    def wait_event(self, seconds: float) -> Optional[Progress]:
        """The next news, if there are any in time."""
        with self.changed:
            if not self._events:
                self.changed.wait(seconds)
            return self._events.popleft() if self._events else None

    def close_stdin(self) -> None:
        try:
            self.stdin.close()
        except OSError:
            pass

    def terminate(self) -> None:
        try:
            self.process.terminate()
        except OSError:
            pass

    def stop(self, patience: float = STOP_SECONDS) -> None:
        """Stops the program and waits for it. Safe to call at any time, from any thread and twice."""
        if threading.current_thread() in self._threads:
            # A stream that was dropped is collected by any thread, also by one that would be waited for here.
            threading.Thread(target=self.stop, args=(patience,), name="remaster", daemon=True).start()
            return
        with self._stopping:
            try:
                self.ask()
                if not self.ends_within(patience):
                    self.terminate()
                    self.ends_within(TERMINATE_SECONDS)
            finally:
                # Also where a second Ctrl-C ends the wait.
                if self.process.poll() is None:
                    self.process.kill()
                    self.process.wait()
        self.finish()

    def ends_within(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def finish(self) -> None:
        """Waits for the threads of a process that ended, and closes its pipes."""
        until = time.monotonic() + DRAIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        # A pipe must not be closed under a thread that uses it.
        if not any(thread.is_alive() for thread in self._threads):
            self.close_stdin()
            self.stdout.close()
            self.stderr.close()
        _LIVE.discard(self)

    def failure(self) -> RemasterError:
        """The error of a run that ended without a document."""
        code = self.process.returncode
        if self._error is not None:
            text, kind = self._error
            return self.error_of(text, kind or _KINDS.get(code, "restoration"), code)
        if code == 130:
            return Cancelled()
        lines = list(self._lines)
        # A command line that is refused, before news are JSON.
        refused = [line[len(REFUSED) :] for line in lines if line.startswith(REFUSED)]
        if code == 2 and refused:
            return self.error_of(refused[0], "usage", code)
        said = ": " + " ".join(lines[-3:]) if lines else "; `remaster doctor` checks the installation"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return RemasterError(f"{self.binary} {how}{said}", _KINDS.get(code, "binary-failed"), code)

    def error_of(self, message: str, kind: str, code: int) -> RemasterError:
        """The error that the program named."""
        # Frames come through a pipe, which the program calls `-`. No file has this name here.
        message = message.removeprefix("-: ")
        if kind == "usage" and message.startswith(NO_OPTION):
            # Options are checked before anything runs, so it is another version that does not know one.
            option = message[len(NO_OPTION) :].split(";")[0]
            message = f"{self.binary} has no option {option}; install the version of the program that this package came with"
            return RemasterError(message, "binary-failed", code)
        return error_of(message, kind, code)


# Where a failure has no word of its own.
_KINDS = {2: "usage", 101: "internal", 130: "interrupted"}
# How the program refuses a command line, and an option that it does not know.
REFUSED = "error: "
NO_OPTION = "there is no option "


def check(on_progress: Optional[OnProgress], cancel: Optional[CancelToken]) -> None:
    """Before anything runs."""
    if on_progress is not None and (not callable(on_progress) or inspect.iscoroutinefunction(on_progress)):
        raise TypeError(f"on_progress is {on_progress!r}, but must be a function that is not a coroutine")
    if cancel is None:
        return
    if not callable(getattr(cancel, "is_set", None)):
        raise TypeError(f"cancel is {cancel!r}, but must have is_set(), as threading.Event has")
    if cancel.is_set():
        raise Cancelled("cancelled before it started")


def run(
    words: Sequence[str],
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
    listens: bool = True,
) -> Tuple[Dict[str, Any], int]:
    """The document of a command and its exit code. `on_progress` is called by the thread that calls this."""
    check(on_progress, cancel)
    child = Child(words, listens)
    cancelled = False
    try:
        document = _Document(child)
        while child.process.poll() is None:
            if cancel is not None and cancel.is_set():
                cancelled = True
                break
            pass_on(child.wait_event(POLL_SECONDS), on_progress)
        if not cancelled:
            child.finish()
            event = child.take_event()
            while event is not None:
                pass_on(event, on_progress)
                event = child.take_event()
    finally:
        # At once if it ended by itself.
        child.stop()
    return _outcome(child, document.bytes, cancelled)


def pass_on(event: Optional[Progress], on_progress: Optional[OnProgress]) -> None:
    if event is not None and on_progress is not None:
        on_progress(event)


class _Document:
    """What the program prints, read by a thread of its own."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.bytes = bytearray()
        child.thread(self._read)

    def _read(self) -> None:
        while True:
            try:
                part = self._child.stdout.read(1 << 16)
            except (OSError, ValueError):
                break
            if not part:
                break
            # What comes behind is read all the same, so that the program does not wait.
            if len(self.bytes) < MAX_DOCUMENT_BYTES:
                self.bytes += part
        self._child.notify()


def _outcome(child: Child, printed: bytearray, cancelled: bool) -> Tuple[Dict[str, Any], int]:
    code = child.process.returncode
    try:
        document = json.loads(printed.decode("utf-8"))
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        message, kind = document.get("error"), document.get("kind")
        if code != 0 and isinstance(message, str) and isinstance(kind, str):
            raise child.error_of(message, kind, code)
        # A check that failed has its result as the document.
        if code in (0, 6):
            return document, code
    if cancelled:
        raise Cancelled()
    if code == 0:
        raise RemasterError(
            f"{child.binary} did not print a JSON document; is it the program `remaster`?", "binary-failed", code
        )
    raise child.failure()


@atexit.register
def _stop_all() -> None:
    for child in list(_LIVE):
        child.close_stdin()
    for child in list(_LIVE):
        child.stop(2.0)


def _let_go() -> None:
    """In a process that was forked off this one: a copy of a pipe there would keep programs from seeing it closed."""
    for child in list(_LIVE):
        child.close_stdin()
    _LIVE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
