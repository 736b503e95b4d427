# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/act/loaded.py: policies of every kind act as `eval` acts, in every form in which
people have observations.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import puffervec
import puffervec.train
from puffervec.errors import CheckpointError, ConfigError, PuffervecError
from puffervec.train import TrainConfig, Trainer, load_policy
from puffervec.train.act import evaluate as ev
from tests.helpers import thinned
from tests.pictures import install_eye
from tests.train import envs
from tests.train.fakes import Counting

Small = Callable[..., TrainConfig]
CPU = torch.device("cpu")
PROBE = {"num_agents": 3, "episode_length": 4, "end_kind": 2, "leave": 1}
GROUPS = PROBE | {"mode": 1, "num_agents": 2}

# target, settings of the env, of the policy; what differs is the kind of observation, action or
# network
KINDS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "flat": ("probe", PROBE, {}),
    "mingru": ("probe", PROBE, {"memory": "mingru"}),
    "lstm, groups, masks, mixed fields": ("probe", GROUPS, {"memory": "lstm"}),
    "object sets": ("tag_grid", {"num_taggers": 2, "grid_length": 4, "episode_length": 6}, {}),
    "dict to choices": (envs.Guess, {}, {}),
    "dict to joint choices, lstm": (envs.Guess, {}, {"joint": True, "memory": "lstm"}),
    "normalised, continuous": (envs.Aim, {"dtype": "float64"}, {}),
    "pictures": (envs.Pictures, {}, {"channels": [2, 2, 2]}),
    "agents": (envs.Leavers, {}, {"memory": "mingru"}),
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Networks this small only wait for each other's threads."""
    torch.set_num_threads(1)


def trained(small: Small, target: Any, env: dict[str, Any], policy: dict[str, Any]) -> Path:
    """The folder of a run that has begun; where observations are normalised, of one that made an
    update.
    """
    with Trainer(small(target, env=env, policy=policy, train={"minibatch_size": 0})) as trainer:
        if target is envs.Aim:
            trainer.collect()
            trainer.update()
        trainer.save()
        return trainer.folder


def load(run: str | Path, target: Any = None, **settings: Any) -> Any:
    return load_policy(run, env=target if callable(target) else None, **settings)


def idle_rows(vec: Any, group: str) -> Any:
    rows = vec.halves[vec.half].groups[group]
    return ~rows.masks | rows.terminals | rows.truncations


@pytest.mark.parametrize("kind", thinned(2, KINDS))
def test_it_acts_as_the_evaluation_does(small: Small, kind: str) -> None:
    """Given the vector env, and given flags and masks by hand; with likeliest and with drawn
    actions.
    """
    target, env, section = KINDS[kind]
    run = trained(small, target, env, section)
    for deterministic in (True, False):
        compare(run, target, env, deterministic)
    assert load(run, target).remembers == ("memory" in section)


def compare(run: Path, target: Any, env: dict[str, Any], deterministic: bool) -> None:
    by_vec, by_hand = load(run, target, seed=3), load(run, target, seed=3)
    actor = ev.PolicyActor(by_vec.policies, CPU, deterministic, seed=3)
    with puffervec.make(target, env_kwargs=env, backend="serial", num_envs=3) as vec:
        vec.async_reset(0)
        actor.reset(vec)
        names = [group.name for group in vec.spec.groups]
        single = len(names) == 1
        for _ in range(9):
            obs = vec.recv()[0]
            wanted = actor.act(obs, vec)
            groups = vec.halves[0].groups
            masks = {n: groups[n].action_masks for n in names if groups[n].action_masks is not None}
            done = {name: idle_rows(vec, name) for name in names}
            found = by_vec.act(obs, vec, deterministic=deterministic)
            told = by_hand.act(
                obs,
                done=done[names[0]] if single else done,
                action_mask=(masks.get(names[0]) if single else masks),
                deterministic=deterministic,
            )
            for name in names:
                one = (lambda x: x) if single else (lambda x, name=name: x[name])
                np.testing.assert_array_equal(one(found), one(wanted))
                assert one(found).dtype == one(wanted).dtype
                np.testing.assert_array_equal(one(told), one(wanted))
            vec.send(wanted)


