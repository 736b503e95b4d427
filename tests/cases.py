# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The envs and settings that tests over all envs run through. `drive` is among them where the core
has it.

A built-in env without a case of its own runs with its default settings, so a new one needs no case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

import puffervec
from puffervec import envs


@dataclass(frozen=True)
class Case:
    """An env with settings. random: another seed shows other bytes although the actions are the
    same.
    """

    name: str
    env: str
    kwargs: dict[str, Any]
    random: bool = True
    needs: Callable[[], str] = lambda: ""
    """Returns why the case cannot run here, or ""."""


def _without_drive() -> str:
    try:
        puffervec.make("drive", env_kwargs=DRIVE, backend="serial", num_envs=1).close()
    except Exception as error:  # whatever is not there yet: the C type, the scenes, a dependency
        return f"drive cannot be made here: {type(error).__name__}: {error}"
    return ""


def missing_from(cases: Iterable[Any]) -> list[str]:
    """Return the built-in envs that none of the cases, which have an `env`, is about."""
    return sorted(envs.BUILT_IN.keys() - {case.env for case in cases if isinstance(case.env, str)})


DRIVE: dict[str, Any] = {"num_agents": 24, "observe_previous_action": 1}

CASES = [
    Case("probe", "probe", {"num_agents": 4, "leave": 1, "end_kind": 2, "episode_length": 5}),
    Case(
        "probe, two groups",
        "probe",
        {"mode": 1, "num_agents": 3, "leave": 1, "end_kind": 2, "episode_length": 4},
    ),
    Case("cartpole", "cartpole", {"max_episode_steps": 40}),
    Case(
        "tag, full",
        "tag_grid",
        {"num_taggers": 4, "grid_length": 4, "episode_length": 20},
        random=False,
    ),
    Case(
        "tag, partial, random starts",
        "tag_grid",
        {
            "num_taggers": 2,
            "grid_length": 5,
            "episode_length": 30,
            "use_full_observation": False,
            "random_starts": True,
        },
    ),
    Case(
        "tag continuous, full",
        "tag_continuous",
        {
            "num_taggers": 2,
            "num_runners": 3,
            "grid_length": 3.0,
            "episode_length": 30,
            "tagging_distance": 0.1,
        },
        random=False,
    ),
    Case(
        "tag continuous, partial, random starts",
        "tag_continuous",
        {
            "num_taggers": 3,
            "num_runners": 9,
            "grid_length": 4.0,
            "episode_length": 40,
            "tagging_distance": 0.1,
            "use_full_observation": False,
            "num_other_agents_observed": 5,
            "random_starts": True,
        },
    ),
    Case(
        "covid",
        "covid",
        {
            "episode_length": 30,
            "action_cooldown_period": 4,
            "subsidy_interval": 7,
            "vaccine_delivery_start": 12,
        },
        random=False,
    ),
    Case("drive", "drive", DRIVE, needs=_without_drive),
]
PLAIN = missing_from(CASES)
CASES += [Case(env, env, {}) for env in PLAIN]


def params(cases: list[Case] = CASES) -> list[Any]:
    """Return the cases for `pytest.mark.parametrize`."""
    return [pytest.param(case, id=case.name) for case in cases]


def require(case: Case) -> None:
    """Skip, with the reason, where the case cannot run."""
    reason = case.needs()
    if reason:
        pytest.skip(reason)
