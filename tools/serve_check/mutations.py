"""Good requests and the server's own document, mutated by the thousand, from a seed."""

import collections
import concurrent.futures
import http.client
import json
import random
import re
import time
import urllib.parse

from . import common
from .common import exchange, multipart, need, request_bytes

# No request takes longer.
HANG = 10
GROWTH = 32 << 20
VALUES = [
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**40, 0.5, -0.0, 1e308, "", " ", "0", "-1", "a", "anime",
    "2x", "1080", "..", "/", "/etc/passwd", "../../etc/passwd", "\x00", "\n", "\r\n",
    "\ud800", "\u202e", "\U0001f600", "%00", "%2e%2e", "a" * 300, "a" * 70_000, "http://127.0.0.1/", "file:///etc/passwd",
    "data:,", "data:;base64,AAAA", "NaN", "1e999", "null", [], {}, [[]], {"": ""}, [None] * 100,
    "'; DROP TABLE jobs; --", "$(touch /tmp/x)", "<script>", "-i", "--help", "1:30.5", "99:99:99", "succeeded", "completed",
]  # fmt: skip
HEADERS = [
    ("Range", "bytes=0-"), ("Range", "bytes=5-2,1-1"), ("Prefer", "wait=1"), ("Prefer", "wait=x"), ("Idempotency-Key", "k"),
    ("Last-Event-ID", "5"), ("Origin", "http://evil.example"), ("Content-Type", "text/plain"),
    ("Content-Type", "application/json"), ("Content-Type", "multipart/form-data; boundary=x"), ("Accept", "text/html"),
    ("Accept-Encoding", "br, gzip;q=0"), ("Authorization", "Bearer x"), ("Cookie", "session=x; y"),
    ("Sec-Fetch-Site", "cross-site"), ("Expect", "100-continue"), ("If-None-Match", "*"), ("If-Modified-Since", "never"),
    ("Host", "evil.example"), ("Content-Encoding", "gzip"), ("X-A", "\xff"), ("Upgrade", "h2c"),
]  # fmt: skip
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "QUERY", "get", "\x01"]


def recorded(file, job, film):
    """Requests as the page and the clients send them."""
    media = file["urls"]["get"]
    given = {
        "version": "anime",
        "input": {"media": media, "resolution": "2x", "seed": 1, "color": "lab", "start": "0", "output_format": "mkv"},
        "webhook_events_filter": ["completed"],
    }
    form, kind = multipart([("metadata", None, None, b'{"a": 1}'), ("content", "film.mkv", "video/x-matroska", film)])
    kept, one = f"/v1/files/{file['id']}", f"/v1/predictions/{job}"
    reads = [
        "/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/session", "/v1/account", "/v1/models",
        "/v1/models/remaster/anime", "/v1/devices", "/v1/folders", "/v1/webhooks/default/secret", "/v1/files", kept,
        kept + "/content",
        kept + "/probe", kept + "/picture?seconds=0&width=32", "/v1/predictions", one, one + "/content?download=1",
        one + "/source", one + "/picture", one + "/frames/0?side=after&width=32", one + "/events", "/v1/events",
    ]  # fmt: skip
    good = [("GET", path, [], b"") for path in reads]
    json_kind = [("X-Remaster", "1"), ("Content-Type", "application/json")]
    for path, body in (
        ("/v1/predictions", given), ("/v1/models/remaster/anime/predictions", {"input": given["input"]}), ("/v1/plans", given),
        ("/v1/previews", dict(given, seconds=0)), (one + "/move", {"position": 0}), ("/v1/session", {"token": "x"}),
    ):  # fmt: skip
        good.append(("POST", path, json_kind, json.dumps(body).encode()))
    good.append(("POST", "/v1/files", [("X-Remaster", "1"), ("Content-Type", kind)], form))
    good += [("POST", f"{one}/{action}", [("X-Remaster", "1")], b"") for action in ("cancel", "pause", "resume", "retry")]
    good += [("DELETE", path, [("X-Remaster", "1")], b"") for path in ("/v1/files/x", "/v1/predictions/x")]
    return good


