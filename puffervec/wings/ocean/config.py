# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The settings of an env of PufferLib as a dataclass, and the arrays in which C reads them.

A setting has the type of its default, which comes from [env] of the .ini file, or from the Python
class (3.0). A setting whose default is whole accepts any number if C keeps it in a float or double.
"""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from puffervec._ffi import lib
from puffervec.core.spec import DTYPE_CODE
from puffervec.errors import ConfigError
from puffervec.train.config.tables import convert, suggest
from puffervec.wings.ocean.ini import value_of
from puffervec.wings.ocean.probing import Facts
from puffervec.wings.ocean.python_class import ClassFacts
from puffervec.wings.ocean.source import Source

# This excludes settings of a vectorizer, which my_vec_init also gets.
_ASKED = re.compile(
    r'\b(?:dict_get(?:_str|_unsafe)?|dict_find|unpack)\s*\(\s*(?!vec)\w+\s*,\s*"(\w+)"'
)
MOST_AXES = 3


def defaults_of(source: Source, python: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of an env with their defaults.

    Args:
        source: the env.
        python: the defaults of its Python class, or None.

    A setting that the env reads by name but that has no default is None: it is left out when the
    env is made, and the env then reports an error if it needs the setting.
    """
    own = {key: value_of(text) for key, text in source.settings.get("env", {}).items()}
    if python is None:
        asked = dict.fromkeys(asked_for(source)) | own
        return {key: value for key, value in asked.items() if _is_name(key)}
    return {key: own.get(key, value) for key, value in python.items()}


def _is_name(key: str) -> bool:
    return key.isidentifier() and not keyword.iskeyword(key)


def config_class(source: Source, defaults: Mapping[str, Any]) -> type[Any]:
    """Return the dataclass of an env's settings, which checks their values.

    Its fields exist only in Python (`NativeEnv.config`): C reads params.
    """
    only_python = {"python": True}
    fields = [
        (
            key,
            _type_of(key, value, source.code),
            dataclasses.field(default=value, metadata=only_python),
        )
        for key, value in (
            (key, tuple(value) if isinstance(value, list) else value)
            for key, value in defaults.items()
        )
    ]

    def check(self: Any) -> None:
        for name, kind, _ in fields:
            value = convert(_plain(getattr(self, name)), kind, f"{source.name}: {name}")
            object.__setattr__(self, name, value)

    made = dataclasses.make_dataclass(
        f"{source.name}_config", fields, frozen=True, namespace={"__post_init__": check}
    )
    made.__module__ = __name__
    made.__doc__ = f"Settings of {source.main.name}."
    return made


