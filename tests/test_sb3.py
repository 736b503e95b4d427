# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The Stable-Baselines3 VecEnv (puffervec/sb3/vec_env.py): equal to SB3's DummyVecEnv step by step,
and PPO learns over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import puffervec
from puffervec.errors import ActionError, CallOrderError, ClosedError, ConfigError
from puffervec.sb3.worker_env import Monitor as WorkerMonitor
from tests.sb3_envs import Choosing, Counter, Deep, Rich

adapter = pytest.importorskip("puffervec.sb3", exc_type=ImportError)
sb3 = pytest.importorskip("stable_baselines3")
env_util = pytest.importorskip("stable_baselines3.common.env_util")
vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
monitor = pytest.importorskip("stable_baselines3.common.monitor")

SERIAL: dict[str, Any] = {"backend": "serial"}
TWO_WORKERS: dict[str, Any] = {"num_workers": 2, "start_method": "fork"}
NESTED = Choosing.action_space
TAG: dict[str, Any] = {"num_taggers": 3, "grid_length": 4, "episode_length": 10}


@pytest.fixture
def make() -> Iterator[Callable[..., Any]]:
    """`make_vec_env` that closes what it made."""
    made = []

    def make_vec_env(*args: Any, settings: dict[str, Any] = SERIAL, **kwargs: Any) -> Any:
        made.append(adapter.make_vec_env(*args, vec_env_kwargs=settings, **kwargs))
        return made[-1]

    yield make_vec_env
    for venv in made:
        venv.close()


def without_times(infos: Any) -> list[dict[str, Any]]:
    shown = [dict(info) for info in infos]
    for info in shown:
        if "episode" in info:
            info["episode"] = {key: value for key, value in info["episode"].items() if key != "t"}
    return shown


def assert_same_runs(ours: Any, theirs: Any, steps: int, seed: int = 1) -> int:
    """Step both alike, compare all that they return, and return the number of episodes."""
    assert (ours.num_envs, ours.observation_space, ours.action_space) == (
        theirs.num_envs, theirs.observation_space, theirs.action_space,
    )  # fmt: skip
    theirs.action_space.seed(seed)
    np.testing.assert_equal(ours.reset(), theirs.reset())
    np.testing.assert_equal(ours.reset_infos, theirs.reset_infos)
    ended = 0
    for _ in range(steps):
        actions = np.stack([theirs.action_space.sample() for _ in range(theirs.num_envs)])
        mine, yours = ours.step(actions), theirs.step(actions)
        np.testing.assert_equal(mine[:3], yours[:3])
        for part in (0, 1):
            np.testing.assert_equal(dtypes(mine[part]), dtypes(yours[part]))
        assert mine[2].dtype == np.bool_ and isinstance(mine[3], list)
        np.testing.assert_equal(without_times(mine[3]), without_times(yours[3]))
        np.testing.assert_equal(list(ours.reset_infos), list(theirs.reset_infos))
        ended += int(yours[2].sum())
    return ended


def dtypes(observations: Any) -> Any:
    if isinstance(observations, dict):
        return {key: dtypes(value) for key, value in observations.items()}
    return observations.dtype


# ---- equality with SB3's own ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("settings", [SERIAL, TWO_WORKERS], ids=["serial", "two workers"])
def test_cartpole_is_that_of_dummy_vec_env(
    make: Callable[..., Any], settings: dict[str, Any]
) -> None:
    ours = make(
        "CartPole-v1", n_envs=4, seed=3, env_kwargs={"max_episode_steps": 30}, settings=settings
    )
    theirs = env_util.make_vec_env(
        "CartPole-v1", n_envs=4, seed=3, env_kwargs={"max_episode_steps": 30}
    )
    assert isinstance(ours, vec_env.VecEnv) and isinstance(ours, adapter.VecEnv)
    assert assert_same_runs(ours, theirs, 200) > 20


@pytest.mark.parametrize("settings", [SERIAL, TWO_WORKERS], ids=["serial", "two workers"])
def test_dicts_and_infos_are_those_of_dummy_vec_env(
    make: Callable[..., Any], settings: dict[str, Any]
) -> None:
    """Mixed observations, infos of numbers, arrays, words and dicts, terminals and truncations,
    infos of resets.
    """
    ours = make(Rich, n_envs=3, seed=0, settings=settings)
    theirs = env_util.make_vec_env(Rich, n_envs=3, seed=0)
    assert assert_same_runs(ours, theirs, 30) == 3 * 7
    assert ours.metadata["render_fps"] == 7


