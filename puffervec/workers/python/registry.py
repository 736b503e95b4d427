# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Copies of the learner's Gymnasium registry for its workers.

With a copy, `gymnasium.make(id)` works in workers as it does in the script. Most specs are plain
data and are sent unchanged. Specs with functions, classes or other objects get a proxy that
unpickles them when an env is made, so workers do not import the modules of envs that are not used.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Mapping
from typing import Any

from gymnasium.envs.registration import EnvSpec, load_env_creator, registry

from puffervec.errors import ConfigError
from puffervec.workers.python import travel

_PLAIN = (str, int, float, bool, type(None))


def packed() -> bytes:
    """Return the registry of this process as bytes for `adopt`."""
    return travel.dumps([_sendable(spec) for spec in registry.values()])


def adopt(data: bytes) -> None:
    """Register the specs that `packed` returned in the learner, replacing existing ids."""
    # A module that registers its envs on import will find them registered already; this may be as
    # late as when the first of them is made.
    warnings.filterwarnings(
        "ignore", ".*Overriding environment .* already in registry", UserWarning
    )
    registry.update({spec.id: spec for spec in travel.loads(data)})


class EntryPointProxy:
    """Replaces an entry point that is not a string, or that has arguments other than plain data."""

    def __init__(self, env_id: str, packed: bytes, problem: str) -> None:
        """Store the spec.

        Args:
            env_id: the id of the env.
            packed: the spec, for `travel.loads`; empty if it cannot be sent.
            problem: the reason why the spec cannot be sent, or "".
        """
        self.env_id, self.packed, self.problem = env_id, packed, problem

    @functools.cached_property
    def _real(self) -> EnvSpec:
        if self.problem:
            raise ConfigError(
                f"the env {self.env_id!r} cannot be made in a worker: its registered spec cannot "
                f"be pickled ({self.problem}): register an entry point such as 'module:Class', or "
                "use backend='serial'"
            )
        spec: EnvSpec = travel.loads(self.packed)
        return spec

    @functools.cached_property
    def _creator(self) -> Any:
        entry_point = self._real.entry_point
        return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point

    def __call__(self, **kwargs: Any) -> Any:
        creator = self._creator
        return creator(**{**self._real.kwargs, **kwargs})

    def __getattr__(self, name: str) -> Any:
        """Return the metadata of the env's class for Gymnasium, if it has any."""
        if name != "metadata" or self.problem:
            raise AttributeError(name)
        return self._creator.metadata


def _sendable(spec: EnvSpec) -> EnvSpec:
    """Return the spec itself, or a copy with a proxy."""
    if (
        _is_entry(spec.entry_point)
        and _is_entry(spec.vector_entry_point)
        and _is_plain(spec.kwargs)
        and _is_plain_wrapped(spec)
    ):
        return spec
    try:
        stand = EntryPointProxy(spec.id, travel.dumps(spec), "")
        wrappers = spec.additional_wrappers
    except Exception as error:
        stand, wrappers = EntryPointProxy(spec.id, b"", f"{type(error).__name__}: {error}"), ()
    return dataclasses.replace(
        spec, entry_point=stand, vector_entry_point=None, kwargs={}, additional_wrappers=wrappers
    )


def _is_plain_wrapped(spec: EnvSpec) -> bool:
    return all(
        _is_entry(wrapper.entry_point) and _is_plain(wrapper.kwargs)
        for wrapper in spec.additional_wrappers
    )


def _is_entry(entry_point: Any) -> bool:
    """Return whether every process can import the entry point by its name."""
    return entry_point is None or (
        isinstance(entry_point, str) and entry_point.partition(":")[0] not in travel.MAIN_MODULES
    )


def _is_plain(value: Any) -> bool:
    """Return whether the value is made of numbers, texts, lists and dicts."""
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    return all(map(_is_plain, value)) if isinstance(value, (list, tuple)) else type(value) in _PLAIN
