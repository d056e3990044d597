"""The functions of the package for asyncio.

A task that is cancelled stops the program and waits until it has ended. `on_progress` is called by the event loop.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Dict,
    Iterable,
    Iterator,
    Optional,
    TypeVar,
    Union,
    cast,
)

from . import _commands, _frames, _process
from ._errors import Cancelled
from ._options import PlanOptions, PreviewOptions, RestoreOptions, StrPath, Text
from ._process import POLL_SECONDS, CancelToken, OnProgress
from ._signatures import with_options
from ._types import (
    Compared,
    Devices,
    Models,
    Planned,
    Previewed,
    Probed,
    Progress,
    Pulled,
    Restored,
    Verified,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._frames import Array, Format, Rate

__all__ = [
    "compare",
    "devices",
    "models",
    "plan",
    "preview",
    "probe",
    "pull_model",
    "restore",
    "restore_frames",
    "verify_models",
]

T = TypeVar("T")


class _Cancel:
    """Set by the task, by what the caller gave, or by the end of the loop, after which nothing waits."""

    def __init__(self, given: Optional[CancelToken], loop: asyncio.AbstractEventLoop) -> None:
        self._given = given
        self._loop = loop
        self._own = threading.Event()

    def set(self) -> None:
        self._own.set()

    def is_set(self) -> bool:
        if self._own.is_set() or self._loop.is_closed():
            return True
        return self._given is not None and self._given.is_set()


def _soon(loop: asyncio.AbstractEventLoop, work: Callable[..., object], *values: object) -> None:
    try:
        loop.call_soon_threadsafe(work, *values)
    except RuntimeError:
        # The loop is closed: nothing waits any more.
        pass


async def _in_thread(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Does blocking work. If the task is cancelled, `stop` makes the work end, and that is waited for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: Optional[BaseException]) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)
            # The error of cancelled work is never asked for.
            done.exception()

    def body() -> None:
        result: Any = None
        fault: Optional[BaseException] = None
        try:
            result = work()
        except BaseException as error:
            fault = error
        _soon(loop, settle, result, fault)

    # A daemon, and not of the loop's pool: a loop that is closed early must not wait for a film.
    threading.Thread(target=body, name="remaster-aio", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        stop()
        while not done.done():
            try:
                await asyncio.wait([done])
            except asyncio.CancelledError:
                continue
        raise


async def _call(
    function: Callable[..., T],
    *values: object,
    cancel: Optional[CancelToken],
    on_progress: Optional[OnProgress] = None,
    **options: object,
) -> T:
    loop = asyncio.get_running_loop()
    both = _Cancel(cancel, loop)
    faults = []

    def news(progress: Progress) -> None:
        try:
            cast(OnProgress, on_progress)(progress)
        except BaseException as error:
            faults.append(error)
            both.set()

    if on_progress is not None:
        options["on_progress"] = lambda progress: _soon(loop, news, progress)
    try:
        result = await _in_thread(functools.partial(function, *values, cancel=both, **options), both.set)
    except Cancelled:
        if faults:
            raise faults[0]
        raise
    if faults:
        raise faults[0]
    return result


@with_options("restore")
async def restore(
    input: StrPath,
    output: Optional[StrPath] = None,
    *,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
    **options: Unpack[RestoreOptions],
) -> Restored:
    """Restore and upscale a video, an image or a folder of images."""
    return await _call(
        _commands.restore, input, output, on_progress=on_progress, cancel=cancel, **cast(Dict[str, Any], options)
    )


@with_options("plan")
async def plan(
    input: StrPath,
    *,
    card: Optional[str] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
    **options: Unpack[PlanOptions],
) -> Planned:
    """Memory, disk and time that a restoration takes."""
    return await _call(
        _commands.plan, input, card=card, on_progress=on_progress, cancel=cancel, **cast(Dict[str, Any], options)
    )


@with_options("preview")
async def preview(
    input: StrPath,
    output: Optional[StrPath] = None,
    *,
    shots: Optional[int] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
    **options: Unpack[PreviewOptions],
) -> Previewed:
    """Write one picture with a frame of each shot before and after."""
    return await _call(
        _commands.preview,
        input,
        output,
        shots=shots,
        on_progress=on_progress,
        cancel=cancel,
        **cast(Dict[str, Any], options),
    )


async def probe(
    input: StrPath,
    *,
    ffmpeg: Optional[StrPath] = None,
    ffprobe: Optional[StrPath] = None,
    cancel: Optional[CancelToken] = None,
) -> Probed:
    """What a video file contains."""
    return await _call(_commands.probe, input, ffmpeg=ffmpeg, ffprobe=ffprobe, cancel=cancel)


async def compare(
    a: StrPath,
    b: StrPath,
    *,
    min_psnr: Optional[float] = None,
    quick: bool = False,
    frames: Optional[int] = None,
    tile: Optional[int] = None,
    ss: Optional[Text] = None,
    to: Optional[Text] = None,
    vf: Optional[str] = None,
    fps: Optional[Text] = None,
    deinterlace: Optional[str] = None,
    hdr: Optional[str] = None,
    damaged: Optional[str] = None,
    exr: bool = False,
    ffmpeg: Optional[StrPath] = None,
    ffprobe: Optional[StrPath] = None,
    sheet: Optional[StrPath] = None,
    drift: Optional[StrPath] = None,
    plot: Optional[StrPath] = None,
    yes: bool = False,
    ram: Optional[Text] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
) -> Compared:
    """Measure the difference between two clips."""
    given = dict(locals())
    return await _call(_commands.compare, given.pop("a"), given.pop("b"), **given)


async def models(*, model_dir: Optional[StrPath] = None, cancel: Optional[CancelToken] = None) -> Models:
    """Installed models, and where they were looked for."""
    return await _call(_commands.models, model_dir=model_dir, cancel=cancel)


async def pull_model(
    model: str,
    *,
    quant: Optional[str] = None,
    model_dir: Optional[StrPath] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
) -> Pulled:
    """Download a model, such as `3b`, with what it needs."""
    return await _call(
        _commands.pull_model, model, quant=quant, model_dir=model_dir, on_progress=on_progress, cancel=cancel
    )


async def verify_models(
    *files: StrPath,
    model_dir: Optional[StrPath] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
) -> Verified:
    """Check model files for corruption."""
    return await _call(
        _commands.verify_models, *files, model_dir=model_dir, on_progress=on_progress, cancel=cancel
    )


async def devices(*, cancel: Optional[CancelToken] = None) -> Devices:
    """The devices that can run the networks."""
    return await _call(_commands.devices, cancel=cancel)


@with_options("restore")
async def restore_frames(
    frames: Union[Iterable[Array], AsyncIterable[Array], StrPath],
    *,
    rate: Optional[Rate] = None,
    format: Format = "rgb16",
    count: Optional[int] = None,
    on_progress: Optional[OnProgress] = None,
    cancel: Optional[CancelToken] = None,
    **options: Unpack[RestoreOptions],
) -> AsyncGenerator[Array, None]:
    """Restore frames in memory; `frames` may be an asynchronous iterator, too."""
    job, is_file = _frames.job_of(frames, rate, format, count, cast(Dict[str, Any], dict(options)))
    source = _Source(None if is_file else frames)
    news = asyncio.Event()
    loop = asyncio.get_running_loop()
    _process.check(cancel)
    try:
        if is_file:
            job.start()
        while True:
            if cancel is not None and cancel.is_set():
                raise Cancelled()
            pipe = job.pipe
            if pipe is not None:
                pipe.child.on_change = functools.partial(_soon, loop, news.set)
                news.clear()
                _process.pass_on(pipe.child.take_event(), on_progress)
                frame = pipe.take()
                if frame is not None:
                    yield frame
                    continue
                if pipe.at_end():
                    await _in_thread(pipe.outcome, pipe.close)
                    return
            if not source.ended and job.wants():
                frame = await source.next()
                if source.ended:
                    job.end()
                else:
                    # Converting a large frame takes longer than a loop should stand still.
                    await _in_thread(functools.partial(job.give, frame), _nothing)
            elif pipe is not None:
                later = loop.call_later(POLL_SECONDS, news.set)
                try:
                    await news.wait()
                finally:
                    later.cancel()
    finally:
        if loop.is_closed():
            # Dropped behind the end of the loop, where nothing can be awaited.
            job.close()
        else:
            await _in_thread(job.close, _nothing)


def _nothing() -> None:
    """Work that ends by itself, soon."""


class _Source:
    """Frames of an iterator of either kind, or none."""

    def __init__(self, frames: Any) -> None:
        self.ended = frames is None
        self._later: Optional[AsyncIterator[Any]] = None
        self._now: Iterator[Any] = iter(())
        if hasattr(frames, "__aiter__"):
            self._later = frames.__aiter__()
        elif frames is not None:
            self._now = iter(frames)

    async def next(self) -> Any:
        """The next frame; None behind the last one."""
        try:
            return next(self._now) if self._later is None else await self._later.__anext__()
        except (StopIteration, StopAsyncIteration):
            self.ended = True
            return None