@pytest.mark.parametrize(
    "wrap",
    [
        lambda venv: vec_env.VecNormalize(venv),
        lambda venv: vec_env.VecFrameStack(venv, n_stack=3),
        lambda venv: vec_env.VecMonitor(venv),
        lambda venv: vec_env.VecCheckNan(venv, raise_exception=True),
    ],
    ids=["VecNormalize", "VecFrameStack", "VecMonitor", "VecCheckNan"],
)
def test_sb3s_wrappers_run_over_it(wrap: Callable[[Any], Any]) -> None:
    fns = [lambda: gymnasium.make("CartPole-v1", max_episode_steps=20)] * 3
    ours, theirs = wrap(adapter.VecEnv(fns, backend="serial")), wrap(vec_env.DummyVecEnv(fns))
    for venv in (ours, theirs):
        venv.seed(5)
    assert assert_same_runs(ours, theirs, 90) > 10
    ours.close()


def test_sb3s_make_vec_env_takes_it() -> None:
    settings = {"vec_env_cls": adapter.VecEnv, "vec_env_kwargs": SERIAL}
    ours = env_util.make_vec_env("CartPole-v1", n_envs=2, seed=1, **settings)
    theirs = env_util.make_vec_env("CartPole-v1", n_envs=2, seed=1)
    assert isinstance(ours, adapter.VecEnv) and ours.env_is_wrapped(monitor.Monitor) == [True, True]
    assert assert_same_runs(ours, theirs, 60) > 2
    ours.close()


def test_what_is_returned_is_a_copy(make: Callable[..., Any]) -> None:
    venv = make(Rich, n_envs=2, seed=0)
    first = venv.reset()
    kept = {key: value.copy() for key, value in first.items()}
    step = venv.step(np.ones((2, 2), np.int64))
    rewards = step[1].copy()
    venv.step(np.zeros((2, 2), np.int64))
    np.testing.assert_equal(first, kept)
    np.testing.assert_array_equal(step[1], rewards)


# ---- seeds and options ---------------------------------------------------------------------------


def test_seeds_are_used_once(make: Callable[..., Any]) -> None:
    venv = make("CartPole-v1", n_envs=3)
    assert venv.seed(7) == [7, 8, 9]
    first, second = venv.reset(), venv.reset()
    assert (first != second).any()
    venv.seed(7)
    np.testing.assert_array_equal(venv.reset(), first)
    alone, _ = gymnasium.make("CartPole-v1").reset(seed=8)
    np.testing.assert_array_equal(first[1], alone)
    chosen = venv.seed()
    assert all(isinstance(seed, int) for seed in chosen) and chosen != venv.seed()


def test_options_go_to_their_env_at_the_next_reset(make: Callable[..., Any]) -> None:
    venv = make(Rich, n_envs=3)
    venv.set_options({"level": 1})
    venv.reset()
    assert venv.get_attr("options") == [{"level": 1}] * 3
    venv.reset()
    assert venv.get_attr("options") == [None] * 3
    venv.set_options([{"level": 1}, {}, {"level": 2}])
    observations = venv.reset()
    assert venv.get_attr("options") == [{"level": 1}, None, {"level": 2}]
    assert venv.get_attr("episode") == [3, 3, 3] and observations["pixels"][:, 0].tolist() == [
        3,
        3,
        3,
    ]
    assert [info["start"] for info in venv.reset_infos] == [3.0, 3.0, 3.0]


# ---- attributes and methods of the envs ----------------------------------------------------------


@pytest.mark.parametrize("settings", [SERIAL, TWO_WORKERS], ids=["serial", "two workers"])
def test_attributes_and_methods(make: Callable[..., Any], settings: dict[str, Any]) -> None:
    clip = {"wrapper_class": gymnasium.wrappers.ClipReward, "wrapper_kwargs": {"max_reward": 1}}
    venv = make(Rich, n_envs=3, settings=settings, **clip)
    assert [venv.get_attr("length", chosen) for chosen in (None, 1, [0, 2])] == [
        [4, 4, 4],
        [4],
        [4, 4],
    ]
    assert venv.env_method("paint", "blue", indices=[1, 2], coats=2) == ["blue x 2"] * 2
    assert venv.get_attr("colour") == ["red", "blue", "blue"] and venv.get_attr("colour", -1) == [
        "blue"
    ]
    venv.set_attr("mood", "good", indices=range(2))
    assert venv.get_attr("mood", [0, 1]) == ["good", "good"]
    with pytest.raises(AttributeError, match="env 2 has no attribute 'mood'"):
        venv.get_attr("mood")
    assert (venv.has_attr("mood"), venv.has_attr("colour")) == (False, True)
    with pytest.raises(ConfigError, match="indices: 3"):
        venv.get_attr("colour", 3)
    for wrapper in (monitor.Monitor, WorkerMonitor, gymnasium.wrappers.ClipReward):
        assert venv.env_is_wrapped(wrapper) == [True] * 3
    assert venv.env_is_wrapped(gymnasium.wrappers.TimeLimit, [0, 1]) == [False, False]


