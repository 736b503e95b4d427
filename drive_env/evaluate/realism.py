# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measures how much rollouts look like the log: `puffer-train eval drive --suite realism`.

From frame 10 of each scene on (one second of history), the driver moves the agents for up to 8 s,
32 times. All other objects follow their log, and no agent is removed. Features of the
rollouts and of the log (features.py) give likelihoods of the log (likelihood.py), a score per
scene, and its mean over the scenes.

Source: Montali et al., "The Waymo Open Sim Agents Challenge" (NeurIPS 2023). Differences from the
challenge: the setting `control` selects the objects that are driven and judged, and everything is
in the plane. docs/drive.md lists the rest; tests/drive_env/test_realism_official.py compares with
the challenge's code. Runs in the learner.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drive_env.evaluate import features
from drive_env.evaluate.envs import (
    SEED_STEP,
    evaluation_config,
    make_envs,
    remarks_on_empty,
    remarks_on_split,
)
from drive_env.evaluate.features import Boxes, Edges
from drive_env.evaluate.intervals import mean_interval
from drive_env.evaluate.lights import Lights, lights_of, violations
from drive_env.evaluate.likelihood import ESTIMATORS, GROUPS, YEAR, YEARS, combine, likelihood
from drive_env.evaluate.sent import Sent
from drive_env.evaluate.submission import (
    CHALLENGE_ROLLOUTS,
    HISTORY,
    STEPS,
    head_bytes,
    require_protobuf,
    scenario_bytes,
)
from drive_env.prepare import prepare_scenes, remarks_on
from drive_env.render.recording import logged_poses
from drive_env.scenes import packed
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import SEGMENT_TYPES, VEHICLE, Floats
from puffervec.contract.evaluation import Actor, Interval, Report, Row
from puffervec.errors import ConfigError
from puffervec.system.cache import write_atomically

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv

ROLLOUTS = CHALLENGE_ROLLOUTS
OVERRIDES: dict[str, Any] = {
    "init_step": HISTORY, "max_steps": 0, "others": "log",
    "goal_behavior": "drive_on", "collision_behavior": "ignore",
    "offroad_behavior": "ignore",
}  # fmt: skip
COLUMNS = ("realism", *GROUPS, *ESTIMATORS, "ade_m", "min_ade_m")


@dataclass(frozen=True)
class SceneRollouts:
    """Rollouts of one scene and its log.

    All boxes are of M objects and T frames, of which the first HISTORY + 1 are the log's.

    Attributes:
        evaluated: (N,) objects that were driven.
        vehicles: (N,) bool, which of them are vehicles.
        edges: None if the scene has no road edges.
        lights: None if the scene has no traffic lights.
        height: (R, M, T) height of the centres, as in `Boxes`; None if it is not recorded.
    """

    log: Boxes
    rollouts: Boxes  # with an axis of rollouts in front
    evaluated: NDArray[np.int64]
    vehicles: NDArray[np.bool_]
    edges: Edges | None
    dt_s: float
    lights: Lights | None = None
    height: Floats | None = None


def log_of(head: Any, arrays: dict[str, NDArray[Any]]) -> Boxes:
    """Return the boxes of a compiled scene's log, up to HISTORY + STEPS."""
    objects, times = arrays["objects"], min(int(head["frame_count"]), HISTORY + 1 + STEPS)
    poses, there = (
        np.full((3, len(objects), times), np.nan),
        np.zeros((len(objects), times), np.bool_),
    )
    for number, item in enumerate(objects):
        pose, there[number] = logged_poses(item, arrays["frames"], times)
        poses[:, number, there[number]] = pose[:, there[number]]
    length, width = objects["length_m"].astype(np.float64), objects["width_m"].astype(np.float64)
    return Boxes(poses[0], poses[1], poses[2], length, width, there)


def logged_heights(arrays: dict[str, NDArray[Any]], times: int) -> Floats:
    """Return the heights of a compiled scene's objects in the first frames, (M, times).

    They are NaN where an object is absent.
    """
    heights = np.full((len(arrays["objects"]), times), np.nan)
    for item, row in zip(arrays["objects"], heights, strict=True):
        first, length = int(item["frame_first"]), int(item["frame_count"])
        own = arrays["frames"][int(item["frames_index"]) :][: min(length, max(0, times - first))]
        there = own["speed"] != packed.FRAME_INVALID
        row[first : first + len(own)] = np.where(there, own["z_m"], np.nan)
    return heights


