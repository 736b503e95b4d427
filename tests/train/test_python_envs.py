# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Training in envs written in Python, end to end: the best returns of the envs in envs.py are
reached in seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.commands import cli
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.act import evaluate as ev
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.setup import make_vec
from tests.helpers import thinned
from tests.train import envs

Small = Callable[..., TrainConfig]
CPU = torch.device("cpu")
QUICK = {"horizon": 16, "lr": 1e-2, "update_epochs": 4, "gamma": 0.5}


def learn(config: TrainConfig, steps: int) -> tuple[dict[str, float], Path]:
    """Train and return the last metrics and the checkpoint."""
    config = config.merged(
        {
            "vec": {"num_envs": 32},
            "train": QUICK | {"total_timesteps": steps},
            "policy": {"hidden": [32]},
        }
    )
    with Trainer(config) as trainer:
        metrics = trainer.train()
        found = ckpt.newest(trainer.folder / "checkpoints")
    assert found is not None
    return metrics, found


def evaluated(path: Path, deterministic: bool = True) -> list[ev.TypeRates]:
    run, policies = ev.load_policies(
        path, CPU, [json.loads((path / "manifest.json").read_text())["config"]["target"]]
    )
    return ev.evaluate_python(
        run.config, ev.PolicyActor(policies, CPU, deterministic), episodes=40, seed=1
    )


@pytest.mark.slow  # test_learns_with_agents_that_leave is the quick one
@pytest.mark.parametrize("nested", [True, False])
def test_learns_choices_that_begin_at_one(small: Small, nested: bool) -> None:
    """Dict of all kinds of leaves, or a float64 Box; two numbers of three: the best return is 8,
    chance 2.67.
    """
    metrics, path = learn(small(envs.Guess, env={"nested": nested}), 12_000)
    assert metrics["episode/return"] > 7 and metrics["episode/length"] == envs.STEPS
    assert metrics["env/hits"] == pytest.approx(metrics["episode/return"] / envs.STEPS, abs=0.1)
    (rates,) = evaluated(path)
    assert (
        rates.episode_return[0] > 7.5 and rates.length == (envs.STEPS, 0.0) and rates.episodes == 40
    )


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_learns_numbers_within_bounds(small: Small, dtype: str) -> None:
    """Observations around 110 without bounds; actions in -2..4. Always the middle gives -5.3, the
    best is 0.
    """
    metrics, path = learn(small(envs.Aim, env={"dtype": dtype}), 15_000)
    assert metrics["episode/return"] > -2.5
    assert evaluated(path)[0].episode_return[0] > -1


@pytest.mark.slow
def test_learns_with_agents_that_leave(small: Small) -> None:
    metrics, path = learn(small(envs.Leavers), 10_000)
    assert metrics["episode/return"] > 1.7 and metrics["episode/length"] == pytest.approx(
        2, abs=0.2
    )
    assert metrics["env/hit"] > 0.85  # over all agents
    rates = evaluated(path)
    assert [r.agent_type for r in rates] == [0, 1, 2] and [r.length[0] for r in rates] == [1, 2, 3]
    assert [round(r.episode_return[0]) for r in rates] == [1, 2, 3]


@pytest.mark.slow
def test_pictures_run_through_the_mlp(small: Small) -> None:
    metrics, _ = learn(small(envs.Pictures), 3_000)
    assert metrics["episode/return"] > 0.9 and metrics["episode/length"] == 1