@pytest.mark.parametrize("settings", [SERIAL, TWO_WORKERS], ids=["serial", "two workers"])
def test_an_exception_from_a_method_is_raised_as_it_was(
    make: Callable[..., Any], settings: dict[str, Any]
) -> None:
    venv = make(Rich, n_envs=2, settings=settings)
    with pytest.raises(KeyError, match="-1 coats"):
        venv.env_method("paint", "blue", coats=-1)


def test_workers_load_neither_sb3_nor_torch(make: Callable[..., Any]) -> None:
    venv = make(Counter, n_envs=2, settings={"num_workers": 1})
    assert (
        venv.env_method("loaded", {"torch", "stable_baselines3", "gymnasium"})
        == [{"gymnasium"}] * 2
    )


def test_pictures(make: Callable[..., Any]) -> None:
    venv = make(Rich, n_envs=2, env_kwargs={"render_mode": "rgb_array"})
    assert venv.render_mode == "rgb_array"
    venv.reset()
    venv.step(np.zeros((2, 2), np.int64))
    assert [image.shape for image in venv.get_images()] == [(4, 6, 3)] * 2 and venv.get_images()[0][
        0, 0, 0
    ] == 1
    assert venv.render().shape == (8, 6, 3)
    blind = make(Rich, n_envs=2)
    with pytest.warns(UserWarning, match="render_mode is None"):
        assert blind.get_images() == [None, None]


# ---- monitors ------------------------------------------------------------------------------------


def test_monitor_files_are_those_of_sb3(make: Callable[..., Any], tmp_path: Path) -> None:
    for maker, name in ((make, "ours"), (env_util.make_vec_env, "theirs")):
        venv = maker(
            "CartPole-v1", n_envs=2, seed=0, start_index=5, monitor_dir=str(tmp_path / name)
        )
        venv.reset()
        for _ in range(60):
            venv.step(np.ones(2, np.int64))
        venv.close()
    found = []
    for name in ("ours", "theirs"):
        files = {
            path.name: path.read_text().splitlines()[1:]
            for path in sorted((tmp_path / name).iterdir())
        }
        found.append(
            {file: [line.rsplit(",", 1)[0] for line in lines] for file, lines in files.items()}
        )
    assert (
        found[0] == found[1]
        and list(found[0]) == ["5.monitor.csv", "6.monitor.csv"]
        and len(found[0]["5.monitor.csv"]) > 5
    )


# ---- C envs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [SERIAL, {"backend": "threading", "num_workers": 2}, TWO_WORKERS], ids=str
)
def test_rows_of_a_c_env_are_those_of_the_core(settings: dict[str, Any]) -> None:
    venv = adapter.VecEnv("tag_grid", num_envs=3, env_kwargs=TAG, **settings)
    with puffervec.make(
        "tag_grid", env_kwargs=TAG, backend="serial", num_envs=3, autoreset_mode="same_step"
    ) as vec:
        assert venv.num_envs == vec.num_agents == 12
        assert (venv.observation_space, venv.action_space) == (
            vec.single_observation_space,
            vec.single_action_space,
        )
        assert venv.seed(4) == [4] * 4 + [5] * 4 + [6] * 4
        np.testing.assert_array_equal(venv.reset(), vec.reset(seed=4)[0])
        rng = np.random.default_rng(0)
        returns, lengths = np.zeros(12), np.zeros(12, np.int64)
        for _ in range(40):
            actions = rng.integers(0, 5, 12)
            observations, rewards, dones, infos = venv.step(actions)
            rows = vec.step(actions)
            np.testing.assert_array_equal(observations, rows[0])
            np.testing.assert_array_equal(rewards, rows[1])
            np.testing.assert_array_equal(dones, rows[2] | rows[3])
            returns += rewards
            lengths += 1
            for i, info in enumerate(infos):
                assert info["TimeLimit.truncated"] == (rows[3][i] and not rows[2][i])
                assert ("episode" in info) == ("terminal_observation" in info) == dones[i]
                if dones[i]:
                    np.testing.assert_array_equal(
                        info["terminal_observation"], vec.final_observations[i]
                    )
                    assert (info["episode"]["r"], info["episode"]["l"]) == (
                        pytest.approx(returns[i], abs=1e-5),
                        lengths[i],
                    )
                    returns[i] = lengths[i] = 0
    assert venv.env_is_wrapped(monitor.Monitor) == [True] * 12
    venv.close()


