# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""WarpDrive's run configs (YAML) as configs of this trainer: `puffer-train --warpdrive FILE`.
Imports no torch.

    name, env                 the env and its settings: envs say which names of WarpDrive mean them (Training.warpdrive)
    trainer                   num_envs; horizon = train_batch_size / num_envs; total_timesteps from num_episodes
    policy.NAME               one policy: all agents; several: [policies.NAME] for the agents of the type NAME
    saving, sampler           nothing here

A key that is missing has WarpDrive's default. What is left out is listed with the reason.
docs/from-warpdrive.md has the table.
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
from puffervec.train.config.flags import check_integers
from puffervec.train.config.sections import TrainConfig, convert, shown, suggest

MOST_BYTES = 1 << 16  # WarpDrive's own files have about 2,500.
MOST_DEPTH = 16
UNCLIPPED = 1e9  # max_grad_norm where gradients are not clipped.
BLOCKS = ("env", "trainer", "policy", "saving", "sampler")
TRAINER = {"num_envs": 10, "num_episodes": 10_000, "train_batch_size": 10_000}
POLICY: dict[str, Any] = {
    "to_train": False, "algorithm": "A2C", "vf_loss_coeff": 0.01, "entropy_coeff": 0.05, "clip_grad_norm": True,
    "max_grad_norm": 0.5, "normalize_advantage": False, "clip_param": 0.01, "gamma": 0.98, "lr": 1e-4,
}  # fmt: skip
MODEL: dict[str, Any] = {"type": "fully_connected", "fc_dims": [64, 64]}
SAVED = "run folders are made as --log.folder and --run-name say"
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
    "policy.normalize_return": "returns are not normalised; --train.scale-rewards is the nearest",
    "policy.model_ckpt_filepath": "WarpDrive's weights cannot be loaded",
    "policy.init_method": "weights begin as policy.kind has it",
}


@dataclasses.dataclass(frozen=True)
class Converted:
    """A WarpDrive file as a config. lines: what was made of it, to be shown once."""

    config: TrainConfig
    lines: tuple[str, ...]


class _Reader:
    """Takes keys out of the blocks of a file; what nobody takes is listed as ignored."""

    def __init__(self, blocks: Mapping[str, Any]) -> None:
        self.ignored: dict[str, list[str]] = {}  # Keys by reason.
        self._blocks = blocks

    def table(self, key: str, within: Any = None) -> dict[str, Any]:
        """Return a copy of a block, {} where it is missing. Raises: ConfigError where it is no
        table.
        """
        found = (self._blocks if within is None else within).get(key.rpartition(".")[2])
        if found is not None and not isinstance(found, dict):
            raise ConfigError(f"{key} is {shown(found)}: must be a table of keys")
        return {str(name): value for name, value in (found or {}).items()}

    def ignore(self, key: str, reason: str) -> None:
        """Note a key that is left out."""
        keys = self.ignored.setdefault(reason, [])
        keys += [key] if key not in keys else []

    def rest(self, block: str, table: Mapping[str, Any], kind: str | None = None) -> None:
        """Note the keys of a block that nobody has taken. kind: their block's name in IGNORED."""
        for key, value in table.items():
            reason = IGNORED.get(f"{kind or block}.{key}", UNKNOWN)
            if reason == UNKNOWN or value not in (
                None,
                "",
                False,
            ):  # Off or empty, it would mean nothing there either.
                self.ignore(f"{block}.{key}", reason)

    def lines(self) -> list[str]:
        """Return one line per reason."""
        return [f"ignored {', '.join(keys)}: {reason}" for reason, keys in self.ignored.items()]


def read(path: Path, named: str | None = None) -> Converted:
    """Return a WarpDrive run config as one of ours.

    Args: named: the env to train in; None: the one that the file's `name` means.
    Raises: ConfigError naming the file and what is wrong; MissingExtraError: PyYAML is not
        installed.
    """
    blocks = _load(path)
    try:
        return _converted(blocks, named, path.name)
    except ConfigError as error:
        raise ConfigError(f"--warpdrive {path}: {error}") from error


