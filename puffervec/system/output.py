# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Output whose failure never ends a run.

A full disk, a closed pipe or a closed terminal costs the output, not the training. The output may
come from an untrusted run folder, so characters that a terminal would act on are shown as escapes.
Runs in the learner, and in workers for the output of Python envs.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO, cast


class Steady:
    """A text stream whose writes do not fail.

    What cannot be written is dropped; later writes are tried again.

    Attributes:
        lost: the error of the last failed write; None if none has failed.
    """

    def __init__(self, stream: Any) -> None:
        """Wrap a stream.

        Args:
            stream: a text file; None, as Python has it if the descriptor was closed, discards
                everything.
        """
        self._stream = io.TextIOBase() if stream is None else stream
        self.lost: Exception | None = None

    def write(self, text: str) -> int:
        with self._dropping():
            try:
                self._stream.write(text)
            except UnicodeEncodeError as error:  # the terminal's encoding lacks these characters
                self._stream.write(
                    text.encode(error.encoding, "backslashreplace").decode(error.encoding)
                )
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._dropping():
            self._stream.flush()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal that still exists."""
        try:
            return bool(self._stream.isatty())
        except (OSError, ValueError):
            return False

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the stream."""
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: the file is closed
            self.lost = error


def steady(stream: Any) -> TextIO:
    """Return a stream whose writes do not fail."""
    return cast(TextIO, stream if isinstance(stream, Steady) else Steady(stream))


@contextlib.contextmanager
def steady_output() -> Iterator[Steady]:
    """Make writes to standard output and standard error safe in the block; yield standard output.

    Afterwards the buffers hold nothing that Python would fail to write when it exits, since such a
    failure would change the exit code.
    """
    # A closed descriptor would be reused for the next file, which would then get the output.
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    before = sys.stdout, sys.stderr
    out, err = Steady(sys.stdout), Steady(sys.stderr)
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before
        for stream in (out, err):
            stream.flush()
            if stream.lost is not None:
                _empty(stream)


def _empty(stream: Steady) -> None:
    """Discard what is left in the stream's buffer."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = stream.fileno()
        kept, nowhere = os.dup(descriptor), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        stream.flush()
        os.dup2(kept, descriptor)
        os.close(nowhere)
        os.close(kept)


def printable(text: str) -> str:
    r"""Return a text with escapes instead of control characters, except for ends of lines.

    >>> printable("a\x1b]0;title\x07b")
    'a\\x1b]0;title\\x07b'
    """
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def one_line(text: str) -> str:
    r"""Return a text as `printable` does, with escapes for ends of lines too.

    >>> one_line("a\nb")
    'a\\nb'
    """
    return printable(text).replace("\n", "\\n")


def table_lines(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows of text with aligned columns.

    The first column is left-aligned, the others are right-aligned.
    """
    rows = [tuple(map(one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    ]
