# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Separate global generators, `np.random` and `random`, for each Python env of a process.

Otherwise the envs of a worker would draw from the same two generators, and rows would depend on the
number of workers. An env's reset seeds its own generators, as `np.random.seed(seed)` and
`random.seed(seed)` would. Envs that do not draw cost nothing, since nothing happens before a draw:

    np.random.rand()     takes its generator's lock, which this module replaces: if the current env
                         is not the one that drew last, the lock swaps states
    random.random()      calls the one instance behind the module's functions, whose class this
                         module replaces: it passes the call on to the env's generator

Outside a turn both modules use the process's own generators, as before.
"""

from __future__ import annotations

import ctypes
import hashlib
import random
import threading
from typing import Any

import numpy as np
from numpy.random import mtrand


class EnvGenerators:
    """The global generators of the envs of one block."""

    def __init__(self, at: memoryview, entropy: int) -> None:
        """Start without any generator.

        Args:
            at: (1,) uint32, index of the current env.
            entropy: seed for envs without a seed.
        """
        self.at, self._entropy = at, entropy
        self._seeds: dict[int, int] = {}
        self.of_numpy: dict[int, Any] = {}  # states of np.random by env
        self._of_random: dict[int, random.Random] = {}

    def seed(self, env: int, seed: int) -> None:
        """Restart the generators of an env.

        Args:
            env: index of the env.
            seed: at least 0.
        """
        self._seeds[env] = seed
        self.of_numpy.pop(env, None)
        self._of_random.pop(env, None)
        _forget(self, env)

    def first_state(self, env: int) -> Any:
        """Return the state of np.random with which an env begins."""
        seed = self._seeds.get(env)
        words = [self._entropy, env] if seed is None else [seed & 0xFFFFFFFF, seed >> 32]
        made = np.random.RandomState(words[0] if seed is not None and not words[1] else words)
        return made.get_state(legacy=False)

    def random(self) -> random.Random:
        """Return the replacement of the `random` module for the current env."""
        env = self.at[0]
        found = self._of_random.get(env)
        if found is None:
            seed = self._seeds.get(env)
            self._of_random[env] = found = random.Random(
                seed if seed is not None else (self._entropy << 32) + env
            )
        return found


def entropy(number: int) -> int:
    """Return 32 bits derived from `number` and the state of np.random, without drawing from it.

    So envs without a seed are reproducible if the script has called np.random.seed; otherwise they
    differ from run to run.
    """
    state: Any = np.random.get_state(legacy=False)["state"]
    text = (
        state["key"].tobytes() + f"{state['pos']} {number}".encode()
        if "key" in state
        else repr((state, number)).encode()
    )
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "little")


# ---- the current generators ----------------------------------------------------------------------


class _Now:
    """The generators that are currently the global ones; None for the process's own."""

    __slots__ = ("generators",)

    def __init__(self) -> None:
        self.generators: EnvGenerators | None = None


now = _Now()  # written before and after each turn; a plain attribute, which saves a call

# ---- np.random -----------------------------------------------------------------------------------

# Owner of the state that np.random holds: (generators, env); (None, 0) for the process's own; None
# if the owner is an env that was seeded since, which makes the state obsolete.
_holder: tuple[EnvGenerators | None, int] | None = (None, 0)
_outside: Any = None  # the process's own state while np.random holds that of an env
_swapping = False
_STATE_BYTES = 625 * 4  # mt19937_state: uint32 key[624]; int pos


def _forget(generators: EnvGenerators, env: int) -> None:
    global _holder
    if _holder == (generators, env):
        _holder = None


def _swap_in() -> None:
    """Give np.random the state of the current env, or the process's own."""
    global _holder, _outside, _swapping
    coming = now.generators
    wanted = (None, 0) if coming is None else (coming, coming.at[0])
    if wanted == _holder or _swapping:
        return
    _swapping = True  # the calls below take the lock too
    try:
        if _holder is not None:
            state, (generators, env) = np.random.get_state(legacy=False), _holder
            if generators is None:
                _outside = state
            else:
                generators.of_numpy[env] = state
        if coming is None:
            np.random.set_state(_outside)
        else:
            env = coming.at[0]
            np.random.set_state(coming.of_numpy.pop(env, None) or coming.first_state(env))
        _holder = wanted
    finally:
        _swapping = False


