"""A server that stays up: while clients are slow or greedy, the disk is slow or full and jobs are many, it answers at once and holds
little. Each part has a server of its own, and a time that it may take."""

import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

from . import common, world
from .common import HEADER, Failed, exchange, need, request_bytes, want

INSIDE = "--inside-stays-up"
TOKEN = "0123456789abcdef0123456789abcdef"
# How long an answer may take, and what the server may hold above what it holds idle.
AT_ONCE = 0.5
GROWTH = 64 << 20
# Seconds of each part at most, and of each crowd.
LONGEST = 300
WHILE = 6
ENDLESS = 20
CROWD = 520
CLIENTS = "127.0.0.2"
JOBS = 10_000
SLOW = 4
# What the server leaves free of a disk.
RESERVE = 1 << 30


class NotRun(Exception):
    """What cannot be made here."""


class Watch(threading.Thread):
    """Asks all the time, as a monitor and as a client with the token, and looks at the memory."""

    def __init__(self, server, port=None):
        super().__init__(daemon=True)
        self.server, self.address = server, ("127.0.0.1", port or server.port)
        self.over, self.wrong, self.longest, self.asked = threading.Event(), [], {}, 0
        # The highest is counted from now on.
        pathlib.Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")

    def ask(self, what, path, token=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        start, status = time.monotonic(), "no answer"
        try:
            status = exchange(self.address, request_bytes("GET", path, b"", headers, host=self.server.host), timeout=60).status
        except (OSError, http.client.HTTPException) as error:
            status = f"{type(error).__name__}: {error}"
        took = time.monotonic() - start
        self.asked += 1
        self.longest[what] = max(self.longest.get(what, 0), took)
        if status != 200:
            self.wrong.append(f"{what} answered {status} after {took:.2f} s")

    def run(self):
        while not self.over.is_set():
            self.ask("/healthz", "/healthz")
            self.ask("a client with the token", "/v1/predictions?limit=1", TOKEN)
            self.over.wait(0.05)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.join()
        if kind is None:
            self.judge()

    def judge(self):
        need(self.asked > 10, f"it was asked {self.asked} times only")
        want(not self.wrong, "; ".join(self.wrong[:3]))
        for what, took in self.longest.items():
            want(took < AT_ONCE, f"{what} was answered after {took:.2f} s")
        grown = self.grown()
        want(grown < GROWTH, f"{grown / (1 << 20):.0f} MiB above idle")

    def grown(self):
        return common.memory_of(self.server.process.pid, "VmHWM") - self.server.idle

    def about(self):
        times = ", ".join(f"{what} {took:.3f} s" for what, took in self.longest.items())
        return f"{times}, {self.grown() / (1 << 20):.0f} MiB above {self.server.idle / (1 << 20):.0f} MiB, asked {self.asked} times"


class Place:
    """Where the parts work."""

    def __init__(self, binary, folder):
        self.binary, self.folder = pathlib.Path(binary), pathlib.Path(folder)
        self.token = self.folder / "token"
        self.token.write_text(TOKEN)
        self.film = common.make_clip(self.folder / "film.mkv").read_bytes()
        self.long = common.make_clip(self.folder / "long.mkv", frames=400, size="320x240", codec=("-c:v", "mpeg4", "-q:v", "5")).read_bytes()
        # As large as a picture of its size can be.
        noise = self.folder / "noise.png"
        words = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "nullsrc=s=800x600,geq=random(1)*255:128:128", "-frames:v", "1", noise]
        subprocess.run([str(word) for word in words], check=True, stdin=subprocess.DEVNULL)
        self.noise = noise.read_bytes()

    @contextlib.contextmanager
    def server(self, name, *options, **named):
        """A server that has answered all kinds of requests once, so that it holds what it holds idle."""
        options = ["--devices", "cpu", "--token-file", self.token, *options]
        with common.Server(self.binary, self.folder / name, *options, **named) as server:
            for path in ("/", "/healthz", "/v1/predictions", "/v1/files", "/v1/session", "/openapi.json", "/metrics"):
                server.call("GET", path, token=TOKEN)
            time.sleep(1)
            server.idle = server.memory()
            yield server

    def disk(self, name, size):
        """A disk in memory of this many MiB."""
        disk = self.folder / name
        disk.mkdir()
        world.run("mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", disk)
        return disk


