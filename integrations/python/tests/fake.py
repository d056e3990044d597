"""Stands in for the program. FAKE in the environment says how it behaves; no word is named after an option of the program."""

import json
import os
import signal
import sys
import threading
import time


def say(**event):
    sys.stderr.write(json.dumps(event) + "\n")
    sys.stderr.flush()


def news(done, **more):
    say(event="progress", phase="restore", unit="frames", done=done, estimated=False, elapsed_seconds=0.1, paused=False, **more)


def end(code, **document):
    if document:
        print(json.dumps(document), flush=True)
    os._exit(code)


def on_close(work):
    def wait():
        while os.read(0, 4096):
            pass
        work()

    threading.Thread(target=wait, daemon=True).start()


def frames():
    """Doubles the size of raw frames."""
    words = sys.argv[1:]
    form = next(word.split("=")[1] for word in words if word.startswith("--frames="))
    channels, size = {"rgb16": (3, 2), "rgbf32": (3, 4), "rgba16": (4, 2)}[form]
    source = sys.stdin.buffer
    header = source.readline().decode().split()
    values = {word[0]: word[1:] for word in header[2:]}
    width, height = int(values["W"]), int(values["H"])
    out = sys.stdout.buffer
    mood = os.environ.get("FAKE_FRAMES", "")
    if mood != "late":
        out.write(f"REMASTER-FRAMES {form} W{2 * width} H{2 * height} F{values['F']} XNEW=1\n".encode())
        out.flush()
    count, kept = 0, []
    while True:
        frame = source.read(width * height * channels * size)
        if not frame:
            break
        if len(frame) < width * height * channels * size:
            say(event="error", text="the stream ends inside a frame", kind="input-truncated", exit_code=3)
            end(3)
        count += 1
        if mood == "late":
            kept.append(frame)
            continue
        if mood == "fails" and count == 3:
            say(event="error", text="-: the third frame is bad; leave it out", kind="restoration", exit_code=5)
            end(5)
        if mood == "cut" and count == 3:
            out.write(frame[:10])
            out.flush()
            end(0)
        write_double(out, frame, width, height, channels, size)
        news(count)
    if mood == "late":
        out.write(f"REMASTER-FRAMES {form} W{2 * width} H{2 * height} F{values['F']}\n".encode())
        for frame in kept:
            write_double(out, frame, width, height, channels, size)
    if "L" in values and int(values["L"]) != count:
        say(event="error", text=f"{values['L']} frames were announced, {count} came", kind="input-truncated", exit_code=3)
        out.flush()
        end(3)
    out.flush()
    say(event="summary", version="1", system="test", device="cpu", model="m", input="-", output="-", unit="frames",
        phases=[], total_seconds=1.0, frames=count)
    end(0)


def write_double(out, frame, width, height, channels, size):
    row = width * size
    for start in range(0, len(frame), row):
        line = frame[start : start + row]
        line = b"".join(line[i : i + size] * 2 for i in range(0, row, size))
        out.write(line + line)
    out.flush()


def main():
    how = os.environ["FAKE"]
    if how == "frames":
        frames()
    elif how == "echo":
        end(0, input="in", output="out", words=sys.argv[1:], environment=sorted(os.environ), novelty={"a": 1})
    elif how == "error":
        end(3, error="no such file; name another", kind="not-readable", exit_code=3, more=[1])
    elif how == "older":
        end(2, error="there is no option --no-scripts; `remaster restore --help` lists the options", kind="usage", exit_code=2)
    elif how == "refuses":
        sys.stderr.write("error: `pink` is no colour; use lab\n\nFor more information, try '--help'.\n")
        sys.stderr.flush()
        end(2)
    elif how == "interrupted":
        end(130, error="stopped", kind="interrupted", exit_code=130)
    elif how == "garbage":
        sys.stdout.buffer.write(b"\xff\x00 not json {{{")
        end(0)
    elif how == "list":
        print("[1, 2]", flush=True)
        end(0)
    elif how == "deep":
        print("[" * 200000, flush=True)
        end(0)
    elif how == "empty":
        end(0)
    elif how == "other":
        end(0, input=7, output="x")
    elif how == "noisy":
        for _ in range(40):
            sys.stderr.write("x" * (1 << 20))
        sys.stderr.write("\n{\"event\": 7}\n{\"event\": \"progress\"}\nlast words\n")
        sys.stderr.flush()
        end(9)
    elif how == "silent":
        sys.stderr.write("words of a library\n7\n[]\nnull\n\n" + "x" * (1 << 20))
        sys.stderr.flush()
        end(9)
    elif how == "killed":
        sys.stderr.write("about to go\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "flood":
        for number in range(20000):
            news(number)
        end(0, input="in", output="out")
    elif how == "waits":
        on_close(lambda: end(130, error="stopped", kind="interrupted", exit_code=130))
        for number in range(100000):
            news(number)
            time.sleep(0.01)
    elif how == "finishes":
        on_close(lambda: end(0, input="in", output="out"))
        time.sleep(600)
    elif how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in range(100000):
            news(number)
            time.sleep(0.01)


main()
