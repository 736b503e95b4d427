# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The compiled core: `ffi` and `lib` as cffi made them from csrc/ (see csrc/build_ffi.py)."""

from __future__ import annotations

from typing import Any

try:
    import puffervec._native as _native  # type: ignore[import-not-found,unused-ignore]
except ImportError as error:  # a source tree that was never built
    raise ImportError(
        "puffervec's C core is not built: run `pip install .` (or `python setup.py build_ext --inplace`) in the source folder"
    ) from error

ffi: Any = _native.ffi
lib: Any = _native.lib
