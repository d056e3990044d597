"""Who may speak to the server: names of hosts, foreign pages, tokens."""

import base64
import http.client
import json
import subprocess
import time

from . import common
from .common import HEADER, Failed, exchange, multipart, need, request_bytes, want

READS = (
    "/",
    "/v1/models",
    "/v1/predictions",
    "/v1/files",
    "/v1/session",
    "/v1/devices",
    "/openapi.json",
    "/metrics",
    "/v1/events",
)
REFUSED = (400, 401, 403, 404, 405, 411, 413, 415, 421, 422)


def send(server, method, path, headers, body=b"", host=None):
    return exchange(server.address, request_bytes(method, path, body, headers, host=host), method, 10)


def hosts(report, server):
    with report.check("host: names of the loopback are served"):
        for host in (f"127.0.0.1:{server.port}", f"localhost:{server.port}"):
            answer = send(server, "GET", "/v1/models", {}, host=host)
            want(answer.status == 200, f"{host} answered {answer}")
    foreign = (
        "evil.example", f"evil.example:{server.port}", f"127.0.0.1.evil.example:{server.port}",
        f"localhost.evil.example:{server.port}", f"evil.example@127.0.0.1:{server.port}", f"127.0.0.1:{server.port}@evil.example",
        f"127.0.0.1:{server.port}, evil.example", f"10.0.0.5:{server.port}", f"169.254.169.254:{server.port}", "",
        f"evil.localhost.:{server.port}.evil.example", f"127.0.0.1:{server.port}/../evil.example",
        f"[::ffff:10.0.0.5]:{server.port}",
        f"evil-127.0.0.1:{server.port}", "a" * 5000, f"0.0.0.0:{server.port}",
    )  # fmt: skip
    with report.check(f"host: {len(foreign)} other names are refused on every path (DNS rebinding)"):
        for host in foreign:
            for path in READS:
                answer = send(server, "GET", path, {}, host=host)
                want(answer.status in (400, 403, 421, 431), f"Host: {host[:60]} on {path} answered {answer}")
            answer = send(server, "POST", "/v1/predictions", {**HEADER, "Content-Type": "application/json"}, b"{}", host)
            want(answer.status in (400, 403, 421, 431), f"POST with Host: {host[:60]} answered {answer}")
    with report.check("host: none, and two, are refused"):
        answer = send(server, "GET", "/v1/models", [], host=None)
        data = request_bytes("GET", "/v1/models", b"", [], host=None)
        answer = exchange(server.address, data, timeout=10)
        need(answer.status in (400, 403, 421), f"no Host answered {answer}")
        for pair in ((server.host, "evil.example"), ("evil.example", server.host)):
            answer = send(server, "GET", "/v1/models", [("Host", pair[1])], host=pair[0])
            want(answer.status in (400, 403, 421), f"two Hosts {pair} answered {answer}")
    with report.check("host: another one in the request line is refused"):
        answer = send(server, "GET", "http://evil.example/v1/models", {}, host=server.host)
        need(answer.status in (400, 403, 404, 421), f"it answered {answer}")
    with report.check("host: forwarded names change nothing"):
        for name in ("X-Forwarded-Host", "Forwarded", "X-Host", "X-Original-URL", "X-Rewrite-URL"):
            value = "host=evil.example" if name == "Forwarded" else "evil.example"
            answer = send(server, "GET", "/v1/models", {name: value}, host=server.host)
            want(b"evil.example" not in answer.body, f"{name} is in {answer}")


def count(server):
    """How much there is: to see that nothing was made."""
    return [len(server.call("GET", path).json["results"]) for path in ("/v1/files", "/v1/predictions")]


def no_cors(answer, text):
    allowed = [key for key, _ in answer.headers if key.lower().startswith("access-control-allow")]
    need(not allowed, f"{text}: {', '.join(allowed)}")


