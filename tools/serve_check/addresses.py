"""Addresses of films and webhooks: only allowed hosts, never a private address, whatever a name or a redirect says."""

import time

from . import common, world
from .common import need, want
from .world import PRIVATE, PUBLIC, Names, Web

ALLOWED = [name for name in Names.table if name != "other.example"]


def pages(film):
    """What the web server gives."""

    def to(url, status=302):
        return (status, {"Location": url}, b"")

    def endless(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "video/x-matroska")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")
        except OSError:
            pass

    def silent(handler):
        time.sleep(600)

    def liar(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(10**15))
        handler.end_headers()
        handler.wfile.write(film)

    def short(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(film) * 2))
        handler.end_headers()
        handler.wfile.write(film)
        handler.close_connection = True

    playlist = b"#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://10.0.0.5/segment.ts\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"
    Web.pages.update(
        {
            "/film.mkv": (200, {"Content-Type": "video/x-matroska"}, film),
            "/near": to("/film.mkv"),
            "/to-other": to("http://other.example/film.mkv"),
            "/to-loop": to("http://127.0.0.1/film.mkv"),
            "/to-six": to("http://[::1]/film.mkv"),
            "/to-ten": to("http://10.0.0.5/film.mkv", 301),
            "/to-name": to("http://ten.example/film.mkv", 307),
            "/to-metadata": to("http://169.254.169.254/latest/meta-data/", 308),
            "/to-decimal": to("http://2130706433/film.mkv", 303),
            "/to-scheme": to("//127.0.0.1/film.mkv"),
            "/to-file": to("file:///etc/passwd"),
            "/to-ftp": to("ftp://films.example/film.mkv"),
            "/to-data": to("data:video/x-matroska;base64,AAAA"),
            "/to-flip": to("http://flip.example/film.mkv"),
            "/to-nowhere": to(""),
            "/to-self": to("/to-self"),
            "/twice": to("http://films.example/to-ten"),
            "/list.m3u8": (200, {"Content-Type": "application/vnd.apple.mpegurl"}, playlist),
            "/list.mkv": (200, {"Content-Type": "video/x-matroska"}, playlist),
            "/endless.mkv": endless,
            "/silent.mkv": silent,
            "/liar.mkv": liar,
            "/short.mkv": short,
            "/error.mkv": (500, {}, b"no"),
        }
    )
    for step in range(40):
        Web.pages[f"/chain{step}"] = to(f"/chain{step + 1}")
    Web.pages["/chain40"] = (200, {}, film)


def evil_urls(six):
    """Private addresses in all their spellings."""
    literal = [f"[{one}]" if ":" in one else one for one in PRIVATE if six or ":" not in one]
    spelled = [
        "127.0.0.1", "localhost", "LOCALHOST", "localhost.", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f000001",
        "0x7f.0.0.1", "017700000001", "0177.0.0.1",
        "0177.0.0.01", "127.0.0.1.", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]", "[::1%25lo]", "[fe80::1%25lo]", "167772165",
        "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460", "127\u30020\u30020\u30021", "\uff11\uff12\uff17.0.0.1",
        "127.0.0.1%00.films.example", "127.0.0.1%2f.films.example",
        "films.example@127.0.0.1", "films.example:80@127.0.0.1", "films.example%40127.0.0.1", "127.0.0.1#@films.example",
        "127.0.0.1?films.example", "127.0.0.1\\@films.example",
        "127.0.0.1:80", "127.0.0.1:443", "127.0.0.1:8080", "films.example.127.0.0.1", "films.example.evil.example",
        "evilfilms.example", "other.example", "sub.films.example",
        "films.example\r\nHost: 127.0.0.1", "films.example\t@127.0.0.1", "films.example /@127.0.0.1",
    ]  # fmt: skip
    named = [
        name
        for name in ALLOWED
        if name not in ("films.example", "six.films.example", "mixed.example", "flip.example", "flop.example")
    ]
    return [f"http://{host}/film.mkv" for host in literal + spelled + named] + [
        "http:/127.0.0.1/film.mkv", "http:127.0.0.1/film.mkv", "http:\\\\127.0.0.1\\film.mkv", "//127.0.0.1/film.mkv",
        "https://127.0.0.1/film.mkv", "HTTP://127.0.0.1/film.mkv",
        "ftp://127.0.0.1/film.mkv", "ftp://films.example/film.mkv", "gopher://127.0.0.1:80/_GET", "rtmp://127.0.0.1/film",
        "rtsp://films.example/film", "tcp://127.0.0.1:80", "udp://127.0.0.1:53",
        "tls://127.0.0.1:443", "hls+http://films.example/list.m3u8", "async:http://127.0.0.1/film.mkv",
        "cache:http://films.example/film.mkv", "concat:http://127.0.0.1/film.mkv", "smb://127.0.0.1/x",
        "crypto:http://films.example/film.mkv", "icecast://films.example/x", "mmsh://films.example/x",
        "ws://films.example/film.mkv", "jar:http://127.0.0.1!/x", "view-source:http://127.0.0.1/",
        "http://", "http:///film.mkv", "http://films.example:0/", "http://films.example:99999/film.mkv",
        "http://films.example:-1/film.mkv", "http://films.example:22/film.mkv",
        "http://[", "http://[]/", "http://[::1", "http://%", "http://.", "http://..", "http://user:pass@ten.example/film.mkv",
        "http://" + "a" * 70_000, "http://films.example/" + "a" * 200_000,
    ]  # fmt: skip