@contextlib.contextmanager
def ends(process):
    """A process that ends with the block."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def crowd(what, port, count, seconds, data):
    """Clients that never get on, in a process beside the block."""
    words = [sys.executable, str(pathlib.Path(__file__).with_name("crowd.py")), what, str(port), CLIENTS, str(count), str(seconds)]
    with ends(subprocess.Popen(words, stdin=subprocess.PIPE)) as process:
        process.stdin.write(data)
        process.stdin.close()
        yield


PROXY = """
global
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  option forwardfor
frontend all
  bind 127.0.0.1:{port}
  default_backend server
backend server
  server one 127.0.0.1:{server}
"""


@contextlib.contextmanager
def proxy(place, server):
    """A proxy before the server; gives its port."""
    program = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if not program:
        raise NotRun("the clients behind a proxy (haproxy is missing)")
    port = common.free_port()
    settings = place.folder / f"haproxy-{port}"
    settings.write_text(PROXY.format(port=port, server=server.port))
    with ends(subprocess.Popen([program, "-db", "-f", str(settings)], stderr=subprocess.DEVNULL)):
        until = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError), common.connect(("127.0.0.1", port)):
                break
            need(time.monotonic() < until, "the proxy does not start")
            time.sleep(0.05)
        yield port


def raw(server, line, *headers, token=None, body=b""):
    """A request that is not over."""
    lines = [f"{line} HTTP/1.1", f"Host: {server.host}", "X-Remaster: 1", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def halves(server, has_token):
    """Kinds of half a request. With a token the server lets them in, and they are still not waited for."""
    long = "Content-Length: 30000000"
    kinds = {
        "half a head": raw(server, "GET /v1/models", "X: " + "a" * 14_000)[:-4],
        "half a session": raw(server, "POST /v1/session", "Content-Length: 30", body=b'{"token":"'),
        "a wrong token": raw(server, "POST /v1/session", "Content-Length: 13", body=b'{"token":"x"}'),
    }
    if has_token:
        data = b'{"version":"anime","input":{"media":"data:video/mp4;base64,' + b"A" * 400_000
        head = b'--XB\r\nContent-Disposition: form-data; name="content"\r\nX: ' + b"a" * 7000
        kinds |= {
            "half a job": raw(server, "POST /v1/predictions", "Content-Length: 31000", token=TOKEN, body=b" " * 30_000),
            "half a film inside": raw(server, "POST /v1/predictions", "Content-Length: 20000000", token=TOKEN, body=data),
            "half an upload": raw(
                server, "POST /v1/files", "Content-Type: multipart/form-data; boundary=XB", long, token=TOKEN, body=head
            ),
        }
    return kinds


def half(report, place):
    """520 sockets that send half a request and come again when they are closed: from one address, and through a proxy."""
    for way in ("direct", "through a proxy", "through a proxy that is named"):
        options = ["--trusted-proxy", "127.0.0.1"] if "named" in way else []
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(place.server(f"half {way}".replace(" ", "-"), *options))
            port = server.port if way == "direct" else stack.enter_context(proxy(place, server))
            for text, data in halves(server, has_token=True).items():
                with report.check(f"half: {CROWD} sockets with {text}, {way}"):
                    with crowd("clients", port, CROWD, WHILE, data), Watch(server, port) as watch:
                        time.sleep(WHILE)
                    report.note(watch.about())
                    server.alive()


def silent(report, place):
    """60 clients that ask for something large and read nothing."""
    with place.server("silent") as server:
        film = server.upload(os.urandom(64 << 20), token=TOKEN)
        picture = server.upload(place.noise, "noise.png", "image/png", token=TOKEN)
        job = {"version": "anime", "input": {"media": picture["urls"]["get"], "resolution": "1600x1200"}, "seconds": 0}
        made = server.call("POST", "/v1/previews", job, timeout=120, token=TOKEN)
        need(made.status == 201, f"the preview answered {made}")
        for text, path in {
            "a preview": made.json["after"].removeprefix(server.url),
            "a film of 64 MB": f"/v1/files/{film['id']}/content",
            "a list": "/v1/files",
            "the document": "/openapi.json",
            "events": "/v1/events",
        }.items():
            with report.check(f"silent: 60 clients that read nothing of {text}"):
                data = raw(server, f"GET {path}", "Connection: close", token=TOKEN)
                with crowd("clients", server.port, 60, WHILE, data), Watch(server) as watch:
                    time.sleep(WHILE)
                report.note(watch.about())
                server.alive()


def header(report, place):
    """The head of a part of a form that never ends."""
    with place.server("header") as server:
        head = b'--XB\r\nContent-Disposition: form-data; name="content"; filename="a.mkv"\r\nX: '
        data = raw(
            server, "POST /v1/files", "Content-Type: multipart/form-data; boundary=XB", "Transfer-Encoding: chunked", token=TOKEN,
            body=b"%x\r\n%b\r\n" % (len(head), head),
        )  # fmt: skip
        for count in (1, 8):
            with report.check(f"header: {count} that never end"):
                with crowd("endless", server.port, count, ENDLESS, data), Watch(server) as watch:
                    time.sleep(ENDLESS)
                report.note(watch.about())
                server.alive()


def slow_disk(report, place):
    """Each fsync takes seconds, as on a disk that others use."""
    syncs = "fsync,fdatasync"
    slow = ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", f"trace={syncs}", "-e", f"inject={syncs}:delay_enter={SLOW}s"]
    tried = [*slow, "true"]
    if not shutil.which("strace") or subprocess.run(tried, stderr=subprocess.DEVNULL, check=False).returncode:
        raise NotRun("the slow disk (strace is missing or may not trace)")
    with place.server("slow-disk"):
        pass  # Its folders are made.
    with place.server("slow-disk", wrap=slow) as server, report.check(f"slow disk: each fsync takes {SLOW} s"):
        with Watch(server) as watch, concurrent.futures.ThreadPoolExecutor(12) as pool:
            uploads = [pool.submit(server.upload, place.film, token=TOKEN, timeout=120) for _ in range(4)]
            media = uploads[0].result()["urls"]["get"]
            body = {"version": "anime", "input": {"media": media, "resolution": "2x"}}

            def create(_):
                return server.call("POST", "/v1/predictions", body, {**HEADER}, timeout=120, token=TOKEN)

            jobs = [job.json["id"] for job in pool.map(create, range(4)) if want(job.status == 201, f"a job answered {job}")]
            lists = [pool.submit(server.call, "GET", "/v1/predictions", timeout=120, token=TOKEN) for _ in range(4)]
            want(all(one.result().seconds < AT_ONCE for one in lists), "a list was late")
            for one in jobs[1:]:
                answer = server.call("POST", f"/v1/predictions/{one}/cancel", timeout=120, token=TOKEN)
                want(answer.status == 200, f"cancel answered {answer}")
        report.note(watch.about())
        server.alive()


def full_disk(report, place):
    """No byte is left while a job runs and others wait: they can be paused, cancelled and removed."""
    disk = place.disk("small", (RESERVE >> 20) + 64)
    with place.server("full-disk", state=disk / "state") as server, report.check("full disk: answers, and jobs that end"):
        media = server.upload(place.long, token=TOKEN)["urls"]["get"]
        jobs = [server.create(media, token=TOKEN).json["id"] for _ in range(4)]

        def status(job):
            return server.call("GET", f"/v1/predictions/{job}", token=TOKEN).json["status"]

        until = time.monotonic() + 60
        while status(jobs[0]) == "starting":
            need(time.monotonic() < until, "no job begins")
            time.sleep(0.1)
        with Watch(server) as watch:
            room = os.statvfs(disk)
            with open(disk / "fill", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
            time.sleep(2)
            for method, path, body in (
                ("POST", "/v1/predictions", {"version": "anime", "input": {"media": media, "resolution": "2x"}}),
                ("GET", f"{media.removeprefix(server.url)}/picture", None),
                ("GET", "/v1/files", None),
            ):
                answer = server.call(method, path, body, {**HEADER}, token=TOKEN)
                want(answer.status < 500 or answer.status in (503, 507), f"{path} answered {answer}")
            changes = [(jobs[3], "pause"), (jobs[3], "resume"), (jobs[3], "cancel"), (jobs[2], "cancel"), (jobs[0], "pause"), (jobs[0], "cancel")]
            for job, change in changes:
                answer = server.call("POST", f"/v1/predictions/{job}/{change}", token=TOKEN)
                want(answer.status == 200, f"{change} answered {answer}")
            for job in (jobs[0], jobs[2], jobs[3]):
                until = time.monotonic() + 30
                while status(job) != "canceled" and time.monotonic() < until:
                    time.sleep(0.1)
                answer = server.call("DELETE", f"/v1/predictions/{job}", token=TOKEN)
                want(answer.status == 204, f"removing answered {answer}")
        report.note(watch.about())
        (disk / "fill").unlink()
        done = server.wait(server.create(server.upload(place.film, token=TOKEN)["urls"]["get"], token=TOKEN).json["id"], 120, TOKEN)
        want(done["status"] == "succeeded", f"with room again, a job {done['status']}: {done['error']}")
        server.alive()


def many(report, place):
    """10,000 jobs are made, cancelled and removed."""
    disk = place.disk("many", (RESERVE >> 20) + 1024)
    with place.server("many", "--jobs", JOBS, state=disk / "state") as server, report.check(f"many: {JOBS} jobs are made and removed"):
        media = server.upload(place.long, token=TOKEN)["urls"]["get"]
        body = {"version": "anime", "input": {"media": media, "resolution": "2x"}}

        def work(number):
            made = server.call("POST", "/v1/predictions", body, {**HEADER}, token=TOKEN)
            return made.json["id"] if made.status == 201 else made

        def end(job):
            cancelled = server.call("POST", f"/v1/predictions/{job}/cancel", token=TOKEN).status
            until = time.monotonic() + 30
            while (removed := server.call("DELETE", f"/v1/predictions/{job}", token=TOKEN).status) == 409 and time.monotonic() < until:
                time.sleep(0.05)
            return cancelled, removed

        with Watch(server) as watch, concurrent.futures.ThreadPoolExecutor(8) as pool:
            start = time.monotonic()
            jobs = list(pool.map(work, range(JOBS)))
            made = time.monotonic() - start
            wrong = [job for job in jobs if not isinstance(job, str)]
            need(not wrong, f"{len(wrong)} were refused: {wrong[0] if wrong else ''}")
            # The newest first, so that each that is removed was waiting.
            ends = list(pool.map(end, reversed(jobs)))
            want(set(ends) == {(200, 204)}, f"ends: {sorted(set(ends), key=str)[:5]}")
        report.note(f"{made:.0f} s to make them, {time.monotonic() - start - made:.0f} s to end them")
        report.note(watch.about())
        left = server.call("GET", "/v1/predictions", token=TOKEN).json["results"]
        want(not left, f"{len(left)} are left in the list")
        names = list((disk / "state" / "jobs").iterdir())
        want(not names, f"{len(names)} names are left on the disk")
        server.alive()


PARTS = {"half": half, "silent": silent, "header": header, "slow-disk": slow_disk, "full-disk": full_disk, "many": many}


def late(*_):
    raise Failed(f"it took longer than {LONGEST} s")


def inside(binary, folder, parts):
    """The part that runs with mounts of its own; gives back its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGALRM, late)
    world.run("ip", "link", "set", "lo", "up")
    report, place = common.Report(), Place(binary, folder)
    for name in parts:
        start = time.monotonic()
        signal.alarm(LONGEST)
        try:
            PARTS[name](report, place)
        except NotRun as reason:
            report.note(f"SKIPPED: {reason}")
        except (Failed, *common.UNEXPECTED) as error:
            report.failed(f"{name}: ended early: {type(error).__name__}: {error}")
        except KeyboardInterrupt:
            return 130
        finally:
            signal.alarm(0)
        report.note(f"{name}: {time.monotonic() - start:.0f} s")
    return 0


def run(report, binary, folder, arguments):
    parts = arguments.only or list(PARTS)
    unknown = set(parts) - set(PARTS)
    need(not unknown, f"{', '.join(unknown)} is not one of {', '.join(PARTS)}")
    words = [sys.argv[0], INSIDE, binary, folder, *parts]
    process = world.enter([str(word) for word in words])
    try:
        for line in process.stdout:
            report.lines(line)
        need(process.wait() == 0, f"it ended early, with {process.returncode}")
    except BaseException:
        process.terminate()
        process.wait()
        raise
