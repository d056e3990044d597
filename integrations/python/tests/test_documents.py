"""The examples are those of the document, and they run."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from typing import List, Tuple

from .support import REPOSITORY, Case, needs_ffmpeg, needs_program, needs_unix

DOCS = REPOSITORY / "docs"
EXAMPLES = REPOSITORY / "integrations" / "examples"
FRONTENDS = ("frontend.py", "frontend.mjs")


def blocks(document: str, language: str) -> List[str]:
    text = (DOCS / document).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


class Integrate(Case):
    def words(self, name: str) -> List[str]:
        program = sys.executable if name.endswith(".py") else shutil.which("node")
        if program is None:
            self.skipTest("node is not installed")
        return [program, str(EXAMPLES / name)]

    def run_frontend(self, name: str, *words: str) -> Tuple[int, List[str]]:
        done = subprocess.run(
            [*self.words(name), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, cwd=self.folder
        )
        self.assertEqual(done.stderr, b"", name)
        return done.returncode, done.stdout.decode().splitlines()

    def test_the_document_has_the_text_of_the_examples(self) -> None:
        for name, language in zip(FRONTENDS, ("python", "js")):
            text = (EXAMPLES / name).read_text("utf-8")
            self.assertEqual(blocks("integrate.md", language), [text])
            self.assertLessEqual(len(text.splitlines()), 60, name)

    @needs_unix
    def test_answers_of_every_kind(self) -> None:
        for name in FRONTENDS:
            for how, want in (
                ("echo", (0, ["wrote out"])),
                ("error", (3, ["not-readable: no such file; name another"])),
                ("silent", (9, ["internal: the program gave no answer"])),
            ):
                self.fake(how)
                code, lines = self.run_frontend(name, "-in.mkv", "-out.mkv")
                self.assertEqual((code, lines[-1:]), want, (name, how))
            self.set("REMASTER_BINARY", str(self.folder / "nothing"))
            code, lines = self.run_frontend(name, "in.mkv", "out.mkv")
            self.assertEqual((code, lines[0].split(":")[0]), (127, "binary-missing"), name)

    @needs_unix
    def test_ctrl_c(self) -> None:
        self.fake("waits")
        for name in FRONTENDS:
            process = subprocess.Popen(
                [*self.words(name), "in.mkv", "out.mkv"], stdout=subprocess.PIPE, start_new_session=True
            )
            assert process.stdout is not None
            self.assertIn(b"restore 0/?", process.stdout.readline())
            process.send_signal(signal.SIGINT)
            out = process.communicate(timeout=10)[0].decode().splitlines()
            self.assertEqual((process.returncode, out[-1]), (130, "interrupted: stopped"), name)
            self.assert_none_left()

    @needs_program
    @needs_ffmpeg
    def test_a_film(self) -> None:
        self.clip("in.mkv").rename(self.folder / "-in.mkv")
        for name in FRONTENDS:
            words = ["-in.mkv", f"-{name}.mkv", "--model=anime", "--resolution=1x"]
            code, lines = self.run_frontend(name, *words)
            self.assertEqual((code, lines[-1]), (0, f"wrote -{name}.mkv"), lines)
            self.assertTrue(any("% restore" in line for line in lines), lines)
            code, lines = self.run_frontend(name, *words)
            self.assertEqual((code, lines), (0, [f"-{name}.mkv is there already"]))
