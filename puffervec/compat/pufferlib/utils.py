# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's small helpers for nested infos, attribute bags and suppressed output."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace, TracebackType
from typing import Any, ParamSpec, TypeVar

__all__ = ["Namespace", "Suppress", "namespace", "silence_warnings", "unroll_nested_dict"]

P = ParamSpec("P")
R = TypeVar("R")


def unroll_nested_dict(d: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path joined by "/", leaf) of nested dicts; nothing if `d` is not a dict.

    >>> list(unroll_nested_dict({"a": 1, "b": {"c": 2}}))
    [('a', 1), ('b/c', 2)]
    """
    if isinstance(d, dict):
        for key, value in d.items():
            if isinstance(value, dict):
                for path, leaf in unroll_nested_dict(value):
                    yield f"{key}/{path}", leaf
            else:
                yield key, value


class Namespace(SimpleNamespace, Mapping[str, Any]):
    """A bag of attributes that is a mapping as well: `ns.x`, `ns["x"]`, `**ns`."""

    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)


namespace = Namespace  # PufferLib has both spellings.


def silence_warnings(
    original_func: Callable[P, R], category: type[Warning] = DeprecationWarning
) -> Callable[P, R]:
    """Return `original_func` with warnings of `category` ignored while it runs."""

    @functools.wraps(original_func)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category=category)
            return original_func(*args, **kwargs)

    return quiet


class Suppress:
    """Drops output of Python and C code to standard output and standard error in a `with` block."""

    def __enter__(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._originals = [os.dup(1), os.dup(2)]
        self._streams = sys.stdout, sys.stderr
        # Replace Python's streams too: in a notebook they do not write to descriptors 1 and 2.
        self._null = open(os.devnull, "w", encoding="utf-8")
        os.dup2(self._null.fileno(), 1)
        os.dup2(self._null.fileno(), 2)
        sys.stdout = sys.stderr = self._null

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.stdout, sys.stderr = self._streams
        for target, original in zip((1, 2), self._originals, strict=True):
            os.dup2(original, target)
            os.close(original)
        self._null.close()
