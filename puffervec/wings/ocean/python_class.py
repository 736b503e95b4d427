# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads from the Python class of a PufferLib 3.0 env what only the class has: spaces and settings.

The class is instantiated for one env, with a binding that records its arguments: the arrays of the
rows, and the arguments of the env's init, which may be computed from the settings. A step of the
class with this binding shows what it does to actions and rows.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from puffervec.errors import ConfigError

# Arguments of the classes that are not settings of the env.
NOT_SETTINGS = frozenset(("num_envs", "buf", "seed", "render_mode"))


class Shared:
    """The result of `binding.shared`: a placeholder for the result of the env's my_shared."""


@dataclass
class Binding:
    """A binding that records instead of calling C.

    Attributes:
        arrays: observations, actions, rewards, terminals and truncations of the first env, and the
            other positional arguments of the env's init.
        kwargs: the keyword arguments of the env's init.
        shared_kwargs: the arguments of `shared`, or None if it was not called.
    """

    arrays: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    shared_kwargs: dict[str, Any] | None = None

    def vec_init(self, *arguments: Any, **kwargs: Any) -> object:
        """Record the rows and settings of envs with one agent each."""
        return self._record(arguments, kwargs)

    env_init = vec_init

    def _record(self, arrays: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        if not self.arrays:
            self.arrays, self.kwargs = arrays, kwargs
        return self

    def shared(self, *_: Any, **kwargs: Any) -> Shared:
        """Record the arguments of the shared data."""
        self.shared_kwargs = kwargs
        return Shared()

    def vectorize(self, *_: Any) -> object:
        """Return a handle."""
        return self

    def vec_reset(self, *_: Any) -> None:
        """Do nothing."""

    vec_step = vec_close = vec_render = env_reset = env_step = env_close = env_render = vec_reset

    def vec_log(self, *_: Any) -> dict[str, float]:
        """Return an empty log."""
        return {}

    def __getattr__(self, name: str) -> Any:
        """Raise for any other function of a binding, since the class would need its results."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise ConfigError(f"its Python class calls binding.{name}, which only PufferLib has")


@dataclass(frozen=True)
class ClassFacts:
    """The facts about an env that its Python class reports, for some settings.

    Attributes:
        kwargs: the arguments of the C env's init.
        shared_as: name of the argument that receives the shared data, or "".
        shared_kwargs: the arguments of my_shared.
        agents: number of agents per env.
        observation: (shape, dtype, low, high) of an agent's observation.
        action: space of an agent's action.
        table: the action value that each choice of each dim writes; () if choices are written
            unchanged.
        keeps: whether rewards and ends keep their values from step to step until C changes them.
    """

    kwargs: dict[str, Any]
    shared_as: str
    shared_kwargs: dict[str, Any]
    agents: int
    observation: tuple[tuple[int, ...], np.dtype, float, float]
    action: spaces.Space[Any]
    table: tuple[float, ...]
    keeps: bool


class PythonClass:
    """The Python class of an env, imported on stand-ins for PufferLib's modules."""

    def __init__(self, path: Path) -> None:
        """Import the class.

        Raises:
            ConfigError: the module cannot be imported, or has no such class.
        """
        self.path = path
        loader = _Loader(path)
        name = f"pufferlib.ocean.{path.stem}.{path.stem}"
        spec = importlib.util.spec_from_loader(name, loader)
        assert spec is not None
        self._module = importlib.util.module_from_spec(spec)
        with _modules(_stand_in_modules(path, Binding())):
            self._run(lambda: loader.exec_module(self._module))
        found = [
            value
            for value in vars(self._module).values()
            if isinstance(value, type)
            and value.__module__ == self._module.__name__
            and "binding" in _names_in(value)
        ]
        if not found:
            raise ConfigError(f"{path}: no class there uses the binding")
        self.kind = found[0]
        parameters = inspect.signature(self.kind).parameters.values()
        self.defaults = {
            p.name: p.default
            for p in parameters
            if p.name not in NOT_SETTINGS and p.default is not p.empty
        }
        self._has = {p.name for p in parameters}

    def ask(self, settings: Mapping[str, Any]) -> ClassFacts:
        """Return the class's facts about an env with these settings.

        Raises:
            ConfigError: the class refuses the settings, or needs a compiled PufferLib.
        """
        binding = Binding()
        fixed = {"num_envs": 1, "seed": 0, "buf": None}
        lists = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
        arguments = lists | {k: v for k, v in fixed.items() if k in self._has}
        with _modules(_stand_in_modules(self.path, binding)):
            vars(self._module)["binding"] = binding
            env = self._run(lambda: self.kind(**arguments))
            if not binding.arrays:
                raise ConfigError(f"{self.path}: its class makes no env with binding.env_init")
            observations, actions = binding.arrays[:2]
            space = env.single_action_space
            table, keeps = self._step(env, binding, space)
        low_high = env.single_observation_space
        shared_as = [key for key, value in binding.kwargs.items() if isinstance(value, Shared)]
        return ClassFacts(
            kwargs={k: v for k, v in binding.kwargs.items() if k not in shared_as},
            shared_as=shared_as[0] if shared_as else "",
            shared_kwargs=binding.shared_kwargs or {},
            agents=len(observations),
            observation=(
                observations.shape[1:] or (1,),
                observations.dtype,
                float(np.min(low_high.low)),
                float(np.max(low_high.high)),
            ),
            action=space,
            table=table,
            keeps=keeps,
        )

    def _step(self, env: Any, binding: Binding, space: Any) -> tuple[tuple[float, ...], bool]:
        """Return `table` and `keeps` of ClassFacts, from steps of the class."""
        _, actions, rewards = binding.arrays[:3]
        single = isinstance(space, spaces.Discrete)
        sizes = (
            [int(space.n)]
            if single
            else [int(n) for n in space.nvec.ravel()]
            if isinstance(space, spaces.MultiDiscrete)
            else []
        )
        agents = len(rewards)
        table = []
        env.tick = getattr(env, "tick", 0)  # Set by reset, which draws nothing here.
        try:
            env.reset(seed=0) if "seed" in inspect.signature(env.reset).parameters else env.reset()
            rewards[:] = 7
            if not sizes:
                env.step(np.zeros((agents, *space.shape), np.float32))
            for dim, size in enumerate(sizes):
                for choice in range(size):
                    given = np.zeros((agents, len(sizes)), np.int64)
                    given[:, dim] = choice
                    env.step(given[:, 0] if single else given)
                    table.append(float(np.ravel(actions[0])[dim]))
        except ConfigError:
            raise
        except Exception:  # A step of the class does more than copy arrays: use rows as they are.
            return (), True
        plain = [float(choice) for size in sizes for choice in range(size)]
        return () if table == plain else tuple(table), bool(rewards[0] == 7)

    def _run(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"{self.path}: {type(error).__name__}: {error}") from error


class _Loader(importlib.abc.SourceLoader):
    """Loads a module from its file, without writing bytecode next to it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def get_filename(self, fullname: str) -> str:
        """Return the module's file."""
        return self.path

    def get_data(self, path: Any) -> bytes:
        """Return the bytes of the file."""
        return Path(self.path).read_bytes()


def _names_in(kind: type) -> set[str]:
    """Return the global names that the methods of a class use."""
    found: set[str] = set()
    for value in vars(kind).values():
        if isinstance(value, types.FunctionType):
            found |= set(value.__code__.co_names)
    return found


def _stand_in_modules(path: Path, binding: Binding) -> dict[str, Any]:
    """Return, by name, replacements for modules that an env's module imports but that are missing.

    These are PufferLib's own modules, and empty ones for other packages that are not installed,
    most of which are for drawing.
    """
    ocean = types.ModuleType("pufferlib.ocean")
    own = types.ModuleType(f"pufferlib.ocean.{path.stem}")
    vars(own)["binding"] = binding
    vars(ocean)[path.stem] = own
    modules: dict[str, Any] = {
        "pufferlib": importlib.import_module("puffervec.compat.pufferlib"),
        ocean.__name__: ocean,
        own.__name__: own,
        "binding": binding,
    }
    for node in ast.walk(ast.parse(path.read_text(errors="replace"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            if name.startswith("pufferlib.ocean."):
                modules[name] = own
            if name in modules or (top != "pufferlib" and _installed(top)):
                continue
            for package in itertools.accumulate(name.split("."), "{}.{}".format):
                modules.setdefault(package, _Empty(package))
    return modules


def _installed(package: str) -> bool:
    return package in sys.modules or importlib.util.find_spec(package) is not None


class _Empty(types.ModuleType):
    """A package that is not installed: all its names are None."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


@contextmanager
def _modules(modules: Mapping[str, Any]) -> Iterator[None]:
    """Let imports find these modules in the block."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
