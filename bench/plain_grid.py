# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""tag_grid as a plain C loop (plain_tag.c), for comparison in bench/tag.py.

It is compiled with the flags of the package.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.workloads import Workload, on_one_core
from puffervec.contract.env_types import compile_args
from puffervec.envs.tag_grid import ENV, TagGridConfig
from puffervec.errors import PuffervecError

SOURCE = Path(__file__).with_name("plain_tag.c")
_INTEGERS = ("envs", "taggers", "grid_length", "episode_length", "full")
_FLOATS = ("wall_hit_penalty", "tag_reward", "tag_penalty", "step_cost")
_ARRAYS = ("each", "cells", "observations", "rewards", "dones")


class _Game(ctypes.Structure):
    """`plain_tag` of plain_tag.c."""

    _fields_ = (
        *((name, ctypes.c_int) for name in _INTEGERS),
        *((name, ctypes.c_float) for name in _FLOATS),
        *((name, ctypes.c_void_p) for name in _ARRAYS),
    )


def compiled(source: Path) -> ctypes.CDLL:
    """Compile and load a plain loop. Raises: PuffervecError where there is no compiler."""
    with tempfile.TemporaryDirectory(prefix="puffervec-bench-") as folder:
        target = Path(folder) / "plain.so"
        flags = ["-shared", "-fPIC", *compile_args(), "-fvisibility=default"]
        command = [os.environ.get("CC", "cc"), *flags, str(source), "-o", str(target), "-lm"]
        try:
            subprocess.run(command, check=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            raise PuffervecError(
                f"{source.name} cannot be compiled ({error}): is there a C compiler, or one in CC?"
            ) from None
        return ctypes.CDLL(str(target))


@cache
def library() -> ctypes.CDLL:
    """Return the loop. Raises: PuffervecError where there is no compiler."""
    found = compiled(SOURCE)
    found.plain_tag_steps.restype = ctypes.c_double
    return found


class PlainGame:
    """Envs of the plain loop, at the start of their first episode.

    Attributes:
        observations: (rows, floats) float32. rewards: (rows,) float32. dones: (rows,) uint8. They
            alias the loop's memory.
    """

    def __init__(self, game: _Game, rows: int, floats: int) -> None:
        self._game = game

        def view(name: str, kind: Any, *shape: int) -> np.ndarray:
            return np.ctypeslib.as_array(
                ctypes.cast(getattr(game, name), ctypes.POINTER(kind)), shape
            )

        self.observations = view("observations", ctypes.c_float, rows, floats)
        self.rewards, self.dones = (
            view("rewards", ctypes.c_float, rows),
            view("dones", ctypes.c_uint8, rows),
        )

    def play(self, actions: np.ndarray, steps: int) -> float:
        """Take `steps` steps of all envs, actions (batches, rows) int32 in turn, and return the
        seconds it took.
        """
        pointer = ctypes.c_void_p(actions.ctypes.data)
        return float(
            library().plain_tag_steps(ctypes.byref(self._game), pointer, len(actions), steps)
        )


@contextmanager
def plain_game(kwargs: Mapping[str, Any], num_envs: int) -> Iterator[PlainGame]:
    """Make the plain loop's envs with settings of tag_grid (start cells are the default ones); they
    end with the block.
    """
    config: TagGridConfig = ENV.configure(kwargs)
    game = _Game(
        num_envs, config.num_taggers, config.grid_length, config.episode_length, config.use_full_observation,
        config.wall_hit_penalty, config.tag_reward_for_tagger, config.tag_penalty_for_runner, config.step_cost_for_tagger,
    )  # fmt: skip
    agents = config.num_taggers + 1
    try:
        if library().plain_tag_open(ctypes.byref(game)):
            raise PuffervecError("the plain loop got no memory")
        library().plain_tag_reset(ctypes.byref(game))
        yield PlainGame(
            game, num_envs * agents, 4 * agents + 1 if config.use_full_observation else 6
        )
    finally:
        library().plain_tag_close(ctypes.byref(game))


def plain_loop(workload: Workload, drawn: Mapping[str, np.ndarray], turns: int) -> float:
    """Return the seconds per turn of one thread in which the plain loop steps a workload of
    tag_grid, after a warm-up.
    """
    with plain_game(workload.kwargs, workload.num_envs) as game, on_one_core():
        game.play(drawn["agents"], max(1, turns // 4))
        return game.play(drawn["agents"], turns) / turns
