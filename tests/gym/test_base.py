# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules of Gymnasium's vector API: attributes, metadata, observations, the three autoreset modes
(puffervec/gym/base.py, puffervec/gym/rows.py). Each runs on Gymnasium's own two classes as well,
which shows that it asks for the right thing.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from tests.gym.envs import Count, Spaced, count, counts
from tests.gym.kinds import DISABLED, MODES, NEXT, SAME, Kind, kind_fixture

kind = kind_fixture()


# ---- what it is ----------------------------------------------------------------------------------


def test_it_is_a_vector_env_with_its_attributes(kind: Kind) -> None:
    fns = counts()
    envs = kind(fns)
    assert isinstance(envs, VectorEnv)
    assert isinstance(envs.num_envs, int) and envs.num_envs == 3
    single = Count()
    assert envs.single_observation_space == single.observation_space
    assert envs.single_action_space == single.action_space
    assert envs.observation_space == batch_space(single.observation_space, 3)
    assert envs.action_space == batch_space(single.action_space, 3)
    assert envs.unwrapped is envs
    assert (envs.closed, envs.spec, envs.render_mode, envs.copy) == (False, None, None, True)
    assert envs.autoreset_mode is NEXT
    assert list(envs.env_fns) == fns
    assert envs.observation_mode == "same"


def test_spec_can_be_assigned_and_is_shown(kind: Kind) -> None:
    envs = kind([lambda: gymnasium.make("CartPole-v1")] * 2)
    name = type(envs).__name__
    assert repr(envs) == f"{name}(num_envs=2)"
    envs.unwrapped.spec = gymnasium.spec("CartPole-v1")
    assert repr(envs) == f"{name}(CartPole-v1, num_envs=2)"


def test_results_of_one_step_survive_the_next(kind: Kind) -> None:
    envs = kind(counts((2, 3, 4)))
    first, _ = envs.reset(seed=0)
    kept = first.copy()
    steps = [envs.step([1, 2, 3]) for _ in range(4)]
    assert np.array_equal(first, kept)
    assert [step[1].tolist() for step in steps] == [[1, 2, 3], [1, 2, 3], [0, 2, 3], [1, 0, 3]]
    assert [step[2].tolist() for step in steps] == [
        [False, False, False], [True, False, False], [False, True, False], [False, False, True],
    ]  # fmt: skip
    assert [step[0][:, 0].tolist() for step in steps] == [
        [1, 1, 1],
        [2, 2, 2],
        [0, 3, 3],
        [1, 0, 4],
    ]


def test_without_copies_the_observations_are_one_array(kind: Kind) -> None:
    envs = kind(counts(), copy=False)
    first, _ = envs.reset(seed=0)
    second, *_ = envs.step([1, 1, 1])
    assert np.shares_memory(first, second)
    assert second[:, 0].tolist() == [1, 1, 1]


# ---- spaces --------------------------------------------------------------------------------------

DISCRETE = spaces.Discrete(3, start=5)
NESTED = spaces.Dict(
    image=spaces.Box(0, 255, (2, 3), np.uint8),
    more=spaces.Tuple(
        [spaces.Discrete(4, start=-1), spaces.MultiBinary(3), spaces.MultiDiscrete([2, 5])]
    ),
    point=spaces.Box(-1.0, 1.0, (), np.float64),
)


@pytest.mark.parametrize(
    "space",
    [DISCRETE, NESTED, spaces.Box(-1, 1, (3,), np.float16), spaces.MultiBinary((2, 2))],
    ids=str,
)
@pytest.mark.parametrize("copy", [True, False])
def test_observations_are_of_the_batched_space(kind: Kind, space: Any, copy: bool) -> None:
    envs = kind([lambda: Spaced(space, spaces.Discrete(2))] * 3, copy=copy)
    assert envs.observation_space == batch_space(space, 3)
    single = [Spaced(space, spaces.Discrete(2)) for _ in range(3)]
    expected = [env.reset(seed=i)[0] for i, env in enumerate(single)]
    observations, _ = envs.reset(seed=0)
    for _ in range(2):
        assert observations in envs.observation_space
        for i, one in enumerate(
            gymnasium.vector.utils.iterate(envs.observation_space, observations)
        ):
            assert same(one, expected[i]), (one, expected[i])
        observations, *_ = envs.step([0, 1, 0])
        expected = [env.step(0)[0] for env in single]


