"""What all parts share: a server of our own, requests to it, and lines of ok and failed."""

import contextlib
import dataclasses
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TESTDATA = ROOT / "testdata"
CACHE = pathlib.Path(
    os.environ.get("REMASTER_CI_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "remaster-ci"
)
# What a change needs, and what the page sends.
HEADER = {"X-Remaster": "1"}
ENDED = ("succeeded", "failed", "canceled")
# Cases of one check that are printed if it fails.
SHOWN = int(os.environ.get("SERVE_CHECK_SHOWN", "4"))


class Failed(Exception):
    """A check that did not hold."""


def need(condition, text):
    """Ends the check if it does not hold."""
    if not condition:
        raise Failed(text)


# What the check of this moment wanted and did not get.
MISSED = []


def want(condition, text):
    """The check goes on if it does not hold, for the other cases, and fails at its end."""
    if not condition:
        MISSED.append(text)
    return condition


# What a wrong answer leads to, beside Failed.
UNEXPECTED = (OSError, ValueError, LookupError, TypeError, AttributeError, http.client.HTTPException, subprocess.SubprocessError)


class Report:
    """Counts what held and what did not."""

    def __init__(self):
        self.passed, self.failures = 0, []

    def ok(self, text):
        self.passed += 1
        print(f"ok      {text}", flush=True)

    def failed(self, text):
        self.failures.append(text)
        print(f"failed  {text}", flush=True)

    def note(self, text):
        print(f"        {text}", flush=True)

    @contextlib.contextmanager
    def check(self, text):
        """One check: it failed if something in it was raised, or wanted and not there."""
        MISSED.clear()
        try:
            yield
        except Failed as error:
            MISSED.append(str(error))
        except UNEXPECTED as error:
            MISSED.append(f"{type(error).__name__}: {error}")
        if MISSED:
            count = f" ({len(MISSED)} cases)" if len(MISSED) > 1 else ""
            self.failed(f"{text}{count}: " + "; ".join(one[:300] for one in MISSED[:SHOWN]))
        else:
            self.ok(text)

    def lines(self, output):
        """Takes over the lines of a client that ran in a process of its own."""
        for line in output.splitlines():
            if line.startswith("ok      "):
                self.ok(line[8:])
            elif line.startswith("failed  "):
                self.failed(line[8:])
            elif line.strip():
                self.note(line.removeprefix("        ").rstrip())


@dataclasses.dataclass
class Answer:
    status: int
    headers: list
    body: bytes
    seconds: float = 0.0

    def header(self, name):
        """All values of a header in one text, or nothing."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(values) if values else None

    @property
    def json(self):
        return json.loads(self.body)

    def __str__(self):
        return f"{self.status} {self.body[:300]!r}"


def request_bytes(method, path, body=b"", headers=None, host="127.0.0.1", length=True):
    """A request as it is sent: nothing of the path or the headers is checked or changed."""
    if isinstance(path, str):
        path = path.encode("utf-8", "surrogateescape")
    lines = [method.encode() + b" " + path + b" HTTP/1.1"]
    if host is not None:
        lines.append(b"Host: " + host.encode())
    for key, value in headers.items() if isinstance(headers, dict) else headers or []:
        value = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        lines.append(key.encode() + b": " + value)
    if length and (body or method in ("POST", "PUT", "PATCH")):
        lines.append(b"Content-Length: %d" % len(body))
    lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def read_answer(connection, method="GET", limit=None):
    """Reads one answer. Of a stream of events only its beginning is read."""
    start = time.monotonic()
    answer = http.client.HTTPResponse(connection, method=method)
    try:
        answer.begin()
        if (answer.getheader("Content-Type") or "").startswith("text/event-stream"):
            body = b""
        else:
            body = answer.read(limit)
        return Answer(answer.status, answer.getheaders(), body, time.monotonic() - start)
    finally:
        answer.close()


# Connections that we opened ourselves, so that those of others can be counted.
OPENED = itertools.count(1)


def connect(address, timeout=30):
    next(OPENED)
    return socket.create_connection(address, timeout=timeout)


def exchange(address, data, method="GET", timeout=30, limit=None):
    """Sends bytes and reads one answer; an answer before the end of the sending is read, too."""
    start = time.monotonic()
    with connect(address, timeout) as connection:
        # What the other side does not read it may refuse by closing, after an answer.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
        answer = read_answer(connection, method, limit)
        answer.seconds = time.monotonic() - start
        return answer


def multipart(parts, boundary="serve-check-boundary"):
    """Parts are (name, filename or None, content type or None, content)."""
    pieces = []
    for name, filename, kind, content in parts:
        pieces.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'.encode())
        if filename is not None:
            pieces.append(b'; filename="' + (filename if isinstance(filename, bytes) else filename.encode()) + b'"')
        pieces.append(b"\r\n" + (f"Content-Type: {kind}\r\n".encode() if kind else b"") + b"\r\n")
        pieces += [content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return b"".join(pieces), f"multipart/form-data; boundary={boundary}"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def digest(data):
    return hashlib.sha256(data).hexdigest()


def processes_with(mark):
    """Numbers of the processes that have this text in their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def memory_of(pid, field="VmRSS"):
    """Bytes of memory of one process."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10
    raise Failed(f"no {field} of process {pid}")


class Server:
    """`remaster serve` on the loopback. It and what it started end with this object."""

    def __init__(self, binary, folder, *options, state=None, port=None, variables=None, wrap=(), files=None):
        self.binary, self.folder = binary, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state = pathlib.Path(state or self.folder / "state")
        self.port = port or free_port()
        self.options, self.wrap, self.files = [str(option) for option in options], list(wrap), files
        self.mark = f"SERVE_CHECK={uuid.uuid4().hex}"
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("REMASTER_", "REPLICATE_", "XDG_"))
        }
        for name in ("home", "tmp"):
            (self.folder / name).mkdir(exist_ok=True)
        self.environment.update(HOME=str(self.folder / "home"), TMPDIR=str(self.folder / "tmp"), SERVE_CHECK=self.mark[12:])
        self.environment.update(variables or {})
        self.log = self.folder / f"server-{self.port}.log"
        self.process = None

    def words(self):
        return [
            *self.wrap, str(self.binary), "serve", "--port", str(self.port), "--state", str(self.state), *self.options,
        ]  # fmt: skip

    def start(self, patience=30):
        """Starts it and waits for its first answer."""
        limit = self.files
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.words(), cwd=self.folder / "home", env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
                preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))) if limit else None,
            )  # fmt: skip
        until = time.monotonic() + patience
        while True:
            try:
                if self.call("GET", "/healthz", timeout=2).status == 200:
                    return self
            except (OSError, http.client.HTTPException):
                pass
            if self.process.poll() is not None:
                raise Failed(f"the server ended with {self.process.returncode}: {self.said()[-1500:]}")
            if time.monotonic() > until:
                raise Failed(f"the server does not answer after {patience} s: {self.said()[-1500:]}")
            time.sleep(0.005)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.end()
            raise

    def __exit__(self, *_):
        self.end()

    def said(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self):
        """kill -9 of the server alone."""
        self.process.kill()
        self.process.wait()

    def end(self):
        """Ends the server as Ctrl-C would, and whatever is left of it by force."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        if self.process and self.process.poll() is None:
            self.kill()
        for pid in processes_with(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def workers(self):
        """Processes of the program that the server started, also those of one that was killed."""
        found = []
        for pid in processes_with(self.mark):
            with contextlib.suppress(OSError):
                if pid != self.process.pid and os.path.samefile(f"/proc/{pid}/exe", self.binary):
                    found.append(pid)
        return found

    def memory(self):
        return memory_of(self.process.pid)

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"http://{self.host}"

    def call(self, method, path, body=None, headers=None, timeout=30, host=None, token=None):
        """One request, as the page would send it; a body that is no bytes is sent as JSON."""
        every = {} if headers is None else dict(headers)
        if headers is None and method != "GET":
            every.update(HEADER)
        if token:
            every["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            every.setdefault("Content-Type", "application/json")
        data = request_bytes(method, path, body or b"", every, host=host or self.host)
        return exchange(self.address, data, method, timeout)

    def upload(self, content, name="film.mkv", kind="video/x-matroska", token=None, timeout=60):
        body, form = multipart([("content", name, kind, content)])
        answer = self.call("POST", "/v1/files", body, {**HEADER, "Content-Type": form}, timeout=timeout, token=token)
        need(answer.status == 201, f"upload of {name!r} answered {answer}")
        return answer.json

    def create(self, media, version="anime", headers=None, token=None, **given):
        """Creates a prediction; what is given beside `webhook…` belongs to the input."""
        body = {"version": version, "input": {"media": media, "resolution": "2x"}}
        for key, value in given.items():
            (body if key.startswith("webhook") else body["input"])[key] = value
        return self.call("POST", "/v1/predictions", body, {**HEADER, **(headers or {})}, token=token)

    def wait(self, identity, seconds=120, token=None):
        """Polls a prediction until it has ended."""
        until = time.monotonic() + seconds
        while True:
            answer = self.call("GET", f"/v1/predictions/{identity}", token=token)
            need(answer.status == 200, f"prediction {identity} answered {answer}")
            if answer.json["status"] in ENDED:
                return answer.json
            need(time.monotonic() < until, f"prediction {identity} is {answer.json['status']} after {seconds} s")
            time.sleep(0.1)

    def alive(self):
        """Says whether the server is the same as at the start and answers at once."""
        need(self.process.poll() is None, f"the server ended with {self.process.returncode}: {self.said()[-800:]}")
        answer = self.call("GET", "/healthz", timeout=5)
        need(answer.status == 200, f"/healthz answered {answer}")
        said = self.said()
        need("panicked at" not in said, "a panic: " + said[said.find("panicked at") - 100 :][:500])


def make_clip(path, frames=8, size="64x48", start=0, codec=("-c:v", "libx264", "-qp", "12")):
    """A small clip of the front page's film, the same bytes on every run."""
    words = [
        "ffmpeg", "-v", "error", "-y", "-i", TESTDATA / "front" / "bunny.mp4", "-vf",
        f"trim=start_frame={start},setpts=PTS-STARTPTS,loop=-1:size=32,scale={size.replace('x', ':')},setsar=1", "-frames:v",
        str(frames),
        "-an", "-pix_fmt", "yuv420p", "-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact", *codec, path,
    ]  # fmt: skip
    subprocess.run([str(word) for word in words], check=True, stdin=subprocess.DEVNULL)
    return pathlib.Path(path)


def tools(*names):
    """Clients in fixed versions, fetched once; gives back the folder of each."""
    words = [ROOT / "tools" / "serve_check" / "fetch", *names]
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"serve-check: {', '.join(names)} could not be fetched")
    return [pathlib.Path(line) for line in done.stdout.split()]
