# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Lookup of an env type's C table, in the core or in a shared library of another package.

Learner and workers use it. A library of another package is a plain shared library that exports
`const pv_env_type pv_env_type_<name>` (csrc/contract/pv_env.h); it does not use Python's C
interface. The setup.py of such a package gets headers and compiler flags from here too.

Imports neither NumPy nor the core at the top: workers import this, and so do builds.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from puffervec.errors import ConfigError

SYMBOL = "pv_env_type_"
# As the core is compiled (csrc/build_ffi.py): no fused operations, so that all machines compute the
# same bits.
_COMPILE_ARGS = (
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
)
_DEBUG_ARGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-inline", "-DPV_DEBUG")
# Without this, C assumes that an undeclared function returns int, and the error only shows when the
# library is loaded.
_LANGUAGE_ARGS = {
    "c": ("-std=gnu11", "-Werror=implicit-function-declaration"),
    "c++": ("-std=gnu++20",),
}


def get_include() -> str:
    """Return the folder of the public C headers, for `include_dirs` in a setup.py.

    The headers are `pv_env.h` and `pv_ocean.h`; those in `ocean/` stand in for PufferLib's.

    Raises:
        ConfigError: this installation has no headers.
    """
    package = Path(__file__).resolve().parent.parent
    # The first is for a wheel, the second for an editable install.
    for folder in (package / "include", package.parent / "csrc" / "contract"):
        if (folder / "pv_env.h").exists():
            return str(folder)
    raise ConfigError(f"there are no C headers next to {package}: reinstall puffervec")


def compile_args(language: str = "c") -> list[str]:
    """Return the compiler flags for env types, for `extra_compile_args` in a setup.py.

    They optimize, and results have the same bits on all machines. With PUFFERVEC_DEBUG in the
    environment they suit a debugger and compile PV_ASSERT in; results keep the same bits.

    Args:
        language: "c" or "c++".

    Raises:
        ConfigError: another language.
    """
    if language not in _LANGUAGE_ARGS:
        raise ConfigError(f"language is {language!r}: use 'c' or 'c++'")
    optimized = _DEBUG_ARGS if os.environ.get("PUFFERVEC_DEBUG") else ("-O3",)
    return [*_LANGUAGE_ARGS[language], *optimized, *_COMPILE_ARGS]


def locate(library: str) -> str:
    """Return the path of a shared library.

    Args:
        library: a path, or the dotted name of an extension module ("my_package._core"). The module
            itself is not imported, so it need not be a Python module at all; its parent packages
            are.

    Raises:
        ConfigError: there is no such library; the message says where it was searched.
    """
    if "/" in library:
        if not Path(library).is_file():
            raise ConfigError(
                f"the library {library!r} is not a file: build it, or correct the path"
            )
        return library
    try:
        found = importlib.util.find_spec(library)
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"the library {library!r} cannot be found: {error}: is its package installed?"
        ) from None
    if found is None or found.origin is None or not Path(found.origin).is_file():
        package = sys.modules.get(library.rpartition(".")[0])
        where = f" in {', '.join(package.__path__)}" if package is not None else ""
        raise ConfigError(
            f"no file of the library {library!r} was found{where}: install its package (pip "
            "install -e where this is its source folder, which hides an installed package), or "
            "give the path of the file"
        )
    return found.origin


def find(name: str, library: str | None = None) -> Any:
    """Return the C table `const pv_env_type*` of an env type.

    Args:
        name: name of the type, as in its table.
        library: None for a type of the core; else a path, or what `locate` takes.

    Returns:
        a cffi pointer, valid for the life of the process: libraries are not closed.

    Raises:
        ConfigError: no such type or library, or one that was built against other headers.
    """
    from puffervec._ffi import ffi, lib

    if library is not None:
        return _check(name, library, _table(name, locate(library)))
    found = lib.pv_env_find(name.encode())
    if found == ffi.NULL:
        raise ConfigError(
            f"the C core has no env type {name!r}: rebuild it, or check csrc/envs/env_list.h"
        )
    return found


@functools.cache
def _open(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise ConfigError(
            f"the library {path} cannot be loaded: {error}: rebuild its package"
        ) from None


def _table(name: str, path: str) -> int:
    """Return the address of a library's table."""
    symbol, library = SYMBOL + name, _open(path)
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(library, symbol))
    except ValueError:  # ctypes found no such symbol
        raise ConfigError(
            f"the library {path} exports no {symbol}: begin the table with PV_ENV_TYPE({name})"
        ) from None


def _check(name: str, library: str, address: int) -> Any:
    """Return the table at `address` after checking its ABI number, size and name.

    The first two numbers determine the layout of the rest.
    """
    from puffervec._ffi import ffi, lib

    abi, size = ctypes.c_uint32 * 2, ffi.sizeof("pv_env_type")
    found = tuple(abi.from_address(address))
    if found != (lib.PV_ABI, size):
        raise ConfigError(
            f"the env type {name!r} of {library} was built against puffervec headers of ABI "
            f"{found[0]} ({found[1]} bytes), and this puffervec has ABI {lib.PV_ABI} ({size} "
            "bytes): rebuild the env's package (pip install --force-reinstall)"
        )
    table = ffi.cast("const pv_env_type*", address)
    called = ffi.string(table.name).decode(errors="replace")
    if called != name:
        raise ConfigError(
            f"the table {SYMBOL}{name} of {library} is called {called!r}: use the same name for "
            "its .name and its symbol"
        )
    return table
