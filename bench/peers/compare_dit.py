"""Times the transformer of Remaster and of PyTorch in turn on one machine and writes a table of docs/performance.md.

For every case both programs are started once, run once each to warm up, and then take turns; the fastest
and the median sample of each count. Memory is what a process takes beyond its weights: its highest resident
size less the resident size before its first run. Called by `run dit`.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
START, END = "<!-- table made by bench/peers/run dit -->", "<!-- end of the table of run dit -->"
TICKS = os.sysconf("SC_CLK_TCK")


def status_bytes(pid, field):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) * 1024


def own_seconds(pid):
    """Processor seconds of a process."""
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / TICKS


def busy_seconds():
    """Processor seconds this machine has spent on anything, stolen time included."""
    times = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]))
    return (sum(times) - times[3] - times[4]) / TICKS


class Runner:
    """A program that says "ready", then runs once per line on stdin and answers with a line."""

    def __init__(self, words, said, seconds):
        self.process = subprocess.Popen(words, text=True, stdin=-1, stdout=-1, stderr=-1 if said == "stderr" else None)
        self.said, self.seconds = getattr(self.process, said), seconds
        while self.said.readline().strip() != "ready":
            if self.process.poll() is not None:
                raise SystemExit(f"{words[:3]} did not start")
        pid = self.process.pid
        # Loading must not count: 5 makes the highest resident size the present one.
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
        self.before = status_bytes(pid, "VmRSS")

    def run(self):
        """Seconds, own processor seconds, and the cores that others used meanwhile."""
        pid = self.process.pid
        busy, own, start = busy_seconds(), own_seconds(pid), time.perf_counter()
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer = self.seconds(self.said.readline())
        own, took = own_seconds(pid) - own, time.perf_counter() - start
        return {"s": answer, "own": own, "others": max(0.0, busy_seconds() - busy - own) / took}

    def finish(self):
        """Bytes beside the weights, and what the program printed last."""
        beside = status_bytes(self.process.pid, "VmHWM") - self.before
        out, _ = self.process.communicate()
        return beside, out


def measure(case, args):
    size = [f"--{key}={case[key]}" for key in ("dtype", "layers", "frames", "height", "width", "threads")]
    ours = [args.binary, "bench", "dit", "--json", "--step", f"--weights=formula:{case['config']}"]
    theirs = [sys.executable, str(HERE / "torch_dit.py"), "serve", f"--config={case['config']}"]
    runners = {
        "ours": Runner(ours + ["--group", str(args.group)] + size, "stderr", float),
        "torch": Runner(theirs + size, "stdout", lambda line: json.loads(line)["seconds"]),
    }
    samples = {name: [] for name in runners}
    for turn in range(args.rounds + 1):
        for name, runner in runners.items():
            sample = runner.run()
            print(case, name, json.dumps(sample), file=sys.stderr, flush=True)
            if turn > 0:
                samples[name].append(sample)
    (beside, report), (torch_beside, _) = (runner.finish() for runner in runners.values())
    planned = json.loads(report)["beside_weights_bytes"]
    return {"case": case, "samples": samples, "beside": [beside, torch_beside], "planned": planned}


def row(result):
    case, samples = result["case"], result["samples"]
    both = [[s["s"] for s in samples[name]] for name in ("ours", "torch")]
    (fast, torch_fast), (middle, torch_middle) = map(min, both), map(statistics.median, both)
    own, torch_own = (statistics.median(s["own"] for s in samples[name]) for name in ("ours", "torch"))
    others = statistics.median(s["others"] for name in samples for s in samples[name])
    mib = [n / 2**20 for n in (result["planned"], *result["beside"])]
    cells = [case["config"], f"{case['layers']}", case["dtype"], f"{case['threads']}"]
    cells += [f"{fast:.2f} / {middle:.2f}", f"{torch_fast:.2f} / {torch_middle:.2f}"]
    cells += [f"**{torch_fast / fast:.2f}**", f"{torch_middle / middle:.2f}"]
    cells += [f"{own:.2f} / {torch_own:.2f}", f"{torch_own / own:.2f}", f"{len(both[0])}", f"{others:.1f}"]
    cells += [f"{mib[0]:.0f} / {mib[1]:.0f}", f"{mib[2]:.0f}", f"{mib[1] / mib[2]:.2f}"]
    return "| " + " | ".join(cells) + " |"


def table(results):
    head = "| | blocks | | threads | ours, s (min / median) | torch, s (min / median) | times faster (min) | (median) "
    head += "| CPU, s (ours / torch) | CPU ratio | rounds | other cores busy "
    head += "| ours, MiB (planned / measured) | torch, MiB | memory ratio |"
    rule = "|" + "---|" * head.count("|", 1)
    return "\n".join([head, rule] + [row(r) for r in results])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(ROOT / "target/release/remaster"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--config", default="3b", help="3b or 7b")
    parser.add_argument("--dtypes", default="bf16,f32")
    parser.add_argument("--layers", default="1,4")
    parser.add_argument("--size", default="5x720x1280")
    parser.add_argument("--group", type=int, default=4096, help="tokens that go through a block of ours together")
    parser.add_argument("--results", default=str(HERE / "out" / "results_dit.json"), help="kept and added to")
    args = parser.parse_args()
    path = pathlib.Path(args.results)
    results = json.loads(path.read_text()) if path.exists() else []
    frames, height, width = map(int, args.size.split("x"))
    for dtype in args.dtypes.split(","):
        for layers in map(int, args.layers.split(",")):
            case = {"config": args.config, "dtype": dtype, "layers": layers, "threads": args.threads}
            case |= {"frames": frames, "height": height, "width": width}
            results = [r for r in results if r["case"] != case]
            results.append(measure(case, args))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(results, indent=1))
    document = ROOT / "docs" / "performance.md"
    text = document.read_text()
    before, after = text.split(START)[0], text.split(END)[1]
    document.write_text(f"{before}{START}\n{table(results)}\n{END}{after}")
    print(table(results))


if __name__ == "__main__":
    main()
