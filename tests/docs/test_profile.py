# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/profile.md: its code prints what the page shows but for the times, and its commands are
taken.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig
from puffervec.wings.profile import door as profile
from tests.docs import pages

PAGE = (pages.ROOT / "docs" / "profile.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_code_prints_what_the_page_shows(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(block.text for block, _ in pages.examples(PAGE)))
    shown = "".join(text.text for _, text in pages.examples(PAGE) if text is not None)
    assert pages.words(pages.run_script(script, folder=tmp_path)) == pages.words(shown)


def test_ten_lines_are_enough() -> None:
    block, _ = pages.examples(PAGE)[0]
    assert len(block.text.splitlines()) == 10


def test_the_commands_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = pages.commands(PAGE, "bash")
    assert len(commands) == 8
    for command in commands:
        _, verb, *args = shlex.split(command, comments=True)
        assert verb == "profile"
        if "--compare" in args:
            assert profile.VERB.parse(args).settings == []
            continue
        request = profile._request(profile.VERB.parse(args))
        if ":" not in request.target:
            flags.build_config(TrainConfig.of(request.target), request.left)
