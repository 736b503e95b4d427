# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compare tag_continuous with the game as a plain scalar C loop (plain_tag_continuous.c).

Each runs in one thread, in turns.

    python bench/tag_continuous.py

Both are compiled with the flags of the package, begin at the same start, take the same actions and
write the same rows.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.common import Figure
from bench.plain_grid import compiled
from bench.workloads import Workload, actions_of, c_loop, on_one_core
from puffervec.envs.tag_continuous import ENV, TagContinuousConfig
from puffervec.errors import ConfigError, PuffervecError

SOURCE = Path(__file__).with_name("plain_tag_continuous.c")
ACTIONS: dict[str, Any] = {
    "max_acceleration": 0.1, "min_acceleration": -0.1, "num_acceleration_levels": 20,
    "max_turn": 2.356194, "min_turn": -2.356194, "num_turn_levels": 20,
}  # fmt: skip
CROWD: dict[str, Any] = {
    **ACTIONS,
    "grid_length": 20.0,
    "episode_length": 500,
    "tagging_distance": 0.02,
}
NEAREST = {"use_full_observation": False, "num_other_agents_observed": 10}
ENV_NAME = "tag_continuous"


def _case(
    name: str, num_envs: int, taggers: int, runners: int, aim: float, **kwargs: Any
) -> tuple[Workload, float]:
    kwargs = {"num_taggers": taggers, "num_runners": runners, **kwargs}
    return Workload(name, ENV_NAME, kwargs, num_envs, kwargs.get("episode_length", 100) + 1), aim


# The shape of WarpDrive's throughput figures with five agents, and crowds as in its
# tag_continuous.yaml (10, 100). The aim is how many times faster than the plain loop the env should
# be.
CASES: dict[str, tuple[Workload, float]] = {
    case[0].name: case
    for case in (
        _case("5 agents, full", 2000, 1, 4, 2.0),
        _case("5 agents, nearest 2", 2000, 1, 4, 2.0, use_full_observation=False),
        _case("12 agents, nearest 10", 500, 2, 10, 2.0, **CROWD, **NEAREST),
        _case("45 agents, nearest 10", 200, 5, 40, 2.0, **CROWD, **NEAREST),
        _case("110 agents, nearest 10", 100, 10, 100, 8.0, **CROWD, **NEAREST),
        _case("110 agents, full", 100, 10, 100, 2.0, **CROWD),
        _case("1000 agents, nearest 10", 10, 50, 950, 8.0, **CROWD, **NEAREST),
    )
}
COLUMNS = (
    "case",
    "envs",
    "plain us/step",
    "us/step",
    "env-steps/s",
    "ns/agent-step",
    "times faster",
    "aim",
    "met",
)


class _Settings(ctypes.Structure):
    """`settings` of plain_tag_continuous.c."""

    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in ("taggers", "runners", "episode_length", "full", "nearest", "exits")
        ),
        *(
            (name, ctypes.c_float)
            for name in ("length", "max_speed", "runner_skill", "tagger_skill", "margin")
        ),
        *(
            (name, ctypes.c_float)
            for name in (
                "edge",
                "tagger_step",
                "runner_step",
                "tagger_tag",
                "runner_tag",
                "runner_end",
            )
        ),
        *((name, ctypes.c_void_p) for name in ("types", "start_x", "start_y", "start_direction")),
        *((name, ctypes.c_void_p) for name in ("acceleration_changes", "turn_changes")),
    )


@cache
def _library() -> ctypes.CDLL:
    library = compiled(SOURCE)
    library.plain_tag_continuous.restype = ctypes.c_int64
    return library


class PlainGame:
    """The plain loop with a workload's settings and arrays for its rows.

    Attributes:
        observations: (rows, floats) float32. rewards: (rows,) float32. dones: (rows,) uint8: the
            env's episode ended.
    """

    def __init__(self, kwargs: Mapping[str, Any], num_envs: int) -> None:
        config: TagContinuousConfig = ENV.configure(kwargs)
        self._params = {
            name: np.ascontiguousarray(array) for name, array in ENV.build(config).params.items()
        }
        self._num_envs, self._agents = num_envs, config.num_taggers + config.num_runners
        others = (
            self._agents - 1 if config.use_full_observation else config.num_other_agents_observed
        )
        self._settings = _Settings(
            config.num_taggers, config.num_runners, config.episode_length, config.use_full_observation,
            config.num_other_agents_observed, config.runner_exits_game_after_tagged, config.grid_length, config.max_speed,
            config.skill_level_runner, config.skill_level_tagger, float(self._params["margin"][0]), *self._params["rewards"],
            *(self._params[name].ctypes.data for name in ("types", "start_x", "start_y", "start_direction")),
            *(self._params[name].ctypes.data for name in ("acceleration_changes", "turn_changes")),
        )  # fmt: skip
        rows = num_envs * self._agents
        self.observations = np.zeros((rows, 7 * others + 1), np.float32)
        self.rewards, self.dones = np.zeros(rows, np.float32), np.zeros(rows, np.uint8)

    def play(self, actions: np.ndarray, steps: int) -> float:
        """Begin anew and take `steps` steps of all envs, actions (batches, rows, 2) int32; return
        the seconds it took.
        """
        begin = time.perf_counter()
        done = _library().plain_tag_continuous(
            ctypes.byref(self._settings), self._num_envs, steps, ctypes.c_void_p(actions.ctypes.data), len(actions),
            *(ctypes.c_void_p(array.ctypes.data) for array in (self.observations, self.rewards, self.dones)),
        )  # fmt: skip
        if done < 0:
            raise PuffervecError("the plain loop got no memory")
        return time.perf_counter() - begin