def test_tasks_of_a_c_env_are_options(make: Callable[..., Any]) -> None:
    layouts = {
        "starting_location_x": [[0, 0, 0, 4], [1, 1, 1, 3]],
        "starting_location_y": [[0, 0, 0, 4], [1, 1, 1, 3]],
    }
    venv = make("tag_grid", n_envs=2, env_kwargs={**TAG, **layouts})
    for task, cell in ((0, 0.0), (1, 0.25)):
        venv.set_options({"task": task})
        assert (venv.reset()[:, 0] == cell).all()


def test_rows_without_an_agent_are_marked(make: Callable[..., Any]) -> None:
    venv = make("probe", n_envs=1, env_kwargs={"num_agents": 3, "leave": 1, "episode_length": 5})
    venv.reset()
    marks, lengths = [], []
    for _ in range(10):
        infos = venv.step(np.zeros(3, np.int64))[3]
        marks.append([info.get("mask", True) for info in infos])
        lengths += [info["episode"]["l"] for info in infos if "episode" in info]
    assert lengths == [1, 2, 5] * 2, "steps without an agent are not counted"
    assert (
        marks[:5]
        == marks[5:]
        == [[True] * 3, [True, False, True], [True, False, False], [True, False, False], [True] * 3]
    )


def test_last_observations_are_those_of_agents_that_leave_early_too(
    make: Callable[..., Any],
) -> None:
    """Column 2 of the probe's observation is the step, column 3 the agent."""
    venv = make("probe", n_envs=1, env_kwargs={"num_agents": 3, "leave": 1, "episode_length": 4})
    venv.reset()
    last = []
    for _ in range(8):
        infos = venv.step(np.zeros(3, np.int64))[3]
        last += [
            tuple(info["terminal_observation"][2:4])
            for info in infos
            if "terminal_observation" in info
        ]
    assert last == [(1, 1), (2, 2), (4, 0)] * 2


def test_files_for_c_envs_come_from_vec_monitor(make: Callable[..., Any], tmp_path: Path) -> None:
    venv = make("tag_grid", n_envs=2, env_kwargs=TAG, monitor_dir=str(tmp_path))
    assert isinstance(venv, vec_env.VecMonitor)
    venv.reset()
    for _ in range(10):
        venv.step(np.zeros(8, np.int64))
    venv.close()
    assert len((tmp_path / "0.monitor.csv").read_text().splitlines()) == 2 + 8


def test_c_envs_have_settings_but_no_methods(make: Callable[..., Any]) -> None:
    venv = make("tag_grid", n_envs=2, env_kwargs=TAG)
    assert venv.get_attr("grid_length", [0, 7]) == [4, 4] and not venv.has_attr("colour")
    for call in (lambda: venv.env_method("render"), lambda: venv.set_attr("grid_length", 5)):
        with pytest.raises(AttributeError, match="is a C env"):
            call()


# ---- order and refusals --------------------------------------------------------------------------


def test_calls_out_of_order_and_after_the_end(make: Callable[..., Any]) -> None:
    venv = make("CartPole-v1", n_envs=2, seed=0)
    with pytest.raises(CallOrderError):
        venv.step(np.zeros(2, np.int64))
    venv.reset()
    with pytest.raises(CallOrderError):
        venv.step_wait()
    with pytest.raises(ActionError):
        venv.step(np.zeros(3, np.int64))
    venv.step_async(np.zeros(2, np.int64))
    venv.step_wait()
    venv.close()
    venv.close()
    with pytest.raises(ClosedError):
        venv.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("settings", [SERIAL, TWO_WORKERS], ids=["serial", "two workers"])
