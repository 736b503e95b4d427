# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/vector.py: PufferLib's arguments in, its values out, with each
backend.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import puffervec
import puffervec.compat.pufferlib as pufferlib
from puffervec.compat.pufferlib import vector
from puffervec.compat.pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv, nativize
from puffervec.compat.pufferlib.exceptions import APIUsageError
from tests.compat.pufferlib.envs import IMAGE, Native, NestedCounter, TwoAgents, make_counter
from tests.helpers import slow_but
from tests.python_envs import Counting

BACKENDS = ["Serial", "Multiprocessing"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_make_serial_multiprocessing_run_a_script_in_pufferlibs_order(backend: str) -> None:
    vec = vector.make(
        make_counter, env_kwargs={"length": 3}, backend=backend, num_envs=4, num_workers=2, seed=1
    )
    assert isinstance(vec, getattr(vector, backend))
    assert vec.single_observation_space == spaces.Box(0, 255, (4, 6), np.uint8)
    assert vec.single_action_space.n == 2
    assert (vec.num_agents, vec.agents_per_batch) == (4, 4)
    vec.async_reset(1)
    observations, rewards, terminals, truncations, infos, ids, masks = vec.recv()
    np.testing.assert_array_equal(observations, np.broadcast_to(IMAGE, (4, 4, 6)))
    assert (rewards.dtype, terminals.dtype, truncations.dtype) == (np.float32, bool, bool)
    np.testing.assert_array_equal(ids, np.arange(4))
    assert masks.all()
    for count in (1, 2, 3):
        vec.send(np.zeros(4, np.int32))
        observations, rewards, terminals, _, infos, _, _ = vec.recv()
        np.testing.assert_array_equal(rewards, np.full(4, count))
        assert terminals.all() == (count == 3)
    assert [info["episode_return"] for info in infos] == [6.0] * 4
    vec.close()


def test_make_pufferenv_is_the_env_itself() -> None:
    env = vector.make(Native, env_kwargs={"agents": 2}, seed=7)
    assert isinstance(env, Native) and isinstance(env, vector.PufferEnv)
    assert env.driver_env is env
    observations, _ = vector.reset(env, seed=None)
    np.testing.assert_array_equal(observations[:, 0], [7, 8])
    _, rewards, _, _, infos = vector.step(env, [3, 4])
    np.testing.assert_array_equal(rewards, [3, 4])
    assert infos == []


def test_make_pufferenv_refuses_other_envs_and_several() -> None:
    with pytest.raises(APIUsageError, match="returned a GymnasiumPufferEnv.*Serial"):
        vector.make(make_counter)
    with pytest.raises(APIUsageError, match="num_envs is 2"):
        vector.make(Native, num_envs=2)


def test_make_runs_c_envs_in_process_by_default() -> None:
    with vector.make("tag_grid", num_envs=2) as vec:
        assert isinstance(vec, vector.Serial)
        observations, _ = vec.reset(0)
        assert len(observations) == vec.num_agents


def test_make_native_envs_write_into_the_rows_of_their_vector_env() -> None:
    with vector.make(Native, env_args=[2], backend=vector.Serial, num_envs=2, seed=5) as vec:
        observations, _ = vec.reset()
        np.testing.assert_array_equal(observations[:, 0], [5, 6, 6, 7])
        rewards = vec.step(np.arange(4))[1]
        np.testing.assert_array_equal(rewards, np.arange(4))


def test_make_takes_one_creator_per_env() -> None:
    creators = [partial(make_counter, length) for length in (1, 2)]
    with vector.make(
        creators, env_args=[[], []], env_kwargs=[{}, {}], backend="Serial", num_envs=2
    ) as vec:
        vec.reset()
        np.testing.assert_array_equal(vec.step(np.zeros(2, np.int32))[2], [True, False])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_envs": 4, "num_workers": 3}, "num_workers"),
        ({"num_envs": 4, "num_workers": 2, "batch_size": 3}, "batch_size"),
        ({"num_envs": 6, "num_workers": 6, "batch_size": 4, "overwork": True}, "batch_size"),
        ({"backend": "Ray"}, "backend is 'Ray': use one of PufferEnv, Serial"),
        ({"backend": dict}, "backend is <class 'dict'>: use one of PufferEnv, Serial"),
        ({"backend": "Serial", "num_envs": 2, "batch_size": 0}, "batch_size is 0: use 1 to 2"),
        ({"env_kwargs": 3}, "env_kwargs"),
    ],
)
def test_make_refuses_before_it_starts_anything(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(APIUsageError, match=message):
        vector.make(make_counter, **{"backend": "Multiprocessing", **settings})


def test_serial_and_multiprocessing_are_made_by_make() -> None:
    with pytest.raises(APIUsageError, match="use make"):
        vector.Serial([make_counter] * 2, [[3]] * 2, [{}] * 2, 2)


def test_a_backend_knows_its_own() -> None:
    class Own(vector.Serial):  # type: ignore[misc]
        mine = True

    with (
        vector.make("tag_grid", backend=puffervec.Serial) as given,
        puffervec.make("tag_grid", backend=vector.Serial) as mixed,
        vector.make("tag_grid", backend=Own) as own,
    ):
        assert all(isinstance(vec, vector.Serial) for vec in (given, mixed, own))
        assert not any(isinstance(vec, vector.Multiprocessing) for vec in (given, mixed, own))
        assert own.mine and not isinstance(given, Own)
    assert issubclass(vector.Serial, puffervec.Serial)


class Told(gymnasium.Env):  # type: ignore[type-arg]
    """Keeps the keywords that its creator got."""

    observation_space, action_space = spaces.Box(0, 9, (1,), np.float32), spaces.Discrete(2)

    def __init__(self, told: Any) -> None:
        self.told = told

    def reset(self) -> Any:  # type: ignore[override]
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.ones(1, np.float32), 1.0, False, False, {}


def make_told(**kwargs: Any) -> Any:
    return GymnasiumPufferEnv(
        env=pufferlib.EpisodeStats(Told(sorted(kwargs.items()))), buf=kwargs.get("buf")
    )


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_creators_with_any_keywords_get_buf_and_seed(backend: str) -> None:
    expected = tuple([("buf", None), ("seed", seed), ("x", 1)] for seed in (3, 4))
    with vector.make(make_told, env_kwargs={"x": 1}, backend=backend, num_envs=2, seed=3) as vec:
        assert vec.get_attr("told") == expected
        assert vec.reset(1)[0].shape == (2, 1)  # and an env whose reset takes no seed
    with vector.make(
        [make_told] * 2, [[]] * 2, [{"x": 1}] * 2, backend=backend, num_envs=2, seed=3
    ) as vec:
        assert vec.get_attr("told") == expected
    with puffervec.make(make_told, env_kwargs={"x": 1}, backend="serial", seed=3) as vec:
        assert vec.get_attr("told") == ([("x", 1)],)  # nothing that is not named, in the plain one


class NoClose(Native):
    close = pufferlib.PufferEnv.close

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


def test_a_pufferenv_needs_neither_close_nor_a_seed(capfd: pytest.CaptureFixture[str]) -> None:
    with vector.make(NoClose, env_kwargs={"agents": 2}, backend="Serial", num_envs=2) as vec:
        assert len(vec.reset(4)[0]) == 4
    assert capfd.readouterr().err == ""
    env = vector.make(NoClose, env_kwargs={"agents": 2})
    assert env.agent_per_batch == env.agents_per_batch == 2
    env.close()


def make_nested(length: int, buf: Any = None, seed: int | None = None) -> Any:
    return GymnasiumPufferEnv(env=NestedCounter(length, spaces.Discrete(2)), buf=buf, seed=seed)


def test_a_done_row_has_the_last_observation_and_the_next_row_the_reset() -> None:
    found = []
    with vector.make(make_nested, env_kwargs={"length": 2}, backend="Serial") as vec:
        vec.reset(0)
        for _ in range(3):
            observations, rewards, terminals, *_ = vec.step([1])
            native = nativize(
                observations[0],
                NestedCounter.observation_space,
                vec.emulated["emulated_observation_dtype"],
            )
            found.append((int(native["inner"][0]), rewards[0], terminals[0]))
    assert found == [(1, 1.0, False), (2, 1.0, True), (0, 0.0, False)]


def test_threading_runs_c_envs() -> None:
    with vector.make("tag_grid", backend=vector.Threading, num_envs=2, num_workers=1) as vec:
        assert len(vec.reset(0)[0]) == vec.num_agents


def test_reset_and_step_drive_a_vector_env() -> None:
    with vector.make(make_counter, backend="Serial", num_envs=2) as vec:
        observations, infos = vector.reset(vec)
        assert observations.shape == (2, 4, 6)
        _, rewards, terminals, truncations, infos = vector.step(vec, [0, 1])
        np.testing.assert_array_equal(rewards, [1, 1])
        assert not terminals.any() and not truncations.any() and not infos


def own_vecenv(flag: int) -> SimpleNamespace:
    return SimpleNamespace(flag=flag, initialized=False, action_space=spaces.MultiDiscrete([2, 2]))


def test_recv_precheck_keeps_the_order() -> None:
    own = own_vecenv(vector.RECV)
    vector.recv_precheck(own)
    assert own.flag == vector.SEND
    with pytest.raises(APIUsageError, match="call reset"):
        vector.recv_precheck(own)


def test_send_precheck_keeps_the_order_and_looks_at_the_first_actions() -> None:
    own = own_vecenv(vector.SEND)
    with pytest.raises(APIUsageError, match=r"shape \(3,\)"):
        vector.send_precheck(own, [0, 0, 0])
    actions = vector.send_precheck(own, [0, 1])
    assert isinstance(actions, np.ndarray)
    assert (own.flag, own.initialized) == (vector.RECV, True)
    with pytest.raises(APIUsageError, match="send: no observations"):
        vector.send_precheck(own, [0, 1])


def test_prechecks_leave_our_vector_envs_alone() -> None:
    """They check the order of calls by themselves, and keep no `flag`."""
    with vector.make("tag_grid", num_envs=1) as vec:
        before = vars(vec).copy()
        vector.recv_precheck(vec)  # out of order, as is the send
        actions = vector.send_precheck(vec, [0] * vec.num_agents)
        assert vars(vec) == before and actions.tolist() == [0] * vec.num_agents
        vec.async_reset(0)
        vec.recv()
        vec.send(actions)


def test_reset_step_send_recv_close_main_info_are_seven_flags() -> None:
    flags = [
        vector.RESET,
        vector.STEP,
        vector.SEND,
        vector.RECV,
        vector.CLOSE,
        vector.MAIN,
        vector.INFO,
    ]
    assert flags == list(range(7))


def test_make_seeds_counts_up_or_takes_a_list() -> None:
    assert vector.make_seeds(4, 3) == [4, 5, 6]
    assert vector.make_seeds((9, 2), 2) == [9, 2]
    for wrong in ([1], "1", None, True, 1.5):
        with pytest.raises(APIUsageError, match="seed is"):
            vector.make_seeds(wrong, 2)  # type: ignore[arg-type]


def test_check_envs_wants_puffer_envs_of_the_same_spaces() -> None:
    driver = make_counter()
    vector.check_envs([driver, make_counter(5)], driver)
    with pytest.raises(APIUsageError, match="env 0 is a Counter"):
        vector.check_envs([driver.env.unwrapped], driver)
    with pytest.raises(APIUsageError, match="env 1 has single_observation_space"):
        vector.check_envs([driver, Native()], driver)


def test_autotune_is_here_too() -> None:
    from puffervec.compat.pufferlib.vector import autotune

    assert vector.autotune is autotune


def make_two_agents(wrapper: str, buf: Any = None, seed: int | None = None) -> PettingZooPufferEnv:
    kind = getattr(pufferlib, wrapper)
    return PettingZooPufferEnv(env_creator=lambda: kind(TwoAgents()), buf=buf, seed=seed)


def make_two_agents_plain(buf: Any = None, seed: int | None = None) -> PettingZooPufferEnv:
    return PettingZooPufferEnv(env=TwoAgents(), buf=buf, seed=seed)


def make_two_bare_agents() -> Any:
    return TwoAgents()


HERE = f"{__name__}:make_two_bare_agents"


@pytest.mark.parametrize(
    "creator",
    [make_two_agents_plain, make_two_bare_agents, HERE],
    ids=["wrapped", "bare", "by name"],
)
@pytest.mark.parametrize("backend", slow_but(["Serial"], BACKENDS))
def test_agents_that_are_not_there_are_terminal_and_masked(creator: Any, backend: str) -> None:
    with vector.make(creator, backend=backend) as vec:
        vec.async_reset(0)
        vec.recv()
        for _ in range(3):
            vec.send(np.zeros(2, np.int32))
            _, _, terminals, truncations, _, _, masks = vec.recv()
        assert (terminals.tolist(), truncations.tolist(), masks.tolist()) == (
            [False, True],
            [True, False],
            [True, False],
        )


@pytest.mark.slow
def test_pettingzoo_agents_come_and_go_and_report_their_episodes() -> None:
    """ "b" leaves at step 2, "a" is cut off at step 3; then the row of the reset, with both."""
    kwargs = {"wrapper": "MultiagentEpisodeStats"}
    with vector.make(
        make_two_agents, env_kwargs=kwargs, backend="Multiprocessing", num_envs=2, num_workers=2
    ) as vec:
        assert (vec.num_envs, vec.num_agents) == (2, 4)
        vec.async_reset(0)
        vec.recv()
        found, infos = [], []
        for _ in range(4):
            vec.send(np.zeros(4, np.int32))
            _, rewards, terminals, truncations, info, _, masks = vec.recv()
            found.append([part[:2].tolist() for part in (rewards, terminals, truncations, masks)])
            infos += list(info)
        assert found[1] == [[2.0, 20.0], [False, True], [False, False], [True, True]]
        assert found[2][0] == [3.0, 0.0]
        assert found[2][2:] == [[True, False], [True, False]]
        assert found[3] == [[0.0, 0.0], [False, False], [False, False], [True, True]]
        lengths = [
            info[agent]["episode_length"]
            for info in infos
            for agent in info
            if "episode_length" in info[agent]
        ]
        assert sorted(lengths) == [2, 2, 3, 3]


def test_pettingzoo_infos_can_be_one_mean_per_env() -> None:
    with vector.make(
        make_two_agents, env_kwargs={"wrapper": "MeanOverAgents"}, backend="Serial"
    ) as vec:
        vec.reset(0)
        assert [dict(info) for info in vec.step([0, 0])[4]] == [{"n": 3.0}]


pytestmark = pytest.mark.usefixtures("no_leaks")

PROCESSES = {"backend": "Multiprocessing", "start_method": "fork"}
PLACES = {"observations": 0, "rewards": 1, "terminals": 2, "truncations": 3, "masks": 6}


@pytest.mark.parametrize(
    "settings",
    [
        {"backend": "Serial"},
        {**PROCESSES, "num_workers": 2, "batch_size": 2},
        {**PROCESSES, "num_workers": 2, "batch_size": 2, "zero_copy": False, "sync_traj": False},
    ],
    ids=["serial", "halves", "first come"],
)
def test_the_arrays_are_those_of_the_batch_last_received(settings: dict[str, Any]) -> None:
    with vector.make(Counting, [2], num_envs=4, **settings) as vec:
        vec.async_reset(3)
        for _ in range(6):
            received = vec.recv()
            for name, place in PLACES.items():
                np.testing.assert_array_equal(getattr(vec, name), received[place])
            vec.send(np.ones(vec.agents_per_batch, np.int64))


def test_groups_have_dicts() -> None:
    settings = {"mode": 1, "num_agents": 2, "episode_length": 3}
    with vector.make("probe", env_kwargs=settings, backend="Serial", num_envs=2) as vec:
        observations, _ = vec.reset(0)
        assert len(observations) == 2 and list(vec.rewards) == list(vec.masks) == list(observations)
        for group, rows in observations.items():
            np.testing.assert_array_equal(vec.observations[group], rows)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"backend": "Serial"}, (4, 4, 1)),
        ({**PROCESSES, "num_workers": 2}, (4, 2, 2)),
        ({**PROCESSES, "num_workers": 2, "batch_size": 2}, (4, 2, 1)),
        (
            {
                **PROCESSES,
                "num_workers": 4,
                "batch_size": 2,
                "zero_copy": False,
                "sync_traj": False,
            },
            (4, 1, 2),
        ),
    ],
)
def test_the_numbers_are_those_of_make(
    settings: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    with vector.make("tag_grid", num_envs=4, **settings) as vec:
        assert (vec.num_environments, vec.envs_per_worker, vec.workers_per_batch) == expected
