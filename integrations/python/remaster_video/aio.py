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
    Coroutine,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    TypeVar,
    Union,
    cast,
)

from . import _commands, _frames, _process
from ._errors import Cancelled
from ._options import RestoreOptions, StrPath
from ._process import POLL_SECONDS, CancelToken, OnProgress
from ._signatures import with_options
from ._types import Progress

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Unpack

    from ._frames import Array, Format, Rate

    P = ParamSpec("P")

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


async def _call(function: Callable[..., T], values: Iterable[Any], options: Dict[str, Any]) -> T:
    on_progress: Optional[OnProgress] = options.pop("on_progress", None)
    cancel: Optional[CancelToken] = options.pop("cancel", None)
    _process.check(on_progress, cancel)
    loop = asyncio.get_running_loop()
    both = _Cancel(cancel, loop)
    faults: List[BaseException] = []

    def news(progress: Progress) -> None:
        # Those that were on their way when it failed are not passed on.
        if faults:
            return
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


def _twin(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine with the parameters and the text of a function."""

    @functools.wraps(function)
    async def call(*values: P.args, **options: P.kwargs) -> T:
        return await _call(function, values, dict(options))

    return call


compare = _twin(_commands.compare)
devices = _twin(_commands.devices)
models = _twin(_commands.models)
plan = _twin(_commands.plan)
preview = _twin(_commands.preview)
probe = _twin(_commands.probe)
pull_model = _twin(_commands.pull_model)
restore = _twin(_commands.restore)
verify_models = _twin(_commands.verify_models)


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
    _process.check(on_progress, cancel)
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
