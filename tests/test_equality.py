# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""check_env_equal (puffervec/testing/equality.py): equal envs pass, each kind of difference is
found, and what is exempt is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import puffervec
from puffervec import check_env_equal
from puffervec.errors import ConfigError, EnvMismatchError
from puffervec.testing.equality import FLAGS
from puffervec.testing.reference.tag_grid import TagGrid

GAME: dict[str, Any] = {"num_taggers": 2, "grid_length": 4, "episode_length": 9}


def compare(reference: Any, steps: int = 60, **arguments: Any) -> puffervec.EnvEquality:
    return check_env_equal("tag_grid", reference, settings=GAME, steps=steps, **arguments)


# ---- equal ---------------------------------------------------------------------------------------


def test_the_report_counts_what_was_compared() -> None:
    seen = check_env_equal(
        "tag_grid",
        TagGrid,
        settings=[GAME, {**GAME, "use_full_observation": False}],
        seeds=(0, 1, 2),
        steps=50,
    )
    assert seen.steps + seen.resets == 2 * 3 * (50 + 1)
    assert (
        seen.resets - 2 * 3 <= seen.events["terminals"] + seen.events["truncations"] <= seen.resets
    )
    assert seen.events["tags"] == seen.events["terminals"] > 0 and seen.events["walls"] > 100
    assert seen.exempt == {}
    assert set(seen.largest.values()) == {0.0}
    assert {
        "rewards",
        "masks",
        "observations.x",
        "observations.own_position",
        "state.x",
        "state.time",
    } <= set(seen.largest)


def test_all_envs_of_a_vector_env_in_workers() -> None:
    made = []

    def reference() -> TagGrid:
        made.append(TagGrid(**GAME))
        return made[-1]

    with puffervec.make(
        "tag_grid", env_kwargs={**GAME, "random_starts": True}, num_envs=4, num_workers=2
    ) as vec:
        seen = check_env_equal(vec, reference, steps=30, starts="env")
        assert seen.steps + seen.resets == 4 * 31
        vec.reset(seed=0)  # it is still the caller's
    assert len(made) == 4


