# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The errors of the emulation layer (puffervec/python/emulation/exceptions.py)."""

from __future__ import annotations

import pickle

import pytest

from puffervec.errors import ConfigError, PuffervecError
from puffervec.python.emulation.exceptions import APIUsageError, InvalidAgentError, SpaceMismatchError


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (APIUsageError("step before reset"), RuntimeError),
        (InvalidAgentError("x", ["a", "b"]), ValueError),
        (SpaceMismatchError("observation is bad"), ConfigError),
        (SpaceMismatchError("observation is bad"), APIUsageError),
    ],
)
def test_errors_are_ours_and_standard_and_survive_a_worker_boundary(error: Exception, base: type) -> None:
    assert isinstance(error, PuffervecError) and isinstance(error, base)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)


def test_messages() -> None:
    assert APIUsageError("step before reset").message == "step before reset"
    assert "does not allow" in APIUsageError().message
    assert str(InvalidAgentError("x", ["a", "b"])) == "there is no agent 'x': use one of ['a', 'b']"
