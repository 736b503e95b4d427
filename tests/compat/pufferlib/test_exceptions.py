# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/exceptions.py: who is caught by which name."""

from __future__ import annotations

import pytest

import puffervec
from puffervec import errors
from puffervec.compat.pufferlib import exceptions


def test_apiusageerror_catches_what_the_core_refuses() -> None:
    usage = exceptions.APIUsageError
    assert issubclass(usage, RuntimeError)
    for kind in (errors.ConfigError, errors.ActionError, errors.CallOrderError, errors.ClosedError):
        assert issubclass(kind, usage), kind
    with pytest.raises(usage) as caught:
        puffervec.make("tag_grid", num_envs=0)
    assert caught.value.message == str(caught.value)
    assert "num_envs is 0" in caught.value.message


def test_apiusageerror_does_not_hide_a_dead_worker() -> None:
    assert not issubclass(errors.WorkerError, exceptions.APIUsageError)


def test_apiusageerror_is_raised_by_calls_out_of_order() -> None:
    with (
        puffervec.make("tag_grid", num_envs=1, backend="serial") as vec,
        pytest.raises(exceptions.APIUsageError, match="recv"),
    ):
        vec.recv()


def test_environmentsetuperror_names_package_and_cause() -> None:
    error = exceptions.EnvironmentSetupError(ImportError("no module"), "nle")
    assert (
        str(error) == "nle could not be set up (ImportError: no module): install it, or repair its "
        "installation"
    )
    assert isinstance(error, RuntimeError)


def test_invalidagenterror_names_the_agents() -> None:
    error = exceptions.InvalidAgentError("c", ["a", "b"])
    assert isinstance(error, ValueError)
    assert "'c'" in str(error) and "['a', 'b']" in str(error)