def plain_loop(workload: Workload, drawn: Mapping[str, np.ndarray], turns: int) -> float:
    """Return the seconds per turn of one thread that takes `turns` turns of the plain loop from the
    start of the game.
    """
    game = PlainGame(workload.kwargs, workload.num_envs)
    with on_one_core():
        game.play(drawn["agents"], 2)
        return game.play(drawn["agents"], turns) / turns


@dataclasses.dataclass(frozen=True)
class Result:
    """One line of the table. plain_us, step_us: one step of all envs."""

    case: str
    num_envs: int
    agents: int
    plain_us: Figure
    step_us: Figure
    env_steps_per_s: Figure
    times_faster: Figure
    aim: float

    @property
    def met(self) -> bool:
        return self.times_faster.median >= self.aim


def run(
    names: Sequence[str], repeats: int, seconds: float, progress: common.Progress, attempts: int
) -> tuple[list[Result], float]:
    """Measure these cases, plain loop and env in turns. Returns the results and the share of
    foreign load.
    """
    variants, drawn = {}, {}
    for name in names:
        workload, _ = CASES[name]
        progress(f"{name}: preparing")
        drawn[name] = actions_of(workload)
        first = plain_loop(workload, drawn[name], 3)
        turns = max(3, min(int(seconds / first), 20 * workload.episode_turns))
        variants[name, "plain"] = lambda w=workload, d=drawn[name], n=turns: plain_loop(w, d, n)
        variants[name, "ours"] = lambda w=workload, d=drawn[name], n=turns: c_loop(w, d, n, 5)
    runs = common.interleave(
        {"/".join(key): variant for key, variant in variants.items()}, repeats, progress, attempts
    )
    results = []
    for name in names:
        workload, aim = CASES[name]
        plain, ours = runs.results[f"{name}/plain"], runs.results[f"{name}/ours"]
        results.append(
            Result(
                case=name,
                num_envs=workload.num_envs,
                agents=drawn[name]["agents"].shape[1] // workload.num_envs,
                plain_us=common.figure(1e6 * s for s in plain),
                step_us=common.figure(1e6 * s for s in ours),
                env_steps_per_s=common.figure(workload.num_envs / s for s in ours),
                times_faster=common.ratio(plain, ours),
                aim=aim,
            )  # fmt: skip
        )
    return results, runs.foreign


def show(results: Sequence[Result]) -> None:
    """Print the table."""
    cells = [
        (
            r.case, str(r.num_envs), str(r.plain_us), str(r.step_us), str(r.env_steps_per_s),
            common.number(1e3 * r.step_us.median / (r.num_envs * r.agents)), str(r.times_faster), f"{r.aim:g}",
            "yes" if r.met else "NO",
        )
        for r in results
    ]  # fmt: skip
    common.print_table("tag_continuous and a plain scalar C loop, one thread each", COLUMNS, cells)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 for bad input."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument(
        "--cases",
        default="",
        help=f"separated by semicolons, of: {'; '.join(CASES)} (default: all)",
    )
    common.add_flags(flags, "tag-continuous", 0.5)
    options = flags.parse_args(arguments)
    facts, progress = common.machine(), common.Progress()
    try:
        names = [name.strip() for name in options.cases.split(";") if name.strip()] or list(CASES)
        for name in names:
            if name not in CASES:
                raise ConfigError(f"--cases has {name!r}: use some of {'; '.join(CASES)}")
        results, foreign = run(names, options.repeats, options.seconds, progress, options.attempts)
    except PuffervecError as error:
        progress.clear()
        print(f"error: {error}", file=sys.stderr)
        return 2
    progress.clear()
    show(results)
    common.finish(
        "tag-continuous",
        options,
        facts,
        foreign,
        [{**dataclasses.asdict(r), "met": r.met} for r in results],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
