"""Paths, names and links: nothing outside of the allowed folders is read, and nothing is written there."""

import contextlib
import os
import socket
import threading
import time
import urllib.parse

from . import common
from .common import HEADER, exchange, multipart, need, request_bytes, want

MARK = b"the-secret-mark"
# The film that must not be seen has a size of its own.
SECRET_SIZE = "96x64"


def plant(folder):
    """Allowed: films, and everything that leads out. Secret: a film beside it."""
    allowed, secret, beside = folder / "allowed", folder / "secret", folder / "allowed-not"
    for one in (allowed / "sub", secret, beside):
        one.mkdir(parents=True)
    for path in (
        allowed / "film.mkv",
        allowed / "sub" / "film.mkv",
        allowed / "-y.mkv",
        allowed / "a%20b%2e.mkv",
        allowed / "concat:film.mkv",
    ):
        common.make_clip(folder / "made.mkv")
        os.replace(folder / "made.mkv", path)
    common.make_clip(secret / "film.mkv", size=SECRET_SIZE)
    common.make_clip(beside / "film.mkv", size=SECRET_SIZE)
    (secret / "notes.txt").write_bytes(MARK)
    for name, target in (
        ("link.mkv", "../secret/film.mkv"), ("absolute.mkv", str(secret / "film.mkv")), ("folder", "../secret"), ("loop", "loop"),
        ("up", ".."), ("root", "/"), ("self", "."), ("sub/link.mkv", "../../secret/film.mkv"), ("dangling", "../secret/new.mkv"),
    ):  # fmt: skip
        (allowed / name).symlink_to(target)
    os.mkfifo(allowed / "pipe.mkv")
    with socket.socket(socket.AF_UNIX) as one:
        # The name of a socket is short.
        here = os.getcwd()
        os.chdir(allowed)
        one.bind("socket.mkv")
        os.chdir(here)
    for name, number in (("zero.mkv", os.makedev(1, 5)), ("tty.mkv", os.makedev(5, 0))):
        with contextlib.suppress(PermissionError):
            os.mknod(allowed / name, 0o600 | 0o020000, number)
    (allowed / "empty.mkv").write_bytes(b"")
    return allowed, secret


def evil_paths(allowed, secret):
    a, s = str(allowed), str(secret)
    return [
        f"{a}/../secret/film.mkv", f"{a}/sub/../../secret/film.mkv", f"{a}/./../secret/film.mkv", f"{a}//../secret/film.mkv",
        f"{a}/sub/..//../secret/film.mkv", f"{a}/%2e%2e/secret/film.mkv", f"{a}/..%2fsecret%2ffilm.mkv",
        f"{a}/%252e%252e/secret/film.mkv",
        f"{a}/..\\secret\\film.mkv", f"{a}/link.mkv", f"{a}/absolute.mkv", f"{a}/folder/film.mkv", f"{a}/up/secret/film.mkv",
        f"{a}/root/{s[1:]}/film.mkv",
        f"{a}/self/link.mkv", f"{a}/sub/link.mkv", f"{a}/loop", f"{a}/dangling", f"{a}/pipe.mkv", f"{a}/socket.mkv",
        f"{a}/zero.mkv", f"{a}/tty.mkv",
        f"{a}-not/film.mkv", f"{s}/film.mkv", f"{a}/film.mkv/../../secret/film.mkv", f"{a}/film.mkv\x00.png", f"{a}\x00/film.mkv",
        "/etc/passwd", "/proc/self/environ", "/proc/self/fd/0", f"/proc/self/root{s}/film.mkv", "/proc/self/cwd/../x",
        "/dev/zero", "/dev/stdin", "/dev/fd/0",
        "../secret/film.mkv", "..", ".", "", " ", "/", "~", "~/film.mkv", "$HOME/film.mkv", f"file://{s}/film.mkv",
        f"file:{s}/film.mkv",
        f"FILE://{s}/film.mkv", f"file://localhost{s}/film.mkv", f"concat:{s}/film.mkv", f"concat:{a}/film.mkv|{s}/film.mkv",
        f"subfile,,start,0,end,0,,:{s}/film.mkv",
        "pipe:0", "pipe:", "fd:0", f"async:{s}/film.mkv", f"cache:file:{s}/film.mkv", f"crypto:{s}/film.mkv", f"tee:{s}/film.mkv",
        f"unix:{a}/socket.mkv",
        "\\\\127.0.0.1\\share\\film.mkv", "//127.0.0.1/share/film.mkv", "\\\\?\\C:\\film.mkv", "\\\\.\\PhysicalDrive0",
        "C:\\film.mkv", "C:film.mkv", "C:/film.mkv",
        "CON", "NUL", "COM1", "LPT1.mkv", f"{a}/CON", f"{a}/NUL.mkv", f"{a}/film.mkv:stream", f"{a}/film.mkv::$DATA",
        f"{a}/film.mkv.", f"{a}/film.mkv ",
        "-", "-i", "--help", "--config=/etc/passwd", "-y.mkv", f"{a}/film_%d.mkv", f"{a}/*.mkv", f"{a}/f[i]lm.mkv", "%n%s%x",
        "'; touch x; '", "$(touch x)", "`touch x`",
        "/" * 5000, "a" * 300_000, f"{a}/" + "a" * 300, f"{a}/" + "a/" * 3000,
        f"{a}/\udcff.mkv".encode("utf-8", "surrogateescape").decode("latin-1"), "\ufeff", "\u202e",
    ]  # fmt: skip


