"""Frames as numpy arrays, through pipes: a few of them are in memory at a time."""

from __future__ import annotations

import collections
import fractions
import io
import numbers
import os
from typing import IO, TYPE_CHECKING, Any, Deque, Dict, Iterable, Iterator, List, Optional, Tuple, Type, Union, cast

from . import _process, _words
from ._errors import Cancelled, RemasterError
from ._json import parse
from ._options import RestoreOptions, StrPath
from ._process import POLL_SECONDS, STOP_SECONDS, CancelToken, Child, OnProgress
from ._signatures import with_options
from ._types import Fraction, Summary

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal

    from typing_extensions import Unpack

    Rate = Union[int, float, str, Fraction, fractions.Fraction, Tuple[int, int]]
    Format = Literal["rgb16", "rgbf32", "rgba16"]
    # An array of any type of pixels; numpy need not be there to check types.
    Array = Any

# Channels and the type of numbers.
FORMATS = {"rgb16": (3, "<u2"), "rgbf32": (3, "<f4"), "rgba16": (4, "<u2")}
# Frames that wait on either side of the program.
WAITING = 2
MAX_HEADER_BYTES = 4096
MAX_FRAME_BYTES = 1 << 32
MAX_SIDE = 1 << 20
# What the program takes: pixels per side and in all, and numbers in the header.
TAKEN_SIDE = 1 << 15
TAKEN_PIXELS = 1 << 28
TAKEN_NUMBER = (1 << 32) - 1


def rate_of(rate: Rate) -> fractions.Fraction:
    """Frames per second as a fraction. 23.976, 29.97 and the like are 24000/1001, 30000/1001."""
    try:
        if isinstance(rate, bool):
            raise TypeError
        if isinstance(rate, Fraction):
            value = fractions.Fraction(rate.num, rate.den)
        elif isinstance(rate, tuple):
            value = fractions.Fraction(*rate)
        elif isinstance(rate, numbers.Rational):
            value = fractions.Fraction(rate)
        elif isinstance(rate, str) and "/" in rate:
            value = fractions.Fraction(*map(int, rate.split("/")))
        else:
            value = _rate_near(float(rate))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        value = fractions.Fraction(0)
    if not 0 < value.numerator <= TAKEN_NUMBER or value.denominator > TAKEN_NUMBER:
        raise ValueError(f"rate is {rate!r}, but must be frames per second, such as 25 or '24000/1001'")
    return value


def _rate_near(rate: float) -> fractions.Fraction:
    near = fractions.Fraction(round(rate * 1001 / 1000) * 1000, 1001)
    if rate != round(rate) and abs(rate - near) < 0.001:
        return near
    return fractions.Fraction(rate).limit_denominator(1_000_000)


def numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise ImportError("frames need numpy; install it with `pip install numpy`") from error
    return np


class Layout:
    """How frames are laid out in a stream."""

    def __init__(self, name: str) -> None:
        if name not in FORMATS:
            raise ValueError(f"format is {name!r}, but must be one of {', '.join(FORMATS)}")
        self.name = name
        self.channels, self.dtype = FORMATS[name]
        self.np = numpy()

    def planes(self, frame: Any, number: int) -> Any:
        """The bytes of a frame as the program takes them. They are a copy: the caller may use the frame again."""
        np = self.np
        array = np.asarray(frame)
        if array.ndim != 3 or array.shape[2] != self.channels or 0 in array.shape:
            raise ValueError(
                f"frame {number} has the shape {array.shape}, but {self.name} needs (height, width, {self.channels})"
            )
        height, width, _ = array.shape
        if max(height, width) > TAKEN_SIDE or height * width > TAKEN_PIXELS:
            raise ValueError(
                f"frame {number} is {width} x {height}, but may have {TAKEN_SIDE} pixels per side and {TAKEN_PIXELS} in all"
            )
        return np.array(self._numbers(array, number).transpose(2, 0, 1), dtype=self.dtype, order="C", copy=True)

    def _numbers(self, array: Any, number: int) -> Any:
        np, floats = self.np, self.dtype == "<f4"
        # By size, as files of 16 bits often have the order of bytes that this machine has not.
        unsigned = array.dtype.itemsize if array.dtype.kind == "u" else 0
        if unsigned == 1:
            return array / np.float32(255) if floats else array.astype(np.uint16) * np.uint16(257)
        if unsigned == 2:
            return array / np.float32(65535) if floats else array
        if array.dtype.kind != "f":
            raise TypeError(f"frame {number} is of {array.dtype}, but must be of uint8, uint16 or a float type")
        if not np.isfinite(array).all():
            raise ValueError(f"frame {number} has values that are not finite; set them to numbers from 0 to 1")
        # Cut first: a large number has no place in 32 bits.
        array = array.clip(0, 1).astype(np.float32, copy=False)
        return array if floats else np.rint(array * np.float32(65535))

    def array(self, data: bytearray, height: int, width: int) -> Any:
        """The array (height, width, channels) of a frame's bytes."""
        planes = self.np.frombuffer(data, self.dtype).reshape(self.channels, height, width)
        return self.np.ascontiguousarray(planes.transpose(1, 2, 0))


