# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Changes a parsed tree (dicts, lists, numbers) or a text at one place, in the ways that break
readers.

Run by tests/fuzz/readers.py. Everything is drawn from a random.Random, so an input can be made
again from its number.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from typing import Any

# Lists in lists, so many deep, are names until the tree is text: walking them would end where the
# readers' limits are.
NESTED = {
    f"@{depth} lists": b"[" * depth + b"0" + b"]" * depth for depth in (50, 400, 970, 3000, 100_000)
}
EXTREMES: tuple[Any, ...] = (
    0, 1, -1, 2, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63,
    -(2**31), -(2**31) - 1, 2**64, 10**400, -(10**400), 0.5, -0.0, 1e-320, 1e-45, 1e-7, 1e5, -1e5,
    1.0000001e5, 1e7, 1e30, -1e30, 1e308, math.nan, math.inf, -math.inf, "", "x", "x" * 300, "nan",
    "1", "\x00", "\ud800", "../x", "vehicle", "lane", None, True, False, [], {}, [[]], [0], [None],
    {"": 0}, {"x": 1}, *NESTED,
)  # fmt: skip
TOKENS = (b"1e999", b"-", b"-0", b"00", b"1E400", b"NaN", b"Infinity", b"null", b"true", b"[", b"]",
          b"{", b"}", b",", b":", b'"', b"\\u0000", b"\\ud800", b"\xff", b"\xef\xbb\xbf",
          b"9" * 5000, b"[" * 100_000, b'{"a":' * 3000, b"/*", b"=", b"\n",
          b"[[", b"'", b"#")  # fmt: skip
Path = tuple[Any, ...]


def draw_path(rng: random.Random, tree: Any) -> Path:
    """Walk down from the root and stop somewhere, leaves being likeliest; () is the root."""
    path: list[Any] = []
    while isinstance(tree, (dict, list)) and tree and rng.random() < 0.93:
        key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
        path.append(key)
        tree = tree[key]
    return tuple(path)


def at(tree: Any, path: Path) -> Any:
    """The value at a path."""
    for key in path:
        tree = tree[key]
    return tree


def _extreme(rng: random.Random, old: Any) -> Any:
    if type(old) in (int, float) and rng.random() < 0.3:
        if abs(old) > 2**64 or old != old:  # beyond what can be reckoned with
            return 0
        return rng.choice(
            [old + 1, old - 1, -old, old * 1000, old * 1e-6, old / 2, int(old), float(old)]
        )
    value = rng.choice(EXTREMES)
    return copy.copy(value)


def _put(rng: random.Random, tree: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    at(tree, path[:-1])[path[-1]] = value
    return tree


def _replace(rng: random.Random, tree: Any, path: Path) -> Any:
    return _put(rng, tree, path, _extreme(rng, at(tree, path)))


def _remove(rng: random.Random, tree: Any, path: Path) -> Any:
    if path:
        del at(tree, path[:-1])[path[-1]]
    return tree


def _rename(rng: random.Random, tree: Any, path: Path) -> Any:
    owner = at(tree, path[:-1]) if path else None
    if isinstance(owner, dict):
        value = owner.pop(path[-1])
        owner[rng.choice([path[-1] + "s", path[-1].upper(), path[-1][:-1], "", "x"])] = value
    return tree


def _repeat(rng: random.Random, tree: Any, path: Path) -> Any:
    """Repeat an item of a list, or a whole list."""
    value = at(tree, path)
    if isinstance(value, list) and len(value) < 200:
        return _put(rng, tree, path, value * rng.choice([2, 3, 20]))
    owner = at(tree, path[:-1]) if path else None
    if isinstance(owner, list):
        owner[path[-1] : path[-1]] = [
            copy.deepcopy(value) for _ in range(rng.choice([1, 1, 2, 30]))
        ]
    return tree


def _shorten(rng: random.Random, tree: Any, path: Path) -> Any:
    value = at(tree, path)
    if isinstance(value, list) and value:
        del value[rng.randrange(len(value)) :]
    return tree


def _transplant(rng: random.Random, tree: Any, path: Path) -> Any:
    return _put(rng, tree, path, copy.deepcopy(at(tree, draw_path(rng, tree))))


def _everywhere(rng: random.Random, tree: Any, path: Path) -> Any:
    """Give all items of a list, or that key in all of them, the same value: equal ids, lines of no
    length, ...
    """
    lists = [i for i in range(len(path)) if isinstance(at(tree, path[:i]), list)]
    if not lists:
        return tree
    split = rng.choice(lists)
    value = at(tree, path) if rng.random() < 0.5 else _extreme(rng, at(tree, path))
    for index in range(len(at(tree, path[:split]))):
        inner = (*path[:split], index, *path[split + 1 :])
        try:
            _put(rng, tree, inner, copy.deepcopy(value))
        except (KeyError, IndexError, TypeError):
            continue  # not all items are alike
    return tree


OPERATIONS: tuple[Callable[[random.Random, Any, Path], Any], ...] = (
    _replace, _replace, _replace, _remove, _rename, _repeat, _shorten, _transplant, _everywhere,
    _everywhere)  # fmt: skip


def mutate_tree(rng: random.Random, tree: Any) -> Any:
    """Change a tree, in place where possible, at one to three places; returns the new root."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        tree = rng.choice(OPERATIONS)(rng, tree, draw_path(rng, tree))
    return tree


def dump(tree: Any) -> bytes:
    """JSON text with NaN and Infinity as Python writes them."""
    text = json.dumps(tree, separators=(",", ":")).encode()
    if b'"@' in text:
        for name, value in NESTED.items():
            text = text.replace(json.dumps(name).encode(), value)
    return text


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Flip a bit, cut, repeat, insert or overwrite something."""
    start, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    match rng.randrange(7):
        case 0 if data:
            bit = rng.randrange(8 * len(data))
            return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]
        case 1:
            return data[:start]
        case 2:
            return data[:start] + data[end:]
        case 3:
            return data[:end] + data[start:]
        case 4:
            return data[:start] + rng.choice(TOKENS) + data[start:]
        case 5:
            token = rng.choice(TOKENS)
            return data[:start] + token + data[start + len(token) :]
        case _:
            return data[:start] + rng.randbytes(rng.randrange(1, 9)) + data[start:]
