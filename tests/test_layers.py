# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The floors of the house: a file imports from lower floors and from its own room only, and no
imports go round in a circle.

Imports inside functions count; those under TYPE_CHECKING do not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

Graph = dict[str, set[str]]
ROOT = Path(__file__).resolve().parent.parent

# From the ground up. A room is a package or a module; rooms on one floor do not import each other.
FLOORS = (
    ("puffervec.errors", "puffervec._ffi"),
    ("puffervec.system", "puffervec.doors"),
    ("puffervec.core",),
    ("puffervec.contract",),
    ("puffervec.envs", "puffervec.workers"),
    ("puffervec.vec",),
    ("puffervec.testing", "puffervec.torch_view", "puffervec.viewing.render"),
    ("puffervec.gym", "puffervec.pettingzoo"),
    ("puffervec.sb3", "puffervec.compat"),
    ("puffervec.vector",),
    (
        "puffervec",
        "drive_env.rewards",
        "drive_env.actions",
    ),  # the first loads each name when it is asked for
    ("puffervec.train.config", "drive_env.config", "drive_env.progress"),
    ("puffervec.train.device", "drive_env.scenes"),
    ("puffervec.train.policies", "drive_env.generate", "drive_env.download", "drive_env.losses"),
    ("drive_env.sources",),
    ("puffervec.train.metrics", "drive_env.prepare"),
    (
        "puffervec.train.collect",
        "drive_env.render",
        "drive_env.motion",
        "drive_env.convert",
        "drive_env.compare",
        "drive_env.completion",
    ),
    ("puffervec.train.learn", "drive_env.evaluate", "drive_env.cli"),
    ("puffervec.train.run", "drive_env.drawing", "drive_env.keys"),
    ("puffervec.train.act", "drive_env.env"),
    ("drive_env",),
    ("puffervec.train",),
    ("puffervec.viewing.web",),
    ("puffervec.commands",),
    ("puffervec.wings",),
    ("puffervec.profile",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("puffervec", "drive_env")
    for path in (ROOT / package).rglob("*.py")
}


def room_of(module: str) -> str:
    while module not in FLOOR:
        module = module.rpartition(".")[0]
    return module


def imports(module: str) -> set[str]:
    """The project's modules that a module imports; a package where it takes a name that the package
    itself defines.
    """
    found = set()
    for node in nodes(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert not node.level, f"{module}: a relative import"
            names = [
                full if (full := f"{node.module}.{alias.name}") in FILES else str(node.module)
                for alias in node.names
            ]
        found |= {name for name in names if name in FILES}
    return found - {module}


def nodes(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from (node for part in child.orelse for node in nodes(part))
        else:
            yield from nodes(child)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """What each module imports."""
    return {module: imports(module) for module in FILES}


def test_imports_go_down(graph: Graph) -> None:
    wrong = [
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if room_of(module) != room_of(other) and FLOOR[room_of(other)] >= FLOOR[room_of(module)]
    ]
    assert wrong == []


def test_the_trainer_and_the_driving_env_do_not_know_each_other(graph: Graph) -> None:
    pairs = ("puffervec.train.", "drive_env"), ("drive_env", "puffervec.train.")
    assert [
        m
        for m, others in graph.items()
        for a, b in pairs
        if m.startswith(a)
        for o in others
        if o.startswith(b)
    ] == []


def test_no_imports_go_round_in_a_circle(graph: Graph) -> None:
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join((*above[above.index(module) :], module))
        if module not in done:
            for other in graph[module]:
                visit(other, (*above, module))
            done.add(module)

    for module in graph:
        visit(module, ())


# ---- C -------------------------------------------------------------------------------------------

# The rooms of csrc/ whose headers a room includes; paths of includes begin at csrc/ or in the room.
C_ROOMS: dict[str, set[str]] = {
    "contract": set(),
    "core": {"contract"},
    "learner": {"contract"},
    "envs": {"contract"},
    "tag": {"contract", "envs"},
    "covid": {"contract", "envs"},
    "drive": {"contract", "envs"},
}


def test_rooms_of_the_c_code_include_lower_rooms_only() -> None:
    found: dict[str, set[str]] = {room: set() for room in C_ROOMS}
    for path in (ROOT / "csrc").rglob("*.[ch]"):
        if path.name == "_native.c":  # generated by the build
            continue
        room = path.relative_to(ROOT / "csrc").parts[0]
        for header in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
            assert ".." not in header, (path, header)
            target = next(base for base in (path.parent, ROOT / "csrc") if (base / header).exists())
            found[room] |= {(target / header).relative_to(ROOT / "csrc").parts[0]} - {room}
    assert found == C_ROOMS