def opens(server, action):
    """Connections that the server, or a child of it, tried to open during an action: ours are taken off."""
    mine, before = next(common.OPENED), world.active_opens()
    outcome = action()
    return world.active_opens() - before - (next(common.OPENED) - mine - 1), outcome


def attempt(server, url, **given):
    """Tries an address as a film; gives back how it ended."""

    def action():
        answer = server.create(url, **given)
        if answer.status != 201:
            want(400 <= answer.status < 500, f"{url[:80]} answered {answer}")
            return "refused"
        return server.wait(answer.json["id"], 90)["status"]

    return opens(server, action)


def films(report, server, six):
    with report.check("addresses: a film of an allowed host is fetched, also behind a redirect"):
        for url in ["http://films.example/film.mkv", "http://films.example/near"] + ["http://six.films.example/film.mkv"] * six:
            count, status = attempt(server, url)
            want(status == "succeeded", f"{url} {status}")
            want(count >= 1, f"{url}: {count} connections were seen, so the others prove nothing")
    evil = evil_urls(six)
    with report.check(f"addresses: {len(evil)} of private or other hosts are refused, without a connection"):
        for url in evil:
            count, status = attempt(server, url)
            want(status != "succeeded", f"{url[:80]} was fetched")
            want(count == 0, f"{url[:80]}: {count} connections")
        need(not world.private_visits(), f"visits: {world.visited()}")
    redirects = [path for path in Web.pages if path.startswith("/to-")] + ["/twice", "/chain0"]
    with report.check(f"addresses: {len(redirects)} redirects to private, other or no hosts are not followed"):
        for path in redirects:
            _, status = attempt(server, f"http://films.example{path}")
            # The first answer for this one is public; the second must not be asked for.
            want(status != "succeeded" or path == "/to-flip", f"{path} was followed")
        need(not world.private_visits(), f"visits: {world.visited()}")
        need(not any(visit[2].startswith("/latest") for visit in Web.visits), "metadata were asked for")
    with report.check("addresses: a name that has public and private addresses, or another one at the second question"):
        for name in ("mixed.example", "flip.example", "flop.example", "flip.example", "flop.example", "flop.example"):
            attempt(server, f"http://{name}/film.mkv")
        need(not world.private_visits(), f"visits: {world.visited()}")
    with report.check("addresses: playlists from an allowed host lead nowhere"):
        for path in ("/list.m3u8", "/list.mkv"):
            _, status = attempt(server, f"http://films.example{path}")
            want(status != "succeeded", f"{path} was restored")
        need(not world.private_visits(), f"visits: {world.visited()}")


def hosts_that_misbehave(report, server):
    with report.check("addresses: hosts that send too much, too little or an error end in an error"):
        for path in ("/endless.mkv", "/liar.mkv", "/short.mkv", "/error.mkv", "/missing"):
            _, status = attempt(server, f"http://films.example{path}")
            want(status in ("failed", "refused"), f"{path} {status}")
    with report.check("addresses: a host that says nothing does not stop the others, and can be cancelled"):
        answer = server.create("http://films.example/silent.mkv")
        if answer.status == 201:
            time.sleep(1)
            want(server.call("GET", "/v1/models", timeout=5).status == 200, "no answer meanwhile")
            server.call("POST", f"/v1/predictions/{answer.json['id']}/cancel")
            want(server.wait(answer.json["id"], 30)["status"] in ("canceled", "failed"), "not cancelled")
        else:
            want(answer.status in (408, 422, 502, 504), f"answered {answer}")


