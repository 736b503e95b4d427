# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Stepping Python envs (puffervec/workers/python/cells.py, puffervec/workers/python/results.py):
what they may return, and PufferEnvs.
"""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import puffervec
from puffervec.errors import SpaceMismatchError, WorkerError
from puffervec.vec.vector_env import VectorEnv
from tests.helpers import ManyInOne, thinned
from tests.python_envs import Counting, Walkers, walkers_without_rows

pytestmark = pytest.mark.usefixtures("no_leaks")


class Outcomes(gymnasium.Env[Any, Any]):
    """Returns the outcomes that it was given, one per step: (observation, reward, terminated,
    truncated).
    """

    def __init__(
        self, first: Any, outcomes: list[Any], space: Any = None, keeps: bool = False
    ) -> None:
        self.observation_space = spaces.Box(-9, 9, (2,)) if space is None else space
        self.action_space = spaces.Discrete(3)
        self.first, self.outcomes, self.at = first, outcomes, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.first, {}

    def step(self, action: Any) -> Any:
        self.at += 1
        return (*self.outcomes[self.at - 1], {})


class Team:
    """A parallel env with one agent: whatever a Gymnasium env returns, by agent."""

    possible_agents = ("one",)

    def __init__(self, creator: Any) -> None:
        self.env, self.agents = creator(), ["one"]

    def observation_space(self, agent: str) -> Any:
        return self.env.observation_space

    def action_space(self, agent: str) -> Any:
        return self.env.action_space

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        result = self.env.reset(seed=seed)
        return (
            tuple({"one": value} for value in result)
            if isinstance(result, tuple)
            else {"one": result}
        )

    def step(self, actions: Any) -> Any:
        return tuple({"one": value} for value in self.env.step(actions["one"]))


def make(*creators: Any, **settings: Any) -> VectorEnv:
    return puffervec.make(
        list(creators),
        num_envs=len(creators),
        **{"backend": ManyInOne, "num_workers": 1, **settings},
    )


ROW = np.array([1, 2], np.float32)


# ---- what an env may return ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "rewards",
    [
        [1, 2.5, True],
        [np.float64(1), np.float32(2.5), np.int8(1)],
        [np.array(1.0), np.array([2.5]), 1],
        [np.array([1.0]), np.array([2.5]), np.array([1])],
        [np.array([[1.0]]), 2.5, 1],
    ],
    ids=str,
)
def test_rewards_of_all_kinds(rewards: list[Any]) -> None:
    creators = [
        functools.partial(Outcomes, ROW, [(ROW, reward, False, False)] * 2) for reward in rewards
    ]
    with make(*creators) as vec:
        vec.reset(seed=0)
        for _ in range(2):
            assert vec.step([0] * 3)[1].tolist() == [1, 2.5, 1]
    with make(creators[0]) as vec:
        vec.reset(seed=0)
        assert vec.step([0])[1].tolist() == [1]


@pytest.mark.parametrize("kind", ["gymnasium", "parallel"])
@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (1e300, r"the reward is 1e\+300: rewards are float32"),
        (None, "the reward is None: give a number"),
        ("much", "the reward is 'much': give a number"),
    ],
)
def test_a_reward_that_fits_no_row_is_an_error_of_its_env(
    reward: Any, words: str, kind: str
) -> None:
    """It would be infinite, or not a number, and Adam's moments with it."""
    creators: list[Any] = [
        functools.partial(Outcomes, ROW, [(ROW, given, False, False)])
        for given in (1.0, reward, 1.0)
    ]
    if kind == "parallel":
        creators = [functools.partial(Team, creator) for creator in creators]
    with make(*creators) as vec:
        vec.reset(seed=0)
        with pytest.raises(WorkerError, match=f"worker 0, env 1, step 1: ConfigError: {words}"):
            vec.step([0] * 3)


def test_infinite_rewards_of_the_env_itself_and_integers_stay() -> None:
    rewards = [float("inf"), -3.4e38, 2**20]
    with make(
        *[functools.partial(Outcomes, ROW, [(ROW, reward, False, False)]) for reward in rewards]
    ) as vec:
        vec.reset(seed=0)
        assert vec.step([0] * 3)[1].tolist() == [np.float32(reward) for reward in rewards]


