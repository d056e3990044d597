"""All attacks, inside of namespaces of their own: no packet leaves the machine, and every write of the server is seen."""

import pathlib
import shutil
import signal
import sys

from . import addresses, common, doors, floods, inputs, mutations, paths, world
from .common import Failed, need

GROUPS = {
    "doors": doors.run,
    "paths": paths.run,
    "addresses": addresses.run,
    "inputs": inputs.run,
    "floods": floods.run,
    "mutations": mutations.run,
}
INSIDE = "--inside"


class Place:
    """Where the servers under attack live."""

    def __init__(self, binary, folder, seed, requests):
        self.folder, self.seed, self.requests = folder, seed, requests
        # A copy, as the root of the servers does not see other mounts.
        self.binary = folder / "bin" / "remaster"
        self.binary.parent.mkdir()
        shutil.copy2(binary, self.binary)
        self.film = common.make_clip(folder / "film.mkv").read_bytes()
        self.allowed, self.secret = paths.plant(folder)
        self.six = world.network(folder)
        self.root = world.Root(folder)

    def inside(self, path):
        return self.root.merged / str(path).lstrip("/")

    def server(self, name, *options, **named):
        home = self.folder / name / "home"
        return common.Server(self.binary, self.folder / name, *options, wrap=self.root.wrap(home), **named)

    def watched(self):
        """All of the folder but what the servers may write: their state, and their logs, which we write."""
        known = world.snapshot(
            self.folder,
            without={self.folder / "layers", self.folder / "merged", self.folder / "small-disk", self.allowed / "impostors"},
        )
        return {name: one for name, one in known.items() if "/state" not in f"/{name}" and not name.endswith(".log")}


def inside(binary, folder, seed, requests, groups):
    """The part that runs in the namespaces; gives back its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        attack(binary, folder, seed, requests, groups)
    except KeyboardInterrupt:
        return 130
    return 0


def attack(binary, folder, seed, requests, groups):
    report = common.Report()
    place = Place(pathlib.Path(binary), pathlib.Path(folder), int(seed), int(requests))
    for name in groups:
        before = place.watched()
        try:
            GROUPS[name](report, place)
        except (Failed, *common.UNEXPECTED) as error:
            report.failed(f"{name}: ended early: {type(error).__name__}: {error}")
        with report.check(f"{name}: no file outside of the state folder was made, changed or removed"):
            need(not place.root.written(), f"on the system: {place.root.written()[:5]}")
            # Folders and tokens that we made ourselves for this group are new, and nothing else.
            own = (
                f"{name}",
                "token",
                "empty",
                "limit.mkv",
                "open",
                "refused",
                "closed",
                "connections",
                "held",
                "few-files",
                "limits",
                "disk",
            )
            other = [one for one in world.changes(before, place.watched()) if not one.startswith(own)]
            need(not other, f"in the folder of work: {other[:5]}")
            # How fast this machine is, which the program notes for its plans, served or not.
            rates = (".cache", ".cache/remaster", ".cache/remaster/rates.json")
            left = [one for one in place.watched() if "/tmp/" in one or ("/home/" in one and not one.endswith(rates))]
            need(not left, f"left in the home or temporary folder: {left[:5]}")


def run(report, binary, folder, arguments):
    groups = arguments.only or list(GROUPS)
    unknown = set(groups) - set(GROUPS)
    need(not unknown, f"{', '.join(unknown)} is not one of {', '.join(GROUPS)}")
    words = [sys.argv[0], INSIDE, binary, folder, arguments.seed, arguments.requests, *groups]
    process = world.enter([str(word) for word in words])
    try:
        for line in process.stdout:
            report.lines(line)
        need(process.wait() == 0, f"the attacks ended early, with {process.returncode}")
    except BaseException:
        process.terminate()
        process.wait()
        raise
