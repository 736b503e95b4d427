# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reports a policy against each kind of traffic: `puffer-train eval RUN --suite traffic`.

The policy drives the self-driving car of each scene. The other vehicles follow their log, are
driven by IDM with drivers of one kind (csrc/drive/motion/kinds.c), or are agents that another
policy drives (`--against`). Runs in the learner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import DriveConfig
from drive_env.evaluate.columns import MEANINGS
from drive_env.evaluate.failures import at_goal_of
from drive_env.evaluate.intervals import cluster_interval
from drive_env.kinds import kinds
from drive_env.scenes import packed
from drive_env.scenes.sceneset import SceneSet
from puffervec.contract.evaluation import Actor, Interval, Report, Row
from puffervec.errors import ConfigError

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv

EPISODES = 4  # per scene and kind of traffic: drivers are drawn anew in each
ALL = "all"
# The settings under which another policy drives all vehicles that move, except for the
# self-driving car.
DRIVEN_BY_POLICIES: dict[str, Any] = {"control": "moving", "others": "log", "traffic_kinds": ""}


def traffics() -> dict[str, dict[str, Any]]:
    """Return the settings of each kind of traffic that needs no policy, by name."""
    log = {"log": {"others": "log", "traffic_kinds": ""}}
    return log | {kind: {"others": "idm", "traffic_kinds": kind} for kind in kinds()}


class Against:
    """An actor that drives the self-driving cars, while another one drives all other agents."""

    def __init__(self, driver: Actor, other: Actor, scenes: SceneSet) -> None:
        """Take both actors.

        Args:
            driver: drives the self-driving car of each scene.
            other: drives the other agents.
            scenes: the scenes of the env.
        """
        self._driver, self._other, self._scenes = driver, other, scenes
        self.overrides: Mapping[str, Any] = getattr(driver, "overrides", {})

    def reset(self, vec: VectorEnv) -> None:
        """Reset both actors, and find the rows of the self-driving cars."""
        self._driver.reset(vec)
        self._other.reset(vec)
        self._own = np.concatenate([self._own_rows(vec.peek(env)) for env in range(vec.num_envs)])

    def _own_rows(self, state: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Return which rows of an env that holds one scene belong to its self-driving car."""
        _, arrays = self._scenes.scene(int(state["slot_scene"][0]))
        number = state["object"]  # -1 in rows without an agent
        own: NDArray[np.bool_] = arrays["objects"]["flags"][number] & packed.SDC > 0
        return own & (number >= 0)

    def act(self, obs: Any, vec: VectorEnv) -> NDArray[Any]:
        """Return the actions of both actors, each for its own rows."""
        actions = np.array(self._other.act(obs, vec))
        actions[self._own] = np.asarray(self._driver.act(obs, vec))[self._own]
        return actions


def check_fits(name: str, actor: Actor, config: DriveConfig) -> None:
    """Refuse an actor that needs an env with other settings.

    Raises:
        ConfigError: the actor needs another value of a setting, which the message names.
    """
    for setting, value in getattr(actor, "overrides", {}).items():
        if getattr(config, setting) != value:
            raise ConfigError(
                f"--against: {name} needs the setting {setting}={value!r}, but the env has "
                f"{getattr(config, setting)!r}: use policies that were trained with equal "
                "observations and actions"
            )


def step_of(row: Row, name: str) -> float:
    """Return the step in a cell of an agent's row, or infinity if the cell is empty."""
    step = row[name]
    return float(step) if isinstance(step, (int, float)) else math.inf


def has_scored(row: Row) -> bool:
    """Return whether an agent reached its goal without an earlier contact or road departure.

    >>> has_scored({"goal_step": 30, "contact_step": 31, "departure_step": None})
    True
    """
    mishap = min(step_of(row, "contact_step"), step_of(row, "departure_step"))
    return step_of(row, "goal_step") < mishap


RATES: dict[str, Callable[[Row], bool]] = {
    "score": has_scored,
    "goal": lambda row: row["goal_step"] is not None,
    "collision": lambda row: row["contact_step"] is not None,
    "at_fault": lambda row: "(at fault)" in str(row["why"]),
    "offroad": lambda row: row["departure_step"] is not None,
}


def row_of(traffic: str, agents: Sequence[Row]) -> Row:
    """Return the rates of some agents with 95 % intervals, in which scenes and seeds are clusters.

    Args:
        traffic: name of the traffic that they met.
        agents: a row per agent and episode (failures.py).
    """
    places = [
        {key: at for at, key in enumerate(dict.fromkeys(row[name] for row in agents))}
        for name in ("seed", "scene")
    ]

    def count_cells(happened: Callable[[Row], bool]) -> NDArray[np.float64]:
        cells = np.zeros([len(of) for of in places])
        for row in agents:
            cells[places[0][row["seed"]], places[1][row["scene"]]] += happened(row)
        return cells

    rates: dict[str, Interval | None] = dict.fromkeys(RATES)
    if agents:
        counts = count_cells(lambda row: True)
        for rate, happened in RATES.items():
            hits = count_cells(happened)
            rates[rate] = Interval(float(hits.sum()) / len(agents), *cluster_interval(hits, counts))
    return {"traffic": traffic, "agents": len(agents), **rates}


def report_of(agents: Mapping[str, Sequence[Row]], remarks: Mapping[str, Sequence[str]]) -> Report:
    """Return a table with a row for each kind of traffic, and one for all.

    Args:
        agents: for each kind of traffic, a row per episode and agent that the policy drove.
        remarks: for each kind of traffic, the remarks of its evaluation.
    """
    every = [{"traffic": name, **row} for name, rows in agents.items() for row in rows]
    lines = dict.fromkeys(line for lines in remarks.values() for line in lines)
    heard = {line: [name for name in remarks if line in remarks[name]] for line in lines}
    return Report(
        rows=[row_of(name, rows) for name, rows in agents.items()],
        total=row_of(ALL, every),
        remarks=[
            "rates are shares of the cars that the policy drove, in all episodes; in the 95 % "
            "intervals scenes, and seeds, are clusters",
            *at_goal_of(every),
            *(
                line if len(names) == len(remarks) else f"{', '.join(names)}: {line}"
                for line, names in heard.items()
            ),
        ],
        score="score",
        weight="agents",
        tables={"agents": every},
        unprinted=("agents",),
        meanings=MEANINGS,
    )
