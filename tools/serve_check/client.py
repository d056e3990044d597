"""Replicate's client from PyPI, unmodified, against a server. Variables: REPLICATE_BASE_URL, REPLICATE_API_TOKEN, CLIP, LONG, BAD, HOOK."""

import asyncio
import hashlib
import http.server
import io
import json
import os
import pathlib
import queue
import sys
import threading
import time

import httpx
import replicate
from replicate.client import Client
from replicate.exceptions import ModelError, ReplicateError
from replicate.pagination import async_paginate, paginate
from replicate.webhook import InvalidSignatureError, Webhooks

CLIP, LONG, BAD = (pathlib.Path(os.environ[name]) for name in ("CLIP", "LONG", "BAD"))
TOKEN = os.environ["REPLICATE_API_TOKEN"]
INPUT = {"resolution": "2x"}
failures = 0


def check(text):
    """Runs a function as a check as soon as it is defined."""

    def run(function):
        global failures
        try:
            outcome = function()
            if asyncio.iscoroutine(outcome):
                asyncio.run(asyncio.wait_for(outcome, 300))
            print(f"ok      python: {text}", flush=True)
        except Exception as error:
            failures += 1
            print(f"failed  python: {text}: {type(error).__name__}: {' '.join(str(error).split())[:400]}", flush=True)

    return run


