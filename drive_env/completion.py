# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What shells complete `puffer-scenes` by: its verbs, and their flags and values as the parser has
them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from drive_env.download import SETS

MEANT = {
    "download": ("set", tuple(SETS))
}  # verb: an argument that has no list of choices, and what it may be


def candidates(words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """Return what the last word may become; nothing where files are meant.

    Args: words: those behind `puffer-scenes`, the last one as far as it is typed; parser: of the
        command line.
    """
    typed, before = (words[-1] if words else ""), list(words[:-1])
    return [found for found in _possible(typed, before, parser) if found.startswith(typed)]


def _possible(typed: str, before: list[str], parser: argparse.ArgumentParser) -> list[str]:
    verbs: dict[str, argparse.ArgumentParser] = next(
        dict(item.choices) for item in parser._actions if item.choices
    )
    if before and before[0] not in verbs:
        return []
    arguments = verbs[before[0]]._actions if before else parser._actions
    if typed.startswith("-"):
        return sorted(
            flag for item in arguments for flag in item.option_strings if flag.startswith("--")
        )
    if not before:
        return list(verbs)
    flag = next(
        (item for item in arguments if before[-1] in item.option_strings and item.nargs != 0), None
    )
    if flag is not None:
        return list(map(str, flag.choices or ()))
    name, meant = MEANT.get(before[0], ("", ()))
    places = [item for item in arguments if not item.option_strings]
    return [
        str(found)
        for item in places
        for found in item.choices or (meant if item.dest == name else ())
    ]
