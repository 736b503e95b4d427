# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rollouts of both Tag games: the cases of WarpDrive's figures, and growth; parts of bench/tag.py.

An env-step is a transition of one env, whatever the number of its agents; WarpDrive counts
likewise. "C loop" is one thread that calls the env's step in a tight loop, "C loops at once" one
for each worker on its share of the envs; "plain loop" is the game as one would usually write it in
C; "fill" overwrites all observations with a number, a bound for everything that writes them all;
"NumPy" is our twin in the package, one env on one core. The published figures are those of the
paper and were not measured here.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from bench import common, plain_grid, runs, tag_continuous
from bench.ceiling import c_loops
from bench.modes import Mode, PolicyChoice, measure, plan
from bench.workloads import Shares, Workload, actions_of, c_loop, count_shares, on_one_core
from puffervec.errors import PuffervecError
from puffervec.testing.reference.tag_continuous import TagContinuous
from puffervec.testing.reference.tag_grid import TagGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID: dict[str, Any] = {
    "num_taggers": 4,
    "grid_length": 100,
    "episode_length": 100,
    "tag_penalty_for_runner": 5.0,
}
PLANE: dict[str, Any] = {
    "num_taggers": 1,
    "num_runners": 4,
    "grid_length": 10.0,
    "episode_length": 100,
}
CROWD: dict[str, Any] = {
    **PLANE, "grid_length": 20.0, "tagging_distance": 0.02, "max_acceleration": 0.1, "min_acceleration": -0.1,
    "num_acceleration_levels": 20, "max_turn": 2.356194, "min_turn": -2.356194, "num_turn_levels": 20,
}  # fmt: skip
NEAREST: dict[str, Any] = {"use_full_observation": False, "num_other_agents_observed": 10}
TWINS: dict[str, Any] = {"tag_grid": TagGrid, "tag_continuous": TagContinuous}
PLAIN_LOOPS = {"tag_grid": plain_grid.plain_loop, "tag_continuous": tag_continuous.plain_loop}
C_LOOP, PLAIN, FILL, NUMPY, SERIAL, PROCESSES = (
    "C loop",
    "plain loop",
    "fill",
    "NumPy",
    "serial",
    "processes",
)
AT_ONCE = "C loops at once"
COUNTED_ROWS = 20_000  # Envs with so many rows are enough to count which turns are steps.
MEMORY_SHARE = 0.4  # of what is free that the rows of a case may take


@dataclasses.dataclass(frozen=True)
class Case:
    """A game with settings. published: env-steps/s of one A100 (Lan et al. 2021) for "rollout" and
        "training".

    num_envs: None: as many as the command is told.
    """

    env: str
    kwargs: dict[str, Any]
    published: dict[str, float] = dataclasses.field(default_factory=dict)
    num_envs: int | None = None

    @property
    def agents(self) -> int:
        return int(self.kwargs["num_taggers"] + self.kwargs.get("num_runners", 1))

    def workload(self, name: str, num_envs: int) -> Workload:
        return Workload(
            name,
            self.env,
            self.kwargs,
            self.num_envs or num_envs,
            self.kwargs["episode_length"] + 1,
        )


def _with(settings: Mapping[str, Any], taggers: int, runners: int, **more: Any) -> dict[str, Any]:
    return {**settings, "num_taggers": taggers, "num_runners": runners, **more}


PARTIAL = {"use_full_observation": False}
CASES = {
    "grid, 5 agents, full": Case("tag_grid", GRID, {"rollout": 9.8e6, "training": 1.3e6}),
    "grid, 5 agents, full, 8192 envs": Case("tag_grid", GRID, num_envs=8192),
    "grid, 5 agents, full, 32768 envs": Case("tag_grid", GRID, num_envs=32768),
    "grid, 5 agents, partial": Case("tag_grid", {**GRID, **PARTIAL}),
    "grid, 1000 agents, partial": Case(
        "tag_grid", {**GRID, "num_taggers": 999, **PARTIAL}, {"rollout": 2.9e6, "training": 0.58e6}
    ),
    "continuous, 5 agents, full": Case(
        "tag_continuous", PLANE, {"rollout": 8.3e6, "training": 0.57e6}
    ),
    "continuous, 5 agents, partial": Case("tag_continuous", {**PLANE, **PARTIAL}),
    "continuous, 45 agents, full": Case(
        "tag_continuous", _with(CROWD, 5, 40), {"training": 0.15e6}
    ),
    "continuous, 45 agents, partial": Case("tag_continuous", _with(CROWD, 5, 40, **NEAREST)),
    "continuous, 110 agents, full": Case("tag_continuous", _with(CROWD, 10, 100)),
    "continuous, 110 agents, partial": Case("tag_continuous", _with(CROWD, 10, 100, **NEAREST)),
}


