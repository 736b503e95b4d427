# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/utils.py: nested infos, attribute bags, quiet blocks."""

from __future__ import annotations

import os
import sys
import warnings

import pytest

from puffervec.compat.pufferlib.utils import (
    Namespace,
    Suppress,
    namespace,
    silence_warnings,
    unroll_nested_dict,
)


def test_unroll_nested_dict_joins_the_path() -> None:
    nested = {"a": 1, "b": {"c": [2], "d": {"e": 3}}, "empty": {}}
    assert list(unroll_nested_dict(nested)) == [("a", 1), ("b/c", [2]), ("b/d/e", 3)]
    assert list(unroll_nested_dict(5)) == []


def test_namespace_and_namespace_class_are_mappings_with_attributes() -> None:
    bag = namespace(lr=0.1, steps=2)
    assert isinstance(bag, Namespace)
    assert (bag.lr, bag["steps"], dict(**bag), len(bag), list(bag.items())) == (
        0.1, 2, {"lr": 0.1, "steps": 2}, 2, [("lr", 0.1), ("steps", 2)],
    )  # fmt: skip
    bag.lr = 0.2
    assert bag["lr"] == 0.2
    with pytest.raises(KeyError):
        bag["missing"]


def test_silence_warnings_of_one_category_only() -> None:
    def warns(category: type[Warning], value: int = 1) -> int:
        warnings.warn("text", category, stacklevel=1)
        return value

    quiet = silence_warnings(warns)
    assert quiet(DeprecationWarning, value=3) == 3
    assert quiet.__name__ == "warns"
    with pytest.raises(UserWarning):
        quiet(UserWarning)
    assert silence_warnings(warns, UserWarning)(UserWarning) == 1


def test_suppress_drops_both_streams_and_puts_them_back(capfd: pytest.CaptureFixture[str]) -> None:
    streams = sys.stdout, sys.stderr
    with Suppress():
        print("from Python")
        print("from Python", file=sys.stderr)
        os.write(1, b"from C")
        os.write(2, b"from C")
    assert (sys.stdout, sys.stderr) == streams
    print("after")
    os.write(2, b"after")
    assert capfd.readouterr() == ("after\n", "after")


def test_suppress_puts_them_back_after_an_exception(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), Suppress():
        raise ValueError
    print("after")
    assert capfd.readouterr().out == "after\n"
