"""Errors of the program, with the words that programs can rely on."""

from __future__ import annotations


class RemasterError(Exception):
    """A command failed.

    `kind` is a stable word for programs, such as `output-exists`; docs/json.md lists them. This package adds two:
    `binary-missing` and `binary-failed`. `message` is one sentence for people, and `exit_code` that of the process.
    """

    def __init__(self, message: str, kind: str, exit_code: int) -> None:
        super().__init__(message, kind, exit_code)
        self.message = message
        self.kind = kind
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message


class Cancelled(RemasterError):
    """The command was stopped: `kind` is `interrupted`."""

    def __init__(self, message: str = "stopped", kind: str = "interrupted", exit_code: int = 130) -> None:
        super().__init__(message, kind, exit_code)


# Tracebacks show the names that programs import.
RemasterError.__module__ = Cancelled.__module__ = "remaster_video"


def error_of(message: str, kind: str, exit_code: int) -> RemasterError:
    """The error of the class that its kind asks for."""
    if kind == "interrupted":
        return Cancelled(message, kind, exit_code)
    return RemasterError(message, kind, exit_code)
