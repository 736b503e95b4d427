# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from puffervec.errors import ConfigError
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig

PROBE = TrainConfig.of("probe")


def test_flags_set_values() -> None:
    text = (
        "--train.lr 0.5 --vec.num-workers 3 --policy.hidden 3 4 --log.folder here "
        "--env.num-agents 2 --train.gamma=0.5"
    )
    config = flags.apply_flags(PROBE, text.split())
    assert (config.train.lr, config.vec.num_workers, config.policy.hidden) == (0.5, 3, (3, 4))
    assert (config.log.folder, config.env.num_agents, config.train.gamma) == (Path("here"), 2, 0.5)
    assert flags.apply_flags(PROBE, []) == PROBE


@pytest.mark.parametrize("word", ["false", "False"])
def test_booleans_and_underscores(word: str) -> None:
    assert flags.apply_flags(PROBE, ["--train.anneal_lr", word]).train.anneal_lr is False
    assert flags.apply_flags(PROBE, [f"--train.anneal-lr={word}"]).train.anneal_lr is False


@pytest.mark.parametrize(
    "text", ["--log.tensorboard", "--log.tensorboard --seed 3", "--seed 3 --log.tensorboard true"]
)
def test_a_switch_needs_no_value(text: str) -> None:
    config = flags.apply_flags(PROBE, text.split())
    assert config.log.tensorboard and config.train.seed == (
        3 if "seed" in text else PROBE.train.seed
    )
    assert not flags.apply_flags(config, ["--log.tensorboard", "false"]).log.tensorboard
    with pytest.raises(ConfigError, match="train.seed"):
        flags.apply_flags(PROBE, ["--seed"])


def test_aliases_lead_to_flags() -> None:
    known = flags.known_flags(TrainConfig.of("drive")) if "--scenes" in flags.ALIASES else []
    for alias, flag in flags.ALIASES.items():
        assert flag in known, alias
    config = flags.apply_flags(
        PROBE, "--total-timesteps 7 --seed 3 --device cpu --num-envs 2 --num-workers 1".split()
    )
    assert (config.train.total_timesteps, config.train.seed, config.vec.num_envs) == (7, 3, 2)


@pytest.mark.parametrize(
    "text", ["--policy.hidden 64,32", "--policy.hidden=64,32", "--policy.hidden 64 32"]
)
def test_whole_numbers_and_lists_as_people_write_them(text: str) -> None:
    config = flags.apply_flags(
        PROBE, [*text.split(), "--total-timesteps", "1e5", "--num-workers", "2e0"]
    )
    assert config.policy.hidden == (64, 32) and (
        config.train.total_timesteps,
        config.vec.num_workers,
    ) == (100_000, 2)
    assert flags.take_policies(["--policies.a.hidden", "64,32"]) == {"a": {"hidden": [64, 32]}}


def test_negative_numbers_and_lists_of_an_env() -> None:
    tag = TrainConfig.of("tag_continuous")
    found = flags.apply_flags(tag, "--env.starting-location-x -1 -2e0 --env.seed -3e0".split())
    assert (list(found.env.starting_location_x), found.env.seed) == ([-1.0, -2.0], -3)
    assert flags.apply_flags(found, ["--env.seed", "None"]).env.seed is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--foo 3", ["unknown flag --foo"]),
        ("--env.nosuch 3", ["unknown flag --env.nosuch: the env's are --env."]),
        ("--train.horzion 3", ["unknown flag --train.horzion", "did you mean --train.horizon"]),
        ("--scenes x", ["unknown flag --scenes"]),  # probe has none
        ("--learning-rate 1e-3", ["unknown flag --learning-rate", "did you mean --train.lr?"]),
        ("--train.ent-coef 0.1", ["did you mean --train.entropy-coef?"]),
        ("--total-timesteps 1.5", ["train.total_timesteps is '1.5': must be an integer"]),
        ("--total-timesteps inf", ["train.total_timesteps is 'inf': must be an integer"]),
        ("--total-timesteps 1e400", ["train.total_timesteps is '1e400': must be an integer"]),
        ("--lr fast", ["train.lr is 'fast': must be a number, or points"]),
        ("--seed 1.5", ["train.seed is '1.5': must be an integer"]),
        ("--vec.num-workers many", ["vec.num_workers is 'many'", "'auto'"]),
        ("--backend ray", ["vec.backend is 'ray'", "'serial'"]),
        ("--train.lr", ["--train.lr"]),
        ("stray", ["unknown argument stray"]),
        ("--train.lr 1 2", ["unknown argument 2"]),
        ("--train.anneal-lr perhaps", ["train.anneal_lr is 'perhaps': must be true or false"]),
    ],
)
def test_bad_flags_are_one_line(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        flags.apply_flags(PROBE, text.split())
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_config_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        "[train]\nlr = 0.25\ntotal-timesteps = 1e6\n[policy]\nhidden = [5]\n[env]\nnum_agents = "
        '4\n[log]\nfolder = "f"\n'
    )
    config = flags.apply_config_file(PROBE, path)
    assert (config.train.lr, config.train.total_timesteps, config.policy.hidden) == (
        0.25,
        1_000_000,
        (5,),
    )
    assert (config.env.num_agents, config.log.folder) == (4, Path("f"))
    assert flags.apply_flags(config, ["--lr", "3"]).train.lr == 3  # flags win


