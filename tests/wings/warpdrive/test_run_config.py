# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Run configs of WarpDrive: the four that its repository and tutorials use, older and newer ways of
writing them, and files that are broken or made to do harm.
"""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from puffervec.commands import cli
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig
from puffervec.train.metrics.log import read_metrics
from puffervec.train.policies.run_spec import RunSpec
from puffervec.wings.warpdrive import door as warpdrive

Tables = dict[str, Any]
SAVING = {
    "metrics_log_freq": 100,
    "model_params_save_freq": 5000,
    "basedir": "/tmp",
    "name": "tag",
    "tag": "experiments",
}


def of_policy(lr: Any, dims: list[int], clip: float, **more: Any) -> Tables:
    return {
        "to_train": True, "algorithm": "A2C", "vf_loss_coeff": 1, "entropy_coeff": 0.05,
        "clip_grad_norm": True, "max_grad_norm": clip, "normalize_advantage": False,
        "normalize_return": False, "gamma": 0.98, "lr": lr,
        "model": {"type": "fully_connected", "fc_dims": dims, "model_ckpt_filepath": ""}, **more,
    }  # fmt: skip


def continuous(
    taggers: int, steps: int, envs: int, batch: int, levels: int, turn: float, lr: float
) -> Tables:
    """Tag in the plane, as tag_continuous.yaml and the tutorials have it."""
    return {
        "name": "tag_continuous",
        "env": {
            "num_taggers": taggers, "num_runners": 100, "grid_length": 20, "episode_length": steps,
            "max_acceleration": 0.1, "min_acceleration": -0.1, "max_turn": turn, "min_turn": -turn,
            "num_acceleration_levels": levels, "num_turn_levels": levels, "skill_level_runner": 1,
            "skill_level_tagger": 1, "max_speed": 1.0, "seed": 274880,
            "use_full_observation": False, "runner_exits_game_after_tagged": True,
            "num_other_agents_observed": 10, "tag_reward_for_tagger": 10.0,
            "tag_penalty_for_runner": -10.0, "step_penalty_for_tagger": -0.0,
            "step_reward_for_runner": 0.0, "edge_hit_penalty": -0.0,
            "end_of_game_reward_for_runner": 1.0, "tagging_distance": 0.02,
        },
        "trainer": {"num_envs": envs, "num_episodes": 500, "train_batch_size": batch},
        "policy": {"runner": of_policy(0.005, [256, 256], 0.5),
                   "tagger": of_policy(lr, [256, 256], 0.5)},
        "saving": SAVING,
    }  # fmt: skip


GRID: Tables = {
    "name": "tag_gridworld",
    "env": {
        "num_taggers": 4, "grid_length": 100, "episode_length": 100, "seed": 20,
        "wall_hit_penalty": 0.1, "tag_reward_for_tagger": 10.0, "tag_penalty_for_runner": 5.0,
        "step_cost_for_tagger": 0.01,
    },
    "trainer": {"num_envs": 2000, "num_episodes": 20_000, "train_batch_size": 200_000,
                "env_backend": "numba"},
    "policy": {"shared": of_policy(0.001, [32, 32], 3)},
    "saving": SAVING,
}  # fmt: skip
REPOSITORY = continuous(
    taggers=10, steps=500, envs=100, batch=25_000, levels=20, turn=2.356, lr=0.001
)
TUTORIAL = continuous(taggers=5, steps=500, envs=400, batch=10_000, levels=10, turn=2.35, lr=0.002)
LIGHTNING = continuous(taggers=5, steps=200, envs=50, batch=10_000, levels=10, turn=2.35, lr=0.002)
FILES = {"repository": REPOSITORY, "tutorial 5": TUTORIAL, "lightning": LIGHTNING, "grid": GRID}


def written(folder: Path, tables: Any) -> Path:
    path = folder / "run_config.yaml"
    path.write_text(tables if isinstance(tables, str) else yaml.safe_dump(tables))
    return path


def changed(tables: Tables, path: str, value: Any) -> Tables:
    """A copy with another value at trainer.num_envs or so; None: without it."""
    made = copy.deepcopy(tables)
    *blocks, key = path.split(".")
    block = made
    for name in blocks:
        block = block[name]
    if value is None:
        del block[key]
    else:
        block[key] = value
    return made


@pytest.mark.parametrize(
    ("name", "horizon", "agents"),
    [("repository", 250, 110), ("tutorial 5", 25, 105), ("lightning", 200, 105), ("grid", 100, 5)],
)
def test_the_configs_in_use(name: str, horizon: int, agents: int, tmp_path: Path) -> None:
    tables = FILES[name]
    found = warpdrive.read(written(tmp_path, tables))
    config = found.config
    config.check()
    for key, value in tables["env"].items():
        assert getattr(config.env, key) == value, key
    trainer, episode = tables["trainer"], tables["env"]["episode_length"]
    assert config.train.algorithm == "a2c" and config.vec.num_envs == trainer["num_envs"]
    assert (config.train.horizon, config.check_batch(agents * config.vec.num_envs)) == (horizon, 1)
    assert config.train.total_timesteps == trainer["num_episodes"] * episode * agents
    rows = RunSpec.of(config).rows
    assert sum(part.group.agents for part in rows.values()) == agents
    for policy, given in tables["policy"].items():
        settings = rows["default" if policy == "shared" else policy].settings
        assert (
            settings.policy.hidden == tuple(given["model"]["fc_dims"])
            and not settings.policy.normalize
        )
        assert settings.role.learns
        train = settings.train
        assert (train.lr, train.gamma, train.entropy_coef) == (
            given["lr"],
            given["gamma"],
            given["entropy_coeff"],
        )
        assert (train.value_coef, train.max_grad_norm) == (
            2 * given["vf_loss_coeff"],
            given["max_grad_norm"],
        )
        assert (
            train.gae_lambda,
            train.normalize_advantage,
            train.anneal_lr,
            train.update_epochs,
        ) == (1, False, False, 1)
    ignored = " ".join(found.lines[1:])
    assert (
        "saving.metrics_log_freq: every update is logged" in ignored
        and "unknown" not in ignored
        and "policy" not in ignored
    )
    assert ("trainer.env_backend: the envs run on the CPU" in ignored) == (name == "grid")


def test_a_reset_pool(tmp_path: Path) -> None:
    found = warpdrive.read(written(tmp_path, {**GRID, "name": "tag_gridworld_with_reset_pool"}))
    assert (found.config.target, found.config.env.reset_pool, found.config.env.seed) == (
        "tag_grid",
        5,
        20,
    )


@pytest.mark.parametrize("name", ["repository", "grid"])
def test_a_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Flags win over the file; what is ignored is said once."""
    path = written(tmp_path, FILES[name])
    small = (
        "--num-envs 4 --train.horizon 5 --total-timesteps 500 --backend serial --vec.num-buffers "
        "1 --device cpu"
    )
    log = f"--log.dashboard off --log.folder {tmp_path} --run-name run --train.precision fp32"
    assert cli.main(["--warpdrive", str(path), *small.split(), *log.split(), "--lr", "0.25"]) == 0
    said = capsys.readouterr().err
    assert said.count("saving.metrics_log_freq") == 1
    (*_, last) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert last["charts/learning_rate"] == 0.25
    names = ("runner/policy", "tagger/policy") if name == "repository" else ("policy",)
    assert all(f"losses/{part}" in last for part in names) and "losses/approx_kl" not in last


