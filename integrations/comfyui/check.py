#!/usr/bin/env python3
"""Runs the nodes in a real ComfyUI, headless and on the CPU, and compares what they make with the command line.

    PYTHON_OF_COMFYUI check.py PATH_OF_COMFYUI --remaster PATH_OF_THE_PROGRAM

Run it with the Python that has ComfyUI's requirements. ComfyUI gets a folder of its own for models, input and output, so
nothing in PATH_OF_COMFYUI is changed. It needs ffmpeg. Each step prints how long it took; the first that fails ends the
script with 1.
"""

import argparse
import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from typing import Any, Dict, List, Optional

import aiohttp
import numpy
import psutil
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TESTDATA = os.path.join(ROOT, "testdata")
SMALL = {"model": "nano_dit.safetensors", "vae": "nano.safetensors"}
# What a stop may take: the promise of the nodes.
STOP_SECONDS = 2.0


class Wrong(Exception):
    """Something is not as it should be."""


def hold(condition: Any, what: str) -> None:
    if not condition:
        raise Wrong(what)


class Run:
    """What ComfyUI said about one prompt."""

    def __init__(self) -> None:
        self.events: List[Dict[str, Any]] = []
        self.texts: List[str] = []
        self.bars: List[float] = []
        self.pictures = 0
        self.seconds = 0.0

    def of(self, kind: str) -> List[Dict[str, Any]]:
        return [event["data"] for event in self.events if event["type"] == kind]

    def error(self) -> str:
        errors = self.of("execution_error")
        hold(len(errors) == 1, f"{len(errors)} errors instead of one")
        return str(errors[0]["exception_message"])


