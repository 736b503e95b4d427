# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The doors through which optional parts enter a run. Nothing below `puffervec/wings` imports a
wing; it asks here instead.

A wing is a package `puffervec/wings/NAME`. Its module `door.py` has the functions of the table
below, or a `VERB`, and imports nothing heavy at its top. A wing that is not installed is missed
only by the setting that needs it.

| wing      | what its door offers                                              | asked for by            |
|-----------|-------------------------------------------------------------------|-------------------------|
| plan      | `acting(policy, mode)`, `check_plans(rows, given, device)`        | `train.plan`            |
|           | `planned_calls(policy, args)`                                     | `profile --ablation`    |
| sharded   | `share_columns(name, policy, ranks)`                               | `train.tensor_parallel` |
| ray       | `trainer_class()`                                                 | `ray.address`           |
| warpdrive | `read(path, target)`                                              | `--warpdrive`           |
| any       | `VERB`, a `puffervec.commands.verb.Verb`                          | `puffer-train NAME`     |

Imports no torch.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from puffervec.errors import ConfigError

WINGS = "puffervec.wings"


def names() -> list[str]:
    """Return the names of the wings that are installed, sorted."""
    try:
        package = importlib.import_module(WINGS)
    except ModuleNotFoundError:
        return []
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg)


def door(wing: str, setting: str) -> Any:
    """Return the door of a wing: the module `puffervec.wings.NAME.door`.

    Args:
        wing: its name.
        setting: what asks for it, as the user wrote it, for the error.

    Raises:
        ConfigError: the wing is not installed.
    """
    if wing not in names():
        raise ConfigError(
            f"{setting} needs {WINGS}.{wing}, which this installation lacks: reinstall puffervec"
        )
    return importlib.import_module(f"{WINGS}.{wing}.door")


def unwrapped(policy: Any) -> Any:
    """Return the policy itself."""
    return policy


def policy_wrapper(mode: str) -> Callable[[Any], Any]:
    """Return what makes of a policy that which is called in roll-outs and evaluations.

    Args:
        mode: `train.plan`.

    Raises:
        ConfigError: the wing of that mode is not installed.
    """
    return (
        unwrapped
        if mode == "eager"
        else functools.partial(door("plan", "train.plan").acting, mode=mode)
    )


def verbs() -> list[Any]:
    """Return the verbs of `puffer-train` that wings bring, in the order of their wings' names."""
    doors = [importlib.import_module(f"{WINGS}.{name}.door") for name in names()]
    return [found.VERB for found in doors if hasattr(found, "VERB")]
