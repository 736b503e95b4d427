# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The only entrances through which a run reaches optional parts.

Nothing below `puffervec/wings` imports a wing; it asks here instead. A wing is a package
`puffervec/wings/NAME`. Its module `door.py` has the functions of the table below, or a `VERB`, and
imports nothing heavy at its top. A wing that is not installed affects only the setting that needs
it.

| wing      | what its door offers                                      | asked for by            |
|-----------|-----------------------------------------------------------|-------------------------|
| plan      | `acting(policy, mode)`, `check_plans(rows, given, device)` | `train.plan`           |
|           | `planned_calls(policy, args)`                             | `profile --ablation`    |
| sharded   | `share_columns(name, policy, ranks)`                      | `train.tensor_parallel` |
| ray       | `check(config)`, `trainer_class()`                        | `ray.address`           |
| evaluations | `check(config)`, `evaluations(config, folder, note)`     | `eval.every_s`          |
| reference | `terms(run, ranks)`                                       | `train.kl_to`           |
| warpdrive | `read(path, target)`                                      | `--warpdrive`           |
| ocean   | `env(path, settings)`                                     | `ocean:PATH`            |
| any       | `VERB`, a `puffervec.commands.verb.Verb`                  | `puffer-train NAME`     |

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
    """Return the names of the installed wings, sorted."""
    try:
        package = importlib.import_module(WINGS)
    except ModuleNotFoundError:
        return []
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg)


def door(wing: str, setting: str) -> Any:
    """Return the door of a wing: the module `puffervec.wings.NAME.door`.

    Args:
        wing: name of the wing.
        setting: the setting that needs it, as the user wrote it, for the error message.

    Raises:
        ConfigError: the wing is not installed.
    """
    if wing not in names():
        raise ConfigError(
            f"{setting} needs {WINGS}.{wing}, which this installation lacks: reinstall puffervec"
        )
    return importlib.import_module(f"{WINGS}.{wing}.door")


def unwrapped(policy: Any) -> Any:
    """Return the policy unchanged."""
    return policy


def policy_wrapper(mode: str) -> Callable[[Any], Any]:
    """Return a function that wraps a policy for rollouts and evaluations.

    Args:
        mode: the value of `train.plan`.

    Raises:
        ConfigError: the wing of that mode is not installed.
    """
    return (
        unwrapped
        if mode == "eager"
        else functools.partial(door("plan", "train.plan").acting, mode=mode)
    )


def verbs() -> list[Any]:
    """Return the `puffer-train` verbs of all installed wings, sorted by wing name."""
    doors = [importlib.import_module(f"{WINGS}.{name}.door") for name in names()]
    return [found.VERB for found in doors if hasattr(found, "VERB")]