def road_edges(head: Any, arrays: dict[str, NDArray[Any]]) -> Edges | None:
    """Return the road edges of a compiled scene."""
    ends = np.cumsum([0, *head["segment_count"]])
    kind = SEGMENT_TYPES.index("road_edge")
    of = slice(int(ends[kind]), int(ends[kind + 1]))
    if of.start == of.stop:
        return None
    x, y, ux, uy, half = (
        arrays[name][of].astype(np.float64) for name in ("x", "y", "ux", "uy", "half")
    )
    middle, along = np.stack([x, y], -1), np.stack([ux * half, uy * half], -1)
    return features.edges_of(
        middle - along, middle + along, arrays["polyline"][of].astype(np.int64)
    )


def drive(actor: Actor, vec: VectorEnv, scenes: SceneSet, scene: int, seed: int) -> SceneRollouts:
    """Roll one scene out in all envs of `vec`, whose config has OVERRIDES.

    Env r is seeded with seed + r.
    """
    head, arrays = scenes.scene(scene)
    log, count = log_of(head, arrays), vec.num_envs
    vec.set_tasks(np.arange(count), np.full(count, scene))
    vec.async_reset([seed + number for number in range(count)])
    obs = vec.recv()[0]
    actor.reset(vec)
    objects = vec.peek(0)["object"]
    evaluated = objects[objects >= 0].astype(np.int64)
    poses = {name: np.repeat(getattr(log, name)[None], count, 0) for name in ("x", "y", "heading")}
    poses["ground"] = np.repeat(logged_heights(arrays, log.x.shape[1])[None], count, 0)
    height = poses["ground"][:, evaluated, HISTORY] - vec.peek(0)["ground"][: len(evaluated)]
    valid = np.repeat(log.valid[None], count, 0)
    for time in range(HISTORY, log.x.shape[1]):
        for number in range(count):
            state = vec.peek(number)
            there = valid[number, evaluated, time] = state["active"][: len(evaluated)] == 1
            for name, values in poses.items():
                values[number, evaluated, time] = np.where(
                    there, state[name][: len(evaluated)], np.nan
                )
        if time + 1 < log.x.shape[1]:
            vec.send(actor.act(obs, vec))
            obs = vec.recv()[0]
    rollouts = Boxes(poses["x"], poses["y"], poses["heading"], log.length, log.width, valid)
    poses["ground"][:, evaluated, HISTORY:] += height[..., None]  # from the ground to the centre
    return SceneRollouts(
        log,
        rollouts,
        evaluated,
        arrays["objects"]["type"][evaluated] == VEHICLE,
        road_edges(head, arrays),
        float(head["dt_s"]),
        lights_of(head, arrays, log.x.shape[1]),
        poses["ground"],
    )


def series_of(rolled: SceneRollouts, boxes: Boxes) -> dict[str, Floats]:
    """Return the features of the evaluated objects after the history, (N, T) each.

    `boxes` are those of the log or of one rollout; features are NaN where the object is absent.
    """
    own = rolled.evaluated
    nearest = features.distance_to_nearest(boxes, own)
    series = {"distance_to_nearest_object": nearest, "collision": (nearest < 0).astype(np.float64)}
    series["time_to_collision"] = features.time_to_collision(boxes, own, rolled.dt_s)
    if rolled.edges is not None:
        corners = np.nan_to_num(boxes.corners()[own])
        edge = np.stack(
            [
                features.distance_to_road_edge(corners[:, t], rolled.edges).max(-1)
                for t in range(corners.shape[1])
            ],
            1,
        )
        series |= {"distance_to_road_edge": edge, "offroad": (edge > 0).astype(np.float64)}
    runs = violations(boxes.x[own], boxes.y[own], rolled.lights)
    series["traffic_light_violation"] = runs.astype(np.float64)
    series = {name: np.where(boxes.valid[own], values, np.nan) for name, values in series.items()}
    series |= features.motion(
        boxes.x[own], boxes.y[own], boxes.heading[own], rolled.dt_s
    )  # from the frames before and after
    return {name: values[:, HISTORY + 1 :] for name, values in series.items()}


def pick(boxes: Boxes, number: int) -> Boxes:
    """Return one of several rollouts."""
    x, y, heading, valid = (getattr(boxes, name)[number] for name in ("x", "y", "heading", "valid"))
    return dataclasses.replace(boxes, x=x, y=y, heading=heading, valid=valid)