class Comfy:
    """A running ComfyUI."""

    def __init__(self, at: str, base: str, port: int, log: Any, remaster: str) -> None:
        self.url = f"127.0.0.1:{port}"
        self.base, self.client = base, uuid.uuid4().hex
        environment = dict(os.environ, REMASTER_BINARY=remaster, HF_HOME=os.path.join(base, "hf"))
        environment["XDG_CACHE_HOME"] = os.path.join(base, "cache")
        if importlib.util.find_spec("remaster_video") is None:
            # Not installed: the package of this repository.
            paths = [os.path.join(ROOT, "integrations", "python"), environment.get("PYTHONPATH", "")]
            environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        words = ["--cpu", "--listen", "127.0.0.1", "--port", str(port), "--disable-auto-launch", "--disable-api-nodes"]
        words += ["--base-directory", base, "--database-url", "sqlite:///:memory:"]
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(at, "main.py"), *words], cwd=base, env=environment, stdout=log, stderr=log
        )
        self.http: Optional[aiohttp.ClientSession] = None
        self.socket: Any = None

    async def wait(self) -> None:
        self.http = aiohttp.ClientSession()
        for _ in range(600):
            hold(self.process.poll() is None, "ComfyUI did not start; its log says why")
            try:
                await self.get("/system_stats")
                break
            except aiohttp.ClientError:
                await asyncio.sleep(0.2)
        self.socket = await self.http.ws_connect(f"ws://{self.url}/ws?clientId={self.client}", max_msg_size=0)

    async def get(self, path: str) -> Any:
        async with self.http.get(f"http://{self.url}{path}") as answer:
            return await answer.json()

    async def post(self, path: str, body: Any) -> Any:
        async with self.http.post(f"http://{self.url}{path}", json=body) as answer:
            return await answer.json() if "json" in answer.content_type else await answer.text()

    async def refused(self, prompt: Any) -> str:
        """What ComfyUI says of a prompt that it does not start."""
        answer = await self.post("/prompt", {"prompt": prompt, "client_id": self.client})
        hold("prompt_id" not in answer, "the prompt was taken")
        errors = [e for node in answer["node_errors"].values() for e in node["errors"]]
        hold(len(errors) == 1, f"{len(errors)} errors instead of one: {errors}")
        return f"{errors[0]['message']}: {errors[0]['details']}"

    async def run(self, prompt: Any, interrupt: Any = None) -> Run:
        """Queues `prompt` and waits for its end. `interrupt` is asked after each event whether to stop it."""
        run, begun = Run(), time.monotonic()
        answer = await self.post("/prompt", {"prompt": prompt, "client_id": self.client})
        hold("prompt_id" in answer, f"the prompt was refused: {answer}")
        stopped = False
        while True:
            message = await self.socket.receive(timeout=600)
            if message.type == aiohttp.WSMsgType.BINARY:
                self._binary(message.data, run)
            elif message.type == aiohttp.WSMsgType.TEXT:
                event = json.loads(message.data)
                if event.get("data", {}).get("prompt_id") != answer["prompt_id"]:
                    continue
                run.events.append(event)
                if event["type"] == "progress":
                    run.bars.append(event["data"]["value"] / event["data"]["max"])
                if event["type"] in ("execution_success", "execution_error", "execution_interrupted"):
                    run.seconds = time.monotonic() - begun
                    return run
            else:
                raise Wrong(f"the websocket ended: {message}")
            if interrupt is not None and not stopped and interrupt(run):
                stopped = True
                run.seconds = time.monotonic()
                await self.post("/interrupt", {})
                begun = time.monotonic()

    @staticmethod
    def _binary(data: bytes, run: Run) -> None:
        (kind,) = struct.unpack(">I", data[:4])
        if kind == 3:
            (length,) = struct.unpack(">I", data[4:8])
            run.texts.append(data[8 + length :].decode())
        elif kind in (1, 2, 4):
            run.pictures += 1

    def children(self) -> List[str]:
        """Names of processes that ComfyUI's process started and that still run."""
        names = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                names.append(child.name())
        return names

    async def end(self) -> None:
        if self.http is not None:
            await self.http.close()
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Check:
    def __init__(self, comfy: Comfy, remaster: str) -> None:
        self.comfy, self.remaster = comfy, remaster
        self.input = os.path.join(comfy.base, "input")
        self.output = os.path.join(comfy.base, "output")
        self.theirs = os.path.join(comfy.base, "command-line")
        os.makedirs(self.theirs, exist_ok=True)

    # What a workflow says, and what the command line makes of the same.

    @staticmethod
    def workflow(name: str, node: str = "2", **inputs: Any) -> Dict[str, Any]:
        with open(os.path.join(HERE, "example_workflows", "api", name + ".json"), encoding="utf-8") as file:
            prompt = json.load(file)
        prompt[node]["inputs"].update(inputs)
        return prompt

    def film(self, name: str, **inputs: Any) -> Dict[str, Any]:
        prompt = self.workflow("restore_video", **inputs)
        prompt["1"]["inputs"]["file"] = name
        return prompt

    async def forget(self) -> None:
        """Empties ComfyUI's cache of results. A worker that tidies up behind the last prompt does not hear the first word."""
        for _ in range(2):
            await self.comfy.post("/free", {"free_memory": True})
            await asyncio.sleep(1.5)

    def made(self, run: Run, node: str = "2") -> str:
        outputs = [e["output"] for e in run.of("executed") if e["node"] == node]
        hold(len(outputs) == 1, f"node {node} gave {len(outputs)} results")
        item = outputs[0]["images"][0]
        return os.path.join(self.output, item["subfolder"], item["filename"])

    def command(self, source: str, film: str, *words: str) -> str:
        film = os.path.join(self.theirs, film)
        done = subprocess.run(
            [self.remaster, "restore", os.path.join(self.input, source), "-o", film, "-q", *words],
            env=dict(os.environ, XDG_CACHE_HOME=os.path.join(self.comfy.base, "cache")),
            stdin=subprocess.DEVNULL,
        )
        hold(done.returncode == 0, f"the command line ended with {done.returncode}")
        return film

    def small_words(self) -> List[str]:
        folder = os.path.join(self.comfy.base, "models", "SEEDVR2")
        return ["--model", os.path.join(folder, SMALL["model"]), "--vae", os.path.join(folder, SMALL["vae"])]

    # The steps.

    async def nodes(self) -> str:
        info = await self.comfy.get("/object_info")
        listed = subprocess.run([self.remaster, "generate", "options", "--json"], stdout=subprocess.PIPE).stdout
        colors = next(o["choices"] for o in json.loads(listed)["options"] if o["name"] == "color")
        for name in ("RemasterRestoreVideo", "RemasterRestoreImages"):
            inputs = info[name]["input"]["required"]
            models = inputs["model"][1]["options"]
            hold({"3b", "7b", "anime", SMALL["model"], "x4.safetensors"} <= set(models), f"models: {models}")
            hold(inputs["color"][1]["options"] == ["auto", *colors], f"colours: {inputs['color']}")
            hold(info[name]["input"]["optional"]["vae"][1]["options"] == ["auto", SMALL["vae"]], "the VAEs")
        templates = (await self.comfy.get("/workflow_templates"))["remaster"]
        hold(sorted(templates) == ["restore_images", "restore_video"], f"templates: {templates}")
        for name in templates:
            async with self.comfy.http.get(f"http://{self.comfy.url}/api/workflow_templates/remaster/{name}.json") as answer:
                drawn = json.loads(await answer.text())
            hold(api_of(drawn, info) == self.workflow(name), f"{name}: both forms of the workflow differ")
        return f"{len(models)} models, {len(colors)} colours, {len(templates)} templates"

    async def video(self) -> str:
        run = await self.comfy.run(self.film("film.mp4"))
        film = self.made(run)
        same_film(film, self.command("film.mp4", "anime.mp4", "--model", "anime", "--resolution", "2x"))
        hold(any("frames" in text for text in run.texts), f"no frames in the text: {run.texts}")
        hold(run.bars == sorted(run.bars), "the bar went back")
        return f"{run.seconds:.1f} s, {describe(film)}, as the command line"

    async def cached(self) -> str:
        run = await self.comfy.run(self.film("film.mp4"))
        hold(set(run.of("execution_cached")[0]["nodes"]) == {"1", "2"}, "it ran again")
        film = next(os.path.join(d, f) for d, _, fs in os.walk(self.output) for f in fs if f.endswith(".mp4"))
        before = os.stat(film).st_mtime_ns
        # Without ComfyUI's memory of it, as after a restart, the program finds the film that is there.
        await self.forget()
        again = await self.comfy.run(self.film("film.mp4"))
        hold(not again.of("execution_cached")[0]["nodes"], "ComfyUI remembered it")
        hold(os.stat(film).st_mtime_ns == before, "the film was made again")
        # A deleted film is made again.
        os.remove(film)
        await self.comfy.run(self.film("film.mp4"))
        hold(os.path.exists(film), "a deleted film did not come back")
        return f"cached in {run.seconds:.2f} s, found by the program in {again.seconds:.2f} s, made again when deleted"

    async def small_video(self) -> str:
        run = await self.comfy.run(self.film("film.mp4", resolution="1x", **SMALL))
        film = self.made(run)
        same_film(film, self.command("film.mp4", "nano.mp4", "--resolution", "1x", "--seed", "42", *self.small_words()))
        return f"{run.seconds:.1f} s, {describe(film)}, as the command line"

    async def saved(self) -> str:
        prompt = self.film("film.mp4")
        prompt["3"] = {
            "class_type": "SaveVideo",
            "inputs": {"video": ["2", 0], "filename_prefix": "copy", "format": "auto", "codec": "auto"},
        }
        run = await self.comfy.run(prompt)
        copy = self.made(run, "3")
        hold(frames_of(copy, "v") == frames_of(os.path.join(self.theirs, "anime.mp4"), "v"), "Save Video has other frames")
        hold(frames_of(copy, "a") == frames_of(os.path.join(self.theirs, "anime.mp4"), "a"), "Save Video has other sound")
        return f"Save Video behind the node: {describe(copy)}"

    async def drawn(self) -> str:
        """A VIDEO that is no file: made of frames and sound in memory."""
        prompt = {
            "1": {"class_type": "LoadVideo", "inputs": {"file": "film.mp4"}},
            "3": {"class_type": "GetVideoComponents", "inputs": {"video": ["1", 0]}},
            "4": {"class_type": "CreateVideo", "inputs": {"images": ["3", 0], "fps": ["3", 2], "audio": ["3", 1]}},
            "2": self.film("film.mp4")["2"],
        }
        prompt["2"]["inputs"]["video"] = ["4", 0]
        film = self.made(await self.comfy.run(prompt))
        first, second = describe(film), describe(os.path.join(self.theirs, "anime.mp4"))
        hold(first.split(", sound")[0] == second.split(", sound")[0] and "sound" in first, f"{first} is not {second}")
        return first

    async def images(self) -> str:
        said = []
        for settings, words in (
            ({"model": "anime"}, ["--model", "anime"]),
            (dict(SMALL), [*self.small_words(), "--seed", "42"]),
        ):
            run = await self.comfy.run(self.workflow("restore_images", **settings))
            ours = numpy.asarray(Image.open(self.made(run, "3")).convert("RGB"))
            source = numpy.asarray(Image.open(os.path.join(self.input, "example.png")).convert("RGB"), dtype=numpy.float32)
            theirs = self.frames([source / 255], *words, "--resolution", "2x")[0]
            # Save Image cuts off what is behind the point.
            hold(numpy.array_equal(ours, (theirs * 255).clip(0, 255).astype(numpy.uint8)), "the images differ")
            said.append(f"{ours.shape[1]} x {ours.shape[0]} in {run.seconds:.1f} s")
        return "; ".join(said) + ", as the command line"

    async def alpha(self) -> str:
        """An IMAGE of four channels keeps its alpha: half of it see-through."""
        prompt = self.workflow("restore_images")
        prompt["4"] = {"class_type": "SolidMask", "inputs": {"value": 0.5, "width": 64, "height": 64}}
        prompt["5"] = {"class_type": "JoinImageWithAlpha", "inputs": {"image": ["1", 0], "alpha": ["4", 0]}}
        prompt["2"]["inputs"]["images"] = ["5", 0]
        image = Image.open(self.made(await self.comfy.run(prompt), "3"))
        hold(image.mode == "RGBA", f"the image is {image.mode}")
        low, high = image.getextrema()[3]
        hold(126 <= low and high <= 129, f"alpha is {low} to {high}")
        return f"{image.size[0]} x {image.size[1]}, alpha {low} to {high}"

    async def bytes(self) -> str:
        """A VIDEO whose file is in memory only."""
        prompt = self.film("film.mp4")
        prompt["4"] = {"class_type": "CheckBytes", "inputs": {"video": ["1", 0]}}
        prompt["2"]["inputs"]["video"] = ["4", 0]
        film = self.made(await self.comfy.run(prompt))
        same_film(film, os.path.join(self.theirs, "anime.mp4"))
        return f"{describe(film)}, as of the file"

    async def batch(self) -> str:
        """Frames of a film as a batch, as one clip and each by itself."""
        said = []
        for clip in (True, False):
            prompt = {
                "1": {"class_type": "LoadVideo", "inputs": {"file": "film.mp4"}},
                "4": {"class_type": "GetVideoComponents", "inputs": {"video": ["1", 0]}},
                "5": {"class_type": "ImageFromBatch", "inputs": {"image": ["4", 0], "batch_index": 0, "length": 5}},
                **{k: v for k, v in self.workflow("restore_images", resolution="1x", one_clip=clip, **SMALL).items() if k != "1"},
            }
            prompt["2"]["inputs"]["images"] = ["5", 0]
            run = await self.comfy.run(prompt)
            saved = next(e["output"]["images"] for e in run.of("executed") if e["node"] == "3")
            hold(len(saved) == 5, f"{len(saved)} images instead of 5")
            said.append(hashlib.sha256(Image.open(os.path.join(self.output, saved[3]["filename"])).tobytes()).hexdigest())
        hold(said[0] != said[1], "a clip gives the same as single images")
        return "5 frames as one clip and each by itself"

    async def interrupt(self) -> str:
        """Stopped at three moments, then queued until it is done."""
        prompt = self.film("long.mp4")
        took, left = [], []
        for frames in (1, 300, 600):
            run = await self.comfy.run(prompt, lambda run, frames=frames: restored(run) >= frames)
            hold(run.of("execution_interrupted"), f"it was not interrupted at {frames} frames")
            took.append(run.seconds)
            hold(run.seconds < STOP_SECONDS, f"it took {run.seconds:.2f} s to stop")
            left += self.comfy.children()
        hold(not left, f"processes are left: {left}")
        hold(any(name.endswith(".remaster") for _, names, _ in os.walk(self.output) for name in names), "no work is kept")
        run = await self.comfy.run(prompt)
        first = next(frames for frames in (count(text) for text in run.texts if text.startswith("restore")) if frames)
        hold(first >= 250, f"it began again at frame {first}")
        hold(run.pictures > 0, "no picture was shown")
        film = self.made(run)
        theirs = self.command("long.mp4", "long.mp4", "--model", "anime", "--resolution", "2x")
        hold(sha256(film) == sha256(theirs), "an interrupted film has other bytes")
        stops = ", ".join(f"{seconds:.2f}" for seconds in took)
        return f"stopped in {stops} s, resumed at frame {first}, {run.pictures} pictures, same bytes as never stopped"

    async def interrupt_images(self) -> str:
        prompt = self.workflow("restore_images", resolution="4k", **SMALL)
        run = await self.comfy.run(prompt, lambda run: bool(run.texts))
        hold(run.of("execution_interrupted"), "it was not interrupted")
        hold(run.seconds < STOP_SECONDS, f"it took {run.seconds:.2f} s to stop")
        hold(not self.comfy.children(), f"processes are left: {self.comfy.children()}")
        return f"stopped in {run.seconds:.2f} s"

    async def sentence(self, what: str, prompt: Any, *words: str) -> Run:
        """Runs a prompt that fails with one line, which has all `words`: what is wrong, and the next step."""
        run = await self.comfy.run(prompt)
        hold(run.of("execution_error"), f"{what}: no error")
        # ComfyUI puts an end of line behind each.
        text = run.error().strip()
        hold("\n" not in text and "Traceback" not in text, f"{what}: more than one line: {text}")
        for word in words:
            hold(word in text, f"{what}: no {word!r} in: {text}")
        return run

    async def errors(self) -> str:
        said = []
        many = self.workflow("restore_images", resolution="4k")
        many["1"] = {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 4096, "color": 0}}
        # At a size that no step before made: a film that is there needs no memory.
        for what, prompt, words in (
            ("broken file", self.film("bad_random.mkv"), ["bad_random.mkv", "; choose another file in Load Video"]),
            ("cut file", self.film("bad_truncated.mp4"), ["bad_truncated.mp4", "; choose another file in Load Video"]),
            ("missing model", self.film("film.mp4", model="7b"), ["no 7B model", f"`{self.remaster} models pull 7b`"]),
            ("too little memory", self.film("film.mp4", resolution="3x", ram="20M"), ["memory", "at least ram = "]),
            ("HDR", self.film("hdr10_hevc10.mp4"), ["is HDR", "; set hdr = keep"]),
            ("images, missing model", self.workflow("restore_images", model="7b"), ["no 7B model", "models pull 7b`"]),
            ("images, too little memory", self.workflow("restore_images", ram="20M"), ["memory", "; raise ram"]),
            ("more images than fit", many, ["4,096 images of 2160 x 2160 need", "GB are free; choose a smaller resolution"]),
        ):
            run = await self.sentence(what, prompt, *words)
            said.append(f"\n    {what}, {run.seconds:.2f} s: {run.error().strip()}")
        text = await self.comfy.refused(self.film("film.mp4", model="gone.safetensors"))
        hold("no model file named 'gone.safetensors'" in text and "; choose another model" in text, text)
        said.append(f"\n    missing file: {text}")
        return "".join(said)

    async def attacks(self) -> str:
        """What a workflow of a stranger may try. Nothing may be written outside of the output folder."""
        outside = os.path.join(self.comfy.base, "outside")
        script = os.path.join(self.input, "run.vpy")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"open({outside!r}, 'w')\n")
        before, films = sorted(os.listdir(self.comfy.base)), self.films()
        count = 0
        # A size that no step made: what is taken by mistake runs, and shows.
        for name, value in (
            ("filename_prefix", "../outside"),
            ("filename_prefix", outside),
            ("filename_prefix", "a/../../outside"),
            ("filename_prefix", "..\\outside"),
            ("filename_prefix", "x\0y"),
            ("filename_prefix", ""),
            ("ram", "--output=" + outside),
            ("ram", "8G --output=" + outside),
        ):
            await self.sentence(f"{name} {value!r}", self.film("film.mp4", resolution="4x", **{name: value}), name, "; set it to")
            count += 1
        for name, value in (
            ("model", "../../../etc/passwd"),
            ("model", os.path.join(TESTDATA, "nano_dit.safetensors")),
            ("model", "--help"),
            ("resolution", "--output=" + outside),
            ("color", "lab --output=x"),
            ("format", "vpy"),
            ("strength", 7),
            ("seed", -1),
        ):
            text = await self.comfy.refused(self.film("film.mp4", **{name: value}))
            hold(name in text, f"{name} {value!r}: {text}")
            count += 1
        # Values over a link are not checked by ComfyUI.
        for name, value in (("resolution", "--output=" + outside), ("model", "/etc/passwd"), ("color", "--help")):
            prompt = self.film("film.mp4")
            prompt["9"] = {"class_type": "CheckAnything", "inputs": {"value": value}}
            prompt["2"]["inputs"][name] = ["9", 0]
            await self.sentence(f"{name} over a link", prompt, name, repr(value)[:40], "; ")
            count += 1
        await self.sentence("a script", self.film("run.vpy"), "run.vpy does not end like a film", "; convert it")
        hold(sorted(os.listdir(self.comfy.base)) == before, "something was written outside")
        hold(self.films() == films, "a film was made")
        return f"{count + 1} refused, nothing written"

    def films(self) -> List[str]:
        return sorted(os.path.join(place, name) for place, _, names in os.walk(self.output) for name in names)

    def frames(self, images: List[Any], *words: str) -> List[Any]:
        """Images through `--frames rgbf32` of the command line."""
        height, width, _ = images[0].shape
        header = f"REMASTER-FRAMES rgbf32 W{width} H{height} F25:1 L{len(images)}\n".encode()
        planes = b"".join(image.transpose(2, 0, 1).astype("<f4").tobytes() for image in images)
        done = subprocess.run(
            [self.remaster, "restore", "-", "-o", "-", "--frames", "rgbf32", "-q", *words],
            input=header + planes,
            stdout=subprocess.PIPE,
        )
        hold(done.returncode == 0, f"the command line ended with {done.returncode}")
        line, _, data = done.stdout.partition(b"\n")
        size = {word[:1]: word[1:] for word in line.decode().split(" ")[2:]}
        shape = (-1, 3, int(size["H"]), int(size["W"]))
        return list(numpy.frombuffer(data, "<f4").reshape(shape).transpose(0, 2, 3, 1))