def test_older_files_have_settings_of_all_policies_in_the_trainer_block(tmp_path: Path) -> None:
    moved = {
        "algorithm": "A2C",
        "vf_loss_coeff": 0.5,
        "entropy_coeff": 0.1,
        "clip_grad_norm": False,
        "max_grad_norm": 7,
    }
    policy = {
        "to_train": True,
        "name": "fully_connected",
        "gamma": 0.9,
        "lr": 0.1,
        "model": {"fc_dims": [8]},
    }
    tables = {
        **GRID,
        "trainer": {**GRID["trainer"], **moved, "normalize_return": True},
        "policy": {"shared": policy},
    }
    found = warpdrive.read(written(tmp_path, tables))
    train = found.config.train
    assert (train.value_coef, train.entropy_coef, train.max_grad_norm, train.gamma) == (
        1.0,
        0.1,
        warpdrive.UNCLIPPED,
        0.9,
    )
    assert any(
        "policy.shared.normalize_return: returns are not normalized" in line for line in found.lines
    )
    assert not any("trainer.algorithm" in line for line in found.lines)


def test_schedules_count_env_steps_there_and_agent_steps_here(tmp_path: Path) -> None:
    tables = changed(TUTORIAL, "policy.runner.entropy_coeff", [[0, 0.5], [2_000_000, 0.05]])
    tables = changed(tables, "policy.tagger.lr", "1e-3")  # For YAML 1.1 this is text.
    config = warpdrive.read(written(tmp_path, tables)).config
    assert config.of_policy("runner").train.entropy_coef == ((0, 0.5), (2e6 * 105, 0.05))
    assert (
        config.of_policy("tagger").train.entropy_coef == 0.05
        and config.of_policy("tagger").train.lr == 1e-3
    )