@pytest.mark.parametrize(
    ("first", "outcome", "words"),
    [
        (
            None,
            None,
            r"env 1: ConfigError: reset returned an observation alone, as in the old Gym "
            r"interface: return \(obs",
        ),
        (3, None, "env 1: ConfigError: reset returned 3 values"),
        (
            2,
            (ROW, 1.0, False),
            "env 1, step 1: ConfigError: step returned 4 values, as in the old Gym interface: "
            "return",
        ),
        (2, (ROW, 1.0), "env 1, step 1: ConfigError: step returned 3 values"),
    ],
)
@pytest.mark.parametrize("kind", ["gymnasium", "parallel"])
def test_an_env_of_the_old_interface_is_told_so(
    first: Any, outcome: Any, words: str, kind: str
) -> None:
    class Old(Outcomes):
        def reset(self, **given: Any) -> Any:
            result = (ROW, {}, "more")
            return ROW if first is None else result[:first]

    good: Any = functools.partial(Outcomes, ROW, [(ROW, 1.0, False, False)] * 2)
    bad: Any = functools.partial(Old, ROW, [outcome])
    if kind == "parallel":
        good, bad = functools.partial(Team, good), functools.partial(Team, bad)
        words = words.replace("an observation alone", "one dict")
    with make(good, bad, good) as vec, pytest.raises(WorkerError, match=words):
        vec.reset(seed=0)
        vec.step([0] * 3)


@pytest.mark.parametrize("yes", [True, 1, np.bool_(True), np.array(True), np.array([1])], ids=repr)
def test_flags_of_all_kinds(yes: Any) -> None:
    creators = [
        functools.partial(Outcomes, ROW, [(ROW, 1.0, yes, False)]),
        functools.partial(Outcomes, ROW, [(ROW, 1.0, False, yes)]),
        functools.partial(Outcomes, ROW, [(ROW, 1.0, yes, yes)]),
    ]
    with make(*creators) as vec:
        vec.reset(seed=0)
        _, _, terminals, truncations, _ = vec.step([0] * 3)
        assert terminals.tolist() == [True, False, True] and truncations.tolist() == [
            False,
            True,
            True,
        ]
        assert terminals.dtype == truncations.dtype == np.bool_
        assert not np.any(vec.step([0] * 3)[2:4])  # the reset rows


def test_an_env_may_use_its_array_again() -> None:
    """What it returned was copied into the rows; final observations too."""

    class Reusing(Counting):
        array = np.zeros(4, np.float32)

        def seen(self, action: Any) -> np.ndarray:
            self.array[:] = super().seen(action)
            return self.array

    with make(Reusing, Reusing, autoreset_mode="same_step") as vec:
        vec.reset(seed=0)
        for _ in range(3):
            observations = vec.step([1, 2])[0].tolist()
        assert observations == [[0, 1, 0, 0], [1, 1, 0, 0]]
        assert vec.final_observations.tolist() == [[0, 0, 3, 1], [1, 0, 3, 2]]


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_envs_may_share_the_array_of_their_resets(mode: str) -> None:
    """Also where both are reset in one turn, in which small observations are written together."""
    shared = np.zeros(4, np.float32)

    class Sharing(Counting):
        def reset(self, **given: Any) -> Any:
            observation, info = super().reset(**given)
            shared[:] = observation
            return shared, info

    with make(*[Sharing] * 3, autoreset_mode=mode) as vec:
        assert vec.reset(seed=5)[0][:, 0].tolist() == [5, 6, 7]
        for _ in range(12):
            assert vec.step([1, 2, 3])[0][:, 0].tolist() == [5, 6, 7]


# ---- the first observations ----------------------------------------------------------------------

DICT = spaces.Dict(
    pos=spaces.Box(-1, 1, (2,)),
    inner=spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 255, (2,), np.uint8)]),
)
GOOD = {"pos": np.zeros(2, np.float32), "inner": (1, np.zeros(2, np.uint8))}


