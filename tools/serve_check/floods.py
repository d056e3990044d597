"""Requests that are slow, huge or lie about themselves; many connections; full disks."""

import base64
import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import select
import socket
import subprocess
import time

from . import common, world
from .common import HEADER, connect, exchange, multipart, need, read_answer, request_bytes, want

# A connection that sends nothing to the purpose is closed after this many seconds.
PATIENCE = 75
# The server may hold this much more after a flood.
GROWTH = 48 << 20
# What an upload leaves free on the disk.
RESERVE = 1 << 30


def status_of(server, data, method="POST", timeout=20):
    """The status of raw bytes; a connection that is closed without one is a refusal, too."""
    with connect(server.address, timeout) as connection:
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
            # Some of these promise more than they send; the end of it is told if the server waits for that.
            if not select.select([connection], [], [], timeout / 4)[0]:
                connection.shutdown(socket.SHUT_WR)
            return read_answer(connection, method).status
        except (http.client.HTTPException, ConnectionError):
            return "closed"
        except TimeoutError:
            return "silence"


def refused(status):
    return status == "closed" or (status != "silence" and (400 <= status < 500 or status in (501, 503, 505)))


def raw(server, head, body=b"", header=True):
    lines = [head, f"Host: {server.host}"] + (["X-Remaster: 1"] if header else [])
    return "\r\n".join(lines).encode() + b"\r\n" + body


def slow(report, server):
    """Hundreds of connections that never get on, and one client that must not notice."""
    starts = {
        "nothing at all": b"",
        "half a request line": b"GET /v1/mod",
        "headers without an end": raw(server, "GET /v1/models HTTP/1.1", b"X-A: 1\r\n"),
        "a body of JSON": raw(server, "POST /v1/predictions HTTP/1.1", b'Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"version":'),
        "an upload": raw(
            server, "POST /v1/files HTTP/1.1",
            b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"content\"; filename=\"a\"\r\n\r\n",
        ),
        "a chunk": raw(server, "POST /v1/files HTTP/1.1", b"Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n"),
    }  # fmt: skip
    # Those in `dripping` send a byte each second, as slowloris does.
    dripping = {"headers without an end": b"X", "half a request line": b"a", "a body of JSON": b" "}
    waiting = {}
    try:
        for text, start in starts.items():
            for _ in range(40):
                one = connect(server.address, 5)
                one.sendall(start)
                waiting[one] = text
        with report.check(f"slow: answers within 2 s beside {len(waiting)} slow connections"):
            for _ in range(20):
                answer = server.call("GET", "/v1/models", timeout=5)
                want(answer.status == 200 and answer.seconds < 2, f"{answer.status} after {answer.seconds:.1f} s")
        began, closed = time.monotonic(), {}
        while waiting and time.monotonic() - began < PATIENCE:
            for one in select.select(list(waiting), [], [], 1)[0]:
                with contextlib.suppress(OSError):
                    if one.recv(4096):
                        continue
                closed.setdefault(waiting.pop(one), []).append(time.monotonic() - began)
                one.close()
            for one, text in list(waiting.items()):
                if text in dripping:
                    with contextlib.suppress(OSError):
                        one.sendall(dripping[text])
        for text in starts:
            with report.check(f"slow: {text}: closed" + (f" after {max(closed[text]):.0f} s" if text in closed else "")):
                left = sum(1 for other in waiting.values() if other == text)
                want(left == 0, f"{left} of 40 are open after {PATIENCE} s")
    finally:
        for one in waiting:
            one.close()


