"""Many jobs over many clients at once, then the same jobs again while the server is killed: the same films, each made once."""

import collections
import concurrent.futures
import http.client
import random
import threading
import time

from . import common
from .common import HEADER, Failed, digest, need

CLIENTS = 20
CLIPS = 10
# The server may hold this much more after the work than at its beginning.
GROWTH = 24 << 20
# A worker of a killed server may live this long beside that of the next one.
OVERLAP = 3.0


class Watch(threading.Thread):
    """Looks at the server's memory and at the processes it started."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.stopped = server, threading.Event()
        self.memory, self.crowded, self.longest = [], 0.0, 0.0

    def run(self):
        before = time.monotonic()
        while not self.stopped.wait(0.1):
            now = time.monotonic()
            try:
                self.memory.append(self.server.memory())
                many = len(self.server.workers()) > 1
            except (OSError, Failed):
                many = False
            self.crowded = self.crowded + now - before if many else 0.0
            self.longest = max(self.longest, self.crowded)
            before = now

    def stop(self):
        self.stopped.set()
        self.join()


class Client:
    """A client that loses its connection now and then and asks again."""

    def __init__(self, server, until):
        self.server, self.until = server, until

    def call(self, *words, **named):
        while True:
            need(time.monotonic() < self.until, "the time of the load is over")
            try:
                answer = self.server.call(*words, **named)
                # Not ready yet, or full: both pass.
                if answer.status not in (429, 503):
                    return answer
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.2)

    def job(self, number, clip):
        """Uploads, creates and waits; gives back the prediction at its end."""
        body, form = common.multipart([("content", f"film {number}.mkv", "video/x-matroska", clip.read_bytes())])
        file = self.call("POST", "/v1/files", body, {**HEADER, "Content-Type": form})
        need(file.status == 201, f"upload answered {file}")
        given = {"version": "anime", "input": {"media": file.json["urls"]["get"], "resolution": "2x"}}
        created = self.call("POST", "/v1/predictions", given, {**HEADER, "Idempotency-Key": f"job-{number}"})
        need(created.status in (200, 201), f"creation answered {created}")
        while True:
            now = self.call("GET", f"/v1/predictions/{created.json['id']}")
            need(now.status == 200, f"job {number} answered {now}")
            if now.json["status"] in common.ENDED:
                return now.json
            time.sleep(0.3)


def all_predictions(server):
    """Every prediction that the server knows, over all pages."""
    found, path = [], "/v1/predictions"
    while path:
        answer = server.call("GET", path)
        need(answer.status == 200, f"{path} answered {answer}")
        found += answer.json["results"]
        path = answer.json["next"]
        if path and path.startswith("http"):
            path = path[len(server.url) :]
    return found


def killer(server, kills, chance, finished, killed):
    """Kills the server again and again, and starts it on the same state."""
    while killed[0] < kills and not finished.wait(chance.uniform(0.2, 5.0)):
        server.kill()
        killed[0] += 1
        # Sometimes at once, sometimes after the worker had time to see it.
        time.sleep(chance.choice((0.0, 0.3, 1.5)))
        server.start()


def films_of(server, numbers, report, until):
    """Runs all jobs; gives back the films' digests by number."""

    def one(number):
        done = Client(server, until).job(number, numbers[number])
        need(done["status"] == "succeeded", f"job {number} {done['status']}: {done['error']}")
        return done

    outcome = {}
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        waiting = {pool.submit(one, number): number for number in numbers}
        for future in concurrent.futures.as_completed(waiting):
            try:
                outcome[waiting[future]] = future.result()
            except (Failed, ValueError, LookupError) as error:
                report.failed(f"load: job {waiting[future]}: {error}")
    return outcome


def flat(memory):
    """Growth between the first and the last fifth of what was seen, without single peaks."""
    part = max(len(memory) // 5, 1)
    return sorted(memory[-part:])[part // 2] - sorted(memory[:part])[part // 2]


def round_of(report, binary, folder, numbers, kills, seed, until):
    """All jobs on one state; gives back each film's digest."""
    name = f"with {kills} kills" if kills else "without kills"
    server = common.Server(binary, folder / name.replace(" ", "-"), "--jobs", str(len(numbers) + CLIENTS))
    start = time.monotonic()
    with server:
        watch = Watch(server)
        watch.start()
        finished, killed = threading.Event(), [0]
        killing = threading.Thread(target=killer, args=(server, kills, random.Random(seed), finished, killed), daemon=True)
        killing.start()
        done = films_of(server, numbers, report, until)
        finished.set()
        killing.join()
        took = time.monotonic() - start
        digests = {}
        with report.check(f"load {name}: {len(numbers)} jobs, {killed[0]} kills, {took:.0f} s: none lost"):
            need(len(done) == len(numbers), f"{len(numbers) - len(done)} are missing")
            for number, prediction in done.items():
                film = server.call("GET", f"/v1/predictions/{prediction['id']}/content")
                need(film.status == 200, f"the film of job {number} answered {film.status}")
                digests[number] = digest(film.body)
        with report.check(f"load {name}: none done twice"):
            none_twice(server, numbers, done, watch)
        watch.stop()
        if not kills:
            memory = watch.memory
            with report.check(f"load {name}: memory flat, {memory[0] / 1e6:.0f} MB at first, {max(memory) / 1e6:.0f} MB at most"):
                need(flat(memory) < GROWTH, f"grew by {flat(memory) / 1e6:.1f} MB")
        elif killed[0] < kills:
            report.note(f"load {name}: all jobs were done after {killed[0]} kills")
        with report.check(f"load {name}: server alive"):
            server.alive()
    return digests


def none_twice(server, numbers, done, watch):
    """One prediction for each job, none changed after its end, and never two workers on one device for long."""
    known = all_predictions(server)
    count = collections.Counter(prediction["id"] for prediction in known)
    need(len(count) == len(known), "a prediction is twice in the list")
    need(len(known) == len(numbers), f"{len(known)} predictions for {len(numbers)} jobs")
    now = {prediction["id"]: prediction for prediction in known}
    for number, prediction in done.items():
        again = now[prediction["id"]]
        need(
            again["completed_at"] == prediction["completed_at"] and again["started_at"] == prediction["started_at"],
            f"job {number} was done again: {prediction['completed_at']}, {again['completed_at']}",
        )
    need(watch.longest < OVERLAP, f"two workers on one device for {watch.longest:.1f} s")
    if "file" in known[0] and known[0]["file"]:
        need(len({prediction["file"] for prediction in known}) == len(known), "two predictions have one file")


def run(report, binary, folder, arguments):
    until = time.monotonic() + arguments.minutes * 60
    clips = [common.make_clip(folder / f"{number}.mkv", start=number * 3) for number in range(CLIPS)]
    numbers = {number: clips[number % CLIPS] for number in range(arguments.jobs)}
    without = round_of(report, binary, folder, numbers, 0, arguments.seed, until)
    with report.check("load: the same clip gives the same film"):
        need(len(set(without.values())) == min(CLIPS, arguments.jobs), f"{len(set(without.values()))} films of {CLIPS} clips")
    if arguments.kills:
        killed = round_of(report, binary, folder, numbers, arguments.kills, arguments.seed, until)
        with report.check("load: the same films with kills, byte for byte"):
            others = [number for number in numbers if without.get(number) != killed.get(number)]
            need(not others and killed, f"other films of the jobs {others[:10]}")
