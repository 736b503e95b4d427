# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Loading of a package's names at first use (PEP 562), so that importing the package is cheap.

Imports nothing heavy.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from puffervec.system import extras


def loader(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names need the packages of the trainer.

    Args:
        package: the package's `__name__`.
        homes: for each module, the names that it defines.

    Returns:
        a function that imports the module of a name, stores the value in the package and returns
        it. It raises MissingExtraError if a package of the trainer is missing, and AttributeError
        for other names.
    """
    module_of = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        extras.require(f"{package}.{name}", *extras.TRAINER)
        value = getattr(importlib.import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
