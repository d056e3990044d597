"""What is sent as a film and is none: scripts, configs, plans, playlists. Options, ranges and numbers that are absurd."""

import base64
import json

from . import common, world
from .common import HEADER, exchange, need, request_bytes, want


def impostors(place):
    """Name and content of files that a careless program would run, or follow to others."""
    touched, secret = place.folder / "touched", place.secret / "film.mkv"
    return {
        "script.vpy": f"import pathlib\npathlib.Path({str(touched)!r}).touch()\nimport vapoursynth as vs\nvs.core.std.BlankClip().set_output()\n".encode(),
        "script.avs": b"Version()\n",
        "script.py": f"open({str(touched)!r}, 'w')\n".encode(),
        "script.sh": f"#!/bin/sh\ntouch {touched}\n".encode(),
        "remaster.toml": b"[restore]\nmodel = '3b'\noutput = '/tmp/evil.mkv'\n",
        "plan.json": json.dumps({"format": "remaster-plan", "version": 1, "input": str(secret), "output": str(touched), "units": []}).encode(),
        "film.m3u8": b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://10.0.0.5/a.ts\n#EXTINF:1,\nfile://" + str(secret).encode() + b"\n#EXT-X-ENDLIST\n",
        "film.m3u": str(secret).encode() + b"\n",
        "list.ffconcat": b"ffconcat version 1.0\nfile '" + str(secret).encode() + b"'\n",
        "list.txt": b"file '" + str(secret).encode() + b"'\n",
        "film.svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="64" height="48"><image href="file://' + str(secret).encode() + b'"/><image href="http://10.0.0.5/a.png"/></svg>',
        "film.mpd": b'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period><BaseURL>http://10.0.0.5/</BaseURL></Period></MPD>',
        "film.sdp": b"v=0\no=- 0 0 IN IP4 10.0.0.5\ns=x\nc=IN IP4 10.0.0.5\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
        "film.cpl.xml": b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><CompositionPlaylist>&e;</CompositionPlaylist>',
        "film.edl": b"# mpv EDL v0\n" + str(secret).encode() + b"\n",
        "film.pls": b"[playlist]\nFile1=http://10.0.0.5/a.mp3\n",
        "film.asx": b'<asx version="3.0"><entry><ref href="http://10.0.0.5/a.wmv"/></entry></asx>',
        "film.nfo": b"hello",
        "film.html": b"<html></html>",
        "film.pdf": b"%PDF-1.4\n",
        "film.zip": b"PK\x03\x04" + bytes(60),
        "model.safetensors": (8).to_bytes(8, "little") + b'{"x":{}}',
        "nothing.mkv": b"",
        "elf": b"\x7fELF" + bytes(100),
    }  # fmt: skip


def never(report, server, place):
    """Each of them as an upload under its own name and as a film, as a data: URL, and as a path."""
    found = impostors(place)
    (place.allowed / "impostors").mkdir(exist_ok=True)
    with report.check(f"inputs: {len(found)} scripts, configs, plans, playlists and others are never films"):
        for name, content in found.items():
            (place.allowed / "impostors" / name).write_bytes(content)
            media = [str(place.allowed / "impostors" / name)]
            media.append("data:video/x-matroska;base64," + base64.b64encode(content).decode())
            for shown in (name, "film.mkv", "buffer_1795003166251"):
                body, form = common.multipart([("content", shown, "video/x-matroska", content)])
                answer = server.call("POST", "/v1/files", body, {**HEADER, "Content-Type": form})
                want(answer.status == 201 or 400 <= answer.status < 500, f"upload of {name} answered {answer}")
                if answer.status == 201:
                    media.append(answer.json["urls"]["get"])
                    for path in ("probe", "picture?seconds=0"):
                        looked = server.call("GET", f"/v1/files/{answer.json['id']}/{path}")
                        want(400 <= looked.status < 500, f"{path} of {name} as {shown} answered {looked}")
            for one in media:
                for route in ("/v1/plans", "/v1/previews"):
                    answer = server.call("POST", route, {"version": "anime", "input": {"media": one}, "seconds": 0})
                    want(400 <= answer.status < 500, f"{name} as {one[:60]} on {route} answered {answer}")
                answer = server.create(one)
                want(answer.status == 201 or 400 <= answer.status < 500, f"{name} as {one[:60]} answered {answer}")
                if answer.status == 201:
                    done = server.wait(answer.json["id"])
                    want(done["status"] == "failed", f"{name} as {one[:60]} {done['status']}")
                    want(len(done["error"] or "") > 10, f"{name} failed without a word")
                    server.call("DELETE", f"/v1/predictions/{done['id']}")
        need(not (place.folder / "touched").exists(), "a script was run")
        need(not world.private_visits(), f"a playlist was followed: {world.private_visits()[:3]}")


