# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The C envs: built-in ones, and those of installed packages.

A package adds an env by an entry point in its pyproject.toml that loads to a `puffervec.NativeEnv`:

    [project.entry-points."puffervec.envs"]
    my_env = "my_package:ENV"
"""

from __future__ import annotations

from puffervec.contract.native import NativeEnv
from puffervec.core.registry import Registry

BUILT_IN = {
    "probe": "puffervec.envs.probe:ENV",
    "tag_grid": "puffervec.envs.tag_grid:ENV",
    "tag_continuous": "puffervec.envs.tag_continuous:ENV",
    "covid": "puffervec.envs.covid:ENV",
    "drive": "drive_env.env:ENV",
    "cartpole": "puffervec.envs.cartpole:ENV",
}
_REGISTRY = Registry("puffervec.envs", "env", NativeEnv, BUILT_IN)
names, get = _REGISTRY.names, _REGISTRY.get
