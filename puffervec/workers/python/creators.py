# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Conversion of the argument of `make` into callables that make one env each.

Used by the learner and by workers.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from puffervec.errors import ConfigError, PuffervecError

Result = TypeVar("Result")

# Packages by the namespace of their Gymnasium ids, if it differs from the package's name.
PACKAGES = {"ALE": "ale_py"}


@dataclass(frozen=True)
class Creator:
    """A callable that makes one env: `function(*args, **kwargs)`.

    It passes `buf` and `seed` if the function has parameters of these names (PufferLib's
    convention).

    Attributes:
        always: whether to pass both, even if they are None, to a function with **kwargs, as
            PufferLib does. A vector env of such creators also shows absent agents as terminal.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    always: bool = False

    def make(self, seed: int | None = None, buf: Any = None) -> Any:
        """Return a new env.

        Args:
            seed: the seed to pass, or None.
            buf: rows for a PufferEnv to write into; None lets it make its own.
        """
        kwargs = dict(self.kwargs or {})
        named, takes_any = _free_parameters(self.function, len(self.args))
        for name, value in (("buf", buf), ("seed", seed)):
            if name not in kwargs and (
                (value is not None and name in named) or (self.always and takes_any(name))
            ):
                kwargs[name] = value
        return self.function(*self.args, **kwargs)


def _free_parameters(
    function: Callable[..., Any], taken: int
) -> tuple[set[str], Callable[[str], bool]]:
    """Return the parameters that can be passed by name after `taken` positional arguments.

    Returns:
        the parameters' names, and a function that says whether a name other than these may be
        passed.
    """
    try:
        every = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return set(), lambda name: False
    parameters, open_ended = every[taken:], any(p.kind is p.VAR_KEYWORD for p in every)
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    spoken_for = {p.name for p in every}
    if isinstance(function, type) and open_ended:
        # The class may pass **kwargs on to a base class that has parameters of these names.
        for base in function.__mro__[1:]:
            if base is not object and "__init__" in vars(base):
                named |= set(inspect.signature(vars(base)["__init__"]).parameters)
    if isinstance(function, functools.partial):
        named -= set(function.keywords)
        spoken_for |= set(function.keywords)
    return named, lambda name: open_ended and name not in spoken_for


@dataclass(frozen=True)
class GymnasiumMaker:
    """A callable that makes a registered Gymnasium env.

    Attributes:
        spec: the env's EnvSpec, for workers that lack the learner's registrations.
    """

    spec: Any

    def __call__(self, **kwargs: Any) -> Any:
        import gymnasium

        return gymnasium.make(self.spec, **kwargs)

    def __repr__(self) -> str:
        return repr(self.spec.id)


def creators(given: Any, env_args: Any, env_kwargs: Any, num_envs: int) -> list[Creator]:
    """Return one creator per env.

    Args:
        given: a callable, a Gymnasium id, "module:factory", a Creator (its function gets the
            arguments given here), or a sequence of num_envs of these.
        env_args: positional arguments for all envs; if `given` is a sequence, also a sequence with
            one entry per env.
        env_kwargs: keyword arguments, in the same forms.
        num_envs: number of envs.

    Raises:
        ConfigError: `given` does not make envs, or a sequence has another length.
    """
    if isinstance(given, (list, tuple)):
        if len(given) != num_envs:
            raise ConfigError(
                f"the list of env creators has length {len(given)} for num_envs={num_envs}: give "
                "one per env, or a single one without a list"
            )
        args = _one_each("env_args", env_args, num_envs, (list, tuple))
        kwargs = _one_each("env_kwargs", env_kwargs, num_envs, (Mapping,))
        return [_creator(given[i], args[i], kwargs[i]) for i in range(num_envs)]
    return [_creator(given, env_args, env_kwargs)] * num_envs


def _one_each(name: str, given: Any, count: int, kinds: tuple[type, ...]) -> list[Any]:
    """Return a list with one entry per env.

    `given` is one value for all, None, or a sequence of values of these kinds.
    """
    if (
        isinstance(given, Sequence)
        and len(given)
        and all(isinstance(entry, kinds) for entry in given)
    ):
        if len(given) != count:
            raise ConfigError(
                f"{name} has {len(given)} entries for {count} env creators: give one per env, or "
                "the same for all"
            )
        return list(given)
    return [given] * count


def _creator(given: Any, args: Any, kwargs: Any) -> Creator:
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise ConfigError(f"env_kwargs is {kwargs!r}: give a mapping of keyword arguments")
    if args is not None and not isinstance(args, (list, tuple)):
        raise ConfigError(f"env_args is {args!r}: give a list of positional arguments")
    always = isinstance(given, Creator) and given.always
    if isinstance(given, Creator):
        given = given.function
    function = resolve(given) if isinstance(given, str) else given
    if not callable(function):
        raise ConfigError(
            f"env creator {given!r} is {type(given).__name__}: give a callable that makes one "
            "env, or an env's name"
        )
    return Creator(function, tuple(args or ()), dict(kwargs or {}), always)


def resolve(name: str) -> Callable[..., Any]:
    """Return a callable that makes the env named "module:factory" or by a Gymnasium id.

    Raises:
        ConfigError: the name is neither; the message says what was tried.
    """
    module, _, attribute = name.partition(":")
    if attribute and attribute.isidentifier():
        found: Callable[..., Any] = named(name)
        if not callable(found):
            raise ConfigError(
                f"{name!r} is {type(found).__name__}: give a callable that makes one env"
            )
        return found
    import gymnasium

    try:
        if attribute:  # Gymnasium's own "module:id": importing the module registers the id
            _import(module)
        spec = gymnasium.spec(attribute or name)
    except gymnasium.error.NamespaceNotFound as error:
        package = PACKAGES.get(name.partition("/")[0], "PACKAGE")
        raise ConfigError(
            f"no env is called {name!r}: {error} A package registers its envs when it is "
            f"imported: give {package}:{name}"
        ) from None
    except (gymnasium.error.Error, ImportError) as error:
        raise ConfigError(f"no env is called {name!r}: {error}") from None
    return GymnasiumMaker(spec)


def load(name: str, described_as: str = "") -> Any:
    """Return the object that "module:attribute" names.

    Args:
        name: the name.
        described_as: what messages call the object; the name if empty.

    Raises:
        ConfigError: the object does not exist, or importing the module fails in any way.
    """
    return run_user_code(described_as or name, "cannot be imported", lambda: named(name))


def run_user_code(target: str, what: str, work: Callable[[], Result]) -> Result:
    """Run a user's code. Any exception becomes a ConfigError with its message."""
    try:
        return work()
    except PuffervecError:
        raise
    except Exception as error:
        raise ConfigError(f"{target} {what}: {type(error).__name__}: {error}") from error


def _import(module: str) -> Any:
    if os.getcwd() not in sys.path:
        # A console script and its workers do not search the current folder.
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(module)


def named(name: str) -> Any:
    """Return the object that "module:attribute" names.

    Raises:
        ConfigError: the object does not exist. Errors of the module itself are passed on.
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(_import(module), attribute)
    except ModuleNotFoundError as error:
        if module.endswith(".py"):
            right = f"{module.removesuffix('.py').replace('/', '.')}:{attribute}"
            raise ConfigError(f"{name!r}: a module is named without .py: give {right}") from None
        raise ConfigError(
            f"{name!r}: {error}: give module:factory with a module that can be imported from here"
        ) from None
    except AttributeError:
        raise ConfigError(f"{name!r}: module {module!r} has no {attribute!r}") from None