def likelihoods(rolled: SceneRollouts) -> dict[str, float]:
    """Return the likelihood of the log by feature; NaN for features that the scene does not have.

    As in the challenge, a speed counts if the log is valid in the frames before and after it, both
    of them after the history; an acceleration counts if the speeds before and after it count; the
    time to collision and traffic lights count for vehicles only.
    """
    log = series_of(rolled, rolled.log)
    each = [
        series_of(rolled, pick(rolled.rollouts, number)) for number in range(len(rolled.rollouts.x))
    ]
    there = rolled.log.valid[rolled.evaluated][:, HISTORY + 1 :]
    speed = features.central_valid(there)
    acceleration = features.central_valid(speed)
    valid = {"linear_speed": speed, "angular_speed": speed}
    of_vehicles = there & rolled.vehicles[:, None]
    valid |= {"time_to_collision": of_vehicles, "traffic_light_violation": of_vehicles}
    valid |= {"linear_acceleration": acceleration, "angular_acceleration": acceleration}
    result = dict.fromkeys(ESTIMATORS, float("nan"))
    for name, values in log.items():
        of = valid.get(name, there)
        result[name] = likelihood(name, values, np.stack([series[name] for series in each]), of)
    return result


def displacements(rolled: SceneRollouts) -> tuple[float, float]:
    """Return the mean distance from the log, and that of the scene's best rollout, in metres.

    The mean is over objects, times and rollouts.
    """
    own, after = rolled.evaluated, slice(HISTORY + 1, None)
    log, valid = rolled.log, rolled.log.valid[own, after]
    if not valid.any():
        return float("nan"), float("nan")
    distance = np.hypot(
        rolled.rollouts.x[:, own, after] - log.x[own, after],
        rolled.rollouts.y[:, own, after] - log.y[own, after],
    )
    known = valid & np.isfinite(distance)
    counts = known.sum(axis=2)
    means = np.where(known, distance, 0.0).sum(axis=2)[counts > 0] / counts[counts > 0]
    each = [
        row[count > 0] / count[count > 0]
        for row, count in zip(np.where(known, distance, 0.0).sum(axis=2), counts, strict=True)
    ]
    return float(means.mean()), min(float(row.mean()) for row in each if len(row))


def row_of(name: str, rolled: SceneRollouts, wosac: str = YEAR) -> tuple[Row, list[str]]:
    """Return a scene's row of the report, and remarks on the scene.

    Args:
        name: name of the scene.
        rolled: its rollouts.
        wosac: year whose weights are used.
    """
    values = likelihoods(rolled)
    ade, least = displacements(rolled)
    numbers = combine(values, wosac) | values | {"ade_m": ade, "min_ade_m": least}
    row: Row = {"scene": name, "rollouts": len(rolled.rollouts.x), "agents": len(rolled.evaluated)}
    remarks = []
    if rolled.edges is not None and _mostly_off(rolled):
        remarks.append(
            f"{name}: most logged cars are to the right of the road edges, where there should be "
            "no road: its map likelihoods mean little"
        )
    return {**row, **{column: numbers[column] for column in COLUMNS}}, remarks


def _mostly_off(rolled: SceneRollouts) -> bool:
    valid = rolled.log.valid[rolled.evaluated][:, HISTORY + 1 :]
    off = series_of(rolled, rolled.log)["offroad"][valid]
    return bool(len(off) and off.mean() > 0.5)


def means_of(seeds: Sequence[Sequence[Row]]) -> list[Row]:
    """Return a row per scene: its mean over seeds.

    Args:
        seeds: rows of the scenes, by seed.
    """
    if len(seeds) == 1:
        return list(seeds[0])
    means: list[Row] = []
    for rows in zip(*seeds, strict=True):
        values = np.array([[row[column] for column in COLUMNS] for row in rows], np.float64)
        counted = {
            name: sum(int(str(row[name])) for row in rows) for name in ("rollouts", "agents")
        }
        means.append(
            {
                "scene": rows[0]["scene"],
                **counted,
                **dict(zip(COLUMNS, values.mean(axis=0).tolist(), strict=True)),
            }
        )
    return means


def total_of(seeds: Sequence[Sequence[Row]]) -> Row:
    """Return the means over the scenes with 95 % intervals over scenes and seeds.

    Args:
        seeds: as for `means_of`.
    """
    rows = [row for of in seeds for row in of]
    total: dict[str, Any] = {"scene": f"mean of {len(seeds[0])} scenes"}
    total |= {name: sum(int(str(row[name])) for row in rows) for name in ("rollouts", "agents")}
    for column in COLUMNS:
        values = np.array([[row[column] for row in of] for of in seeds], np.float64)
        known = np.isfinite(values).astype(np.float64)
        values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
        most = np.inf if column.endswith("_m") else 1.0  # metres, or likelihoods
        total[column] = (
            Interval(values.sum() / known.sum(), *mean_interval(values, known, most))
            if known.any()
            else None
        )
    return total


