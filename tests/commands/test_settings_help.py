# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/commands/settings_help.py: the short and the full list of settings."""

from __future__ import annotations

import dataclasses
import re

import pytest

from puffervec.commands import settings_help
from puffervec.train.config import flags
from puffervec.train.config.sections import RoleSection, TrainConfig
from tests.helpers import slow_but


@pytest.mark.slow
@pytest.mark.parametrize("target", slow_but(["drive"], ["probe", "tag_grid", "drive"]))
def test_help_lists_every_setting_with_a_sentence(target: str) -> None:
    config = TrainConfig.of(target)
    text = settings_help.full_help(config)
    for flag in flags.known_flags(config):
        assert f"  {flag}" in text
    for alias, flag in flags.ALIASES.items():
        assert (f"{flag}, {alias}" in text) == (flag in flags.known_flags(config))
    sections = {name: getattr(config, name) for name in flags.typed_sections(config)} | {
        "policies.NAME": RoleSection()
    }
    for section, instance in sections.items():
        sentences = settings_help.field_sentences(type(instance))
        for field in dataclasses.fields(instance):
            assert sentences.get(field.name), f"{section}.{field.name}"


def test_help_of_a_python_env_lists_every_other_setting() -> None:
    config = TrainConfig.of("CartPole-v1")
    text = settings_help.full_help(config)
    assert "--env.NAME VALUE" in text and all(
        f"  {flag}" in text for flag in flags.known_flags(config)
    )


@pytest.mark.slow
@pytest.mark.parametrize("target", ["probe", "drive", "CartPole-v1"])
def test_the_short_form_has_the_twenty_settings_that_people_change(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    config = TrainConfig.of(target)
    text = settings_help.short_help(config)
    shown = re.findall(r"^  (--\S+)", text, re.MULTILINE)
    known = [*flags.known_flags(config), *flags.ALIASES]
    assert len(settings_help.COMMON) == 20 and len(shown) == 24 + (target == "drive")
    assert set(shown) <= {*known, "--config", "--resume", "--env.NAME", "--policies.NAME.KEY"}
    assert len(text.splitlines()) < 60 and max(map(len, text.splitlines())) <= 80
    assert f"[{config.train.lr}]" in text and "(none, mingru, lstm)" in " ".join(text.split())
    assert text.rstrip().endswith(f"puffer-train {target} --help-all")
