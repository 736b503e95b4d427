# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/checks.py: the list of checks is up to date, and what is left out is only them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import checks
from puffervec.errors import ConfigError
from tests.builds import source_folder


def test_every_check_is_found_once_in_the_sources(tmp_path: Path) -> None:
    source_folder()
    checks.copy_sources(tmp_path)
    before = {name: (tmp_path / name).read_text() for name, _, _ in checks.CUTS}
    checks.cut(tmp_path)
    for name, text in before.items():
        assert (tmp_path / name).read_text() != text
    with pytest.raises(ConfigError, match="has 0 times .* up to date"):
        checks.cut(tmp_path)


def test_a_measurement_counts_env_steps() -> None:
    assert checks.measure("probe", 4, 0.02) > 0


def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "build", lambda place: None)
    assert checks.main(["--envs", "nothing"]) == 2
    assert capsys.readouterr().err == "error: --envs has 'nothing': use some of probe, tag_grid, drive, CartPole-v1\n"
