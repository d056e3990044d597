#!/usr/bin/env python3
"""Writes remaster_video/_options.py, from what `remaster generate options --json` says.

    python3 generate.py [OPTIONS.json]

Without a file it asks the program that the package finds.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any, Dict, List

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE / "remaster_video" / "_options.py"

# Classes of options, by the commands that take them.
CLASSES = {"restore": "RestoreOptions", "plan": "PlanOptions", "preview": "PreviewOptions"}
# What functions take as parameters of their own, or set themselves.
OWN = {"input", "output", "frames", "progress", "json", "quiet", "verbose", "cancel_on_stdin_close"}
TYPES = {"text": "Text", "path": "StrPath", "number": "float", "integer": "int", "bool": "bool"}

HEAD = '''"""Options of commands. Written by generate.py out of `remaster generate options --json`: do not edit."""

from __future__ import annotations

import os
from typing import Dict, List, Literal, Tuple, TypedDict, Union

StrPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
# Words may also be numbers, such as a resolution, or files, such as a model.
Text = Union[str, int, float, "os.PathLike[str]"]

'''


def document(path: str = "") -> Dict[str, Any]:
    if path:
        return dict(json.loads(pathlib.Path(path).read_text("utf-8")))
    sys.path.insert(0, str(HERE))
    from remaster_video._binary import find_binary

    words = [find_binary(), "generate", "options", "--json"]
    return dict(json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout))


def _type(option: Dict[str, Any]) -> str:
    choices = option.get("choices")
    one: str = TYPES[option["type"]]
    if choices and option["type"] == "text":
        one = f"Literal[{', '.join(json.dumps(choice) for choice in choices)}]"
    return f"Union[{one}, List[{one}]]" if option.get("many") else one


def _help(option: Dict[str, Any]) -> str:
    words = str(option.get("help", "")).strip().rstrip(".")
    default = option.get("default")
    if default is not None and "[default" not in words:
        words += f" [default: {default}]"
    return words + "."


def text(options: List[Dict[str, Any]]) -> str:
    ours = [o for o in options if "flag" in o and o["name"] not in OWN]
    groups = {name: [o for o in ours if command in o["commands"]] for command, name in CLASSES.items()}
    groups["CommonOptions"] = [o for o in ours if set(CLASSES) <= set(o["commands"])]
    parts, tables = [HEAD], []
    done: Dict[str, str] = {}
    for name, group in sorted(groups.items(), key=lambda item: len(item[1])):
        # What it is built upon: the largest that has nothing else.
        bases = [base for base in done if all(option in group for option in groups[base])]
        own = [option for option in group if not bases or option not in groups[bases[-1]]]
        done[name] = f"_{name.replace('Options', '').upper()}"
        parts.append(_class(name, bases[-1] if bases else "TypedDict", own))
        inherited = f"    **{done[bases[-1]]},\n" if bases else ""
        tables.append(f"{done[name]}: _Rows = {{\n{inherited}{_rows(own)}}}\n")
    parts.append("\n# The flag, the type, whether it may be given several times, and the help of each.\n")
    parts += ["_Rows = Dict[str, Tuple[str, str, bool, str]]\n", *tables, "OPTIONS: Dict[str, _Rows] = {\n"]
    parts += [f"    {json.dumps(command)}: {done[name]},\n" for command, name in CLASSES.items()]
    return "".join(parts) + "}\n"


def _class(name: str, base: str, options: List[Dict[str, Any]]) -> str:
    about = {name: f"Options of `{command}`." for command, name in CLASSES.items()}.get(name, "Options of every command.")
    fields = (f"\n    {o['name']}: {_type(o)}\n    {json.dumps(_help(o), ensure_ascii=False)}\n" for o in options)
    return f'\nclass {name}({base}, total=False):\n    """{about}"""\n{"".join(fields)}\n'


def _rows(options: List[Dict[str, Any]]) -> str:
    rows = ""
    for option in options:
        row = (option["flag"], option["type"], bool(option.get("many")), _help(option))
        rows += f"    {json.dumps(option['name'])}: ({', '.join(_literal(value) for value in row)}),\n"
    return rows


def _literal(value: Any) -> str:
    return repr(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def main() -> None:
    TARGET.write_text(text(document(*sys.argv[1:2])["options"]), "utf-8")
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