def test_a_policy_that_is_not_trained_counts_no_agent_steps(tmp_path: Path) -> None:
    config = warpdrive.read(
        written(tmp_path, changed(REPOSITORY, "policy.runner.to_train", False))
    ).config
    assert config.train.total_timesteps == 500 * 500 * 10
    assert not config.of_policy("runner").role.learns and config.of_policy("tagger").role.learns


def test_what_is_missing_has_warpdrives_default(tmp_path: Path) -> None:
    tables = {"name": "tag_gridworld", "policy": {"all": {"to_train": True}}}
    config = warpdrive.read(written(tmp_path, tables)).config
    assert (config.vec.num_envs, config.train.horizon, config.policy.hidden) == (10, 1000, (64, 64))
    assert (config.train.lr, config.train.value_coef, config.train.max_grad_norm) == (
        1e-4,
        0.02,
        0.5,
    )


def test_ppo_takes_a_batch_as_a_whole_too(tmp_path: Path) -> None:
    tables = changed(
        changed(GRID, "policy.shared.algorithm", "PPO"), "policy.shared.clip_param", 0.25
    )
    config = warpdrive.read(written(tmp_path, tables)).config
    config.check()
    assert config.train.algorithm == "ppo" and getattr(config.train, "clip") == 0.25  # noqa: B009
    assert config.check_batch(5 * 2000) == 1


def test_unknown_keys_are_listed(tmp_path: Path) -> None:
    tables = changed(changed(GRID, "env.gravity", 9.8), "policy.shared.model.depth", 3) | {
        "extra": 1,
        "sampler": {"params": {"a": 1}},
    }
    (line,) = [
        line for line in warpdrive.read(written(tmp_path, tables)).lines if "unknown key" in line
    ]
    assert line == "ignored env.gravity, policy.shared.model.depth, extra: unknown key"


