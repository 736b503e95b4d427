# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The registry of built-in envs: names to the modules that define them, imported when first used."""

from __future__ import annotations

import difflib
import importlib

from puffervec.errors import ConfigError
from puffervec.native import NativeEnv

BUILT_IN = {
    "probe": "puffervec.envs.probe:ENV",
    "tag_grid": "puffervec.envs.tag:ENV",
    "drive": "drive_env.env:ENV",
}


def get(name: str) -> NativeEnv:
    """Return the env of that name.

    Raises:
        ConfigError: an unknown name; the message lists the known ones.
    """
    if name not in BUILT_IN:
        near = difflib.get_close_matches(name, BUILT_IN, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ConfigError(f"no env is called {name!r}{hint}: the envs are {', '.join(BUILT_IN)}")
    module, attribute = BUILT_IN[name].split(":")
    env = getattr(importlib.import_module(module), attribute)
    assert isinstance(env, NativeEnv)
    return env
