# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/vector.py: candidates, limits, and a short real measurement."""

from __future__ import annotations

from typing import Any

import pytest

import puffervec
from puffervec.compat.pufferlib import vector
from puffervec.compat.pufferlib.vector import autotune, candidates
from puffervec.errors import ConfigError
from tests.compat.pufferlib.envs import make_counter


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("batch_size", [1, 6, 8])
def test_candidates_fit_each_other(batch_size: int, cores: int) -> None:
    found = candidates(batch_size, 64, cores)
    assert found[0] == {"backend": puffervec.Serial, "num_envs": batch_size}
    assert len(found) == len({str(settings) for settings in found})
    for settings in found[1:]:
        per_worker, remainder = divmod(settings["num_envs"], settings["num_workers"])
        assert remainder == 0 and batch_size % per_worker == 0
        assert settings["num_workers"] <= cores and settings["batch_size"] == batch_size


def test_candidates_stay_below_max_envs() -> None:
    assert max(settings["num_envs"] for settings in candidates(8, 20, 8)) == 16


@pytest.mark.slow
def test_autotune_measures_prints_and_returns_settings_for_make(
    capsys: pytest.CaptureFixture[str],
) -> None:
    best = autotune(make_counter, batch_size=2, max_envs=4, time_per_test=0.05, max_env_ram_gb=1e9)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["agent-steps/s", "settings"]
    assert len(lines) == 2 + len(candidates(2, 4, vector_cores()))
    rates = [float(line.split()[0].replace(",", "")) for line in lines[1:-1]]
    assert all(rate > 0 for rate in rates)
    assert lines[-1].split(maxsplit=1)[1] == lines[1 + rates.index(max(rates))].split(maxsplit=1)[1]
    with vector.make(make_counter, **best) as vec:
        assert vec.agents_per_batch == 2


def vector_cores() -> int:
    from puffervec.system.cores import usable_cores

    return usable_cores()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": None}, "batch_size is None"),
        ({"batch_size": 8, "max_envs": 4}, "from 1 to max_envs, 4"),
        ({"batch_size": 2, "max_batch_vram_gb": 1e-9}, "max_batch_vram_gb is 1e-09"),
    ],
)
def test_autotune_refuses_batches_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        autotune(make_counter, time_per_test=0.01, **settings)