@pytest.mark.parametrize("env", [{}, {"vector": 2}])
def test_pictures_of_a_c_env(
    small: Small, env: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, and beside a vector: rows as `recv` gives them, and one observation by hand."""
    monkeypatch.syspath_prepend(install_eye(tmp_path))
    monkeypatch.delitem(sys.modules, "eye_package", raising=False)
    run = trained(small, "eye", env, {"channels": [2, 2]})
    compare(run, "eye", env, deterministic=True)
    policy = load(run)
    observation = policy.observation_space.sample()
    assert policy.action_space.contains(policy.act(observation))
    stacked = (
        {k: np.stack([v, v]) for k, v in observation.items()}
        if env
        else np.stack([observation] * 2)
    )
    assert policy.act(stacked).tolist() == [policy.act(observation)] * 2


def counting(small: Small) -> Path:
    """A checkpoint of Counting."""
    with Trainer(small(env=PROBE), policies={"default": Counting()}) as trainer:
        return trainer.save()


@pytest.mark.parametrize(
    "settings", [{"num_buffers": 2}, {"num_workers": 2, "batch_size": 1, "zero_copy": False}]
)
def test_memory_in_every_order_of_batches(small: Small, settings: dict[str, Any]) -> None:
    """What a row remembers is its own, whichever rows stand in a batch: its count is the env's
    clock.
    """
    policy = load_policy(counting(small), policy=Counting())
    backend = "multiprocessing" if "num_workers" in settings else "serial"
    with puffervec.make("probe", env_kwargs=PROBE, backend=backend, num_envs=2, **settings) as vec:
        vec.async_reset(0)
        for _ in range(20):
            obs, _, terminals, truncations, _, _, masks = vec.recv()
            actions = policy.act(obs, vec)
            alive = masks & ~(terminals | truncations)
            np.testing.assert_array_equal(actions[alive], obs[alive, 2])
            vec.send(actions)


def test_resets_in_the_same_step(small: Small) -> None:
    """The observation of a row that is done is then the first of its next episode."""
    path = counting(small)
    env = {"num_agents": 1, "episode_length": 3}
    by_vec, by_hand = load_policy(path, policy=Counting()), load_policy(path, policy=Counting())
    with puffervec.make(
        "probe", env_kwargs=env, backend="serial", num_envs=2, autoreset_mode="same_step"
    ) as vec:
        vec.async_reset(0)
        for step in range(8):
            obs, _, terminals, truncations, *_ = vec.recv()
            assert by_vec.act(obs, vec).tolist() == [step % 3] * 2
            assert by_hand.act(obs, reset=terminals | truncations).tolist() == [step % 3] * 2
            vec.send(np.zeros(2, int))


@pytest.mark.parametrize("kind", ["dict to choices", "normalised, continuous", "pictures", "flat"])
def test_one_env_of_gymnasium(small: Small, kind: str) -> None:
    """One observation gives one action of the env's space: the action that a batch with it gives,
    in any place.
    """
    target, env, section = KINDS[kind]
    run = trained(small, target, env, section)
    policy = load(run, target)
    if not callable(target):
        seen = [policy.observation_space.sample() for _ in range(3)]
    else:
        made = target(**env)
        assert (
            policy.observation_space == made.observation_space
            and policy.action_space == made.action_space
        )
        seen = [made.reset(seed=seed)[0] for seed in range(3)]
    singles = [policy.act(observation) for observation in seen]
    for action in singles:
        assert policy.action_space.contains(action) or policy.action_space.contains(
            np.int64(action)
        )
    stacked = gymnasium.vector.utils.concatenate(
        policy.observation_space,
        seen,
        gymnasium.vector.utils.create_empty_array(policy.observation_space, 3),
    )
    together = policy.act(stacked)
    # A matrix product of one row rounds otherwise than one of three, as the CPU's kernels have it.
    np.testing.assert_allclose(together, np.stack(singles), rtol=1e-5, atol=1e-6)
    if isinstance(stacked, np.ndarray):
        np.testing.assert_array_equal(policy.act(torch.from_numpy(stacked)), together)


class Nested(envs.Guess):
    """Actions are a dict of a number and a tuple."""

    def __init__(self) -> None:
        super().__init__(nested=False)
        from gymnasium import spaces

        self.action_space = spaces.Dict(  # type: ignore[assignment]
            pick=spaces.Discrete(3, start=1),
            rest=spaces.Tuple([spaces.MultiBinary(2), spaces.Discrete(2)]),
        )


def test_nested_actions_come_as_the_space_has_them(small: Small) -> None:
    policy = load(trained(small, Nested, {}, {}), Nested)
    observation = np.array([1.0, 3.0])
    action = policy.act(observation)
    assert policy.action_space.contains(action)
    several = policy.act(np.stack([observation] * 4))
    assert (
        several["pick"].shape == (4,)
        and several["rest"][0].shape == (4, 2)
        and several["pick"][3] == action["pick"]
    )
    with puffervec.make(Nested, backend="serial", num_envs=2) as vec:
        vec.async_reset(0)
        rows = policy.act(vec.recv()[0], vec)
        vec.send(rows)
        assert rows.shape == (2, *vec.single_action_space.shape)


def test_gymnasium_vector_envs(small: Small) -> None:
    policy = load(trained(small, envs.Guess, {}, {"memory": "mingru"}), envs.Guess)
    vec = gymnasium.vector.SyncVectorEnv([envs.Guess] * 2)
    observations, _ = vec.reset(seed=0)
    done = np.zeros(2, bool)
    for _ in range(7):
        actions = policy.act(observations, done=done)
        assert vec.action_space.contains(actions) or done.any()
        observations, _, terminations, truncations, _ = vec.step(
            np.where(done[:, None], 1, actions)
        )
        done = terminations | truncations
    vec.close()


def test_it_is_an_actor(small: Small) -> None:
    """The evaluation takes it as it takes the actor of `puffer-train eval`."""
    policy = load_policy(trained(small, "probe", PROBE, {"memory": "lstm"}))
    actor = ev.PolicyActor(policy.policies, CPU, True)
    found, wanted = (
        ev.evaluate_generic("probe", policy.config.env, who, episodes=4, seed=1)
        for who in (policy, actor)
    )
    assert found == wanted


def test_agents_by_name(small: Small) -> None:
    """As a PettingZoo env gives them; memory is each agent's own, also when others have left."""
    policy = load(trained(small, envs.Leavers, {}, {"memory": "mingru"}), envs.Leavers)
    alone = load(policy.checkpoint, envs.Leavers)
    env = envs.Leavers()
    for seed in range(2):
        observations, _ = env.reset(seed=seed)
        policy.reset()
        alone.reset()
        while env.agents:
            actions = policy.act({agent: observations[agent] for agent in reversed(env.agents)})
            assert all(
                env.action_space(agent).contains(action) for agent, action in actions.items()
            )
            if "third" in actions:
                assert alone.act(observations["third"]) == actions["third"]
            observations, *_ = env.step(actions)


def test_what_a_row_remembers_can_be_forgotten(small: Small) -> None:
    policy = load_policy(counting(small), policy={"default": Counting()})
    obs = np.zeros((3, 8), np.float32)

    def counts(**settings: Any) -> list[int]:
        return list(policy.act(obs, **settings))

    assert [counts(), counts(), counts(reset=np.array([False, True, False]))] == [
        [0] * 3,
        [1] * 3,
        [2, 0, 2],
    ]
    assert [counts(done=np.array([True, False, False])), counts()] == [[0, 1, 3], [0, 2, 4]]
    policy.reset([2])
    assert counts() == [1, 3, 0]
    policy.reset(np.array([False, True, True]))
    assert counts() == [2, 0, 0]
    with pytest.raises(
        ConfigError, match=r"2 observations, but the policy remembers 3 rows: call policy.reset\(\)"
    ):
        policy.act(obs[:2])
    policy.reset()
    assert [
        int(policy.act(obs[0])),
        int(policy.act(obs[0])),
        int(policy.act(obs[0], reset=True)),
    ] == [0, 1, 0]


def test_a_folder_alone_runs_no_code(small: Small, tmp_path: Path) -> None:
    """Code is named by the user; a checkpoint that was copied elsewhere is enough; the newest run
    is found.
    """
    run = trained(small, envs.Guess, {}, {})
    with pytest.raises(
        ConfigError,
        match=r"tests.train.envs:Guess.*load_policy\(RUN, env='tests.train.envs:Guess'\)",
    ):
        load_policy(run)
    named = load_policy(run, env="tests.train.envs:Guess")
    shutil.copytree(named.checkpoint, tmp_path / "best")
    shutil.rmtree(run)
    policy = load_policy(str(tmp_path / "best"), env=envs.Guess)
    observation = envs.Guess().reset(seed=0)[0]
    assert policy.act(observation).tolist() == named.act(observation).tolist()
    assert repr(policy) == f"LoadedPolicy('tests.train.envs:Guess', '{tmp_path}/best')"
    with pytest.raises(CheckpointError, match="name a run folder, a checkpoint in it, or latest"):
        load_policy(tmp_path / "none")


def test_a_driver_whose_training_scenes_are_gone(small: Small, tmp_path: Path) -> None:
    """Its env is looked at with the scenes of the evaluation, or with those that are given."""
    from drive_env.generate import generate

    for name in ("train", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.json").write_text(json.dumps(generate.generate_tree(5, 0)))
    env = {"scenes": str(tmp_path / "train"), "num_agents": 24}
    run = trained(small, "drive", env, {"hidden": [8]})
    shutil.rmtree(tmp_path / "train")
    with pytest.raises(PuffervecError, match="train"):
        load_policy(run)
    policy = load_policy(run, settings={"scenes": str(tmp_path / "other")})
    with puffervec.make("drive", env_kwargs=policy.config.env, backend="serial", num_envs=1) as vec:
        vec.async_reset(0)
        actions = policy.act(vec.recv()[0], vec, deterministic=False)
        assert actions.shape == (24,) and len(set(actions.tolist())) > 1


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(small: Small) -> None:
    run = trained(small, "probe", {}, {})
    damaged = run / "checkpoints" / "000000000001"
    shutil.copytree(load_policy(run).checkpoint, damaged)
    text = (damaged / "manifest.json").read_text().replace('"sequence": 1', '"sequence": 2')
    (damaged / "manifest.json").write_text(text)
    (damaged / "default.safetensors").write_bytes(b"torn")
    with pytest.warns(UserWarning, match="skipped the checkpoint"):
        assert load_policy(run).checkpoint != damaged


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (
        np.zeros((2, 7), np.float32),
        {},
        r"observation has shape \(2, 7\): the space wants shape \(2, 8\) .*float32",
    ),
    (np.zeros((2, 3, 8), np.float32), {}, r"shape \(2, 3, 8\): the space wants shape \(8,\)"),
    (np.array(["a"] * 8), {}, "dtype <U1"),
    ({"a": np.zeros(3, np.float32)}, {}, r"shape \(3,\)"),
    ({"a": np.zeros((2, 8), np.float32)}, {}, r"observations\['a'\] has 2 observations: give one"),
    (
        np.zeros((2, 8), np.float32),
        {"done": np.zeros(3, bool)},
        r"done has shape \(3,\).*give \(2,\) bool",
    ),
    (np.zeros((2, 8), np.float32), {"reset": np.zeros(2)}, "reset has shape .*float64"),
    (np.zeros(8, np.float32), {"done": np.zeros(2, bool)}, "give true or false"),
    (np.zeros((2, 8), np.float32), {"action_mask": np.ones((2, 5))}, "without action masks"),
    (np.zeros((2, 8), np.float32), {"vec": 3}, "vec is a int"),
]


def test_bad_input_is_named(small: Small) -> None:
    policy = load_policy(trained(small, "probe", {}, {}))
    for observations, settings, words in BAD:
        with pytest.raises(PuffervecError, match=words):
            policy.act(observations, **settings)
    with pytest.raises(AttributeError, match="nothing"):
        puffervec.train.nothing  # noqa: B018


def test_bad_groups_and_masks_are_named(small: Small) -> None:
    policy = load_policy(trained(small, "probe", GROUPS, {}))
    space = policy.observation_space
    masked = [group for group in policy._spec.groups if group.action_mask_size][0]
    for wrong in ({"nobody": 1}, 3, {}):
        with pytest.raises(ConfigError, match=r"give a dict by policy, of \['scouts', 'towers'\]"):
            policy.act(wrong)
    with pytest.raises(
        ConfigError, match=rf"give action_mask, \(rows, {masked.action_mask_size}\)"
    ):
        policy.act({masked.name: space[masked.name].sample()})
    with pytest.raises(ConfigError, match="action_mask has shape"):
        policy.act({masked.name: space[masked.name].sample()}, action_mask=np.ones((3, 1)))
    with pytest.raises(ConfigError, match="is for a single policy"):
        policy.reset([0])
    only = policy.act(
        {masked.name: space[masked.name].sample()},
        action_mask=np.ones(masked.action_mask_size, bool),
    )
    assert list(only) == [masked.name]


def test_another_env_is_refused(small: Small) -> None:
    policy = load_policy(trained(small, "probe", {}, {}))
    with puffervec.make("cartpole", backend="serial", num_envs=2) as vec:
        vec.async_reset(0)
        obs = vec.recv()[0]
        with pytest.raises(ConfigError, match="trained in probe with observations .* vec has"):
            policy.act(obs, vec)
        with pytest.raises(ConfigError, match="leave done, reset and action_mask out"):
            policy.act(obs, vec, done=np.zeros(2, bool))
