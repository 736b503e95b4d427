# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/compare.py: what counts as a change, commands, revisions."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bench import compare
from puffervec.errors import ConfigError

WRITES = "import json, sys; json.dump({'rows': [{'us': {'median': %s}}]}, open(sys.argv[1], 'w'))"


def _command(value: str) -> str:
    return shlex.join([sys.executable, "-c", WRITES % value, "{json}"])


def test_a_change_exceeds_twice_the_spread_of_the_pairs() -> None:
    steady = compare.judge([1.0, 1.0, 1.0, 1.0, 1.0], [1.10, 1.09, 1.11, 1.10, 1.10])
    assert steady.changed and steady.ratio == pytest.approx(1.10) and "a change" in str(steady)
    noisy = compare.judge([1.0, 1.0, 1.0, 1.0, 1.0], [1.10, 0.95, 1.30, 1.00, 1.15])
    assert not noisy.changed and "no change" in str(noisy)
    assert noisy.spread == pytest.approx(1.4826 * 0.10)


def test_drift_of_the_machine_is_no_change() -> None:
    assert not compare.judge([1.0, 2.0, 4.0], [1.01, 1.99, 4.02]).changed


def test_a_metric_is_picked_by_its_path() -> None:
    document = {"results": [{"us": 2}, {"us": {"median": 3.5}}]}
    assert (
        compare.pick(document, "results.0.us") == 2.0
        and compare.pick(document, "results.1.us.median") == 3.5
    )
    for path in ("results.2.us", "results.x", "nothing", "results.0.us.median", "results"):
        with pytest.raises(ConfigError, match="--metric"):
            compare.pick(document, path)


@pytest.mark.slow
def test_two_commands_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.json"
    flags = ["--metric", "rows.0.us.median", "--pairs", "3", "--json", str(path)]
    assert compare.main(["--a", _command("2.0"), "--b", _command("3.0"), *flags]) == 0
    assert "B/A = 1.5000" in capsys.readouterr().out
    verdict = json.loads(path.read_text())["results"]["verdict"]
    assert verdict["changed"] is True and verdict["ratio"] == 1.5 and len(verdict["ratios"]) == 3


def _commit(repository: Path, value: str) -> None:
    (repository / "measure.py").write_text(WRITES % value)
    subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
    who = [
        "-c",
        "user.name=test",
        "-c",
        "user.email=test@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    subprocess.run(["git", *who, "commit", "-qm", value], cwd=repository, check=True)


@pytest.mark.slow
def test_two_revisions_and_the_working_tree_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    _commit(repository, "1.0")
    _commit(repository, "4.0")
    (repository / "measure.py").write_text(WRITES % "8.0")
    flags = ["--repository", str(repository), "--metric", "rows.0.us.median", "--pairs", "2"]
    command = ["--", "python", "measure.py", "{json}"]
    assert compare.main(["--revisions", "HEAD~1", "HEAD", *flags, *command]) == 0
    assert "B/A = 4.0000" in capsys.readouterr().out
    assert compare.main(["--revisions", "HEAD", "WORK", *flags, *command]) == 0
    assert "B/A = 2.0000" in capsys.readouterr().out
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert status.stdout.split() == ["M", "measure.py"], "the repository is left alone"
