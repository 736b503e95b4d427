# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The env that a run trains in: a C env, or a Python env by id, "module:factory" or function.

Imports no torch. All that the trainer needs to know before a worker starts is determined here, in
the learner: each refusal is a ConfigError.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import mmap
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import puffervec.envs
from puffervec.contract.evaluation import Evaluation
from puffervec.contract.native import NativeEnv, pack_params
from puffervec.contract.training import Training
from puffervec.core.spec import EnvSpec, GroupSpec
from puffervec.errors import ConfigError
from puffervec.workers.python.creators import creators, resolve, run_user_code

if TYPE_CHECKING:
    from puffervec.train.config.sections import TrainConfig

MOST_CHOICES = 65_536  # Logits of one policy.
# The preset of envs without their own preset, in C or in Python: many epochs with a large learning
# rate over short rollouts of many envs, scaled rewards and observations, and float32, since bf16
# would round 1,003 to 1,000. It is the best of the settings that bench/defaults.py compares: 0.93
# of the known best scores, against 0.78 with 16 envs x 128 steps, 6 epochs and half the learning
# rate.
GENERIC: dict[str, dict[str, Any]] = {
    "vec": {"num_envs": 64},
    "train": {
        "horizon": 32,
        "update_epochs": 10,
        "lr": 2e-3,
        "gamma": 0.99,
        "value_coef": 0.5,
        "entropy_coef": 0.005,
        "scale_rewards": True,
        "precision": "fp32",
        "total_timesteps": 1_000_000,
    },
    "policy": {"hidden": (64, 64)},
}


def native_env(target: str) -> NativeEnv | None:
    """Return the C env of that name, built-in or of an installed package.

    Returns None if `target` can only be a Python env.

    Raises: ConfigError: it is neither.
    """
    if ":" in target and not target.startswith(puffervec.envs.OCEAN):
        return None
    try:
        return puffervec.envs.get(target)
    except ConfigError as unknown:
        if target in puffervec.envs.names() or target.startswith(puffervec.envs.OCEAN):
            raise
        import gymnasium

        if "-v" in target or target in gymnasium.registry:
            return None
        raise ConfigError(
            f"{unknown}; or give a Gymnasium id (CartPole-v1) or module:factory"
        ) from None


def find(
    target: str | Callable[..., Any],
) -> tuple[str, NativeEnv | None, Callable[..., Any] | None]:
    """Find an env by its name or factory. This imports modules, but makes no env.

    Returns:
        Its full name; the C env, None for a Python env; and the factory of a Python env that cannot
        be imported by its name, else None.

    Raises:
        ConfigError: an unknown env.
    """
    if not isinstance(target, str):
        name = name_of(target)
        return name, None, None if leads_to(name, target) else target
    native = native_env(target)
    if native is None:
        maker(target)
        return target, None, None
    return puffervec.envs.full_name(target), native, None


def trained_policy(name: str) -> Path | None:
    """Return the checkpoint of a trained policy that comes with an env; None if there is none.

    >>> trained_policy("no such policy")
    """
    for env in puffervec.envs.names():
        # A package that cannot be loaded is reported when its env is asked for.
        with contextlib.suppress(ConfigError):
            folder = puffervec.envs.get(env).trained_policies.get(name)
            if folder is not None and folder.is_dir():
                return folder
    return None


def training_of(target: str) -> Training:
    """Return the training defaults of an env; those of a Python env are empty.

    Raises: ConfigError: `target` is not an env.
    """
    native = native_env(target)
    return Training() if native is None else native.training


def own_evaluation(target: str) -> Evaluation | None:
    """Return the evaluation of a C env; None if it has none, and for all other envs.

    Raises: ConfigError: see `NativeEnv.own_evaluation`.
    """
    native = native_env(target)
    return None if native is None else native.own_evaluation()


def evaluation_config(config: TrainConfig) -> TrainConfig:
    """Return a run's config with the settings that its env changes for evaluation.

    For instance, `drive` changes to its held-out scenes.
    """
    own = own_evaluation(config.target)
    return (
        config
        if own is None or own.settings is None
        else dataclasses.replace(config, env=own.settings(config.env))
    )