def test_an_env_of_ones_own_is_named_beside_the_file(tmp_path: Path) -> None:
    tables = {
        "name": "mine",
        "env": {"num_agents": 2, "episode_length": 6},
        "policy": {"p": of_policy(0.1, [4], 1)},
    }
    path = written(tmp_path, tables)
    with pytest.raises(
        ConfigError,
        match="name is 'mine': the names that mean an env here are tag_continuous, tag_gridworld",
    ):
        warpdrive.read(path)
    config = warpdrive.read(path, "probe").config
    assert (config.target, config.env.num_agents, config.train.total_timesteps) == (
        "probe",
        2,
        10_000 * 6 * 2,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "not YAML"),
        ("- 1", "not a run config"),
        ("", "not a run config"),
        ("a: &a [1, 1]\nb: &b [*a, *a]\nc: [*b, *b]\nname: x", "aliases"),
        ("name: !!python/object/apply:os.system ['true']", "not YAML"),
        ("x: " + "[" * 50_000, "nested more than 16 deep"),
        ("x: '" + "y" * (1 << 16) + "'", "more than 65,536 bytes"),
        ("x: " + "9" * 6000, "not YAML"),
        ("\x00", "not YAML"),
        *(
            (f"x: {scalar}", "not YAML")
            for scalar in ("!!bool abc", "!!int ''", "!!float ''", "!!timestamp abc", "2020-99-99")
        ),
        ("x: [1, 0x" + "f" * 5000 + "]", "x.1 is a whole number of 20,000 bits: at most 64"),
        (changed(GRID, "policy", {}), "policy is missing or empty"),
        (changed(GRID, "policy", 3), "policy is 3: must be a table"),
        (changed(GRID, "policy.shared.to_train", False), "none of the policies has to_train"),
        (
            changed(GRID, "policy.shared.algorithm", "DDPG"),
            "policy.shared.algorithm is 'DDPG': known are A2C, CLONE, PPO",
        ),
        (changed(GRID, "policy.shared.lr", "fast"), "policy.shared.lr is 'fast'"),
        (
            changed(GRID, "policy.shared.vf_loss_coeff", [[0, 1], [9, 2]]),
            "policy.shared.vf_loss_coeff is .*must be one number",
        ),
        (
            changed(GRID, "policy.shared.model.fc_dims", 32),
            "policy.shared.model.fc_dims is 32: must be a list",
        ),
        (
            changed(GRID, "policy.shared.model.fc_dims", [0]),
            "policy.shared.model.fc_dims is 0: must be at least 1",
        ),
        (changed(GRID, "trainer.num_envs", 0), "trainer.num_envs is 0: must be at least 1"),
        (
            changed(GRID, "trainer.num_episodes", "many"),
            "trainer.num_episodes is 'many': must be an integer",
        ),
        (changed(GRID, "env.num_taggers", 1.5), "env.num_taggers is 1.5"),
        (
            changed(REPOSITORY, "policy.planner", of_policy(0.1, [4], 1)),
            "policy.planner: .*here .*tagger",
        ),
        (
            changed(REPOSITORY, "env.num_other_agents_observed", 1000),
            "num_other_agents_observed is 1000",
        ),
    ],
)
def test_files_that_cannot_be_used_are_one_line(text: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"--warpdrive .*run_config.yaml: .*{words}") as caught:
        warpdrive.read(written(tmp_path, text))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--warpdrive", str(tmp_path / "none.yaml")]) == 2
    assert cli.main(["--warpdrive", str(tmp_path), "--resume", "x"]) == 2
    missing, both = capsys.readouterr().err.splitlines()
    assert (
        missing.endswith("none.yaml: No such file or directory")
        and "not allowed with argument --warpdrive" in both
    )


def test_every_setting_of_a_preset_that_matters_is_that_of_the_file(tmp_path: Path) -> None:
    """With one exception, the size of microbatches, which changes nothing but the speed."""
    config = warpdrive.read(written(tmp_path, GRID)).config
    preset, bare = TrainConfig.of("tag_grid").train, TrainConfig.bare("tag_grid").train
    left = {
        field.name
        for field in dataclasses.fields(preset)
        if hasattr(config.train, field.name)
        and getattr(preset, field.name) != getattr(bare, field.name)
        and getattr(config.train, field.name) == getattr(preset, field.name)
    }
    assert left <= {"microbatch_size", "update_epochs"} and config.train.update_epochs == 1