def same(a: Any, b: Any) -> bool:
    """Equality of nested observations."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(np.array_equal(a, b))


def test_unequal_observation_spaces_are_refused(kind: Kind) -> None:
    with pytest.raises(
        RuntimeError,
        match="spaces are not equivalent.*If this is intentional, use "
        "`observation_mode='different'`",
    ):
        kind([count(high=1.0), count(high=2.0)])


def test_unequal_bounds_are_batched_in_mode_different(kind: Kind) -> None:
    envs = kind([count(high=10.0), count(high=2000.0)], observation_mode="different")
    assert envs.single_observation_space == Count(high=10.0).observation_space
    assert envs.observation_space.high.tolist() == [[10, 10], [2000, 2000]]
    envs.reset()
    envs.step([0, 0])


def test_a_pair_of_spaces_replaces_what_the_envs_say(kind: Kind) -> None:
    single = spaces.Box(-5000, 5000, (2,), np.float32)
    envs = kind(
        [count(high=1000.0), count(high=2000.0)], observation_mode=(batch_space(single, 2), single)
    )
    assert envs.single_observation_space == single
    assert envs.reset()[0] in envs.observation_space


@pytest.mark.parametrize(
    ("mode", "error", "text"),
    [
        (
            "wrong",
            ValueError,
            "Invalid `observation_mode`, expected: 'same' or 'different' or tuple",
        ),
        (("a", "b"), TypeError, "Expected both elements of observation_mode to be Spaces"),
    ],
)
def test_other_observation_modes_are_refused(
    kind: Kind, mode: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        kind([count()], observation_mode=mode)


def test_unequal_shapes_and_actions_are_refused(kind: Kind) -> None:
    box, other = spaces.Box(0, 1, (3,)), spaces.Box(0, 1, (4,))
    for pair in ((box, other), (box, spaces.Discrete(5))):
        with pytest.raises((RuntimeError, AssertionError, ValueError, TypeError)):
            kind(
                [lambda space=space: Spaced(space, spaces.Discrete(2)) for space in pair],
                observation_mode="different",
            )
    with pytest.raises(RuntimeError, match="[Aa]ction"):
        kind([lambda n=n: Spaced(box, spaces.Discrete(n)) for n in (2, 3)])


# ---- metadata ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_metadata_has_the_mode_and_the_envs_own_keys(kind: Kind, mode: AutoresetMode) -> None:
    for given in (mode, mode.value):
        envs = kind([count()], autoreset_mode=given)
        assert envs.metadata == {
            "render_modes": ["rgb_array"],
            "render_fps": 7,
            "autoreset_mode": mode,
        }
        assert envs.autoreset_mode is mode
    assert "autoreset_mode" not in Count.metadata


def test_an_unknown_mode_is_refused(kind: Kind) -> None:
    with pytest.raises(ValueError, match="sometimes"):
        kind([count()], autoreset_mode="sometimes")


# ---- the three modes -----------------------------------------------------------------------------


def run(envs: Any, steps: int) -> list[Any]:
    """Return (first column of the observations, rewards, terminations, infos) of each step; the
    actions are 1, 2, 3.
    """
    found = []
    for _ in range(steps):
        observations, rewards, terminations, truncations, infos = envs.step(np.array([1, 2, 3]))
        assert not truncations.any()
        found.append((observations[:, 0].tolist(), rewards.tolist(), terminations.tolist(), infos))
    return found


NONE = [False, False, False]


def test_next_step(kind: Kind) -> None:
    envs = kind(counts((2, 3, 3)), autoreset_mode=NEXT)
    envs.reset(seed=0)
    assert run(envs, 4) == [
        ([1, 1, 1], [1, 2, 3], NONE, {}),
        ([2, 2, 2], [1, 2, 3], [True, False, False], {}),
        ([0, 3, 3], [0, 2, 3], [False, True, True], {}),  # env 0 is reset, its action is ignored
        ([1, 0, 0], [1, 0, 0], NONE, {}),
    ]
    assert envs.get_attr("resets") == (2, 2, 2)
    assert envs.get_attr("options") == (None, None, None)


def test_same_step(kind: Kind) -> None:
    envs = kind(counts((2, 3, 3)), autoreset_mode=SAME)
    envs.reset(seed=0)
    found = run(envs, 3)
    assert [step[:3] for step in found] == [
        ([1, 1, 1], [1, 2, 3], NONE),
        ([0, 2, 2], [1, 2, 3], [True, False, False]),
        ([1, 0, 0], [1, 2, 3], [False, True, True]),
    ]
    assert found[0][3] == {}
    for infos, done in ((found[1][3], [True, False, False]), (found[2][3], [False, True, True])):
        assert set(infos) == {"final_obs", "_final_obs", "final_info", "_final_info"}
        assert infos["final_info"] == {}
        assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == done
        assert infos["final_obs"].dtype == object
        assert [entry is not None for entry in infos["final_obs"]] == done
        assert all(entry.shape == (2,) for entry in infos["final_obs"] if entry is not None)


@pytest.mark.parametrize("space", [DISCRETE, NESTED], ids=str)
def test_final_observations_are_of_the_single_space(kind: Kind, space: Any) -> None:
    envs = kind(
        [lambda n=n: Spaced(space, spaces.Discrete(2), length=n) for n in (2, 3)],
        autoreset_mode=SAME,
    )
    envs.reset(seed=0)
    envs.step([0, 0])
    for done in (0, 1):
        *_, infos = envs.step([0, 0])
        assert infos["final_obs"][done] in space
        assert infos["final_obs"][1 - done] is None


def test_disabled(kind: Kind) -> None:
    envs = kind(counts((2, 3, 3)), autoreset_mode=DISABLED)
    envs.reset(seed=0)
    assert run(envs, 2) == [
        ([1, 1, 1], [1, 2, 3], NONE, {}),
        ([2, 2, 2], [1, 2, 3], [True, False, False], {}),
    ]
    observations, infos = envs.reset(options={"reset_mask": np.array([True, False, False])})
    assert (observations[:, 0].tolist(), infos) == ([0, 2, 2], {})
    assert run(envs, 1) == [([1, 3, 3], [1, 2, 3], [False, True, True], {})]
    observations, infos = envs.reset(options={"reset_mask": np.array([False, True, True])})
    assert (observations[:, 0].tolist(), infos) == ([1, 0, 0], {})
    assert run(envs, 1)[0][0] == [2, 1, 1]


def test_a_reset_by_mask_takes_the_place_of_the_autoreset(kind: Kind) -> None:
    envs = kind(counts((1, 1)), autoreset_mode=NEXT)
    envs.reset(seed=0)
    assert envs.step([1, 1])[2].tolist() == [True, True]
    envs.set_attr("length", 5)
    envs.reset(options={"reset_mask": np.array([True, False])})
    observations, rewards, *_ = envs.step([2, 2])
    assert (observations[:, 0].tolist(), rewards.tolist()) == ([1, 0], [2, 0])
    assert envs.get_attr("resets") == (2, 2)


# ---- call, get_attr, set_attr, render ------------------------------------------------------------


def test_call_and_attributes(kind: Kind) -> None:
    envs = kind(counts((2, 3, 4)))
    envs.set_attr("length", [5, 6, 7])  # before the first reset too
    assert envs.get_attr("length") == envs.call("length") == (5, 6, 7)
    assert envs.call("add", 10, b=100) == (115, 116, 117)
    envs.set_attr("length", 9)
    assert envs.get_attr("length") == (9, 9, 9)
    envs.set_attr("note", ("a", "b", "c"))
    assert envs.get_attr("note") == ("a", "b", "c")
    for values in ([1, 2], (1, 2, 3, 4)):
        with pytest.raises(
            ValueError, match="length equal to the number of environments. Got `[24]` values for 3"
        ):
            envs.set_attr("length", values)


def test_render_gives_a_tuple_of_frames(kind: Kind) -> None:
    envs = kind(counts(render_mode="rgb_array"))
    assert envs.render_mode == "rgb_array"
    envs.reset()
    envs.step([0, 0, 0])
    frames = envs.render()
    assert isinstance(frames, tuple) and len(frames) == 3
    assert all(frame.shape == (4, 6, 3) and frame.min() == 1 for frame in frames)


def test_generators_of_the_envs(kind: Kind) -> None:
    envs = kind(counts())
    envs.reset(seed=42)
    assert envs.np_random_seed == (42, 43, 44)
    draws = [generator.integers(1000) for generator in envs.np_random]
    expected = []
    for seed in (42, 43, 44):
        generator = np.random.default_rng(seed)
        generator.integers(1000)  # what `reset` has drawn
        expected.append(generator.integers(1000))
    assert draws == expected
