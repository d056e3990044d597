"""Replicate's clients, unmodified, once with a server that has no token and once with one that has."""

import os
import subprocess

from . import common

LIMIT = 900


def films(folder):
    """A short film, one that takes a while, and one that is none."""
    short = common.make_clip(folder / "clip.mkv")
    long = common.make_clip(folder / "long.mkv", frames=1500)
    return {"CLIP": str(short), "LONG": str(long), "BAD": str(common.TESTDATA / "media" / "bad_random.mkv")}


def run(report, binary, folder, words, variables, token):
    """Starts a server and one client; the client's lines become ours."""
    # Webhooks go to this port of the loopback, which only a server that names it allows.
    hook = common.free_port()
    options = ["--allow-host", f"127.0.0.1:{hook}"]
    if token:
        (folder / "token").write_text(token + "\n")
        options += ["--token-file", folder / "token"]
    with common.Server(binary, folder / ("with" if token else "without"), *options) as server:
        environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        environment |= variables | {"TOKEN_REQUIRED": "1" if token else "0"}
        environment |= {"REPLICATE_BASE_URL": server.url, "REPLICATE_API_TOKEN": token or "any", "REPLICATE_POLL_INTERVAL": "0.2"}
        environment |= {"BASE": server.url, "TOKEN": token or "any", "HOOK": str(hook)}
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=LIMIT,
        )  # fmt: skip
        report.lines(done.stdout)
        common.need(
            done.stdout.count("ok      ") + done.stdout.count("failed  ") > 10, f"the client ended early: {done.stdout[-500:]}"
        )
        with report.check(f"server {'with' if token else 'without'} a token is alive after it"):
            server.alive()


def python(report, binary, folder, _):
    (tools,) = common.tools("python")
    here = os.path.dirname(__file__)
    for token in ("", "correct-horse-battery-staple"):
        run(report, binary, folder, [tools / "bin" / "python", "-I", f"{here}/client.py"], films(folder), token)


def npm(report, binary, folder, _):
    (tools,) = common.tools("npm")
    here = os.path.dirname(__file__)
    for token in ("", "correct-horse-battery-staple"):
        run(report, binary, folder, ["node", f"{here}/client.mjs"], films(folder) | {"PACKAGES": str(tools)}, token)
