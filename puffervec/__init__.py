# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Vectorized reinforcement-learning environments in shared memory.

Workers step thousands of envs and write the results into memory shared with the learner.

>>> import puffervec
>>> with puffervec.make("tag_grid", num_envs=4, backend="serial") as vec:
...     observations, infos = vec.reset(seed=0)
...     observations.shape
(44, 45)

Names are loaded when first used, so that `import puffervec` stays fast. Only `puffervec.train`,
`puffervec.load_policy`, `puffervec.TorchView` and the PyTorch side of `puffervec.compat` import
torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from puffervec.contract.drawing import Drawing
    from puffervec.contract.env_types import get_include
    from puffervec.contract.evaluation import Evaluation
    from puffervec.contract.native import EnvData, NativeEnv
    from puffervec.contract.training import Training
    from puffervec.core.infos import Infos
    from puffervec.envs import ocean
    from puffervec.errors import PuffervecError
    from puffervec.gym.make_vec import make_vec
    from puffervec.testing.equality import EnvEquality, check_env_equal
    from puffervec.torch_view import TorchView
    from puffervec.train import load_policy
    from puffervec.vec.backends import Multiprocessing, Serial, Threading, make
    from puffervec.vec.vector_env import VectorEnv
    from puffervec.workers.python.puffer_env import PufferEnv

__version__ = "0.1.0"

_HOME = {
    "make": "puffervec.vec.backends",
    "VectorEnv": "puffervec.vec.vector_env",
    "Serial": "puffervec.vec.backends",
    "Threading": "puffervec.vec.backends",
    "Multiprocessing": "puffervec.vec.backends",
    "NativeEnv": "puffervec.contract.native",
    "EnvData": "puffervec.contract.native",
    "Drawing": "puffervec.contract.drawing",
    "Evaluation": "puffervec.contract.evaluation",
    "PuffervecError": "puffervec.errors",
    "PufferEnv": "puffervec.workers.python.puffer_env",
    "Training": "puffervec.contract.training",
    "Infos": "puffervec.core.infos",
    "TorchView": "puffervec.torch_view",
    "make_vec": "puffervec.gym.make_vec",
    "ocean": "puffervec.envs",
    "get_include": "puffervec.contract.env_types",
    "check_env_equal": "puffervec.testing.equality",
    "EnvEquality": "puffervec.testing.equality",
    "load_policy": "puffervec.train",
}

__all__ = [
    "Drawing",
    "EnvData",
    "EnvEquality",
    "Evaluation",
    "Infos",
    "Multiprocessing",
    "NativeEnv",
    "PufferEnv",
    "PuffervecError",
    "Serial",
    "Threading",
    "TorchView",
    "Training",
    "VectorEnv",
    "check_env_equal",
    "get_include",
    "load_policy",
    "make",
    "make_vec",
    "ocean",
]


def __getattr__(name: str) -> Any:
    """Import the module that defines `name` on first use (PEP 562)."""
    if name == "profile":  # a module, not an attribute of one
        return importlib.import_module("puffervec.profile")
    if name not in _HOME:
        raise AttributeError(f"module 'puffervec' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, "profile"})
