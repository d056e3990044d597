"""A run as ComfyUI shows it: a line of text, and now and then a picture."""

import os
from typing import Any, List, Optional

STEPS = 1000
PICTURE_SECONDS = 5.0
PICTURE_PIXELS = 512
# A folder of unfinished work holds a few files per unit of 1,500 frames. More than this is not worth a picture.
_FILES_LOOKED_AT = 10_000


def line(phase: str, done: Optional[float], total: Optional[float], rate: Optional[float], left: Optional[float]) -> str:
    """What a node says about its run: `restore: 93 of 1,000 frames, 14.7 frames/s, 1:04 left`."""
    parts = []
    if done or total:
        parts.append(f"{int(done or 0):,} of {int(total):,} frames" if total else f"{int(done):,} frames")
    if rate:
        parts.append(f"{rate:.1f} frames/s" if rate >= 1 else f"{1 / rate:.1f} s per frame")
    if left is not None:
        minutes, seconds = divmod(int(left), 60)
        hours, minutes = divmod(minutes, 60)
        parts.append((f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}") + " left")
    return f"{phase}: {', '.join(parts)}" if parts else phase


def newest_pieces(folder: str) -> List[str]:
    """The newest pieces of a film in its folder of unfinished work, the newest first.

    The first may be one that the program is writing, and too short to show a frame yet.
    """
    found, looked = [], 0
    for place, _, names in os.walk(folder):
        for name in names:
            looked += 1
            if looked > _FILES_LOOKED_AT:
                break
            if name.endswith(".nut"):
                path = os.path.join(place, name)
                try:
                    at = os.stat(path)
                except OSError:
                    continue
                if at.st_size > 0:
                    found.append((at.st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)[:2]]


def first_frame(path: str) -> Optional[Any]:
    """The first frame of a piece as a small picture, or None if none was written yet."""
    import av

    try:
        with av.open(path, mode="r", format="nut") as container:
            frame = next(container.decode(video=0), None)
            if frame is None:
                return None
            picture = frame.to_image()
    except Exception:
        # A piece that is being written may end anywhere, or be renamed. The next look finds it.
        return None
    picture.thumbnail((PICTURE_PIXELS, PICTURE_PIXELS))
    return picture