@pytest.mark.parametrize("place", ["reset", "step"])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {**GOOD, "pos": np.zeros(3, np.float32)},
            r"observation\['pos'\] has shape \(3,\): the space wants shape \(2,\)",
        ),
        ({"pos": GOOD["pos"]}, r"observation lacks \['inner'\]: the space wants exactly the keys"),
        ({**GOOD, "extra": 1}, r"has the extra \['extra'\]"),
        (
            {**GOOD, "inner": (1.5, GOOD["inner"][1])},
            r"observation\['inner'\]\[0\] has dtype float64",
        ),
        (
            {**GOOD, "inner": (1, np.full(2, 300))},
            r"observation\['inner'\]\[1\] has dtype int64 and values such as 300",
        ),
        ({**GOOD, "inner": (1,)}, r"observation\['inner'\] has 1 entries: the space wants 2"),
        (np.zeros(4), r"observation is of type ndarray: the space wants a dict"),
    ],
)
def test_a_first_observation_that_does_not_fit_is_named(place: str, wrong: Any, words: str) -> None:
    good = functools.partial(Outcomes, GOOD, [(GOOD, 0.0, False, False)] * 3, DICT)
    bad = functools.partial(
        Outcomes, *((wrong, []) if place == "reset" else (GOOD, [(wrong, 0.0, False, False)])), DICT
    )
    with make(good, bad, good) as vec:
        with pytest.raises(
            WorkerError, match=f"worker 0, env 1(, step [0-9]+)?: SpaceMismatchError: .*{words}"
        ) as caught:
            vec.reset(seed=0)
            vec.step([0] * 3)
        assert isinstance(caught.value.__cause__, SpaceMismatchError)


MATRIX = spaces.Box(-9, 9, (2, 2))
SQUARE = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("space", "good", "wrong"),
    [
        (None, ROW, np.ones(1, np.float32)),
        (None, ROW, np.float32(3)),
        (None, ROW, 3.0),
        (None, ROW, np.ones((1, 2), np.float32)),
        (None, ROW.astype(np.float64), np.ones(1)),
        (None, ROW.tolist(), [1.0]),
        (MATRIX, SQUARE, np.ones(2, np.float32)),
        (spaces.MultiDiscrete([3, 3]), np.ones(2, np.int64), np.ones(1, np.int64)),
        (DICT, GOOD, {**GOOD, "pos": np.zeros(1, np.float32)}),
        (DICT, GOOD, {**GOOD, "inner": (1, np.zeros((), np.uint8))}),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["step", "reset", "parallel"])
def test_an_observation_of_another_shape_is_refused_at_any_step(
    kind: str, space: Any, good: Any, wrong: Any
) -> None:
    """NumPy would spread one number over the whole row."""

    class Late(Outcomes):
        def reset(self, **given: Any) -> Any:
            first = self.outcomes[self.at][0] if self.at else self.first
            self.at += 1
            return first, {}

    rows = [
        (good, 1.0, False, False),
        (good, 1.0, kind == "reset", False),
        *[(good, 1.0, False, False)] * 5,
    ]
    changed = [*rows[:3], (wrong, 1.0, False, False), *rows]
    creators: list[Any] = [
        functools.partial(Late, good, outcomes, space) for outcomes in (rows, changed, rows)
    ]
    if kind == "parallel":
        creators = [functools.partial(Team, creator) for creator in creators]
    action = [0] * 3
    with make(*creators) as vec:
        vec.reset(seed=0)
        vec.step(action)
        with pytest.raises(
            WorkerError, match="worker 0, env 1, step [234]: SpaceMismatchError: .* shape"
        ):
            for _ in range(3):
                vec.step(action)


