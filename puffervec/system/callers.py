# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The location of the calling code, which warnings point to."""

from __future__ import annotations

import sys


def caller(*packages: str) -> tuple[str, int]:
    """Return file and line of the innermost caller outside these packages.

    If all callers are inside, return those of the outermost one.
    """
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] in packages:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