class Pole(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gymnasium's CartPole with its state by name."""

    def state(self) -> dict[str, Any]:
        return dict(zip(("x", "x_dot", "theta", "theta_dot"), self.unwrapped.state, strict=True))  # type: ignore[attr-defined]

    def set_state(self, state: dict[str, Any]) -> np.ndarray:
        self.unwrapped.state = found = tuple(float(state[name]) for name in self.state())  # type: ignore[attr-defined]
        return np.array(found, np.float32)


def test_a_gymnasium_env_is_a_reference() -> None:
    def pole() -> Pole:
        return Pole(gymnasium.make("CartPole-v1"))

    seen = check_env_equal("cartpole", pole, steps=300, starts="env", tolerances={"state": 1e-12})
    assert seen.events["terminals"] > 5 and "state.theta" in seen.largest
    with pytest.raises(EnvMismatchError, match=r"in observations.*\[0\], Pole has"):
        check_env_equal(
            "cartpole", pole(), tolerances={"observations": 1e-5}
        )  # its starts are Gymnasium's


def test_teacher_forcing_keeps_small_differences_small() -> None:
    class Drifting(TagGrid):
        """Moves the runner one cell too far every third step."""

        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            if self.time % 3 == 0 and not (result[2] or result[3]):
                self.x[-1] = min(self.x[-1] + 1, self.grid_length)
                result = (self._observations(), *result[1:])
            return result

    allowed: dict[str, Any] = {
        "tolerances": {"state.x": 1, "observations.x": 0.25},
        "actions": lambda game, rng: [0, 0, 0],
    }
    with pytest.raises(EnvMismatchError) as caught:
        compare(Drifting, **allowed)
    assert caught.value.step == 6
    seen = compare(Drifting, teacher_forced=True, **allowed)
    assert (seen.largest["state.x"], seen.largest["observations.x"]) == (1.0, 0.25)


# ---- different -----------------------------------------------------------------------------------


def changed(change: Callable[[list[Any]], None]) -> type[TagGrid]:
    """A reference whose results are changed from the fourth step of an episode on."""

    class Changed(TagGrid):
        def step(self, actions: Any) -> Any:
            result = list(super().step(actions))
            if self.time >= 4:
                change(result)
            return tuple(result)

    return Changed


def reward(result: list[Any]) -> None:
    result[1] = result[1] + np.float32([0, 0.5, 0])


def terminal(result: list[Any]) -> None:
    result[2] = not result[2]


def truncation(result: list[Any]) -> None:
    result[3] = np.array([False, True, False])


def mask(result: list[Any]) -> None:
    result[4]["masks"] = [True, True, False]


def observation(result: list[Any]) -> None:
    result[0][2, 4] += 0.5  # y of agent 1, as the runner sees it


def no_number(result: list[Any]) -> None:
    result[0][0, 0] = np.nan


def infinite(result: list[Any]) -> None:
    result[1] = np.array([np.inf, 0.0, 0.0])


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        (
            reward,
            "rewards",
            "has -0.00999999978 in rewards[1], Changed has 0.49000001 (allowed difference: 0)",
        ),
        (terminal, "terminals", "has 0 in terminals[0], Changed has 1"),
        (truncation, "truncations", "has 0 in truncations[1], Changed has 1"),
        (mask, "masks", "has 1 in masks[2], Changed has 0"),
        (observation, "observations.y", "in observations.y[2, 1], Changed"),
        (infinite, "rewards", "Changed has inf"),
        (no_number, "observations.x", "Changed has nan (allowed difference: 0)"),
    ],
)
def test_a_difference_is_found_where_it_begins(change: Any, field: str, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        compare(changed(change), seeds=(7,))
    error = caught.value
    assert isinstance(error, EnvMismatchError) and isinstance(error, puffervec.PuffervecError)
    assert (error.field, error.env, error.seed, error.step) == (field, 0, 7, 4)
    assert said in str(error)


def test_a_difference_is_shown_with_what_came_before() -> None:
    """Enough to step by hand from there."""
    with pytest.raises(EnvMismatchError) as caught:
        compare(changed(reward), actions=lambda reference, rng: [1, 4, 0])
    assert caught.value.actions.tolist() == [1, 4, 0] and caught.value.before["y"].tolist() == [
        2,
        0,
        0,
    ]
    lines = str(caught.value).splitlines()
    assert lines[1:] == [
        "in step 4 of env 0, seed 0, settings {'num_taggers': 2, 'grid_length': 4, "
        "'episode_length': 9}",
        "actions: [1, 4, 0]",
        "state before:",
        "    x: [4, 2, 0]",
        "    y: [2, 0, 0]",
        "    time: [3]",
    ]


def test_a_difference_of_the_state_that_no_row_shows() -> None:
    class Ahead(TagGrid):
        def state(self) -> Any:
            return {**super().state(), "time": np.array([self.time + (self.time > 2)])}

    with pytest.raises(EnvMismatchError, match=r"has 3 in state.time\[0\], Ahead has 4") as caught:
        compare(Ahead)
    assert caught.value.step == 3


def test_a_difference_in_the_first_row() -> None:
    moved = {**GAME, "starting_location_x": [1, 2, 0], "starting_location_y": [2, 2, 0]}
    with pytest.raises(EnvMismatchError, match="in the reset of env 0, seed 3") as caught:
        check_env_equal("tag_grid", TagGrid(**moved), settings=GAME, seeds=(3,))
    assert (caught.value.step, caught.value.field) == (0, "observations.x")


@pytest.mark.parametrize(
    ("tolerances", "fits"),
    [
        ({"rewards": 0.501}, True),
        ({"rewards": 0.4}, False),
        ({"rewards": (0.001, 0.5)}, True),  # 0.5 is a whole turn
        ({"rewards": (0.2, 0.6)}, True),  # as 0.1 the other way round
        ({"rewards": (0.05, 0.6)}, False),
        ({"observations": 1.0}, False),
    ],
)
def test_tolerances_and_periods(tolerances: Any, fits: bool) -> None:
    if fits:
        assert compare(changed(reward), tolerances=tolerances).largest["rewards"] < 0.501
    else:
        with pytest.raises(EnvMismatchError):
            compare(changed(reward), tolerances=tolerances)


def test_the_tolerance_of_a_field_goes_before_that_of_all() -> None:
    assert (
        compare(
            changed(observation), tolerances={"observations.y": 0.5, "observations": 0.0}
        ).largest["observations.y"]
        == 0.5
    )
    with pytest.raises(EnvMismatchError):
        compare(changed(observation), tolerances={"observations.y": 0.0, "observations": 0.5})


# ---- exempt --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("margins", "fits"),
    [
        (1e-7, True),
        (1e-5, False),
        ({"rewards": 1e-7}, True),
        ({"rewards": np.array([1.0, 1e-7, 1.0])}, True),
        ({"rewards": np.array([1e-7, 1.0, 1.0])}, False),
        ({"terminals": 0.0}, False),
    ],
)
def test_what_is_near_a_threshold_is_counted_and_not_compared(margins: Any, fits: bool) -> None:
    """The reference says so of the steps that it changes; the other way would be an error there."""

    class Uncertain(changed(reward)):  # type: ignore[misc]
        def margins(self) -> Any:
            return margins if self.time == 4 else 1.0

        def step(self, actions: Any) -> Any:
            return super().step(actions) if self.time == 3 else TagGrid.step(self, actions)

    if fits:
        seen = compare(Uncertain)
        assert 3 < seen.exempt["rewards"] <= 3 * seen.steps // 4 and seen.largest["rewards"] == 0.0
    else:
        with pytest.raises(EnvMismatchError, match=r"in rewards\[1\]"):
            compare(Uncertain)