def _type_of(key: str, value: Any, code: str) -> Any:
    """Return the type of a setting, from its default and from the C member of the same name."""
    if isinstance(value, bool) or value is None:
        return bool if isinstance(value, bool) else Any
    if isinstance(value, int):
        real = rf"\b(?:float|double)\s+(?:\w+\s*,\s*)*{re.escape(key)}\s*[,;]"
        return float if re.search(real, code) else int
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, int) for item in value):
            return tuple[int, ...]
        numbers = all(isinstance(item, (int, float)) for item in value)
        return tuple[float, ...] if numbers else tuple[Any, ...]
    return float if isinstance(value, float) else str


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def values_of(config: Any) -> dict[str, Any]:
    """Return the settings of a config by name."""
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def with_defaults(
    name: str, defaults: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the defaults, with the values in `settings` in their place.

    Raises:
        ConfigError: the env does not have a setting.
    """
    for key in settings:
        if key not in defaults:
            raise ConfigError(f"{name} has no setting {key!r}{suggest(key, list(defaults))}")
    return {**defaults, **settings}


def asked_for(source: Source) -> list[str]:
    """Return the names of the settings that the env's code reads, in order."""
    return list(dict.fromkeys(_ASKED.findall(source.code)))


# ---- params --------------------------------------------------------------------------------------


def settings_params(settings: Mapping[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Return settings as the arrays that `ocean_read_settings` reads (pv_ocean_generated.h)."""
    texts, counts, whole, numbers = [], [], [], []
    for value in settings.values():
        items = [_plain(item) for item in np.ravel(value)] if _is_list(value) else [_plain(value)]
        numeric = all(isinstance(item, (bool, int, float)) for item in items)
        texts.append(",".join(str(item) for item in items))
        counts.append(len(items) if numeric else 0)
        whole.append(all(isinstance(item, (bool, int)) for item in items))
        numbers += [float(item) for item in items] if numeric else []
    return {
        f"{prefix}keys": _bytes_of(settings),
        f"{prefix}texts": _bytes_of(texts),
        f"{prefix}counts": np.array(counts, np.int32),
        f"{prefix}whole": np.array(whole, np.int32),
        f"{prefix}numbers": np.array(numbers, np.float64),
    }


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray))


def _bytes_of(texts: Any) -> np.ndarray:
    """Return texts as bytes, each with a NUL at its end."""
    return np.frombuffer("".join(f"{text}\0" for text in texts).encode(), np.uint8)


def class_params(facts: ClassFacts) -> dict[str, np.ndarray]:
    """Return the facts about an env from its Python class as arrays, except for its rows."""
    params = settings_params(facts.kwargs)
    if facts.shared_as:
        params |= settings_params(facts.shared_kwargs, "shared_")
        params["shared_as"] = _bytes_of([facts.shared_as])
    return params


def space_params(source: Source, facts: Facts, python: ClassFacts | None) -> dict[str, np.ndarray]:
    """Return the spaces of an env's rows as arrays.

    Args:
        source: the env.
        facts: facts that the compiled env reports.
        python: facts that its Python class reports (3.0), or None.

    Raises:
        ConfigError: rows cannot have such a space.
    """
    table: tuple[float, ...] = ()
    shape: tuple[int, ...]
    if python is None:
        agents, shape, dtype = facts.agents, (facts.numbers,), facts.dtype
        unbounded = dtype.kind == "f"
        limits = None if unbounded else np.iinfo(dtype)
        low, high = (-np.inf, np.inf) if limits is None else (limits.min, limits.max)
        sizes = () if facts.continuous else facts.choices
        dims = len(facts.choices)
        action_low, action_high = np.full(dims, -np.inf), np.full(dims, np.inf)
    else:
        agents, table = python.agents, python.table
        shape, dtype, low, high = python.observation
        sizes, action_low, action_high = _action_of(source, python.action)
        dims = len(sizes) or len(action_low)
    if len(shape) > MOST_AXES:
        shape = (int(np.prod(shape)),)
    if not 1 <= dims <= lib.PV_MAX_ACTION_DIMS:
        raise ConfigError(
            f"{source.name} has {dims} actions per agent: 1 to {lib.PV_MAX_ACTION_DIMS} are "
            "supported"
        )
    if dtype not in DTYPE_CODE:
        raise ConfigError(f"{source.name} has observations of {dtype}, which rows cannot have")
    kind = (
        lib.PV_CONTINUOUS if not sizes else lib.PV_DISCRETE if dims == 1 else lib.PV_MULTI_DISCRETE
    )
    lengths = [*shape, *([0] * (MOST_AXES - len(shape)))]
    keeps = python is not None and python.keeps
    head = [agents, DTYPE_CODE[dtype], facts.masked, keeps, len(shape), *lengths, kind, dims]
    continuous = [] if sizes else [*action_low, *action_high]
    return {
        "space": np.array([*head, *sizes], np.int32),
        "bounds": np.array([low, high, *continuous], np.float32),
        "table": np.array(table, np.float64),
        "log": _bytes_of(facts.log),
    }


def _action_of(source: Source, space: spaces.Space[Any]) -> tuple[tuple[int, ...], Any, Any]:
    """Return the numbers of choices of an action space, or () and its bounds.

    Raises:
        ConfigError: the space is of another kind.
    """
    if isinstance(space, spaces.Discrete):
        return (int(space.n),), (), ()
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(int(n) for n in space.nvec.ravel()), (), ()
    if isinstance(space, spaces.Box):
        return (), space.low.ravel(), space.high.ravel()
    raise ConfigError(
        f"{source.name} has the action space {space}: Discrete, MultiDiscrete and Box are supported"
    )
