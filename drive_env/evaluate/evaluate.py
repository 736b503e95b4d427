# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Drives every scene a number of times and tabulates rates, per scene and in total.

Runs in the learner; the envs run in any backend. Env i of a batch holds only scene i, as its task.
The table is computed from the first `episodes` records of each env, so the C code judges.
Shaping rewards are off. The driver is an `Actor`: a baseline (drive_env.evaluate.baselines) or a
policy wrapped by the trainer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import EVALUATED_ON, HELD_OUT_SCENES, DriveConfig, sets_of
from drive_env.evaluate import nuplan
from drive_env.evaluate.against import (
    DRIVEN_BY_POLICIES,
    EPISODES,
    Against,
    check_fits,
    report_of,
    traffics,
)
from drive_env.evaluate.baselines import BASELINES, baseline
from drive_env.evaluate.causes import causes_of, contacts_of
from drive_env.evaluate.columns import MEANINGS, MEANS, MORE_RATES, MOST, RATES
from drive_env.evaluate.describe import describe_scenes
from drive_env.evaluate.envs import (
    FOREVER,
    SEED_STEP,
    evaluation_config,
    longest,
    make_envs,
    remarks_on_empty,
    remarks_on_split,
)
from drive_env.evaluate.failures import SHOWN_FAILURES, add_agents, at_goal_of, medians_of
from drive_env.evaluate.intervals import cluster_interval, mean_interval, wilson
from drive_env.evaluate.realism import ROLLOUTS, evaluate_realism
from drive_env.generate.generate import HELD_OUT_SEED
from drive_env.prepare import prepare_scenes, remarks_on
from drive_env.rules import remarks_on_rules
from drive_env.scenes.reader import LeftOut
from drive_env.scenes.schema import Floats
from puffervec.contract.evaluation import (
    Actor,
    Evaluation,
    Interval,
    Report,
    Row,
    Suite,
    progress_part,
    report_progress,
)
from puffervec.core.infos import Infos
from puffervec.errors import ConfigError, PuffervecError, SceneError
from puffervec.system import extras
from puffervec.system.folder import describe_error, replace_file

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv

__all__ = [
    "BASELINES",
    "EVALUATION",
    "RATES",
    "Actor",
    "Outcome",
    "Results",
    "baseline",
    "draw",
    "drawings",
    "evaluate",
]

BATCH_ROWS = 8192  # agent rows of one batch of envs, to bound memory
SHOWN = ("scene", "agents", *RATES, "comfortable", "lawful", "goal_time", "path_m")


@dataclass(frozen=True)
class Results:
    """Sums of the records of one scene, or of all."""

    name: str
    episodes: int
    agents: int  # over all episodes
    counts: Mapping[str, int]  # by name in RATES
    intervals: Mapping[str, tuple[float, float]]  # 95 %, by name in RATES
    mean_return: float  # per agent, NaN if there are no agents
    mean_length: float  # steps per episode
    # By name in MORE_RATES and MEANS
    more: Mapping[str, Interval | None] = field(default_factory=dict)

    def rate(self, name: str) -> float:
        """Return a share of the agents, NaN if there are none."""
        return self.counts[name] / self.agents if self.agents else float("nan")

    def row(self) -> Row:
        """Return the results as a row of a table."""
        rates = {
            name: Interval(self.rate(name), *self.intervals[name]) if self.agents else None
            for name in RATES
        }
        return {
            "scene": self.name,
            "episodes": self.episodes,
            "agents": self.agents,
            **rates,
            "return": self.mean_return,
            "length": self.mean_length,
            **{name: self.more.get(name) for name in (*MORE_RATES, *MEANS)},
        }


