# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checks the arguments of Gymnasium's vector envs: env functions, mode, seeds, options, spaces.

Error types, and the messages that scripts may match, are those of Gymnasium. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Env, Space, Wrapper
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_differing_spaces, batch_space
from gymnasium.wrappers import OrderEnforcing
from numpy.typing import NDArray

from puffervec.errors import CallOrderError, ConfigError
from puffervec.vec.settings import MOST_SEED

# Gymnasium's modes, with their names in `puffervec.make`.
AUTORESET = {
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.DISABLED: "disabled",
}


class DoneEnvError(CallOrderError, AssertionError):
    """An env was stepped although it is done and autoreset is disabled.

    Gymnasium raises an AssertionError in this case, so this is one too.
    """


def needs_reset(env: Any, *wrappers: type[Any]) -> bool:
    """Return whether `env` refuses steps before its first reset.

    It does if it is wrapped in OrderEnforcing or one of `wrappers`. Other Python envs allow them.
    """
    if not isinstance(env, Env):
        return True
    while isinstance(env, Wrapper):
        if isinstance(env, (OrderEnforcing, *wrappers)):
            return True
        env = env.env
    return False


def autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    """Return the AutoresetMode, given as a member or a value ("NextStep", "SameStep", "Disabled").

    Raises:
        ValueError: `mode` is neither.
    """
    return mode if isinstance(mode, AutoresetMode) else AutoresetMode(mode)


def env_fns(functions: Any) -> list[Callable[[], Any]]:
    """Return the functions that make envs, one per env, as a list.

    Raises:
        TypeError: `functions` is not a sequence of functions.
        ValueError: the sequence is empty.
    """
    if not isinstance(functions, Iterable) or isinstance(functions, (str, Env)):
        raise TypeError(
            f"env_fns is {functions!r}: must be a list of functions that make an env, such as "
            "[make_env] * 4"
        )
    makers: list[Callable[[], Any]] = list(functions)
    if not makers:
        raise ValueError("env_fns is empty: it needs at least one function that makes an env")
    for index, function in enumerate(makers):
        if not callable(function):
            instead = (
                "an env: use the function that makes it"
                if isinstance(function, Env)
                else "must be a function"
            )
            raise TypeError(
                f"env_fns[{index}] is {function!r}: {instead}, such as lambda: "
                "gymnasium.make('CartPole-v1')"
            )
    return makers


def env_seeds(seed: Any, num_envs: int) -> list[int | None]:
    """Return one seed per env: for env i, seed + i, or the i-th entry of a sequence, or None.

    Raises:
        ValueError: a sequence of another length, or seeds that do not fit into 63 bits.
        TypeError: neither a whole number nor a sequence of them.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        _check_seed(seed, seed, num_envs)
        return [int(seed) + i for i in range(num_envs)]
    sequence = seed.ndim > 0 if isinstance(seed, np.ndarray) else isinstance(seed, Sequence)
    if not sequence or isinstance(seed, (str, bytes)):
        raise TypeError(
            f"seed is {seed!r}: must be a whole number, a sequence with one per env, or None"
        )
    if len(seed) != num_envs:
        raise ValueError(
            f"If seeds are passed as a list the length must match num_envs={num_envs} but got "
            f"length={len(seed)}."
        )
    for index, entry in enumerate(seed):
        if entry is not None:
            _check_seed(entry, seed, 1, f"seed[{index}]")
    return [None if entry is None else int(entry) for entry in seed]


def _check_seed(entry: Any, seed: Any, envs: int, name: str = "seed") -> None:
    """Raise unless `entry` is a whole number that fits, as do those for the `envs` after it."""
    if not isinstance(entry, (int, np.integer)):
        raise TypeError(
            f"{name} is {entry!r} (of {seed!r}): must be a whole number, or None for envs that "
            "keep their seed"
        )
    if not 0 <= int(entry) <= MOST_SEED - envs + 1:
        raise ConfigError(f"{name} is {entry}: seeds of envs have 63 bits, use 0 to 2**63 - {envs}")


def split_options(
    options: Mapping[str, Any] | None, num_envs: int
) -> tuple[NDArray[np.bool_] | None, dict[str, Any] | None]:
    """Return (reset mask or None, the options for the envs or None); the dict is not changed.

    Raises:
        TypeError: `options` is not a dict, or the mask is not a boolean array.
        ValueError: the mask does not have shape (num_envs,), or has no True entry.
    """
    if options is None:
        return None, None
    if not isinstance(options, Mapping):
        raise TypeError(f"options is {options!r}: must be a dict, or None")
    rest = {key: value for key, value in options.items() if key != "reset_mask"}
    if "reset_mask" not in options:
        return None, rest
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ValueError(
            f"`options['reset_mask']` must have shape `({num_envs},)`, got {mask.shape}"
        )
    if mask.dtype != np.bool_:
        raise TypeError(f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise ValueError(
            "`options['reset_mask']` must contain a boolean array with at least one True value, "
            f"got reset_mask={mask}"
        )
    return mask, rest


def check_options(options: Any, known: Collection[str], env: str) -> None:
    """Raise ConfigError if `options` has a key that the C env's reset does not know."""
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise ConfigError(f"options is {options!r}: must be a dict, or None")
    unknown = [key for key in options if key not in known]
    if unknown:
        raise ConfigError(
            f"options have {unknown[0]!r}, which {env!r} does not know: use "
            f"{' and '.join(map(repr, known))}"
        )


