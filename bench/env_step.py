# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the simulation limit: one thread calls the C batch step in a loop (pv_bench_steps).

    python bench/env_step.py

There are no workers and no channel. Agent-steps are transitions of agents that were present and not
done. Drive runs on generated scenes and, if ../shared/data/scenes exists, on real ones in which all
valid vehicles are controlled.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.common import Figure
from bench.modes import PolicyChoice, plan
from bench.workloads import Shares, Workload, c_loop, count_shares, draw_actions, missing, preset

SCENES = common.ROOT.parent / "shared" / "data" / "scenes"
# Real scenes by a part of their file names, with the agent-steps/s that one core should reach.
REAL_SCENES = {"01000_407": ("407", 1.0e6), "a5c44223": ("a5c44223", 0.6e6)}
COLUMNS = (
    "env",
    "envs",
    "rows",
    "us/step",
    "env-steps/s",
    "agent-steps/s",
    "ns/agent-step",
    "target",
    "met",
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A workload and the agent-steps/s that it should reach, or None."""

    workload: Workload
    target: float | None = None


@dataclasses.dataclass(frozen=True)
class Result:
    """One line of the table.

    Attributes:
        rows: rows of one step.
        step_us: time of one step of all rows.
    """

    env: str
    num_envs: int
    settings: dict[str, Any]
    rows: int
    step_us: Figure
    env_steps_per_s: Figure
    agent_steps_per_s: Figure
    target: float | None

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.agent_steps_per_s.median >= self.target


def _real_scene_cases(num_envs: int | None) -> list[Case]:
    """Return two cases per real scene that exists, with all valid vehicles controlled.

    In the first case, the one with a target, cars stay for the whole episode. In the second they
    are removed at their goals, so parked cars leave immediately and most rows are empty.
    """
    result = []
    for part, (name, target) in REAL_SCENES.items():
        for path in sorted(SCENES.glob(f"*{part}*.json")):
            stay = preset("drive", num_envs, scenes=str(path), control=1, goal_behavior="drive_on")
            leave = preset("drive", num_envs, scenes=str(path), control=1)
            result.append(Case(dataclasses.replace(stay, name=f"drive {name}, all stay"), target))
            result.append(Case(dataclasses.replace(leave, name=f"drive {name}")))
    return result


def _raster_cases(num_envs: int | None) -> list[Case]:
    """Return drive with its bird's-eye view in addition to the numbers, and with the view alone."""
    beside, alone = (preset("drive", num_envs, raster=64, raster_alone=value) for value in (0, 1))
    return [
        Case(dataclasses.replace(beside, name="drive, numbers and raster 64")),
        Case(dataclasses.replace(alone, name="drive, raster 64 alone")),
    ]


def cases(
    names: Sequence[str], num_envs: int | None = None, kwargs: dict[str, Any] | None = None
) -> list[Case]:
    """Return the cases of these envs.

    Without env settings, tag_grid and drive have additional cases.
    """
    result = []
    for name in names:
        result.append(Case(preset(name, num_envs, **(kwargs or {}))))
        if name == "tag_grid" and not kwargs:
            partial = preset(name, num_envs, use_full_observation=False)
            result.append(Case(dataclasses.replace(partial, name="tag_grid, partial")))
        if name == "drive" and not kwargs:
            result += _raster_cases(num_envs) + _real_scene_cases(num_envs)
    return result


def run(
    chosen: Sequence[Case], repeats: int, seconds: float, progress: common.Progress, attempts: int
) -> tuple[list[Result], float]:
    """Measure all cases in turns; return the results and the share of foreign load.

    Each sample is a fresh block of envs.
    """
    variants, shares, rows = {}, {}, {}
    for case in chosen:
        workload = case.workload
        key = workload.name
        progress(f"{key}: preparing")
        with dataclasses.replace(workload, num_envs=1).make("serial") as vec:
            spec = vec.spec
        actions = draw_actions(spec, workload.num_envs)
        turns = max(plan(seconds, c_loop(workload, actions, 5, 2), PolicyChoice()), 5)
        counted = min(turns, 2 * workload.episode_turns)
        shares[key], rows[key] = (
            count_shares(workload, actions, counted),
            workload.num_envs * spec.agents,
        )
        variants[key] = lambda w=workload, d=actions, n=turns: c_loop(
            w, d, n, min(n, w.episode_turns)
        )
    runs = common.interleave(variants, repeats, progress, attempts)
    return [
        _result(case, rows[key], shares[key], runs.results[key])
        for case, key in zip(chosen, variants, strict=True)
    ], runs.foreign


def _result(case: Case, rows: int, shares: Shares, seconds: Sequence[float]) -> Result:
    return Result(
        env=case.workload.name, num_envs=case.workload.num_envs,
        settings=_without_folders(case.workload.kwargs), rows=rows,
        step_us=common.figure(1e6 * s for s in seconds),
        env_steps_per_s=common.figure(shares.env_steps / s for s in seconds),
        agent_steps_per_s=common.figure(shares.agent_steps / s for s in seconds),
        target=case.target,
    )  # fmt: skip


def _without_folders(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return env settings for results, with the names of scene files instead of their paths."""
    return {key: Path(value).stem if key == "scenes" else value for key, value in kwargs.items()}


def _settings_text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def show(results: Sequence[Result]) -> None:
    """Print the table of results."""
    word = {True: "yes", False: "NO", None: "-"}
    cells = [
        (
            r.env, str(r.num_envs), str(r.rows), str(r.step_us),
            str(r.env_steps_per_s), str(r.agent_steps_per_s),
            common.number(1e9 / r.agent_steps_per_s.median), common.number(r.target), word[r.met],
        )
        for r in results
    ]  # fmt: skip
    notes = [f"{r.env}: {_settings_text(r.settings)}" for r in results if r.settings]
    common.print_table(
        "C step in a tight loop, one thread: median ± half the distance of the quartiles",
        COLUMNS,
        cells,
        notes,
    )


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--envs", default="probe,tag_grid,drive", help="comma-separated, of: %(default)s"
    )
    flags.add_argument("--num-envs", type=int, help="envs (default: each env's own)")
    flags.add_argument(
        "--env-kwargs",
        type=json.loads,
        help="env settings as a JSON object; leaves out the extra cases",
    )
    common.add_flags(flags, "env-step", 1.0)
    options = flags.parse_args(arguments)
    facts, progress = common.machine(), common.Progress()
    chosen = []
    for case in cases(options.envs.split(","), options.num_envs, options.env_kwargs):
        if reason := missing(case.workload):
            print(reason, file=sys.stderr)
        else:
            chosen.append(case)
    results, foreign = run(chosen, options.repeats, options.seconds, progress, options.attempts)
    show(results)
    common.finish(
        "env-step",
        options,
        facts,
        foreign,
        [{**dataclasses.asdict(r), "met": r.met} for r in results],
    )


if __name__ == "__main__":
    sys.exit(main())
