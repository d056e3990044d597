"""Drives the page of `remaster serve` with a browser. Called by scripts/serve-page.

check.py PROGRAM AXE SHOTS [VISIT...]
"""

import collections
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from playwright.sync_api import sync_playwright

import scenarios
from harness import CHROMIUM, Look, Server


def visit(name, look, files, server):
    """One visit; what it did wrong. A picture shows where it stopped."""
    began = time.monotonic()
    try:
        getattr(scenarios, name)(look, files, server)
    except Exception:  # noqa: BLE001: whatever stops a visit is its result
        look.page.screenshot(path=look.shots / f"stopped-{name}.png")
        look.faults.append(traceback.format_exc(limit=4))
    wrong, look.faults = look.faults, []
    print(f"{'FAILED' if wrong else 'ok':6} {name}, {time.monotonic() - began:.1f} s", flush=True)
    for each in wrong:
        print(f"       {each}")
    return bool(wrong)


def stop(*_):
    """Ends the servers, too: they have sessions of their own."""
    raise SystemExit(143)


def main(program, axe, shots, *chosen):
    root = Path(__file__).resolve().parents[4]
    folder = Path(tempfile.mkdtemp(prefix="serve-page-"))
    Path(shots).mkdir(parents=True, exist_ok=True)
    files = scenarios.make_files(folder, root / "testdata" / "media", root / "testdata" / "front")
    servers = []
    failed = 0
    signal.signal(signal.SIGTERM, stop)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
            servers.append(Server(program, folder, "--allow-folder", str(folder / "films")))
            look = Look(browser, servers[0].address, axe, shots)
            visits = [each.__name__ for each in scenarios.VISITS]
            for name in [each for each in visits if not chosen or each in chosen]:
                failed += visit(name, look, files, servers[0])
            if not chosen or "token" in chosen:
                secret = folder / "token"
                secret.write_text("a-secret-of-forty-letters-more-or-less\n")
                servers.append(Server(program, folder, "--token-file", str(secret), "--upload-limit", "100K"))
                other = Look(browser, servers[1].address, axe, shots)
                failed += visit("token", other, files, servers[1])
                look.findings += other.findings
                look.taken += other.taken
            print(f"{look.taken} pictures in {shots}, {len(look.findings)} findings of axe in all")
            for line, times in collections.Counter(look.findings).items():
                print(f"       {times} x {line}")
            browser.close()
    finally:
        for server in servers:
            server.kill()
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
