# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Optional packages: which extra of puffervec installs each, and the error for a missing one.

`pip install puffervec` installs only what the vector env needs. Code that needs more first calls
`require` or `required`. Nothing heavy is imported.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator

from puffervec.errors import MissingExtraError

TRAINER = ("torch", "rich", "safetensors")
# module: the extra in pyproject.toml that installs it
EXTRA_OF = {
    **dict.fromkeys(TRAINER, "train"),
    "yaml": "train",
    "matplotlib": "plot",
    "PIL": "video",
    "imageio_ffmpeg": "video",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "optuna": "sweep",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "pettingzoo": "pettingzoo",
    "stable_baselines3": "sb3",
    "huggingface_hub": "scenes",
    "google.protobuf": "womd",
    "google_crc32c": "womd",
    "py123d": "opendrive",
    "aiohttp": "watch",
    "ray": "ray",
}


def installed(module: str) -> bool:
    """Return whether a module could be imported, without importing it.

    A folder of that name is not a package: Weights & Biases makes one called wandb wherever it
    runs.
    """
    if module in sys.modules:
        return sys.modules[module] is not None
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    return found is not None and found.origin is not None


def require(what: str, *modules: str) -> None:
    """Check that all of these modules are installed, before any work that needs them.

    Args:
        what: the feature that needs the modules; begins the message.
        modules: keys of EXTRA_OF.

    Raises:
        MissingExtraError: some are missing; the message names them and the `pip install` command.
    """
    missing = [module for module in modules if not installed(module)]
    if missing:
        raise MissingExtraError(_line(what, missing))


@contextlib.contextmanager
def required(what: str, extra: str | None = None) -> Iterator[None]:
    """Raise MissingExtraError if an optional package that the block imports is missing.

    Args:
        what: as in `require`.
        extra: the extra that installs packages which are not in EXTRA_OF.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRA_OF and extra is None:
            raise
        raise MissingExtraError(_line(what, [module], extra)) from error


def _line(what: str, missing: list[str], extra: str | None = None) -> str:
    extras = ",".join(dict.fromkeys(EXTRA_OF.get(module, extra or "") for module in missing))
    return f"{what} needs {', '.join(missing)}: pip install 'puffervec[{extras}]'"
