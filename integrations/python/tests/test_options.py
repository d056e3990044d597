"""The options of the package are those of the program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing
import unittest

from remaster_video import _options, _words
from remaster_video._binary import find_binary

from .support import HERE, PROGRAM, Case, needs_program

sys.path.insert(0, str(HERE.parent))
import generate  # noqa: E402


@needs_program
class Generated(Case):
    def test_they_are_what_generate_makes(self) -> None:
        answer = subprocess.run(
            [find_binary(), "generate", "options", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if answer.returncode == 2:
            self.skipTest(f"{PROGRAM} has no `generate options`")
        made = generate.text(json.loads(answer.stdout)["options"])
        self.assertEqual(generate.TARGET.read_text("utf-8"), made, "run `python3 integrations/python/generate.py`")

    def test_those_in_signatures_are_all_that_the_help_lists(self) -> None:
        shared = {"json", "quiet", "verbose", "progress", "preset", "config", "help", "cancel_on_stdin_close"}
        for command in ("probe", "compare", "models list", "models pull", "models verify"):
            text = subprocess.run(
                [find_binary(), *command.split(), "--help"], stdout=subprocess.PIPE, universal_newlines=True
            ).stdout
            listed = {flag.replace("-", "_") for flag in re.findall(r"^\s+(?:-\w, )?--([a-z-]+)", text, re.M)}
            # Files of other networks are none of this package's concern, and it runs no scripts.
            left_out = {"all", "vspipe", "no_scripts"}
            self.assertEqual(listed - shared - left_out, set(_words.FEW[command]), command)

    def test_the_program_has_every_flag(self) -> None:
        for command in ("restore", "plan", "preview"):
            text = subprocess.run(
                [find_binary(), command, "--help"], stdout=subprocess.PIPE, universal_newlines=True
            ).stdout
            options = {**_options.OPTIONS[command], **_words.FEW.get(command, {})}
            for name, option in options.items():
                self.assertRegex(text, rf"(?m)^\s+(-\w, )?{option[0]}\b", f"{command} {name}")


class Types(unittest.TestCase):
    def test_tables_and_types_have_the_same_names(self) -> None:
        for command, name in generate.CLASSES.items():
            hints = typing.get_type_hints(getattr(_options, name))
            self.assertEqual(list(hints), list(_options.OPTIONS[command]))
            for option, (flag, kind, many, help) in _options.OPTIONS[command].items():
                self.assertEqual(flag, "--" + option.replace("_", "-"))
                self.assertIn(kind, generate.TYPES)