# ---- one sample ----------------------------------------------------------------------------------


def too_large(workload: Workload) -> str:
    """Return why the rows of a workload do not fit into the memory that is free now, or ""."""
    with dataclasses.replace(workload, num_envs=1).make("serial") as vec:
        group = vec.spec.groups[0]
    floats = runs.floats_of(vec.spec) + 8 * group.action_dims + 16  # prepared actions, state
    needed, free = 4 * floats * group.agents * workload.num_envs, psutil.virtual_memory().available
    return (
        f"its rows take {needed / 2**30:.1f} of {free / 2**30:.1f} GiB"
        if needed > MEMORY_SHARE * free
        else ""
    )


def shares_of(workload: Workload, agents: int) -> Shares:
    """Return what a turn of all envs is worth, counted on some of them."""
    fewer = dataclasses.replace(
        workload, num_envs=max(1, min(workload.num_envs, COUNTED_ROWS // agents))
    )
    found, scale = (
        count_shares(fewer, actions_of(fewer), 2 * workload.episode_turns),
        workload.num_envs / fewer.num_envs,
    )
    return Shares(scale * found.env_steps, scale * found.agent_steps)


def numpy_twin(workload: Workload, seconds: float) -> float:
    """Return the seconds of one step of one env of the NumPy twin on one core, resets included."""
    twin, rng = TWINS[workload.env](**workload.kwargs), np.random.default_rng(1)
    sizes = (5,) if workload.env == "tag_grid" else (len(twin.accelerations), len(twin.turns))
    actions = rng.integers(0, sizes, (64, twin.agents, len(sizes)))
    batches = list(actions[:, :, 0] if len(sizes) == 1 else actions)
    with on_one_core():
        steps, begin = 0, time.perf_counter()
        while (spent := time.perf_counter() - begin) < seconds or not steps:
            _, _, terminated, truncated, _ = twin.step(batches[steps % len(batches)])
            if np.all(np.asarray(terminated) | np.asarray(truncated)):
                twin.reset()
            steps += 1
    return spent / steps


def fill(workload: Workload, turns: int) -> float:
    """Return the seconds in which one core overwrites all observations of a workload once with a
    number.
    """
    with dataclasses.replace(workload, num_envs=1).make("serial") as vec:
        floats = runs.floats_of(vec.spec) * vec.spec.groups[0].agents * workload.num_envs
    rows = np.zeros(floats, np.float32)
    with on_one_core():
        rows.fill(1.0)
        begin = time.perf_counter()
        for turn in range(turns):
            rows.fill(turn)
        return (time.perf_counter() - begin) / turns


def ways(workers: int) -> dict[str, Mode]:
    """Return how a vector env steps: in this process, in threads, in processes, in processes with
    two halves.
    """
    return {
        SERIAL: Mode(SERIAL, "serial"),
        "threads": Mode("threads", "threading", workers),
        PROCESSES: Mode(PROCESSES, "multiprocessing", workers),
        "two halves": Mode("two halves", "multiprocessing", workers, 2, "envs"),
    }


# ---- the table -----------------------------------------------------------------------------------


def variants_of(workload: Workload, options: argparse.Namespace) -> dict[str, Callable[[], float]]:
    """Return what measures a workload in each way: seconds per turn of all envs; NumPy: per step of
    one.
    """
    drawn = actions_of(workload)
    first = c_loop(workload, drawn, 3, 1)
    turns = min(plan(options.seconds, first, PolicyChoice()), 50 * workload.episode_turns)
    warmup = max(1, turns // 4)
    found = {
        C_LOOP: lambda: c_loop(workload, drawn, turns, warmup),
        FILL: lambda: fill(workload, turns),
    }
    if options.workers > 1 and workload.num_envs % options.workers == 0:
        found[AT_ONCE] = lambda: c_loops(workload, options.workers, turns)
    fewer = max(2, turns // 3)  # so that it takes about as long
    found[PLAIN] = lambda: PLAIN_LOOPS[workload.env](workload, drawn, fewer)
    for name, mode in ways(options.workers).items():
        if mode.fits(workload.num_envs):
            found[name] = lambda m=mode: (
                measure(workload, drawn, m, PolicyChoice(), turns, warmup).iteration_s
            )
    return {**found, NUMPY: lambda: numpy_twin(workload, min(options.seconds, 0.3))}


def measure_rates(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Return, by case, env-steps/s and agent-steps/s of each way, and the ratios that are asked
    for.
    """
    results, worst = {}, 0.0
    for name in options.cases:
        case = CASES[name]
        workload = case.workload(name, options.num_envs)
        if reason := too_large(workload):
            results[name] = {"left_out": reason}
            continue
        note(f"{name}: preparing")
        shares = shares_of(workload, case.agents)
        found = common.interleave(
            variants_of(workload, options),
            options.repeats,
            lambda text, name=name: note(f"{name}: {text}"),
            options.attempts,
        )
        worst = max(worst, found.foreign)
        results[name] = {
            "num_envs": workload.num_envs, "agents": case.agents, "settings": case.kwargs, "workers": options.workers,
            "published": case.published, **rates(found.results, shares, case.agents),
        }  # fmt: skip
    return results, worst


def rates(seconds: Mapping[str, list[float]], shares: Shares, agents: int) -> dict[str, Any]:
    """Return the figures of a case from samples: seconds per turn of all envs, of NumPy per step of
    one env.
    """
    steps = {
        name: (1.0, float(agents)) if name == NUMPY else (shares.env_steps, shares.agent_steps)
        for name in seconds
    }

    def ratio(slow: str, fast: str) -> common.Figure | None:
        return (
            common.ratio(seconds[slow], seconds[fast])
            if slow in seconds and fast in seconds
            else None
        )

    return {
        "env_steps_per_s": {
            name: common.figure(steps[name][0] / s for s in taken)
            for name, taken in seconds.items()
        },
        "agent_steps_per_s": {
            name: common.figure(steps[name][1] / s for s in taken)
            for name, taken in seconds.items()
        },
        "c_loop_over_plain": ratio(PLAIN, C_LOOP),
        "fill_share": ratio(FILL, C_LOOP),  # of the time of a step
        "processes_over_serial": ratio(SERIAL, PROCESSES),
        "processes_over_c_loop": ratio(C_LOOP, PROCESSES),
        "at_once_over_c_loop": ratio(C_LOOP, AT_ONCE),  # what the cores can do together
        "processes_over_at_once": ratio(AT_ONCE, PROCESSES),
    }


def show_rates(results: Mapping[str, Any]) -> None:
    """Print a table of env-steps/s."""
    names = [FILL, C_LOOP, AT_ONCE, PLAIN, *ways(2), NUMPY]
    cells, notes = [], []
    for name, found in results.items():
        if "left_out" in found:
            notes.append(f"{name} is left out: {found['left_out']}")
            continue
        figures = [found["env_steps_per_s"].get(way) for way in names]
        per_agent = found["agent_steps_per_s"][PROCESSES]
        ratios = [found[key] for key in ("c_loop_over_plain", "processes_over_serial")]
        cells.append(
            (name, str(found["num_envs"]), *(common.number(figure and figure.median) for figure in figures),
             common.number(per_agent.median), *(common.number(figure and figure.median) for figure in ratios),
             common.number(found["published"].get("rollout")))
        )  # fmt: skip
    columns = (
        "case",
        "envs",
        *names,
        "agent-steps/s",
        "C / plain",
        "processes / serial",
        "A100, published",
    )
    notes.append(
        "env-steps/s; agent-steps/s: of the processes; A100: Lan et al. 2021, 2,000 envs, not "
        "measured here"
    )
    common.print_table("rollouts of Tag", columns, cells, notes)


# ---- how cost grows ------------------------------------------------------------------------------

GROWTH = {
    "grid, full": ("tag_grid", GRID),
    "grid, partial": ("tag_grid", {**GRID, **PARTIAL}),
    "continuous, nearest 2": ("tag_continuous", {**PLANE, **PARTIAL}),
}
MOST_ENVS, MOST_AGENTS, ENVS_OF_CROWDS = 10_000, 5_000, 16


def _crowd(settings: Mapping[str, Any], env: str, agents: int) -> dict[str, Any]:
    if env == "tag_grid":
        return {**settings, "num_taggers": agents - 1}
    taggers = max(1, agents // 10)
    return {**settings, "num_taggers": taggers, "num_runners": agents - taggers}


def growth_points(most_envs: int, most_agents: int) -> list[tuple[str, str, Workload, int]]:
    """Return the measured points: line, axis ("envs" or "agents"), workload, agents. Crowds see the
    nearest only.
    """
    points = []
    for line, (env, settings) in GROWTH.items():
        for envs in (1, 10, 100, 1_000, 10_000):
            if envs <= most_envs:
                points.append((line, "envs", Case(env, settings).workload(line, envs), 5))
        for agents in (5, 50, 500, 5_000):
            if agents <= most_agents and not settings.get("use_full_observation", True):
                crowd = Case(env, _crowd(settings, env, agents))
                points.append((line, "agents", crowd.workload(line, ENVS_OF_CROWDS), crowd.agents))
    return points


def measure_growth(options: argparse.Namespace, note: Any) -> tuple[list[dict[str, Any]], float]:
    """Return seconds of a step of all envs on one core against the number of envs, and of agents."""
    rows, worst = [], 0.0
    for line, axis, workload, agents in growth_points(options.most_envs, options.most_agents):
        name = f"{line}, {workload.num_envs} envs, {agents} agents"
        if reason := too_large(workload):
            note(f"{name} is left out: {reason}")
            continue
        drawn = actions_of(workload)
        turns = min(
            plan(options.seconds / 3, c_loop(workload, drawn, 3, 1), PolicyChoice()),
            20 * workload.episode_turns,
        )
        variants = {name: functools.partial(c_loop, workload, drawn, turns, max(1, turns // 4))}
        found = common.interleave(variants, options.repeats, note, options.attempts)
        worst = max(worst, found.foreign)
        step_us = common.figure(1e6 * s for s in found.results[name])
        rows.append(
            {
                "line": line,
                "axis": axis,
                "num_envs": workload.num_envs,
                "agents": agents,
                "step_us": step_us,
            }
        )
    return rows, worst


def show_growth(rows: list[dict[str, Any]]) -> None:
    """Print the points."""
    cells = [
        (row["line"], row["axis"], str(row["num_envs"]), str(row["agents"]), str(row["step_us"]),
         common.number(1e3 * row["step_us"].median / (row["num_envs"] * row["agents"])))
        for row in rows
    ]  # fmt: skip
    columns = ("game", "with", "envs", "agents", "us/step", "ns/agent")
    common.print_table("how the cost of a step grows, one core", columns, cells)


def growth_panels(rows: list[dict[str, Any]]) -> list[runs.Panel]:
    """Return a log-log panel per axis."""
    return [functools.partial(_draw_growth, rows, axis) for axis in ("envs", "agents")]


def _draw_growth(rows: list[dict[str, Any]], which: str, axis: Axes) -> None:
    key = "num_envs" if which == "envs" else "agents"
    for line in dict.fromkeys(row["line"] for row in rows if row["axis"] == which):
        points = [
            (row[key], row["step_us"].median)
            for row in rows
            if row["line"] == line and row["axis"] == which
        ]
        axis.plot(*zip(*points, strict=True), marker="o", label=line)
    fixed = "5 agents" if which == "envs" else f"{ENVS_OF_CROWDS} envs"
    axis.set(
        xscale="log",
        yscale="log",
        xlabel=f"{which} ({fixed})",
        ylabel="us per step of all, one core",
    )
    axis.set_title(f"cost against {which}")
    axis.legend(frameon=False, fontsize=8)


def chosen_cases(text: str) -> list[str]:
    """Return the cases of a flag, separated by ";". Raises: PuffervecError for an unknown one."""
    names = [name.strip() for name in text.split(";") if name.strip()] or list(CASES)
    for name in names:
        if name not in CASES:
            raise PuffervecError(f"--cases has {name!r}: use some of {'; '.join(CASES)}")
    return names
