# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/ray.md and docs/scale.md: flags of their commands exist, the table of settings is that of the code."""

from __future__ import annotations

import dataclasses
import re
import shlex

import pytest

from bench import scale
from puffervec.train import TrainConfig
from puffervec.train.config import flags
from puffervec.train.config.hosts import RaySection
from tests.docs import pages

PAGE = (pages.ROOT / "docs/ray.md").read_text(encoding="utf-8")
SCALE = (pages.ROOT / "docs/scale.md").read_text(encoding="utf-8")


def commands(page: str, program: str) -> list[list[str]]:
    lines = [line for block in pages.blocks(page) if block.info == "bash" for line in block.text.splitlines()]
    return [words[1:] for words in (shlex.split(line, comments=True) for line in lines) if words[0] == program]


@pytest.mark.parametrize("args", commands(PAGE, "puffer-train"), ids=" ".join)
def test_commands_are_understood(args: list[str]) -> None:
    config = flags.settled(TrainConfig.of(args[0]), args[1:])
    assert config.ray.address in ("local", "auto") and config.ray.hosts == int(flags.peek(args, "--ray.hosts") or 0)


def test_the_settings_are_all_there() -> None:
    rows = dict(re.findall(r"^\| `ray\.(\w+)`[^|]*\| ([^|]+) \|", PAGE, re.MULTILINE))
    defaults = {field.name: field.default for field in dataclasses.fields(RaySection)}
    assert rows == {
        name: "none" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in defaults.items()
    }


def test_the_python_block_is_code() -> None:
    ((block, _),) = pages.examples(PAGE)
    compile(block.text, "docs/ray.md", "exec")
    names: dict[str, object] = {}
    exec(block.text, names)  # Makes the function; tests/train/scale runs such trainers.
    assert callable(names["train"])


def test_flags_of_the_prediction_exist() -> None:
    for args in commands(SCALE, "python"):
        if args[0] == "bench/scale.py":
            scale.parse(args[1:])
    assert all(f"`--{name.replace('_', '-')}`" in SCALE for name in ("host_cores", "gbit", "gpu_steps_per_s", "most_segments"))
