# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads XML in parts: the children of the root element, one at a time. Runs in helper processes.

A document type is refused, so no entity is expanded and no other file is opened; depth, text and
size are bounded. A part is freed when the next one is read, so parsing a large file takes little
more memory than its bytes.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn
from xml.etree.ElementTree import Element
from xml.parsers import expat

from drive_env.scenes.check import MISSING, Checker
from puffervec.errors import SceneError

MAX_XML_BYTES = 128 << 20  # largest decompressed size of a compressed file
MAX_DEPTH = 64
MAX_ELEMENTS = 2_000_000  # in one part
MAX_TEXT = 1 << 20  # characters in one element
CHUNK_BYTES = 1 << 16
GZIP = b"\x1f\x8b\x08"
# Does not match the count with which a .bin file may begin.
_BEGIN = re.compile(rb"(\xef\xbb\xbf)?\s*<[?!A-Za-z]")


@dataclass(frozen=True)
class Part:
    """The root element without its children, or one of them, and the line where it begins."""

    line: int
    element: Element


def is_xml(data: bytes) -> bool:
    """Return whether a file begins like XML.

    >>> is_xml(b"<?xml version='1.0'?>"), is_xml(b"<" + bytes(7))
    (True, False)
    """
    return _BEGIN.match(data) is not None


def inflate(data: bytes, source: str) -> bytes:
    """Return the decompressed content of a gzip file.

    Raises:
        SceneError: the file is damaged, cut off or too large.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(MAX_XML_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SceneError(f"{source}: a file of gzip that is damaged or cut off: {error}") from error
    if len(content) > MAX_XML_BYTES:
        raise SceneError(f"{source}: expected at most {MAX_XML_BYTES} bytes when decompressed")
    return content


def xml_parts(data: bytes, source: str) -> Iterator[Part]:
    """Yield the root element without its children, then each of its children.

    Texts between elements are skipped.

    Raises:
        SceneError: the data are not XML, are cut off, or exceed the bounds; the message reads
            `source: line: reason`.
    """
    parser = expat.ParserCreate()
    builder = _Builder(parser, source)
    try:
        for begin in range(0, len(data), CHUNK_BYTES):
            parser.Parse(data[begin : begin + CHUNK_BYTES], False)
            yield from builder.take()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise SceneError(
            f"{source}: line {error.lineno}, column {error.offset + 1}: not XML, or cut off: "
            f"{reason}"
        ) from error
    except SceneError:
        raise
    except (LookupError, ValueError) as error:  # an encoding that Python or expat does not have
        raise SceneError(f"{source}: line 1: {error}") from error
    yield from builder.take()


class _Builder:
    """Builds the parts from the events of a parser."""

    def __init__(self, parser: expat.XMLParserType, source: str) -> None:
        self.parser, self.source = parser, source
        self.done: list[Part] = []
        self.open: list[Element] = []
        self.line = self.elements = 0
        parser.buffer_text = True
        parser.buffer_size = CHUNK_BYTES
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.StartDoctypeDeclHandler = self.doctype

    def take(self) -> list[Part]:
        """Return the parts that are complete, and forget them."""
        done, self.done = self.done, []
        return done

    def fail(self, reason: str) -> NoReturn:
        raise SceneError(f"{self.source}: line {self.parser.CurrentLineNumber}: {reason}")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes)
        if len(self.open) == MAX_DEPTH:
            self.fail(f"elements are nested deeper than {MAX_DEPTH}")
        if not self.open:
            self.done.append(Part(self.parser.CurrentLineNumber, element))
        elif len(self.open) == 1:
            self.line, self.elements = self.parser.CurrentLineNumber, 0
        else:
            self.elements += 1
            if self.elements > MAX_ELEMENTS:
                self.fail(f"expected at most {MAX_ELEMENTS} elements in {self.open[1].tag[:40]!r}")
            self.open[-1].append(element)
        self.open.append(element)

    def end(self, tag: str) -> None:
        element = self.open.pop()
        if len(self.open) == 1:
            self.done.append(Part(self.line, element))

    def text(self, text: str) -> None:
        if len(self.open) < 2 or len(self.open[-1]):
            return
        whole = (self.open[-1].text or "") + text
        if len(whole) > MAX_TEXT:
            self.fail(f"expected at most {MAX_TEXT} characters in {self.open[-1].tag[:40]!r}")
        self.open[-1].text = whole

    def doctype(self, *_: object) -> None:
        self.fail("a document type, which may define entities, is not read: remove it")


# ---- values --------------------------------------------------------------------------------------


def child_of(check: Checker, element: Element, tag: str, key: str) -> Element:
    """Return the first child of a name.

    Raises:
        SceneError: there is none.
    """
    child = element.find(tag)
    if child is None:
        check.fail(f"{key}.{tag}" if key else tag, "this element", MISSING)
    return child


def number_of(check: Checker, text: str | None, key: str, default: float | None = None) -> float:
    """Return a finite number from the text of an element or attribute.

    Args:
        default: the number if there is no text; None: there must be one.

    Raises:
        SceneError: there is no text, or it is not such a number.
    """
    if text is None:
        if default is None:
            check.fail(key, "a number", MISSING)
        return default
    try:
        value = float(text)
    except ValueError:
        check.fail(key, "a number", text.strip())
    if not math.isfinite(value):
        check.fail(key, "a finite number", value)
    return value


def whole_of(check: Checker, text: str | None, key: str) -> int:
    """Return a whole number of at most 32 bits from the text of an element or attribute.

    Raises:
        SceneError: there is no text, or it is not such a number.
    """
    value = number_of(check, text, key)
    if value != int(value):
        check.fail(key, "a whole number", value)
    return check.integer(int(value), key)
