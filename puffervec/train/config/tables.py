# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Read and check tables of settings by the fields of dataclasses. Imports no torch.

A field's type hint says what a table may contain, and `number` states the bounds of a number:

    @dataclasses.dataclass(frozen=True)
    class MySection:
        rate: float = number(0.5, above=0)
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import numbers
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from puffervec.contract.native import implied, renamed
from puffervec.errors import ConfigError
from puffervec.train.config import schedules
from puffervec.train.config.schedules import Schedule

Table = Mapping[str, Any]
LONGEST_SHOWN = 200  # Characters of a value in a message.


# ---- numbers -------------------------------------------------------------------------------------


def number(default: float | str, *, least: float | None = None, above: float | None = None) -> Any:
    """Return a dataclass field for a number with a lower bound, which `check_numbers` applies.

    A field of the same name in a derived class keeps the bound.

    Args:
        default: the default value; a text, such as "auto", has no bound.
        least: the smallest allowed value.
        above: a value that the number must exceed.
    """
    bound = {"least": least} if above is None else {"above": above}
    return dataclasses.field(default=default, metadata=bound)


def _bounds_of(kind: type) -> dict[str, Mapping[str, float]]:
    """Return the bounds of a dataclass's numbers by field, with those of its base classes."""
    bounds: dict[str, Mapping[str, float]] = {}
    for part in reversed(kind.__mro__):
        if dataclasses.is_dataclass(part):
            bounds |= {f.name: f.metadata for f in dataclasses.fields(part) if f.metadata}
    return bounds


def check_numbers(path: str, instance: Any) -> None:
    """Raise ConfigError for a number below its bound, or a count that is not a whole number.

    Args:
        path: name of the table, for messages.
        instance: a dataclass instance.
    """
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if field.type in ("int", int) and (
            isinstance(value, bool) or not isinstance(value, numbers.Integral)
        ):
            raise ConfigError(f"{path}.{field.name} is {value!r}: must be a whole number")
    for name, bound in _bounds_of(type(instance)).items():
        value = getattr(instance, name)
        if isinstance(value, str):  # For instance "auto".
            continue
        if "least" in bound and not value >= bound["least"]:
            raise ConfigError(f"{path}.{name} is {value}: must be at least {bound['least']}")
        if "above" in bound and not value > bound["above"]:
            raise ConfigError(f"{path}.{name} is {value}: must be above {bound['above']}")


# ---- tables --------------------------------------------------------------------------------------


_hints = functools.cache(typing.get_type_hints)


def hints_of(instance: Any) -> dict[str, Any]:
    """Return the type of each field of a dataclass instance."""
    kind: Any = type(instance)
    hints: dict[str, Any] = _hints(kind)
    return hints


def replace_from_table(instance: Any, table: Table, path: str) -> Any:
    """Return `instance` (a dataclass) with the table's values, checked against its type hints.

    Values that came from a preset of the instance (`unresolved`) are resolved again, since the
    table may choose another preset. Fields that the table implies (`implied`) are set too.

    Raises: ConfigError: names `path.key`.
    """
    hints = hints_of(instance)
    names = [field.name for field in dataclasses.fields(instance)]
    changes: dict[str, Any] = {}
    for name, value in table.items():
        (key,) = renamed(instance, {str(name).replace("-", "_"): value})
        if key not in names:
            raise ConfigError(f"unknown key {path}.{name}{suggest(key, names)}")
        changes[key] = convert(value, hints[key], f"{path}.{key}")
    unresolved = getattr(instance, "unresolved", {})
    try:
        return dataclasses.replace(
            instance, **{**unresolved, **implied(instance, changes), **changes}
        )
    except (TypeError, ValueError) as error:
        raise (
            error if isinstance(error, ConfigError) else ConfigError(f"[{path}]: {error}")
        ) from error


def suggest(name: str, known: list[str]) -> str:
    """Return `: did you mean X?`, or a list of the known names if none is similar."""
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {close[0]}?" if close else f": known are {', '.join(sorted(known))}"


def table_of(instance: Any) -> dict[str, Any]:
    """Return a dataclass instance as a table of JSON values; see `to_json`."""
    return {
        field.name: to_json(getattr(instance, field.name)) for field in dataclasses.fields(instance)
    }


def to_json(value: Any) -> Any:
    """Return a setting's value as JSON types: paths as text, tuples as lists."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return value


def convert(value: Any, hint: Any, key: str) -> Any:
    """Convert a TOML or JSON value to the type `hint`.

    Nothing is cast silently, except 2 -> 2.0, 1e6 -> 1000000 if no digit is lost, text -> Path and
    list -> tuple.

    Raises: ConfigError: names `key`, the value and what is allowed.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if hint == Schedule:
        return schedules.convert(value, key)
    if origin is Literal:
        if value in arguments and type(value) in {type(a) for a in arguments}:
            return value
    elif origin in (typing.Union, types.UnionType):
        for option in arguments:
            try:
                return convert(value, option, key)
            except ConfigError:
                continue
    elif origin in (tuple, Sequence) and isinstance(value, (list, tuple)):
        fixed = origin is tuple and arguments[1:] != (Ellipsis,)
        items = list(arguments) if fixed else [arguments[0]] * len(value)
        if len(items) == len(value):
            return tuple(convert(v, item, key) for v, item in zip(value, items, strict=True))
    elif hint is type(None) and value is None:
        return None
    elif hint is bool and isinstance(value, bool):
        return value
    elif hint is int and isinstance(value, int) and schedules.is_number(value):
        return value
    elif hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    elif hint is float and schedules.is_number(value):
        return float(value)
    elif hint is str and isinstance(value, str):
        return value
    elif hint is Path and isinstance(value, (str, Path)):
        return Path(value)
    raise ConfigError(f"{key} is {format_value(value)}: must be {describe(hint)}")


def describe(hint: Any) -> str:
    """Describe a type hint in words: `"auto" or an integer`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint == Schedule:
        return "a number or points"
    if origin is Literal:
        return " or ".join(repr(a) for a in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(a) for a in arguments)
    if origin in (tuple, Sequence):
        return f"a list, each item {describe(arguments[0])}"
    words = {
        int: "an integer",
        float: "a number",
        bool: "true or false",
        str: "text",
        Path: "a path",
        type(None): "nothing",
    }
    return words.get(hint, str(hint))


def format_value(value: Any) -> str:
    """Return the repr of a value for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def check_json(settings: Table) -> None:
    """Raise ConfigError unless the settings of a Python env can be saved with a run."""
    for name, value in settings.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            raise ConfigError(
                f"env.{name} is {value!r}: settings are saved with the run, so use numbers, text, "
                "true, false, or lists and tables of these, and bind other objects to the "
                "callable (functools.partial)"
            ) from None
