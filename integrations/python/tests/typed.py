"""A program that type checkers must accept, and lines that they must not. Nothing of it is run."""

from __future__ import annotations

import pathlib
import threading
from typing import Any, List, Optional

import remaster_video
from remaster_video import aio


def show(progress: remaster_video.Progress) -> None:
    share: Optional[float] = progress.share
    print(share, progress.done)


def accepted() -> None:
    film = remaster_video.restore(
        pathlib.Path("a.mkv"),
        b"b.mkv",
        model="anime",
        resolution=720,
        color="lab",
        seed=3,
        strength=0.5,
        yes=True,
        devices=["vulkan:0"],
        on_progress=show,
        cancel=threading.Event(),
    )
    size: Optional[int] = film.width
    options: remaster_video.RestoreOptions = {"model": "7b", "dither": True}
    remaster_video.restore("a.mkv", **options)
    total: int = remaster_video.plan("a.mkv", ram="8G").total.ram_bytes
    names: List[str] = [model.file for model in remaster_video.models().files]
    for frame in remaster_video.restore_frames([1], rate=25, format="rgbf32", model="anime"):
        print(frame.shape, size, total, names)


async def accepted_too() -> None:
    film: remaster_video.Restored = await aio.restore("a.mkv", resolution="2x")
    frames: List[Any] = [frame async for frame in aio.restore_frames("a.mkv")]
    print(film, frames)


def refused() -> None:
    remaster_video.restore("a.mkv", resolutoin=720)  # type: ignore[call-arg]
    remaster_video.restore("a.mkv", seed="3")  # type: ignore[arg-type]
    remaster_video.restore("a.mkv", color="pink")  # type: ignore[arg-type]
    remaster_video.restore("a.mkv").frames = 3  # type: ignore[misc]
    remaster_video.restore_frames([1], rate=25, format="rgb8")  # type: ignore[arg-type]
    aio.restore("a.mkv").frames  # type: ignore[attr-defined]
