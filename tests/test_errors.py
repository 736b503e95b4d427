# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The one tree of errors (puffervec/errors.py), and the lazy names of the package
(puffervec/__init__.py).
"""

from __future__ import annotations

import doctest
import pickle

import pytest

import puffervec
from puffervec import errors

BASES = {
    "APIUsageError": RuntimeError,
    "ConfigError": ValueError,
    "SceneError": ValueError,
    "ActionError": ValueError,
    "CheckpointError": ValueError,
    "CallOrderError": RuntimeError,
    "ClosedError": RuntimeError,
    "WorkerError": RuntimeError,
    "ForkedError": RuntimeError,
    "WorkerDied": errors.WorkerError,
    "WorkerTimeout": errors.WorkerError,
    "MissingExtraError": ImportError,
    "SpaceError": NotImplementedError,
    "SpaceMismatchError": errors.ConfigError,
    "EnvMismatchError": AssertionError,
}


@pytest.mark.parametrize("name", BASES)
def test_each_error_is_a_puffervec_error_and_a_standard_one(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, errors.PuffervecError)
    assert issubclass(kind, BASES[name])
    assert str(pickle.loads(pickle.dumps(kind("worker 3: text")))) == "worker 3: text"


def test_no_error_is_left_out() -> None:
    defined = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert defined == {
        *BASES,
        "PuffervecError",
        "SceneWarning",
        "UnclosedWarning",
        "InvalidAgentError",
    }


def test_the_lazy_names_are_there() -> None:
    for name in puffervec.__all__:
        assert getattr(puffervec, name) is not None
        assert name in dir(puffervec)
    with pytest.raises(AttributeError, match="no attribute 'mkae'"):
        _ = puffervec.mkae


def test_the_example_of_the_package_works() -> None:
    assert doctest.testmod(puffervec).failed == 0
    assert doctest.testmod(puffervec).attempted > 0
