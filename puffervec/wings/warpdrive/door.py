# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""WarpDrive's run configs (YAML) as configs of this trainer: `puffer-train --warpdrive FILE`.

    name, env         the env and its settings: envs list their names in WarpDrive
                      (Training.warpdrive)
    trainer           num_envs; horizon = train_batch_size / num_envs; total_timesteps from
                      num_episodes
    policy.NAME       one policy: for all agents; several: [policies.NAME] for agents of type NAME
    saving, sampler   not converted

A missing key gets WarpDrive's default. Keys that are not converted are listed with the reason.
docs/from-warpdrive.md has the table. Imports no torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import puffervec
from puffervec.core.spec import EnvSpec
from puffervec.errors import ConfigError
from puffervec.system.extras import required
from puffervec.train.config import algorithms, schedules, target
from puffervec.train.config.flags import check_integers, from_text
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.tables import convert, format_value, suggest

MOST_BYTES = 1 << 16  # Limit for a file; WarpDrive's own files have about 2,500 bytes.
MOST_DEPTH = 16
UNCLIPPED = 1e9  # max_grad_norm if gradients are not clipped.
BLOCKS = ("env", "trainer", "policy", "saving", "sampler")
TRAINER = {"num_envs": 10, "num_episodes": 10_000, "train_batch_size": 10_000}
POLICY: dict[str, Any] = {
    "to_train": False,
    "algorithm": "A2C",
    "vf_loss_coeff": 0.01,
    "entropy_coeff": 0.05,
    "clip_grad_norm": True,
    "max_grad_norm": 0.5,
    "normalize_advantage": False,
    "clip_param": 0.01,
    "gamma": 0.98,
    "lr": 1e-4,
}
MODEL: dict[str, Any] = {"type": "fully_connected", "fc_dims": [64, 64]}
SAVED = "--log.folder and --run-name set the run folder"
UNKNOWN = "unknown key"
# Keys of WarpDrive that have no meaning here.
IGNORED = {
    "saving.metrics_log_freq": "every update is logged",
    "saving.model_params_save_freq": "checkpoints follow log.checkpoint_interval_s",
    "saving.basedir": SAVED,
    "saving.name": SAVED,
    "saving.tag": SAVED,
    "trainer.env_backend": "the envs run on the CPU",
    "trainer.num_gpus": "torchrun starts several processes",
    "trainer.evaluator": "puffer-train eval evaluates a run",
    "trainer.neg_pos_env_ratio": "all envs are learned from",
    "sampler.params": "actions are drawn from the policy's probabilities",
    "policy.normalize_return": "returns are not normalized; --train.scale-rewards is the nearest",
    "policy.model_ckpt_filepath": "WarpDrive's weights cannot be loaded",
    "policy.init_method": "policy.kind initializes the weights",
}


@dataclasses.dataclass(frozen=True)
class Converted:
    """A WarpDrive file as a config.

    Attributes:
        config: config of this trainer.
        lines: a description of the conversion, to be printed once.
    """

    config: TrainConfig
    lines: tuple[str, ...]


class _Reader:
    """Removes keys from the blocks of a file; keys that remain are listed as ignored."""

    def __init__(self, blocks: Mapping[str, Any]) -> None:
        self.ignored: dict[str, list[str]] = {}  # Keys by reason.
        self._blocks = blocks

    def table(self, key: str, within: Any = None) -> dict[str, Any]:
        """Return a copy of a block, {} if it is missing. Raises: ConfigError: it is no table."""
        table = (self._blocks if within is None else within).get(key.rpartition(".")[2])
        if table is not None and not isinstance(table, dict):
            raise ConfigError(f"{key} is {format_value(table)}: must be a table of keys")
        return {str(name): value for name, value in (table or {}).items()}

    def ignore(self, key: str, reason: str) -> None:
        """Record a key that is ignored, with the reason."""
        keys = self.ignored.setdefault(reason, [])
        keys += [key] if key not in keys else []

    def rest(self, block: str, table: Mapping[str, Any], kind: str | None = None) -> None:
        """Record the keys that remain of a block. kind: the block's name in IGNORED."""
        for key, value in table.items():
            reason = IGNORED.get(f"{kind or block}.{key}", UNKNOWN)
            # A value that is off or empty would have no effect in WarpDrive either.
            if reason == UNKNOWN or value not in (None, "", False):
                self.ignore(f"{block}.{key}", reason)

    def lines(self) -> list[str]:
        """Return one line per reason."""
        return [f"ignored {', '.join(keys)}: {reason}" for reason, keys in self.ignored.items()]


def read(path: Path, named: str | None = None) -> Converted:
    """Return a WarpDrive run config as one of this trainer.

    Args:
        path: path of the YAML file.
        named: the env to train in; None: the one that the file's `name` means.

    Raises:
        ConfigError: the file cannot be used; the message names it and the error.
        MissingExtraError: PyYAML is not installed.
    """
    blocks = _load(path)
    try:
        return _convert(blocks, named, path.name)
    except ConfigError as error:
        raise ConfigError(f"--warpdrive {path}: {error}") from error


