"""The parts of the nodes that need no ComfyUI. Run with `python -m unittest discover integrations/comfyui/tests`."""

import importlib
import importlib.util
import io
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))


def load():
    """The pack under a name of its own, as ComfyUI loads it."""
    folder = os.path.dirname(HERE)
    spec = importlib.util.spec_from_file_location(
        "remaster_nodes", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["remaster_nodes"] = module
    spec.loader.exec_module(module)


load()
from remaster_nodes import choices, places, program, progress, sentences, sources  # noqa: E402
from remaster_nodes.refused import Refused  # noqa: E402


def entry(file, kind, usable=True):
    return {"file": file, "kind": kind, "usable": usable}


LISTED = choices.catalogue(
    [
        entry("/models/a/dit.safetensors", "dit_3b"),
        entry("/models/b/dit.safetensors", "dit_7b"),
        entry("/other/b/dit.safetensors", "dit_7b"),
        entry("/models/x4.pth", "rrdb"),
        entry("/models/vae.safetensors", "vae"),
        entry("/models/broken.safetensors", "dit_3b", usable=False),
        entry("/models/odd.safetensors", "unknown"),
        entry("/models/3b", "dit_3b"),
    ]
)


class Models(unittest.TestCase):
    def test_names_are_those_of_usable_files(self):
        self.assertEqual(list(LISTED.models), ["dit.safetensors", "b/dit.safetensors", "x4.pth", "models/3b"])
        self.assertEqual(LISTED.vae_names(), ["auto", "vae.safetensors"])
        self.assertEqual(LISTED.model_names()[:5], ["3b", "7b", "7b-sharp", "3b-first", "anime"])

    def test_a_word_stays_a_word_and_a_name_becomes_the_listed_file(self):
        self.assertEqual(choices.model_options("3b", "auto", 7, LISTED), ({"model": "3b", "seed": 7}, False))
        options, _ = choices.model_options("b/dit.safetensors", "vae.safetensors", 1, LISTED)
        self.assertEqual(options, {"model": "/models/b/dit.safetensors", "vae": "/models/vae.safetensors", "seed": 1})

    def test_upscalers_have_no_seed_and_no_vae(self):
        self.assertEqual(choices.model_options("anime", "vae.safetensors", 7, LISTED), ({"model": "anime"}, True))
        self.assertEqual(choices.model_options("x4.pth", "auto", 7, LISTED), ({"model": "/models/x4.pth"}, True))

    def test_what_is_not_listed_is_refused(self):
        for name in ("/models/a/dit.safetensors", "../dit.safetensors", "--help", "", None, 3, [], {"a": 1}, "broken.safetensors"):
            with self.assertRaises(Refused, msg=repr(name)):
                choices.model_options(name, "auto", 1, LISTED)
        for vae in ("/models/vae.safetensors", "-", None, 1, []):
            with self.assertRaises(Refused, msg=repr(vae)):
                choices.model_options("3b", vae, 1, LISTED)
        for seed in (-1, 2**32, 1.5, True, "1", None):
            with self.assertRaises(Refused, msg=repr(seed)):
                choices.model_options("3b", "auto", seed, LISTED)


class Values(unittest.TestCase):
    def options(self, resolution="auto", color="auto", strength=1.0, ram=""):
        return choices.picture_options(resolution, color, strength, ram, ["lab", "none"])

    def test_what_is_left_alone_is_no_option(self):
        self.assertEqual(self.options(), {})

    def test_all_offered_sizes_are_taken(self):
        for size in choices.SIZES[1:] + ("1280x720", "1.5x", "720p"):
            self.assertEqual(self.options(resolution=size), {"resolution": size})

    def test_other_values(self):
        self.assertEqual(self.options(color="lab", strength=0.5, ram="8G"), {"color": "lab", "strength": 0.5, "ram": "8G"})
        self.assertEqual(self.options(strength=0), {"strength": 0.0})

    def test_no_value_becomes_an_option(self):
        for value in ("--output=x", "-1", "2x --yes", "2x\n", "0", "x", "1080 ", "٣x", None, 1080, ["2x"], "99999999"):
            with self.assertRaises(Refused, msg=repr(value)):
                self.options(resolution=value)
        for value in ("--yes", "LAB", "", None, ["lab"]):
            with self.assertRaises(Refused, msg=repr(value)):
                self.options(color=value)
        for value in ("-1G", "8", "8G --yes", "8G\n", None, 8):
            with self.assertRaises(Refused, msg=repr(value)):
                self.options(ram=value)
        for value in (-0.1, 1.1, float("nan"), float("inf"), "1", True, None):
            with self.assertRaises(Refused, msg=repr(value)):
                self.options(strength=value)
        for value in ("exe", "", None, ["mp4"], 4):
            with self.assertRaises(Refused, msg=repr(value)):
                choices.one_of("format", value, choices.FORMATS)

    def test_long_values_are_cut_in_sentences(self):
        with self.assertRaises(Refused) as caught:
            self.options(resolution="x" * 100_000)
        self.assertLess(len(str(caught.exception)), 200)


class Memory(unittest.TestCase):
    CARD = {"device": "vulkan:0", "usable": True, "memory": {"bytes": 12 << 30, "shared": False}}
    CPU = {"device": "cpu", "usable": True}

    def test_a_card_gets_what_is_free_less_a_tenth(self):
        self.assertEqual(choices.vram({"devices": [self.CARD, self.CPU], "auto": "vulkan:0"}, 10 << 30), "9216M")
        self.assertEqual(choices.vram({"devices": [self.CARD, self.CPU], "auto": "vulkan:0"}, 2 << 30), "1536M")

    def test_elsewhere_it_is_left_to_the_program(self):
        shared = dict(self.CARD, memory={"bytes": 1, "shared": True})
        for devices, auto in (
            ([self.CPU], "cpu"),
            ([self.CARD, self.CPU], "cpu"),
            ([shared, self.CPU], "vulkan:0"),
            ([self.CARD, dict(self.CARD, device="vulkan:1")], "vulkan:0"),
            ([dict(self.CARD, usable=False)], "vulkan:0"),
        ):
            self.assertIsNone(choices.vram({"devices": devices, "auto": auto}, 10 << 30))
        self.assertIsNone(choices.vram({"devices": [self.CARD], "auto": "vulkan:0"}, None))
        self.assertIsNone(choices.vram({"devices": [self.CARD], "auto": "vulkan:0"}, 600 << 20))
        self.assertIsNone(choices.vram({}, 10 << 30))


class Places(unittest.TestCase):
    def test_a_film_is_named_after_its_source_and_settings(self):
        out = os.path.abspath("out")
        path = places.film(out, "video/remaster", "Mein Film (1)", "0123456789ab", ".mkv")
        self.assertEqual(path, os.path.join(out, "video", "remaster_Mein-Film-1_0123456789ab.mkv"))
        self.assertEqual(places.film(out, "x", "-", "k", ".mp4"), os.path.join(out, "x_film_k.mp4"))

    def test_nothing_leaves_the_output_folder(self):
        bad = ["", "/", "..", "../x", "a/../x", "a/../../x", "/etc/x", "a//b", "a/", "C:/x", "C:x", "..\\x", "a\\..\\x", "\\\\h\\s"]
        bad += ["x\0y", "a\nb", ".git/x", "a/.x", "~|x", "x" * 300, "a/..", " x", "x ", "x./y", None, 3, ["a"]]
        for prefix in bad:
            with self.assertRaises(Refused, msg=repr(prefix)):
                places.film("out", prefix, "film", "key", ".mp4")

    def test_a_key_depends_on_content_alone(self):
        self.assertEqual(places.key({"a": 1, "b": 2}, {"x": 1}), places.key({"b": 2, "a": 1}, {"x": 1}))
        self.assertNotEqual(places.key({"a": 1}, {"x": 1}), places.key({"a": 1}, {"x": 2}))
        self.assertRegex(places.key({}, {}), "^[0-9a-f]{12}$")

    def test_the_ending_is_kept_if_it_can_be_written(self):
        for source, wanted, ending in (("a.MP4", "auto", ".mp4"), ("a.avi", "auto", ".mkv"), ("a.avi", "mov", ".mov")):
            self.assertEqual(places.ending(source, wanted), ending)

    def test_scripts_and_lists_are_no_films(self):
        for name in ("a.vpy", "a.VPY", "a.py", "a.avs", "a.m3u8", "a.ffconcat", "a.txt", "a", "-", "mp4"):
            with self.assertRaises(Refused, msg=name):
                places.checked_source(name)
        self.assertEqual(places.checked_source("-a.mp4"), os.path.abspath("-a.mp4"))


class Sentences(unittest.TestCase):
    def said(self, message, kind="x", film=None):
        return sentences.sentence(message, kind, "/bin/remaster", film)

    def test_options_are_called_as_the_inputs_are(self):
        self.assertEqual(
            self.said("not enough memory; it needs at least --ram 637M", "not-enough-memory"),
            "not enough memory; it needs at least ram = 637M, or choose a smaller resolution",
        )
        self.assertEqual(
            self.said("no 3B model; get it with `remaster models pull 3b`, use --model anime, or name a file with --model"),
            "no 3B model; get it with `/bin/remaster models pull 3b`, use model = anime, or name a file with model",
        )
        self.assertEqual(self.said("a.mkv is HDR; add --hdr keep to pass it"), "a.mkv is HDR; set hdr = keep to pass it")

    def test_every_sentence_has_a_next_step_and_one_line(self):
        film = "/o/f.mkv"
        self.assertEqual(self.said("bad\n  file", "not-a-video", film), "bad file; choose another file in Load Video")
        ffmpeg = self.said("a.mkv cannot be read as video: parsing failed; Invalid data found", "not-a-video", film)
        self.assertTrue(ffmpeg.endswith("Invalid data found; choose another file in Load Video"))
        self.assertEqual(self.said("-: too large; raise --ram"), "too large; raise ram")
        self.assertIn("doctor", self.said("odd", "something-new"))
        # Images have no file.
        self.assertIn("doctor", self.said("cannot read it", "not-readable"))
        self.assertIn("; ", self.said("", "internal"))

    def test_unfinished_work_of_other_settings_can_be_deleted(self):
        message = "/o/f.mkv.remaster holds an unfinished run; use the same settings to resume it, or --restart to discard it"
        self.assertTrue(self.said(message, film="/o/f.mkv").endswith("or delete /o/f.mkv.remaster to discard it"))


class Lines(unittest.TestCase):
    def test_what_is_known_is_said(self):
        self.assertEqual(progress.line("restore", 93, 1000, 14.72, 64.2), "restore: 93 of 1,000 frames, 14.7 frames/s, 1:04 left")
        self.assertEqual(progress.line("encode", 5, None, 0.25, 7325), "encode: 5 frames, 4.0 s per frame, 2:02:05 left")
        self.assertEqual(progress.line("finish", 0, None, None, None), "finish")

    def test_the_newest_pieces_come_first_and_empty_ones_not_at_all(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(progress.newest_pieces(folder), [])
            os.makedirs(os.path.join(folder, "store", "units"))
            pieces = ((30, "store/units/a.nut", "x"), (10, "store/b.nut", "x"), (20, "c.nut", "x"), (5, "d.nut", ""))
            for age, name, content in (*pieces, (0, "e.json", "x")):
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(content)
                os.utime(path, (1_000_000 - age, 1_000_000 - age))
            self.assertEqual(progress.newest_pieces(folder), [os.path.join(folder, n) for n in ("store/b.nut", "c.nut")])


class Program(unittest.TestCase):
    def test_without_the_package_there_is_a_next_step(self):
        with mock.patch.dict(sys.modules, {"remaster_video": None}):
            with self.assertRaises(Refused) as caught:
                program.binary()
            self.assertIn("pip install remaster-video", str(caught.exception))
            self.assertEqual(program.colors(), [])

    def answering(self, *answers):
        answers = iter(answers)
        self.asked = []

        def ask(*words):
            self.asked.append(words)
            return next(answers)

        return mock.patch.object(program, "ask", ask)

    def test_folders_are_asked_once_and_files_are_named_once(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            files = {"files": [entry(os.path.join(one, "x.pth"), "rrdb")]}
            known = program.Known()
            with self.answering(files, files):
                for _ in range(3):
                    self.assertEqual(list(known.models([one, two, one, "/no/such/folder"]).models), ["x.pth"])
            self.assertEqual(self.asked, [("models", "list", "--model-dir", one), ("models", "list", "--model-dir", two)])


def stubs(device):
    """As much of ComfyUI as `running` touches, and what was called."""

    class Interrupted(Exception):
        pass

    called = []
    management = types.ModuleType("comfy.model_management")
    management.InterruptProcessingException = Interrupted
    management.stop = False
    management.processing_interrupted = lambda: management.stop
    management.unload_all_models = lambda: called.append("unload")
    management.soft_empty_cache = lambda: called.append("empty")
    management.get_torch_device = lambda: types.SimpleNamespace(type=device)
    management.get_free_memory = lambda _: called.append("free") or 10 << 30

    def throw():
        if management.stop:
            management.stop = False
            raise Interrupted

    management.throw_exception_if_processing_interrupted = throw

    class Bar:
        def __init__(self, total, node_id=None):
            self.values = []

        def update_absolute(self, value, total, preview):
            throw()
            called.append((value, preview is not None))

    utils = types.ModuleType("comfy.utils")
    utils.ProgressBar = Bar
    comfy = types.ModuleType("comfy")
    comfy.model_management, comfy.utils = management, utils
    server = types.ModuleType("server")
    server.PromptServer = types.SimpleNamespace(instance=None)
    return called, {"comfy": comfy, "comfy.model_management": management, "comfy.utils": utils, "server": server}


class Running(unittest.TestCase):
    def load(self, device="cpu"):
        called, modules = stubs(device)
        with mock.patch.dict(sys.modules, modules):
            sys.modules.pop("remaster_nodes.running", None)
            return importlib.import_module("remaster_nodes.running"), called, modules["comfy.model_management"]

    def test_models_are_unloaded_before_memory_is_counted(self):
        running, called, _ = self.load("cuda")
        devices = {"devices": [Memory.CARD, Memory.CPU], "auto": "vulkan:0"}
        with mock.patch.object(program, "ask", lambda *words: devices if words == ("devices",) else {}):
            self.assertEqual(running.make_room(), {"vram": "9216M"})
        self.assertEqual(called, ["unload", "empty", "free"])

    def test_without_a_card_nothing_is_limited(self):
        for device in ("cpu", "mps", "privateuseone"):
            running, called, _ = self.load(device)
            self.assertEqual(running.make_room(), {})
            self.assertEqual(called, ["unload", "empty"])

    def test_an_interrupt_that_the_bar_swallows_still_stops_the_program(self):
        running, _, management = self.load()
        run = running.Run("1")
        self.assertFalse(run.is_set())
        management.stop = True
        run.show(0.5, "half")
        self.assertFalse(management.stop)
        self.assertTrue(run.is_set())
        self.assertIsInstance(running.interrupted(), management.InterruptProcessingException)

    def test_an_interrupt_is_over_when_it_was_passed_on(self):
        running, _, management = self.load()
        management.stop = True
        self.assertTrue(running.Run("1").is_set())
        self.assertIsInstance(running.interrupted(), management.InterruptProcessingException)
        self.assertFalse(running.Run("1").is_set())

    def test_the_bar_stays_in_its_limits(self):
        running, called, _ = self.load()
        news = types.SimpleNamespace(phase="restore", share=None, done=7, total=5, rate=None, eta_seconds=None)
        running.Run("1").report(news)
        self.assertEqual(called, [(progress.STEPS, False)])


class Images(unittest.TestCase):
    """The node for images, with as much of torch and of ComfyUI's interface as its loop touches."""

    def load(self):
        called, modules = stubs("cpu")
        interface = mock.MagicMock()
        interface.ComfyExtension, interface.io.ComfyNode = object, object
        others = ("comfy_api", "folder_paths", "numpy", "torch", "PIL")
        modules.update({name: mock.MagicMock() for name in others}, **{"comfy_api.v0_0_2": interface})
        with mock.patch.dict(sys.modules, modules):
            for name in ("running", "nodes"):
                sys.modules.pop(f"remaster_nodes.{name}", None)
            return importlib.import_module("remaster_nodes.nodes")

    def restored(self, nodes, frames):
        """Runs the node; says whether the stream of frames was closed when it ended."""
        package = types.ModuleType("remaster_video")
        package.Cancelled = type("Cancelled", (Exception,), {})
        package.RemasterError = type("RemasterError", (Exception,), {})
        package.restore_frames = mock.MagicMock()
        stream = package.restore_frames.return_value
        stream.__enter__.return_value = stream
        stream.__exit__.return_value = False
        stream.__iter__.side_effect = lambda: iter(frames)
        images = mock.MagicMock(shape=(2, 8, 8, 3))
        images.__len__.return_value = 2
        with mock.patch.object(program, "package", lambda: package):
            try:
                nodes._restored(images, {}, None)
            finally:
                self.closed = stream.__exit__.called

    def test_an_error_of_the_loop_ends_the_program_at_once(self):
        frame = types.SimpleNamespace(shape=(8, 8, 3))
        nodes = self.load()
        nodes.management.get_free_memory = lambda _: 10 << 30
        for what, error in (("empty", MemoryError), ("from_numpy", RuntimeError)):
            with mock.patch.object(nodes.torch, what, mock.Mock(side_effect=error)):
                self.assertRaises(error, self.restored, nodes, [frame, frame])
            self.assertTrue(self.closed, what)
        # No room for the images.
        nodes.management.get_free_memory = lambda _: 0
        self.assertRaises(Refused, self.restored, nodes, [frame])
        self.assertTrue(self.closed)


class FakeVideo:
    def __init__(self, stream, duration=1.0, form="mov,mp4,m4a"):
        self.stream, self.duration, self.form, self.saved = stream, duration, form, []

    def get_stream_source(self):
        return self.stream

    def get_duration(self):
        return self.duration

    def get_container_format(self):
        return self.form

    def save_to(self, path):
        with open(path, "wb") as file:
            file.write(b"trimmed")


class Sources(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = place.name
        self.film = os.path.join(self.folder, "a film.mp4")
        with open(self.film, "wb") as file:
            file.write(b"whole")

    def source(self, video, whole=1.0):
        return sources.source_of(video, self.folder, lambda _: types.SimpleNamespace(get_duration=lambda: whole), bool)

    def test_a_file_is_used_as_it_is(self):
        source = self.source(FakeVideo(self.film))
        self.assertEqual((source.path, source.stem, source.drawn), (self.film, "a film", False))

    def test_a_trimmed_film_is_written_out(self):
        source = self.source(FakeVideo(self.film, duration=0.5))
        with open(source.path, "rb") as file:
            self.assertEqual(file.read(), b"trimmed")
        self.assertTrue(source.path.endswith(".mp4"))

    def test_bytes_are_written_under_the_same_name_each_time(self):
        first = self.source(FakeVideo(io.BytesIO(b"bytes"), form="matroska,webm"))
        again = self.source(FakeVideo(io.BytesIO(b"bytes"), form="matroska,webm"))
        self.assertEqual(first, again)
        self.assertTrue(first.path.endswith(".mkv"))
        self.assertEqual(len(os.listdir(os.path.join(self.folder, "remaster"))), 1)

    def test_what_cannot_be_written_leaves_no_file(self):
        video = FakeVideo(self.film, duration=0.5)
        video.save_to = mock.Mock(side_effect=ValueError("no\nway"))
        with self.assertRaises(Refused) as caught:
            self.source(video)
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(os.listdir(os.path.join(self.folder, "remaster")), [])

    def test_a_stop_while_it_is_written_is_no_error_and_leaves_no_file(self):
        with mock.patch.object(FakeVideo, "save_to", side_effect=sources.Interrupted), self.assertRaises(sources.Interrupted):
            self.source(FakeVideo(self.film, duration=0.5))
        self.assertEqual(os.listdir(os.path.join(self.folder, "remaster")), [])

    def test_a_missing_file_is_a_sentence(self):
        with self.assertRaises(Refused) as caught:
            self.source(FakeVideo(os.path.join(self.folder, "gone.mp4")))
        self.assertIn("choose another file", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