def test_observations_of_changing_kinds_are_those_of_the_env() -> None:
    """Each goes its own way into its row."""

    class Changing(Counting):
        def seen(self, action: Any) -> Any:
            observation = super().seen(action)
            kinds = [
                observation,
                observation.astype(np.float64),
                observation.tolist(),
                observation.astype(np.int32),
            ]
            return kinds[(self.t // 3 + self.seed) % 4]

    with (
        make(*[functools.partial(Changing, 50)] * 6) as vec,
        make(*[functools.partial(Counting, 50)] * 6) as plain,
    ):
        vec.reset(seed=0), plain.reset(seed=0)
        for step in range(30):
            action = [step % 8] * 6
            np.testing.assert_array_equal(vec.step(action)[0], plain.step(action)[0])


# ---- actions -------------------------------------------------------------------------------------


def test_a_discrete_action_is_a_numpy_integer_of_the_space() -> None:
    class Picky(Counting):
        action_space = spaces.Discrete(5, start=-2)

        def step(self, action: Any) -> Any:
            assert self.action_space.contains(action) and type(action) is np.int64
            return super().step(action)

    with make(Picky) as vec:
        vec.reset(seed=0)
        assert vec.single_action_space == Picky.action_space
        assert vec.step(np.array([-2], np.int8))[0][0, 3] == -2
        with pytest.raises(WorkerError, match="env 0(, step [0-9]+)?: AssertionError"):
            vec.step([3])  # out of range: for the env to judge


# ---- PufferEnvs ----------------------------------------------------------------------------------


def by_hand(actions: np.ndarray, seeds: list[int], agents: int) -> list[Any]:
    """What PufferEnvs show when they are stepped themselves."""
    envs = [Walkers(agents, in_place=False) for _ in seeds]
    shown = [[np.array(env.reset(seed)[0]) for env, seed in zip(envs, seeds, strict=True)]]
    rows = [
        (
            np.concatenate(shown[0]),
            np.zeros(agents * len(envs)),
            np.zeros(agents * len(envs), bool),
            [],
        )
    ]
    for step in actions:
        results = [
            env.step(part) for env, part in zip(envs, step.reshape(len(envs), agents), strict=True)
        ]
        parts = [np.concatenate([result[i] for result in results]) for i in range(3)]
        rows.append((*parts, [info for result in results for info in result[4]]))
    return rows


WAYS = {
    "in place": functools.partial(Walkers, in_place=True),
    "returned arrays": functools.partial(Walkers, in_place=False),
    "buf not passed on, in place": functools.partial(walkers_without_rows, in_place=True),
    "buf not passed on, returned arrays": functools.partial(walkers_without_rows, in_place=False),
}


@pytest.mark.parametrize(
    "layout", thinned(2, ["two workers", "serial", "processes", "two buffers"])
)
@pytest.mark.parametrize("way", WAYS)
def test_puffer_envs_equal_stepping_by_hand(way: str, layout: str) -> None:
    settings: dict[str, Any] = {
        "serial": {"backend": "serial"},
        "two workers": {"backend": ManyInOne, "num_workers": 2},
        "two buffers": {"backend": "serial", "num_buffers": 2},
        "processes": {"num_workers": 2, "start_method": "fork"},
    }[layout]
    actions = np.random.default_rng(0).integers(0, 3, (20, 4 * 3))
    expected = by_hand(actions, [10, 11, 12, 13], 3)
    with puffervec.make(WAYS[way], num_envs=4, **settings) as vec:
        assert (vec.num_agents, vec.agents_per_batch) == (12, 12 // vec.num_buffers)
        vec.async_reset(10)
        for step in range(21):
            for half in range(vec.num_buffers):
                rows = slice(half * vec.agents_per_batch, (half + 1) * vec.agents_per_batch)
                observations, rewards, terminals, truncations, infos, ids, masks = vec.recv()
                np.testing.assert_array_equal(observations, expected[step][0][rows])
                np.testing.assert_array_equal(rewards, expected[step][1][rows].astype(np.float32))
                np.testing.assert_array_equal(terminals, expected[step][2][rows])
                assert (
                    not truncations.any()
                    and masks.all()
                    and ids.tolist() == list(range(rows.start, rows.stop))
                )
                if vec.num_buffers == 1:
                    assert list(infos) == expected[step][3]
                if step < 20:
                    vec.send(actions[step, rows])


def test_index_actions_reach_a_puffer_env_as_int32() -> None:
    """As PufferLib's C envs read them; the rows hold int64, as the space says."""
    with make(Walkers, Walkers) as vec:
        vec.reset(seed=0)
        for dtype in (np.int64, np.int32, np.uint8):
            vec.step(np.ones(6, dtype))
        assert vec.get_attr("action_dtypes") == ({"int32"},) * 2


def test_masked_rows_of_a_puffer_env_are_its_own_business() -> None:
    class Fewer(Walkers):
        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            self.masks[:] = [True, False, True]
            return result

    with make(Fewer) as vec:
        vec.async_reset(0)
        assert vec.recv()[6].tolist() == [True] * 3
        vec.send([1, 1, 1])
        assert vec.recv()[6].tolist() == [True, False, True]
