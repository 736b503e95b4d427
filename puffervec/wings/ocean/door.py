# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Envs of PufferLib, by the path of their files: `ocean:PATH`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffervec.contract.native import EnvData, NativeEnv, pack_params
from puffervec.contract.training import Training
from puffervec.errors import ConfigError

if TYPE_CHECKING:
    from puffervec.wings.ocean.compiling import Tools


def env(path: str | Path, settings: Mapping[str, Any] | None = None) -> NativeEnv:
    """Return the C env at a path, compiled if it is new or has changed.

    Args:
        path: a folder, a binding or a header of PufferLib 3.0, 4.0 or 5.0.
        settings: values that replace the defaults of the env's settings.

    Raises:
        ConfigError: there is no such env, it does not compile, or it has no such setting.
    """
    from puffervec.wings.ocean.compiling import Tools
    from puffervec.wings.ocean.source import locate

    tools = Tools.from_environment()
    if settings:
        return _Env(locate(path), tools, settings).native()
    key = Path(path).expanduser().resolve(), tools
    made = _made.get(key)
    if made is None or not made.is_current():
        made = _made[key] = _Made.of(_Env(locate(path), tools, {}))
    return made.native


@dataclasses.dataclass(frozen=True)
class _Made:
    """A NativeEnv and the state of its source files when it was made.

    Attributes:
        stamps: for each file its modification time and size; None for a file that is gone.
    """

    native: NativeEnv
    stamps: Mapping[Path, tuple[int, int] | None]

    @classmethod
    def of(cls, env: _Env) -> _Made:
        """Make the NativeEnv of an env."""
        stamps = {path: _stamp(path) for path in env.files()}
        return cls(env.native(), stamps)

    def is_current(self) -> bool:
        """Return whether no file has changed since the NativeEnv was made."""
        return all(_stamp(path) == stamp for path, stamp in self.stamps.items())


_made: dict[tuple[Path, Tools], _Made] = {}  # Envs with default settings.


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


class _Env:
    """An env of PufferLib from which a NativeEnv is made."""

    def __init__(self, source: Any, tools: Tools, settings: Mapping[str, Any]) -> None:
        from puffervec.wings.ocean import config
        from puffervec.wings.ocean.compiling import library_of
        from puffervec.wings.ocean.python_class import PythonClass

        self.source, self.tools = source, tools
        self.compiled = library_of(source, tools)
        if source.generation == 3 and source.python_class is None:
            raise ConfigError(
                f"{source.main}: an env of PufferLib 3.0 has its spaces in a Python class: put "
                f"its module ({source.folder.name}.py) next to it"
            )
        self.python = PythonClass(source.python_class) if source.python_class else None
        defaults = config.defaults_of(source, self.python.defaults if self.python else None)
        self.config = config.config_class(
            source, config.with_defaults(source.name, defaults, settings)
        )
        self._look = functools.lru_cache(self._look_at)

    def files(self) -> list[Path]:
        """Return the files that the env is made of, and its library, which users may remove."""
        source, headers = self.source, self.tools.raylib_headers().values()
        files = [*source.files, *headers, source.ini, source.python_class, self.compiled]
        return [path for path in files if path is not None]

    def native(self) -> NativeEnv:
        """Return the env type."""
        from puffervec.wings.ocean.mapping import lines, mapped
        from puffervec.wings.ocean.pictures import Pictures

        source = self.source
        try:
            _, facts, agents = self._look(self.config())
        except ConfigError:  # A setting has no default: the user sets it later.
            training, types = Training(), tuple[str, ...]()
        else:
            found = mapped(source.settings, agents, facts.log)
            training = Training(
                preset=found.preset,
                metric=found.metric,
                search=found.search,
                notes=lines(found.ignored),
            )
            most = max(facts.policies, default=0)
            types = tuple(f"policy{i}" for i in range(most + 1)) if most else ()

        def build(config: Any) -> EnvData:
            return self._look(config)[0]

        def row_types(config: Any) -> tuple[int, ...]:
            return tuple(self._look(config)[1].policies)

        def recorder(vec: Any) -> Pictures:
            return Pictures(source.name, self.compiled, source.folder, vec)

        return NativeEnv(
            name=source.name,
            config=self.config,
            build=build,
            recorder=recorder if self.tools.raylib else None,
            shared_library=str(self.compiled),
            training=training,
            agent_types=types,
            row_types=row_types if types else None,
        )

    def _look_at(self, config: Any) -> tuple[EnvData, Any, int]:
        """Return, for a config, the arrays that C reads, the env's facts, and its agents."""
        from puffervec.wings.ocean import config as settings
        from puffervec.wings.ocean.probing import probe

        values = settings.values_of(config)
        asked = self.python.ask(values) if self.python else None
        params = (
            settings.class_params(asked)
            if asked is not None
            else settings.settings_params({k: v for k, v in values.items() if v is not None})
        )
        facts = probe(self.source.name, self.compiled, pack_params(params))
        params |= settings.space_params(self.source, facts, asked)
        agents = facts.agents if asked is None else asked.agents
        return EnvData(params), facts, agents
