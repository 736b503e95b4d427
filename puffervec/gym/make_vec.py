# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffervec.make_vec`, with the signature of gymnasium.make_vec, and Gymnasium ids of the C envs.

    gymnasium.make("puffervec.gym:puffervec/CartPole-v1")      `make_vec` takes the same ids

Gymnasium imports the module before the colon, which registers the ids (puffervec/gym/__init__.py).
Since version 1.0 Gymnasium no longer searches installed packages, so a plain id needs `import
puffervec.gym` first. Env NAME of an installed package has the id `puffervec/NAME-v0`. Runs in the
learner.
"""

from __future__ import annotations

import copy
import functools
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium import VectorizeMode, logger
from gymnasium.envs.registration import (
    EnvSpec,
    find_highest_version,
    get_env_id,
    load_env_creator,
    parse_env_id,
)
from gymnasium.vector import AutoresetMode, VectorEnv

from puffervec.envs import names
from puffervec.errors import ConfigError
from puffervec.gym.asynchronous import AsyncVectorEnv
from puffervec.gym.sync import SyncVectorEnv

NAMESPACE = "puffervec"
SINGLE = "puffervec.gym.single:NativeEnvView"
PLAIN = "puffervec.gym.native:NativeVectorEnv"
FLATTENED = "puffervec.gym.native:flattened"

# Id without its namespace: (name of the C env, vector entry point).
REGISTERED = {
    "TagGridWorld-v0": ("tag_grid", FLATTENED),
    "TagContinuous-v0": ("tag_continuous", FLATTENED),
    "Drive-v0": ("drive", FLATTENED),
    "CartPole-v1": ("cartpole", PLAIN),
    "Probe-v0": ("probe", PLAIN),
}


def ids() -> dict[str, tuple[str, str]]:
    """Return REGISTERED and the same for the envs of installed packages, without loading any."""
    built_in = {env for env, _ in REGISTERED.values()}
    # FLATTENED shows the rows of several agents as envs; with one agent it is the plain vector env.
    # Gymnasium's ids allow only these characters.
    others = [name for name in names() if name not in built_in and re.fullmatch(r"[\w-]+", name)]
    return {**REGISTERED, **{f"{name}-v0": (name, FLATTENED) for name in others}}


def id_of(env: str) -> str | None:
    """Return the Gymnasium id of the C env of this name, or None if it has none."""
    return next((f"{NAMESPACE}/{id}" for id, (name, _) in ids().items() if name == env), None)


def register_envs() -> None:
    """Register the C envs with Gymnasium, except those that are registered already."""
    for name, (env, vector_entry_point) in ids().items():
        id = f"{NAMESPACE}/{name}"
        if id not in gymnasium.registry:
            gymnasium.register(
                id, entry_point=SINGLE, vector_entry_point=vector_entry_point, kwargs={"env": env}
            )


Wrapper = Callable[[gymnasium.Env[Any, Any]], gymnasium.Env[Any, Any]]


def make_vec(
    id: str | EnvSpec,
    num_envs: int = 1,
    vectorization_mode: VectorizeMode | str | None = None,
    vector_kwargs: dict[str, Any] | None = None,
    wrappers: Sequence[Wrapper] | None = None,
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any]:
    """Make a vector env of a registered env.

    Args:
        id: a Gymnasium id ("CartPole-v1", "module:Env-v0"), the name of a C env ("tag_grid", or
            your own), or an EnvSpec, such as `spec` of an env that this function returned.
        num_envs: copies of the env.
        vectorization_mode: "async": worker processes; "sync": all in this process;
            "vector_entry_point": the env's own vector env. None: "vector_entry_point" for ids in
            the namespace "puffervec", which are C envs, otherwise "async".
        vector_kwargs: arguments for `AsyncVectorEnv` or `SyncVectorEnv`.
        wrappers: functions that wrap each sub-env, innermost first.
        kwargs: arguments for the env.

    Returns: a gymnasium.vector.VectorEnv, to be closed by `close`.

    Raises:
        gymnasium.error.Error: the id is unknown, or the mode cannot use the arguments.
        ValueError: the mode is unknown.
    """
    spec = copy.deepcopy(id) if isinstance(id, EnvSpec) else copy.deepcopy(_find(id))
    env_kwargs, spec.kwargs = {**spec.kwargs}, {}
    # Values in an EnvSpec of an earlier call take precedence over arguments, as in Gymnasium.
    num_envs = env_kwargs.pop("num_envs", num_envs)
    mode = _mode(spec, env_kwargs.pop("vectorization_mode", vectorization_mode))
    vector_kwargs = dict(env_kwargs.pop("vector_kwargs", vector_kwargs) or {})
    wrappers = tuple(env_kwargs.pop("wrappers", wrappers) or ())
    env_kwargs.update(kwargs)
    if mode is VectorizeMode.VECTOR_ENTRY_POINT:
        envs = _from_entry_point(spec, num_envs, vector_kwargs, wrappers, env_kwargs)
    else:
        if spec.entry_point is None:
            raise gymnasium.error.Error(
                f"{spec.id} has no entry point for one env: use mode 'vector_entry_point'"
            )
        env_fns = [functools.partial(make_one, spec, env_kwargs, wrappers)] * num_envs
        envs = (SyncVectorEnv if mode is VectorizeMode.SYNC else AsyncVectorEnv)(
            env_fns, **vector_kwargs
        )
    envs.unwrapped.spec = _spec_of(spec, num_envs, mode, vector_kwargs, wrappers, env_kwargs)
    _check_metadata(envs)
    return envs


def _find(id: str) -> EnvSpec:
    """Import the module that an id names; return the id's spec (by default the newest version)."""
    if not isinstance(id, str):
        raise ConfigError(f"id is {id!r}: must be a text such as 'CartPole-v1', or an EnvSpec")
    module, _, name = id.rpartition(":")
    register_envs()
    if module:
        importlib.import_module(module)
    elif (native := id_of(name)) is not None:
        return gymnasium.spec(native)
    namespace, plain, version = parse_env_id(name)
    if version is None:
        name = get_env_id(namespace, plain, find_highest_version(namespace, plain))
    return gymnasium.spec(name)


