# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Adapters for the signatures of envs' `reset`: with a seed and options, one of them, or neither.

Runs in workers, once per env. Gymnasium requires reset(seed=, options=); many envs written for
other libraries have fewer parameters. The signature is read only once, not at each reset.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from puffervec.errors import ConfigError

Reset = Callable[["int | None", Any], Any]

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_OPTIONAL = {"seed": False, "options": False}  # `reset` has both parameters, neither is required


def reset_of(env: Any) -> Reset:
    """Return a function (seed, options) that resets `env` with the arguments its `reset` accepts.

    None is passed on only if a value is required. A wrapper with **kwargs accepts what its inner
    env accepts. If `reset` has no seed, the seed is passed to `env.seed(seed)`, as in the old Gym
    interface, or dropped if there is no such method. A PufferEnv gets its seed by position.

    >>> import gymnasium
    >>> reset = reset_of(gymnasium.make("CartPole-v1"))
    >>> observation, info = reset(7, None)

    Returns:
        the function, which returns what `env.reset` returns. It raises ConfigError for options
        other than None if `reset` has no such parameter, and whatever the env raises.
    """
    from puffervec.workers.python.puffer_env import PufferEnv  # it imports this package

    if isinstance(env, PufferEnv) and (first := _first_by_position(env.reset)) is not None:
        return functools.partial(_reset_by_position, env, first.default is first.empty)
    takes = _keywords(env)
    if takes == _OPTIONAL:
        return functools.partial(_reset_with_both, env)
    seeder = None if "seed" in takes else _seed_method(env)
    return functools.partial(_reset_with_some, env, takes, seeder)


def _keywords(env: Any) -> dict[str, bool]:
    """Return which of "seed" and "options" the env's `reset` accepts by name.

    The values tell whether they are required.
    """
    try:
        parameters = inspect.signature(env.reset).parameters.values()
    # A C function without a signature: assume the one that Gymnasium requires.
    except (TypeError, ValueError):
        return _OPTIONAL
    named = (p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    takes = {p.name: p.default is p.empty for p in named if p.name in _OPTIONAL}
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        inner = getattr(env, "__dict__", {}).get("env")
        return {**(_keywords(inner) if hasattr(inner, "reset") else _OPTIONAL), **takes}
    return takes


def _seed_method(env: Any) -> Callable[[int], Any] | None:
    """Return the `seed` method of the old Gym interface, or None.

    It belongs to the outermost env, among `env` and those inside it, that has one.
    """
    while env is not None:
        found = getattr(env, "seed", None)
        if callable(found):
            return found  # type: ignore[no-any-return]
        env = getattr(env, "__dict__", {}).get("env")
    return None


def _first_by_position(reset: Callable[..., Any]) -> inspect.Parameter | None:
    parameters = inspect.signature(reset).parameters.values()
    return next((p for p in parameters if p.kind in _BY_POSITION), None)


# Unlike closures, partials of the functions below can be copied and pickled together with their
# env. The functions look `reset` up at each call, since it may be replaced.


def _reset_with_both(env: Any, seed: int | None, options: Any) -> Any:
    try:
        if options is None:
            return env.reset() if seed is None else env.reset(seed=seed)
        return env.reset(options=options) if seed is None else env.reset(seed=seed, options=options)
    except TypeError as error:
        _refuse_old(env, error)
        raise


def _refuse_old(env: Any, error: TypeError) -> None:
    """Raise if wrappers pass an env an argument that its `reset` does not accept.

    Gymnasium's wrappers always pass on both seed and options.
    """
    while hasattr(inner := getattr(env, "__dict__", {}).get("env"), "reset"):
        env = inner
    missing = [name for name in _OPTIONAL if name not in _keywords(env)]
    if missing and f"unexpected keyword argument '{missing[0]}'" in str(error):
        raise ConfigError(
            f"reset of {type(env).__name__} takes no {missing[0]}, as in the old Gym interface: "
            "write reset(self, *, seed=None, options=None), or wrap the env "
            "(shimmy.GymV21CompatibilityV0)"
        ) from error


def _reset_with_some(
    env: Any,
    takes: dict[str, bool],
    seeder: Callable[[int], Any] | None,
    seed: int | None,
    options: Any,
) -> Any:
    if options is not None and "options" not in takes:
        raise _no_options(env, options)
    if seeder is not None and seed is not None:
        seeder(seed)
    values = {"seed": seed, "options": options}
    return env.reset(
        **{
            name: values[name]
            for name, required in takes.items()
            if required or values[name] is not None
        }
    )


def _reset_by_position(env: Any, required: bool, seed: int | None, options: Any) -> Any:
    if options is not None:
        raise _no_options(env, options)
    return env.reset(seed) if required or seed is not None else env.reset()


def _no_options(env: Any, options: Any) -> ConfigError:
    name = type(env).__name__
    return ConfigError(
        f"options are {options!r}: the reset of {name} takes none; give its constructor settings, "
        "or add a parameter `options`"
    )
