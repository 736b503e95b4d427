# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The definition of a run (puffervec/train/policies/run_spec.py)."""

from __future__ import annotations

from puffervec.train import TrainConfig
from puffervec.train.policies.run_spec import RunSpec


def test_the_env_is_opened_once_and_rows_follow_the_config() -> None:
    run = RunSpec.of(TrainConfig.of("probe", env={"mode": 1}))
    wider = run.with_config(run.config.with_values("policy", hidden=(8, 4)))
    assert wider.spec is run.spec and wider.device == run.device
    assert list(wider.rows) == list(run.rows) == [group.name for group in run.spec.groups]
    assert all(own.section.hidden == (8, 4) for own in wider.rows.values())
    assert all(own.section == run.config.policy for own in run.rows.values())
    assert wider.rows is wider.rows
