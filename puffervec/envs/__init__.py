# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The registry of C envs: the built-in ones and those of installed packages. Each is imported when it is first used.

A package adds an env by an entry point in its pyproject.toml that loads to a `puffervec.NativeEnv`:

    [project.entry-points."puffervec.envs"]
    my_env = "my_package:ENV"
"""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import EntryPoint, entry_points

from puffervec.errors import ConfigError
from puffervec.native import NativeEnv

GROUP = "puffervec.envs"
BUILT_IN = {
    "probe": "puffervec.envs.probe:ENV",
    "tag_grid": "puffervec.envs.tag:ENV",
    "drive": "drive_env.env:ENV",
    "cartpole": "puffervec.envs.cartpole:ENV",
}


def names() -> list[str]:
    """Return the names of all envs, the built-in ones first. Loads none of them."""
    found = {entry.name for entry in entry_points(group=GROUP)}
    return [*BUILT_IN, *sorted(found - set(BUILT_IN))]


def get(name: str) -> NativeEnv:
    """Return the env of that name.

    Raises:
        ConfigError: an unknown name (the message lists the known ones), a name that two packages claim, or an env of another
            package that cannot be loaded (the message names the package).
    """
    entries = tuple(entry_points(group=GROUP, name=name))
    claims = [f"{BUILT_IN[name]} of puffervec"] if name in BUILT_IN else []
    claims += [_origin(entry) for entry in entries]
    if len(claims) > 1:
        who = " and ".join(claims)
        raise ConfigError(f"{len(claims)} envs are called {name!r}: {who}: uninstall one, or rename its entry point")
    if entries:
        return _load(entries[0])
    if name not in BUILT_IN:
        known = names()
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ConfigError(f"no env is called {name!r}{hint}: the envs are {', '.join(known)}")
    module, attribute = BUILT_IN[name].split(":")
    env = getattr(importlib.import_module(module), attribute)
    assert isinstance(env, NativeEnv)
    return env


def _origin(entry: EntryPoint) -> str:
    """Return an entry point and its distribution in words."""
    distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package without metadata"
    return f"{entry.value} of {distribution}"


def _load(entry: EntryPoint) -> NativeEnv:
    """Return what an entry point loads to. Its package is another's code: whatever it raises is reported with its name."""
    who = f"env {entry.name!r} ({_origin(entry)})"
    try:
        env = entry.load()
    except Exception as error:
        raise ConfigError(f"{who} cannot be loaded: {type(error).__name__}: {error}: fix or uninstall that package") from error
    if not isinstance(env, NativeEnv):
        raise ConfigError(f"{who} is {env!r}: its entry point must load to a puffervec.NativeEnv")
    return env