def show(path):
    return repr(path if len(path) < 80 else path[:60] + "…")


def media(report, server, place):
    """Every path as the film of a plan, of a prediction and of a preview."""
    allowed, secret = place.allowed, place.secret
    with report.check("paths: films in the allowed folder are films, whatever their names"):
        for name in ("film.mkv", "sub/film.mkv", "-y.mkv", "a%20b%2e.mkv", "concat:film.mkv"):
            plan = server.call(
                "POST", "/v1/plans", {"version": "anime", "input": {"media": f"{allowed}/{name}", "resolution": "2x"}}
            )
            want(plan.status == 200 and plan.json["source_width"] == 64, f"{name} answered {plan}")
    evil = evil_paths(allowed, secret)
    with report.check(f"paths: {len(evil)} that lead elsewhere are refused as films, at once"):
        for path in evil:
            given = {"version": "anime", "input": {"media": path, "resolution": "2x"}}
            for route in ("/v1/plans", "/v1/predictions", "/v1/previews"):
                body = dict(given, seconds=0) if route.endswith("previews") else given
                answer = server.call("POST", route, body, timeout=10)
                want(400 <= answer.status < 500, f"{show(path)} on {route} answered {answer}")
                want(MARK not in answer.body, f"{show(path)} on {route} shows the secret")
    with report.check("paths: things that are no text are refused as films"):
        for value in (None, 0, -1, True, [], {}, [f"{allowed}/film.mkv"], {"path": f"{allowed}/film.mkv"}, 1e308):
            answer = server.call("POST", "/v1/predictions", {"version": "anime", "input": {"media": value}})
            want(400 <= answer.status < 500, f"{value!r} answered {answer}")
    with report.check("paths: models are names, never paths or addresses"):
        for name in (
            f"{secret}/film.mkv", "../anime", "/etc/passwd", "anime/../3b", "http://127.0.0.1/x", "remaster/../anime", "", "\x00",
            "anime\x00", "--help",
            "remaster/remaster/anime", "other/anime", f"{common.TESTDATA}/compact/anime.safetensors", "x" * 100_000, "file:anime",
            "3b:/etc/passwd", "..", ".",
        ):  # fmt: skip
            answer = server.create(f"{allowed}/film.mkv", version=name)
            want(400 <= answer.status < 500, f"{show(name)} answered {answer}")
            path = f"/v1/models/remaster/{urllib.parse.quote(name, safe='')}/predictions"
            answer = server.call("POST", path[:60_000], {"input": {"media": f"{allowed}/film.mkv"}})
            want(400 <= answer.status < 500, f"{show(path)} answered {answer}")


