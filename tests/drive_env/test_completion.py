# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""drive_env/completion.py: what shells complete `puffer-scenes` by. Its scripts are those of
puffer-train (tests/commands/test_completion.py runs them in shells).
"""

from __future__ import annotations

import pytest

from drive_env import cli
from puffervec.system.shells import scripts


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("con", ["convert"]),
        (
            "",
            [
                "info",
                "check",
                "compare",
                "convert",
                "generate",
                "download",
                "draw",
                "score",
                "completion",
            ],
        ),
        ("--v", ["--version"]),
        ("convert --f", ["--force"]),
        ("convert scenes --to ", ["json", "bin", "pvs"]),
        ("convert --to pvs ", []),
        ("convert --force ", []),
        ("download gpu", ["gpudrive-mini", "gpudrive"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("info sc", []),
        ("nonsense ", []),
    ],
)
def test_candidates(line: str, found: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "--", *line.split(" ")]) == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(found)


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == scripts("puffer-scenes")["bash"]
    assert cli.main(["completion", "tcsh"]) == 2 and "bash" in capsys.readouterr().err