def _load(path: Path) -> dict[str, Any]:
    with required("--warpdrive"):
        import yaml

    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(f"more than {MOST_BYTES:,} bytes, so no run config")
        text = data.decode("utf-8")
        _refuse_bombs(yaml, text)
        found = yaml.safe_load(text)
        check_integers(found)
    except OSError as error:
        raise ConfigError(f"--warpdrive {path}: {error.strerror}") from error
    except ConfigError as error:
        raise ConfigError(f"--warpdrive {path}: {error}") from error
    except (
        Exception
    ) as error:  # PyYAML raises KeyError, IndexError and others where a value does not fit its tag.
        raise ConfigError(f"--warpdrive {path}: no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise ConfigError(
            f"--warpdrive {path}: no run config: give the blocks name, {', '.join(BLOCKS)}"
        )
    return {str(key): value for key, value in found.items()}


def _refuse_bombs(yaml: Any, text: str) -> None:
    """Raise ConfigError for what takes PyYAML gigabytes or minutes, before it is built."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError("aliases (*NAME) are not read: write the values out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > MOST_DEPTH:
            raise ConfigError(f"nested more than {MOST_DEPTH} deep, so no run config")


def _converted(blocks: dict[str, Any], named: str | None, file: str) -> Converted:
    reader = _Reader(blocks)
    env = reader.table("env")
    length = env.get("episode_length")
    config = _with_env(reader, _env_of(blocks.get("name"), named), env)
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
        train["minibatch_size"] = (
            num_envs * spec.agents * train["horizon"]
        )  # WarpDrive takes a batch as a whole.
    config = config.merged(_tables(policies, first, train, num_envs))
    reader.rest("trainer", trainer)
    for block in ("saving", "sampler"):
        reader.rest(block, reader.table(block))
    for key in blocks.keys() - {"name", *BLOCKS}:
        reader.ignore(key, UNKNOWN)
    made = (
        f"{file}: {config.target}, {steps:,} env-steps x {agents} agents that learn = "
        f"{steps * agents:,} agent-steps"
    )
    return Converted(config, (made, *reader.lines()))


def _env_of(name: Any, named: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return the env that a file's name means, or that was named, and the settings that the name
    implies.
    """
    envs = {env: puffervec.envs.get(env).training.warpdrive for env in puffervec.envs.names()}
    meant = {
        other: (env, settings) for env, others in envs.items() for other, settings in others.items()
    }
    if named is not None:
        return named, meant[name][1] if name in meant and meant[name][0] == named else {}
    if not isinstance(name, str) or name not in {**meant, **envs}:
        known = f"the names that mean an env here are {', '.join(sorted(meant))}"
        raise ConfigError(
            f"name is {shown(name)}: {known}; for another: puffer-train ENV --warpdrive FILE"
        )
    return meant.get(name, (name, {}))


def _with_env(
    reader: _Reader, meant: tuple[str, Mapping[str, Any]], given: dict[str, Any]
) -> TrainConfig:
    """Return the config of an env with the settings of the file that it has."""
    config = TrainConfig.of(meant[0])
    known = (
        set(given) if config.python else {field.name for field in dataclasses.fields(config.env)}
    )
    for key in given.keys() - known:
        reader.ignore(f"env.{key}", UNKNOWN)
    return config.merged(
        {"env": {**meant[1], **{key: value for key, value in given.items() if key in known}}}
    )