def folders(report, server, place):
    allowed, secret = place.allowed, place.secret
    with report.check("folders: those that are allowed, and what is in them, without links and pipes"):
        top = server.call("GET", "/v1/folders")
        need(top.status == 200 and MARK not in top.body, f"answered {top}")
        answer = server.call("GET", "/v1/folders?path=" + urllib.parse.quote(str(allowed)))
        need(answer.status == 200, f"answered {answer}")
        names = {entry["name"] for entry in answer.json["entries"]}
        need({"film.mkv", "sub", "-y.mkv"} <= names, f"missing in {names}")
        out = names & {"link.mkv", "absolute.mkv", "folder", "up", "root", "loop", "pipe.mkv", "socket.mkv", "zero.mkv"}
        need(not out, f"offers {out}")
    evil = [path for path in evil_paths(allowed, secret) if path not in ("", " ")]
    evil += [
        f"{allowed}/folder",
        f"{allowed}/up",
        f"{allowed}/root",
        f"{allowed}/root/etc",
        f"{allowed}/..",
        str(secret),
        f"{allowed}-not",
        "/",
        "/etc",
    ]
    with report.check(f"folders: {len(evil)} paths elsewhere are refused"):
        for path in evil:
            for spelled in (urllib.parse.quote(path[:8000], safe=""), urllib.parse.quote(path[:8000], safe="/:.%\\")):
                answer = exchange(
                    server.address, request_bytes("GET", f"/v1/folders?path={spelled}", host=server.host), timeout=10
                )
                want(400 <= answer.status < 500, f"{show(path)} answered {answer}")
                want(MARK not in answer.body and b"notes.txt" not in answer.body, f"{show(path)} shows the secret")
    with report.check("folders: a path twice, or of another kind"):
        for query in (
            f"path={allowed}&path={secret}",
            "path[]=/etc",
            "path=",
            "path",
            "path=%ff%fe",
            "path=%",
            "path=%zz",
            "path=%00",
            "&&&=&",
            "path=" + "a" * 50_000,
        ):
            answer = exchange(server.address, request_bytes("GET", f"/v1/folders?{query}", host=server.host), timeout=10)
            want(
                answer.status < 500 and b"notes.txt" not in answer.body and b"root:" not in answer.body,
                f"{query[:60]} answered {answer}",
            )


def identities(report, server):
    """Paths instead of identities in addresses."""
    evil = [
        "..", ".", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%2f..%2fetc%2fpasswd", "..%5c..%5cx", "%252e%252e%252fetc",
        "%00", "x%00", "%0d%0aX-Evil:%201",
        "/etc/passwd", "//etc/passwd", "%2fetc%2fpasswd", "C:%5cx", "CON", "a" * 5000, "*", "%", "%zz", "%ff%fe", "~", "'",
        "' OR '1'='1", "1;DROP%20TABLE%20jobs",
        "%c0%ae%c0%ae%c0%afetc", "..;/..;/", "index.html%00.js", "%E2%80%AE", "-1", "0", "18446744073709551616", "NaN", "null",
        "undefined", "{}", "[]",
    ]  # fmt: skip
    routes = [
        ("GET", "/v1/files/{}"), ("DELETE", "/v1/files/{}"), ("GET", "/v1/files/{}/content"),
        ("GET", "/v1/files/{}/picture?seconds=0"), ("GET", "/v1/files/{}/probe"),
        ("GET", "/v1/predictions/{}"), ("DELETE", "/v1/predictions/{}"), ("POST", "/v1/predictions/{}/cancel"),
        ("POST", "/v1/predictions/{}/pause"),
        ("POST", "/v1/predictions/{}/resume"), ("POST", "/v1/predictions/{}/retry"), ("GET", "/v1/predictions/{}/events"),
        ("GET", "/v1/predictions/{}/frames/0?side=after"),
        ("GET", "/v1/predictions/{}/picture"), ("GET", "/v1/predictions/{}/content"), ("GET", "/v1/predictions/{}/source"),
        ("GET", "/assets/{}"), ("GET", "/{}"),
        ("GET", "/v1/models/remaster/{}"), ("GET", "/v1/models/{}/anime"), ("GET", "/v1/predictions?cursor={}"),
        ("GET", "/v1/previews/{}"), ("GET", "/v1/previews/{}/before"),
    ]  # fmt: skip
    with report.check(f"paths: {len(evil)} instead of an identity in {len(routes)} addresses"):
        for method, route in routes:
            for one in evil:
                path = route.replace("{}", one).replace(" ", "%20")
                headers = HEADER if method != "GET" else {}
                answer = exchange(server.address, request_bytes(method, path, b"", headers, host=server.host), method, 10)
                # Some spellings lead to another address that exists: never to a file.
                want(answer.status < 500 or answer.status == 503, f"{method} {path[:80]} answered {answer}")
                want(b"root:" not in answer.body and answer.header("X-Evil") is None, f"{method} {path[:80]} shows a file")