def heads(report, server):
    """What a server may be told before the body."""
    many = "".join(f"X-{number}: {number}\r\n" for number in range(20_000)).encode()
    cases = {
        "a header of 1 MB": raw(server, "GET /v1/models HTTP/1.1", b"X-A: " + b"a" * (1 << 20) + b"\r\n\r\n"),
        "20,000 headers": raw(server, "GET /v1/models HTTP/1.1", many + b"\r\n"),
        "a name of 1 MB": raw(server, "GET /v1/models HTTP/1.1", b"a" * (1 << 20) + b": 1\r\n\r\n"),
        "an address of 1 MB": raw(server, "GET /" + "a" * (1 << 20) + " HTTP/1.1", b"\r\n"),
        "a query of 1 MB": raw(server, "GET /v1/folders?path=" + "a" * (1 << 20) + " HTTP/1.1", b"\r\n"),
        "two lengths": raw(server, "POST /v1/predictions HTTP/1.1", b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "),
        "a length that is negative": raw(server, "POST /v1/predictions HTTP/1.1", b"Content-Length: -1\r\n\r\n{}"),
        "a length with a sign": raw(server, "POST /v1/predictions HTTP/1.1", b"Content-Length: +2\r\n\r\n{}"),
        "a length that is none": raw(server, "POST /v1/predictions HTTP/1.1", b"Content-Length: 0x2\r\n\r\n{}"),
        "a length beyond 64 bits": raw(server, "POST /v1/predictions HTTP/1.1", b"Content-Length: 99999999999999999999999\r\n\r\n{}"),
        "a length and chunks": raw(server, "POST /v1/predictions HTTP/1.1", b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        "an unknown coding": raw(server, "POST /v1/predictions HTTP/1.1", b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        "chunked twice": raw(server, "POST /v1/predictions HTTP/1.1", b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
        "chunked, then not": raw(server, "POST /v1/predictions HTTP/1.1", b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        "a chunk of 2^64": raw(server, "POST /v1/predictions HTTP/1.1", b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}"),
        "a chunk of -1": raw(server, "POST /v1/predictions HTTP/1.1", b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}"),
        "a chunk of no size": raw(server, "POST /v1/predictions HTTP/1.1", b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}"),
        "an extension of a chunk of 1 MB": raw(server, "POST /v1/predictions HTTP/1.1", b"Transfer-Encoding: chunked\r\n\r\n2;" + b"a" * (1 << 20) + b"\r\n{}\r\n0\r\n\r\n"),
        "a space before the colon": raw(server, "POST /v1/predictions HTTP/1.1", b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        "a folded header": raw(server, "GET /v1/models HTTP/1.1", b"X-A: 1\r\n 2\r\n\r\n"),
        "NUL in a header": raw(server, "GET /v1/models HTTP/1.1", b"X-A: 1\x002\r\n\r\n"),
        "NUL in the address": raw(server, "GET /v1/mod\x00els HTTP/1.1", b"\r\n"),
        "a header without a colon": raw(server, "GET /v1/models HTTP/1.1", b"nothing\r\n\r\n"),
        "HTTP/9.9": raw(server, "GET /v1/models HTTP/9.9", b"\r\n"),
        "HTTP/0.9": b"GET /v1/models\r\n",
        "a method of 100 kB": raw(server, "A" * 100_000 + " /v1/models HTTP/1.1", b"\r\n"),
        "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
        "noise": os.urandom(2000) + b"\r\n\r\n",
        "CONNECT": raw(server, "CONNECT evil.example:443 HTTP/1.1", b"\r\n"),
        "TRACE": raw(server, "TRACE / HTTP/1.1", b"\r\n"),
    }  # fmt: skip
    with report.check(f"heads: {len(cases)} that lie or are huge are refused"):
        before = server.memory()
        for text, data in cases.items():
            status = status_of(server, data)
            want(refused(status), f"{text} answered {status}")
        for data in (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            raw(server, "OPTIONS * HTTP/1.1", b"Connection: close\r\n\r\n"),
            raw(server, "BREW /v1/models HTTP/1.1", b"Connection: close\r\n\r\n"),
        ):
            # Another protocol may be spoken or not.
            status = status_of(server, data, timeout=4)
            want(refused(status) or status in (200, 204), f"{data[:20]} answered {status}")
        need(server.memory() - before < GROWTH, f"memory grew by {(server.memory() - before) / 1e6:.0f} MB")
        server.alive()
    with report.check("heads: bodies that end early leave nothing behind"):
        before = len(server.call("GET", "/v1/files").json["results"]), sum(1 for _ in server.state.rglob("*"))
        for path, kind in (
            ("/v1/files", "multipart/form-data; boundary=serve-check-boundary"),
            ("/v1/predictions", "application/json"),
        ):
            body = (
                multipart([("content", "film.mkv", None, bytes(200_000))])[0]
                if path == "/v1/files"
                else b'{"version":"anime","input":{}}'
            )
            for part in (len(body) // 2, len(body) - 3):
                with connect(server.address) as one:
                    one.sendall(
                        raw(
                            server,
                            f"POST {path} HTTP/1.1",
                            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[:part],
                        )
                    )
                    time.sleep(0.2)
        time.sleep(1)
        after = len(server.call("GET", "/v1/files").json["results"]), sum(1 for _ in server.state.rglob("*"))
        need(before == after, f"files {before[0]} became {after[0]}, names in the state folder {before[1]} became {after[1]}")


def connections(report, place):
    with place.server("connections") as server:
        with report.check("connections: answers beside 500 that are open, and closes them with their clients"):
            before = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            open_ones = [connect(server.address, 5) for _ in range(500)]
            try:
                for _ in range(20):
                    answer = server.call("GET", "/v1/models", timeout=5)
                    want(answer.status == 200 and answer.seconds < 2, f"{answer.status} after {answer.seconds:.1f} s")
            finally:
                for one in open_ones:
                    one.close()
            time.sleep(2)
            after = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            want(after <= before + 10, f"{before} open files became {after}")
        with report.check("connections: 500 requests at once are answered"):
            with concurrent.futures.ThreadPoolExecutor(500) as pool:
                answers = list(pool.map(lambda _: server.call("GET", "/v1/predictions", timeout=20).status, range(500)))
            want(all(status in (200, 503) for status in answers), f"answers: {set(answers)}")
            want(answers.count(200) > 250, f"only {answers.count(200)} were served")
        with report.check("connections: 300 streams of events at once"):
            streams = []
            try:
                for _ in range(300):
                    one = connect(server.address, 5)
                    one.sendall(request_bytes("GET", "/v1/events", host=server.host))
                    streams.append(one)
                answer = server.call("GET", "/v1/models", timeout=5)
                want(answer.status == 200, f"answered {answer}")
            finally:
                for one in streams:
                    one.close()
        with report.check("connections: server alive"):
            server.alive()
    # Fewer files than connections: accepting fails, and works again when they are gone.
    with place.server("few-files", files=128) as server:
        with report.check("connections: more than the system allows: answers again when they are gone, and does not spin"):
            open_ones = []
            for _ in range(400):
                with contextlib.suppress(OSError):
                    open_ones.append(connect(server.address, 2))
            before, start = cpu(server), time.monotonic()
            time.sleep(4)
            spent = (cpu(server) - before) / (time.monotonic() - start)
            for one in open_ones:
                one.close()
            time.sleep(2)
            server.alive()
            want(spent < 0.5, f"{spent * 100:.0f} % of a core while it could not accept")


def cpu(server):
    with open(f"/proc/{server.process.pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def post(server, path, body, kind):
    return status_of(server, request_bytes("POST", path, body, {**HEADER, "Content-Type": kind}, host=server.host))


def forms(report, server, film):
    """Uploads that want to become large, or are none."""
    boundary = "serve-check-boundary"
    form = f"multipart/form-data; boundary={boundary}"
    part = ("content", "film.mkv", "video/x-matroska", film)
    opened = f"--{boundary}\r\n".encode()
    cases = {
        "100,000 parts": (multipart([("x", None, None, b"")] * 100_000)[0], form),
        "100,000 parts of metadata": (multipart([("metadata", None, None, b"{}")] * 100_000 + [part])[0], form),
        "a name without an end": (opened + b'Content-Disposition: form-data; name="' + b"a" * (8 << 20), form),
        "a header of a part of 8 MB": (opened + b"X-A: " + b"a" * (8 << 20) + b"\r\n\r\n", form),
        "100,000 headers of a part": (opened + b"X-A: 1\r\n" * 100_000 + b"\r\n", form),
        "metadata of 32 MB": (multipart([("metadata", None, None, b'"' + b"a" * (32 << 20) + b'"'), part])[0], form),
        "deep metadata": (multipart([("metadata", None, None, b"[" * 200_000), part])[0], form),
        "metadata that are no JSON": (multipart([("metadata", None, None, b"{nothing"), part])[0], form),
        "metadata that are no object": (multipart([("metadata", None, None, b"[1]"), part])[0], form),
        "no content": (multipart([("metadata", None, None, b"{}")])[0], form),
        "no part": (f"--{boundary}--\r\n".encode(), form),
        "no end": (multipart([part])[0][:-60], form),
        "two films": (multipart([part, part])[0], form),
        "another boundary": (multipart([part], "other")[0], form),
        "no boundary": (multipart([part])[0], "multipart/form-data"),
        "a film as text": (film, "video/x-matroska"),
        "a form": (b"content=film", "application/x-www-form-urlencoded"),
        "nothing": (b"", form),
    }  # fmt: skip
    with report.check(f"bombs: {len(cases)} uploads are refused"):
        for text, (body, kind) in cases.items():
            status = post(server, "/v1/files", body, kind)
            want(refused(status), f"{text} answered {status}")


def documents(report, server):
    """JSON that is deep, long or none."""
    deep = 100_000
    start = b'{"version":"anime","input":{"media":"x"'
    bodies = {
        "depth": b"[" * deep + b"]" * deep, "depth of objects": b'{"a":' * deep + b"1" + b"}" * deep,
        "depth inside": start + b',"seed":' + b"[" * deep + b"]" * deep + b"}}",
        "64 MB": start + b',"x":"' + b"a" * (64 << 20) + b'"}}',
        "a million members": b"{" + b",".join(b'"%d":1' % number for number in range(1_000_000)) + b"}",
        "a million numbers": start + b',"seed":[' + b"1," * 1_000_000 + b"1]}}", "a huge number": start + b',"seed":1e999}}',
        "a tiny number": start + b',"strength":1e-999999999}}',
        "a long number": start + b',"seed":' + b"9" * 1_000_000 + b"}}", "minus zero": start + b',"strength":-0.0}}',
        "NaN": start + b',"strength":NaN}}', "Infinity": start + b',"strength":Infinity}}',
        "a member twice": start + b',"media":"/etc/passwd"}}', "no UTF-8": start + b',"x":"\xff\xfe"}}',
        "half a pair": start + b',"x":"\\ud800"}}', "a BOM": b"\xef\xbb\xbf" + start + b"}}",
        "NUL": start + b'\x00}}', "no end": start, "more behind": start + b'}} {"version":"anime"}',
        "UTF-16": (start + b"}}").decode().encode("utf-16"), "nothing": b"", "null": b"null", "a text": b'"x"', "a number": b"1",
        "an array": b"[]",
        "comments": b"/* x */ {}", "gzip": gzip.compress(bytes(1 << 20)),
    }  # fmt: skip
    with report.check(f"bombs: {len(bodies)} documents that are deep, long or no JSON are refused"):
        for text, body in bodies.items():
            for path in ("/v1/predictions", "/v1/plans", "/v1/previews", "/v1/session"):
                status = post(server, path, body, "application/json")
                want(refused(status) or (path == "/v1/session" and status == 204), f"{text} on {path} answered {status}")
        data = request_bytes(
            "POST",
            "/v1/predictions",
            gzip.compress(bytes(256 << 20)),
            {**HEADER, "Content-Type": "application/json", "Content-Encoding": "gzip"},
            host=server.host,
        )
        need(refused(status_of(server, data)), "a packed bomb was taken")
        for kind in ("text/plain", "application/xml", "application/json; charset=utf-16", "", "application/octet-stream"):
            status = post(server, "/v1/predictions", b'{"version":"anime","input":{"media":"x"}}', kind)
            want(refused(status), f"{kind!r} answered {status}")


def values(report, server, film):
    """Addresses with data, and headers."""
    with report.check("bombs: data: URLs that are too long, wrong or something else"):
        coded = base64.b64encode(film).decode()
        urls = [
            "data:video/x-matroska;base64," + "A" * (48 << 20), "data:", "data:,", "data:;base64", "data:;base64,",
            "data:video/mp4;base64,!!!!", "data:video/mp4;base64,AAA", "data:text/html,<script>",
            "data:video/mp4;base64," + "%41" * 1000, "data:" + "a" * 100_000 + ",",
            "data:video/mp4;" + "a=b;" * 50_000 + "base64,AAAA", "DATA:video/mp4;base64,AAAA", "data:../../x;base64,AAAA",
            "data:video/x-matroska," + coded[:100],
        ]  # fmt: skip
        for url in urls:
            answer = server.create(url)
            want(answer.status == 201 or 400 <= answer.status < 500, f"{url[:60]} answered {answer}")
            if answer.status == 201:
                want(server.wait(answer.json["id"])["status"] == "failed", f"{url[:60]} was restored")
                server.call("DELETE", f"/v1/predictions/{answer.json['id']}")
    with report.check("bombs: headers of our own that are absurd"):
        file = server.upload(film)
        job = json.dumps({"version": "anime", "input": {"media": file["urls"]["get"], "resolution": "2x"}}).encode()
        for name, value in (
            ("Prefer", "wait=-1"), ("Prefer", "wait=abc"), ("Prefer", "wait=0"), ("Prefer", "wait=" + "9" * 400),
            ("Prefer", "respond-async, wait=0"), ("Prefer", ";;;="), ("Idempotency-Key", "a" * 60_000),
            ("Idempotency-Key", ""), ("Idempotency-Key", "../../x"), ("Idempotency-Key", b"\xff\xfe"),
            ("Idempotency-Key", "'; DROP TABLE jobs; --"), ("Last-Event-ID", "-1"), ("Accept", "*" * 1000),
            ("Expect", "200-maybe"),
            ("Content-Encoding", "br"), ("Accept-Encoding", "gzip;q=" + "9" * 300), ("If-None-Match", '"' * 9000),
            ("Connection", "upgrade"), ("Upgrade", "websocket"), ("TE", "trailers, gzip"),
        ):  # fmt: skip
            data = request_bytes(
                "POST",
                "/v1/predictions",
                job,
                [("X-Remaster", "1"), ("Content-Type", "application/json"), (name, value)],
                host=server.host,
            )
            answer = exchange(server.address, data, "POST", 75)
            want(answer.status < 500 or answer.status == 503, f"{name}: {value[:40]} answered {answer}")
            if answer.status in (200, 201, 202):
                server.call("POST", f"/v1/predictions/{answer.json['id']}/cancel")
        for value in ("-1", "x", "9" * 100, "\u2028", ""):
            answer = server.call("GET", "/v1/events", headers={"Last-Event-ID": value}, timeout=10)
            want(answer.status < 500, f"Last-Event-ID: {value[:40]} answered {answer}")
        server.call("DELETE", f"/v1/files/{file['id']}")


def bombs(report, server, film):
    """Bodies that want to become large."""
    names = sum(1 for _ in server.state.rglob("*"))
    forms(report, server, film)
    documents(report, server)
    values(report, server, film)
    with report.check("bombs: more of the largest take no more memory, and the state folder is as before"):
        # Memory is seen at any moment of a request, so the least of some moments counts.
        seen, large = [], b'{"version":"anime","input":{"media":"x","y":"' + b"a" * (20 << 20) + b'"}}'
        for _ in range(40):
            want(refused(post(server, "/v1/predictions", large, "application/json")), "20 MB of JSON were taken")
            seen.append(server.memory())
        first, last = min(seen[:20]), min(seen[20:])
        report.note(f"bombs: {first / 1e6:.0f} MB, then {last / 1e6:.0f} MB")
        need(last - first < GROWTH, f"memory grew by {(last - first) / 1e6:.0f} MB")
        largest = max((path.stat().st_size for path in server.state.rglob("*") if path.is_file()), default=0)
        need(largest < 8 << 20, f"a file of {largest} bytes is left in the state folder")
        now = sum(1 for _ in server.state.rglob("*"))
        report.note(f"bombs: {names} names in the state folder became {now}")
    with report.check("bombs: server alive"):
        server.alive()


def held(report, place):
    """Large bodies that never end, all at once: what they hold is limited, and given back."""
    size = 23 << 20
    body = b'{"version":"anime","input":{"media":"x","y":"' + b"a" * (size - 1000)
    with place.server("held") as server:
        head = f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()
        start, most, open_ones = server.memory(), 0, []
        with report.check("bombs: many large ones at once are limited, and what they held is given back"):
            try:
                for _ in range(60):
                    one = connect(server.address, 2)
                    open_ones.append(one)
                    # One that has to wait for its turn is not read.
                    with contextlib.suppress(OSError):
                        one.sendall(raw(server, "POST /v1/predictions HTTP/1.1", head + body))
                    most = max(most, server.memory())
                need(server.call("GET", "/v1/models", timeout=5).status == 200, "no answer beside them")
            finally:
                for one in open_ones:
                    one.close()
            time.sleep(3)
            report.note(
                f"bombs: {start / 1e6:.0f} MB, {most / 1e6:.0f} MB with 60 large bodies, {server.memory() / 1e6:.0f} MB after them"
            )
            want(most - start < 6 * GROWTH, f"{most / 1e6:.0f} MB")
            want(server.memory() - start < 2 * GROWTH, f"{server.memory() / 1e6:.0f} MB after them")
            server.alive()


def keys(report, server, film):
    with report.check("idempotency: fifty at once with one key are one prediction"):
        file = server.upload(film)

        def one(_):
            return server.create(file["urls"]["get"], headers={"Idempotency-Key": "fifty"})

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(one, range(50)))
        need(all(answer.status in (200, 201) for answer in answers), f"answers: { {answer.status for answer in answers} }")
        need(len({answer.json["id"] for answer in answers}) == 1, "more than one prediction")
        server.wait(answers[0].json["id"])
    with report.check("idempotency: one key with another request is no third thing"):
        other = server.create(file["urls"]["get"], headers={"Idempotency-Key": "fifty"}, resolution="3x")
        need(other.status in (409, 422) or other.json.get("id") == answers[0].json["id"], f"answered {other}")


def folder_size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def chunked(server, body, form):
    """The status of an upload that does not say how long it is."""
    step = 1 << 16
    pieces = [f"Content-Type: {form}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()]
    for at in range(0, len(body), step):
        piece = body[at : at + step]
        pieces += [b"%x\r\n" % len(piece), piece, b"\r\n"]
    return status_of(server, raw(server, "POST /v1/files HTTP/1.1", b"".join([*pieces, b"0\r\n\r\n"])), timeout=60)


def limits(report, place):
    with place.server("limits", "--upload-limit", "1M", "--jobs", "3") as server:
        with report.check("limits: an upload over the limit is refused, with and without a length, and nothing stays"):
            before = folder_size(server.state)
            body, form = multipart([("content", "film.mkv", "video/x-matroska", bytes(3 << 20))])
            answer = server.call("POST", "/v1/files", body, {**HEADER, "Content-Type": form})
            want(answer.status == 413, f"answered {answer}")
            want(chunked(server, body, form) in (413, "closed"), "chunks were taken")
            # The answer to this one comes before the body is there.
            head = f"Content-Type: {form}\r\nContent-Length: {1 << 50}\r\nExpect: 100-continue\r\n\r\n".encode()
            early = status_of(server, raw(server, "POST /v1/files HTTP/1.1", head), timeout=8)
            want(early in (413, 417), f"a petabyte that is only announced answered {early}")
            time.sleep(0.5)
            want(folder_size(server.state) - before < 300_000, f"{folder_size(server.state) - before} bytes are left")
            want(server.upload(bytes(900_000))["size"] == 900_000, "below the limit")
        with report.check("limits: data: URLs have the same limit"):
            answer = server.create("data:video/mp4;base64," + "A" * (3 << 20))
            want(answer.status in (413, 422), f"answered {answer}")
        with report.check("limits: more jobs than may wait are refused, and waiting ones stay"):
            file = server.upload(common.make_clip(place.folder / "limit.mkv", frames=900).read_bytes())
            answers = [server.create(file["urls"]["get"]) for _ in range(8)]
            taken = [answer.json["id"] for answer in answers if answer.status == 201]
            want({answer.status for answer in answers} <= {201, 429, 503}, f"answers: {[answer.status for answer in answers]}")
            want(3 <= len(taken) <= 5, f"{len(taken)} were taken with --jobs 3")
            for one in taken:
                server.call("POST", f"/v1/predictions/{one}/cancel")
        with report.check("limits: server alive"):
            server.alive()


def fill(path, leave):
    """Takes all room of a disk but some bytes."""
    room = os.statvfs(path.parent)
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - leave)


def disks(report, place):
    """A disk with little more room than the server leaves to others, then with none."""
    small = place.folder / "small-disk"
    small.mkdir()
    world.run("mount", "-t", "tmpfs", "-o", f"size={(RESERVE + (48 << 20)) >> 20}m", "tmpfs", small)
    world.run("mount", "--bind", small, place.inside(small))
    try:
        with place.server("disk", state=small / "state") as server:
            full_disk(report, place, server, small / "fill")
    finally:
        for target in (place.inside(small), small):
            subprocess.run(["umount", "--lazy", target], check=False)


def full_disk(report, place, server, filler):
    def film_works():
        job = server.create(server.upload(place.film)["urls"]["get"])
        need(job.status == 201, f"answered {job}")
        done = server.wait(job.json["id"])
        need(done["status"] == "succeeded", f"{done['status']}: {done['error']}")

    with report.check("disk: an upload larger than the disk is refused, and nothing of it stays"):
        body, form = multipart([("content", "film.mkv", "video/x-matroska", bytes(160 << 20))])
        answer = server.call("POST", "/v1/files", body, {**HEADER, "Content-Type": form})
        want(answer.status in (413, 507), f"answered {answer}")
        want(chunked(server, body, form) in (413, 507, 503, "closed"), "chunks were taken")
        time.sleep(0.5)
        want(folder_size(server.state) < 4 << 20, f"{folder_size(server.state)} bytes are left")
        server.alive()
    with report.check("disk: a small film works after it"):
        film_works()
    for left, text in ((RESERVE // 2, "half of what is left to others"), (0, "no byte left")):
        with report.check(f"disk: {text}: every request has an answer"):
            file = server.upload(place.film)
            fill(filler, left)
            one, kind = multipart([("content", "a", None, place.film)])
            job = server.create(file["urls"]["get"])
            for answer in (
                job, server.call("GET", "/v1/predictions"), server.call("GET", "/v1/files"),
                server.call("POST", "/v1/files", one, {**HEADER, "Content-Type": kind}), server.call("GET", "/v1/session"),
                server.call("POST", "/v1/plans", {"version": "anime", "input": {"media": file["urls"]["get"]}}),
            ):  # fmt: skip
                want(answer.status < 500 or answer.status in (503, 507), f"answered {answer}")
            if job.status == 201:
                done = server.wait(job.json["id"])
                want(done["status"] == "succeeded" or done["error"], f"{done['status']} without a word")
            server.alive()
            filler.unlink()
        with report.check("disk: room again: a film works again"):
            filler.unlink(missing_ok=True)
            film_works()


def run(report, place):
    with place.server("floods") as server:
        heads(report, server)
        bombs(report, server, place.film)
        keys(report, server, place.film)
        slow(report, server)
        with report.check("floods: server alive"):
            server.alive()
    held(report, place)
    connections(report, place)
    limits(report, place)
    disks(report, place)
