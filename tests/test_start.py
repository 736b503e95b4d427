# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Workers start from anywhere: a script without main guard, `python -c`, standard input, the
prompt, a notebook cell.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import puffervec

# Each run of these lines leaves a mark: a worker that imported the user's main module would leave
# another, or start a storm.
LINES = """\
import os
with open(os.environ["MARKS"], "a") as marks: marks.write("x")

import puffervec
vec = puffervec.make("probe", env_kwargs={"num_agents": 2}, num_envs=3, num_workers=2)
observations, infos = vec.reset(seed=5)
result = vec.step([1, 2, 3, 4, 0, 1])
rows = observations[:, [0, 4]].astype(int).tolist()
print("shown", rows, type(vec).__name__, vec.settings.start_method)
vec.close()
"""
SHOWN = "shown [[5, 1], [5, 2], [6, 3], [6, 4], [7, 0], [7, 1]] Multiprocessing spawn"
ROOT = Path(puffervec.__file__).resolve().parents[1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to start in, with a place for marks."""
    monkeypatch.setenv("MARKS", str(tmp_path / "marks"))
    monkeypatch.delenv("PYTHONSTARTUP", raising=False)
    monkeypatch.chdir(tmp_path)
    # What this session imports is what the started interpreters import, also where it is not an
    # installed copy.
    monkeypatch.setenv(
        "PYTHONPATH",
        os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    )
    return tmp_path


def python(*arguments: str, given: str | None = None) -> str:
    """Run this interpreter and return what it printed; it must succeed, with an empty stderr."""
    done = subprocess.run(
        [sys.executable, *arguments], input=given, capture_output=True, text=True, timeout=100
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.strip()


def marks(place: Path) -> str:
    return (place / "marks").read_text()


@pytest.mark.slow
def test_a_script_without_main_guard(place: Path) -> None:
    (place / "script.py").write_text(LINES)
    assert python("script.py") == SHOWN
    assert marks(place) == "x"


@pytest.mark.slow
def test_a_module(place: Path) -> None:
    (place / "package").mkdir()
    (place / "package/__init__.py").write_text("")
    (place / "package/run.py").write_text(LINES)
    assert python("-m", "package.run") == SHOWN
    assert marks(place) == "x"


@pytest.mark.parametrize(
    "arguments", [(), pytest.param(("-",), marks=pytest.mark.slow)], ids=["no argument", "a dash"]
)
def test_standard_input(place: Path, arguments: tuple[str, ...]) -> None:
    assert python(*arguments, given=LINES) == SHOWN
    assert marks(place) == "x"


def test_a_script_whose_env_type_is_its_own(place: Path) -> None:
    """Settings and build function are used in the learner only, so they need not be importable, nor
    picklable.
    """
    own = LINES.replace(
        'vec = puffervec.make("probe"',
        "import dataclasses\n"
        "from puffervec.envs.probe import ENV\n"
        "settings = lambda: puffervec.EnvData()\n"
        "MINE = dataclasses.replace(ENV, build=lambda config: settings())\n"
        "vec = puffervec.make(MINE",
    )
    (place / "script.py").write_text(own)
    assert python("script.py") == SHOWN


@pytest.mark.slow
def test_a_script_that_needs_its_own_arguments(place: Path) -> None:
    """A worker must not parse the script's command line, nor read its standard input."""
    (place / "script.py").write_text(
        "import sys\nassert sys.argv[1:] == ['--steps', '3'], sys.argv\n"
        + LINES
        + "print(input())\n"
    )
    assert (
        python("script.py", "--steps", "3", given="read by the script\n")
        == SHOWN + "\nread by the script"
    )


@pytest.mark.slow
def test_the_prompt(place: Path) -> None:
    """`python -i` on a terminal, line by line."""
    near, far = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-q", "-i"], stdin=far, stdout=far, stderr=far, start_new_session=True
    )
    os.close(far)
    try:
        screen = wait_for(near, ">>>")
        for line in [
            *LINES.splitlines(),
            "import sys; 'main file', hasattr(sys.modules['__main__'], '__file__')",
            "exit()",
        ]:
            os.write(near, line.encode() + b"\n")
        screen += wait_for(near, "", process)
        assert SHOWN in screen
        assert "('main file', False)" in screen
        assert "Traceback" not in screen
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(near)
    assert marks(place) == "x"


def wait_for(terminal: int, text: str, process: subprocess.Popen[bytes] | None = None) -> str:
    """Read a terminal until `text` is on it, or, given a process, until that hangs up."""
    screen, give_up = "", time.monotonic() + 60
    while time.monotonic() < give_up:
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                screen += os.read(terminal, 4096).decode(errors="replace")
            except OSError:  # hung up
                return screen
            if process is None and text in screen:
                return screen
    raise AssertionError(f"the prompt did not come so far:\n{screen}")


@pytest.mark.slow
def test_a_real_notebook(place: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the packages of a notebook")
    nbclient = pytest.importorskip("nbclient", reason="needs the packages of a notebook")
    pytest.importorskip("ipykernel", reason="needs the packages of a notebook")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(LINES)])
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    assert SHOWN in notebook.cells[0].outputs[0].text
    assert marks(place) == "x"