def webhooks(report, server, place, six):
    file = server.upload(place.film)
    with report.check("webhooks: one to an allowed host arrives"):
        job = server.create(file["urls"]["get"], webhook="http://films.example/hook", webhook_events_filter=["completed"])
        need(job.status == 201, f"answered {job}")
        server.wait(job.json["id"])
        until = time.monotonic() + 20
        while not any(visit[1:3] == ("POST", "/hook") for visit in Web.visits):
            need(time.monotonic() < until, f"none arrived: {Web.visits[-3:]}")
            time.sleep(0.1)
    evil = [url for url in evil_urls(six) if url.startswith("http") and len(url) < 300]
    evil += [
        "http://flop.example/hook",
        "http://flip.example/hook",
        "http://mixed.example/hook",
        "file:///etc/passwd",
        "",
        "x",
        "javascript:alert(1)",
    ]
    evil += [f"http://films.example{path}" for path in Web.pages if path.startswith("/to-")]
    with report.check(f"webhooks: {len(evil)} to private or other hosts, also by redirect, never arrive"):
        jobs = []
        for url in evil:
            job = server.create(file["urls"]["get"], webhook=url, webhook_events_filter=["start", "completed"])
            want(job.status == 201 or 400 <= job.status < 500, f"{url[:80]} answered {job}")
            if job.status == 201:
                jobs.append(job.json["id"])
                server.call("POST", f"/v1/predictions/{job.json['id']}/cancel")
        for job in jobs:
            server.wait(job)
        time.sleep(8)
        need(not world.private_visits(), f"visits: {world.visited()}")
    report.note(f"webhooks: {len(jobs)} of {len(evil)} were taken and not sent, the others refused")
    with report.check("webhooks: things that are no address are refused"):
        for value in (3, [], {}, True, ["http://films.example/hook"]):
            job = server.create(file["urls"]["get"], webhook=value)
            want(400 <= job.status < 500, f"{value} answered {job}")
        for value in ("completed", ["nonexistent"], [3], {}, 3, ["completed"] * 10_000):
            job = server.create(file["urls"]["get"], webhook="http://films.example/hook", webhook_events_filter=value)
            want(job.status == 201 or 400 <= job.status < 500, f"{str(value)[:40]} answered {job}")
            if job.status == 201:
                server.call("POST", f"/v1/predictions/{job.json['id']}/cancel")


def none_allowed(report, place):
    Web.visits.clear()
    with place.server("closed") as server:
        with report.check("addresses: without --allow-host none at all"):
            for url in ("http://films.example/film.mkv", "https://films.example/film.mkv", f"http://{PUBLIC[0]}/film.mkv"):
                count, status = attempt(server, url)
                want(status == "refused" and count == 0, f"{url} {status}, {count} connections")
            file = server.upload(place.film)
            job = server.create(file["urls"]["get"], webhook="http://ten.example/hook")
            if job.status == 201:
                server.wait(job.json["id"])
            else:
                want(400 <= job.status < 500, f"answered {job}")
            want(not world.private_visits(), f"visits: {world.visited()}")
        with report.check("addresses: the server's own address is a film only if it is an uploaded file"):
            for url in (f"{server.url}/healthz", f"{server.url}/v1/models", f"{server.url}/v1/files/../../etc/passwd", f"{server.url}/v1/files/nonexistent",
                        f"{server.url}/v1/files/{file['id']}/../../healthz", f"http://127.0.0.1:1/v1/files/{file['id']}x"):  # fmt: skip
                count, status = attempt(server, url)
                want(status == "refused" and count == 0, f"{url} {status}, {count} connections")


def run(report, place):
    pages(place.film)
    options = [word for name in ALLOWED for word in ("--allow-host", name)]
    with place.server("addresses", *options, "--upload-limit", "8M") as server:
        films(report, server, place.six)
        hosts_that_misbehave(report, server)
        webhooks(report, server, place, place.six)
        with report.check("addresses: server alive"):
            server.alive()
    none_allowed(report, place)
