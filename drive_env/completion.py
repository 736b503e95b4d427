# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Complete the command line of `puffer-scenes`: verbs, flags and values."""

from __future__ import annotations

from collections.abc import Sequence

from drive_env.download import SETS
from puffervec.system.arguments import Parser

# By verb: an argument for which the parser has no list of choices, and the values to suggest.
SUGGESTIONS = {"download": ("set", tuple(SETS))}


def candidates(words: Sequence[str], parser: Parser) -> list[str]:
    """Return the completions of the last word; an empty list if it is a file name.

    Args:
        words: the words after `puffer-scenes`, the last one possibly incomplete.
        parser: parser of the command line.
    """
    typed, before = (words[-1] if words else ""), list(words[:-1])
    return [word for word in _list_words(typed, before, parser) if word.startswith(typed)]


def _list_words(typed: str, before: list[str], parser: Parser) -> list[str]:
    verbs: dict[str, Parser] = next(dict(item.choices) for item in parser._actions if item.choices)
    if before and before[0] not in verbs:
        return []
    parser = verbs[before[0]] if before else parser
    if typed.startswith("-"):
        return parser.long_flags()
    if not before:
        return list(verbs)
    flag = parser.action_of(before[-1])
    if flag is not None and flag.nargs != 0:
        return list(map(str, flag.choices or ()))
    name, values = SUGGESTIONS.get(before[0], ("", ()))
    places = [item for item in parser._actions if not item.option_strings]
    return [
        str(value)
        for item in places
        for value in item.choices or (values if item.dest == name else ())
    ]
