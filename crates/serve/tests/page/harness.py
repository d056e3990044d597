"""A server to look at, a browser to look with, and what must hold whenever one looks."""

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Error, Page, expect

WIDTHS = {390: 844, 900: 900, 1440: 900}
SCHEMES = ("light", "dark")
# A folder whose files take the place of the page inside the program: no build is needed to try a change.
PAGE = os.environ.get("SERVE_PAGE")
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
# A restoration by a debug build on two busy cores, in milliseconds: 72 frames took five minutes at a load of 15.
PATIENCE = 900_000
expect.set_options(timeout=30_000)


class Server:
    """`remaster serve` with a state folder of its own."""

    def __init__(self, binary, folder, *options, environment=None):
        with contextlib.closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = Path(folder, f"serve-{self.port}.log")
        self.command = [binary, "serve", "--port", str(self.port), "--state", str(Path(folder, f"state-{self.port}")), *options]
        self.environment = {**os.environ, **(environment or {})}
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=self.log.open("ab"), stderr=subprocess.STDOUT, start_new_session=True)
        for _ in range(300):
            with contextlib.suppress(OSError):
                with urllib.request.urlopen(self.address + "/healthz", timeout=2) as answer:
                    answer.read()
                    return
            if self.process.poll() is not None:
                raise SystemExit(f"the server ended with {self.process.returncode}: {self.log.read_text()}")
            time.sleep(0.1)
        raise SystemExit("the server does not answer within 30 seconds")

    def kill(self):
        """As a power cut would end it, with its children."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ask(self, method, path, value=None):
        body = json.dumps(value or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.address + path, body, {"X-Remaster": "1"}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")

    def get(self, path):
        return self.ask("GET", path)

    def post(self, path, value=None):
        return self.ask("POST", path, value)

    def delete(self, path):
        return self.ask("DELETE", path)


class Look:
    """A tab of the browser that writes down what a page must not do."""

    def __init__(self, browser, address, axe, shots):
        self.context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
        # Not a script of the page, so the policy of the page does not keep it out.
        self.context.add_init_script(path=axe)
        self.address = address
        if PAGE:
            self.context.route(lambda url: urlsplit(url).path == "/" or "/assets/" in url, self._from_folder)
        self.shots = Path(shots)
        self.faults = []
        self.findings = []
        self.taken = 0
        self.page = self.open()

    def open(self) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.faults.append(f"exception: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)
        page.on("response", self._response)
        # From the start: a listener that comes with the first dialog can come too late.
        page.on("filechooser", lambda _: None)
        page.goto(self.address)
        return page

    @staticmethod
    def _from_folder(route):
        name = urlsplit(route.request.url).path.rpartition("/")[2] or "index.html"
        # With the headers of the server, above all its policy. A file that it does not know yet has those of another.
        try:
            headers = route.fetch(url=route.request.url if name == "index.html" else route.request.url.replace(name, "main.js")).headers
        except Error:
            # The server was killed, and so it is for the page.
            route.abort("connectionrefused")
            return
        headers.pop("content-length", None)
        headers.pop("content-encoding", None)
        kind = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}[name.rpartition(".")[2]]
        route.fulfill(body=Path(PAGE, name).read_bytes(), headers={**headers, "content-type": f"{kind}; charset=utf-8"})

    def _console(self, message):
        # The browser writes a line for every answer that is an error; those are wanted here.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text and "ERR_" not in message.text:
            self.faults.append(f"console: {message.text}")

    def _request(self, request):
        if not request.url.startswith((self.address, "blob:", "data:")):
            self.faults.append(f"request to elsewhere: {request.url}")

    def _response(self, answer):
        if "/assets/" in answer.url and not answer.ok:
            self.faults.append(f"a part of the page is missing: {answer.url} {answer.status}")

    def state(self, name):
        """Looks at the page as it is: pictures at all widths, light and dark, nothing beyond the right edge, and axe."""
        page = self.page
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            for width, height in WIDTHS.items():
                page.set_viewport_size({"width": width, "height": height})
                page.wait_for_timeout(60)
                page.screenshot(path=self.shots / f"{name}-{width}-{scheme}.png")
                self.taken += 1
                if width != 900:
                    self._axe(f"{name} {width} {scheme}")
        page.set_viewport_size({"width": 360, "height": 780})
        page.wait_for_timeout(60)
        over = page.evaluate("() => document.scrollingElement.scrollWidth - innerWidth")
        if over > 0:
            self.faults.append(f"{name}: {over} pixels wider than a telephone")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1440, "height": 900})

    def _axe(self, where):
        found = self.page.evaluate("() => axe.run({ resultTypes: ['violations'] }).then((result) => result.violations)")
        for each in found:
            line = f"{each['impact']}: {each['id']}: {each['help']}: {each['nodes'][0]['html'][:160]}"
            self.findings.append(line)
            if each["impact"] in ("serious", "critical"):
                self.faults.append(f"axe: {where}: {line}")

    def drop(self, *files):
        """Drops files on the window, each a path or (name, content)."""
        content = [(Path(file).name, Path(file).read_bytes()) if isinstance(file, (str, Path)) else file for file in files]
        self.page.evaluate(DROP, [[name, base64.b64encode(data).decode()] for name, data in content])

    def go(self, where=""):
        self.page.evaluate("(where) => { location.hash = where; }", where)

    def tab_to(self, target, most=80):
        """Presses Tab until `target` has the focus. Whatever has it on the way must show it."""
        for _ in range(most):
            self.page.keyboard.press("Tab")
            if not self.page.evaluate(SHOWS_FOCUS):
                self.faults.append(f"focus is not seen on {self.page.evaluate('() => document.activeElement.outerHTML.slice(0, 120)')}")
            if target.count() and target.first.evaluate("(node) => node === document.activeElement"):
                return
        raise AssertionError(f"{target} is not reached by {most} times Tab")

    def close(self):
        self.context.close()


DROP = """(files) => {
  const carried = new DataTransfer();
  for (const [name, text] of files) carried.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
  for (const type of ["dragenter", "dragover", "drop"]) {
    document.body.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: carried }));
  }
}"""

SHOWS_FOCUS = """() => {
  const node = document.activeElement;
  if (node === document.body) return true;
  const style = getComputedStyle(node);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
}"""
