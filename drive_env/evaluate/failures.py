# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Describes how each agent drove and why it failed: a row each, at the end of a scene's episode.

Runs in the learner on the state of an env, with the setting `metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drive_env.evaluate import nuplan
from drive_env.evaluate.contacts import contact_of, id_of
from drive_env.scenes import packed
from drive_env.scenes.sceneset import SceneSet
from puffervec._ffi import lib
from puffervec.contract.evaluation import Row

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv

PEAKS = ("peak_acceleration", "peak_braking", "peak_lateral")
SHOWN_FAILURES = (
    "scene", "episode", "id", "cause", "why", "other", "other_id",
    "driver", "angle", "rule", "at_fault", "contact_step",
)  # fmt: skip
# An agent that drove farther than this against its lane drove the wrong way.
WRONG_WAY_M = float(lib.PV_DRIVE_WRONG_WAY_M)


def add_agents(
    vec: VectorEnv, scenes: SceneSet, into: list[Row], seed: int, record: Any, episode: int
) -> None:
    """Add a row for each agent of an episode that has just ended.

    The column `why` lists what was not flawless. Under rules=nuplan a scene's only agent also gets
    nuPlan's metrics.

    Args:
        seed, episode: numbers of the seed, and of the scene's episode over all seeds.
    """
    state = vec.peek(int(record["env"]))
    scene, rows = int(record["task"]), np.flatnonzero(state["slot"] == int(record["slot"]))
    head, arrays = scenes.scene(scene)
    # If only one agent drives, the record's sum is this agent's share.
    progress = (
        float(record["values"][vec.spec.record_names.index("route_share")])
        if vec.config.rules == "nuplan" and len(rows) == 1
        else None
    )
    for row in rows:
        agent = {
            name: values[row].item()
            for name, values in state.items()
            if values.shape == state["slot"].shape
        }
        agent["starts_at_goal"] = starts_at_goal(arrays, agent["object"], vec.config)
        logged, spans = agent["displacement_steps"], agent["spans"]
        into.append(
            {
                "scene": scenes.names[scene],
                "seed": seed,
                "episode": episode,
                "object": agent["object"],
                "id": id_of(arrays["objects"], agent["object"]),
                "cause": cause_of(agent),
                "why": ", ".join(reasons_of(agent)),
                **contact_of(
                    state, int(row), arrays, int(head["segment_count"][0]), vec.config.box_scale
                ),
                "contact_step": agent["contact_step"] or None,
                "departure_step": agent["departure_step"] or None,
                "goal_step": agent["goal_step"] or None,
                "starts_at_goal": int(agent["starts_at_goal"]),
                "sdc": int(arrays["objects"]["flags"][agent["object"]] & packed.SDC > 0),
                "goal_m": float(
                    np.hypot(agent["goal_x"] - agent["x"], agent["goal_y"] - agent["y"])
                ),
                "least_ttc_s": agent["least_ttc"],
                "wrong_way_m": agent["wrong_way"],
                "ade_m": agent["displacement_sum"] / logged if logged else None,
                "path_m": agent["path_sum"] / spans if spans else None,
                "comfortable": agent["comfortable_spans"] / spans if spans else None,
                **{name: agent[name] for name in PEAKS},
                **(nuplan.metrics_of(agent, progress) if progress is not None else {}),
            }
        )


def starts_at_goal(arrays: Mapping[str, Any], number: int, config: Any) -> bool:
    """Return whether an agent starts within the goal radius of its goal.

    Such an agent is driven, but never counts as a success.
    """
    item = arrays["objects"][number]
    start = arrays["frames"][item["frames_index"] + config.init_step - item["frame_first"]]
    return bool(
        np.hypot(item["goal_x_m"] - start["x_m"], item["goal_y_m"] - start["y_m"])
        <= config.goal_radius_m
    )


def medians_of(agents: Sequence[Row]) -> str:
    """Return a remark on the medians over agents of their largest accelerations."""
    medians = (
        f"{name.removeprefix('peak_')} {np.median([row[name] for row in agents]):.1f}"
        for name in PEAKS
    )
    return f"medians over agents of the largest: {', '.join(medians)} m/s2"


def at_goal_of(agents: Sequence[Row]) -> list[str]:
    """Return a remark on agents that cannot score, if there are any."""
    count = sum(row["starts_at_goal"] == 1 for row in agents)
    return (
        [f"{count} of the {len(agents)} agents start at their goal and cannot score"]
        if count
        else []
    )


def cause_of(agent: Mapping[str, Any]) -> str | None:
    """Return the first failure, from an agent's readable state at the end; None if there is none.

    A contact counts as earlier than a departure in the same step. Failures that do not affect the
    score come last.

    >>> cause_of({"contact_step": 30, "departure_step": 20, "reached": 0})
    'off-road'
    """
    steps = {"collision": agent["contact_step"], "off-road": agent["departure_step"]}
    begun = {name: step for name, step in steps.items() if step}
    if begun:
        return min(begun, key=lambda name: begun[name])
    if not agent["reached"] and not agent.get("starts_at_goal"):
        return "did not arrive"
    if agent["wrong_way"] > WRONG_WAY_M:
        return "wrong way"
    return "red light" if agent["red_lights"] else "stop sign" if agent["signs_run"] else None


def reasons_of(agent: Mapping[str, Any]) -> list[str]:
    """Return why an agent's drive was not flawless, from its readable state at the end.

    >>> agent = {"contacts": 2, "faults": 1, "departures": 0, "red_lights": 0, "signs_run": 1}
    >>> reasons_of(agent | {"wrong_way": 9.0, "reached": 0})
    ['collision (at fault)', 'stop sign', 'wrong way', 'no goal']
    """
    reasons = []
    if agent["contacts"]:
        reasons.append("collision (at fault)" if agent["faults"] else "collision")
    if agent["departures"]:
        reasons.append("off-road")
    if agent["red_lights"]:
        reasons.append("red light")
    if agent["signs_run"]:
        reasons.append("stop sign")
    if agent["wrong_way"] > WRONG_WAY_M:
        reasons.append("wrong way")
    if not agent["reached"] and not agent.get("starts_at_goal"):
        reasons.append("no goal")
    return reasons
