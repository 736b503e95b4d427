# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Commands that are shown for people to copy: quoted for a shell, and not torn apart by a narrow terminal."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence

INDENT = 2


def print_command(*words: object) -> None:
    """Print a command of `puffer-train`. On a terminal, where it is too narrow, over several lines that end in a backslash, so
    that what is copied from the screen runs; elsewhere in one line."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(*in_lines([str(word) for word in words], width), sep="\n")


def in_lines(words: Sequence[str], width: int | None) -> list[str]:
    """Return a command in lines of at most `width` characters, None: in one; a flag stays with its value.

    >>> in_lines(["puffer-train", "eval", "runs/my run", "--png", "scene.png"], 40)
    ["  puffer-train eval 'runs/my run' \\\\", '    --png scene.png']
    """
    parts: list[str] = []
    for word in map(shlex.quote, words):
        if parts and parts[-1].startswith("--") and " " not in parts[-1] and not word.startswith("--"):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    lines = [" " * INDENT + parts[0]]
    for part in parts[1:]:
        if width is not None and len(lines[-1]) + len(part) + 1 > width - 2 and lines[-1].strip() != parts[0]:
            lines[-1] += " \\"
            lines.append(" " * 2 * INDENT + part)
        else:
            lines[-1] += f" {part}"
    return lines