class Pipe:
    """Frames on their way to the program and back. One thread writes, one reads, and none waits for another one's end."""

    def __init__(self, words: List[str], form: Layout, fed: bool) -> None:
        self.form = form
        self.child = Child(words, listens=not fed)
        self.size: Optional[Tuple[int, int]] = None
        self.rate: Optional[fractions.Fraction] = None
        self._changed = self.child.changed
        self._in: Deque[Any] = collections.deque()
        self._out: Deque[Any] = collections.deque()
        self._writes = fed
        self._fed = not fed
        self._aborted = False
        self._read_all = False
        self._fault: Optional[str] = None
        self.child.ask = self._abort
        if fed:
            self.child.thread(self._write)
        self.child.thread(self._read)

    def _abort(self) -> None:
        with self._changed:
            self._aborted = True
            self._changed.notify_all()
        if not self._writes:
            self.child.close_stdin()
        elif os.name != "nt":
            # On Windows the writer ends the stream inside a frame, which makes the program stop.
            self.child.terminate()

    def wants(self) -> bool:
        """Whether another frame may be put."""
        with self._changed:
            return not self._fed and len(self._in) < WAITING

    def put(self, data: Any) -> None:
        with self._changed:
            self._in.append(data)
            self._changed.notify_all()

    def end(self) -> None:
        """There are no more frames to put."""
        with self._changed:
            self._fed = True
            self._changed.notify_all()

    def take(self) -> Any:
        with self._changed:
            if not self._out:
                return None
            self._changed.notify_all()
            return self._out.popleft()

    def at_end(self) -> bool:
        """Whether the program wrote all that it will write."""
        with self._changed:
            return self._read_all and not self._out

    def wait(self, seconds: float) -> None:
        """Waits until a frame can be put or taken."""
        with self._changed:
            if not self._out and not self._read_all and (self._fed or len(self._in) >= WAITING):
                self._changed.wait(seconds)

    def _write(self) -> None:
        while True:
            with self._changed:
                while not (self._in or self._fed or self._aborted):
                    self._changed.wait()
                aborted = self._aborted
                data = None if aborted or not self._in else self._in.popleft()
            if data is None:
                if aborted:
                    # A stream that ends inside a frame is never taken for a whole one.
                    self._send(b"\0")
                break
            self.child.notify()
            if not self._send(data):
                break
        self.child.close_stdin()
        with self._changed:
            self._in.clear()
            self._fed = True
        self.child.notify()

    def _send(self, data: Any) -> bool:
        left = memoryview(data).cast("B")
        try:
            while left:
                left = left[self.child.stdin.write(left) or 0 :]
        except (OSError, ValueError):
            # The program ended; its exit code and its words say why.
            return False
        return True

    def _read(self) -> None:
        stdout = io.BufferedReader(cast(io.RawIOBase, self.child.stdout), 1 << 16)
        try:
            self._read_frames(cast(IO[bytes], stdout))
        except (OSError, ValueError, MemoryError) as error:
            self._fault = str(error) or type(error).__name__
        # What else comes is dropped, so that the program can end.
        try:
            while self._fault is not None and stdout.read(1 << 16):
                pass
            stdout.detach()
        except (OSError, ValueError):
            pass
        with self._changed:
            self._read_all = True
        self.child.notify()

    def _read_frames(self, stdout: IO[bytes]) -> None:
        line = stdout.readline(MAX_HEADER_BYTES)
        if not line:
            return
        self.size, self.rate = header_of(line, self.form)
        width, height = self.size
        bytes_of_frame = width * height * self.form.channels * int(self.form.dtype[2])
        if bytes_of_frame > MAX_FRAME_BYTES:
            raise ValueError(f"frames of {width} x {height} pixels are too large")
        while True:
            data = bytearray(bytes_of_frame)
            got = _fill(stdout, data)
            if got < len(data):
                if got:
                    raise ValueError("the stream of frames ended inside a frame")
                return
            array = self.form.array(data, height, width)
            with self._changed:
                while len(self._out) >= WAITING and not self._aborted:
                    self._changed.wait()
                if not self._aborted:
                    self._out.append(array)
            self.child.notify()

    def outcome(self) -> Optional[Summary]:
        """The summary of a run whose frames were all read. Raises its error."""
        child = self.child
        child.ends_within(STOP_SECONDS)
        child.stop()
        if child.process.returncode != 0:
            raise child.failure()
        if self._fault is not None or self.size is None:
            reason = self._fault or "it wrote no frames"
            raise RemasterError(f"the program answered something else than frames: {reason}", "binary-failed", 0)
        return None if child.summary is None else parse(Summary, child.summary)

    def close(self) -> None:
        """Stops the program and waits until it has ended. Called twice, it does nothing."""
        self.child.stop()


