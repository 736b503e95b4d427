# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A griffe extension for the site: the docstrings of this project as Markdown.

Args:                                        **Args**
    rows: how many.                   ->
    mask: (rows,) bool.                      - `rows`: how many.
Raises: ConfigError.                         - `mask`: (rows,) bool.

                                             **Raises:** ConfigError.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

SECTION = re.compile(
    r"^(Args|Attributes|Returns|Raises|Yields|Settings|Methods|Warns)( \([^)]*\))?:(?: (.+))?$"
)
INLINE = re.compile(r"(?<=\.) ((?:Args|Attributes): )")  # A section in the line of a sentence.
NAME = r"\*{0,2}(?!None\b|True\b|False\b|\d)\w[\w.*]*"
NAMES = re.compile(rf"^({NAME}(?:(?:, | and ){NAME})*): ")
SENTENCE = re.compile(rf"(?<=[.;)]) (?=(?:{NAME}, )*{NAME}: )")
LOWER = re.compile(
    r"(?<=[.;)]) (?=(?:[*_a-z][\w.*]*, )*[*_a-z][\w.*]*: )"
)  # "Empty: ..." is not an argument.


class Docstrings(griffe.Extension):
    """The extension: it rewrites all docstrings that are loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Convert a docstring to Markdown."""
    text = INLINE.sub(r"\n\n\1", text)
    lines = (
        textwrap.dedent(text).splitlines() if text.startswith((" ", "\n")) else text.splitlines()
    )
    out: list[str] = []
    at = 0
    while at < len(lines):
        section = SECTION.match(lines[at])
        if lines[at].startswith(">>> "):
            end = _until(lines, at, lambda line: not line.strip())
            out += ["", "```pycon", *lines[at:end], "```", ""]
        elif section:
            end = _until(
                lines, at + 1, lambda line: bool(line.strip()) and not line.startswith(" ")
            )
            body = [section[3] or "", *textwrap.dedent("\n".join(lines[at + 1 : end])).splitlines()]
            out += _section(section[1] + (section[2] or ""), body)
        else:
            end = at + 1
            if (
                lines[at].startswith("    ")
                and out
                and out[-1].strip()
                and not out[-1].startswith("    ")
            ):
                out.append("")  # A block of code or a diagram.
            out.append(lines[at])
        at = end
    return "\n".join(out).strip()


def _until(lines: list[str], at: int, ends: Any) -> int:
    while at < len(lines) and not ends(lines[at]):
        at += 1
    return at


def _section(title: str, body: list[str]) -> list[str]:
    """Return the Markdown of a section.

    Args:
        title: the title.
        body: the text in the line of the title, and the other lines.
    """
    items: list[str] = []
    for line in body:
        if not line.strip():
            continue
        if line.startswith(" ") or (items and not NAMES.match(line)):
            items[-1] = f"{items[-1]} {line.strip()}" if items else line.strip()
        else:
            items.append(line)
    parts = SENTENCE if title == "Raises" else LOWER
    items = [part for item in items for part in parts.split(item)]
    if len(items) == 1 and not NAMES.match(items[0]):
        return ["", f"**{title}:** {items[0].rstrip(';')}", ""]
    return ["", f"**{title}**", "", *(f"- {_format_item(item)}" for item in items), ""]


def _format_item(item: str) -> str:
    match = NAMES.match(item)
    if match is None:
        return item.rstrip(";")
    names = re.sub(
        r"\*{0,2}[\w.*]+", lambda name: name[0] if name[0] == "and" else f"`{name[0]}`", match[1]
    )
    return f"{names}: {item[match.end() :].rstrip(';')}"