class Mutator:
    """Makes one request after the other, the same ones for the same seed."""

    def __init__(self, seed, document, good):
        self.chance, self.document, self.good = random.Random(seed), document, good
        self.operations = [
            (method.upper(), path, operation) for path, methods in document["paths"].items()
            for method, operation in methods.items() if method in ("get", "post", "put", "delete", "patch")
        ]  # fmt: skip

    def value(self):
        return self.chance.choice(VALUES)

    def schema_value(self, schema, depth=0):
        """A value that fits a schema, most of the time."""
        if "$ref" in schema:
            schema = self.document["components"]["schemas"].get(schema["$ref"].rsplit("/", 1)[1], {})
        if depth > 5 or self.chance.random() < 0.15:
            return self.value()
        for key in ("oneOf", "anyOf", "allOf"):
            if schema.get(key):
                return self.schema_value(self.chance.choice(schema[key]), depth + 1)
        if schema.get("enum"):
            return self.chance.choice(schema["enum"])
        kind = schema.get("type")
        kind = self.chance.choice(kind) if isinstance(kind, list) else kind
        if kind == "object" or "properties" in schema:
            members = {
                name: self.schema_value(part, depth + 1)
                for name, part in schema.get("properties", {}).items()
                if self.chance.random() < 0.6
            }
            if self.chance.random() < 0.1:
                members[str(self.value())[:50]] = self.value()
            return members
        if kind == "array":
            return [self.schema_value(schema.get("items", {}), depth + 1) for _ in range(self.chance.randrange(4))]
        if kind == "integer":
            return self.chance.choice([0, 1, 2, 7, 100, -1, 2**31, 2**63])
        if kind == "number":
            return self.chance.choice([0, 0.5, 1, 1e-9, 1e9, -1])
        if kind == "boolean":
            return self.chance.random() < 0.5
        return self.chance.choice([value for value in VALUES if isinstance(value, str)])

    def from_document(self):
        """A request by the grammar of the document."""
        method, path, operation = self.chance.choice(self.operations)
        query, headers = [], [("X-Remaster", "1")] if self.chance.random() < 0.9 else []
        for parameter in operation.get("parameters", []):
            text = str(self.schema_value(parameter.get("schema", {})))[:3000]
            if parameter.get("in") == "path":
                path = path.replace(
                    "{" + parameter["name"] + "}",
                    urllib.parse.quote(text, safe=self.chance.choice(["", "/.%"]), errors="replace"),
                )
            elif parameter.get("in") == "query" and self.chance.random() < 0.7:
                query.append((parameter["name"], text))
            elif parameter.get("in") == "header" and self.chance.random() < 0.5:
                headers.append((parameter["name"], text.replace("\n", " ").replace("\r", " ")))
        # Half of the identities are real ones.
        real = [one[1] for one in self.good if one[1].startswith(("/v1/files/", "/v1/predictions/"))]
        if self.chance.random() < 0.5:
            found = re.match(r"(/v1/(?:files|predictions)/)[^/?]*", self.chance.choice(real))
            path = re.sub(r"^" + re.escape(found[1]) + r"[^/?]*", lambda _: found[0], path)
        if query:
            path += "?" + urllib.parse.urlencode(query, errors="replace")
        body, content = b"", operation.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            body = json.dumps(self.schema_value(content["application/json"].get("schema", {}))).encode("utf-8", "replace")
            headers.append(("Content-Type", "application/json"))
        return method, path, headers, body

    def tree(self, value):
        """Changes one place of a JSON document."""
        if isinstance(value, dict) and value and self.chance.random() < 0.85:
            name = self.chance.choice(list(value))
            turn = self.chance.random()
            if turn < 0.15:
                return {key: part for key, part in value.items() if key != name}
            if turn < 0.25:
                return {**value, str(self.value())[:80]: self.value()}
            return {**value, name: self.tree(value[name])}
        if isinstance(value, list) and value and self.chance.random() < 0.7:
            where = self.chance.randrange(len(value))
            return [*value[:where], self.tree(value[where]), *value[where + 1 :]]
        return self.value()

    def bytes(self, data):
        """Changes some bytes."""
        data = bytearray(data)
        for _ in range(self.chance.choice([1, 1, 2, 5, 20])):
            where = self.chance.randrange(len(data) + 1)
            turn = self.chance.randrange(5)
            if turn == 0 and data:
                data[where % len(data)] ^= 1 << self.chance.randrange(8)
            elif turn == 1:
                data[where:where] = self.chance.randbytes(self.chance.choice([1, 2, 10, 1000]))
            elif turn == 2:
                del data[where : where + self.chance.choice([1, 3, 50])]
            elif turn == 3:
                del data[where:]
            else:
                data[where:where] = data[max(0, where - self.chance.choice([1, 10, 200])) : where]
        return bytes(data)

    def mutated(self):
        """A recorded request with a few changes."""
        method, path, headers, body = self.chance.choice(self.good)
        headers = list(headers)
        for _ in range(self.chance.choice([1, 1, 1, 2, 3])):
            turn = self.chance.randrange(8)
            if turn == 0:
                method = self.chance.choice(METHODS)
            elif turn == 1:
                path = (
                    self.bytes(path.encode()).decode("latin-1").replace(" ", "%20").replace("\n", "%0a").replace("\r", "%0d")
                    or "/"
                )
            elif turn == 2:
                path += self.chance.choice("?&/;#.") + urllib.parse.quote(str(self.value())[:3000], errors="replace")
            elif turn == 3:
                headers.append(self.chance.choice(HEADERS))
            elif turn == 4 and headers:
                headers.pop(self.chance.randrange(len(headers)))
            elif turn == 5 and body:
                body = self.bytes(body)
            elif body.startswith(b"{"):
                try:
                    body = json.dumps(self.tree(json.loads(body))).encode("utf-8", "replace")
                except ValueError:
                    body = self.bytes(body)
        return method, path, headers, body

    def next(self):
        method, path, headers, body = self.from_document() if self.chance.random() < 0.4 else self.mutated()
        data = request_bytes(method, path.encode("utf-8", "replace"), body, headers, host="HOST")
        # Now and then the request itself breaks.
        if self.chance.random() < 0.05:
            data = self.bytes(data)
        return method, data