def _fill(stream: IO[bytes], data: bytearray) -> int:
    view, got = memoryview(data), 0
    while got < len(data):
        more = cast(io.BufferedReader, stream).readinto(view[got:])
        if not more:
            break
        got += more
    return got


def header_of(line: bytes, form: Layout) -> Tuple[Tuple[int, int], fractions.Fraction]:
    """Size and rate of a stream."""
    words = line.decode("ascii", "replace").rstrip("\n").split(" ")
    if not line.endswith(b"\n") or words[:2] != ["REMASTER-FRAMES", form.name]:
        raise ValueError(f"the stream begins with {line[:60]!r}")
    values: Dict[str, str] = {word[:1]: word[1:] for word in words[2:]}
    try:
        width, height = int(values["W"]), int(values["H"])
        num, den = values["F"].split(":")
        rate = fractions.Fraction(int(num), int(den))
    except (KeyError, ValueError, ZeroDivisionError):
        raise ValueError(f"the stream begins with {line[:60]!r}") from None
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise ValueError(f"frames of {width} x {height} pixels")
    return (width, height), rate


class Job:
    """What is to be done with frames, without a thread that does it: `Frames` and its asyncio twin drive it."""

    def __init__(
        self,
        format: str,
        rate: Optional[fractions.Fraction],
        count: Optional[int],
        path: Optional[StrPath],
        options: Dict[str, Any],
    ) -> None:
        self.form = Layout(format)
        if count is not None and not (isinstance(count, numbers.Integral) and 1 <= count <= TAKEN_NUMBER):
            raise ValueError(f"count is {count!r}, but must be the number of frames, from 1")
        self.rate, self.count, self.path = rate, count, path
        words = ["restore", "--progress=json", "--no-scripts", f"--frames={self.form.name}", "--output=-"]
        words += _words.options("restore", options)
        if path is not None:
            words.append("--cancel-on-stdin-close")
        self.words = [*words, "--", "-" if path is None else _words.path(path, "frames")]
        self.pipe: Optional[Pipe] = None
        self._shape: Optional[Tuple[int, ...]] = None
        self._given = 0

    def start(self) -> None:
        """Reads the frames of a file."""
        self.pipe = Pipe(self.words, self.form, fed=False)

    def give(self, frame: Any) -> None:
        """Converts a frame and puts it, after `wants()`. The first one starts the program."""
        data = self.form.planes(frame, self._given)
        _, height, width = data.shape
        if self.pipe is None:
            rate = cast(fractions.Fraction, self.rate)
            line = f"REMASTER-FRAMES {self.form.name} W{width} H{height} F{rate.numerator}:{rate.denominator}"
            if self.count is not None:
                line += f" L{int(self.count)}"
            self.pipe = Pipe(self.words, self.form, fed=True)
            self.pipe.put((line + "\n").encode("ascii"))
            self._shape = data.shape
        elif data.shape != self._shape:
            _, first_height, first_width = cast(Tuple[int, int, int], self._shape)
            raise ValueError(
                f"frame {self._given} is {width} x {height}, but the first one is {first_width} x {first_height}"
            )
        self._given += 1
        self.pipe.put(data)

    def wants(self) -> bool:
        return self.pipe is None or self.pipe.wants()

    def end(self) -> None:
        if self.pipe is None:
            raise RemasterError("there are no frames; give at least one", "no-frames", 3)
        self.pipe.end()

    def close(self) -> None:
        if self.pipe is not None:
            self.pipe.close()

    def __del__(self) -> None:
        # The iterator was dropped before its end. The field is absent if the constructor failed.
        if getattr(self, "pipe", None) is not None:
            self.close()


