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
    ("puffervec.vector", "drive_env.entries"),
    (
        "puffervec",
        "drive_env.kinds",
        "drive_env.rules",
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
    ("puffervec.train.learn", "drive_env.evaluate"),
    (
        "puffervec.train.run",
        "drive_env.drawing",
        "drive_env.keys",
        "drive_env.experts",
        "drive_env.cli",
    ),
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


def visit_all(graph: Graph) -> None:
    """Fail if there is a circle in the graph."""
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join((*above[above.index(module) :], module))
        if module not in done:
            for other in graph[module]:
                visit(other, (*above, module))
            done.add(module)

    for module in graph:
        visit(module, ())


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
    visit_all(graph)


# ---- C -------------------------------------------------------------------------------------------

# The rooms of csrc/ whose headers a room includes; paths of includes begin at csrc/ or in the room.
C_ROOMS: dict[str, set[str]] = {
    "contract": set(),
    "core": {"contract"},
    "learner": {"contract"},
    "python": {"core"},
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


# The rooms of csrc/drive, from the ground up; files in its root have no floor.
DRIVE_ROOMS = ("scene", "search", "motion", "judge", "observe", "block")


def c_code(path: Path) -> str:
    """Return C code without comments and string contents."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    return re.sub(pattern, '""', path.read_text(), flags=re.DOTALL)


def functions(code: str) -> set[str]:
    """Return the names of the functions that other files can call."""
    definition = r"^([A-Za-z_][\w\s*]*?)\b(\w+)\([^;{}]*\)\s*\{"
    found = re.findall(definition, code, re.MULTILINE)
    return {
        name for before, name in found if not re.search(r"\b(static|typedef|PV_INLINE)\b", before)
    }


@pytest.fixture(scope="module")
def calls() -> Graph:
    """The C files whose functions each C file of csrc/ uses, also in its own header."""
    files = {
        path: c_code(path) for path in (ROOT / "csrc").rglob("*.c") if path.name != "_native.c"
    }
    file_of = {name: path for path, code in files.items() for name in functions(code)}
    graph: Graph = {}
    for path, code in files.items():
        header = path.with_suffix(".h")
        words = set(re.findall(r"\w+", code + (c_code(header) if header.exists() else "")))
        graph[str(path.relative_to(ROOT))] = {
            str(other.relative_to(ROOT))
            for name, other in file_of.items()
            if name in words and other != path
        }
    return graph


def test_no_calls_between_c_files_go_round_in_a_circle(calls: Graph) -> None:
    assert "csrc/drive/scene/scene.c" in calls["csrc/drive/block/bundle.c"]
    visit_all(calls)


def test_rooms_of_drive_call_lower_rooms_only(calls: Graph) -> None:
    """Those of `compile` run in the learner and call no other room."""
    floor = {room: number for number, room in enumerate(("compile", *DRIVE_ROOMS))}
    for path, others in calls.items():
        if not path.startswith("csrc/drive/") or path.count("/") == 2:
            continue
        room = path.split("/")[2]
        for other in others:
            if not other.startswith("csrc/drive/"):
                continue
            lower = other.split("/")[2]
            assert room == lower or floor[lower] < floor[room], f"{path} calls {other}"
            assert room == lower or lower != "compile", f"{path} calls {other}"