def _policies(reader: _Reader, trainer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of each policy in our names."""
    blocks = reader.table("policy")
    if not blocks:
        raise ConfigError("policy is missing or empty: give one block per policy")
    # Old files have settings of all policies under trainer.
    common = {key: trainer.pop(key) for key in (*POLICY, "normalize_return") if key in trainer}
    return {
        name: _policy(reader, name, common | reader.table(f"policy.{name}", blocks))
        for name in blocks
    }


def _policy(reader: _Reader, name: str, given: dict[str, Any]) -> dict[str, Any]:
    where = f"policy.{name}"
    model = {
        **MODEL,
        "type": given.pop("name", MODEL["type"]),
        **reader.table(f"{where}.model", given),
    }
    given.pop("model", None)
    if (kind := model.pop("type")) != "fully_connected":
        reader.ignore(
            f"{where}.model.type", f"{shown(kind)} is not known; --policy.kind chooses a network"
        )
    table = {**POLICY, **given}
    taken = {key: table.pop(key) for key in POLICY}
    settings: dict[str, Any] = {
        "to_train": convert(taken["to_train"], bool, f"{where}.to_train"),
        "algorithm": _algorithm(taken["algorithm"], f"{where}.algorithm"),
        "hidden": [
            _count(width, f"{where}.model.fc_dims")
            for width in _widths(model.pop("fc_dims"), where)
        ],
        "normalize_advantage": convert(
            taken["normalize_advantage"], bool, f"{where}.normalize_advantage"
        ),
        # WarpDrive's value loss is the mean square error, ours half of that.
        "value_coef": 2 * _number(taken["vf_loss_coeff"], f"{where}.vf_loss_coeff"),
        "gamma": _number(taken["gamma"], f"{where}.gamma"),
        "lr": _schedule(taken["lr"], f"{where}.lr"),
        "entropy_coef": _schedule(taken["entropy_coeff"], f"{where}.entropy_coeff"),
        "max_grad_norm": UNCLIPPED,
    }
    if convert(taken["clip_grad_norm"], bool, f"{where}.clip_grad_norm"):
        settings["max_grad_norm"] = _number(taken["max_grad_norm"], f"{where}.max_grad_norm")
    if "clip" in {
        field.name for field in dataclasses.fields(algorithms.get(settings["algorithm"]).section)
    }:
        settings["clip"] = _number(taken["clip_param"], f"{where}.clip_param")
    reader.rest(where, table, "policy")
    reader.rest(f"{where}.model", model, "policy")
    return settings


def _agents(spec: EnvSpec, policies: Mapping[str, Any], trained: list[str]) -> int:
    """Return how many agents of an env learn. Raises: ConfigError where a policy is of no type of
    agents.
    """
    if len(policies) == 1:
        return spec.agents
    names = [name for group in spec.groups for name in group.agent_names]
    for policy in policies:
        if policy not in names:
            kinds = ", ".join(dict.fromkeys(names)) or "none"
            raise ConfigError(
                f"policy.{policy}: where there are several, each is named like a type of agents, "
                f"here {kinds}"
            )
    return sum(names.count(name) for name in trained)


def _tables(
    policies: Mapping[str, dict[str, Any]],
    first: Mapping[str, Any],
    train: Mapping[str, Any],
    num_envs: int,
) -> dict[str, dict[str, Any]]:
    """Return our tables: what the first policy that learns has, is of all, and what others have
    else, their own.
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
        raise ConfigError(f"{key} is {shown(name)}{suggest(str(name).upper(), known)}")
    return name.lower()


def _in_agent_steps(schedule: schedules.Schedule, agents: int) -> schedules.Schedule:
    """WarpDrive's schedules count env-steps."""
    return (
        tuple((step * agents, value) for step, value in schedule)
        if isinstance(schedule, tuple)
        else schedule
    )


def _schedule(value: Any, key: str) -> schedules.Schedule:
    return (
        schedules.from_text(value, key)
        if isinstance(value, str)
        else schedules.converted(value, key)
    )


def _number(value: Any, key: str) -> float:
    """Return a number, also one that YAML takes for text, such as 1e-3."""
    found = _schedule(value, key)
    if isinstance(found, tuple):
        raise ConfigError(
            f"{key} is {shown(value)}: here it must be a number, the same all the time"
        )
    return found


def _count(value: Any, key: str) -> int:
    count = int(convert(value, int, key))
    if count < 1:
        raise ConfigError(f"{key} is {count}: must be at least 1")
    return count


def _widths(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}.model.fc_dims is {shown(value)}: must be a list of widths")
    return value