def test_envs_that_parted_at_a_threshold_begin_anew() -> None:
    class Otherwise(TagGrid):
        """Ends its episodes after four steps, which it calls uncertain."""

        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            return (*result[:2], self.time == 4 or result[2], *result[3:])

        def margins(self) -> Any:
            return 0.0 if self.time == 4 else np.inf

    seen = compare(Otherwise, teacher_forced=True)
    assert (
        set(seen.exempt) == {*FLAGS, "rewards", "observations", "state"}
        and seen.exempt["masks"] > 10
    )
    assert seen.steps > 30


@pytest.mark.slow
def test_rows_of_agents_that_do_not_act_are_not_compared() -> None:
    """drive has rows that no car fills; what stands there means nothing."""

    class Idle:
        """Shows what the env shows, but for idle rows."""

        def __init__(self, vec: Any) -> None:
            self.rows = vec.halves[0].groups["agents"]

        def _infos(self) -> dict[str, Any]:
            return {"masks": self.rows.masks.copy()}

        def _observations(self) -> np.ndarray:
            return np.where(self.rows.masks[:, None], self.rows.observations, np.inf)

        def reset(self, seed: int | None = None) -> Any:
            return self._observations(), self._infos()

        def step(self, actions: Any) -> Any:
            rewards = np.where(self.rows.masks, self.rows.rewards, 9.0)
            return (
                self._observations(),
                rewards,
                self.rows.terminals.copy(),
                self.rows.truncations.copy(),
                self._infos(),
            )

    with puffervec.make("drive", env_kwargs={"scenes": "generated:1"}, backend="serial") as vec:
        assert not vec.halves[0].groups["agents"].masks.all()
        seen = check_env_equal(vec, Idle(vec), steps=3)
    assert (seen.steps, seen.largest["rewards"]) == (3, 0.0)


# ---- refused -------------------------------------------------------------------------------------


class Bare:
    """A reference with nothing that is optional."""

    def __init__(self, **settings: Any) -> None:
        self.game = TagGrid(**settings)
        self.reset, self.step = self.game.reset, self.game.step


def test_a_reference_without_state_is_compared_by_its_rows() -> None:
    seen = compare(Bare)
    assert seen.steps > 30 and not [name for name in seen.largest if name.startswith("state.")]
    with pytest.raises(
        EnvMismatchError, match=r"x: \[2, 2, 0\]"
    ):  # the state before is then the C env's
        compare(changed(reward), actions=lambda reference, rng: [0, 0, 0])


def odd(**methods: Any) -> type[TagGrid]:
    return type(
        "Odd",
        (TagGrid,),
        {name: lambda self, value=value: value for name, value in methods.items()},
    )


@pytest.mark.parametrize(
    ("reference", "arguments", "said"),
    [
        (Bare, {"teacher_forced": True}, "teacher_forced needs state\\(\\) of the reference"),
        (Bare, {"starts": "env"}, "starts='env' needs set_state\\(\\)"),
        (TagGrid, {"starts": "random"}, "starts is 'random': use 'reference' or 'env'"),
        (TagGrid, {"seeds": []}, "seeds is empty"),
        (
            TagGrid,
            {"tolerances": {"reward": 1}},
            "tolerances has 'reward': the names are masks, .*rewards, observations.x",
        ),
        (odd(_observations=np.zeros((3, 5))), {}, "observations of the reference .*x \\(3, 3\\)"),
        (odd(state={"x": [1, 2]}), {}, "the reference's state does not have the shapes"),
        (odd(margins={"tags": 1}), {}, "margins has 'tags': the names are"),
    ],
)
def test_unusable_references_and_arguments(reference: Any, arguments: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        compare(reference, **arguments)


@pytest.mark.parametrize("settings", [{"num_buffers": 2}, {"autoreset_mode": "same_step"}])
def test_vector_envs_that_cannot_be_compared(settings: Any) -> None:
    with (
        puffervec.make(
            "tag_grid", env_kwargs=GAME, num_envs=2, backend="serial", **settings
        ) as vec,
        pytest.raises(ConfigError, match="cannot be compared"),
    ):
        check_env_equal(vec, lambda: TagGrid(**GAME))


def test_one_reference_is_for_one_env() -> None:
    with puffervec.make("tag_grid", env_kwargs=GAME, num_envs=2, backend="serial") as vec:
        with pytest.raises(ConfigError, match="one reference for 2 envs"):
            check_env_equal(vec, TagGrid(**GAME))
        with pytest.raises(ConfigError, match="leave them out"):
            check_env_equal(vec, TagGrid, settings=GAME)
