"""schemathesis against the document that the server gives of itself."""

import json
import re
import subprocess

from . import common
from .common import need

REQUESTS = 2000
LIMIT = 2400
TOKEN = "correct-horse-battery-staple"
# A document can say that `media` is a text, not that a film must be behind it: valid data may be refused.
# Objects belong to whoever has the token, so there is no other user whose objects could be read.
NOT_HERE = "positive_data_acceptance,object_level_authorization"
# Streams without an end; they have checks of their own.
ENDLESS = "^/v1/events$"


def document(report, server):
    """What schemathesis takes for granted: a document, and every path that the guide lists is in it."""
    answer = server.call("GET", "/openapi.json", token=TOKEN)
    with report.check("openapi: document"):
        need(answer.status == 200, f"/openapi.json answered {answer}")
        need(answer.json["openapi"].startswith("3."), answer.json.get("openapi"))
    paths = answer.json["paths"]
    with report.check("openapi: every path of the guide is in it"):
        wanted = """get /v1/files post /v1/files get /v1/files/{} delete /v1/files/{} get /v1/files/{}/content
            get /v1/files/{}/picture get /v1/files/{}/probe get /v1/folders get /v1/predictions post /v1/predictions
            post /v1/models/{}/{}/predictions get /v1/predictions/{} delete /v1/predictions/{} post /v1/predictions/{}/cancel
            post /v1/predictions/{}/pause post /v1/predictions/{}/resume post /v1/predictions/{}/move post /v1/predictions/{}/retry
            get /v1/predictions/{}/events get /v1/events get /v1/predictions/{}/frames/{} get /v1/predictions/{}/picture
            get /v1/predictions/{}/content get /v1/predictions/{}/source post /v1/plans post /v1/previews get /v1/models
            get /v1/devices get /healthz get /readyz get /metrics get /v1/account get /v1/webhooks/default/secret
            get /v1/session post /v1/session""".split()
        there = {
            (method, re.sub(r"\{[^}]*\}|remaster(?=/)", "{}", path)) for path, methods in paths.items() for method in methods
        }
        missing = [pair for pair in zip(wanted[::2], wanted[1::2], strict=True) if pair not in there]
        need(not missing, f"missing: {', '.join(' '.join(pair) for pair in missing)}")
    return answer.json


def identities(document, file, prediction):
    """A configuration with which every path with an identity leads to something that is there."""
    text = ""
    for path in document["paths"]:
        for start, identity in (("/v1/files/{", file), ("/v1/predictions/{", prediction)):
            if path.startswith(start):
                name = path[len(start) :].split("}")[0]
                text += f'[[operations]]\ninclude-path = "{path}"\nparameters = {{ "path.{name}" = "{identity}" }}\n\n'
    return text


def schemathesis(report, server, folder, tools, name, count, options):
    """One run of it; gives back how many requests it sent."""
    log, archive = folder / f"{name}.log", folder / f"{name}.har"
    words = [
        tools / "bin" / "st", *options[0], "run", f"{server.url}/openapi.json", "--header", f"Authorization: Bearer {TOKEN}",
        "--checks", "all", "--exclude-checks", NOT_HERE, "--exclude-path-regex", ENDLESS, "--max-examples", str(count),
        "--request-timeout", "30", "--continue-on-failure", "--report", "har", "--report-har-path", archive, "--no-color",
        "--generation-database", "none", *options[1:],
    ]  # fmt: skip
    with open(log, "wb") as out:
        done = subprocess.run(
            [str(word) for word in words], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=LIMIT
        )
    text = log.read_text(errors="replace")
    sent = len(json.loads(archive.read_text())["log"]["entries"]) if archive.exists() else 0
    with report.check(f"openapi: schemathesis, {name}, {sent} requests: no violation"):
        if done.returncode:
            print(text[text.find("= FAILURES =") if "= FAILURES =" in text else 0 :][:20000])
        need(done.returncode == 0, f"ended with {done.returncode}")
    return sent


def run(report, binary, folder, arguments):
    (tools,) = common.tools("schemathesis")
    (folder / "token").write_text(TOKEN)
    allowed = folder / "films"
    allowed.mkdir()
    clip = common.make_clip(allowed / "clip.mkv").read_bytes()
    with common.Server(binary, folder / "server", "--token-file", folder / "token", "--allow-folder", allowed) as server:
        paths = document(report, server)
        operations = sum(len(methods) for methods in paths["paths"].values())
        seed = ["--seed", str(arguments.seed)]
        sent = schemathesis(report, server, folder, tools, "any identity", 20, [[], *seed])
        file = server.upload(clip, token=TOKEN)
        prediction = server.create(file["urls"]["get"], token=TOKEN).json["id"]
        server.wait(prediction, token=TOKEN)
        (folder / "known.toml").write_text(identities(paths, file["id"], prediction))
        known = [["--config-file", folder / "known.toml"], *seed, "--include-path-regex", r"\{", "--exclude-method", "DELETE"]
        # What is given instead of a wrong identity is right, so nothing wrong is made up here.
        known += ["--mode", "positive"]
        sent += schemathesis(report, server, folder, tools, "identities that are there", 20, known)
        with report.check(f"openapi: {sent} requests to {operations} operations in all"):
            need(sent >= REQUESTS, f"less than {REQUESTS}")
        with report.check("openapi: server alive after it"):
            server.alive()
