# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The C envs: built-in ones, and those of installed packages.

A package adds an env by an entry point in its pyproject.toml that names a `puffervec.NativeEnv`:

    [project.entry-points."puffervec.envs"]
    my_env = "my_package:ENV"
"""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Any

from puffervec.contract.native import NativeEnv
from puffervec.core.registry import Registry
from puffervec.doors import door

# Each module of this package is an env, except those whose name begins with an underscore; an env
# may also be a package, such as drive.
_MODULES = [module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_"]
BUILT_IN = {name: f"{__name__}.{name}:ENV" for name in _MODULES} | {"drive": "drive_env.env:ENV"}
_REGISTRY = Registry("puffervec.envs", "env", NativeEnv, BUILT_IN)
names = _REGISTRY.names
OCEAN = "ocean:"  # Prefix of the path of a PufferLib env.


def get(name: str) -> NativeEnv:
    """Return the C env with this name, or at this path (`ocean:PATH`).

    Raises:
        ConfigError: as in `Registry.get` and `ocean`.
    """
    return ocean(name.removeprefix(OCEAN)) if name.startswith(OCEAN) else _REGISTRY.get(name)


def ocean(path: str | Path, **settings: Any) -> NativeEnv:
    """Return a C env of PufferLib 3.0, 4.0 or 5.0, compiled from its files as they are.

    Args:
        path: the env's folder, its binding, or its header. The files that it includes decide which
            version of PufferLib it is for.
        **settings: values that replace the defaults of the env's settings, which come from its .ini
            file or its Python class.

    Returns: the env, for `make`; `make("ocean:PATH")` does the same.

    Raises:
        ConfigError: there is no such env, it does not compile (the message has the compiler's first
            error), or it has no such setting.
    """
    made: NativeEnv = door("ocean", "ocean:PATH").env(path, settings)
    return made


def full_name(name: str) -> str:
    """Return the name of an env with an absolute path, so that it means the same everywhere."""
    if not name.startswith(OCEAN):
        return name
    return OCEAN + str(Path(name.removeprefix(OCEAN)).expanduser().absolute())