def api_of(drawn: Dict[str, Any], info: Dict[str, Any]) -> Dict[str, Any]:
    """A workflow as the page saves it in the form that `/prompt` takes."""
    links = {link[0]: [str(link[1]), link[2]] for link in drawn["links"]}
    prompt = {}
    for node in drawn["nodes"]:
        if node["type"] == "MarkdownNote":
            continue
        order = info[node["type"]]["input_order"]
        linked = {i["name"]: links[i["link"]] for i in node["inputs"] if i.get("link") is not None}
        values = iter(node["widgets_values"])
        names = order.get("required", []) + order.get("optional", [])
        inputs = {name: linked[name] if name in linked else next(values) for name in names}
        prompt[str(node["id"])] = {"class_type": node["type"], "inputs": inputs}
    return prompt


def count(text: str) -> int:
    """Frames in a line such as `restore: 1,093 of 1,500 frames`."""
    word = text.partition(": ")[2].split(" ")[0].replace(",", "")
    return int(word) if word.isdigit() else 0


def restored(run: Run) -> int:
    return max([count(text) for text in run.texts if text.startswith("restore")], default=0)


def frames_of(film: str, kind: str) -> List[str]:
    """The hash of each decoded frame, with its time in seconds for pictures."""
    text = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", film, "-map", f"0:{kind}", "-f", "framemd5", "-"],
        check=True,
        stdout=subprocess.PIPE,
    ).stdout.decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def same_film(ours: str, theirs: str) -> None:
    for kind, what in (("v", "frames"), ("a", "sound")):
        mine, other = frames_of(ours, kind), frames_of(theirs, kind)
        hold(mine, f"{ours} has no {what}")
        hold(mine == other, f"{what} of {ours} and {theirs} differ")


