# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The vector envs that the rules are tested on: Gymnasium's two, which show that a test asks for
the right thing, and ours.

Gymnasium's two are slow tests: what they show changes with Gymnasium's version and with a test, not
with a push.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium.vector
import pytest
from gymnasium.vector import AutoresetMode

import puffervec.gym

NEXT, SAME, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
MODES = (NEXT, SAME, DISABLED)

CLASSES: dict[str, Any] = {
    "gymnasium-sync": gymnasium.vector.SyncVectorEnv,
    "gymnasium-async": gymnasium.vector.AsyncVectorEnv,
    "sync": puffervec.gym.SyncVectorEnv,
    "async": puffervec.gym.AsyncVectorEnv,
}
THEIRS, OURS, ASYNC = (
    ("gymnasium-sync", "gymnasium-async"),
    ("sync", "async"),
    ("gymnasium-async", "async"),
)
Make = Callable[..., Any]


def quick_start() -> str:
    """The quickest way to start processes; with other threads about, a fork could deadlock (and is
    refused).
    """
    return "fork" if threading.active_count() == 1 else "forkserver"


class Kind:
    """Makes vector envs of one of the four kinds, and closes them at the end of the test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ours, self.asynchronous = name in OURS, name in ASYNC
        self.made: list[Any] = []

    def __call__(self, env_fns: Sequence[Callable[[], Any]], **settings: Any) -> Any:
        """Make one. Forked workers, ours two at most: starting them costs little, and one of ours
        has more than one env.
        """
        if self.name == "async":
            # A time limit, so that a worker that does not start says where it is.
            settings = {
                "context": quick_start(),
                "num_workers": min(2, len(env_fns)),
                "timeout_s": 100.0,
                **settings,
            }
        elif self.asynchronous:
            settings = {"context": quick_start(), **settings}
        envs = CLASSES[self.name](env_fns, **settings)
        self.made.append(envs)
        return envs

    def close(self) -> None:
        """Close all that the test left open."""
        for envs in self.made:
            envs.close(**({"terminate": True} if self.asynchronous else {}))
        self.made.clear()


def param(name: str, *marks: Any) -> Any:
    """Return a kind as a parameter."""
    return pytest.param(name, marks=[*marks, pytest.mark.slow] if name in THEIRS else marks)


def by_turns(cases: Sequence[Sequence[Any]]) -> list[Any]:
    """Return parameters in which each case has one of our two kinds in turn, as its last value."""
    return [
        pytest.param(*case, OURS[i % 2], id="-".join(map(str, (*case, OURS[i % 2]))))
        for i, case in enumerate(cases)
    ]


def kind_fixture(names: Sequence[str] = tuple(CLASSES), called: str = "kind") -> Any:
    """Return a fixture over these kinds."""

    @pytest.fixture(params=[param(name) for name in names], name=called)
    def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
        made = Kind(request.param)
        yield made
        made.close()

    return kind
