# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Make a compiled env with its settings and read facts about it, such as the numbers of its rows.

The env is made in a forked process (pv_ocean_probe in csrc/contract/pv_ocean_generated.h), so that
one that exits, crashes or hangs there is reported like any other mistake.
"""

from __future__ import annotations

import ctypes
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from puffervec.core.spec import DTYPES
from puffervec.errors import ConfigError

SECONDS = 60  # Time limit for making an env.
_DIMS, _LOGGED, _NAME = 16, 47, 32


class _Facts(ctypes.Structure):
    """`ocean_facts` of pv_ocean_generated.h."""

    _fields_ = (
        ("failed", ctypes.c_int32),
        ("agents", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("numbers", ctypes.c_int32),
        ("dims", ctypes.c_int32),
        ("masked", ctypes.c_int32),
        ("sizes", ctypes.c_int32 * _DIMS),
        ("logged", ctypes.c_int32),
        ("names", ctypes.c_char * _NAME * _LOGGED),
        ("policies", ctypes.c_uint8 * 256),
        ("text", ctypes.c_char * 1024),
    )


@dataclass(frozen=True)
class Facts:
    """The facts that an env reports.

    Attributes:
        agents: number of agents per env (3.0: see the Python class).
        dtype: type of an observation's numbers (3.0: meaningless).
        numbers: how many numbers an observation has (3.0: 0).
        choices: number of choices per dim of an action; if all are 1, actions are continuous (3.0:
            ()).
        masked: whether the env writes action masks.
        log: names of the numbers that the env logs.
        policies: which policy plays each agent (5.0), for at most 256 agents.
    """

    agents: int
    dtype: np.dtype
    numbers: int
    choices: tuple[int, ...]
    masked: bool
    log: tuple[str, ...]
    policies: tuple[int, ...]

    @property
    def continuous(self) -> bool:
        """Whether actions are continuous."""
        return bool(self.choices) and all(size == 1 for size in self.choices)


def probe(name: str, library: Path, params: bytes) -> Facts:
    """Return the facts that an env reports with these settings.

    Args:
        name: name of the env, for messages.
        library: its compiled library.
        params: the env's settings, as `pack_params` returns them.

    Raises:
        ConfigError: the env cannot be made with these settings; the message is the env's own.
    """
    # Opened as env_types.find opens it.
    function = ctypes.CDLL(str(library)).pv_ocean_probe
    aligned = ctypes.create_string_buffer(params)  # C needs an alignment that bytes do not have.
    facts = _Facts()
    ended = function(aligned, ctypes.byref(facts), ctypes.c_uint(SECONDS))
    if ended == signal.SIGALRM:
        raise ConfigError(f"{name}: its init takes longer than {SECONDS} s")
    if ended > 0:
        reason = f"{signal.Signals(ended).name} ({signal.strsignal(ended)})"
        raise ConfigError(f"{name}: its init crashes with {reason}")
    if ended:
        raise ConfigError(f"{name}: its init ended the process, or no process could be started")
    if facts.failed:
        raise ConfigError(f"{name}: {facts.text.decode(errors='replace')}")
    return Facts(
        agents=facts.agents,
        dtype=DTYPES[facts.dtype],
        numbers=facts.numbers,
        choices=tuple(facts.sizes[: facts.dims]),
        masked=bool(facts.masked),
        log=tuple(facts.names[i].value.decode(errors="replace") for i in range(facts.logged)),
        policies=tuple(facts.policies[: facts.agents]),
    )