def observation_spaces(
    observation_mode: Any, spaces: Sequence[Space[Any]]
) -> tuple[Space[Any], Space[Any]]:
    """Return (batched space, single space).

    Args:
        observation_mode: "same", "different", or a pair (batched space, single space).
        spaces: the observation spaces of all sub-envs, in order.

    Raises:
        ValueError: the mode is unknown.
        TypeError: the pair does not consist of spaces.
        RuntimeError: the spaces cannot be batched.
    """
    if isinstance(observation_mode, tuple) and len(observation_mode) == 2:
        if not all(isinstance(space, Space) for space in observation_mode):
            kinds = " and ".join(str(type(space)) for space in observation_mode)
            raise TypeError(f"Expected both elements of observation_mode to be Spaces, got {kinds}")
        batched, single = observation_mode
        return batched, single
    if observation_mode == "same":
        return batch_space(spaces[0], len(spaces)), spaces[0]
    if observation_mode == "different":
        try:
            return batch_differing_spaces(spaces), spaces[0]
        except (AssertionError, TypeError, ValueError) as error:
            raise RuntimeError(
                f"observation_mode='different': the observation spaces cannot be batched: {error}"
            ) from error
    raise ValueError(
        "Invalid `observation_mode`, expected: 'same' or 'different' or tuple of single and "
        f"batch observation space, actual got {observation_mode}"
    )


def check_spaces(
    name: str, observation_mode: Any, single: Space[Any], spaces: Sequence[Space[Any]]
) -> None:
    """Raise RuntimeError unless every observation space fits `single`.

    In mode "same" they must be equal to it, otherwise have its shape and dtype.
    """
    for index, space in enumerate(spaces):
        if observation_mode == "same":
            if space != single:
                raise RuntimeError(
                    f"{name}(..., observation_mode='same') however the sub-environments "
                    f"observation spaces are not equivalent. Env 0 has {single}, env {index} has "
                    f"{space}. If this is intentional, use `observation_mode='different'` instead."
                )
        elif not _equivalent(space, single):
            raise RuntimeError(
                f"{name}(..., observation_mode='different' or custom space): shape and dtype of "
                f"the observation space of env {index}, {space}, differ from {single}"
            )


def check_action_spaces(spaces: Sequence[Space[Any]]) -> None:
    """Raise RuntimeError unless all action spaces are equal."""
    for index, space in enumerate(spaces):
        if space != spaces[0]:
            raise RuntimeError(
                f"the action spaces of the sub-environments differ: env 0 has {spaces[0]}, env "
                f"{index} has {space}. Actions can only be batched for equal spaces."
            )


def _equivalent(space: Space[Any], single: Space[Any]) -> bool:
    try:
        return bool(is_space_dtype_shape_equiv(space, single))
    except NotImplementedError:  # A user's own kind of space.
        return space == single
