# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Size budget: at most 600 lines per file and 80 per function. Prints the totals; exits with 1 if something is too long."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_FILE_LINES = 600
MOST_FUNCTION_LINES = 80
C_FUNCTION = re.compile(r"^[a-z][\w *]*\b(\w+)\([^;]*?\) \{$", re.MULTILINE)


def tracked_files() -> list[Path]:
    """Return the Python and C files that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.c", "*.h"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [path for path in (ROOT / name for name in listed.split()) if path.exists()]


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield (name, lines) of every function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def c_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield (name, lines) of every function whose body ends with a brace in the first column."""
    for match in C_FUNCTION.finditer(text):
        end = text.find("\n}", match.start())
        yield match.group(1), text.count("\n", match.start(), end) + 2


def main() -> int:
    """Print what is too long and the totals; return the exit status."""
    problems, totals = [], {"py": 0, "c": 0, "tests": 0}
    for path in tracked_files():
        text = path.read_text()
        lines = text.count("\n")
        name = path.relative_to(ROOT)
        is_python = path.suffix == ".py"
        totals["tests" if name.parts[0] == "tests" else "py" if is_python else "c"] += lines
        if lines > MOST_FILE_LINES:
            problems.append(f"{name}: {lines} lines, at most {MOST_FILE_LINES}")
        for function, length in python_functions(text) if is_python else c_functions(text):
            if length > MOST_FUNCTION_LINES:
                problems.append(f"{name}: {function} has {length} lines, at most {MOST_FUNCTION_LINES}")
    print(f"lines: {totals['c']} C, {totals['py']} Python, {totals['tests']} tests")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