@pytest.mark.parametrize(
    "vec", thinned(3, [{"num_buffers": 2}, {"batch_size": 8}, {"num_buffers": 1}])
)
@pytest.mark.parametrize("make", [envs.Guess, envs.Aim, envs.Leavers])
def test_storage_and_records_are_those_of_a_plain_loop(
    small: Small, make: Any, vec: dict[str, int]
) -> None:
    """The stored draws, sent by hand as the env takes them, give every stored row; records add up
    the same rewards.
    """
    config = small(make, vec={"num_envs": 32} | vec, train={"scale_rewards": False})
    with Trainer(config) as trainer:
        trainer.collect()
        stored = {k: v.clone() for k, v in trainer.slots["default"].storage.tensors().items()}
        to_env = trainer.slots["default"].storage.action_map
        records = trainer.collector.episodes
    returns = []
    with puffervec.make(make, backend="serial", num_envs=32, seed=config.train.seed) as env:
        env.async_reset(config.train.seed)
        running = np.zeros(env.num_agents)
        for step in range(9):
            obs, rewards, terminals, truncations, _, _, masks = env.recv()
            np.testing.assert_array_equal(
                stored["obs"][step].numpy(),
                obs.reshape(len(obs), -1).astype(stored["obs"].numpy().dtype),
            )
            for name, array in (
                ("rewards", rewards),
                ("terminals", terminals),
                ("truncations", truncations),
                ("masks", masks),
            ):
                np.testing.assert_array_equal(
                    stored[name][step], array, err_msg=f"{name} at {step}"
                )
            running += rewards
            ended = terminals | truncations
            returns += running[ended].tolist()
            running[ended] = 0
            env.send(
                to_env(stored["actions"][step])
                .numpy()
                .reshape(env.halves[0].groups["agents"].actions.shape)
            )
    assert records.total == len(returns)
    assert records.means()["episode/return"] == pytest.approx(np.mean(returns), abs=1e-5)


def test_scaled_rewards_leave_the_log_alone(small: Small) -> None:
    found = []
    for scaled in (False, True):
        with Trainer(small(envs.Aim, train={"scale_rewards": scaled})) as trainer:
            trainer.collect()
            found.append(
                (
                    trainer.slots["default"].storage.rewards.clone(),
                    trainer.collector.episodes.means(),
                )
            )
            assert bool(trainer.collector.return_scales) == scaled
    (plain, means), (shrunk, same) = found
    assert means == same
    torch.testing.assert_close(shrunk[1:] / shrunk[1:].sum(), plain[1:] / plain[1:].sum())
    assert shrunk[1:].abs().max() < plain[1:].abs().max()


@pytest.mark.slow
def test_functions_inside_functions_train_in_worker_processes(small: Small) -> None:
    def make(shift: int) -> Any:
        return envs.Guess(numbers=shift)

    config = small(make, env={"shift": 1}, vec={"backend": "multiprocessing", "num_workers": 2})
    with Trainer(config) as trainer:
        assert trainer.train()["step"] >= 100
        path = trainer.save()
    with Trainer(config, checkpoint=path) as trainer:
        assert trainer.counters.agent_steps >= 100


@pytest.mark.slow
def test_backend_by_number_of_envs(small: Small) -> None:
    for count, kind in ((4, puffervec.Serial), (8, puffervec.Multiprocessing)):
        config = small(
            envs.Guess, vec={"backend": "auto", "num_envs": count, "num_workers": "auto"}
        )
        with make_vec(config) as vec:
            assert type(vec) is kind and vec.autoreset_mode == "next_step"
    with make_vec(small(vec={"backend": "auto"})) as vec:
        assert type(vec) is puffervec.Multiprocessing


def test_an_env_that_never_ends_is_refused_by_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ev, "MOST_STEPS", 20)
    with pytest.raises(
        ConfigError, match="2 of 2 envs did not end an episode within 20 steps.*TimeLimit"
    ):
        ev.evaluate_python(TrainConfig.of(envs.Endless), ev.RandomActor(0), episodes=2, seed=0)
    made = iter((*[envs.Aim] * 4, envs.Endless))  # The first one tells what its spaces are.
    with pytest.raises(
        ConfigError, match="1 of 4 envs did not end an episode"
    ):  # Not rates of the other alone.
        ev.evaluate_python(
            TrainConfig.of(lambda: next(made)()), ev.RandomActor(0), episodes=4, seed=0
        )
    (rates,) = ev.evaluate_python(TrainConfig.of(envs.Aim), ev.RandomActor(0), episodes=30, seed=0)
    assert rates.episodes == 30  # 30 x 4 steps are no reason to give up.