class Frames(Iterator[Any]):
    """Restored frames, as arrays (height, width, channels). Closing it, or dropping it, stops the program."""

    def __init__(
        self, job: Job, source: Iterator[Any], on_progress: Optional[OnProgress], cancel: Optional[CancelToken]
    ) -> None:
        self._job = job
        self._source: Optional[Iterator[Any]] = source
        self._on_progress = on_progress
        self._cancel = cancel
        self._done = False
        self._summary: Optional[Summary] = None

    @property
    def size(self) -> Optional[Tuple[int, int]]:
        """Width and height of restored frames. Known with the first one."""
        return None if self._job.pipe is None else self._job.pipe.size

    @property
    def rate(self) -> Optional[fractions.Fraction]:
        """Restored frames per second. Known with the first one."""
        return None if self._job.pipe is None else self._job.pipe.rate

    @property
    def summary(self) -> Optional[Summary]:
        """Time and memory of the run. Known behind the last frame."""
        return self._summary

    def __iter__(self) -> Frames:
        return self

    def __next__(self) -> Any:
        if self._done:
            raise StopIteration
        try:
            frame = self._next()
        except BaseException:
            self.close()
            raise
        if frame is None:
            self.close()
            raise StopIteration
        return frame

    def _next(self) -> Any:
        job = self._job
        if job.pipe is None and job.path is not None:
            job.start()
        while True:
            if self._cancel is not None and self._cancel.is_set():
                raise Cancelled()
            pipe = job.pipe
            if pipe is not None:
                _process.pass_on(pipe.child.take_event(), self._on_progress)
                frame = pipe.take()
                if frame is not None:
                    return frame
                if pipe.at_end():
                    self._summary = pipe.outcome()
                    return None
            if self._source is not None and job.wants():
                self._feed(self._source)
            elif pipe is not None:
                pipe.wait(POLL_SECONDS)

    def _feed(self, source: Iterator[Any]) -> None:
        try:
            frame = next(source)
        except StopIteration:
            self._source = None
            self._job.end()
            return
        self._job.give(frame)

    def close(self) -> None:
        """Stops the program and waits until it has ended. Called twice, it does nothing."""
        self._done = True
        self._source = None
        self._job.close()

    def __enter__(self) -> Frames:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def job_of(
    frames: Any, rate: Optional[Rate], format: str, count: Optional[int], options: Dict[str, Any]
) -> Tuple[Job, bool]:
    """What to do, and whether the frames are those of a file."""
    if isinstance(frames, (str, bytes, os.PathLike)):
        if rate is not None or count is not None:
            raise TypeError("rate and count are those of the file; leave them out")
        return Job(format, None, None, frames, options), True
    if getattr(frames, "ndim", 4) == 3:
        raise ValueError(f"frames is one array of the shape {tuple(frames.shape)}; put it into a list")
    if rate is None:
        raise TypeError("restore_frames() needs rate, the frames per second, such as 25 or '24000/1001'")
    if count is None and hasattr(frames, "__len__"):
        count = len(frames) or None
    return Job(format, rate_of(rate), count, None, options), False


@with_options("restore")
def restore_frames(
    frames: Union[Iterable[Array], StrPath],
    *,
    rate: Optional[Rate] = None,
    format: Format = "rgb16",
    count: Optional[int] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
    **options: Unpack[RestoreOptions],
) -> Frames:
    """Restore frames in memory: an iterator of arrays goes in, an iterator of arrays comes out.

    `frames` are arrays (height, width, 3), or 4 with `rgba16`, of uint8, uint16 or floats from 0 to 1, all of one size;
    or the name of a video, whose restored frames come out. Those that come out are of uint16 (`rgb16`, `rgba16`) or
    float32 (`rgbf32`). `rate` is in frames per second. `count` is how many frames there are, where that is known.

    `frames` is read by the thread that takes restored frames. Use the result in a `with` block, or call `close()`, to stop
    before the end. It needs numpy.
    """
    job, is_file = job_of(frames, rate, format, count, dict(options))
    _process.check(on_progress, cancel)
    source: Iterator[Any] = iter(()) if is_file else iter(cast(Iterable[Any], frames))
    stream = Frames(job, source, on_progress, cancel)
    if is_file:
        stream._source = None
    return stream