@dataclass(frozen=True)
class Outcome:
    """The results of driving all scenes."""

    scenes: tuple[Results, ...]
    total: Results
    # Which part of the scenes was driven, and the first files that were left out
    remarks: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()  # all files that were left out
    agents: tuple[Row, ...] = ()  # a row per agent and episode

    @property
    def failures(self) -> list[Row]:
        """Return the rows of agents that were not flawless."""
        return [row for row in self.agents if row["why"]]

    def report(self) -> Report:
        """Return a table for people: rates of agents with 95 % intervals."""
        names = [scene.name for scene in self.scenes if scene.agents]
        most = max(self.scenes, key=lambda scene: scene.agents, default=None)
        return Report(
            rows=[scene.row() for scene in self.scenes],
            total=self.total.row(),
            remarks=[
                "rates are shares of the agents; in the total's 95 % intervals scenes, and seeds, "
                "are clusters",
                *([medians_of(self.agents)] if self.agents else []),
                *at_goal_of(self.agents),
                *self.remarks,
            ],
            score="score",
            weight="agents",
            tasks=range(len(self.scenes)),
            drawn=most.name if names and most else None,
            shown=SHOWN,
            tables={
                "causes": causes_of(self.agents),
                "contacts": contacts_of(self.agents),
                "nuplan": nuplan.table_of(self.agents),
                "failures": self.failures,
                "agents": self.agents,
                "left_out": [
                    {"file": str(item.path), "reason": item.reason} for item in self.left_out
                ],
            },
            unprinted=("agents", "left_out"),
            columns={"failures": SHOWN_FAILURES},
            meanings=MEANINGS,
        )