def describe(film: str) -> str:
    words = ["ffprobe", "-v", "error", "-show_entries", "stream=codec_type,codec_name,width,height:format=duration", "-of", "json"]
    found = json.loads(subprocess.run([*words, film], check=True, stdout=subprocess.PIPE).stdout)
    picture = next(s for s in found["streams"] if s["codec_type"] == "video")
    sound = [s["codec_name"] for s in found["streams"] if s["codec_type"] == "audio"]
    length = len(frames_of(film, "v"))
    return f"{length} frames, {picture['width']} x {picture['height']}" + (f", sound {sound[0]}" if sound else "")


def sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def furnish(base: str, comfy: str) -> None:
    """The folders of a ComfyUI with the nodes, small models and something to restore."""
    for folder in ("custom_nodes", "input", "output", "models/SEEDVR2", "models/upscale_models", "user"):
        os.makedirs(os.path.join(base, folder))
    pack = os.path.join(base, "custom_nodes", "remaster")
    os.symlink(HERE, pack, target_is_directory=True)
    with open(os.path.join(base, "custom_nodes", "check_anything.py"), "w", encoding="utf-8") as file:
        file.write(ANYTHING)
    for name in SMALL.values():
        shutil.copy(os.path.join(TESTDATA, name), os.path.join(base, "models", "SEEDVR2", name))
    upscaler = os.path.join(TESTDATA, "compact", "rrdb_new_x4.safetensors")
    shutil.copy(upscaler, os.path.join(base, "models", "upscale_models", "x4.safetensors"))
    media = os.path.join(base, "input")
    for name in ("bad_random.mkv", "bad_truncated.mp4", "hdr10_hevc10.mp4"):
        shutil.copy(os.path.join(TESTDATA, "media", name), media)
    shutil.copy(os.path.join(comfy, "input", "example.png"), media)
    for name, size, seconds in (("film.mp4", "96x64", 2), ("long.mp4", "64x48", 60)):
        words = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=s={size}:r=25:d={seconds}"]
        words += ["-f", "lavfi", "-i", f"sine=440:d={seconds}", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac"]
        subprocess.run([*words, os.path.join(media, name)], check=True)


# A node that hands any text on as any type, as popular packs have one, and one that reads a film into memory.
ANYTHING = '''
import io

from comfy_api.v0_0_2 import InputImpl

class Any(str):
    def __ne__(self, other):
        return False

class CheckAnything:
    RETURN_TYPES = (Any("*"),)
    FUNCTION = "run"
    CATEGORY = "check"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"value": ("STRING", {})}}

    def run(self, value):
        return (value,)

class CheckBytes:
    RETURN_TYPES = ("VIDEO",)
    FUNCTION = "run"
    CATEGORY = "check"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"video": ("VIDEO", {})}}

    def run(self, video):
        with open(video.get_stream_source(), "rb") as file:
            return (InputImpl.VideoFromFile(io.BytesIO(file.read())),)

NODE_CLASS_MAPPINGS = {"CheckAnything": CheckAnything, "CheckBytes": CheckBytes}
'''

STEPS = "nodes video cached saved small_video drawn bytes images alpha batch interrupt interrupt_images errors attacks".split()


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("comfyui", help="the folder of a ComfyUI")
    parser.add_argument("--remaster", default=shutil.which("remaster"), help="the program")
    parser.add_argument("--only", nargs="*", choices=STEPS, default=STEPS, help="these steps alone")
    parser.add_argument("--log", default=None, help="a file for what ComfyUI prints")
    arguments = parser.parse_args()
    hold(arguments.remaster, "remaster is not in PATH; name it with --remaster")
    remaster, comfyui = os.path.abspath(arguments.remaster), os.path.abspath(arguments.comfyui)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="comfyui-check-") as base, open(arguments.log or os.devnull, "w") as log:
        furnish(base, comfyui)
        comfy = Comfy(comfyui, base, port, log, remaster)
        try:
            await comfy.wait()
            print(f"ComfyUI started  {time.monotonic() - begun:.1f} s", flush=True)
            check = Check(comfy, remaster)
            for step in arguments.only:
                at = time.monotonic()
                try:
                    said = await getattr(check, step)()
                except Wrong as error:
                    print(f"{step}  WRONG after {time.monotonic() - at:.1f} s: {error}", flush=True)
                    return 1
                print(f"{step}  {time.monotonic() - at:.1f} s: {said}", flush=True)
        finally:
            await comfy.end()
    print(f"all is well after {time.monotonic() - begun:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