class _Lock:
    """The lock of a bit generator, which every draw takes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()
        _swap_in()

    def __exit__(self, *raised: Any) -> None:
        self._lock.release()


class MT19937(np.random.MT19937):
    """A bit generator with the name of NumPy's class, since states contain that name."""

    lock = _Lock()  # type: ignore[assignment]

    def _legacy_seeding(self, seed: Any) -> None:
        _swap_in()
        super()._legacy_seeding(seed)

    @property
    def state(self) -> Any:
        """The state of the current env.

        While states are swapped it is raw bytes, since making NumPy's own form takes 50 us.
        """
        if _swapping:
            return {
                "bit_generator": "MT19937",
                "state": ctypes.string_at(self.ctypes.state_address, _STATE_BYTES),
            }
        _swap_in()
        return super().state

    @state.setter
    def state(self, value: Any) -> None:
        if _swapping and isinstance(value["state"], bytes):
            ctypes.memmove(self.ctypes.state_address, value["state"], _STATE_BYTES)
            return
        _swap_in()
        np.random.MT19937.state.__set__(self, value)  # type: ignore[attr-defined]


# ---- random --------------------------------------------------------------------------------------


class _Shared(random.Random):
    """The class of the one instance behind the functions of the `random` module."""

    def random(self) -> float:
        return super().random() if now.generators is None else now.generators.random().random()

    def getrandbits(self, k: int, /) -> int:
        return (
            super().getrandbits(k)
            if now.generators is None
            else now.generators.random().getrandbits(k)
        )

    def seed(self, *args: Any, **kwargs: Any) -> None:
        super().seed(*args, **kwargs) if now.generators is None else now.generators.random().seed(
            *args, **kwargs
        )

    def getstate(self) -> Any:
        return super().getstate() if now.generators is None else now.generators.random().getstate()

    def setstate(self, state: Any) -> None:
        super().setstate(state) if now.generators is None else now.generators.random().setstate(
            state
        )

    @property
    def gauss_next(self) -> Any:
        """The second of two normal numbers, which are made in pairs."""
        return vars(self if now.generators is None else now.generators.random())["gauss_next"]

    @gauss_next.setter
    def gauss_next(self, value: Any) -> None:
        vars(self if now.generators is None else now.generators.random())["gauss_next"] = value


def _rebind() -> None:
    """Rebind the functions of the `random` module to its instance in its current class."""
    instance: Any = random._inst
    for name, function in list(vars(random).items()):
        if getattr(function, "__self__", None) is instance:
            setattr(random, name, getattr(instance, name))


# ---- for as long as there are envs ---------------------------------------------------------------

_blocks = 0
_own: Any = None  # the bit generator of np.random


def install() -> None:
    """Install both generators; call it once per block.

    np.random is left alone if the user has given it another kind of generator.
    """
    global _blocks, _own, _holder
    _blocks += 1
    if _blocks > 1:
        return
    found = mtrand.get_bit_generator()
    if type(found) is np.random.MT19937:
        _own, _holder, state = found, (None, 0), np.random.get_state(legacy=False)
        mtrand.set_bit_generator(MT19937(0))
        np.random.set_state(state)
    random._inst.__class__ = _Shared
    _rebind()


def remove() -> None:
    """Restore both generators when the last block is closed; call it once per block."""
    global _blocks, _own
    _blocks -= 1
    if _blocks:
        return
    if _own is not None and type(mtrand.get_bit_generator()) is MT19937:
        state = np.random.get_state(legacy=False)
        mtrand.set_bit_generator(_own)
        np.random.set_state(state)
    _own = None
    random._inst.__class__ = random.Random
    _rebind()
