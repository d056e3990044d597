"""Dataclasses from JSON documents. Fields that are not known are skipped, since newer programs may add some."""

from __future__ import annotations

import dataclasses
import sys
import typing
from typing import Any, Dict, Mapping, Type, TypeVar, Union

from ._errors import RemasterError

T = TypeVar("T")

_HINTS: Dict[type, Dict[str, Any]] = {}


def parse(cls: Type[T], document: object, **more: object) -> T:
    """The dataclass that a JSON object describes; `more` are fields that are not in it."""
    try:
        return typing.cast(T, _object(cls, document, cls.__name__, more))
    except _Mismatch as mismatch:
        raise RemasterError(
            f"the program answered something else than expected: {mismatch}; "
            "install the version of the program that this package came with",
            "binary-failed",
            1,
        ) from None


class _Mismatch(Exception):
    pass


def _hints(cls: type) -> Dict[str, Any]:
    known = _HINTS.get(cls)
    if known is None:
        known = _HINTS[cls] = typing.get_type_hints(cls, vars(sys.modules[cls.__module__]))
    return known


def _object(cls: type, document: object, place: str, more: Mapping[str, object]) -> object:
    if not isinstance(document, dict):
        raise _Mismatch(f"{place} is not an object")
    hints = _hints(cls)
    values: Dict[str, object] = dict(more)
    for field in dataclasses.fields(typing.cast(Any, cls)):
        if field.name == "document":
            values["document"] = document
        elif field.name in more:
            continue
        elif field.name in document:
            values[field.name] = _value(hints[field.name], document[field.name], f"{place}.{field.name}")
        elif _is_optional(hints[field.name]):
            values[field.name] = None
        elif field.default is dataclasses.MISSING:
            raise _Mismatch(f"{place} has no field `{field.name}`")
    return cls(**values)


def _is_optional(hint: object) -> bool:
    return typing.get_origin(hint) is Union and type(None) in typing.get_args(hint)


def _value(hint: Any, value: object, place: str) -> object:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object:
        return value
    if _is_optional(hint):
        return None if value is None else _value(inner[0], value, place)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(inner[0], item, f"{place}[]") for item in value)
    if dataclasses.is_dataclass(hint):
        return _object(typing.cast(type, hint), value, place, {})
    if origin is not None and origin is not tuple and isinstance(value, dict):
        return {str(key): _value(inner[1], item, f"{place}.{key}") for key, item in value.items()}
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise _Mismatch(f"{place} is {type(value).__name__}")
