"""Where the program is."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from typing import Iterator

from ._errors import RemasterError

NAME = "remaster.exe" if os.name == "nt" else "remaster"


def find_binary() -> str:
    """The path of the program: `REMASTER_BINARY`, else what the wheel installed, else the one in `PATH`."""
    named = os.environ.get("REMASTER_BINARY")
    if named:
        # A name without a folder is looked up as a shell does it.
        return shutil.which(named) or named
    for folder in _folders():
        path = os.path.join(folder, NAME)
        if os.path.isfile(path):
            return path
    found = shutil.which("remaster")
    if found:
        return found
    raise RemasterError(
        "the program `remaster` was not found; install it with `pip install remaster-video`, "
        "or name its path in REMASTER_BINARY",
        "binary-missing",
        127,
    )


def _folders() -> Iterator[str]:
    """Where pip puts programs: what came with this package, then what is in this environment and of this user, which may be older."""
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # Of `--target`.
    yield os.path.join(above, "bin")
    # PREFIX/lib/pythonX.Y/site-packages, or PREFIX/Lib/site-packages on Windows. Debian's pip has dist-packages.
    parts = os.path.normpath(above).split(os.sep)
    if os.name == "nt" and [part.lower() for part in parts[-2:]] == ["lib", "site-packages"]:
        yield os.path.join(os.sep.join(parts[:-2]), "Scripts")
    elif len(parts) > 3 and parts[-1] in ("site-packages", "dist-packages") and parts[-3] in ("lib", "lib64"):
        yield os.path.join(os.sep.join(parts[:-3]), "bin")
    yield sysconfig.get_path("scripts")
    user = "nt_user" if os.name == "nt" else "posix_user"
    if sys.platform == "darwin" and sys.__dict__.get("_framework"):
        user = "osx_framework_user"
    yield sysconfig.get_path("scripts", scheme=user)