def maker(target: str, creator: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return the callable that makes the Python env `target`; a name is imported.

    Raises: ConfigError: the module, function or id does not exist.
    """
    if creator is not None:
        return creator
    module, _, name = target.partition(":")
    if module == "__main__" or "<" in name or "." in name:
        raise ConfigError(
            f"{target} is a function that cannot be imported by name: pass it in Python, as "
            "TrainConfig.of(THE FUNCTION)"
        )
    return run_user_code(target, "cannot be imported", lambda: resolve(target))


def name_of(creator: Callable[..., Any]) -> str:
    """Return "module:function" for a callable; `maker` accepts it if the name can be imported.

    >>> name_of(native_env)
    'puffervec.train.config.target:native_env'
    """
    named = creator if hasattr(creator, "__qualname__") else type(creator)
    return f"{named.__module__}:{named.__qualname__}"


def leads_to(name: str, creator: Callable[..., Any]) -> bool:
    """Return whether a process that imports `name` ("module:function") finds `creator` there."""
    module, _, attribute = name.partition(":")
    return module != "__main__" and getattr(sys.modules.get(module), attribute, None) is creator


def env_spec(config: TrainConfig) -> EnvSpec:
    """Return the env's description of its rows, without starting a worker.

    A Python env is made once, here, and closed.

    Raises:
        ConfigError, SceneError: the env refuses its settings or data, cannot be made, or has spaces
            that the policies of this package do not support.
    """
    native = native_env(config.target) if config.creator is None else None
    if native is None:
        return _python_spec(config)
    built = native.build(config.env)
    blobs = native.pack(config.env), pack_params(built.params)
    if built.data is None:
        return _check_spec(native, config.env, native.describe(*blobs, None, "next_step")[1])
    with built.data.open("rb") as file:
        # The mapping is freed with the last reference to it.
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return _check_spec(native, config.env, native.describe(*blobs, data, "next_step")[1])


def _check_spec(native: NativeEnv, settings: Any, spec: EnvSpec) -> EnvSpec:
    """Return `spec` with the agents' names.

    Raises: ConfigError: fields of a C env's rows cannot be addressed as tensors.
    """
    types = () if native.row_types is None else native.row_types(settings)
    names, groups = iter([native.agent_types[kind] for kind in types]), []
    for group in spec.groups:
        groups.append(
            dataclasses.replace(group, agent_names=tuple(itertools.islice(names, group.agents)))
        )
        widest = max(field.dtype.itemsize for field in group.fields)
        if group.flat_dtype is None and group.observation_bytes % widest:
            raise ConfigError(
                f"{native.name}: a row of {group.name} has {group.observation_bytes} bytes, which "
                f"is not a multiple of {widest}, the size of its widest numbers: pad it in "
                f"describe, with group->observation_bytes = pv_align_up(..., {widest})"
            )
    return dataclasses.replace(spec, groups=tuple(groups))


def _python_spec(config: TrainConfig) -> EnvSpec:
    from puffervec.workers.python.env import PUFFER, PythonEnv

    makers = creators(maker(config.target, config.creator), None, config.env, 1)
    env = run_user_code(
        config.target, "cannot be made", lambda: PythonEnv(makers, "next_step", config.train.seed)
    )
    try:
        if env.source.kind == PUFFER:
            raise ConfigError(
                f"{config.target} makes a PufferEnv, which resets itself and so loses its last "
                "observations: give a gymnasium.Env or a PettingZoo ParallelEnv"
            )
        spec: EnvSpec = env.describe(b"", b"", None, "next_step")[1]
        check_spaces(config.target, spec.groups[0])
    finally:
        env.close()
    return spec


def check_spaces(target: str, group: GroupSpec) -> None:
    """Raise ConfigError unless the policies of this package fit the spaces of a Python env."""
    observation, action = group.observation_plan, group.action_plan
    assert observation is not None and action is not None
    if observation.row_bytes == 0:
        raise ConfigError(
            f"{target}: the observation space {observation.space} is empty: a policy needs at "
            "least one number"
        )
    space = f"{target}: the action space {action.space}"
    if action.kind == "bytes":
        raise ConfigError(
            f"{space} mixes Boxes with other spaces or dtypes: a policy needs all choices, or all "
            "floats"
        )
    if action.kind == "continuous" and action.row_dtype.kind != "f":
        raise ConfigError(
            f"{space} is a Box of {action.row_dtype}: use a Box of float32, or Discrete or "
            "MultiDiscrete"
        )
    if action.row_bytes == 0:
        raise ConfigError(f"{space} is empty: a policy needs at least one action to choose")
    if sum(action.sizes) > MOST_CHOICES:
        raise ConfigError(
            f"{space} has {sum(action.sizes):,} choices: a policy can learn at most "
            f"{MOST_CHOICES:,}"
        )