def options(report, server, media):
    """Values of options: every one is a number, a name or refused."""
    nasty = [
        "", " ", "-1", "0", "99999999999999999999", "1e999", "NaN", "inf", "-i /etc/passwd", "2x -vf movie=/etc/passwd",
        "../../x", "/etc/passwd", "a" * 10_000, "\x00", "\n", "';--", "0x10", "１２",
        -1, 0, 10**30, 1.5, -0.0, 1e308, True, None, [], {}, [1], {"a": 1},
    ]  # fmt: skip
    names = (
        "resolution", "seed", "strength", "softness", "color", "window", "deinterlace", "start", "end", "fps", "output_format",
        "output_quality", "lossless", "model_variant",
    )  # fmt: skip
    accepted = []
    with report.check(f"inputs: {len(names)} options with {len(nasty)} absurd values"):
        for name in names:
            for turn, value in enumerate(nasty):
                given = {"version": "anime", "input": {"media": media, "resolution": "2x", name: value}}
                # Each plan is a process of its own: a fifth of them will do.
                if (turn + len(name)) % 5 == 0:
                    plan = server.call("POST", "/v1/plans", given)
                    want(plan.status == 200 or 400 <= plan.status < 500, f"{name}={str(value)[:40]!r} on plans answered {plan}")
                taken = server.call("POST", "/v1/predictions", given)
                want(taken.status == 201 or 400 <= taken.status < 500, f"{name}={str(value)[:40]!r} answered {taken}")
                if taken.status == 201:
                    accepted.append((name, value, taken.json["id"]))
                    server.call("POST", f"/v1/predictions/{taken.json['id']}/cancel")
        strange = [
            (name, value)
            for name, value, _ in accepted
            if isinstance(value, (list, dict)) or (isinstance(value, str) and len(value) > 30)
        ]
        need(not strange, f"taken: {str(strange)[:200]}")
    report.note(
        f"inputs: {len(accepted)} of {len(names) * len(nasty)} absurd values were taken: "
        + ", ".join(f"{one[0]}={one[1]!r}" for one in accepted)
    )
    with report.check("inputs: options of the command line that are none of ours are refused"):
        for name in (
            "output", "o", "config", "preset", "vae", "model", "ffmpeg", "filter", "vf", "device", "vspipe", "script", "plan",
            "store", "work_dir", "overwrite", "-o", "--output", "encoder_options",
            "media ", "Media", "__proto__", "constructor", "", "\x00",
        ):  # fmt: skip
            answer = server.create(media, **{name: "/tmp/evil"} if name else {"": "x"})
            want(400 <= answer.status < 500, f"{name!r} answered {answer}")


def numbers(report, server, film, clip):
    """Frames, seconds, widths and positions."""
    file = server.upload(clip)
    done = server.wait(server.create(file["urls"]["get"]).json["id"])
    need(done["status"] == "succeeded", f"the film {done['status']}: {done['error']}")
    absurd = [
        "-1",
        "99999999999999999999",
        "1e9",
        "NaN",
        "inf",
        "-inf",
        "",
        "a",
        "0x1",
        "1;2",
        "1%00",
        "1.5.5",
        "%F0%9F%98%80",
        "9" * 5000,
    ]
    with report.check("numbers: frames, seconds and widths that are absurd"):
        for value in absurd:
            for path in (
                f"/v1/predictions/{done['id']}/frames/{value}?side=after", f"/v1/predictions/{done['id']}/frames/0?side={value}",
                f"/v1/predictions/{done['id']}/frames/0?side=before&width={value}",
                f"/v1/files/{file['id']}/picture?seconds={value}", f"/v1/files/{file['id']}/picture?seconds=0&width={value}",
            ):  # fmt: skip
                answer = server.call("GET", path, timeout=15)
                want(400 <= answer.status < 500, f"{path[:120]} answered {answer.status}")
        for path in (
            f"/v1/predictions/{done['id']}/frames/0?side=after&width=0",
            f"/v1/files/{file['id']}/picture?seconds=0&width=2000000000",
        ):
            answer = server.call("GET", path, timeout=15)
            want(400 <= answer.status < 500, f"{path} answered {answer.status}")
        for value in (-1, 10**30, "a", None, 1.5, [], {}):
            answer = server.call("POST", f"/v1/predictions/{done['id']}/move", {"position": value})
            want(400 <= answer.status < 500, f"move to {value} answered {answer}")
            answer = server.call(
                "POST", "/v1/previews", {"version": "anime", "input": {"media": file["urls"]["get"]}, "seconds": value}
            )
            want(400 <= answer.status < 500, f"a preview at {value} answered {answer}")
        for value in ("x", "-1", "9" * 100, "%00", "../..", "' OR 1=1"):
            answer = server.call("GET", f"/v1/predictions?cursor={value.replace(' ', '%20')}")
            want(answer.status < 500, f"cursor {value} answered {answer}")
    with report.check("frames: before and after are pictures"):
        for side in ("before", "after"):
            answer = server.call("GET", f"/v1/predictions/{done['id']}/frames/3?side={side}")
            want(answer.status == 200 and answer.body[:8] == b"\x89PNG\r\n\x1a\n", f"{side} answered {answer.status}")
    with report.check("states: what has ended or is not there cannot be paused, resumed, moved"):
        for action in ("pause", "resume", "move", "retry"):
            body = {"position": 0} if action == "move" else None
            answer = server.call("POST", f"/v1/predictions/{done['id']}/{action}", body)
            want(400 <= answer.status < 500, f"{action} of one that succeeded answered {answer}")
            want(server.call("POST", f"/v1/predictions/nonexistent/{action}", body).status == 404, f"{action} of none")
    ranges(report, server, f"/v1/predictions/{done['id']}/content")
    ranges(report, server, f"/v1/files/{file['id']}/content", clip)
    with report.check("files: one that a film waits for cannot vanish under it"):
        other = server.upload(film)
        job = server.create(other["urls"]["get"])
        server.call("DELETE", f"/v1/files/{other['id']}")
        ended = server.wait(job.json["id"])
        need(ended["status"] == "succeeded" or ended["error"], f"{ended}")