def evaluate(
    actor: Actor,
    config: DriveConfig,
    *,
    episodes: int = 1,
    seed: int = 0,
    seeds: int = 1,
    backend: str = "serial",
) -> Outcome:
    """Drive every scene of `config.scenes` and count the results.

    Args:
        actor: the driver. If it has an attribute `overrides` (a dict of config values), these are
            put into the config.
        config: settings of the env; shaping rewards, resampling and num_agents are replaced.
        episodes: per scene and seed, at least 1. If all episodes of each scene are equal, one of
            each is counted, and a remark says so.
        seed: scene i runs in an env seeded with seed + i.
        seeds: number of seeds, each SEED_STEP above the last one; an actor that draws random
            numbers continues its sequence from seed to seed.
        backend: "serial", "threading" or "multiprocessing".

    Raises:
        ConfigError: episodes or seeds is below 1.
        SceneError: see `prepare_scenes`.
    """
    for name, count in (("episodes", episodes), ("seeds", seeds)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ConfigError(f"{name} is {count!r}; it must be a whole number of at least 1")
    config = evaluation_config(config, getattr(actor, "overrides", {}))
    prepared = prepare_scenes(config)
    scenes = prepared.scenes
    agents = scenes.agents(config)
    todo = np.flatnonzero(agents)
    config = dataclasses.replace(config, num_agents=int(agents.max()))
    batch = int(min(len(todo), max(1, BATCH_ROWS // config.num_agents)))
    records: dict[int, list[Any]] = {int(index): [] for index in todo}
    agents_driven: list[Row] = []
    names: tuple[str, ...] = ()
    with make_envs(config, batch, seed, backend) as vec:
        names = tuple(vec.spec.record_names)
        limit = turns_needed(config, episodes, int(longest(scenes)))
        starts = range(0, len(todo), batch)
        for number in range(seeds):
            for first in starts:
                own = seed + number * SEED_STEP
                on_record = partial(add_agents, vec, scenes, agents_driven, number)
                with progress_part(number * len(starts) + first // batch, seeds * len(starts)):
                    run_batch(
                        actor,
                        vec,
                        todo[first : first + batch],
                        (number + 1) * episodes,
                        own,
                        limit,
                        records,
                        on_record,
                    )
    remarks = (
        *remarks_on_rules(config),
        *remarks_on_empty(scenes.names, agents, config),
        *remarks_on_split(config),
        *remarks_on(prepared.left_out),
    )
    if seeds * episodes > 1 and all(_count_distinct(runs) == 1 for runs in records.values()):
        remarks = (
            f"all {seeds * episodes} episodes of each scene are equal, so one of each is counted: "
            "nothing is drawn (--sample draws a policy's actions)",
            *remarks,
        )
        records = {scene: runs[:1] for scene, runs in records.items()}
        agents_driven = [row for row in agents_driven if row["episode"] == 0]
        seeds = 1
    elif seeds > 1 and all(_seeds_equal(runs, episodes) for runs in records.values()):
        remarks = (
            f"all {seeds} seeds are equal: nothing is drawn (--sample draws a policy's actions)",
            *remarks,
        )
    agents_driven.sort(
        key=lambda row: (
            str(row["scene"]),
            *(int(str(row[name])) for name in ("seed", "episode", "object")),
        )
    )
    outcome = summarise(scenes.names, records, names, seeds)
    return dataclasses.replace(
        outcome, remarks=remarks, left_out=prepared.left_out, agents=tuple(agents_driven)
    )


def _count_distinct(runs: list[Any]) -> int:
    """Return the number of different episodes among the records of a scene."""
    return len({(length, total, values.tobytes()) for length, total, values in runs})


def _seeds_equal(runs: list[Any], episodes: int) -> bool:
    """Return whether all seeds of a scene led to equal episodes."""
    return all(
        np.array_equal(run[2], runs[number % episodes][2]) for number, run in enumerate(runs)
    )


def turns_needed(config: DriveConfig, episodes: int, frames: int) -> int:
    """Return the number of turns in which every env must produce its records.

    Each episode takes one more turn for its reset row.
    """
    return (max(config.max_steps, frames) + 2) * episodes + 2


def run_batch(
    actor: Actor, vec: VectorEnv, scenes: NDArray[Any], episodes: int,
    seed: int, limit: int, records: dict[int, list[Any]],
    on_record: Callable[[Any, int], None],
) -> None:  # fmt: skip
    """Drive some scenes, one per env, until each has `episodes` records, including earlier ones.

    Args:
        scenes: (n,) scene indices, n at most vec.num_envs; further envs repeat the first scene and
            are not counted.
        records: filled per scene with (length, return, values of all names).
        on_record: called with each record that counts, and its episode's number in its scene.
    """
    tasks = np.concatenate([scenes, np.repeat(scenes[:1], vec.num_envs - len(scenes))])
    vec.set_tasks(np.arange(vec.num_envs), tasks)
    vec.async_reset([seed + int(task) for task in tasks])
    open_scenes = {int(scene) for scene in scenes}
    obs, infos = _receive(vec)
    actor.reset(vec)
    for turn in range(limit):
        report_progress("evaluating", turn / limit)
        vec.send(actor.act(obs, vec))
        obs, infos = _receive(vec)
        for record in infos.episodes:
            scene = int(record["task"])
            if int(record["env"]) < len(scenes) and scene in open_scenes:
                on_record(record, len(records[scene]))
                records[scene].append(
                    (int(record["length"]), float(record["return"]), np.array(record["values"]))
                )
                if len(records[scene]) >= episodes:
                    open_scenes.discard(scene)
        if not open_scenes:
            return
    raise PuffervecError(
        f"evaluation: scenes {sorted(open_scenes)[:5]} left no record of {episodes} episodes in "
        f"{limit} turns"
    )


def _receive(vec: VectorEnv) -> tuple[Any, Infos]:
    received = vec.recv()
    return received[0], received[4]


def summarise(
    names: list[str], records: Mapping[int, list[Any]], columns: tuple[str, ...], seeds: int = 1
) -> Outcome:
    """Turn records into rates and intervals.

    Episodes of a scene that repeat another one add no information: for the scene's own intervals,
    the sample is as large as its number of distinct episodes.

    Args:
        names: names of all scenes.
        records: per scene index (length, mean return of its agents, values), equally many for each
            seed, one seed after the other.
        columns: names of values.
    """
    agents_at = columns.index("agents")
    results, sums = [], np.zeros((seeds, len(names), len(columns)))
    for index, name in enumerate(names):
        runs = records.get(index, [])
        if runs:
            values = np.array([run[2][: len(columns)] for run in runs], dtype=np.float64)
            sums[:, index] = values.reshape(seeds, -1, len(columns)).sum(axis=1)
        own = dict(zip(columns, sums[:, index].sum(axis=0).tolist(), strict=True))
        agents = int(own["agents"])
        counts = {rate: int(own[of]) for rate, of in RATES.items()}
        fresh = _count_distinct(runs) / len(runs) if runs else 1.0
        results.append(
            Results(
                name=name,
                episodes=len(runs),
                agents=agents,
                counts=counts,
                intervals={rate: wilson(counts[rate] * fresh, agents * fresh) for rate in RATES},
                mean_return=sum(run[1] * float(run[2][agents_at]) for run in runs) / agents
                if agents
                else float("nan"),
                mean_length=float(np.mean([run[0] for run in runs])) if runs else float("nan"),
                more=more_of(sums[:, index : index + 1] * fresh, columns),
            )
        )
    return Outcome(tuple(results), _total(results, sums, columns))


def more_of(sums: Floats, columns: tuple[str, ...]) -> dict[str, Interval | None]:
    """Return rates and means with intervals over scenes, None where the denominator is 0.

    Args:
        sums: (seeds, scenes, columns) of records.
    """
    intervals: dict[str, Interval | None] = {}
    for name, of in (MORE_RATES | MEANS).items():
        total, _, count = of.partition("/")
        if not {total, count or "agents"} <= set(columns):
            continue
        values, counts = (
            sums[..., columns.index(total)],
            sums[..., columns.index(count or "agents")],
        )
        if counts.sum() == 0:
            intervals[name] = None
            continue
        of_all = float(values.sum() / counts.sum())
        is_rate, most = name in MORE_RATES, MOST.get(name, math.inf)
        intervals[name] = Interval(
            of_all,
            *(cluster_interval(values, counts) if is_rate else mean_interval(values, counts, most)),
        )
    return intervals


def _total(scenes: list[Results], sums: Floats, columns: tuple[str, ...]) -> Results:
    """Return the results of all scenes together.

    The intervals treat each scene, and each seed, as a cluster.
    """
    counts: Floats = sums[..., columns.index("agents")]
    driven = [scene for scene in scenes if scene.agents]
    agents = int(counts.sum())
    episodes = sum(scene.episodes for scene in scenes)
    return Results(
        name=f"total of {len(driven)} scene{'s' if len(driven) != 1 else ''}",
        episodes=episodes,
        agents=agents,
        counts={rate: sum(scene.counts[rate] for scene in scenes) for rate in RATES},
        intervals={
            rate: cluster_interval(sums[..., columns.index(of)], counts)
            for rate, of in RATES.items()
        },
        mean_return=sum(scene.mean_return * scene.agents for scene in driven) / agents
        if agents
        else float("nan"),
        mean_length=sum(scene.mean_length * scene.episodes for scene in driven) / episodes
        if episodes
        else float("nan"),
        more=more_of(sums, columns),
    )


def draw(
    path: Path, actor: Actor, config: DriveConfig, *, scene: int | str | None = None, seed: int = 0
) -> str:
    """Drive one scene once and draw it.

    Args:
        path: the PNG file to write.
        actor, config, seed: as for `evaluate`.
        scene: index or file name of a scene of config.scenes; None: the one with most agents.

    Returns:
        The scene's file name.

    Raises:
        SceneError: there is no such scene, or it has no agents.
        ConfigError: the file cannot be written.
        MissingExtraError: Pillow is not installed.
    """
    ((name, picture),) = drawings(actor, config, [scene], seed=seed)
    try:
        replace_file(path, picture)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {describe_error(error)}") from error
    return name


def drawings(
    actor: Actor, config: DriveConfig, scenes: Iterable[int | str | None], *, seed: int = 0
) -> Iterator[tuple[str, bytes]]:
    """Drive scenes once each and yield (file name, PNG) of each.

    Arguments and errors are those of `draw`.
    """
    extras.require("drawing", "PIL")
    from drive_env.render.picture import png_of
    from drive_env.render.recording import record, roads_of

    config = evaluation_config(config, getattr(actor, "overrides", {}))
    prepared = prepare_scenes(config).scenes
    agents = prepared.agents(config)
    chosen = [_find_scene(prepared.names, agents, scene) for scene in scenes]
    config = dataclasses.replace(config, num_agents=int(agents.max()))
    with make_envs(config, 1, seed, "serial") as vec:
        for index in chosen:
            tracks = record(actor, vec, prepared, index, seed + index)
            head, arrays = prepared.scene(index)
            yield (
                prepared.names[index],
                png_of(
                    prepared.names[index],
                    roads_of(arrays, head["segment_count"], config.init_step),
                    tracks,
                ),
            )


def _find_scene(names: list[str], agents: NDArray[np.int64], scene: int | str | None) -> int:
    if scene is None:
        return int(agents.argmax())
    if isinstance(scene, str):
        index = names.index(scene) if scene in names else -1
    else:
        index = scene
    if not 0 <= index < len(names):
        raise SceneError(
            f"there is no scene {scene!r}; there are 0 to {len(names) - 1}: "
            f"{', '.join(names[:3])}, ..."
        )
    if agents[index] == 0:
        raise SceneError(f"{names[index]} has no agent")
    return index


def held_out(config: DriveConfig) -> DriveConfig:
    """Return the config on which a run is evaluated.

    Vehicles under IDM get plain drivers. A run on generated scenes is evaluated on the held-out
    ones, a run on the split "train" on "validation", and one on placed vehicles on other
    placements. A run on recorded and generated scenes together is evaluated on unseen ones: the
    recorded scenes of the split "validation" or, if it was trained on all recorded scenes, the
    held-out generated ones.
    """
    if config.traffic_kinds:
        config = dataclasses.replace(config, traffic_kinds="")
    if config.placements:
        seed = (config.placement_seed + HELD_OUT_SEED) % 2**31
        config = dataclasses.replace(config, placement_seed=seed)
    names = [name for name, _ in sets_of(config.scenes)]
    others = [name for name in names if name.partition(":")[0] not in EVALUATED_ON]
    unseen = dict.fromkeys(
        EVALUATED_ON[kind] for name in names if (kind := name.partition(":")[0]) in EVALUATED_ON
    )
    if unseen and (not others or config.split == "all"):
        return dataclasses.replace(config, scenes=",".join(unseen), split="all")
    if config.split == "train":
        scenes = ",".join(others) if unseen else config.scenes
        return dataclasses.replace(config, scenes=scenes, split="validation")
    return config


def seen_in_training(trained: DriveConfig, evaluated: DriveConfig) -> str:
    """Return a remark if a run is evaluated on scenes that it was trained on, else ""."""

    def key(name: str) -> str:
        kind = name.partition(":")[0]  # The count of a generated set may differ.
        return kind if kind in EVALUATED_ON else str(Path(name).expanduser().resolve())

    known = {key(name) for name, _ in sets_of(trained.scenes)}
    both = [name for name, _ in sets_of(evaluated.scenes) if key(name) in known]
    if not both or (
        "all" not in (trained.split, evaluated.split) and trained.split != evaluated.split
    ):
        return ""
    return (
        f"TRAINED ON THESE: the run was trained on scenes of {', '.join(both)}, so these rates "
        "say nothing about new scenes"
    )


def _report(actor: Actor, config: DriveConfig, **how: Any) -> Report:
    return evaluate(actor, config, **how).report()


def _generated_in(config: DriveConfig) -> list[str]:
    """Return the generated sets among a config's scenes."""
    return [
        name
        for name, _ in sets_of(config.scenes)
        if name.partition(":")[0] in {*EVALUATED_ON, *EVALUATED_ON.values()}
    ]


def _report_of_real(actor: Actor, config: DriveConfig, **how: Any) -> Report:
    """Return the report on scenes of a data set.

    Raises:
        ConfigError: there is a generated set among the scenes.
    """
    if generated := _generated_in(config):
        raise ConfigError(
            f"--suite real: the scenes {generated[0]!r} are generated: use --scenes FOLDER "
            "(`puffer-scenes download` fetches public ones)"
        )
    return _report(actor, config, **how)


def _report_by_traffic(
    actor: Actor, config: DriveConfig, *, against: Mapping[str, Actor] | None = None, **how: Any
) -> Report:
    """Return the report against each kind of traffic, and against the given drivers.

    Args:
        against: actors that drive the other vehicles, by name.
        how: as for `evaluate`.

    Raises:
        ConfigError: one of `against` needs an env with other settings than the actor.
    """
    named, others = traffics(), against or {}
    configs = {name: dataclasses.replace(config, **settings) for name, settings in named.items()}
    drivers = dict.fromkeys(named, actor)
    for name, other in others.items():
        configs[name] = dataclasses.replace(config, **DRIVEN_BY_POLICIES)
        driven = evaluation_config(configs[name], {})
        check_fits("the driver", actor, driven)
        check_fits(name, other, driven)
        drivers[name] = Against(actor, other, prepare_scenes(driven).scenes)
    outcomes: dict[str, Outcome] = {}
    for number, (name, driver) in enumerate(drivers.items()):
        with progress_part(number, len(drivers)):
            outcomes[name] = evaluate(driver, configs[name], **how)
    return report_of(
        {
            name: [row for row in outcome.agents if row["sdc"] or name not in others]
            for name, outcome in outcomes.items()
        },
        {name: outcome.remarks for name, outcome in outcomes.items()},
    )


def _on_generated(config: DriveConfig) -> DriveConfig:
    """Return the config on held-out scenes of the run's own kind, if it has one."""
    return (
        config
        if _generated_in(config)
        else dataclasses.replace(config, scenes=HELD_OUT_SCENES, split="all")
    )


def _with(**settings: Any) -> Callable[[DriveConfig], DriveConfig]:
    return lambda config: dataclasses.replace(config, **settings)


# Settings of the task, not of how a policy sees and acts.
TASK = (
    "scenes", "split", "simplify_m", "window_s", "control", "control_ids",
    "others", "init_step", "max_steps", "goal_radius_m",
    "goal_behavior", "collision_behavior", "offroad_behavior", "next_goal_m",
    "box_scale", "rules", "placements", "vehicles_per_km", "placement_seed",
    "unknown_speed_limit_mps", "idm_speed_mps",
    "idm_headway_s", "idm_gap_m", "idm_acceleration_mps2", "idm_braking_mps2",
    "traffic_kinds",
)  # fmt: skip


def same_task(config: DriveConfig, other: DriveConfig) -> DriveConfig:
    """Return another run's config with the task of the first one."""
    return dataclasses.replace(other, **{name: getattr(config, name) for name in TASK})


SUITES = {
    "generated": Suite(_report, "held-out generated scenes", settings=_on_generated),
    "real": Suite(_report_of_real, "scenes of a data set, all moving cars by the policy"),
    "self-play": Suite(
        _report, "all moving cars by the policy", settings=_with(control="moving", others="log")
    ),
    "human-replay": Suite(
        _report,
        "the self-driving car by the policy, others by their log",
        settings=_with(control="sdc", others="log"),
    ),
    "idm": Suite(
        _report,
        "the self-driving car by the policy, others by IDM",
        settings=_with(control="sdc", others="idm"),
    ),
    "traffic": Suite(
        _report_by_traffic,
        "the self-driving car by the policy, others by each kind of traffic",
        EPISODES,
        _with(control="sdc"),
        options=("against",),
    ),
    "realism": Suite(
        evaluate_realism,
        "likelihood of the log under 32 rollouts",
        ROLLOUTS,
        options=("wosac", "submission"),
    ),
}
EVALUATION = Evaluation(
    evaluate=_report,
    settings=held_out,
    baselines=BASELINES,
    draw=drawings,
    describe=lambda config: describe_scenes(config).text(),
    suites=SUITES,
    same_task=same_task,
    seen=seen_in_training,
    replay=_with(metrics=1, resample_steps=FOREVER),
    compared=("idm",),
    other_rows=True,
)
