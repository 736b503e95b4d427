# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Run the tests of another project with our classes instead of theirs.

    python scripts/upstream_suites.py gymnasium FOLDER [arguments of pytest]
    python scripts/upstream_suites.py sb3 FOLDER [...]

FOLDER is a checkout of that project, with its `tests`, of the installed version. All imports of
AsyncVectorEnv, SyncVectorEnv and make_vec there, or of SubprocVecEnv, DummyVecEnv and make_vec_env,
yield ours. docs/differences.md lists the intended differences.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

USAGE = "usage: python scripts/upstream_suites.py gymnasium|sb3 FOLDER [arguments of pytest]"


def replace_gymnasium() -> None:
    """Replace the classes of Gymnasium by ours."""
    import gymnasium
    import gymnasium.envs.registration
    import gymnasium.vector.async_vector_env
    import gymnasium.vector.sync_vector_env

    import puffervec
    import puffervec.gym

    for module in (
        gymnasium.vector,
        gymnasium.vector.async_vector_env,
        gymnasium.vector.sync_vector_env,
    ):
        for name in ("AsyncVectorEnv", "SyncVectorEnv"):
            if hasattr(module, name):
                setattr(module, name, getattr(puffervec.gym, name))
    for module in (gymnasium, gymnasium.envs.registration):
        module.make_vec = puffervec.make_vec  # type: ignore[attr-defined]


def replace_sb3() -> None:
    """Replace the classes of Stable-Baselines3 by ours."""
    import stable_baselines3.common.base_class
    import stable_baselines3.common.env_util
    import stable_baselines3.common.vec_env as theirs

    import puffervec.sb3

    class SubprocVecEnv(puffervec.sb3.VecEnv):
        """Our vec env, in worker processes."""

    class DummyVecEnv(puffervec.sb3.VecEnv):
        """Our vec env, in this process."""

        def __init__(self, env_fns: Any) -> None:
            super().__init__(env_fns, backend="serial")

    theirs.SubprocVecEnv, theirs.DummyVecEnv = SubprocVecEnv, DummyVecEnv  # type: ignore[misc, assignment]
    stable_baselines3.common.base_class.DummyVecEnv = DummyVecEnv  # type: ignore[misc, assignment]
    stable_baselines3.common.env_util.make_vec_env = puffervec.sb3.make_vec_env  # type: ignore[assignment]


SUITES = {"gymnasium": replace_gymnasium, "sb3": replace_sb3}


def main(arguments: list[str]) -> int:
    """Run a suite and return pytest's exit status."""
    if (
        len(arguments) < 2
        or arguments[0] not in SUITES
        or not (Path(arguments[1]) / "tests").is_dir()
    ):
        print(f"{USAGE}\nFOLDER has a folder `tests` in it", file=sys.stderr)
        return 2
    os.chdir(arguments[1])
    sys.path.insert(0, os.getcwd())  # they import `tests.testing_env` and the like
    SUITES[arguments[0]]()
    return int(pytest.main(arguments[2:] or ["tests"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
