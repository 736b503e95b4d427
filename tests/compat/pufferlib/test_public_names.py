# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/__init__.py: what the one import reaches, and when it loads
what.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import puffervec.compat.pufferlib as pufferlib


@pytest.mark.parametrize("name", pufferlib.__all__)
def test_every_name_is_reached_by_the_one_import(name: str) -> None:
    assert getattr(pufferlib, name) is not None
    assert name in dir(pufferlib)


def test_names_are_those_of_their_modules() -> None:
    assert pufferlib.EpisodeStats is pufferlib.postprocess.EpisodeStats
    assert pufferlib.APIUsageError is pufferlib.exceptions.APIUsageError
    assert pufferlib.PufferEnv is pufferlib.vector.PufferEnv
    assert pufferlib.__version__


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="no 'ocean': it has APIUsageError, .*vector"):
        pufferlib.ocean  # noqa: B018


@pytest.mark.slow
def test_torch_is_loaded_by_pytorch_and_models_only_and_submodules_have_the_alias() -> None:
    script = (
        "import sys, puffervec.compat.pufferlib as pufferlib\n"
        "heavy = ('numpy', 'gymnasium', 'torch')\n"
        "loaded = lambda: [name for name in heavy if name in sys.modules]\n"
        "print(loaded())\n"
        "pufferlib.vector.make, pufferlib.emulation.GymnasiumPufferEnv\n"
        "pufferlib.EpisodeStats, pufferlib.spaces.Box\n"
        "print(loaded())\n"
        "pufferlib.pytorch.sample_logits\n"
        "print(loaded())\n"
        "import puffervec.compat.pufferlib.vector, puffervec.compat.pufferlib.models\n"
        "from puffervec.compat.pufferlib import EpisodeStats, namespace\n"
        "print(pufferlib.models.Default.__name__, pufferlib.vector.make.__name__,\n"
        "      EpisodeStats.__name__, namespace(a=1).a)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    expected = (
        "[]\n['numpy', 'gymnasium']\n['numpy', 'gymnasium', 'torch']\nDefault make EpisodeStats 1\n"
    )
    assert (done.stdout, done.stderr) == (expected, "")


def test_pufferenv_writes_its_own_arrays_without_buf() -> None:
    from tests.compat.pufferlib.envs import Native

    env = Native(agents=2)
    assert (env.observations.shape, env.rewards.dtype, env.masks.all()) == ((2, 2), "float32", True)


def test_set_buffers_adopts_the_given_rows() -> None:
    from tests.compat.pufferlib.envs import Native

    env = Native(agents=2)
    rows = {name: getattr(env, name).copy() for name in (
        "observations", "rewards", "terminals", "truncations", "masks", "actions",
    )}  # fmt: skip
    pufferlib.set_buffers(env, rows)
    assert env.rewards is rows["rewards"]
