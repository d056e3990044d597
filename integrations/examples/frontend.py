"""A frontend for Remaster: python3 frontend.py INPUT OUTPUT [OPTION...], such as --model=anime"""

import json
import os
import subprocess
import sys
import threading


def show(event):
    """One line of progress. Events and fields that are not known are skipped."""
    if event.get("event") == "progress":
        percent = "  ?" if "share" not in event else f"{100 * event['share']:3.0f}"
        left = "" if "eta_seconds" not in event else f", {event['eta_seconds']:.0f} s left"
        print(f"{percent}% {event['phase']} {event['done']}/{event.get('total', '?')}{left}", flush=True)
    elif event.get("event") == "warning":
        print(f"warning: {event['text']}", flush=True)


def parse(text):
    try:
        value = json.loads(text)
    except ValueError:
        return None  # Words of a library below the program.
    return value if isinstance(value, dict) else None


def listen(stream):
    for line in stream:
        show(parse(line) or {})


def main(source, target, *options):
    words = [os.environ.get("REMASTER_BINARY", "remaster"), "restore"]
    # --flag=value and -- keep names that start with a dash from being options.
    words += ["--json", "--progress=json", "--cancel-on-stdin-close", *options, f"--output={target}", "--", source]
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    try:
        child = subprocess.Popen(words, **pipes)
    except OSError as error:
        print(f"binary-missing: {error}")
        return 127
    # stderr is read while the program runs: a full pipe would stop it.
    threading.Thread(target=listen, args=(child.stderr,)).start()
    try:
        document = child.stdout.read()
    except KeyboardInterrupt:
        child.stdin.close()  # Asks it to stop, on every system.
        document = child.stdout.read()
    code = child.wait()
    result = parse(document) or {"error": "the program gave no answer", "kind": "internal"}
    if code == 0:
        print(f"{result['output']} is there already" if result.get("skipped") else f"wrote {result['output']}")
    else:
        print(f"{result['kind']}: {result['error']}")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 2 else __doc__)
