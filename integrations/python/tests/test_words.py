"""Values of callers are values, whatever they look like."""

from __future__ import annotations

import decimal
import enum
import fractions
import os
import pathlib
import sys
import unittest
from typing import Any, List

import remaster_video
from remaster_video import _words

from .support import Case, needs_numpy, needs_unix, numpy


class Method(str, enum.Enum):
    LAB = "lab"


class Threads(enum.IntEnum):
    TWO = 2


@needs_unix
class Words(Case):
    def setUp(self) -> None:
        super().setUp()
        self.fake("echo")

    def words(self, *files: Any, **options: Any) -> List[str]:
        return list(remaster_video.restore(*files, **options).document["words"])

    def test_a_file_is_never_an_option(self) -> None:
        for name in ("--yes", "-y", "--output=x", "--", "a b\nc\t'\"$(x)", "\u202e", "--\n"):
            words = self.words(name, name + ".mkv")
            self.assertEqual(words[-2:], ["--", name])
            self.assertIn(f"--output={name}.mkv", words)

    def test_a_value_is_never_an_option(self) -> None:
        for value in ("--yes", "-", "", " --x", "a\n--yes", "--", "@file"):
            words = self.words("in.mkv", model=value, vf=value)
            self.assertIn(f"--model={value}", words)
            self.assertIn(f"--vf={value}", words)
            self.assertEqual(words[-2:], ["--", "in.mkv"])

    def test_files_may_be_paths_bytes_and_names_that_are_no_text(self) -> None:
        self.assertEqual(self.words(pathlib.Path("a") / "b.mkv")[-1], os.path.join("a", "b.mkv"))
        self.assertEqual(self.words(b"a.mkv")[-1], "a.mkv")
        if sys.platform == "linux":
            self.assertEqual(self.words(b"\xff\xfe.mkv")[-1], "\udcff\udcfe.mkv")
            self.assertEqual(self.words("\udcff.mkv")[-1], "\udcff.mkv")
            # No file can have such a name.
            with self.assertRaises(ValueError):
                self.words("\ud800.mkv")

    def test_nul_bytes_empty_names_and_dashes_are_refused_before_anything_runs(self) -> None:
        for bad in ("a\0b", b"a\0b", "", b"", "-", b"-", pathlib.PurePath("-")):
            with self.assertRaises(ValueError):
                remaster_video.restore(bad)
            with self.assertRaises(ValueError):
                remaster_video.restore("in.mkv", bad)
        with self.assertRaises(ValueError):
            remaster_video.restore("in.mkv", model="a\0b")
        for wrong in (None, 3, ["a"]):
            with self.assertRaises(TypeError):
                remaster_video.restore(wrong)  # type: ignore[arg-type]

    def test_none_and_false_leave_an_option_out(self) -> None:
        words = self.words("in.mkv", model=None, yes=False, dither=True, seed=0, strength=0.5, resolution=720)
        self.assertEqual([word for word in words if word.startswith(("--model", "--yes"))], [])
        for word in ("--dither", "--seed=0", "--strength=0.5", "--resolution=720"):
            self.assertIn(word, words)

    def test_values_of_enumerations_are_what_they_stand_for(self) -> None:
        words = self.words("in.mkv", color=Method.LAB, threads=Threads.TWO, strength=fractions.Fraction(1, 2))
        for word in ("--color=lab", "--threads=2", "--strength=0.5"):
            self.assertIn(word, words)

    @needs_numpy
    def test_numbers_of_numpy_are_numbers(self) -> None:
        words = self.words(
            "in.mkv", strength=numpy.float64(0.5), softness=numpy.float32(0.25), threads=numpy.int64(2), resolution=numpy.int32(720)
        )
        for word in ("--strength=0.5", "--softness=0.25", "--threads=2", "--resolution=720"):
            self.assertIn(word, words)
        with self.assertRaisesRegex(TypeError, "must be an integer"):
            self.words("in.mkv", threads=numpy.float64(2))

    def test_values_that_are_too_long_are_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "too long for a command line"):
            self.words("in.mkv", vf="x" * (1 << 24))

    def test_lists_are_joined(self) -> None:
        self.assertIn("--devices=vulkan:0,vulkan:1", self.words("in.mkv", devices=["vulkan:0", "vulkan:1"]))
        self.assertIn("--devices=vulkan:0,vulkan:1", self.words("in.mkv", devices="vulkan:0,vulkan:1"))
        self.assertEqual([word for word in self.words("in.mkv", devices=[]) if "devices" in word], [])
        with self.assertRaisesRegex(ValueError, "commas"):
            self.words("in.mkv", devices=["a,b"])

    def test_mistakes_are_type_errors_that_help(self) -> None:
        for options, part in (
            ({"resolutoin": 1}, "did you mean 'resolution'?"),
            ({"json": True}, "unexpected keyword argument 'json'"),
            ({"modle": "anime"}, "did you mean 'model'"),
            ({"yes": 1}, "yes is 1, but is a switch"),
            ({"seed": True}, "seed is True, but must be an integer"),
            ({"seed": "1"}, "seed is '1', but must be an integer"),
            ({"strength": "1"}, "must be a number"),
            ({"model": True}, "must be text or a path"),
            ({"model": ["a"]}, "must be text or a path"),
            ({"strength": decimal.Decimal(1)}, "must be a number"),
            ({"on_progress": 5}, "on_progress is 5, but must be a function"),
            ({"cancel": 5}, "cancel is 5, but must have is_set()"),
        ):
            with self.assertRaises(TypeError) as caught:
                remaster_video.restore("in.mkv", **options)  # type: ignore[arg-type]
            self.assertIn(part, str(caught.exception))

    def test_the_variable_of_this_package_is_not_passed_on(self) -> None:
        environment = remaster_video.restore("in.mkv").document["environment"]
        self.assertNotIn("REMASTER_BINARY", environment)
        self.assertIn("FAKE", environment)

    def test_a_run_is_followed_and_can_be_stopped(self) -> None:
        words = self.words("in.mkv")
        self.assertEqual(words[0], "restore")
        for word in ("--json", "--progress=json", "--cancel-on-stdin-close"):
            self.assertIn(word, words)


class Signatures(unittest.TestCase):
    def test_options_are_in_the_signature_and_in_the_help(self) -> None:
        import inspect

        parameters = inspect.signature(remaster_video.restore).parameters
        self.assertEqual(list(parameters)[:4], ["input", "output", "on_progress", "cancel"])
        self.assertIn("resolution", parameters)
        self.assertIn("resolution: ", remaster_video.restore.__doc__ or "")

    def test_every_flag_of_a_table_is_one(self) -> None:
        for command in (*_words.FEW.values(), *_words.OPTIONS.values()):
            for option in command.values():
                self.assertRegex(option[0], "^--[a-z][a-z0-9-]+$")
