# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A registry of named things that are built in, or that installed packages add by entry points.

Each thing is imported when it is first requested.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Generic, TypeVar

from puffervec.errors import ConfigError

T = TypeVar("T")


class Registry(Generic[T]):
    """The registry of one kind of thing, such as envs or algorithms."""

    def __init__(self, group: str, what: str, kind: type[T], built_in: Mapping[str, str]) -> None:
        """Create the registry.

        Args:
            group: name of the entry-point group.
            what: noun for messages.
            kind: type that an entry point must load to.
            built_in: "module:ATTRIBUTE" by name.
        """
        self.group, self.what, self.kind, self.built_in = group, what, kind, built_in

    def names(self) -> list[str]:
        """Return all names, the built-in ones first, without loading anything."""
        found = {entry.name for entry in entry_points(group=self.group)}
        return [*self.built_in, *sorted(found - set(self.built_in))]

    def get(self, name: str) -> T:
        """Return the thing with this name.

        Raises:
            ConfigError: an unknown name (the message lists the known ones), a name that two
                packages claim, or an entry point that cannot be loaded (the message names its
                package).
        """
        entries = self._entries_of(name)
        if not entries and name not in self.built_in:  # it may have been installed meanwhile
            _entries.cache_clear()
            entries = self._entries_of(name)
        claims = [f"{self.built_in[name]} of puffervec"] if name in self.built_in else []
        claims += [_origin(entry) for entry in entries]
        if len(claims) > 1:
            who = " and ".join(claims)
            raise ConfigError(
                f"{len(claims)} {self.what}s are called {name!r}: {who}: uninstall one, or rename "
                "its entry point"
            )
        if entries:
            return self._load(entries[0])
        if name not in self.built_in:
            known = self.names()
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigError(
                f"no {self.what} is called {name!r}{hint}: the {self.what}s are {', '.join(known)}"
            )
        module, attribute = self.built_in[name].split(":")
        made = getattr(importlib.import_module(module), attribute)
        assert isinstance(made, self.kind)
        return made

    def _entries_of(self, name: str) -> tuple[EntryPoint, ...]:
        return tuple(_entries(self.group, tuple(sys.path)).select(name=name))

    def _load(self, entry: EntryPoint) -> T:
        """Return what an entry point loads to.

        Any exception of the package is reported with the package's name, since it is third-party
        code.
        """
        who = f"{self.what} {entry.name!r} ({_origin(entry)})"
        try:
            made = entry.load()
        except Exception as error:
            raise ConfigError(
                f"{who} cannot be loaded: {type(error).__name__}: {error}: fix or uninstall that "
                "package"
            ) from error
        if not isinstance(made, self.kind):
            raise ConfigError(
                f"{who} is {made!r}: its entry point must load to {self.kind.__name__}"
            )
        return made


@functools.lru_cache(maxsize=16)
def _entries(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of the distributions on `path`, which is sys.path.

    Reading them all takes 10 ms, hence the cache.
    """
    return entry_points(group=group)


def _origin(entry: EntryPoint) -> str:
    """Describe an entry point and its distribution for messages."""
    distribution = (
        f"{entry.dist.name} {entry.dist.version}"
        if entry.dist is not None
        else "a package without metadata"
    )
    return f"{entry.value} of {distribution}"