def _mode(spec: EnvSpec, mode: VectorizeMode | str | None) -> VectorizeMode:
    if mode is None:
        own = spec.vector_entry_point is not None and (
            spec.namespace == NAMESPACE or spec.entry_point is None
        )
        return VectorizeMode.VECTOR_ENTRY_POINT if own else VectorizeMode.ASYNC
    try:
        return VectorizeMode(mode)
    except ValueError:
        known = [member.value for member in VectorizeMode]
        raise ValueError(f"Invalid vectorization mode: {mode!r}, valid modes: {known}") from None


def make_one(
    spec: EnvSpec, kwargs: Mapping[str, Any], wrappers: Sequence[Wrapper]
) -> gymnasium.Env[Any, Any]:
    """Make one sub-env. Runs in the process that will step it."""
    env = gymnasium.make(spec, **copy.deepcopy(dict(kwargs)))
    for wrapper in wrappers:
        env = wrapper(env)
    return env


def _from_entry_point(
    spec: EnvSpec,
    num_envs: int,
    vector_kwargs: dict[str, Any],
    wrappers: Sequence[Wrapper],
    env_kwargs: dict[str, Any],
) -> VectorEnv[Any, Any, Any]:
    unusable = {
        "vector_kwargs": vector_kwargs,
        "wrappers": wrappers,
        "additional_wrappers": spec.additional_wrappers,
    }
    for name, value in unusable.items():
        if value:
            raise gymnasium.error.Error(
                f"{name} is {value!r}, which the mode 'vector_entry_point' cannot use: leave it out"
            )
    entry_point = spec.vector_entry_point
    if entry_point is None:
        raise gymnasium.error.Error(
            f"{spec.id} has no vector entry point: use vectorization_mode='async' or 'sync'"
        )
    creator = entry_point if callable(entry_point) else load_env_creator(entry_point)
    if spec.max_episode_steps is not None:
        env_kwargs.setdefault("max_episode_steps", spec.max_episode_steps)
    envs = creator(num_envs=num_envs, **env_kwargs)
    assert isinstance(envs, VectorEnv), f"the vector entry point of {spec.id} made {type(envs)}"
    return envs


def _check_metadata(envs: VectorEnv[Any, Any, Any]) -> None:
    """Warn if a user's vector env has no autoreset mode, which Gymnasium's wrappers need."""
    mode = envs.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        logger.warn(
            f"The VectorEnv ({envs}) is missing AutoresetMode metadata: "
            f"metadata['autoreset_mode'] is {mode!r}: set it to a member of "
            "gymnasium.vector.AutoresetMode"
        )


def _spec_of(
    spec: EnvSpec,
    num_envs: int,
    mode: VectorizeMode,
    vector_kwargs: dict[str, Any],
    wrappers: Sequence[Wrapper],
    env_kwargs: dict[str, Any],
) -> EnvSpec:
    """Return a spec from which `make_vec` makes the same vector env again."""
    result = copy.deepcopy(spec)
    result.kwargs = {**env_kwargs, "vectorization_mode": mode.value}
    extra = {
        "num_envs": (num_envs, 1),
        "vector_kwargs": (vector_kwargs, {}),
        "wrappers": (wrappers, ()),
    }
    result.kwargs.update(
        {name: value for name, (value, default) in extra.items() if value != default}
    )
    return result
