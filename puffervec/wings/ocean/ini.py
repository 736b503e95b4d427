# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The .ini files of PufferLib: reads sections of keys with texts, and converts texts to values."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from puffervec.errors import ConfigError

Sections = dict[str, dict[str, str]]
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_QUOTED = re.compile(r"""("[^"]*"|'[^']*')|[#;].*""")


def read(path: Path) -> Sections:
    """Return the texts of an .ini file by section and key, without comments and quotes.

    Raises:
        ConfigError: the file cannot be read, or a line is neither a section nor a setting.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    sections: Sections = {}
    current: dict[str, str] | None = None
    last = ""
    for number, line in enumerate(lines, 1):
        text = _QUOTED.sub(lambda match: match[1] or "", line).strip()
        if not text:
            continue
        if text[0] == "[" and text[-1] == "]" and "=" not in text:
            current = sections.setdefault(text[1:-1].strip(), {})
            last = ""
            continue
        key, equals, value = text.partition("=")
        if last and current is not None and line[:1].isspace() and not equals:
            current[last] += f" {text}"  # The value continues on this line.
            continue
        if current is None or not equals or not key.strip():
            raise ConfigError(f"{path}:{number}: {text!r} must be [section] or key = value")
        last = key.strip()
        current[last] = _unquoted(value.strip())
    return sections


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def over(
    base: Mapping[str, Mapping[str, str]], changes: Mapping[str, Mapping[str, str]]
) -> Sections:
    """Return the sections of `base`, with the keys of `changes` added or replaced."""
    return {name: {**base.get(name, {}), **changes.get(name, {})} for name in {**base, **changes}}


def value_of(text: str) -> Any:
    """Convert a text to its value: a boolean, a number, a tuple of values, or the text itself.

    >>> value_of("True"), value_of("90_000"), value_of("1e-3"), value_of("4, 5.5"), value_of("auto")
    (True, 90000, 0.001, (4, 5.5), 'auto')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    plain = text.replace("_", "")
    if _NUMBER.fullmatch(plain):
        return int(plain) if re.fullmatch(r"[+-]?\d+", plain) else float(plain)
    if text[:1] in ("[", "("):
        with contextlib.suppress(ValueError, SyntaxError):
            return tuple(ast.literal_eval(text))
    if "," in text:
        parts = [value_of(part.strip()) for part in text.split(",") if part.strip()]
        if parts and not any(isinstance(part, (str, tuple)) for part in parts):
            return tuple(parts)
    return text