@pytest.mark.parametrize(
    "space", [NESTED, spaces.Tuple(tuple(NESTED.spaces.values()))], ids=["dict", "tuple"]
)
def test_lists_of_nested_actions(settings: dict[str, Any], space: Any) -> None:
    env_fns = [lambda: Choosing(space)] * 3
    ours, theirs = adapter.VecEnv(env_fns, **settings), vec_env.DummyVecEnv(env_fns)
    ours.reset()
    theirs.reset()
    space.seed(0)
    for _ in range(3):
        actions = [space.sample() for _ in range(3)]
        assert ours.step(actions)[0].tolist() == theirs.step(actions)[0].tolist()
    with pytest.raises(ActionError, match="2 entries for 3 rows"):
        ours.step(actions[:2])
    ours.close()


def test_sb3s_own_classes_stand_for_ours(make: Callable[..., Any]) -> None:
    here = make(Counter, n_envs=2, vec_env_cls=vec_env.DummyVecEnv, settings={})
    assert type(here) is adapter.VecEnv and type(here.vec).__name__ == "Serial"
    assert [env.unwrapped.length for env in here.envs] == [3, 3]
    here.set_attr("dummy", 12)
    assert here.envs[1].dummy == 12
    there = make(
        Counter,
        n_envs=2,
        vec_env_cls=vec_env.SubprocVecEnv,
        settings={"num_workers": 1, "start_method": None},
    )
    assert type(there) is adapter.VecEnv and type(there.vec).__name__ == "Multiprocessing"
    with pytest.raises(AttributeError, match="worker processes"):
        there.envs  # noqa: B018


@pytest.mark.parametrize("settings", [SERIAL, TWO_WORKERS], ids=["serial", "two workers"])
def test_a_step_before_the_first_reset(make: Callable[..., Any], settings: dict[str, Any]) -> None:
    """Bare envs allow it, as in SB3; a monitor does not."""
    venv = adapter.VecEnv([lambda: Choosing(Choosing.action_space)] * 2, **settings)
    assert venv.step([Choosing.action_space.sample()] * 2)[2].tolist() == [False, False]
    venv.close()
    with pytest.raises(CallOrderError, match="reset"):
        make("CartPole-v1", n_envs=2, settings=settings).step(np.zeros(2, np.int64))


def test_bad_settings(make: Callable[..., Any]) -> None:
    for call, words in (
        (lambda: adapter.VecEnv([]), "env_fns"),
        (lambda: adapter.VecEnv("CartPole-v1"), "name of a C env"),
        (lambda: adapter.VecEnv([Rich, Rich], num_envs=3), "num_envs"),
        (lambda: adapter.VecEnv([dict], backend="serial"), "gymnasium.Env"),
        (
            lambda: adapter.VecEnv("probe", env_kwargs={"mode": 1}, backend="serial"),
            "several kinds",
        ),
        (lambda: make("tag_grid", wrapper_class=gymnasium.wrappers.ClipReward), "C env"),
        (lambda: make("CartPole-v1", vec_env_cls=vec_env.VecNormalize), "vec_env_cls"),
        (
            lambda: adapter.VecEnv([Rich], start_method="illegal"),
            "cannot find context for 'illegal': use one of auto, spawn",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            call()


def test_nested_observations_raise_what_they_raise_in_sb3() -> None:
    for call in (
        lambda: vec_env.DummyVecEnv([Deep]),
        lambda: adapter.VecEnv([Deep], backend="serial"),
    ):
        with pytest.raises(NotImplementedError, match="(?i)nested"):
            call()
    with pytest.raises(ConfigError, match="SB3 does not take nested spaces, flatten them"):
        adapter.VecEnv([Deep], backend="serial")


# ---- learning ------------------------------------------------------------------------------------


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small networks are no faster with more, and much slower on a busy machine."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def mean_return(model: Any) -> float:
    return float(np.mean([episode["r"] for episode in model.ep_info_buffer]))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.slow
def test_ppo_learns_cartpole_over_python_workers(make: Callable[..., Any]) -> None:
    """From about 25 steps an episode to about 110 (seeds 0 to 2, means of 100 episodes); 500 is the
    most.
    """
    venv = make("CartPole-v1", n_envs=8, seed=0, settings=TWO_WORKERS)
    model = sb3.PPO(
        "MlpPolicy", venv, n_steps=64, batch_size=256, n_epochs=10, gamma=0.98, gae_lambda=0.8,
        learning_rate=2e-3, seed=0, device="cpu",
    )  # fmt: skip
    model.learn(2_000)
    before = mean_return(model)
    model.learn(12_000, reset_num_timesteps=False)
    assert mean_return(model) > max(60, 2 * before)
