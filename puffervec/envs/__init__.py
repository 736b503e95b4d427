# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The C envs: built-in ones, and those of installed packages.

A package adds an env by an entry point in its pyproject.toml that loads to a `puffervec.NativeEnv`:

    [project.entry-points."puffervec.envs"]
    my_env = "my_package:ENV"
"""

from __future__ import annotations

import pkgutil

from puffervec.contract.native import NativeEnv
from puffervec.core.registry import Registry

# Each module of this package is an env, except for those with an underscore; drive is a package.
_MODULES = [module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_"]
BUILT_IN = {name: f"{__name__}.{name}:ENV" for name in _MODULES} | {"drive": "drive_env.env:ENV"}
_REGISTRY = Registry("puffervec.envs", "env", NativeEnv, BUILT_IN)
names, get = _REGISTRY.names, _REGISTRY.get
