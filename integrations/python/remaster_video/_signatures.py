"""Options in the signatures of functions, for `help()` and for editors that look at the running program."""

from __future__ import annotations

import inspect
from typing import Any, Callable, TypeVar

from ._options import OPTIONS

F = TypeVar("F", bound=Callable[..., Any])


def with_options(command: str) -> Callable[[F], F]:
    """Replaces `**options` in the signature that a function shows, and lists them in its text."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        shown = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        own = {parameter.name for parameter in shown}
        options = {name: option for name, option in OPTIONS[command].items() if name not in own}
        shown += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in options]
        function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        lines = [f"{name}: {option[3]}" for name, option in options.items()]
        function.__doc__ = inspect.cleandoc(function.__doc__ or "") + "\n\nOptions:\n\n" + "\n".join(lines) + "\n"
        return function

    return decorate