@pytest.mark.parametrize(
    "text",
    [
        "[train]\nlr = ",
        "[train]\nlearn = 1",
        "[trains]\nlr = 1",
        'train = "x"',
        "[env]\nnum_agents = 1.5",
    ],
)
def test_bad_config_files_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="run.toml"):
        flags.apply_config_file(PROBE, path)
    with pytest.raises(ConfigError, match="none.toml.*No such file"):
        flags.apply_config_file(PROBE, tmp_path / "none.toml")


def test_env_flags_of_a_python_env_are_keyword_arguments() -> None:
    config = TrainConfig.of("CartPole-v1", env={"old": 1, "kept": 2})
    text = (
        "--env.old 3 --env.max-steps=-4 --lr 0.5 --env.rate 1e-2 --env.on true --env.map north "
        "--env.word '7'"
    )
    made = flags.apply_flags(config, text.split())
    expected = {
        "old": 3,
        "kept": 2,
        "max_steps": -4,
        "rate": 0.01,
        "on": True,
        "map": "north",
        "word": "7",
    }
    assert made.env == expected and {k: type(v) for k, v in made.env.items()} == {
        k: type(v) for k, v in expected.items()
    }
    assert made.train.lr == 0.5 and config.env == {"old": 1, "kept": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--env.x", "expected one argument"),
        ("--env.x --lr 1", "expected one argument"),
        ("--env.2x 1", "not the name"),
        ("--scenes a", "unknown flag"),
    ],
)
def test_bad_env_flags_of_a_python_env(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        flags.apply_flags(TrainConfig.of("CartPole-v1"), text.split())


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("+5", 5), ("-.5", -0.5), ("3.", 3.0), ("2E3", 2000.0), ("False", False),
     ("nan", "nan"), ("1_0", "1_0"), ("infinity", "infinity"), ("", ""), ("'", "'"),
     ('"true"', "true"), ("None", "None")],
)  # fmt: skip
def test_plain_values(text: str, value: object) -> None:
    found = flags.plain_value(text)
    assert found == value and type(found) is type(value)


def test_settings_of_single_policies() -> None:
    given = [
        "--policies.a.hidden",
        "4",
        "5",
        "--lr",
        "0.5",
        "--policies.b-c.lr=0.25",
        "--policies.a.to-train",
        "false",
    ]
    config = flags.apply_flags(
        TrainConfig.of("probe", policies={"a": {"lr": 1.0, "gamma": 0.5}}), given
    )
    assert config.policies == {
        "a": {"gamma": 0.5, "hidden": [4, 5], "to_train": False},
        "b-c": {"lr": 0.25},
    }
    for bad, words in (
        (["--policies.a.lr"], "needs a value"),
        (["--policies.lr", "1"], "--policies.NAME.KEY VALUE"),
    ):
        with pytest.raises(ConfigError, match=words):
            flags.apply_flags(config, bad)


@pytest.mark.parametrize("line", ["seed = {}", "lr = {}", "x = [[1, {}]]"])
def test_whole_numbers_beyond_those_of_toml_are_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text("[train]\n" + line.format("0x" + "f" * 5000))
    with pytest.raises(
        ConfigError,
        match=r"--config .*long.toml: train\.\S+ is a whole number of 20,000 bits: at most 64",
    ):
        flags.read_toml(path)
