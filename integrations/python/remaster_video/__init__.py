"""Restore and upscale video with the SeedVR2 networks on your own machine.

    import remaster_video

    film = remaster_video.restore("film.mkv", "out.mkv", model="anime", resolution="2x")
    print(film.frames, film.width, film.height)

The work is done by the program `remaster`, in a separate process. `remaster_video.aio` has the same functions for
asyncio.
"""

from ._binary import find_binary
from ._commands import compare, devices, models, plan, preview, probe, pull_model, restore, verify_models
from ._errors import Cancelled, RemasterError
from ._frames import Frames, restore_frames
from ._options import PlanOptions, PreviewOptions, RestoreOptions
from ._process import CancelToken, OnProgress
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
    Summary,
    Verified,
)

__all__ = [
    "CancelToken",
    "Cancelled",
    "Compared",
    "Devices",
    "Frames",
    "Models",
    "OnProgress",
    "PlanOptions",
    "Planned",
    "PreviewOptions",
    "Previewed",
    "Probed",
    "Progress",
    "Pulled",
    "RemasterError",
    "RestoreOptions",
    "Restored",
    "Summary",
    "Verified",
    "compare",
    "devices",
    "find_binary",
    "models",
    "plan",
    "preview",
    "probe",
    "pull_model",
    "restore",
    "restore_frames",
    "verify_models",
]