def ranges(report, server, path, whole=None):
    whole = whole or server.call("GET", path).body
    size = len(whole)
    good = {
        "bytes=0-0": whole[:1], "bytes=0-": whole, "bytes=5-9": whole[5:10], "bytes=-1": whole[-1:],
        f"bytes={size - 3}-{size * 9}": whole[-3:], f"bytes=-{size * 9}": whole, f"bytes={size - 1}-": whole[-1:],
    }  # fmt: skip
    with report.check(f"ranges: good ones of {path.split('/')[2]} are exact"):
        for value, expected in good.items():
            answer = server.call("GET", path, headers={"Range": value})
            want(
                answer.status == 206 and answer.body == expected,
                f"{value} answered {answer.status} with {len(answer.body)} bytes",
            )
            want((answer.header("Content-Range") or "").endswith(f"/{size}"), f"{value}: {answer.header('Content-Range')}")
        head = server.call("HEAD", path, headers={})
        need(
            head.status == 200 and head.header("Content-Length") == str(size),
            f"HEAD answered {head.status} {head.header('Content-Length')}",
        )
        need((head.header("Accept-Ranges") or "") == "bytes", "no Accept-Ranges")
    absurd = [
        "bytes=-0", f"bytes={size}-", "bytes=9-5", "bytes=abc", "bytes=", "items=0-1", "bytes=18446744073709551615-",
        "bytes=0-18446744073709551616", f"bytes={'9' * 500}-", "bytes=--1", "bytes=0x0-1", "bytes=0-1-2",
        "bytes=" + ",".join("0-0" for _ in range(2000)), "bytes=0-1,3-4", "bytes=0-,0-,0-,0-", "bytes = 0-1", "BYTES=0-1",
        "bytes=0 - 1", "", "\x7f",
    ]  # fmt: skip
    with report.check(f"ranges: {len(absurd)} absurd ones of {path.split('/')[2]}"):
        for value in absurd:
            answer = server.call("GET", path, headers={"Range": value}, timeout=10)
            want(answer.status in (200, 206, 400, 416), f"{value[:40]} answered {answer.status}")
            want(len(answer.body) <= size + 4096, f"{value[:40]} answered with {len(answer.body)} bytes of {size}")
            if answer.status == 200:
                want(answer.body == whole, f"{value[:40]} answered another file")
        headers = [("Range", "bytes=0-0"), ("Range", "bytes=1-1")]
        answer = exchange(server.address, request_bytes("GET", path, b"", headers, host=server.host), timeout=10)
        need(answer.status in (200, 206, 400, 416), f"two ranges answered {answer.status}")
        answer = server.call("GET", path, headers={"Range": "bytes=0-0", "If-Range": '"another"'})
        need(answer.status == 200 and answer.body == whole, f"If-Range of another file answered {answer.status}")


def run(report, place):
    with place.server("inputs", "--allow-folder", place.allowed) as server:
        never(report, server, place)
        options(report, server, str(place.allowed / "film.mkv"))
        numbers(report, server, place.film, place.film)
        with report.check("inputs: server alive"):
            server.alive()