def download(url):
    answer = httpx.get(url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
    answer.raise_for_status()
    return answer.content


def is_film(output):
    assert isinstance(output, str) and output.startswith("http://"), output
    content = download(output)
    assert content[:4] == b"\x1a\x45\xdf\xa3", content[:40]
    return hashlib.sha256(content).hexdigest()


# Every check uses a client of its own, as every async client belongs to one loop.
def client():
    return Client()


@check("account")
def _():
    assert client().accounts.current().username


@check("upload by path, with metadata; get, list, content, delete")
def _():
    files = client().files
    one = files.create(CLIP, metadata={"reel": 3})
    assert one.size == CLIP.stat().st_size and one.name == CLIP.name, one
    assert one.checksums["sha256"] == hashlib.sha256(CLIP.read_bytes()).hexdigest(), one
    assert one.metadata == {"reel": 3}, one
    assert files.get(one.id) == one, (files.get(one.id), one)
    assert one.id in [other.id for other in files.list()]
    assert download(one.urls["get"] + "/content") == CLIP.read_bytes()
    assert files.delete(one.id) is True
    try:
        files.get(one.id)
    except ReplicateError as error:
        assert error.status == 404 and error.detail, repr(error)
    else:
        raise AssertionError("a deleted file is still there")


@check("upload of a stream without a name")
def _():
    files = client().files
    one = files.create(io.BytesIO(CLIP.read_bytes()))
    assert one.size == CLIP.stat().st_size
    prediction = client().predictions.create(version="anime", input={**INPUT, "media": one.urls["get"]})
    prediction.wait()
    assert prediction.status == "succeeded", prediction


film = {}


@check("create by version, wait, film")
def _():
    one = client().files.create(CLIP)
    prediction = client().predictions.create(version="anime", input={**INPUT, "media": one.urls["get"]})
    assert prediction.status in ("starting", "processing"), prediction
    assert prediction.model == "remaster/anime" and prediction.created_at and prediction.output is None, prediction
    prediction.wait()
    assert prediction.status == "succeeded" and prediction.error is None and prediction.completed_at, prediction
    film["first"] = is_film(prediction.output)


@check("create by model with a file object")
def _():
    with open(CLIP, "rb") as file:
        prediction = client().predictions.create(model="remaster/anime", input={**INPUT, "media": file})
    prediction.wait()
    assert is_film(prediction.output) == film["first"], "another film"


@check("create with a file as data: URL, waiting for the answer")
def _():
    with open(CLIP, "rb") as file:
        prediction = client().predictions.create(
            version="remaster/anime", input={**INPUT, "media": file}, file_encoding_strategy="base64", wait=60
        )
    assert prediction.status == "succeeded", prediction
    assert is_film(prediction.output) == film["first"], "another film"


@check("run() with a path")
def _():
    assert is_film(client().run("remaster/anime", input={**INPUT, "media": CLIP})) == film["first"]


@check("run() that waits a second, then polls")
def _():
    assert is_film(client().run("remaster/anime", input={**INPUT, "media": CLIP}, wait=1)) == film["first"]


@check("run() that polls only")
def _():
    assert is_film(client().run("remaster/anime", input={**INPUT, "media": CLIP}, wait=False)) == film["first"]


@check("run() of one that takes longer than the wait")
def _():
    start = time.monotonic()
    is_film(client().run("remaster/anime", input={**INPUT, "media": LONG, "end": "3"}, wait=1))
    assert time.monotonic() - start > 1


@check("run() with a version behind the model")
def _():
    assert is_film(client().run("remaster/anime:anime", input={**INPUT, "media": CLIP})) == film["first"]


@check("async: upload, run, create, list, get, cancel")
async def _():
    one = client()
    file = await one.files.async_create(CLIP)
    assert is_film(await one.async_run("remaster/anime", input={**INPUT, "media": file.urls["get"]})) == film["first"]
    prediction = await one.predictions.async_create(version="anime", input={**INPUT, "media": LONG})
    assert prediction.id in [other.id for other in await one.predictions.async_list()]
    await prediction.async_cancel()
    await prediction.async_wait()
    assert prediction.status == "canceled", prediction
    assert (await one.predictions.async_get(prediction.id)).status == "canceled"
    pages = [page async for page in async_paginate(one.predictions.async_list)]
    assert sum(len(page) for page in pages) >= 8
    assert await one.files.async_delete(file.id)


@check("list and pages: each prediction once, newest first")
def _():
    one = client()
    every = [prediction for page in paginate(one.predictions.list) for prediction in page]
    identities = [prediction.id for prediction in every]
    assert len(identities) == len(set(identities)) >= 8, identities
    times = [prediction.created_at for prediction in every]
    assert times == sorted(times, reverse=True), times
    again = one.predictions.get(every[-1].id)
    assert again.id == every[-1].id and again.input == every[-1].input


@check("cancel while it runs")
def _():
    prediction = client().predictions.create(version="anime", input={**INPUT, "media": LONG})
    until = time.monotonic() + 60
    while prediction.status == "starting" and time.monotonic() < until:
        time.sleep(0.1)
        prediction.reload()
    assert prediction.status == "processing", prediction
    prediction.cancel()
    prediction.wait()
    assert prediction.status == "canceled" and prediction.completed_at and prediction.output is None, prediction
    prediction.cancel()
    assert prediction.status == "canceled"


@check("cancel while it waits")
def _():
    first = client().predictions.create(version="anime", input={**INPUT, "media": LONG})
    second = client().predictions.create(version="anime", input={**INPUT, "media": LONG})
    second.cancel()
    second.wait()
    assert second.status == "canceled" and second.started_at is None, second
    first.cancel()


@check("stream() of a prediction, or the client's own word that there is none")
def _():
    prediction = client().predictions.create(version="anime", input={**INPUT, "media": CLIP})
    if prediction.urls.get("stream"):
        events = list(prediction.stream())
        assert events and events[-1].event.value == "done", events
    prediction.wait()


@check("models, and a model by its name")
def _():
    names = [model.name for model in client().models.list()]
    assert "anime" in names, names
    assert client().models.get("remaster/anime").name == "anime"


@check("a film that is none: the error of the model or of the request")
def _():
    try:
        client().run("remaster/anime", input={**INPUT, "media": BAD})
    except ModelError as error:
        assert error.prediction.status == "failed" and len(str(error)) > 10, error
    except ReplicateError as error:
        assert error.status == 422 and error.detail, repr(error)
    else:
        raise AssertionError("no error")


@check("errors of requests are problems with a title and a sentence")
def _():
    for version, given in (
        ("nonexistent", {"media": CLIP}), ("anime", {}), ("anime", {"media": 3}), ("anime", {"media": "/etc/passwd"}),
        ("anime", {"media": CLIP, "resolution": "huge"}), ("anime", {"media": CLIP, "unheard_of": 1}),
    ):  # fmt: skip
        try:
            client().predictions.create(version=version, input=given)
        except ReplicateError as error:
            assert 400 <= error.status < 500 and error.title and error.detail, repr(error)
        else:
            raise AssertionError(f"{version} {given} was accepted")
    try:
        client().predictions.get("nonexistent")
    except ReplicateError as error:
        assert error.status == 404 and error.detail, repr(error)


class Receiver(http.server.BaseHTTPRequestHandler):
    received, first = queue.Queue(), True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        # The first one is refused, so that it must come again.
        code = 500 if Receiver.first else 200
        Receiver.first = False
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()
        Receiver.received.put((code, dict(self.headers), body.decode()))

    def log_message(self, *_):
        pass


@check("webhooks: start and completed, signed, again after an error")
def _():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["HOOK"])), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    one = client()
    prediction = one.predictions.create(
        version="anime", input={**INPUT, "media": CLIP}, webhook=f"http://127.0.0.1:{server.server_port}/hook?a=b",
        webhook_events_filter=["start", "completed"],
    )  # fmt: skip
    prediction.wait()
    secret = one.webhooks.default.secret()
    states, identities = [], {}
    while len(states) < 2:
        code, headers, body = Receiver.received.get(timeout=60)
        assert Webhooks.validate(headers=headers, body=body, secret=secret, tolerance=60) is None
        try:
            Webhooks.validate(headers=headers, body=body.replace("anime", "other"), secret=secret)
        except InvalidSignatureError:
            pass
        else:
            raise AssertionError("a changed body has a valid signature")
        identity = {key.lower(): value for key, value in headers.items()}["webhook-id"]
        identities.setdefault(identity, []).append(code)
        if code == 200:
            content = json.loads(body)
            assert content["id"] == prediction.id, content
            states.append(content["status"])
    server.shutdown()
    assert [500, 200] in identities.values(), f"the refused one did not come again under its own name: {identities}"
    assert "succeeded" in states, states


@check("another token than the server's is refused, if it has one")
def _():
    if os.environ.get("TOKEN_REQUIRED") != "1":
        return
    for token in ("wrong", TOKEN[:-1], TOKEN + "x"):
        try:
            Client(api_token=token).predictions.list()
        except ReplicateError as error:
            assert error.status == 401 and error.detail, repr(error)
        else:
            raise AssertionError(f"{token} was accepted")


print(f"        python: replicate {replicate.__version__ if hasattr(replicate, '__version__') else '1.0.7'}")
sys.exit(1 if failures else 0)