def check_year(wosac: str) -> None:
    """Raise ConfigError if there are no weights of a year."""
    if wosac not in YEARS:
        raise ConfigError(f"--wosac {wosac}: use one of {', '.join(YEARS)}")


def describe_score(rollouts: int, wosac: str) -> str:
    """Return a line that explains the scores."""
    return (
        f"likelihoods of the log under {rollouts} rollouts from frame {HISTORY}; realism is their "
        f"mean with the weights of {wosac}"
    )


def evaluate_realism(
    actor: Actor,
    config: Any,
    *,
    episodes: int = ROLLOUTS,
    seed: int = 0,
    seeds: int = 1,
    backend: str = "serial",
    wosac: str = YEAR,
    submission: Path | None = None,
) -> Report:
    """Roll every scene out and compare the rollouts with its log.

    Args:
        actor: the driver; it should draw its actions, since equal rollouts make narrow histograms.
        config: settings of the env; OVERRIDES replace some.
        episodes: rollouts of each scene, at least 2.
        seed: rollout r of scene i runs in an env seeded with seed + i * episodes + r.
        seeds, backend: as for `evaluate`; a scene's row is its mean over seeds.
        wosac: year of the challenge whose weights are used, in YEARS.
        submission: a file to which the rollouts of the first seed are written, in the form of the
            challenge.

    Raises:
        ConfigError: there are too few rollouts, or no weights of the year.
        SceneError: no scene has agents and more than HISTORY + 4 frames; see `prepare_scenes`;
            or the file cannot be written.
        MissingExtraError: protobuf is not installed.
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 2:
        raise ConfigError(f"episodes is {episodes!r}; realism needs at least 2 rollouts of a scene")
    check_year(wosac)
    if submission is not None:
        require_protobuf()
    config = evaluation_config(config, {**getattr(actor, "overrides", {}), **OVERRIDES})
    prepared = prepare_scenes(config)
    rows: list[list[Row]] = []
    remarks, alike = dict[str, None](), True
    sent = Sent()

    def roll_out(number: int, pieces: bool) -> Iterator[bytes]:
        """Score the scenes with a seed, and yield the pieces of a submission."""
        nonlocal alike
        rows.append([])
        for index, rolled in _rollouts(
            actor, config, prepared.scenes, episodes, seed + number * SEED_STEP, backend
        ):
            row, scene_remarks = row_of(prepared.scenes.names[index], rolled, wosac)
            alike &= bool((rolled.rollouts.x == rolled.rollouts.x[:1]).all())
            rows[-1].append(row)
            remarks.update(dict.fromkeys(scene_remarks))
            if pieces and (rollouts := sent.take(prepared.scenes[index], rolled)) is not None:
                yield scenario_bytes(rollouts)

    for number in range(seeds):
        if submission is None or number:
            collections.deque(roll_out(number, False), maxlen=0)
        else:
            write_atomically(submission, itertools.chain([head_bytes()], roll_out(number, True)))
    notes = [describe_score(episodes, wosac)]
    if submission is not None:
        notes += sent.remarks(submission, episodes)
    if alike:
        notes.append(
            "all rollouts of a scene are equal: a policy that always takes its likeliest action "
            "has no spread (--sample)"
        )
    notes += remarks_on_empty(prepared.scenes.names, prepared.scenes.agents(config), config)
    notes += [*remarks_on_split(config), *remarks_on(prepared.left_out)]
    return Report(
        rows=means_of(rows), total=total_of(rows), remarks=[*notes, *remarks], score="realism"
    )


def _rollouts(
    actor: Actor, config: Any, scenes: SceneSet, episodes: int, seed: int, backend: str
) -> Iterator[tuple[int, SceneRollouts]]:
    agents = scenes.agents(config)
    config = dataclasses.replace(config, num_agents=int(agents.max()))
    with make_envs(config, episodes, seed, backend) as vec:
        for index in np.flatnonzero(agents):
            # A logged acceleration needs five frames.
            if int(scenes.scene(int(index))[0]["frame_count"]) > HISTORY + 4:
                at = int(index)
                yield at, drive(actor, vec, scenes, at, seed + at * episodes)