def send(server, method, data):
    """Status and seconds; a closed connection is an answer, silence is not."""
    data = data.replace(b"Host: HOST", b"Host: " + server.host.encode(), 1)
    # What broke may have lost its end, so the server waits for the rest; it is a hang only if the request is whole.
    whole = is_whole(data)
    start = time.monotonic()
    try:
        status = exchange(server.address, data, method, HANG if whole else 2, limit=1 << 16).status
    except TimeoutError:
        status = "hang" if whole else "incomplete"
    except (http.client.HTTPException, ConnectionError):
        status = "closed"
    return status, time.monotonic() - start


def is_whole(data):
    if b"\r\n\r\n" not in data:
        return False
    head, body = data.split(b"\r\n\r\n", 1)
    lengths = re.findall(rb"(?im)^content-length:[ \t]*([0-9]+)[ \t]*\r?$", head)
    if re.search(rb"(?i)transfer-encoding|expect", head):
        return False
    return not lengths or len(body) >= int(lengths[-1])


def tidy(server):
    """Ends what mutated requests have started, so that the queue does not become the test."""
    for prediction in server.call("GET", "/v1/predictions").json["results"]:
        if prediction["status"] not in common.ENDED:
            server.call("POST", f"/v1/predictions/{prediction['id']}/cancel")


def corpus(server, film):
    """Good requests to a file and a film that are there."""
    file = server.upload(film)
    done = server.wait(server.create(file["urls"]["get"]).json["id"])
    need(done["status"] == "succeeded", f"the film {done['status']}: {done['error']}")
    return recorded(file, done["id"], film), [f"/v1/files/{file['id']}", f"/v1/predictions/{done['id']}"]


def run(report, place):
    with place.server("mutations", "--upload-limit", "4M", "--jobs", "50") as server:
        good, there = corpus(server, place.film)
        mutator = Mutator(place.seed, server.call("GET", "/openapi.json").json, good)
        counts, bad, memory, slowest, late = collections.Counter(), [], [], 0.0, 0
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for turn in range(0, place.requests, 100):
                batch = [mutator.next() for _ in range(min(100, place.requests - turn))]
                for (method, data), (status, seconds) in zip(batch, pool.map(lambda one: send(server, *one), batch), strict=True):
                    counts[status] += 1
                    slowest = max(slowest, seconds if status not in ("hang", "incomplete") else 0)
                    if status == "hang":
                        # On a busy machine a child may take that long; what hangs does so again.
                        status, _ = send(server, method, data)
                        late += status != "hang"
                    if status == "hang" or (isinstance(status, int) and status >= 500 and status != 503):
                        bad.append((status, data))
                tidy(server)
                # Some requests remove what the others are about.
                if any(server.call("GET", path).status != 200 for path in there):
                    mutator.good, there = corpus(server, place.film)
                memory.append(server.memory())
        shown = ", ".join(f"{status}: {number}" for status, number in sorted(counts.items(), key=str))
        report.note(
            f"mutations: {shown}; {time.monotonic() - start:.0f} s; slowest {slowest:.1f} s, {late} late; seed {place.seed}"
        )
        for status, data in bad[:5]:
            report.note(f"{status}: {data[:700]!r}")
        with report.check(f"mutations: {place.requests} requests: no error of the server but 503, none over {HANG} s"):
            need(not bad, f"{len(bad)} of them")
            need(late <= place.requests // 100, f"{late} were late, and not when they were sent again")
            need(counts["closed"] < place.requests // 4, "most connections were closed: nothing was tested")
        with report.check("mutations: server alive, no panic"):
            server.alive()
            need(server.call("GET", "/v1/models").status == 200, "no answer")
            tidy(server)
            again = server.upload(place.film)
            need(server.wait(server.create(again["urls"]["get"]).json["id"])["status"] == "succeeded", "no film after it")
        tenth = max(len(memory) // 10, 1)
        with report.check(f"mutations: memory flat, {memory[tenth - 1] / 1e6:.0f} MB, then {memory[-1] / 1e6:.0f} MB"):
            need(memory[-1] - memory[tenth - 1] < GROWTH, f"grew by {(memory[-1] - memory[tenth - 1]) / 1e6:.0f} MB")