def names(report, server, place):
    """Names of uploaded files: they are shown, and never become paths or headers."""
    evil = [
        "../../evil.mkv", "..\\..\\evil.mkv", "/etc/evil.mkv", "C:\\evil.mkv", "\\\\host\\share\\evil.mkv", "CON.mkv", "NUL",
        "..", ".", "", " ", "a" * 5000 + ".mkv",
        "x\u202evkm.mkv", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16") + ".mkv", "-i.mkv", "--config.mkv",
        "film%d.mkv", "a%0d%0aSet-Cookie: evil=1.mkv",
        "%22; filename=%22evil.html", "x;y=z.mkv", "film.mkv/", "concat:x|y.mkv", "$(touch x).mkv", "`touch x`.mkv",
        "'; touch x; '.mkv", "a\tb.mkv", "film.mkv:stream", "<script>.mkv",
        b"\xff\xfe.mkv", b"a\x00b.mkv", b"\x1b[2J.mkv",
    ]  # fmt: skip
    with report.check(f"names: {len(evil)} of uploads become no path and no header"):
        for name in evil:
            body, form = multipart([("content", name, "video/x-matroska", place.film)])
            answer = server.call("POST", "/v1/files", body, {**HEADER, "Content-Type": form})
            want(answer.status == 201 or 400 <= answer.status < 500, f"{name!r} answered {answer}")
            if answer.status != 201:
                continue
            file = answer.json
            kept = file["name"]
            want(
                "/" not in kept and "\\" not in kept and "\x00" not in kept and kept not in ("", ".", ".."),
                f"{name!r} is kept as {kept!r}",
            )
            want(not any(ord(letter) < 32 for letter in kept), f"{name!r} is kept as {kept!r}")
            for path in (f"/v1/files/{file['id']}/content", f"/v1/files/{file['id']}/content?download=1"):
                got = server.call("GET", path)
                want(got.status == 200 and got.body == place.film, f"{name!r} content answered {got.status}")
                want(got.header("Set-Cookie") is None, f"{name!r} became a header")
            server.call("DELETE", f"/v1/files/{file['id']}")
    with report.check("names: the result of the worst ones lies in the state folder"):
        for name in ("../../evil.mkv", "-y.mkv", "$(touch x) 'a' \"b\" %d.mkv", "a" * 300 + ".mkv", "CON.mkv"):
            body, form = multipart([("content", name.replace('"', "%22"), "video/x-matroska", place.film)])
            file = server.call("POST", "/v1/files", body, {**HEADER, "Content-Type": form})
            want(file.status == 201, f"{name} answered {file}")
            job = server.create(file.json["urls"]["get"])
            want(job.status == 201, f"{name} answered {job}")
            done = server.wait(job.json["id"])
            want(done["status"] == "succeeded", f"{name[:40]} {done['status']}: {done['error']}")
            want("/" not in done["output_name"] and "\\" not in done["output_name"], f"output_name {done['output_name']}")
            if done.get("file"):
                want(
                    os.path.realpath(done["file"]).startswith(os.path.realpath(server.state) + "/"),
                    f"{name} lies in {done['file']}",
                )
            got = server.call("GET", f"/v1/predictions/{done['id']}/content?download=1")
            disposition = got.header("Content-Disposition") or ""
            want(got.status == 200 and disposition.startswith("attachment"), f"{name}: {got.status} {disposition}")
            want("\r" not in disposition and "/" not in disposition.replace("UTF-8''", ""), f"{name}: {disposition}")


def swapped(report, server, place):
    """A film that becomes a link and back, while plans are made of it: what was checked is what is opened."""
    path, stop = place.allowed / "swapped.mkv", threading.Event()
    good, link = place.allowed / ".good.mkv", place.allowed / ".link.mkv"

    def swap():
        while not stop.is_set():
            os.link(place.allowed / "film.mkv", good)
            os.replace(good, path)
            time.sleep(0.0005)
            link.symlink_to("../secret/film.mkv")
            os.replace(link, path)
            time.sleep(0.0005)

    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    seen = {"good": 0, "refused": 0}
    with report.check("paths: a film that turns into a link while it is opened"):
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until and sum(seen.values()) < 300:
                plan = server.call("POST", "/v1/plans", {"version": "anime", "input": {"media": str(path), "resolution": "2x"}})
                if plan.status == 200:
                    want(plan.json["source_width"] == 64, f"a film of width {plan.json['source_width']} was opened")
                    seen["good"] += 1
                else:
                    want(400 <= plan.status < 500, f"answered {plan}")
                    want(b"96" not in plan.body, f"the secret film was opened: {plan}")
                    seen["refused"] += 1
        finally:
            stop.set()
            thread.join()
            for one in (path, good, link):
                one.unlink(missing_ok=True)
    report.note(f"paths: swapped film: {seen}")


def run(report, place):
    with place.server("paths", "--allow-folder", place.allowed) as server:
        media(report, server, place)
        folders(report, server, place)
        identities(report, server)
        names(report, server, place)
        swapped(report, server, place)
        with report.check("paths: server alive"):
            server.alive()