def test_random_baselines_are_chance(small: Small) -> None:
    (rates,) = ev.evaluate_python(small(envs.Guess), ev.RandomActor(0), episodes=300, seed=0)
    assert rates.episode_return[0] == pytest.approx(8 / 3, abs=0.4)
    (rates,) = ev.evaluate_python(small(envs.Aim), ev.RandomActor(0), episodes=300, seed=0)
    assert rates.episode_return[0] == pytest.approx(-4 * (6**2 / 12 + 4**2 / 12), rel=0.2)


SCRIPT = """
import gymnasium
from gymnasium import spaces


class Bit(gymnasium.Env):
    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2)

    def __init__(self, length=3, bonus=0.0, name="none"):
        assert isinstance(length, int) and isinstance(bonus, float) and isinstance(name, str)
        self.length, self.bonus = length, bonus

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock, self.bit = 0, int(self.np_random.integers(2))
        return self.bit, {}

    def step(self, action):
        reward = float(action == self.bit) + self.bonus
        self.clock, self.bit = self.clock + 1, int(self.np_random.integers(2))
        return self.bit, reward, self.clock == self.length, False, {}


def make(**settings):
    return Bit(**settings)
"""


@pytest.mark.slow
def test_a_module_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`my_envs:make` through the command line: a script that is not in the folder trains, in worker
    processes; then resume, evaluate and misspell a setting.
    """
    (tmp_path / "my_envs.py").write_text(SCRIPT)
    flags = (
        "--num-envs 8 --num-workers 2 --train.horizon 16 --train.threads 1 --lr 1e-2 --device cpu "
        "--run-name r"
    ).split()
    settings = "--env.length 4 --env.bonus=-0.5 --env.name north --total-timesteps 3000".split()
    code = (
        "import sys; sys.path.remove(''); from puffervec.commands.cli import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    found = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])}
    command = [sys.executable, "-c", code, "my_envs:make", *flags, *settings]
    done = subprocess.run(
        command, cwd=tmp_path, env=found, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "multiprocessing with 2 workers" in done.stdout and "return" in done.stdout

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(
        tmp_path
    )  # multiprocessing gives workers the folder that this process was started in
    monkeypatch.delitem(sys.modules, "my_envs", raising=False)
    for command in (
        ["--resume", "latest"],
        ["eval", "runs/r"],
    ):  # what the run names is code: the user must name it
        assert cli.main(command) == 2
        assert (
            "puffer-train my_envs:make --resume RUN, puffer-train eval RUN --env my_envs:make"
            in capsys.readouterr().err
        )
    assert cli.main(["my_envs:make", "--resume", "latest", "--total-timesteps", "3200"]) == 0
    assert "resumes with new episodes" in capsys.readouterr().out
    assert cli.main(["eval", "runs/r", "--env", "my_envs:make", "--episodes", "16"]) == 0
    assert "2.00 [2.00, 2.00]" in capsys.readouterr().out
    assert cli.main(["my_envs:make", "--env.lenth", "4"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "lenth" in err
    monkeypatch.delitem(sys.modules, "my_envs", raising=False)


@pytest.mark.slow
def test_same_seed_same_run(small: Small) -> None:
    """In this process or in workers, with one thread or three."""
    runs = []
    for vec, threads in (
        ({"backend": "serial"}, 1),
        ({"backend": "multiprocessing", "num_workers": 2}, 3),
    ):
        with Trainer(small(envs.Guess, vec=vec, train={"threads": threads})) as trainer:
            trainer.train()
            runs.append({k: v.clone() for k, v in trainer.policies["default"].state_dict().items()})
    assert all(torch.equal(value, runs[1][key]) for key, value in runs[0].items())


def test_eval_of_an_env_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", "CartPole-v1", "--baseline", "random", "--episodes", "8"]) == 0
    assert "CartPole-v1: random" in capsys.readouterr().out
    assert cli.main(["eval", "CartPole-v1"]) == 2
    assert "--baseline" in capsys.readouterr().err
    assert cli.main(["eval", "CartPole-v1", "--baseline", "best"]) == 2