def _load(path: Path) -> dict[str, Any]:
    with required("--warpdrive"):
        import yaml

    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(f"more than {MOST_BYTES:,} bytes, so not a run config")
        text = data.decode("utf-8")
        _refuse_bombs(yaml, text)
        blocks = yaml.safe_load(text)
        check_integers(blocks)
    except OSError as error:
        raise ConfigError(f"--warpdrive {path}: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"--warpdrive {path}: {error}") from error
    except Exception as error:
        # PyYAML raises KeyError, IndexError and others if a value does not fit its tag.
        raise ConfigError(
            f"--warpdrive {path}: not YAML: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(blocks, dict):
        raise ConfigError(
            f"--warpdrive {path}: not a run config: give the blocks name, {', '.join(BLOCKS)}"
        )
    return {str(key): value for key, value in blocks.items()}


def _refuse_bombs(yaml: Any, text: str) -> None:
    """Raise ConfigError for a text from which PyYAML would build gigabytes of objects."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError("aliases (*NAME) are not read: write the values out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > MOST_DEPTH:
            raise ConfigError(f"nested more than {MOST_DEPTH} deep, so not a run config")


def _convert(blocks: dict[str, Any], named: str | None, file: str) -> Converted:
    reader = _Reader(blocks)
    env = reader.table("env")
    length = env.get("episode_length")
    config = _set_env(reader, _find_env(blocks.get("name"), named), env)
    trainer = {**TRAINER, **reader.table("trainer")}
    policies = _policies(reader, trainer)
    trained = [name for name, settings in policies.items() if settings["to_train"]]
    if not trained:
        raise ConfigError(
            "policy: none of the policies has to_train: true, so there is nothing to learn"
        )
    spec = target.env_spec(config)
    agents = _agents(spec, policies, trained)
    num_envs, episodes, batch = (_count(trainer.pop(key), f"trainer.{key}") for key in TRAINER)
    steps = _count(getattr(config.env, "episode_length", length), "env.episode_length") * episodes
    train: dict[str, Any] = {
        "horizon": max(1, batch // num_envs),
        "total_timesteps": steps * agents,
    }
    train |= {"seed": trainer.pop("seed")} if "seed" in trainer else {}
    train |= {"update_epochs": 1, "gae_lambda": 1.0, "anneal_lr": False, "scale_rewards": False}
    for settings in policies.values():
        for key in ("lr", "entropy_coef"):
            settings[key] = _in_agent_steps(settings[key], agents)
    first = policies[trained[0]]
    if algorithms.get(first["algorithm"]).section.usual_minibatches > 1:
        # WarpDrive uses the whole batch as one minibatch.
        train["minibatch_size"] = num_envs * spec.agents * train["horizon"]
    config = config.merged(_tables(policies, first, train, num_envs))
    reader.rest("trainer", trainer)
    for block in ("saving", "sampler"):
        reader.rest(block, reader.table(block))
    for key in blocks.keys() - {"name", *BLOCKS}:
        reader.ignore(key, UNKNOWN)
    first_line = (
        f"{file}: {config.target}, {steps:,} env-steps x {agents} agents that learn = "
        f"{steps * agents:,} agent-steps"
    )
    return Converted(config, (first_line, *reader.lines()))


def _find_env(name: Any, named: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return the env that the file or the user names, and the settings that the name implies."""
    envs = {env: puffervec.envs.get(env).training.warpdrive for env in puffervec.envs.names()}
    meant = {
        other: (env, settings) for env, others in envs.items() for other, settings in others.items()
    }
    if named is not None:
        return named, meant[name][1] if name in meant and meant[name][0] == named else {}
    if not isinstance(name, str) or name not in {**meant, **envs}:
        known = f"the names that mean an env here are {', '.join(sorted(meant))}"
        raise ConfigError(
            f"name is {format_value(name)}: {known}; for another: puffer-train ENV --warpdrive FILE"
        )
    return meant.get(name, (name, {}))


def _set_env(
    reader: _Reader, meant: tuple[str, Mapping[str, Any]], settings: dict[str, Any]
) -> TrainConfig:
    """Return the config of an env, with those of the file's settings that the env has."""
    config = TrainConfig.of(meant[0])
    known = (
        set(settings) if config.python else {field.name for field in dataclasses.fields(config.env)}
    )
    for key in settings.keys() - known:
        reader.ignore(f"env.{key}", UNKNOWN)
    return config.merged(
        {"env": {**meant[1], **{key: value for key, value in settings.items() if key in known}}}
    )


def _policies(reader: _Reader, trainer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of each policy under puffervec's names."""
    blocks = reader.table("policy")
    if not blocks:
        raise ConfigError("policy is missing or empty: give one block per policy")
    # Old files have the settings of all policies in the block trainer.
    common = {key: trainer.pop(key) for key in (*POLICY, "normalize_return") if key in trainer}
    return {
        name: _policy(reader, name, common | reader.table(f"policy.{name}", blocks))
        for name in blocks
    }


def _policy(reader: _Reader, name: str, block: dict[str, Any]) -> dict[str, Any]:
    where = f"policy.{name}"
    model = {
        **MODEL,
        "type": block.pop("name", MODEL["type"]),
        **reader.table(f"{where}.model", block),
    }
    block.pop("model", None)
    if (kind := model.pop("type")) != "fully_connected":
        reader.ignore(
            f"{where}.model.type",
            f"{format_value(kind)} is not known; --policy.kind chooses a network",
        )
    table = {**POLICY, **block}
    values = {key: table.pop(key) for key in POLICY}
    settings: dict[str, Any] = {
        "to_train": convert(values["to_train"], bool, f"{where}.to_train"),
        "algorithm": _algorithm(values["algorithm"], f"{where}.algorithm"),
        "hidden": [
            _count(width, f"{where}.model.fc_dims")
            for width in _widths(model.pop("fc_dims"), where)
        ],
        "normalize_advantage": convert(
            values["normalize_advantage"], bool, f"{where}.normalize_advantage"
        ),
        # WarpDrive's value loss is the mean square error, puffervec's is half of that.
        "value_coef": 2 * _number(values["vf_loss_coeff"], f"{where}.vf_loss_coeff"),
        "gamma": _number(values["gamma"], f"{where}.gamma"),
        "lr": _schedule(values["lr"], f"{where}.lr"),
        "entropy_coef": _schedule(values["entropy_coeff"], f"{where}.entropy_coeff"),
        "max_grad_norm": UNCLIPPED,
    }
    if convert(values["clip_grad_norm"], bool, f"{where}.clip_grad_norm"):
        settings["max_grad_norm"] = _number(values["max_grad_norm"], f"{where}.max_grad_norm")
    if "clip" in {
        field.name for field in dataclasses.fields(algorithms.get(settings["algorithm"]).section)
    }:
        settings["clip"] = _number(values["clip_param"], f"{where}.clip_param")
    reader.rest(where, table, "policy")
    reader.rest(f"{where}.model", model, "policy")
    return settings


def _agents(spec: EnvSpec, policies: Mapping[str, Any], trained: list[str]) -> int:
    """Return how many agents of an env learn.

    Raises:
        ConfigError: a policy's name is not a type of agent.
    """
    if len(policies) == 1:
        return spec.agents
    names = [name for group in spec.groups for name in group.agent_names]
    for policy in policies:
        if policy not in names:
            kinds = ", ".join(dict.fromkeys(names)) or "none"
            raise ConfigError(
                f"policy.{policy}: several policies must each be named like a type of agents, here "
                f"{kinds}"
            )
    return sum(names.count(name) for name in trained)


def _tables(
    policies: Mapping[str, dict[str, Any]],
    first: Mapping[str, Any],
    train: Mapping[str, Any],
    num_envs: int,
) -> dict[str, dict[str, Any]]:
    """Return the tables of puffervec's config.

    The settings of the first policy that learns apply to all; other policies store only their
    differences from it.
    """
    several = len(policies) > 1
    common = {key: value for key, value in first.items() if key not in ("to_train", "hidden")}
    own = {
        name: {key: settings[key] for key in settings if settings[key] != first.get(key)}
        for name, settings in policies.items()
    }
    return {
        "vec": {"num_envs": num_envs, **({"num_buffers": 1} if num_envs % 2 else {})},
        "train": {**train, **common},
        "policy": {
            "map": [f"{name}={name}" for name in policies] if several else [],
            "hidden": first["hidden"],
            "normalize": False,
        },
        "policies": {name: table for name, table in own.items() if several and table},
    }


def _algorithm(name: Any, key: str) -> str:
    if not isinstance(name, str) or name.lower() not in algorithms.names():
        known = [known.upper() for known in algorithms.names()]
        raise ConfigError(f"{key} is {format_value(name)}{suggest(str(name).upper(), known)}")
    return name.lower()


def _in_agent_steps(schedule: schedules.Schedule, agents: int) -> schedules.Schedule:
    """Convert a schedule from WarpDrive's env-steps to agent-steps."""
    return (
        tuple((step * agents, value) for step, value in schedule)
        if isinstance(schedule, tuple)
        else schedule
    )


def _schedule(value: Any, key: str) -> schedules.Schedule:
    if isinstance(value, str):
        value = from_text(value, schedules.Schedule)
    return schedules.convert(value, key)


def _number(value: Any, key: str) -> float:
    """Return a number, even if YAML reads it as text, such as 1e-3."""
    number = _schedule(value, key)
    if isinstance(number, tuple):
        raise ConfigError(f"{key} is {format_value(value)}: must be one number, not a schedule")
    return number


def _count(value: Any, key: str) -> int:
    count = int(convert(value, int, key))
    if count < 1:
        raise ConfigError(f"{key} is {count}: must be at least 1")
    return count


def _widths(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(
            f"{where}.model.fc_dims is {format_value(value)}: must be a list of widths"
        )
    return value
