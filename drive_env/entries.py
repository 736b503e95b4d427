# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Parses settings whose text is a list of entries NAME=VALUE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from puffervec.errors import ConfigError


def entries_of(
    setting: str, text: str, what: str, names: Sequence[str], example: str
) -> Iterator[tuple[str, str | None, str]]:
    """Yield (name, value, beginning of an error message) for each entry of a setting.

    Args:
        setting: name of the setting.
        text: entries, divided by spaces or commas; an entry without "=" has the value None.
        what: what the names are, in the plural, for messages.
        names: the allowed names.
        example: a valid text, for messages.

    Raises:
        ConfigError: the setting is not a text, or a name is unknown or occurs twice.
    """
    if not isinstance(text, str):
        raise ConfigError(f'drive: {setting} is {text!r}; it must be text like "{example}"')
    seen = set()
    for entry in text.replace(",", " ").split():
        name, equals, value = entry.partition("=")
        prefix = f"drive: {setting} has {entry!r};"
        if name not in names:
            raise ConfigError(f"{prefix} the {what} are {', '.join(names)}")
        if name in seen:
            raise ConfigError(f"{prefix} {name} occurs twice: name it once")
        seen.add(name)
        yield name, value if equals else None, prefix