def foreign_pages(report, server, film):
    file = server.upload(film)
    job = json.dumps({"version": "anime", "input": {"media": file["urls"]["get"]}}).encode()
    form, kind = multipart([("content", "film.mkv", "video/x-matroska", film)])
    before = count(server)
    origins = (
        "http://evil.example", "https://evil.example", "null", f"http://127.0.0.1:{server.port + 1}", "http://127.0.0.1",
        f"http://localhost.evil.example:{server.port}", f"http://evil.example:{server.port}", "file://", "chrome-extension://abc",
        f"http://127.0.0.1:{server.port}.evil.example", f"http://evil.example/http://127.0.0.1:{server.port}", "",
    )  # fmt: skip
    changes = (
        ("POST", "/v1/predictions", "application/json", job), ("POST", "/v1/files", kind, form),
        ("DELETE", f"/v1/files/{file['id']}", "application/json", b""), ("POST", "/v1/plans", "application/json", job),
        ("POST", "/v1/previews", "application/json", job),
        ("POST", "/v1/models/remaster/anime/predictions", "application/json", job),
    )  # fmt: skip
    with report.check(f"origin: changes of {len(origins)} foreign pages are refused, even with our header"):
        for origin in origins:
            for method, path, content, body in changes:
                answer = send(server, method, path, {**HEADER, "Origin": origin, "Content-Type": content}, body, server.host)
                want(answer.status == 403, f"Origin: {origin} {method} {path} answered {answer}")
                no_cors(answer, origin)
    with report.check("origin: our own page may"):
        for origin, host in (
            (f"http://{server.host}", server.host),
            (f"http://localhost:{server.port}", f"localhost:{server.port}"),
        ):
            headers = {**HEADER, "Origin": origin, "Content-Type": kind, "Sec-Fetch-Site": "same-origin"}
            answer = send(server, "POST", "/v1/files", headers, form, host)
            want(answer.status == 201, f"{origin} answered {answer}")
            server.call("DELETE", f"/v1/files/{answer.json['id']}")
    with report.check("origin: cross-site and same-site changes are refused by Sec-Fetch-Site"):
        for site in ("cross-site", "same-site", "CROSS-SITE"):
            for method, path, content, body in changes:
                headers = {**HEADER, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Content-Type": content}
                answer = send(server, method, path, headers, body, server.host)
                want(answer.status == 403, f"{site} {method} {path} answered {answer}")
    with report.check("header: without it no change: forms, simple requests, beacons, links, credentials in the address"):
        plain = (
            {}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"},
            {"Content-Type": "text/plain;charset=UTF-8"}, {"Authorization": "Basic dXNlcjpwYXNz"}, {"Authorization": "Bearer"},
            {"Authorization": ""}, {"Cookie": "session=1"}, {"X-Remastered": "1"}, {"X-HTTP-Method-Override": "DELETE"},
        )  # fmt: skip
        for headers in plain:
            for method, path, content, body in changes:
                answer = send(server, method, path, {"Content-Type": content, **headers}, body, server.host)
                want(answer.status in (401, 403), f"{headers} {method} {path} answered {answer}")
    with report.check("header: what a page could ask beforehand is not granted (CORS, private network)"):
        for path in ("/v1/predictions", "/v1/files", "/v1/session", "/"):
            asked = {
                "Origin": "http://evil.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "x-remaster,content-type,authorization",
                "Access-Control-Request-Private-Network": "true",
            }  # fmt: skip
            no_cors(send(server, "OPTIONS", path, asked, host=server.host), f"OPTIONS {path}")
    with report.check("foreign pages cannot read or embed: no CORS, refused or same-origin only"):
        seen = {
            "Origin": "http://evil.example",
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "no-cors",
            "Sec-Fetch-Dest": "image",
        }
        for path in (*READS, f"/v1/files/{file['id']}/content", "/healthz"):
            for headers in (seen, {key: value for key, value in seen.items() if key != "Origin"}):
                answer = send(server, "GET", path, headers, host=server.host)
                no_cors(answer, path)
                shut = (answer.header("Cross-Origin-Resource-Policy") or "") == "same-origin"
                want(
                    answer.status == 403 or shut,
                    f"{path} answered {answer.status} without Cross-Origin-Resource-Policy: same-origin",
                )
    with report.check("GET changes nothing, whatever it says"):
        override = {"X-HTTP-Method-Override": "DELETE", "X-Method-Override": "DELETE", **HEADER}
        for path in (f"/v1/files/{file['id']}", f"/v1/files/{file['id']}?_method=DELETE"):
            send(server, "GET", path, override, host=server.host)
        need(server.call("GET", f"/v1/files/{file['id']}").status == 200, "the file is gone")
        answer = send(server, "GET", "/v1/predictions/x/cancel", HEADER, host=server.host)
        need(answer.status in (404, 405), f"GET of cancel answered {answer}")
    with report.check("nothing was made or removed by all this"):
        need(count(server) == before, f"{before} became {count(server)}")


def pages(report, server):
    with report.check("page: not in a frame, no scripts of others, no sniffing"):
        answer = server.call("GET", "/")
        policy = answer.header("Content-Security-Policy") or ""
        need(
            "frame-ancestors 'none'" in policy or (answer.header("X-Frame-Options") or "").upper() == "DENY", f"frames: {policy}"
        )
        need("default-src 'self'" in policy or "default-src 'none'" in policy, f"policy: {policy}")
        scripts = [part for part in policy.split(";") if part.strip().startswith(("script-src", "default-src"))]
        need(not any("unsafe-" in part for part in scripts), f"scripts: {policy}")
        need(answer.header("X-Content-Type-Options") == "nosniff", "no nosniff")
        need((answer.header("Referrer-Policy") or "no-referrer").startswith(("no-referrer", "same-origin")), "referrer")
    script = b"<!doctype html><script>fetch('/v1/predictions')</script>"
    vector = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
    for name, kind, content in (
        ("page.html", "text/html", script), ("page.svg", "image/svg+xml", vector), ("x.xhtml", "application/xhtml+xml", script),
        ("film.mkv", "text/html; charset=utf-8", script), ("x.js", "text/javascript", b"alert(1)"), ("x.xml", "text/xml", vector),
    ):  # fmt: skip
        with report.check(f"page: an uploaded {name} as {kind} does not run as a page of ours"):
            body, form = multipart([("content", name, kind, content)])
            answer = server.call("POST", "/v1/files", body, {**HEADER, "Content-Type": form})
            if answer.status in (415, 422):
                continue
            want(answer.status == 201, f"upload answered {answer}")
            got = server.call("GET", f"/v1/files/{answer.json['id']}/content")
            served = (got.header("Content-Type") or "").lower()
            want(got.header("X-Content-Type-Options") == "nosniff", "no nosniff")
            harmless = served.startswith(("application/octet-stream", "video/", "text/plain"))
            policy = got.header("Content-Security-Policy") or ""
            attached = (got.header("Content-Disposition") or "").startswith("attachment")
            want(harmless or attached or "sandbox" in policy, f"served as {served}")
            want("javascript" not in served, f"served as {served}")
            server.call("DELETE", f"/v1/files/{answer.json['id']}")


def tokens(report, binary, folder, film):
    token = "Zk3-correct.horse_battery~staple"
    (folder / "token").write_text(token + "\n")
    with common.Server(binary, folder / "token-server", "--token-file", folder / "token") as server:
        open_paths = ("/", "/healthz", "/readyz")
        shut_paths = [path for path in READS if path != "/"] + [
            "/v1/files/x/content", "/v1/predictions/x", "/v1/predictions/x/content", "/v1/account", "/v1/webhooks/default/secret",
            "/v1/folders",
        ]  # fmt: skip
        with report.check("token: needed for everything but the page and the two signs of life"):
            for path in shut_paths:
                want(server.call("GET", path).status == 401, f"{path} answered {server.call('GET', path)}")
                want("bearer" in (server.call("GET", path).header("WWW-Authenticate") or "bearer").lower(), "WWW-Authenticate")
            for path in open_paths:
                want(server.call("GET", path).status in (200, 503), f"{path} answered {server.call('GET', path)}")
            want(server.call("GET", "/v1/models", token=token).status == 200, "the right token is refused")
        wrong = (
            "wrong", token[:-1], token + "x", token[1:], "", " ", token.upper(), token.lower(), f"{token} {token}", f"{token},",
            f'"{token}"',
            token[:5], "\x00" + token, token + "\x00", "%00", "null", "undefined", "true", "*", token.replace("3", "%33"),
            "x" * 100_000,
        )  # fmt: skip
        with report.check(f"token: {len(wrong)} wrong ones are refused"):
            for one in wrong:
                answer = refused_or_answer(server, {"Authorization": f"Bearer {one}"})
                want(answer in (400, 401, 431), f"{one[:40]!r} answered {answer}")
        with report.check("token: other ways to send it are refused"):
            ways = (
                {"Authorization": f"Basic {token}"}, {"Authorization": token},
                {"X-Remaster": token},
                {"Authorization": "Basic " + base64.b64encode(f":{token}".encode()).decode()},
                {"Cookie": f"token={token}"},
                {"Cookie": f"session={token}"}, {"Cookie": f"remaster={token}"}, {"X-Api-Key": token},
                {"Proxy-Authorization": f"Bearer {token}"},
            )  # fmt: skip
            for way in ways:
                answer = refused_or_answer(server, way)
                want(answer in (400, 401), f"{way} answered {answer}")
            for path in (f"/v1/models?token={token}", f"/v1/models?access_token={token}", f"/v1/models?key={token}"):
                want(server.call("GET", path).status == 401, f"{path} is open")
        with report.check("token: twice, right and wrong, is refused in either order"):
            for pair in ((token, "wrong"), ("wrong", token)):
                headers = [("Authorization", f"Bearer {one}") for one in pair]
                want(refused_or_answer(server, headers) in (400, 401), f"{pair} is open")
        with report.check("token: no change without it, no upload is kept"):
            body, form = multipart([("content", "film.mkv", "video/x-matroska", film)])
            answer = server.call("POST", "/v1/files", body, {**HEADER, "Content-Type": form})
            want(answer.status == 401, f"upload answered {answer}")
            want(server.call("GET", "/v1/files", token=token).json["results"] == [], "an upload was kept")
        sessions(report, server, token)
        with report.check("token: nowhere in what the server prints or keeps"):
            want(token not in server.said(), "it was printed")
            for path in server.state.rglob("*"):
                if path.is_file():
                    want(token.encode() not in path.read_bytes(), f"it is in {path.name}")
    started = {
        "an empty token file": ("--token-file", empty_file(folder)),
        "a token file that is missing": ("--token-file", folder / "missing"),
        "every address without a token": ("--listen", "0.0.0.0"),
        "every address of IPv6 without a token": ("--listen", "::"),
    }
    for text, options in started.items():
        with report.check(f"token: no start with {text}"):
            refused_start(binary, folder, options)
    with report.check("token: every address with a token: a start with a warning that there is no TLS"):
        with common.Server(binary, folder / "open", "--listen", "0.0.0.0", "--token-file", folder / "token") as server:
            want("TLS" in server.said(), f"no warning: {server.said()[-300:]}")
            want(server.call("GET", "/v1/models").status == 401, "open without a token")


def sessions(report, server, token):
    with report.check("session: wrong tokens are refused, the right one gives a strict cookie that is not the token"):
        for body in (
            {"token": "wrong"},
            {"token": ""},
            {"token": None},
            {"token": [token]},
            {},
            [],
            {"token": token[:-1]},
            "x",
            3,
        ):
            answer = server.call("POST", "/v1/session", body)
            want(answer.status in (400, 401, 422), f"{body} answered {answer}")
            want(answer.header("Set-Cookie") is None, f"{body} got a cookie")
        answer = server.call("POST", "/v1/session", {"token": token})
        need(answer.status == 204, f"the right one answered {answer}")
        cookie = answer.header("Set-Cookie") or ""
        need("httponly" in cookie.lower() and "samesite=strict" in cookie.lower(), cookie)
        need("domain=" not in cookie.lower(), cookie)
        need(token not in cookie, "the cookie is the token")
        pair = cookie.split(";")[0]
        need(server.call("GET", "/v1/models", headers={"Cookie": pair}).status == 200, "the cookie is refused")
        name, value = pair.split("=", 1)
        for other in (
            f"{name}=",
            f"{name}={value[:-1]}",
            f"{name}={value}x",
            f"{name}={value[::-1]}",
            f"{name}=\x00",
            f"x{pair}",
            name,
        ):
            answer = refused_or_answer(server, {"Cookie": other})
            want(answer in (400, 401), f"{other} answered {answer}")
        answer = server.call("POST", "/v1/plans", b"{}", {"Cookie": pair, "Content-Type": "application/json"})
        need(answer.status in (401, 403), f"a change by cookie without the header answered {answer}")
        answer = server.call(
            "POST",
            "/v1/plans",
            b"{}",
            {"Cookie": pair, **HEADER, "Origin": "http://evil.example", "Content-Type": "application/json"},
        )
        need(answer.status == 403, f"a foreign page with the cookie answered {answer}")


def refused_or_answer(server, headers):
    """The status; a connection that is closed without one counts as 400."""
    try:
        return send(server, "GET", "/v1/models", headers, host=server.host).status
    except (http.client.HTTPException, ConnectionError):
        return 400


def empty_file(folder):
    (folder / "empty").write_text("\n")
    return folder / "empty"


def refused_start(binary, folder, options):
    server = common.Server(binary, folder / "refused", *options)
    server.process = subprocess.Popen(
        server.words(),
        env=server.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, errors = server.process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        raise Failed("it started") from None
    finally:
        server.end()
    need(server.process.returncode not in (0, 101, -6, -11), f"ended with {server.process.returncode}")
    need(len(errors.strip()) > 20 and "panicked" not in errors, f"said {errors!r}")


def run(report, place):
    with place.server("doors") as server:
        hosts(report, server)
        foreign_pages(report, server, place.film)
        pages(report, server)
        with report.check("doors: server alive"):
            server.alive()
    start = time.monotonic()
    tokens(report, place.binary, place.folder, place.film)
    report.note(f"tokens: {time.monotonic() - start:.0f} s")
