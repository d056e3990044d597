"""Memory, start-up and the time to the first picture."""

import pathlib
import statistics
import subprocess
import time

from . import common
from .common import need


def seconds_of(words, times):
    took = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def first_answer(binary, folder):
    """Seconds from the start of the process to its first answer."""
    server = common.Server(binary, folder)
    start = time.perf_counter()
    with server:
        return time.perf_counter() - start


def first_picture(server):
    """Seconds from the first byte of the upload to the first restored picture in the client's hand."""
    film = (common.TESTDATA / "front" / "bunny.mp4").read_bytes()
    start = time.perf_counter()
    file = server.upload(film, "bunny.mp4", "video/mp4")
    created = server.call("POST", "/v1/predictions", {"version": "anime", "input": {"media": file["urls"]["get"]}})
    need(created.status == 201, f"creation answered {created}")
    while True:
        now = server.call("GET", f"/v1/predictions/{created.json['id']}").json
        need(now["status"] not in ("failed", "canceled"), f"the prediction {now['status']}: {now['error']}")
        if now["picture"]:
            picture = server.call("GET", now["picture"]["url"].removeprefix(server.url))
            need(picture.status == 200 and picture.body[:2] == b"\xff\xd8", f"the picture answered {picture}")
            return time.perf_counter() - start
        need(now["status"] != "succeeded", "it ended without a picture")
        need(time.perf_counter() - start < 600, "no picture after ten minutes")
        time.sleep(0.02)


def run(report, binary, folder, _):
    with report.check("numbers: all measured"):
        size = pathlib.Path(binary).stat().st_size
        report.note(f"size of the program        {size / 1e6:8.2f} MB")
        report.note(f"remaster --version         {seconds_of([binary, '--version'], 20) * 1e3:8.1f} ms, median of 20")
        took = [first_answer(binary, folder / f"start{turn}") for turn in range(10)]
        report.note(f"start-up to first answer   {statistics.median(took) * 1e3:8.1f} ms, median of 10")
        with common.Server(binary, folder / "idle") as server:
            time.sleep(5)
            rollup = pathlib.Path(f"/proc/{server.process.pid}/smaps_rollup").read_text()
            parts = {line.split()[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
            report.note(f"idle memory, resident      {parts['Rss:'] / 1e3:8.1f} MB")
            report.note(f"idle memory, its own       {(parts['Private_Clean:'] + parts['Private_Dirty:']) / 1e3:8.1f} MB")
            threads = len(list(pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()))
            report.note(f"idle threads               {threads:8}")
            before = cpu_of(server.process.pid)
            time.sleep(5)
            report.note(f"idle CPU                   {(cpu_of(server.process.pid) - before) / 5 * 100:8.2f} %")
            with report.check("numbers: the page"):
                page = server.call("GET", "/")
                need(page.status == 200, f"/ answered {page}")
                report.note(f"the page                   {len(page.body):8} bytes")
            report.note(f"upload to first picture    {first_picture(server):8.2f} s, front page's clip, anime, default size")
            report.note(f"memory after it, resident  {server.memory() / 1e6:8.1f} MB")


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
