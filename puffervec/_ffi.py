# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The compiled core: `ffi` and `lib` as cffi made them from csrc/ (see csrc/build_ffi.py).

PUFFERVEC_BUILD=debug or =sanitize in the environment selects another build, for tests. A core that
was built from other sources than those next to it raises ImportError, since it may lack what Python
calls. Workers do not check the sources, which may have been edited since; they compare their core
with the learner's (worker_main.py).
"""

from __future__ import annotations

import importlib
import os
import sys
import zlib
from pathlib import Path
from typing import Any

BUILDS = {
    "": "`pip install .` (or `python setup.py build_ext --inplace`)",
    "debug": "`make debug`",
    "sanitize": "`make asan` (which also sets the environment that it needs)",
}
PACKAGE = Path(__file__).resolve().parent


def _load(build: str) -> Any:
    """Return the compiled module of a build.

    Raises:
        ImportError: there is no such build, or it is broken or stale; the message says how to make
            it.
    """
    if build not in BUILDS:
        raise ImportError(
            f"PUFFERVEC_BUILD is {build!r}: use 'debug' or 'sanitize', or unset it for the normal "
            "build"
        )
    name = "puffervec._native" + (build and f"_{build}")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:  # a source tree that was never built
        if error.name != name:
            raise
        raise ImportError(
            f"puffervec's C core is not built: run {BUILDS[build]} in the source folder"
        ) from error
    except ImportError as error:
        raise ImportError(
            f"puffervec's C core cannot be loaded ({error}): run {BUILDS[build]} in the source "
            "folder"
        ) from error
    if not _is_worker():
        _check_sources(module, build)
    return module


def _is_worker() -> bool:
    """Return whether multiprocessing has started this process."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _check_sources(module: Any, build: str) -> None:
    """Raise ImportError if the module was built from C sources other than the present ones."""
    built_from = getattr(getattr(module, "lib", None), "PV_SOURCE_CHECK", None)
    expected = (
        _source_check(PACKAGE.parent / "csrc")
        if (PACKAGE.parent / "csrc" / "build_ffi.py").exists()
        else _wheel_check()
    )
    if built_from is None or expected not in (None, built_from):
        raise ImportError(
            f"puffervec's C core {module.__file__} was built from other sources (checksum "
            f"{built_from or 0:#010x}) than those beside it ({expected or 0:#010x}): run "
            f"{BUILDS[build]} again"
        )


def _source_check(folder: Path) -> int:
    """Return a checksum of all C sources; the twin of csrc/build_ffi.py's."""
    check = 0
    for path in sorted([*folder.rglob("*.c"), *folder.rglob("*.h")]):
        check = zlib.crc32(
            path.read_bytes(), zlib.crc32(path.relative_to(folder).as_posix().encode(), check)
        )
    return check


def _wheel_check() -> int | None:
    """Return the checksum that setup.py stored next to the headers of a wheel."""
    try:
        return int((PACKAGE / "include" / "sources.crc32").read_text(), 16)
    except (OSError, ValueError):
        return None


_native = _load(os.environ.get("PUFFERVEC_BUILD", ""))
ffi: Any = _native.ffi
lib: Any = _native.lib
